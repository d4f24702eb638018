/* Reads a described cluster for dry runs without a daemon (`hspmdctl plan --cluster`).
 *
 *   apiVersion: hspmd/v1
 *   kind: cluster
 *   nodes:
 *     - name: a
 *       uplink: {latency_us: 200, gbit_per_s: 1}  # optional: slower than cross_node
 *       fast_domain: 4                            # optional: devices 0-3, 4-7, ... have a
 *       fast_link: {latency_us: 10, gbit_per_s: 2400} # network of their own (NVLink)
 *       network_cards: 2                          # optional: device i uses card i modulo 2
 *       host_memory: 64GiB                        # optional: for the offloads of all its devices
 *       devices:
 *         - {speed: 0.6, memory: 1GiB}            # the other figures have defaults (one CPU core)
 *         - {count: 2, gemm_gflops: 120, gemm_gflops_fp64: 60, memory_gb_per_s: 20, op_us: 3}
 *   links:                                        # optional
 *     same_node: {latency_us: 20, gbit_per_s: 40}
 *     cross_node: {latency_us: 60, gbit_per_s: 10}
 *
 * gemm_us               fixed time of a product beside its operations; 0 for CPUs
 * host_gb_per_s         the link to the node's memory; 0 for CPUs
 * gemm_gflops_tf32, gemm_gflops_bf16
 *                       rates of jobs that compute in these; 0: as fp32. Without the latter a
 *                       device computes on bf16 in fp32 copies, and needs memory for them.
 * gemm_parts            {few: 0.3, wide: 0.8, long: 0.9, attention: 0.5}: parts of these rates that
 *                       products of other shapes reach (proto/op/gemm_class.h), each 1 unless said
 * memory_bf16_part      the part of memory_gb_per_s that element-wise work on bf16 reaches (1)
 * communicator_memory   memory of a GPU for each group (NCCL) (0)
 * speed                 scales all rates of a device, as in hspmd-worker.yaml
 *
 * Purity:    pure.
 * Ownership: everything lives in the arena given.
 */
#ifndef HSP_CLUSTER_FILE_H
#define HSP_CLUSTER_FILE_H

#include <stddef.h>

#include "proto/base/arena.h"
#include "proto/base/err.h"
#include "proto/layout/cluster_desc.h"

/* @file stands in messages only. HSP_EPARSE "file:line:column: ...", HSP_ELIMIT above
 * HSP_MAX_DEVICES, HSP_ENOMEM. */
enum hsp_status hsp_cluster_desc_parse(const char *text, size_t len, const char *file,
                                       struct hsp_arena *arena, struct hsp_cluster_desc *ret,
                                       struct hsp_err *err);

/* One CPU core with the default figures at @speed: the device of a dry run without a cluster. */
struct hsp_device_desc hsp_device_default(const char *name, uint32_t node, double speed);

#endif
