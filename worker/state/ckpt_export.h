/* Writes the model that a checkpoint holds, as a file of whole tensors.
 *
 * Purity:  shell (files).
 */
#ifndef HSP_CKPT_EXPORT_H
#define HSP_CKPT_EXPORT_H
#include "proto/base/err.h"

struct hsp_ckpt;

/* OUT/model.safetensors (parameters as whole tensors) and OUT/config.json; each appears whole or
 * not at all. OUT is made if need be. */
enum hsp_status hsp_ckpt_export(const struct hsp_ckpt *c, const char *out, struct hsp_err *err);

#endif
