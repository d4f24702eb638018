/* Checks which version a rank seals when the other rank, its replica, dies (epoch_live.h), and
 * which versions stay until the recovery has a stable version. */
#include "worker/executor/epoch_live.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/unit/worker/executor/executor_world.h"
#include "worker/state/segment.h"
#include "worker/state/segment_name.h"

#define NONE  UINT64_MAX
#define NEVER 1000 /* only the first version is due */

static const char two[] =
    "{apiVersion: hspmd/v1, kind: plan, ranks: 2, pipelines: [{sequences: 4, micro_batches: 2, "
    "stages: [{layers: 3, ranks: [0]}]}, {sequences: 2, micro_batches: 1, stages: "
    "[{layers: 3, ranks: [1]}]}]}";

static void order(struct xw_world *w, int rank, const char *text)
{
    char path[4300];
    (void)snprintf(path, sizeof path, "%s/%d", w->kills, rank);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* The greatest and the least version that a device has sealed. */
struct both {
    uint64_t high, low;
};
static struct both held_by(struct xw_world *w, int dev)
{
    struct hsp_m_holding *h = NULL;
    uint32_t n = 0;
    struct hsp_err err = {0};
    struct both b = {NONE, NONE};
    assert_ok(hsp_segname_scan(w->ex[dev].state_dir, &h, &n, &err), &err);
    assert_true(n <= 2);
    for (uint32_t i = 0; i < n; i++) {
        b.high = b.high == NONE || h[i].version > b.high ? h[i].version : b.high;
        b.low = b.low == NONE || h[i].version < b.low ? h[i].version : b.low;
    }
    free(h);
    return b;
}

static struct hsp_epoch_plan *begin(struct xw_world *w, const char *text, uint32_t due_every)
{
    static char kills[4300];
    (void)snprintf(kills, sizeof kills, "%s/kills", w->dir);
    assert_int_equal(mkdir(kills, 0700), 0);
    w->kills = kills;
    w->due_every = due_every;
    w->live = true;
    struct hsp_epoch_plan *p = xw_make_plan(w, text);
    struct xw_epoch d = {.epoch = 1, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = p, .n_peers = 2};
    for (int i = 0; i < 2; i++) {
        xw_start_executor(w, i);
    }
    xw_prepare(w, &d);
    return p;
}

static void go(struct xw_world *w, uint64_t epoch, uint64_t version)
{
    xw_send_start(w, 0, epoch, version);
    xw_send_start(w, 1, epoch, version);
}

/* Waits until device @dev has lost the other device, and sends SEAL. Returns the sealed versions of
 * @dev. */
static struct both ends(struct xw_world *w, int dev, uint64_t epoch)
{
    xw_await(w, dev, HSP_MSG_PEER_LOST);
    xw_send_ref(w, dev, HSP_MSG_SEAL, epoch);
    xw_await(w, dev, HSP_MSG_SEALED);
    return held_by(w, dev);
}

/* Trains, and kills rank 1 at @point. Asserts that rank 0 has reported each step, and returns the
 * sealed versions of rank 0. */
static struct both after(struct xw_world *w, const char *text, uint32_t due_every,
                         const char *point)
{
    struct hsp_epoch_plan *p = begin(w, text, due_every);
    order(w, 1, point);
    go(w, 1, 0);
    struct both b = ends(w, 0, 1);
    (void)hsp_epoch_plan_free(p);
    return b;
}

static void test_what_is_computed_with_is_sealed(void **state)
{
    struct both b = after(*state, two, NEVER, "vote.before 8 executor 0");
    assert_true(b.low == 0 && b.high == 8);
}

/* If the vote has passed, rank 0 finishes the update and seals the version that it writes. */
static void test_an_update_is_finished(void **state)
{
    struct xw_world *w = *state;
    struct both b = after(w, two, NEVER, "update.in 8 executor 0");
    assert_int_equal(w->stable, 8);
    assert_true(b.low == 0 && b.high == 9);
}

/* Rank 1 does not confirm version 4, so votes pass but do not make version 4 stable. No version may
 * be sealed over version 0, the last version that both ranks have. */
static void test_nothing_while_a_version_is_pending(void **state)
{
    struct xw_world *w = *state;
    const char *log = xw_log(w);
    struct both b = after(w, two, 4, "seal.after 4 executor 1000");
    const char *why = "which is not sealed: version 4 is not known to be stable";
    assert_int_equal(xw_lines_with(log, why), 1);
    assert_true(b.low == 0 && b.high == 4);
}

/* A due version is sealed as the live version, although the loss has ended the replication thread
 * before that version was written. */
static void test_the_due_version_is_sealed(void **state)
{
    struct xw_world *w = *state;
    const char *log = xw_log(w);
    struct both b = after(w, two, 4, "update.in 3 executor 0");
    assert_int_equal(xw_lines_with(log, "which is not sealed"), 0);
    assert_true(b.low == 0 && b.high == 4);
}

/* Before the first vote no live version is sealed. */
static void test_nothing_before_the_first_vote(void **state)
{
    struct both b = after(*state, two, NEVER, "vote.before 0 executor 0");
    assert_true(b.low == 0 && b.high == 0);
}

static void test_nothing_where_each_version_is_due(void **state)
{
    struct xw_world *w = *state;
    struct both b = after(w, two, 0, "vote.before 8 executor 0");
    assert_true(b.high == 8 && b.low >= 7);
}

static void test_nothing_where_not_all_know_it(void **state)
{
    struct xw_world *w = *state;
    struct hsp_epoch_plan *p = begin(w, two, NEVER);
    struct xw_epoch d = {.epoch = 2, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = p, .n_peers = 2};
    w->live = false;
    xw_prepare(w, &d);
    order(w, 1, "vote.before 8 executor 0");
    go(w, 2, 0);
    struct both b = ends(w, 0, 2);
    assert_true(b.low == 0 && b.high == 0);
    (void)hsp_epoch_plan_free(p);
}

/* SEAL makes a rank seal its live version, also without a loss. STOP makes it seal no version,
 * because STOP deletes all versions. */
static void test_sealed_by_order(void **state)
{
    struct xw_world *w = *state;
    struct hsp_epoch_plan *p = begin(w, two, NEVER);
    go(w, 1, 0);
    xw_await_step(w, 0, 5);
    xw_send_ref(w, 0, HSP_MSG_SEAL, 1);
    xw_await(w, 0, HSP_MSG_SEALED);
    struct both b = held_by(w, 0);
    assert_true(b.low == 0 && b.high >= 5);
    b = ends(w, 1, 1);
    assert_true(b.low == 0 && b.high >= 5);
    (void)hsp_epoch_plan_free(p);
}

/* Rank 1 has sealed the stable version 0 and a second version, which is not the version from which
 * the recovery goes on. The second version is unsealed. Version 0 stays until the new epoch has a
 * stable version; here the epoch ends before that. */
static void test_the_stable_version_stays(void **state)
{
    struct xw_world *w = *state;
    struct hsp_err err = {0};
    struct hsp_epoch_plan *p = begin(w, two, NEVER);
    order(w, 0, "vote.before 8 executor 0");
    go(w, 1, 0);
    struct both b = ends(w, 1, 1);
    assert_true(b.low == 0 && b.high == 8);
    xw_start_executor(w, 0);
    struct xw_epoch d =
        xw_go_on(2, HSP_MODE_RECOVER, (struct xw_layout){1, p}, (struct xw_layout){1, p}, 0);
    d.n_peers = 2;
    d.n_live = 1;
    d.live[0] = (struct hsp_prepare_source){1, 1, 1};
    d.step = 8;
    d.keep = 1;
    order(w, 1, "vote.before 8 executor 0");
    xw_prepare(w, &d);
    go(w, 2, 8);
    b = ends(w, 0, 2);
    assert_true(b.low == 0 && b.high == 8);
    /* Simulates that rank 0 sealed another version at an earlier loss. */
    struct hsp_segment_info *info = NULL;
    size_t n = 0;
    assert_ok(hsp_segment_scan(w->ex[0].state_dir, &info, &n, &err), &err);
    for (size_t i = 0; i < n; i++) {
        struct hsp_state_segment *s = NULL;
        if (info[i].version == 8) {
            assert_ok(hsp_segment_open(w->ex[0].state_dir, &info[i].key, true, &s, &err), &err);
            hsp_segment_unseal(s);
            hsp_segment_seal(s, 6);
            (void)hsp_segment_close(s);
        }
    }
    free(info);
    xw_start_executor(w, 1);
    d.epoch = 3;
    order(w, 1, "vote.before 8 executor 0");
    xw_prepare(w, &d);
    go(w, 3, 8);
    b = ends(w, 0, 3);
    assert_true(b.low == 0 && b.high == 8);
    (void)hsp_epoch_plan_free(p);
}

/* The losses are those of one device, and no step is computed twice. */
static void test_no_step_is_made_again(void **state)
{
    struct xw_world *w = *state;
    double loss[XW_STEPS], val[XW_STEPS];
    xw_reference(w, loss, val);
    struct hsp_epoch_plan *p = begin(w, two, NEVER);
    order(w, 1, "update.after 13 executor 0");
    go(w, 1, 0);
    struct both b = ends(w, 0, 1);
    assert_int_equal(b.high, w->stable + 1);
    xw_start_executor(w, 1);
    struct xw_epoch d =
        xw_go_on(2, HSP_MODE_RECOVER, (struct xw_layout){1, p}, (struct xw_layout){1, p}, 1);
    d.n_peers = 2;
    d.step = b.high;
    d.keep = 1;
    xw_prepare(w, &d);
    go(w, 2, b.high);
    xw_await_end(w, 0);
    xw_assert_same(loss, w->loss);
    xw_assert_same(val, w->val);
    (void)hsp_epoch_plan_free(p);
}

HSP_TEST_FILE(epoch_live_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_computed_with_is_sealed, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_computed_with_is_sealed, xw_setup_device,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_an_update_is_finished, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_an_update_is_finished, xw_setup_device, xw_teardown),
        cmocka_unit_test_setup_teardown(test_the_due_version_is_sealed, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_nothing_while_a_version_is_pending, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_nothing_before_the_first_vote, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_nothing_where_each_version_is_due, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_nothing_where_not_all_know_it, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_sealed_by_order, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_the_stable_version_stays, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_no_step_is_made_again, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_no_step_is_made_again, xw_setup_device, xw_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
