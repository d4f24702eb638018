/* Expanded strategies: a device group union for every layer and parameter. */
#include <string.h>

#include "daemon/spmd/strategy.h"
#include "proto/base/size.h"
#include "proto/text/yaml.h"

#define MAX_LAYERS 65536 /* as in names.h */
#define MAX_NEST   4     /* maps in a block */

struct layer {
    const struct hsp_yaml *y;
    struct hsp_device_groups g; /* a group for each pipeline */
    uint8_t *saved;             /* [k]: enum hsp_saved */
};

struct reader {
    struct hsp_arena *arena;
    struct hsp_err *err;
    uint32_t n_layers;
    struct layer *layer; /* [n_layers] */
    struct hsp_rings rings;
};

/* What a tensor is: data, a parameter that tensor parallelism cuts, one that every device has. */
enum tensor { DATA, CUT, WHOLE };

static enum hsp_status no_memory(const struct reader *r)
{
    return hsp_err_set(r->err, HSP_ENOMEM, 0, "strategies do not fit their arena");
}

static enum hsp_status read_groups(const struct reader *r, const struct hsp_yaml *y,
                                   struct hsp_device_groups *ret)
{
    struct hsp_device_groups g = {0};
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_SEQ, r->err);
    if (rc == HSP_OK && (y->n == 0 || y->n > HSP_MAX_STREAMS)) {
        rc = hsp_yaml_error(y, r->err, "%zu groups, must be 1 to %d", y->n, HSP_MAX_STREAMS);
    }
    if (rc != HSP_OK) {
        return rc;
    }
    g.k = (uint32_t)y->n;
    g.n = hsp_arena_array(r->arena, g.k, sizeof *g.n);
    g.device = hsp_arena_array(r->arena, g.k, sizeof *g.device);
    if (g.n == NULL || g.device == NULL) {
        return no_memory(r);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < g.k; i++) {
        rc = hsp_strategy_numbers(&y->items[i], HSP_DEVICE_END, r->arena, &g.device[i], &g.n[i],
                                  r->err);
        if (rc == HSP_OK && (g.n[i] == 0 || g.n[i] > HSP_MAX_RANKS)) {
            rc = hsp_yaml_error(&y->items[i], r->err, "a group of %u devices, must be 1 to %d",
                                g.n[i], HSP_MAX_RANKS);
        }
    }
    *ret = g;
    return rc;
}

static bool same_group(const struct hsp_device_groups *a, const struct hsp_device_groups *b,
                       uint32_t i)
{
    return a->n[i] == b->n[i] &&
           memcmp(a->device[i], b->device[i], a->n[i] * sizeof **a->device) == 0;
}

/* Every group of @y is that of @g. */
static enum hsp_status check_groups(const struct reader *r, const struct hsp_yaml *y,
                                    const struct hsp_device_groups *g)
{
    struct hsp_device_groups here;
    enum hsp_status rc = read_groups(r, y, &here);
    if (rc == HSP_OK && here.k != g->k) {
        rc = hsp_yaml_error(y, r->err, "%u groups, its layer has %u", here.k, g->k);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < g->k; i++) {
        if (!same_group(&here, g, i)) {
            rc = hsp_yaml_error(&y->items[i], r->err, "group %u is not that of its layer", i);
        }
    }
    return rc;
}

/* A count for each of @k groups. */
static enum hsp_status read_counts(const struct reader *r, const struct hsp_yaml *y, uint32_t k,
                                   uint32_t **ret)
{
    uint32_t n = 0;
    enum hsp_status rc = hsp_strategy_numbers(y, HSP_DEVICE_END, r->arena, ret, &n, r->err);
    return rc != HSP_OK || n == k ? rc : hsp_yaml_error(y, r->err, "%u counts for %u groups", n, k);
}

