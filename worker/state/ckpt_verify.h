/* Verifies all complete checkpoints of a job (`hspmd-worker --verify-checkpoint DIR`).
 *
 * Role:   reads every complete step in a job's folder whole and compares all hashes; one line each
 *         on @out, or one JSON object at the end: {"folder", "checkpoints": [{"step", "good",
 *         "job_id", "cluster", "tensors", "bytes", "files", "reason"}]}. A folder may have steps of an earlier
 *         job of the same name; the line says so. */
#ifndef HSP_CKPT_VERIFY_H
#define HSP_CKPT_VERIFY_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/base/err.h"

/* @job: whose steps decide about the result, by its number; 0: all of them.
 *
 * HSP_EDIGEST: some step is damaged, the lines say which file and tensor; HSP_ENOENT: @dir is not
 * there or has no complete step of the job; HSP_ENOMEM, which says nothing of any step: with @json
 * nothing is written then; else what keeps it from being read. */
enum hsp_status hsp_ckpt_check(const char *dir, uint32_t job, bool json, FILE *out,
                               struct hsp_err *err);

#endif
