/* Tests the reactions of an agent to the health of its devices. */
#include "tests/unit/worker/agent/agent_world.h"

static void sign(struct aw_world *w, uint32_t device, enum hsp_gpu_sign_kind kind, uint64_t value)
{
    const struct hsp_gpu_sign s = {kind, value};
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_SIGN, .device = device, .sign = &s});
}

static const struct hsp_m_health *told(const struct aw_world *w)
{
    const struct hsp_msg *m = aw_sent(w, HSP_AACT_SEND, HSP_MSG_DEVICE_HEALTH);
    return m != NULL ? &m->u.health : NULL;
}

static void warnings_come_and_go(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    aw_link_up(&w, 1, 7);
    aw_run_job(&w, 0, 4, 2);
    sign(&w, 1, HSP_SIGN_XID, 31);
    assert_int_equal(told(&w)->device, 1);
    assert_int_equal(told(&w)->health, HSP_HEALTH_WARN);
    assert_string_equal(told(&w)->reason, "XID 31: page fault of a kernel");
    assert_string_equal(aw_find(&w, HSP_AACT_LOG)->text,
                        "device 1: warn: XID 31: page fault of a kernel");
    assert_int_equal(aw_find(&w, HSP_AACT_LOG)->severity, 4);
    sign(&w, 1, HSP_SIGN_ECC_CORRECTED, 3); /* nothing new */
    assert_null(told(&w));
    w.now += HSP_GPU_WARN_MS;
    aw_tick(&w); /* forgotten after a day: without a sign, too */
    assert_int_equal(told(&w)->health, HSP_HEALTH_FINE);
    assert_string_equal(told(&w)->reason, "");
    assert_int_equal(hsp_agent_device_at(w.a, 0)->run.job, 4);
    hsp_agent_free(w.a);
}

/* Its work goes on: hspmdd moves it. */
static void a_cordon_kills_nothing(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    aw_link_up(&w, 1, 7);
    aw_run_job(&w, 0, 4, 2);
    sign(&w, 0, HSP_SIGN_XID, 48);
    assert_int_equal(told(&w)->health, HSP_HEALTH_CORDON);
    assert_int_equal(aw_count(&w, HSP_AACT_KILL), 0);
    assert_int_equal(hsp_agent_device_at(w.a, 0)->run.job, 4);
    hsp_agent_free(w.a);
}

static void what_is_lost_ends(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    aw_link_up(&w, 1, 7);
    aw_run_job(&w, 0, 4, 2);
    sign(&w, 0, HSP_SIGN_XID, 79);
    assert_int_equal(told(&w)->health, HSP_HEALTH_LOST);
    assert_int_equal(aw_find(&w, HSP_AACT_KILL)->device, 0);
    aw_exit_of(&w, 0);
    assert_non_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_EXECUTOR_DEAD));
    assert_true(aw_find(&w, HSP_AACT_SPAWN)->bare); /* to serve its sealed state */
    aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_EXECUTOR_UP, .u.up = {.address = "a:2"}});
    assert_non_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_EXECUTOR_UP));
    /* the device computes no more, but may serve */
    aw_prepare(&w, 0, 4, 3);
    assert_null(aw_sent(&w, HSP_AACT_SEND_EXEC, HSP_MSG_PREPARE));
    assert_string_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_PREPARE_FAILED)->u.failed.reason,
                        "the device is lost: XID 79: fallen off the bus");
    aw_from_daemon(
        &w, (struct hsp_msg){
                .type = HSP_MSG_PREPARE,
                .epoch = 3,
                .u.prepare = {
                    .job = 4, .device = 0, .rank = 1, .n_ranks = 1, .n_peers = 2, .plan = 2}});
    assert_non_null(aw_sent(&w, HSP_AACT_SEND_EXEC, HSP_MSG_PREPARE));
    sign(&w, 0, HSP_SIGN_GONE, 1); /* once is enough */
    assert_null(told(&w));
    assert_int_equal(aw_count(&w, HSP_AACT_KILL), 0);
    hsp_agent_free(w.a);
}

/* A driver that keeps the killed process must not keep the node from answering. */
static void a_process_that_does_not_end(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    aw_link_up(&w, 1, 7);
    aw_run_job(&w, 0, 4, 2);
    sign(&w, 0, HSP_SIGN_XID, 79);
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_SEAL, .epoch = 2, .u.jobref.job = 4});
    assert_null(aw_find(&w, HSP_AACT_SCAN));
    w.now += 999;
    aw_from_exec(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
    assert_null(aw_find(&w, HSP_AACT_SCAN));
    assert_true(hsp_agent_deadline(w.a) <= w.now + 1);
    w.now += 1;
    aw_tick(&w);
    const struct hsp_m_holding h = {.job = 4, .plan = 1, .version = 6};
    aw_scanned(&w, &h, 1);
    assert_int_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_SEALED)->u.sealed.n_holdings, 1);
    assert_int_equal(hsp_agent_device_at(w.a, 0)->run.job, 0);
    aw_exit_of(&w, 0);
    assert_true(aw_find(&w, HSP_AACT_SPAWN)->bare);
    hsp_agent_free(w.a);
}

