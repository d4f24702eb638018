#include "daemon/graph/graph_build.h"

#include <string.h> /* strcmp */

#include "daemon/graph/autodiff.h"
#include "daemon/graph/builder.h"
#include "daemon/graph/family_gpt.h"
#include "daemon/graph/family_llama.h"
#include "daemon/graph/family_mlp.h"
#include "proto/base/size.h"

enum {
    ARENA_BYTES = 256 << 20, /* more than HSP_MAX_GRAPH_NODES and _TENSORS need */
    MAX_LAYERS = 512,
    MAX_HIDDEN = 1 << 16,
    MAX_INTERMEDIATE = 1 << 20,
    MAX_VOCAB = 1 << 24,
    MAX_SEQUENCE = 1 << 20
};

static const struct {
    const char *name;
    void (*build)(struct hsp_builder *b);
} families[] = {{"gpt", hsp_build_gpt}, {"llama", hsp_build_llama}, {"mlp", hsp_build_mlp}};

static enum hsp_status check_range(const char *what, int64_t v, int64_t min, int64_t max,
                                   struct hsp_err *err)
{
    if (v < min || v > max) {
        return hsp_err_set(err, HSP_EINVAL, 0, "model: %s %lld is outside %lld to %lld", what,
                           (long long)v, (long long)min, (long long)max);
    }
    return HSP_OK;
}

/* Checks the numbers that only a family with attention has. */
static enum hsp_status check_heads(const struct hsp_model_spec *m, struct hsp_err *err)
{
    bool llama = strcmp(m->family, "llama") == 0;
    if (!llama && strcmp(m->family, "gpt") != 0) {
        return HSP_OK;
    }
    enum hsp_status st = check_range("heads", m->heads, 1, m->hidden, err);
    if (st == HSP_OK && m->hidden % m->heads != 0) {
        st = hsp_err_set(err, HSP_EINVAL, 0, "model: heads %lld do not divide hidden %lld",
                         (long long)m->heads, (long long)m->hidden);
    }
    if (st != HSP_OK || !llama) {
        return st;
    }
    st = check_range("kv_heads", m->kv_heads, 1, m->heads, err);
    st = st == HSP_OK ? check_range("intermediate", m->intermediate, 1, MAX_INTERMEDIATE, err) : st;
    if (st == HSP_OK && m->heads % m->kv_heads != 0) {
        st = hsp_err_set(err, HSP_EINVAL, 0, "model: kv_heads %lld do not divide heads %lld",
                         (long long)m->kv_heads, (long long)m->heads);
    }
    if (st == HSP_OK && m->hidden / m->heads % 2 != 0) {
        st = hsp_err_set(err, HSP_EINVAL, 0, "model: heads of %lld: rotary positions take pairs",
                         (long long)(m->hidden / m->heads));
    }
    if (st == HSP_OK && !(m->rope_theta >= 1 && m->rms_norm_eps > 0)) {
        st = hsp_err_set(err, HSP_EINVAL, 0, "model: rope_theta %g or rms_norm_eps %g out of range",
                         m->rope_theta, m->rms_norm_eps);
    }
    return st;
}

static enum hsp_status check_spec(const struct hsp_model_spec *m, struct hsp_err *err)
{
    enum hsp_status st = check_range("layers", m->layers, 1, MAX_LAYERS, err);
    st = st == HSP_OK ? check_range("hidden", m->hidden, 1, MAX_HIDDEN, err) : st;
    st = st == HSP_OK ? check_range("vocab", m->vocab, 2, MAX_VOCAB, err) : st;
    st = st == HSP_OK ? check_range("sequence", m->sequence, 1, MAX_SEQUENCE, err) : st;
    if (st == HSP_OK && m->positions != 0) {
        st = check_range("positions", m->positions, m->sequence, MAX_SEQUENCE, err);
    }
    st = st == HSP_OK ? check_heads(m, err) : st;
    if (st == HSP_OK && m->vocab_chunks != 0 &&
        (m->vocab_chunks < 0 || m->vocab % m->vocab_chunks != 0 || strcmp(m->family, "mlp") == 0)) {
        st = hsp_err_set(err, HSP_EINVAL, 0, "model: %s cannot cut vocab %lld in %lld chunks",
                         m->family, (long long)m->vocab, (long long)m->vocab_chunks);
    }
    if (st == HSP_OK && !(m->dropout >= 0 && m->dropout < 1)) {
        st = hsp_err_set(err, HSP_EINVAL, 0, "model: dropout %g is not in [0, 1)", m->dropout);
    }
    if (st == HSP_OK && m->dtype != HSP_F32 && m->dtype != HSP_F64) {
        st = hsp_err_set(err, HSP_EINVAL, 0, "model: dtype is neither fp32 nor fp64");
    }
    if (st == HSP_OK && m->compute != HSP_COMPUTE_FULL && m->dtype != HSP_F32) {
        st = hsp_err_set(err, HSP_EINVAL, 0, "model: computing in %s goes with state in fp32",
                         hsp_compute_name(m));
    }
    return st;
}

static enum hsp_status find_family(const char *name, size_t *ret, struct hsp_err *err)
{
    const char *known[HSP_ARRAY_LEN(families)];
    for (size_t i = 0; i < HSP_ARRAY_LEN(families); i++) {
        known[i] = families[i].name;
        if (strcmp(name, known[i]) == 0) {
            *ret = i;
            return HSP_OK;
        }
    }
    return hsp_err_set(err, HSP_EINVAL, 0, "model: unknown family \"%s\" (gpt, llama, mlp)", name);
}

enum hsp_status hsp_graph_build(const struct hsp_model_spec *spec, struct hsp_graph **ret,
                                struct hsp_err *err)
{
    size_t family = 0;
    enum hsp_status st = find_family(spec->family, &family, err);
    st = st == HSP_OK ? check_spec(spec, err) : st;
    if (st != HSP_OK) {
        return st;
    }
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct hsp_graph *g = arena != NULL ? hsp_arena_alloc(arena, sizeof *g) : NULL;
    if (g == NULL) {
        hsp_arena_free(arena);
        return hsp_err_nomem(err, "the graph");
    }
    *g = (struct hsp_graph){
        .arena = arena, .spec = *spec, .n_layers = (uint32_t)spec->layers + 2, .seed = HSP_NONE};
    struct hsp_builder b = hsp_builder_of(g, err);
    families[family].build(&b);
    st = b.st == HSP_OK ? hsp_graph_autodiff(g, err) : b.st;
    if (st != HSP_OK) {
        hsp_graph_free(g);
        return st;
    }
    hsp_graph_check(g);
    *ret = g;
    return HSP_OK;
}
