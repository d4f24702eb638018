#include "worker/exec/fuse_epilogue.h"

#include <stdlib.h>

#include "worker/exec/tensor_uses.h"

static bool is_op(const struct hsp_instr *i, enum hsp_op op)
{
    return i->kind == HSP_I_OP && i->op == op;
}

/* Adds @i to the epilogue if @i reads the result of the epilogue once and adds to it. Returns
 * whether it did. */
static bool take(struct hsp_epilogue *epilogue, const struct hsp_instr *i, bool bias)
{
    uint32_t y = epilogue->out;
    if (bias) {
        if (!is_op(i, HSP_OP_BIAS_ADD) || i->in[0] != y || i->in[1] == y) {
            return false;
        }
        epilogue->bias = i->in[1];
    } else if (is_op(i, HSP_OP_ADD)) {
        if ((i->in[0] == y) == (i->in[1] == y)) {
            return false;
        }
        epilogue->add = i->in[i->in[0] == y ? 1 : 0];
    } else {
        return false;
    }
    epilogue->out = i->out[0];
    epilogue->n++;
    return true;
}

/* Returns the epilogue of instruction @k, in a piece that ends before @end. */
static struct hsp_epilogue tail_of(const struct hsp_template *t, const struct hsp_uses *u,
                                   uint32_t k, uint32_t end)
{
    const struct hsp_instr *i = &t->instrs[k];
    struct hsp_epilogue epilogue = {.bias = HSP_NO_TENSOR, .add = HSP_NO_TENSOR, .out = i->out[0]};
    bool linear = is_op(i, HSP_OP_LINEAR);
    if (!linear && !is_op(i, HSP_OP_LINEAR_DX)) {
        return epilogue;
    }
    if (linear && k + 1 < end && hsp_is_passed_on(t, u, epilogue.out)) {
        (void)take(&epilogue, &t->instrs[k + 1], true);
    }
    k += epilogue.n;
    if (k + 1 < end && hsp_is_passed_on(t, u, epilogue.out)) {
        (void)take(&epilogue, &t->instrs[k + 1], false);
    }
    return epilogue;
}

struct hsp_epilogue *hsp_epilogues_new(const struct hsp_template *t)
{
    struct hsp_epilogue *ret = calloc((size_t)t->n_instrs + 1, sizeof *ret);
    struct hsp_uses *u = hsp_uses_new(t);
    if (ret == NULL || u == NULL) {
        free(ret);
        free(u);
        return NULL;
    }
    for (uint32_t p = 0; p < t->n_pieces; p++) {
        uint32_t end = t->pieces[p].first + t->pieces[p].n;
        for (uint32_t k = t->pieces[p].first; k < end; k++) {
            ret[k] = tail_of(t, u, k, end);
        }
    }
    free(u);
    return ret;
}
