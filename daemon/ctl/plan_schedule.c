/* Draws schedules as text, or writes them as trace events. */
#include "daemon/ctl/plan_schedule.h"

#include <string.h>

#include "daemon/ctl/ctl.h"
#include "daemon/plan/plan_yaml_one.h"
#include "daemon/planner/timing.h"
#include "daemon/spmd/schedule/timeline_draw.h"

#define COLUMNS  160
#define DRAW_MAX ((size_t)256 << 20)

static enum hsp_status play(struct hsp_ctl *ctl, const struct hsp_loaded *l,
                            const struct hsp_planned *p, const struct hsp_cluster_desc *cluster,
                            struct hsp_timeline **ret, struct hsp_err *err)
{
    struct hsp_work work;
    enum hsp_status st = hsp_work_make(l->g, ctl->arena, &work, err);
    struct hsp_price_in in = {
        .work = &work, .cluster = cluster, .train = &l->job->train, .copies = 1};
    struct hsp_timeline *t = hsp_arena_array(ctl->arena, p->plan->n_pipelines, sizeof *t);
    if (st == HSP_OK && t == NULL) {
        st = hsp_err_nomem(err, "timelines of %u pipelines", p->plan->n_pipelines);
    }
    for (uint32_t i = 0; i < p->plan->n_pipelines && st == HSP_OK; i++) {
        st = hsp_pipeline_timeline(&in, p->plan, i, p->device, ctl->arena, &t[i], err);
    }
    *ret = t;
    return st;
}

/* Pipelines share a scale, so that lengths can be compared. */
static void draw_text(struct hsp_ctl *ctl, const struct hsp_plan *p, const struct hsp_timeline *t,
                      struct hsp_buf *out)
{
    double scale = 0;
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        double own = hsp_draw_scale(&t[i], COLUMNS);
        scale = own > scale ? own : scale;
    }
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        const struct hsp_pipeline *s = &p->pipelines[i];
        hsp_buf_printf(out, "pipeline %u: %s, %u sequence%s in %u micro-batch%s, %s\n", i,
                       hsp_schedule_name(s->schedule), s->sequences, s->sequences == 1 ? "" : "s",
                       s->micro_batches, s->micro_batches == 1 ? "" : "es",
                       hsp_ctl_time(ctl, t[i].end_us));
        hsp_draw_text(s, &t[i], scale, out);
        hsp_buf_puts(out, "\n");
    }
    hsp_buf_printf(out,
                   "a column is %s; F forward, B backward (zero_bubble: gradients of inputs, W of "
                   "weights),\nthen the micro-batch and, of several, the chunk; blanks are idle\n",
                   hsp_ctl_time(ctl, scale));
}

static enum hsp_status draw_trace(struct hsp_ctl *ctl, const struct hsp_planned *p,
                                  const struct hsp_cluster_desc *cluster,
                                  const struct hsp_timeline *t, struct hsp_buf *out,
                                  struct hsp_err *err)
{
    uint32_t n = p->plan->n_ranks;
    const char **device = hsp_arena_array(ctl->arena, n, sizeof *device);
    double *update = hsp_arena_array(ctl->arena, n, sizeof *update);
    if (device == NULL || update == NULL) {
        return hsp_err_nomem(err, "names of %u devices", n);
    }
    for (uint32_t r = 0; r < n; r++) {
        device[r] = cluster->dev[p->device[r]].name;
        update[r] = p->cost.rank[r].update_us;
    }
    struct hsp_draw_after after = {
        .sync_us = p->cost.sync_us, .vote_us = p->cost.vote_us, .update_us = update};
    hsp_draw_trace(p->plan, t, device, &after, out);
    return HSP_OK;
}

int hsp_plan_schedule(struct hsp_ctl *ctl, const struct hsp_loaded *l, const struct hsp_planned *p,
                      const struct hsp_cluster_desc *cluster, const char *how)
{
    struct hsp_err err = {0};
    struct hsp_timeline *t = NULL;
    struct hsp_buf b;
    hsp_buf_init(&b, DRAW_MAX);
    enum hsp_status st = play(ctl, l, p, cluster, &t, &err);
    if (st == HSP_OK && strcmp(how, "trace") == 0) {
        st = draw_trace(ctl, p, cluster, t, &b, &err);
    } else if (st == HSP_OK) {
        draw_text(ctl, p->plan, t, &b);
    }
    if (st == HSP_OK && hsp_buf_status(&b) != HSP_OK) {
        st = hsp_err_set(&err, hsp_buf_status(&b), 0, "%s for the schedule",
                         b.nomem ? "out of memory" : "more than 256 MiB");
    }
    if (st == HSP_OK) {
        (void)fputs(hsp_buf_cstr(&b), ctl->out);
    }
    hsp_buf_fini(&b);
    return st == HSP_OK ? HSP_EXIT_OK : hsp_ctl_fail(ctl, &err);
}
