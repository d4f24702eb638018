/* Runs a single-device graph with the oracle's formulas: the unsharded truth for tests.
 *
 * Ownership: the values own their memory. Every floating-point tensor is fp64 for any dtype of the
 * model; the seed is 1 from the start, everything else 0. */
#ifndef HSP_NAIVE_GRAPH_H
#define HSP_NAIVE_GRAPH_H
#include "daemon/graph/graph.h"
#include "tests/lib/naive_ops.h"

struct hsp_naive_values {
    const struct hsp_graph *g; /* borrowed */
    int64_t batch;
    struct hsp_array *v; /* by tensor */
};

void hsp_naive_values_init(struct hsp_naive_values *x, const struct hsp_graph *g, int64_t batch);
void hsp_naive_values_fini(struct hsp_naive_values *x);

/* Fills parameters with normal numbers of deviation @std (norm weights around 1), ids and labels at
 * random with some labels -1, positions 0, 1, .. */
void hsp_naive_values_random(struct hsp_naive_values *x, uint64_t seed, double std);

/* Nodes [from, to) in order. */
void hsp_naive_run(struct hsp_naive_values *x, uint32_t from, uint32_t to);

/* Sum of the contributions to the gradient of element @i of parameter @p. */
double hsp_naive_grad(const struct hsp_naive_values *x, uint32_t p, int64_t i);

#endif
