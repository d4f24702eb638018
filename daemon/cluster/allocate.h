/* Shares the devices among the jobs, so that a job that has begun always keeps its min.
 *
 * The result is a function of the jobs by priority and submit order, of their min and max, and
 * of the devices with their leases. Devices are given out in passes:
 *   0  A finishing job keeps its devices; when it moves, its min is filled up.
 *   1  Each job with state gets its min, devices that it holds first.
 *   2  Each job without state gets its min, free devices first, or nothing.
 *   3  The rest goes to the jobs in order, up to their max, without devices their planner declined.
 * Example: job 1 (min 1, max 4) runs on devices a b c d; job 2 (min 2, max 2, same priority) is
 * submitted. Pass 1 gives a to job 1, pass 2 gives b c to job 2, pass 3 gives d to job 1. Job 2
 * may use b and c when job 1 has given them back.
 *
 * A job never waits for the state of another job. Devices that the planner declined for a job are
 * free for other jobs until the planning question of that job changes. The job itself gets declined
 * devices last: a question about a new device includes them, and no device causes two questions. */
#ifndef HSP_ALLOCATE_H
#define HSP_ALLOCATE_H
#include "daemon/cluster/cluster_state.h"

/* Lists in *ret, ascending, the devices that job @j may use now: of the devices that these passes
 * give to @j, those that are free or that @j already has. Returns their number. *ret lies in the
 * arena of the step. Without memory c->failed is set, and the function returns 0. */
uint32_t hsp_ci_available(struct hsp_cluster *c, const struct hsp_job *j, hsp_device_id **ret);
/* Returns true if an executor of @d is starting or will be started, so that an attempt waits for
 * it. */
bool hsp_ci_up_soon(const struct hsp_cluster *c, hsp_device_id d);
/* For people, in the arena of the step: @j needs @need devices and may use @n. Example:
 * "2 devices; 0 of 3 can be used (job long has 2, job mist has 1); 1 of them is being given up".
 * @n 0: those that are free count. */
const char *hsp_ci_too_few(struct hsp_cluster *c, const struct hsp_job *j, uint32_t need,
                           uint32_t n);

#endif
