/* hspmdd.yaml: defaults, the shipped example, and the messages of wrong files. */
#include <stdio.h>

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
    char path[4200], text[8192], out[8192];
    const char *src = getenv("HSPMD_SRC");
    snprintf(path, sizeof path, "%s/conf/hspmdd.yaml", src != NULL ? src : ".");
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f), m = 0;
    fclose(f);
    for (size_t i = 0; i < n; i++) {
        bool comment = text[i] == '#' && (i == 0 || text[i - 1] == '\n') && text[i + 1] != ' ';
        if (!comment) {
            out[m++] = text[i];
        }
    }
    assert_ok(hsp_daemon_config_parse(out, m, path, arena, &c, &err), &err);
    assert_string_equal(c.state_dir, "/var/lib/hspmd");
    assert_string_equal(c.advertise_address, "head.example.org:7071");
}

static void test_wrong_files_say_where_and_what(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"lisen: a:1\n", "listen"},
        {"heartbeat: 2s\n", "three heartbeats"},
        {"max_nodes: 0\n", "max_nodes"},
        {"log_level: loud\n", "log_level"},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_empty_file_gives_the_defaults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_example_is_accepted_with_every_line_enabled, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_wrong_files_say_where_and_what, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
