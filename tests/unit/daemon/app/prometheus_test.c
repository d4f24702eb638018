/* Tests the text of /metrics, which is a function of a snapshot: names, labels, histograms,
 * escapes, numbers. */
#include "daemon/app/http/prometheus.h"

#include <math.h>
#include <stdio.h>

#include "proto/base/size.h"
#include "tests/lib/testlib.h"

static const struct hsp_view_count node_states[] = {{"live", 1}, {"dead", 1}, {NULL, 0}};
static const struct hsp_view_count job_states[] = {{"pending", 0}, {"running", 1}, {NULL, 0}};

static void assert_has(const char *text, const char *line)
{
    const char *at = strstr(text, line);
    while (at != NULL && at != text && at[-1] != '\n') {
        at = strstr(at + 1, line);
    }
    if (at == NULL) {
        fail_msg("no line \"%s\" in\n%s", line, text);
    }
}

static uint32_t count(const char *text, const char *part)
{
    uint32_t n = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        n++;
    }
    return n;
}

static struct hsp_fact fact(const char *type)
{
    return (struct hsp_fact){.type = type, .node = "", .reason = "", .cause = "", .actor = ""};
}

/* Lines in the text of the snapshot below. */
static const char *const snapshot_lines[] = {
    "hspmd_build_info{version=\"0.1.0\"} 1\n",
    "# TYPE hspmd_nodes gauge\nhspmd_nodes{state=\"live\"} 1\n",
    "hspmd_jobs{state=\"pending\"} 0\n",
    "hspmd_jobs_held 2\n",
    "hspmd_gpu_info{node=\"w1\",index=\"1\",model=\"cpu\",job=\"\",job_id=\"\"} 1\n",
    "hspmd_heartbeat_age_seconds{node=\"w1\"} 0.25\n",
    "hspmd_node_suspect_total{node=\"w\\\"2\\\\\\n\"} 7\n",
    "hspmd_gpus{model=\"cpu\",state=\"busy\"} 1\n",
    "hspmd_gpus{model=\"cpu\",state=\"idle\"} 1\n",
    "hspmd_gpus{model=\"cuda\",state=\"away\"} 1\n",
    "hspmd_gpus{model=\"cuda\",state=\"cordoned\"} 1\n",
    "hspmd_gpus{model=\"cuda\",state=\"lost\"} 1\n",
    "hspmd_gpu_info{node=\"w1\",index=\"0\",model=\"cpu\",job=\"gpt\",job_id=\"3\"} 1\n",
    "hspmd_device_relative_speed_ratio{node=\"w1\",index=\"0\"} 0.5\n",
    "hspmd_plan_epoch{job=\"gpt\",job_id=\"3\"} 2\n",
    "hspmd_job_loss{job=\"gpt\",job_id=\"3\"} NaN\n",
    "hspmd_job_tokens_total{job=\"gpt\",job_id=\"3\"} 4096\n",
    "hspmd_plan_predicted_step_seconds{job=\"gpt\",job_id=\"3\"} 0.125\n",
    "hspmd_checkpoint_age_seconds{job=\"gpt\",job_id=\"3\"} 10\n",
    "hspmd_job_step_seconds_bucket{job=\"gpt\",job_id=\"3\",le=\"0.005\"} 1\n",
    "hspmd_job_step_seconds_bucket{job=\"gpt\",job_id=\"3\",le=\"0.01\"} 1\n",
    "hspmd_job_step_seconds_bucket{job=\"gpt\",job_id=\"3\",le=\"0.025\"} 2\n",
    "hspmd_job_step_seconds_bucket{job=\"gpt\",job_id=\"3\",le=\"300\"} 2\n",
    "hspmd_job_step_seconds_bucket{job=\"gpt\",job_id=\"3\",le=\"+Inf\"} 3\n",
    "hspmd_job_step_seconds_sum{job=\"gpt\",job_id=\"3\"} 1000.023\n",
    "hspmd_job_step_seconds_count{job=\"gpt\",job_id=\"3\"} 3\n",
    "hspmd_plan_solve_seconds_bucket{le=\"+Inf\"} 0\n",
    "hspmd_plan_solve_seconds_count 0\n",
    "hspmd_config_last_reload_successful 1\n",
    "process_max_fds 0\n",
};

