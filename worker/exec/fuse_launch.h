/* Finds instructions that a backend can start with one call (a fused, or multi-tensor, launch).
 *
 *   many    calls of one op over different tensors, for example the 50 updates of AdamW in a step,
 *           square sums, or copies to bf16. No call writes memory that another call of the launch
 *           reads or writes.
 *   chain   ops over the same rows: the gradient of a norm's input, the addition of the other
 *           branch's gradient, and the sums over rows that read these two (gradients of the norm's
 *           weights and of a bias); or the gradient of an activation and the sums over its rows.
 *
 * Role:   a fusion pass that runs when an engine is opened, for backends with run_many or
 *         run_chain. The program itself does not change.
 * Purity: pure.
 */
#ifndef HSP_FUSE_LAUNCH_H
#define HSP_FUSE_LAUNCH_H
#include "worker/exec/output_route.h"

#define HSP_MANY_CALLS  56 /* most calls at once */
#define HSP_CHAIN_CALLS 4

struct hsp_fused_launch {
    /* number of consecutive instructions that the launch replaces, this instruction included: its
     * ops, and the instructions whose work its ops do (output_route.h). 0: the instruction does not
     * begin a launch */
    uint32_t n;
    uint8_t calls; /* ops of the launch that are given to the backend */
    bool chain;
};

/* Finds the fused launches of @p, a checked program: returns one element for each instruction. Only
 * pieces of the compute queue have launches. @r: the routes of the program. @many: the ops that
 * run_many takes, a bit each. @chains: chains are found, too. The caller frees the result by
 * free(). Returns NULL without memory. */
struct hsp_fused_launch *hsp_fused_launches_new(const struct hsp_program *p,
                                                const struct hsp_route *r, uint64_t many,
                                                bool chains);

#endif
