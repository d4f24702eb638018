/* Communicators of NCCL through epochs: kept, made anew, split; and an executor that dies in any of
 * its calls. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "tests/unit/worker/comm/nccl_world.h"
#include "worker/comm/collective.h"
#include "worker/comm/nccl/nccl_make.h"
#include "worker/comm/nccl/nccl_pool.h"
#include "worker/comm/nccl/nccl_start.h"
#include "worker/comm/reduce.h"

static const uint32_t all_ranks[NW_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};

static void nap_ms(long ms)
{
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

/* The work of a step: sums, uneven pieces, and a message to the next rank. The sum of all is
 * known. */
static enum hsp_status step(struct hsp_comm *c, struct nw_cells *own, uint32_t rank, uint32_t n,
                            bool *ret_right, struct hsp_err *err)
{
    struct hsp_group g = {.n = n, .ranks = all_ranks, .me = rank};
    struct hsp_comm_req in;
    float *x = own->x, *all = own->all;
    size_t count[NW_RANKS] = {5, 0, 7}, only[NW_RANKS] = {0, 12};
    uint32_t next = (rank + 1) % n, before = (rank + n - 1) % n;
    float sum = (float)(n * (n - 1)) / 2.0f;
    own->got = -1;
    own->mine = (float)rank;
    for (int k = 0; k < 12; k++) {
        x[k] = (float)rank + (float)(k * (int)n);
    }
    enum hsp_status st = hsp_comm_all_reduce(c, &g, 1, HSP_F32, HSP_REDUCE_SUM, x, 12, err);
    bool right = st == HSP_OK && fabsf(x[11] - sum - (float)(11 * n * n)) < 0.5f;
    if (st == HSP_OK) {
        count[2] = n > 2 ? 7 : 0;
        st = hsp_comm_reduce_scatter(c, &g, 2, HSP_F32, HSP_REDUCE_SUM, x, count, all, err);
    }
    if (st == HSP_OK) {
        st = hsp_comm_all_gather(c, &g, 3, HSP_F32, all, count, x, err);
    }
    if (st == HSP_OK) { /* all at one: a group of calls */
        st = hsp_comm_reduce_scatter(c, &g, 2, HSP_F32, HSP_REDUCE_SUM, x, only, all, err);
    }
    if (st == HSP_OK) {
        st = hsp_comm_all_gather(c, &g, 3, HSP_F32, all, only, x, err);
    }
    if (st == HSP_OK) {
        st = c->ops->batch(c, true, err);
    }
    if (st == HSP_OK) {
        st = c->ops->irecv(c, before, 7, hsp_run(&own->got, sizeof own->got), &in, err);
    }
    if (st == HSP_OK) {
        st = c->ops->send(c, next, 7, &own->mine, sizeof own->mine, err);
    }
    if (st == HSP_OK) {
        st = c->ops->batch(c, false, err);
        enum hsp_status w = c->ops->wait(c, &in, st == HSP_OK ? err : NULL);
        st = st == HSP_OK ? w : st;
    }
    *ret_right = right && (st != HSP_OK || fabsf(own->got - (float)before) < 0.5f);
    return st;
}

/* ---- epochs that follow each other ---- */

static void step_of(void *ctx, uint32_t k)
{
    struct nw_epoch *e = ctx;
    bool right = false;
    e->st[k] = step(e->comm[k], &e->cells[k], k, e->n, &right, &e->err[k]);
    if (e->st[k] == HSP_OK && !right) {
        e->st[k] = hsp_err_set(&e->err[k], HSP_EDIGEST, 0, "wrong numbers at rank %u", k);
    }
}

static void expect_all_ok(const struct nw_epoch *e)
{
    for (uint32_t k = 0; k < e->n; k++) {
        assert_ok(e->st[k], &e->err[k]);
    }
}

static void run_step(struct nw_epoch *e)
{
    nw_each(e->n, e->number, step_of, e);
    expect_all_ok(e);
}

