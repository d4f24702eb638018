/* Finds outputs that can be written where the next instruction would bring them (output
 * forwarding).
 *
 *   sums of gradients   A backend that can add to an output (hsp_backend.adds) computes a gradient
 *                       and its addition in one pass. The gradient itself is not written.
 *   their beginning     The first addition of a step writes the sum, so the sum need not be zeroed.
 *   statistics          A number that only the vote reads is written into the host's memory.
 *
 * Role:   a fusion pass that runs when an engine is opened. The program itself does not change.
 * Purity: pure.
 */
#ifndef HSP_OUTPUT_ROUTE_H
#define HSP_OUTPUT_ROUTE_H
#include "proto/program/program.h"

#define HSP_NO_TENSOR UINT32_MAX

struct hsp_route {
    /* of an op, by output: the sum it is added to, or HSP_NO_TENSOR; for outputs in the mask
     * @stats, the number of statistics of the piece that come before */
    uint32_t out[HSP_MAX_OUT];
    uint8_t sums, stats; /* masks of outputs */
    /* of an op a mask of outputs in @sums, of an accumulation bit 0: the sum begins here when its
     * piece runs for the first time in a step */
    uint8_t begins;
    bool done;         /* an accumulation or a statistic that the op before has done */
    uint32_t begun_by; /* of a zero: the piece whose first run makes it needless, or HSP_NO_PIECE */
};
#define HSP_NO_PIECE UINT32_MAX

/* The routes of @t, a checked program, one element for each instruction. @adds: ops that can add to
 * an output, a bit each. The caller frees the result by free(); NULL without memory. */
struct hsp_route *hsp_routes_new(const struct hsp_template *t, uint64_t adds);

#endif
