#include "worker/exec/tensor_uses.h"

#include <stdlib.h>

static void count_up(uint8_t *n)
{
    *n = *n < UINT8_MAX ? *n + 1 : *n;
}

struct hsp_uses *hsp_uses_new(const struct hsp_template *t)
{
    struct hsp_uses *u = calloc((size_t)t->n_tensors + 1, sizeof *u);
    for (uint32_t k = 0; u != NULL && k < t->n_instrs; k++) {
        const struct hsp_instr *i = &t->instrs[k];
        for (uint8_t j = 0; j < i->n_in; j++) {
            count_up(&u[i->in[j]].read);
            u[i->in[j]].reader = k;
        }
        for (uint8_t j = 0; j < i->n_out; j++) {
            count_up(&u[i->out[j]].written);
        }
    }
    return u;
}

bool hsp_is_passed_on(const struct hsp_template *t, const struct hsp_uses *u, uint32_t tensor)
{
    uint8_t cls = t->tensors[tensor].cls;
    return (cls == HSP_CLASS_SCRATCH || cls == HSP_CLASS_MICRO) && u[tensor].read == 1 &&
           u[tensor].written == 1;
}
