/* Verifies all complete checkpoints of a job (`hspmd-worker --verify-checkpoint DIR`).
 *
 * Role:   reads every complete step of a job's checkpoints whole and compares all hashes; one line
 *         each on @out, or one JSON object at the end:
 *         {"folder", "checkpoints": [{"step", "good", "tensors", "bytes", "files", "reason"}]} */
#ifndef HSP_CKPT_VERIFY_H
#define HSP_CKPT_VERIFY_H
#include <stdbool.h>
#include <stdio.h>

#include "proto/base/err.h"

/* HSP_EDIGEST: some step is damaged, the lines say which file and tensor; HSP_ENOENT: @dir is not
 * there or has no complete step; HSP_ENOMEM, which says nothing of any step: with @json nothing is
 * written then; else what keeps it from being read. */
enum hsp_status hsp_ckpt_check(const char *dir, bool json, FILE *out, struct hsp_err *err);

#endif
