/* Lists of steps, each with the epoch that made it: what a device has notes of, and what another
 * lacks.
 *
 * Purity: pure (heap only).
 */
#ifndef HSP_STEP_RANGES_H
#define HSP_STEP_RANGES_H
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

/* Steps from..to, which @epoch made. Lists are in order of steps, each step is in one range. */
struct hsp_step_range {
    uint64_t epoch, from, to;
};
struct hsp_step_ranges {
    struct hsp_step_range *r; /* owned */
    size_t n, cap;
};
/* Puts steps to the end of @a, behind all that are there. HSP_ENOMEM, HSP_ELIMIT. */
enum hsp_status hsp_ranges_push(struct hsp_step_ranges *a, uint64_t epoch, uint64_t from,
                                uint64_t to, struct hsp_err *err);
/* Puts to *ret (empty) what @theirs has and @have has not, or has of an earlier epoch. HSP_ENOMEM,
 * HSP_ELIMIT: with a part of it. */
enum hsp_status hsp_ranges_lack(const struct hsp_step_ranges *have,
                                const struct hsp_step_ranges *theirs, struct hsp_step_ranges *ret,
                                struct hsp_err *err);
/* Puts @more, which @have lacks, into it. HSP_ENOMEM, HSP_ELIMIT: @have is as it was. */
enum hsp_status hsp_ranges_unite(struct hsp_step_ranges *have, const struct hsp_step_ranges *more,
                                 struct hsp_err *err);

#endif
