#include "daemon/spmd/lower/node_place.h"

#include "daemon/spmd/sharding/pipeline_units.h"

struct hsp_stagecode *hsp_node_place(const struct hsp_compiler *c, uint32_t pipeline,
                                     const struct hsp_node *n, uint32_t *ret_part)
{
    uint32_t stage, chunk;
    hsp_place_of_unit(&c->p->pipelines[pipeline], n->layer, &stage, &chunk);
    *ret_part = hsp_part_at(n->backward ? HSP_PART_BACKWARD : HSP_PART_FORWARD, chunk);
    return &c->stage[c->first_stage[pipeline] + stage];
}

uint32_t hsp_grads_here(const struct hsp_compiler *c, const struct hsp_stagecode *s, uint32_t param)
{
    const struct hsp_param *p = &c->g->params[param];
    uint32_t n = 0, part;
    for (uint32_t i = 0; i < p->n_grads; i++) {
        const struct hsp_node *node = &c->g->nodes[c->g->tensors[p->grad[i]].producer];
        n += hsp_node_place(c, s->pipeline, node, &part) == s ? 1 : 0;
    }
    return n;
}
