#include "daemon/ctl/cmd_plan.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/cmd_submit.h"
#include "daemon/ctl/command.h"
#include "daemon/ctl/ctl.h"
#include "daemon/ctl/plan_pick.h"
#include "daemon/ctl/plan_schedule.h"
#include "daemon/ctl/remote.h"
#include "daemon/ctl/table.h"
#include "daemon/ctl/transition.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/plan/plan_yaml_one.h"
#include "daemon/planner/durability.h"
#include "daemon/planner/links.h"
#include "daemon/spmd/total/total_plan.h"
#include "proto/base/size.h"
#include "proto/base/str.h"
#include "proto/wire/msg.h"

/* rows of plan_options */
enum { O_CLUSTER, O_PLAN, O_EXCLUDE, O_NO_ZERO, O_SCHEDULE, O_LIVE, O_EXIT_CODE, O_TRANSITION };

struct view {
    struct hsp_ctl *ctl;
    const struct hsp_loaded *l;
    const struct hsp_job_spec *job;
    const struct hsp_cluster_desc *cluster;
    const struct hsp_planned *p;
    const char *source;
};

static const struct hsp_column columns[] = {
    {"RANK", true},   {"DEVICE", false},   {"PIPELINE", true}, {"BLOCKS", false},
    {"PART", true},   {"SEQUENCES", true}, {"MICRO", true},    {"COMPUTE", true},
    {"UPDATE", true}, {"SYNC", true},      {"MEMORY", true},   {"OFFERED", true},
};

static const char *blocks_text(struct hsp_ctl *ctl, const struct hsp_rank_cost *r)
{
    return r->block_ranges != NULL ? r->block_ranges
           : r->n_blocks == 0 /* only the embedding, or the head */
               ? "-"
               : r->n_blocks == 1
                     ? hsp_ctl_text(ctl, "%u", r->first_block)
                     : hsp_ctl_text(ctl, "%u-%u", r->first_block, r->first_block + r->n_blocks - 1);
}

static void add_row(struct hsp_table *t, const struct view *v, uint32_t rank)
{
    const struct hsp_rank_cost *r = &v->p->cost.rank[rank];
    const struct hsp_device_desc *d = &v->cluster->dev[r->device];
    const char *offered =
        d->mem_bytes == INT64_MAX ? "-" : hsp_ctl_bytes(v->ctl, (double)d->mem_bytes);
    const char *cells[] = {
        hsp_ctl_text(v->ctl, "%u", rank),
        d->name,
        hsp_ctl_text(v->ctl, "%u", r->pipeline),
        blocks_text(v->ctl, r),
        hsp_ctl_text(v->ctl, "%.0f%%", 100 * r->part),
        hsp_ctl_text(v->ctl, "%u", r->sequences),
        hsp_ctl_text(v->ctl, "%u", r->micro_batches),
        hsp_ctl_time(v->ctl, r->compute_us + r->tensor_us),
        hsp_ctl_time(v->ctl, r->update_us),
        hsp_ctl_time(v->ctl, r->sync_us),
        hsp_ctl_bytes(v->ctl, (double)r->total_bytes),
        offered,
    };
    hsp_table_row(t, cells);
}

/* The host memory of offloaded activations, if there are any. */
static void print_host(const struct view *v)
{
    double sum = 0, most = 0;
    for (uint32_t r = 0; r < v->p->plan->n_ranks; r++) {
        double bytes = (double)v->p->cost.rank[r].host_bytes;
        sum += bytes;
        most = bytes > most ? bytes : most;
    }
    if (sum > 0) {
        (void)fprintf(v->ctl->out, "\nhost memory %s, for one rank %s at most\n",
                      hsp_ctl_bytes(v->ctl, sum), hsp_ctl_bytes(v->ctl, most));
    }
}

/* The first rank on a node that cannot have this layout beside another one; n_ranks:
 * none is known. */
