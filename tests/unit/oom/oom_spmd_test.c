/* Fails allocations of daemon/graph and daemon/spmd: from the model to programs, and from one plan
 * to another. */
#include "tests/lib/testlib.h"

#include <stdio.h>

#include "daemon/graph/autodiff.h"
#include "daemon/graph/graph_build.h"
#include "daemon/migrate/bsr.h"
#include "daemon/migrate/state_placement.h"
#include "daemon/plan/name_range.h"
#include "daemon/plan/plan_check.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/plan/plan_yaml_one.h"
#include "daemon/plan/stage_groups.h"
#include "daemon/spmd/lower/node_deduce.h"
#include "daemon/spmd/lower/stage_ir.h"
#include "daemon/spmd/reshard/move_list.h"
#include "daemon/spmd/reshard/reshard_kind.h"
#include "daemon/spmd/reshard/reshard_kind_text.h"
#include "daemon/spmd/reshard/resolve.h"
#include "daemon/spmd/schedule/deadlock.h"
#include "daemon/spmd/sharding/activation_rest.h"
#include "daemon/spmd/sharding/cover_to_annot.h"
#include "daemon/spmd/sharding/infer_pipelines.h"
#include "daemon/spmd/sharding/param_home.h"
#include "daemon/spmd/sharding/param_owners.h"
#include "daemon/spmd/sharding/stage_layout.h"
#include "daemon/spmd/total/total_plan.h"
#include "daemon/spmd/verify/shrink_model.h"
#include "proto/layout/annot_text.h"
#include "proto/layout/box.h"
#include "proto/program/program_dump.h"
#include "proto/program/program_file.h"
#include "tests/lib/oom.h"
#include "tests/unit/daemon/plan/plan_cases.h"
#include "tests/unit/daemon/plan/plan_model.h"

#define ARENA ((size_t)512 << 20)

static struct hsp_model_spec spec_of(const char *family)
{
    struct hsp_model_spec s = {.layers = 2,
                               .hidden = 6,
                               .heads = 3,
                               .kv_heads = 3,
                               .intermediate = 12,
                               .rope_theta = 10000,
                               .rms_norm_eps = 1e-5,
                               .vocab = 12,
                               .sequence = 4,
                               .dtype = HSP_F64};
    bool mlp = strcmp(family, "mlp") == 0, llama = strcmp(family, "llama") == 0;
    (void)snprintf(s.family, sizeof s.family, "%s", family);
    s.kv_heads = llama ? s.kv_heads : 0;
    s.intermediate = llama ? s.intermediate : 0;
    s.rope_theta = llama ? s.rope_theta : 0;
    s.rms_norm_eps = llama ? s.rms_norm_eps : 0;
    s.heads = mlp ? 1 : s.heads;
    s.tied_head = strcmp(family, "gpt") == 0;
    s.dropout = s.tied_head ? 0.1 : 0;
    s.packed = s.tied_head;
    s.vocab_chunks = llama ? 3 : 0;
    return s;
}

static enum hsp_status use_graph(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    struct hsp_graph *g = NULL;
    enum hsp_status st = hsp_graph_build(ctx, &g, err);
    if (st == HSP_OK) {
        hsp_graph_dump(g, out);
    }
    hsp_graph_free(g);
    return st;
}

static void graphs_of_all_families_are_built_whole_or_not(void **state)
{
    (void)state;
    static const char *const families[] = {"gpt", "llama", "mlp"};
    for (int i = 0; i < 3; i++) {
        struct hsp_model_spec s = spec_of(families[i]);
        hsp_oom_loop(families[i], use_graph, &s, 500);
    }
}

struct work {
    const struct hsp_graph *g;
    struct hsp_train_spec t;
    const char *text;
};

static struct work work_of(const struct hsp_graph *g, const char *text)
{
    struct work w = {.g = g, .t = plan_training(HSP_OPT_ADAMW, 12), .text = text};
    w.t.hyper.clip_norm = 1;
    return w;
}

static enum hsp_status parse(const struct work *w, struct hsp_arena *a, struct hsp_plan **ret,
                             struct hsp_err *err)
{
    enum hsp_status st = hsp_plan_parse(w->text, strlen(w->text), "p", PLAN_BATCH, a, ret, err);
    return st != HSP_OK ? st : hsp_plan_check(*ret, w->g, PLAN_BATCH, err);
}

