/* Tests state transfer between homes of plans, second copies and owners, executed on small
 * tensors. */
#include <stdio.h>

#include "daemon/graph/graph.h"
#include "daemon/graph/graph_build.h"
#include "daemon/migrate/bsr.h"
#include "daemon/migrate/state_placement.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/codegen/compile.h"
#include "daemon/spmd/sharding/param_home.h"
#include "daemon/spmd/sharding/param_owners.h"
#include "proto/layout/box.h"
#include "tests/lib/testlib.h"

#define HEAD "apiVersion: hspmd/v1\nkind: plan\n"
enum { MAX_MESH = 16, MAX_ELEMENTS = 1024 };

static struct hsp_graph *g;

static int setup(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_model_spec s = {.family = "gpt",
                               .layers = 2,
                               .hidden = 6,
                               .heads = 3,
                               .vocab = 10,
                               .sequence = 4,
                               .tied_head = true,
                               .dtype = HSP_F64};
    assert_ok(hsp_graph_build(&s, &g, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    g = hsp_graph_free(g);
    return 0;
}

static struct hsp_plan *parse(const char *text, struct hsp_arena *arena)
{
    struct hsp_plan *p = NULL;
    struct hsp_err err = {0};
    assert_ok(hsp_plan_parse(text, strlen(text), "p", 8, arena, &p, &err), &err);
    return p;
}

static const char *const plans[] = {
    HEAD "ranks: 1\npipelines: [{sequences: 8, stages: [{layers: 2, ranks: [0]}]}]",
    HEAD
    "ranks: 4\nzero: 1\npipelines: [{sequences: 4, stages: [{layers: 2, ranks: [0, 1], tensor: "
    "[2, 1]}]}, {sequences: 4, stages: [{layers: 1, ranks: [2]}, {layers: 1, ranks: [3]}]}]",
    HEAD "ranks: 3\npipelines: [{sequences: 4, stages: [{layers: 2, ranks: [0]}]}, {sequences: 4, "
         "stages: [{layers: 1, ranks: [1]}, {layers: 1, ranks: [2]}]}]",
    HEAD "ranks: 5\nzero: 1\npipelines: [{sequences: 5, stages: [{layers: 2, ranks: [0, 1, 2]}]}, "
         "{sequences: 3, stages: [{layers: 2, ranks: [4, 3], tensor: [1, 3]}]}]",
    HEAD "ranks: 4\npipelines: [{sequences: 4, stages: [{layers: 2, ranks: [0]}]}, {sequences: 2, "
         "stages: [{layers: 2, ranks: [1, 2], tensor: [2, 1]}]}, {sequences: 2, stages: [{layers: "
         "2, ranks: [3]}]}]",
};
enum { N_PLANS = sizeof plans / sizeof plans[0] };

/* Elements of a parameter a rank has, by number in the whole tensor. */
struct have {
    bool at[MAX_MESH][MAX_ELEMENTS];
};

static void mark(bool *at, const struct hsp_cover *c, const struct hsp_box *b, bool value)
{
    int64_t i[HSP_MAX_RANK] = {0};
    if (hsp_box_empty(b)) {
        return;
    }
    memcpy(i, b->lo, sizeof i);
    for (;;) {
        int64_t n = 0;
        for (uint8_t d = 0; d < b->rank; d++) {
            n = n * c->extent[d] + i[d];
        }
        assert_true(n < MAX_ELEMENTS);
        assert_true(at[n] != value); /* nothing is sent twice */
        at[n] = value;
        uint8_t d = b->rank;
        while (d > 0 && ++i[d - 1] >= b->hi[d - 1]) {
            i[d - 1] = b->lo[d - 1];
            d--;
        }
        if (d == 0) {
            return;
        }
    }
}

static bool holds(const struct hsp_cover *c, uint32_t rank, const struct hsp_box *b)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->items[i].rank == rank && hsp_box_inside(b, &c->items[i].box)) {
            return true;
        }
    }
    return false;
}

/* Returns whether an earlier row brought its box to the sender of row @i. */
static bool passed(const struct hsp_state_table *t, uint32_t i)
{
    const struct hsp_state_row *r = &t->row[i];
    for (uint32_t k = 0; k < i; k++) {
        const struct hsp_state_row *o = &t->row[k];
        if (o->to == r->from && o->param == r->param && hsp_box_equal(&o->box, &r->box)) {
            return true;
        }
    }
    return false;
}

