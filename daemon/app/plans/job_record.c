/* Makes records of jobs from their files, and encodes them for the store. */
#include "daemon/app/plans/job_record.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/graph/graph_build.h"
#include "daemon/plan/plan_check.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/plan/pool_view.h"
#include "daemon/plan/stage_groups.h"
#include "daemon/spmd/sharding/infer_pipelines.h"
#include "daemon/spmd/sharding/param_home.h"
#include "proto/base/str.h"

#define ROW_VERSION 1
#define TEXT_CAP    ((size_t)256 << 20) /* files of a job: 64 of 1 MiB, and the parsed forms */
#define PLAN_TEXT   (64u << 20)

/* ---- jobs ---- */

static enum hsp_status check_path(const struct hsp_job_rec *j, const char *key, const char *path,
                                  struct hsp_err *err)
{
    if (path == NULL || path[0] == '/' || path[0] == '\0') {
        return HSP_OK;
    }
    return hsp_err_set(err, HSP_EPARSE, 0,
                       "%s: %s: \"%s\" is relative; workers need the absolute path of the file",
                       j->file, key, path);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static const struct hsp_m_file *find_file(const char *name, uint32_t n,
                                          const struct hsp_m_file *files)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(files[i].name, name) == 0) {
            return &files[i];
        }
    }
    return NULL;
}

/* @stored: it was taken before, and its complaint of today is made when it is planned with. */
static enum hsp_status take_annotation(struct hsp_job_rec *j, uint32_t i, bool stored,
                                       uint32_t n_files, const struct hsp_m_file *files,
                                       struct hsp_err *err)
{
    const char *name = j->spec->annotations.items[i];
    const struct hsp_m_file *f = find_file(name, n_files, files);
    if (f == NULL) {
        return hsp_err_set(err, HSP_EPARSE, 0, "%s: annotations: %s was not sent along", j->file,
                           name);
    }
    struct hsp_plan_text *t = &j->plans[i];
    t->name = hsp_arena_strdup(j->arena, name);
    t->text = hsp_arena_strdup(j->arena, f->text);
    if (t->name == NULL || t->text == NULL) {
        return hsp_err_nomem(err, "a job");
    }
    t->len = strlen(t->text);
    struct hsp_arena_position m = hsp_arena_mark(j->arena);
    struct hsp_plan *p;
    uint32_t batch = j->spec->train.data.global_batch;
    enum hsp_status st =
        hsp_plan_parse(t->text, t->len, base_name(t->name), batch, j->arena, &p, err);
    if (st == HSP_OK) {
        st = hsp_plan_find_pipelines(p, j->graph, j->arena, err);
        st = st == HSP_OK ? hsp_plan_check(p, j->graph, batch, err) : st;
        st = st == HSP_OK ? hsp_pool_allowed(p, &j->spec->train, err) : st;
        st = st == HSP_OK && !stored ? hsp_plan_check_homes(j->graph, p, j->arena, err) : st;
        if (st != HSP_OK) {
            (void)hsp_err_wrap(err, "%s", base_name(t->name));
        }
    }
    hsp_arena_rewind(j->arena, m);
    return st;
}

static enum hsp_status fill_job(struct hsp_job_rec *j, bool stored, uint32_t n_files,
                                const struct hsp_m_file *files, struct hsp_err *err)
{
    enum hsp_status st =
        stored ? hsp_job_parse_stored(j->text, j->len, j->file, j->arena, &j->spec, err)
               : hsp_job_parse(j->text, j->len, j->file, j->arena, &j->spec, err);
    if (st == HSP_OK) {
        st = check_path(j, "data.path", j->spec->data_path, err);
    }
    if (st == HSP_OK) {
        st = check_path(j, "checkpoint.path", j->spec->ckpt_path, err);
    }
    if (st == HSP_OK) {
        st = check_path(j, "init_from", j->spec->init_from, err);
    }
    if (st == HSP_OK) {
        st = hsp_graph_build(&j->spec->model, &j->graph, err);
        if (st != HSP_OK) {
            (void)hsp_err_wrap(err, "%s: model", j->file);
        }
    }
    if (st != HSP_OK) {
        return st;
    }
    j->n_plans = (uint32_t)j->spec->annotations.n;
    j->plans = hsp_arena_array(j->arena, j->n_plans, sizeof *j->plans);
    if (j->plans == NULL) {
        return hsp_err_nomem(err, "a job");
    }
    for (uint32_t i = 0; st == HSP_OK && i < j->n_plans; i++) {
        st = take_annotation(j, i, stored, n_files, files, err);
    }
    struct hsp_buf json;
    hsp_buf_init(&json, 65536);
    hsp_job_model_json(j->spec, &json);
    j->config_json = hsp_arena_strdup(j->arena, hsp_buf_cstr(&json));
    hsp_buf_fini(&json);
    return st != HSP_OK ? st : j->config_json != NULL ? HSP_OK : hsp_err_nomem(err, "a job");
}