static void begin_of(void *ctx, uint32_t k)
{
    struct nw_epoch *e = ctx;
    const struct hsp_nccl_params p = {.mesh = e->mesh[k], .timeout_ms = 2000};
    e->st[k] = hsp_nccl_start(e->comm[k], &p, &e->err[k]);
}

/* Members that were connected, of communicators with collectives: each of them gives this call once
 * for that. */
static unsigned greeted(void)
{
    return nw_fake()->calls("ncclAllReduce");
}

static void open_epoch(struct nw_epoch *e, struct nw_process *p, const int *member, uint32_t n)
{
    nw_epoch_init(e, p, member, n);
    nw_prepare(e);
    expect_all_ok(e);
}

static unsigned made(void)
{
    return nw_fake()->calls("ncclCommInitRankConfig");
}

/* The same members: the same communicators, in the next epoch and through a switch. */
static void quiet_ones_are_kept(void **state)
{
    struct nw_process p[3];
    struct nw_epoch a, b;
    (void)state;
    nw_fake()->reset(hsp_test_seed(), 0);
    nw_open(p, 3, NULL);
    open_epoch(&a, p, NULL, 3);
    unsigned before = made();
    assert_int_equal(before, 3 + 12); /* one of three, and six pairs */
    assert_int_equal(greeted(), 3);
    run_step(&a);
    nw_epoch_close(&a);
    unsigned sums = greeted();
    open_epoch(&b, p, NULL, 3);
    assert_int_equal(made(), before);
    assert_int_equal(greeted(), sums); /* all are connected */
    assert_false(a.starts[0] || b.starts[0]);
    run_step(&b);
    /* prepared beside the running one, which goes on */
    open_epoch(&a, p, NULL, 3);
    assert_int_equal(made(), before);
    assert_true(a.starts[0] && a.starts[1] && a.starts[2]);
    run_step(&b);
    nw_each(3, a.number, begin_of, &a);
    expect_all_ok(&a);
    run_step(&a);
    nw_epoch_close(&b); /* the rank has left, and takes nothing with it */
    run_step(&a);
    nw_epoch_close(&a);
    assert_int_equal(hsp_nccl_count(p[0].nccl), 1 + 4);
    nw_close(p, 3);
    nw_expect_clean();
}

/* A rank that had one operation more: nobody takes the communicator over. */
static void lonely_sum(void *ctx, uint32_t k)
{
    struct nw_epoch *e = ctx;
    struct hsp_group g = {.n = 3, .ranks = all_ranks, .me = 1};
    float x = 1;
    (void)k;
    e->st[1] = hsp_comm_all_reduce(e->comm[1], &g, 1, HSP_F32, HSP_REDUCE_SUM, &x, 1, &e->err[1]);
}

/* Waits for a call of the library that is to come. */
static void await_call(const char *name, unsigned nth)
{
    for (int ms = 0; nw_fake()->calls(name) < nth; ms++) {
        assert_true(ms < 120000);
        nap_ms(1);
    }
}

/* Until the sum is given. */
struct aborter {
    struct nw_epoch *e;
    unsigned sums;
};

static void *abort_soon(void *arg)
{
    const struct aborter *a = arg;
    await_call("ncclAllReduce", a->sums);
    nap_ms(5);
    a->e->comm[1]->ops->abort(a->e->comm[1]);
    return NULL;
}

/* A sum of rank 1 to which nobody else comes, until it is aborted. */
static void give_up_a_sum(struct nw_epoch *e)
{
    static const int one = 1;
    pthread_t t;
    struct aborter a = {e, nw_fake()->calls("ncclAllReduce") + 1};
    assert_int_equal(pthread_create(&t, NULL, abort_soon, &a), 0);
    nw_each(1, &one, lonely_sum, e);
    (void)pthread_join(t, NULL);
}

