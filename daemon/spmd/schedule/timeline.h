/* Computes the begin and end of each unit of a stream from the orders of its stages and the time of
 * each unit.
 *
 * A forward unit waits for the unit before it in the chain of chunks and stages, a backward unit
 * for the unit after it, and every unit until its own stage is free. A tensor that crosses stages
 * needs the time of a message, which delays only its receiver.
 *
 * Purity:    pure.
 * Ownership: results in the arena given.
 * Units:     microseconds, from the first unit's begin. */
#ifndef HSP_TIMELINE_H
#define HSP_TIMELINE_H
#include "daemon/spmd/schedule/pipeline_order.h"

struct hsp_unit_costs {
    const void *ctx;
    /* Of unit @u on stage @stage. */
    double (*unit_us)(const void *ctx, uint32_t stage, const struct hsp_unit *u);
    /* Returns the time from the end of unit @u on stage @from until stage @to has its result. */
    double (*hop_us)(const void *ctx, uint32_t from, uint32_t to, const struct hsp_unit *u);
};

struct hsp_spell {
    struct hsp_unit unit;
    double from_us, to_us;
};

struct hsp_timeline {
    uint32_t n_stages, n_units; /* units of each stage */
    struct hsp_spell *at;       /* [stage * n_units + number in the stage's order] */
    double end_us;
};

/* Makes the timeline of the training units of @s; the plan must have passed hsp_plan_check.
 * HSP_EINVAL: the orders of its stages wait for each other in a circle; HSP_ENOMEM. */
enum hsp_status hsp_timeline_make(const struct hsp_stream *s, const struct hsp_unit_costs *costs,
                                  struct hsp_arena *arena, struct hsp_timeline *ret,
                                  struct hsp_err *err);
/* Makes the timeline of validation over @n_micro micro-batches, forward only; 0: there is none. */
enum hsp_status hsp_timeline_eval(const struct hsp_stream *s, uint32_t n_micro,
                                  const struct hsp_unit_costs *costs, struct hsp_arena *arena,
                                  struct hsp_timeline *ret, struct hsp_err *err);

#endif
