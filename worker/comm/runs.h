/* Describes the memory of a message as runs of one length at one distance, as a block of columns of
 * a dense array lies, so that it need not be contiguous.
 *
 * Role:     the memory that comm.h sends and receives; a contiguous buffer is one run.
 * Purity:   pure.
 *
 * A message is its runs one after the other; positions are bytes of the message. Runs of a receive
 * do not overlap. */
#ifndef HSP_RUNS_H
#define HSP_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

struct hsp_runs {
    uint8_t *base;      /* begin of the first run; borrowed, a send only reads. NULL: no bytes */
    size_t run, stride; /* bytes of a run; from its begin to that of the next */
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
/* Address of the byte @at of the message (@at less than its bytes). *ret_n: how many bytes from
 * there on, at least one, are contiguous. */
uint8_t *hsp_runs_at(const struct hsp_runs *r, size_t at, size_t *ret_n);
/* Address of the next @cap bytes (or of the rest, if that is less) to read, contiguous. Bytes that
 * lie so are read in place (there may be more); else they are copied into @stage of @cap bytes. */
const uint8_t *hsp_runs_piece(const struct hsp_runs *r, size_t at, uint8_t *stage, size_t cap,
                              size_t *ret_n);
/* Copies @n bytes of the message from @at on to contiguous memory, or from it. */
void hsp_runs_gather(const struct hsp_runs *r, size_t at, void *to, size_t n);
void hsp_runs_scatter(const struct hsp_runs *r, size_t at, const void *from, size_t n);
/* Copies a whole message of @bytes; @to and @from do not overlap. */
void hsp_runs_copy(const struct hsp_runs *to, const struct hsp_runs *from, size_t bytes);

#endif