static void hello_says_what_they_are(void **state)
{
    (void)state;
    struct hsp_agent_config cfg;
    struct aw_world w = {.now = 100};
    char model[] = "NVIDIA H200";
    double parts[] = {1, 0.5, 0.25};
    const struct hsp_m_device dev[2] = {{.kind = "cuda",
                                         .n_gemm_parts = 3,
                                         .gemm_parts = parts,
                                         .model = model,
                                         .uuid = "GPU-1",
                                         .cpus = "0-7",
                                         .sm = 90},
                                        {.kind = "cuda", .n_gemm_parts = 3, .gemm_parts = parts}};
    const struct hsp_m_path path = {0, 1, HSP_PATH_NVLINK, 4, 75e9, 5};
    hsp_agent_defaults(&cfg);
    cfg.n_devices = 2;
    cfg.devices = dev;
    cfg.n_paths = 1;
    cfg.paths = &path;
    w.a = hsp_agent_new(&cfg);
    assert_non_null(w.a);
    model[0] = '?'; /* the agent has copied */
    parts[2] = 7;
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_START});
    sign(&w, 1, HSP_SIGN_XID, 74);
    struct hsp_m_device slower[2] = {dev[0], dev[1]};
    slower[0].speed = 0.5;
    slower[0].model = "NVIDIA H200 slow";
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_PROFILE, .n = 2, .devices = slower});
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "disconnected"});
    w.now += 100;
    aw_tick(&w);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
    aw_scanned(&w, NULL, 0);
    const struct hsp_m_hello *m = &aw_sent(&w, HSP_AACT_SEND, HSP_MSG_HELLO)->u.hello;
    assert_string_equal(m->devices[0].model, "NVIDIA H200 slow");
    assert_string_equal(m->devices[0].uuid, "GPU-1");
    assert_string_equal(m->devices[0].cpus, "0-7");
    assert_int_equal(m->devices[0].sm, 90);
    assert_int_equal(m->devices[0].health, HSP_HEALTH_FINE);
    assert_string_equal(m->devices[1].model, "");
    assert_int_equal(m->devices[1].health, HSP_HEALTH_CORDON);
    assert_string_equal(m->devices[1].why, "XID 74: NVLink error");
    assert_int_equal(m->devices[1].n_gemm_parts, 3);
    assert_near(m->devices[1].gemm_parts[2], 0.25, 0);
    assert_near(m->devices[0].gemm_parts[2], 7, 0); /* measured again */
    assert_int_equal(m->n_paths, 1);
    assert_int_equal(m->paths[0].links, 4);
    hsp_agent_free(w.a);
    cfg.n_paths = HSP_NODE_PATHS + 1;
    assert_null(hsp_agent_new(&cfg));
}

/* One that could not even be opened. */
static void lost_from_the_start(void **state)
{
    (void)state;
    struct hsp_agent_config cfg;
    struct aw_world w = {.now = 100};
    const struct hsp_m_device dev[2] = {
        {.kind = "cuda"}, {.kind = "cuda", .health = HSP_HEALTH_LOST, .why = "no driver"}};
    hsp_agent_defaults(&cfg);
    cfg.n_devices = 2;
    cfg.devices = dev;
    w.a = hsp_agent_new(&cfg);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_START});
    for (uint32_t i = 0; i < w.acts.n; i++) {
        const struct hsp_agent_action *x = &w.acts.item[i];
        assert_true(x->type != HSP_AACT_SPAWN || x->bare == (x->device == 1));
    }
    assert_int_equal(aw_count(&w, HSP_AACT_SPAWN), 2);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
    aw_scanned(&w, NULL, 0);
    const struct hsp_m_hello *m = &aw_sent(&w, HSP_AACT_SEND, HSP_MSG_HELLO)->u.hello;
    assert_int_equal(m->devices[0].health, HSP_HEALTH_FINE);
    assert_int_equal(m->devices[1].health, HSP_HEALTH_LOST);
    assert_string_equal(m->devices[1].why, "no driver");
    hsp_agent_free(w.a);
}

static void signs_of_devices_there_are_not(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    const struct hsp_gpu_sign s = {HSP_SIGN_XID, 79};
    struct hsp_agent_event ev = {.now_ms = w.now, .type = HSP_AEV_SIGN, .device = 2, .sign = &s};
    assert_status(hsp_agent_step(w.a, &ev, &w.acts, NULL), HSP_EINVAL);
    hsp_agent_free(w.a);
}

HSP_TEST_FILE(devices_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warnings_come_and_go),
        cmocka_unit_test(a_cordon_kills_nothing),
        cmocka_unit_test(what_is_lost_ends),
        cmocka_unit_test(a_process_that_does_not_end),
        cmocka_unit_test(hello_says_what_they_are),
        cmocka_unit_test(lost_from_the_start),
        cmocka_unit_test(signs_of_devices_there_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
