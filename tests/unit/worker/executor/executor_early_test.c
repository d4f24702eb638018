/* Checks a first step that begins as soon as the weights have arrived, before the optimizer's
 * state. In a switch the test stops the replication thread of one rank before it fetches the
 * optimizer's state, until every rank has done forward and backward and waits before its vote. Then
 * the epoch ends in one of several ways. No step of it may be committed, no state of the previous
 * version may be lost, and the losses of the job must be those of one undisturbed device. */
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/worker/executor/executor_world.h"
#include "worker/executor/epoch.h"
#include "worker/executor/epoch_control.h"
#include "worker/state/segment_name.h"

#define EPOCH 12 /* the disturbed epoch */
#define SPOIL "damaged on purpose"

/* A plan in which every rank gathers its weights from the other ranks. */
static const char plan_zero3[] = "apiVersion: hspmd/v1\nkind: plan\nranks: 3\nzero: 3\npipelines:\n"
                                 "  - {sequences: 2, stages: [{layers: 3, ranks: [0]}]}\n"
                                 "  - {sequences: 2, stages: [{layers: 3, ranks: [1]}]}\n"
                                 "  - {sequences: 2, stages: [{layers: 3, ranks: [2]}]}\n";

enum what { PASS, HOLD, SPOILT, FAIL };

/* Memory shared with the executors; one element for each device. */
static struct board {
    atomic_uint what[XW_MAX_DEV];   /* order for the optimizer's state of EPOCH */
    atomic_uint held[XW_MAX_DEV];   /* the replication thread is stopped before that state */
    atomic_uint idle[XW_MAX_DEV];   /* the first step of EPOCH does not begin */
    atomic_uint voting[XW_MAX_DEV]; /* the first step of EPOCH waits for its vote */
    atomic_uint ended[XW_MAX_DEV]; /* EPOCH is aborted: 1 before the report to hspmdd, 2 after it */
} * board;

enum hsp_status __real_hsp_epoch_fetch_rest(struct hsp_ex_epoch *e, uint64_t version,
                                            struct hsp_fetched *ret, struct hsp_err *err);
enum hsp_status __wrap_hsp_epoch_fetch_rest(struct hsp_ex_epoch *e, uint64_t version,
                                            struct hsp_fetched *ret, struct hsp_err *err);
enum hsp_status __real_hsp_epoch_train(struct hsp_ex_epoch *e, uint64_t version,
                                       struct hsp_err *err);
enum hsp_status __wrap_hsp_epoch_train(struct hsp_ex_epoch *e, uint64_t version,
                                       struct hsp_err *err);
enum hsp_status __real_hsp_epoch_await_confirmed(struct hsp_ex_epoch *e, uint64_t version,
                                                 struct hsp_err *err);
enum hsp_status __wrap_hsp_epoch_await_confirmed(struct hsp_ex_epoch *e, uint64_t version,
                                                 struct hsp_err *err);

bool __wrap_hsp_epoch_fetch_beside(const struct hsp_ex_epoch *e);

bool __wrap_hsp_epoch_fetch_beside(const struct hsp_ex_epoch *e)
{
    (void)e; /* true on any number of processors */
    return true;
}

static int device_of(const struct hsp_ex_epoch *e)
{
    return e->env->node[1] - '0';
}

enum hsp_status __wrap_hsp_epoch_fetch_rest(struct hsp_ex_epoch *e, uint64_t version,
                                            struct hsp_fetched *ret, struct hsp_err *err)
{
    int dev = device_of(e);
    while (e->number == EPOCH && atomic_load(&board->what[dev]) == HOLD) {
        atomic_store(&board->held[dev], 1);
        (void)usleep(500);
    }
    if (e->number == EPOCH && atomic_load(&board->what[dev]) == SPOILT) {
        return hsp_err_set(err, HSP_EDIGEST, 0, SPOIL);
    }
    return __real_hsp_epoch_fetch_rest(e, version, ret, err);
}

enum hsp_status __wrap_hsp_epoch_await_confirmed(struct hsp_ex_epoch *e, uint64_t version,
                                                 struct hsp_err *err)
{
    atomic_store(&board->voting[device_of(e)], e->number == EPOCH);
    return __real_hsp_epoch_await_confirmed(e, version, err);
}

