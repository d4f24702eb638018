/* Checks NCCL in the phases of an epoch: with members with and without a GPU, with communicators
 * kept from an earlier epoch, after failures, and in a switch. Also kills an executor in each of
 * its calls of NCCL, in PREPARE, before the first step, within steps and in the switch. */
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/worker/comm/nccl_world.h"
#include "tests/unit/worker/exec/tiny_program.h"
#include "worker/comm/nccl/nccl_pool.h"
#include "worker/data/synthetic.h"
#include "worker/exec/state_init.h"
#include "worker/executor/epoch_control.h"
#include "worker/executor/epoch_nccl.h"

#define RANKS 3
#define STEPS 2 /* steps of an epoch */

struct member {
    struct hsp_exec_env env;
    struct hsp_m_prepare p;
    struct hsp_ex_epoch e;
    struct hsp_dataset data;
    void *state;
    double loss; /* loss of the last step */
    enum hsp_status st, prepared;
    struct hsp_err err;
};

/* The members of one epoch: rank k is process[k]. */
struct epoch {
    uint32_t n;
    int process[RANKS];
    struct member m[RANKS];
    struct hsp_comm *mesh[RANKS];
    struct hsp_arena *arena;
};

static struct nw_process all[RANKS];
static struct hsp_logger *quiet;

static void nap_ms(long ms)
{
    const struct timespec t = {.tv_nsec = ms * 1000000};
    (void)nanosleep(&t, NULL);
}

static void epoch_init(struct epoch *x, const int *process, uint32_t n, uint64_t number)
{
    const struct tiny_spec spec = {.n_ranks = n,
                                   .seqs = {3, 2, n > 2 ? 1 : 0},
                                   .global_batch = n > 2 ? 6 : 5,
                                   .n_micro = 1,
                                   .vocab = 11,
                                   .hidden = 6,
                                   .sequence = 5,
                                   .steps = 100,
                                   .dtype = HSP_F64,
                                   .scatter = true};
    struct hsp_err err = {0};
    *x = (struct epoch){.n = n, .arena = hsp_arena_new(1 << 24)};
    assert_ok(hsp_loop_open(n, x->mesh, &err), &err);
    struct hsp_program *p = tiny_programs(&spec, x->arena);
    for (uint32_t k = 0; k < n; k++) {
        struct member *m = &x->m[k];
        x->process[k] = process[k];
        m->env = (struct hsp_exec_env){.backend = &all[process[k]].backend.base,
                                       .nccl = all[process[k]].nccl,
                                       .connect_ms = 5000,
                                       .log = quiet,
                                       .wake_fd = -1};
        m->p = (struct hsp_m_prepare){.job = 1, .rank = k, .n_ranks = n, .n_peers = n};
        m->e = (struct hsp_ex_epoch){.env = &m->env, .p = &m->p, .number = number, .member = true};
        m->e.prog = p[k];
        m->e.mesh[HSP_MESH_DATA] = x->mesh[k];
        (void)pthread_mutex_init(&m->e.lock, NULL);
        (void)pthread_cond_init(&m->e.cond, NULL);
        assert_ok(hsp_dataset_synthetic(&p[k].bind.data, 4000, &m->data, &err), &err);
        m->state = aligned_alloc(64, ((size_t)p[k].bind.state_bytes + 127) / 64 * 64);
        hsp_state_init(&m->e.prog, m->state);
    }
}

static void close_member(void *ctx, uint32_t k)
{
    struct epoch *x = ctx;
    struct hsp_ex_epoch *e = &x->m[k].e;
    hsp_epoch_abort(e);        /* closing an epoch does this, too */
    hsp_epoch_direct_close(e); /* these devices have no queue that the engine could wait for */
    e->engine = hsp_engine_close(e->engine);
    x->mesh[k]->ops->close(x->mesh[k]);
}

static void epoch_fini(struct epoch *x)
{
    nw_each(x->n, x->process, close_member, x);
    for (uint32_t k = 0; k < x->n; k++) {
        hsp_dataset_close(&x->m[k].data);
        free(x->m[k].state);
        (void)pthread_mutex_destroy(&x->m[k].e.lock);
        (void)pthread_cond_destroy(&x->m[k].e.cond);
    }
    (void)hsp_arena_free(x->arena);
}

/* ---- the thread of a member ---- */

static void prepare(void *ctx, uint32_t k)
{
    struct member *m = &((struct epoch *)ctx)->m[k];
    m->st = m->prepared = hsp_epoch_direct_prepare(&m->e, &m->err);
}

