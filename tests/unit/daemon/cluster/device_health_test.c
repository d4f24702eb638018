/* Tests devices that are not well, and the notes about GPUs. */
#include "daemon/cluster/health.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/paths.h"
#include "tests/unit/daemon/cluster/cluster_world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void health(struct cw_world *w, uint32_t node, enum hsp_health h, const char *why)
{
    cw_msg(
        w, node + 1,
        (struct hsp_msg){.type = HSP_MSG_DEVICE_HEALTH, .u.health = {.health = h, .reason = why}});
}

static void hello(struct cw_world *w, uint32_t conn, struct hsp_m_hello h)
{
    h.protocol = HSP_PROTO_VERSION;
    h.node = "gpu";
    h.address = "";
    cw_msg(w, conn, (struct hsp_msg){.type = HSP_MSG_HELLO, .u.hello = h});
}

static void gpus_are_noted(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_m_device dev[2] = {{.kind = "cuda",
                                   .up = true,
                                   .address = "x",
                                   .n_gemm_parts = 4,
                                   .gemm_parts = (double[]){1, 0.5, (double)NAN, 1e9},
                                   .model = "NVIDIA H200",
                                   .uuid = "GPU-1",
                                   .sm = 90,
                                   .cpus = "0-7"},
                                  {.index = 1, .kind = "cpu", .up = true, .address = "y"}};
    struct hsp_m_path path[6] = {
        {0, 1, HSP_PATH_NVLINK, 4, 75e9, 0},   {1, 0, HSP_PATH_NVLINK, 4, 75e9, 0},
        {0, 2, HSP_PATH_NVLINK, 4, 75e9, 0},   {0, 1, HSP_PATH_NVLINK, 4, (double)NAN, 0},
        {0, 1, HSP_PATH_NVLINK, 4, 1e-300, 0}, {0, 1, HSP_PATH_NVLINK, 4, 75e9, 1e300}};
    cw_begin(&w, 0, 0);
    hello(&w, 11,
          (struct hsp_m_hello){.n_devices = 2, .devices = dev, .n_paths = 6, .paths = path});
    const struct hsp_cluster_node *n = hsp_cluster_node_by_name(w.c, "gpu");
    static const double parts[HSP_GEMM_PARTS] = {1, 0.5, 0, 4}; /* as far as it is believed */
    assert_memory_equal(n->dev[0].gemm_part, parts, sizeof parts);
    assert_string_equal(n->dev[0].note->model, "NVIDIA H200");
    assert_string_equal(n->dev[0].note->uuid, "GPU-1");
    assert_string_equal(n->dev[0].note->cpus, "0-7");
    assert_int_equal(n->dev[0].note->sm, 90);
    assert_null(n->dev[1].note);
    assert_int_equal(n->n_paths, 1); /* the others make no sense */
    assert_string_equal(hsp_path_kind_name((enum hsp_path_kind)n->paths[0].kind), "nvlink");
    /* said again: the same, and nothing is told */
    uint64_t incarnation = n->incarnation;
    hello(&w, 11,
          (struct hsp_m_hello){
              .incarnation = cw_secret(incarnation), .n_devices = 2, .devices = dev});
    assert_int_equal(n->n_paths, 0);
    assert_null(cw_fact(&w, "device.fine"));
    /* a new agent, whose node has none */
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 11});
    dev[0] = (struct hsp_m_device){.kind = "cpu", .up = true, .address = "x"};
    hello(&w, 12, (struct hsp_m_hello){.was = n->secret, .n_devices = 1, .devices = dev});
    assert_null(n->dev[0].note);
    cw_end(&w);
}

/* An agent may say the same for ever, or change its mind with each message: that fills no log. */
static void health_is_told_once(void **state)
{
    (void)state;
    struct cw_world w;
    uint32_t told = 0;
    char why[HSP_WHY_MAX + 40];
    memset(why, 'x', sizeof why);
    why[sizeof why - 1] = '\0';
    cw_begin(&w, 3, 1);
    for (int i = 0; i < 20; i++) {
        health(&w, 0, HSP_HEALTH_FINE, "");
        assert_null(cw_fact(&w, "device.fine"));
        health(&w, 1, HSP_HEALTH_WARN, why); /* longer than it is noted */
        told += cw_fact(&w, "device.warn") != NULL;
    }
    assert_int_equal(told, 1);
    for (int i = 0; i < 100; i++) {
        health(&w, 1, HSP_HEALTH_CORDON, "XID 48");
        told += cw_fact(&w, "device.cordon") != NULL;
        health(&w, 1, HSP_HEALTH_FINE, "");
        told += cw_fact(&w, "device.fine") != NULL;
    }
    assert_true(told >= 4 && told < 20);
    assert_int_equal(w.c->nodes[1].dev[0].health, HSP_HEALTH_FINE);
    health(&w, 1, HSP_HEALTH_LOST, "XID 79");
    assert_non_null(cw_fact(&w, "device.lost"));
    health(&w, 1, HSP_HEALTH_FINE, "");
    w.now += 60000;
    health(&w, 1, HSP_HEALTH_WARN, "XID 31");
    assert_non_null(cw_fact(&w, "device.warn"));
    cw_end(&w);
}

