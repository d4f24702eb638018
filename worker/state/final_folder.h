/* Opens the folder of a job's final model, and moves that of another job of its name aside.
 *
 *   DIR/final                model.safetensors, config.json, metrics.jsonl
 *       final.job-3          the final model of job 3, which had the name of this job before
 *       final.job-3.0123..   the same of another cluster
 *       final.earlier        one that does not say whose it is, of an earlier version or damaged
 *       final.job-3-2        a second one of that name
 *
 * The model names its job and its cluster in its metadata. A folder without a model is nobody's:
 * the model is written first. Unlike a step, the folder of another cluster is moved too: no job
 * reads its final model again.
 *
 * Purity: shell (files). No link is followed (folder.h).
 */
#ifndef HSP_FINAL_FOLDER_H
#define HSP_FINAL_FOLDER_H
#include "worker/state/ckpt_files.h"

#define HSP_FINAL_MODEL "model.safetensors"
/* Keys of the model's metadata. */
#define HSP_FINAL_JOB     "hspmd.job"
#define HSP_FINAL_CLUSTER "hspmd.cluster"

/* Opens DIR/final, which is made where it is missing, for the job of @us (job_id, whose.cluster).
 * @ret_aside: the new name of another's folder that was there, "" none was.
 * HSP_EEXIST: all names for it are taken; HSP_ENOMEM; errors of folder.h. */
enum hsp_status hsp_final_open(const char *dir, const struct hsp_ckpt_info *us,
                               char ret_aside[HSP_CKPT_NAME], struct hsp_folder *ret,
                               struct hsp_err *err);

#endif