/* Plans the transfer, with one card per node. */
static enum hsp_status transfer_table(const struct hsp_cover *have, const struct hsp_cover *want,
                                      const uint32_t *node, uint32_t n, struct hsp_arena *arena,
                                      struct hsp_state_table *ret, struct hsp_err *err)
{
    struct hsp_bsr_place place[MAX_MESH];
    double us[MAX_MESH];
    const struct hsp_bsr_opts o = {.elem_bytes = 4, .chunk_bytes = 40};
    struct hsp_bsr_net net = {.n_ranks = n,
                              .n_nics = MAX_MESH,
                              .place = place,
                              .nic_us_per_byte = us,
                              .link = {{0, 0}, {1, 0.1}, {1, 0.1}, {2, 0}}};
    for (uint32_t i = 0; i < MAX_MESH; i++) {
        place[i] =
            (struct hsp_bsr_place){node[i < n ? i : 0], node[i < n ? i : 0], node[i < n ? i : 0]};
        us[i] = 1;
    }
    return hsp_bsr_plan(g, have, want, &net, &o, arena, ret, err);
}

/* Every receiver gets each element of its box once, from a rank that has it or got it by an earlier
 * row. The sender is the receiver itself if it has the element, else a rank of its node if one has
 * it. */
static void check_table(const struct hsp_state_table *t, const struct hsp_cover *have,
                        const struct hsp_cover *want, const uint32_t *node)
{
    static struct have got;
    for (uint32_t p = 0; p < g->n_params; p++) {
        memset(&got, 0, sizeof got);
        for (uint32_t i = 0; i < t->n; i++) {
            const struct hsp_state_row *r = &t->row[i];
            if (r->param != p) {
                continue;
            }
            assert_true(r->passed_on ? passed(t, i) : holds(&have[p], r->from, &r->box));
            assert_true(r->from == r->to || !holds(&have[p], r->to, &r->box));
            for (uint32_t k = 0; k < have[p].n && node[r->from] != node[r->to]; k++) {
                uint32_t other = have[p].items[k].rank;
                assert_true(node[other] != node[r->to] || !holds(&have[p], other, &r->box));
            }
            mark(got.at[r->to], &want[p], &r->box, true);
        }
        for (uint32_t i = 0; i < want[p].n; i++) {
            mark(got.at[want[p].items[i].rank], &want[p], &want[p].items[i].box, false);
        }
        for (uint32_t i = 0; i < MAX_MESH; i++) {
            for (int e = 0; e < MAX_ELEMENTS; e++) {
                assert_false(got.at[i][e]); /* and nothing else */
            }
        }
    }
}

static void homes(const char *text, struct hsp_arena *arena, struct hsp_cover **ret, uint32_t *n)
{
    struct hsp_err err = {0};
    struct hsp_plan *p = parse(text, arena);
    *ret = calloc(g->n_params, sizeof **ret);
    assert_non_null(*ret);
    *n = p->n_ranks;
    assert_ok(hsp_plan_homes(g, p, *ret, &err), &err);
}

static void drop(struct hsp_cover *c)
{
    for (uint32_t p = 0; p < g->n_params; p++) {
        hsp_cover_fini(&c[p]);
    }
    free(c);
}

/* Transfers the state of plan @from to plan @to. Old rank i becomes mesh rank i + shift; mesh ranks
 * beyond the ranks of the new plan only send. */
static void transfer(const char *from, const char *to, uint32_t shift, const uint32_t *node)
{
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    struct hsp_cover *old, *want, *have = calloc(g->n_params, sizeof *have);
    uint32_t n_old, n_new, mesh[MAX_MESH];
    struct hsp_err err = {0};
    struct hsp_state_table t = {0};
    assert_non_null(have);
    homes(from, arena, &old, &n_old);
    homes(to, arena, &want, &n_new);
    for (uint32_t i = 0; i < n_old; i++) {
        mesh[i] = i + shift;
    }
    for (uint32_t p = 0; p < g->n_params; p++) {
        assert_ok(hsp_have_home(&old[p], mesh, n_old, &have[p], &err), &err);
    }
    assert_ok(transfer_table(have, want, node, MAX_MESH, arena, &t, &err), &err);
    check_table(&t, have, want, node);
    drop(old);
    drop(want);
    drop(have);
    hsp_arena_free(arena);
}

