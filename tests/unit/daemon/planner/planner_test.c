#include "tests/lib/testlib.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "daemon/graph/graph_build.h"
#include "daemon/planner/cluster_file.h"
#include "daemon/planner/lengths.h"
#include "daemon/planner/links.h"
#include "daemon/planner/planner.h"
#include "daemon/planner/price.h"

#define MIB ((int64_t)1 << 20)

struct scene {
    struct hsp_arena *arena;
    struct hsp_graph *g;
    struct hsp_train_spec t;
    struct hsp_cluster_desc c;
    struct hsp_device_desc dev[16];
};

static struct hsp_graph *gpt(int64_t layers, int64_t hidden, int64_t sequence)
{
    struct hsp_err err = {0};
    struct hsp_graph *g = NULL;
    struct hsp_model_spec spec = {.family = "gpt",
                                  .layers = layers,
                                  .hidden = hidden,
                                  .heads = 4,
                                  .vocab = 256,
                                  .sequence = sequence,
                                  .tied_head = true,
                                  .dtype = HSP_F32};
    assert_ok(hsp_graph_build(&spec, &g, &err), &err);
    return g;
}

/* Each device has a node of its own unless @per_node says otherwise. */
static void scene_make(struct scene *s, uint32_t n, const double *speed, uint32_t per_node,
                       int64_t layers, uint32_t batch)
{
    *s = (struct scene){.arena = hsp_arena_new(512 << 20), .g = gpt(layers, 128, 64)};
    s->t = (struct hsp_train_spec){.hyper = {.steps = 10, .optimizer = HSP_OPT_ADAMW},
                                   .data = {.global_batch = batch, .sequence = 64}};
    for (uint32_t i = 0; i < n; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "w%u/0", i + 1);
        s->dev[i] = hsp_device_default(name, i / per_node, speed[i]);
    }
    s->c = (struct hsp_cluster_desc){.n = n,
                                     .dev = s->dev,
                                     .same_node = {.latency_us = 20, .us_per_byte = 1e-4},
                                     .cross = {.latency_us = 40, .us_per_byte = 4e-4}};
}

static void scene_free(struct scene *s)
{
    s->g = hsp_graph_free(s->g);
    s->arena = hsp_arena_free(s->arena);
}

/* Bounds of every plan, and their prediction. */
static void check_plan(const struct scene *s, const struct hsp_planned *p)
{
    uint32_t sequences = 0, used[16] = {0}, ranks[16] = {0};
    for (uint32_t i = 0; i < p->plan->n_pipelines; i++) {
        const struct hsp_pipeline *t = &p->plan->pipelines[i];
        uint32_t layers = 0;
        sequences += t->sequences;
        assert_true(t->micro_batches >= 1 && t->micro_batches <= t->sequences);
        for (uint32_t g = 0; g < t->n_stages; g++) {
            layers += t->stages[g].layers;
            assert_true(t->stages[g].layers >= 1);
            for (uint32_t k = 0; k < t->stages[g].n; k++) {
                ranks[t->stages[g].ranks[k]]++;
                assert_true(t->stages[g].shares[k] >= 1);
            }
        }
        assert_int_equal(layers, s->g->n_layers - 2);
    }
    assert_int_equal(sequences, s->t.data.global_batch);
    for (uint32_t r = 0; r < p->plan->n_ranks; r++) {
        assert_int_equal(ranks[r], 1);
        assert_true(p->device[r] < s->c.n);
        assert_int_equal(used[p->device[r]]++, 0);
        assert_true(p->plan->memory_bytes[r] <= s->dev[p->device[r]].mem_bytes);
        assert_int_equal(p->cost.rank[r].device, p->device[r]);
    }
    assert_true(p->plan->predicted_step_us >= p->cost.bound_us);
    assert_non_null(p->plan->why);
}

static void make(struct scene *s, const struct hsp_plan_options *o, struct hsp_planned *p)
{
    struct hsp_err err = {0};
    assert_ok(hsp_plan_make(s->g, &s->t, &s->c, o, s->arena, p, &err), &err);
    check_plan(s, p);
}

static void unequal_cores_get_unequal_shares(void **state)
{
    (void)state;
    struct scene s;
    struct hsp_planned p;
    const double speed[4] = {0.6, 0.15, 0.6, 0.3};
    uint32_t of_device[4] = {0};
    scene_make(&s, 4, speed, 1, 3, 44);
    make(&s, NULL, &p);
    assert_int_equal(p.plan->n_pipelines, 4);
    assert_int_equal(p.plan->zero, 0);
    for (uint32_t i = 0; i < 4; i++) {
        of_device[p.device[p.plan->pipelines[i].stages[0].ranks[0]]] =
            p.plan->pipelines[i].sequences;
    }
    assert_in_range(of_device[0], 16, 17);
    assert_in_range(of_device[1], 3, 4);
    assert_in_range(of_device[2], 15, 17);
    assert_in_range(of_device[3], 7, 8);
    assert_int_equal(p.n_rejected, HSP_MAX_REJECTED);
    scene_free(&s);
}

