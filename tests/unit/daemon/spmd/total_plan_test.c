/* Tests total plans: they say all, say it back, mean the same, and are refused when one word is
 * wrong. */
#include <stdio.h>

#include "daemon/graph/graph.h"
#include "daemon/plan/name_range.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/sharding/cover_to_annot.h"
#include "daemon/spmd/total/total_plan.h"
#include "proto/layout/annot_text.h"
#include "proto/program/program_file.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/plan/plan_cases.h"
#include "tests/unit/daemon/plan/plan_model.h"

#define ARENA_BYTES ((size_t)1 << 30)
#define TEXT_BYTES  ((size_t)64 << 20)

/* A vocabulary cut by tensor parallelism, for layouts that no family asks for. */
static struct plan_model make_cut_vocabulary(bool tied)
{
    struct plan_model m = plan_model("gpt", tied, 2, HSP_OPT_ADAMW);
    for (uint32_t p = 0; p < m.g->n_params; p++) {
        const char *name = m.g->tensors[m.g->params[p].tensor].name;
        if (strcmp(name, "wte.weight") == 0 || strcmp(name, "lm_head.weight") == 0) {
            m.g->params[p].tp_dim = 0;
            m.g->params[p].tp_grain = 1;
            m.g->params[p].tp_family = 77;
        }
    }
    return m;
}

static struct hsp_plan *parse(const char *text, struct hsp_arena *arena)
{
    struct hsp_plan *p = NULL;
    struct hsp_err err = {0};
    enum hsp_status rc = hsp_plan_parse(text, strlen(text), "plan", PLAN_BATCH, arena, &p, &err);
    if (rc != HSP_OK) {
        fail_msg("%s, in\n%s", err.msg, text);
    }
    return p;
}

/* The text of the total plan of @text; free() it. */
static char *complete(const char *text, const struct plan_model *m)
{
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct hsp_plan total;
    struct hsp_err err = {0};
    struct hsp_buf b;
    enum hsp_status rc = hsp_plan_complete(m->g, parse(text, arena), &m->t, arena, &total, &err);
    if (rc != HSP_OK) {
        fail_msg("%s, under\n%s", err.msg, text);
    }
    hsp_buf_init(&b, TEXT_BYTES);
    hsp_plan_dump(&total, &b);
    assert_false(b.failed);
    char *copy = strdup(hsp_buf_cstr(&b));
    hsp_buf_fini(&b);
    hsp_arena_free(arena);
    assert_non_null(copy);
    return copy;
}

static enum hsp_status compile(const char *text, const struct plan_model *m, struct hsp_buf *out,
                               struct hsp_err *err)
{
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct hsp_program_file f = {0};
    struct hsp_plan *p = NULL;
    enum hsp_status rc = hsp_plan_parse(text, strlen(text), "plan", PLAN_BATCH, arena, &p, err);
    if (rc == HSP_OK) {
        rc = hsp_compile(m->g, p, &m->t, arena, &f, err);
    }
    if (rc == HSP_OK && out != NULL) {
        hsp_buf_init(out, TEXT_BYTES);
        assert_int_equal(hsp_program_file_encode(&f, out), HSP_OK);
    }
    hsp_arena_free(arena);
    return rc;
}

/* parse(dump(x)) is x, complete(x) is x, and x compiles to the programs of its compact form. */
static void check_plan(const char *text, const struct plan_model *m)
{
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    char *total = complete(text, m), *again = complete(total, m);
    struct hsp_buf b, of_compact, of_total;
    struct hsp_err err = {0};
    hsp_buf_init(&b, TEXT_BYTES);
    hsp_plan_dump(parse(total, arena), &b);
    assert_string_equal(hsp_buf_cstr(&b), total);
    assert_string_equal(again, total);
    assert_ok(compile(text, m, &of_compact, &err), &err);
    assert_ok(compile(total, m, &of_total, &err), &err);
    assert_int_equal(of_compact.len, of_total.len);
    assert_memory_equal(of_compact.data, of_total.data, of_compact.len);
    hsp_buf_fini(&of_compact);
    hsp_buf_fini(&of_total);
    hsp_buf_fini(&b);
    free(total);
    free(again);
    hsp_arena_free(arena);
}

static void check_table(struct plan_model m)
{
    for (size_t i = 0; i < hsp_n_plan_cases; i++) {
        check_plan(hsp_plan_cases[i], &m);
    }
    hsp_graph_free(m.g);
}

