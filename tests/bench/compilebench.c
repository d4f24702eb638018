/* Times the compiler from plans to programs: the switch of the HSPMD paper that it gives 8.2 s for
 * (C1 to C2: 60 layers on 32 devices), on one core, with no template kept from before; and a second
 * switch that changes one stage.
 *
 * Usage: compilebench [FROM TO]: plan files; default C1 and C2 of conf/plans/hetu. Prints one JSON
 * object: seconds are of the clock but for processor_s, medians of 9. "second": each stage of TO in
 * turn is computed with recomputation, after TO. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/graph/autodiff.h"
#include "daemon/graph/graph_build.h"
#include "daemon/migrate/bsr.h"
#include "daemon/migrate/state_placement.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/codegen/compile.h"
#include "daemon/spmd/sharding/param_home.h"
#include "daemon/spmd/total/total_plan.h"
#include "proto/base/check.h"
#include "proto/layout/cluster_desc.h"

#define ROUNDS      9
#define ARENA_BYTES ((size_t)8 << 30)
#define TEXT_BYTES  ((size_t)64 << 20)

enum {
    PART_COMPILE_FROM,
    PART_COMPILE_TO,
    PART_TABLE,
    N_PARTS,
    ALL = N_PARTS,
    PROCESSOR,
    N_FIGURES
};

struct bench {
    struct hsp_graph *g;
    struct hsp_train_spec train;
    struct hsp_arena *plans;
    struct hsp_plan *plan[2]; /* total */
    double s[N_FIGURES][ROUNDS];
    struct hsp_err err;
};

static double now_s(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The last of the processors it may use: the first one has the interrupts. */
static void stay_on_one_core(void)
{
    cpu_set_t may, one;
    size_t last = 0;
    CPU_ZERO(&one);
    HSP_ASSERT(sched_getaffinity(0, sizeof may, &may) == 0);
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        last = CPU_ISSET(i, &may) ? i : last;
    }
    CPU_SET(last, &one);
    HSP_ASSERT(sched_setaffinity(0, sizeof one, &one) == 0);
}

static void must(enum hsp_status st, const struct hsp_err *err)
{
    if (st != HSP_OK) {
        (void)fprintf(stderr, "compilebench: %s\n", err->msg);
        exit(1);
    }
}

static char *read_all(const char *path, size_t *ret_len)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(TEXT_BYTES, 1);
    if (f == NULL || text == NULL) {
        (void)fprintf(stderr, "compilebench: cannot read %s\n", path);
        exit(1);
    }
    *ret_len = fread(text, 1, TEXT_BYTES, f);
    (void)fclose(f);
    return text;
}

/* The plan of @path; NULL: of the file @name in conf/plans/hetu. */
static struct hsp_plan *read_plan(struct bench *b, const char *path, const char *name)
{
    const char *src = getenv("HSPMD_SRC");
    char published[4096];
    size_t len = 0;
    struct hsp_plan *p = NULL;
    (void)snprintf(published, sizeof published, "%s/conf/plans/hetu/%s.yaml", src ? src : ".",
                   name);
    path = path != NULL ? path : published;
    char *text = read_all(path, &len);
    must(hsp_plan_parse(text, len, path, b->train.data.global_batch, b->plans, &p, &b->err),
         &b->err);
    free(text);
    return p;
}

/* Llama of 32 billion parameters, as the paper's. */
static void make_model(struct bench *b)
{
    struct hsp_model_spec s = {.family = "llama",
                               .layers = 60,
                               .hidden = 6656,
                               .heads = 64,
                               .kv_heads = 64,
                               .intermediate = 17920,
                               .rope_theta = 10000,
                               .rms_norm_eps = 1e-5,
                               .vocab = 32000,
                               .sequence = 4096,
                               .dtype = HSP_F32};
    must(hsp_graph_build(&s, &b->g, &b->err), &b->err);
    if (b->g->seed == HSP_NONE) {
        must(hsp_graph_autodiff(b->g, &b->err), &b->err);
    }
    b->train = (struct hsp_train_spec){
        .hyper =
            {.optimizer = HSP_OPT_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .steps = 1000, .lr = 1e-4},
        .data = {.global_batch = 64, .sequence = 4096, .validation_fraction = 0.1, .vocab = 32000},
        .eps = 1e-8,
        .weight_decay = 0.1};
}

