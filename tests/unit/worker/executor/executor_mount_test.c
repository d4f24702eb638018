/* Checks executors whose folder of checkpoints is shared, is marked, is not mounted, or is on a
 * file system that does not answer. */
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/worker/executor/executor_world.h"
#include "worker/state/ckpt_sign.h"

static const struct hsp_ckpt_info marked = {.job_id = 1, .whose.cluster = {1, 10}};

static bool is_marked(const char *dir)
{
    struct hsp_err err = {0};
    bool is = false;
    assert_ok(hsp_ckpt_is_signed(dir, &marked, &is, &err), &err);
    return is;
}

static bool marks_hang;   /* marks hang in executors started from now on */
static unsigned n_answer; /* number of first marks that do not hang */

enum hsp_status __wrap_hsp_ckpt_sign(const char *dir, const struct hsp_ckpt_info *us, bool shared,
                                     struct hsp_err *err);
enum hsp_status __real_hsp_ckpt_sign(const char *dir, const struct hsp_ckpt_info *us, bool shared,
                                     struct hsp_err *err);

enum hsp_status __wrap_hsp_ckpt_sign(const char *dir, const struct hsp_ckpt_info *us, bool shared,
                                     struct hsp_err *err)
{
    static atomic_uint n;
    bool hangs = marks_hang && atomic_fetch_add(&n, 1) >= n_answer;
    while (hangs) {
        (void)pause();
    }
    return __real_hsp_ckpt_sign(dir, us, shared, err);
}

/* Each member marks its folder before STARTED. Without a mark, a path that is not mounted would
 * look like the folder of a job without checkpoints. */
static void test_each_member_marks_the_folder_before_it_has_started(void **state)
{
    struct xw_world *w = *state;
    char at[2][4200], dir[2][4300];
    const char *paths[] = {at[0], at[1]};
    struct hsp_epoch_plan *dp = xw_make_plan(w, xw_plan_dp);
    struct xw_epoch d = {.epoch = 41,
                         .plan_no = 1,
                         .mode = HSP_MODE_FRESH,
                         .plan = dp,
                         .n_peers = 2,
                         .paths = paths};
    w->cluster = marked.whose.cluster;
    for (int i = 0; i < 2; i++) {
        (void)snprintf(at[i], sizeof at[i], "%s/disk-%d", w->dir, i);
        (void)snprintf(dir[i], sizeof dir[i], "%s/t", at[i]);
        xw_start_executor(w, i);
    }
    xw_prepare(w, &d);
    assert_false(is_marked(dir[0]) || is_marked(dir[1])); /* the epoch may not begin */
    for (int i = 0; i < 2; i++) {
        xw_send_start(w, i, 41, 0);
    }
    for (int i = 0; i < 2; i++) {
        xw_await(w, i, HSP_MSG_STARTED);
        assert_true(is_marked(dir[i]));
    }
    (void)hsp_epoch_plan_free(dp);
}

/* A shared path needs only one mark. A member that joins does not mark it: if its path is not
 * mounted, the mark would be made below the mount point. */