static void test_table(void **state)
{
    (void)state;
    check_table(plan_model("gpt", false, 2, HSP_OPT_ADAMW));
    check_table(plan_model("gpt", true, 2, HSP_OPT_ADAMW));
    check_table(plan_model("mlp", false, 2, HSP_OPT_ADAMW));
    check_table(make_cut_vocabulary(false));
    check_table(make_cut_vocabulary(true));
}

/* Groups of ranks, and how they share sequences and micro-batches. */
static void test_stage_groups(void **state)
{
    (void)state;
    struct plan_model m = plan_model("gpt", true, 2, HSP_OPT_ADAMW);
    for (size_t i = 0; i < hsp_n_group_cases; i++) {
        check_plan(hsp_group_cases[i], &m);
    }
    for (uint64_t i = 0; i < hsp_test_rounds(40); i++) {
        uint64_t draw = i << 16;
        struct hsp_buf b;
        hsp_buf_init(&b, 1 << 16);
        hsp_random_groups(&draw, 2, PLAN_BATCH, &b);
        check_plan(hsp_buf_cstr(&b), &m);
        hsp_buf_fini(&b);
    }
    hsp_graph_free(m.g);
}

static void test_random(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < hsp_test_rounds(150); i++) {
        uint64_t draw = i << 16;
        bool gpt = hsp_plan_pick(&draw, 0, 2) > 0;
        uint32_t layers = hsp_plan_pick(&draw, 1, 4);
        struct plan_model m =
            plan_model(gpt ? "gpt" : "mlp", hsp_plan_pick(&draw, 0, 1) == 1, layers, HSP_OPT_ADAMW);
        struct hsp_buf b;
        hsp_buf_init(&b, 1 << 16);
        hsp_random_plan(&draw, layers, PLAN_BATCH, &b);
        check_plan(hsp_buf_cstr(&b), &m);
        hsp_buf_fini(&b);
        hsp_graph_free(m.g);
    }
}

static const char homes_plan[] =
    HSP_PLAN_HEAD "ranks: 4\npipelines:\n"
                  "  - {sequences: 4, micro_batches: 2, stages: [{layers: 1, ranks: [0, 1]},"
                  " {layers: 1, ranks: [2]}]}\n"
                  "  - {sequences: 3, micro_batches: 2, stages: [{layers: 2, ranks: [3]}]}\n"
                  "parameters: [%s]\n";

/* Rules become homes; also those that covers do not give back (nested cuts, copied). */
static void test_rules(void **state)
{
    (void)state;
    static const char *const rules[] = {
        "{name: \"h.0.mlp.fc.weight\", home: 2}",
        "{name: \"h.0.mlp.*\", home: {split: 0, shares: [2, 1, 3], of: [3, 2, 0]}}",
        "{name: \"wte.weight\", home: {split: 1, shares: [1, 1], of: [{dup: [0, 3]}, 2]}}",
        "{name: \"wte.weight\", home: {dup: [{split: 1, shares: [1, 2], of: [{split: 0, shares: "
        "[1, 1], of: [2, 0]}, 1]}, 3]}}",
        "{name: \"h.0.mlp.fc.weight\", home: 2}, {name: \"h.?.mlp.fc.*\", home: {split: 0, "
        "shares: [2, 1, 3], of: [3, 2, 0]}}, {name: \"w*\", home: {dup: [3, 1]}}",
    };
    struct plan_model m = plan_model("gpt", true, 2, HSP_OPT_ADAMW);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        char plan[2048];
        snprintf(plan, sizeof plan, homes_plan, rules[i]);
        check_plan(plan, &m);
    }
    hsp_graph_free(m.g);
}

/* A stage of tensor parallelism, one alone, a second pipeline, sharded state: every kind of
 * line. */
static const char rich[] = HSP_PLAN_HEAD
    "ranks: 4\nzero: 1\npipelines:\n"
    "  - {sequences: 4, micro_batches: 2, stages: [{layers: 1, ranks: [0, 1], tensor: [2, 1]}, "
    "{layers: 1, ranks: [2]}]}\n"
    "  - {sequences: 3, micro_batches: 2, stages: [{layers: 2, ranks: [3]}]}\n";

