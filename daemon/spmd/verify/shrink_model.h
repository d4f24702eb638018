/* Compiles the same programs at small extents, so that they can be verified against one device
 * (decision D7).
 *
 * A proof at small extents holds for the job only as far as the programs are the job's: the
 * templates must be equal by digest, rank by rank. So the model is rebuilt with fewer heads, a
 * narrower hidden state, a shorter sequence, a smaller vocabulary and batch, under these rules:
 *   1. extents that are equal in the job are equal here, others differ (symbols stay apart);
 *   2. every non-empty range of a cut (tensor parallelism, sequence, micro-batch) stays non-empty,
 *      an empty one stays empty, and of two uneven shares the larger stays larger where possible;
 *   3. homes are those of the total plan, their cuts moved along with the cuts of uses and in
 *      order;
 *   4. numbers that follow from sizes (the scale of attention) stay those of the job.
 * Candidates are compiled from the smallest up; the first with the job's templates is taken. The
 * last candidate is the job's own model, with a small batch.
 *
 * Example: 24 layers of hidden 2048 become 24 layers of hidden 12.
 *
 * Purity: pure and deterministic (D13). */
#ifndef HSP_SHRINK_MODEL_H
#define HSP_SHRINK_MODEL_H
#include "daemon/spmd/codegen/compile.h"

struct hsp_scaled_model {
    struct hsp_model_spec model;
    uint32_t global_batch;
};

/* Compiles @p, and into @arena the same at small extents: ret->programs by rank, and beside them
 * ret->ref, the unsharded program that takes one sequence at a time (worker --verify). Errors are
 * those of hsp_compile. */
enum hsp_status hsp_compile_scaled(const struct hsp_graph *g, const struct hsp_plan *p,
                                   const struct hsp_train_spec *t, struct hsp_arena *arena,
                                   struct hsp_program_file *ret,
                                   struct hsp_scaled_model *ret_scaled, struct hsp_err *err);

#endif