static void test_transfer(void **state)
{
    (void)state;
    uint32_t node[MAX_MESH];
    for (uint32_t a = 0; a < N_PLANS; a++) {
        for (uint32_t b = 0; b < N_PLANS; b++) {
            for (uint32_t shift = 0; shift < 6; shift += 2) {
                for (uint32_t i = 0; i < MAX_MESH; i++) {
                    node[i] =
                        (uint32_t)hsp_test_range("node", a * 4096 + b * 256 + shift * 16 + i, 0, 3);
                }
                transfer(plans[a], plans[b], shift, node);
            }
        }
    }
}

/* The same plan again moves nothing between ranks; equal holders share the sending. */
static void test_balance(void **state)
{
    (void)state;
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    struct hsp_cover *have, *want;
    uint32_t n, node[MAX_MESH] = {0};
    struct hsp_err err = {0};
    struct hsp_state_table t = {0};
    homes(plans[2], arena, &have, &n);
    assert_ok(transfer_table(have, have, node, n, arena, &t, &err), &err);
    for (uint32_t i = 0; i < t.n; i++) {
        assert_int_equal(t.row[i].from, t.row[i].to);
    }
    want = calloc(g->n_params, sizeof *want);
    assert_non_null(want);
    int64_t sent[3] = {0}, all = 0;
    for (uint32_t p = 0; p < g->n_params; p++) { /* a newcomer takes everything */
        hsp_cover_init(&want[p], have[p].rank, have[p].extent);
        struct hsp_box whole = hsp_box_whole(have[p].rank, have[p].extent);
        assert_int_equal(hsp_cover_add(&want[p], 3, 0, &whole), HSP_OK);
    }
    assert_ok(transfer_table(have, want, node, 4, arena, &t, &err), &err);
    for (uint32_t i = 0; i < t.n; i++) {
        sent[t.row[i].from] += hsp_box_count(&t.row[i].box);
        all += hsp_box_count(&t.row[i].box);
    }
    assert_true(sent[0] > all / 4);
    assert_true(sent[0] < 3 * all / 4);
    drop(have);
    drop(want);
    hsp_arena_free(arena);
}

/* ---- second copies ---- */

/* With the copies the state survives the loss of any one node; without them it does not. */
static void lose_node(const char *text, const uint32_t *node, bool *ret_needed)
{
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    struct hsp_cover *home, *have = calloc(g->n_params, sizeof *have);
    uint32_t n, mesh[MAX_MESH];
    struct hsp_err err = {0};
    struct hsp_state_table copies = {0}, t = {0};
    assert_non_null(have);
    homes(text, arena, &home, &n);
    assert_ok(hsp_copy_table(g, home, node, n, 2, arena, &copies, &err), &err);
    for (uint32_t i = 0; i < copies.n; i++) {
        const struct hsp_state_row *r = &copies.row[i];
        assert_true(node[r->from] != node[r->to]);
        assert_true(holds(&home[r->param], r->from, &r->box));
        assert_false(holds(&home[r->param], r->to, &r->box));
    }
    for (uint32_t lost = 0; lost < n; lost++) {
        for (uint32_t i = 0; i < n; i++) {
            mesh[i] = node[i] == node[lost] ? HSP_NONE : i;
        }
        for (int with = 0; with < 2; with++) {
            for (uint32_t p = 0; p < g->n_params; p++) {
                assert_ok(hsp_have_home(&home[p], mesh, n, &have[p], &err), &err);
                if (with == 1) {
                    assert_ok(hsp_have_copies(&copies, p, mesh, n, &have[p], &err), &err);
                }
            }
            enum hsp_status rc = transfer_table(have, home, node, n, arena, &t, &err);
            if (with == 1) {
                assert_ok(rc, &err);
            } else if (rc != HSP_OK) {
                assert_status(rc, HSP_ENOENT);
                *ret_needed = true;
            }
            for (uint32_t p = 0; p < g->n_params; p++) {
                hsp_cover_fini(&have[p]);
            }
        }
    }
    drop(home);
    free(have);
    hsp_arena_free(arena);
}

static void test_copies(void **state)
{
    (void)state;
    const uint32_t nodes[][5] = {{0, 1, 2, 3, 4}, {0, 0, 1, 1, 1}, {2, 1, 2, 1, 0}};
    bool needed = false;
    for (uint32_t a = 1; a < N_PLANS; a++) {
        for (size_t k = 0; k < sizeof nodes / sizeof nodes[0]; k++) {
            lose_node(plans[a], nodes[k], &needed);
        }
    }
    assert_true(needed);
}

