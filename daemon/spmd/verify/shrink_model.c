#include "daemon/spmd/verify/shrink_model.h"

#include <string.h>

#include "daemon/graph/graph_build.h"
#include "daemon/plan/stage_groups.h"
#include "daemon/spmd/sharding/param_use.h"
#include "daemon/spmd/verify/shrink_homes.h"
#include "proto/base/size.h"
#include "proto/layout/cut_shares.h"

#define WORK_BYTES   ((size_t)2 << 30)
#define MAX_TRIES    24 /* candidates compiled, of each strictness */
#define MAX_EXTENTS  32 /* different extents of a model family */
#define NEAR_EXTENTS 16 /* lengths tried above the least one, to keep extents apart */

struct shrinker {
    const struct hsp_graph *g; /* of the job */
    struct hsp_graph *few;     /* the same with a few layers; owned */
    const struct hsp_train_spec *t;
    struct hsp_plan total;
    struct hsp_program_file full;
    const bool *units;      /* hsp_param_units of g */
    struct hsp_arena *work; /* of the whole search */
    struct hsp_err *err;
    bool strict;
    int tries;
    bool *no_memory; /* an attempt ended for want of memory: a missing size may exist */
};

/* ---- extents that stay apart ---- */

struct extent_map {
    uint32_t n;
    int64_t full[MAX_EXTENTS], small[MAX_EXTENTS];
};

/* Notes that extent @full becomes @small. Returns false if @full already has another counterpart,
 * or @small is already that of another extent. */
static bool pair(struct extent_map *m, int64_t full, int64_t small)
{
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->full[i] == full || m->small[i] == small) {
            return m->full[i] == full && m->small[i] == small;
        }
    }
    if (m->n == MAX_EXTENTS) {
        return false;
    }
    m->full[m->n] = full;
    m->small[m->n++] = small;
    return true;
}

static int64_t extent_of(const struct hsp_graph *g, const struct hsp_extent *e)
{
    return e->sym == HSP_EXT_SEQ ? e->k * g->spec.sequence : e->k;
}

/* Checks rule 1 for two graphs of one structure. Lengths and units are symbols of different kinds,
 * so they are checked apart. */
static bool extents_apart(const struct hsp_graph *a, const struct hsp_graph *b)
{
    struct extent_map length = {0}, unit = {0};
    if (a->n_tensors != b->n_tensors || a->n_nodes != b->n_nodes || a->n_params != b->n_params) {
        return false;
    }
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        const struct hsp_tensor *x = &a->tensors[i], *y = &b->tensors[i];
        for (uint8_t d = 0; d < x->rank; d++) {
            if (x->ext[d].sym != HSP_EXT_BATCH &&
                !pair(&length, extent_of(a, &x->ext[d]), extent_of(b, &y->ext[d]))) {
                return false;
            }
        }
    }
    for (uint32_t i = 0; i < a->n_nodes; i++) {
        const struct hsp_node *x = &a->nodes[i], *y = &b->nodes[i];
        if (x->op != y->op || !pair(&unit, x->at.i[0], y->at.i[0])) {
            return false;
        }
    }
    return true;
}

/* Builds the model with at most two layers, since all layers are alike. Returns NULL if there is no
 * such model, or without memory. */
static struct hsp_graph *few_layers(const struct hsp_model_spec *m, bool *no_memory)
{
    struct hsp_model_spec few = *m;
    struct hsp_graph *g = NULL;
    few.layers = m->layers < 2 ? m->layers : 2;
    enum hsp_status st = hsp_graph_build(&few, &g, NULL);
    *no_memory = *no_memory || st == HSP_ENOMEM;
    return st == HSP_OK ? g : NULL;
}