/* Returns the least cost of data-parallel plans on the devices of @mask, by the model of the
 * planner: tries every division of the batch, with micro-batches cut as the planner cuts them. The
 * test takes every subset of the devices as @mask, and the planner's data-parallel plan must be the
 * best of all. */
static double brute(struct scene *s, uint32_t mask, uint32_t *share, uint32_t at, uint32_t left)
{
    uint32_t n = s->c.n;
    double best = (double)INFINITY;
    if (at < n) {
        bool in = mask >> at & 1;
        for (uint32_t k = in ? 1 : 0; k <= (in ? left : 0); k++) {
            share[at] = k;
            best = fmin(best, brute(s, mask, share, at + 1, left - k));
        }
        return best;
    }
    if (left > 0) {
        return best;
    }
    struct hsp_arena_position mark = hsp_arena_mark(s->arena);
    struct hsp_err err = {0};
    struct hsp_work w;
    struct hsp_cost cost;
    struct hsp_pipeline pipelines[4];
    struct hsp_stage stages[4];
    uint32_t ranks[4], device[4], m = 0;
    int64_t one = 1;
    for (uint32_t d = 0; d < n; d++) {
        if (mask >> d & 1) {
            ranks[m] = m;
            device[m] = d;
            stages[m] = (struct hsp_stage){
                .layers = s->g->n_layers - 2, .n = 1, .ranks = &ranks[m], .shares = &one};
            pipelines[m] = (struct hsp_pipeline){.sequences = share[d],
                                                 .micro_batches =
                                                     (share[d] + HSP_MICRO_CAP - 1) / HSP_MICRO_CAP,
                                                 .n_stages = 1,
                                                 .stages = &stages[m]};
            m++;
        }
    }
    struct hsp_plan p = {.n_ranks = m, .n_pipelines = m, .pipelines = pipelines};
    assert_ok(hsp_work_make(s->g, s->arena, &w, &err), &err);
    struct hsp_price_in in = {.work = &w, .cluster = &s->c, .train = &s->t, .copies = 1};
    assert_ok(hsp_price(&in, &p, device, s->arena, &cost, &err), &err);
    hsp_arena_rewind(s->arena, mark);
    return cost.step_us;
}

static void data_parallel_matches_brute_force(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 12; round++) {
        struct scene s;
        struct hsp_planned p;
        double speed[3], best = (double)INFINITY;
        uint32_t share[3];
        for (uint64_t i = 0; i < 3; i++) {
            speed[i] = (double)hsp_test_range("speed", round * 4 + i, 1, 100) / 100;
        }
        uint32_t batch = (uint32_t)hsp_test_range("batch", round, 3, 12);
        scene_make(&s, 3, speed, 1, 1, batch);               /* one block: no pipelines */
        for (uint64_t i = 0; i < 3 && round % 2 == 1; i++) { /* links of their own */
            s.dev[i].uplink.us_per_byte = (double)hsp_test_range("up", round * 4 + i, 1, 40) * 1e-3;
        }
        for (uint32_t mask = 1; mask < 8; mask++) {
            best = fmin(best, brute(&s, mask, share, 0, batch));
        }
        make(&s, &(struct hsp_plan_options){.no_zero = true}, &p);
        /* the preference for using every device may cost up to its 1 % */
        assert_true(p.cost.step_us >= best * (1 - 1e-9) && p.cost.step_us <= best * 1.0101);
        scene_free(&s);
    }
}

/* Of three equal devices one has a slow link: the plan uses the other two alone, and is as fast as
 * without the third. */
static void a_device_behind_a_slow_link_is_left_out(void **state)
{
    (void)state;
    struct scene s;
    struct hsp_planned three, two, p;
    const double speed[3] = {1, 1, 1};
    scene_make(&s, 3, speed, 1, 2, 24);
    make(&s, NULL, &three);
    assert_int_equal(three.plan->n_ranks, 3);
    s.c.n = 2;
    make(&s, NULL, &two);
    assert_int_equal(two.plan->n_ranks, 2);
    s.c.n = 3;
    s.dev[0].uplink = (struct hsp_link_cost){500, 1};
    s.dev[1].uplink = s.dev[2].uplink = (struct hsp_link_cost){1, 1e-6};
    make(&s, NULL, &p);
    assert_int_equal(p.plan->n_ranks, 2);
    assert_true(p.device[0] != 0 && p.device[1] != 0);
    assert_near(p.cost.step_us, two.cost.step_us, 1e-6);
    scene_free(&s);
}

