/* hspmdctl plan: a dry run that prints who gets what. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/command.h"
#include "daemon/ctl/planpick.h"
#include "daemon/ctl/remote.h"
#include "daemon/ctl/table.h"
#include "daemon/spmd/complete.h"

enum { O_CLUSTER, O_PLAN, O_EXCLUDE, O_NO_ZERO, O_LIVE, O_EXIT_CODE }; /* rows of plan_options */

struct view {
    struct hsp_ctl *ctl;
    const struct hsp_loaded *l;
    const struct hsp_job_spec *job;
    const struct hsp_cluster_desc *cluster;
    const struct hsp_planned *p;
    const char *source;
};

static const struct hsp_column columns[] = {
    {"RANK", true},   {"DEVICE", false},   {"STREAM", true}, {"BLOCKS", false},
    {"PART", true},   {"SEQUENCES", true}, {"MICRO", true},  {"COMPUTE", true},
    {"UPDATE", true}, {"SYNC", true},      {"MEMORY", true}, {"OFFERED", true},
};

static const char *blocks_text(struct hsp_arena *a, const struct hsp_rank_cost *r)
{
    return r->n_blocks == 1
               ? hsp_arena_printf(a, "%u", r->first_block)
               : hsp_arena_printf(a, "%u-%u", r->first_block, r->first_block + r->n_blocks - 1);
}

static void add_row(struct hsp_table *t, const struct view *v, uint32_t rank)
{
    struct hsp_arena *a = v->ctl->arena;
    const struct hsp_rank_cost *r = &v->p->cost.rank[rank];
    const struct hsp_device_desc *d = &v->cluster->dev[r->device];
    const char *offered = d->mem_bytes == INT64_MAX ? "-" : hsp_bytes_text(a, (double)d->mem_bytes);
    const char *cells[] = {
        hsp_arena_printf(a, "%u", rank),
        d->name,
        hsp_arena_printf(a, "%u", r->stream),
        blocks_text(a, r),
        hsp_arena_printf(a, "%.0f%%", 100 * r->part),
        hsp_arena_printf(a, "%u", r->sequences),
        hsp_arena_printf(a, "%u", r->micro_batches),
        hsp_time_text(a, r->compute_us + r->tensor_us),
        hsp_time_text(a, r->update_us),
        hsp_time_text(a, r->sync_us),
        hsp_bytes_text(a, (double)r->total_bytes),
        offered,
    };
    hsp_table_row(t, cells);
}

static int print_table(const struct view *v)
{
    FILE *out = v->ctl->out;
    struct hsp_arena *a = v->ctl->arena;
    const struct hsp_cost *c = &v->p->cost;
    struct hsp_table *t =
        hsp_table_new(columns, sizeof(columns) / sizeof(columns[0]), v->ctl->headers);
    for (uint32_t r = 0; r < v->p->plan->n_ranks; r++) {
        add_row(t, v, r);
    }
    (void)fprintf(out, "%s: %s (%s)\n\n", v->job->name, v->p->plan->why, v->source);
    int rc = hsp_table_print(t, out) ? HSP_EXIT_OK : HSP_EXIT_FAILED;
    (void)fprintf(out, "\nstep %s = slowest stream %s + gradients %s + vote %s",
                  hsp_time_text(a, c->step_us), hsp_time_text(a, c->stream_us),
                  hsp_time_text(a, c->sync_us), hsp_time_text(a, c->vote_us));
    if (c->copy_us > 0) {
        (void)fprintf(out, " + copies %s", hsp_time_text(a, c->copy_us));
    }
    (void)fprintf(out, "; %.1f sequences/s\n",
                  1e6 * v->job->train.data.global_batch / (c->step_us > 0 ? c->step_us : 1));
    for (uint32_t i = 0; i < v->p->n_rejected; i++) {
        (void)fprintf(out, "%s %s: %s\n", i == 0 ? "rejected:" : "         ",
                      v->p->rejected[i].what, v->p->rejected[i].why);
    }
    return rc;
}

static cJSON *rank_json(const struct view *v, uint32_t rank)
{
    const struct hsp_rank_cost *r = &v->p->cost.rank[rank];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "rank", rank);
    cJSON_AddStringToObject(o, "device", v->cluster->dev[r->device].name);
    cJSON_AddNumberToObject(o, "stream", r->stream);
    cJSON_AddNumberToObject(o, "stage", r->stage);
    cJSON_AddNumberToObject(o, "first_block", r->first_block);
    cJSON_AddNumberToObject(o, "blocks", r->n_blocks);
    cJSON_AddNumberToObject(o, "tensor_part", r->part);
    cJSON_AddNumberToObject(o, "sequences", r->sequences);
    cJSON_AddNumberToObject(o, "micro_batches", r->micro_batches);
    cJSON_AddNumberToObject(o, "compute_seconds", r->compute_us / 1e6);
    cJSON_AddNumberToObject(o, "tensor_seconds", r->tensor_us / 1e6);
    cJSON_AddNumberToObject(o, "transfer_seconds", r->transfer_us / 1e6);
    cJSON_AddNumberToObject(o, "update_seconds", r->update_us / 1e6);
    cJSON_AddNumberToObject(o, "sync_seconds", r->sync_us / 1e6);
    cJSON_AddNumberToObject(o, "memory_bytes", (double)r->total_bytes);
    cJSON_AddNumberToObject(o, "state_bytes", (double)r->state_bytes);
    cJSON_AddNumberToObject(o, "gradient_bytes", (double)r->grad_bytes);
    cJSON_AddNumberToObject(o, "activation_bytes", (double)r->act_bytes);
    cJSON_AddNumberToObject(o, "communication_bytes", (double)r->comm_bytes);
    return o;
}

