/* Tests job and plan records: refusals, and that their rows bring the same back. */
#include "proto/program/program_dump.h"
#include "tests/unit/daemon/app/app_lib.h"

#include <stdio.h>

#include "tests/lib/testlib.h"

static const char good[] =
    "apiVersion: hspmd/v1\nname: tiny\n"
    "model: {family: gpt, layers: 2, hidden: 32, heads: 4, sequence: 8}\n"
    "data: {path: %s}\n"
    "train: {steps: 4, global_batch: 8, optimizer: {name: adamw, lr: 1e-3}}\n"
    "checkpoint: {path: %s, every_steps: 0}\n%s";

static void refuse(const char *data, const char *ckpt, const char *extra, uint32_t n_files,
                   const struct hsp_m_file *files, enum hsp_status want, const char *text)
{
    struct hsp_err err = {0};
    struct hsp_job_rec *j = NULL;
    char job[2048];
    int n = snprintf(job, sizeof job, good, data, ckpt, extra);
    assert_status(hsp_job_rec_make("x/job.yaml", job, (size_t)n, n_files, files, &j, &err), want);
    assert_err(&err, want, text);
    assert_null(j);
}

static void test_what_is_wrong_is_named(void **state)
{
    (void)state;
    const struct hsp_m_file wrong = {"a.yaml",
                                     "apiVersion: hspmd/v1\nkind: plan\nranks: 1\npipelines: "
                                     "[{sequences: 8, micro_batches: 2, stages: [{layers: 3, "
                                     "ranks: [0]}]}]\n"};
    refuse("text", "/c", "", 0, NULL, HSP_EPARSE,
           "job.yaml: data.path: \"text\" is relative; workers need the absolute path of the file");
    refuse("/t", "c/d", "", 0, NULL, HSP_EPARSE,
           "job.yaml: checkpoint.path: \"c/d\" is relative; workers need the absolute path of the "
           "file");
    refuse("/t", "/c", "annotations: [a.yaml]\n", 0, NULL, HSP_EPARSE,
           "job.yaml: annotations: a.yaml was not sent along");
    const struct hsp_m_file home = {"a.yaml",
                                    "apiVersion: hspmd/v1\nkind: plan\nranks: 1\npipelines: "
                                    "[{sequences: 8, stages: [{layers: 2, ranks: [0]}]}]\n"
                                    "parameters: [{name: \"wpe*\", home: 1}]\n"};
    refuse("/t", "/c", "annotations: [a.yaml]\n", 1, &home, HSP_EINVAL,
           "a.yaml: home of wpe.weight: rank 1 of a plan of 1 ranks");
    refuse("/t", "/c", "nme: x\n", 0, NULL, HSP_EPARSE,
           "job.yaml:7:1: unknown key \"nme\", did you mean \"name\"?");
    struct hsp_err err = {0};
    struct hsp_job_rec *j = NULL;
    char job[2048];
    int n = snprintf(job, sizeof job, good, "/t", "/c", "annotations: [a.yaml]\n");
    assert_status(hsp_job_rec_make("job.yaml", job, (size_t)n, 1, &wrong, &j, &err), HSP_EINVAL);
    assert_non_null(strstr(err.msg, "a.yaml"));
}

/* A daemon starts with rows of jobs that it would not take any more. */
static void test_a_stored_job_is_not_judged_again(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    const struct hsp_m_file home = {"a.yaml",
                                    "apiVersion: hspmd/v1\nkind: plan\nranks: 1\npipelines: "
                                    "[{sequences: 8, stages: [{layers: 2, ranks: [0]}]}]\n"
                                    "parameters: [{name: \"wpe*\", home: 0}]\n"};
    struct hsp_job_rec *j = app_job("annotations: [a.yaml]\n", 1, &home), *back = NULL;
    struct hsp_buf row;
    hsp_buf_init(&row, 1u << 20);
    hsp_job_rec_encode(j, &row);
    uint8_t *at = memmem(row.data, row.len, "home: 0", 7);
    assert_non_null(at);
    at[6] = '1';
    at = memmem(row.data, row.len, "name: ", 6);
    assert_non_null(at);
    for (at += 6; *at != '\n'; at++) {
        *at = '7';
    }
    assert_ok(hsp_job_rec_decode(row.data, row.len, &back, &err), &err);
    assert_int_equal(back->spec->name[0], '7');
    struct hsp_job_rec *again = NULL; /* nor would it be submitted */
    assert_status(hsp_job_rec_make("j", back->text, back->len, 1, &home, &again, &err), HSP_EPARSE);
    assert_non_null(strstr(err.msg, "must not be a number"));
    hsp_buf_fini(&row);
    (void)hsp_job_rec_unref(back);
    (void)hsp_job_rec_unref(j);
}

