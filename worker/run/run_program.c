#include "worker/run/run_program.h"

#include <errno.h>
#include <inttypes.h> /* PRIu64 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "proto/host/file_io.h"
#include "proto/program/program_file.h"
#include "worker/run/local_run.h"
#include "worker/run/model_export.h"

#define FILE_ARENA ((size_t)4 << 30) /* decoded form of the largest program file */

struct run {
    const struct hsp_run_opts *o;
    const char *out; /* NULL: nowhere */
    struct hsp_program_file file;
    struct hsp_arena *arena;
    struct hsp_dataset dataset;
    struct hsp_st_reader *init;
    struct hsp_local *local;
    FILE *metrics;
    pthread_mutex_t lock; /* gradients */
    struct hsp_whole_set gradients;
    double tokens; /* of step 0 */
    struct rank_ctx {
        struct run *run;
        uint32_t rank;
    } * rank;
};

/* ---- metrics ---- */

static enum hsp_status metrics_line(struct run *r, const struct hsp_step_result *s,
                                    struct hsp_err *err)
{
    cJSON *j = cJSON_CreateObject();
    bool ok =
        j && cJSON_AddNumberToObject(j, "step", (double)s->vote.step) &&
        cJSON_AddNumberToObject(j, "loss", s->vote.loss) &&
        cJSON_AddNumberToObject(j, "tokens", s->vote.tokens) &&
        cJSON_AddNumberToObject(j, "grad_norm", s->vote.norm) &&
        cJSON_AddNumberToObject(j, "lr", s->vote.lr) &&
        (r->file.n_shorter == 0 || cJSON_AddNumberToObject(j, "sequence", s->sequence)) &&
        (s->vote.eval_tokens <= 0.0 || cJSON_AddNumberToObject(j, "val_loss", s->vote.eval_loss)) &&
        cJSON_AddNumberToObject(j, "seconds", s->seconds);
    char *text = ok ? cJSON_PrintUnformatted(j) : NULL;
    cJSON_Delete(j);
    if (!text) {
        return hsp_err_nomem(err, "metrics");
    }
    bool bad = r->metrics && (fprintf(r->metrics, "%s\n", text) < 0 || fflush(r->metrics) != 0);
    cJSON_free(text);
    return bad ? hsp_err_set(err, HSP_EIO, errno, "cannot write metrics") : HSP_OK;
}

static enum hsp_status on_step(void *ctx, uint32_t rank, const struct hsp_step_result *s,
                               struct hsp_err *err)
{
    struct run *r = ctx;
    if (rank != 0) {
        return HSP_OK;
    }
    if (!r->o->quiet) {
        (void)printf("step %" PRIu64 "  loss %.6f  norm %.4f  lr %.3g  %.3f s", s->vote.step,
                     s->vote.loss, s->vote.norm, s->vote.lr, s->seconds);
        if (s->vote.eval_tokens > 0.0) {
            (void)printf("  validation %.6f", s->vote.eval_loss);
        }
        (void)printf("%s\n", s->vote.noop ? "  (skipped: not finite)" : "");
        (void)fflush(stdout); /* a lost line of progress is no error */
    }
    return metrics_line(r, s, err);
}

/* ---- gradients of step 0 ---- */

/* State tensor of the binding that is template tensor @t; its parameter's number. */
static bool param_of(const struct hsp_program *p, uint32_t t, uint32_t *ret_id)
{
    for (uint32_t k = 0; k < p->bind.n_state; k++) {
        if (p->bind.state[k].tensor == t) {
            *ret_id = p->bind.state[k].tensor_id;
            return true;
        }
    }
    return false;
}

/* At the vote of step 0 every update's gradient is reduced and not yet used. */
static enum hsp_status on_passed(void *ctx, const struct hsp_vote *v,
                                 const struct hsp_vote_record *all, uint32_t n, struct hsp_err *err)
{
    struct rank_ctx *c = ctx;
    struct run *r = c->run;
    (void)all;
    (void)n;
    if (v->step != 0) {
        return HSP_OK;
    }
    struct hsp_engine *e = hsp_local_engine(r->local, c->rank);
    const struct hsp_program *p = hsp_engine_program(e);
    enum hsp_status st = HSP_OK;
    (void)pthread_mutex_lock(&r->lock);
    r->tokens = v->tokens;
    for (uint32_t k = 0; k < p->tpl.n_instrs && st == HSP_OK; k++) {
        const struct hsp_instr *i = &p->tpl.instrs[k];
        uint32_t id;
        if (i->kind == HSP_I_OP && (i->op == HSP_OP_ADAMW || i->op == HSP_OP_SGDM) &&
            param_of(p, i->in[0], &id)) {
            struct hsp_cell_view g;
            st = hsp_engine_fetch(e, HSP_QUEUE_COMM, i->in[i->n_in - 1], 0, &g, err);
            if (st == HSP_OK) {
                g.box = p->bind.tensor[i->in[0]].box; /* the home it updates */
                hsp_whole_add(&r->gradients, id, &g);
            }
        }
    }
    (void)pthread_mutex_unlock(&r->lock);
    return st;
}

static struct hsp_engine_hooks hooks(void *ctx, uint32_t rank)
{
    struct run *r = ctx;
    struct hsp_engine_hooks h = {.ctx = &r->rank[rank]};
    h.passed = r->o->gradients ? on_passed : NULL;
    return h;
}

/* ---- files ---- */

static char *join(const char *a, const char *b)
{
    char *s = NULL;
    return asprintf(&s, "%s/%s", a, b) < 0 ? NULL : s;
}

