/* Makes small programs for tests by hand: embedding, linear, cross-entropy and AdamW on n
 * data-parallel ranks.
 *
 * Ownership: all memory of the programs is in the arena given. */
#ifndef HSP_TINY_PROGRAM_H
#define HSP_TINY_PROGRAM_H
#include "proto/program/program.h"

struct tiny_spec {
    uint32_t n_ranks;      /* data-parallel ranks */
    uint32_t seqs[4];      /* sequences of each rank; all 0: the same number on each */
    uint32_t global_batch; /* sequences */
    uint32_t n_micro;      /* micro-batches of each rank */
    uint32_t vocab, hidden, sequence, steps;
    uint32_t validation_every;
    enum hsp_dtype dtype;
    /* Gradients go by a reduce-scatter to their owners and an all-gather, not by an all-reduce. */
    bool scatter;
};

/* Two ranks with `scatter`, whose programs have everything that a program file can contain. */
extern const struct tiny_spec tiny_two;

/* Makes the programs of all ranks. Asserts that everything fits its bounds. */
struct hsp_program *tiny_programs(const struct tiny_spec *s, struct hsp_arena *arena);

/* Makes a program file with the programs of all ranks, and the program of one rank as reference. */
struct hsp_program_file tiny_file(const struct tiny_spec *s, struct hsp_arena *arena);

#endif