static void test_a_snapshot_becomes_text(void **state)
{
    (void)state;
    static struct hsp_metrics m;
    struct hsp_job_metrics jm = {.tokens = 4096, .lost_steps = 3, .ckpt_unix_s = 1000};
    struct hsp_buf b;
    const struct hsp_view_node nodes[] = {{"w1", 0.25, 0}, {"w\"2\\\n", -1, 7}};
    const struct hsp_view_device devices[] = {
        {"w1", "cpu", "gpt", 3, 0, true, true, "", 0.5},
        {"w1", "cpu", "", 0, 1, true, true, "", 1},
        {"w2", "cuda", "", 0, 0, true, false, "", 1},
        {"w3", "cuda", "gpt", 3, 0, true, true, "cordoned", 1},
        {"w3", "cuda", "", 0, 1, false, true, "lost", 1}};
    const struct hsp_view_job jobs[] = {{.name = "gpt",
                                         .id = 3,
                                         .step = 12,
                                         .steps = 100,
                                         .epoch = 2,
                                         .have_loss = true,
                                         .loss = NAN,
                                         .predicted_s = 0.125,
                                         .m = &jm}};
    m.reload_ok = true;
    hsp_hist_add(&jm.step_s, 0.003);
    hsp_hist_add(&jm.step_s, 0.02);
    hsp_hist_add(&jm.step_s, 1000);
    hsp_hist_add(&jm.step_s, -1); /* not known */
    hsp_hist_add(&jm.step_s, NAN);
    const struct hsp_metrics_view v = {.version = "0.1.0",
                                       .term = 3,
                                       .unix_s = 1010,
                                       .m = &m,
                                       .n_agents = 2,
                                       .n_nodes = 2,
                                       .n_devices = 5,
                                       .n_jobs = 1,
                                       .nodes = nodes,
                                       .devices = devices,
                                       .jobs = jobs,
                                       .node_states = node_states,
                                       .job_states = job_states,
                                       .n_held = 2};
    hsp_buf_init(&b, 1u << 20);
    hsp_metrics_render(&v, &b);
    assert_false(b.failed);
    const char *t = hsp_buf_cstr(&b);
    for (size_t k = 0; k < sizeof snapshot_lines / sizeof snapshot_lines[0]; k++) {
        assert_has(t, snapshot_lines[k]);
    }
    assert_null(strstr(t, "hspmd_heartbeat_age_seconds{node=\"w\\"));
    assert_int_equal(count(t, "\nhspmd_job_time_seconds_total{"),
                     HSP_TIME_CLASSES); /* no time at rest */
    assert_int_equal(t[b.len - 1], '\n');
    hsp_buf_fini(&b);
}

/* Every family has HELP and TYPE once, before its samples, and all its samples follow each
 * other. */
static void test_families_stand_together(void **state)
{
    (void)state;
    static struct hsp_metrics m;
    struct hsp_job_metrics jm = {0};
    const struct hsp_view_job jobs[] = {{.name = "a", .id = 1, .m = &jm},
                                        {.name = "a", .id = 2, .m = &jm}};
    const struct hsp_metrics_view v = {.version = "x",
                                       .m = &m,
                                       .n_jobs = 2,
                                       .jobs = jobs,
                                       .node_states = node_states,
                                       .job_states = job_states};
    struct hsp_buf b;
    hsp_buf_init(&b, 1u << 20);
    hsp_metrics_render(&v, &b);
    char seen[128][80] = {{0}};
    int n = 0;
    (void)hsp_buf_cstr(&b);
    char *save = NULL;
    for (char *l = strtok_r((char *)b.data, "\n", &save); l != NULL;
         l = strtok_r(NULL, "\n", &save)) {
        char name[80];
        if (strncmp(l, "# HELP ", 7) == 0) {
            assert_true(n < 128);
            assert_int_equal(sscanf(l, "# HELP %79s", seen[n]), 1);
            for (int i = 0; i < n; i++) {
                assert_string_not_equal(seen[i], seen[n]);
            }
            n++;
        } else {
            assert_int_equal(sscanf(l, l[0] == '#' ? "# TYPE %79s" : "%79[a-z_]", name), 1);
            assert_true(n > 0);
            assert_memory_equal(name, seen[n - 1], strlen(seen[n - 1]));
        }
    }
    assert_true(n > 30);
    hsp_buf_fini(&b);
}