static void train(void *ctx, uint32_t k)
{
    struct member *m = &((struct epoch *)ctx)->m[k];
    struct hsp_engine *engine = NULL;
    m->st = hsp_epoch_direct_start(&m->e, &m->err);
    const struct hsp_engine_opts o = {.program = &m->e.prog,
                                      .backend = m->env.backend,
                                      .comm = m->e.mesh[HSP_MESH_DATA],
                                      .direct = m->e.direct,
                                      .dataset = &m->data,
                                      .state = m->state};
    m->st = m->st == HSP_OK ? hsp_engine_open(&o, &engine, &m->err) : m->st;
    (void)pthread_mutex_lock(&m->e.lock);
    m->e.engine = engine;
    bool over = m->e.lost;
    (void)pthread_mutex_unlock(&m->e.lock);
    m->st = m->st == HSP_OK && over ? HSP_ECANCELED : m->st;
    for (uint64_t t = 0; t < STEPS && m->st == HSP_OK; t++) {
        struct hsp_step_result r;
        m->st = hsp_engine_step(engine, t, &r, &m->err);
        m->loss = m->st == HSP_OK ? r.vote.loss : m->loss;
    }
}

static void rest(void *ctx, uint32_t k)
{
    struct member *m = &((struct epoch *)ctx)->m[k];
    m->st = hsp_epoch_direct_rest(&m->e, &m->err);
}

static void expect_ok(const struct epoch *x)
{
    for (uint32_t k = 0; k < x->n; k++) {
        assert_ok(x->m[k].st, &x->m[k].err);
    }
}

static void run(struct epoch *x, void (*fn)(void *ctx, uint32_t k))
{
    nw_each(x->n, x->process, fn, x);
    expect_ok(x);
}

static const int three[RANKS] = {0, 1, 2};

/* ---- tests ---- */

static void open_all(const uint64_t *gpu)
{
    nw_fake()->reset(hsp_test_seed(), 0);
    nw_open(all, RANKS, gpu);
}

static void close_all(void)
{
    nw_close(all, RANKS);
    nw_expect_clean();
}

/* Asserts that the members whose bits are set in @with_nccl use NCCL, and no others. Returns the
 * loss after two steps, which must not depend on the transport. */
static double loss_with(const uint64_t *gpu, uint32_t with_nccl)
{
    struct epoch x;
    open_all(gpu);
    epoch_init(&x, three, RANKS, 1);
    run(&x, prepare);
    for (uint32_t k = 0; k < RANKS; k++) {
        assert_int_equal(x.m[k].e.direct != NULL, with_nccl >> k & 1);
        assert_false(x.m[k].e.direct_starts);
    }
    run(&x, train);
    double loss = x.m[0].loss;
    epoch_fini(&x);
    close_all();
    return loss;
}

static void all_ways_compute_the_same(void **state)
{
    static const uint64_t none[RANKS] = {0}, mixed[RANKS] = {1, 0, 2};
    (void)state;
    double want = loss_with(none, 0);
    assert_true(want > 0);
    assert_near(loss_with(mixed, 0), want, 1e-15);
    assert_near(loss_with(NULL, 7), want, 1e-15);
}

static void on_hosts(struct epoch *x, const char *const boot_id[RANKS], const char *trusted)
{
    for (uint32_t k = 0; k < x->n; k++) {
        x->m[k].p.data_tls = true;
        x->m[k].p.trusted_network = trusted;
        x->m[k].env.nccl_look =
            (struct hsp_nccl_look){.boot_id = boot_id[k], .infiniband = "/nonexistent"};
    }
}

/* Returns the loss of two steps with a data plane by TLS. @boot_id: files by which members find out
 * whether they are on one host; @with_nccl: a bit for each member that must use NCCL. */
static double loss_with_tls(const char *const boot_id[RANKS], const char *trusted,
                            uint32_t with_nccl, const char *told)
{
    struct epoch x;
    open_all(NULL);
    epoch_init(&x, three, RANKS, 1);
    on_hosts(&x, boot_id, trusted);
    run(&x, prepare);
    for (uint32_t k = 0; k < RANKS; k++) {
        assert_int_equal(x.m[k].e.direct != NULL, with_nccl >> k & 1);
        if (strcmp(x.m[k].env.nccl_place_told, told) != 0) {
            fail_msg("%s", x.m[k].env.nccl_place_told);
        }
    }
    run(&x, train);
    double loss = x.m[0].loss;
    epoch_fini(&x);
    close_all();
    return loss;
}

/* If the data plane uses TLS, NCCL is used only within hosts, and in trusted networks also between
 * hosts. The loss does not depend on the transport. */