static int print_json(const struct view *v)
{
    const struct hsp_cost *c = &v->p->cost;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "apiVersion", "hspmd/v1");
    cJSON_AddStringToObject(o, "kind", "plan-prediction");
    cJSON_AddStringToObject(o, "job", v->job->name);
    cJSON_AddStringToObject(o, "source", v->source);
    cJSON_AddStringToObject(o, "why", v->p->plan->why);
    cJSON_AddNumberToObject(o, "zero", v->p->plan->zero);
    cJSON_AddNumberToObject(o, "streams", v->p->plan->n_streams);
    cJSON_AddNumberToObject(o, "step_seconds", c->step_us / 1e6);
    cJSON_AddNumberToObject(o, "stream_seconds", c->stream_us / 1e6);
    cJSON_AddNumberToObject(o, "sync_seconds", c->sync_us / 1e6);
    cJSON_AddNumberToObject(o, "vote_seconds", c->vote_us / 1e6);
    cJSON_AddNumberToObject(o, "copy_seconds", c->copy_us / 1e6);
    cJSON_AddNumberToObject(o, "bound_seconds", c->bound_us / 1e6);
    cJSON *ranks = cJSON_AddArrayToObject(o, "ranks");
    for (uint32_t r = 0; r < v->p->plan->n_ranks; r++) {
        cJSON_AddItemToArray(ranks, rank_json(v, r));
    }
    cJSON *rejected = cJSON_AddArrayToObject(o, "rejected");
    for (uint32_t i = 0; i < v->p->n_rejected; i++) {
        cJSON *x = cJSON_CreateObject();
        cJSON_AddStringToObject(x, "what", v->p->rejected[i].what);
        cJSON_AddStringToObject(x, "why", v->p->rejected[i].why);
        if (v->p->rejected[i].step_us > 0) {
            cJSON_AddNumberToObject(x, "step_seconds", v->p->rejected[i].step_us / 1e6);
        }
        cJSON_AddItemToArray(rejected, x);
    }
    char *text = cJSON_Print(o);
    cJSON_Delete(o);
    if (text == NULL) {
        return HSP_EXIT_FAILED;
    }
    (void)fprintf(v->ctl->out, "%s\n", text);
    cJSON_free(text);
    return HSP_EXIT_OK;
}

/* The total plan: what will be compiled, nothing implied. */
static int print_yaml(const struct view *v)
{
    struct hsp_buf b;
    struct hsp_plan total;
    struct hsp_err err = {0};
    enum hsp_status st =
        hsp_plan_complete(v->l->g, v->p->plan, &v->job->train, v->ctl->arena, &total, &err);
    if (hsp_pick_blame(st, v->source, &err) != HSP_OK) {
        return hsp_ctl_fail(v->ctl, &err);
    }
    hsp_buf_init(&b, (size_t)64 << 20);
    hsp_plan_dump(&total, &b);
    (void)fprintf(v->ctl->out, "# %s: %s\n", v->job->name, v->p->plan->why);
    for (uint32_t r = 0; r < v->p->plan->n_ranks; r++) {
        (void)fprintf(v->ctl->out, "# rank %u: %s\n", r, v->cluster->dev[v->p->device[r]].name);
    }
    (void)fputs(hsp_buf_cstr(&b), v->ctl->out);
    int rc = b.failed ? HSP_EXIT_FAILED : HSP_EXIT_OK;
    hsp_buf_fini(&b);
    return rc;
}

int hsp_cmd_plan(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    struct hsp_loaded l;
    struct hsp_cluster_desc cluster;
    struct hsp_planned planned;
    struct view v = {.ctl = ctl, .l = &l, .cluster = &cluster, .p = &planned};
    struct hsp_pick how = {.plan_path = ctl->opt[O_PLAN],
                           .cluster_path = ctl->opt[O_CLUSTER],
                           .exclude = ctl->opt[O_EXCLUDE],
                           .no_zero = ctl->opt[O_NO_ZERO] != NULL};
    if (ctl->opt[O_LIVE] != NULL) {
        bool alone = how.plan_path == NULL && how.cluster_path == NULL && how.exclude == NULL &&
                     !how.no_zero && ctl->format != HSP_FORMAT_YAML;
        return alone ? hsp_plan_live(ctl, ctl->opt[O_EXIT_CODE] != NULL)
                     : hsp_ctl_usage(ctl, "--live stands alone, and writes table or json");
    }
    if (ctl->opt[O_EXIT_CODE] != NULL) {
        return hsp_ctl_usage(ctl, "--exit-code needs --live");
    }
    if (how.exclude != NULL && how.cluster_path == NULL) {
        return hsp_ctl_usage(ctl, "--exclude needs --cluster");
    }
    enum hsp_status st = hsp_load_job(ctl->arena, ctl->pos[0], &l, &err);
    if (st == HSP_OK) {
        st = hsp_pick_plan(ctl->arena, &l, &how, &cluster, &planned, &v.source, &err);
    }
    int rc = HSP_EXIT_OK;
    if (st != HSP_OK) {
        rc = hsp_ctl_fail(ctl, &err);
    } else {
        v.job = l.job;
        rc = ctl->format == HSP_FORMAT_JSON   ? print_json(&v)
             : ctl->format == HSP_FORMAT_YAML ? print_yaml(&v)
                                              : print_table(&v);
    }
    hsp_loaded_fini(&l);
    return rc;
}