/* Counts are those of all groups together: what cuts the tensor, times its copies, is K times the
 * devices of each group. The groups of a parameter are copies of each other and cut it inside; those
 * of data cut the first dim. So a group has no copies of a parameter, and of data as many as it has
 * devices. What every device has may be said to be cut as well: the artifact writes norms like that
 * and copies them when it builds them. */
static enum hsp_status check_counts(const struct reader *r, const struct hsp_yaml *y,
                                    const struct hsp_device_groups *g, enum tensor kind)
{
    const struct hsp_yaml *split = hsp_yaml_get(y, "split"), *dup = hsp_yaml_get(y, "dup");
    uint64_t cut[HSP_MAX_STREAMS];
    uint32_t *v = NULL;
    if (split == NULL || dup == NULL) {
        return hsp_yaml_error(y, r->err, "missing key %s", split == NULL ? "split" : "dup");
    }
    enum hsp_status rc = hsp_yaml_expect(split, HSP_YAML_MAP, r->err);
    for (uint32_t i = 0; i < g->k; i++) {
        cut[i] = 1;
    }
    for (size_t d = 0; rc == HSP_OK && d < split->n; d++) {
        rc = read_counts(r, &split->items[d], g->k, &v);
        for (uint32_t i = 0; rc == HSP_OK && i < g->k; i++) {
            cut[i] = cut[i] <= HSP_DEVICE_END ? cut[i] * v[i] : cut[i];
        }
    }
    rc = rc == HSP_OK ? read_counts(r, dup, g->k, &v) : rc;
    for (uint32_t i = 0; rc == HSP_OK && i < g->k; i++) {
        uint64_t want_cut = kind == DATA ? g->k : g->n[i], want_dup = kind == DATA ? g->n[i] : g->k;
        bool whole =
            kind == WHOLE && v[i] == (uint64_t)g->n[i] * g->k && (cut[i] == 1 || cut[i] == g->n[i]);
        if (!whole && (cut[i] != want_cut || v[i] != want_dup)) {
            rc = hsp_yaml_error(y, r->err,
                                "group %u: cut in %llu with %u copies, must be in %llu with %llu",
                                i, (unsigned long long)cut[i], v[i], (unsigned long long)want_cut,
                                (unsigned long long)want_dup);
        }
    }
    return rc;
}

/* A tensor of the layer: {split, dup, device_group_union, type}. */
static enum hsp_status check_tensor(const struct reader *r, const struct hsp_yaml *y,
                                    const struct hsp_device_groups *g, enum tensor kind)
{
    static const char *const keys[] = {"split", "dup", "device_group_union", "type", "zero"};
    static const char *const types[] = {"variable", "placeholder"};
    const struct hsp_yaml *type = hsp_yaml_get(y, "type"),
                          *at = hsp_yaml_get(y, "device_group_union");
    size_t want = kind == DATA ? 1 : 0, t = want;
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_MAP, r->err);
    rc = rc == HSP_OK ? hsp_yaml_check_keys(y, keys, HSP_ARRAY_LEN(keys), r->err) : rc;
    if (rc == HSP_OK && at == NULL) {
        rc = hsp_yaml_error(y, r->err, "missing key device_group_union");
    }
    if (rc == HSP_OK && type != NULL) {
        rc = hsp_yaml_choice(type, types, HSP_ARRAY_LEN(types), &t, r->err);
    }
    if (rc == HSP_OK && t != want) {
        rc = hsp_yaml_error(type, r->err, "this is no %s", types[t]);
    }
    rc = rc == HSP_OK ? check_groups(r, at, g) : rc;
    return rc == HSP_OK ? check_counts(r, y, g, kind) : rc;
}

/* The first tensor of a map of maps; NULL: none. Recursion is bounded by MAX_NEST. */
static const struct hsp_yaml *first_union(const struct hsp_yaml *y, int depth)
{
    const struct hsp_yaml *at = hsp_yaml_get(y, "device_group_union");
    for (size_t i = 0; at == NULL && depth < MAX_NEST && y->kind == HSP_YAML_MAP && i < y->n; i++) {
        at = first_union(&y->items[i], depth + 1);
    }
    return at;
}

