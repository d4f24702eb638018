/* hspmdd.yaml: defaults, the shipped example, and the messages of wrong files. */
#include "daemon/app/daemon_config.h"
#include "tests/lib/testlib.h"

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

static void test_an_empty_file_gives_the_defaults(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_daemon_config c;
    assert_ok(hsp_daemon_config_parse("", 0, "x", arena, &c, &err), &err);
    assert_string_equal(c.listen, "127.0.0.1:7071");
    assert_int_equal(c.failure_detection_ms, 3000);
}

static void test_the_example_is_accepted_with_every_line_enabled(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_daemon_config c;
    char *text = hsp_test_source("conf/hspmdd.yaml");
    size_t n = strlen(text), m = 0;
    for (size_t i = 0; i < n; i++) { /* in place: m <= i */
        bool comment = text[i] == '#' && (i == 0 || text[i - 1] == '\n') && text[i + 1] != ' ';
        if (!comment) {
            text[m++] = text[i];
        }
    }
    assert_ok(hsp_daemon_config_parse(text, m, "hspmdd.yaml", arena, &c, &err), &err);
    free(text);
    assert_string_equal(c.state_dir, "/var/lib/hspmd");
    assert_string_equal(c.advertise_address, "head.example.org:7071");
    assert_int_equal(c.data_plane, HSP_DATA_TLS);
}

static void test_wrong_files_say_where_and_what(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"lisen: a:1\n", "listen"},
        {"heartbeat: 2s\n", "2.5 heartbeats"},
        {"max_nodes: 0\n", "max_nodes"},
        {"log_level: loud\n", "log_level"},
        {"data_plane: plain\n", "data_plane"},
        {"advertise_address: /run/x\n", "advertise_address: /run/x is not a host:port"},
        {"advertise_address: '0.0.0.0:7071'\n", "not a host:port that others can dial"},
        {"advertise_address: '[::]:7071'\n", "not a host:port that others can dial"},
        {"advertise_address: 'head:0'\n", "not a host:port that others can dial"},
        {"advertise_address: 'head:99999'\n", "port is not 0 to 65535"},
        {"advertise_address: 'two heads:7071'\n", "not a host:port that others can dial"},
        {"advertise_address: ':7071'\n", "no host"},
        {"listen: ''\nadvertise_address: head\n", "nothing listens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hsp_err err = {0};
        struct hsp_daemon_config c;
        assert_status(hsp_daemon_config_parse(cases[i].text, strlen(cases[i].text), "x.yaml", arena,
                                              &c, &err),
                      HSP_EPARSE);
        assert_non_null(strstr(err.msg, "x.yaml"));
        assert_non_null(strstr(err.msg, cases[i].want));
    }
}

static void test_the_shipped_file_is_the_generated_one(void **state)
{
    (void)state;
    char *text = hsp_test_source("conf/hspmdd.yaml");
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 20);
    hsp_daemon_config_example(&b);
    assert_string_equal(text, hsp_buf_cstr(&b)); /* else: hspmdd --print-example */
    hsp_buf_fini(&b);
    free(text);
}

static void test_layers_win_in_their_order_and_say_so(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_daemon_config c;
    struct hsp_buf b;
    static char level[] = "HSPMDD_LOG_LEVEL=debug", other[] = "OTHER=1";
    static char listen[] = "HSPMDD_LISTEN=127.0.0.1:9";
    char *env[] = {level, other, listen, NULL};
    const char *text = "log_level: warn\n\nheartbeat: 250ms\n";
    struct hsp_layers l = {.name = "f.yaml", .text = text, .len = strlen(text)};
    assert_ok(hsp_layers_env(&l, "HSPMDD_", env, arena, &err), &err);
    assert_ok(hsp_layers_arg(&l, "listen=localhost:8", arena, &err), &err);
    assert_ok(hsp_daemon_config_load(&l, arena, &c, &err), &err);
    hsp_buf_init(&b, 1 << 20);
    hsp_daemon_config_print(&c, &b);
    const char *out = hsp_buf_cstr(&b);
    assert_non_null(strstr(out, "listen: \"localhost:8\"  # command line\n"));
    assert_non_null(strstr(out, "log_level: debug  # environment HSPMDD_LOG_LEVEL\n"));
    assert_non_null(strstr(out, "heartbeat: 250ms  # f.yaml:3\n"));
    assert_non_null(strstr(out, "max_nodes: 256  # default\n"));
    assert_ok(hsp_daemon_config_parse(out, strlen(out), "again", arena, &c, &err), &err);
    hsp_buf_fini(&b);
}

static void test_wrong_settings_say_which(void **state)
{
    (void)state;
    static const struct {
        const char *set, *want;
    } cases[] = {{"lisen=a:1", "did you mean \"listen\""},
                 {"log_level=loud", "command line:1:1: log_level"},
                 {"heartbeat=[", "command line"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hsp_err err = {0};
        struct hsp_daemon_config c;
        struct hsp_layers l = {.name = "f", .text = ""};
        assert_ok(hsp_layers_arg(&l, cases[i].set, arena, &err), &err);
        assert_status(hsp_daemon_config_load(&l, arena, &c, &err), HSP_EPARSE);
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
    struct hsp_daemon_config c, d;
    struct hsp_buf live, rest;
    const char *text = "log_level: debug\nlisten: 127.0.0.1:99\nheartbeat: 250ms\n";
    size_t n;
    const struct hsp_field *fields = hsp_daemon_config_fields(&n);
    assert_ok(hsp_daemon_config_parse("", 0, "a", arena, &c, &err), &err);
    assert_ok(hsp_daemon_config_parse(text, strlen(text), "b", arena, &d, &err), &err);
    hsp_buf_init(&live, 4096);
    hsp_buf_init(&rest, 4096);
    hsp_layers_apply(fields, n, &c, &d, &live, &rest);
    assert_string_equal(hsp_buf_cstr(&live), "heartbeat 500ms -> 250ms, log_level info -> debug");
    assert_string_equal(hsp_buf_cstr(&rest), "listen");
    assert_int_equal(c.log_level, 4);
    assert_string_not_equal(c.listen, d.listen);
    hsp_buf_fini(&live);
    hsp_buf_fini(&rest);
}

static void test_the_data_plane_is_chosen(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_daemon_config c;
    static const char text[] = "data_plane: clear\n";
    assert_ok(hsp_daemon_config_parse("", 0, "x", arena, &c, &err), &err);
    assert_int_equal(c.data_plane, HSP_DATA_TLS);
    assert_ok(hsp_daemon_config_parse(text, strlen(text), "x", arena, &c, &err), &err);
    assert_int_equal(c.data_plane, HSP_DATA_CLEAR);
}

static void test_a_long_address_is_refused(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_daemon_config c;
    char text[400];
    memset(text, 'h', sizeof text);
    memcpy(text, "advertise_address: ", 19);
    for (size_t n = 255; n <= 256; n++) {
        memcpy(text + 19 + n - 5, ":7071", 5);
        assert_int_equal(hsp_daemon_config_parse(text, 19 + n, "x", arena, &c, &err),
                         n == 255 ? HSP_OK : HSP_EPARSE);
    }
    assert_non_null(strstr(err.msg, "256 bytes, at most 255"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_empty_file_gives_the_defaults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_example_is_accepted_with_every_line_enabled, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_the_data_plane_is_chosen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_long_address_is_refused, setup, teardown),
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
