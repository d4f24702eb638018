/* Widens programs that compute in bf16 to fp32, so that no mistake hides behind rounding.
 *
 * Purity:  pure.
 */
#ifndef HSP_VERIFY_BF16_H
#define HSP_VERIFY_BF16_H
#include "proto/program/program.h"

/* Makes tensors that are bf16 fp32, in twice the memory; the rest of the program stays. The
 * templates of programs that share one change together, so all programs of a file must be given. */
void hsp_program_widen(struct hsp_program *p);
/* The state @from of the unsharded program @ref becomes that of @p, @to. */
void hsp_verify_adopt(const struct hsp_program *ref, void *from, const struct hsp_program *p,
                      void *to);

#endif