/* The plan with @len bytes at @at replaced; free() it. */
static char *edit(const char *text, size_t at, size_t len, const char *by)
{
    size_t n = strlen(text), k = strlen(by);
    char *s = calloc(n - len + k + 1, 1);
    assert_non_null(s);
    memcpy(s, text, at);
    memcpy(s + at, by, k);
    memcpy(s + at + k, text + at + len, n - at - len);
    return s;
}

/* Lines worked out by hand: rows of 6 doubles are 48 bytes, a micro-batch has 2 x 4 of them. Ranks
 * 0 and 1 hold rows 0 to 4 and 4 to 6 of q, rank 3 all; homes are rows 0-2 on 0, 2-4 on 3, 4-6 on
 * 1.
 */
static void test_lines(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "sizes: [2, 1]\n",
        "- {layers: 1, ranks: [0, 1], tensor: [2, 1], saved: keep}\n",
        "{name: \"h.0.attn.q.weight\", home: {split: 0, cuts: [0, 2, 4, 6], of: [0, 3, 1]}}\n",
        "{op: linear, makes: \"h.0.attn.q.product\", cut: \"n\", in: [whole, L1], out: [L2]}\n",
        "{op: linear, makes: \"h.0.attn.proj.product\", cut: \"k\", in: [L2, L4], out: [L5]}\n",
        "L1: {split: 0, cuts: [0, 4, 6], of: [0, 1]}\n",
        "L2: {split: 2, cuts: [0, 4, 6], of: [0, 1]}\n",
        "L5: {partial: [0, 1]}\n",
        "{phase: pre, makes: \"h.0.attn.q.weight#use\", moves: [{kind: copy, ranks: [1], gives: "
        "96, "
        "gets: 96}, {kind: all_gather, ranks: [0, 3], gives: 96, gets: 96}, {kind: p2p, ranks: [1, "
        "3], gives: [96, 0], gets: [0, 96]}]}\n",
        "{phase: forward, pipeline: 0, stage: 0, makes: \"h.0.attn.proj.product#sum\", before: "
        "\"h.0.attn.proj\", moves: [{kind: all_reduce, ranks: [0, 1], gives: 384, gets: 384}]}\n",
        "{phase: backward, pipeline: 0, stage: 0, from: 1, makes: \"h.0.grad.2\", before: "
        "\"h.0.mlp.proj.bias.grad\", moves: [{kind: p2p, ranks: [0, 1, 2], gives: [0, 0, 768], "
        "gets: [384, 384, 0]}]}\n",
        "{phase: post, makes: \"h.0.attn.q.weight#grad\", moves: [{kind: reduce_scatter, ranks: "
        "[0, 3], gives: 192, gets: 96}, {kind: reduce_scatter, ranks: [1, 3], gives: 96, gets: "
        "[96, 0]}]}\n",
    };
    struct plan_model m = plan_model("gpt", true, 2, HSP_OPT_ADAMW);
    char *total = complete(rich, &m);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (strstr(total, lines[i]) == NULL) {
            fail_msg("no %s in\n%s", lines[i], total);
        }
    }
    free(total);
    /* copies of a sum that only some ranks made */
    char *text = edit(rich, (size_t)(strstr(rich, "zero: 1") - rich), 7, "zero: 0");
    total = complete(text, &m);
    assert_non_null(strstr(total, "], of_sums: true}"));
    free(total);
    free(text);
    hsp_graph_free(m.g);
}

/* ---- one word changed ---- */

/* The edited plan is refused with a message that contains @names. */
static void refused(char *text, const struct plan_model *m, const char *names)
{
    struct hsp_err err = {0};
    enum hsp_status rc = compile(text, m, NULL, &err);
    if (rc != HSP_EINVAL || strstr(err.msg, names) == NULL) {
        fail_msg("%s \"%s\", not about %s, under\n%s", hsp_test_status_name(rc), err.msg, names,
                 text);
    }
    free(text);
}

/* The first name of a line's "makes" (or "name"), without its range; up to 127 bytes. */
static bool first_name(const char *line, const char *key, char ret[128])
{
    const char *eol = strchr(line, '\n'), *s = strstr(line, key);
    struct hsp_name_range r;
    struct hsp_buf b;
    char quoted[128];
    if (s == NULL || s > eol) {
        return false;
    }
    s += strlen(key);
    snprintf(quoted, sizeof quoted, "%.*s", (int)strcspn(s, "\""), s);
    assert_true(hsp_range_parse(quoted, &r));
    hsp_buf_init(&b, 1024);
    hsp_range_put(&r, 0, &b);
    snprintf(ret, 128, "%s", hsp_buf_cstr(&b));
    hsp_buf_fini(&b);
    return true;
}

