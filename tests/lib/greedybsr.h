/* Gives the yardstick of the batched send-receive of daemon/migrate/bsr.h: the published ways to
 * plan it, and the published failure of one device of 32. */
#ifndef HSP_GREEDYBSR_H
#define HSP_GREEDYBSR_H
#include "daemon/migrate/bsr.h"

enum hsp_plain_rule {
    HSP_PLAIN_MIN_RANK, /* the smallest rank that has it */
    HSP_PLAIN_GREEDY,   /* the nearest that has it, of these the one with the least to send */
};
/* Rows straight from a holder to each receiver. Fails the running program without memory. */
enum hsp_status hsp_plain_bsr(const struct hsp_graph *g, const struct hsp_cover *have,
                              const struct hsp_cover *want, const struct hsp_bsr_net *net,
                              enum hsp_plain_rule rule, struct hsp_arena *arena,
                              struct hsp_state_table *ret, struct hsp_err *err);

/* Hetu v2, Llama 32B on 32 H20, four nodes of eight: C1 is two pipelines of four stages of four;
 * device 31 fails; C2 is the plan without it. 12 bytes of state per parameter; embeddings and norms
 * ignored. */
struct hsp_hetu_case {
    struct hsp_arena *arena;
    struct hsp_graph *g;
    struct hsp_cover *have, *want; /* [g->n_params]; rank r is device r */
    struct hsp_bsr_net net;        /* 31 ranks, one card each */
    struct hsp_bsr_opts opts;
};
enum hsp_status hsp_hetu_init(struct hsp_hetu_case *c, struct hsp_err *err);
void hsp_hetu_fini(struct hsp_hetu_case *c);

#endif
