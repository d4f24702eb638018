/* Fills the memory of probes with numbers that look like those of training.
 *
 * Role:   the probes of CPUs (probe.c), GPUs (probe_device.c) and paths (probe_gpu_path.c) fill
 *         their memory with them.
 * Purity: pure.
 *
 * Zeros would flatter a device: changing bits decide its power, and its power decides its clock. On
 * an H200 products of zeros are 13 % faster, on other devices less or more. */
#ifndef HSP_PROBE_FILL_H
#define HSP_PROBE_FILL_H
#include <stddef.h>

#include "proto/op/dtype.h"

#define HSP_PROBE_PERIOD ((size_t)1 << 20) /* elements; after these they come again */

/* Fills @bytes, a multiple of 8, with numbers of the real type @t: uniform in [-1, 1], none so
 * small that it is subnormal, the same on every machine; a different sequence for each @which. */
void hsp_probe_numbers(enum hsp_dtype t, uint32_t which, void *to, size_t bytes);

#endif
