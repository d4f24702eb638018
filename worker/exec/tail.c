#include "worker/exec/tail.h"

#include <stdlib.h>

#include "worker/exec/uses.h"

static bool is_op(const struct hsp_instr *i, enum hsp_op op)
{
    return i->kind == HSP_I_OP && i->op == op;
}

/* Takes @i along, when it reads what the tail makes and adds to it. */
static bool take(struct hsp_tail *tail, const struct hsp_instr *i, bool bias)
{
    uint32_t y = tail->out;
    if (bias) {
        if (!is_op(i, HSP_OP_BIAS_ADD) || i->in[0] != y || i->in[1] == y) {
            return false;
        }
        tail->bias = i->in[1];
    } else if (is_op(i, HSP_OP_ADD)) {
        if ((i->in[0] == y) == (i->in[1] == y)) {
            return false;
        }
        tail->add = i->in[i->in[0] == y ? 1 : 0];
    } else {
        return false;
    }
    tail->out = i->out[0];
    tail->n++;
    return true;
}

static struct hsp_tail tail_of(const struct hsp_template *t, const struct hsp_uses *u, uint32_t k,
                               uint32_t end)
{
    const struct hsp_instr *i = &t->instrs[k];
    struct hsp_tail tail = {.bias = HSP_NO_TENSOR, .add = HSP_NO_TENSOR, .out = i->out[0]};
    bool linear = is_op(i, HSP_OP_LINEAR);
    if (!linear && !is_op(i, HSP_OP_LINEAR_DX)) {
        return tail;
    }
    if (linear && k + 1 < end && hsp_is_passed_on(t, u, tail.out)) {
        (void)take(&tail, &t->instrs[k + 1], true);
    }
    k += tail.n;
    if (k + 1 < end && hsp_is_passed_on(t, u, tail.out)) {
        (void)take(&tail, &t->instrs[k + 1], false);
    }
    return tail;
}

struct hsp_tail *hsp_tails_new(const struct hsp_template *t)
{
    struct hsp_tail *ret = calloc((size_t)t->n_instrs + 1, sizeof *ret);
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
