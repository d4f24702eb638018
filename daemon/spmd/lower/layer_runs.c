#include "daemon/spmd/lower/layer_runs.h"

#include "daemon/spmd/lower/stage_ir.h"

uint32_t hsp_unit_runs(const struct hsp_compiler *c, const struct hsp_code *code, uint32_t *ret_of,
                       struct hsp_unit_run *ret)
{
    uint32_t unit = HSP_NONE, n = 1;
    ret[0] = (struct hsp_unit_run){.first = 0, .behind_op = code->n};
    for (size_t i = 0; i < code->n; i++) {
        const struct hsp_step *st = &code->step[i];
        if (st->kind == HSP_I_OP) {
            uint32_t here = c->g->nodes[st->node].layer;
            if (unit == HSP_NONE) {
                ret[0].behind_op = i + 1;
            } else if (unit != here) {
                ret[n++] = (struct hsp_unit_run){.first = i, .behind_op = i + 1};
            }
            unit = here;
        }
        ret_of[i] = n - 1;
    }
    return n;
}
