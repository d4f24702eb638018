/* Draws counter-based random numbers: Philox4x32-10 (Salmon et al., Parallel random numbers: as
 * easy as 1, 2, 3, SC 2011). Every number is a function of its coordinates, so any device may draw
 * any element of any tensor at any step and all devices agree.
 *
 * Purity: pure; there is no state.
 *
 * seed: of the job. stream: hsp_hash_str of a name ("init/h.0.attn.w", "shuffle"). a, b: indices
 * in the stream, e.g. epoch and element.
 */
#ifndef HSP_RNG_H
#define HSP_RNG_H

#include <stdint.h>

void hsp_philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4]);

uint64_t hsp_rng_u64(uint64_t seed, uint64_t stream, uint64_t a, uint64_t b);

/* Mean 0, variance 1 (Box-Muller in fp64; |x| < 8.6). */
double hsp_rng_normal(uint64_t seed, uint64_t stream, uint64_t a, uint64_t b);

/* Uniform in [0, n), n > 0, without the bias of a remainder beyond 2^-64 * n. */
uint64_t hsp_rng_below(uint64_t n, uint64_t seed, uint64_t stream, uint64_t a, uint64_t b);

#endif
