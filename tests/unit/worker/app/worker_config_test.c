/* Tests hspmd-worker.yaml: devices, defaults, messages. */
#include "proto/base/size.h"
#include "tests/lib/configtests.h"
#include "worker/app/worker_config.h"
#include "worker/comm/mesh/mesh.h"

static struct hsp_arena *arena;

/* A file alone. */
static enum hsp_status parse(const char *text, size_t len, const char *name, struct hsp_arena *a,
                             void *ret, struct hsp_err *err)
{
    const struct hsp_layers l = {.name = name, .text = text, .len = len};
    return hsp_worker_config_load(&l, a, ret, err);
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

static void test_devices_are_read(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_worker_config c;
    const char *text = "node: a\ndevices:\n  - {kind: cpu, speed: 0.6, memory: 256MiB}\n  - {}\n";
    assert_ok(parse(text, strlen(text), "x", arena, &c, &err), &err);
    assert_int_equal(c.n_devices, 2);
    assert_true(c.devices[0].speed > 0.59 && c.devices[0].speed < 0.61);
    assert_int_equal(c.devices[0].mem_bytes, 256 << 20);
    assert_int_equal(c.devices[1].threads, 1);
    assert_string_equal(c.devices[1].kind, "cpu");
}

static void test_gpus_are_read(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_worker_config c;
    struct hsp_buf b;
    const char *text = "devices:\n  - {kind: cuda, index: 3, memory: 8GiB, speed: 1}\n"
                       "  - {kind: cuda, index: 3, memory: 70GiB}\n  - {kind: cuda}\n  - {}\n";
    assert_ok(parse(text, strlen(text), "x", arena, &c, &err), &err);
    assert_int_equal(c.n_devices, 4);
    assert_true(c.devices[0].gpu && c.devices[2].gpu && !c.devices[3].gpu);
    assert_string_equal(c.devices[0].kind, "cuda");
    assert_int_equal(c.devices[0].index, 3);
    assert_int_equal(c.devices[0].mem_bytes, UINT64_C(8) << 30);
    assert_true(c.devices[2].speed >= 1 && c.devices[2].speed <= 1);
    assert_int_equal(c.devices[2].index, 0);
    assert_int_equal(c.devices[2].mem_bytes, 0); /* the free memory */
    assert_int_equal(c.devices[2].threads, 1);
    hsp_buf_init(&b, 1 << 16);
    hsp_worker_config_print(&c, &b);
    const char *list =
        strstr(hsp_buf_cstr(&b), "  - {kind: cuda, index: 3, memory: 8GiB, speed: 1");
    assert_non_null(list); /* as it was written */
    struct hsp_worker_config again;
    assert_ok(parse((const char *)b.data, b.len, "x", arena, &again, &err), &err);
    assert_int_equal(again.devices[1].mem_bytes, UINT64_C(70) << 30);
    hsp_buf_fini(&b);
}

static void test_without_devices_there_is_one(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_worker_config c;
    assert_ok(parse("", 0, "x", arena, &c, &err), &err);
    assert_int_equal(c.n_devices, 1);
    assert_int_equal(c.devices[0].mem_bytes, 1 << 30);
}

static void test_leaving_and_audit(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_worker_config c;
    const char *text = "audit_dir: /var/audit\nleave_timeout: 1500ms\ntransport: tcp\n";
    assert_ok(parse("", 0, "x", arena, &c, &err), &err);
    assert_null(c.audit_dir);
    assert_null(c.state_dir); /* the agent's own choice */
    assert_int_equal(c.leave_timeout_ms, 90000);
    assert_int_equal(c.transport, HSP_MESH_AUTO);
    assert_string_equal(hsp_worker_transport(&c), "auto");
    assert_ok(parse(text, strlen(text), "x", arena, &c, &err), &err);
    assert_string_equal(c.audit_dir, "/var/audit");
    assert_int_equal(c.leave_timeout_ms, 1500);
    assert_int_equal(c.transport, HSP_MESH_TCP);
    assert_string_equal(hsp_worker_transport(&c), "tcp");
}

static void test_network(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_worker_config c;
    const char *told = NULL;
    const char *text =
        "advertise_address: 10.0.0.9\ndevices: [{}, {}, {}, {}]\nreplica_holders: 1\nnetwork:\n"
        "  - {name: eth0, devices: [3]}\n"
        "  - {name: ib0, gbit_per_s: 200, address: 10.1.0.1, devices: [0, 1]}\n";
    assert_ok(parse("", 0, "x", arena, &c, &err), &err);
    assert_int_equal(c.n_cards, 0);
    assert_string_equal(hsp_worker_listen(&c, 0, &told), "127.0.0.1");
    assert_string_equal(told, "");
    assert_ok(parse(text, strlen(text), "x", arena, &c, &err), &err);
    assert_int_equal(c.n_cards, 2);
    assert_near(c.cards[0].gbit_per_s, 0, 0);
    assert_near(c.cards[1].gbit_per_s, 200, 0);
    const uint32_t card[] = {1, 1, 0, 0, 0}; /* 2 and the replica holder 4 take turns */
    for (uint32_t d = 0; d < 5; d++) {
        assert_int_equal(c.card_of[d], card[d]);
        assert_int_equal(c.card_named[d], d != 2 && d != 4);
        const char *listen = hsp_worker_listen(&c, d, &told);
        assert_string_equal(listen, card[d] == 1 ? "10.1.0.1" : "127.0.0.1");
        assert_string_equal(told, card[d] == 1 ? "" : "10.0.0.9");
    }
}

/* `keepers` of older releases is read as replica_holders, in every layer. */
static void the_older_name_of_replica_holders_is_read(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_worker_config c;
    struct hsp_buf b;
    struct hsp_layers l = {.name = "x", .text = "\nkeepers: 1\n", .len = 12};
    assert_ok(parse("replica_holders: 3\n", 19, "x", arena, &c, &err), &err);
    assert_int_equal(c.n_replica_holders, 3);
    assert_ok(hsp_worker_config_load(&l, arena, &c, &err), &err);
    assert_int_equal(c.n_replica_holders, 1);
    hsp_buf_init(&b, 1 << 16);
    hsp_worker_config_print(&c, &b);
    assert_non_null(strstr(hsp_buf_cstr(&b), "\nreplica_holders: 1  # x:2\n"));
    assert_null(strstr(hsp_buf_cstr(&b), "keepers"));
    hsp_buf_fini(&b);
    assert_ok(hsp_layers_arg(&l, "keepers=4", arena, &err), &err);
    assert_ok(hsp_worker_config_load(&l, arena, &c, &err), &err);
    assert_int_equal(c.n_replica_holders, 4);
    assert_ok(hsp_layers_arg(&l, "replica_holders=0", arena, &err), &err);
    assert_int_equal(hsp_worker_config_load(&l, arena, &c, &err), HSP_EPARSE);
    assert_string_equal(err.msg, "command line:1:1: keepers: the older name of replica_holders, "
                                 "which is given too: delete keepers");
}

static const struct ct_wrong wrong_files[] = {
    {"replica_holders: 1\nkeepers: 1\n",
     ":2:10: keepers: the older name of replica_holders, which is given too: delete keepers"},
    {"network: 3\n", "list"},
    {"network: [{gbit_per_s: 1}]\n", "name"},
    {"network: [{name: eth0eth0eth0eth0}]\n", "1 to 15 letters"},
    {"network: [{name: \"a b\"}]\n", "1 to 15 letters"},
    {"network: [{name: a}, {name: a}]\n", "card a is given twice"},
    {"network: [{name: a, gbit_per_s: -1}]\n", "gbit_per_s"},
    {"network: [{name: a, address: 0.0.0.0}]\n", "that peers dial"},
    {"network: [{name: a, address: 10.0.0.1:7}]\n", "without a port"},
    {"network: [{name: a, devices: [1]}]\n", "1"},
    {"devices: [{}, {}]\nnetwork: [{name: a, devices: [1]}, {name: b, devices: [1]}]\n",
     "device 1 is near two cards"},
    {"devices: [{kind: tpu}]\n", "unknown device kind tpu: use cpu or cuda"},
    {"devices: [{kind: cuda, threads: 2}]\n", "threads"},
    {"devices: [{kind: cuda, speed: 0.5}]\n", "speed"},
    {"devices: [{kind: cuda, index: -1}]\n", "index"},
    {"devices: [{kind: cuda, index: 256}]\n", "index"},
    {"devices: [{index: 1}]\n", "index"},
    {"devices: [{kind: cuda, memory: 1GiB}, {kind: cuda}]\n",
     "GPU 0 is named by several devices: each needs a memory"},
    {"devices: []\n", "0 devices"},
    {"devices: [{sped: 1}]\n", "speed"},
    {"devices: [{speed: 0}]\n", "speed"},
    {"coordinater: x\n", "coordinator"},
    {"leave_timeout: 0s\n", "leave_timeout"},
    {"listen: 0.0.0.0\n", "needs advertise_address"},

};

static enum hsp_status load(const struct hsp_layers *l, struct hsp_arena *a, void *ret,
                            struct hsp_err *err)
{
    return hsp_worker_config_load(l, a, ret, err);
}

static void print(const void *c, struct hsp_buf *out)
{
    hsp_worker_config_print(c, out);
}

static struct ct_program program = {
    .file = "conf/hspmd-worker.yaml",
    .prefix = "HSPMD_WORKER_",
    .time = "leave_timeout",
    .was = "90s",
    .set = "5s",
    .untouched = "key: /etc/hspmd/worker.key  # default\n",
    .wrong = wrong_files,
    .n_wrong = HSP_ARRAY_LEN(wrong_files),
    .size = sizeof(struct hsp_worker_config),
    .load = load,
    .parse = parse,
    .print = print,
    .example = hsp_worker_config_example,
    .fields = hsp_worker_config_fields,
};

HSP_TEST_FILE(worker_config_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_devices_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gpus_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_devices_there_is_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leaving_and_audit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_network, setup, teardown),
        cmocka_unit_test_setup_teardown(the_older_name_of_replica_holders_is_read, setup, teardown),
        CT_TESTS(&program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