static enum hsp_status start(struct hsp_arena **ret, struct hsp_err *err)
{
    *ret = hsp_arena_new(ARENA);
    return *ret != NULL ? HSP_OK : hsp_err_set(err, HSP_ENOMEM, 0, "no arena");
}

/* Reads and compiles a plan, then reads and compiles its total form, with the cached templates if
 * there was memory to keep them. */
static enum hsp_status use_compiler(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct work *w = ctx;
    struct hsp_arena *a = NULL;
    struct hsp_plan *p = NULL, total = {0};
    struct hsp_program_file f = {0};
    struct hsp_buf b;
    hsp_buf_init(&b, (size_t)16 << 20);
    enum hsp_status st = start(&a, err);
    st = st != HSP_OK ? st : parse(w, a, &p, err);
    struct hsp_templates *k = hsp_templates_new();
    if (st == HSP_OK && k == NULL) {
        st = hsp_err_set(err, HSP_ENOMEM, 0, "no templates");
    }
    st = st != HSP_OK ? st : hsp_compile_kept(w->g, p, &w->t, k, a, &f, &total, err);
    if (st == HSP_OK) {
        hsp_plan_dump(&total, &b);
        struct work again = *w;
        again.text = hsp_buf_cstr(&b);
        st = b.failed ? hsp_err_set(err, HSP_ENOMEM, 0, "plan text") : parse(&again, a, &p, err);
    }
    st = st != HSP_OK ? st : hsp_compile_kept(w->g, p, &w->t, k, a, &f, &total, err);
    st = st != HSP_OK ? st : hsp_deadlock_check(f.programs, f.n, HSP_OF_TRAIN, err);
    if (st == HSP_OK) {
        f.config_json = "{}";
        st = hsp_program_file_encode(&f, out);
        st = st != HSP_OK ? hsp_err_set(err, st, 0, "encoding") : HSP_OK;
        hsp_buf_append(out, b.data, b.len);
    }
    k = hsp_templates_free(k);
    hsp_buf_fini(&b);
    hsp_arena_free(a);
    return st;
}

/* Computes digests of the meaning of a plan, at its own extents and at small ones. */
static enum hsp_status use_digests(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct work *w = ctx;
    struct hsp_arena *a = NULL;
    struct hsp_plan *p = NULL, total = {0};
    struct hsp_digest d = {0}, e = {0};
    struct hsp_program_file f = {0};
    struct hsp_scaled_model small;
    enum hsp_status st = start(&a, err);
    st = st != HSP_OK ? st : parse(w, a, &p, err);
    st = st != HSP_OK ? st : hsp_plan_complete(w->g, p, &w->t, a, &total, err);
    st = st != HSP_OK ? st : hsp_total_digest(&total, &d, err);
    st = st != HSP_OK ? st : hsp_plan_digest(w->g, p, &w->t, &e, err);
    assert_true(st != HSP_OK || hsp_digest_equal(d, e));
    st = st != HSP_OK ? st : hsp_compile_scaled(w->g, p, &w->t, a, &f, &small, err);
    for (uint32_t i = 0; st == HSP_OK && i < f.n; i++) {
        hsp_program_dump(&f.programs[i], out);
    }
    hsp_arena_free(a);
    return st;
}

/* Reads annotations, writes them, and finds their pipelines. */
static enum hsp_status use_annotations(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct work *w = ctx;
    struct hsp_arena *a = NULL;
    struct hsp_plan *p = NULL;
    enum hsp_status st = start(&a, err);
    st = st != HSP_OK ? st : hsp_plan_parse(w->text, strlen(w->text), "p", PLAN_BATCH, a, &p, err);
    if (st == HSP_OK) {
        hsp_plan_dump(p, out);
    }
    st = st != HSP_OK ? st : hsp_plan_find_pipelines(p, w->g, a, err);
    if (st == HSP_OK) {
        hsp_plan_dump(p, out);
    }
    hsp_arena_free(a);
    return st;
}

static enum hsp_status use_split(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    hsp_plan_put_split(ctx, out);
    return out->failed ? hsp_err_set(err, HSP_ENOMEM, 0, "text of a split") : HSP_OK;
}

