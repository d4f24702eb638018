/* Tests the links that a START_PLAN plans with: as nodes have measured them, as the paths among
 * GPUs are, and by the network cards of the hellos. */
#include "daemon/app/plans/plan_request.h"

#include <stdio.h>

#include "daemon/planner/links.h"
#include "proto/base/size.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/app/app_lib.h"

#define GIB ((uint64_t)1 << 30)

static const struct app_node nodes[] = {
    {"w10", 1.0, GIB}, {"w2", 0.5, GIB}, {"w1", 0.25, GIB}, {"w3", 1.0, GIB}};
enum { W10 = 0, W2 = 16, W1 = 32, W3 = 48 };
static hsp_device_id all[] = {W10, W2, W1, W3};

/* The link among @devices as planning sees it. */
static struct hsp_link_cost link_among(const struct hsp_cluster *c, const hsp_device_id *devices,
                                       uint32_t n, struct hsp_arena *arena)
{
    struct hsp_err err = {0};
    struct hsp_cluster_desc d;
    hsp_device_id *id;
    const uint32_t index[] = {0, 1, 2, 3};
    assert_ok(hsp_cluster_describe(c, devices, NULL, n, arena, &d, &id, &err), &err);
    assert_near(d.same_node.latency_us, 4, 1e-12);
    assert_near(d.same_node.us_per_byte, 5e-4, 1e-15);
    return hsp_link_group(&d, index, n);
}

#define assert_link(devices, latency, per_byte)                                            \
    do {                                                                                   \
        struct hsp_link_cost l_ = link_among(c, (devices), HSP_ARRAY_LEN(devices), arena); \
        assert_near(l_.latency_us, (latency), 1e-9);                                       \
        assert_near(l_.us_per_byte, (per_byte), 1e-12);                                    \
    } while (0)

/* Loopback figures of 4 us and 2 GB/s; w10, w2 and w1 have measured. */
static void test_links_between_nodes_are_those_measured(void **state)
{
    (void)state;
    struct hsp_cluster *c = app_cluster(nodes, 4);
    struct hsp_arena *arena = hsp_arena_new((size_t)1 << 20);
    for (uint32_t i = 0; i < 4; i++) {
        c->nodes[i].same_latency_us = c->nodes[i].cross_latency_us = 4;
        c->nodes[i].same_us_per_byte = c->nodes[i].cross_us_per_byte = 5e-4;
    }
    const hsp_device_id pair[] = {W10, W2}, unknown[] = {W10, W3}, joined[] = {W10, W2, W3},
                        fast[] = {W10, W1};
    const hsp_device_id one[] = {W2, W2 + 1};
    assert_link(pair, 4, 5e-4); /* nobody has measured */
    c->nodes[0].measured = c->nodes[1].measured = c->nodes[2].measured = true;
    c->nodes[0].uplink = (struct hsp_m_uplink){100e-6, 1e8};
    c->nodes[1].uplink = (struct hsp_m_uplink){300e-6, 1e7};
    c->nodes[2].uplink = (struct hsp_m_uplink){1e-6, 1e10}; /* better than loopback */
    assert_link(pair, 200, 0.1);
    assert_link(unknown, 4, 5e-4); /* both ends must be known */
    assert_link(fast, 50.5, 1e-2); /* each pair has its own */
    assert_link(all, 200, 0.1);    /* the worst pair */
    struct hsp_broken_pair pairs[] = {{.a = 0, .b = 1}, {.a = 0, .b = 2, .bytes_per_s = 1e6}};
    c->pairs = pairs;
    c->n_pairs = 2;
    assert_link(pair, 200, 0.1);
    assert_link(fast, 50.5, 1); /* as it was measured last */
    assert_link(all, 200, 1);
    c->pairs = NULL;
    c->n_pairs = 0;
    char *first = c->nodes[0].dev[0].address, *second = c->nodes[1].dev[0].address;
    const size_t size = sizeof c->nodes[0].dev[0].address;
    (void)snprintf(first, size, "127.0.0.1:4,unix:hspmd-mesh.00ab.17"); /* one host: no network */
    (void)snprintf(second, size, "10.0.0.2:5,unix:hspmd-mesh.00ab.35");
    assert_link(pair, 4, 5e-4);
    assert_link(joined, 4, 5e-4); /* w3 has just come: nobody knows where it is */
    (void)snprintf(second, size, "10.0.0.2:5,unix:hspmd-mesh.00ac.35");
    assert_link(pair, 200, 0.1);
    (void)snprintf(second, size, "127.0.0.1:5"); /* by TCP, but on one host all the same */
    assert_link(pair, 4, 5e-4);
    assert_link(all, 150.5, 0.1); /* w2 to those elsewhere */
    (void)snprintf(second, size, "127.0.0.11:4");
    assert_link(pair, 200, 0.1);
    c->nodes[0].uplink = c->nodes[2].uplink;
    assert_link(fast, 4, 5e-4);
    c->nodes[1].dev[1] = c->nodes[1].dev[0];
    assert_link(one, 4, 5e-4); /* no pair of nodes */
    (void)hsp_arena_free(arena);
    app_cluster_free(c);
}

