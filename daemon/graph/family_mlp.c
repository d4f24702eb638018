#include "daemon/graph/family_mlp.h"

#include <math.h> /* sqrt */

#include "daemon/graph/builder.h"

enum { FAMILY_HIDDEN };

static struct hsp_param_def weight(int64_t out, int64_t in, double std, uint32_t index)
{
    return (struct hsp_param_def){.rank = 2,
                                  .d = {out, in},
                                  .init = HSP_INIT_NORMAL,
                                  .std = std,
                                  .tp_dim = (int8_t)(index % 2),
                                  .tp_grain = 1,
                                  .tp_family = FAMILY_HIDDEN};
}

static uint32_t head(struct hsp_builder *b, uint32_t x, uint32_t table)
{
    const struct hsp_model_spec *m = &b->g->spec;
    struct hsp_param_def w = weight(m->vocab, m->hidden, 0.02, (uint32_t)m->layers);
    if (w.tp_dim == 0) { /* whole logits are needed: no column half without a row half */
        w.tp_dim = -1;
    }
    if (!m->tied_head) {
        return hsp_build_linear(b, x, "head", &w);
    }
    struct hsp_param_def bias = {.rank = 1, .d = {m->vocab}, .init = HSP_INIT_ZERO, .tp_dim = -1};
    uint32_t y = hsp_build_op(b, HSP_OP_LINEAR, NULL, (uint32_t[]){x, table}, "head.product");
    uint32_t v = hsp_build_param(b, "head.bias", &bias);
    return hsp_build_op(b, HSP_OP_BIAS_ADD, NULL, (uint32_t[]){y, v}, "head");
}

void hsp_build_mlp(struct hsp_builder *b)
{
    const struct hsp_model_spec *m = &b->g->spec;
    struct hsp_extent batch = {HSP_EXT_BATCH, 1}, seq = {HSP_EXT_SEQ, 1}, one = {HSP_EXT_CONST, 1};
    struct hsp_param_def table = {.rank = 2,
                                  .d = {m->vocab, m->hidden},
                                  .init = HSP_INIT_NORMAL,
                                  .std = m->tied_head ? 0.02 : 1,
                                  .tp_dim = -1};
    struct hsp_attrs at = {.i = {m->hidden}};
    uint32_t layers = (uint32_t)m->layers;
    b->layer = 0;
    uint32_t ids = hsp_build_input(b, "ids", HSP_LOAD_IDS, batch, seq);
    uint32_t embed = hsp_build_param(b, "embed.weight", &table);
    uint32_t x = hsp_build_op(b, HSP_OP_EMBED, NULL, (uint32_t[]){ids, embed}, "embed");
    x = hsp_build_op(b, HSP_OP_FLATTEN, &at, &x, "context");
    for (uint32_t l = 0; l < layers && b->st == HSP_OK; l++) {
        int64_t in = l == 0 ? m->sequence * m->hidden : m->hidden;
        struct hsp_param_def w = weight(m->hidden, in, sqrt(2 / (double)in), l);
        b->layer = l + 1;
        x = hsp_build_linear(b, x, hsp_build_name(b, "layers.%u", l), &w);
        x = hsp_build_op(b, HSP_OP_GELU, NULL, &x, hsp_build_name(b, "layers.%u.act", l));
        x = hsp_build_dropout(b, x, hsp_build_name(b, "layers.%u.drop", l));
    }
    b->layer = layers + 1;
    x = head(b, x, embed);
    hsp_build_loss(b, x, one);
}
