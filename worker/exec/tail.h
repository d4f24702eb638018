/* What may be made together with a product: instructions right behind it that only add to it.
 *
 * Role:   a backend that adds while it still holds the result (hsp_backend.run_sum) saves the memory
 *         traffic, and for bf16 the rounding, of what lies between. Programs do not change: which
 *         instructions can go together is read off them.
 * Purity: pure.
 */
#ifndef HSP_TAIL_H
#define HSP_TAIL_H
#include "worker/exec/route.h"

/* out = product [+ bias] [+ add] in place of the product and @n instructions behind it. What they
 * would have handed to each other is not written, and nobody else reads it. The result may lie over what
 * the product reads, whose memory is free behind it: a backend then makes them one after the other. */
struct hsp_tail {
    uint8_t n;               /* 0: the instruction stands alone, as all that is no product */
    uint32_t bias, add, out; /* tensors; bias and add may be HSP_NO_TENSOR */
};

/* The tails of all instructions of @t, a program that was checked: of linear and linear_dx; in the
 * same piece, bias_add behind linear, and one add.
 * To be freed by free(); NULL without memory. */
struct hsp_tail *hsp_tails_new(const struct hsp_template *t);

#endif
