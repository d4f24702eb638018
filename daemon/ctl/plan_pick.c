/* Tries the given plan, the annotations, and the planner, in this order. */
#include "daemon/ctl/plan_pick.h"

#include <stdio.h>
#include <string.h>

#include "daemon/planner/annotations.h"
#include "daemon/planner/cluster_file.h"
#include "daemon/planner/lengths.h"
#include "proto/base/str.h"

static const char planner[] = "planner"; /* the source of plans that come from no file */

enum hsp_status hsp_pick_blame(enum hsp_status st, const char *source, struct hsp_err *err)
{
    if (st == HSP_OK) {
        return st;
    }
    (void)hsp_err_wrap(err, "%s", source);
    return source != planner ? hsp_bad_file(st, err) : st;
}

/* @n default cores on one node. */
static enum hsp_status default_cluster(struct hsp_arena *arena, uint32_t n,
                                       struct hsp_cluster_desc *ret, struct hsp_err *err)
{
    struct hsp_device_desc *dev = hsp_arena_array(arena, n, sizeof(*dev));
    if (dev == NULL) {
        return hsp_err_nomem(err, "a cluster of %u devices", n);
    }
    for (uint32_t i = 0; i < n; i++) {
        char name[24];
        (void)snprintf(name, sizeof(name), "local/%u", i);
        dev[i] = hsp_device_default(name, 0, 1);
        dev[i].mem_bytes = INT64_MAX; /* unknown: no bound */
    }
    *ret = (struct hsp_cluster_desc){.n = n,
                                     .dev = dev,
                                     .same_node = {.latency_us = 20, .us_per_byte = 2e-4},
                                     .cross = {.latency_us = 60, .us_per_byte = 8e-4}};
    return HSP_OK;
}

/* Whether the @len bytes at @word name the device, or its node: "w1/0" is named by both of "w1/0",
 * "w1". */
static bool names(const char *device, const char *word, size_t len)
{
    return strncmp(device, word, len) == 0 && (device[len] == '\0' || device[len] == '/');
}

enum hsp_status hsp_pick_exclude(struct hsp_arena *arena, const struct hsp_cluster_desc *c,
                                 const char *list, const bool **ret, struct hsp_err *err)
{
    bool *out = hsp_arena_array(arena, c->n, sizeof(*out));
    if (out == NULL) {
        return hsp_err_nomem(err, "a cluster of %u devices", c->n);
    }
    while (*list != '\0') {
        size_t len = strcspn(list, ",");
        bool found = false;
        for (uint32_t i = 0; i < c->n; i++) {
            bool named = names(c->dev[i].name, list, len);
            out[i] = out[i] || named;
            found = found || named;
        }
        if (!found) {
            return hsp_err_set(err, HSP_ENOENT, 0,
                               "no device or node %.*s in the cluster, whose first device is %s",
                               (int)len, list, c->n > 0 ? c->dev[0].name : "none");
        }
        list += len + (list[len] == ',' ? 1 : 0);
    }
    *ret = out;
    return HSP_OK;
}

static uint32_t usable(const struct hsp_cluster_desc *c, const bool *excluded)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        n += excluded == NULL || !excluded[i] ? 1 : 0;
    }
    return n;
}

/* The given plan, or the first annotation that fits; *ret stays NULL when it is the planner's turn.
 */
static enum hsp_status given(struct hsp_arena *arena, const struct hsp_loaded *l,
                             const struct hsp_pick *how, uint32_t n_devices, struct hsp_plan **ret,
                             const char **ret_source, struct hsp_err *err)
{
    uint32_t index = 0;
    if (how->plan != NULL) {
        *ret_source = how->plan->name;
        return hsp_read_plan(arena, l, how->plan, ret, err);
    }
    if (how->plan_path != NULL) {
        *ret_source = how->plan_path;
        return hsp_load_plan(arena, l, how->plan_path, ret, err);
    }
    if (l->n_plans == 0) {
        return HSP_OK;
    }
    enum hsp_status st =
        hsp_annotations_pick(l->n_plans, l->plans, l->g, l->job->train.data.global_batch, n_devices,
                             arena, ret, &index, err);
    if (st == HSP_OK) {
        *ret_source = l->plans[index].name;
    }
    return st == HSP_ENOENT ? HSP_OK : hsp_bad_file(st, err);
}

enum hsp_status hsp_pick_plan(struct hsp_arena *arena, const struct hsp_loaded *l,
                              const struct hsp_pick *how, struct hsp_cluster_desc *ret_cluster,
                              struct hsp_planned *ret, const char **ret_source, struct hsp_err *err)
{
    const struct hsp_job_spec *job = l->job;
    struct hsp_plan_options o = {.max_devices = job->max,
                                 .copies = job->copies,
                                 .due = {job->every, job->overhead, job->max_recompute_s},
                                 .no_zero = how->no_zero};
    struct hsp_plan *plan = NULL;
    enum hsp_status st = HSP_OK;
    if (how->cluster_path != NULL) {
        st = hsp_load_cluster(arena, how->cluster_path, ret_cluster, err);
    }
    if (st == HSP_OK && how->cluster_path != NULL && how->exclude != NULL) {
        st = hsp_pick_exclude(arena, ret_cluster, how->exclude, &o.excluded, err);
    }
    uint32_t n =
        how->cluster_path != NULL && st == HSP_OK ? usable(ret_cluster, o.excluded) : HSP_MAX_RANKS;
    n = n < job->max ? n : job->max;
    *ret_source = planner;
    if (st == HSP_OK) {
        st = given(arena, l, how, n, &plan, ret_source, err);
    }
    if (st == HSP_OK && how->cluster_path == NULL) {
        st = default_cluster(arena, plan != NULL ? plan->n_ranks : 1, ret_cluster, err);
    }
    if (st != HSP_OK) {
        return st;
    }
    if (n < job->min) {
        return hsp_err_set(err, HSP_EINFEASIBLE, 0,
                           "job %s needs %u device%s (resources.min); %s has %u to plan with",
                           job->name, job->min, hsp_s(job->min), how->cluster_path, n);
    }
    if (plan != NULL) {
        st = hsp_plan_adopt(l->g, &job->train, ret_cluster, &o, plan, arena, ret, err);
        return st;
    }
    return hsp_plan_make(l->g, &job->train, ret_cluster, &o, arena, ret, err);
}
