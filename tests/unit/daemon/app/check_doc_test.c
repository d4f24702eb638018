/* Tests the answer of a check of nodes, for figures of every kind:
 * tests/golden/nodecheck/doc.json. */
#include "daemon/app/docs/check_doc.h"

#include <stdio.h>

#include "proto/base/size.h"
#include "tests/lib/golden.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/app/app_lib.h"

#define GIB    ((uint64_t)1 << 30)
#define LATE   "good and slow: messages take longer than recorded"
#define NARROW "good and slow: less bandwidth than recorded"

static const struct app_node nodes[] = {{"good", 1.0, GIB},
                                        {"slow", 0.5, GIB},
                                        {"crowded", 1.0, GIB},
                                        {"busy", 1.0, GIB},
                                        {"gone", 1.0, GIB}};
enum { N = HSP_ARRAY_LEN(nodes) };

/* Device 0 at @part of the rates on record, with its core for @share of the time. */
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

/* ---- single verdicts ---- */

static cJSON *check(const struct hsp_cluster *c, struct hsp_check_sum *ret)
{
    char *text = hsp_check_doc(c, ret);
    cJSON *doc = text != NULL ? cJSON_Parse(text) : NULL;
    cJSON_free(text);
    assert_non_null(doc);
    return doc;
}

/* A member of an entry of a list; NULL: there is none. */
static const cJSON *member(const cJSON *o, const char *list, int i, const char *name)
{
    const cJSON *entry = cJSON_GetArrayItem(cJSON_GetObjectItem(o, list), i);
    return entry != NULL ? cJSON_GetObjectItem(entry, name) : NULL;
}

static const char *verdict_of(const cJSON *o, const char *list, int i)
{
    const cJSON *v = member(o, list, i, "verdict");
    assert_true(cJSON_IsString(v));
    return v->valuestring;
}

static double rate_on_record(const cJSON *doc, int pair)
{
    const cJSON *r = member(doc, "pairs", pair, "on_record");
    assert_non_null(r);
    return cJSON_GetObjectItem(r, "bytes_per_second")->valuedouble;
}

/* Its worst rate of any kind counts; a rate that is not on record does not; at the threshold all is
 * well. */
static void devices(void **state)
{
    (void)state;
    static const struct {
        double fp32, fp64, mem, record,
            share; /* parts of the record; record: of fp32, times its value */
        const char *verdict;
        double ratio;
    } cases[] = {
        {1, 1, 1, 1, 1, "ok", 1},
        {0.5, 1, 1, 1, 1, "ok", 0.5},
        {0.25, 1, 1, 1, 1, "slow", 0.25},
        {1, 0.25, 1, 1, 1, "slow", 0.25},
        {1, 1, 0.25, 1, 1, "slow", 0.25},
        {-1, 1, 1, 1, 1, "slow", 0},
        {0.25, 0.75, 1, 0, 1, "ok", 0.75},
        {-1, 0.75, 1, 0, 1, "ok", 0.75},
        {1, 1, 1, 1, 0.5, "ok", 1},
        {1, 1, 1, 1, 0.25, "crowded", 1},
        {0.25, 1, 1, 1, 0.25, "slow", 0.25},
    };
    struct hsp_cluster *c = world();
    c->check.n_nodes = 1;
    for (size_t i = 0; i < HSP_ARRAY_LEN(cases); i++) {
        struct hsp_m_device *p = &c->nodes[0].dev[0].profile;
        struct hsp_m_figures *f = &c->check.nodes[0].devices[0];
        p->gemm_fp32_flops = 1e10;
        measured(c, 0, cases[i].fp32, cases[i].share);
        f->gemm_fp64_flops = cases[i].fp64 * p->gemm_fp64_flops;
        f->mem_bytes_per_s = cases[i].mem * p->mem_bytes_per_s;
        f->op_us = 7;
        p->gemm_fp32_flops *= cases[i].record;
        struct hsp_check_sum s;
        cJSON *doc = check(c, &s);
        const cJSON *node = cJSON_GetArrayItem(cJSON_GetObjectItem(doc, "nodes"), 0);
        assert_string_equal(verdict_of(node, "devices", 0), cases[i].verdict);
        assert_string_equal(verdict_of(doc, "nodes", 0), cases[i].verdict);
        assert_near(member(node, "devices", 0, "ratio")->valuedouble, cases[i].ratio, 1e-12);
        const cJSON *m = member(node, "devices", 0, "measured");
        assert_near(cJSON_GetObjectItem(m, "op_seconds")->valuedouble, 7e-6, 1e-12);
        assert_int_equal(s.worse, strcmp(cases[i].verdict, "ok") != 0);
        cJSON_Delete(doc);
    }
    end(c);
}

