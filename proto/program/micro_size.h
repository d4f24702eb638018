/* Divides the sequences of a pipeline into micro-batches as evenly as possible. Planner, compiler
 * and step sheets use the same rule.
 *
 * Purity: pure. */
#ifndef HSP_MICRO_SIZE_H
#define HSP_MICRO_SIZE_H
#include <stdint.h>

/* Sequences in micro-batch @micro when @n_seq sequences make @n_micro micro-batches, larger ones
 * first: 7 sequences in 3 micro-batches give 3, 2, 2. */
uint32_t hsp_micro_size(uint32_t n_seq, uint32_t n_micro, uint32_t micro);

#endif
