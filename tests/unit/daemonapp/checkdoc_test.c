/* What a check of nodes answers, for figures of every kind: tests/golden/nodecheck/doc.json. */
#include "daemon/app/checkdoc.h"

#include <stdio.h>

#include "proto/base/size.h"
#include "tests/lib/golden.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemonapp/applib.h"

#define GIB ((uint64_t)1 << 30)

static const struct app_node nodes[] = {{"good", 1.0, GIB},
                                        {"slow", 0.5, GIB},
                                        {"crowded", 1.0, GIB},
                                        {"busy", 1.0, GIB},
                                        {"gone", 1.0, GIB}};
enum { N = HSP_ARRAY_LEN(nodes) };

/* Device 0 at @part of what is on record, with its core for @share of the time. */
static void measured(struct hsp_cluster *c, uint32_t at, double part, double share)
{
    const struct hsp_m_device *p = &c->nodes[at].dev[0].profile;
    struct hsp_check_node *k = &c->check.nodes[at];
    k->state = HSP_CHECK_DONE;
    k->n_devices = 1;
    k->devices[0] = (struct hsp_m_figures){.gemm_fp32_flops = part * p->gemm_fp32_flops,
                                           .gemm_fp64_flops = p->gemm_fp64_flops,
                                           .mem_bytes_per_s = 1.25 * p->mem_bytes_per_s,
                                           .op_us = p->op_us,
                                           .share = share};
}

static struct hsp_check_pair link_of(uint32_t a, uint32_t b, double latency_s, double there,
                                     double back)
{
    return (struct hsp_check_pair){.a = a,
                                   .b = b,
                                   .state = HSP_CHECK_DONE,
                                   .transport = "tls",
                                   .end = {{true, latency_s, there}, {true, latency_s, back}}};
}

static struct hsp_cluster *world(void)
{
    struct hsp_cluster *c = app_cluster(nodes, N);
    c->check.nodes = calloc(N, sizeof *c->check.nodes);
    c->check.pairs = calloc((size_t)N * N, sizeof *c->check.pairs);
    assert_true(c->check.nodes != NULL && c->check.pairs != NULL);
    c->check.terms.threshold = 0.5;
    c->check.n_nodes = N;
    for (uint32_t i = 0; i < N; i++) {
        c->check.nodes[i].node = i;
        c->nodes[i].cross_latency_us = 8;
        c->nodes[i].cross_us_per_byte = 1e-3; /* 1 GB/s */
    }
    return c;
}

static void end(struct hsp_cluster *c)
{
    free(c->check.nodes);
    free(c->check.pairs);
    app_cluster_free(c);
}

static void all_kinds(void **state)
{
    (void)state;
    struct hsp_cluster *c = world();
    struct hsp_check_sum s;
    struct hsp_buf text;
    measured(c, 0, 0.75, 1);
    measured(c, 1, 0.25, 1);
    measured(c, 2, 1, 0.375);
    c->check.nodes[3].state = HSP_CHECK_SKIPPED;
    c->check.nodes[4].state = HSP_CHECK_FAILED;
    (void)snprintf(c->check.nodes[3].why, sizeof c->check.nodes[3].why, "busy executes job x");
    (void)snprintf(c->check.nodes[4].why, sizeof c->check.nodes[4].why, "gone is not connected");
    struct hsp_check_pair *p = c->check.pairs;
    p[c->check.n_pairs++] = link_of(0, 1, 64e-6, 2e9, 5e8); /* just good enough */
    p[c->check.n_pairs++] = link_of(0, 2, 8e-6, 2e9, 2.5e8);
    p[c->check.n_pairs++] = link_of(0, 3, 0, 0, 0); /* says the node already */
    p[c->check.n_pairs++] = link_of(1, 2, 0, 0, 0);
    p[3].state = HSP_CHECK_FAILED;
    (void)snprintf(p[3].why, sizeof p[3].why, "slow: no route to crowded");
    char *doc = hsp_check_doc(c, &s);
    assert_non_null(doc);
    assert_int_equal(s.nodes, 3);
    assert_int_equal(s.pairs, 2);
    assert_int_equal(s.skipped, 1);
    assert_int_equal(s.worse, 5); /* slow, crowded, gone; a link that is slow, one that is not */
    assert_string_equal(s.first, "slow/0 is at 0.25 of its record");
    hsp_buf_init(&text, 1 << 20);
    hsp_buf_printf(&text, "%s\n", doc);
    hsp_golden_check("nodecheck/doc.json", &text);
    hsp_buf_fini(&text);
    cJSON_free(doc);
    end(c);
}

/* A latency is late from 1 / threshold and a tenth of a millisecond above the record on. */
static void late_links(void **state)
{
    (void)state;
    struct hsp_cluster *c = world();
    struct hsp_check_sum s;
    measured(c, 0, 1, 1);
    measured(c, 1, 1, 1);
    c->check.n_nodes = 2;
    c->check.n_pairs = 1;
    static const struct {
        double latency_s, rate;
        uint32_t worse;
    } cases[] = {
        {115e-6, 1e9, 0}, {117e-6, 1e9, 1}, {1e-6, 0.51e9, 0}, {1e-6, 0.49e9, 1}, {1e-6, 0, 1}};
    for (size_t i = 0; i < HSP_ARRAY_LEN(cases); i++) {
        c->check.pairs[0] = link_of(0, 1, cases[i].latency_s, 4e9, cases[i].rate);
        char *doc = hsp_check_doc(c, &s);
        assert_int_equal(s.worse, cases[i].worse);
        cJSON_free(doc);
    }
    end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_kinds), cmocka_unit_test(late_links)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