static void pipelines_are_found_whole_or_not(void **state)
{
    (void)state;
    static const char text[] = HSP_PLAN_HEAD
        "ranks: 6\nzero: 1\nannotations:\n"
        "  - {name: h.0.attn.q.weight, use: {dup: [{split: 0, shares: [2, 1], of: [0, 3]}, {dup: "
        "[2, "
        "4]}]}}\n"
        "  - {name: \"h.[1-1].*.q.weight\", use: {dup: [{split: 0, cuts: [0, 2, 6], of: [1, 5]}, "
        "{dup: "
        "[2, 4]}]}}\n"
        "batches:\n  - {sequences: 4, micro_batches: 2, stages: [{saved: recompute}, {}]}\n"
        "  - {sequences: 3, stages: [{split: sequence, shares: [3, 1], balance: work}]}\n";
    struct hsp_model_spec s = spec_of("gpt");
    struct hsp_graph *g = NULL;
    struct hsp_err err = {0};
    assert_ok(hsp_graph_build(&s, &g, &err), &err);
    struct work w = work_of(g, text);
    hsp_oom_loop("annotations", use_annotations, &w, 20);
    struct hsp_stage stage = {.split = HSP_SPLIT_BATCH};
    hsp_oom_loop("split", use_split, &stage, 1);
    hsp_graph_free(g);
}

static void plans_are_compiled_whole_or_not(void **state)
{
    (void)state;
    struct hsp_model_spec s = spec_of("gpt");
    struct hsp_graph *g = NULL;
    struct hsp_err err = {0};
    assert_ok(hsp_graph_build(&s, &g, &err), &err);
    static const char recompute[] =
        HSP_PLAN_HEAD "ranks: 3\nzero: 1\nzero_pattern: interleaved\nbucket: 4000\npipelines:\n"
                      "  - {sequences: 5, micro_batches: 2, stages: [{layers: 2, ranks: [0, 1], "
                      "tensor: [2, 1], saved: recompute}]}\n"
                      "  - {sequences: 2, micro_batches: 1, stages: [{layers: 2, ranks: [2]}]}\n";
    static const char ring[] = HSP_PLAN_HEAD
        "ranks: 4\npipelines: [{sequences: 7, micro_batches: 2, stages: [{layers: 2, "
        "split: sequence, shares: [2, 1, 1], balance: work, groups: [{ranks: [0, 1]}, "
        "{ranks: [2]}, {ranks: [3]}], saved: recompute}]}]\n";
    static const char offload[] = HSP_PLAN_HEAD
        "ranks: 2\npipelines: [{sequences: 7, micro_batches: 3, schedule: zero_bubble, stages: "
        "[{layers: 1, ranks: [0], saved: offload}, {layers: 1, ranks: [1], saved: offload}]}]\n";
    static const char gather[] = HSP_PLAN_HEAD
        "ranks: 3\nzero: 3\npipelines:\n"
        "  - {sequences: 5, micro_batches: 2, schedule: zero_bubble, stages: [{layers: "
        "2, ranks: [0, 1], tensor: [2, 1]}]}\n"
        "  - {sequences: 2, micro_batches: 1, stages: [{layers: 2, ranks: [2]}]}\n";
    const char *const texts[] = {gather,
                                 hsp_plan_cases[3],
                                 hsp_plan_cases[10],
                                 recompute,
                                 hsp_group_cases[3],
                                 hsp_group_cases[8],
                                 HSP_PLAN_CASE_OF_ALL_SCHEDULES,
                                 ring,
                                 offload};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct work w = work_of(g, texts[i]);
        hsp_oom_loop("compiler", use_compiler, &w, 50);
        hsp_oom_loop("digests", use_digests, &w, 25);
    }
    hsp_graph_free(g);
}

