/* Reads the sizes of a model from the pipelines of a plan file, and makes a job of them. */
#include "daemon/ctl/plan_local.h"

#include <inttypes.h>
#include <string.h>

#include "proto/base/size.h"
#include "proto/text/yaml.h"
#include "proto/text/yaml_parse.h"
#include "proto/text/yaml_read.h"

#define MOST_HEADS 64 /* hidden is four times that: tables of cuts stay small */

/* Sum of all numbers below a node. */
static enum hsp_status sum_of(const struct hsp_yaml *y, uint64_t *sum, struct hsp_err *err)
{
    uint64_t v = 0;
    enum hsp_status st = HSP_OK;
    if (y->kind == HSP_YAML_SCALAR || y->kind == HSP_YAML_NULL) {
        st = hsp_yaml_u64(y, 0, HSP_MAX_SHARE, &v, err);
        *sum += v;
    }
    for (size_t i = 0; i < y->n && st == HSP_OK; i++) {
        st = sum_of(&y->items[i], sum, err);
    }
    return st;
}

/* The largest sum of one list of tensor shares below a node; members of a stage without shares have
 * one each. */
static enum hsp_status most_shares(const struct hsp_yaml *y, uint64_t *most, struct hsp_err *err)
{
    const struct hsp_yaml *shares = hsp_yaml_get(y, "tensor"), *ranks = hsp_yaml_get(y, "ranks");
    uint64_t sum = ranks != NULL ? ranks->n : 0;
    enum hsp_status st = HSP_OK;
    if (shares != NULL) {
        sum = 0;
        st = sum_of(shares, &sum, err);
    }
    *most = sum > *most ? sum : *most;
    for (size_t i = 0; i < y->n && st == HSP_OK; i++) {
        st = most_shares(&y->items[i], most, err);
    }
    return st;
}

/* The pipelines' facts about the model: sequences of all, layers of the first, heads. */
static enum hsp_status measure(const struct hsp_yaml *pipelines, uint64_t *batch, uint64_t *layers,
                               uint64_t *heads, struct hsp_err *err)
{
    enum hsp_status st = hsp_yaml_expect(pipelines, HSP_YAML_SEQ, err);
    for (size_t i = 0; st == HSP_OK && i < pipelines->n; i++) {
        const struct hsp_yaml *n = hsp_yaml_get(&pipelines->items[i], "sequences");
        const struct hsp_yaml *stages = hsp_yaml_get(&pipelines->items[i], "stages");
        if (n == NULL || stages == NULL) {
            return hsp_yaml_error(&pipelines->items[i], err, "sequences or stages are missing");
        }
        st = sum_of(n, batch, err);
        for (size_t k = 0; st == HSP_OK && i == 0 && k < stages->n; k++) {
            const struct hsp_yaml *l = hsp_yaml_get(&stages->items[k], "layers");
            st = l != NULL ? sum_of(l, layers, err)
                           : hsp_yaml_error(&stages->items[k], err, "missing key layers");
        }
    }
    return st == HSP_OK ? most_shares(pipelines, heads, err) : st;
}

/* Refuses files that name parameters, and pools. */
static enum hsp_status of_any_model(const struct hsp_yaml *root, struct hsp_err *err)
{
    static const char *const keys[] = {"parameters", "homes", "uses", "reshards"};
    const struct hsp_yaml *kind = hsp_yaml_get(root, "kind");
    if (kind != NULL && kind->kind == HSP_YAML_SCALAR && strcmp(kind->text, "pool") == 0) {
        return hsp_yaml_error(
            kind, err, "a pool is for documents of a job: give the job, and this file by --plan");
    }
    for (size_t i = 0; i < HSP_ARRAY_LEN(keys); i++) {
        const struct hsp_yaml *y = hsp_yaml_get(root, keys[i]);
        if (y != NULL) {
            return hsp_yaml_error(
                y, err, "names parameters of a model: give its job, and this file by --plan");
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_job_for_plan(struct hsp_arena *arena, const struct hsp_plan_text *plan,
                                 struct hsp_loaded *ret, struct hsp_err *err)
{
    const struct hsp_yaml *root = NULL;
    uint64_t batch = 0, layers = 0, heads = 4;
    *ret = (struct hsp_loaded){.path = plan->name};
    enum hsp_status st = hsp_yaml_parse(plan->name, plan->text, plan->len, arena, &root, err);
    if (st == HSP_OK) {
        st = of_any_model(root, err);
    }
    const struct hsp_yaml *pipelines = NULL;
    if (st == HSP_OK) {
        st = hsp_yaml_renamed(root, "pipelines", "streams", &pipelines, err);
    }
    if (st == HSP_OK && pipelines == NULL) {
        st = hsp_yaml_error(root, err, "missing key pipelines");
    }
    if (st == HSP_OK) {
        st = measure(pipelines, &batch, &layers, &heads, err);
    }
    if (st != HSP_OK) {
        return st;
    }
    heads = heads < MOST_HEADS ? heads : MOST_HEADS;
    const char *text = hsp_arena_printf(
        arena,
        "apiVersion: hspmd/v1\nname: plan\n"
        "model: {family: gpt, layers: %" PRIu64 ", hidden: %" PRIu64 ", heads: %" PRIu64
        ", vocab: 256, sequence: 64, tied_head: true}\ndata: {path: /nowhere}\n"
        "train: {steps: 3, global_batch: %" PRIu64
        ", dtype: fp64, clip_norm: 1.0, optimizer: {name: adamw, lr: 1e-3}}\n",
        layers, heads * 4, heads, batch);
    const char *name = hsp_arena_printf(arena, "the model for %s", plan->name);
    if (text == NULL || name == NULL) {
        return hsp_err_nomem(err, "%s", plan->name);
    }
    return hsp_read_job(arena, name, text, strlen(text), ret, err);
}
