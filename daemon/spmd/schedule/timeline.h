/* Computes the begin and end of each pass of a pipeline from the orders of its stages and the time
 * of each pass.
 *
 * A forward pass waits for the pass before it in the chain of chunks and stages, a backward pass
 * for the pass after it, and every pass until its own stage is free. A tensor that crosses stages
 * needs the time of a message, which delays only its receiver.
 *
 * Purity:    pure.
 * Ownership: results in the arena given.
 * Units:     microseconds, from the first pass's begin. */
#ifndef HSP_TIMELINE_H
#define HSP_TIMELINE_H
#include "daemon/spmd/schedule/pipeline_order.h"

struct hsp_pass_costs {
    const void *ctx;
    /* Of pass @u on stage @stage. */
    double (*pass_us)(const void *ctx, uint32_t stage, const struct hsp_pass *u);
    /* Returns the time from the end of pass @u on stage @from until stage @to has its result. */
    double (*hop_us)(const void *ctx, uint32_t from, uint32_t to, const struct hsp_pass *u);
};

struct hsp_interval {
    struct hsp_pass pass;
    double from_us, to_us;
};

struct hsp_timeline {
    uint32_t n_stages, n_passes; /* passes of each stage */
    struct hsp_interval *at;     /* [stage * n_passes + number in the stage's order] */
    double end_us;
};

/* Makes the timeline of the training passes of @s; the plan must have passed hsp_plan_check.
 * HSP_EINVAL: the orders of its stages wait for each other in a circle; HSP_ENOMEM. */
enum hsp_status hsp_timeline_make(const struct hsp_pipeline *s, const struct hsp_pass_costs *costs,
                                  struct hsp_arena *arena, struct hsp_timeline *ret,
                                  struct hsp_err *err);
/* Makes the timeline of validation over @n_micro micro-batches, forward only; 0: there is none. */
enum hsp_status hsp_timeline_eval(const struct hsp_pipeline *s, uint32_t n_micro,
                                  const struct hsp_pass_costs *costs, struct hsp_arena *arena,
                                  struct hsp_timeline *ret, struct hsp_err *err);

#endif
