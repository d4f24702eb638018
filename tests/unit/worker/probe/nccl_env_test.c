/* Tests the words of an executor's environment to NCCL on the network. */
#include "worker/probe/nccl_env.h"

#include <stdio.h>

#include "tests/lib/testlib.h"

static struct hsp_arena *arena;

static int setup(void **state)
{
    (void)state;
    arena = hsp_arena_new(4 << 20);
    return arena == NULL;
}

static int teardown(void **state)
{
    (void)state;
    arena = hsp_arena_free(arena);
    return 0;
}

static const struct hsp_nccl_card cards[] = {
    {.name = "eth0", .here = true, .n_rdma = 1, .rdma = {"mlx5_0"}},
    {.name = "bond1", .here = true, .n_rdma = 2, .rdma = {"mlx5_1", "mlx5_2"}},
    {.name = "eth9"}, /* not of this host */
};

/* Its variables of NCCL, one a line; the log's text behind them. */
static const char *made(const struct hsp_nccl_env_opts *o)
{
    static char all[4096];
    struct hsp_err err = {0};
    char *const *env = NULL;
    const char *told = NULL;
    assert_ok(hsp_nccl_env_make(o, arena, &env, &told, &err), &err);
    all[0] = '\0';
    for (size_t i = 0; env[i] != NULL; i++) {
        if (strncmp(env[i], "NCCL_", 5) == 0) {
            (void)snprintf(all + strlen(all), sizeof all - strlen(all), "%s\n", env[i]);
        }
    }
    (void)snprintf(all + strlen(all), sizeof all - strlen(all), "%s", told);
    return all;
}

static void the_card_of_the_device_and_rdma_of_all(void **state)
{
    static char path[] = "PATH=/bin", *env[] = {path, NULL};
    struct hsp_nccl_env_opts o = {.env = env, .card = cards, .n_cards = 2};
    (void)state;
    assert_string_equal(made(&o), "NCCL_SOCKET_IFNAME==eth0\nNCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2\n"
                                  "NCCL_NET_DISABLE_INTRA=1\nNCCL_ENV_PLUGIN=none\n"
                                  "NCCL_SOCKET_IFNAME =eth0, NCCL_IB_HCA =mlx5_0,mlx5_1,mlx5_2");
    o.own = 1;
    assert_non_null(
        strstr(made(&o), "NCCL_SOCKET_IFNAME==bond1\nNCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2\n"));
    o.n_cards = 3;
    o.own = 2; /* a card that is not here: NCCL would find nothing */
    assert_string_equal(
        made(&o),
        "NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2\nNCCL_NET_DISABLE_INTRA=1\nNCCL_ENV_PLUGIN=none\n"
        "NCCL_IB_HCA =mlx5_0,mlx5_1,mlx5_2");
    o.card = &cards[2];
    o.n_cards = 1;
    o.own = 0;
    assert_string_equal(made(&o), "NCCL_NET_DISABLE_INTRA=1\nNCCL_ENV_PLUGIN=none\n");
    o.n_cards = 0; /* peers dial the loopback */
    assert_string_equal(made(&o), "NCCL_NET_DISABLE_INTRA=1\nNCCL_ENV_PLUGIN=none\n");
}

static void what_is_set_stays(void **state)
{
    static char v[5][32] = {"NCCL_SOCKET_IFNAME=ib", "NCCL_NET_DISABLE_INTRA=0", "NCCL_IB_HCAX=1",
                            "XNCCL_SOCKET_IFNAME=1", "NCCL_IB_HCA="};
    char *set[] = {v[0], v[1], NULL};
    char *like[] = {v[2], v[3], v[4], NULL};
    struct hsp_nccl_env_opts o = {.env = set, .card = cards, .n_cards = 1};
    (void)state;
    assert_string_equal(made(&o), "NCCL_SOCKET_IFNAME=ib\nNCCL_NET_DISABLE_INTRA=0\n"
                                  "NCCL_IB_HCA==mlx5_0\nNCCL_ENV_PLUGIN=none\nNCCL_IB_HCA =mlx5_0");
    o.env = like; /* an empty text is set, too */
    assert_string_equal(made(&o),
                        "NCCL_IB_HCAX=1\nNCCL_IB_HCA=\nNCCL_SOCKET_IFNAME==eth0\n"
                        "NCCL_NET_DISABLE_INTRA=1\nNCCL_ENV_PLUGIN=none\nNCCL_SOCKET_IFNAME =eth0");
}

