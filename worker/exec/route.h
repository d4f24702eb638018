/* Where the outputs of instructions are written: into the tensor the program names, or right to where
 * the next instruction would bring them.
 *
 *   sums of gradients   a backend that can add to what is there (hsp_backend.adds) makes a gradient and its
 *                       addition in one pass, and the gradient itself is not written;
 *   their beginning     what comes first in a step is written instead of added, and the sum need not
 *                       be zero before;
 *   statistics          a number that only the vote reads is written into the host's memory.
 *
 * Role:   read off the program when an engine is opened; programs do not change.
 * Purity: pure.
 */
#ifndef HSP_ROUTE_H
#define HSP_ROUTE_H
#include "proto/program/program.h"

#define HSP_NO_TENSOR UINT32_MAX

struct hsp_route {
    /* of an op, by output: the sum it is added to, or HSP_NO_TENSOR; of those in the mask @stats,
     * how many statistics of the piece come before */
    uint32_t out[HSP_MAX_OUT];
    uint8_t sums, stats; /* masks of outputs */
    uint8_t
        begins; /* of those in @sums, of an accumulation bit 0: the sum begins here when its piece runs
                            for the first time in a step */
    bool done;         /* an accumulation or a statistic: the op before has done it */
    uint32_t begun_by; /* of a zero: the piece whose first run makes it needless; or HSP_NO_PIECE */
};
#define HSP_NO_PIECE UINT32_MAX

/* The routes of all instructions of @t, a program that was checked. @adds: ops, a bit each, that can add to
 * what is there. To be freed by free(); NULL without memory. */
struct hsp_route *hsp_routes_new(const struct hsp_template *t, uint64_t adds);

#endif
