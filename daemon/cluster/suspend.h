/* Suspends a job: its devices are given back when its state is in a checkpoint asked for here.
 *
 * Until then the job runs on. A loss meanwhile is mended, and the checkpoint is asked for again.
 * A job that has not begun is suspended at once. Steps made while the checkpoint is written are
 * made again, from the same version, by the same rules, and count as lost. If the job stopped at
 * that version it would be suspended no sooner, and a checkpoint that fails would cost a pause.
 *
 * The wish is stored. After a restart or a loss the checkpoint is asked for again; a checkpoint
 * begun before the wish does not count, and one that fails ends the wish and says so. */
#ifndef HSP_SUSPEND_H
#define HSP_SUSPEND_H
#include "daemon/cluster/cluster_state.h"

/* Sets where @j begins when nothing of its state is held: its newest checkpoint, or the start. */
void hsp_ci_suspend_origin(struct hsp_job *j);
/* Performs the command suspend and replies. */
void hsp_ci_suspend(struct hsp_cluster *c, const struct hsp_admin_event *a, struct hsp_job *j);
/* An administrator wants a checkpoint of @j, which runs. The wish is stored, and ends as one to
 * suspend does. */
void hsp_ci_checkpoint(struct hsp_cluster *c, struct hsp_job *j);
/* Asks rank 0 for the checkpoint, once per epoch. */
void hsp_ci_suspend_advance(struct hsp_cluster *c, struct hsp_job *j);
/* A newer checkpoint is on record than @before, or one again: a job of which nothing is held, and
 * that was to begin with that one, begins there. */
void hsp_ci_suspend_recorded(struct hsp_cluster *c, struct hsp_job *j, uint64_t before);
/* A checkpoint of @epoch is complete, or has failed. A failure behind a switch says nothing,
 * since the epoch that runs was asked again. */
void hsp_ci_suspend_checkpointed(struct hsp_cluster *c, struct hsp_job *j, uint64_t epoch,
                                 const struct hsp_m_ckpt *k);

#endif
