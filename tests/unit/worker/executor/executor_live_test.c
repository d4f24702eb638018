/* Checks state that is damaged while a job trains on it: the damage is found before a result of it
 * is committed, the step is computed again, and the job goes on with the losses of one undisturbed
 * device. */
#include <stdio.h>

#include "tests/unit/worker/executor/damage_world.h"
#include "worker/state/segment.h"
#include "worker/state/segment_dir.h"

/* The end of the name of a part that was damaged in device memory (epoch_damage.c). */
#define IN_GPU  "] in GPU memory"
#define IN_MAIN "] in main memory"

/* Returns true if device @dev has its home sealed as @version, undamaged. */
static bool has_intact(const struct dw_scenario *s, uint32_t dev, uint64_t version)
{
    struct hsp_state_segment *own = dw_open_piece(s->w->ex[dev].state_dir, s->layout, dev, version);
    bool intact = own != NULL && hsp_segment_verify(own, NULL) == HSP_OK;
    (void)hsp_segment_close(own);
    return intact;
}

/* Lets device @dev damage version 12 of @layout at the moment @when, or version 13 while it is
 * written. Asserts that no result of the damaged state is committed: all go on from version 12.
 * @n_told: number of devices that may be wrong; @version: the version that these devices report.
 * Device memory is damaged; the segments are undamaged, and the job goes on from them. */
static void live(struct xw_world *w, enum dw_layout layout, enum dw_when when, uint32_t dev,
                 uint32_t n_told, uint64_t version, const char *why)
{
    struct dw_scenario s = dw_play_scenario(w);
    bool alone = layout == DP || layout == PP;
    const bool written = when == AT_SEAL || when == AT_UPDATE;
    dw_plan_harm(when, dev, written ? 13 : 12, alone ? NOBODY : TWIN);
    dw_begin(&s, layout, 0);
    dw_await_break(&s, dw_ranks_of(&s));
    assert_true(dw_broke_with(&s, why));
    assert_true(s.n_told == n_told && s.n_told_live == n_told);
    assert_true(n_told > 1 || (s.told.rank == dev && s.told.version == version));
    assert_int_equal(strstr(s.part, IN_GPU) != NULL, w->device && !written);
    assert_int_equal(strstr(s.part, IN_MAIN) != NULL, !w->device && !written);
    assert_true(has_intact(&s, dev, 12));
    uint64_t from = dw_recover(&s, layout); /* a replica of version 13 is undamaged */
    assert_true(from == 12 || (when == AT_SEAL && from == 13));
    dw_end_scenario(&s);
}

/* If one of three replicas was computed wrongly, the majority is right. Of two replicas that
 * differ, both may be wrong. */
static void test_a_replica_of_three_that_is_computed_wrongly(void **state)
{
    live(*state, THREE, AT_UPDATE, 1, 1, 13, "equal copies of version 13 differ: wrong at n1/0");
}

static void test_a_replica_of_two_that_is_computed_wrongly(void **state)
{
    live(*state, TWO, AT_UPDATE, 1, 2, 13,
         "equal copies of version 13 differ: wrong at n0/0 and 1 more");
}

/* If the update has read damaged state, or if the segment is damaged, the device itself finds the
 * damage. */
static void test_a_replica_of_three(void **state)
{
    live(*state, THREE, AT_VOTE, 1, 1, 12, "version 12 here is damaged");
}

static void test_a_replica_of_two(void **state)
{
    live(*state, TWO, AT_COPIES, 1, 1, 12, "version 12 here is damaged");
}

static void test_a_replica_of_two_that_is_just_written(void **state)
{
    live(*state, TWO, AT_SEAL, 1, 1, 13, "version 13 here is damaged");
}

/* Replicas are compared also if the part that two devices share is a complete row on one device and
 * a part of a row on the other. */
static void test_a_replica_of_parts(void **state)
{
    live(*state, CUT, AT_VOTE, 0, 1, 12, "version 12 here is damaged");
}

static void test_a_part_of_a_replica(void **state)
{
    live(*state, CUT, AT_COPIES, 2, 1, 12, "version 12 here is damaged");
}

/* A part that no other rank has is damaged, and the update has read it: the version computed from
 * it is not sealed. */
static void test_a_part_without_replica(void **state)
{
    live(*state, DP, AT_VOTE, 1, 1, 12, "version 12 here is damaged");
}

static void test_a_part_of_a_pipeline(void **state)
{
    live(*state, PP, AT_VOTE, 1, 1, 12, "version 12 here is damaged");
}

