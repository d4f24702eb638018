/* Tests which devices become tensor groups, and how pipelines of unequal groups are cut. */
#include "tests/lib/testlib.h"

#include <math.h>
#include <stdio.h>

#include "daemon/graph/graph_build.h"
#include "daemon/planner/candidates.h"
#include "daemon/planner/cluster_file.h"
#include "daemon/planner/lines.h"
#include "daemon/planner/links.h"
#include "daemon/planner/tp_groups.h"

#define DEVICES 8

/* A search over equal devices, as the planner sets it up. */
struct scene {
    struct hsp_arena *arena;
    struct hsp_graph *g;
    struct hsp_work work;
    struct hsp_train_spec t;
    struct hsp_cluster_desc c;
    struct hsp_device_desc dev[DEVICES];
    struct hsp_plan_options opts;
    struct hsp_search s;
    struct hsp_err err;
};

static void scene_make(struct scene *x, uint32_t n, const uint32_t *node, const uint32_t *domain,
                       int64_t layers)
{
    struct hsp_model_spec spec = {.family = "gpt",
                                  .layers = layers,
                                  .hidden = 128,
                                  .heads = 4,
                                  .vocab = 256,
                                  .sequence = 64,
                                  .tied_head = true,
                                  .dtype = HSP_F32};
    *x = (struct scene){.arena = hsp_arena_new(64 << 20)};
    assert_ok(hsp_graph_build(&spec, &x->g, &x->err), &x->err);
    assert_ok(hsp_work_make(x->g, x->arena, &x->work, &x->err), &x->err);
    x->t = (struct hsp_train_spec){.hyper = {.steps = 10, .optimizer = HSP_OPT_ADAMW},
                                   .data = {.global_batch = 4, .sequence = 64}};
    for (uint32_t i = 0; i < n; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "w%u/%u", node[i] + 1, i);
        x->dev[i] = hsp_device_default(name, node[i], 1);
        x->dev[i].domain = domain[i];
        x->dev[i].fast = (struct hsp_link_cost){0.1, 1e-6};
    }
    x->c = (struct hsp_cluster_desc){.n = n,
                                     .dev = x->dev,
                                     .same_node = {.latency_us = 20, .us_per_byte = 1e-4},
                                     .cross = {.latency_us = 40, .us_per_byte = 4e-4}};
    x->s =
        (struct hsp_search){.in = {.work = &x->work, .cluster = &x->c, .train = &x->t, .copies = 1},
                            .g = x->g,
                            .opts = &x->opts,
                            .n_blocks = x->g->n_layers - 2,
                            .global_batch = x->t.data.global_batch,
                            .micro_cap = 1,
                            .arena = x->arena,
                            .err = &x->err,
                            .room = hsp_arena_array(x->arena, n, sizeof(double))};
    assert_non_null(x->s.room);
    for (uint32_t i = 0; i < n; i++) {
        x->s.room[i] = (double)INFINITY;
    }
    hsp_range_make(&x->work, 0, x->work.n_layers, &x->s.all);
}

static void scene_free(struct scene *x)
{
    x->g = hsp_graph_free(x->g);
    x->arena = hsp_arena_free(x->arena);
}

static int by_first(const void *a, const void *b)
{
    const struct hsp_tp_group *x = a, *y = b;
    return x->dev[0] < y->dev[0] ? -1 : x->dev[0] > y->dev[0];
}

/* "0,2 1,3": groups by their first device, each in its order; "" for none. */
static void expect_groups(uint32_t n, const uint32_t *node, const uint32_t *domain, uint32_t degree,
                          const char *want)
{
    struct scene x;
    struct hsp_tp_group *tp_group = NULL;
    uint32_t n_tp_groups = 0;
    char text[64] = "";
    size_t at = 0;
    scene_make(&x, n, node, domain, 2);
    assert_ok(hsp_tp_groups_make(&x.s, degree, &tp_group, &n_tp_groups), &x.err);
    for (uint32_t i = 0; i + 1 < n_tp_groups; i++) {
        assert_true(tp_group[i].seq_us <= tp_group[i + 1].seq_us);
    }
    if (n_tp_groups > 0) {
        qsort(tp_group, n_tp_groups, sizeof(*tp_group), by_first);
    }
    for (uint32_t i = 0; i < n_tp_groups; i++) {
        for (uint32_t k = 0; k < tp_group[i].n; k++) {
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%u",
                                   k > 0   ? ","
                                   : i > 0 ? " "
                                           : "",
                                   tp_group[i].dev[k]);
        }
    }
    assert_string_equal(text, want);
    scene_free(&x);
}

static const uint32_t one_node[DEVICES] = {0};

static void groups_are_of_a_node(void **state)
{
    (void)state;
    const uint32_t none[DEVICES] = {0}, two[5] = {0, 0, 0, 1, 1}, all_alone[3] = {0, 1, 2};
    expect_groups(4, one_node, none, 1, "0 1 2 3");
    expect_groups(4, one_node, none, 2, "0,1 2,3");
    expect_groups(5, two, none, 2, "0,1 2 3,4");
    expect_groups(5, two, none, 4, "");
    expect_groups(3, all_alone, none, 2, "");
}

static void groups_are_of_a_fast_domain(void **state)
{
    (void)state;
    const uint32_t pairs[4] = {1, 2, 1, 2}, threes[6] = {1, 1, 1, 2, 2, 2};
    expect_groups(4, one_node, pairs, 2, "0,2 1,3");
    expect_groups(6, one_node, threes, 2,
                  "0,1 2 3,4 5"); /* the third is alone rather than with others */
    expect_groups(4, one_node, pairs, 4, "0,2,1,3"); /* which no domain holds */
}