/* Checks any number of copies: every element is on as many nodes, with those of replica holders,
 * and never twice on one node. */
static void test_many_copies(void **state)
{
    (void)state;
    const uint32_t nodes[][5] = {{0, 1, 2, 3, 4}, {0, 0, 1, 1, 1}, {3, 3, 3, 3, 3}};
    for (uint32_t a = 0; a < N_PLANS; a++) {
        for (size_t k = 0; k < sizeof nodes / sizeof nodes[0]; k++) {
            for (uint32_t want = 2; want < 5; want++) {
                struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
                struct hsp_cover *home;
                struct hsp_state_table t = {0};
                struct hsp_err err = {0};
                uint32_t n, node[MAX_MESH + 4], distinct = 0;
                homes(plans[a], arena, &home, &n);
                for (uint32_t i = 0; i < n + 4; i++) {
                    node[i] =
                        /* each replica holder is on a node of its own */
                        i < n ? nodes[k][i] : 100 + i;
                    bool seen = false;
                    for (uint32_t m = 0; m < i; m++) {
                        seen = seen || node[m] == node[i];
                    }
                    distinct += i < n && !seen;
                }
                uint32_t spare = want > distinct ? want - distinct : 0;
                assert_int_equal(hsp_spare_ranks(node, n, want), spare);
                assert_ok(hsp_copy_table(g, home, node, n, want, arena, &t, &err), &err);
                for (uint32_t p = 0; p < g->n_params; p++) {
                    int64_t on_node[128] = {0}, all = 0;
                    struct hsp_box whole = hsp_box_whole(home[p].rank, home[p].extent);
                    for (uint32_t i = 0; i < t.n; i++) {
                        const struct hsp_state_row *r = &t.row[i];
                        if (r->param != p) {
                            continue;
                        }
                        assert_true(holds(&home[p], r->from, &r->box));
                        assert_true(r->to < n + spare);
                        on_node[node[r->to]] += hsp_box_count(&r->box);
                        for (uint32_t m = 0; m < home[p].n; m++) { /* where none of it was */
                            struct hsp_box cut;
                            assert_false(node[home[p].items[m].rank] == node[r->to] &&
                                         hsp_box_cut(&home[p].items[m].box, &r->box, &cut));
                        }
                    }
                    for (uint32_t m = 0; m < spare; m++) { /* a replica holder has all */
                        assert_int_equal(on_node[node[n + m]], hsp_box_count(&whole));
                    }
                    for (uint32_t m = 0; m < 128; m++) { /* with the homes there */
                        int64_t home_here = 0, most = 0;
                        for (uint32_t i = 0; i < home[p].n; i++) {
                            int64_t c = hsp_box_count(&home[p].items[i].box);
                            bool here = node[home[p].items[i].rank] == m;
                            most = here && c > most ? c : most;
                            home_here += here ? c : 0;
                        }
                        assert_true(on_node[m] <= hsp_box_count(&whole) - most);
                        all +=
                            on_node[m] +
                            (home_here < hsp_box_count(&whole) ? home_here : hsp_box_count(&whole));
                    }
                    assert_true(all >= hsp_box_count(&whole) * (int64_t)want);
                }
                drop(home);
                hsp_arena_free(arena);
            }
        }
    }
}

/* ---- equal copies ---- */

static bool inside(const struct hsp_cover *c, int64_t element, const struct hsp_box *b)
{
    bool in = true;
    for (uint8_t d = c->rank; d-- > 0; element /= c->extent[d]) {
        int64_t i = element % c->extent[d];
        in = in && b->lo[d] <= i && i < b->hi[d];
    }
    return in;
}

/* Checks the rows of parameter @p. An element that two ranks hold is in one row between them. An
 * element that more ranks hold is in two rows of each, which form a ring. No row names a rank that
 * lacks its box. */