static void test_facts_are_counted(void **state)
{
    (void)state;
    static struct hsp_metrics m;
    struct hsp_job_metrics j = {0};
    struct hsp_fact f = fact("node.joined");
    hsp_metrics_fact(&m, NULL, 0, &f, 1);
    hsp_metrics_fact(&m, NULL, 1, &f, 1);
    f = fact("node.dead");
    hsp_metrics_fact(&m, NULL, 1, &f, 1);
    f = fact("node.suspect");
    hsp_metrics_fact(&m, NULL, 1, &f, 1);
    hsp_metrics_fact(&m, NULL, HSP_MAX_NODES, &f, 1);
    m.reload_ok = true;
    f = fact("config.refused");
    hsp_metrics_fact(&m, NULL, HSP_MAX_NODES, &f, 1);
    assert_false(m.reload_ok);
    f = fact("config.reloaded");
    hsp_metrics_fact(&m, NULL, HSP_MAX_NODES, &f, 1);
    assert_true(m.reload_ok);
    f = fact("ckpt.complete");
    hsp_metrics_fact(&m, &j, HSP_MAX_NODES, &f, 77);
    assert_int_equal(m.changes[HSP_CHANGE_JOIN], 2);
    assert_int_equal(m.changes[HSP_CHANGE_DEATH], 1);
    assert_int_equal(m.suspects[1], 1);
    assert_int_equal(m.suspects[0], 0);
    assert_int_equal(j.checkpoints, 1);
    assert_true(j.ckpt_unix_s == 77);

    const struct hsp_epoch_trace t = {.detect_ms = 1000,
                                      .sealed_ms = 1250,
                                      .planned_ms = 1350,
                                      .prepare_ms = 1360,
                                      .ready_ms = 1400,
                                      .started_ms = 1500,
                                      .first_step_ms = 1900,
                                      .transfer_ms = 62.5,
                                      .transfer_bytes = 4096};
    f = fact("switch.end");
    f.trace = &t;
    f.lost_steps = 2;
    hsp_metrics_fact(&m, &j, HSP_MAX_NODES, &f, 1);
    assert_float_equal(m.phase_s[HSP_PHASE_DRAIN].sum, 0.25, 1e-9);
    assert_float_equal(m.phase_s[HSP_PHASE_PLAN].sum, 0.1, 1e-9);
    assert_float_equal(m.phase_s[HSP_PHASE_APPLY].sum, 0.04, 1e-9);
    assert_float_equal(m.phase_s[HSP_PHASE_TRANSFER].sum, 0.0625, 1e-9);
    assert_float_equal(m.phase_s[HSP_PHASE_FIRST_STEP].sum, 0.4, 1e-9);
    assert_float_equal(m.phase_s[HSP_PHASE_TOTAL].sum, 0.9, 1e-9);
    assert_int_equal(j.transfer_bytes, 4096);
    assert_int_equal(j.lost_steps, 2);
}

static void test_time_goes_to_what_was_done(void **state)
{
    (void)state;
    struct hsp_job_metrics j = {0};
    hsp_metrics_time(&j, HSP_TIME_STARTUP, 1000); /* nothing is known before */
    hsp_metrics_time(&j, HSP_TIME_PRODUCTIVE, 3000);
    hsp_metrics_time(&j, HSP_TIME_PRODUCTIVE, 7000);
    hsp_metrics_time(&j, HSP_TIME_RECOVERING, 8500);
    hsp_metrics_time(&j, HSP_TIME_PRODUCTIVE, 9000);
    assert_float_equal(j.time_s[HSP_TIME_STARTUP], 2, 1e-9);
    assert_float_equal(j.time_s[HSP_TIME_PRODUCTIVE], 5.5, 1e-9);
    assert_float_equal(j.time_s[HSP_TIME_RECOVERING], 0.5, 1e-9);
}

/* The time in which a job is suspended, and the time between its end and a resume, count for no
 * class of time, such as stalled. */
static void test_time_at_rest_counts_nowhere(void **state)
{
    (void)state;
    static const enum hsp_job_state rest[] = {HSP_JOB_SUSPENDED, HSP_JOB_CANCELLED, HSP_JOB_FAILED,
                                              HSP_JOB_DONE};
    struct hsp_job_metrics j = {0};
    hsp_msec t = 1000;
    hsp_metrics_time(&j, hsp_metrics_class(HSP_JOB_RUNNING, false), t);
    for (size_t i = 0; i < HSP_ARRAY_LEN(rest); i++) {
        hsp_metrics_time(&j, hsp_metrics_class(rest[i], false), t += 2000); /* the job ran */
        hsp_metrics_time(&j, hsp_metrics_class(rest[i], false), t += 50000);
        hsp_metrics_time(&j, hsp_metrics_class(HSP_JOB_PENDING, false), t += 60000);
        hsp_metrics_time(&j, hsp_metrics_class(HSP_JOB_PENDING, true), t += 500);
        hsp_metrics_time(&j, hsp_metrics_class(HSP_JOB_STARTING, false), t += 250);
        hsp_metrics_time(&j, hsp_metrics_class(HSP_JOB_RUNNING, true), t += 125);
    }
    assert_float_equal(j.time_s[HSP_TIME_PRODUCTIVE], 8, 1e-9);
    assert_float_equal(j.time_s[HSP_TIME_STALLED], 2, 1e-9);
    assert_float_equal(j.time_s[HSP_TIME_PLANNING], 1, 1e-9);
    assert_float_equal(j.time_s[HSP_TIME_STARTUP], 0.5, 1e-9);
    assert_float_equal(j.time_s[HSP_TIME_RECOVERING], 0, 0);
    assert_float_equal(j.time_s[HSP_TIME_NONE], 440, 1e-9);
    assert_int_equal(hsp_metrics_class(HSP_JOB_PAUSED, false), HSP_TIME_STALLED);
    assert_int_equal(hsp_metrics_class(HSP_JOB_SEALING, true), HSP_TIME_RECOVERING);
}

HSP_TEST_FILE(prometheus_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_snapshot_becomes_text),
        cmocka_unit_test(test_families_stand_together),
        cmocka_unit_test(test_facts_are_counted),
        cmocka_unit_test(test_time_goes_to_what_was_done),
        cmocka_unit_test(test_time_at_rest_counts_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
