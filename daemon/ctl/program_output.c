/* Compiles a job, and writes the programs of all ranks to one file. */
#include "daemon/ctl/program_output.h"

#include <inttypes.h>

#include "daemon/plan/pool_view.h"
#include "daemon/spmd/total/total_plan.h"
#include "daemon/spmd/verify/shrink_model.h"
#include "proto/base/size.h"
#include "proto/host/file_io.h"
#include "proto/program/program_file.h"

static enum hsp_status write_file(const struct hsp_program_file *f, const char *path,
                                  struct hsp_err *err)
{
    struct hsp_buf b;
    hsp_buf_init(&b, (size_t)1 << 30);
    enum hsp_status st = hsp_program_file_encode(f, &b);
    if (st == HSP_ENOMEM || hsp_buf_status(&b) == HSP_ENOMEM) {
        st = hsp_err_nomem(err, "%s", path);
    } else if (st != HSP_OK || b.failed) {
        st = hsp_err_set(err, HSP_ELIMIT, 0, "%s: the programs are larger than 1 GiB", path);
    } else {
        st = hsp_file_write(path, b.data, b.len, 0644, err);
        if (st == HSP_ENOENT) { /* a folder, and no object of hspmdd */
            st = err->code = HSP_EIO;
        }
    }
    hsp_buf_fini(&b);
    return st;
}

/* The sizes that --verify chose. */
static void print_small(struct hsp_ctl *ctl, const struct hsp_loaded *l,
                        const struct hsp_scaled_model *s)
{
    const struct hsp_model_spec *a = &l->job->model, *b = &s->model;
    const struct {
        const char *what;
        int64_t from, to;
    } size[] = {{"hidden", a->hidden, b->hidden},
                {"heads", a->heads, b->heads},
                {"vocab", a->vocab, b->vocab},
                {"sequence", a->sequence, b->sequence},
                {"global batch", l->job->train.data.global_batch, s->global_batch}};
    (void)fputs("for hspmd-worker --verify, the same templates at small extents:", ctl->msg);
    for (size_t i = 0; i < HSP_ARRAY_LEN(size); i++) {
        if (size[i].from > 0) {
            (void)fprintf(ctl->msg, "%s %s %" PRId64 " of %" PRId64, i > 0 ? "," : "", size[i].what,
                          size[i].to, size[i].from);
        }
    }
    (void)fputs("\n", ctl->msg);
}

/* Of a pool one plan by itself, with the homes of all. */
static enum hsp_status compile_small(struct hsp_ctl *ctl, const struct hsp_loaded *l,
                                     const struct hsp_plan *p, uint32_t which,
                                     struct hsp_program_file *f, struct hsp_scaled_model *ret,
                                     struct hsp_err *err)
{
    struct hsp_plan total;
    struct hsp_pool_view v;
    if (p->n_shorter == 0) {
        return hsp_compile_scaled(l->g, p, &l->job->train, ctl->arena, f, ret, err);
    }
    enum hsp_status st = hsp_plan_complete(l->g, p, &l->job->train, ctl->arena, &total, err);
    if (st != HSP_OK) {
        return st;
    }
    hsp_pool_view_make(l->g, &l->job->train, hsp_pool_plan(&total, which), NULL, &v);
    st = hsp_compile_scaled(&v.g, &v.p, &v.t, ctl->arena, f, ret, err);
    return st == HSP_OK ? st : hsp_err_wrap(err, "plan for %u tokens", v.p.max_length);
}

enum hsp_status hsp_write_programs(struct hsp_ctl *ctl, const struct hsp_loaded *l,
                                   const struct hsp_program_request *o, struct hsp_err *err)
{
    uint32_t n = 0;
    return hsp_write_some(ctl, l, o, &n, err);
}

enum hsp_status hsp_write_some(struct hsp_ctl *ctl, const struct hsp_loaded *l,
                               const struct hsp_program_request *o, uint32_t *ret_plans,
                               struct hsp_err *err)
{
    struct hsp_cluster_desc cluster;
    struct hsp_planned planned;
    struct hsp_program_file f = {0};
    struct hsp_buf json;
    const char *source = NULL;
    struct hsp_scaled_model small = {0};
    enum hsp_status st = hsp_pick_plan(ctl->arena, l, &o->how, &cluster, &planned, &source, err);
    if (st == HSP_OK) {
        *ret_plans = planned.plan->n_shorter + 1;
        st = o->verify ? compile_small(ctl, l, planned.plan, o->which, &f, &small, err)
                       : hsp_compile(l->g, planned.plan, &l->job->train, ctl->arena, &f, err);
        st = hsp_pick_blame(st, source, err);
    }
    if (st != HSP_OK) {
        return st;
    }
    hsp_buf_init(&json, 65536);
    hsp_job_model_json(l->job, &json);
    f.data_path = o->verify ? "" : l->job->data_path;
    f.out_dir = o->out_dir;
    f.init_from = o->verify ? "" : l->job->init_from;
    f.config_json = hsp_buf_cstr(&json);
    st = hsp_buf_status(&json) == HSP_OK
             ? write_file(&f, o->path, err)
             : hsp_err_about(err, hsp_buf_status(&json), "the text of the model");
    hsp_buf_fini(&json);
    if (st == HSP_OK && !o->scratch) {
        uint32_t n = f.n * (f.n_shorter + 1);
        (void)fprintf(ctl->msg, "%s: %u program%s of %s, %s from %s\n", o->path, n,
                      n == 1 ? "" : "s", l->job->name, f.n_shorter > 0 ? "pool" : "plan", source);
    }
    if (st == HSP_OK && o->verify) {
        print_small(ctl, l, &small);
    }
    return st;
}