static void test_a_job_row_brings_the_job_back(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    const struct hsp_m_file files[] = {{"two.yaml", app_dp2}, {"one.yaml", app_one}};
    struct hsp_job_rec *j = app_job("annotations: [one.yaml, two.yaml]\n", 2, files), *back = NULL;
    struct hsp_buf row, again;
    hsp_buf_init(&row, 1u << 20);
    hsp_buf_init(&again, 1u << 20);
    hsp_job_rec_encode(j, &row);
    assert_ok(hsp_job_rec_decode(row.data, row.len, &back, &err), &err);
    hsp_job_rec_encode(back, &again);
    assert_int_equal(row.len, again.len);
    assert_memory_equal(row.data, again.data, row.len);
    assert_int_equal(back->n_plans, 2);
    assert_int_equal(j->spec->every, 0); /* auto, also of the row */
    assert_int_equal(back->spec->every, 0);
    assert_string_equal(back->plans[0].name, "one.yaml");
    assert_string_equal(back->plans[1].text, app_dp2);
    (void)hsp_job_rec_unref(back);
    for (size_t cut = 0; cut < row.len; cut += 7) { /* a torn row is refused, never half read */
        back = NULL;
        assert_int_not_equal(hsp_job_rec_decode(row.data, cut, &back, &err), HSP_OK);
        assert_null(back);
    }
    hsp_buf_u8(&row, 0); /* nor is one that goes on behind its end */
    assert_status(hsp_job_rec_decode(row.data, row.len, &back, &err), HSP_EPARSE);
    hsp_buf_fini(&row);
    hsp_buf_fini(&again);
    (void)hsp_job_rec_unref(j);
}

static void test_a_plan_row_rebuilds_the_same_plan(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_job_rec *j = app_job("", 0, NULL);
    struct hsp_arena *a = hsp_arena_new(64u << 20);
    const hsp_device_id device[] = {HSP_DEVICE(4, 1), HSP_DEVICE(2, 0)};
    const double compute[] = {0.25, 0.5};
    const char *names[] = {"e/1", "c/0"};
    struct hsp_plan_rec *p = NULL, *back = NULL;
    const struct hsp_epoch_plan *x, *y;
    struct hsp_buf row;
    hsp_buf_init(&row, 1u << 20);
    struct hsp_plan *plan = app_plan(j, app_tp2, a);
    assert_ok(hsp_plan_rec_make(j, plan, device, compute, names, "planner", 64u << 20, &p, &err),
              &err);
    assert_string_equal(p->summary,
                        "2 ranks, 1 pipeline; 8 sequences in 2: 2 blocks on e/1+c/0 (3:1)");
    hsp_plan_rec_encode(p, &row);
    assert_ok(hsp_plan_rec_decode(row.data, row.len, j, &back, &err), &err);
    assert_string_equal(back->text, p->text);
    assert_ok(hsp_plan_rec_build(p, 64u << 20, &x, &err), &err);
    assert_ok(hsp_plan_rec_build(back, 64u << 20, &y, &err), &err);
    assert_int_equal(x->info.n_templates, 2);
    assert_int_equal(x->info.new_templates, 2);
    assert_int_equal(y->info.n_templates, 2);
    assert_int_equal(y->info.new_templates, 0);
    assert_int_equal(y->info.n_ranks, 2);
    assert_int_equal(y->info.device[0], device[0]);
    assert_int_equal(y->info.device[1], device[1]);
    assert_true(y->info.compute_s[1] == 0.5);
    assert_int_equal(x->info.n_shards, y->info.n_shards);
    assert_memory_equal(x->info.mem_bytes, y->info.mem_bytes, 2 * sizeof(uint64_t));
    struct hsp_buf one, two;
    hsp_buf_init(&one, 16u << 20);
    hsp_buf_init(&two, 16u << 20);
    hsp_program_dump(&x->programs.programs[1], &one);
    hsp_program_dump(&y->programs.programs[1], &two);
    assert_string_equal(hsp_buf_cstr(&one), hsp_buf_cstr(&two));
    /* the kept text says all: nothing is open, and it compiles to the digests of the running
     * plan */
    struct hsp_plan *kept = app_plan(j, p->text, a);
    struct hsp_program_file f;
    assert_null(strstr(p->text, "parameters:"));
    assert_true(kept->n_homes > 0 && kept->states_uses && kept->states_reshards &&
                kept->pipelines[0].sizes != NULL && kept->n_reshards > 0);
    assert_ok(hsp_compile(j->graph, kept, &j->spec->train, a, &f, &err), &err);
    for (uint32_t r = 0; r < 2; r++) {
        const struct hsp_binding *runs = &x->programs.programs[r].bind;
        assert_memory_equal(&f.programs[r].bind.plan_digest, &runs->plan_digest,
                            sizeof runs->plan_digest);
        assert_memory_equal(&f.programs[r].bind.template_digest, &runs->template_digest,
                            sizeof runs->template_digest);
    }
    (void)hsp_plan_rec_unref(back);
    back = NULL;
    assert_status(hsp_plan_rec_decode(row.data, row.len - 1, j, &back, &err), HSP_EPARSE);
    hsp_buf_fini(&one);
    hsp_buf_fini(&two);
    hsp_buf_fini(&row);
    (void)hsp_plan_rec_unref(p);
    (void)hsp_arena_free(a);
    (void)hsp_job_rec_unref(j);
}

HSP_TEST_FILE(job_record_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_wrong_is_named),
        cmocka_unit_test(test_a_stored_job_is_not_judged_again),
        cmocka_unit_test(test_a_job_row_brings_the_job_back),
        cmocka_unit_test(test_a_plan_row_rebuilds_the_same_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
