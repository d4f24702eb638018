#include "worker/exec/operand.h"

#include "worker/exec/engine_impl.h"

struct hsp_cell_view hsp_engine_view(const struct hsp_engine *e, uint32_t tensor, uint32_t micro)
{
    const struct hsp_ptensor *p = &e->t->tensors[tensor];
    const struct hsp_tensor_bind *b = &e->b->tensor[tensor];
    struct hsp_cell_view v = {.box = b->box, .dtype = (enum hsp_dtype)p->dtype};
    if (p->cls == HSP_CLASS_STATE) {
        v.data = (uint8_t *)e->o.state + b->offset;
    } else {
        uint8_t *area = p->cls == HSP_CLASS_HOST ? e->host : e->memory;
        v.data = area + b->offset + (int64_t)(micro % b->n_slots) * b->slot_bytes;
    }
    if (b->batch_dim0 && e->warm_seqs > 0 && e->warm_seqs < v.box.hi[0]) {
        v.box.hi[0] = e->warm_seqs;
    }
    bool runs = e->sched != NULL || e->rehearses != HSP_REHEARSE_NONE;
    if (b->batch_dim0 && runs && micro < e->sheet.n_micro) {
        v.box.hi[0] = e->sheet.micro[micro].n_seq;
    }
    return v;
}