static void unequal_ones_are_made_anew(void **state)
{
    struct nw_process p[3];
    struct nw_epoch a, b;
    (void)state;
    nw_fake()->reset(hsp_test_seed(), 0);
    nw_open(p, 3, NULL);
    open_epoch(&a, p, NULL, 3);
    run_step(&a);
    unsigned before = made();
    give_up_a_sum(&a);
    assert_int_equal(a.st[1], HSP_ECANCELED);
    nw_epoch_close(&a);
    assert_int_equal(nw_fake()->calls("ncclCommAbort"), 1); /* the pairs were quiet */
    open_epoch(&b, p, NULL, 3);
    assert_int_equal(made(), before + 3);
    run_step(&b);
    nw_epoch_close(&b);
    nw_close(p, 3);
    nw_expect_clean();
}

/* Rank 0 has sent a message that rank 1 takes later, in the epoch before: the next one waits for
 * that. */
static void begin_late(void *ctx, uint32_t k)
{
    struct nw_epoch *both = ctx, *a = &both[0], *b = &both[1];
    float x = 3;
    if (k == 0) {
        a->st[0] = a->comm[0]->ops->send(a->comm[0], 1, 7, &x, sizeof x, &a->err[0]);
    } else if (k == 1) {
        nap_ms(50);
        a->st[1] = a->comm[1]->ops->recv(a->comm[1], 0, 7, &x, sizeof x, &a->err[1]);
    }
    begin_of(b, k);
}

/* A switch takes over communicators that are quiet and the same everywhere; else the epoch does not
 * begin. */
static void a_switch_compares(void **state)
{
    struct nw_process p[3];
    struct nw_epoch e[2];
    (void)state;
    for (int broken = 0; broken < 2; broken++) {
        nw_fake()->reset(hsp_test_seed(), 0);
        nw_open(p, 3, NULL);
        open_epoch(&e[0], p, NULL, 3);
        open_epoch(&e[1], p, NULL, 3);
        run_step(&e[0]);
        if (broken == 1) {
            give_up_a_sum(&e[0]);
            nw_each(3, NULL, begin_of, &e[1]);
            for (int k = 0; k < 3; k++) {
                assert_true(e[1].st[k] == HSP_EPEER || e[1].st[k] == HSP_ECANCELED);
            }
        } else {
            nw_each(3, NULL, begin_late, e);
            expect_all_ok(&e[0]);
            expect_all_ok(&e[1]);
            run_step(&e[1]);
        }
        nw_epoch_close(&e[0]);
        nw_epoch_close(&e[1]);
        nw_close(p, 3);
        nw_expect_clean();
    }
}

/* A communicator with members that are gone is aborted at once, by each rank in one group, and made
 * anew. One that all have and nobody wants is ended in order. Patience has no end here: nothing may
 * wait for it. */
static void lost_members_are_not_waited_for(int version)
{
    struct nw_process p[4];
    struct nw_epoch e;
    static const int left[3] = {0, 2, 3};
    const struct hsp_fakenccl *fake = nw_fake();
    fake->reset(hsp_test_seed(), version);
    nw_open(p, 4, NULL);
    open_epoch(&e, p, NULL, 4);
    run_step(&e);
    nw_epoch_close(&e);
    open_epoch(&e, p, left, 3);
    assert_int_equal(fake->calls("ncclCommAbort"), 3 * (1 + 2)); /* the one of all, two pairs */
    assert_int_equal(fake->grouped(), version >= 22200 ? 3 * (1 + 2) : 0);
    assert_int_equal(fake->calls("ncclCommFinalize"), 0);
    assert_int_equal(made(), 4 + 24 + 3);
    run_step(&e);
    nw_epoch_close(&e);
    open_epoch(&e, p, NULL, 4); /* the fourth was alive, and held communicators of its own */
    assert_int_equal(fake->calls("ncclCommAbort"), 3 * (1 + 2) + 1 + 6);
    assert_int_equal(fake->calls("ncclCommFinalize"), 3);
    assert_int_equal(fake->calls("ncclCommDestroy"), 3);
    run_step(&e);
    nw_epoch_close(&e);
    nw_close(p, 4);
    assert_int_equal(fake->calls("ncclCommAbort"), 3 * (1 + 2) + 1 + 6);
    nw_expect_clean();
}

