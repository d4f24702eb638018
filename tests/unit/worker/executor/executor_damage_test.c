/* Checks damaged state in each place: in a segment or a copy that is not in use, in a message to
 * another device, and before it is written to a file. Damaged state is reported, deleted and never
 * used: training goes on from the state of another owner and has the losses of one undisturbed
 * device. executor_live_test checks damage of the state with which a job trains. */
#include <stdio.h>

#include "tests/unit/worker/executor/damage_world.h"
#include "worker/state/segment.h"
#include "worker/state/segment_name.h"

/* ---- at rest ---- */

static void test_a_home_at_rest(void **state)
{
    struct dw_scenario s = dw_play_scenario(*state);
    dw_begin(&s, PP, 10);
    dw_kill_all(&s);
    uint64_t version = dw_newest_copied(&s, PP, 1);
    dw_flip_piece(s.w->ex[1].state_dir, PP, 1, version, ANY);
    assert_int_equal(dw_recover(&s, PP), version); /* from the copy */
    assert_true(s.n_told == 1 && s.n_refused == 1 && s.n_told_live == 0);
    assert_true(s.told.job == 1 && s.told.plan == PP && s.told.rank == 1 && s.told.owner == 1);
    assert_int_equal(s.told.version, version);
    assert_non_null(strstr(s.part, "(")); /* "wte.weight (m) [0:8, 0:4]" */
    assert_non_null(strstr(s.part, "["));
    dw_end_scenario(&s);
}

/* A damaged copy that no rank needs is reported and deleted, and the recovery goes on. The copies
 * of the next versions arrive. */
static void test_a_copy_at_rest(void **state)
{
    struct dw_scenario s = dw_play_scenario(*state);
    dw_begin(&s, PP, 10);
    int buddy = dw_buddy_of(&s, 0);
    dw_kill_all(&s);
    uint64_t version = dw_newest_copied(&s, PP, 0);
    dw_flip_piece(s.w->ex[buddy].state_dir, PP, 0, version, ANY);
    assert_int_equal(dw_recover(&s, PP), version);
    assert_true(s.n_told == 1 && s.n_refused == 0);
    assert_true(s.told.rank == (uint32_t)buddy && s.told.owner == 0);
    xw_await_step(s.w, 0, version + 1);
    struct hsp_err err = {0};
    struct hsp_state_segment *again = NULL;
    for (uint64_t v = version; again == NULL && v < XW_STEPS; v++) {
        again = dw_open_piece(s.w->ex[buddy].state_dir, PP, 0, v);
    }
    assert_non_null(again);
    (void)hsp_segment_verify(again, &err); /* maybe the segment is written already */
    (void)hsp_segment_close(again);
    dw_end_scenario(&s);
}

/* If both segments with a part are damaged, and the previous version is missing, too, no recovery
 * begins. */
static void test_all_owners_at_rest(void **state)
{
    struct dw_scenario s = dw_play_scenario(*state);
    struct hsp_state_piece held[64];
    dw_begin(&s, PP, 10);
    dw_kill_all(&s);
    (void)dw_newest_copied(&s, PP, 2);
    for (int round = 0; round < 2; round++) { /* both segments */
        uint32_t n = dw_scan(&s, PP, held);
        uint64_t version;
        if (!hsp_recover_version(&s.plan[PP]->info, held, n, &version)) {
            break;
        }
        for (uint32_t i = 0; i < n; i++) { /* maybe only one of the two has the older version */
            if (held[i].owner == 2 && held[i].version == version) {
                dw_flip_piece(s.w->ex[HSP_DEVICE_NODE(held[i].device)].state_dir, PP, 2, version,
                              ANY);
            }
        }
        struct xw_epoch d =
            xw_go_on(s.epoch += 2, HSP_MODE_RECOVER, (struct xw_layout){PP, s.plan[PP]},
                     (struct xw_layout){PP, s.plan[PP]}, 3);
        d.step = version;
        xw_send_prepare(s.w, &d);
        assert_false(dw_all_ready(&s, 3));
    }
    assert_true(s.n_told >= 2 && s.n_refused >= 1);
    uint64_t version;
    assert_false(hsp_recover_version(&s.plan[PP]->info, held, dw_scan(&s, PP, held), &version));
    dw_free_plans(&s);
}

/* The head describes the rest of the file. If the head is damaged, only the name of the segment is
 * known. */