/* What a block says of each group: a flag for all, or one each. Sets @ret[i] where it is true. */
static enum hsp_status read_flags(const struct reader *r, const struct hsp_yaml *y, uint32_t k,
                                  bool *ret)
{
    enum hsp_status rc = HSP_OK;
    if (y->kind != HSP_YAML_SEQ) {
        bool all = false;
        rc = hsp_yaml_bool(y, &all, r->err);
        for (uint32_t i = 0; i < k; i++) {
            ret[i] = all;
        }
        return rc;
    }
    if (y->n != k) {
        return hsp_yaml_error(y, r->err, "%zu flags for %u groups", y->n, k);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < k; i++) {
        rc = hsp_yaml_bool(&y->items[i], &ret[i], r->err);
    }
    return rc;
}

/* What becomes of the saved tensors of the groups whose flag is true; OPEN: what no plan can say. */
static enum hsp_status read_saved(const struct reader *r, const struct hsp_yaml *y,
                                  enum hsp_saved how, struct layer *l)
{
    bool flag[HSP_MAX_STREAMS] = {false};
    enum hsp_status rc = read_flags(r, y, l->g.k, flag);
    for (uint32_t k = 0; rc == HSP_OK && k < l->g.k; k++) {
        if (flag[k] && how == HSP_SAVED_OPEN) {
            rc = hsp_yaml_error(y, r->err, "this cannot be imported");
        } else if (flag[k] && l->saved[k] != HSP_SAVED_KEEP) {
            rc = hsp_yaml_error(
                y, r->err, "group %u would both offload what it saves and compute it again", k);
        } else if (flag[k]) {
            l->saved[k] = (uint8_t)how;
        }
    }
    return rc;
}

/* Tensors and settings of one block. Recursion is bounded by MAX_NEST. */
static enum hsp_status check_block(const struct reader *r, const struct hsp_yaml *y, int depth,
                                   struct layer *l)
{
    enum hsp_status rc = HSP_OK;
    for (size_t i = 0; rc == HSP_OK && i < y->n; i++) {
        const struct hsp_yaml *c = &y->items[i];
        if (depth == 0 && strcmp(c->key, "range") == 0) {
            continue;
        }
        if (depth == 0 && strcmp(c->key, "recompute") == 0) {
            rc = read_saved(r, c, HSP_SAVED_RECOMPUTE, l);
        } else if (depth == 0 && strcmp(c->key, "cpu_offload") == 0) {
            rc = read_saved(r, c, HSP_SAVED_OFFLOAD, l);
        } else if (depth == 0 && strcmp(c->key, "output_recompute") == 0) {
            rc = read_saved(r, c, HSP_SAVED_OPEN, l);
        } else if (hsp_yaml_get(c, "device_group_union") != NULL) {
            rc = check_tensor(r, c, &l->g, strstr(c->key, "norm") != NULL ? WHOLE : CUT);
        } else if (c->kind == HSP_YAML_MAP && depth < MAX_NEST) {
            rc = check_block(r, c, depth + 1, l);
        } else {
            rc = hsp_yaml_error(c, r->err, "neither a tensor nor a setting of a block");
        }
    }
    return rc;
}

/* The layers [first, last] of a block: "range": [first, .., last]. */
static enum hsp_status read_range(const struct reader *r, const struct hsp_yaml *block,
                                  uint32_t *ret_first, uint32_t *ret_last)
{
    const struct hsp_yaml *y = hsp_yaml_get(block, "range");
    uint32_t *v = NULL, n = 0;
    if (y == NULL) {
        return hsp_yaml_error(block, r->err, "missing key range");
    }
    enum hsp_status rc = hsp_strategy_numbers(y, MAX_LAYERS, r->arena, &v, &n, r->err);
    if (rc == HSP_OK && (n == 0 || v[0] > v[n - 1])) {
        rc = hsp_yaml_error(y, r->err, "not a range of layers");
    }
    if (rc == HSP_OK) {
        *ret_first = v[0];
        *ret_last = v[n - 1];
    }
    return rc;
}