/* Three members in two groups: a sum over both tiers becomes cut rows, and those whole. */
static enum hsp_status use_layouts(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    static const int64_t ext[] = {2, 4};
    static const uint32_t first[] = {0, 2}, ranks[] = {4, 1, 2};
    const struct hsp_tiers tiers = {.n = 3, .n_groups = 2, .first = first};
    struct hsp_layout l, rest, sum, done;
    struct hsp_annot *tree = NULL;
    struct hsp_arena *a = NULL;
    enum hsp_status st = start(&a, err);
    st = st != HSP_OK ? st : hsp_layout_whole(2, ext, 3, a, &l, err);
    st = st != HSP_OK ? st : hsp_layout_whole(2, ext, 3, a, &rest, err);
    if (st == HSP_OK) {
        rest.split[1] = 1;
        rest.box[0].hi[1] = rest.box[1].hi[1] = rest.box[2].lo[1] = 3;
        st = hsp_layout_sum(&l, HSP_IN_GROUPS | HSP_OVER_GROUPS, &tiers, a, &sum, err);
    }
    st = st != HSP_OK ? st : hsp_layout_annot(&sum, &tiers, ranks, a, &tree, err);
    if (st == HSP_OK) {
        hsp_annot_dump(tree, out);
        st = hsp_layout_complete(&sum, &rest, &tiers, a, &done, err);
    }
    st = st != HSP_OK ? st : hsp_layout_annot(&done, &tiers, ranks, a, &tree, err);
    if (st == HSP_OK) {
        hsp_annot_dump(tree, out);
        st = hsp_layout_uncut(&done, 1, true, &tiers, a, err);
    }
    if (st == HSP_OK) {
        hsp_buf_printf(out, " %d", hsp_layout_equal(&done, &l));
    }
    (void)ctx;
    hsp_arena_free(a);
    return st;
}

/* Rows that two members have one each of, gathered. */
static enum hsp_status use_forced(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    static const int64_t ext[] = {2};
    uint32_t ranks[] = {0, 1};
    struct hsp_tensor t = {.kind = HSP_TENSOR_ACT};
    struct hsp_graph g = {.tensors = &t};
    const struct hsp_node n = {.n_in = 1};
    const struct hsp_stage group = {.n = 2, .ranks = ranks};
    const struct hsp_stagecode s = {.group = &group};
    const struct hsp_forced f = {.gather = HSP_IN_GROUPS, .name = HSP_CUT_ROWS};
    struct hsp_compiler c = {.g = &g};
    struct hsp_layout in;
    enum hsp_status st = start(&c.arena, err);
    st = st != HSP_OK ? st : hsp_layout_whole(1, ext, 2, c.arena, &in, err);
    if (st == HSP_OK) {
        in.cut[0] = HSP_CUT_ROWS;
        in.box[0].hi[0] = in.box[1].lo[0] = 1;
        st = hsp_operands_force(&c, &s, &n, &f, &in, err);
    }
    if (st == HSP_OK) {
        hsp_buf_printf(out, "%lld", (long long)hsp_box_count(&in.box[0]));
    }
    (void)ctx;
    hsp_arena_free(c.arena);
    return st;
}

static void layouts_are_whole_or_not(void **state)
{
    (void)state;
    hsp_oom_loop("layouts", use_layouts, NULL, 100);
    hsp_oom_loop("operands", use_forced, NULL, 100);
}

/* Compiles a pool, writes it, and reads it again. */
static enum hsp_status use_pool(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct work *w = ctx;
    struct hsp_arena *a = NULL;
    struct hsp_plan *p = NULL;
    struct hsp_program_file f = {0}, read = {0};
    struct hsp_buf b;
    hsp_buf_init(&b, (size_t)16 << 20);
    enum hsp_status st = start(&a, err);
    st = st != HSP_OK ? st : parse(w, a, &p, err);
    st = st != HSP_OK ? st : hsp_compile(w->g, p, &w->t, a, &f, err);
    if (st == HSP_OK) {
        f.config_json = "{}";
        st = hsp_program_file_encode(&f, &b);
        st = st != HSP_OK ? hsp_err_set(err, st, 0, "encoding") : HSP_OK;
    }
    st = st != HSP_OK ? st : hsp_program_file_decode(b.data, b.len, a, &read, err);
    if (st == HSP_OK) {
        st = hsp_program_file_encode(&read, out);
        st = st != HSP_OK ? hsp_err_set(err, st, 0, "encoding") : HSP_OK;
        hsp_plan_dump(p, out);
    }
    hsp_buf_fini(&b);
    hsp_arena_free(a);
    return st;
}

static enum hsp_status use_pool_digests(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct work *w = ctx;
    struct hsp_arena *a = NULL;
    struct hsp_plan *p = NULL, total = {0};
    struct hsp_digest d = {0}, e = {0};
    enum hsp_status st = start(&a, err);
    st = st != HSP_OK ? st : parse(w, a, &p, err);
    st = st != HSP_OK ? st : hsp_plan_complete(w->g, p, &w->t, a, &total, err);
    st = st != HSP_OK ? st : hsp_total_digest(&total, &d, err);
    st = st != HSP_OK ? st : hsp_plan_digest(w->g, p, &w->t, &e, err);
    assert_true(st != HSP_OK || hsp_digest_equal(d, e));
    if (st == HSP_OK) {
        hsp_buf_u64(out, d.lo);
    }
    hsp_arena_free(a);
    return st;
}