static void test_a_head_at_rest(void **state)
{
    struct dw_scenario s = dw_play_scenario(*state);
    dw_begin(&s, PP, 10);
    dw_kill_all(&s);
    uint64_t version = dw_newest(&s, PP);
    char path[4300];
    (void)snprintf(path, sizeof path, "%s/job-1+0+1+e%d+s%d.seg", s.w->ex[1].state_dir, PP,
                   (int)(version % 2));
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, 4096 + 8, SEEK_SET), 0); /* in the table of rows */
    int byte = fgetc(f);
    assert_int_equal(fseek(f, 4096 + 8, SEEK_SET), 0);
    assert_int_not_equal(fputc(byte ^ 4, f), EOF);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(dw_recover(&s, PP), version);
    assert_true(s.n_told == 1 && s.n_refused == 0 && s.told.version == HSP_NO_VERSION);
    assert_string_equal(s.part, "the head");
    dw_end_scenario(&s);
}

/* ---- on its way, or in use ---- */

/* A row is damaged in the message to its receiver, which compares the data with the hash in the
 * owner's seal. */
static void test_a_row_on_its_way(void **state)
{
    struct dw_scenario s = dw_play_scenario(*state);
    dw_begin(&s, PP, 10);
    int buddy = dw_buddy_of(&s, 1);
    dw_kill_all(&s);
    uint64_t version = dw_newest_copied(&s, PP, 1);
    dw_flip_piece(s.w->ex[1].state_dir, PP, 1, version, ANY); /* so that the copy is sent */
    dw_plan_harm(AT_RECOVERY, (unsigned)buddy, version, 1);
    (void)dw_recover(&s, PP);
    dw_await_break(&s, 3);
    assert_true(dw_broke_with(&s, "is damaged"));
    dw_flip_piece(s.w->ex[buddy].state_dir, PP, 1, version,
                  ANY); /* restored: only the sent row was damaged */
    assert_int_equal(dw_recover(&s, PP), version);
    assert_true(s.n_told == 1 && s.n_refused == 1); /* damage of the home */
    dw_end_scenario(&s);
}

static void test_a_home_that_is_copied(void **state)
{
    struct dw_scenario s = dw_play_scenario(*state);
    dw_plan_harm(AT_COPIED, 1, 12, NOBODY);
    dw_begin(&s, PP, 0);
    dw_await_break(&s, 3);
    assert_true(s.n_told == 1 && s.n_told_live == 1 && s.told.version == 12);
    assert_true(dw_broke_with(&s, "version 12 here is damaged"));
    assert_int_equal(dw_recover(&s, PP), 11);
    dw_end_scenario(&s);
}

/* State is damaged between the last vote of the old layout and the transfer, in a row that is sent
 * completely or in a row of which a part is sent. The job goes on in the old layout from the
 * previous version. */
static void test_a_source_of_a_switch(void **state)
{
    struct dw_scenario s = dw_play_scenario(*state);
    dw_begin(&s, DP, 5);
    dw_plan_harm(AT_SWITCH, 1, 0, NOBODY);
    dw_prepare_switch(&s, PP);
    dw_arm(&s);
    dw_await_break(&s, 3);
    assert_true(dw_broke_with(&s, "is damaged"));
    uint64_t stable = s.w->stable;
    assert_true(dw_recover(&s, DP) >= stable);
    dw_end_scenario(&s);
}

/* ---- before it goes into a file ---- */

/* Damage of a segment that a checkpoint finds ends the epoch, although the device computes on other
 * memory: a recovery would begin from the segments. */
static void test_a_home_that_is_written(void **state)
{
    struct dw_scenario s = dw_play_scenario(*state);
    dw_plan_harm(AT_CHECKPOINT, 1, 25, NOBODY);
    dw_begin(&s, PP, 0);
    dw_await_break(&s, 3);
    assert_true(dw_broke_with(&s, "version 25 here is damaged"));
    assert_true(s.n_told == 1 && s.n_told_live == 1 && s.told.version == 25);
    assert_true(dw_recover(&s, PP) >= 25);
    do { /* also the checkpoint of step 25, if the job goes on from it */
        dw_await_msg(&s, 0, HSP_MSG_CHECKPOINTED);
        assert_true(s.w->last.u.ckpt.complete);
    } while (s.w->last.u.ckpt.step < 50);
    dw_plan_harm(AT_END, 2, XW_STEPS, NOBODY);
    dw_await_break(&s, 3);
    assert_true(dw_broke_with(&s, "version 60 here is damaged"));
    assert_int_equal(dw_recover(&s, PP), XW_STEPS);
    dw_end_scenario(&s);
}

HSP_TEST_FILE(executor_damage_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_home_at_rest, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_copy_at_rest, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_all_owners_at_rest, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_head_at_rest, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_row_on_its_way, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_home_that_is_copied, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_source_of_a_switch, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_home_that_is_written, dw_setup_device, dw_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