/* @len bytes of @text, which may contain a NUL, to be refused; then @end. NULL: no memory. */
static char *copy_text(struct hsp_arena *a, const char *text, size_t len, const char *end,
                       size_t *ret_len)
{
    const size_t more = strlen(end);
    char *p = hsp_arena_alloc(a, len + more + 1);
    if (p != NULL) {
        memcpy(p, text, len);
        memcpy(p + len, end, more + 1);
        *ret_len = len + more;
    }
    return p;
}

static enum hsp_status make_job(const char *file, const char *text, size_t len, bool stored,
                                uint32_t n_files, const struct hsp_m_file *files,
                                struct hsp_job_rec **ret, struct hsp_err *err)
{
    struct hsp_job_rec *j = calloc(1, sizeof *j);
    if (j == NULL || pthread_mutex_init(&j->compiling, NULL) != 0) {
        free(j);
        return hsp_err_nomem(err, "a job");
    }
    atomic_init(&j->refs, 1);
    j->templates = hsp_templates_new();
    j->arena = hsp_arena_new(TEXT_CAP);
    if (j->arena != NULL) {
        j->file = hsp_arena_strdup(j->arena, base_name(file));
        j->text = copy_text(j->arena, text, len, stored ? "" : HSP_JOB_DEFAULTS, &j->len);
    }
    enum hsp_status st =
        j->templates != NULL && j->arena != NULL && j->file != NULL && j->text != NULL
            ? fill_job(j, stored, n_files, files, err)
            : hsp_err_nomem(err, "a job");
    if (st != HSP_OK) {
        (void)hsp_job_rec_unref(j);
        return st;
    }
    *ret = j;
    return HSP_OK;
}

enum hsp_status hsp_job_rec_make(const char *file, const char *text, size_t len, uint32_t n_files,
                                 const struct hsp_m_file *files, struct hsp_job_rec **ret,
                                 struct hsp_err *err)
{
    return make_job(file, text, len, false, n_files, files, ret, err);
}

struct hsp_job_rec *hsp_job_rec_ref(struct hsp_job_rec *j)
{
    (void)atomic_fetch_add(&j->refs, 1);
    return j;
}

struct hsp_job_rec *hsp_job_rec_unref(struct hsp_job_rec *j)
{
    if (j != NULL && atomic_fetch_sub(&j->refs, 1) == 1) {
        (void)hsp_graph_free(j->graph);
        (void)hsp_templates_free(j->templates);
        (void)pthread_mutex_destroy(&j->compiling); /* unlocked: the last reference is gone */
        (void)hsp_arena_free(j->arena);
        free(j);
    }
    return NULL;
}

void hsp_job_rec_encode(const struct hsp_job_rec *j, struct hsp_buf *out)
{
    hsp_buf_u8(out, ROW_VERSION);
    hsp_buf_str(out, j->file);
    hsp_buf_blob(out, j->text, j->len);
    hsp_buf_u32(out, j->n_plans);
    for (uint32_t i = 0; i < j->n_plans; i++) {
        hsp_buf_str(out, j->plans[i].name);
        hsp_buf_str(out, j->plans[i].text);
    }
}

