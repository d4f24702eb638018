/* Tests planning for a START_PLAN: devices and facts, the choice of the plan, the kept results.
 * Links are those of plan_links_test.c. */
#include "daemon/app/plans/plan_request.h"

#include <stdio.h>

#include "daemon/app/plans/plan_choice.h"
#include "proto/base/size.h"
#include "proto/wire/protocol.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/app/app_lib.h"

#define GIB ((uint64_t)1 << 30)

/* Joined in an order that is not that of their names; w10 comes after w2. */
static const struct app_node nodes[] = {
    {"w10", 1.0, GIB}, {"w2", 0.5, GIB}, {"w1", 0.25, GIB}, {"w3", 1.0, GIB}};
enum { W10 = 0, W2 = 16, W1 = 32, W3 = 48 };
static hsp_device_id all[] = {W10, W2, W1, W3};

static struct hsp_plan_question *ask(struct hsp_cluster *c, struct hsp_job_rec *j,
                                     struct hsp_plan_request *r)
{
    struct hsp_err err = {0};
    struct hsp_plan_question *q = NULL;
    if (r->devices == NULL) {
        r->devices = all;
        r->n_devices = 4;
    }
    assert_ok(hsp_plan_question_new(c, j, r, (size_t)256 << 20, &q, &err), &err);
    return q;
}

static void test_devices_stand_by_name_with_their_speed(void **state)
{
    (void)state;
    struct hsp_cluster *c = app_cluster(nodes, 4);
    struct hsp_job_rec *j = app_job("", 0, NULL);
    double speed[] = {1, 0.5, 1, 2};
    struct hsp_plan_request r = {.speed = speed};
    (void)snprintf(c->nodes[0].dev[0].kind, sizeof c->nodes[0].dev[0].kind, "cuda"); /* w10 */
    (void)snprintf(c->nodes[1].dev[0].kind, sizeof c->nodes[1].dev[0].kind, "cpu");  /* w2 */
    c->nodes[1].dev[0].profile.gemm_tf32_flops = 3e10;
    c->nodes[1].dev[0].profile.gemm_bf16_flops = 6e10;
    c->nodes[1].dev[0].gemm_part[3 * HSP_N_GEMM_CLASSES + HSP_GEMM_LONG] = 0.25;
    c->nodes[1].dev[0].profile.bf16_part = 1e-300; /* as far as it is believed */
    struct hsp_plan_question *q = ask(c, j, &r);
    assert_int_equal(q->cluster.n, 4);
    static const char *const names[] = {"w1/0", "w2/0", "w3/0", "w10/0"};
    static const hsp_device_id ids[] = {W1, W2, W3, W10};
    for (uint32_t i = 0; i < 4; i++) {
        assert_string_equal(q->cluster.dev[i].name, names[i]);
        assert_int_equal(q->device[i], ids[i]);
        assert_int_equal(q->cluster.dev[i].node, HSP_DEVICE_NODE(ids[i]));
    }
    assert_near(q->cluster.dev[1].gemm_flops[0], 0.5 * 0.5 * 1e10, 1); /* observed half of 0.5 */
    assert_near(q->cluster.dev[1].op_us, 3 / 0.5 / 0.5, 1e-9);
    assert_near(q->cluster.dev[2].gemm_flops[1], 2 * 5e9, 1);
    assert_near(hsp_device_gemm(&q->cluster.dev[1], HSP_RATE_TF32, HSP_GEMM_EVEN), 0.5 * 3e10, 1);
    assert_near(hsp_device_gemm(&q->cluster.dev[1], HSP_RATE_BF16, HSP_GEMM_EVEN), 0.5 * 6e10, 1);
    assert_near(hsp_device_gemm(&q->cluster.dev[3], HSP_RATE_BF16, HSP_GEMM_EVEN), 1e10,
                1); /* as fp32 */
    assert_near(hsp_device_gemm(&q->cluster.dev[1], HSP_RATE_BF16, HSP_GEMM_LONG), 0.125 * 6e10, 1);
    assert_near(hsp_device_gemm(&q->cluster.dev[1], HSP_RATE_TF32, HSP_GEMM_LONG), 0.5 * 3e10, 1);
    assert_near(q->cluster.dev[1].bf16_part, 1e-3, 0);
    assert_int_equal(q->cluster.dev[1].communicator_bytes, 0);
    assert_int_equal(q->cluster.dev[3].communicator_bytes, HSP_COMMUNICATOR_BYTES);
    assert_true(q->cluster.dev[1].widens && !q->cluster.dev[3].widens);
    assert_true(q->cluster.cross.latency_us > 0 && q->cluster.same_node.us_per_byte > 0);
    (void)hsp_plan_question_free(q);
    (void)hsp_job_rec_unref(j);
    app_cluster_free(c);
}