static void a_lost_member_is_not_waited_for(void **state)
{
    (void)state;
    nw_patience_ms = 600000;
    lost_members_are_not_waited_for(22809);
    lost_members_are_not_waited_for(22100);
    nw_patience_ms = NW_PATIENCE_MS;
}

/* Sums of groups of some ranks only. */
static const uint32_t parts[4][3] = {{0, 1}, {2, 3}, {0, 2, 3}, {1, 3}};
static const uint32_t n_of_part[4] = {2, 2, 3, 2};

static void sums_of_parts(void *ctx, uint32_t k)
{
    struct nw_epoch *e = ctx;
    for (int i = 0; i < 4 && e->st[k] == HSP_OK; i++) {
        struct hsp_group g = {.n = n_of_part[i], .ranks = parts[i], .me = UINT32_MAX};
        float x = (float)k, sum = 0;
        for (uint32_t j = 0; j < g.n; j++) {
            g.me = parts[i][j] == k ? j : g.me;
            sum += (float)parts[i][j];
        }
        if (g.me == UINT32_MAX) {
            continue;
        }
        e->st[k] =
            hsp_comm_all_reduce(e->comm[k], &g, 1, HSP_F32, HSP_REDUCE_SUM, &x, 1, &e->err[k]);
        if (e->st[k] == HSP_OK && fabsf(x - sum) > 0.25f) {
            e->st[k] = hsp_err_set(&e->err[k], HSP_EDIGEST, 0, "part %d: %g, not %g", i, (double)x,
                                   (double)sum);
        }
    }
}

/* Groups of a communicator that all its members hold and nobody uses are split off it. */
static void parts_are_split_off(void **state)
{
    struct nw_process p[4];
    struct nw_epoch a, b;
    (void)state;
    nw_fake()->reset(hsp_test_seed(), 0);
    nw_open(p, 4, NULL);
    open_epoch(&a, p, NULL, 4);
    run_step(&a);
    unsigned before = made();
    nw_epoch_init(&b, p, NULL, 4); /* beside the running one: there is nothing to split */
    nw_want(&b, parts[0], 2);
    nw_prepare(&b);
    expect_all_ok(&b);
    assert_int_equal(made(), before + 2);
    assert_int_equal(nw_fake()->calls("ncclCommSplit"), 0);
    nw_epoch_close(&b);
    nw_epoch_close(&a);
    before = made();
    nw_epoch_init(&b, p, NULL, 4);
    for (int i = 0; i < 4; i++) {
        nw_want(&b, parts[i], n_of_part[i]);
    }
    unsigned sums = greeted();
    nw_prepare(&b);
    expect_all_ok(&b);
    assert_int_equal(made(), before);
    assert_int_equal(greeted(), sums + 2 + 3 + 2);
    /* the first is kept; of three two at most fit into one turn, in which all four take part */
    unsigned splits = nw_fake()->calls("ncclCommSplit");
    assert_true(splits == 8 || splits == 12);
    run_step(&b);
    nw_each(4, NULL, sums_of_parts, &b);
    expect_all_ok(&b);
    nw_epoch_close(&b);
    nw_close(p, 4);
    nw_expect_clean();
}