static uint32_t find_full(const struct view *v)
{
    uint32_t r = 0;
    while (r < v->p->plan->n_ranks) {
        const struct hsp_rank_cost *c = &v->p->cost.rank[r];
        int64_t room = v->cluster->dev[c->device].folder_bytes;
        if (room > 0 && 2 * (double)c->node_folder_bytes > (double)room) {
            return r;
        }
        r++;
    }
    return r;
}

static int name_len(const char *device)
{
    return (int)strcspn(device, "/");
}

/* The bytes in state folders, and the losses that they outlast. */
static void print_state(const struct view *v)
{
    char text[HSP_DURABILITY_BYTES];
    const struct hsp_cost *c = &v->p->cost;
    uint32_t most, full = find_full(v);
    double bytes = (double)hsp_durability_bytes(c, &most);
    const char *node = v->cluster->dev[c->rank[most].device].name;
    hsp_durability_text(c, v->job, text);
    (void)fprintf(v->ctl->out, "\nstate folders %s, %s of it on %.*s; twice that during a switch\n",
                  hsp_ctl_bytes(v->ctl, bytes),
                  hsp_ctl_bytes(v->ctl, (double)c->rank[most].node_folder_bytes), name_len(node),
                  node);
    if (full < v->p->plan->n_ranks) {
        const struct hsp_device_desc *d = &v->cluster->dev[c->rank[full].device];
        (void)fprintf(v->ctl->out,
                      "the state folder of %.*s has room for %s: the next switch gives that node "
                      "less, or leaves it out\n",
                      name_len(d->name), d->name, hsp_ctl_bytes(v->ctl, (double)d->folder_bytes));
    }
    (void)fprintf(v->ctl->out, "state: %s\n", text);
}

static int print_table(const struct view *v)
{
    FILE *out = v->ctl->out;
    const struct hsp_cost *c = &v->p->cost;
    struct hsp_table *t = hsp_table_new(v->ctl, columns, sizeof(columns) / sizeof(columns[0]));
    for (uint32_t r = 0; r < v->p->plan->n_ranks; r++) {
        add_row(t, v, r);
    }
    (void)fprintf(out, "%s: %s (%s)\n\n", v->job->name, v->p->plan->why, v->source);
    int rc = hsp_table_print(t) ? HSP_EXIT_OK : HSP_EXIT_FAILED;
    print_host(v);
    print_state(v);
    (void)fprintf(out, "\nstep %s = slowest pipeline %s + gradients %s + vote %s",
                  hsp_ctl_time(v->ctl, c->step_us), hsp_ctl_time(v->ctl, c->pipeline_us),
                  hsp_ctl_time(v->ctl, c->sync_us), hsp_ctl_time(v->ctl, c->vote_us));
    if (c->copy_us > 0) {
        (void)fprintf(out, " + copies %s", hsp_ctl_time(v->ctl, c->copy_us));
    }
    (void)fprintf(out, "; %.1f sequences/s\n",
                  1e6 * v->job->train.data.global_batch / (c->step_us > 0 ? c->step_us : 1));
    for (uint32_t k = 0; k < v->p->plan->n_shorter; k++) { /* the table is of the longest */
        const struct hsp_plan *p = v->p->plan->shorter[k];
        (void)fprintf(out, "steps of documents up to %u tokens: %s\n", p->max_length, p->why);
    }
    for (uint32_t i = 0; i < v->p->n_rejected; i++) {
        (void)fprintf(out, "%s %s: %s\n", i == 0 ? "rejected:" : "         ",
                      v->p->rejected[i].what, v->p->rejected[i].why);
    }
    return rc;
}

struct number {
    const char *key;
    double v;
};

/* False: no memory. */
static bool add_numbers(cJSON *o, const struct number *x, size_t n)
{
    bool ok = o != NULL;
    for (size_t i = 0; i < n && ok; i++) {
        ok = cJSON_AddNumberToObject(o, x[i].key, x[i].v) != NULL;
    }
    return ok;
}

