/* Reads plans: an accepted one, printed, reads back as the same plan. One that passes the check for
 * a model compiles, or says why not; its programs pass the check of programs, and its total plan,
 * read back, compiles to the same programs. */
#include <stdio.h>
#include <string.h>

#include "daemon/graph/autodiff.h"
#include "daemon/graph/graph_build.h"
#include "daemon/plan/plan_check.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/codegen/compile.h"
#include "daemon/spmd/sharding/infer_pipelines.h"
#include "proto/program/program_check.h"
#include "proto/program/program_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/daemon/plan/plan_cases.h"

enum { BATCH = 7, TEXT_MAX = 16 << 20, RANKS = 16, PIECES = 64 };

static const struct hsp_graph *graph(void)
{
    static struct hsp_graph *g;
    if (g == NULL) {
        struct hsp_model_spec s = {.family = "gpt",
                                   .layers = 2,
                                   .hidden = 6,
                                   .heads = 3,
                                   .vocab = 11,
                                   .sequence = 4,
                                   .dtype = HSP_F64};
        HSP_ASSERT(hsp_graph_build(&s, &g, NULL) == HSP_OK);
        HSP_ASSERT(g->seed != HSP_NONE || hsp_graph_autodiff(g, NULL) == HSP_OK);
    }
    return g;
}

static const struct hsp_train_spec train = {
    .hyper = {.optimizer = HSP_OPT_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .steps = 3, .lr = 0.01},
    .data = {.global_batch = BATCH, .sequence = 4, .eval_seqs = 2, .vocab = 11},
    .eps = 1e-8};

/* Larger plans are as right, but take long. */
static bool is_small(const struct hsp_plan *p)
{
    uint32_t micro = 0;
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        micro += p->pipelines[i].micro_batches;
    }
    return p->n_ranks <= RANKS && p->n_pipelines <= RANKS && micro <= PIECES;
}

static void say(enum hsp_status st, const struct hsp_err *err)
{
    if (st != HSP_OK) {
        hsp_assert_fail(err->msg, __FILE__, __LINE__);
    }
}

static void compile(const struct hsp_plan *p, struct hsp_arena *arena)
{
    struct hsp_err err = {0};
    struct hsp_program_file f, again;
    struct hsp_plan total, *back = NULL;
    enum hsp_status st = hsp_compile_total(graph(), p, &train, arena, &f, &total, &err);
    if (st != HSP_OK) {
        HSP_ASSERT(st == HSP_EINVAL || st == HSP_ENOMEM || st == HSP_ELIMIT);
        HSP_ASSERT(err.msg[0] != '\0');
        return;
    }
    struct hsp_buf text, one, two;
    hsp_buf_init(&text, TEXT_MAX);
    hsp_buf_init(&one, TEXT_MAX);
    hsp_buf_init(&two, TEXT_MAX);
    for (uint32_t r = 0; r < f.n; r++) {
        say(hsp_program_check(&f.programs[r], &err), &err);
    }
    hsp_plan_dump(&total, &text);
    HSP_ASSERT(!text.failed);
    say(hsp_plan_parse(hsp_buf_cstr(&text), text.len, "total", BATCH, arena, &back, &err), &err);
    st = hsp_compile(graph(), back, &train, arena, &again, &err);
    if (st != HSP_ENOMEM) { /* twice as much in one arena */
        say(st, &err);
        f.data_path = f.out_dir = f.init_from = f.config_json = "";
        again.data_path = again.out_dir = again.init_from = again.config_json = "";
        HSP_ASSERT(hsp_program_file_encode(&f, &one) == HSP_OK);
        HSP_ASSERT(hsp_program_file_encode(&again, &two) == HSP_OK);
        HSP_ASSERT(one.len == two.len && memcmp(one.data, two.data, one.len) == 0);
    }
    hsp_buf_fini(&text);
    hsp_buf_fini(&one);
    hsp_buf_fini(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct hsp_arena *arena = hsp_fuzz_arena();
    struct hsp_err err = {0};
    struct hsp_plan *p = NULL, *back = NULL;
    enum hsp_status st = hsp_plan_parse((const char *)data, len, "fuzz", BATCH, arena, &p, &err);
    if (st != HSP_OK) {
        HSP_ASSERT(st == HSP_EPARSE || st == HSP_EINVAL || st == HSP_ELIMIT || st == HSP_ENOMEM);
        HSP_ASSERT(st == HSP_ENOMEM || strncmp(err.msg, "fuzz:", 5) == 0);
        HSP_ASSERT(strchr(err.msg, '\n') == NULL);
        return 0;
    }
    struct hsp_buf one, two;
    hsp_buf_init(&one, TEXT_MAX);
    hsp_buf_init(&two, TEXT_MAX);
    hsp_plan_dump(p, &one);
    say(hsp_plan_parse(hsp_buf_cstr(&one), one.len, "dump", BATCH, arena, &back, &err), &err);
    hsp_plan_dump(back, &two);
    hsp_fuzz_same(&one, &two);
    hsp_buf_fini(&one);
    hsp_buf_fini(&two);
    st = hsp_plan_find_pipelines(p, graph(), arena, &err);
    HSP_ASSERT(st == HSP_OK || st == HSP_EINVAL || st == HSP_ENOMEM);
    HSP_ASSERT(st == HSP_OK || strchr(err.msg, '\n') == NULL);
    st = st == HSP_OK ? hsp_plan_check(p, graph(), BATCH, &err) : st;
    if (st == HSP_OK && is_small(p)) {
        compile(p, arena);
    }
    return 0;
}

static const char *const annotated[] = {
    HSP_PLAN_HEAD
    "ranks: 6\nzero: 1\nannotations:\n"
    "  - {name: h.0.attn.q.weight, use: {dup: [{split: 0, shares: [2, 1], of: [0, 3]}, {dup: [2, "
    "4]}]}}\n"
    "  - {name: \"h.[1-1].*.q.weight\", use: {dup: [{split: 0, cuts: [0, 2, 6], of: [1, 5]}, {dup: "
    "[2, 4]}]}}\n"
    "batches:\n  - {sequences: 4, micro_batches: 2, stages: [{saved: recompute}, {}]}\n"
    "  - {sequences: 3, stages: [{split: sequence, shares: [3, 1], balance: work}]}\n",
    HSP_PLAN_HEAD
    "ranks: 2\nannotations: [{name: \"h.0.*weight\", use: 0}, {name: \"h.1.*\", use: 1}]\n"
    "batches: [{sequences: 7, micro_batches: 3, schedule: zero_bubble}]\n"};

/* The cases of the compiler's tests, annotations, and the total form of some. */
static bool seed(size_t i, struct hsp_buf *out)
{
    size_t n = hsp_n_plan_cases;
    if (i < n) {
        hsp_buf_puts(out, hsp_plan_cases[i]);
        return true;
    }
    if (i < n + 2) {
        hsp_buf_puts(out, annotated[i - n]);
        return true;
    }
    i -= 2;
    struct hsp_plan *p = NULL, total;
    struct hsp_program_file f;
    struct hsp_arena *arena = hsp_fuzz_arena();
    const char *text = hsp_plan_cases[(i - n) * 3 % n];
    HSP_ASSERT(hsp_plan_parse(text, strlen(text), "seed", BATCH, arena, &p, NULL) == HSP_OK);
    HSP_ASSERT(hsp_compile_total(graph(), p, &train, arena, &f, &total, NULL) == HSP_OK);
    hsp_plan_dump(&total, out);
    return i < n + 4;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "plan", .seed = seed};