enum hsp_status hsp_job_rec_decode(const void *data, size_t len, struct hsp_job_rec **ret,
                                   struct hsp_err *err)
{
    struct hsp_arena *a = hsp_arena_new(TEXT_CAP);
    struct hsp_m_file *files = a != NULL ? hsp_arena_array(a, HSP_MSG_FILES, sizeof *files) : NULL;
    if (files == NULL) {
        (void)hsp_arena_free(a);
        return hsp_err_nomem(err, "a job");
    }
    struct hsp_cursor c;
    size_t text_len = 0;
    hsp_cur_init(&c, data, len);
    uint8_t version = hsp_cur_u8(&c);
    const char *file = hsp_cur_str(&c, HSP_PATH_MAX, a);
    const uint8_t *text = hsp_cur_blob(&c, HSP_MSG_BLOB_MAX, &text_len);
    uint32_t n = hsp_cur_count(&c, HSP_MSG_FILES, 8);
    for (uint32_t i = 0; i < n; i++) {
        files[i].name = hsp_cur_str(&c, HSP_PATH_MAX, a);
        files[i].text = hsp_cur_str(&c, HSP_MSG_FILE_MAX, a);
    }
    enum hsp_status st =
        hsp_cur_done(&c) && version == ROW_VERSION
            ? make_job(file, (const char *)text, text_len, true, n, files, ret, err)
        : c.nomem ? hsp_err_nomem(err, "a job")
                  : hsp_err_set(err, HSP_EPARSE, 0, "a stored job is not readable");
    (void)hsp_arena_free(a);
    return st;
}

/* ---- plans ---- */

static void stage_text(const struct hsp_stage *s, const char *const *names, struct hsp_buf *out)
{
    hsp_buf_printf(out, "%u block%s on ", s->layers, hsp_s(s->layers));
    for (uint32_t i = 0; i < s->n; i++) {
        bool next = i > 0 && hsp_stage_group_of(s, i) != hsp_stage_group_of(s, i - 1);
        hsp_buf_printf(out, "%s%s", next ? " | " : i > 0 ? "+" : "", names[s->ranks[i]]);
    }
    for (uint32_t i = 0; s->n > 1 && i < s->n; i++) {
        bool next = i > 0 && hsp_stage_group_of(s, i) != hsp_stage_group_of(s, i - 1);
        hsp_buf_printf(out, "%s%lld", i == 0 ? " (" : next ? " | " : ":", (long long)s->shares[i]);
    }
    hsp_buf_puts(out, s->n > 1 ? ")" : "");
}

static void summary_text(const struct hsp_plan *p, const char *const *names, struct hsp_buf *out)
{
    hsp_buf_printf(out, "%u rank%s, %u pipeline%s", p->n_ranks, hsp_s(p->n_ranks), p->n_pipelines,
                   hsp_s(p->n_pipelines));
    if (p->zero != HSP_ZERO_NONE) {
        hsp_buf_printf(out, ", zero %u", p->zero);
    }
    for (uint32_t s = 0; s < p->n_pipelines; s++) {
        const struct hsp_pipeline *st = &p->pipelines[s];
        hsp_buf_printf(out, "; %u sequence%s in %u: ", st->sequences, hsp_s(st->sequences),
                       st->micro_batches);
        for (uint32_t g = 0; g < st->n_stages; g++) {
            hsp_buf_puts(out, g > 0 ? " > " : "");
            stage_text(&st->stages[g], names, out);
        }
    }
}

static struct hsp_plan_rec *new_plan(struct hsp_job_rec *job, uint32_t n)
{
    struct hsp_plan_rec *p = calloc(1, sizeof *p);
    if (p == NULL || pthread_mutex_init(&p->lock, NULL) != 0) {
        free(p);
        return NULL;
    }
    atomic_init(&p->refs, 1);
    p->job = hsp_job_rec_ref(job);
    p->n_ranks = n;
    p->copies = job->spec->copies;
    p->arena = hsp_arena_new(TEXT_CAP);
    if (p->arena != NULL) {
        p->device = hsp_arena_array(p->arena, n, sizeof *p->device);
        p->compute_s = hsp_arena_array(p->arena, n, sizeof *p->compute_s);
    }
    return p->arena != NULL && p->device != NULL && p->compute_s != NULL ? p
                                                                         : hsp_plan_rec_unref(p);
}