static void a_device_without_a_record_has_no_ratio(void **state)
{
    (void)state;
    struct hsp_check_sum s;
    struct hsp_cluster *c = world();
    c->check.n_nodes = 1;
    measured(c, 0, 1, 1);
    c->nodes[0].dev[0].profile = (struct hsp_m_device){.mem_bytes = GIB};
    cJSON *doc = check(c, &s);
    const cJSON *node = cJSON_GetArrayItem(cJSON_GetObjectItem(doc, "nodes"), 0);
    assert_null(member(node, "devices", 0, "ratio"));
    assert_string_equal(verdict_of(node, "devices", 0), "ok");
    cJSON_Delete(doc);
    end(c);
}

/* Slow before crowded before ok, in any order. */
static void a_node_is_as_good_as_its_worst_device(void **state)
{
    (void)state;
    static const char *const names[] = {"ok", "crowded", "slow"};
    struct hsp_check_sum s;
    struct hsp_cluster *c = world();
    c->check.n_nodes = 1;
    c->nodes[0].dev[1] = c->nodes[0].dev[0];
    for (uint32_t i = 0; i < 9; i++) {
        uint32_t of[2] = {i / 3, i % 3}, worst = of[0] > of[1] ? of[0] : of[1];
        struct hsp_m_figures f[2];
        for (uint32_t d = 0; d < 2; d++) {
            measured(c, 0, of[d] == 2 ? 0.25 : 1, of[d] == 1 ? 0.25 : 1);
            f[d] = c->check.nodes[0].devices[0];
            f[d].device = d;
        }
        memcpy(c->check.nodes[0].devices, f, sizeof f);
        c->check.nodes[0].n_devices = 2;
        cJSON *doc = check(c, &s);
        assert_string_equal(verdict_of(doc, "nodes", 0), names[worst]);
        const cJSON *node = cJSON_GetArrayItem(cJSON_GetObjectItem(doc, "nodes"), 0);
        for (int d = 0; d < 2; d++) {
            assert_string_equal(verdict_of(node, "devices", d), names[of[d]]);
            assert_int_equal(member(node, "devices", d, "index")->valueint, d);
        }
        assert_int_equal(s.worse, (of[0] != 0) + (of[1] != 0));
        cJSON_Delete(doc);
    }
    end(c);
}

/* Earlier answers do not count. */
static void a_node_that_failed_has_no_figures(void **state)
{
    (void)state;
    struct hsp_check_sum s;
    struct hsp_cluster *c = world();
    c->check.n_nodes = 1;
    measured(c, 0, 0.25, 1);
    c->check.nodes[0].state = HSP_CHECK_FAILED;
    (void)snprintf(c->check.nodes[0].why, sizeof c->check.nodes[0].why, "gone");
    cJSON *doc = check(c, &s);
    assert_string_equal(verdict_of(doc, "nodes", 0), "failed");
    assert_int_equal(cJSON_GetArraySize(member(doc, "nodes", 0, "devices")), 0);
    assert_int_equal(s.worse, 1);
    assert_string_equal(s.first, "gone");
    cJSON_Delete(doc);
    end(c);
}

static struct hsp_cluster *good_nodes(uint32_t n)
{
    struct hsp_cluster *c = world();
    c->check.n_nodes = n;
    for (uint32_t i = 0; i < n; i++) {
        measured(c, i, 1, 1);
    }
    return c;
}