/* Only of the device and the incarnation that was measured, and of rates that a device has. */
static void test_what_was_measured_corrects(void **state)
{
    (void)state;
    struct hsp_cluster *c = app_cluster(nodes, 4);
    struct hsp_job_rec *j = app_job("", 0, NULL);
    struct hsp_plan_request r = {.urgent = false};
    struct hsp_plan_question *q = ask(c, j, &r);
    const struct hsp_measured sums = {.product = {.n = 1, .seconds = 1},
                                      .elements = {.n = 1, .seconds = 8},
                                      .flops = {1e10},
                                      .bytes = 1e9};
    struct hsp_device_measured m[] = {{W2, c->nodes[1].incarnation, sums},
                                      {W1, c->nodes[2].incarnation + 1, sums},
                                      {W3 + 1, c->nodes[3].incarnation, sums}};
    struct hsp_device_desc before[4];
    memcpy(before, q->cluster.dev, sizeof before);
    hsp_plan_measured(q, c, m, HSP_ARRAY_LEN(m), hsp_work_rate(j->graph));
    for (uint32_t i = 0; i < 4; i++) {
        bool is_it = q->device[i] == W2;
        assert_true((q->cluster.dev[i].gemm_flops[0] > before[i].gemm_flops[0]) == is_it);
        assert_true((q->cluster.dev[i].mem_bytes_per_s < before[i].mem_bytes_per_s) == is_it);
    }
    (void)hsp_plan_question_free(q);
    (void)hsp_job_rec_unref(j);
    app_cluster_free(c);
}

static void test_facts_exclude_or_shrink(void **state)
{
    (void)state;
    struct hsp_cluster *c = app_cluster(nodes, 4);
    struct hsp_job_rec *j = app_job("", 0, NULL);
    struct hsp_plan_fact facts[] = {
        {HSP_FACT_OUT_OF_MEMORY, W1, W1, GIB / 2, 0},
        {HSP_FACT_OUT_OF_MEMORY, W2, W2, 1, 0},
        {HSP_FACT_CANNOT_CONNECT, W10, W3, 0, 0},
        {HSP_FACT_CANNOT_CONNECT, W2, W3, 0, 0},
        {HSP_FACT_TIMEOUT, W2, W2, 0, 0},
    };
    struct hsp_plan_request r = {.facts = facts, .n_facts = 5};
    struct hsp_plan_question *q = ask(c, j, &r);
    assert_int_equal(q->cluster.dev[0].mem_bytes, GIB / 2);
    assert_int_equal(q->cluster.dev[1].mem_bytes, GIB - GIB / 16); /* a part at least */
    assert_false(q->excluded[0] || q->excluded[1] || q->excluded[3]);
    assert_true(q->excluded[2]); /* w3, named by two */
    const struct hsp_plan_fact more[] = {{HSP_FACT_TIMEOUT, W2, W2, 0, 0},
                                         {HSP_FACT_TIMEOUT, W2, W2, 0, 0},
                                         {HSP_FACT_NO_DATA, W10, W10, 0, 0}};
    hsp_plan_facts(q, more, 3);
    assert_true(q->excluded[1] && q->excluded[3] && !q->excluded[0]);
    (void)hsp_plan_question_free(q);
    const int64_t left[] = {15, 13, 9, 1, 0}; /* at any amount, it takes all in the end */
    for (uint32_t again = 0; again < 5; again++) {
        facts[0] = (struct hsp_plan_fact){HSP_FACT_OUT_OF_MEMORY, W1, W1, 1 + again, again};
        facts[1] = (struct hsp_plan_fact){HSP_FACT_TIMEOUT, W2, W2, 0, again};
        r.n_facts = 2;
        q = ask(c, j, &r);
        assert_int_equal(q->cluster.dev[0].mem_bytes, left[again] * (int64_t)(GIB / 16));
        assert_true(q->excluded[1] == (again > 0));
        (void)hsp_plan_question_free(q);
    }
    struct hsp_plan_fact pair[] = {{HSP_FACT_CANNOT_CONNECT, W2, W10, 0, 0}};
    r = (struct hsp_plan_request){.facts = pair, .n_facts = 1};
    q = ask(c, j, &r);
    assert_true(q->excluded[1] && !q->excluded[3]); /* of two named as often the slower one */
    (void)hsp_plan_question_free(q);
    (void)hsp_job_rec_unref(j);
    app_cluster_free(c);
}