/* Each line of uses and reshards is needed, and each number and layout of it. */
static void test_every_line(void **state)
{
    (void)state;
    struct plan_model m = plan_model("gpt", true, 2, HSP_OPT_ADAMW);
    char *total = complete(rich, &m), name[128];
    uint32_t lines = 0, words = 0;
    for (const char *at = strstr(total, "\nuses:"); at != NULL && at[1] != '\0';
         at = strchr(at + 1, '\n')) {
        const char *line = at + 1, *eol = strchr(line, '\n');
        if (*line == '\0' || !first_name(line, "makes: \"", name)) {
            continue;
        }
        refused(edit(total, (size_t)(line - total), (size_t)(eol + 1 - line), ""), &m, name);
        lines++;
        for (const char *w = line; w < eol; w++) {
            bool byte = strncmp(w, "gives: ", 7) == 0 || strncmp(w, "gets: ", 6) == 0;
            bool layout = *w == 'L' && w[1] >= '0' && w[1] <= '9';
            const char *v = layout ? w : byte ? w + (w[2] == 'v' ? 7 : 6) : NULL;
            if (v == NULL || *v == '[') {
                continue;
            }
            refused(edit(total, (size_t)(v - total), layout ? strcspn(v, ",]") : 1,
                         layout      ? "whole"
                         : *v == '7' ? "8"
                                     : "7"),
                    &m, name);
            words++;
        }
    }
    assert_true(lines > 60 && words > 150);
    free(total);
    hsp_graph_free(m.g);
}

static void change(const char *total, const char *from, const char *to, const struct plan_model *m,
                   const char *message)
{
    const char *at = strstr(total, from);
    if (at == NULL) {
        fail_msg("no %s in\n%s", from, total);
    }
    refused(edit(total, (size_t)(at - total), strlen(from), to), m, message);
}

static void test_changes(void **state)
{
    (void)state;
    struct plan_model m = plan_model("gpt", true, 2, HSP_OPT_ADAMW);
    char *total = complete(rich, &m);
    change(total, "sizes: [2, 1]", "sizes: [1, 2]", &m,
           "pipeline 1 micro-batch 0 has 1 sequences, must have 2");
    change(
        total, "makes: \"h.0.attn.proj.product#sum\", before: \"h.0.attn.proj\"",
        "makes: \"h.0.attn.proj.product#sum\", before: \"h.0.attn\"", &m,
        "Reshard that makes h.0.attn.proj.product#sum in forward of pipeline 0 stage 0: the plan "
        "states ..h.0.attn, ");
    change(total, "kind: all_reduce", "kind: all_gather", &m, "h.0.attn.proj.product#sum");
    change(total, "stage: 1, from: 0", "stage: 1", &m, "in forward of pipeline 0 stage 1");
    change(total, "op: bias_add, makes: \"h.0.attn.q\", cut: \"n\"",
           "op: bias_add, makes: \"h.0.attn.q\", cut: \"b\"", &m,
           "use of pipeline 0 stage 0, bias_add that makes h.0.attn.q: the plan states ..b, in ");
    change(total, "L1: {split: 0, cuts: [0, 4, 6]", "L1: {split: 0, cuts: [0, 2, 6]", &m,
           "use of pipeline 0 stage 0, linear that makes h.0.attn.q.product: ");
    change(total, "{phase: post, makes: \"wpe.weight#grad\"",
           "{phase: post, makes: \"other.weight#grad\"", &m,
           "Reshard that makes other.weight#grad in post: the plan states one that nothing needs");
    /* homes: obeyed, so that the Reshards that are stated no longer follow */
    change(total, "{name: \"h.0.mlp.fc.weight\", home: {",
           "{name: \"h.0.mlp.fc.weight\", home: 1}"
           "\n  - {name: \"nothing\", home: {",
           &m, "homes: 0 of the 1 parameters of nothing exist");
    free(total);
    hsp_graph_free(m.g);
}

