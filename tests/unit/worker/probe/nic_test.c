/* Tests the search for the network card with an address, in a folder that mimics /sys/class/net. */
#include "worker/probe/nic.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/testlib.h"

static char *dir;

static int setup(void **state)
{
    (void)state;
    dir = hsp_test_tmpdir();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    hsp_test_rmdir(dir);
    free(dir);
    return 0;
}

static void put(const char *file, const char *text)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/lo", dir);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof path, "%s/lo/%s", dir, file);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* The loopback interface stands for a card: every host has it, under this name. */
static void test_the_card_of_an_address(void **state)
{
    (void)state;
    struct hsp_netcard c;
    put("operstate", "up\n");
    assert_false(hsp_netcard_find(dir, "127.0.0.1", &c)); /* without a device it is no card */
    put("device", "");
    assert_true(hsp_netcard_find(dir, "127.0.0.1", &c));
    assert_string_equal(c.name, "lo");
    assert_near(c.gbit_per_s, 0, 0);
    put("speed", "-1\n");
    assert_true(hsp_netcard_find(dir, "127.0.0.1", &c));
    assert_near(c.gbit_per_s, 0, 0);
    put("speed", "2500\n");
    assert_true(hsp_netcard_find(dir, "127.0.0.1", &c));
    assert_near(c.gbit_per_s, 2.5, 1e-12);
    put("operstate", "down\n");
    assert_false(hsp_netcard_find(dir, "127.0.0.1", &c));
}

static void test_no_card_of_ours(void **state)
{
    (void)state;
    struct hsp_netcard c;
    assert_false(hsp_netcard_find(dir, "192.0.2.1", &c)); /* of documentation: nobody has it */
    assert_false(hsp_netcard_find(dir, "gpu-17", &c));
    assert_false(hsp_netcard_find("/nonexistent", "127.0.0.1", &c));
    assert_false(hsp_netcard_find("/sys/class/net", "127.0.0.1", &c));
}

/* Makes a folder below the fake of /sys, with its parent folders. */
static void make(const char *folder)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s/", dir, folder);
    for (char *s = path + strlen(dir) + 1; *s != '\0'; s++) {
        if (*s == '/') {
            *s = '\0';
            (void)mkdir(path, 0700);
            *s = '/';
        }
    }
}

static void test_rdma_devices_of_a_card(void **state)
{
    (void)state;
    struct hsp_nccl_card c;
    hsp_netcard_rdma(dir, "eth0", &c);
    assert_true(!c.here && c.n_rdma == 0);
    make("eth0");
    hsp_netcard_rdma(dir, "eth0", &c);
    assert_true(c.here && c.n_rdma == 0);
    assert_string_equal(c.name, "eth0");
    make("eth0/device/infiniband/mlx5_1");
    make("eth0/device/infiniband/mlx5_0");
    hsp_netcard_rdma(dir, "eth0", &c);
    assert_int_equal(c.n_rdma, 2);
    assert_string_equal(c.rdma[0], "mlx5_0");
    assert_string_equal(c.rdma[1], "mlx5_1");
    make(
        "bond0/lower_eth0/device/infiniband/mlx5_0"); /* two cards of one device, and another one */
    make("bond0/lower_eth1/device/infiniband/mlx5_0");
    make("bond0/lower_eth2/device/infiniband/mlx4_0");
    make("bond0/upper_eth3/device/infiniband/mlx9_9");
    hsp_netcard_rdma(dir, "bond0", &c);
    assert_int_equal(c.n_rdma, 2);
    assert_string_equal(c.rdma[0], "mlx4_0");
    assert_string_equal(c.rdma[1], "mlx5_0");
    make("bond0.100/lower_bond0/lower_eth0/device/infiniband/mlx5_7"); /* a VLAN on a bond */
    hsp_netcard_rdma(dir, "bond0.100", &c);
    assert_int_equal(c.n_rdma, 1);
    assert_string_equal(c.rdma[0], "mlx5_7");
    char loop[4096];
    make("bond9/device/infiniband/mlx5_9");
    (void)snprintf(loop, sizeof loop, "%s/bond9/lower_bond9", dir);
    assert_int_equal(symlink(".", loop), 0); /* no kernel shows that: it ends, too */
    hsp_netcard_rdma(dir, "bond9", &c);
    assert_int_equal(c.n_rdma, 1);
    for (int i = 0; i < 12; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "eth0/device/infiniband/x%d", i);
        make(name);
    }
    hsp_netcard_rdma(dir, "eth0", &c);
    assert_int_equal(c.n_rdma, HSP_NCCL_CARD_RDMA);
}

HSP_TEST_FILE(nic_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_card_of_an_address, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rdma_devices_of_a_card, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_card_of_ours, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