static void test_planner_uses_what_facts_leave(void **state)
{
    (void)state;
    struct hsp_cluster *c = app_cluster(nodes, 4);
    struct hsp_job_rec *j = app_job("", 0, NULL);
    struct hsp_plan_fact facts[] = {{HSP_FACT_NO_DATA, W3, W3, 0, 0},
                                    {HSP_FACT_NO_DATA, W10, W10, 0, 0}};
    struct hsp_plan_request r = {.facts = facts, .n_facts = 2};
    struct hsp_plan_question *q = ask(c, j, &r);
    struct hsp_plan_answer a;
    hsp_plan_work(q, true, &a);
    assert_int_equal(a.status, HSP_OK);
    assert_false(a.keep);
    assert_non_null(a.plan);
    for (uint32_t i = 0; i < a.plan->n_ranks; i++) {
        assert_true(a.plan->device[i] == W1 || a.plan->device[i] == W2);
        assert_true(a.plan->compute_s[i] > 0);
    }
    assert_true(a.plan->built->info.compute_s[0] == a.plan->compute_s[0]);
    (void)hsp_plan_rec_unref(a.plan);
    (void)hsp_plan_question_free(q);
    (void)hsp_job_rec_unref(j);
    app_cluster_free(c);
}

static void test_the_first_hand_written_plan_that_fits_wins(void **state)
{
    (void)state;
    struct hsp_cluster *c = app_cluster(nodes, 4);
    const struct hsp_m_file files[] = {{"three.yaml", app_zero3}, {"tp.yaml", app_tp2}};
    struct hsp_job_rec *j = app_job("annotations: [three.yaml, tp.yaml]\n", 2, files);
    struct hsp_plan_answer a;
    static const struct {
        uint32_t n;
        const char *source;
    } cases[] = {{4, "three.yaml"}, {3, "three.yaml"}, {2, "tp.yaml"}, {1, "planner"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hsp_plan_request r = {.devices = all, .n_devices = cases[i].n};
        struct hsp_plan_question *q = ask(c, j, &r);
        hsp_plan_work(q, true, &a);
        assert_int_equal(a.status, HSP_OK);
        assert_string_equal(a.plan->source, cases[i].source);
        if (cases[i].n == 3) { /* rank r on the r-th by name: w1, w2, w10 */
            assert_int_equal(a.plan->device[0], W1);
            assert_int_equal(a.plan->device[1], W2);
            assert_int_equal(a.plan->device[2], W10);
        }
        (void)hsp_plan_rec_unref(a.plan);
        (void)hsp_plan_question_free(q);
    }
    (void)hsp_job_rec_unref(j);
    app_cluster_free(c);
}

static uint32_t n_swollen; /* so many plans that are compiled next need this much on rank 0 */
static uint64_t swollen;
static bool widely; /* only where it computes on bf16 in fp32 */
static bool sealed; /* in its state folder */

enum hsp_status __real_hsp_plan_rec_make(struct hsp_job_rec *job, const struct hsp_plan *plan,
                                         const hsp_device_id *device, const double *compute_s,
                                         const char *const *names, const char *source,
                                         size_t mem_cap, struct hsp_plan_rec **ret,
                                         struct hsp_err *err);
enum hsp_status __wrap_hsp_plan_rec_make(struct hsp_job_rec *job, const struct hsp_plan *plan,
                                         const hsp_device_id *device, const double *compute_s,
                                         const char *const *names, const char *source,
                                         size_t mem_cap, struct hsp_plan_rec **ret,
                                         struct hsp_err *err);
enum hsp_status __wrap_hsp_plan_rec_make(struct hsp_job_rec *job, const struct hsp_plan *plan,
                                         const hsp_device_id *device, const double *compute_s,
                                         const char *const *names, const char *source,
                                         size_t mem_cap, struct hsp_plan_rec **ret,
                                         struct hsp_err *err)
{
    enum hsp_status st =
        __real_hsp_plan_rec_make(job, plan, device, compute_s, names, source, mem_cap, ret, err);
    if (st == HSP_OK && n_swollen > 0) {
        n_swollen--;
        struct hsp_epoch_plan *p = (*ret)->built;
        *(widely ? p->wide_bytes : sealed ? p->folder_bytes : p->info.mem_bytes) = swollen;
    }
    return st;
}

/* Compiled plans that are larger than their devices: the next one written by hand, or a refusal.
 * three.yaml is tried without buckets, too. */
static void test_what_is_too_large_once_compiled(void **state)
{
    (void)state;
    static const char sizes[] = "compiled, rank 0 needs 2.0 GiB, w";
    struct hsp_cluster *c = app_cluster(nodes, 4);
    const struct hsp_m_file files[] = {{"three.yaml", app_zero3}, {"tp.yaml", app_tp2}};
    struct hsp_job_rec *hand = app_job("annotations: [three.yaml, tp.yaml]\n", 2, files);
    static const struct {
        uint32_t swollen, left;
        const char *source, *refused; /* one of them */
    } cases[] = {
        {2, 0, "tp.yaml", NULL}, {3, 0, NULL, "three.yaml: "}, {9, 6, NULL, "three.yaml: "}};
    swollen = 2 * GIB;
    for (size_t i = 0; i < HSP_ARRAY_LEN(cases); i++) {
        struct hsp_plan_request r = {0};
        struct hsp_plan_question *q = ask(c, hand, &r);
        struct hsp_plan_answer a;
        n_swollen = cases[i].swollen;
        hsp_plan_work(q, true, &a);
        assert_int_equal(n_swollen, cases[i].left);
        if (cases[i].source != NULL) {
            assert_int_equal(a.status, HSP_OK);
            assert_string_equal(a.plan->source, cases[i].source);
        } else {
            assert_int_equal(a.status, HSP_EINFEASIBLE);
            assert_null(a.plan);
            assert_int_equal(strncmp(a.reason, cases[i].refused, strlen(cases[i].refused)), 0);
            assert_non_null(strstr(a.reason, sizes));
        }
        (void)hsp_plan_rec_unref(a.plan);
        (void)hsp_plan_question_free(q);
    }
    n_swollen = 0;
    (void)hsp_job_rec_unref(hand);
    app_cluster_free(c);
}

/* Copies in fp32 count on devices that make them. */
static void test_room_for_fp32_copies(void **state)
{
    (void)state;
    struct hsp_cluster *c = app_cluster(nodes, 4);
    const struct hsp_m_file files[] = {{"three.yaml", app_zero3}, {"tp.yaml", app_tp2}};
    struct hsp_job_rec *hand = app_job("annotations: [three.yaml, tp.yaml]\n", 2, files);
    swollen = 2 * GIB;
    widely = true;
    for (int cpu = 0; cpu < 2; cpu++) {
        struct hsp_plan_request r = {0};
        struct hsp_plan_answer a;
        for (uint32_t n = 0; n < 4; n++) {
            (void)snprintf(c->nodes[n].dev[0].kind, sizeof c->nodes[n].dev[0].kind,
                           cpu ? "cpu" : "cuda");
        }
        struct hsp_plan_question *q = ask(c, hand, &r);
        n_swollen = 2; /* three.yaml with buckets and without */
        hsp_plan_work(q, true, &a);
        assert_int_equal(a.status, HSP_OK);
        assert_string_equal(a.plan->source, cpu ? "tp.yaml" : "three.yaml");
        (void)hsp_plan_rec_unref(a.plan);
        (void)hsp_plan_question_free(q);
    }
    widely = false;
    n_swollen = 0;
    (void)hsp_job_rec_unref(hand);
    app_cluster_free(c);
}

/* Of the planner the next plan, a few times. */
static void test_the_planner_goes_on_to_its_next_plan(void **state)
{
    (void)state;
    struct hsp_cluster *c = app_cluster(nodes, 4);
    struct hsp_job_rec *j = app_job("", 0, NULL);
    struct hsp_plan_answer a[3];
    for (uint32_t i = 0; i < 3; i++) { /* as it would; the first one too large; all of them */
        struct hsp_plan_request r = {0};
        struct hsp_plan_question *q = ask(c, j, &r);
        n_swollen = i < 2 ? i : 100;
        hsp_plan_work(q, true, &a[i]);
        if (i == 0) {
            for (uint32_t n = 0; n < 4; n++) {
                uint64_t fits = (uint64_t)a[0].planned.cost.rank[0].total_bytes + 1024;
                c->nodes[n].dev[0].profile.mem_bytes = fits;
                swollen = fits + 1024;
            }
        }
        assert_int_equal(a[i].status, i < 2 ? HSP_OK : HSP_EINFEASIBLE);
        (void)hsp_plan_question_free(q);
    }
    assert_string_equal(a[1].plan->source, "planner");
    assert_string_not_equal(a[0].plan->summary, a[1].plan->summary);
    assert_true(n_swollen >= 96 && n_swollen < 100); /* gives up then */
    assert_non_null(strstr(a[2].reason, "compiled, rank 0 needs "));
    assert_null(a[2].plan);
    n_swollen = 0;
    (void)hsp_plan_rec_unref(a[0].plan);
    (void)hsp_plan_rec_unref(a[1].plan);
    (void)hsp_job_rec_unref(j);
    app_cluster_free(c);
}

/* The need of the compiled programs decides, to the byte, though more is predicted. */
static void test_a_plan_written_by_hand_may_fill_its_device(void **state)
{
    (void)state;
    struct hsp_cluster *c = app_cluster(nodes, 4);
    const struct hsp_m_file files[] = {{"tp.yaml", app_tp2}};
    struct hsp_job_rec *j = app_job("annotations: [tp.yaml]\n", 1, files);
    uint64_t need = 0;
    for (int i = 0; i < 3; i++) { /* with plenty; with its need; with a byte less */
        struct hsp_plan_request r = {0};
        if (i > 0) {
            c->nodes[2].dev[0].profile.mem_bytes = need - (i == 2); /* w1, the first by name */
        }
        struct hsp_plan_question *q = ask(c, j, &r);
        struct hsp_plan_answer a;
        hsp_plan_work(q, true, &a);
        assert_int_equal(a.status, i < 2 ? HSP_OK : HSP_EINFEASIBLE);
        if (i < 2) {
            assert_string_equal(a.plan->source, "tp.yaml");
            need = a.plan->built->info.mem_bytes[0] + a.plan->built->folder_bytes[0];
        } else {
            assert_non_null(strstr(a.reason, "tp.yaml: compiled, rank 0 needs "));
        }
        (void)hsp_plan_rec_unref(a.plan);
        (void)hsp_plan_question_free(q);
    }
    (void)hsp_job_rec_unref(j);
    app_cluster_free(c);
}

static void test_a_plan_as_good_is_kept(void **state)
{
    (void)state;
    struct hsp_cluster *c = app_cluster(nodes, 4);
    struct hsp_job_rec *j = app_job("", 0, NULL);
    struct hsp_plan_request r = {0};
    struct hsp_plan_question *q = ask(c, j, &r);
    struct hsp_plan_answer a, b;
    hsp_plan_work(q, true, &a);
    assert_int_equal(a.status, HSP_OK);
    (void)hsp_plan_question_free(q);
    r.current_usable = true;
    q = ask(c, j, &r);
    q->current = hsp_plan_rec_ref(a.plan);
    hsp_plan_work(q, true, &b);
    assert_int_equal(b.status, HSP_OK);
    assert_true(b.keep);
    assert_null(b.plan);
    assert_string_equal(b.reason, "the same plan again"); /* one total, the other fresh */
    (void)hsp_plan_question_free(q);
    /* a member is gone: it cannot be kept */
    r.devices = all + 1;
    r.n_devices = 3;
    hsp_device_id gone = W10;
    bool member = false;
    for (uint32_t i = 0; i < a.plan->n_ranks; i++) {
        member = member || a.plan->device[i] == gone;
    }
    assert_true(member);
    q = ask(c, j, &r);
    q->current = hsp_plan_rec_ref(a.plan);
    hsp_plan_work(q, true, &b);
    assert_int_equal(b.status, HSP_OK);
    assert_false(b.keep);
    (void)hsp_plan_rec_unref(b.plan);
    (void)hsp_plan_question_free(q);
    /* the same devices, one a tenth as fast as thought: worth a switch */
    double speed[] = {0.1, 1, 1, 1};
    r = (struct hsp_plan_request){.speed = speed, .current_usable = true};
    q = ask(c, j, &r);
    q->current = hsp_plan_rec_ref(a.plan);
    hsp_plan_work(q, true, &b);
    assert_int_equal(b.status, HSP_OK);
    assert_false(b.keep);
    (void)hsp_plan_rec_unref(b.plan);
    (void)hsp_plan_rec_unref(a.plan);
    (void)hsp_plan_question_free(q);
    (void)hsp_job_rec_unref(j);
    app_cluster_free(c);
}

/* The running plan has the memory of its devices, though the planner's best one, compiled, is too
 * large and the planner is told of less. */
static void test_the_running_plan_stays_when_a_better_one_is_too_large(void **state)
{
    (void)state;
    struct hsp_cluster *c = app_cluster(nodes, 4);
    struct hsp_job_rec *j = app_job("", 0, NULL);
    struct hsp_plan_rec *running = NULL;
    uint64_t fits = 0;
    for (uint32_t i = 0; i < 3;
         i++) { /* the best; without it the next, which runs; again, running */
        struct hsp_plan_request r = {.current_usable = i == 2};
        struct hsp_plan_question *q = ask(c, j, &r);
        struct hsp_plan_answer a;
        n_swollen = i > 0;
        if (i == 2) {
            q->current = hsp_plan_rec_ref(running);
        }
        hsp_plan_work(q, true, &a);
        assert_int_equal(a.status, HSP_OK);
        assert_int_equal(n_swollen, 0);
        if (i == 0) {
            fits = (uint64_t)a.planned.cost.rank[0].total_bytes + 1024;
            for (uint32_t n = 0; n < 4; n++) {
                c->nodes[n].dev[0].profile.mem_bytes = fits;
            }
            swollen = fits + 1024;
        } else if (i == 1) {
            running = hsp_plan_rec_ref(a.plan);
            for (uint32_t k = 0; k < running->n_ranks; k++) {
                running->built->info.mem_bytes[k] = fits - running->built->folder_bytes[k];
            }
        } else {
            assert_true(a.keep);
            assert_null(a.plan);
            assert_string_equal(a.reason, "the same plan again");
        }
        (void)hsp_plan_rec_unref(a.plan);
        (void)hsp_plan_question_free(q);
    }
    (void)hsp_plan_rec_unref(running);
    (void)hsp_job_rec_unref(j);
    app_cluster_free(c);
}

static void set_rooms(struct hsp_cluster *c, uint64_t bytes)
{
    for (uint32_t n = 0; n < 4; n++) {
        c->nodes[n].folder_free = bytes;
    }
}

/* Plans as if nothing ran, or @running did. */
static struct hsp_plan_answer plan_with(struct hsp_cluster *c, struct hsp_job_rec *j,
                                        struct hsp_plan_rec *running)
{
    struct hsp_plan_request r = {.current_usable = running != NULL};
    struct hsp_plan_question *q = ask(c, j, &r);
    struct hsp_plan_answer a;
    q->current = running != NULL ? hsp_plan_rec_ref(running) : NULL;
    hsp_plan_work(q, true, &a);
    (void)hsp_plan_question_free(q);
    return a;
}

/* No plan seals more on a node than its agent says that there is room for: first the best plan,
 * then, with a byte less than that needs, another one, then none. */
static void test_plans_are_held_to_state_folders(void **state)
{
    (void)state;
    struct hsp_cluster *c = app_cluster(nodes, 4);
    struct hsp_job_rec *j = app_job("", 0, NULL);
    uint64_t room = 0;
    for (int i = 0; i < 3; i++) {
        set_rooms(c, i == 2 ? 1024 : room);
        struct hsp_plan_answer a = plan_with(c, j, NULL);
        assert_int_equal(a.status, i < 2 ? HSP_OK : HSP_EINFEASIBLE);
        assert_int_equal(a.tight, i > 0);
        if (i == 2) {
            assert_null(a.plan);
            assert_non_null(strstr(a.reason, " in the state folder of w"));
            assert_non_null(strstr(a.reason, ", which has 1.0 KiB"));
            continue;
        }
        uint64_t most = 0;
        for (uint32_t r = 0; r < a.plan->n_ranks; r++) {
            uint64_t bytes = a.plan->built->folder_bytes[r];
            most = bytes > most ? bytes : most;
        }
        assert_true(room == 0 || most <= room);
        room = most - 1;
        (void)hsp_plan_rec_unref(a.plan);
    }
    (void)hsp_job_rec_unref(j);
    app_cluster_free(c);
}

/* Bytes of compiled programs count, for plans of the planner and for those written by hand. */
static void test_compiled_plans_are_held_to_state_folders(void **state)
{
    (void)state;
    struct hsp_cluster *c = app_cluster(nodes, 4);
    const struct hsp_m_file files[] = {{"tp.yaml", app_tp2}};
    struct hsp_job_rec *j = app_job("", 0, NULL),
                       *hand = app_job("annotations: [tp.yaml]\n", 1, files);
    for (uint32_t n = 0; n < 4; n++) { /* their memory is their node's */
        c->nodes[n].dev[0].profile.mem_bytes = 8 * GIB;
    }
    set_rooms(c, GIB);
    sealed = true;
    swollen = GIB + 1;
    struct hsp_plan_answer best = plan_with(c, j, NULL);
    for (uint32_t n = 1; n <= 100; n += 99) {
        n_swollen = n;
        struct hsp_plan_answer a = plan_with(c, j, NULL);
        assert_int_equal(a.status, n == 1 ? HSP_OK : HSP_EINFEASIBLE);
        if (n == 1) {
            assert_string_not_equal(a.plan->summary, best.plan->summary);
        } else {
            assert_non_null(strstr(a.reason, "compiled, needs 1.0 GiB in the state folder of w"));
        }
        (void)hsp_plan_rec_unref(a.plan);
    }
    n_swollen = 0;
    sealed = false;
    uint64_t need = 0;
    for (int i = 0; i < 3; i++) { /* with plenty; with its need; with a byte less */
        set_rooms(c, i == 0 ? GIB : need - (i == 2));
        struct hsp_plan_answer a = plan_with(c, hand, NULL);
        assert_int_equal(a.status, i < 2 ? HSP_OK : HSP_EINFEASIBLE);
        if (i < 2) {
            assert_string_equal(a.plan->source, "tp.yaml");
            const uint64_t *b = a.plan->built->folder_bytes;
            need = b[0] > b[1] ? b[0] : b[1];
        } else {
            assert_non_null(strstr(a.reason, "tp.yaml: compiled, needs "));
        }
        (void)hsp_plan_rec_unref(a.plan);
    }
    (void)hsp_plan_rec_unref(best.plan);
    (void)hsp_job_rec_unref(hand);
    (void)hsp_job_rec_unref(j);
    app_cluster_free(c);
}

/* A switch seals the new layout beside the old one. Where only one device has room for that, the
 * plan on that device alone does not replace the running one, which is faster. */
static void test_the_running_plan_lies_in_its_state_folders(void **state)
{
    (void)state;
    struct hsp_cluster *c = app_cluster(nodes, 4);
    struct hsp_job_rec *j = app_job("", 0, NULL);
    struct hsp_plan_answer best = plan_with(c, j, NULL);
    assert_true(best.plan->n_ranks > 1);
    set_rooms(c, 1);
    c->nodes[0].folder_free = GIB;
    struct hsp_plan_answer alone = plan_with(c, j, NULL);
    assert_int_equal(alone.plan->n_ranks, 1);
    struct hsp_plan_answer kept = plan_with(c, j, best.plan);
    assert_true(kept.keep && kept.plan == NULL);
    assert_non_null(strstr(kept.reason, "the best other plan takes "));
    (void)hsp_plan_rec_unref(alone.plan);
    (void)hsp_plan_rec_unref(best.plan);
    (void)hsp_job_rec_unref(j);
    app_cluster_free(c);
}

#define DP2                                                                     \
    "apiVersion: hspmd/v1\nkind: plan\nranks: 2\npipelines:\n"                  \
    "  - {sequences: 4, micro_batches: 2, stages: [{layers: 2, ranks: [0]}]}\n" \
    "  - {sequences: 4, micro_batches: 2, stages: [{layers: 2, ranks: [1]}]}\n"

/* A plan of before knows nothing of buckets. Where they do not fit it runs without them, and it is
 * the same plan, under any figures of links. */
static void test_a_plan_written_by_hand_fits_without_buckets(void **state)
{
    (void)state;
    struct hsp_cluster *c = app_cluster(nodes, 4);
    const struct hsp_m_file open[] = {{"dp.yaml", DP2}},
                            without[] = {{"dp.yaml", DP2 "bucket: 0\n"}};
    struct hsp_job_rec *j[2] = {app_job("annotations: [dp.yaml]\n", 1, without),
                                app_job("annotations: [dp.yaml]\n", 1, open)};
    uint64_t need[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        struct hsp_plan_answer a = plan_with(c, j[i], NULL);
        assert_int_equal(a.status, HSP_OK);
        assert_int_equal(a.plan->built->plan->bucket_bytes > 0, i == 1);
        need[i] = a.plan->built->info.mem_bytes[0] + a.plan->built->folder_bytes[0];
        (void)hsp_plan_rec_unref(a.plan);
    }
    assert_true(need[0] < need[1]);
    for (size_t i = 0; i < HSP_ARRAY_LEN(all); i++) {
        c->nodes[HSP_DEVICE_NODE(all[i])].dev[HSP_DEVICE_INDEX(all[i])].profile.mem_bytes = need[0];
    }
    struct hsp_plan_answer a = plan_with(c, j[1], NULL);
    assert_int_equal(a.status, HSP_OK);
    assert_string_equal(a.plan->source, "dp.yaml");
    assert_int_equal(a.plan->built->plan->bucket_bytes, 0);
    for (size_t i = 0; i < HSP_ARRAY_LEN(all); i++) {
        c->nodes[HSP_DEVICE_NODE(all[i])].dev[HSP_DEVICE_INDEX(all[i])].profile.mem_bytes =
            2 * need[1];
    }
    struct hsp_plan_request r = {.current_usable = true};
    struct hsp_plan_question *q = ask(c, j[1], &r);
    struct hsp_plan_answer b;
    q->current = hsp_plan_rec_ref(a.plan);
    hsp_plan_work(q, true, &b);
    assert_true(b.status == HSP_OK && b.keep);
    assert_string_equal(b.reason, "the same plan again");
    (void)hsp_plan_question_free(q);
    (void)hsp_plan_rec_unref(a.plan);
    (void)hsp_job_rec_unref(j[0]);
    (void)hsp_job_rec_unref(j[1]);
    app_cluster_free(c);
}

/* Executors of protocol 16 get programs without buckets, so none of a plan with one is laid out for
 * them. */
static void test_older_members_have_no_buckets(void **state)
{
    (void)state;
    struct hsp_cluster *c = app_cluster(nodes, 4);
    const struct hsp_m_file open[] = {{"dp.yaml", DP2}};
    struct hsp_job_rec *j[2] = {app_job("", 0, NULL), app_job("annotations: [dp.yaml]\n", 1, open)};
    for (int k = 0; k < 2; k++) { /* of the planner; written by hand */
        uint64_t need[2] = {0, 0};
        for (uint32_t older = 0; older < 2; older++) {
            for (uint32_t i = 0; i < 4; i++) {
                c->nodes[i].protocol = HSP_PROTO_BUCKETS - older;
            }
            struct hsp_plan_answer a = plan_with(c, j[k], NULL);
            assert_int_equal(a.status, HSP_OK);
            assert_int_equal(a.plan->built->plan->bucket_bytes > 0, older == 0);
            need[older] = a.plan->built->info.mem_bytes[0];
            (void)hsp_plan_rec_unref(a.plan);
        }
        assert_true(need[1] < need[0]);
    }
    (void)hsp_job_rec_unref(j[0]);
    (void)hsp_job_rec_unref(j[1]);
    app_cluster_free(c);
}

static void test_impossible_and_cancelled(void **state)
{
    (void)state;
    static const struct app_node small[] = {{"a", 1, 4096}};
    struct hsp_cluster *c = app_cluster(small, 1);
    struct hsp_job_rec *j = app_job("", 0, NULL);
    hsp_device_id one[] = {0};
    struct hsp_plan_request r = {.devices = one, .n_devices = 1};
    struct hsp_plan_question *q = ask(c, j, &r);
    struct hsp_plan_answer a;
    hsp_plan_work(q, true, &a);
    assert_int_equal(a.status, HSP_EINFEASIBLE);
    assert_null(a.plan);
    assert_non_null(strstr(a.reason, "largest worker offers 4.0 KiB"));
    (void)hsp_plan_question_free(q);
    app_cluster_free(c);
    c = app_cluster(nodes, 4);
    r = (struct hsp_plan_request){0};
    q = ask(c, j, &r);
    atomic_store(&q->cancel, true);
    hsp_plan_work(q, true, &a);
    assert_int_equal(a.status, HSP_ECANCELED);
    (void)hsp_plan_question_free(q);
    (void)hsp_job_rec_unref(j);
    app_cluster_free(c);
}

HSP_TEST_FILE(plan_request_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices_stand_by_name_with_their_speed),
        cmocka_unit_test(test_what_was_measured_corrects),
        cmocka_unit_test(test_facts_exclude_or_shrink),
        cmocka_unit_test(test_planner_uses_what_facts_leave),
        cmocka_unit_test(test_the_first_hand_written_plan_that_fits_wins),
        cmocka_unit_test(test_what_is_too_large_once_compiled),
        cmocka_unit_test(test_room_for_fp32_copies),
        cmocka_unit_test(test_the_planner_goes_on_to_its_next_plan),
        cmocka_unit_test(test_a_plan_written_by_hand_may_fill_its_device),
        cmocka_unit_test(test_a_plan_written_by_hand_fits_without_buckets),
        cmocka_unit_test(test_older_members_have_no_buckets),
        cmocka_unit_test(test_a_plan_as_good_is_kept),
        cmocka_unit_test(test_the_running_plan_stays_when_a_better_one_is_too_large),
        cmocka_unit_test(test_plans_are_held_to_state_folders),
        cmocka_unit_test(test_compiled_plans_are_held_to_state_folders),
        cmocka_unit_test(test_the_running_plan_lies_in_its_state_folders),
        cmocka_unit_test(test_impossible_and_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
