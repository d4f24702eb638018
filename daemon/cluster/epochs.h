/* @@SENTENCE@@ epochs: purpose to be written. */
#ifndef HSP_EPOCHS_H
#define HSP_EPOCHS_H
#include "daemon/cluster/cluster_state.h"

void hsp_ci_epoch_fini(struct hsp_cl_epoch *e);
bool hsp_ci_epoch_index(struct hsp_cl_epoch *e); /* its peers are complete; false: no memory */
struct hsp_epoch_peer *hsp_ci_peer(const struct hsp_cl_epoch *e, hsp_device_id d);
void hsp_ci_attempt(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan,
                    enum hsp_epoch_mode mode, uint64_t from_plan, uint64_t step);
void hsp_ci_attempt_advance(struct hsp_cluster *c, struct hsp_job *j);
/* Only before GO. The state of the job goes back to where it was. */
void hsp_ci_attempt_fail(struct hsp_cluster *c, struct hsp_job *j, const char *why);
/* The same for a cause that was taken away by refusing a node: counts as no failure. */
void hsp_ci_attempt_refused(struct hsp_cluster *c, struct hsp_job *j, const char *why);
/* The same when what it was for is done: nothing failed. The caller stores the job. */
void hsp_ci_attempt_drop(struct hsp_cluster *c, struct hsp_job *j, const char *why);
void hsp_ci_free_leases(struct hsp_cluster *c, struct hsp_job *j);

#endif
