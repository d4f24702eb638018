/* Tells stories of a job with checkpoints, on two nodes n0 and n1 of a device each: the job runs,
 * writes some, is cancelled and resumed, and nodes name the checkpoints that they see on disk. */
#ifndef HSP_CKPT_WORLD_H
#define HSP_CKPT_WORLD_H
#include "tests/unit/daemon/cluster/cluster_world.h"

#define WC_TERM 1 /* of the hspmdd that made the epochs, as their manifests have it */

/* The node of rank 0 says that the checkpoint of @step is complete. */
void wc_saved_in(struct cw_world *w, uint64_t epoch, uint64_t step, uint64_t content);
/* Checks the PREPARE that the last step has sent to the members of an attempt. */
void wc_prepare_means(const struct cw_world *w, enum hsp_epoch_mode mode, uint64_t step,
                      uint64_t epoch, uint64_t content);
/* The attempt begins at @step. */
void wc_begins(struct cw_world *w, uint64_t step);
/* Submits job j. Missing values: 1 to 8 devices, 2 copies, 100 steps, checkpoints in /c. */
void wc_submit(struct cw_world *w, struct hsp_job_terms t);
/* A job on two nodes that runs in its first epoch. */
void wc_running(struct cw_world *w);
void wc_cancelled(struct cw_world *w);
void wc_resumed(struct cw_world *w);
void wc_beats(struct cw_world *w, hsp_msec for_ms);
/* A job that keeps @keep checkpoints has written those of steps 20, 40 and 60, and is cancelled. */
void wc_with_three(struct cw_world *w, uint32_t keep, bool shared);
/* As the end of its switch tells. */
uint64_t wc_steps_lost(const struct cw_world *w);
enum hsp_status wc_resume_from(struct cw_world *w, uint64_t step);
/* From now on nodes see this checkpoint, and those of earlier calls. */
void wc_sees(struct cw_world *w, uint64_t step, uint64_t epoch, uint64_t content);
/* Time goes on until a fact of @type is told, and before it nothing is planned. */
void wc_await_fact(struct cw_world *w, const char *type, char ret[300]);

/* Time goes on, and each question is answered so, until the job is planned or @for_ms are over.
 * @ret: the fact that names the nodes that could not look, "" none was told. Returns the time that
 * went by. */
hsp_msec wc_answered(struct cw_world *w, const struct hsp_m_seen *seen, uint32_t n, const char *why,
                     hsp_msec for_ms, char ret[400]);

#endif