static void check_rings(const struct hsp_state_table *t, const struct hsp_cover *home, uint32_t p)
{
    struct hsp_box whole = hsp_box_whole(home[p].rank, home[p].extent);
    for (int64_t e = 0; e < hsp_box_count(&whole); e++) {
        uint32_t have = 0, rows[MAX_MESH] = {0};
        bool has[MAX_MESH] = {false};
        for (uint32_t i = 0; i < home[p].n; i++) {
            if (inside(&home[p], e, &home[p].items[i].box) && !has[home[p].items[i].rank]) {
                has[home[p].items[i].rank] = true;
                have++;
            }
        }
        for (uint32_t i = 0; i < t->n; i++) {
            const struct hsp_state_row *r = &t->row[i];
            if (r->param == p && inside(&home[p], e, &r->box)) {
                assert_true(r->from != r->to);
                rows[r->from]++;
                rows[r->to]++;
            }
        }
        for (uint32_t r = 0; r < MAX_MESH; r++) {
            assert_int_equal(rows[r], !has[r] || have == 1 ? 0 : have == 2 ? 1 : 2);
        }
    }
}

static void test_replicas(void **state)
{
    (void)state;
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    uint32_t n_rows = 0;
    for (uint32_t a = 0; a < N_PLANS; a++) {
        struct hsp_cover *home;
        struct hsp_state_table t = {0};
        struct hsp_err err = {0};
        uint32_t n;
        homes(plans[a], arena, &home, &n);
        assert_ok(hsp_replica_table(g, home, n, arena, &t, &err), &err);
        assert_true(n > 1 || t.n == 0);
        n_rows += t.n;
        for (uint32_t p = 0; p < g->n_params; p++) {
            check_rings(&t, home, p);
        }
        for (uint32_t i = 1; i < t.n; i++) { /* rows of one part follow each other */
            const struct hsp_state_row *x = &t.row[i - 1], *y = &t.row[i];
            struct hsp_box cut;
            assert_true(x->param != y->param || hsp_box_equal(&x->box, &y->box) ||
                        !hsp_box_cut(&x->box, &y->box, &cut));
        }
        drop(home);
    }
    assert_true(n_rows > 0);
    hsp_arena_free(arena);
}

/* ---- owners ---- */

static void test_owned(void **state)
{
    (void)state;
    static struct have all;
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    struct hsp_err err = {0};
    for (uint32_t a = 0; a < N_PLANS; a++) {
        struct hsp_cover *home;
        uint32_t n;
        homes(plans[a], arena, &home, &n);
        for (uint32_t p = 0; p < g->n_params; p++) {
            memset(&all, 0, sizeof all);
            for (uint32_t r = 0; r < n; r++) {
                struct hsp_box *box = NULL;
                uint32_t k = 0;
                assert_ok(hsp_home_owned(&home[p], r, arena, &box, &k, &err), &err);
                for (uint32_t i = 0; i < k; i++) {
                    assert_true(holds(&home[p], r, &box[i]));
                    for (uint32_t less = 0; less < r; less++) {
                        assert_false(holds(&home[p], less, &box[i]));
                    }
                    mark(all.at[0], &home[p], &box[i], true);
                }
            }
            struct hsp_box whole = hsp_box_whole(home[p].rank, home[p].extent);
            mark(all.at[0], &home[p], &whole, false); /* all owned, once */
        }
        drop(home);
    }
    hsp_arena_free(arena);
}

/* The owners of all ranks, computed at once, are those that are computed for each rank alone. */
static void test_owners(void **state)
{
    (void)state;
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    struct hsp_err err = {0};
    for (uint32_t a = 0; a < N_PLANS; a++) {
        struct hsp_cover *home;
        uint32_t n;
        homes(plans[a], arena, &home, &n);
        struct hsp_owned *all = hsp_arena_array(arena, n + 1, sizeof *all); /* one owns nothing */
        for (uint32_t p = 0; p < g->n_params; p++) {
            assert_ok(hsp_home_owners(&home[p], n + 1, arena, all, &err), &err);
            for (uint32_t r = 0; r <= n; r++) {
                struct hsp_box *box = NULL;
                uint32_t k = 0;
                assert_ok(hsp_home_owned(&home[p], r, arena, &box, &k, &err), &err);
                assert_int_equal(all[r].n, k);
                for (uint32_t i = 0; i < k; i++) {
                    assert_true(hsp_box_equal(&all[r].box[i], &box[i]));
                }
            }
        }
        drop(home);
    }
    hsp_arena_free(arena);
}

HSP_TEST_FILE(state_placement_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transfer), cmocka_unit_test(test_balance),
        cmocka_unit_test(test_copies),   cmocka_unit_test(test_many_copies),
        cmocka_unit_test(test_replicas), cmocka_unit_test(test_owned),
        cmocka_unit_test(test_owners),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
