/* Fills a shell of hspmdd with jobs and plans, and takes its answers. */
#include "tests/unit/daemon/app/app_lib.h"

#include <stdio.h>

#include "daemon/plan/plan_check.h"
#include "daemon/plan/plan_yaml.h"
#include "tests/lib/testlib.h"

#define HEAD "apiVersion: hspmd/v1\nkind: plan\n"

const char app_one[] = HEAD
    "ranks: 1\npipelines: [{sequences: 8, micro_batches: 2, stages: [{layers: 2, ranks: [0]}]}]\n";
const char app_dp2[] =
    HEAD "ranks: 2\npipelines:\n"
         "  - {sequences: 5, micro_batches: 1, stages: [{layers: 2, ranks: [0]}]}\n"
         "  - {sequences: 3, micro_batches: 1, stages: [{layers: 2, ranks: [1]}]}\n";
const char app_pipe2[] =
    HEAD "ranks: 2\npipelines: [{sequences: 8, micro_batches: 2, stages: [{layers: 1, ranks: [0]}, "
         "{layers: 1, ranks: [1]}]}]\n";
const char app_tp2[] = HEAD
    "ranks: 2\npipelines: [{sequences: 8, micro_batches: 2, stages: [{layers: 2, ranks: [0, 1], "
    "tensor: [3, 1]}]}]\n";
const char app_zero3[] =
    HEAD "ranks: 3\nzero: 1\npipelines:\n"
         "  - {sequences: 4, micro_batches: 2, stages: [{layers: 2, ranks: [0]}]}\n"
         "  - {sequences: 2, micro_batches: 1, stages: [{layers: 2, ranks: [1]}]}\n"
         "  - {sequences: 2, micro_batches: 1, stages: [{layers: 2, ranks: [2]}]}\n";

static const char job_text[] =
    "apiVersion: hspmd/v1\nname: tiny\n"
    "model: {family: gpt, layers: 2, hidden: 32, heads: 4, sequence: 8, tied_head: true}\n"
    "data: {path: /srv/text}\n"
    "train: {steps: 4, global_batch: 8, optimizer: {name: adamw, lr: 1e-3}}\n"
    "checkpoint: {path: /srv/ckpt, every_steps: 0}\n";

struct hsp_job_rec *app_job(const char *extra, uint32_t n_files, const struct hsp_m_file *files)
{
    struct hsp_err err = {0};
    struct hsp_job_rec *j = NULL;
    char text[4096];
    int n = snprintf(text, sizeof text, "%s%s", job_text, extra);
    assert_ok(hsp_job_rec_make("dir/job.yaml", text, (size_t)n, n_files, files, &j, &err), &err);
    return j;
}

struct hsp_plan *app_plan(const struct hsp_job_rec *j, const char *text, struct hsp_arena *arena)
{
    struct hsp_err err = {0};
    struct hsp_plan *p = NULL;
    uint32_t batch = j->spec->train.data.global_batch;
    assert_ok(hsp_plan_parse(text, strlen(text), "plan", batch, arena, &p, &err), &err);
    assert_ok(hsp_plan_check(p, j->graph, batch, &err), &err);
    return p;
}

struct hsp_epoch_plan *app_epoch(const struct hsp_job_rec *j, const char *text,
                                 const hsp_device_id *device, uint32_t copies)
{
    struct hsp_err err = {0};
    struct hsp_arena *a = hsp_arena_new(1u << 20);
    struct hsp_epoch_plan *e = NULL;
    assert_ok(hsp_epoch_plan_build(j->graph, &j->spec->train, NULL, app_plan(j, text, a), device,
                                   copies, (size_t)64 << 20, &e, &err),
              &err);
    (void)hsp_arena_free(a);
    return e;
}

struct hsp_cluster *app_cluster(const struct app_node *nodes, uint32_t n)
{
    struct hsp_cluster *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->nodes = calloc(n, sizeof *c->nodes);
    assert_non_null(c->nodes);
    c->n_nodes = n;
    for (uint32_t i = 0; i < n; i++) {
        struct hsp_cluster_node *node = &c->nodes[i];
        (void)snprintf(node->name, sizeof node->name, "%s", nodes[i].name);
        node->dev[0].present = node->dev[0].up = true;
        node->dev[0].profile = (struct hsp_m_device){.speed = nodes[i].speed,
                                                     .mem_bytes = nodes[i].mem_bytes,
                                                     .gemm_fp32_flops = nodes[i].speed * 1e10,
                                                     .gemm_fp64_flops = nodes[i].speed * 5e9,
                                                     .mem_bytes_per_s = nodes[i].speed * 4e9,
                                                     .op_us = 3 / nodes[i].speed};
    }
    return c;
}

void app_cluster_free(struct hsp_cluster *c)
{
    free(c->nodes);
    free(c);
}