static void pools_are_compiled_whole_or_not(void **state)
{
    (void)state;
    struct hsp_model_spec s = spec_of("gpt");
    struct hsp_graph *g = NULL;
    struct hsp_err err = {0};
    assert_ok(hsp_graph_build(&s, &g, &err), &err);
    struct work w = work_of(
        g,
        "apiVersion: hspmd/v1\nkind: pool\nplans:\n"
        "  - {max_length: 2, plan: {ranks: 2, pipelines: [{sequences: 4, stages: [{layers: 2, "
        "ranks: [0]}]}, {sequences: 3, stages: [{layers: 2, ranks: [1]}]}]}}\n"
        "  - {max_length: 4, plan: {ranks: 2, zero: 1, pipelines: [{sequences: 7, micro_batches: "
        "7, stages: [{layers: 1, ranks: [1]}, {layers: 1, ranks: [0]}]}]}}\n");
    w.t.data.samples = HSP_SAMPLES_DOCUMENTS;
    w.t.data.longest = w.t.data.sequence;
    w.t.data.packing = HSP_PACKING_END;
    hsp_oom_loop("pool", use_pool, &w, 50);
    hsp_oom_loop("digests of a pool", use_pool_digests, &w, 25);
    hsp_graph_free(g);
}

static void put_table(struct hsp_buf *out, const struct hsp_state_table *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        const struct hsp_state_row *r = &t->row[i];
        hsp_buf_printf(out, "%u>%u %u %d-%d;", r->from, r->to, r->param, (int)r->box.lo[0],
                       (int)r->box.hi[0]);
    }
}

enum { PARAMS_MAX = 64 };

static void fini(struct hsp_cover *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        hsp_cover_fini(&c[i]);
    }
}

/* Plans a transfer with relays, among three hosts with two devices and two cards each. */
static enum hsp_status send_receive(const struct hsp_graph *g, const struct hsp_cover *have,
                                    const struct hsp_cover *home, struct hsp_arena *a,
                                    struct hsp_buf *out, struct hsp_err *err)
{
    static const uint32_t device[] = {0, 1, 2, 3, 4, 5};
    const struct hsp_bsr_opts o = {.elem_bytes = 4, .chunk_bytes = 64};
    struct hsp_device_desc dev[6] = {0};
    struct hsp_cluster_desc c = {.n = 6, .dev = dev, .same_node = {1, 1}, .cross = {1, 10}};
    struct hsp_bsr_net net;
    struct hsp_bsr_traffic m = {0};
    struct hsp_state_table t = {0};
    for (uint32_t i = 0; i < 6; i++) {
        dev[i] = (struct hsp_device_desc){.node = i / 2, .host = i / 2, .nic = i % 2};
    }
    enum hsp_status st = hsp_bsr_net_make(&c, device, 6, a, &net, err);
    st = st != HSP_OK ? st : hsp_bsr_plan(g, have, home, &net, &o, a, &t, err);
    st = st != HSP_OK ? st : hsp_bsr_measure(g, have, home, &net, &o, &t, a, &m, err);
    put_table(out, &t);
    hsp_buf_printf(out, "%d %d;", (int)m.nic_load, (int)m.relayed);
    return st;
}

/* Plans the transfer from the homes of one plan to those of another, and the copies of the
 * state. */
