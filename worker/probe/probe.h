/* Measures a CPU and a link of this node when the agent starts: the figures a plan is
 * costed with.
 *
 * Role:    the agent says them in its HELLO.
 * Purity:  shell (clocks, memory, loopback sockets, one helper thread).
 * Threads: the caller's; the backend's pool for more than one thread.
 * Bounds:  about a second for a device, a tenth for the links; 64 MiB of memory.
 *
 * Nothing here is paced. A single compute thread is judged by its processor time, as pacing judges
 * it, so that a busy machine does not look like a slow one. */
#ifndef HSP_PROBE_H
#define HSP_PROBE_H
#include <stdbool.h>

#include "proto/base/err.h"
#include "proto/layout/cluster_desc.h"

struct hsp_probe {
    double gemm_fp32_flops, gemm_fp64_flops; /* FLOP/s of linear ops, mean over a few shapes */
    double gemm_tf32_flops;                  /* 0: the device has no such products */
    double gemm_bf16_flops;                  /* on numbers stored as bf16, computed in any type */
    double gemm_part[HSP_N_RATES][HSP_N_GEMM_CLASSES]; /* of these, in products of other shapes; 0:
                                                          not measured */
    double mem_bytes_per_s;                            /* read and written by element-wise ops */
    double bf16_part;        /* of that, by those on bf16; 0: not measured */
    double op_us;            /* of an instruction that hardly computes, with the engine's time */
    double gemm_us;          /* of a product on top of that, before its first operation; 0: none */
    double host_bytes_per_s; /* of copies between its memory and its node's; 0: these are one */
    double share; /* of the time, that a single thread got its core; 1 for more threads */
};

struct hsp_probe_link {
    double latency_us;  /* one way */
    double us_per_byte; /* of a long message */
};

/* A cpu device of @threads threads with the whole core(s); with @parts also the shares of these
 * rates in products of other shapes and in bf16 (gemm_part, bf16_part). Errors of the backend,
 * HSP_ENOMEM. */
enum hsp_status hsp_probe_cpu(int threads, bool parts, struct hsp_probe *ret, struct hsp_err *err);

/* The same for a device that may use @speed of each core. */
struct hsp_probe hsp_probe_scale(const struct hsp_probe *p, double speed);

/* A TCP connection over loopback between two threads. HSP_EIO. */
enum hsp_status hsp_probe_loopback(struct hsp_probe_link *ret, struct hsp_err *err);

#endif