static enum hsp_status load(struct run *r, struct hsp_err *err)
{
    uint8_t *data = NULL;
    size_t len = 0;
    enum hsp_status st = hsp_file_read(r->o->file, HSP_MAX_PROGRAM_FILE_BYTES, &data, &len, err);
    if (st != HSP_OK) {
        return st;
    }
    r->arena = hsp_arena_new(FILE_ARENA);
    st = r->arena ? hsp_program_file_decode(data, len, r->arena, &r->file, err)
                  : hsp_err_nomem(err, "programs");
    free(data);
    if (st == HSP_OK && r->file.n_ref > 0) {
        st = hsp_err_set(err, HSP_EINVAL, 0,
                         "compiled with --verify: its extents are small; compile it without");
    }
    if (st != HSP_OK) {
        (void)hsp_err_wrap(err, "%s", r->o->file);
        return st;
    }
    r->out = r->o->out ? r->o->out : r->file.out_dir[0] ? r->file.out_dir : NULL;
    if (r->file.init_from[0] != '\0') {
        st = hsp_st_open(r->file.init_from, &r->init, err);
    }
    return st == HSP_OK ? hsp_local_dataset(&r->file, &r->dataset, err) : st;
}

static enum hsp_status open_outputs(struct run *r, struct hsp_err *err)
{
    enum hsp_status st = r->out ? hsp_make_folders(r->out, err) : HSP_OK;
    if (st != HSP_OK || (!r->o->metrics && !r->out)) {
        return st;
    }
    char *path = r->o->metrics ? strdup(r->o->metrics) : join(r->out, "metrics.jsonl");
    r->metrics = path ? fopen(path, "we") : NULL;
    if (!r->metrics) {
        st = hsp_err_set(err, HSP_EIO, errno, "cannot write %s", path ? path : "metrics");
    }
    free(path);
    return st;
}

static enum hsp_status write_model(struct run *r, struct hsp_err *err)
{
    struct hsp_whole_set s;
    char *dir = join(r->out, "final"), *model = dir ? join(dir, "model.safetensors") : NULL,
         *config = dir ? join(dir, "config.json") : NULL;
    enum hsp_status st = hsp_whole_init(r->file.programs, r->file.n, &s, err);
    if (st != HSP_OK || !model || !config) {
        st = st != HSP_OK ? st : hsp_err_nomem(err, "a path");
        goto out;
    }
    for (uint32_t k = 0; k < r->file.n; k++) {
        hsp_whole_add_state(&s, &r->file.programs[k], hsp_local_state(r->local, k));
    }
    st = hsp_make_folders(dir, err);
    if (st == HSP_OK) {
        st = hsp_whole_write(&s, model, err);
    }
    if (st == HSP_OK) {
        st = hsp_file_write(config, r->file.config_json, strlen(r->file.config_json), 0644, err);
    }
    hsp_whole_fini(&s);
out:
    free(dir);
    free(model);
    free(config);
    return st;
}

static enum hsp_status write_gradients(struct run *r, struct hsp_err *err)
{
    hsp_whole_scale(&r->gradients, 1.0 / r->tokens);
    return hsp_whole_write(&r->gradients, r->o->gradients, err);
}

/* ---- the run ---- */

static int threads_per_rank(const struct hsp_run_opts *o, uint32_t n)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN), each = cpus / (long)n;
    return o->threads > 0 ? o->threads : each > 1 ? (int)each : 1;
}

static enum hsp_status train(struct run *r, struct hsp_err *err)
{
    struct hsp_local_opts l = {.n = r->file.n,
                               .programs = r->file.programs,
                               .shorter = r->file.shorter,
                               .n_shorter = r->file.n_shorter,
                               .dataset = &r->dataset,
                               .init = r->init,
                               .threads = threads_per_rank(r->o, r->file.n),
                               .open = r->o->open,
                               .gpu = r->o->gpu,
                               .nccl = r->o->nccl,
                               .open_ctx = r->o->open_ctx,
                               .ctx = r,
                               .hooks = hooks,
                               .on_step = on_step};
    uint64_t steps = r->o->steps > 0 ? r->o->steps : r->file.programs[0].bind.hyper.steps;
    enum hsp_status st = hsp_local_open(&l, &r->local, err);
    if (st == HSP_OK) {
        st = hsp_local_run(r->local, 0, steps, err);
    }
    if (st == HSP_OK && r->o->gradients) {
        st = write_gradients(r, err);
    }
    if (st == HSP_OK && r->out) {
        st = write_model(r, err);
    }
    r->local = hsp_local_close(r->local);
    return st;
}

enum hsp_status hsp_run_file(const struct hsp_run_opts *o, struct hsp_err *err)
{
    struct run r = {.o = o, .lock = PTHREAD_MUTEX_INITIALIZER};
    enum hsp_status st = load(&r, err);
    if (st == HSP_OK) {
        st = open_outputs(&r, err);
    }
    if (st == HSP_OK && o->gradients) {
        st = hsp_whole_init(r.file.programs, r.file.n, &r.gradients, err);
    }
    if (st == HSP_OK) {
        r.rank = calloc(r.file.n, sizeof(*r.rank));
        st = r.rank ? HSP_OK : hsp_err_nomem(err, "%u ranks", r.file.n);
    }
    for (uint32_t k = 0; k < r.file.n && st == HSP_OK; k++) {
        r.rank[k] = (struct rank_ctx){.run = &r, .rank = k};
    }
    if (st == HSP_OK) {
        st = train(&r, err);
    }
    if (r.metrics && fclose(r.metrics) != 0 && st == HSP_OK) {
        st = hsp_err_set(err, HSP_EIO, errno, "cannot write metrics");
    }
    hsp_whole_fini(&r.gradients);
    free(r.rank);
    if (r.dataset.n_files > 0) {
        hsp_dataset_close(&r.dataset);
    }
    (void)hsp_st_close(r.init);
    hsp_arena_free(r.arena);
    return st;
}