static void test_a_shared_folder_is_marked_by_who_begins_the_job(void **state)
{
    struct xw_world *w = *state;
    char at[3][4200], dir[3][4300];
    const char *paths[] = {at[0], at[1]};
    struct hsp_epoch_plan *dp = xw_make_plan(w, xw_plan_dp), *one = xw_make_plan(w, xw_plan_one);
    struct xw_epoch d = {.epoch = 41,
                         .plan_no = 1,
                         .mode = HSP_MODE_FRESH,
                         .plan = dp,
                         .n_peers = 2,
                         .paths = paths};
    w->cluster = marked.whose.cluster;
    w->shared = true;
    w->steps = 24; /* without a checkpoint */
    w->speed = 0.05;
    for (int i = 0; i < 3; i++) { /* a mount, and two folders without the mount */
        (void)snprintf(at[i], sizeof at[i], "%s/disk-%d", w->dir, i);
        (void)snprintf(dir[i], sizeof dir[i], "%s/t", at[i]);
    }
    assert_int_equal(mkdir(at[0], 0700), 0);
    xw_start_executor(w, 0);
    xw_start_executor(w, 1);
    xw_prepare(w, &d);
    xw_send_start(w, 0, 41, 0);
    xw_send_start(w, 1, 41, 0);
    xw_await_step(w, 0, 3);
    assert_true(is_marked(dir[0]));
    assert_int_not_equal(access(at[1], F_OK), 0);
    xw_end(&w->ex[0]);
    xw_await(w, 1, HSP_MSG_PEER_LOST);
    xw_send_ref(w, 1, HSP_MSG_SEAL, 42);
    xw_await(w, 1, HSP_MSG_SEALED);
    paths[0] = at[2];
    xw_start_executor(w, 0);
    struct xw_epoch next = {.epoch = 43,
                            .plan_no = 2,
                            .from_no = 1,
                            .mode = HSP_MODE_RECOVER,
                            .step = w->stable,
                            .plan = one,
                            .from = dp,
                            .n_peers = 2,
                            .n_live = 1,
                            .live = {{1, 1, 1}},
                            .paths = paths};
    for (uint32_t i = 0; i < dp->copies.n && next.n_live < 2; i++) { /* 1 has 0's home */
        if (dp->copies.row[i].from == 0) {
            next.live[next.n_live++] = (struct hsp_prepare_source){1, 1, 0};
        }
    }
    xw_prepare(w, &next);
    xw_send_start(w, 0, 43, w->stable);
    xw_send_start(w, 1, 43, w->stable);
    xw_await(w, 0, HSP_MSG_STARTED);
    assert_int_not_equal(access(at[2], F_OK), 0);
    (void)hsp_epoch_plan_free(dp);
    (void)hsp_epoch_plan_free(one);
}

/* If a shared path is missing, it is not mounted: hspmdd gets a report when the job begins, and no
 * folder is made. */
static void test_a_mount_that_is_missing_is_told_at_the_begin(void **state)
{
    struct xw_world *w = *state;
    char at[4200], reason[4400];
    struct hsp_epoch_plan *p = xw_make_plan(w, xw_plan_one);
    struct xw_epoch d = {
        .epoch = 31, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = p, .n_peers = 1, .path = at};
    (void)snprintf(at, sizeof at, "%s/mount", w->dir);
    (void)snprintf(reason, sizeof reason,
                   "n0/0: %s/t is not there: mount checkpoint.path, or make that folder for the "
                   "user of hspmd-worker",
                   at);
    w->shared = true;
    w->unwritable = true;
    xw_start_executor(w, 0);
    xw_prepare(w, &d);
    xw_send_start(w, 0, 31, 0);
    xw_await(w, 0, HSP_MSG_CHECKPOINTED);
    assert_int_equal(w->last.u.ckpt.step, 0);
    assert_string_equal(w->last.u.ckpt.reason, reason);
    xw_await(w, 0, HSP_MSG_CHECKPOINTED);
    assert_int_equal(w->last.u.ckpt.step, 25);
    assert_string_equal(w->last.u.ckpt.reason, reason);
    assert_int_not_equal(access(at, F_OK), 0);
    assert_int_equal(mkdir(at, 0700), 0); /* now the path is mounted */
    xw_await_end(w, 0);
    (void)hsp_epoch_plan_free(p);
}

/* If the path is unmounted while the job runs, no file is written below the mount point, because
 * the folder of the job is not made a second time. */
static void test_nothing_is_written_below_a_mount_that_goes(void **state)
{
    struct xw_world *w = *state;
    char dir[4300], away[4300];
    struct hsp_epoch_plan *p = xw_make_plan(w, xw_plan_one);
    struct xw_epoch d = {
        .epoch = 31, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = p, .n_peers = 1};
    (void)snprintf(dir, sizeof dir, "%s/t", w->dir);
    (void)snprintf(away, sizeof away, "%s/away", w->dir);
    w->shared = true;
    w->unwritable = true;
    w->speed = 0.05;
    xw_start_executor(w, 0);
    xw_prepare(w, &d);
    xw_send_start(w, 0, 31, 0);
    xw_await(w, 0, HSP_MSG_STARTED);
    assert_int_equal(rename(dir, away), 0);
    xw_await(w, 0, HSP_MSG_CHECKPOINTED);
    assert_false(w->last.u.ckpt.complete);
    assert_int_not_equal(access(dir, F_OK), 0);
    assert_int_equal(rename(away, dir), 0);
    xw_await_end(w, 0);
    (void)hsp_epoch_plan_free(p);
}

