#include "tests/lib/naive_graph.h"

#include "proto/base/rng.h"
#include "tests/lib/testlib.h"

void hsp_naive_values_init(struct hsp_naive_values *x, const struct hsp_graph *g, int64_t batch)
{
    *x = (struct hsp_naive_values){.g = g, .batch = batch};
    x->v = calloc(g->n_tensors, sizeof *x->v);
    assert_non_null(x->v);
    for (uint32_t t = 0; t < g->n_tensors; t++) {
        struct hsp_array *a = &x->v[t];
        a->dtype = g->tensors[t].dtype == HSP_I32 ? HSP_I32 : HSP_F64;
        a->rank = g->tensors[t].rank;
        hsp_tensor_extents(g, t, batch, a->ext);
        a->data = calloc((size_t)hsp_naive_count(a) + 1, hsp_dtype_size(a->dtype));
        assert_non_null(a->data);
    }
    if (g->seed != HSP_NONE) {
        hsp_naive_put(&x->v[g->seed], 0, 1);
    }
}

void hsp_naive_values_fini(struct hsp_naive_values *x)
{
    for (uint32_t t = 0; t < x->g->n_tensors; t++) {
        free(x->v[t].data);
    }
    free(x->v);
    x->v = NULL;
}

static void fill_input(struct hsp_naive_values *x, uint64_t seed, uint32_t t)
{
    const struct hsp_array *a = &x->v[t];
    const struct hsp_model_spec *m = &x->g->spec;
    for (int64_t i = 0; i < hsp_naive_count(a); i++) {
        int64_t v = (int64_t)hsp_rng_below((uint64_t)m->vocab, seed, t, (uint64_t)i, 1);
        if (x->g->tensors[t].load == HSP_LOAD_POSITIONS) {
            v = i % a->ext[1];
        } else if (x->g->tensors[t].load == HSP_LOAD_STARTS) {
            v = i % a->ext[1] / 2 * 2; /* documents of two tokens */
        } else if (x->g->tensors[t].load == HSP_LOAD_LABELS && i % 5 == 3) {
            v = -1;
        }
        hsp_naive_put(a, i, (double)v);
    }
}

void hsp_naive_values_random(struct hsp_naive_values *x, uint64_t seed, double std)
{
    for (uint32_t t = 0; t < x->g->n_tensors; t++) {
        const struct hsp_tensor *k = &x->g->tensors[t];
        if (k->kind == HSP_TENSOR_INPUT) {
            fill_input(x, seed, t);
        } else if (k->kind == HSP_TENSOR_PARAM) {
            double mean = x->g->params[k->param].init == HSP_INIT_ONE ? 1 : 0;
            for (int64_t i = 0; i < hsp_naive_count(&x->v[t]); i++) {
                hsp_naive_put(&x->v[t], i, mean + std * hsp_rng_normal(seed, t, (uint64_t)i, 0));
            }
        }
    }
}

void hsp_naive_run(struct hsp_naive_values *x, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        const struct hsp_node *n = &x->g->nodes[i];
        struct hsp_array in[HSP_MAX_IN] = {0}, out[HSP_MAX_OUT] = {0};
        for (uint8_t k = 0; k < n->n_in; k++) {
            in[k] = x->v[n->in[k]];
        }
        for (uint8_t k = 0; k < n->n_out; k++) {
            if (n->out[k] != HSP_NONE) {
                out[k] = x->v[n->out[k]];
            }
        }
        hsp_naive_op(&(struct hsp_call){.op = (enum hsp_op)n->op,
                                        .at = &n->at,
                                        .n_in = n->n_in,
                                        .n_out = n->n_out,
                                        .in = in,
                                        .out = out});
    }
}

double hsp_naive_grad(const struct hsp_naive_values *x, uint32_t p, int64_t i)
{
    const struct hsp_param *param = &x->g->params[p];
    double sum = 0;
    for (uint32_t k = 0; k < param->n_grads; k++) {
        sum += hsp_naive_get(&x->v[param->grad[k]], i);
    }
    return sum;
}