/* Where no domain is large enough for a group it is made without regard to them. */
static void small_domains_do_not_matter(void **state)
{
    (void)state;
    const uint32_t each[4] = {1, 2, 3, 4}, rest[4] = {0, 0, 1, 2}, second[4] = {1, 2, 2, 2};
    expect_groups(4, one_node, each, 2, "0,1 2,3");
    expect_groups(4, one_node, rest, 2, "0,1 2,3"); /* 0 is no domain, however many are in it */
    expect_groups(4, one_node, second, 2, "0 1,2 3");
}

/* Each node is looked at by itself. */
static void nodes_differ_in_domains(void **state)
{
    (void)state;
    const uint32_t node[5] = {0, 0, 1, 1, 1}, later[5] = {0, 0, 1, 2, 2},
                   node2[5] = {0, 0, 0, 1, 1};
    const uint32_t first[5] = {1, 2, 2, 3, 4};
    expect_groups(5, node, later, 2, "0,1 2 3,4");
    expect_groups(5, node2, first, 2, "0 1,2 3,4");
    const uint32_t small[4] = {1, 2, 3, 3}, two_each[4] = {0, 0, 1, 1};
    expect_groups(4, two_each, small, 2, "0,1 2,3"); /* the first has none that is large enough */
}

static void groups_know_their_links(void **state)
{
    struct scene x;
    struct hsp_tp_group *tp_group = NULL;
    uint32_t n = 0;
    const uint32_t domain[4] = {1, 1, 2, 2};
    (void)state;
    scene_make(&x, 4, one_node, domain, 2);
    x.dev[3].fast = (struct hsp_link_cost){0.3, 5e-6};
    assert_ok(hsp_tp_groups_make(&x.s, 2, &tp_group, &n), &x.err);
    assert_int_equal(n, 2);
    qsort(tp_group, n, sizeof(*tp_group), by_first);
    assert_near(tp_group[0].in.us_per_byte, 1e-6, 0);
    assert_near(tp_group[1].in.us_per_byte, 5e-6, 0); /* of the slowest */
    assert_near(tp_group[1].in.latency_us, 0.3, 0);
    const uint32_t three[3] = {0, 1, 2};
    assert_near(hsp_link_group(&x.c, three, 3).latency_us, 20, 0); /* one is outside */
    assert_near(hsp_link_group(&x.c, three, 2).latency_us, 0.1, 0);
    assert_near(tp_group[0].out.us_per_byte, 4e-4, 0);
    assert_near(tp_group[0].out.latency_us, 40, 0);
    scene_free(&x);
}

/* Blocks of each of two tensor groups of one pipeline, the groups with the first and the third
 * device. */
static void cut_pipeline(struct scene *x, uint32_t blocks[2])
{
    struct hsp_tp_group *tp_group = NULL;
    uint32_t n = 0, nb = x->s.n_blocks;
    x->s.ranges = hsp_arena_array(x->arena, (size_t)nb * nb, sizeof(*x->s.ranges));
    for (uint32_t first = 0; first < nb; first++) {
        for (uint32_t end = first + 1; end <= nb; end++) {
            hsp_range_of_blocks(&x->work, first, end, &x->s.ranges[first * nb + end - 1]);
        }
    }
    assert_ok(hsp_tp_groups_make(&x->s, 2, &tp_group, &n), &x->err);
    assert_int_equal(n, 2);
    x->s.n_groups = n;
    assert_ok(hsp_try_lines(&x->s, tp_group, n, 2), &x->err);
    const struct hsp_candidate *best = &x->s.best[HSP_STRUCT_MIXED];
    assert_true(best->tried && best->fits);
    const struct hsp_pipeline *t = &best->plan->pipelines[0];
    assert_int_equal(t->n_stages, 2);
    for (uint32_t g = 0; g < 2; g++) {
        blocks[best->device[t->stages[g].ranks[0]] < 2 ? 0 : 1] = t->stages[g].layers;
    }
}

/* Two groups that compute alike, one of them over links that are slower by far: it gets fewer
 * blocks. */
static void slow_links_within_get_less(void **state)
{
    struct scene x;
    const uint32_t domain[4] = {1, 1, 2, 2};
    uint32_t blocks[2];
    (void)state;
    for (int slow = 0; slow < 3; slow++) { /* none of them, the second, the first */
        scene_make(&x, 4, one_node, domain, 8);
        for (int k = 0; k < 2 && slow > 0; k++) {
            x.dev[slow == 1 ? 2 + k : k].fast.us_per_byte = 1e-2;
        }
        cut_pipeline(&x, blocks);
        assert_int_equal(blocks[0] + blocks[1], x.s.n_blocks);
        if (slow == 0) {
            assert_true(blocks[0] == blocks[1]);
        } else {
            assert_true(blocks[slow == 1 ? 0 : 1] > blocks[slow == 1 ? 1 : 0] + 1);
        }
        scene_free(&x);
    }
}

HSP_TEST_FILE(tp_groups_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_of_a_node),
        cmocka_unit_test(groups_are_of_a_fast_domain),
        cmocka_unit_test(small_domains_do_not_matter),
        cmocka_unit_test(nodes_differ_in_domains),
        cmocka_unit_test(groups_know_their_links),
        cmocka_unit_test(slow_links_within_get_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
