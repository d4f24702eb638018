/* Tests compiled plans of epochs: shards for the core, tables of state, packages. */
#include "daemon/planner/cluster_file.h"
#include "daemon/planner/lengths.h"
#include "proto/base/size.h"
#include "proto/layout/box.h"
#include "tests/unit/daemon/app/app_lib.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/testlib.h"

/* Devices on different nodes. */
static const hsp_device_id far[] = {HSP_DEVICE(0, 0), HSP_DEVICE(1, 0), HSP_DEVICE(2, 0),
                                    HSP_DEVICE(3, 0)};

static bool has_piece(const struct hsp_plan_info *i, uint32_t shard, uint32_t holder,
                      uint32_t owner)
{
    for (uint32_t k = i->shard_first[shard]; k < i->shard_first[shard + 1]; k++) {
        if (i->pieces[k].holder == holder && i->pieces[k].owner == owner) {
            return true;
        }
    }
    return false;
}

static uint32_t n_pieces(const struct hsp_plan_info *i, uint32_t shard)
{
    return i->shard_first[shard + 1] - i->shard_first[shard];
}

static void test_replicas_are_one_shard(void **state)
{
    (void)state;
    struct hsp_job_rec *j = app_job("", 0, NULL);
    struct hsp_epoch_plan *e = app_epoch(j, app_dp2, far, 2);
    assert_int_equal(e->info.n_shards, 1);
    assert_int_equal(n_pieces(&e->info, 0), 2);
    assert_true(has_piece(&e->info, 0, 0, 0) && has_piece(&e->info, 0, 1, 1));
    assert_int_equal(e->copies.n, 0); /* a replica on another node is a copy */
    assert_true(e->info.mem_bytes[0] > 0 && e->info.folder_bytes[0] > 0);
    (void)hsp_epoch_plan_free(e);
    (void)hsp_job_rec_unref(j);
}

static void test_stages_are_copied_to_a_buddy(void **state)
{
    (void)state;
    struct hsp_job_rec *j = app_job("", 0, NULL);
    struct hsp_epoch_plan *e = app_epoch(j, app_pipe2, far, 2);
    /* the blocks of rank 0, those of rank 1, and the tied embedding that both have */
    uint32_t own[2] = {0}, both = 0;
    assert_int_equal(e->info.n_shards, 3);
    for (uint32_t s = 0; s < 3; s++) {
        assert_int_equal(n_pieces(&e->info, s), 2);
        if (has_piece(&e->info, s, 0, 0) && has_piece(&e->info, s, 1, 1)) {
            both++;
        } else {
            uint32_t r = has_piece(&e->info, s, 1, 1);
            assert_true(has_piece(&e->info, s, r, r) && has_piece(&e->info, s, 1 - r, r));
            own[r]++;
        }
    }
    assert_int_equal(own[0], 1);
    assert_int_equal(own[1], 1);
    assert_int_equal(both, 1);
    (void)hsp_epoch_plan_free(e);
    e = app_epoch(j, app_pipe2, far, 1);
    for (uint32_t s = 0; s < e->info.n_shards; s++) {
        assert_false(has_piece(&e->info, s, 1, 0)); /* no copies wanted */
    }
    (void)hsp_epoch_plan_free(e);
    /* one node: replica holders elsewhere have all of it; more copies than nodes: the rest is
     * theirs */
    const hsp_device_id near[] = {HSP_DEVICE(0, 0), HSP_DEVICE(0, 1)};
    for (uint32_t copies = 2; copies < 5; copies++) {
        e = app_epoch(j, app_pipe2, copies < 4 ? near : far, copies);
        uint32_t spare = copies < 4 ? copies - 1 : 2;
        assert_int_equal(e->n_spare, spare);
        assert_int_equal(e->info.n_spare, spare);
        uint64_t bytes = 0;
        for (uint32_t p = 0; p < e->graph->n_params; p++) {
            struct hsp_box whole = hsp_box_whole(e->homes[p].rank, e->homes[p].extent);
            bytes += (uint64_t)hsp_box_count(&whole) * 2 * 3 *
                     hsp_dtype_size((enum hsp_dtype)e->graph->spec.dtype);
        }
        assert_int_equal(e->info.keep_bytes, bytes); /* param, m, v in two slots */
        for (uint32_t s = 0; s < e->info.n_shards; s++) {
            for (uint32_t k = 0; k < spare; k++) {
                assert_true(has_piece(&e->info, s, 2 + k, 0) || has_piece(&e->info, s, 2 + k, 1));
            }
        }
        (void)hsp_epoch_plan_free(e);
    }
    (void)hsp_job_rec_unref(j);
}