static bool add_text(cJSON *o, const char *key, const char *text)
{
    return cJSON_AddStringToObject(o, key, text) != NULL;
}

/* An item that is not added goes with @o, too. */
static bool add_item(cJSON *list, cJSON *item, bool whole)
{
    if (item == NULL || !cJSON_AddItemToArray(list, item)) {
        cJSON_Delete(item);
        return false;
    }
    return whole;
}

static bool add_rank(const struct view *v, uint32_t rank, cJSON *list)
{
    const struct hsp_rank_cost *r = &v->p->cost.rank[rank];
    const struct number place[] = {{"stream", r->pipeline},
                                   {"stage", r->stage},
                                   {"first_block", r->first_block},
                                   {"blocks", r->n_blocks},
                                   {"tensor_part", r->part},
                                   {"sequences", r->sequences},
                                   {"micro_batches", r->micro_batches},
                                   {"compute_seconds", r->compute_us / 1e6},
                                   {"tensor_seconds", r->tensor_us / 1e6},
                                   {"transfer_seconds", r->transfer_us / 1e6},
                                   {"update_seconds", r->update_us / 1e6},
                                   {"sync_seconds", r->sync_us / 1e6},
                                   {"memory_bytes", (double)r->total_bytes},
                                   {"state_bytes", (double)r->state_bytes},
                                   {"gradient_bytes", (double)r->grad_bytes},
                                   {"activation_bytes", (double)r->act_bytes},
                                   {"communication_bytes", (double)r->comm_bytes},
                                   {"host_bytes", (double)r->host_bytes},
                                   {"folder_bytes", (double)r->folder_bytes}};
    cJSON *o = cJSON_CreateObject();
    bool ok = add_numbers(o, &(const struct number){"rank", rank}, 1) &&
              add_text(o, "device", v->cluster->dev[r->device].name) &&
              add_text(o, "schedule", hsp_schedule_name(r->schedule)) &&
              (r->block_ranges == NULL || add_text(o, "block_ranges", r->block_ranges)) &&
              add_numbers(o, place, HSP_ARRAY_LEN(place));
    return add_item(list, o, ok);
}

static bool add_rejected(const struct view *v, uint32_t i, cJSON *list)
{
    cJSON *o = cJSON_CreateObject();
    double seconds = v->p->rejected[i].step_us / 1e6;
    bool ok =
        add_text(o, "what", v->p->rejected[i].what) && add_text(o, "why", v->p->rejected[i].why) &&
        (!(seconds > 0) || add_numbers(o, &(const struct number){"step_seconds", seconds}, 1));
    return add_item(list, o, ok);
}

static bool add_plan(cJSON *o, const struct hsp_plan *plan)
{
    struct hsp_buf b;
    hsp_buf_init(&b, (size_t)64 << 20);
    hsp_plan_dump(plan, &b);
    bool ok = hsp_buf_status(&b) == HSP_OK && add_text(o, "plan_yaml", hsp_buf_cstr(&b));
    hsp_buf_fini(&b);
    return ok;
}

/* The bytes in state folders, and the losses that they outlast. */
static bool add_state(const struct view *v, cJSON *o)
{
    char text[HSP_DURABILITY_BYTES];
    uint32_t most;
    const struct hsp_cost *c = &v->p->cost;
    hsp_durability_text(c, v->job, text);
    const struct number of[] = {{"copies", v->job->copies},
                                {"folder_bytes", (double)hsp_durability_bytes(c, &most)},
                                {"node_folder_bytes_max", (double)c->rank[most].node_folder_bytes},
                                {"keeper_bytes", c->replica_holder_bytes}};
    return add_numbers(o, of, HSP_ARRAY_LEN(of)) && add_text(o, "durability", text);
}