/* Describes the @n devices of @list: @ret has them in the order of @list. */
static void describe(const struct hsp_cluster *c, const hsp_device_id *list, uint32_t n,
                     struct hsp_device_desc *ret)
{
    struct hsp_arena *arena = hsp_arena_new((size_t)1 << 20);
    struct hsp_err err = {0};
    struct hsp_cluster_desc d;
    hsp_device_id *id;
    assert_ok(hsp_cluster_describe(c, list, NULL, n, arena, &d, &id, &err), &err);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < n; k++) {
            ret[i] = id[k] == list[i] ? d.dev[k] : ret[i];
        }
    }
    (void)hsp_arena_free(arena);
}

/* A node that tells of NVLink pairs: its fast domains; another one of the same has its own. */
static void test_domains_are_those_of_the_paths(void **state)
{
    (void)state;
    struct hsp_cluster *c = app_cluster(nodes, 4);
    struct hsp_m_path path[] = {{0, 1, HSP_PATH_NVLINK, 4, 8e10, 0},
                                {0, 2, HSP_PATH_NUMA, 0, 0, 0},
                                {2, 3, HSP_PATH_NVSWITCH, 4, 0, 0}};
    for (uint32_t k = 1; k < 4; k++) {
        c->nodes[0].dev[k] = c->nodes[0].dev[0];
    }
    c->nodes[1].dev[1] = c->nodes[1].dev[0];
    c->nodes[0].paths = path;
    c->nodes[0].n_paths = 3;
    c->nodes[1].paths = path;
    c->nodes[1].n_paths = 1;
    const hsp_device_id list[] = {W10, W10 + 1, W10 + 2, W10 + 3, W2, W2 + 1, W1};
    struct hsp_device_desc of[7] = {{.node = 0}};
    describe(c, list, 7, of);
    assert_true(of[0].domain != 0 && of[0].domain == of[1].domain);
    assert_true(of[2].domain != 0 && of[2].domain == of[3].domain);
    assert_true(of[4].domain != 0 && of[4].domain == of[5].domain);
    assert_true(of[0].domain != of[2].domain && of[0].domain != of[4].domain);
    assert_int_equal(of[6].domain, 0);
    assert_near(of[0].fast.us_per_byte, 1e6 / 8e10, 1e-15);
    assert_near(of[2].fast.us_per_byte, 1e6 / 2e10, 1e-15); /* nobody knows: a single link */
    c->nodes[0].paths = c->nodes[1].paths = NULL;
    app_cluster_free(c);
}

/* Each device by its card: cards of one name on two nodes of one host are one card. */
static void test_cards_are_those_of_the_hellos(void **state)
{
    (void)state;
    struct hsp_cluster *c = app_cluster(nodes, 4);
    struct hsp_cluster_node *w10 = &c->nodes[0], *w2 = &c->nodes[1], *w1 = &c->nodes[2];
    w10->n_cards = w2->n_cards = w1->n_cards = 2;
    w10->card[0] = w2->card[1] = w1->card[0] = (struct hsp_node_card){"eth0", 10};
    w10->card[1] = w2->card[0] = (struct hsp_node_card){"ib0", 100};
    w1->card[1] = (struct hsp_node_card){"ib1", 0};
    w10->dev[1] = w10->dev[0];
    w2->dev[1] = w2->dev[0];
    w10->dev[1].profile.card = w2->dev[1].profile.card = w1->dev[0].profile.card = 1;
    w10->measured = w2->measured = w1->measured = true;
    w10->uplink = w2->uplink = w1->uplink = (struct hsp_m_uplink){1e-4, 1e12};
    const char *local[] = {"127.0.0.1:4,unix:m.ab.17", "127.0.0.1:5,unix:m.ab.18", "10.0.0.1:4"};
    for (uint32_t i = 0; i < 3; i++) {
        (void)snprintf(c->nodes[i].dev[0].address, HSP_ADDRESS_MAX, "%s", local[i]);
    }
    const hsp_device_id list[] = {W10, W10 + 1, W2, W2 + 1, W1, W3};
    struct hsp_device_desc of[6] = {{.node = 0}};
    describe(c, list, 6, of);
    assert_int_equal(of[0].nic, of[3].nic); /* eth0 of both */
    assert_int_equal(of[1].nic, of[2].nic);
    assert_int_not_equal(of[0].nic, of[1].nic);
    assert_int_not_equal(of[4].host, of[0].host);
    assert_near(of[0].nic_us_per_byte, 8e-4, 1e-15);
    assert_near(of[1].nic_us_per_byte, 8e-5, 1e-15);
    assert_near(of[4].nic_us_per_byte, 0, 0); /* ib1 does not say how fast it is */
    assert_near(of[5].nic_us_per_byte, 0, 0); /* w3 has told of none */
    app_cluster_free(c);
}

HSP_TEST_FILE(plan_links_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_links_between_nodes_are_those_measured),
        cmocka_unit_test(test_domains_are_those_of_the_paths),
        cmocka_unit_test(test_cards_are_those_of_the_hellos),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