enum hsp_status __wrap_hsp_epoch_train(struct hsp_ex_epoch *e, uint64_t version,
                                       struct hsp_err *err)
{
    while (e->number == EPOCH && atomic_load(&board->idle[device_of(e)]) != 0) {
        (void)usleep(500);
    }
    return e->number == EPOCH && atomic_load(&board->what[device_of(e)]) == FAIL
               ? hsp_err_set(err, HSP_ESTALE, 0, SPOIL)
               : __real_hsp_epoch_train(e, version, err);
}

__typeof__(hsp_epoch_abort) __real_hsp_epoch_abort, __wrap_hsp_epoch_abort;

void __wrap_hsp_epoch_abort(struct hsp_ex_epoch *e)
{
    unsigned before = 0;
    (void)pthread_mutex_lock(&e->lock);
    unsigned now = e->told ? 2 : 1;
    (void)pthread_mutex_unlock(&e->lock);
    if (e->number == EPOCH) {
        (void)atomic_compare_exchange_strong(&board->ended[device_of(e)], &before, now);
    }
    __real_hsp_epoch_abort(e);
}

static void await_flag(atomic_uint *flag)
{
    for (int ms = 0; atomic_load(flag) == 0; ms++) {
        assert_true(ms < XW_WAIT_MS);
        (void)usleep(1000);
    }
}

/* Trains on two data parallel ranks (plan @dp) until step 15, then arms a switch to epoch 12 by
 * plan @to on devices 0 to @n_peers - 1. Devices without a rank in @to only send their state. */
static void begin(struct xw_world *w, struct hsp_epoch_plan *dp, struct hsp_epoch_plan *to,
                  int n_peers)
{
    w->speed = 0.2;
    for (int i = 0; i < 3; i++) {
        xw_start_executor(w, i);
    }
    struct xw_epoch first = {
        .epoch = 11, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = dp, .n_peers = 2};
    xw_prepare(w, &first);
    xw_send_start(w, 0, 11, 0);
    xw_send_start(w, 1, 11, 0);
    xw_await_step(w, 0, 15);
    struct xw_epoch second =
        xw_go_on(EPOCH, HSP_MODE_SWITCH, (struct xw_layout){2, to}, (struct xw_layout){1, dp}, 2);
    second.n_peers = n_peers;
    xw_prepare(w, &second);
    xw_send_ref(w, 0, HSP_MSG_ARM, EPOCH);
    xw_send_ref(w, 1, HSP_MSG_ARM, EPOCH);
}

/* Calls begin() for three devices, with the replication thread of @dev stopped before it fetches
 * the optimizer's state. Returns when that thread is stopped and all ranks have computed their
 * first step and wait for the vote. */
static void begin_early(struct xw_world *w, struct hsp_epoch_plan *dp, struct hsp_epoch_plan *to,
                        int dev)
{
    atomic_store(&board->what[dev], HOLD);
    begin(w, dp, to, 3);
    await_flag(&board->held[dev]);
    for (int i = 0; i < 3; i++) {
        await_flag(&board->voting[i]);
    }
}

/* Returns the newest version in layout 1 of which ranks 0 and 1 have their homes. */
static uint64_t newest_before(struct xw_world *w)
{
    uint64_t version = UINT64_MAX;
    for (int i = 0; i < 2; i++) {
        struct hsp_err err = {0};
        struct hsp_m_holding *held = NULL;
        uint32_t n = 0;
        uint64_t best = 0;
        assert_ok(hsp_segname_scan(w->ex[i].state_dir, &held, &n, &err), &err);
        for (uint32_t k = 0; k < n; k++) {
            bool own = held[k].plan == 1 && held[k].owner == held[k].rank;
            best = own && held[k].version > best ? held[k].version : best;
        }
        free(held);
        version = best < version ? best : version;
    }
    return version;
}

/* Recovers the job as epoch 14 in the pipeline @pp, from the state of layout 1, and runs it to its
 * end. Asserts the losses. */
