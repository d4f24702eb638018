/* Compares the contents of sealed segments with their hashes, on several threads at once, so that
 * state is verified at the speed of memory before anybody takes it.
 *
 * Role:      an executor verifies its segments while an epoch is prepared (worker/executor).
 * Purity:    memory only; starts threads.
 * Threads:   begin, end and free on one thread. The segments are neither written nor closed in
 *            between.
 * Ownership: rows and segments are borrowed.
 * Bounds:    HSP_VERIFY_THREADS.
 * Example:   a row of 10 MiB is cut into slabs of HSP_VERIFY_SLAB bytes; whichever thread is idle
 *            hashes the next one. Hashes of slabs add up to that of the row (box_hash.h).
 */
#ifndef HSP_SEGMENT_VERIFY_H
#define HSP_SEGMENT_VERIFY_H
#include "worker/state/segment.h"

#define HSP_VERIFY_THREADS 8 /* as many cores as it takes to saturate the memory of a host */
#define HSP_VERIFY_SLAB    ((size_t)4 << 20)

/* A row to be verified, of a sealed segment. */
struct hsp_verify_row {
    const struct hsp_state_segment *seg;
    uint32_t row;
    bool damaged; /* set by hsp_verify_end */
};

struct hsp_verify; /* opaque */

/* Threads begin to hash @rows, which stay in place until the end. @threads: at most so many, 0: as
 * many as the host has processors. HSP_ENOMEM. */
enum hsp_status hsp_verify_begin(struct hsp_verify_row *rows, size_t n, unsigned threads,
                                 struct hsp_verify **ret, struct hsp_err *err);
/* Waits for them, and helps. *ret_n_damaged: rows that do not fit their hashes. */
void hsp_verify_end(struct hsp_verify *v, size_t *ret_n_damaged);
/* Gives up: the threads stop within a slab, and rows that were not hashed to the end count as
 * damaged. Any thread may call it, until hsp_verify_free. */
void hsp_verify_stop(struct hsp_verify *v);
/* After the end. NULL allowed; returns NULL. */
struct hsp_verify *hsp_verify_free(struct hsp_verify *v);

/* Begin, end and free in one. */
enum hsp_status hsp_verify_rows(struct hsp_verify_row *rows, size_t n, size_t *ret_n_damaged,
                                struct hsp_err *err);

#endif
