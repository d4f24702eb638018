/* Finds instructions that a backend can start with one call (a fused, or multi-tensor, launch).
 *
 *   many    one op over many tensors, for example the 50 updates of AdamW in a step, square sums,
 *           or copies to bf16. No call writes a tensor of another.
 *   chain   ops over the same rows: the gradient of a norm, its sum with that of the other branch,
 *           and the sums over rows that read both; or the gradient of an activation and the sums
 *           over its rows.
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
    /* consecutive instructions of this launch, from this one on, including those that its ops make
     * redundant; 0: the instruction is not fused */
    uint32_t n;
    uint8_t calls; /* ops of the launch that are given to the backend */
    bool chain;
};

/* The launches of @p, a checked program, one element for each instruction; only pieces of the
 * compute queue have any. @r: routes of the program. @many: ops that run_many takes, a bit each.
 * @chains: chains, too. The caller frees the result by free(); NULL without memory. */
struct hsp_fused_launch *hsp_fused_launches_new(const struct hsp_program *p,
                                                const struct hsp_route *r, uint64_t many,
                                                bool chains);

#endif