static void recover_and_compare(struct xw_world *w, struct hsp_epoch_plan *dp,
                                struct hsp_epoch_plan *pp, const double *loss, const double *val)
{
    struct xw_epoch third =
        xw_go_on(14, HSP_MODE_RECOVER, (struct xw_layout){3, pp}, (struct xw_layout){1, dp}, 2);
    third.step = newest_before(w);
    assert_int_equal(third.step,
                     w->stable + 1); /* version of the hand-over: epoch 12 committed no step */
    xw_prepare(w, &third);
    for (int i = 0; i < 3; i++) {
        xw_send_start(w, i, 14, third.step);
    }
    xw_await_end(w, 0);
    xw_assert_same(loss, w->loss);
    xw_assert_same(val, w->val);
    (void)hsp_epoch_plan_free(dp);
    (void)hsp_epoch_plan_free(pp);
}

/* Waits for PEER_LOST of device @dev, and receives its other messages. Asserts that STARTED is not
 * among them. */
static void await_loss(struct xw_world *w, int dev)
{
    int64_t until = hsp_clock_ns() + (int64_t)XW_WAIT_MS * 1000000; /* heartbeats never end */
    do {
        assert_true(hsp_clock_ns() < until && xw_next_msg(w, dev, XW_WAIT_MS));
        assert_int_not_equal(w->last.type, HSP_MSG_STARTED);
    } while (w->last.type != HSP_MSG_PEER_LOST);
}

static void test_a_member_is_killed_when_others_have_begun(void **state)
{
    struct xw_world *w = *state;
    double loss[XW_STEPS], val[XW_STEPS];
    xw_reference(w, loss, val);
    struct hsp_epoch_plan *dp = xw_make_plan(w, xw_plan_dp), *pp = xw_make_plan(w, xw_plan_pp);
    begin_early(w, dp, pp, 0);
    xw_end(&w->ex[1]);
    await_loss(w, 0);
    atomic_store(&board->what[0], PASS);
    xw_await(w, 2, HSP_MSG_PEER_LOST);
    for (int i = 0; i < 3; i += 2) {
        xw_send_ref(w, i, HSP_MSG_SEAL, 13);
        xw_await(w, i, HSP_MSG_SEALED);
    }
    xw_start_executor(w, 1);
    recover_and_compare(w, dp, pp, loss, val);
}

/* A source is killed when the member has begun its first step. Only the move mesh has a connection
 * to a source. */
static void test_a_source_is_killed_when_the_member_has_begun(void **state)
{
    struct xw_world *w = *state;
    double loss[XW_STEPS], val[XW_STEPS];
    xw_reference(w, loss, val);
    struct hsp_epoch_plan *dp = xw_make_plan(w, xw_plan_dp), *one = xw_make_plan(w, xw_plan_one),
                          *pp = xw_make_plan(w, xw_plan_pp);
    atomic_store(&board->what[0], HOLD);
    begin(w, dp, one, 2);
    await_flag(&board->held[0]);
    await_flag(&board->voting[0]);
    xw_end(&w->ex[1]);
    await_loss(w, 0);
    assert_int_equal(w->last.u.lost.peer, 1);
    atomic_store(&board->what[0], PASS);
    xw_send_ref(w, 0, HSP_MSG_SEAL, 13);
    xw_await(w, 0, HSP_MSG_SEALED);
    xw_start_executor(w, 1);
    recover_and_compare(w, dp, pp, loss, val);
    (void)hsp_epoch_plan_free(one);
}

/* Waits for SEALED of device @dev. Returns the newest step of epoch 11 that @dev reports before;
 * UINT64_MAX: none. */
static uint64_t await_sealed(struct xw_world *w, int dev)
{
    uint64_t newest = UINT64_MAX;
    int64_t until = hsp_clock_ns() + (int64_t)XW_WAIT_MS * 1000000;
    do {
        assert_true(hsp_clock_ns() < until && xw_next_msg(w, dev, XW_WAIT_MS));
        newest = w->last.type == HSP_MSG_STEP && w->last.epoch == 11 ? w->last.u.step.step : newest;
    } while (w->last.type != HSP_MSG_SEALED);
    return newest;
}

/* SEAL ends the epoch while other ranks wait within the transfer for rows that the stopped rank
 * does not send. Rank 0 of epoch 11 may have been lost before the report of its last step, so its
 * heir reports that step again. */