static enum hsp_status switch_plans(const struct hsp_graph *g, const struct hsp_cover *old,
                                    const struct hsp_cover *home, struct hsp_arena *a,
                                    struct hsp_buf *out, struct hsp_err *err)
{
    static const uint32_t mesh[] = {0, 1, HSP_NONE, 3, 4, 5}, node[] = {0, 0, 1, 2, 2, 3};
    struct hsp_cover have[PARAMS_MAX] = {0};
    struct hsp_state_table copies = {0}, equal = {0};
    enum hsp_status st = hsp_copy_table(g, old, node, 6, 2, a, &copies, err);
    st = st != HSP_OK ? st : hsp_replica_table(g, old, 6, a, &equal, err);
    for (uint32_t p = 0; st == HSP_OK && p < g->n_params; p++) {
        struct hsp_box *box = NULL;
        uint32_t n = 0;
        st = hsp_have_home(&old[p], mesh, 6, &have[p], err);
        st = st != HSP_OK ? st : hsp_have_copies(&copies, p, mesh, 6, &have[p], err);
        struct hsp_owned owned[6] = {0};
        st = st != HSP_OK ? st : hsp_home_owned(&home[p], 0, a, &box, &n, err);
        st = st != HSP_OK ? st : hsp_home_owners(&home[p], 6, a, owned, err);
    }
    put_table(out, &copies);
    put_table(out, &equal);
    st = st != HSP_OK ? st : send_receive(g, have, home, a, out, err);
    fini(have, g->n_params);
    return st;
}

static enum hsp_status use_switch(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct work *w = ctx;
    struct work to = *w;
    struct hsp_arena *a = NULL;
    struct hsp_plan *p = NULL, *q = NULL;
    struct hsp_cover old[PARAMS_MAX], home[PARAMS_MAX], one;
    to.text = hsp_plan_cases[9];
    enum hsp_status st = start(&a, err);
    st = st != HSP_OK ? st : parse(w, a, &p, err);
    st = st != HSP_OK ? st : parse(&to, a, &q, err);
    st = st != HSP_OK ? st : hsp_plan_homes(w->g, p, old, err);
    if (st == HSP_OK) {
        st = hsp_plan_homes(w->g, q, home, err);
        if (st == HSP_OK) {
            st = switch_plans(w->g, old, home, a, out, err);
            fini(home, w->g->n_params);
        }
        fini(old, w->g->n_params);
    }
    st = st != HSP_OK ? st : plan_home(w->g, p, 1, &one, err);
    if (st == HSP_OK) {
        struct hsp_annot *tree = NULL, *cuts = NULL;
        st = hsp_annot_of_cover(&one, a, &tree, err);
        st = st != HSP_OK || tree == NULL
                 ? st
                 : hsp_annot_with_cuts(tree, one.rank, one.extent, a, &cuts, err);
        if (cuts != NULL) {
            hsp_annot_dump(cuts, out);
        }
        hsp_cover_fini(&one);
    }
    hsp_arena_free(a);
    return st;
}

static void a_switch_is_worked_out_whole_or_not(void **state)
{
    (void)state;
    struct hsp_model_spec s = spec_of("gpt");
    struct hsp_graph *g = NULL;
    struct hsp_err err = {0};
    assert_ok(hsp_graph_build(&s, &g, &err), &err);
    assert_true(g->n_params <= PARAMS_MAX);
    struct work w = work_of(g, hsp_plan_cases[10]);
    hsp_oom_loop("switch", use_switch, &w, 300);
    hsp_graph_free(g);
}

static struct hsp_link_cost alike(const void *ctx, uint32_t from, uint32_t to)
{
    (void)ctx;
    return (struct hsp_link_cost){10, from < to ? 1 : 2};
}

/* Finds names and costs of Reshards: those of a plan, and one from @src to @dst. In @src each of
 * three ranks holds two addends of a sum in boxes that overlap. In @dst three other ranks hold the
 * sum, one of them half of it. */
