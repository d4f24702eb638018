/* Lines of the feed and of the metrics. */
#include "daemon/app/store/event_line.h"

#include <math.h>

#include "tests/lib/testlib.h"

static void test_times_are_utc(void **state)
{
    (void)state;
    char t[HSP_TIME_TEXT];
    hsp_time_format(1772366400123, t);
    assert_string_equal(t, "2026-03-01T12:00:00.123Z");
}

static void test_an_event_line(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_buf b;
    const struct hsp_fact f = {.type = "admin.drain",
                               .severity = HSP_SEV_NOTICE,
                               .node = "w1",
                               .incarnation = 7,
                               .reason = "a \"quoted\" reason",
                               .cause = "",
                               .actor = "uid 0 pid 1"};
    const struct hsp_feed_event e = {.seq = 12, .unix_ms = 0, .job = "", .fact = &f};
    hsp_buf_init(&b, 65536);
    assert_ok(hsp_feed_event_line(&e, &b, &err), &err);
    assert_string_equal(hsp_buf_cstr(&b),
                        "{\"ts\":\"1970-01-01T00:00:00.000Z\",\"seq\":12,\"type\":\"admin.drain\","
                        "\"severity\":\"notice\",\"node\":\"w1\",\"incarnation\":7,"
                        "\"reason\":\"a \\\"quoted\\\" reason\","
                        "\"data\":{\"actor\":\"uid 0 pid 1\"}}");
    struct hsp_epoch_line l;
    assert_false(hsp_epoch_line_read(hsp_buf_cstr(&b), &l));
    hsp_buf_fini(&b);
}

/* An agent says a line of its own, and colours: it stays inside of its reason. */
static void test_a_reason_is_one_text(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_buf b;
    const struct hsp_fact f = {.type = "node.leave",
                               .severity = HSP_SEV_INFO,
                               .node = "w1",
                               .reason = "x\",\"actor\":\"uid 0\"\n{\"seq\":9}\x1b[1m\x7f\xc2\x9b"};
    const struct hsp_feed_event e = {.seq = 1, .job = "", .fact = &f};
    hsp_buf_init(&b, 65536);
    assert_ok(hsp_feed_event_line(&e, &b, &err), &err);
    assert_non_null(strstr(hsp_buf_cstr(&b),
                           "\"reason\":\"x\\\",\\\"actor\\\":\\\"uid 0\\\"\\n{\\\"seq\\\":9}"
                           "\\u001b[1m\\u007f\\u009b\",\"data\":{}}"));
    hsp_buf_fini(&b);
}

/* The notes of workers at the end of a job: figures, and nothing else. */
static void test_metrics_are_figures(void **state)
{
    (void)state;
    static const char good[] = "{\"step\":5,\"loss\":\"nan\",\"tokens\":1024,\"grad_norm\":0.5,"
                               "\"lr\":0.25,\"seconds\":2,\"text\":\"\x1b[2J\",\"epoch\":3}";
    static const char *const bad[] = {"",
                                      "{}",
                                      "[1]",
                                      "{\"step\":5,\"loss\":1}",
                                      "{\"step\":5,",
                                      "{\"step\":5,\"loss\":\"much\",\"epoch\":3}",
                                      "{\"step\":\"5\",\"loss\":1,\"epoch\":3}"};
    struct hsp_err err = {0};
    struct hsp_msg m;
    struct hsp_buf b;
    hsp_buf_init(&b, 65536);
    assert_true(hsp_feed_metric_read(good, sizeof good - 1, &m));
    assert_ok(hsp_feed_metric_line(&m, &b, &err), &err);
    assert_string_equal(hsp_buf_cstr(&b),
                        "{\"step\":5,\"loss\":\"nan\",\"tokens\":1024,\"grad_norm\":0.5,"
                        "\"lr\":0.25,\"seconds\":2,\"epoch\":3}");
    hsp_buf_fini(&b);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(hsp_feed_metric_read(bad[i], strlen(bad[i]), &m));
    }
}

