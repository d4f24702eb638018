/* Tests one communicator of NCCL: its members greet each other before it is READY. */
#include <stdatomic.h>
#include <time.h>

#include "tests/unit/worker/comm/nccl_world.h"
#include "worker/comm/nccl/nccl_end.h"
#include "worker/comm/nccl/nccl_pool.h"

#define N     3
#define CALLS 6 /* of a greeting: a group of a broadcast and of three more */

static void nap(void)
{
    const struct timespec t = {.tv_nsec = 200000};
    (void)nanosleep(&t, NULL);
}

/* Until @name was called @n times in all. */
static void await_calls(const char *name, unsigned n)
{
    for (int k = 0; nw_fake()->calls(name) < n; k++) {
        assert_true(k < 100000);
        nap();
    }
}

typedef enum hsp_status (*question)(struct hsp_link *l, struct hsp_err *err);

static void await_state(struct hsp_link *l, question q)
{
    struct hsp_err err = {0};
    enum hsp_status st;
    for (int k = 0; (st = q(l, &err)) == HSP_AGAIN; k++) {
        assert_true(k < 100000);
        nap();
    }
    assert_ok(st, &err);
}

struct world {
    struct nw_process p[N];
    struct hsp_link *link[N];
};

/* A communicator of all, that is MADE. */
static void open_links(struct world *w, uint64_t seed)
{
    static const uint64_t process[N] = {11, 12, 13};
    struct hsp_err err = {0};
    struct nccl_id id;
    nw_fake()->reset(seed, 0);
    nw_open(w->p, N, NULL);
    assert_int_equal(w->p[0].nccl->lib.GetUniqueId(&id), NCCL_SUCCESS);
    for (uint32_t k = 0; k < N; k++) {
        const struct hsp_link_spec s = {.name = "ranks 0,1,2",
                                        .key = 5,
                                        .nonce = 7,
                                        .process = process,
                                        .n = N,
                                        .me = k,
                                        .id = id};
        assert_ok(hsp_link_new(&w->p[k].nccl->env, &s, &w->link[k], &err), &err);
    }
    for (uint32_t k = 0; k < N; k++) {
        await_state(w->link[k], hsp_link_made);
    }
}

static void close_link(void *ctx, uint32_t k)
{
    struct world *w = ctx;
    w->link[k] = hsp_link_close(w->link[k]);
}

static void close_all(struct world *w)
{
    nw_each(N, NULL, close_link, w);
    nw_close(w->p, N);
    nw_expect_clean();
}

static const void *greet_stream(const struct world *w, uint32_t k)
{
    return &w->p[k].backend.stream[0];
}

static void it_is_ready_when_all_have_greeted(void **state)
{
    struct world w;
    (void)state;
    open_links(&w, hsp_test_seed());
    assert_int_equal(nw_fake()->calls("ncclAllReduce"), 0);
    hsp_link_connect(w.link[0]);
    hsp_link_connect(w.link[1]);
    await_calls("ncclGroupEnd", 2);
    await_calls("ncclCommGetAsyncError", nw_fake()->calls("ncclCommGetAsyncError") + 40);
    for (uint32_t k = 0; k < N; k++) {
        assert_status(hsp_link_state(w.link[k], NULL), HSP_AGAIN);
        assert_false(hsp_link_quiet(w.link[k]));
    }
    hsp_link_connect(w.link[2]);
    for (uint32_t k = 0; k < N; k++) {
        uint64_t given = 0, done = 0;
        await_state(w.link[k], hsp_link_state);
        nw_fake()->work(greet_stream(&w, k), &given, &done);
        assert_true(given == 1 && done == 1); /* on the queue for that, and over */
        assert_true(hsp_link_quiet(w.link[k]) && hsp_link_ops(w.link[k]) == 0);
    }
    close_all(&w);
}

/* Later work of one member waits for no other, as far as the call goes. */
static void it_is_connected_when_it_is_ready(void **state)
{
    struct world w;
    float x = 1;
    struct nccl_comm *c = NULL;
    struct hsp_err err = {0};
    (void)state;
    open_links(&w, hsp_test_seed());
    for (uint32_t k = 0; k < N; k++) {
        hsp_link_connect(w.link[k]);
    }
    await_state(w.link[0], hsp_link_state);
    const struct hsp_nccl_lib *lib = &w.p[0].nccl->lib;
    assert_ok(hsp_link_begin(w.link[0], &w, &c, &err), &err);
    void *lane = &w.p[0].backend.stream[1];
    enum nccl_result r = lib->AllReduce(&x, &x, 1, NCCL_FLOAT32, NCCL_SUM, c, lane);
    for (int k = 0; r == NCCL_IN_PROGRESS && k < 20; k++) {
        assert_int_equal(lib->CommGetAsyncError(c, &r), NCCL_SUCCESS);
    }
    assert_int_equal(r, NCCL_SUCCESS);
    const struct hsp_link_given g = {.q = HSP_DEVQ_LANE, .n_ops = 1, .what = "all-reduce"};
    assert_ok(hsp_link_end(w.link[0], &g, r, &err), &err);
    assert_false(hsp_link_quiet(w.link[0]));
    close_all(&w); /* aborts it */
}

