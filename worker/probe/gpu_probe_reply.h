/* Writes and reads the line of JSON that `hspmd-worker --probe-device` prints: one GPU and its
 * figures, or the paths between several.
 *
 * Purity: pure. */
#ifndef HSP_GPU_PROBE_REPLY_H
#define HSP_GPU_PROBE_REPLY_H
#include "proto/base/buf.h"
#include "worker/backend/plugin.h"
#include "worker/probe/probe.h"
#include "worker/probe/probe_gpu_path.h"

#define HSP_GPU_ANSWER_MAX 16384 /* bytes */

void hsp_gpu_answer_print(const struct hsp_device_info *d, const struct hsp_probe *p,
                          struct hsp_buf *out);
/* HSP_EPROTO: not such a line, or a figure that no device has. */
enum hsp_status hsp_gpu_answer_parse(const char *text, size_t len, struct hsp_device_info *ret,
                                     struct hsp_probe *ret_can, struct hsp_err *err);

void hsp_gpu_paths_print(const struct hsp_probe_path *p, uint32_t n, struct hsp_buf *out);
/* HSP_EPROTO: not such a line, more than HSP_NODE_PATHS paths, GPUs not below 1024 in order, or a
 * figure that no path has. */
enum hsp_status hsp_gpu_paths_parse(const char *text, size_t len,
                                    struct hsp_probe_path ret[HSP_NODE_PATHS], uint32_t *ret_n,
                                    struct hsp_err *err);

#endif
