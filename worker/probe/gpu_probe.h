/* Measures a GPU in a child process. A process that opens a GPU keeps a context on it, with memory,
 * until it exits.
 *
 * Purity:  shell (a process, a pipe).
 * Bounds:  HSP_GPU_ASK_MS, most of which loads kernels; HSP_GPU_ANSWER_MAX bytes of answer.
 */
#ifndef HSP_GPU_PROBE_H
#define HSP_GPU_PROBE_H
#include "worker/backend/plugin.h"
#include "worker/probe/probe.h"
#include "worker/probe/probe_gpu_path.h"

#define HSP_GPU_ASK_MS 60000

/* GPU @index: its kind, its free memory, and its measured rates. One line in @err otherwise:
 * HSP_ENODEV: no library, no driver, no such GPU, or it cannot be opened or measured, as its
 * process says; HSP_ETIMEDOUT; HSP_EPROTO: the process gave no valid answer; HSP_EIO: no
 * process. */
enum hsp_status hsp_gpu_ask(uint32_t index, struct hsp_device_info *ret, struct hsp_probe *ret_can,
                            struct hsp_err *err);
/* The same by another program than the one that runs, within @within_ms. */
enum hsp_status hsp_gpu_ask_by(const char *program, uint32_t index, uint32_t within_ms,
                               struct hsp_device_info *ret, struct hsp_probe *ret_can,
                               struct hsp_err *err);

/* The figures of the paths between @n GPUs, 2 to HSP_NODE_DEVICES numbers that ascend. @program
 * NULL: the running one. Errors as above. */
enum hsp_status hsp_gpu_ask_paths(const char *program, const uint32_t *index, uint32_t n,
                                  uint32_t within_ms, struct hsp_probe_path ret[HSP_NODE_PATHS],
                                  uint32_t *ret_n, struct hsp_err *err);

/* That process: `hspmd-worker --probe-device cuda:N`, or cuda:N,M,... for the paths between these.
 * Prints the answer, or why not; the exit status. */
int hsp_gpu_ask_main(const char *device);

#endif