/* Compiles @plan for the record's devices into p->built. If another thread compiles a plan of the
 * same job at the time, this compile does not wait for it, and so cannot use the job's kept
 * templates. */
static enum hsp_status build_plan(struct hsp_plan_rec *p, const struct hsp_plan *plan,
                                  size_t mem_cap, struct hsp_err *err)
{
    struct hsp_job_rec *j = p->job;
    bool alone = pthread_mutex_trylock(&j->compiling) == 0;
    enum hsp_status st =
        hsp_epoch_plan_build(j->graph, &j->spec->train, alone ? j->templates : NULL, plan,
                             p->device, p->copies, mem_cap, &p->built, err);
    if (alone) {
        (void)pthread_mutex_unlock(&j->compiling);
    }
    if (st == HSP_OK) {
        memcpy(p->built->info.compute_s, p->compute_s, p->n_ranks * sizeof *p->compute_s);
        p->built->info.step_s = p->step_s;
        p->built->info.why = p->why;
    }
    return st;
}

/* Writes the text of the total plan, and the summary that people read first. */
static enum hsp_status put_texts(struct hsp_plan_rec *p, const char *const *names,
                                 struct hsp_err *err)
{
    struct hsp_buf b;
    hsp_buf_init(&b, PLAN_TEXT);
    hsp_plan_dump(p->built->plan, &b);
    p->text = b.failed ? NULL : hsp_arena_strdup(p->arena, hsp_buf_cstr(&b));
    hsp_buf_reset(&b);
    summary_text(p->built->plan, names, &b);
    p->summary = b.failed ? NULL : hsp_arena_strdup(p->arena, hsp_buf_cstr(&b));
    hsp_buf_fini(&b);
    return p->text != NULL && p->summary != NULL ? HSP_OK : hsp_err_nomem(err, "a job");
}

enum hsp_status hsp_plan_rec_make(struct hsp_job_rec *job, const struct hsp_plan *plan,
                                  const hsp_device_id *device, const double *compute_s,
                                  const char *const *names, const char *source, size_t mem_cap,
                                  struct hsp_plan_rec **ret, struct hsp_err *err)
{
    struct hsp_plan_rec *p = new_plan(job, plan->n_ranks);
    if (p == NULL) {
        return hsp_err_nomem(err, "a job");
    }
    memcpy(p->device, device, plan->n_ranks * sizeof *device);
    memcpy(p->compute_s, compute_s, plan->n_ranks * sizeof *compute_s);
    p->step_s = plan->predicted_step_us * 1e-6;
    p->source = hsp_arena_strdup(p->arena, source);
    p->why = hsp_arena_strdup(p->arena, plan->why != NULL ? plan->why : "");
    enum hsp_status st = p->source != NULL && p->why != NULL ? build_plan(p, plan, mem_cap, err)
                                                             : hsp_err_nomem(err, "a job");
    if (st == HSP_OK) {
        st = put_texts(p, names, err);
    }
    if (st != HSP_OK) {
        (void)hsp_plan_rec_unref(p);
        return st;
    }
    *ret = p;
    return HSP_OK;
}

struct hsp_plan_rec *hsp_plan_rec_ref(struct hsp_plan_rec *p)
{
    (void)atomic_fetch_add(&p->refs, 1);
    return p;
}

struct hsp_plan_rec *hsp_plan_rec_unref(struct hsp_plan_rec *p)
{
    if (p != NULL && atomic_fetch_sub(&p->refs, 1) == 1) {
        (void)hsp_epoch_plan_free(p->built);
        (void)pthread_mutex_destroy(&p->lock); /* unlocked: the last reference is gone */
        (void)hsp_arena_free(p->arena);
        (void)hsp_job_rec_unref(p->job); /* after the plan: that borrows the graph */
        free(p);
    }
    return NULL;
}