/* Sums within the two hosts of an epoch with secrets. */
static void sums_of_hosts(void *ctx, uint32_t k)
{
    struct nw_epoch *e = ctx;
    const uint32_t *ranks = parts[k / 2];
    struct hsp_comm *c = e->comm[k];
    struct hsp_group g = {.n = 2, .ranks = ranks, .me = k % 2};
    float x = (float)k;
    if (!c->ops->reaches(c, ranks, 2) || c->ops->reaches(c, all_ranks, 4)) {
        e->st[k] = hsp_err_set(&e->err[k], HSP_EDIGEST, 0, "rank %u reaches the wrong groups", k);
        return;
    }
    e->st[k] = hsp_comm_all_reduce(c, &g, 1, HSP_F32, HSP_REDUCE_SUM, &x, 1, &e->err[k]);
    if (e->st[k] == HSP_OK && fabsf(x - (float)(ranks[0] + ranks[1])) > 0.25f) {
        e->st[k] = hsp_err_set(&e->err[k], HSP_EDIGEST, 0, "rank %u: %g", k, (double)x);
    }
}

/* Two hosts of two, first in clear. With TLS and a trusted network each only the groups of a host
 * go, and a communicator of both hosts serves no more, not even to split them off. On one trusted
 * network all go again. */
static void secrets_stay_on_their_hosts(void **state)
{
    struct nw_process p[4];
    struct nw_epoch e;
    (void)state;
    nw_fake()->reset(hsp_test_seed(), 0);
    nw_open(p, 4, NULL);
    open_epoch(&e, p, NULL, 4);
    run_step(&e);
    nw_epoch_close(&e);
    unsigned before = made();
    for (int trusted = 0; trusted < 2; trusted++) {
        nw_epoch_init(&e, p, NULL, 4);
        nw_want(&e, parts[0], 2);
        nw_want(&e, parts[1], 2);
        for (uint32_t k = 0; k < 4; k++) {
            e.place[k] =
                (struct hsp_nccl_place){.host = 1 + k / 2,
                                        .trusted = (uint8_t)(trusted == 1 ? 1 : 1u << k / 2),
                                        .tls = true};
        }
        nw_prepare(&e);
        expect_all_ok(&e);
        if (trusted == 0) {
            assert_int_equal(made(), before + 4);
            assert_int_equal(hsp_nccl_count(p[0].nccl), 1);
            nw_each(4, NULL, sums_of_hosts, &e);
            expect_all_ok(&e);
        } else {
            run_step(&e);
        }
        assert_int_equal(nw_fake()->calls("ncclCommSplit"), 0);
        nw_epoch_close(&e);
    }
    nw_close(p, 4);
    nw_expect_clean();
}

/* Rank 1 computes on its processor; 2 and 3 share a GPU; 0 and 4 have their own. */
static void mixed_groups_go_by_the_mesh(void **state)
{
    static const uint64_t gpu[5] = {1, 0, 7, 7, 9};
    static const uint32_t both[2] = {0, 4}, mixed[2] = {0, 1}, shared[2] = {2, 3},
                          three[3] = {0, 2, 4};
    struct nw_process p[5];
    struct nw_epoch e;
    (void)state;
    nw_fake()->reset(hsp_test_seed(), 0);
    nw_open(p, 5, gpu);
    nw_epoch_init(&e, p, NULL, 5);
    nw_want(&e, both, 2);
    nw_want(&e, mixed, 2);
    nw_want(&e, shared, 2);
    nw_want(&e, three, 3);
    nw_prepare(&e);
    expect_all_ok(&e);
    assert_null(e.comm[1]);
    assert_null(e.comm[3]);
    for (int k = 0; k < 5; k += 4) {
        struct hsp_comm *c = e.comm[k];
        assert_true(c->ops->reaches(c, both, 2));
        assert_true(c->ops->reaches(c, three, 3));
        assert_false(c->ops->reaches(c, mixed, 2));
        assert_false(c->ops->reaches(c, all_ranks, 5));
    }
    assert_true(e.comm[2]->ops->reaches(e.comm[2], three, 3));
    assert_false(e.comm[2]->ops->reaches(e.comm[2], shared, 2));
    nw_each(5, e.number, begin_of, &e);
    expect_all_ok(&e);
    nw_epoch_close(&e);
    nw_close(p, 5);
    nw_expect_clean();
}