/* ---- tables ---- */

static int64_t volume(const struct hsp_state_table *t, uint32_t param, uint32_t to)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        n += t->row[i].param == param && t->row[i].to == to ? hsp_box_count(&t->row[i].box) : 0;
    }
    return n;
}

static bool disjoint(const struct hsp_state_table *t, bool same_receiver)
{
    for (uint32_t i = 0; i < t->n; i++) {
        for (uint32_t k = 0; k < i; k++) {
            struct hsp_box cut;
            if (t->row[i].param == t->row[k].param &&
                (!same_receiver || t->row[i].to == t->row[k].to) &&
                hsp_box_cut(&t->row[i].box, &t->row[k].box, &cut)) {
                return false;
            }
        }
    }
    return true;
}

/* Every rank gets its home exactly once. */
static void assert_fills_homes(const struct hsp_epoch_plan *e, const struct hsp_state_table *t)
{
    assert_true(disjoint(t, true));
    for (uint32_t p = 0; p < e->graph->n_params; p++) {
        for (uint32_t i = 0; i < e->homes[p].n; i++) {
            const struct hsp_held *h = &e->homes[p].items[i];
            assert_int_equal(volume(t, p, h->rank), hsp_box_count(&h->box));
        }
    }
}

static void assert_gathers_all(const struct hsp_epoch_plan *e, const struct hsp_state_table *t)
{
    assert_true(disjoint(t, false));
    for (uint32_t p = 0; p < e->graph->n_params; p++) {
        struct hsp_box whole = hsp_box_whole(e->homes[p].rank, e->homes[p].extent);
        assert_int_equal(volume(t, p, 0), hsp_box_count(&whole));
    }
}

struct switch_case {
    const char *from, *to;
    uint32_t n_peers;
    hsp_device_id peer[4];
    uint32_t n_sources;
    struct hsp_prepare_source source[4];
    enum hsp_status want;
};

static void run_case(const struct switch_case *c)
{
    struct hsp_err err = {0};
    struct hsp_job_rec *j = app_job("", 0, NULL);
    struct hsp_arena *a = hsp_arena_new(16u << 20);
    struct hsp_epoch_plan *from = app_epoch(j, c->from, far, 2);
    struct hsp_epoch_plan *to = app_epoch(j, c->to, c->peer, 2);
    struct hsp_prepare_peer peers[4];
    struct hsp_prepare_source source[4];
    for (uint32_t i = 0; i < c->n_peers; i++) {
        peers[i] = (struct hsp_prepare_peer){c->peer[i], "127.0.0.1:1"};
    }
    memcpy(source, c->source, sizeof source);
    struct hsp_prepare_action act = {c->n_peers, peers, c->n_sources, source, 0, 0, NULL, true};
    struct hsp_epoch_tables t;
    assert_status(hsp_epoch_tables_make(to, from, NULL, &act, a, &t, &err), c->want);
    if (c->want == HSP_OK) {
        assert_fills_homes(to, &t.transfer);
        assert_gathers_all(to, &t.gather);
        for (uint32_t i = 0; i < t.transfer.n; i++) {
            assert_true(t.transfer.row[i].from < c->n_peers);
        }
        for (uint32_t i = 0; i < c->n_peers; i++) {
            bool member = false;
            for (uint32_t r = 0; r < from->plan->n_ranks; r++) {
                member = member || from->device[r] == c->peer[i];
            }
            assert_int_equal(t.voted[i], member);
        }
    }
    (void)hsp_epoch_plan_free(to);
    (void)hsp_epoch_plan_free(from);
    (void)hsp_arena_free(a);
    (void)hsp_job_rec_unref(j);
}