static enum hsp_status use_methods(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct work *w = ctx;
    const struct hsp_rank_links links = {.between = alike};
    const struct hsp_resolve_opts opts = {.partial_target = true, .links = &links};
    const int64_t ext[] = {8};
    const struct hsp_box whole = {.rank = 1, .hi = {8}}, half = {.rank = 1, .hi = {4}};
    struct hsp_cover src, dst;
    struct hsp_arena *a = NULL;
    struct hsp_plan *p = NULL, total = {0};
    struct hsp_methods m;
    struct hsp_moves v;
    struct hsp_reshard_bind b;
    uint32_t channel = 0;
    hsp_cover_init(&src, 1, ext);
    hsp_cover_init(&dst, 1, ext);
    enum hsp_status st = start(&a, err);
    st = st != HSP_OK ? st : parse(w, a, &p, err);
    st = st != HSP_OK ? st : hsp_plan_explain(w->g, p, &w->t, &links, a, &total, err);
    for (uint32_t r = 0; st == HSP_OK && r < 3; r++) {
        st = hsp_cover_add(&src, r, r, &whole);
        st = st != HSP_OK ? st : hsp_cover_add(&src, r, r + 3, &half);
        st = st != HSP_OK ? st : hsp_cover_add(&dst, r + 3, 0, r == 0 ? &half : &whole);
        st = st == HSP_OK ? st : hsp_err_set(err, st, 0, "cover");
    }
    hsp_cover_normalise(&src);
    hsp_cover_normalise(&dst);
    st = st != HSP_OK ? st : hsp_methods_find(&src, &dst, false, a, &m, err);
    st = st != HSP_OK ? st : hsp_resolve(&src, &dst, &opts, &channel, a, &v, err);
    st = st != HSP_OK ? st : hsp_moves_bind(&v, 0, false, a, &b, err);
    if (st == HSP_OK) {
        hsp_plan_dump(&total, out);
        hsp_plan_dump_bare(&total, out);
        hsp_methods_put(&m, out);
    }
    hsp_cover_fini(&src);
    hsp_cover_fini(&dst);
    hsp_arena_free(a);
    return st;
}

static void reshards_are_named_whole_or_not(void **state)
{
    (void)state;
    struct hsp_model_spec s = spec_of("mlp");
    struct hsp_err err = {0};
    struct hsp_graph *g = NULL;
    assert_ok(hsp_graph_build(&s, &g, &err), &err);
    if (g->seed == HSP_NONE) {
        assert_ok(hsp_graph_autodiff(g, &err), &err);
    }
    struct work w = work_of(g, hsp_plan_cases[10]);
    hsp_oom_loop("methods", use_methods, &w, 200);
    hsp_graph_free(g);
    struct hsp_plan none = {0};
    uint32_t rank = 0;
    struct hsp_method_part part = {.n_steps = 1, .n_ranks = 1, .ranks = &rank};
    const struct hsp_methods m = {.n = 1, .part = &part};
    struct hsp_buf b;
    hsp_oom_empty(&b);
    hsp_plan_dump_bare(&none, &b);
    hsp_oom_nothing(&b);
    hsp_oom_empty(&b);
    hsp_methods_put(&m, &b);
    hsp_oom_nothing(&b);
}

/* Lines of numbered names become runs. */
static enum hsp_status use_lines(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    (void)ctx;
    static const struct hsp_line line[] = {{{"h.0.w", NULL}, {1, 1}},    {{"h.1.w", NULL}, {1, 1}},
                                           {{"h.2.w", "h.1.b"}, {1, 1}}, {{"h.3.w", NULL}, {2, 1}},
                                           {{"h.2.w", NULL}, {1, 1}},    {{"wte", NULL}, {1, 1}}};
    struct hsp_arena *a = NULL;
    struct hsp_name_run *run = NULL;
    uint32_t n = 0;
    enum hsp_status st = start(&a, err);
    st = st != HSP_OK ? st : hsp_lines_group(line, sizeof line / sizeof line[0], a, &run, &n, err);
    for (uint32_t i = 0; st == HSP_OK && i < n; i++) {
        struct hsp_name_range r;
        hsp_buf_puts(out, run[i].name[0]);
        assert_true(hsp_range_parse(run[i].name[0], &r));
        hsp_range_put(&r, 0, out);
    }
    hsp_arena_free(a);
    return st;
}

static void lines_are_grouped_whole_or_not(void **state)
{
    (void)state;
    hsp_oom_loop("lines", use_lines, NULL, 1000);
    struct hsp_buf b;
    struct hsp_name_range r;
    assert_true(hsp_range_parse("h.[0-3].w", &r));
    hsp_oom_empty(&b);
    hsp_range_put(&r, 1, &b);
    hsp_oom_nothing(&b);
}

HSP_TEST_FILE(oom_spmd_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_of_all_families_are_built_whole_or_not),
        cmocka_unit_test(pipelines_are_found_whole_or_not),
        cmocka_unit_test(plans_are_compiled_whole_or_not),
        cmocka_unit_test(pools_are_compiled_whole_or_not),
        cmocka_unit_test(layouts_are_whole_or_not),
        cmocka_unit_test(a_switch_is_worked_out_whole_or_not),
        cmocka_unit_test(reshards_are_named_whole_or_not),
        cmocka_unit_test(lines_are_grouped_whole_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