/* Lets device @dev damage version 17, which is not due, in device memory. Asserts that version 18,
 * computed from it, is given up, and that all go on from the last due version. */
static void between(struct xw_world *w, enum dw_layout layout, uint32_t dev)
{
    struct dw_scenario s = dw_play_scenario(w);
    bool alone = layout == DP || layout == PP;
    w->due_every = 1000;
    dw_plan_harm(AT_READ, dev, 17, alone ? NOBODY : TWIN);
    dw_begin(&s, layout, 0);
    dw_await_break(&s, dw_ranks_of(&s));
    assert_true(dw_broke_with(&s, "version 17 here is damaged"));
    assert_true(dw_broke_with(&s, w->device ? IN_GPU : IN_MAIN));
    assert_true(s.n_told == 1 && s.n_told_live == 1);
    assert_true(s.told.rank == dev && s.told.version == 17);
    assert_true(s.n_given_up == 1 && s.void_from == 18);
    assert_int_equal(dw_recover(&s, layout), 0);
    dw_end_scenario(&s);
}

static void test_a_part_between_due_versions(void **state)
{
    between(*state, PP, 1);
}

static void test_a_replica_between_due_versions(void **state)
{
    between(*state, TWO, 1);
}

/* A rank that loses a peer seals its live version, unless that version is known to be damaged. The
 * version that the other rank has sealed was computed with gradients of the damaged rank, and is
 * given up. */
static void test_what_is_damaged_is_not_sealed_at_a_loss(void **state)
{
    struct dw_scenario s = dw_play_scenario(*state);
    s.w->live = true;
    s.w->due_every = 1000;
    dw_plan_harm(AT_READ, 1, 17, TWIN);
    dw_begin(&s, TWO, 0);
    dw_await_break(&s, 2);
    assert_true(s.told.rank == 1 && s.told.version == 17 && s.void_from == 18);
    for (int i = 0; i < 2; i++) {
        xw_send_ref(s.w, i, HSP_MSG_SEAL, s.epoch);
        dw_await_msg(&s, i, HSP_MSG_SEALED);
    }
    for (uint64_t version = 1; version <= 19; version++) {
        assert_null(dw_open_piece(s.w->ex[1].state_dir, TWO, 1, version));
        struct hsp_state_segment *other = dw_open_piece(s.w->ex[0].state_dir, TWO, 0, version);
        assert_true(other == NULL || version == 18);
        (void)hsp_segment_close(other);
    }
    assert_int_equal(dw_recover(&s, TWO), 0);
    dw_end_scenario(&s);
}

/* A bit flips after the update, before the new version is hashed for its seal. */
static void test_a_part_that_is_not_what_was_written(void **state)
{
    struct dw_scenario s = dw_play_scenario(*state);
    s.w->due_every = 5;
    dw_plan_harm(AT_SEAL, 1, 13, NOBODY);
    dw_begin(&s, PP, 0);
    dw_await_break(&s, 3);
    assert_true(dw_broke_with(&s, "version 15 here is damaged"));
    assert_true(s.n_told >= 1 && s.told.rank == 1 && s.told.version == 15);
    assert_int_equal(dw_recover(&s, PP), 10);
    dw_end_scenario(&s);
}

/* State is damaged while it is loaded to device memory: the complete step is computed with the
 * damaged state, and its vote passes. The step is computed again, and its reported loss is
 * replaced. */
static void test_a_part_that_is_loaded(void **state)
{
    struct dw_scenario s = dw_play_scenario(*state);
    dw_begin(&s, PP, 10);
    dw_kill_all(&s);
    dw_plan_harm_in(AT_LOAD, 1, 0, LOUD);
    uint64_t version = dw_recover(&s, PP);
    dw_await_break(&s, 3);
    assert_true(dw_broke_with(&s, s.w->device ? IN_GPU : IN_MAIN));
    assert_true(s.n_told == 1 && s.told.rank == 1 && s.told.version == version);
    assert_true(s.w->said_in == s.epoch && s.w->stable == version);
    double loss = s.w->loss[version];
    assert_true(has_intact(&s, 1, version));
    assert_int_equal(dw_recover(&s, PP), version);
    dw_end_scenario(&s);
    assert_true(loss != s.w->loss[version]);
}

/* Returns the newest version that both devices 0 and 1 have. Deletes a later version, which the
 * device that was killed last may have. */
