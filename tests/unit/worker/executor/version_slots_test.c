#include <stdlib.h>

#include "tests/lib/testlib.h"
#include "worker/executor/version_slots.h"

struct world {
    char *dir;
    struct hsp_state_segment *seg[2];
    struct hsp_slots slots;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    const struct hsp_segment_row row = {
        .dtype = HSP_F64, .full = {4}, .box = {.rank = 1, .hi = {4}}};
    struct hsp_err err = {0};
    assert_non_null(w);
    w->dir = hsp_test_tmpdir();
    for (uint32_t k = 0; k < 2; k++) {
        const struct hsp_segment_key key = {
            .job = "t", .device = "n0/0", .owner = "n0/0", .epoch = 1, .slot = k};
        assert_ok(hsp_segment_create(w->dir, &key, &(struct hsp_whose){0}, &row, 1, 64, NULL,
                                     &w->seg[k], &err),
                  &err);
    }
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    (void)hsp_segment_close(w->seg[0]);
    (void)hsp_segment_close(w->seg[1]);
    hsp_test_rmdir(w->dir);
    free(w->dir);
    free(w);
    return 0;
}

static uint32_t write_version(struct world *w, uint64_t version)
{
    uint32_t slot = hsp_slot_take(&w->slots, w->seg, version);
    hsp_segment_unseal(w->seg[slot]);
    hsp_segment_seal(w->seg[slot], version);
    return slot;
}

static void a_version_never_goes_where_the_newest_sealed_one_is(void **state)
{
    struct world *w = *state;
    uint64_t version = 0;
    uint32_t last = write_version(w, version);
    assert_int_equal(last, 0);
    for (uint64_t k = 0; k < 200; k++) {
        version += 1 + hsp_test_rand("step", k) % 5;
        if (hsp_test_rand("unseal", k) % 2 == 0) { /* the older version is given up */
            hsp_segment_unseal(w->seg[1 - last]);
        }
        uint32_t slot = write_version(w, version);
        assert_int_equal(slot, 1 - last);
        assert_int_equal(hsp_slot_of(&w->slots, w->seg, version), slot);
        last = slot;
    }
}

static void a_version_is_found_while_it_is_written_and_when_it_is_damaged(void **state)
{
    struct world *w = *state;
    (void)write_version(w, 12);
    (void)write_version(w, 20);
    uint32_t slot = hsp_slot_take(&w->slots, w->seg, 33);
    assert_int_equal(slot, 1 - hsp_slot_of(&w->slots, w->seg, 20));
    hsp_segment_unseal(w->seg[slot]);
    assert_int_equal(hsp_slot_of(&w->slots, w->seg, 33), slot);
    hsp_segment_unseal(w->seg[1 - slot]); /* a checkpoint has found damage in 20 */
    assert_int_equal(hsp_slot_of(&w->slots, w->seg, 33), slot);
    hsp_segment_seal(w->seg[slot], 33);
    hsp_segment_unseal(w->seg[slot]);
    assert_int_equal(hsp_slot_of(&w->slots, w->seg, 33), slot);
}

/* A version that is sealed in a segment is found there, also if another version has taken that
 * segment later: so a recovery in the same layout finds its segments. */
static void what_is_sealed_counts_more_than_what_was_taken(void **state)
{
    struct world *w = *state;
    struct hsp_slots anew = {0};
    hsp_segment_seal(w->seg[0], 33);
    hsp_segment_seal(w->seg[1], 20);
    assert_int_equal(hsp_slot_of(&anew, w->seg, 20), 1);
    assert_int_equal(hsp_slot_of(&anew, w->seg, 33), 0);
    assert_int_equal(hsp_slot_of(&anew, w->seg, 34), 1);
    hsp_segment_unseal(w->seg[0]); /* the job goes on from 20 */
    assert_int_equal(hsp_slot_take(&anew, w->seg, 20), 1);
    assert_int_equal(hsp_slot_take(&anew, w->seg, 21), 0);
}

static void one_of_two_may_be_missing(void **state)
{
    struct world *w = *state;
    for (uint32_t k = 0; k < 2; k++) {
        struct hsp_state_segment *seg[2] = {NULL, NULL};
        struct hsp_slots anew = {0};
        seg[k] = w->seg[k];
        assert_int_equal(hsp_slot_of(&anew, seg, 7), k);
    }
}

HSP_TEST_FILE(version_slots_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_version_never_goes_where_the_newest_sealed_one_is, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_version_is_found_while_it_is_written_and_when_it_is_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_sealed_counts_more_than_what_was_taken, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(one_of_two_may_be_missing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