/* Every home: moved to another rank, the Reshards of that parameter are refused by its name. */
static void test_every_home(void **state)
{
    (void)state;
    struct plan_model m = plan_model("gpt", true, 2, HSP_OPT_ADAMW);
    char *total = complete(rich, &m), name[128];
    uint32_t lines = 0;
    const char *end = strstr(total, "\nuses:");
    for (const char *at = strstr(total, "\nhomes:"); at < end; at = strchr(at + 1, '\n')) {
        const char *line = at + 1, *eol = strchr(line, '\n');
        const char *home = strstr(line, "home: ");
        if (line > end || !first_name(line, "name: \"", name)) {
            continue;
        }
        home += 6;
        bool at_two = strncmp(home, "2}", 2) == 0;
        refused(edit(total, (size_t)(home - total), (size_t)(eol - 1 - home), at_two ? "3" : "2"),
                &m, name);
        lines++;
    }
    assert_true(lines > 20);
    free(total);
    hsp_graph_free(m.g);
}

/* Homes alone are obeyed: the rest follows from them. */
static void test_homes_alone(void **state)
{
    (void)state;
    static const char homes[] =
        "homes:\n  - {name: \"h.[0-1].mlp.fc.weight\", home: {split: 0, cuts: [0, 5, 24], of: [3, "
        "1]}}\n";
    struct plan_model m = plan_model("gpt", true, 2, HSP_OPT_ADAMW);
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct hsp_cover c;
    struct hsp_err err = {0};
    struct hsp_buf a, b;
    char *text = edit(rich, sizeof rich - 1, 0, homes);
    struct hsp_plan *p = parse(text, arena);
    uint32_t param = 0;
    while (strcmp(m.g->tensors[m.g->params[param].tensor].name, "h.1.mlp.fc.weight") != 0) {
        param++;
    }
    assert_ok(plan_home(m.g, p, param, &c, &err), &err);
    assert_int_equal(c.n, 2);
    assert_int_equal(c.items[0].rank, 1);
    assert_int_equal(c.items[0].box.lo[0], 5);
    assert_int_equal(c.items[1].rank, 3);
    assert_int_equal(c.items[1].box.hi[0], 5);
    hsp_cover_fini(&c);
    check_plan(text, &m);
    assert_ok(compile(rich, &m, &a, &err), &err);
    assert_ok(compile(text, &m, &b, &err), &err);
    assert_false(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
    hsp_buf_fini(&a);
    hsp_buf_fini(&b);
    free(text);
    hsp_arena_free(arena);
    hsp_graph_free(m.g);
}

/* The digest is of the plan's meaning, not of its explanation or spelling. */
static void test_digest(void **state)
{
    (void)state;
    struct plan_model m = plan_model("gpt", true, 2, HSP_OPT_ADAMW);
    const char *const texts[] = {"why: \"because\"\npredicted_step_us: 5\n",
                                 "parameters: [{name: \"wte.weight\", home: 2}]\n",
                                 "homes: [{name: \"wte.weight\", home: 2}]\n"};
    struct hsp_digest d[4];
    for (int i = 0; i < 4; i++) {
        struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
        struct hsp_program_file f = {0};
        struct hsp_err err = {0};
        char *text = edit(rich, sizeof rich - 1, 0, i == 0 ? "" : texts[i - 1]);
        assert_ok(hsp_compile(m.g, parse(text, arena), &m.t, arena, &f, &err), &err);
        d[i] = f.programs[0].bind.plan_digest;
        free(text);
        hsp_arena_free(arena);
    }
    assert_true(hsp_digest_equal(d[0], d[1]));
    assert_false(hsp_digest_equal(d[0], d[2]));
    assert_true(hsp_digest_equal(d[2], d[3]));
    hsp_graph_free(m.g);
}

/* The digest of a plan is that of every release: a plan that runs is known again by it after an
 * upgrade of hspmdd. Its text has the older names of keys. */
static void the_digest_is_that_of_older_releases(void **state)
{
    (void)state;
    struct plan_model m = plan_model("gpt", true, 2, HSP_OPT_ADAMW);
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct hsp_digest d = {0};
    struct hsp_err err = {0};
    assert_ok(hsp_plan_digest(m.g, parse(rich, arena), &m.t, &d, &err), &err);
    assert_int_equal(d.hi, UINT64_C(0x29a06b8b0113b1d6));
    assert_int_equal(d.lo, UINT64_C(0x9bd4bf6ce9f23562));
    hsp_arena_free(arena);
    hsp_graph_free(m.g);
}

static void test_bad_text(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"homes: [{name: \"h.[2-1].x\", home: 0}]", "a range is [FIRST-LAST]"},
        {"homes: [{name: \"h.[0-1].[0-1]\", home: 0}]", "a range is [FIRST-LAST]"},
        {"homes: [{name: x}]", "missing key home"},
        {"uses: [{pipeline: 0, stage: 0, layouts: {}, ops: [{op: gelu, makes: x, cut: \"\", in: "
         "[L1], out: [whole]}]}]",
         "no layout L1 in this stage"},
        {"uses: [{pipeline: 0, stage: 0, layouts: {}, ops: [{op: gelu, makes: x, cut: \"\", in: "
         "[whole, whole], out: [whole]}]}]",
         "2 layouts, the op has 1"},
        {"uses: [{pipeline: 0, stage: 0, layouts: {}, ops: [{op: tanh, makes: x, cut: \"\", in: "
         "[whole], out: [whole]}]}]",
         "no op tanh"},
        {"reshards: [{phase: pre, makes: x, before: y, moves: []}]",
         "before belongs to forward and backward"},
        {"reshards: [{phase: forward, pipeline: 0, makes: x, moves: []}]", "missing key stage"},
        {"reshards: [{phase: forward, pipeline: 0, stage: 0, makes: \"a.[0-2]\", before: "
         "\"a.[0-1]\", moves: []}]",
         "2 names for 3 made"},
        {"reshards: [{phase: pre, makes: x, moves: [{kind: p2p, ranks: [1, 0], gives: 1, gets: "
         "1}]}]",
         "ranks do not ascend"},
        {"reshards: [{phase: pre, makes: x, moves: [{kind: p2p, ranks: [0, 1], gives: [1], gets: "
         "1}]}]",
         "1 numbers for 2 ranks"},
    };
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hsp_plan *p = NULL;
        struct hsp_err err = {0};
        char *text = edit(rich, sizeof rich - 1, 0, cases[i].text);
        assert_status(hsp_plan_parse(text, strlen(text), "p", PLAN_BATCH, arena, &p, &err),
                      HSP_EPARSE);
        if (strstr(err.msg, cases[i].message) == NULL) {
            fail_msg("message \"%s\", not \"%s\"", err.msg, cases[i].message);
        }
        free(text);
    }
    hsp_arena_free(arena);
}