static bool model_apart(const struct shrinker *x, const struct hsp_model_spec *small)
{
    struct hsp_graph *g = few_layers(small, x->no_memory);
    bool apart = x->few != NULL && g != NULL && extents_apart(x->few, g);
    g = hsp_graph_free(g);
    return apart;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns the k-th length to try for an extent of at least @low: first @low and the lengths above
 * it, then the other extents of the model, since extents that are equal in the job must stay equal.
 * 0: this length is none to try. */
static int64_t length_to_try(const struct hsp_model_spec *m, int64_t low, int64_t full, int k)
{
    const int64_t like[] = {
        m->hidden,   4 * m->hidden, m->heads,       m->heads > 0 ? m->hidden / m->heads : 0,
        m->sequence, m->kv_heads,   m->intermediate};
    int64_t v = k < NEAR_EXTENTS ? low + k : like[k - NEAR_EXTENTS];
    return v > 0 && v <= full ? v : 0;
}
enum { N_LENGTHS = NEAR_EXTENTS + 7 };

static bool differ(const int64_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++) {
            if (v[i] == v[k] && v[i] > 0) {
                return false;
            }
        }
    }
    return true;
}

/* Returns false if the hidden size and heads of @m break rule 1 whatever lengths are tried with
 * them. To find out, it tests @m with the job's own lengths. This test decides only if all extents
 * of the job differ; else it returns true. */
static bool heads_apart(const struct shrinker *x, const struct hsp_model_spec *m)
{
    const struct hsp_model_spec *full = &x->g->spec;
    int64_t d = full->heads > 0 ? full->hidden / full->heads : 0;
    const int64_t all[] = {full->hidden,
                           full->heads,
                           d,
                           full->sequence,
                           full->vocab,
                           full->kv_heads == full->heads ? 0 : full->kv_heads,
                           full->kv_heads == full->heads ? 0 : full->kv_heads * d,
                           full->intermediate,
                           full->positions};
    struct hsp_model_spec own = *m;
    own.sequence = full->sequence;
    own.positions = full->positions;
    own.vocab = full->vocab;
    own.intermediate = full->intermediate;
    return !differ(all, HSP_ARRAY_LEN(all)) || model_apart(x, &own);
}

/* Checks rule 2 for the parts of @n members or groups in both sizes: the same parts are empty, and,
 * if strict, of two parts the same one is larger. */
static bool parts_alike(const struct shrinker *x, const int64_t *full, const int64_t *small,
                        uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        int64_t p = full[i + 1] - full[i], q = small[i + 1] - small[i];
        if ((p == 0) != (q == 0)) {
            return false;
        }
        for (uint32_t k = 0; x->strict && k < i; k++) {
            int64_t r = full[k + 1] - full[k], t = small[k + 1] - small[k];
            if ((p < r) != (q < t) || (p > r) != (q > t)) {
                return false;
            }
        }
    }
    return true;
}

/* Returns true if @full and @small items are shared alike among groups by the weights @w, and, if
 * @rows, also among the members of each group of @s. */
static bool shared_alike(const struct shrinker *x, const struct hsp_stage *s, const int64_t *w,
                         int64_t full, int64_t small, bool rows)
{
    struct hsp_arena_position m = hsp_arena_mark(x->work);
    uint32_t groups = w != NULL ? s->n_groups : 1, first, end;
    static const int64_t one = 1;
    int64_t *cut = hsp_arena_array(x->work, 4 * ((size_t)s->n + 1), sizeof *cut);
    if (cut == NULL) {
        *x->no_memory = true;
        return false;
    }
    int64_t *a = cut, *b = a + s->n + 1, *c = b + s->n + 1, *d = c + s->n + 1;
    hsp_cut_shares(full, groups, w != NULL ? w : &one, a);
    hsp_cut_shares(small, groups, w != NULL ? w : &one, b);
    bool alike = parts_alike(x, a, b, groups);
    for (uint32_t g = 0; rows && alike && g < hsp_stage_groups(s); g++) {
        uint32_t k = groups > 1 ? g : 0;
        hsp_stage_group(s, g, &first, &end);
        hsp_cut_shares(a[k + 1] - a[k], end - first, &s->shares[first], c);
        hsp_cut_shares(b[k + 1] - b[k], end - first, &s->shares[first], d);
        alike = parts_alike(x, c, d, end - first);
    }
    hsp_arena_rewind(x->work, m);
    return alike;
}