/* The file system does not answer, so no member can mark the folder. The job begins all the same,
 * and a joining member does not make the others wait. While a call hangs, no checkpoint and no
 * final model is begun. */
static void test_a_folder_that_does_not_answer_stops_no_training(void **state)
{
    struct xw_world *w = *state;
    char want[4300];
    struct hsp_epoch_plan *dp = xw_make_plan(w, xw_plan_dp), *pp = xw_make_plan(w, xw_plan_pp);
    struct xw_epoch first = {
        .epoch = 41, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = dp, .n_peers = 2};
    struct xw_epoch second =
        xw_go_on(42, HSP_MODE_SWITCH, (struct xw_layout){2, pp}, (struct xw_layout){1, dp}, 2);
    const char *log = xw_log(w);
    w->speed = 0.05;
    w->unwritable = true;
    marks_hang = true;
    for (int i = 0; i < 3; i++) {
        xw_start_executor(w, i);
    }
    marks_hang = false;
    xw_prepare(w, &first);
    xw_send_start(w, 0, 41, 0);
    xw_send_start(w, 1, 41, 0);
    xw_await_step(w, 0, 3);
    xw_prepare(w, &second);
    xw_send_ref(w, 0, HSP_MSG_ARM, 42);
    xw_send_ref(w, 1, HSP_MSG_ARM, 42);
    xw_await(w, 2, HSP_MSG_STARTED);
    assert_true(w->last.u.started.step < XW_STEPS);
    xw_await_step(w, 0, XW_STEPS);
    assert_int_equal(w->n_ckpt, 0);
    for (w->last.u.ckpt.step = 0; w->last.u.ckpt.step != XW_STEPS;) {
        xw_await(w, 0, HSP_MSG_CHECKPOINTED);
    }
    (void)snprintf(want, sizeof want, "n0/0: %s has not answered for ", w->dir);
    assert_true(strncmp(w->last.u.ckpt.reason, want, strlen(want)) == 0);
    assert_int_equal(xw_lines_with(log, "checkpoint.path of job 1 does not answer here: "), 5);
    (void)hsp_epoch_plan_free(dp);
    (void)hsp_epoch_plan_free(pp);
}

/* The epoch ends while the call that opens the folder for the final model has not returned. The
 * executor must not report a failed disk then. */
static void test_an_epoch_that_ends_tells_of_no_disk(void **state)
{
    struct xw_world *w = *state;
    struct hsp_epoch_plan *p = xw_make_plan(w, xw_plan_one);
    struct xw_epoch d = {
        .epoch = 31, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = p, .n_peers = 1};
    w->steps = 24; /* without a checkpoint */
    marks_hang = true;
    n_answer = 1; /* the mark when the job begins */
    xw_start_executor(w, 0);
    marks_hang = false;
    n_answer = 0;
    xw_prepare(w, &d);
    xw_send_start(w, 0, 31, 0);
    while (!w->final) {
        xw_await(w, 0, HSP_MSG_STEP);
    }
    xw_await_beat(w, 0);
    xw_await_beat(w, 0);
    xw_send_ref(w, 0, HSP_MSG_SEAL, 31);
    xw_await(w, 0, HSP_MSG_SEALED); /* CHECKPOINTED with a reason would fail the test */
    (void)hsp_epoch_plan_free(p);
}

HSP_TEST_FILE(executor_mount_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_member_marks_the_folder_before_it_has_started,
                                        xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_shared_folder_is_marked_by_who_begins_the_job,
                                        xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_mount_that_is_missing_is_told_at_the_begin, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_written_below_a_mount_that_goes, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_folder_that_does_not_answer_stops_no_training,
                                        xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_an_epoch_that_ends_tells_of_no_disk, xw_setup,
                                        xw_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