static void libraries_are_refused(void **state)
{
    struct nw_process p;
    struct hsp_nccl *n = NULL;
    struct hsp_err err;
    (void)state;
    nw_fake()->reset(1, 21500);
    nw_open_one(&p, 0, 0);
    struct hsp_nccl_opts o = {.backend = &p.backend.base, .gpu = 1, .process = 1};
    o.library = nw_library();
    assert_status(hsp_nccl_open(&o, &n, &err), HSP_EUNSUPPORTED);
    assert_err(&err, HSP_EUNSUPPORTED, "NCCL 21500 is not one of 21800 to 29999");
    nw_fake()->reset(1, 22501);
    assert_status(hsp_nccl_open(&o, &n, &err), HSP_EUNSUPPORTED);
    assert_err(&err, HSP_EUNSUPPORTED,
               "NCCL 2.25.1 hangs in ncclCommAbort; install 2.26.2 or later");
    o.library = "libc.so.6";
    assert_status(hsp_nccl_open(&o, &n, &err), HSP_EUNSUPPORTED);
    assert_err(&err, HSP_EUNSUPPORTED, "libc.so.6 has no ncclGetVersion");
    o.library = "libnccl-that-is-not-here.so";
    assert_status(hsp_nccl_open(&o, &n, &err), HSP_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "no NCCL: "));
    assert_null(n);
    nw_close(&p, 1);
}

/* ---- lives that may end early ---- */

struct life {
    struct nw_epoch e;
    pthread_mutex_t lock; /* e.comm while it is being made */
    atomic_bool lost;
    atomic_uint ended;
    pthread_t thread[NW_RANKS];
};
struct rank_life {
    struct life *l;
    uint32_t rank;
};

static bool is_lost(void *ctx)
{
    return atomic_load(&((struct life *)ctx)->lost);
}

static void live(struct life *l, uint32_t k)
{
    struct nw_epoch *e = &l->e;
    struct hsp_comm *c = NULL;
    const struct hsp_nccl_params p = {
        .mesh = e->mesh[k], .needs = &e->needs[k], .timeout_ms = 20000, .stop = is_lost, .ctx = l};
    nw_fake()->enter(e->number[k]);
    e->st[k] = hsp_nccl_prepare(e->process[k]->nccl, &p, &c, &e->starts[k], &e->err[k]);
    (void)pthread_mutex_lock(&l->lock);
    e->comm[k] = c;
    (void)pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < 2 && e->st[k] == HSP_OK; i++) {
        if (is_lost(l)) {
            c->ops->abort(c);
        }
        bool right;
        e->st[k] = step(c, &e->cells[k], k, e->n, &right, &e->err[k]);
        if (e->st[k] == HSP_OK && !right) {
            e->st[k] = HSP_EDIGEST;
        }
    }
    if (e->st[k] != HSP_OK) {
        e->mesh[k]->ops->abort(e->mesh[k]);
    }
}

static void *life_main(void *arg)
{
    struct rank_life r = *(struct rank_life *)arg;
    free(arg);
    live(r.l, r.rank);
    atomic_fetch_add(&r.l->ended, 1);
    return NULL;
}

static void want_pairs(struct nw_epoch *e)
{
    static const uint32_t two[3][2] = {{0, 1}, {1, 2}, {0, 2}};
    for (int k = 0; k < 3; k++) {
        nw_want(e, two[k], 2);
    }
}

/* The beginnings of lives: nothing; a communicator that pairs are to be split off; pairs that are
 * wanted no more. */
enum past { PAST_NONE, PAST_WHOLE, PAST_PAIRS, N_PASTS };

static void start_lives(struct life *l, struct nw_process *p, uint32_t n, enum past past)
{
    *l = (struct life){.lock = PTHREAD_MUTEX_INITIALIZER};
    nw_epoch_init(&l->e, p, NULL, n);
    if (past == PAST_WHOLE) {
        want_pairs(&l->e);
    }
    for (uint32_t k = 0; k < n; k++) {
        struct rank_life *r = malloc(sizeof *r);
        *r = (struct rank_life){l, k};
        assert_int_equal(pthread_create(&l->thread[k], NULL, life_main, r), 0);
    }
}