static bool add_prediction(const struct view *v, cJSON *o)
{
    const struct hsp_cost *c = &v->p->cost;
    const struct number sum[] = {
        {"zero", v->p->plan->zero},         {"streams", v->p->plan->n_pipelines},
        {"step_seconds", c->step_us / 1e6}, {"stream_seconds", c->pipeline_us / 1e6},
        {"sync_seconds", c->sync_us / 1e6}, {"vote_seconds", c->vote_us / 1e6},
        {"copy_seconds", c->copy_us / 1e6}, {"bound_seconds", c->bound_us / 1e6}};
    bool ok = add_text(o, "apiVersion", "hspmd/v1") && add_text(o, "kind", "plan-prediction") &&
              add_text(o, "job", v->job->name) && add_text(o, "source", v->source) &&
              add_text(o, "why", v->p->plan->why) && add_numbers(o, sum, HSP_ARRAY_LEN(sum)) &&
              add_state(v, o);
    cJSON *ranks = ok ? cJSON_AddArrayToObject(o, "ranks") : NULL;
    for (uint32_t r = 0; r < v->p->plan->n_ranks && ok; r++) {
        ok = ranks != NULL && add_rank(v, r, ranks);
    }
    cJSON *rejected = ok ? cJSON_AddArrayToObject(o, "rejected") : NULL;
    for (uint32_t i = 0; i < v->p->n_rejected && ok; i++) {
        ok = rejected != NULL && add_rejected(v, i, rejected);
    }
    return ok && rejected != NULL && add_plan(o, v->p->plan);
}

static int print_json(const struct view *v)
{
    struct hsp_err err;
    cJSON *o = cJSON_CreateObject();
    char *text = o != NULL && add_prediction(v, o) ? cJSON_Print(o) : NULL;
    cJSON_Delete(o);
    if (text == NULL) {
        (void)hsp_err_nomem(&err, "the plan");
        return hsp_ctl_fail(v->ctl, &err);
    }
    (void)fprintf(v->ctl->out, "%s\n", text);
    cJSON_free(text);
    return HSP_EXIT_OK;
}

/* The total plan: the plan that will be compiled, nothing implied. */
static int print_yaml(const struct view *v)
{
    struct hsp_buf b;
    struct hsp_plan total;
    struct hsp_err err = {0};
    const struct hsp_rank_devices ranks = {.cluster = v->cluster, .device = v->p->device};
    const struct hsp_rank_links links = hsp_links_of_ranks(&ranks);
    enum hsp_status st =
        hsp_plan_explain(v->l->g, v->p->plan, &v->job->train, &links, v->ctl->arena, &total, &err);
    if (hsp_pick_blame(st, v->source, &err) != HSP_OK) {
        return hsp_ctl_fail(v->ctl, &err);
    }
    hsp_buf_init(&b, (size_t)64 << 20);
    hsp_buf_printf(&b, "# %s: %s\n", v->job->name, v->p->plan->why);
    for (uint32_t r = 0; r < v->p->plan->n_ranks; r++) {
        int64_t host = v->p->cost.rank[r].host_bytes;
        hsp_buf_printf(&b, "# rank %u: %s%s%s\n", r, v->cluster->dev[v->p->device[r]].name,
                       host > 0 ? ", host memory " : "",
                       host > 0 ? hsp_ctl_bytes(v->ctl, (double)host) : "");
    }
    hsp_plan_dump(&total, &b);
    st = hsp_buf_status(&b);
    if (st == HSP_OK) {
        (void)fputs(hsp_buf_cstr(&b), v->ctl->out);
    } else {
        (void)hsp_err_set(&err, st, 0, "%s for the plan",
                          st == HSP_ENOMEM ? "out of memory" : "more than 64 MiB");
    }
    hsp_buf_fini(&b);
    return st == HSP_OK ? HSP_EXIT_OK : hsp_ctl_fail(v->ctl, &err);
}

