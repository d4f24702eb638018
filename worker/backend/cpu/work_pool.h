/* Runs the parallel loops of one caller on a pool of threads.
 *
 * Role:      the CPU backend's only source of threads.
 * Threads:   one caller at a time; the caller is worker 0 and works as well. Other threads use the
 *            pool while its caller leaves it idle (hsp_workpool_beside).
 * Ownership: hsp_workpool_free joins the threads.
 * Bounds:    HSP_WORKPOOL_MAX workers.
 * Cuts:      a loop is cut into at most one contiguous range for each worker, at multiples of the
 *            grain. The cuts depend on n, the grain and the number of workers only: no worker
 *            steals items from another, so timing does not change the cuts. */
#ifndef HSP_WORK_POOL_H
#define HSP_WORK_POOL_H
#include <stdint.h>
#include "proto/base/err.h"

#define HSP_WORKPOOL_MAX 256 /* more threads than a device of ours is ever given */

struct hsp_workpool; /* defined in work_pool.c */

/* Works on items [lo, hi) as @worker (0 .. n_workers - 1). */
typedef void (*hsp_range_fn)(const void *ctx, unsigned worker, int64_t lo, int64_t hi);

/* Makes a pool of @threads workers, 1 .. HSP_WORKPOOL_MAX, the caller included; 1 starts no thread.
 * Returns HSP_EINVAL, HSP_ENOMEM, or HSP_ELIMIT if the system gives no more threads. */
enum hsp_status hsp_workpool_new(int threads, struct hsp_workpool **ret, struct hsp_err *err);
struct hsp_workpool *hsp_workpool_free(struct hsp_workpool *p); /* @p may be NULL */
unsigned hsp_workpool_size(const struct hsp_workpool *p);

/* Runs @fn over [0, n) and returns when all of it is done. @grain >= 1: smallest range worth a
 * thread. */
void hsp_workpool_for(struct hsp_workpool *p, int64_t n, int64_t grain, hsp_range_fn fn,
                      const void *ctx);

/* Runs @fn over [0, n) as hsp_workpool_for, but for a thread that is not the pool's caller, in
 * blocks of @block >= 1 items: on the calling thread, and on the threads of the pool while its
 * caller leaves them idle. A thread that is done with a block takes the next block. A loop of the
 * pool's caller waits for one block at most. The calling thread works as worker 0 without the turn
 * of the pool, so @fn may run at the same time as another loop's function with the same worker
 * number, and must not use scratch. Example: a seal of 100 MB by blocks of 256 KiB takes one thread
 * while a step is computed, and all threads while the step waits for the seal. */
void hsp_workpool_beside(struct hsp_workpool *p, int64_t n, int64_t block, hsp_range_fn fn,
                         const void *ctx);

#endif