static void test_state_moves_between_any_layouts(void **state)
{
    (void)state;
    static const struct switch_case cases[] = {
        /* a joiner on node 2, and the layout becomes ZeRO-1 */
        {app_pipe2, app_zero3, 3, {0, 16, 32}, 2, {{0, 0, 0}, {1, 1, 1}}, HSP_OK},
        /* rank 1 leaves: it is a source behind the only member */
        {app_tp2, app_one, 2, {0, 16}, 2, {{0, 0, 0}, {1, 1, 1}}, HSP_OK},
        /* rank 1 is dead; rank 0 has its home and the copy of rank 1's */
        {app_tp2, app_one, 1, {0}, 2, {{0, 0, 0}, {0, 0, 1}}, HSP_OK},
        /* the same without the copy: the shard is lost */
        {app_tp2, app_one, 1, {0}, 1, {{0, 0, 0}}, HSP_ENOENT},
        {app_pipe2, app_one, 1, {16}, 1, {{0, 1, 1}}, HSP_ENOENT},
        {app_pipe2, app_one, 1, {16}, 2, {{0, 1, 1}, {0, 1, 0}}, HSP_OK},
        /* ranks of replicas: any one has everything */
        {app_dp2, app_tp2, 2, {16, 32}, 1, {{0, 1, 1}}, HSP_OK},
        /* its node is dead: the replica holder, rank 1 of the old layout, has everything */
        {app_one, app_one, 3, {16, 32, 33}, 1, {{2, 1, 0}}, HSP_OK},
        {app_one, app_one, 2, {16, 32}, 0, {{0, 0, 0}}, HSP_ENOENT},
        /* a rank that the old layout does not have */
        {app_dp2, app_one, 1, {0}, 1, {{0, 7, 7}}, HSP_EINVAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run_case(&cases[i]);
    }
}

/* Two devices on two hosts begin with the state of a third, whose replica holder on a fourth host
 * has a copy: owner and replica holder each send as much as the other. */
/* The planner announces the bytes of segments before anything is compiled. Parts that each member
 * of a tensor group has need copies only where these members are on too few nodes. */
static void test_announced_bytes_are_those_of_segments(void **state)
{
    (void)state;
    static const char untied[] =
        "apiVersion: hspmd/v1\nname: tiny\n"
        "model: {family: gpt, layers: 2, hidden: 32, heads: 4, sequence: 8, tied_head: false}\n"
        "data: {path: /srv/text}\n"
        "train: {steps: 4, global_batch: 8, optimizer: {name: adamw, lr: 1e-3}}\n"
        "checkpoint: {path: /srv/ckpt, every_steps: 0}\n";
    static const char tp2pp2[] = "apiVersion: hspmd/v1\nkind: plan\nranks: 4\npipelines: "
                                 "[{sequences: 8, micro_batches: 2, stages: "
                                 "[{layers: 1, ranks: [0, 1], tensor: [1, 1]}, {layers: 1, ranks: "
                                 "[2, 3], tensor: [3, 1]}]}]\n";
    static const struct {
        const char *plan;
        uint32_t n, node[4], copies;
    } cases[] = {{app_pipe2, 2, {0, 1}, 2},    {app_tp2, 2, {0, 1}, 2},
                 {app_tp2, 2, {0, 0}, 2},      {tp2pp2, 4, {0, 1, 2, 3}, 1},
                 {tp2pp2, 4, {0, 1, 2, 3}, 2}, {tp2pp2, 4, {0, 0, 1, 1}, 2},
                 {tp2pp2, 4, {0, 1, 2, 3}, 3}, {tp2pp2, 4, {0, 0, 1, 2}, 3}};
    struct hsp_err err = {0};
    struct hsp_job_rec *j = NULL;
    assert_ok(hsp_job_rec_make("dir/job.yaml", untied, strlen(untied), 0, NULL, &j, &err), &err);
    for (unsigned i = 0; i < HSP_ARRAY_LEN(cases); i++) {
        struct hsp_arena *a = hsp_arena_new(64u << 20);
        struct hsp_device_desc dev[4];
        hsp_device_id id[4];
        struct hsp_planned p;
        for (uint32_t k = 0; k < cases[i].n; k++) {
            dev[k] = hsp_device_default("w/0", cases[i].node[k], 1);
            id[k] = HSP_DEVICE(cases[i].node[k], k);
        }
        const struct hsp_cluster_desc c = {.n = cases[i].n, .dev = dev};
        const struct hsp_plan_options o = {.copies = cases[i].copies};
        assert_ok(hsp_plan_adopt(j->graph, &j->spec->train, &c, &o, app_plan(j, cases[i].plan, a),
                                 a, &p, &err),
                  &err);
        struct hsp_epoch_plan *e = app_epoch(j, cases[i].plan, id, cases[i].copies);
        double told = 0, made = 0;
        for (uint32_t k = 0; k < cases[i].n; k++) {
            told += (double)p.cost.rank[k].folder_bytes;
            made += (double)e->info.folder_bytes[k];
        }
        assert_near(told, made, 0.002 * made); /* rows are filled up to 64 bytes */
        (void)hsp_epoch_plan_free(e);
        (void)hsp_arena_free(a);
    }
    (void)hsp_job_rec_unref(j);
}

static void test_copies_share_the_load_of_owners(void **state)
{
    (void)state;
    static const hsp_device_id to_device[] = {16, 32};
    struct hsp_err err = {0};
    struct hsp_job_rec *j = app_job("", 0, NULL);
    struct hsp_arena *a = hsp_arena_new(16u << 20);
    struct hsp_epoch_plan *from = app_epoch(j, app_one, far, 2);
    struct hsp_epoch_plan *to = app_epoch(j, app_dp2, to_device, 2);
    struct hsp_prepare_peer peers[] = {{16, "x"}, {32, "x"}, {0, "x"}, {48, "x"}};
    struct hsp_prepare_source source[] = {{2, 0, 0}, {3, 1, 0}};
    struct hsp_epoch_tables t;
    int64_t sent[4] = {0};
    for (uint32_t n = 1; n <= 2; n++) { /* the owner alone, both */
        struct hsp_prepare_action act = {4, peers, n, source, 0, 0, NULL, true};
        memset(sent, 0, sizeof sent);
        assert_ok(hsp_epoch_tables_make(to, from, NULL, &act, a, &t, &err), &err);
        assert_fills_homes(to, &t.transfer);
        for (uint32_t i = 0; i < t.transfer.n; i++) {
            const struct hsp_state_row *r = &t.transfer.row[i];
            sent[r->from] += hsp_box_count(&r->box);
        }
        assert_true(sent[2] > 0);
        assert_true(n == 2 || sent[3] == 0);
    }
    assert_near((double)sent[3] / (double)sent[2], 1, 0.2);
    (void)hsp_epoch_plan_free(to);
    (void)hsp_epoch_plan_free(from);
    (void)hsp_arena_free(a);
    (void)hsp_job_rec_unref(j);
}

/* ---- packages ---- */

static void package_with(const struct hsp_epoch_plan *to, const struct hsp_epoch_plan *from,
                         uint32_t peer, bool buckets, struct hsp_buf *out)
{
    struct hsp_err err = {0};
    struct hsp_arena *a = hsp_arena_new(16u << 20);
    struct hsp_prepare_peer peers[] = {{0, "127.0.0.1:1"}, {32, "127.0.0.1:2"}, {16, "unix:/x"}};
    struct hsp_prepare_source source[] = {{0, 0, 0}, {2, 1, 1}};
    struct hsp_prepare_apart apart = {1, 2};
    struct hsp_prepare_action act = {3, peers, 2, source, 0, 1, &apart, buckets};
    const char *names[] = {"a/0", "c/0", "b/0"};
    const struct hsp_package_job job = {
        .init_from = "", .config_json = "{\"family\":\"gpt\"}", .ckpt_keep = 2};
    struct hsp_epoch_tables t;
    assert_ok(hsp_epoch_tables_make(to, from, NULL, &act, a, &t, &err), &err);
    assert_ok(hsp_epoch_package(to, &t, &job, &act, names, peer, a, out, &err), &err);
    (void)hsp_arena_free(a);
}

static void make_package(const struct hsp_epoch_plan *to, const struct hsp_epoch_plan *from,
                         uint32_t peer, struct hsp_buf *out)
{
    package_with(to, from, peer, true, out);
}

/* Executors of older agents get a package without buckets, which has the bytes of a plan
 * without. */
static void test_packages_without_buckets(void **state)
{
    (void)state;
    struct hsp_job_rec *j = app_job("", 0, NULL);
    const hsp_device_id devices[] = {0, 32};
    struct hsp_epoch_plan *from = app_epoch(j, app_pipe2, far, 2);
    struct hsp_epoch_plan *to = app_epoch(j, app_dp2, devices, 2);
    struct hsp_buf one, two, none;
    assert_int_equal(to->programs.programs[0].bind.buckets, false);
    hsp_buf_init(&one, 16u << 20);
    hsp_buf_init(&two, 16u << 20);
    hsp_buf_init(&none, 16u << 20);
    package_with(to, from, 0, true, &none);
    to->programs.programs[0].bind.buckets = true;
    package_with(to, from, 0, true, &one);
    package_with(to, from, 0, false, &two);
    assert_true(one.len > two.len);
    assert_int_equal(two.len, none.len);
    assert_memory_equal(two.data, none.data, two.len);
    hsp_buf_fini(&one);
    hsp_buf_fini(&two);
    hsp_buf_fini(&none);
    (void)hsp_epoch_plan_free(to);
    (void)hsp_epoch_plan_free(from);
    (void)hsp_job_rec_unref(j);
}

static void test_packages_decode_and_are_deterministic(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_job_rec *j = app_job("", 0, NULL);
    const hsp_device_id devices[] = {0, 32};
    struct hsp_epoch_plan *from = app_epoch(j, app_pipe2, far, 2);
    struct hsp_epoch_plan *to = app_epoch(j, app_tp2, devices, 2);
    struct hsp_epoch_plan *again = app_epoch(j, app_tp2, devices, 2);
    for (uint32_t peer = 0; peer < 3; peer++) {
        struct hsp_buf one, two;
        struct hsp_package p;
        struct hsp_arena *a = hsp_arena_new(16u << 20);
        hsp_buf_init(&one, 16u << 20);
        hsp_buf_init(&two, 16u << 20);
        make_package(to, from, peer, &one);
        make_package(again, from, peer, &two);
        assert_int_equal(one.len, two.len);
        assert_memory_equal(one.data, two.data, one.len);
        assert_ok(hsp_package_decode(one.data, one.len, a, &p, &err), &err);
        assert_int_equal(p.n_peers, 3);
        assert_string_equal(p.peers[1].name, "c/0");
        assert_true(p.peers[0].voted && !p.peers[1].voted && p.peers[2].voted);
        assert_int_equal(p.n_params, j->graph->n_params);
        assert_int_equal(p.n_kinds, 3);              /* param, m, v */
        assert_int_equal(p.tpl_len == 0, peer == 2); /* a source has no program */
        assert_int_equal(p.ckpt_keep, 2);
        for (uint32_t i = 0; i < 3; i++) { /* the source reaches the second by way of the first */
            assert_int_equal(p.peers[i].apart, i + peer == 3);
        }
        for (uint32_t i = 0; i < p.transfer.n; i++) { /* only rows it takes part in */
            assert_true(p.transfer.row[i].from == peer || p.transfer.row[i].to == peer);
            assert_int_not_equal(p.transfer.row[i].from + p.transfer.row[i].to, 3);
        }
        if (peer == 0) {
            int64_t n = 0, all = 0;
            for (uint32_t i = 0; i < p.gather.n; i++) {
                n += hsp_box_count(&p.gather.row[i].box);
            }
            for (uint32_t i = 0; i < p.n_params; i++) {
                struct hsp_box w = hsp_box_whole(p.params[i].rank, p.params[i].ext);
                all += hsp_box_count(&w);
            }
            assert_int_equal(n, all);
        }
        hsp_buf_fini(&one);
        hsp_buf_fini(&two);
        (void)hsp_arena_free(a);
    }
    (void)hsp_epoch_plan_free(again);
    (void)hsp_epoch_plan_free(to);
    (void)hsp_epoch_plan_free(from);
    (void)hsp_job_rec_unref(j);
}

/* Writers of whole checkpoints get the whole table of gathers, the others their own parts.
 */
static void test_packages_gather_at_the_writers(void **state)
{
    (void)state;
    static const char plan[] =
        "apiVersion: hspmd/v1\nkind: plan\nranks: 4\nzero: 1\npipelines:\n"
        "- {sequences: 1, micro_batches: 1, stages: [{layers: 2, ranks: [0]}]}\n"
        "- {sequences: 1, micro_batches: 1, stages: [{layers: 2, ranks: [1]}]}\n"
        "- {sequences: 1, micro_batches: 1, stages: [{layers: 2, ranks: [2]}]}\n"
        "- {sequences: 1, micro_batches: 1, stages: [{layers: 2, ranks: [3]}]}\n";
    struct hsp_err err = {0};
    struct hsp_job_rec *j = app_job("", 0, NULL);
    const hsp_device_id devices[] = {0, 1, 16, 17}; /* two on each of two nodes */
    struct hsp_epoch_plan *e = app_epoch(j, plan, devices, 2);
    struct hsp_prepare_peer peers[4];
    const char *names[] = {"a/0", "a/1", "b/0", "b/1"};
    struct hsp_prepare_action act = {4, peers, 0, NULL, 0, 0, NULL, true};
    const struct hsp_package_job job = {.init_from = "", .config_json = "{}", .ckpt_keep = 2};
    struct hsp_arena *a = hsp_arena_new(16u << 20);
    struct hsp_epoch_tables t;
    for (uint32_t i = 0; i < 4; i++) {
        peers[i] = (struct hsp_prepare_peer){devices[i], "127.0.0.1:1"};
    }
    assert_ok(hsp_epoch_tables_make(e, NULL, NULL, &act, a, &t, &err), &err);
    for (uint32_t peer = 0; peer < 4; peer++) {
        struct hsp_buf b;
        struct hsp_package p;
        uint32_t own = 0;
        hsp_buf_init(&b, 16u << 20);
        assert_ok(hsp_epoch_package(e, &t, &job, &act, names, peer, a, &b, &err), &err);
        assert_ok(hsp_package_decode(b.data, b.len, a, &p, &err), &err);
        for (uint32_t i = 0; i < t.gather.n; i++) {
            own += t.gather.row[i].from == peer;
        }
        assert_true(own > 0);
        assert_int_equal(hsp_package_writer(p.peers, 4), 2);
        assert_int_equal(p.gather.n, peer % 2 == 0 ? t.gather.n : own);
        for (uint32_t i = 0; i < p.gather.n; i++) {
            assert_true(peer % 2 == 0 || p.gather.row[i].from == peer);
        }
        hsp_buf_fini(&b);
    }
    (void)hsp_arena_free(a);
    (void)hsp_epoch_plan_free(e);
    (void)hsp_job_rec_unref(j);
}

/* The boxes of a rank that another has too, and nothing else; replica holders have none. */
static void test_packages_of_equal_copies(void **state)
{
    (void)state;
    static const char plan[] =
        "apiVersion: hspmd/v1\nkind: plan\nranks: 3\npipelines:\n"
        "- {sequences: 2, micro_batches: 1, stages: [{layers: 2, ranks: [0]}]}\n"
        "- {sequences: 2, micro_batches: 1, stages: [{layers: 1, ranks: [1]}, {layers: 1, ranks: "
        "[2]}]}\n";
    struct hsp_err err = {0};
    struct hsp_job_rec *j = app_job("", 0, NULL);
    const hsp_device_id devices[] = {0, 16, 32};
    struct hsp_epoch_plan *e = app_epoch(j, plan, devices, 3);
    struct hsp_prepare_peer peers[] = {
        {0, "127.0.0.1:1"}, {16, "127.0.0.1:2"}, {32, "unix:/x"}, {48, "unix:/y"}};
    const char *names[] = {"a/0", "b/0", "c/0", "d/0"};
    struct hsp_prepare_action act = {4, peers, 0, NULL, 1, 0, NULL, true};
    const struct hsp_package_job job = {.init_from = "", .config_json = "{}", .ckpt_keep = 2};
    struct hsp_arena *a = hsp_arena_new(16u << 20);
    struct hsp_epoch_tables t;
    uint32_t n[4] = {0};
    assert_ok(hsp_epoch_tables_make(e, NULL, NULL, &act, a, &t, &err), &err);
    for (uint32_t peer = 0; peer < 4; peer++) {
        struct hsp_buf b;
        struct hsp_package p;
        hsp_buf_init(&b, 16u << 20);
        assert_ok(hsp_epoch_package(e, &t, &job, &act, names, peer, a, &b, &err), &err);
        assert_ok(hsp_package_decode(b.data, b.len, a, &p, &err), &err);
        n[peer] = p.replicas.n;
        for (uint32_t i = 0; i < p.replicas.n; i++) {
            assert_true(p.replicas.row[i].from == peer || p.replicas.row[i].to == peer);
        }
        hsp_buf_fini(&b);
    }
    assert_true(n[0] > 0 && n[1] > 0 && n[2] > 0 && n[3] == 0);
    assert_int_equal(n[0] + n[1] + n[2], 2 * e->replicas.n);
    (void)hsp_arena_free(a);
    (void)hsp_epoch_plan_free(e);
    (void)hsp_job_rec_unref(j);
}

/* A replica holder's package: its rows and no program. A spare rank that nobody takes is in no
 * package. */
static void test_packages_of_replica_holders(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_job_rec *j = app_job("", 0, NULL);
    struct hsp_epoch_plan *e = app_epoch(j, app_one, far, 3);
    struct hsp_prepare_peer peers[] = {{0, "127.0.0.1:1"}, {17, "127.0.0.1:2"}, {32, "unix:/x"}};
    struct hsp_prepare_action act = {3, peers, 0, NULL, 1, 0, NULL, true};
    const char *names[] = {"a/0", "b/1", "c/0"};
    const struct hsp_package_job job = {.init_from = "", .config_json = "{}", .ckpt_keep = 2};
    struct hsp_arena *a = hsp_arena_new(16u << 20);
    struct hsp_epoch_tables t;
    assert_int_equal(e->n_spare, 2);
    assert_ok(hsp_epoch_tables_make(e, NULL, NULL, &act, a, &t, &err), &err);
    for (uint32_t peer = 0; peer < 3; peer++) {
        struct hsp_buf b;
        struct hsp_package p;
        int64_t n = 0, all = 0;
        hsp_buf_init(&b, 16u << 20);
        assert_ok(hsp_epoch_package(e, &t, &job, &act, names, peer, a, &b, &err), &err);
        assert_ok(hsp_package_decode(b.data, b.len, a, &p, &err), &err);
        assert_int_equal(p.tpl_len == 0, peer != 0);
        assert_int_equal(p.gather.n == 0, peer != 0);
        for (uint32_t i = 0; i < p.copies.n; i++) {
            assert_int_equal(p.copies.row[i].from, 0);
            assert_int_equal(p.copies.row[i].to, 1);
            n += hsp_box_count(&p.copies.row[i].box);
        }
        for (uint32_t i = 0; i < p.n_params; i++) {
            struct hsp_box w = hsp_box_whole(p.params[i].rank, p.params[i].ext);
            all += hsp_box_count(&w);
        }
        assert_int_equal(n, peer < 2 ? all : 0);
        hsp_buf_fini(&b);
    }
    (void)hsp_arena_free(a);
    (void)hsp_epoch_plan_free(e);
    (void)hsp_job_rec_unref(j);
}

/* A plan is sent as one blob. */
static void test_plan_texts_have_a_limit(void **state)
{
    (void)state;
    struct hsp_job_rec *j = app_job("", 0, NULL);
    struct hsp_arena *a = hsp_arena_new(1u << 20);
    struct hsp_epoch_plan *e = NULL;
    struct hsp_err err = {0};
    struct hsp_plan *p = app_plan(j, app_dp2, a);
    char *why = calloc(1, HSP_MSG_BLOB_MAX + 1);
    assert_non_null(why);
    memset(why, 'w', HSP_MSG_BLOB_MAX);
    p->why = why;
    assert_status(hsp_epoch_plan_build(j->graph, &j->spec->train, NULL, p, far, 1, (size_t)64 << 20,
                                       &e, &err),
                  HSP_ELIMIT);
    assert_string_equal(err.msg, "the plan has more than 64 MiB of text");
    free(why);
    (void)hsp_arena_free(a);
    (void)hsp_job_rec_unref(j);
}

HSP_TEST_FILE(epoch_package_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replicas_are_one_shard),
        cmocka_unit_test(test_stages_are_copied_to_a_buddy),
        cmocka_unit_test(test_announced_bytes_are_those_of_segments),
        cmocka_unit_test(test_copies_share_the_load_of_owners),
        cmocka_unit_test(test_state_moves_between_any_layouts),
        cmocka_unit_test(test_packages_decode_and_are_deterministic),
        cmocka_unit_test(test_packages_without_buckets),
        cmocka_unit_test(test_packages_gather_at_the_writers),
        cmocka_unit_test(test_packages_of_equal_copies),
        cmocka_unit_test(test_packages_of_replica_holders),
        cmocka_unit_test(test_plan_texts_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