static enum hsp_status read_block(struct reader *r, const struct hsp_yaml *y)
{
    uint32_t first = 0, last = 0;
    struct layer l = {.y = y};
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_MAP, r->err);
    rc = rc == HSP_OK ? read_range(r, y, &first, &last) : rc;
    const struct hsp_yaml *at = rc == HSP_OK ? first_union(y, 0) : NULL;
    if (rc == HSP_OK && at == NULL) {
        rc = hsp_yaml_error(y, r->err, "no tensor has a device_group_union");
    }
    rc = rc == HSP_OK ? read_groups(r, at, &l.g) : rc;
    if (rc != HSP_OK) {
        return rc;
    }
    l.saved = hsp_arena_array(r->arena, l.g.k, sizeof *l.saved);
    if (l.saved == NULL) {
        return no_memory(r);
    }
    memset(l.saved, HSP_SAVED_KEEP, l.g.k * sizeof *l.saved);
    rc = check_block(r, y, 0, &l);
    for (uint32_t i = first; rc == HSP_OK && i <= last; i++) {
        if (r->layer[i].y != NULL) {
            rc = hsp_yaml_error(y, r->err, "layer %u is in two blocks", i);
        }
        r->layer[i] = l;
    }
    return rc;
}

static enum hsp_status read_blocks(struct reader *r, const struct hsp_yaml *blocks)
{
    enum hsp_status rc = hsp_yaml_expect(blocks, HSP_YAML_MAP, r->err);
    for (size_t i = 0; rc == HSP_OK && i < blocks->n; i++) {
        uint32_t first = 0, last = 0;
        rc = hsp_yaml_expect(&blocks->items[i], HSP_YAML_MAP, r->err);
        rc = rc == HSP_OK ? read_range(r, &blocks->items[i], &first, &last) : rc;
        r->n_layers = rc == HSP_OK && last >= r->n_layers ? last + 1 : r->n_layers;
    }
    if (rc == HSP_OK && r->n_layers == 0) {
        rc = hsp_yaml_error(blocks, r->err, "no blocks");
    }
    r->layer = rc == HSP_OK ? hsp_arena_array(r->arena, r->n_layers, sizeof *r->layer) : NULL;
    if (rc == HSP_OK && r->layer == NULL) {
        return no_memory(r);
    }
    for (size_t i = 0; rc == HSP_OK && i < blocks->n; i++) {
        rc = read_block(r, &blocks->items[i]);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < r->n_layers; i++) {
        if (r->layer[i].y == NULL) {
            rc = hsp_yaml_error(blocks, r->err, "layer %u is in no block", i);
        } else if (r->layer[i].g.k != r->layer[0].g.k) {
            rc = hsp_yaml_error(r->layer[i].y, r->err, "%u groups, layer 0 has %u", r->layer[i].g.k,
                                r->layer[0].g.k);
        }
    }
    return rc;
}

/* Whether layer @i of ring @k is where layer @first is, and keeps the same: a pipeline goes on to other
 * devices where all of its ring do. */
static enum hsp_status same_stage(const struct reader *r, uint32_t k, uint32_t first, uint32_t i,
                                  bool *ret)
{
    const struct layer *a = &r->layer[first], *b = &r->layer[i];
    uint32_t same = 0, alike = 0, of = r->rings.first[k], n = r->rings.size[k];
    for (uint32_t m = of; m < of + n; m++) {
        same += same_group(&a->g, &b->g, m) ? 1 : 0;
        alike += a->saved[m] == b->saved[m] ? 1 : 0;
    }
    *ret = same > 0;
    if (same > 0 && same < n) {
        return hsp_yaml_error(b->y, r->err,
                              "groups %u to %u are a ring, and not all of them have both layer %u "
                              "and layer %u",
                              of, of + n - 1, first, i);
    }
    return same == 0 || alike == n ? HSP_OK
                                   : hsp_yaml_error(b->y, r->err,
                                                    "layers %u and %u of one stage differ in "
                                                    "what they save",
                                                    first, i);
}