/* Returns true if sequences of @small tokens are cut like those of the job. */
static bool sequence_alike(const struct shrinker *x, int64_t small)
{
    for (uint32_t i = 0; i < x->total.n_pipelines; i++) {
        for (uint32_t j = 0; j < x->total.pipelines[i].n_stages; j++) {
            const struct hsp_stage *s = &x->total.pipelines[i].stages[j];
            bool split = s->split == HSP_SPLIT_SEQUENCE;
            if ((split || s->sequence_parallel) &&
                !shared_alike(x, s, split ? s->group_shares : NULL, x->g->spec.sequence, small,
                              s->sequence_parallel)) {
                return false;
            }
        }
    }
    return true;
}

/* Returns the number of positions for @m: if the job's number equals another extent of the job,
 * that extent of @m; else more than the sequence has. */
static int64_t small_positions(const struct hsp_model_spec *full, const struct hsp_model_spec *m)
{
    const int64_t like[][2] = {{0, 0},
                               {full->hidden, m->hidden},
                               {4 * full->hidden, 4 * m->hidden},
                               {full->vocab, m->vocab},
                               {full->intermediate, m->intermediate}};
    for (size_t i = 0; i < HSP_ARRAY_LEN(like); i++) {
        if (full->positions == like[i][0]) {
            return like[i][1];
        }
    }
    return 2 * m->sequence + 1;
}

/* Chooses the sequence, positions and vocabulary of @m to go with its other sizes, which are set,
 * so that rule 1 holds and sequences are cut like the job's. The vocabulary keeps its number of
 * chunks. Returns false if there are none. */
static bool fit_lengths(const struct shrinker *x, struct hsp_model_spec *m)
{
    const struct hsp_model_spec *full = &x->g->spec;
    int64_t ranks = x->total.n_ranks, chunks = full->vocab_chunks > 0 ? full->vocab_chunks : 1;
    int64_t low_s = least(full->sequence, ranks > 3 ? 2 * ranks : 6);
    while (low_s < full->sequence && !sequence_alike(x, low_s)) {
        low_s++;
    }
    int64_t low_v = (least(full->vocab, ranks > 3 ? 4 * ranks : 12) + chunks - 1) / chunks;
    for (int i = 0; i < N_LENGTHS; i++) {
        for (int k = 0; k < N_LENGTHS; k++) {
            m->sequence = length_to_try(m, low_s, full->sequence, i);
            if (m->sequence == 0 || !sequence_alike(x, m->sequence)) {
                break;
            }
            m->vocab = chunks * length_to_try(m, low_v, full->vocab / chunks, k);
            m->positions = small_positions(full, m);
            if (m->vocab > 1 && model_apart(x, m)) {
                return true;
            }
        }
    }
    return false;
}

/* Chooses the width of the feed-forward layers too, for families that state it. */
static bool fit_widths(const struct shrinker *x, struct hsp_model_spec *m)
{
    int64_t full = x->g->spec.intermediate, low = least(full, 3 * (int64_t)x->total.n_ranks);
    if (full == 0) {
        return fit_lengths(x, m);
    }
    for (int k = 0; k < N_LENGTHS; k++) {
        m->intermediate = 0; /* not one of the extents to be like */
        m->intermediate = length_to_try(m, low, full, k);
        if (m->intermediate > 0 && fit_lengths(x, m)) {
            return true;
        }
    }
    return false;
}

/* ---- cuts of tensor parallelism ---- */