static uint64_t newest_of_both(struct dw_scenario *s)
{
    uint64_t version = dw_newest(s, TWO);
    for (uint32_t dev = 0; dev < 2; dev++) {
        struct hsp_state_segment *own = dw_open_piece(s->w->ex[dev].state_dir, TWO, dev, version);
        if (own == NULL) {
            const char *ahead = s->w->ex[1 - dev].state_dir;
            struct hsp_err err = {0};
            own = dw_open_piece(ahead, TWO, 1 - dev, version);
            assert_non_null(own);
            assert_ok(hsp_segment_remove(ahead, hsp_segment_key_of(own), &err), &err);
            (void)hsp_segment_close(own);
            return version - 1;
        }
        (void)hsp_segment_close(own);
    }
    return version;
}

/* The first version of an epoch differs between devices 0 and 1: device 0 has sealed another state.
 * The memory of neither device differs from its seal, so no rank can tell which of the two is
 * wrong, and neither version is used. If a bit has only flipped on the way to a GPU, the segment of
 * that device is right. */
static void test_a_first_version_that_differs(void **state)
{
    struct dw_scenario s = dw_play_scenario(*state);
    dw_begin(&s, TWO, 10);
    dw_kill_all(&s);
    uint64_t version = newest_of_both(&s);
    struct hsp_state_segment *own = dw_open_piece(s.w->ex[0].state_dir, TWO, 0, version);
    assert_non_null(own);
    ((uint8_t *)hsp_segment_area(own))[5] ^= 8;
    hsp_segment_unseal(own);
    hsp_segment_seal(own, version);
    (void)hsp_segment_close(own);
    dw_plan_harm_in(AT_LOAD, 1, 0, ALL_WEIGHTS);
    assert_int_equal(dw_recover(&s, TWO), version);
    dw_await_break(&s, 2);
    assert_true(dw_broke_with(&s, "differ: wrong at n0/0 and 1 more"));
    assert_int_equal(s.n_told, 2);
    for (uint32_t dev = 0; dev < 2; dev++) {
        assert_null(dw_open_piece(s.w->ex[dev].state_dir, TWO, dev, version));
    }
    dw_free_plans(&s);
}

/* The last version of a job is compared, too, although no vote follows it. */
static void test_the_last_version(void **state)
{
    struct dw_scenario s = dw_play_scenario(*state);
    dw_plan_harm(AT_UPDATE, 2, XW_STEPS, TWIN);
    dw_begin(&s, THREE, 0);
    dw_await_break(&s, 3);
    assert_true(dw_broke_with(&s, "equal copies of version 60 differ: wrong at n2/0"));
    assert_int_equal(dw_recover(&s, THREE), XW_STEPS - 1);
    dw_end_scenario(&s);
}

static bool keeps(const struct dw_scenario *s, int dev, uint32_t owner, uint64_t version)
{
    struct hsp_state_segment *p = dw_open_piece(s->w->ex[dev].state_dir, KEPT, owner, version);
    if (p != NULL) {
        (void)hsp_segment_close(p);
    }
    return p != NULL;
}

/* Replica holder 2 keeps copies of rank 0's home, but must not seal a version that differs between
 * ranks 0 and 1. Otherwise that version would be used if both ranks were lost before they report
 * the damage. */
static void test_a_replica_holder_keeps_nothing_that_differs(void **state)
{
    struct xw_world *w = *state;
    const char *log = xw_log(w);
    struct dw_scenario s = dw_play_scenario(w);
    dw_plan_harm(AT_UPDATE, 0, 13, TWIN);
    dw_begin(&s, KEPT, 0);
    dw_await_break(&s, 3);
    assert_true(dw_broke_with(&s, "equal copies of version 13 differ: wrong at n0/0 and 1 more"));
    assert_true(keeps(&s, 2, 0, 12));
    assert_false(keeps(&s, 2, 0, 13));
    assert_int_equal(xw_lines_with(log, "copies of version 13 are not kept: replicas of it differ"),
                     1);
    assert_int_equal(dw_recover(&s, KEPT), 12);
    assert_int_equal(s.n_given_up, 2);
    dw_end_scenario(&s);
}

/* Seals @version, which was given up, again: so a rank leaves it that is killed before it unseals
 * the version. */
static void seal_again(const struct dw_scenario *s, int dev, uint64_t version)
{
    const char *dir = s->w->ex[dev].state_dir;
    struct hsp_segment_info *info = NULL;
    size_t n = 0, sealed = 0;
    struct hsp_err err = {0};
    assert_ok(hsp_segment_scan(dir, &info, &n, &err), &err);
    for (size_t i = 0; i < n; i++) {
        struct hsp_state_segment *p = NULL;
        if (info[i].version == HSP_NO_VERSION && info[i].key.slot == version % 2) {
            assert_ok(hsp_segment_open(dir, &info[i].key, true, &p, &err), &err);
            hsp_segment_seal(p, version);
            (void)hsp_segment_close(p);
            sealed++;
        }
    }
    free(info);
    assert_int_equal(sealed, 1);
}