/* Of three equal devices, the link between two was measured to be slow: one of these two is left
 * out. */
static void a_slow_link_is_avoided(void **state)
{
    (void)state;
    struct scene s;
    struct hsp_planned p;
    const double speed[3] = {1, 1, 1};
    const struct hsp_slow_link slow = {0, 2, 4}; /* 2 Mbit/s */
    scene_make(&s, 3, speed, 1, 2, 24);
    for (uint32_t i = 0; i < 3; i++) {
        s.dev[i].uplink = (struct hsp_link_cost){1, 1e-6};
    }
    make(&s, NULL, &p);
    assert_int_equal(p.plan->n_ranks, 3);
    s.c.n_slow = 1;
    s.c.slow = &slow;
    make(&s, NULL, &p);
    assert_int_equal(p.plan->n_ranks, 2);
    assert_true(p.device[0] == 1 || p.device[1] == 1);
    scene_free(&s);
}

/* The predicted cost of two stages contains the link between them; two stages on one host pay no
 * uplink. */
static void stages_pay_the_link_between_them(void **state)
{
    (void)state;
    struct scene s;
    struct hsp_err err = {0};
    struct hsp_work w;
    struct hsp_cost c;
    const double speed[3] = {1, 1, 1};
    uint32_t ranks[3] = {0, 1, 2}, device[3] = {0, 1, 2};
    int64_t one = 1;
    scene_make(&s, 3, speed, 1, 3, 8);
    assert_ok(hsp_work_make(s.g, s.arena, &w, &err), &err);
    struct hsp_stage stages[3];
    for (uint32_t i = 0; i < 3; i++) {
        stages[i] = (struct hsp_stage){.layers = 1, .n = 1, .ranks = &ranks[i], .shares = &one};
    }
    struct hsp_pipeline line = {
        .sequences = 8, .micro_batches = 4, .n_stages = 3, .stages = stages};
    struct hsp_plan pipe = {.n_ranks = 3, .n_pipelines = 1, .pipelines = &line};
    struct hsp_price_in in = {.work = &w, .cluster = &s.c, .train = &s.t, .copies = 1};
    double bytes = 2 * 8 * w.layer[1].leaving;
    s.dev[0].uplink = (struct hsp_link_cost){2, 1e-9};
    s.dev[1].uplink = (struct hsp_link_cost){100, 1e-3};
    s.dev[2].uplink = (struct hsp_link_cost){300, 1e-2};
    assert_ok(hsp_price(&in, &pipe, device, s.arena, &c, &err), &err);
    assert_near(c.rank[0].transfer_us, 2 * 4 * 51 + bytes * 1e-3, 1e-6);
    assert_near(c.rank[1].transfer_us, 2 * 4 * 200 + bytes * 1e-2, 1e-6);
    assert_near(c.vote_us, 200 * (1 + log2(3)), 1e-6);
    s.dev[1].uplink.us_per_byte = 0; /* not known: as the others */
    assert_ok(hsp_price(&in, &pipe, device, s.arena, &c, &err), &err);
    assert_near(c.rank[1].transfer_us, 2 * 4 * 40 + bytes * 4e-4, 1e-6);
    s.dev[1].uplink.us_per_byte = 1e-3;
    s.dev[2].host = s.dev[1].host;
    assert_ok(hsp_price(&in, &pipe, device, s.arena, &c, &err), &err);
    assert_near(c.rank[1].transfer_us, 2 * 4 * 40 + bytes * 4e-4, 1e-6);
    scene_free(&s);
}

/* The two fast devices of one node are no tensor group because four others could form one: such a
 * plan would escape the gain of ZeRO-1. */
static void single_devices_are_no_tensor_group(void **state)
{
    (void)state;
    struct scene s;
    struct hsp_planned p;
    const double speed[6] = {0.3, 0.3, 0.3, 0.3, 1, 1};
    scene_make(&s, 6, speed, 4, 3, 16);
    s.c.cross = (struct hsp_link_cost){200, 4e-3};
    make(&s, &(struct hsp_plan_options){.copies = 2}, &p);
    bool grouped = false;
    for (uint32_t i = 0; i < p.plan->n_pipelines; i++) {
        for (uint32_t g = 0; g < p.plan->pipelines[i].n_stages; g++) {
            grouped = grouped || p.plan->pipelines[i].stages[g].n > 1;
        }
    }
    assert_int_equal(strstr(p.plan->why, "tensor groups") != NULL, grouped);
    scene_free(&s);
}

static void a_useless_device_is_left_out(void **state)
{
    (void)state;
    struct scene s;
    struct hsp_planned p;
    const double speed[3] = {1, 1, 0.002};
    scene_make(&s, 3, speed, 1, 2, 8);
    make(&s, NULL, &p);
    assert_int_equal(p.plan->n_ranks, 2);
    for (uint32_t r = 0; r < 2; r++) {
        assert_true(p.device[r] != 2);
    }
    scene_free(&s);
}

