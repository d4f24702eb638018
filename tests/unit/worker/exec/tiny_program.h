/* Hand-made programs for tests: embedding, linear, cross-entropy, AdamW, on n data-parallel ranks.
 *
 * Ownership: everything in the arena given. */
#ifndef HSP_TINY_PROGRAM_H
#define HSP_TINY_PROGRAM_H
#include "proto/program/program.h"

struct tiny_spec {
    uint32_t n_ranks;      /* data-parallel, even split unless seqs is set */
    uint32_t seqs[4];      /* sequences per rank; all 0: even */
    uint32_t global_batch; /* sequences */
    uint32_t n_micro;      /* per rank */
    uint32_t vocab, hidden, sequence, steps;
    uint32_t validation_every;
    enum hsp_dtype dtype;
    bool
        scatter; /* gradients by reduce-scatter to an owner and a gather instead of an all-reduce */
};

/* Two ranks that scatter, with everything a file can say of a program. */
extern const struct tiny_spec tiny_two;

/* Programs of all ranks; asserts on anything that does not fit its bounds. */
struct hsp_program *tiny_programs(const struct tiny_spec *s, struct hsp_arena *arena);

/* The same as a file, beside the program of one rank. */
struct hsp_program_file tiny_file(const struct tiny_spec *s, struct hsp_arena *arena);

#endif
