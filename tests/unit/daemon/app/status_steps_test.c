/* Tests the status document: its part about the steps of a job and their losses. */
#include <math.h>
#include <stdio.h>

#include "daemon/app/state/job_table.h"
#include "proto/base/size.h"
#include "tests/unit/daemon/app/app_lib.h"
#include "tests/unit/daemon/app/status_lib.h"

static struct hsp_job running_job(void)
{
    static char none[] = "";
    return (struct hsp_job){
        .id = 1, .name = "j", .state = HSP_JOB_RUNNING, .data_path = none, .checkpoint_path = none};
}

static void a_loss_that_is_no_number(void **state)
{
    (void)state;
    struct hsp_app *a = status_app(1);
    struct hsp_job j = running_job();
    struct hsp_app_job told = {.id = 1, .have_step = true, .step = {.loss = (double)NAN}};
    status_knows(a, &j, &told);
    cJSON *all, *doc = status_job(a, &all);
    const cJSON *loss = cJSON_GetObjectItemCaseSensitive(doc, "loss");
    assert_non_null(loss);
    assert_true(cJSON_IsString(loss)); /* null would be no loss */
    assert_string_equal(loss->valuestring, "nan");
    cJSON_Delete(all);
    status_app_end(a);
}

/* A row of the core is not written with each step: after a restart the core knows less than the
 * feed. */
static void the_step_on_record_counts_until_the_next_vote(void **state)
{
    (void)state;
    static const struct {
        uint64_t epoch, from, stable, step;
    } at[] = {{3, 0, 0, 47},
              {3, 0, 48, 48},
              {4, 0, 45, 45},  /* it went back, as state was lost */
              {4, 47, 45, 47}, /* a switch loses no step, and none of the new epoch is told yet */
              {0, 47, 45, 45}};
    struct hsp_app *a = status_app(1);
    struct hsp_job j = running_job();
    struct hsp_app_job told = {.id = 1, .have_step = true, .step = {.step = 47}, .step_epoch = 3};
    status_knows(a, &j, &told);
    for (size_t i = 0; i < HSP_ARRAY_LEN(at); i++) {
        j.cur.epoch = at[i].epoch;
        j.cur.step = at[i].from;
        j.stable = at[i].stable;
        cJSON *all, *doc = status_job(a, &all);
        assert_true(status_number(doc, "step") == (double)at[i].step);
        cJSON_Delete(all);
    }
    status_app_end(a);
}

/* A restart reads losses by the number of a job: two jobs of one name are two. */
static void a_loss_is_of_a_job_not_of_a_name(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), path[512];
    struct hsp_err err = {0};
    struct hsp_app *a = status_app(1);
    struct hsp_job_rec *rec = app_job("", 0, NULL);
    struct hsp_job older = {.id = 1,
                            .name = "tiny",
                            .state = HSP_JOB_CANCELLED,
                            .stable = 4,
                            .cuts = {1, {{0, 7, 2}}}},
                   newer = {.id = 2, .name = "tiny", .state = HSP_JOB_DONE, .stable = 4};
    struct hsp_app_job told[] = {{.id = 1, .rec = rec}, {.id = 2, .rec = rec}};
    const struct hsp_store_metric m[] = {
        {1, 2, 7, "{\"loss\":3.5,\"seconds\":0.1}"},
        {1, 3, 6, "{\"loss\":\"nan\",\"seconds\":0.1}"}, /* given up */
        {2, 2, 1, "{\"loss\":2.5,\"seconds\":0.1}"},
        {2, 3, 1, "{\"loss\":\"nan\",\"grad_norm\":1,\"seconds\":0.1}"}};
    const struct hsp_store_event e[] = {
        {1, 2, "{\"type\":\"switch.end\",\"epoch\":5,\"data\":{}}"},
        {2, 1, "{\"type\":\"switch.end\",\"epoch\":6,\"data\":{}}"}};
    (void)snprintf(path, sizeof path, "%s/state.db", dir);
    assert_ok(hsp_store_open(path, &a->store, &err), &err);
    assert_ok(hsp_store_feed_add(a->store, e, 2, m, 4, &err), &err);
    a->jobs = told;
    a->n_jobs = 2;
    a->cluster->jobs[a->cluster->n_jobs++] = &older;
    a->cluster->jobs[a->cluster->n_jobs++] = &newer;
    hsp_app_jobs_recall(a);
    for (int i = 0; i < 2; i++) {
        assert_true(told[i].have_step && told[i].step.step == 2 + (uint64_t)i);
        assert_true(told[i].n_epochs == 1 && told[i].epochs[0].epoch == 6 - (uint64_t)i);
        free(told[i].epochs);
    }
    assert_true(told[0].step_epoch == 7 && told[1].step_epoch == 1);
    assert_true(told[1].diverged && told[1].diverged_from == 3 && !told[0].diverged);
    assert_null(hsp_store_close(a->store));
    (void)hsp_job_rec_unref(rec);
    status_app_end(a);
    hsp_test_rmdir(dir);
    free(dir);
}