static void a_model_too_large_becomes_an_uneven_pipeline(void **state)
{
    (void)state;
    struct scene s;
    struct hsp_planned p;
    const double speed[3] = {1, 0.5, 0.25};
    scene_make(&s, 3, speed, 1, 8, 16);
    for (uint32_t i = 0; i < 3; i++) {
        s.dev[i].mem_bytes = 42 * MIB;
    }
    make(&s, &(struct hsp_plan_options){.no_zero = true}, &p);
    uint32_t of_device[3] = {0};
    for (uint32_t r = 0; r < p.plan->n_ranks; r++) {
        of_device[p.device[r]] = p.cost.rank[r].n_blocks;
    }
    assert_true(p.plan->pipelines[0].n_stages >= 2);
    assert_true(of_device[0] >= of_device[1] && of_device[1] >= of_device[2]);
    scene_free(&s);
}

/* Each large device can hold the model alone, the small ones only together: the plan has pipelines
 * of different depth. */
static void small_devices_form_a_pipeline_beside_large_ones(void **state)
{
    (void)state;
    struct scene s;
    struct hsp_planned p;
    const double speed[5] = {1, 1, 1, 1, 1};
    scene_make(&s, 5, speed, 1, 8, 60);
    s.dev[3].mem_bytes = s.dev[4].mem_bytes = 50 * MIB;
    s.c.cross.us_per_byte = 1e-5;
    make(&s, &(struct hsp_plan_options){.no_zero = true}, &p);
    uint32_t depth[3] = {0};
    for (uint32_t i = 0; i < p.plan->n_pipelines; i++) {
        depth[p.plan->pipelines[i].n_stages]++;
    }
    assert_int_equal(p.plan->n_ranks, 5);
    assert_int_equal(depth[1], 3);
    assert_int_equal(depth[2], 1);
    scene_free(&s);
}

static void infeasible_names_the_numbers(void **state)
{
    (void)state;
    struct scene s;
    struct hsp_planned p;
    struct hsp_err err = {0};
    const double speed[2] = {1, 1};
    scene_make(&s, 2, speed, 1, 1, 4);
    s.dev[0].mem_bytes = 3 * MIB;
    s.dev[1].mem_bytes = 2 * MIB;
    assert_status(hsp_plan_make(s.g, &s.t, &s.c, NULL, s.arena, &p, &err), HSP_EINFEASIBLE);
    assert_non_null(strstr(err.msg, "needs "));
    assert_non_null(strstr(err.msg, "largest worker offers 3.0 MiB"));
    bool excluded[2] = {true, true};
    struct hsp_plan_options o = {.excluded = excluded};
    assert_status(hsp_plan_make(s.g, &s.t, &s.c, &o, s.arena, &p, &err), HSP_ENODEV);
    scene_free(&s);
}

static void excluded_and_bounded(void **state)
{
    (void)state;
    struct scene s;
    struct hsp_planned p;
    const double speed[4] = {1, 1, 0.5, 1};
    bool excluded[4] = {true, false, false, false};
    scene_make(&s, 4, speed, 1, 2, 24);
    make(&s, &(struct hsp_plan_options){.excluded = excluded, .max_devices = 2}, &p);
    assert_true(p.plan->n_ranks <= 2);
    for (uint32_t r = 0; r < p.plan->n_ranks; r++) {
        assert_true(p.device[r] == 1 || p.device[r] == 3);
    }
    scene_free(&s);
}

static void cancel_is_heard(void **state)
{
    (void)state;
    struct scene s;
    struct hsp_planned p;
    struct hsp_err err = {0};
    const double speed[2] = {1, 1};
    atomic_bool cancel = true;
    struct hsp_plan_options o = {.cancel = &cancel};
    scene_make(&s, 2, speed, 1, 2, 4);
    assert_status(hsp_plan_make(s.g, &s.t, &s.c, &o, s.arena, &p, &err), HSP_ECANCELED);
    scene_free(&s);
}

/* For random clusters of several shapes the planner makes valid plans, makes the same plan twice,
 * and never makes one slower than the best single device. */
