/* Compares lists of steps, each step with the epoch that made it, to find the notes (step_log.h)
 * that another device lacks.
 *
 * Purity: pure (heap only).
 */
#ifndef HSP_STEP_RANGES_H
#define HSP_STEP_RANGES_H
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

/* The steps @from to @to, which @epoch made. A list is in order of steps, and each step is in one
 * range. */
struct hsp_step_range {
    uint64_t epoch, from, to;
};
struct hsp_step_ranges {
    struct hsp_step_range *r; /* owned */
    size_t n, cap;
};
/* Appends the steps @from to @to to @a; they come after all steps of @a. Returns HSP_ENOMEM or
 * HSP_ELIMIT. */
enum hsp_status hsp_ranges_push(struct hsp_step_ranges *a, uint64_t epoch, uint64_t from,
                                uint64_t to, struct hsp_err *err);
/* Fills *ret, which is empty before, with the steps of @theirs that @have lacks or has from an
 * earlier epoch. Returns HSP_ENOMEM or HSP_ELIMIT; then *ret has a part of these steps. */
enum hsp_status hsp_ranges_lack(const struct hsp_step_ranges *have,
                                const struct hsp_step_ranges *theirs, struct hsp_step_ranges *ret,
                                struct hsp_err *err);
/* Adds @more to @have, which lacks these steps. Returns HSP_ENOMEM or HSP_ELIMIT; then @have is
 * unchanged. */
enum hsp_status hsp_ranges_unite(struct hsp_step_ranges *have, const struct hsp_step_ranges *more,
                                 struct hsp_err *err);

#endif
