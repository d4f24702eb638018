/* Tests hspmdd.yaml: defaults, the shipped example, and the messages of wrong files. */
#include "daemon/app/state/daemon_config.h"
#include "proto/base/size.h"
#include "tests/lib/configtests.h"

static struct hsp_arena *arena;

/* A file alone. */
static enum hsp_status parse(const char *text, size_t len, const char *name, struct hsp_arena *a,
                             void *ret, struct hsp_err *err)
{
    const struct hsp_layers l = {.name = name, .text = text, .len = len};
    return hsp_daemon_config_load(&l, a, ret, err);
}

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
    assert_ok(parse("", 0, "x", arena, &c, &err), &err);
    assert_string_equal(c.listen, "127.0.0.1:7071");
    assert_int_equal(c.failure_detection_ms, 3000);
    assert_string_equal(c.worker_user, "hspmd-worker");
    assert_false(c.insecure_loopback);
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
    assert_ok(parse(text, m, "hspmdd.yaml", arena, &c, &err), &err);
    free(text);
    assert_string_equal(c.state_dir, "/var/lib/hspmd");
    assert_string_equal(c.advertise_address, "head.example.org:7071");
    assert_int_equal(c.data_plane, HSP_DATA_TLS);
}

static void test_the_data_plane_is_chosen(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_daemon_config c;
    static const char text[] = "data_plane: clear\n";
    assert_ok(parse("", 0, "x", arena, &c, &err), &err);
    assert_int_equal(c.data_plane, HSP_DATA_TLS);
    assert_ok(parse(text, strlen(text), "x", arena, &c, &err), &err);
    assert_int_equal(c.data_plane, HSP_DATA_CLEAR);
}

static void test_trusted_networks(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_daemon_config c;
    static const char one[] = "trusted_network: 10.0.0.0/8\n", none[] = "trusted_network: []\n",
                      two[] = "trusted_network: [10.0.0.0/8, 'FD00:0::/8']\n";
    assert_ok(parse("", 0, "x", arena, &c, &err), &err);
    assert_string_equal(c.trusted, "");
    assert_ok(parse(none, strlen(none), "x", arena, &c, &err), &err);
    assert_string_equal(c.trusted, "");
    assert_ok(parse(one, strlen(one), "x", arena, &c, &err), &err);
    assert_string_equal(c.trusted, "10.0.0.0/8");
    assert_ok(parse(two, strlen(two), "x", arena, &c, &err), &err);
    assert_string_equal(c.trusted, "10.0.0.0/8, fd00::/8");
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
        assert_int_equal(parse(text, 19 + n, "x", arena, &c, &err), n == 255 ? HSP_OK : HSP_EPARSE);
    }
    assert_non_null(strstr(err.msg, "256 bytes, at most 255"));
}

static const struct ct_wrong wrong_files[] = {
    {"lisen: a:1\n", "listen"},
    {"heartbeat: 2s\n", "2.5 heartbeats"},
    {"max_nodes: 0\n", "max_nodes"},
    {"log_level: loud\n", "log_level"},
    {"data_plane: plain\n", "data_plane"},
    {"trusted_network: [10.0.0.0/8, eth0]\n", "trusted_network: eth0 is no network, as 10.0.0.0/8"},
    {"trusted_network: 10.0.0.7/8\n", "10.0.0.7/8 is an address in the network 10.0.0.0/8"},
    {"trusted_network: 10.0.0.0/33\n", "10.0.0.0/33: the bits of the prefix are 0 to 32"},
    {"trusted_network: [10.0.0.0/8, 10.1.0.0/16, 10.2.0.0/16, 10.3.0.0/16, 10.4.0.0/16, "
     "10.5.0.0/16, 10.6.0.0/16, 10.7.0.0/16, 10.8.0.0/16]\n",
     "trusted_network: 9 networks, at most 8"},
    {"trusted_network: {a: 1}\n", "trusted_network"},
    {"advertise_address: /run/x\n", "advertise_address: /run/x is not a host:port"},
    {"advertise_address: '0.0.0.0:7071'\n", "not a host:port that others can dial"},
    {"advertise_address: '[::]:7071'\n", "not a host:port that others can dial"},
    {"advertise_address: 'head:0'\n", "not a host:port that others can dial"},
    {"advertise_address: 'head:99999'\n", "port is not 0 to 65535"},
    {"advertise_address: 'two heads:7071'\n", "not a host:port that others can dial"},
    {"advertise_address: ':7071'\n", "no host"},
    {"listen: ''\nadvertise_address: head\n", "nothing listens"},
    {"socket: hspmdd.sock\n", "socket: hspmdd.sock is no path from the root"},
};

static enum hsp_status load(const struct hsp_layers *l, struct hsp_arena *a, void *ret,
                            struct hsp_err *err)
{
    return hsp_daemon_config_load(l, a, ret, err);
}

static void print(const void *c, struct hsp_buf *out)
{
    hsp_daemon_config_print(c, out);
}

static struct ct_program program = {
    .file = "conf/hspmdd.yaml",
    .prefix = "HSPMDD_",
    .time = "heartbeat",
    .was = "500ms",
    .set = "250ms",
    .untouched = "max_nodes: 256  # default\n",
    .wrong = wrong_files,
    .n_wrong = HSP_ARRAY_LEN(wrong_files),
    .size = sizeof(struct hsp_daemon_config),
    .load = load,
    .parse = parse,
    .print = print,
    .example = hsp_daemon_config_example,
    .fields = hsp_daemon_config_fields,
};

HSP_TEST_FILE(daemon_config_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_empty_file_gives_the_defaults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_example_is_accepted_with_every_line_enabled, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_the_data_plane_is_chosen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_trusted_networks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_long_address_is_refused, setup, teardown),
        CT_TESTS(&program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