/* What layer @i saves, on which all groups of ring @k agree. */
static enum hsp_status saved_of(const struct reader *r, uint32_t k, uint32_t i, uint8_t *ret)
{
    const struct layer *l = &r->layer[i];
    uint32_t of = r->rings.first[k];
    *ret = l->saved[of];
    for (uint32_t m = of + 1; m < of + r->rings.size[k]; m++) {
        if (l->saved[m] != *ret) {
            return hsp_yaml_error(l->y, r->err,
                                  "groups %u and %u of a ring differ in what they save", of, m);
        }
    }
    return HSP_OK;
}

/* Layers of ring @k on the same devices, one after the other, are a stage. */
static enum hsp_status make_stream(const struct reader *r, uint32_t k, struct hsp_stream *s)
{
    uint32_t of = r->rings.first[k];
    s->stages = hsp_arena_array(r->arena, HSP_MAX_STAGES, sizeof *s->stages);
    if (s->stages == NULL) {
        return no_memory(r);
    }
    for (uint32_t i = 0, end; i < r->n_layers; i = end) {
        const struct hsp_device_groups *g = &r->layer[i].g;
        struct hsp_device_groups ring = {r->rings.size[k], &g->n[of], &g->device[of]};
        enum hsp_status rc = HSP_OK;
        bool same = true;
        for (end = i + 1; end < r->n_layers && rc == HSP_OK && same; end += same ? 1 : 0) {
            rc = same_stage(r, k, i, end, &same);
        }
        if (rc == HSP_OK && s->n_stages == HSP_MAX_STAGES) {
            rc = hsp_yaml_error(r->layer[i].y, r->err, "more than %d stages", HSP_MAX_STAGES);
        }
        if (rc != HSP_OK) {
            return rc;
        }
        struct hsp_stage *t = &s->stages[s->n_stages++];
        t->layers = end - i;
        rc = saved_of(r, k, i, &t->saved);
        rc =
            rc == HSP_OK ? hsp_strategy_stage(t, &ring, &r->rings.share[of], r->arena, r->err) : rc;
        if (rc != HSP_OK) {
            return rc;
        }
    }
    return HSP_OK;
}

/* MICRO_BATCH_NUM_LIST, or 1 each. */
static enum hsp_status read_micro(const struct reader *r, const struct hsp_yaml *y,
                                  struct hsp_plan *p)
{
    const struct hsp_yaml *t = hsp_yaml_get(y, "MICRO_BATCH_NUM_LIST");
    enum hsp_status rc = t != NULL ? hsp_yaml_expect(t, HSP_YAML_SEQ, r->err) : HSP_OK;
    if (rc == HSP_OK && t != NULL && t->n != p->n_streams) {
        rc = hsp_yaml_error(t, r->err, "%zu entries, must be %u", t->n, p->n_streams);
    }
    for (uint32_t k = 0; rc == HSP_OK && k < p->n_streams; k++) {
        uint64_t v = 1;
        rc = t != NULL ? hsp_yaml_u64(&t->items[k], 1, HSP_MAX_MICRO, &v, r->err) : HSP_OK;
        p->streams[k].sequences = p->streams[k].micro_batches = (uint32_t)v;
    }
    return rc;
}

