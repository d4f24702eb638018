#include "worker/run/verify_bf16.h"

#include "worker/exec/state_init.h"
#include "worker/run/verify_match.h"
#include "worker/state/region.h"

/* Every place is twice as far, so everything has room for twice its bytes. */
void hsp_program_widen(struct hsp_program *p)
{
    for (uint32_t t = 0; t < p->tpl.n_tensors; t++) {
        struct hsp_ptensor *x = &p->tpl.tensors[t]; /* templates are shared: once more is no harm */
        x->dtype = x->dtype == HSP_BF16 ? HSP_F32 : x->dtype;
        if (x->cls != HSP_CLASS_STATE) {
            p->bind.tensor[t].offset *= 2;
            p->bind.tensor[t].slot_bytes *= 2;
        }
    }
    p->bind.memory_bytes *= 2;
    p->bind.host_bytes *= 2;
    p->bind.comm_bytes *= 2;
}

void hsp_verify_adopt(const struct hsp_program *ref, void *from, const struct hsp_program *p,
                      void *to)
{
    for (uint32_t k = 0; k < p->bind.n_state; k++) {
        uint32_t r = hsp_verify_state(ref, p, k);
        if (r != UINT32_MAX) {
            struct hsp_cell_view x = hsp_state_view(ref, r, from), y = hsp_state_view(p, k, to);
            hsp_region_copy(hsp_dtype_size(y.dtype), &y.box, &x.box, x.data, &y.box, y.data);
        }
    }
}