/* The total plan, through its text, as a daemon has it. */
static struct hsp_plan *complete(struct bench *b, const struct hsp_plan *p)
{
    struct hsp_plan total, *back = NULL;
    struct hsp_buf text;
    must(hsp_plan_complete(b->g, p, &b->train, b->plans, &total, &b->err), &b->err);
    hsp_buf_init(&text, TEXT_BYTES);
    hsp_plan_dump(&total, &text);
    must(hsp_plan_parse(hsp_buf_cstr(&text), text.len, "plan", b->train.data.global_batch, b->plans,
                        &back, &b->err),
         &b->err);
    hsp_buf_fini(&text);
    return back;
}

static void compile(struct bench *b, const struct hsp_plan *p, struct hsp_templates *k,
                    struct hsp_arena *arena, struct hsp_program_file *ret)
{
    struct hsp_plan total;
    must(hsp_compile_kept(b->g, p, &b->train, k, arena, ret, &total, &b->err), &b->err);
}

static void make_table(struct bench *b, struct hsp_arena *arena)
{
    struct hsp_cover *home[2];
    for (int k = 0; k < 2; k++) {
        home[k] = hsp_arena_array(arena, b->g->n_params, sizeof *home[k]);
        HSP_ASSERT(home[k] != NULL);
        must(hsp_plan_homes(b->g, b->plan[k], home[k], &b->err), &b->err);
    }
    uint32_t n =
        b->plan[0]->n_ranks > b->plan[1]->n_ranks ? b->plan[0]->n_ranks : b->plan[1]->n_ranks;
    struct hsp_device_desc *dev = hsp_arena_array(arena, n, sizeof *dev);
    uint32_t *device = hsp_arena_array(arena, n, sizeof *device);
    HSP_ASSERT(dev != NULL && device != NULL);
    for (uint32_t r = 0; r < n; r++) {
        dev[r] = (struct hsp_device_desc){.node = r / 8, .host = r / 8};
        device[r] = r;
    }
    struct hsp_cluster_desc c = {.n = n, .dev = dev, .same_node = {5, 1e-5}, .cross = {20, 4e-5}};
    struct hsp_bsr_net net;
    struct hsp_bsr_opts opts = {.elem_bytes = 12};
    struct hsp_state_table table;
    must(hsp_bsr_net_make(&c, device, n, arena, &net, &b->err), &b->err);
    must(hsp_bsr_plan(b->g, home[0], home[1], &net, &opts, arena, &table, &b->err), &b->err);
    for (int k = 0; k < 2; k++) {
        for (uint32_t p = 0; p < b->g->n_params; p++) {
            hsp_cover_fini(&home[k][p]);
        }
    }
}

static void run_once(struct bench *b, int round)
{
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct hsp_program_file f;
    double at[N_PARTS + 1], busy = now_s(CLOCK_PROCESS_CPUTIME_ID);
    at[0] = now_s(CLOCK_MONOTONIC);
    for (int k = 0; k < 2; k++) {
        struct hsp_templates *none = hsp_templates_new();
        HSP_ASSERT(none != NULL);
        compile(b, b->plan[k], none, arena, &f);
        none = hsp_templates_free(none);
        at[k + 1] = now_s(CLOCK_MONOTONIC);
    }
    make_table(b, arena);
    at[N_PARTS] = now_s(CLOCK_MONOTONIC);
    b->s[PROCESSOR][round] = now_s(CLOCK_PROCESS_CPUTIME_ID) - busy;
    for (int k = 0; k < N_PARTS; k++) {
        b->s[k][round] = at[k + 1] - at[k];
    }
    b->s[ALL][round] = at[N_PARTS] - at[0];
    hsp_arena_free(arena);
}

/* ---- the second switch ---- */

