/* Makes hspmdd's records of a submitted job, and the rows it stores. Input: a byte, then
 * 0: a job file as submitted; 1: the row of a job; 2: the row of a plan.
 * An accepted one gives a row, and the row reads back as the same. */
#include <string.h>

#include "daemon/app/plans/job_record.h"
#include "daemon/plan/plan_yaml.h"
#include "tests/fuzz/fuzz.h"

enum { ROW_MAX = 64 << 20, PLAN_CAP = 64 << 20 };

static const char job_text[] =
    "apiVersion: hspmd/v1\nname: tiny\n"
    "model: {family: gpt, layers: 2, hidden: 32, heads: 4, sequence: 8}\n"
    "data: {path: /srv/text}\n"
    "train: {steps: 4, global_batch: 8, optimizer: {name: adamw, lr: 1e-3}}\n"
    "checkpoint: {path: /srv/ckpt, every_steps: 0}\n";

static const char plan_text[] =
    "apiVersion: hspmd/v1\nkind: plan\nranks: 2\npipelines:\n"
    "  - {sequences: 5, micro_batches: 1, stages: [{layers: 2, ranks: [0]}]}\n"
    "  - {sequences: 3, micro_batches: 1, stages: [{layers: 2, ranks: [1]}]}\n";

static struct hsp_job_rec *job(void)
{
    static struct hsp_job_rec *j;
    if (j == NULL) {
        HSP_ASSERT(hsp_job_rec_make("job.yaml", job_text, sizeof job_text - 1, 0, NULL, &j, NULL) ==
                   HSP_OK);
    }
    return j;
}

static void refused(const struct hsp_err *err)
{
    HSP_ASSERT(err->code != HSP_OK && err->msg[0] != '\0' && strchr(err->msg, '\n') == NULL);
}

static void check_job(struct hsp_job_rec *j)
{
    struct hsp_err err = {0};
    struct hsp_job_rec *back = NULL;
    struct hsp_buf one, two;
    hsp_buf_init(&one, ROW_MAX);
    hsp_buf_init(&two, ROW_MAX);
    hsp_job_rec_encode(j, &one);
    if (hsp_job_rec_decode(one.data, one.len, &back, &err) != HSP_OK) {
        hsp_assert_fail(err.msg, __FILE__, __LINE__);
    }
    hsp_job_rec_encode(back, &two);
    hsp_fuzz_same(&one, &two);
    hsp_graph_check(j->graph);
    (void)hsp_job_rec_unref(back);
    (void)hsp_job_rec_unref(j);
    hsp_buf_fini(&one);
    hsp_buf_fini(&two);
}

static void check_plan(struct hsp_plan_rec *p)
{
    struct hsp_err err = {0};
    struct hsp_plan_rec *back = NULL;
    struct hsp_buf one, two;
    hsp_buf_init(&one, ROW_MAX);
    hsp_buf_init(&two, ROW_MAX);
    hsp_plan_rec_encode(p, &one);
    HSP_ASSERT(hsp_plan_rec_decode(one.data, one.len, job(), &back, &err) == HSP_OK);
    hsp_plan_rec_encode(back, &two);
    hsp_fuzz_same(&one, &two);
    const struct hsp_epoch_plan *e = NULL;
    if (hsp_plan_rec_build(p, PLAN_CAP, &e, &err) != HSP_OK) {
        refused(&err);
    }
    (void)hsp_plan_rec_unref(back);
    (void)hsp_plan_rec_unref(p);
    hsp_buf_fini(&one);
    hsp_buf_fini(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct hsp_err err = {0};
    struct hsp_job_rec *j = NULL;
    struct hsp_plan_rec *p = NULL;
    if (len < 1) {
        return 0;
    }
    const uint8_t *d = data + 1;
    size_t n = len - 1;
    switch (data[0] % 3) {
    case 0:
        if (hsp_job_rec_make("job.yaml", (const char *)d, n, 0, NULL, &j, &err) == HSP_OK) {
            check_job(j);
        } else {
            refused(&err);
        }
        break;
    case 1:
        if (hsp_job_rec_decode(d, n, &j, &err) == HSP_OK) {
            check_job(j);
        } else {
            refused(&err);
        }
        break;
    default:
        if (hsp_plan_rec_decode(d, n, job(), &p, &err) == HSP_OK) {
            check_plan(p);
        } else {
            refused(&err);
        }
        break;
    }
    return 0;
}

static void plan_row(struct hsp_buf *out)
{
    static const char *const names[] = {"a/0", "b/0"};
    static const hsp_device_id device[] = {1, 2};
    static const double compute_s[] = {0.5, 0.25};
    struct hsp_plan *p = NULL;
    struct hsp_plan_rec *r = NULL;
    HSP_ASSERT(hsp_plan_parse(plan_text, sizeof plan_text - 1, "plan", 8, hsp_fuzz_arena(), &p,
                              NULL) == HSP_OK);
    HSP_ASSERT(hsp_plan_rec_make(job(), p, device, compute_s, names, "planner", PLAN_CAP, &r,
                                 NULL) == HSP_OK);
    hsp_plan_rec_encode(r, out);
    (void)hsp_plan_rec_unref(r);
}

static bool seed(size_t i, struct hsp_buf *out)
{
    hsp_buf_u8(out, (uint8_t)i);
    if (i == 0) {
        hsp_buf_puts(out, job_text);
    } else if (i == 1) {
        hsp_job_rec_encode(job(), out);
    } else {
        plan_row(out);
    }
    return i < 3;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "jobrec", .seed = seed};
