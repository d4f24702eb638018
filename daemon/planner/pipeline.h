/* Finds uneven pipelines: the device kind that runs each range of blocks, in order.
 *
 * Role:        makes one pipeline for the planner, when the model does not fit one device or a
 *              pipeline is faster.
 * Purity:      pure.
 * Method:      exact dynamic program. The time of a pipeline of m micro-batches is
 *              sum of stages + (m - 1) * slowest stage. Built from the last stage to the first, so
 *              that the number of stages behind one, and with it the micro-batches in flight there
 *              and its memory, is known; a state is (first block, devices used of each kind) and
 *              keeps the pairs (sum, slowest) that no other pair beats. Both parts of the time only
 *              grow with later choices, so a dominated pair can never win: exact.
 * Bounds:      HSP_PIPE_MAX_STATES states of at most HSP_PIPE_MAX_FRONT pairs. When more than that
 *              do not dominate each other, those with the best time so far stay. */
#ifndef HSP_PIPELINE_H
#define HSP_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/err.h"

#define HSP_PIPE_MAX_KINDS  32
#define HSP_PIPE_MAX_STATES 200000
#define HSP_PIPE_MAX_FRONT  64

struct hsp_pipe {
    uint32_t n_blocks; /* >= 1; every stage has at least one */
    uint32_t n_kinds;
    uint32_t count[HSP_PIPE_MAX_KINDS]; /* devices of each kind */
    uint32_t n_micro;                   /* micro-batches, >= 1 */
    uint32_t max_stages;
    /* Microseconds of one micro-batch (forward + backward, and the transfer to the next stage) for
     * blocks [first, end) on a device of @kind with @behind stages behind it; negative: does not
     * fit. Stage times must not depend on anything else. */
    double (*stage_us)(void *ctx, uint32_t kind, uint32_t first, uint32_t end, uint32_t behind);
    void *ctx;
};

struct hsp_pipe_result {
    uint32_t n_stages;
    uint32_t *kind;   /* by stage, first to last */
    uint32_t *blocks; /* by stage */
    double us;        /* of all micro-batches */
    double fill_us;   /* sum of the stages */
    double slow_us;   /* slowest stage */
};

/* Number of states of such a problem; UINT64_MAX on overflow. */
uint64_t hsp_pipe_states(const struct hsp_pipe *p);

/* HSP_EINFEASIBLE: no division fits; HSP_ELIMIT: more than HSP_PIPE_MAX_STATES states (merge
 * kinds); HSP_ENOMEM. The result lives in @arena. */
enum hsp_status hsp_pipe_solve(const struct hsp_pipe *p, struct hsp_arena *arena,
                               struct hsp_pipe_result *ret, struct hsp_err *err);

#endif