/* Checks rule 2 for one parameter on one stage. */
static bool cuts_alike(const struct shrinker *x, const struct hsp_graph *b,
                       const struct hsp_stage *s, uint32_t param)
{
    struct hsp_arena_position m = hsp_arena_mark(x->work);
    struct hsp_layout u, v;
    enum hsp_status st = hsp_param_use(x->g, s, param, x->work, &u, NULL);
    st = st == HSP_OK ? hsp_param_use(b, s, param, x->work, &v, NULL) : st;
    *x->no_memory = *x->no_memory || st == HSP_ENOMEM;
    bool alike = st == HSP_OK;
    uint8_t d = (uint8_t)x->g->params[param].tp_dim;
    for (uint32_t i = 0; alike && i < s->n; i++) {
        int64_t p = u.box[i].hi[d] - u.box[i].lo[d], q = v.box[i].hi[d] - v.box[i].lo[d];
        alike = (p == 0) == (q == 0);
        for (uint32_t k = 0; x->strict && alike && k < i; k++) {
            if (hsp_stage_group_of(s, k) != hsp_stage_group_of(s, i)) {
                continue;
            }
            int64_t r = u.box[k].hi[d] - u.box[k].lo[d], t = v.box[k].hi[d] - v.box[k].lo[d];
            alike = (p < r) == (q < t) && (p > r) == (q > t);
        }
    }
    hsp_arena_rewind(x->work, m);
    return alike;
}

