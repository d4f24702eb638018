#include "daemon/graph/family_gpt.h"

#include <math.h> /* sqrt */

#include "daemon/graph/builder.h"

enum { FAMILY_HEADS, FAMILY_FFN, FAMILY_VOCAB };

static uint32_t layernorm(struct hsp_builder *b, uint32_t x, const char *name)
{
    struct hsp_attrs at = {.f = {1e-5}};
    struct hsp_param_def def = {.rank = 1, .d = {b->g->spec.hidden}, .tp_dim = -1};
    def.init = HSP_INIT_ONE;
    uint32_t gamma = hsp_build_param(b, hsp_build_name(b, "%s.weight", name), &def);
    def.init = HSP_INIT_ZERO;
    uint32_t beta = hsp_build_param(b, hsp_build_name(b, "%s.bias", name), &def);
    return hsp_build_op(b, HSP_OP_LAYERNORM, &at, (uint32_t[]){x, gamma, beta}, name);
}

/* One block after layer.l's input @x: attention and MLP, each with its residual. */
static uint32_t block(struct hsp_builder *b, uint32_t x, uint32_t l)
{
    const struct hsp_model_spec *m = &b->g->spec;
    int64_t e = m->hidden, d = m->hidden / m->heads;
    double residual = 0.02 / sqrt(2 * (double)m->layers);
    static const char *const parts[3] = {"q", "k", "v"};
    struct hsp_attrs at = {.i = {d, 1, 1}, .f = {1 / sqrt((double)d)}};
    struct hsp_param_def column = hsp_build_matrix(e, e, 0.02, 0, d, FAMILY_HEADS),
                         row = hsp_build_matrix(e, e, residual, 1, d, FAMILY_HEADS),
                         up = hsp_build_matrix(4 * e, e, 0.02, 0, 1, FAMILY_FFN),
                         down = hsp_build_matrix(e, 4 * e, residual, 1, 1, FAMILY_FFN);
    uint32_t qkv[3], a = layernorm(b, x, hsp_build_name(b, "h.%u.ln_1", l));
    for (int i = 0; i < 3; i++) {
        qkv[i] = hsp_build_linear(b, a, hsp_build_name(b, "h.%u.attn.%s", l, parts[i]), &column);
    }
    a = hsp_build_attention(b, &at, qkv, hsp_build_name(b, "h.%u.attn.heads", l));
    a = hsp_build_linear(b, a, hsp_build_name(b, "h.%u.attn.proj", l), &row);
    a = hsp_build_dropout(b, a, hsp_build_name(b, "h.%u.attn.drop", l));
    x = hsp_build_op(b, HSP_OP_ADD, NULL, (uint32_t[]){x, a}, hsp_build_name(b, "h.%u.attn", l));
    a = layernorm(b, x, hsp_build_name(b, "h.%u.ln_2", l));
    a = hsp_build_linear(b, a, hsp_build_name(b, "h.%u.mlp.fc", l), &up);
    a = hsp_build_op(b, HSP_OP_GELU, NULL, &a, hsp_build_name(b, "h.%u.mlp.act", l));
    a = hsp_build_linear(b, a, hsp_build_name(b, "h.%u.mlp.proj", l), &down);
    a = hsp_build_dropout(b, a, hsp_build_name(b, "h.%u.mlp.drop", l));
    return hsp_build_op(b, HSP_OP_ADD, NULL, (uint32_t[]){x, a}, hsp_build_name(b, "h.%u", l));
}

void hsp_build_gpt(struct hsp_builder *b)
{
    const struct hsp_model_spec *m = &b->g->spec;
    struct hsp_extent batch = {HSP_EXT_BATCH, 1}, seq = {HSP_EXT_SEQ, 1};
    bool cut = m->vocab_chunks > 0;
    int64_t rows = m->positions > 0 ? m->positions : m->sequence;
    struct hsp_param_def token =
                             hsp_build_matrix(m->vocab, m->hidden, 0.02, cut ? 0 : -1,
                                              cut ? m->vocab / m->vocab_chunks : 1, FAMILY_VOCAB),
                         place = hsp_build_matrix(rows, m->hidden, 0.02, -1, 1, 0);
    uint32_t layers = (uint32_t)m->layers;
    b->layer = 0;
    uint32_t ids = hsp_build_input(b, "ids", HSP_LOAD_IDS, batch, seq);
    uint32_t positions = hsp_build_input(b, "positions", HSP_LOAD_POSITIONS, batch, seq);
    uint32_t wte = hsp_build_param(b, "wte.weight", &token);
    uint32_t wpe = hsp_build_param(b, "wpe.weight", &place);
    uint32_t t = hsp_build_op(b, HSP_OP_EMBED, NULL, (uint32_t[]){ids, wte}, "wte");
    uint32_t p = hsp_build_op(b, HSP_OP_EMBED, NULL, (uint32_t[]){positions, wpe}, "wpe");
    uint32_t x = hsp_build_op(b, HSP_OP_ADD, NULL, (uint32_t[]){t, p}, "embed");
    x = hsp_build_dropout(b, x, "embed.drop");
    for (uint32_t l = 0; l < layers && b->st == HSP_OK; l++) {
        b->layer = l + 1;
        x = block(b, x, l);
    }
    b->layer = layers + 1;
    x = layernorm(b, x, "ln_f");
    uint32_t head = m->tied_head ? wte : hsp_build_param(b, "lm_head.weight", &token);
    x = hsp_build_op(b, HSP_OP_LINEAR, NULL, (uint32_t[]){x, head}, "lm_head");
    hsp_build_loss(b, x, seq);
}