static void random_clusters_get_valid_equal_plans(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 12; round++) {
        struct scene s;
        struct hsp_planned a, b;
        double speed[8];
        uint32_t n = (uint32_t)hsp_test_range("n", round, 1, 8);
        for (uint64_t i = 0; i < n; i++) {
            speed[i] = (double)hsp_test_range("rs", round * 8 + i, 5, 100) / 50;
        }
        scene_make(&s, n, speed, (uint32_t)hsp_test_range("per", round, 1, 4),
                   hsp_test_range("layers", round, 1, 6),
                   (uint32_t)hsp_test_range("b", round, 1, 40));
        for (uint32_t i = 0; i < n; i++) {
            s.dev[i].mem_bytes = hsp_test_range("rm", round * 8 + i, 24, 200) * MIB;
        }
        struct hsp_err err = {0};
        enum hsp_status st = hsp_plan_make(s.g, &s.t, &s.c, NULL, s.arena, &a, &err);
        if (st == HSP_OK) {
            check_plan(&s, &a);
            make(&s, NULL, &b);
            assert_string_equal(a.plan->why, b.plan->why);
            assert_memory_equal(a.device, b.device, a.plan->n_ranks * sizeof(*a.device));
            assert_memory_equal(&a.plan->predicted_step_us, &b.plan->predicted_step_us, 8);
        } else {
            assert_int_equal(st, HSP_EINFEASIBLE);
        }
        scene_free(&s);
    }
}

/* Checks the parts of a predicted step time: the time of a rank is that of its micro-batches and
 * its update; the time of the slowest rank counts; synchronisation and vote are added. A device of
 * half the speed takes twice as long. */
static void a_price_is_the_sum_of_its_parts(void **state)
{
    (void)state;
    struct scene s;
    struct hsp_err err = {0};
    struct hsp_work w;
    struct hsp_cost c;
    const double speed[2] = {1, 0.5};
    uint32_t ranks[2] = {0, 1}, device[2] = {0, 1};
    int64_t one = 1;
    scene_make(&s, 2, speed, 1, 2, 8);
    assert_ok(hsp_work_make(s.g, s.arena, &w, &err), &err);
    struct hsp_stage stages[2] = {{.layers = 2, .n = 1, .ranks = &ranks[0], .shares = &one},
                                  {.layers = 2, .n = 1, .ranks = &ranks[1], .shares = &one}};
    struct hsp_pipeline pipelines[2] = {
        {.sequences = 4, .micro_batches = 1, .n_stages = 1, .stages = &stages[0]},
        {.sequences = 4, .micro_batches = 1, .n_stages = 1, .stages = &stages[1]}};
    struct hsp_plan plan = {
        .n_ranks = 2, .states_bucket = true, .n_pipelines = 2, .pipelines = pipelines};
    struct hsp_price_in in = {.work = &w, .cluster = &s.c, .train = &s.t, .copies = 1};
    assert_ok(hsp_price(&in, &plan, device, s.arena, &c, &err), &err);
    assert_near(c.rank[1].compute_us / c.rank[0].compute_us, 2, 1e-9);
    assert_near(c.rank[1].update_us / c.rank[0].update_us, 2, 1e-9);
    assert_true(c.rank[0].update_us > 0 && c.sync_us > 0 && c.vote_us > 0);
    assert_near(c.pipeline_us, c.rank[1].compute_us + c.rank[1].update_us, 1e-6);
    assert_near(c.step_us, c.pipeline_us + c.sync_us + c.vote_us, 1e-6);
    /* bytes of all gradients, there and back, and two messages each */
    double bytes = 0;
    for (uint32_t p = 0; p < w.n_params; p++) {
        bytes += w.param[p].bytes;
    }
    assert_near(c.sync_us, bytes * 4e-4 + 2 * 1.25 * 40 * w.n_params, 1e-6);
    int64_t alone = c.rank[0].comm_bytes;
    /* in buckets: two messages for each, which are packed, out and in */
    plan.bucket_bytes = (uint64_t)bytes / 3;
    assert_ok(hsp_price(&in, &plan, device, s.arena, &c, &err), &err);
    double full = bytes * 4e-4 + 2 * 1.25 * 40 * 4, beside = 2.0 / 3 * c.rank[0].compute_us;
    double last = fmax(0.25, w.param[0].bytes / bytes); /* of it nothing is hidden */
    assert_near(c.rank[0].sync_us, full - fmin(full, beside) * (1 - last), 1e-6);
    assert_true(c.sync_us < full);
    assert_near((double)(c.rank[0].comm_bytes - alone), 2 * floor(bytes / 3), 1);
    /* a pipeline: fill with both stages, then the slowest */
    struct hsp_stage halves[2] = {{.layers = 1, .n = 1, .ranks = &ranks[0], .shares = &one},
                                  {.layers = 1, .n = 1, .ranks = &ranks[1], .shares = &one}};
    struct hsp_pipeline line = {
        .sequences = 8, .micro_batches = 4, .n_stages = 2, .stages = halves};
    struct hsp_plan pipe = {.n_ranks = 2, .n_pipelines = 1, .pipelines = &line};
    assert_ok(hsp_price(&in, &pipe, device, s.arena, &c, &err), &err);
    double fast = c.rank[0].compute_us, slow = c.rank[1].compute_us, hop = c.rank[0].transfer_us;
    double us = (fast + slow + hop) / 4 + 3 * slow / 4;
    assert_near(c.pipeline_us, us + c.rank[1].update_us, 1e-6);
    scene_free(&s);
}