static enum hsp_status build(struct hsp_plan_rec *p, size_t mem_cap, struct hsp_err *err)
{
    struct hsp_arena *a = hsp_arena_new(mem_cap);
    struct hsp_plan *plan;
    if (a == NULL) {
        return hsp_err_nomem(err, "a job");
    }
    enum hsp_status st = hsp_plan_parse(p->text, strlen(p->text), "plan",
                                        p->job->spec->train.data.global_batch, a, &plan, err);
    if (st == HSP_OK && plan->n_ranks != p->n_ranks) {
        st = hsp_err_set(err, HSP_EPARSE, 0, "a stored plan has another number of ranks");
    }
    if (st == HSP_OK) {
        st = build_plan(p, plan, mem_cap, err);
    }
    (void)hsp_arena_free(a);
    return st;
}

enum hsp_status hsp_plan_rec_build(struct hsp_plan_rec *p, size_t mem_cap,
                                   const struct hsp_epoch_plan **ret, struct hsp_err *err)
{
    (void)pthread_mutex_lock(&p->lock); /* a plain mutex cannot fail */
    enum hsp_status st = p->built != NULL ? HSP_OK : build(p, mem_cap, err);
    *ret = p->built;
    (void)pthread_mutex_unlock(&p->lock);
    return st;
}

const uint64_t *hsp_plan_rec_folder_bytes(struct hsp_plan_rec *p)
{
    const uint64_t *ret = NULL;
    if (pthread_mutex_trylock(&p->lock) == 0) {
        ret = p->built != NULL ? p->built->folder_bytes : NULL;
        (void)pthread_mutex_unlock(&p->lock);
    }
    return ret;
}

void hsp_plan_rec_encode(const struct hsp_plan_rec *p, struct hsp_buf *out)
{
    hsp_buf_u8(out, ROW_VERSION);
    hsp_buf_str(out, p->text);
    hsp_buf_str(out, p->source);
    hsp_buf_str(out, p->summary);
    hsp_buf_str(out, p->why);
    hsp_buf_f64(out, p->step_s);
    hsp_buf_u32(out, p->n_ranks);
    for (uint32_t r = 0; r < p->n_ranks; r++) {
        hsp_buf_u32(out, p->device[r]);
        hsp_buf_f64(out, p->compute_s[r]);
    }
}

enum hsp_status hsp_plan_rec_decode(const void *data, size_t len, struct hsp_job_rec *job,
                                    struct hsp_plan_rec **ret, struct hsp_err *err)
{
    struct hsp_arena *a = hsp_arena_new(TEXT_CAP);
    if (a == NULL) {
        return hsp_err_nomem(err, "a job");
    }
    struct hsp_cursor c;
    hsp_cur_init(&c, data, len);
    uint8_t version = hsp_cur_u8(&c);
    const char *text[4];
    for (int i = 0; i < 4; i++) {
        text[i] = hsp_cur_str(&c, PLAN_TEXT, a);
    }
    double step_s = hsp_cur_f64(&c);
    uint32_t n = hsp_cur_count(&c, HSP_MSG_RANKS, 12);
    struct hsp_plan_rec *p = new_plan(job, n);
    for (uint32_t r = 0; p != NULL && r < n; r++) {
        p->device[r] = hsp_cur_u32(&c);
        p->compute_s[r] = hsp_cur_f64(&c);
    }
    enum hsp_status st = p == NULL || c.nomem ? hsp_err_nomem(err, "a job") : HSP_OK;
    if (st == HSP_OK && (!hsp_cur_done(&c) || version != ROW_VERSION || n == 0)) {
        st = hsp_err_set(err, HSP_EPARSE, 0, "a stored plan is not readable");
    }
    if (st == HSP_OK) {
        p->step_s = step_s;
        p->text = hsp_arena_strdup(p->arena, text[0]);
        p->source = hsp_arena_strdup(p->arena, text[1]);
        p->summary = hsp_arena_strdup(p->arena, text[2]);
        p->why = hsp_arena_strdup(p->arena, text[3]);
        if (p->text == NULL || p->source == NULL || p->summary == NULL || p->why == NULL) {
            st = hsp_err_nomem(err, "a job");
        }
    }
    (void)hsp_arena_free(a);
    if (st != HSP_OK) {
        (void)hsp_plan_rec_unref(p);
        return st;
    }
    *ret = p;
    return HSP_OK;
}