/* Data and the tensors around the blocks are where the first and the last layer are. */
static enum hsp_status check_rest(const struct reader *r, const struct hsp_yaml *y,
                                  const struct hsp_yaml *model)
{
    static const char *const head[] = {"input", "wte", "wpe"};
    static const enum tensor of_head[] = {DATA, CUT, WHOLE}, of_tail[] = {DATA, WHOLE, WHOLE, CUT};
    static const char *const known[] = {"blocks", "wte", "wpe", "rmsnorm_final", "layernorm_final"};
    const struct hsp_device_groups *first = &r->layer[0].g, *last = &r->layer[r->n_layers - 1].g;
    static const char *const tail[] = {"label", "rmsnorm_final", "layernorm_final", "lm_head"};
    enum hsp_status rc = hsp_yaml_check_keys(model, known, HSP_ARRAY_LEN(known), r->err);
    for (size_t i = 0; rc == HSP_OK && i < HSP_ARRAY_LEN(head); i++) {
        const struct hsp_yaml *t = hsp_yaml_get(i == 0 ? y : model, head[i]);
        rc = t != NULL ? check_tensor(r, t, first, of_head[i]) : HSP_OK;
    }
    for (size_t i = 0; rc == HSP_OK && i < HSP_ARRAY_LEN(tail); i++) {
        const struct hsp_yaml *t = hsp_yaml_get(i == 0 || i == 3 ? y : model, tail[i]);
        rc = t != NULL ? check_tensor(r, t, last, of_tail[i]) : HSP_OK;
    }
    return rc;
}

enum hsp_status hsp_strategy_expanded(const struct hsp_yaml *y, struct hsp_arena *arena,
                                      struct hsp_plan *ret, struct hsp_err *err)
{
    static const char *const keys[] = {"zero",
                                       "devices",
                                       "recompute_granularity",
                                       "recompute_layer_idxs_list",
                                       "input",
                                       "label",
                                       "llama",
                                       "gpt",
                                       "lm_head",
                                       "cluster",
                                       "model",
                                       "CP_LIST",
                                       "SEQ_LEN_LIST",
                                       "MICRO_BATCH_NUM_LIST"};
    struct reader r = {.arena = arena, .err = err};
    const struct hsp_yaml *llama = hsp_yaml_get(y, "llama"), *gpt = hsp_yaml_get(y, "gpt"),
                          *model = llama != NULL ? llama : gpt, *zero = hsp_yaml_get(y, "zero");
    const struct hsp_yaml *blocks = hsp_yaml_get(model, "blocks");
    enum hsp_status rc = HSP_OK;
    bool z = false;
    if (llama != NULL && gpt != NULL) {
        return hsp_yaml_error(gpt, err, "a strategy is of one model, here are gpt and llama");
    }
    if (model == NULL || blocks == NULL) {
        return hsp_yaml_error(y, err, "neither layers of stages nor blocks of a model");
    }
    rc = hsp_yaml_check_keys(y, keys, HSP_ARRAY_LEN(keys), err);
    rc = rc == HSP_OK && zero != NULL ? hsp_yaml_bool(zero, &z, err) : rc;
    rc = rc == HSP_OK ? read_blocks(&r, blocks) : rc;
    rc = rc == HSP_OK ? check_rest(&r, y, model) : rc;
    rc = rc == HSP_OK ? hsp_strategy_rings(y, r.layer[0].g.k, arena, &r.rings, err) : rc;
    if (rc != HSP_OK) {
        return rc;
    }
    ret->zero = z ? 1 : 0;
    ret->zero_pattern = z ? HSP_ZERO_INTERLEAVED : HSP_ZERO_CONTIGUOUS;
    ret->n_streams = r.rings.n;
    ret->streams = hsp_arena_array(arena, ret->n_streams, sizeof *ret->streams);
    if (ret->streams == NULL) {
        return no_memory(&r);
    }
    for (uint32_t k = 0; rc == HSP_OK && k < ret->n_streams; k++) {
        rc = make_stream(&r, k, &ret->streams[k]);
    }
    return rc == HSP_OK ? read_micro(&r, y, ret) : rc;
}