/* Two stages of as many groups as a plan may have: not the third power of that. */
static void many_groups_are_priced_at_once(void **state)
{
    (void)state;
    enum { GROUPS = HSP_MAX_RANKS, N = 2 * GROUPS };
    struct scene s;
    struct hsp_err err = {0};
    struct hsp_work w;
    struct hsp_cost c;
    const double speed[1] = {1};
    scene_make(&s, 1, speed, 1, 2, GROUPS);
    assert_ok(hsp_work_make(s.g, s.arena, &w, &err), &err);
    struct hsp_device_desc *dev = hsp_arena_array(s.arena, N, sizeof *dev);
    uint32_t *device = hsp_arena_array(s.arena, N, sizeof *device);
    int64_t *one = hsp_arena_array(s.arena, N, sizeof *one);
    for (uint32_t i = 0; i < N; i++) {
        dev[i] = s.dev[0];
        device[i] = i;
        one[i] = 1;
    }
    s.c.n = N;
    s.c.dev = dev;
    struct hsp_stage stage = {.layers = 1,
                              .n = GROUPS,
                              .n_groups = GROUPS,
                              .split = HSP_SPLIT_BATCH,
                              .ranks = device,
                              .first = device,
                              .shares = one,
                              .group_shares = one};
    struct hsp_stage stages[2] = {stage, stage};
    stages[1].ranks += GROUPS;
    struct hsp_pipeline line = {
        .sequences = GROUPS, .micro_batches = 1, .n_stages = 2, .stages = stages};
    struct hsp_plan plan = {.n_ranks = N, .n_pipelines = 1, .pipelines = &line};
    struct hsp_price_in in = {.work = &w, .cluster = &s.c, .train = &s.t, .copies = 1};
    clock_t begin = clock();
    assert_ok(hsp_price(&in, &plan, device, s.arena, &c, &err), &err);
    assert_true(clock() - begin < 2 * CLOCKS_PER_SEC);
    assert_true(c.rank[0].compute_us > 0 && c.rank[0].total_bytes == c.rank[1].total_bytes);
    scene_free(&s);
}

static void given_plans_are_priced_and_refused(void **state)
{
    (void)state;
    struct scene s;
    struct hsp_planned p;
    struct hsp_err err = {0};
    const double speed[2] = {1, 0.5};
    uint32_t ranks[2] = {0, 1};
    int64_t shares[2] = {2, 2};
    scene_make(&s, 2, speed, 2, 2, 8);
    struct hsp_stage stage = {.layers = 2, .n = 2, .ranks = ranks, .shares = shares};
    struct hsp_pipeline pipeline = {
        .sequences = 8, .micro_batches = 2, .n_stages = 1, .stages = &stage};
    struct hsp_plan plan = {.n_ranks = 2, .n_pipelines = 1, .pipelines = &pipeline};
    assert_ok(hsp_plan_adopt(s.g, &s.t, &s.c, NULL, &plan, s.arena, &p, &err), &err);
    check_plan(&s, &p);
    double equal = p.cost.step_us;
    shares[0] = 3;
    shares[1] = 1;
    assert_ok(hsp_plan_adopt(s.g, &s.t, &s.c, NULL, &plan, s.arena, &p, &err), &err);
    assert_true(p.cost.step_us < equal);
    s.dev[1].mem_bytes = 5 * MIB;
    assert_status(hsp_plan_adopt(s.g, &s.t, &s.c, NULL, &plan, s.arena, &p, &err), HSP_EINFEASIBLE);
    s.c.n = 1;
    assert_status(hsp_plan_adopt(s.g, &s.t, &s.c, NULL, &plan, s.arena, &p, &err), HSP_ENODEV);
    scene_free(&s);
}

/* Returns the bytes in the state folders of a pipeline of one block per rank, with the copies that
 * the ranks hold. */
static double state_of_pipeline(struct scene *s, uint32_t copies)
{
    struct hsp_planned p;
    struct hsp_err err = {0};
    uint32_t ranks[2] = {0, 1};
    int64_t one = 1;
    struct hsp_stage halves[2] = {{.layers = 1, .n = 1, .ranks = &ranks[0], .shares = &one},
                                  {.layers = 1, .n = 1, .ranks = &ranks[1], .shares = &one}};
    struct hsp_pipeline line = {
        .sequences = 8, .micro_batches = 4, .n_stages = 2, .stages = halves};
    struct hsp_plan pipe = {.n_ranks = 2, .n_pipelines = 1, .pipelines = &line};
    struct hsp_plan_options o = {.copies = copies};
    assert_ok(hsp_plan_adopt(s->g, &s->t, &s->c, &o, &pipe, s->arena, &p, &err), &err);
    assert_true(copies < 2 || p.cost.copy_us > 0);
    return (double)(p.cost.rank[0].folder_bytes + p.cost.rank[1].folder_bytes);
}

