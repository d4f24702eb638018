/* Runs the programs of a plan by the machine and compares them with the unsharded graph. */
#ifndef HSP_PLAN_RUN_H
#define HSP_PLAN_RUN_H
#include "tests/unit/daemon/plan/plan_model.h"

#define PLAN_ARENA_BYTES ((size_t)1 << 30)

/* A plan for a global batch of PLAN_BATCH. Fails the test on error. */
struct hsp_plan *plan_of_text(const char *text, struct hsp_arena *arena);

/* Its programs, in @arena. Fails the test on error. */
void plan_compile(const char *text, const struct plan_model *m, struct hsp_arena *arena,
                  struct hsp_program_file *f);

/* PLAN_STEPS steps: loss, tokens, norm, gradients, state after the update, validation. */
void plan_run(const char *text, const struct plan_model *m, uint64_t seed);
void plan_run_all(const char *const *text, size_t n, const struct plan_model *m);

/* The same steps under two plans that differ only in the way of saving: the same bits. */
void plan_same_bits(const char *one, const char *other, const struct plan_model *m, uint64_t seed);

#endif