static void tls_keeps_nccl_within_hosts(void **state)
{
    char *dir = hsp_test_tmpdir(), path[2][512];
    (void)state;
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path[i], sizeof path[i], "%s/%d", dir, i);
        FILE *f = fopen(path[i], "w");
        assert_non_null(f);
        assert_true(fprintf(f, "%d\n", i) > 0);
        assert_int_equal(fclose(f), 0);
    }
    const char *const one[RANKS] = {path[0], path[0], path[0]};
    const char *const two[RANKS] = {path[0], path[0], path[1]};
    const char *const unknown[RANKS] = {"/nonexistent", "/nonexistent", "/nonexistent"};
    double want = loss_with(NULL, 7);
    assert_int_equal(setenv("NCCL_SOCKET_IFNAME", "=lo", 1), 0);
    assert_int_equal(setenv("NCCL_ENV_PLUGIN", "none", 1), 0);
    assert_near(loss_with_tls(one, "", 7,
                              "NCCL serves devices of this host only: data_plane is tls and "
                              "hspmdd.yaml names no trusted_network"),
                want, 1e-15);
    assert_near(loss_with_tls(two, "", 0,
                              "NCCL serves devices of this host only: data_plane is tls and "
                              "hspmdd.yaml names no trusted_network"),
                want, 1e-15);
    assert_near(loss_with_tls(unknown, "", 0,
                              "NCCL is not used: data_plane is tls and hspmdd.yaml names no "
                              "trusted_network"),
                want, 1e-15);
    assert_near(loss_with_tls(two, "10.0.0.0/8, 127.0.0.0/8", 7,
                              "NCCL may talk to other hosts in clear, on 127.0.0.0/8"),
                want, 1e-15);
    assert_int_equal(unsetenv("NCCL_SOCKET_IFNAME") + unsetenv("NCCL_ENV_PLUGIN"), 0);
    hsp_test_rmdir(dir);
    free(dir);
}

/* A trusted_network that cannot be parsed is an error of this epoch and trusts nothing. */
static void a_network_that_is_none(void **state)
{
    static const char *const here[RANKS] = {NULL};
    struct epoch x;
    (void)state;
    open_all(NULL);
    epoch_init(&x, three, RANKS, 1);
    on_hosts(&x, here, "ten");
    nw_each(RANKS, three, prepare, &x);
    for (int k = 0; k < RANKS; k++) {
        assert_err(&x.m[k].err, HSP_EINVAL,
                   "trusted_network of PREPARE: ten is no network, as 10.0.0.0/8 is");
    }
    epoch_fini(&x);
    close_all();
}

static void *(*native)(struct hsp_backend *b, enum hsp_devq q);
static pthread_mutex_t *guard[RANKS];
static atomic_uint unguarded; /* transport work while memory might be freed: an error */

static void *native_guarded(struct hsp_backend *b, enum hsp_devq q)
{
    for (int k = 0; k < RANKS; k++) {
        if (b == &all[k].backend.base && guard[k] != NULL && pthread_mutex_trylock(guard[k]) == 0) {
            atomic_fetch_add(&unguarded, 1);
            (void)pthread_mutex_unlock(guard[k]);
        }
    }
    return native(b, q);
}

/* An epoch that is prepared beside the running epoch makes no new communicators: it takes over
 * those of the running epoch when that epoch has ended. All ranks then compare the operations done
 * with them; a difference ends the epoch. */
static void a_switch_takes_over(void **state)
{
    struct epoch a, b;
    (void)state;
    open_all(NULL);
    epoch_init(&a, three, RANKS, 1);
    for (int k = 0; k < RANKS; k++) {
        guard[k] = &a.m[k].env.greets;
        native = all[k].backend.base.native;
        all[k].backend.base.native = native_guarded;
    }
    run(&a, prepare);
    for (int k = 0; k < RANKS; k++) {
        all[k].backend.base.native = native;
    }
    assert_int_equal(atomic_load(&unguarded), 0);
    unsigned made = nw_fake()->calls("ncclCommInitRankConfig");
    epoch_init(&b, three, RANKS, 2);
    run(&b, prepare);
    assert_int_equal(nw_fake()->calls("ncclCommInitRankConfig"), made);
    for (int k = 0; k < RANKS; k++) {
        assert_true(b.m[k].e.direct_starts);
    }
    run(&a, train);
    run(&a, rest);
    for (int k = 0; k < RANKS; k++) {
        assert_null(hsp_nccl_of(a.m[k].e.direct)->stages);
    }
    run(&b, train);
    assert_near(a.m[0].loss, b.m[2].loss, 0);
    epoch_fini(&a);
    epoch_fini(&b);
    close_all();
}