static bool plan_alike(const struct shrinker *x, const struct hsp_graph *b)
{
    for (uint32_t i = 0; i < x->total.n_pipelines; i++) {
        for (uint32_t j = 0; j < x->total.pipelines[i].n_stages; j++) {
            const struct hsp_stage *s = &x->total.pipelines[i].stages[j];
            for (uint32_t p = 0; s->n > 1 && p < x->g->n_params; p++) {
                if (x->g->params[p].tp_dim >= 0 && !cuts_alike(x, b, s, p)) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* ---- the batch ---- */

/* Returns the number of sequences of a small micro-batch: the least, from two on, that is cut like
 * the job's. */
static uint32_t shrink_micro(const struct shrinker *x, const struct hsp_pipeline *s, uint32_t full)
{
    for (uint32_t n = full < 2 ? full : 2; n < full; n++) {
        bool alike = true;
        for (uint32_t j = 0; alike && j < s->n_stages; j++) {
            const struct hsp_stage *t = &s->stages[j];
            alike =
                t->split != HSP_SPLIT_BATCH || shared_alike(x, t, t->group_shares, full, n, false);
        }
        if (alike) {
            return n;
        }
    }
    return full;
}

/* Sets the micro-batches of the small pipeline: enough of them for warm-up, steady state and the
 * end of 1F1B, of two sequences each if these are cut like the job's, and uneven if the job's are
 * uneven. */
static void shrink_pipeline(const struct shrinker *x, const struct hsp_pipeline *from,
                            struct hsp_pipeline *to)
{
    uint32_t m = from->micro_batches, each = from->sequences / m, rest = from->sequences % m;
    *to = *from;
    to->sizes = NULL;
    to->micro_batches = m < from->n_stages + 2 ? m : from->n_stages + 2;
    each = shrink_micro(x, from, each);
    rest = rest < to->micro_batches ? rest : to->micro_batches - 1;
    to->sequences = each * to->micro_batches + rest;
}

static enum hsp_status shrink_batch(const struct shrinker *x, struct hsp_arena *arena,
                                    struct hsp_plan *p, struct hsp_train_spec *t)
{
    struct hsp_pipeline *to = hsp_arena_array(arena, p->n_pipelines, sizeof *to);
    if (to == NULL) {
        return hsp_err_nomem(x->err, "small extents");
    }
    bool whole = false;
    *t = *x->t;
    t->data.global_batch = 0;
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        shrink_pipeline(x, &p->pipelines[i], &to[i]);
        whole = whole || hsp_pipeline_cuts_batch(&to[i]);
        t->data.global_batch += to[i].sequences;
    }
    if (*x->no_memory) {
        return hsp_err_nomem(x->err, "small extents");
    }
    p->pipelines = to;
    if (t->data.eval_seqs > t->data.global_batch || (whole && t->data.eval_seqs > 0)) {
        t->data.eval_seqs = t->data.global_batch; /* comes out even in whole micro-batches */
    }
    t->data.validation_every = t->data.validation_every > 0 ? 2 : 0;
    return HSP_OK;
}

/* ---- candidates ---- */

/* Copies the numbers that follow from sizes (rule 4). */
static void copy_numbers(const struct hsp_graph *from, struct hsp_graph *to)
{
    for (uint32_t i = 0; i < to->n_nodes; i++) {
        memcpy(to->nodes[i].at.f, from->nodes[i].at.f, sizeof to->nodes[i].at.f);
    }
}

static bool same_templates(const struct shrinker *x, const struct hsp_program_file *f)
{
    for (uint32_t r = 0; r < f->n; r++) {
        if (!hsp_digest_equal(x->full.programs[r].tpl.digest, f->programs[r].tpl.digest)) {
            return false;
        }
    }
    return true;
}

/* The unsharded program: one sequence at a time, so that sums over the batch can be compared for
 * any micro-batches of the plan. */
static enum hsp_status compile_unsharded(const struct hsp_graph *g, const struct hsp_train_spec *t,
                                         struct hsp_arena *arena, struct hsp_program_file *f,
                                         struct hsp_err *err)
{
    uint32_t rank = 0, batch = t->data.global_batch;
    int64_t share = 1;
    struct hsp_stage stage = {.layers = g->n_layers - 2, .n = 1, .ranks = &rank, .shares = &share};
    struct hsp_pipeline pipeline = {
        .sequences = batch, .micro_batches = batch, .n_stages = 1, .stages = &stage};
    struct hsp_plan plan = {.n_ranks = 1, .n_pipelines = 1, .pipelines = &pipeline};
    struct hsp_program_file one;
    enum hsp_status rc = hsp_compile(g, &plan, t, arena, &one, err);
    if (rc == HSP_OK) {
        f->n_ref = 1;
        f->ref = one.programs;
    }
    return rc;
}

/* Compiles the plan for the small graph @g; HSP_ENOENT: it is not the job's code at these extents.
 */
static enum hsp_status try_graph(struct shrinker *x, struct hsp_graph *g, struct hsp_arena *arena,
                                 struct hsp_program_file *ret, struct hsp_scaled_model *ret_scaled)
{
    struct hsp_plan p = x->total;
    struct hsp_train_spec t;
    struct hsp_program_file f;
    struct hsp_arena_position m = hsp_arena_mark(arena);
    copy_numbers(x->g, g);
    p.states_uses = p.states_reshards = false;
    p.memory_bytes = NULL;
    p.max_length = 0; /* of a pool: the small sequence of any length */
    enum hsp_status rc = hsp_scaled_homes(x->g, &x->total, x->units, g, arena, &p, x->err);
    if (rc == HSP_OK) {
        rc = shrink_batch(x, arena, &p, &t);
    }
    if (rc != HSP_OK) {
        return rc;
    }
    t.data.sequence = t.data.longest = (uint32_t)g->spec.sequence;
    t.data.samples = HSP_SAMPLES_WINDOWS; /* each a sequence: values are known by sequence */
    t.data.vocab = (uint32_t)g->spec.vocab;
    t.data.separator = t.data.separator < t.data.vocab ? t.data.separator : t.data.vocab - 1;
    rc = hsp_compile(g, &p, &t, arena, &f, x->err);
    if (rc == HSP_EINVAL || (rc == HSP_OK && !same_templates(x, &f))) {
        rc = HSP_ENOENT;
    }
    if (rc == HSP_OK) {
        rc = compile_unsharded(g, &t, arena, &f, x->err);
    }
    if (rc != HSP_OK) {
        hsp_arena_rewind(arena, m);
        return rc;
    }
    *ret = f;
    *ret_scaled = (struct hsp_scaled_model){.model = g->spec, .global_batch = t.data.global_batch};
    return HSP_OK;
}

static enum hsp_status try_model(struct shrinker *x, const struct hsp_model_spec *m,
                                 struct hsp_arena *arena, struct hsp_program_file *ret,
                                 struct hsp_scaled_model *ret_scaled)
{
    struct hsp_graph *g = NULL;
    enum hsp_status rc = hsp_graph_build(m, &g, x->err);
    if (rc != HSP_OK) {
        return rc;
    }
    rc = HSP_ENOENT;
    bool alike = extents_apart(x->g, g) && plan_alike(x, g);
    if (*x->no_memory) {
        rc = hsp_err_nomem(x->err, "small extents");
    } else if (alike) {
        x->tries++;
        rc = try_graph(x, g, arena, ret, ret_scaled);
    }
    g = hsp_graph_free(g);
    return rc;
}

/* Tries candidates with few to many heads (for models without heads: small to large hidden sizes),
 * and for each number of heads with growing sizes of a head. */
static enum hsp_status search(struct shrinker *x, struct hsp_arena *arena,
                              struct hsp_program_file *ret, struct hsp_scaled_model *ret_scaled)
{
    const struct hsp_model_spec *full = &x->g->spec;
    int64_t heads = full->heads > 0 ? full->heads : full->hidden;
    int64_t unit = full->heads > 0 ? full->hidden / full->heads : 1;
    int64_t group = full->kv_heads > 0 ? full->heads / full->kv_heads : 1;
    x->tries = 0;
    for (int64_t n = full->heads > 0 ? 1 : 2; n < heads && x->tries < MAX_TRIES; n += n / 16 + 1) {
        if (n % group != 0) {
            continue;
        }
        for (int64_t d = least(unit, 4); d <= unit && d <= 16; d *= 2) {
            struct hsp_model_spec m = *full;
            m.hidden = n * d;
            m.heads = full->heads > 0 ? n : full->heads;
            m.kv_heads = full->kv_heads > 0 ? n / group : full->kv_heads;
            bool fits = heads_apart(x, &m) && fit_widths(x, &m);
            if (*x->no_memory) {
                return hsp_err_nomem(x->err, "small extents");
            }
            if (!fits) {
                continue;
            }
            enum hsp_status rc = try_model(x, &m, arena, ret, ret_scaled);
            if (rc != HSP_ENOENT) {
                return rc;
            }
        }
    }
    return HSP_ENOENT;
}

static enum hsp_status shrink(struct shrinker *x, struct hsp_arena *arena,
                              struct hsp_program_file *ret, struct hsp_scaled_model *ret_scaled)
{
    enum hsp_status rc = HSP_ENOENT;
    for (int pass = 0; rc == HSP_ENOENT && pass < 2; pass++) {
        x->strict = pass == 0;
        rc = search(x, arena, ret, ret_scaled);
    }
    if (rc == HSP_ENOENT) {
        rc = try_model(x, &x->g->spec, arena, ret, ret_scaled);
    }
    return rc == HSP_ENOENT ? hsp_err_set(x->err, HSP_EUNSUPPORTED, 0,
                                          "no small extents have the templates of this plan")
                            : rc;
}

enum hsp_status hsp_compile_scaled(const struct hsp_graph *g, const struct hsp_plan *p,
                                   const struct hsp_train_spec *t, struct hsp_arena *arena,
                                   struct hsp_program_file *ret,
                                   struct hsp_scaled_model *ret_scaled, struct hsp_err *err)
{
    bool lacking = false;
    struct shrinker x = {.g = g, .t = t, .err = err, .no_memory = &lacking};
    x.work = hsp_arena_new(WORK_BYTES);
    x.few = few_layers(&g->spec, &lacking);
    enum hsp_status rc = x.work == NULL || lacking ? hsp_err_nomem(err, "small extents") : HSP_OK;
    if (rc == HSP_OK) {
        rc = hsp_compile_total(g, p, t, x.work, &x.full, &x.total, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_param_units(g, x.work, &x.units, err);
    }
    if (rc == HSP_OK) {
        rc = shrink(&x, arena, ret, ret_scaled);
    }
    x.few = hsp_graph_free(x.few);
    x.work = hsp_arena_free(x.work);
    return rc;
}
