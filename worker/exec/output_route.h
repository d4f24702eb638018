/* Finds outputs that an op can write where the next instruction would copy them (output
 * forwarding), and the zeroings that this makes needless.
 *
 *   sums of gradients   A backend that can add to an output (hsp_backend.adds) computes a gradient
 *                       and its addition to the sum in one pass. The gradient itself is not
 *                       written.
 *   their beginning     The first addition of a step writes the sum, so the sum need not be zeroed.
 *   statistics          An op writes a number that only the vote reads to the host's memory.
 *
 * Role:   a fusion pass that runs when an engine is opened. The program itself does not change.
 * Purity: pure.
 */
#ifndef HSP_OUTPUT_ROUTE_H
#define HSP_OUTPUT_ROUTE_H
#include "proto/program/program.h"

#define HSP_NO_TENSOR UINT32_MAX

struct hsp_route {
    /* For each output of an op: the sum to which the op adds it, or HSP_NO_TENSOR; for outputs in
     * the mask @stats the number of statistics of the piece before this one. */
    uint32_t out[HSP_MAX_OUT];
    uint8_t sums, stats; /* masks of outputs that go to a sum; to a statistic */
    /* If the piece runs for the first time in a step, this instruction makes the first addition to
     * the sum: it writes the sum. An op has a mask of outputs in @sums, an accumulation bit 0. */
    uint8_t begins;
    bool done; /* an op before does the work of this accumulation or statistic */
    /* For a HSP_I_ZERO: the piece whose first run in a step makes the zeroing needless, or
     * HSP_NO_PIECE. */
    uint32_t begun_by;
};
#define HSP_NO_PIECE UINT32_MAX

/* Finds the routes of @t, a checked program: returns one element for each instruction. @adds: the
 * ops that can add to an output, a bit each. The caller frees the result by free(). Returns NULL
 * without memory. */
struct hsp_route *hsp_routes_new(const struct hsp_template *t, uint64_t adds);

#endif
