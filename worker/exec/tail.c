#include "worker/exec/tail.h"

#include <stdlib.h>

/* How often each tensor is read and written by instructions; 255 stands for more, too. */
struct uses {
    uint8_t read, written;
};

static void count_up(uint8_t *n)
{
    *n = *n < UINT8_MAX ? *n + 1 : *n;
}

static void count_uses(const struct hsp_template *t, struct uses *u)
{
    for (uint32_t k = 0; k < t->n_instrs; k++) {
        const struct hsp_instr *i = &t->instrs[k];
        for (uint8_t j = 0; j < i->n_in; j++) {
            count_up(&u[i->in[j]].read);
        }
        for (uint8_t j = 0; j < i->n_out; j++) {
            count_up(&u[i->out[j]].written);
        }
    }
}

/* Whether @tensor only hands a value from one instruction to the next one that reads it. */
static bool is_passed_on(const struct hsp_template *t, const struct uses *u, uint32_t tensor)
{
    uint8_t cls = t->tensors[tensor].cls;
    return (cls == HSP_CLASS_SCRATCH || cls == HSP_CLASS_MICRO) && u[tensor].read == 1 &&
           u[tensor].written == 1;
}

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
    } else if (i->kind == HSP_I_ACC && i->in[0] == y) {
        tail->add = i->out[0];
    } else {
        return false;
    }
    tail->out = i->out[0];
    tail->n++;
    return true;
}

static struct hsp_tail tail_of(const struct hsp_template *t, const struct uses *u, uint32_t k,
                               uint32_t end)
{
    const struct hsp_instr *i = &t->instrs[k];
    struct hsp_tail tail = {.bias = HSP_NO_TENSOR, .add = HSP_NO_TENSOR, .out = i->out[0]};
    bool linear = is_op(i, HSP_OP_LINEAR);
    if (!linear && !is_op(i, HSP_OP_LINEAR_DX) && !is_op(i, HSP_OP_LINEAR_DW)) {
        return tail;
    }
    if (linear && k + 1 < end && is_passed_on(t, u, tail.out)) {
        (void)take(&tail, &t->instrs[k + 1], true);
    }
    k += tail.n;
    if (k + 1 < end && is_passed_on(t, u, tail.out)) {
        (void)take(&tail, &t->instrs[k + 1], false);
    }
    return tail;
}

struct hsp_tail *hsp_tails_new(const struct hsp_template *t)
{
    struct hsp_tail *ret = calloc((size_t)t->n_instrs + 1, sizeof *ret);
    struct uses *u = calloc((size_t)t->n_tensors + 1, sizeof *u);
    if (ret == NULL || u == NULL) {
        free(ret);
        free(u);
        return NULL;
    }
    count_uses(t, u);
    for (uint32_t p = 0; p < t->n_pieces; p++) {
        uint32_t end = t->pieces[p].first + t->pieces[p].n;
        for (uint32_t k = t->pieces[p].first; k < end; k++) {
            ret[k] = tail_of(t, u, k, end);
        }
    }
    free(u);
    return ret;
}
