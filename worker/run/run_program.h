/* Trains all ranks of a program file in this process (hspmd-worker --run), or compares the sharded
 * with the unsharded program (hspmd-worker --verify, verify.c). */
#ifndef HSP_RUN_PROGRAM_H
#define HSP_RUN_PROGRAM_H
#include <stdbool.h>
#include <stdint.h>

#include "worker/run/local_run.h"

struct hsp_run_opts {
    const char *file;
    const char *out;       /* folder, or NULL: the file's */
    const char *metrics;   /* JSON lines, or NULL: OUT/metrics.jsonl */
    const char *gradients; /* safetensors of step 0's mean gradients, or NULL */
    uint64_t steps;        /* 0: the file's */
    int threads;           /* per rank; 0: the processors divided by the ranks */
    hsp_open_backend open; /* NULL: the CPU's */
    hsp_gpu_identity gpu;  /* NULL: none has a GPU */
    const char *nccl;      /* the library, for tests; NULL: libnccl.so.2 */
    void *open_ctx;
    bool quiet;
};

/* Writes metrics, OUT/final/model.safetensors and OUT/final/config.json; lines of text to stdout.
 * HSP_EINVAL: a file for --verify. */
enum hsp_status hsp_run_file(const struct hsp_run_opts *o, struct hsp_err *err);

#endif
