/* hspmdctl compile: job + plan -> program file. */
#include <string.h>

#include "daemon/ctl/command.h"
#include "daemon/ctl/planpick.h"
#include "proto/host/fileio.h"

enum { O_OUTPUT, O_PLAN, O_CLUSTER, O_VERIFY, O_OUT }; /* rows of compile_options */

/* The same job on one device, in micro-batches of at most HSP_MICRO_CAP sequences. */
static enum hsp_status compile_unsharded(struct hsp_arena *arena, const struct hsp_loaded *l,
                                         struct hsp_program_file *f, struct hsp_err *err)
{
    uint32_t batch = l->job->train.data.global_batch, rank = 0;
    int64_t share = 1;
    struct hsp_stage stage = {
        .layers = l->g->n_layers - 2, .n = 1, .ranks = &rank, .shares = &share};
    struct hsp_stream stream = {.sequences = batch,
                                .micro_batches = (batch + HSP_MICRO_CAP - 1) / HSP_MICRO_CAP,
                                .n_stages = 1,
                                .stages = &stage};
    struct hsp_plan plan = {.n_ranks = 1, .n_streams = 1, .streams = &stream};
    struct hsp_program_file one = {0};
    enum hsp_status st = hsp_compile(l->g, &plan, &l->job->train, arena, &one, err);
    if (st == HSP_OK) {
        f->n_ref = 1;
        f->ref = one.programs;
    }
    return st;
}

static enum hsp_status write_file(const struct hsp_program_file *f, const char *path,
                                  struct hsp_err *err)
{
    struct hsp_buf b;
    hsp_buf_init(&b, (size_t)1 << 30);
    enum hsp_status st = hsp_program_file_encode(f, &b);
    if (st != HSP_OK || b.failed) {
        st = hsp_err_set(err, HSP_ELIMIT, 0, "%s: the programs are larger than 1 GiB", path);
    } else {
        st = hsp_file_write(path, b.data, b.len, 0644, err);
    }
    hsp_buf_fini(&b);
    return st;
}

static enum hsp_status compile(struct hsp_ctl *ctl, const struct hsp_loaded *l, struct hsp_err *err)
{
    struct hsp_pick how = {.plan_path = ctl->opt[O_PLAN], .cluster_path = ctl->opt[O_CLUSTER]};
    struct hsp_cluster_desc cluster;
    struct hsp_planned planned;
    struct hsp_program_file f = {0};
    struct hsp_buf json;
    const char *source = NULL;
    enum hsp_status st = hsp_pick_plan(ctl->arena, l, &how, &cluster, &planned, &source, err);
    if (st == HSP_OK) {
        st = hsp_compile(l->g, planned.plan, &l->job->train, ctl->arena, &f, err);
        st = hsp_pick_blame(st, source, err);
    }
    if (st == HSP_OK && ctl->opt[O_VERIFY] != NULL) {
        st = compile_unsharded(ctl->arena, l, &f, err);
    }
    if (st != HSP_OK) {
        return st;
    }
    hsp_buf_init(&json, 65536);
    hsp_job_model_json(l->job, &json);
    f.data_path = l->job->data_path;
    f.out_dir = ctl->opt[O_OUT] != NULL ? ctl->opt[O_OUT] : "";
    f.init_from = l->job->init_from;
    f.config_json = hsp_buf_cstr(&json);
    st = write_file(&f, ctl->opt[O_OUTPUT], err);
    hsp_buf_fini(&json);
    if (st == HSP_OK) {
        (void)fprintf(ctl->msg, "%s: %u program%s of %s, plan from %s\n", ctl->opt[O_OUTPUT], f.n,
                      f.n == 1 ? "" : "s", l->job->name, source);
    }
    return st;
}

int hsp_cmd_compile(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    struct hsp_loaded l;
    if (ctl->opt[O_OUTPUT] == NULL) {
        return hsp_ctl_usage(ctl, "compile needs -o FILE");
    }
    enum hsp_status st = hsp_load_job(ctl->arena, ctl->pos[0], &l, &err);
    if (st == HSP_OK) {
        st = compile(ctl, &l, &err);
    }
    hsp_loaded_fini(&l);
    return st == HSP_OK ? HSP_EXIT_OK : hsp_ctl_fail(ctl, &err);
}
