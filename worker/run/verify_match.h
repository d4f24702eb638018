/* Matches each tensor of a rank's program with a tensor of the unsharded program, so that --verify
 * knows which values to compare.
 *
 * Purity:  pure.
 */
#ifndef HSP_VERIFY_MATCH_H
#define HSP_VERIFY_MATCH_H
#include "worker/run/verify_impl.h"

/* @ret[n_tensors] of the unsharded program: how each depends on the batch. */
void hsp_verify_classes(const struct hsp_program *ref, uint8_t *ret);
/* State of the unsharded program with the same parameter and kind as state @k; UINT32_MAX. */
uint32_t hsp_verify_state(const struct hsp_program *ref, const struct hsp_program *p, uint32_t k);
/* @ret[n_tensors] of a rank's program. */
void hsp_verify_match(const struct hsp_program *ref, const uint8_t *classes,
                      const struct hsp_program *p, struct hsp_match *ret);
/* Sums in two steps: the result of a rank's Reshards inside of one tensor group stays an addend
 * where a later one adds those of the stage's groups. After hsp_verify_match; @programs: of all @n
 * ranks.
 */
void hsp_verify_tiers(const struct hsp_program *programs, uint32_t n, uint32_t rank,
                      struct hsp_match *match);

#endif
