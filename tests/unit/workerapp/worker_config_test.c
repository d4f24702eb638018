/* hspmd-worker.yaml: devices, defaults, messages. */
#include "tests/lib/testlib.h"
#include "worker/app/worker_config.h"
#include "worker/comm/mesh/mesh.h"

static struct hsp_arena *arena;

static int setup(void **state)
{
    (void)state;
    arena = hsp_arena_new(1 << 20);
    return arena == NULL;
}

static int teardown(void **state)
{
    (void)state;
    arena = hsp_arena_free(arena);
    return 0;
}

static void test_devices_are_read(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_worker_config c;
    const char *text = "node: a\ndevices:\n  - {kind: cpu, speed: 0.6, memory: 256MiB}\n  - {}\n";
    assert_ok(hsp_worker_config_parse(text, strlen(text), "x", arena, &c, &err), &err);
    assert_int_equal(c.n_devices, 2);
    assert_true(c.devices[0].speed > 0.59 && c.devices[0].speed < 0.61);
    assert_int_equal(c.devices[0].mem_bytes, 256 << 20);
    assert_int_equal(c.devices[1].threads, 1);
    assert_string_equal(c.devices[1].kind, "cpu");
}

static void test_without_devices_there_is_one(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_worker_config c;
    assert_ok(hsp_worker_config_parse("", 0, "x", arena, &c, &err), &err);
    assert_int_equal(c.n_devices, 1);
    assert_int_equal(c.devices[0].mem_bytes, 1 << 30);
}

static void test_leaving_and_audit(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_worker_config c;
    const char *text = "audit_dir: /var/audit\nleave_timeout: 1500ms\ntransport: tcp\n";
    assert_ok(hsp_worker_config_parse("", 0, "x", arena, &c, &err), &err);
    assert_null(c.audit_dir);
    assert_null(c.state_dir); /* the agent's own choice */
    assert_int_equal(c.leave_timeout_ms, 90000);
    assert_int_equal(c.transport, HSP_MESH_AUTO);
    assert_string_equal(hsp_worker_transport(&c), "auto");
    assert_ok(hsp_worker_config_parse(text, strlen(text), "x", arena, &c, &err), &err);
    assert_string_equal(c.audit_dir, "/var/audit");
    assert_int_equal(c.leave_timeout_ms, 1500);
    assert_int_equal(c.transport, HSP_MESH_TCP);
    assert_string_equal(hsp_worker_transport(&c), "tcp");
}

static void test_wrong_files_say_where_and_what(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"devices: [{kind: tpu}]\n", "tpu"}, {"devices: []\n", "0 devices"},
        {"devices: [{sped: 1}]\n", "speed"}, {"devices: [{speed: 0}]\n", "speed"},
        {"coordinater: x\n", "coordinator"}, {"leave_timeout: 0s\n", "leave_timeout"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hsp_err err = {0};
        struct hsp_worker_config c;
        assert_status(hsp_worker_config_parse(cases[i].text, strlen(cases[i].text), "x.yaml", arena,
                                              &c, &err),
                      HSP_EPARSE);
        assert_non_null(strstr(err.msg, cases[i].want));
    }
}

static void test_the_shipped_file_is_the_generated_one(void **state)
{
    (void)state;
    char *text = hsp_test_source("conf/hspmd-worker.yaml");
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 20);
    hsp_worker_config_example(&b);
    assert_string_equal(text, hsp_buf_cstr(&b)); /* else: hspmd-worker --print-example */
    hsp_buf_fini(&b);
    free(text);
}

static void test_layers_win_in_their_order_and_say_so(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_worker_config c;
    struct hsp_buf b;
    static char level[] = "HSPMD_WORKER_LOG_LEVEL=debug", other[] = "OTHER=1";
    static char listen[] = "HSPMD_WORKER_LISTEN=127.0.0.1:9";
    char *env[] = {level, other, listen, NULL};
    const char *text = "log_level: warn\n\nleave_timeout: 5s\n";
    struct hsp_layers l = {.name = "f.yaml", .text = text, .len = strlen(text)};
    assert_ok(hsp_layers_env(&l, "HSPMD_WORKER_", env, arena, &err), &err);
    assert_ok(hsp_layers_arg(&l, "listen=localhost:8", arena, &err), &err);
    assert_ok(hsp_worker_config_load(&l, arena, &c, &err), &err);
    hsp_buf_init(&b, 1 << 20);
    hsp_worker_config_print(&c, &b);
    const char *out = hsp_buf_cstr(&b);
    assert_non_null(strstr(out, "listen: \"localhost:8\"  # command line\n"));
    assert_non_null(strstr(out, "log_level: debug  # environment HSPMD_WORKER_LOG_LEVEL\n"));
    assert_non_null(strstr(out, "leave_timeout: 5s  # f.yaml:3\n"));
    assert_non_null(strstr(out, "key: /etc/hspmd/worker.key  # default\n"));
    assert_ok(hsp_worker_config_parse(out, strlen(out), "again", arena, &c, &err), &err);
    hsp_buf_fini(&b);
}

static void test_wrong_settings_say_which(void **state)
{
    (void)state;
    static const struct {
        const char *set, *want;
    } cases[] = {{"lisen=a:1", "did you mean \"listen\""},
                 {"log_level=loud", "command line:1:1: log_level"},
                 {"leave_timeout=[", "command line"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hsp_err err = {0};
        struct hsp_worker_config c;
        struct hsp_layers l = {.name = "f", .text = ""};
        assert_ok(hsp_layers_arg(&l, cases[i].set, arena, &err), &err);
        assert_status(hsp_worker_config_load(&l, arena, &c, &err), HSP_EPARSE);
        assert_non_null(strstr(err.msg, cases[i].want));
    }
    struct hsp_err err = {0};
    struct hsp_layers l = {.name = "f", .text = ""};
    assert_status(hsp_layers_arg(&l, "listen", arena, &err), HSP_EINVAL);
}

static void test_a_reload_takes_what_may_change_and_lists_the_rest(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_worker_config c, d;
    struct hsp_buf live, rest;
    const char *text = "log_level: debug\nlisten: 127.0.0.1:99\nleave_timeout: 5s\n";
    size_t n;
    const struct hsp_field *fields = hsp_worker_config_fields(&n);
    assert_ok(hsp_worker_config_parse("", 0, "a", arena, &c, &err), &err);
    assert_ok(hsp_worker_config_parse(text, strlen(text), "b", arena, &d, &err), &err);
    hsp_buf_init(&live, 4096);
    hsp_buf_init(&rest, 4096);
    hsp_layers_apply(fields, n, &c, &d, &live, &rest);
    assert_string_equal(hsp_buf_cstr(&live), "leave_timeout 90s -> 5s, log_level info -> debug");
    assert_string_equal(hsp_buf_cstr(&rest), "listen");
    assert_int_equal(c.log_level, 4);
    assert_string_not_equal(c.listen, d.listen);
    hsp_buf_fini(&live);
    hsp_buf_fini(&rest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_devices_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_devices_there_is_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leaving_and_audit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_files_say_where_and_what, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_shipped_file_is_the_generated_one, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_layers_win_in_their_order_and_say_so, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_settings_say_which, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_reload_takes_what_may_change_and_lists_the_rest,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
