/* Memory of a message that need not lie in one piece: runs of one length at one distance, as a
 * block of columns of a dense array lies.
 *
 * Role:     what is sent and received by comm.h; a contiguous buffer is one run.
 * Purity:   pure.
 * A message is its runs one after the other; positions are bytes of the message. Runs to be
 * received into do not overlap.
 */
#ifndef HSP_RUNS_H
#define HSP_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

struct hsp_runs {
    uint8_t *base;      /* of the first run; borrowed, only read when sent. NULL: no bytes */
    size_t run, stride; /* bytes of each; from the beginning of one to that of the next */
    size_t n;           /* runs */
};

/* A contiguous buffer; NULL allowed where there are no bytes. */
static inline struct hsp_runs hsp_run(const void *buf, size_t bytes)
{
    return (struct hsp_runs){
        .base = (uint8_t *)(uintptr_t)buf, .run = bytes, .stride = bytes, .n = 1};
}

/* The bytes of the message. HSP_EINVAL: the runs overlap, or reach beyond the address space.
 * HSP_ELIMIT: more than @max. */
enum hsp_status hsp_runs_check(const struct hsp_runs *r, uint64_t max, size_t *ret,
                               struct hsp_err *err);
/* Where the byte @at of the message lies (@at less than its bytes), and how many from there on, at
 * least one, lie in one piece. */
uint8_t *hsp_runs_at(const struct hsp_runs *r, size_t at, size_t *ret_n);
/* The same to read from, with the next @cap bytes (or the rest, if that is less) in one piece:
 * where they lie so (there may be more), else copied into @stage of @cap bytes. */
const uint8_t *hsp_runs_piece(const struct hsp_runs *r, size_t at, uint8_t *stage, size_t cap,
                              size_t *ret_n);
/* Copies @n bytes of the message from @at on to one piece, or from one piece. */
void hsp_runs_gather(const struct hsp_runs *r, size_t at, void *to, size_t n);
void hsp_runs_scatter(const struct hsp_runs *r, size_t at, const void *from, size_t n);
/* Copies a whole message of @bytes; the memory of the two does not overlap. */
void hsp_runs_copy(const struct hsp_runs *to, const struct hsp_runs *from, size_t bytes);

#endif