static void files_of_nccl_come_between(void **state)
{
    static char debug[] = "NCCL_DEBUG=WARN", *env[] = {debug, NULL};
    struct hsp_nccl_env_opts o = {.env = env,
                                  .conf = {"# mine\nNCCL_SOCKET_IFNAME=eth7\nNCCL_DEBUG=INFO\n",
                                           "NCCL_SOCKET_IFNAME=eth8\nPATH=/tmp\nNCCL_BROKEN\n"
                                           "NCCL_IB_DISABLE=1"},
                                  .card = cards,
                                  .n_cards = 1};
    struct hsp_err err = {0};
    char *const *all = NULL;
    const char *told = NULL;
    (void)state;
    assert_string_equal(made(&o),
                        "NCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME=eth7\nNCCL_IB_DISABLE=1\n"
                        "NCCL_IB_HCA==mlx5_0\nNCCL_NET_DISABLE_INTRA=1\nNCCL_ENV_PLUGIN=none\n"
                        "NCCL_IB_HCA =mlx5_0");
    assert_ok(hsp_nccl_env_make(&o, arena, &all, &told, &err), &err);
    for (size_t i = 0; all[i] != NULL; i++) {
        assert_true(strncmp(all[i], "PATH=", 5) != 0); /* in NCCL's file */
    }
}

static void long_environments(void **state)
{
    static char *env[HSP_NCCL_ENV_MAX], text[HSP_NCCL_ENV_MAX][16];
    char *const *ret = NULL;
    const char *told = NULL;
    struct hsp_nccl_env_opts o = {.env = env, .card = cards, .n_cards = 1};
    struct hsp_err err = {0};
    (void)state;
    for (unsigned i = 0; i < HSP_NCCL_ENV_MAX - 8; i++) {
        (void)snprintf(text[i], sizeof text[i], "V%u=1", i);
        env[i] = text[i];
    }
    assert_ok(hsp_nccl_env_make(&o, arena, &ret, &told, &err), &err);
    assert_string_equal(ret[HSP_NCCL_ENV_MAX - 8], "NCCL_SOCKET_IFNAME==eth0");
    o.conf[0] = "NCCL_A=1\nNCCL_B=1\nNCCL_C=1"; /* with the four that we set they fill it */
    assert_ok(hsp_nccl_env_make(&o, arena, &ret, &told, &err), &err);
    assert_string_equal(ret[HSP_NCCL_ENV_MAX - 2], "NCCL_ENV_PLUGIN=none");
    assert_null(ret[HSP_NCCL_ENV_MAX - 1]);
    o.conf[1] = "NCCL_C=2";
    assert_ok(hsp_nccl_env_make(&o, arena, &ret, &told, &err), &err);
    o.conf[1] = "NCCL_D=1"; /* nothing is left out silently */
    assert_status(hsp_nccl_env_make(&o, arena, &ret, &told, &err), HSP_ELIMIT);
    assert_err(&err, HSP_ELIMIT, "more than 4095 variables with those of NCCL's files");
    env[HSP_NCCL_ENV_MAX - 8] = text[0];
    assert_status(hsp_nccl_env_make(&o, arena, &ret, &told, &err), HSP_ELIMIT);
}

HSP_TEST_FILE(nccl_env_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_card_of_the_device_and_rdma_of_all, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_set_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(files_of_nccl_come_between, setup, teardown),
        cmocka_unit_test_setup_teardown(long_environments, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
