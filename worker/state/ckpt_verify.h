/* Verifies all complete checkpoints of a job (`hspmd-worker --verify-checkpoint DIR`).
 *
 * Role:   reads every complete step in the folder of a job whole, and compares all hashes. Writes
 *         one line for each step on @out, or one JSON object at the end: {"folder", "checkpoints":
 *         [{"step", "good", "job_id", "cluster", "tensors", "bytes", "files", "reason"}]}. The line
 *         of a step names its job where that is an earlier job of the same name. */
#ifndef HSP_CKPT_VERIFY_H
#define HSP_CKPT_VERIFY_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/base/err.h"

/* Checks all steps. @job: the job whose steps decide about the result; 0: those of all jobs.
 *
 * HSP_EDIGEST: a step is damaged, its line names file and tensor. HSP_ENOENT: @dir is not there or
 * has no complete step of the job. HSP_ENOMEM: nothing is known of any step, and with @json nothing
 * is written. Else the error that keeps a step from being read. */
enum hsp_status hsp_ckpt_check(const char *dir, uint32_t job, bool json, FILE *out,
                               struct hsp_err *err);

#endif