static void test_a_begun_epoch_is_ended(void **state)
{
    struct xw_world *w = *state;
    double loss[XW_STEPS], val[XW_STEPS];
    xw_reference(w, loss, val);
    struct hsp_epoch_plan *dp = xw_make_plan(w, xw_plan_dp), *pp = xw_make_plan(w, xw_plan_pp);
    begin_early(w, dp, pp, 0);
    for (int i = 2; i >= 0; i--) {
        xw_send_ref(w, i, HSP_MSG_SEAL, 13);
        atomic_store(&board->what[i], PASS);
        uint64_t said = await_sealed(w, i);
        assert_true(i != 1 || said == newest_before(w) - 1);
    }
    recover_and_compare(w, dp, pp, loss, val);
}

/* The optimizer's state arrives damaged. The run thread of the rank that finds the damage is in its
 * step meanwhile, and waits for data of the previous rank. */
static void test_what_comes_is_damaged(void **state)
{
    struct xw_world *w = *state;
    double loss[XW_STEPS], val[XW_STEPS];
    xw_reference(w, loss, val);
    struct hsp_epoch_plan *dp = xw_make_plan(w, xw_plan_dp), *pp = xw_make_plan(w, xw_plan_pp);
    atomic_store(&board->what[2], SPOILT);
    atomic_store(&board->idle[0], 1);
    begin(w, dp, pp, 3);
    await_loss(w, 2);
    atomic_store(&board->idle[0], 0);
    assert_string_equal(w->last.u.lost.reason, SPOIL);
    assert_false(w->last.u.lost.before_start);
    for (int i = 0; i < 3; i++) {
        xw_send_ref(w, i, HSP_MSG_SEAL, 13);
        xw_await(w, i, HSP_MSG_SEALED);
    }
    recover_and_compare(w, dp, pp, loss, val);
}

/* A step that began when only the weights had arrived goes on when the rest arrives, much later. */
static void test_the_rest_comes_late(void **state)
{
    struct xw_world *w = *state;
    double loss[XW_STEPS], val[XW_STEPS];
    xw_reference(w, loss, val);
    struct hsp_epoch_plan *dp = xw_make_plan(w, xw_plan_dp), *zero3 = xw_make_plan(w, plan_zero3);
    begin_early(w, dp, zero3, 0);
    atomic_store(&board->what[0], PASS);
    xw_await(w, 0, HSP_MSG_STARTED);
    assert_int_equal(w->last.u.started.step, w->stable + 1); /* no vote has passed before */
    xw_await_end(w, 0);
    xw_assert_same(loss, w->loss);
    xw_assert_same(val, w->val);
    (void)hsp_epoch_plan_free(dp);
    (void)hsp_epoch_plan_free(zero3);
}

/* The rank with the cause of the failure reports it before it aborts the epoch: after the abort the
 * other ranks report to hspmdd that the epoch was aborted. */
static void test_a_cause_is_told_before_the_end(void **state)
{
    struct xw_world *w = *state;
    struct hsp_epoch_plan *dp = xw_make_plan(w, xw_plan_dp);
    struct xw_epoch d = {
        .epoch = EPOCH, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = dp, .n_peers = 2};
    atomic_store(&board->what[1], FAIL);
    xw_start_executor(w, 0);
    xw_start_executor(w, 1);
    xw_prepare(w, &d);
    xw_send_start(w, 0, EPOCH, 0);
    xw_send_start(w, 1, EPOCH, 0);
    xw_await(w, 1, HSP_MSG_PEER_LOST);
    assert_string_equal(w->last.u.lost.reason, SPOIL);
    await_flag(&board->ended[1]);
    assert_int_equal(atomic_load(&board->ended[1]), 2);
    xw_await(w, 0, HSP_MSG_PEER_LOST);
    assert_non_null(strstr(w->last.u.lost.reason, "aborted by rank 1 ("));
    (void)hsp_epoch_plan_free(dp);
}

static int setup(void **state)
{
    memset(board, 0, sizeof *board);
    return xw_setup(state);
}

HSP_TEST_FILE(executor_early_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_rest_comes_late, setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_member_is_killed_when_others_have_begun, setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_source_is_killed_when_the_member_has_begun, setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_begun_epoch_is_ended, setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_what_comes_is_damaged, setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_cause_is_told_before_the_end, setup, xw_teardown),
    };
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Runs the tests on mock devices. */
HSP_TEST_FILE(device_early_test)
{
    xw_on_device = true;
    return hsp_test_run("executor_early_test");
}