/* The death notice: every survivor aborts its mesh, and its communicators of NCCL. */
static void notice(struct life *l)
{
    atomic_store(&l->lost, true);
    (void)pthread_mutex_lock(&l->lock);
    for (uint32_t k = 0; k < l->e.n; k++) {
        l->e.mesh[k]->ops->abort(l->e.mesh[k]);
        if (l->e.comm[k] != NULL) {
            l->e.comm[k]->ops->abort(l->e.comm[k]);
        }
    }
    (void)pthread_mutex_unlock(&l->lock);
}

/* Kills process 1 in its @nth call. Returns false if the process lived. */
static bool die_at(unsigned nth, enum past past)
{
    struct nw_process p[3];
    struct life l;
    struct nw_epoch b;
    static const int left[2] = {0, 2};
    const struct hsp_fakenccl *fake = nw_fake();
    fake->reset(hsp_test_seed() + nth, 0);
    nw_open(p, 3, NULL);
    if (past != PAST_NONE) {
        nw_epoch_init(&b, p, NULL, 3);
        if (past == PAST_PAIRS) {
            want_pairs(&b);
        }
        nw_prepare(&b);
        expect_all_ok(&b);
        run_step(&b);
        nw_epoch_close(&b);
    }
    fake->die(1, nth);
    start_lives(&l, p, 3, past);
    while (atomic_load(&l.ended) < 3 && !fake->is_dead(1)) {
        nap_ms(1);
    }
    bool died = fake->is_dead(1);
    if (died) {
        notice(&l);
        /* survivors get out, whatever call holds the dead one */
        (void)pthread_join(l.thread[0], NULL);
        (void)pthread_join(l.thread[2], NULL);
        for (int k = 0; k < 3; k += 2) { /* maybe through already */
            enum hsp_status st = l.e.st[k];
            if (st != HSP_OK && st != HSP_ECANCELED && st != HSP_EPEER) {
                fail_msg("call %u: %s", nth, l.e.err[k].msg);
            }
            if (l.e.comm[k] != NULL) {
                l.e.comm[k]->ops->close(l.e.comm[k]);
                l.e.comm[k] = NULL;
            }
        }
        open_epoch(&b, p, left, 2); /* and go on */
        run_step(&b);
        nw_epoch_close(&b);
        fake->revive(1);
    } else {
        (void)pthread_join(l.thread[0], NULL);
        (void)pthread_join(l.thread[2], NULL);
    }
    (void)pthread_join(l.thread[1], NULL);
    if (!died) {
        expect_all_ok(&l.e);
        fake->die(1, 0);
    }
    nw_epoch_close(&l.e);
    nw_close(p, 3);
    nw_expect_clean();
    return died;
}

static void survivors_outlive_a_death_in_any_call(void **state)
{
    (void)state;
    for (int past = 0; past < N_PASTS; past++) {
        unsigned n = 0;
        while (die_at(n + 1, (enum past)past)) {
            n++;
        }
        assert_true(n >= 20);
    }
}

/* A call that fails, or never returns: an error at that rank, the others by the notice. */
static void one_call_goes_wrong(const char *name, unsigned nth, bool hangs)
{
    struct nw_process p[2];
    struct life l;
    const struct hsp_fakenccl *fake = nw_fake();
    fake->reset(hsp_test_seed() + nth, 0);
    nw_open(p, 2, NULL);
    if (hangs) {
        fake->hang(name, nth);
    } else {
        fake->refuse(name, nth, 2);
    }
    start_lives(&l, p, 2, PAST_NONE);
    while (atomic_load(&l.ended) == 0 && fake->hung() == 0) {
        nap_ms(1);
    }
    notice(&l);
    (void)pthread_join(l.thread[0], NULL);
    (void)pthread_join(l.thread[1], NULL);
    fake->refuse(NULL, 0, 0);
    fake->hang(NULL, 0);
    nw_epoch_close(&l.e);
    nw_close(p, 2);
    nw_expect_clean();
}