/* Warnings of NCCL within steps are in the log when the epoch ends. */
static void warnings_of_steps_are_logged(void **state)
{
    struct epoch x;
    struct hsp_nccllog *l = hsp_nccllog_open();
    FILE *to = tmpfile();
    char text[4096];
    (void)state;
    assert_true(l != NULL && to != NULL);
    FILE *f = fopen(getenv("NCCL_DEBUG_FILE"), "w");
    assert_non_null(f);
    open_all(NULL);
    epoch_init(&x, three, RANKS, 1);
    x.m[0].env.nccl_log = l;
    x.m[0].env.log = hsp_log_new(fileno(to), HSP_LOG_INFO);
    run(&x, prepare);
    run(&x, train);
    assert_true(fputs("n1:9:9 [0] x.cc:1 NCCL WARN trouble\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
    epoch_fini(&x);
    ssize_t n = pread(fileno(to), text, sizeof text - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    assert_non_null(strstr(text, "nccl: trouble\n"));
    close_all();
    (void)hsp_log_free(x.m[0].env.log);
    (void)fclose(to);
    assert_null(hsp_nccllog_close(l));
    assert_int_equal(
        unsetenv("NCCL_DEBUG") + unsetenv("NCCL_DEBUG_SUBSYS") + unsetenv("NCCL_DEBUG_FILE"), 0);
}

/* Prepares NCCL as member @k. If that fails, drops the epoch on all members, as hspmdd does after
 * the member's report. */
static void prepare_or_drop(void *ctx, uint32_t k)
{
    struct epoch *x = ctx;
    prepare(ctx, k);
    for (uint32_t j = 0; j < x->n && x->m[k].st != HSP_OK; j++) {
        (void)pthread_mutex_lock(&x->m[j].e.lock);
        x->m[j].e.cancelled = true;
        (void)pthread_mutex_unlock(&x->m[j].e.lock);
    }
}

/* NCCL cannot use the network: an executor that fails twice goes on without NCCL, until the job can
 * go on by the mesh. */
static void without_nccl_it_goes_by_the_mesh(void **state)
{
    struct epoch x;
    unsigned failed[RANKS] = {0}, all_failed = 0;
    bool goes = false;
    (void)state;
    open_all(NULL);
    for (unsigned i = 0; i < 2 * RANKS && !goes; i++) {
        epoch_init(&x, three, RANKS, i + 1);
        for (int k = 0; k < RANKS; k++) {
            atomic_store(&x.m[k].env.nccl_failed, failed[k]);
        }
        nw_fake()->refuse("ncclCommInitRankConfig", 1, 2);
        nw_each(RANKS, three, prepare_or_drop, &x);
        nw_fake()->refuse(NULL, 0, 0);
        goes = true;
        for (int k = 0; k < RANKS; k++) {
            goes = goes && x.m[k].st == HSP_OK;
            all_failed += atomic_load(&x.m[k].env.nccl_failed) - failed[k];
            failed[k] = atomic_load(&x.m[k].env.nccl_failed);
        }
        if (goes) {
            run(&x, train);
        }
        assert_int_equal(all_failed, goes ? i : i + 1); /* another member fails each time */
        epoch_fini(&x);
    }
    assert_true(goes);
    close_all();
}

/* ---- deaths ---- */

struct life {
    struct epoch a, b; /* b: the next epoch, prepared beside a */
    atomic_uint ended;
};
struct thread {
    struct life *l;
    uint32_t k;
    pthread_t id;
};

static void *live(void *arg)
{
    struct thread *t = arg;
    struct life *l = t->l;
    nw_fake()->enter((int)t->k);
    prepare(&l->a, t->k);
    if (l->a.m[t->k].st == HSP_OK) {
        prepare(&l->b, t->k);
    }
    if (l->a.m[t->k].st == HSP_OK) {
        train(&l->a, t->k);
    }
    if (l->a.m[t->k].st == HSP_OK && l->b.m[t->k].st == HSP_OK) {
        train(&l->b, t->k);
    }
    atomic_fetch_add(&l->ended, 1);
    return NULL;
}

/* Simulates a broken connection: stores the loss at all survivors, then aborts the epoch. The loss
 * is stored at all of them first, because the abort of one survivor ends the mesh of all. */
static void lose(struct epoch *x)
{
    for (uint32_t k = 0; k < x->n; k++) {
        (void)pthread_mutex_lock(&x->m[k].e.lock);
        x->m[k].e.lost = x->process[k] != 1;
        (void)pthread_mutex_unlock(&x->m[k].e.lock);
    }
    for (uint32_t k = 0; k < x->n; k++) {
        if (x->process[k] != 1) {
            hsp_epoch_abort(&x->m[k].e);
        }
    }
}

/* Closes both epochs at the survivors, which go on in a third epoch. */
static void survive(struct life *l)
{
    static const int left[2] = {0, 2};
    struct epoch c;
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2; k++) {
            struct hsp_ex_epoch *e = &(i == 0 ? &l->a : &l->b)->m[left[k]].e;
            nw_fake()->enter(left[k]);
            hsp_epoch_direct_close(e);
            e->engine = hsp_engine_close(e->engine);
        }
    }
    nw_fake()->enter(0);
    epoch_init(&c, left, 2, 3);
    run(&c, prepare);
    assert_non_null(c.m[0].e.direct);
    run(&c, train);
    epoch_fini(&c);
}

/* Kills process 1 in its @nth call of NCCL. Returns false if process 1 made fewer calls. */
static bool die_at(unsigned nth)
{
    struct life l = {0};
    struct thread t[RANKS];
    open_all(NULL);
    epoch_init(&l.a, three, RANKS, 1);
    epoch_init(&l.b, three, RANKS, 2);
    nw_fake()->die(1, nth);
    for (uint32_t k = 0; k < RANKS; k++) {
        t[k] = (struct thread){.l = &l, .k = k};
        assert_int_equal(pthread_create(&t[k].id, NULL, live, &t[k]), 0);
    }
    while (atomic_load(&l.ended) < RANKS && !nw_fake()->is_dead(1)) {
        nap_ms(1);
    }
    bool died = nw_fake()->is_dead(1);
    if (died) {
        lose(&l.a);
        lose(&l.b);
    }
    (void)pthread_join(t[0].id, NULL); /* the survivors return from each call */
    (void)pthread_join(t[2].id, NULL);
    if (died) {
        survive(&l);
        nw_fake()->revive(1);
    }
    (void)pthread_join(t[1].id, NULL);
    nw_fake()->die(1, 0);
    for (uint32_t k = 0; k < RANKS && !died; k++) {
        assert_ok(l.a.m[k].st, &l.a.m[k].err);
        assert_ok(l.b.m[k].st, &l.b.m[k].err);
    }
    for (uint32_t k = 0; k < RANKS; k += 2) { /* a PREPARE that fails must have a reason */
        assert_int_not_equal(l.a.m[k].prepared, HSP_ECANCELED);
        assert_int_not_equal(l.b.m[k].prepared, HSP_ECANCELED);
    }
    epoch_fini(&l.a);
    epoch_fini(&l.b);
    close_all();
    return died;
}

static void survivors_go_on_whenever_one_dies(void **state)
{
    unsigned n = 0;
    (void)state;
    for (unsigned nth = 1; die_at(nth); nth += nth < 20 ? 1 : 1 + nth / 8) {
        n++;
    }
    assert_true(n >= 20);
}

/* An executor answers SEAL within a third of the time after which it counts as dead, also while it
 * waits for a call. */
static void patience_follows_the_bound_of_silence(void **state)
{
    static const struct {
        uint32_t dead_ms, patience_ms;
    } c[] = {{3000, 500}, {1500, 250}, {100, 16}, {1, 1}, {600000, 500}};
    (void)state;
    open_all(NULL);
    for (size_t i = 0; i < HSP_ARRAY_LEN(c); i++) {
        hsp_direct_silence(all[0].nccl, c[i].dead_ms);
        assert_int_equal(atomic_load(&all[0].nccl->env.patience_ms), c[i].patience_ms);
    }
    hsp_direct_silence(NULL, 3000); /* an executor without NCCL */
    close_all();
}

HSP_TEST_FILE(epoch_nccl_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ways_compute_the_same),
        cmocka_unit_test(tls_keeps_nccl_within_hosts),
        cmocka_unit_test(a_network_that_is_none),
        cmocka_unit_test(a_switch_takes_over),
        cmocka_unit_test(warnings_of_steps_are_logged),
        cmocka_unit_test(without_nccl_it_goes_by_the_mesh),
        cmocka_unit_test(patience_follows_the_bound_of_silence),
        cmocka_unit_test(survivors_go_on_whenever_one_dies),
    };
    quiet = hsp_log_new(2, HSP_LOG_ERROR);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    (void)hsp_log_free(quiet);
    return rc;
}