/* ---- names ---- */

static void test_ranges(void **state)
{
    (void)state;
    struct hsp_name_range r;
    assert_true(hsp_range_parse("h.[9-11].x", &r));
    assert_int_equal(r.n, 3);
    assert_true(hsp_range_has(&r, "h.10.x"));
    assert_false(hsp_range_has(&r, "h.12.x"));
    assert_false(hsp_range_has(&r, "h.8.x"));
    assert_false(hsp_range_has(&r, "h.010.x"));
    assert_false(hsp_range_has(&r, "h.10.xy"));
    assert_true(hsp_range_parse("wte", &r));
    assert_true(hsp_range_has(&r, "wte"));
    assert_false(hsp_range_has(&r, "wte2"));
    assert_true(hsp_name_in("h.[9-11].x", "h.11.x") && hsp_name_in("wte", "wte"));
    static const char *const apart[][2] = {{"h.[9-11].x", "h.12.x"}, {"h.[9-11].x", "h."},
                                           {"h.[9-11].x", "h.11.y"}, {"g.[9-11].x", "h.11.x"},
                                           {"wte", "wtee"},          {"wte", "wt"},
                                           {"h.[9-11", "h.11"},      {"h.1[1]", "h.11"}};
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        assert_false(hsp_name_in(apart[i][0], apart[i][1]));
    }
    static const char *const bad[] = {"[",      "[1]",        "[1-]",     "[1-0]",
                                      "[01-2]", "[1-2][3-4]", "[1-70000]"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(hsp_range_parse(bad[i], &r));
    }
}

