/* Takes over a job from the papers that its agents keep (proto/wire/papers.h).
 *
 * Example: hspmdd begins with an empty folder. Nodes a and b are parked, with state of job mist of
 *          another cluster. An administrator adopts mist: its terms and layouts become rows here,
 *          under the numbers of the next generation; a and b say hello again, are members, and are
 *          sealed; mist goes on from the newest version that is whole. Other jobs of that cluster
 *          that a and b keep stay as they are, on members, and wait for the same word (behind.h).
 *
 * A job whose rows are too old (BEHIND) is adopted in the same way: the papers take their place. */
#ifndef HSP_ADOPT_H
#define HSP_ADOPT_H
#include "daemon/cluster/cluster_state.h"

struct hsp_admin_event;
struct hsp_job_terms;
struct hsp_papers;

struct hsp_adopted_plan { /* a layout of the job, as the shell's own rows tell it */
    uint64_t plan;
    uint32_t n_ranks;
    const hsp_device_id *device; /* [n_ranks], of the lost store */
};

/* Checks that the rows of @p are those of one job, and that the shell's own rows tell the same job:
 * @t (name and paths) and its @n layouts. HSP_EDIGEST, HSP_EVERSION: they are not; HSP_EPARSE: the
 * two contradict each other; HSP_ENOMEM. */
enum hsp_status hsp_ci_papers_fit(const struct hsp_cluster *c, const struct hsp_papers *p,
                                  const struct hsp_job_terms *t, uint32_t n,
                                  const struct hsp_adopted_plan *plan, struct hsp_err *err);

/* ADOPT @a. NULL: done. Else nothing has changed, and the text names the fault and its remedy;
 * *ret_status is the kind of the fault; HSP_ENODEV: nodes are not here, and may come. */
const char *hsp_ci_adopt(struct hsp_cluster *c, const struct hsp_admin_event *a,
                         enum hsp_status *ret_status);

#endif
