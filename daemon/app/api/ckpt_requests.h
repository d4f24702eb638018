/* Asks nodes which checkpoints of a job they see on disk (CKPTS): for the core (FIND_CKPTS), for
 * `resume --from`, and for `ckpt list`. `resume --from` and `forget` wait until the devices of the
 * job have stopped.
 *
 * Example:   job mist has checkpoint.path /srv/c on each node's own disk. Nodes a, b and c are
 *            asked; a and b list step 40, c has no folder. The core hears of one checkpoint 40.
 * Purity:    shell (libuv, clock).
 * Bounds:    HSP_LOOKS at a time, each for LOOK_MS, or twice that (ckpt_answers.h: whom they ask).
 */
#ifndef HSP_CKPT_REQUESTS_H
#define HSP_CKPT_REQUESTS_H
#include "daemon/app/state/sessions.h"
#include "daemon/cluster/cluster.h"

#define HSP_LOOKS 256u

struct hsp_look;

/* FIND_CKPTS of the core: CKPTS is posted, but for one that is overtaken by another of the job. */
void hsp_app_find_ckpts(struct hsp_app *a, const struct hsp_action *act);
/* RESUME of job @job from @step. Nodes are asked when its devices have stopped; behind 8 s it is
 * refused, with the names of the devices that have not. Dropped if the caller goes before. */
void hsp_app_resume_from(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m,
                         uint32_t job, uint64_t step);
/* FORGET of job @job, in the same way; nobody is asked. */
void hsp_app_forget(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m,
                    uint32_t job);
/* CKPT list. */
void hsp_app_list_ckpts(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m);
/* CKPTS of an agent. */
void hsp_app_ckpts_told(struct hsp_app *a, uint32_t conn, const struct hsp_msg *m);
/* A connection has closed. */
void hsp_app_ckpts_gone(struct hsp_app *a, uint32_t conn);
/* Ends those whose nodes do not answer; the next time that one is due, UINT64_MAX none. */
void hsp_app_ckpts_check(struct hsp_app *a);
hsp_msec hsp_app_ckpts_deadline(const struct hsp_app *a);

void hsp_app_ckpts_free_all(struct hsp_app *a);

#endif