static void test_what_was_given_up_is_deleted(void **state)
{
    struct dw_scenario s = dw_play_scenario(*state);
    dw_plan_harm(AT_UPDATE, 0, 13, TWIN);
    dw_begin(&s, KEPT, 0);
    dw_await_break(&s, 3);
    seal_again(&s, 1, 13);
    assert_true(keeps(&s, 1, 1, 13));
    assert_int_equal(dw_recover(&s, KEPT), 12); /* and version 13 is deleted; see seal_again */
    assert_int_equal(s.n_given_up, 2);
    dw_end_scenario(&s);
}

/* A checkpoint finds the damage. The version that the step beside the checkpoint computes is not
 * sealed. */
static void test_found_by_a_checkpoint(void **state)
{
    struct dw_scenario s = dw_play_scenario(*state);
    dw_plan_harm(AT_CHECKPOINT, 1, 25, NOBODY);
    dw_begin(&s, PP, 0);
    dw_await_break(&s, 3);
    assert_true(dw_broke_with(&s, "version 25 here is damaged"));
    assert_true(s.n_told == 1 && s.n_told_live == 1 && s.told.version == 25);
    assert_true(dw_recover(&s, PP) >= 25);
    dw_end_scenario(&s);
}

/* Two threads may seal the last version before a switch: neither seals a version that the other
 * thread has refused. */
static void test_the_last_read_before_a_switch(void **state)
{
    struct dw_scenario s = dw_play_scenario(*state);
    dw_begin(&s, DP, 5);
    dw_prepare_switch(&s, PP);
    dw_plan_harm(AT_LAST_READ, 1, 0, NOBODY);
    dw_arm(&s);
    dw_await_msg(&s, 1, HSP_MSG_PEER_LOST);
    assert_true(dw_broke_with(&s, "here is damaged"));
    for (int i = 0; i < 3; i++) {
        xw_send_ref(s.w, i, HSP_MSG_SEAL, s.epoch);
        dw_await_msg(&s, i, HSP_MSG_SEALED);
    }
    uint64_t stable = s.w->stable;
    assert_true(dw_recover(&s, DP) >= stable);
    dw_end_scenario(&s);
}

/* The version with which a switch begins is compared, too, although no vote of the old epoch
 * follows it. */
static void test_the_last_version_before_a_switch(void **state)
{
    struct dw_scenario s = dw_play_scenario(*state);
    dw_begin(&s, TWO, 5);
    dw_prepare_switch(&s, PP);
    dw_plan_harm(AT_LEAVING, 1, 0, TWIN);
    dw_arm(&s);
    for (int i = 0; i < 2; i++) {
        dw_await_msg(&s, i, HSP_MSG_PEER_LOST);
    }
    assert_true(dw_broke_with(&s, "differ: wrong at n0/0 and 1 more"));
    for (int i = 0; i < 3; i++) {
        xw_send_ref(s.w, i, HSP_MSG_SEAL, s.epoch);
        dw_await_msg(&s, i, HSP_MSG_SEALED);
    }
    uint64_t stable = s.w->stable;
    assert_true(dw_recover(&s, TWO) >= stable);
    dw_end_scenario(&s);
}

HSP_TEST_FILE(executor_live_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_replica_of_three, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_replica_of_three_that_is_computed_wrongly, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_replica_of_two_that_is_computed_wrongly, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_replica_of_two, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_replica_of_two_that_is_just_written, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_replica_of_parts, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_part_of_a_replica, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_part_without_replica, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_part_of_a_pipeline, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_part_between_due_versions, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_replica_between_due_versions, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_damaged_is_not_sealed_at_a_loss, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_part_that_is_not_what_was_written, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_replica_between_due_versions, dw_setup_device,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_replica_of_two, dw_setup_device, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_part_of_a_replica, dw_setup_device, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_part_without_replica, dw_setup_device, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_part_of_a_pipeline, dw_setup_device, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_part_that_is_loaded, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_part_that_is_loaded, dw_setup_device, dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_first_version_that_differs, dw_setup_device,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(test_the_last_version, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_the_last_version_before_a_switch, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(test_a_replica_holder_keeps_nothing_that_differs, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(test_what_was_given_up_is_deleted, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_found_by_a_checkpoint, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_the_last_read_before_a_switch, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(test_the_last_read_before_a_switch, dw_setup_device,
                                        dw_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
