#include "daemon/graph/family_llama.h"

#include <math.h> /* sqrt */

#include "daemon/graph/builder.h"

enum { FAMILY_HEADS, FAMILY_FFN, FAMILY_VOCAB };

static uint32_t rmsnorm(struct hsp_builder *b, uint32_t x, const char *name)
{
    struct hsp_attrs at = {.f = {b->g->spec.rms_norm_eps}};
    struct hsp_param_def def = {
        .rank = 1, .d = {b->g->spec.hidden}, .init = HSP_INIT_ONE, .tp_dim = -1};
    uint32_t gamma = hsp_build_param(b, hsp_build_name(b, "%s.weight", name), &def);
    return hsp_build_op(b, HSP_OP_RMSNORM, &at, (uint32_t[]){x, gamma}, name);
}

/* y = x w^T with weight @name.weight. */
static uint32_t product(struct hsp_builder *b, uint32_t x, const char *name,
                        const struct hsp_param_def *weight)
{
    uint32_t w = hsp_build_param(b, hsp_build_name(b, "%s.weight", name), weight);
    return hsp_build_op(b, HSP_OP_LINEAR, NULL, (uint32_t[]){x, w}, name);
}

/* One unit of a cut is a key head with the query heads that share it. */
static uint32_t attention(struct hsp_builder *b, uint32_t x, uint32_t positions, const char *name)
{
    const struct hsp_model_spec *m = &b->g->spec;
    int64_t e = m->hidden, d = e / m->heads, group = m->heads / m->kv_heads;
    double residual = 0.02 / sqrt(2 * (double)m->layers);
    struct hsp_attrs turn = {.i = {d}, .f = {m->rope_theta}};
    struct hsp_attrs at = {.i = {d, 1, group}, .f = {1 / sqrt((double)d)}};
    struct hsp_param_def query = hsp_build_matrix(e, e, 0.02, 0, group * d, FAMILY_HEADS),
                         key = hsp_build_matrix(m->kv_heads * d, e, 0.02, 0, d, FAMILY_HEADS),
                         row = hsp_build_matrix(e, e, residual, 1, group * d, FAMILY_HEADS);
    uint32_t qkv[3] = {product(b, x, hsp_build_name(b, "%s.q_proj", name), &query),
                       product(b, x, hsp_build_name(b, "%s.k_proj", name), &key),
                       product(b, x, hsp_build_name(b, "%s.v_proj", name), &key)};
    for (int i = 0; i < 2; i++) {
        qkv[i] = hsp_build_op(b, HSP_OP_ROPE, &turn, (uint32_t[]){positions, qkv[i]},
                              hsp_build_name(b, "%s.%c_rope", name, "qk"[i]));
    }
    uint32_t a = hsp_build_attention(b, &at, qkv, hsp_build_name(b, "%s.heads", name));
    return product(b, a, hsp_build_name(b, "%s.o_proj", name), &row);
}

/* Block @l after its input @x: attention and MLP, each with its residual. */
static uint32_t block(struct hsp_builder *b, uint32_t x, uint32_t positions, uint32_t l)
{
    const struct hsp_model_spec *m = &b->g->spec;
    int64_t e = m->hidden, f = m->intermediate;
    const char *at = hsp_build_name(b, "model.layers.%u", l);
    struct hsp_param_def up = hsp_build_matrix(f, e, 0.02, 0, 1, FAMILY_FFN),
                         down = hsp_build_matrix(e, f, 0.02 / sqrt(2 * (double)m->layers), 1, 1,
                                                 FAMILY_FFN);
    uint32_t a = rmsnorm(b, x, hsp_build_name(b, "%s.input_layernorm", at));
    a = attention(b, a, positions, hsp_build_name(b, "%s.self_attn", at));
    a = hsp_build_dropout(b, a, hsp_build_name(b, "%s.self_attn.drop", at));
    x = hsp_build_op(b, HSP_OP_ADD, NULL, (uint32_t[]){x, a},
                     hsp_build_name(b, "%s.self_attn", at));
    a = rmsnorm(b, x, hsp_build_name(b, "%s.post_attention_layernorm", at));
    uint32_t gate[2] = {product(b, a, hsp_build_name(b, "%s.mlp.gate_proj", at), &up),
                        product(b, a, hsp_build_name(b, "%s.mlp.up_proj", at), &up)};
    a = hsp_build_op(b, HSP_OP_SWIGLU, NULL, gate, hsp_build_name(b, "%s.mlp.act", at));
    a = product(b, a, hsp_build_name(b, "%s.mlp.down_proj", at), &down);
    a = hsp_build_dropout(b, a, hsp_build_name(b, "%s.mlp.drop", at));
    return hsp_build_op(b, HSP_OP_ADD, NULL, (uint32_t[]){x, a}, at);
}

void hsp_build_llama(struct hsp_builder *b)
{
    const struct hsp_model_spec *m = &b->g->spec;
    struct hsp_extent batch = {HSP_EXT_BATCH, 1}, seq = {HSP_EXT_SEQ, 1};
    bool cut = m->vocab_chunks > 0;
    struct hsp_param_def token =
        hsp_build_matrix(m->vocab, m->hidden, 0.02, cut ? 0 : -1,
                         cut ? m->vocab / m->vocab_chunks : 1, FAMILY_VOCAB);
    uint32_t layers = (uint32_t)m->layers;
    b->layer = 0;
    uint32_t ids = hsp_build_input(b, "ids", HSP_LOAD_IDS, batch, seq);
    uint32_t positions = hsp_build_input(b, "positions", HSP_LOAD_POSITIONS, batch, seq);
    uint32_t table = hsp_build_param(b, "model.embed_tokens.weight", &token);
    uint32_t x =
        hsp_build_op(b, HSP_OP_EMBED, NULL, (uint32_t[]){ids, table}, "model.embed_tokens");
    x = hsp_build_dropout(b, x, "model.embed_tokens.drop");
    for (uint32_t l = 0; l < layers && b->st == HSP_OK; l++) {
        b->layer = l + 1;
        x = block(b, x, positions, l);
    }
    b->layer = layers + 1;
    x = rmsnorm(b, x, "model.norm");
    uint32_t head = m->tied_head ? table : hsp_build_param(b, "lm_head.weight", &token);
    x = hsp_build_op(b, HSP_OP_LINEAR, NULL, (uint32_t[]){x, head}, "lm_head");
    hsp_build_loss(b, x, seq);
}
