/* Executors with a GPU each, as threads: over the fake NCCL (tests/lib/fakenccl), processors for
 * GPUs, and the loop for a mesh.
 *
 * Work for HSP_DEVQ_COMM is done when the call returns, as on a processor; lanes and
 * HSP_DEVQ_GREET do their work later. */
#ifndef HSP_NCCL_WORLD_H
#define HSP_NCCL_WORLD_H
#include <pthread.h>

#include "tests/lib/fakenccl/fakenccl.h"
#include "tests/lib/testlib.h"
#include "worker/comm/loop/loop_comm.h"
#include "worker/comm/nccl/nccl_comm.h"

#define NW_RANKS 8

/* The dealings of executors with calls that do not return, and with members that do not come to the
 * end of a communicator. */
#define NW_PATIENCE_MS 150
/* The same of executors that are opened from now on. */
extern uint32_t nw_patience_ms;

/* Members greet each other with few bytes: the fake adds them up one by one. */
#define NW_GREETING_BYTES 256

/* A processor: the greetings' queue and the lanes are streams of the fake. */
struct nw_backend {
    struct hsp_backend base; /* first */
    int process;             /* for the fake */
    struct hsp_backend *cpu;
    char stream[HSP_N_DEVQ - HSP_DEVQ_GREET]; /* their addresses are the streams */
};

/* One executor; lives through epochs. */
struct nw_process {
    struct nw_backend backend;
    struct hsp_nccl *nccl; /* NULL: it computes on its processor */
};

/* The fake, loaded once. */
const struct hsp_fakenccl *nw_fake(void);
const char *nw_library(void);
/* @n executors; @gpu[k]: of which GPU, 0: none; NULL: each its own. */
void nw_open(struct nw_process *p, uint32_t n, const uint64_t *gpu);
void nw_open_one(struct nw_process *p, int process, uint64_t gpu);
/* In as many threads, since the communicators that are left end together. */
void nw_close(struct nw_process *p, uint32_t n);
void nw_expect_clean(void); /* no communicator, no misuse */

/* Calls @fn(ctx, k) in @n threads, each of which belongs to process[k] (NULL: k). */
void nw_each(uint32_t n, const int *process, void (*fn)(void *ctx, uint32_t k), void *ctx);

/* One epoch: rank k is process member[k]. */
/* The memory of a rank's step. A device may be at it until the communicators are closed, after any
 * end of the step. */
struct nw_cells {
    float x[12], all[12], got, mine;
};
struct nw_epoch {
    uint32_t n;
    struct nw_cells cells[NW_RANKS];
    struct nw_process *process[NW_RANKS];
    int number[NW_RANKS]; /* of the processes */
    struct hsp_comm *mesh[NW_RANKS], *comm[NW_RANKS];
    struct hsp_nccl_needs needs[NW_RANKS];
    struct hsp_nccl_place place[NW_RANKS]; /* at first: in an epoch without secrets */
    uint64_t timeout_ms;
    bool starts[NW_RANKS]; /* hsp_nccl_start is due */
    enum hsp_status st[NW_RANKS];
    struct hsp_err err[NW_RANKS];
};
/* Whole group, and messages of every pair; the caller may want more before nw_prepare. */
void nw_epoch_init(struct nw_epoch *e, struct nw_process *all, const int *member, uint32_t n);
void nw_want(struct nw_epoch *e, const uint32_t *ranks, uint32_t n); /* a group's collectives */
void nw_prepare(struct nw_epoch *e); /* st and err say how it went */
/* Closes all that is open. */
void nw_epoch_close(struct nw_epoch *e);

#endif