/* plan JOB --transition FROM TO */
static int show_transition(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    struct hsp_loaded l;
    const struct hsp_transition t = {.from = ctl->pos[1],
                                     .to = ctl->pos[2],
                                     .cluster = ctl->opt[O_CLUSTER],
                                     .exclude = ctl->opt[O_EXCLUDE]};
    if (ctl->opt[O_TRANSITION] == NULL || ctl->n_pos != 3 || t.cluster == NULL ||
        ctl->opt[O_PLAN] != NULL || ctl->opt[O_LIVE] != NULL || ctl->opt[O_NO_ZERO] != NULL ||
        ctl->opt[O_SCHEDULE] != NULL || ctl->format == HSP_FORMAT_YAML) {
        return hsp_ctl_usage(ctl, "plan JOB --transition FROM TO takes two plans, needs "
                                  "--cluster, and writes table or json");
    }
    enum hsp_status st = hsp_load_job(ctl->arena, ctl->pos[0], &l, &err);
    st = st == HSP_OK ? hsp_transition_show(ctl, &l, &t, &err) : st;
    hsp_loaded_fini(&l);
    return st == HSP_OK ? HSP_EXIT_OK : hsp_ctl_fail(ctl, &err);
}

/* The operand is the name of a job, it seems: plans are made for files. */
static int no_job_file(struct hsp_ctl *ctl)
{
    struct hsp_err err;
    (void)hsp_err_set(&err, HSP_EPARSE, 0,
                      "there is no job file %s; for a job at hspmdd use hspmdctl plan show %s",
                      ctl->pos[0], ctl->pos[0]);
    return hsp_ctl_fail(ctl, &err);
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
    if (ctl->opt[O_TRANSITION] != NULL || ctl->n_pos > 1) {
        return show_transition(ctl);
    }
    const char *draw = ctl->opt[O_SCHEDULE];
    if (draw != NULL && strcmp(draw, "text") != 0 && strcmp(draw, "trace") != 0) {
        return hsp_ctl_usage(ctl, "--schedule takes text or trace");
    }
    if (draw != NULL && ctl->format != HSP_FORMAT_TABLE) {
        return hsp_ctl_usage(ctl, "--schedule writes text or a trace, nothing else");
    }
    if (ctl->opt[O_LIVE] != NULL) {
        bool alone = draw == NULL && how.plan_path == NULL && how.cluster_path == NULL &&
                     how.exclude == NULL && !how.no_zero && ctl->format != HSP_FORMAT_YAML;
        return !alone ? hsp_ctl_usage(ctl, "--live stands alone, and writes table or json")
               : hsp_is_job(ctl->pos[0]) ? no_job_file(ctl)
                                         : hsp_plan_live(ctl, ctl->opt[O_EXIT_CODE] != NULL);
    }
    if (ctl->opt[O_EXIT_CODE] != NULL) {
        return hsp_ctl_usage(ctl, "--exit-code needs --live");
    }
    if (how.exclude != NULL && how.cluster_path == NULL) {
        return hsp_ctl_usage(ctl, "--exclude needs --cluster");
    }
    if (hsp_is_job(ctl->pos[0])) {
        return no_job_file(ctl);
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
        if (how.cluster_path == NULL && ctl->format == HSP_FORMAT_TABLE && draw == NULL) {
            (void)fprintf(
                ctl->msg,
                "hspmdctl: the plan is for %u assumed CPU core%s: --cluster FILE describes "
                "devices, --live asks hspmdd for its own\n",
                cluster.n, hsp_s(cluster.n));
        }
        rc = draw != NULL                     ? hsp_plan_schedule(ctl, &l, &planned, &cluster, draw)
             : ctl->format == HSP_FORMAT_JSON ? print_json(&v)
             : ctl->format == HSP_FORMAT_YAML ? print_yaml(&v)
                                              : print_table(&v);
    }
    hsp_loaded_fini(&l);
    return rc;
}
