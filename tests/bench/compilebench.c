/* How long the compiler takes from plans to programs: the switch of the HSPMD paper that it gives 8.2 s
 * for (C1 to C2: 60 layers on 32 devices), on one core, out of cold tables.
 *
 * Usage: compilebench [FROM TO [STRATEGIES]]: names of strategies begin with these; default C1 C2 of
 * conf/plans/hspmd-strategies.json. Prints one line per part and the sum, medians of 9. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/graph/autodiff.h"
#include "daemon/spmd/bsr.h"
#include "daemon/spmd/compile.h"
#include "daemon/spmd/complete.h"
#include "daemon/spmd/strategy.h"
#include "daemon/spmd/switch.h"
#include "proto/base/check.h"
#include "proto/layout/cluster_desc.h"

#define ROUNDS      9
#define ARENA_BYTES ((size_t)8 << 30)
#define TEXT_BYTES  ((size_t)64 << 20)

enum { PART_COMPILE_FROM, PART_COMPILE_TO, PART_TABLE, N_PARTS };

struct bench {
    struct hsp_graph *g;
    struct hsp_train_spec train;
    struct hsp_plan *plan[2]; /* total */
    struct hsp_cover *home[2];
    double ms[N_PARTS + 1][ROUNDS];
    struct hsp_err err;
};

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
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

/* The total plan of the strategy whose name begins with @name, through its text, as a daemon has it. */
static struct hsp_plan *load(struct bench *b, const struct hsp_strategies *all, const char *name,
                             struct hsp_arena *arena)
{
    struct hsp_plan total, *back = NULL;
    struct hsp_buf text;
    uint32_t i = 0;
    while (i < all->n &&
           (all->of[i].cluster == NULL || strncmp(all->of[i].cluster, name, strlen(name)) != 0)) {
        i++;
    }
    if (i == all->n) {
        (void)fprintf(stderr, "compilebench: no strategy %s\n", name);
        exit(1);
    }
    must(hsp_plan_complete(b->g, all->of[i].plan, &b->train, arena, &total, &b->err), &b->err);
    hsp_buf_init(&text, TEXT_BYTES);
    hsp_plan_dump(&total, &text);
    must(hsp_plan_parse(hsp_buf_cstr(&text), text.len, name, b->train.data.global_batch, arena,
                        &back, &b->err),
         &b->err);
    hsp_buf_fini(&text);
    return back;
}

static void run_once(struct bench *b, int round)
{
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct hsp_program_file f[2];
    struct hsp_plan total[2];
    double at[N_PARTS + 1];
    at[0] = now_ms();
    for (int k = 0; k < 2; k++) {
        must(hsp_compile_total(b->g, b->plan[k], &b->train, arena, &f[k], &total[k], &b->err),
             &b->err);
        at[k + 1] = now_ms();
    }
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
    at[N_PARTS] = now_ms();
    for (int k = 0; k < N_PARTS; k++) {
        b->ms[k][round] = at[k + 1] - at[k];
    }
    b->ms[N_PARTS][round] = at[N_PARTS] - at[0];
    for (int k = 0; k < 2; k++) {
        for (uint32_t p = 0; p < b->g->n_params; p++) {
            hsp_cover_fini(&home[k][p]);
        }
    }
    hsp_arena_free(arena);
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"compile from", "compile to", "state table", "all"};
    static struct bench b;
    const char *src = getenv("HSPMD_SRC");
    char path[4096];
    size_t len = 0;
    struct hsp_strategies all;
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    (void)snprintf(path, sizeof path, "%s/conf/plans/hspmd-strategies.json", src ? src : ".");
    char *text = read_all(argc > 3 ? argv[3] : path, &len);
    must(hsp_strategies_parse(text, len, path, arena, &all, &b.err), &b.err);
    make_model(&b);
    b.plan[0] = load(&b, &all, argc > 2 ? argv[1] : "C1", arena);
    b.plan[1] = load(&b, &all, argc > 2 ? argv[2] : "C2", arena);
    for (int i = 0; i < ROUNDS; i++) {
        run_once(&b, i);
    }
    for (int k = 0; k <= N_PARTS; k++) {
        qsort(b.ms[k], ROUNDS, sizeof b.ms[k][0], by_size);
        (void)printf("%-12s %8.1f ms\n", names[k], b.ms[k][ROUNDS / 2]);
    }
    hsp_graph_free(b.g);
    hsp_arena_free(arena);
    free(text);
    return 0;
}
