/* Keeps which checkpoints of a job's history are on record: those that members have written, that
 * an administrator has named, or with which an epoch has begun. Which one is taken: ckpt_look.h.
 *
 * Example: checkpoint.keep is 3, checkpoints 20, 40, 60 are on record, the job resumes. No member
 * has 60: the job waits state_wait_ms for a node that has it, and is tried meanwhile. Then it
 * begins with 40 and makes 20 steps again; with its first epoch there, 60 leaves the record,
 * because steps behind 40 are of another history from then on. A checkpoint on a shared path that
 * is damaged is waited for by nobody. Without an older one the job fails.
 *
 * Invariant: steps on record grow, and all of them are of the history that runs: no cut leaves one
 * out (ckpt_cuts.h). */
#ifndef HSP_CKPT_MARKS_H
#define HSP_CKPT_MARKS_H
#include "daemon/cluster/cluster_state.h"

#define HSP_CKPT_RETRY_MS 2000u  /* between looks for one that is waited for; least of attempts */
#define HSP_CKPT_SLOW_MS  10000u /* the same where nobody knows for how long */

/* A checkpoint is complete: the newest now. Older ones that the workers delete with it leave the
 * record. */
void hsp_ci_ckpt_record(struct hsp_job *j, uint64_t step, const struct hsp_ckpt_mark *mark);
/* The same, and those of later steps leave the record: they are of another history from now on. */
void hsp_ci_ckpt_only(struct hsp_job *j, uint64_t step, const struct hsp_ckpt_mark *mark);
/* The epoch that runs has begun. Where it began at the origin, the checkpoint of that goes on
 * record, with the cuts that its members were told (hsp_ci_cuts_of). */
void hsp_ci_ckpt_began(struct hsp_job *j);
/* Epoch @epoch, or a later one, goes on from the checkpoint of @step that has @mark (step 0: begins
 * anew): checkpoints of earlier epochs behind it are given up, and leave the record. */
void hsp_ci_ckpt_cut(struct hsp_job *j, uint64_t epoch, uint64_t step,
                     const struct hsp_ckpt_mark *mark);
/* The newest checkpoint on record of a step below @step. False: there is none. */
bool hsp_ci_ckpt_before(const struct hsp_job *j, uint64_t step, uint64_t *ret);
/* Sets where @j begins when nothing of its state is held: with the checkpoint of @step that has
 * @mark. */
void hsp_ci_ckpt_begin_at(struct hsp_job *j, uint64_t step, const struct hsp_ckpt_mark *mark);
/* The job has begun, or is resumed: each checkpoint is waited for, and tried, as if
 * none had been. */
void hsp_ci_ckpt_try_anew(struct hsp_job *j);
/* Says that checkpoint @from cannot be used, and that @to is taken. */
void hsp_ci_ckpt_fallback(struct hsp_cluster *c, const struct hsp_job *j, uint64_t from,
                          uint64_t to, const char *why);
/* Checkpoint @step cannot be used, nor is there an older one: @j fails. */
void hsp_ci_ckpt_give_up(struct hsp_cluster *c, struct hsp_job *j, uint64_t step, const char *why);
/* Whose the checkpoints of @j are, which an adoption does not change. */
struct hsp_digest hsp_ci_ckpt_cluster(const struct hsp_cluster *c, const struct hsp_job *j);
/* "20, 40, 60": the steps on record; "" none. */
const char *hsp_ci_ckpt_steps(struct hsp_cluster *c, const struct hsp_job *j);

#endif