/* Ranks hold copies for each other on the nodes of the plan; further copies are with replica
 * holders. */
static void copies_count_on_the_nodes_of_the_plan(void **state)
{
    (void)state;
    struct scene s;
    const double speed[3] = {1, 1, 1};
    scene_make(&s, 3, speed, 1, 2, 8);
    double once = state_of_pipeline(&s, 1);
    assert_near(state_of_pipeline(&s, 2) / once, 2, 1e-6);
    assert_near(state_of_pipeline(&s, 3) / once, 2, 1e-6);
    s.dev[1].node = s.dev[0].node;
    assert_near(state_of_pipeline(&s, 2) / once, 1, 1e-6);
    scene_free(&s);
}

/* Copies are made of due versions only: one in n, or so many as a part of the time pays for, and
 * one in a while at least. */
static void copies_of_due_versions_are_priced(void **state)
{
    (void)state;
    struct scene s;
    const double speed[2] = {1, 1};
    scene_make(&s, 2, speed, 1, 2, 8);
    uint32_t ranks[2] = {0, 1}, device[2] = {0, 1};
    int64_t one = 1;
    struct hsp_stage halves[2] = {{.layers = 1, .n = 1, .ranks = &ranks[0], .shares = &one},
                                  {.layers = 1, .n = 1, .ranks = &ranks[1], .shares = &one}};
    struct hsp_pipeline line = {
        .sequences = 8, .micro_batches = 4, .n_stages = 2, .stages = halves};
    struct hsp_plan pipe = {.n_ranks = 2, .n_pipelines = 1, .pipelines = &line};
    struct hsp_work work;
    struct hsp_err err = {0};
    struct hsp_cost each, c;
    assert_ok(hsp_work_make(s.g, s.arena, &work, &err), &err);
    struct hsp_price_in in = {.work = &work, .cluster = &s.c, .train = &s.t, .copies = 2};
    assert_ok(hsp_price(&in, &pipe, device, s.arena, &each, &err), &err);
    double rest = each.step_us - each.copy_us, bare = 0.01 * rest;
    assert_true(each.copy_us > 0);
    in.due.every = 4;
    assert_ok(hsp_price(&in, &pipe, device, s.arena, &c, &err), &err);
    assert_near(c.copy_us, each.copy_us / 4, 1e-6 * each.copy_us);
    assert_near(c.step_us, rest + c.copy_us, 1e-6 * rest);
    in.due = (struct hsp_due_rule){0, 0.01, 1e9};
    assert_ok(hsp_price(&in, &pipe, device, s.arena, &c, &err), &err);
    assert_near(c.copy_us, bare < each.copy_us ? bare : each.copy_us, 1e-6 * each.copy_us);
    in.due.overhead = 1e-6; /* so few that each 10 steps have one */
    in.due.max_recompute_s = 10 * rest / 1e6;
    assert_ok(hsp_price(&in, &pipe, device, s.arena, &c, &err), &err);
    assert_near(c.copy_us, each.copy_us / 10, 1e-6 * each.copy_us);
    scene_free(&s);
}

/* Returns the memory that @n devices need for the model, as the planner plans it for them without
 * copies. */
static int64_t alone_needs(uint32_t n, uint32_t layers)
{
    struct scene s;
    struct hsp_planned p;
    const double speed[2] = {1, 1};
    scene_make(&s, n, speed, 2, layers, 8);
    for (uint32_t i = 0; i < n; i++) {
        s.dev[i].mem_bytes = n > 1 ? 56 * MIB : 1024 * MIB;
    }
    s.c.same_node.us_per_byte = 1e-2; /* no tensor groups */
    make(&s, &(struct hsp_plan_options){.no_zero = true, .micro_cap = 1}, &p);
    int64_t most = 0;
    for (uint32_t r = 0; r < p.plan->n_ranks; r++) {
        most = p.plan->memory_bytes[r] > most ? p.plan->memory_bytes[r] : most;
    }
    assert_int_equal(p.plan->n_ranks, n);
    scene_free(&s);
    return most;
}

/* There is just enough memory for one copy on one node, and another node can only be a replica
 * holder. Checks one device, and a pipeline of two. */