/* From which step on losses are not finite: of steps as they come, and said again. */
static bool told_loss(struct hsp_app_job *j, const struct hsp_job *core, uint64_t epoch,
                      uint64_t step, double loss)
{
    return hsp_app_job_told(j, core, epoch, &(struct hsp_m_step){.step = step, .loss = loss});
}

static void a_job_that_diverges(void **state)
{
    (void)state;
    static const double bad[] = {(double)NAN, (double)INFINITY};
    static const struct hsp_job core = {.id = 1};
    struct hsp_app_job j = {.id = 1};
    uint64_t from;
    for (uint64_t step = 3; step < 9; step++) {
        assert_true(told_loss(&j, &core, 1, step, step < 5 ? 1 : bad[step % 2]));
    }
    assert_true(hsp_app_job_diverges(&j, &core, &from) && from == 5);
    assert_true(told_loss(&j, &core, 2, 3, 1)); /* again, as state was lost */
    assert_true(hsp_app_job_diverges(&j, &core, &from) && from == 5);
    const struct hsp_m_step steep = {.step = 4, .grad_norm = (double)INFINITY};
    assert_true(hsp_app_job_told(&j, &core, 2, &steep));
    assert_true(hsp_app_job_diverges(&j, &core, &from) && from == 4);
    assert_false(told_loss(&j, &core, 1, 8, (double)NAN)); /* said again after a reconnect */
    assert_false(told_loss(&j, &core, 2, 4, 1));           /* the step said again */
    assert_false(hsp_app_job_diverges(&j, &core, &from));
}

/* An administrator goes back to 40, while the newest step is 60 and its loss no number. Status does
 * not show step 60, also when it is told again. The first step that epoch 3 tells is shown at once,
 * long before 60. */
static void what_was_given_up_is_not_shown(void **state)
{
    (void)state;
    struct hsp_app *a = status_app(1);
    struct hsp_job j = {
        .id = 1, .name = "j", .data_path = (char[]){""}, .checkpoint_path = (char[]){""}};
    struct hsp_app_job told = {.id = 1};
    cJSON *all, *doc;
    uint64_t from;
    status_knows(a, &j, &told);
    assert_true(told_loss(&told, &j, 1, 40, 2));
    for (uint64_t step = 53; step <= 60; step++) {
        assert_true(told_loss(&told, &j, 1, step, (double)NAN));
    }
    doc = status_job(a, &all);
    assert_string_equal(status_text(doc, "loss"), "nan");
    assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(doc, "diverged")));
    cJSON_Delete(all);
    j.cuts = (struct hsp_ckpt_cuts){1, {{0, 3, 40}}};
    for (int again = 0; again < 2; again++) {
        doc = status_job(a, &all);
        assert_null(cJSON_GetObjectItemCaseSensitive(doc, "loss"));
        assert_true(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(doc, "diverged")));
        cJSON_Delete(all);
        assert_false(told_loss(&told, &j, 1, 60, (double)NAN));
    }
    assert_true(told_loss(&told, &j, 3, 41, 1.5));
    doc = status_job(a, &all);
    assert_true(status_number(doc, "loss") == 1.5);
    assert_null(cJSON_GetObjectItemCaseSensitive(doc, "step_seconds")); /* of an epoch's first */
    assert_true(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(doc, "diverged")));
    cJSON_Delete(all);
    assert_true(told_loss(&told, &j, 3, 55, (double)NAN));
    assert_true(hsp_app_job_diverges(&told, &j, &from) && from == 55);
    status_app_end(a);
}

HSP_TEST_FILE(status_steps_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_step_on_record_counts_until_the_next_vote),
        cmocka_unit_test(a_loss_is_of_a_job_not_of_a_name),
        cmocka_unit_test(a_job_that_diverges),
        cmocka_unit_test(what_was_given_up_is_not_shown),
        cmocka_unit_test(a_loss_that_is_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