/* The record of a link is that of its two nodes, in any order of their names. */
static void links_have_the_record_of_their_nodes(void **state)
{
    (void)state;
    struct hsp_check_sum s;
    struct hsp_cluster *c = good_nodes(3);
    static const double rate[3] = {0.8e9, 0.5e9, 0.25e9};
    for (uint32_t i = 0; i < 3; i++) {
        c->nodes[i].measured = true;
        c->nodes[i].uplink = (struct hsp_m_uplink){1e-5, rate[i]};
    }
    /* device 0 of good is gone, device 1 stands for it */
    c->nodes[0].dev[1] = c->nodes[0].dev[0];
    c->nodes[0].dev[0].present = false;
    struct hsp_check_pair *p = c->check.pairs;
    p[c->check.n_pairs++] = link_of(0, 1, 8e-6, 1e9, 1e9);
    p[c->check.n_pairs++] = link_of(0, 2, 8e-6, 1e9, 1e9);
    p[c->check.n_pairs++] = link_of(1, 2, 8e-6, 1e9, 1e9);
    cJSON *doc = check(c, &s);
    assert_near(rate_on_record(doc, 0), 0.5e9, 1);
    assert_near(rate_on_record(doc, 1), 0.25e9, 1);
    assert_near(rate_on_record(doc, 2), 0.25e9, 1);
    cJSON_Delete(doc);
    end(c);
}

/* A node without a device is in no plan: nothing is on record for its links. */
static void links_of_a_node_without_devices_have_no_record(void **state)
{
    (void)state;
    struct hsp_check_sum s;
    struct hsp_cluster *c = good_nodes(3);
    c->check.pairs[0] = link_of(0, 1, 1, 1, 1);
    c->check.pairs[1] = link_of(1, 2, 1, 1, 1);
    c->check.n_pairs = 2;
    for (int all = 0; all < 2; all++) {
        c->nodes[1].dev[0].present = false;
        c->nodes[0].dev[0].present = c->nodes[2].dev[0].present = all == 0;
        cJSON *doc = check(c, &s);
        for (int i = 0; i < 2; i++) {
            assert_null(member(doc, "pairs", i, "on_record"));
            assert_string_equal(verdict_of(doc, "pairs", i), "ok");
        }
        assert_int_equal(s.pairs, 2);
        cJSON_Delete(doc);
    }
    end(c);
}

static void a_link_is_not_told_of_when_a_node_of_it_was_not_measured(void **state)
{
    (void)state;
    struct hsp_check_sum s;
    for (uint32_t gone = 0; gone < 2; gone++) {
        struct hsp_cluster *c = good_nodes(2);
        c->check.nodes[gone].state = HSP_CHECK_FAILED;
        c->check.pairs[0] = link_of(0, 1, 1, 1, 1);
        c->check.n_pairs = 1;
        cJSON *doc = check(c, &s);
        assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(doc, "pairs")), 0);
        assert_int_equal(s.worse, 1);
        assert_int_equal(s.pairs, 0);
        cJSON_Delete(doc);
        end(c);
    }
}

/* Of both ends the worse counts. A latency is late from 1 / threshold and a tenth of a millisecond
 * above the record on. */
static void slow_links(void **state)
{
    (void)state;
    static const struct {
        double latency_s, rate;
        const char *why; /* "": it is good */
    } cases[] = {{115e-6, 1e9, ""},
                 {117e-6, 1e9, LATE},
                 {1e-6, 0.51e9, ""},
                 {1e-6, 0.49e9, NARROW},
                 {1e-6, 0, NARROW}};
    struct hsp_check_sum s;
    struct hsp_cluster *c = good_nodes(2);
    c->check.n_pairs = 1;
    for (size_t i = 0; i < 2 * HSP_ARRAY_LEN(cases); i++) {
        struct hsp_check_pair *p = &c->check.pairs[0];
        *p = link_of(0, 1, 1e-6, 4e9, 4e9);
        p->end[i % 2].latency_s = cases[i / 2].latency_s;
        p->end[i % 2].bytes_per_s = cases[i / 2].rate;
        bool good = cases[i / 2].why[0] == '\0';
        cJSON *doc = check(c, &s);
        assert_string_equal(verdict_of(doc, "pairs", 0), good ? "ok" : "slow");
        assert_int_equal(s.worse, !good);
        assert_string_equal(s.first, cases[i / 2].why);
        cJSON_Delete(doc);
    }
    end(c);
}

HSP_TEST_FILE(check_doc_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_kinds),
        cmocka_unit_test(devices),
        cmocka_unit_test(a_device_without_a_record_has_no_ratio),
        cmocka_unit_test(a_node_is_as_good_as_its_worst_device),
        cmocka_unit_test(a_node_that_failed_has_no_figures),
        cmocka_unit_test(links_have_the_record_of_their_nodes),
        cmocka_unit_test(links_of_a_node_without_devices_have_no_record),
        cmocka_unit_test(a_link_is_not_told_of_when_a_node_of_it_was_not_measured),
        cmocka_unit_test(slow_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