static void a_plan_on_one_node_needs_no_room_for_copies(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 2; n++) {
        struct scene s;
        struct hsp_planned p;
        const double speed[3] = {1, 1, 1};
        int64_t need = alone_needs(n, 8);
        scene_make(&s, n + 1, speed, n, 8, 8);
        for (uint32_t i = 0; i < n; i++) {
            s.dev[i].mem_bytes = need;
        }
        s.dev[n].mem_bytes = MIB;
        s.c.same_node.us_per_byte = 1e-2;
        make(&s, &(struct hsp_plan_options){.copies = 2, .no_zero = true, .micro_cap = 1}, &p);
        assert_int_equal(p.plan->n_ranks, n);
        assert_true(strstr(p.plan->why, "recomputed") == NULL);
        assert_int_equal(p.plan->pipelines[0].n_stages, n);
        for (uint32_t r = 0; r < n; r++) {
            assert_int_equal(s.dev[p.device[r]].node, 0);
        }
        scene_free(&s);
    }
}

/* Returns the number of stages of more than one device. *ret_within: each of these stages is within
 * one fast domain. */
static uint32_t groups_within(const struct scene *s, const struct hsp_planned *p, bool *ret_within)
{
    uint32_t n = 0;
    *ret_within = true;
    for (uint32_t i = 0; i < p->plan->n_pipelines; i++) {
        for (uint32_t g = 0; g < p->plan->pipelines[i].n_stages; g++) {
            const struct hsp_stage *t = &p->plan->pipelines[i].stages[g];
            n += t->n > 1;
            for (uint32_t k = 1; k < t->n; k++) {
                uint32_t a = s->dev[p->device[t->ranks[0]]].domain;
                *ret_within = *ret_within && a != 0 && s->dev[p->device[t->ranks[k]]].domain == a;
            }
        }
    }
    return n;
}

/* Four devices of a node with a slow way through the host. With NVLink pairs, which are not
 * neighbours in the list, tensor groups pay, and none leaves its pair. */
static void tensor_groups_stay_in_fast_domains(void **state)
{
    (void)state;
    struct scene s;
    struct hsp_planned p;
    const double speed[4] = {1, 1, 1, 1};
    bool within;
    scene_make(&s, 4, speed, 4, 2, 2);
    s.c.same_node = (struct hsp_link_cost){200, 1e-2};
    make(&s, &(struct hsp_plan_options){.copies = 1}, &p);
    assert_int_equal(groups_within(&s, &p, &within), 0);
    for (uint32_t i = 0; i < 4; i++) {
        s.dev[i].domain = 1 + i % 2;
        s.dev[i].fast = (struct hsp_link_cost){0.1, 1e-6};
    }
    const uint32_t pair[2] = {0, 2}, across[2] = {0, 1}, all[4] = {0, 1, 2, 3};
    assert_near(hsp_link_group(&s.c, pair, 2).latency_us, 0.1, 0);
    assert_near(hsp_link_group(&s.c, across, 2).latency_us, 200, 0);
    assert_near(hsp_link_group(&s.c, all, 4).latency_us, 200, 0);
    s.dev[2].fast.us_per_byte = 2e-6; /* as slow as its slowest */
    assert_near(hsp_link_pair(&s.c, 0, 2).us_per_byte, 2e-6, 0);
    make(&s, &(struct hsp_plan_options){.copies = 1}, &p);
    assert_true(groups_within(&s, &p, &within) > 0);
    assert_true(within);
    scene_free(&s);
}

HSP_TEST_FILE(planner_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unequal_cores_get_unequal_shares),
        cmocka_unit_test(data_parallel_matches_brute_force),
        cmocka_unit_test(a_device_behind_a_slow_link_is_left_out),
        cmocka_unit_test(a_slow_link_is_avoided),
        cmocka_unit_test(stages_pay_the_link_between_them),
        cmocka_unit_test(single_devices_are_no_tensor_group),
        cmocka_unit_test(tensor_groups_stay_in_fast_domains),
        cmocka_unit_test(a_useless_device_is_left_out),
        cmocka_unit_test(a_model_too_large_becomes_an_uneven_pipeline),
        cmocka_unit_test(small_devices_form_a_pipeline_beside_large_ones),
        cmocka_unit_test(infeasible_names_the_numbers),
        cmocka_unit_test(excluded_and_bounded),
        cmocka_unit_test(cancel_is_heard),
        cmocka_unit_test(random_clusters_get_valid_equal_plans),
        cmocka_unit_test(a_price_is_the_sum_of_its_parts),
        cmocka_unit_test(many_groups_are_priced_at_once),
        cmocka_unit_test(given_plans_are_priced_and_refused),
        cmocka_unit_test(copies_count_on_the_nodes_of_the_plan),
        cmocka_unit_test(copies_of_due_versions_are_priced),
        cmocka_unit_test(a_plan_on_one_node_needs_no_room_for_copies),
    };
    return cmocka_run_group_tests_name("planner", tests, NULL, NULL);
}
