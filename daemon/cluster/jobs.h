/* @@SENTENCE@@ jobs: purpose to be written.
 *
 * Purity: pure data.
 */
#ifndef HSP_JOBS_H
#define HSP_JOBS_H
#include "daemon/cluster/cluster_state.h"

const char *hsp_job_state_name(enum hsp_job_state s);
bool hsp_job_terminal(enum hsp_job_state s);
struct hsp_job *hsp_ci_job(const struct hsp_cluster *c, uint32_t id);
bool hsp_ci_at_rest(
    const struct hsp_job *j); /* over or suspended: it has nothing and wants nothing */
bool hsp_ci_releasing(const struct hsp_cluster *c, const struct hsp_job *j); /* waits for answers */
/* NULL when unknown. */
const struct hsp_job *hsp_cluster_job(const struct hsp_cluster *c, uint32_t id);
const struct hsp_job *hsp_cluster_job_by_name(const struct hsp_cluster *c, const char *name);
/* Says why @j does not run; told only when it changes. */
void hsp_ci_job_blocked(struct hsp_cluster *c, struct hsp_job *j, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void hsp_ci_job_loss(struct hsp_cluster *c, struct hsp_job *j, const char *cause);
void hsp_ci_job_end(struct hsp_cluster *c, struct hsp_job *j, enum hsp_job_state to,
                    const char *why);
/* A node with devices of the job that is not connected and not dead: it comes back or dies, soon. NULL:
 * none. */
const struct hsp_cluster_node *hsp_ci_silent_node(const struct hsp_cluster *c,
                                                  const struct hsp_job *j);
/* Every device of @want is in @have, which is ascending. */
bool hsp_ci_all_in(const hsp_device_id *want, uint32_t n_want, const hsp_device_id *have,
                   uint32_t n_have);
void hsp_ci_job_move(struct hsp_cluster *c, struct hsp_job *j, enum hsp_job_state to);
/* Nobody can plan it any more: what is to run has failed; what is at rest stays as it is. */
void hsp_ci_job_unreadable(struct hsp_cluster *c, const struct hsp_unreadable_event *ev);
/* Counts, sets the pause. @why: for people, when the job ends here. */
void hsp_ci_job_failure(struct hsp_cluster *c, struct hsp_job *j, const char *why);
void hsp_ci_advance(struct hsp_cluster *c);
void hsp_ci_job_free(struct hsp_job *j);

#endif
