/* Tests the part of status about the state of a running job: the bytes in state folders, and the
 * cost of a loss. */
#include "tests/lib/testlib.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

#include "daemon/app/docs/status_doc.h"
#include "daemon/app/state/app_state.h"
#include "daemon/app/state/job_table.h"
#include "tests/unit/daemon/app/app_lib.h"

static double number(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    return v != NULL ? v->valuedouble : -1;
}

/* Checks the cost of a loss in @doc, the document of the job below: there is none before the first
 * vote of the epoch. */
static void assert_costs(const cJSON *doc, bool voted)
{
    const cJSON *costs = cJSON_GetObjectItemCaseSensitive(doc, "loss_costs");
    assert_near(number(doc, "stable_step"), voted ? 5 : -1, 0);
    assert_near(number(doc, "steps_above_stable"), voted ? 2 : -1, 0);
    assert_near(number(doc, "due_steps"), voted ? 4 : -1, 0);
    assert_true((costs != NULL) == voted);
    if (voted) {
        assert_string_equal(costs->valuestring, "up to 7 steps and the one under way");
    }
}

/* Two ranks on node a, one on b; rows of the plan are read, compiled, and replaced by a plan with a
 * replica holder. */
static void bytes_in_state_folders(void **state)
{
    (void)state;
    static const struct app_node nodes[] = {{"a", 1, 1 << 30}, {"b", 1, 1 << 30}};
    const hsp_device_id device[] = {HSP_DEVICE(0, 0), HSP_DEVICE(0, 1), HSP_DEVICE(1, 0)};
    const double compute[] = {1, 1, 1};
    const char *names[] = {"a/0", "a/1", "b/0"};
    struct hsp_err err = {0};
    static struct hsp_app a;
    struct hsp_arena *arena = hsp_arena_new(64u << 20);
    struct hsp_app_job told = {.id = 1, .rec = app_job("recovery: {every: 4}\n", 0, NULL)};
    struct hsp_plan_rec *made = NULL, *read = NULL;
    const struct hsp_epoch_plan *built;
    struct hsp_buf row;
    hsp_buf_init(&row, 1u << 20);
    a.cluster = app_cluster(nodes, 2);
    a.address = "here";
    assert_ok(hsp_plan_rec_make(told.rec, app_plan(told.rec, app_zero3, arena), device, compute,
                                names, "planner", 64u << 20, &made, &err),
              &err);
    hsp_plan_rec_encode(made, &row);
    assert_ok(hsp_plan_rec_decode(row.data, row.len, told.rec, &read, &err), &err);
    assert_true(hsp_app_plan_add(&told, 7, read));
    struct hsp_epoch_peer peers[3] = {
        {.device = device[0]}, {.device = device[1]}, {.device = device[2]}};
    struct hsp_job_plan plan = {.plan = 7, .info = {.n_ranks = 3, .keep_bytes = 12}};
    struct hsp_job j = {
        .id = 1,
        .name = "j",
        .state = HSP_JOB_RUNNING,
        .data_path = (char[]){""},
        .checkpoint_path = (char[]){""},
        .n_plans = 1,
        .plans = &plan,
        .stable = 5,
        .cur = {.epoch = 3, .plan = 7, .n_ranks = 3, .n_peers = 3, .peers = peers, .due_steps = 4}};
    told.have_step = true;
    told.step_epoch = 3;
    told.step.step = 7;
    a.jobs = &told;
    a.n_jobs = 1;
    a.cluster->jobs[a.cluster->n_jobs++] = &j;
    for (int i = 0; i < 3;
         i++) { /* as after a restart of hspmdd; compiled; with a replica holder */
        if (i == 1) {
            assert_ok(hsp_plan_rec_build(read, 64u << 20, &built, &err), &err);
        }
        plan.info.n_replica_holders = i == 2;
        j.cur.settled = i == 2;
        char *text = hsp_app_status(&a, "j");
        cJSON *all = cJSON_Parse(text);
        const cJSON *doc = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(all, "jobs"), 0);
        const uint64_t *b = hsp_plan_rec_folder_bytes(read);
        assert_true((b != NULL) == (i > 0));
        assert_near(number(doc, "folder_bytes"), b == NULL ? -1 : (double)(b[0] + b[1] + b[2]), 0);
        assert_near(number(doc, "node_folder_bytes_max"), b == NULL ? -1 : (double)(b[0] + b[1]),
                    0);
        assert_near(number(doc, "keeper_bytes"), i == 2 ? 12 : -1, 0);
        assert_costs(doc, i == 2);
        cJSON_Delete(all);
        cJSON_free(text);
    }
    hsp_app_plan_drop(&told, 7);
    free(told.plans);
    hsp_buf_fini(&row);
    (void)hsp_plan_rec_unref(made);
    (void)hsp_job_rec_unref(told.rec);
    hsp_arena_free(arena);
    app_cluster_free(a.cluster);
}

HSP_TEST_FILE(status_state_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_in_state_folders)};
    return cmocka_run_group_tests_name("status state", tests, NULL, NULL);
}