static void calls_that_go_wrong(void **state)
{
    static const char *const name[] = {"ncclGetUniqueId",
                                       "ncclCommInitRankConfig",
                                       "ncclCommGetAsyncError",
                                       "ncclAllReduce",
                                       "ncclAllGather",
                                       "ncclReduceScatter",
                                       "ncclGroupStart",
                                       "ncclReduce",
                                       "ncclBroadcast",
                                       "ncclSend",
                                       "ncclRecv",
                                       "ncclGroupEnd",
                                       "ncclCommFinalize"};
    (void)state;
    for (size_t k = 0; k < sizeof name / sizeof name[0]; k++) {
        one_call_goes_wrong(name[k], 1, false);
        one_call_goes_wrong(name[k], 2, false);
        one_call_goes_wrong(name[k], 3, false); /* the first two connect */
    }
    one_call_goes_wrong("ncclAllReduce", 2, true);
    one_call_goes_wrong("ncclAllReduce", 4, true);
    one_call_goes_wrong("ncclGroupEnd", 1, true);
    one_call_goes_wrong("ncclSend", 1, true);
    one_call_goes_wrong("ncclSend", 3, true);
    one_call_goes_wrong("ncclRecv", 2, true);
    one_call_goes_wrong("ncclGroupEnd", 3, true);
    one_call_goes_wrong("ncclCommGetAsyncError", 60, true);
}

/* An error NCCL finds by itself, while the others wait. */
static void *waits_forever(void *arg)
{
    struct nw_epoch *e = arg;
    struct hsp_group g = {.n = 2, .ranks = all_ranks, .me = 0};
    float x = 1;
    e->st[0] = hsp_comm_all_reduce(e->comm[0], &g, 1, HSP_F32, HSP_REDUCE_SUM, &x, 1, &e->err[0]);
    return NULL;
}

static void an_error_found_kills_the_mesh_too(void **state)
{
    struct nw_process p[2];
    struct nw_epoch e;
    struct hsp_err err;
    pthread_t t;
    float x = 0;
    (void)state;
    nw_fake()->reset(hsp_test_seed(), 0);
    nw_open(p, 2, NULL);
    open_epoch(&e, p, NULL, 2);
    unsigned sums = nw_fake()->calls("ncclAllReduce");
    assert_int_equal(pthread_create(&t, NULL, waits_forever, &e), 0);
    await_call("ncclAllReduce", sums + 1);
    nw_fake()->spoil(0, 6);
    (void)pthread_join(t, NULL);
    assert_int_equal(e.st[0], HSP_EPEER);
    assert_non_null(strstr(e.err[0].msg, "all-reduce of ranks 0,1: remote process exited"));
    assert_int_not_equal(e.mesh[0]->ops->send(e.mesh[0], 1, 0, &x, 4, &err), HSP_OK);
    nw_epoch_close(&e);
    nw_close(p, 2);
    nw_expect_clean();
}

HSP_TEST_FILE(nccl_kill_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quiet_ones_are_kept),
        cmocka_unit_test(unequal_ones_are_made_anew),
        cmocka_unit_test(a_switch_compares),
        cmocka_unit_test(a_lost_member_is_not_waited_for),
        cmocka_unit_test(parts_are_split_off),
        cmocka_unit_test(secrets_stay_on_their_hosts),
        cmocka_unit_test(mixed_groups_go_by_the_mesh),
        cmocka_unit_test(libraries_are_refused),
        cmocka_unit_test(an_error_found_kills_the_mesh_too),
        cmocka_unit_test(calls_that_go_wrong),
        cmocka_unit_test(survivors_outlive_a_death_in_any_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