static bool has_rank(const struct hsp_stage *s, uint32_t rank)
{
    for (uint32_t j = 0; j < s->n; j++) {
        if (s->ranks[j] == rank) {
            return true;
        }
    }
    return false;
}

/* Templates of @f that ranks of @of have (NULL: any rank) and no rank below nor one of @before. */
static uint32_t different(const struct hsp_program_file *f, const struct hsp_stage *of,
                          const struct hsp_program_file *before)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < f->n; r++) {
        struct hsp_digest d = f->programs[r].tpl.digest;
        bool seen = of != NULL && !has_rank(of, r);
        for (uint32_t q = 0; q < r && !seen; q++) {
            seen = hsp_digest_equal(f->programs[q].tpl.digest, d);
        }
        for (uint32_t q = 0; before != NULL && q < before->n && !seen; q++) {
            seen = hsp_digest_equal(before->programs[q].tpl.digest, d);
        }
        n += !seen;
    }
    return n;
}

/* TO with one stage changed, compiled after TO. */
static void change_stage(struct bench *b, const struct hsp_plan *to, uint32_t pipeline,
                         uint32_t stage, struct hsp_templates *k)
{
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct hsp_program_file before, after;
    struct hsp_stage *s = &to->pipelines[pipeline].stages[stage];
    uint8_t was = s->saved;
    s->saved = was == HSP_SAVED_RECOMPUTE ? HSP_SAVED_KEEP : HSP_SAVED_RECOMPUTE;
    const struct hsp_plan *p = complete(b, to);
    s->saved = was;
    compile(b, b->plan[1], k, arena, &before);
    struct hsp_template_count first = hsp_templates_count(k);
    double begin = now_s(CLOCK_MONOTONIC);
    compile(b, p, k, arena, &after);
    double took = now_s(CLOCK_MONOTONIC) - begin;
    struct hsp_template_count c = hsp_templates_count(k);
    (void)printf("%s{\"stream\": %u, \"stage\": %u, \"made_before\": %u, \"made\": %u, "
                 "\"kept\": %u, \"of_stage\": %u, \"changed\": %u, \"seconds\": %.6f}",
                 pipeline + stage > 0 ? ", " : "", pipeline, stage, first.made, c.made, c.kept,
                 different(&after, s, NULL), different(&after, NULL, &before), took);
    hsp_arena_free(arena);
}

static void change_stages(struct bench *b, const struct hsp_plan *to)
{
    (void)printf("\"second\": [");
    for (uint32_t i = 0; i < to->n_pipelines; i++) {
        for (uint32_t j = 0; j < to->pipelines[i].n_stages; j++) {
            struct hsp_templates *k = hsp_templates_new();
            HSP_ASSERT(k != NULL);
            change_stage(b, to, i, j, k);
            k = hsp_templates_free(k);
        }
    }
    (void)printf("]");
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"compile_from_s", "compile_to_s", "table_s", "all_s",
                                        "processor_s"};
    static struct bench b;
    stay_on_one_core();
    b.plans = hsp_arena_new(ARENA_BYTES);
    make_model(&b);
    const struct hsp_plan *from = read_plan(&b, argc > 2 ? argv[1] : NULL, "llama32b-32h20");
    const struct hsp_plan *to = read_plan(&b, argc > 2 ? argv[2] : NULL, "llama32b-31h20");
    b.plan[0] = complete(&b, from);
    b.plan[1] = complete(&b, to);
    for (int i = 0; i < ROUNDS; i++) {
        run_once(&b, i);
    }
    (void)printf("{\"layers\": %lld, \"ranks\": [%u, %u], ", (long long)b.g->spec.layers,
                 b.plan[0]->n_ranks, b.plan[1]->n_ranks);
    for (int k = 0; k < N_FIGURES; k++) {
        qsort(b.s[k], ROUNDS, sizeof b.s[k][0], by_size);
        (void)printf("\"%s\": %.6f, ", names[k], b.s[k][ROUNDS / 2]);
    }
    change_stages(&b, to);
    (void)printf("}\n");
    hsp_graph_free(b.g);
    hsp_arena_free(b.plans);
    return 0;
}
