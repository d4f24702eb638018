/* Whether a GPU can be used, and what it is: asked in a process of its own, because who has once used one keeps a
 * context on it, with memory, as long as he lives.
 *
 * Purity:  shell (a process, a pipe). Before any thread.
 */
#ifndef HSP_GPUPROBE_H
#define HSP_GPUPROBE_H
#include "worker/app/probe.h"
#include "worker/backend/plugin.h"

/* GPU @index: what it is, how much of its memory is free, and what it can do, of which only the peaks are known by its
 * kind. HSP_ENODEV in one line: no library, no driver, no such GPU; HSP_EUNSUPPORTED, HSP_EIO: it cannot be opened. */
enum hsp_status hsp_gpu_probe(uint32_t index, struct hsp_device_info *ret,
                              struct hsp_probe *ret_can, struct hsp_err *err);

#endif