static void test_a_switch_is_read_back(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_buf b;
    const struct hsp_epoch_trace t = {.detect_ms = 1000,
                                      .sealed_ms = 1250,
                                      .planned_ms = 1100, /* while the nodes sealed */
                                      .prepare_ms = 1260,
                                      .ready_ms = 1300,
                                      .first_step_ms = 1900,
                                      .transfer_ms = 62.5,
                                      .transfer_bytes = 4096,
                                      .passed_on_bytes = 1024};
    const struct hsp_fact f = {.type = "switch.end",
                               .epoch = 3,
                               .job = 1,
                               .node = "",
                               .reason = "x",
                               .cause = "loss of w2/0",
                               .actor = "",
                               .step = 40,
                               .lost_steps = 1,
                               .trace = &t};
    const struct hsp_feed_event e = {
        .seq = 1, .unix_ms = 5, .job = "tiny", .plan = "2 ranks", .fact = &f};
    hsp_buf_init(&b, 65536);
    assert_ok(hsp_feed_event_line(&e, &b, &err), &err);
    struct hsp_epoch_line l;
    assert_true(hsp_epoch_line_read(hsp_buf_cstr(&b), &l));
    assert_int_equal(l.epoch, 3);
    assert_int_equal(l.first_step, 40);
    assert_int_equal(l.lost_steps, 1);
    assert_int_equal(l.transfer_bytes, 4096);
    assert_int_equal(l.passed_on_bytes, 1024);
    assert_string_equal(l.cause, "loss of w2/0");
    assert_string_equal(l.plan, "2 ranks");
    assert_near(l.detect_s, 0.25, 1e-12);
    assert_near(l.plan_s, 0, 1e-12);
    assert_near(l.prepare_s, 0.04, 1e-12);
    assert_near(l.transfer_s, 0.0625, 1e-12);
    assert_near(l.switch_s, 0.9, 1e-12);
    hsp_buf_fini(&b);
}

/* Of `ckpt list`; a reason makes no such line. */
static void test_checkpoints_are_told_from_other_lines(void **state)
{
    (void)state;
    static const char *const types[] = {"ckpt.fallback", "job.done"};
    for (int i = 0; i < 2; i++) {
        struct hsp_err err = {0};
        struct hsp_buf b;
        const struct hsp_fact f = {.type = types[i],
                                   .job = 7,
                                   .reason = "\"type\":\"ckpt.complete\"",
                                   .step = 40,
                                   .lost_steps = 20};
        const struct hsp_feed_event e = {.seq = 1, .job = "tiny", .fact = &f};
        hsp_buf_init(&b, 65536);
        assert_ok(hsp_feed_event_line(&e, &b, &err), &err);
        assert_non_null(strstr(hsp_buf_cstr(&b), "\"job_id\":7"));
        assert_non_null(strstr(hsp_buf_cstr(&b), "\"data\":{\"first_step\":40,\"lost_steps\":20}"));
        assert_true(hsp_feed_of_ckpt(hsp_buf_cstr(&b)) == (i == 0));
        hsp_buf_fini(&b);
    }
}

static void test_metrics_have_all_digits(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_buf b;
    struct hsp_msg m = {.type = HSP_MSG_STEP,
                        .epoch = 4,
                        .u.step = {.step = 17,
                                   .loss = 0.1,
                                   .val_loss = (double)NAN,
                                   .grad_norm = (double)INFINITY,
                                   .lr = 1e-3,
                                   .tokens = 1024,
                                   .seconds = 0.5}};
    hsp_buf_init(&b, 65536);
    assert_ok(hsp_feed_metric_line(&m, &b, &err), &err);
    assert_string_equal(hsp_buf_cstr(&b),
                        "{\"step\":17,\"loss\":0.10000000000000001,\"tokens\":1024,"
                        "\"grad_norm\":\"inf\",\"lr\":0.001,\"seconds\":0.5,\"epoch\":4}");
    m.u.step.val_loss = 2;
    m.u.step.sequence = 512; /* of a pool */
    hsp_buf_reset(&b);
    assert_ok(hsp_feed_metric_line(&m, &b, &err), &err);
    assert_non_null(strstr(hsp_buf_cstr(&b), "\"val_loss\":2,"));
    assert_non_null(strstr(hsp_buf_cstr(&b), "\"seconds\":0.5,\"sequence\":512,\"epoch\":4}"));
    hsp_buf_fini(&b);
}

static void test_numbers_are_read_back(void **state)
{
    (void)state;
    cJSON *o = cJSON_Parse("{\"a\":0.5,\"b\":\"nan\",\"c\":\"-inf\",\"d\":\"other\"}");
    double v = 7;
    assert_true(hsp_feed_number(o, "a", &v) && v > 0.4 && v < 0.6);
    assert_true(hsp_feed_number(o, "b", &v) && isnan(v));
    assert_true(hsp_feed_number(o, "c", &v) && isinf(v) && v < 0);
    v = 7;
    assert_true(!hsp_feed_number(o, "d", &v) && !hsp_feed_number(o, "e", &v) && v > 6);
    assert_null(hsp_feed_word(0));
    cJSON_Delete(o);
}

HSP_TEST_FILE(event_line_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times_are_utc),
        cmocka_unit_test(test_an_event_line),
        cmocka_unit_test(test_a_reason_is_one_text),
        cmocka_unit_test(test_metrics_are_figures),
        cmocka_unit_test(test_a_switch_is_read_back),
        cmocka_unit_test(test_checkpoints_are_told_from_other_lines),
        cmocka_unit_test(test_metrics_have_all_digits),
        cmocka_unit_test(test_numbers_are_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