/* In each call of it. The others are told by a notice, and get out. */
static void a_member_dies_in_a_greeting(void **state)
{
    (void)state;
    for (unsigned nth = 1; nth <= CALLS; nth++) {
        struct world w;
        struct hsp_err why = {0}, err = {0};
        (void)hsp_err_set(&why, HSP_ECANCELED, 0, "rank 2 is lost");
        open_links(&w, hsp_test_seed() + nth);
        nw_fake()->die(2, nth);
        for (uint32_t k = 0; k < N; k++) {
            hsp_link_connect(w.link[k]);
        }
        await_calls("ncclGroupEnd", 2);
        for (int k = 0; !nw_fake()->is_dead(2); k++) {
            assert_true(k < 100000);
            nap();
        }
        for (uint32_t k = 0; k < 2; k++) {
            assert_status(hsp_link_state(w.link[k], &err), HSP_AGAIN);
            hsp_crew_add(NULL, w.link[k], &why);
            assert_true(hsp_link_await(w.link[k]));
            assert_status(hsp_link_state(w.link[k], &err), HSP_ECANCELED);
            assert_err(&err, HSP_ECANCELED, "rank 2 is lost");
        }
        nw_fake()->revive(2);
        close_all(&w);
    }
}

static enum nccl_result (*make_now)(struct nccl_comm **ret, int n, struct nccl_id id, int me,
                                    struct nccl_config *config);
static atomic_bool is_made, may_return;

static enum nccl_result make_slowly(struct nccl_comm **ret, int n, struct nccl_id id, int me,
                                    struct nccl_config *config)
{
    enum nccl_result r = make_now(ret, n, id, me, config);
    atomic_store(&is_made, true);
    while (!atomic_load(&may_return)) {
        nap();
    }
    return r;
}

static void *close_it(void *link)
{
    return hsp_link_close(link);
}

/* Its handle is written by then, but is the library's until that returns. */
static void it_is_not_aborted_in_the_call_that_makes_it(void **state)
{
    static const uint64_t process = 11;
    struct nw_process p;
    struct hsp_link *l;
    struct hsp_err err = {0};
    struct hsp_link_spec s = {.name = "rank 0", .key = 5, .nonce = 7, .process = &process, .n = 1};
    pthread_t closer;
    (void)state;
    nw_fake()->reset(hsp_test_seed(), 0);
    nw_patience_ms = 10;
    nw_open(&p, 1, NULL);
    nw_patience_ms = NW_PATIENCE_MS;
    make_now = p.nccl->lib.CommInitRankConfig;
    p.nccl->lib.CommInitRankConfig = make_slowly;
    assert_int_equal(p.nccl->lib.GetUniqueId(&s.id), NCCL_SUCCESS);
    assert_ok(hsp_link_new(&p.nccl->env, &s, &l, &err), &err);
    for (int k = 0; !atomic_load(&is_made); k++) {
        assert_true(k < 100000);
        nap();
    }
    assert_int_equal(pthread_create(&closer, NULL, close_it, l), 0);
    for (int k = 0; k < 1000; k++) { /* many times its patience */
        nap();
    }
    assert_int_equal(nw_fake()->calls("ncclCommAbort"), 0);
    atomic_store(&may_return, true);
    assert_int_equal(pthread_join(closer, NULL), 0);
    assert_int_equal(nw_fake()->calls("ncclCommAbort"), 1);
    nw_close(&p, 1);
    nw_expect_clean();
}

/* ---- several ---- */

static void want_of(struct nw_epoch *e, uint32_t rank, uint32_t a, uint32_t b)
{
    uint32_t list, both[2] = {a, b};
    struct hsp_err err = {0};
    struct hsp_nccl_needs *d = &e->needs[rank];
    assert_ok(hsp_nccl_need_list(d, both, 2, &list, &err), &err);
    d->list[list].asked = d->list[list].collective = true;
}

/* Each of three ranks names first the communicator that another one names last. */
static void all_greet_in_one_order(void **state)
{
    struct nw_process p[N];
    struct nw_epoch e;
    (void)state;
    nw_fake()->reset(hsp_test_seed(), 0);
    nw_open(p, N, NULL);
    nw_epoch_init(&e, p, NULL, N);
    e.timeout_ms = 5000;
    want_of(&e, 0, 0, 1);
    want_of(&e, 0, 0, 2);
    want_of(&e, 1, 1, 2);
    want_of(&e, 1, 0, 1);
    want_of(&e, 2, 0, 2);
    want_of(&e, 2, 1, 2);
    nw_prepare(&e);
    for (uint32_t k = 0; k < N; k++) {
        assert_ok(e.st[k], &e.err[k]);
    }
    assert_int_equal(nw_fake()->calls("ncclAllReduce"), 3 + 3 * 2);
    nw_epoch_close(&e);
    nw_close(p, N);
    nw_expect_clean();
}

HSP_TEST_FILE(nccl_link_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_ready_when_all_have_greeted),
        cmocka_unit_test(it_is_connected_when_it_is_ready),
        cmocka_unit_test(a_member_dies_in_a_greeting),
        cmocka_unit_test(it_is_not_aborted_in_the_call_that_makes_it),
        cmocka_unit_test(all_greet_in_one_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