static void health_is_told(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    cw_run_job(&w, 3);
    const struct hsp_cluster_node *n = &w.c->nodes[1];
    health(&w, 1, HSP_HEALTH_WARN, "XID 31: page fault of a kernel");
    assert_string_equal(cw_fact(&w, "device.warn"), "n1/0: XID 31: page fault of a kernel");
    assert_true(hsp_cluster_offers(n, 0));
    assert_null(cw_find(&w, HSP_ACT_START_PLAN));
    health(&w, 1, HSP_HEALTH_FINE, "");
    assert_string_equal(cw_fact(&w, "device.fine"), "n1/0");
    assert_string_equal(hsp_device_why(&n->dev[0]), "");
    health(&w, 1, HSP_HEALTH_CORDON, "XID 48: uncorrectable memory error");
    assert_string_equal(cw_fact(&w, "device.cordon"), "n1/0: XID 48: uncorrectable memory error");
    assert_false(hsp_cluster_offers(n, 0));
    assert_int_equal(w.n_asked, 2); /* planning, without it */
    assert_string_equal(cw_job(&w, 1)->cause, "cordon of n1/0: XID 48: uncorrectable memory error");
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    health(&w, 1, HSP_HEALTH_LOST, "XID 79: fallen off the bus");
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
    assert_string_equal(cw_job(&w, 1)->cause, "device n1/0: XID 79: fallen off the bus");
    assert_string_equal(hsp_device_why(&n->dev[0]), "XID 79: fallen off the bus");
    struct hsp_buf text;
    cw_text(&w, &text);
    assert_non_null(strstr(hsp_buf_cstr(&text), "0 up lost job 1"));
    hsp_buf_fini(&text);
    cw_end(&w);
}

/* ---- domains ---- */

static struct hsp_cluster_node node;
static struct hsp_m_path paths[HSP_NODE_PATHS];

static void begin(void)
{
    memset(&node, 0, sizeof(node));
    node.paths = paths;
}

static void link(uint32_t a, uint32_t b, enum hsp_path_kind kind, double rate)
{
    paths[node.n_paths++] = (struct hsp_m_path){a, b, kind, 1, rate, 1 + a};
}

static void domains_are(const char *expected)
{
    uint32_t d[HSP_NODE_DEVICES];
    double rate[HSP_NODE_DEVICES], us[HSP_NODE_DEVICES];
    char text[8 * HSP_NODE_DEVICES] = "";
    hsp_node_domains(&node, d, rate, us);
    for (uint32_t i = 0; i < 8; i++) {
        size_t n = strlen(text);
        assert_true(d[i] != 0 || (rate[i] == 0 && us[i] == 0));
        assert_true(d[i] == 0 || us[i] >= 1);
        (void)snprintf(text + n, sizeof(text) - n, d[i] != 0 ? "%u:%.0f " : "- ", d[i], rate[i]);
    }
    assert_string_equal(text, expected);
}

static void fast_domains(void **state)
{
    (void)state;
    begin();
    domains_are("- - - - - - - - ");
    link(0, 1, HSP_PATH_NVLINK, 50);
    link(2, 3, HSP_PATH_NVLINK, 25);
    link(0, 2, HSP_PATH_NUMA, 0);
    domains_are("1:50 1:50 2:25 2:25 - - - - ");
    /* switches: all with all, as fast as the slowest */
    begin();
    for (uint32_t b = 1; b < 8; b++) {
        for (uint32_t a = 0; a < b; a++) {
            link(a, b, HSP_PATH_NVSWITCH, b == 7 ? 300 : 400);
        }
    }
    domains_are("1:300 1:300 1:300 1:300 1:300 1:300 1:300 1:300 ");
    /* a cube mesh: two quads, and each device one of the other */
    begin();
    for (uint32_t q = 0; q < 8; q += 4) {
        for (uint32_t b = 1; b < 4; b++) {
            for (uint32_t a = 0; a < b; a++) {
                link(q + a, q + b, HSP_PATH_NVLINK, 25);
            }
        }
    }
    for (uint32_t a = 0; a < 4; a++) {
        link(a, a + 4, HSP_PATH_NVLINK, 25);
    }
    domains_are("1:25 1:25 1:25 1:25 2:25 2:25 2:25 2:25 ");
    /* without NVLink: measured paths, as fast as the slowest and as late as the latest of them */
    begin();
    link(0, 1, HSP_PATH_PCI_SWITCH, 20);
    link(0, 2, HSP_PATH_SYSTEM, 0);
    domains_are("1:20 1:20 - - - - - - ");
    paths[1].bytes_per_s = 12;
    link(1, 2, HSP_PATH_SYSTEM, 15);
    domains_are("1:12 1:12 1:12 - - - - - ");
    uint32_t d[HSP_NODE_DEVICES];
    double rate[HSP_NODE_DEVICES], us[HSP_NODE_DEVICES];
    hsp_node_domains(&node, d, rate, us);
    assert_true(us[0] == 2 && us[2] == 2 && us[3] == 0);
    /* with NVLink the measured paths make none */
    link(2, 3, HSP_PATH_NVLINK, 100);
    domains_are("1:20 1:20 2:100 2:100 - - - - ");
    /* a chain: its ends do not reach each other */
    begin();
    link(0, 1, HSP_PATH_NVLINK, 25);
    link(1, 2, HSP_PATH_NVLINK, 25);
    domains_are("1:25 1:25 - - - - - - ");
}

HSP_TEST_FILE(device_health_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_are_noted),
        cmocka_unit_test(health_is_told_once),
        cmocka_unit_test(health_is_told),
        cmocka_unit_test(fast_domains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