static void test_groups(void **state)
{
    (void)state;
    const struct hsp_digest one = {.lo = 1}, two = {.lo = 2};
    const struct hsp_line line[] = {
        {{"h.0.a", "h.1.b"}, one}, {{"x", NULL}, one},        {{"h.1.a", "h.2.b"}, one},
        {{"h.2.a", "h.3.b"}, two}, {{"h.3.a", "h.3.b"}, one}, {{"h.2.a", "h.3.b"}, one},
        {{"x", NULL}, one},
    };
    static const char *const want[][2] = {{"h.[0-2].a", "h.[1-3].b"},
                                          {"h.3.a", "h.3.b"},
                                          {"x", NULL},
                                          {"x", NULL},
                                          {"h.2.a", "h.3.b"}};
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    struct hsp_name_run *run = NULL;
    struct hsp_err err = {0};
    uint32_t n = 0;
    assert_ok(hsp_lines_group(line, sizeof line / sizeof line[0], arena, &run, &n, &err), &err);
    assert_int_equal(n, sizeof want / sizeof want[0]);
    for (uint32_t i = 0; i < n; i++) {
        assert_string_equal(run[i].name[0], want[i][0]);
        if (want[i][1] == NULL) {
            assert_null(run[i].name[1]);
        } else {
            assert_string_equal(run[i].name[1], want[i][1]);
        }
    }
    hsp_arena_free(arena);
}

/* ---- trees of covers ---- */

/* Copies of uneven cuts of one dim, in two pipelines; a sum of cuts; nothing where there is no
 * tree.
 */
static void test_trees(void **state)
{
    (void)state;
    static const struct {
        uint32_t n;
        struct hsp_held held[5];
        const char *tree;
    } cases[] = {
        {1, {{4, 0, {1, {0}, {6}}}}, "4"},
        {2, {{1, 0, {1, {0}, {6}}}, {0, 0, {1, {0}, {6}}}}, "{dup: [0, 1]}"},
        {2, {{1, 0, {1, {0}, {6}}}, {0, 1, {1, {0}, {6}}}}, "{partial: [0, 1]}"},
        {2, {{1, 0, {1, {0}, {6}}}, {0, 1, {1, {0}, {6}}}}, "{max: [0, 1]}"},
        {4,
         {{0, 0, {1, {0}, {2}}},
          {1, 1, {1, {0}, {2}}},
          {2, 2, {1, {2}, {6}}},
          {3, 3, {1, {2}, {6}}}},
         "{split: 0, cuts: [0, 2, 6], of: [{max: [0, 1]}, {max: [2, 3]}]}"},
        {3,
         {{0, 0, {1, {2}, {6}}}, {1, 0, {1, {2}, {2}}}, {2, 0, {1, {0}, {2}}}},
         "{split: 0, cuts: [0, 2, 2, 6], of: [2, 1, 0]}"},
        {5,
         {{0, 0, {1, {0}, {2}}},
          {1, 0, {1, {4}, {6}}},
          {2, 0, {1, {0}, {4}}},
          {3, 0, {1, {2}, {6}}},
          {4, 0, {1, {0}, {6}}}},
         "{dup: [{split: 0, cuts: [0, 2, 6], of: [0, 3]}, {split: 0, cuts: [0, 4, 6], of: [2, 1]}, "
         "4]}"},
        {2, {{0, 0, {1, {0}, {2}}}, {1, 0, {1, {3}, {6}}}}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hsp_arena *arena = hsp_arena_new(1 << 20);
        struct hsp_cover c;
        struct hsp_annot *a = NULL;
        struct hsp_err err = {0};
        struct hsp_buf b;
        int64_t extent = 6;
        hsp_cover_init(&c, 1, &extent);
        if (cases[i].tree != NULL && strstr(cases[i].tree, "max") != NULL) {
            c.reduce = HSP_REDUCE_MAX;
        }
        for (uint32_t k = 0; k < cases[i].n; k++) {
            const struct hsp_held *h = &cases[i].held[k];
            assert_int_equal(hsp_cover_add(&c, h->rank, h->addend, &h->box), HSP_OK);
        }
        hsp_buf_init(&b, 4096);
        assert_ok(hsp_annot_of_cover(&c, arena, &a, &err), &err);
        assert_true((a == NULL) == (cases[i].tree == NULL));
        if (a != NULL) {
            hsp_annot_dump(a, &b);
            assert_string_equal(hsp_buf_cstr(&b), cases[i].tree);
        }
        hsp_buf_fini(&b);
        hsp_cover_fini(&c);
        hsp_arena_free(arena);
    }
}

HSP_TEST_FILE(total_plan_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_stage_groups),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_every_line),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_every_home),
        cmocka_unit_test(test_homes_alone),
        cmocka_unit_test(test_digest),
        cmocka_unit_test(the_digest_is_that_of_older_releases),
        cmocka_unit_test(test_bad_text),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_trees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
