/* Tests mapped segments of epochs that have ended, on a device whose memory the host cannot access:
 * the next epoch takes them as they are pinned, and they are unmapped when no step may use them. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>

#include "proto/layout/box.h"
#include "tests/unit/worker/executor/device_world.h"
#include "worker/executor/epoch.h"
#include "worker/executor/epoch_memory.h"
#include "worker/executor/epoch_segments.h"
#include "worker/state/segment_name.h"

/* Prepares layout @plan as PREPARE does, with a state of @rows times 4 doubles. */
static void prepare(struct dw_world *w, uint64_t plan, int64_t rows)
{
    const int64_t ext[HSP_MAX_RANK] = {rows, 4};
    struct hsp_err err = {0};
    bool of_host;
    w->p.plan = plan;
    w->bind.box = w->state.full = hsp_box_whole(2, ext);
    w->e.prog.bind.state_bytes = 32 * rows;
    hsp_epoch_device_clear(&w->e);
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    assert_ok(hsp_epoch_device_take(&w->e, &of_host, &err), &err);
    hsp_epoch_device_pin(&w->e);
}

/* Ends the epoch; @dropped: before its begin. */
static void end(struct dw_world *w, bool dropped)
{
    w->e.dropped = dropped;
    hsp_epoch_device_close(&w->e);
    hsp_epoch_leave_segments(&w->e);
}

static uint32_t pins(const struct dw_world *w)
{
    return hsp_mockdev_tally(w->env.backend).pins;
}

/* Returns the inode of slot @slot in layout @plan; 0: there is none. */
static ino_t file_of(const struct dw_world *w, uint64_t plan, int slot, const char *ending)
{
    char path[4300];
    struct stat sb;
    (void)snprintf(path, sizeof path, "%s/job-3+0+0+e%" PRIu64 "+s%d%s", w->dir, plan, slot,
                   ending);
    return stat(path, &sb) == 0 ? sb.st_ino : 0;
}

/* The next layout gets the segments of a released layout: no page is new, and none is pinned again.
 * The state in these segments is no source any more. */
static void the_next_layout_pins_nothing(void **state)
{
    struct dw_world *w = *state;
    struct hsp_err err = {0};
    dw_open_device(w, (struct hsp_mockdev_opts){.must_pin = true});
    w->env.pin_piece = DW_PIECE;
    prepare(w, 2, 8);
    dw_there_and_back(w, 1.0);
    hsp_segment_seal(w->e.seg[0], 4);
    hsp_segment_seal(w->e.seg[1], 5);
    const ino_t first = file_of(w, 2, 0, ".seg"), second = file_of(w, 2, 1, ".seg");
    end(w, false);
    prepare(w, 3, 8); /* beside layout 2 */
    end(w, false);
    assert_int_equal(pins(w), 12);
    hsp_pool_release(&w->env, 3, 3);
    assert_int_equal(file_of(w, 2, 0, ".seg") + file_of(w, 2, 1, ".seg"), 0);
    assert_true(hsp_spare_bytes(w->dir) >= 2 * DW_BYTES);
    for (uint64_t plan = 4; plan < 6; plan++) {
        prepare(w, plan, plan == 4 ? 8 : 5);
        assert_int_equal(pins(w), 12);
        const ino_t now = file_of(w, plan, 0, ".seg"), other = file_of(w, plan, 1, ".seg");
        assert_true(plan > 4 || (now == first && other == second) ||
                    (now == second && other == first));
        assert_int_equal(hsp_spare_bytes(w->dir), 0);
        for (int k = 0; k < 2; k++) {
            assert_true(hsp_segment_version(w->e.seg[k]) == HSP_NO_VERSION);
            assert_int_equal(hsp_segment_key_of(w->e.seg[k])->epoch, plan);
            assert_int_equal(hsp_segment_area_bytes(w->e.seg[k]), plan == 4 ? DW_BYTES : 160);
        }
        if (plan == 4) {
            dw_there_and_back(w, 2.0);
        }
        hsp_segment_seal(w->e.seg[0], 9);
        end(w, false);
        struct hsp_state_segment *s = NULL; /* opened as another process does */
        struct hsp_segment_key key;
        const struct hsp_segname name = {.job = 3, .plan = plan};
        hsp_segname_key(&name, &key);
        assert_ok(hsp_segment_open(w->dir, &key, false, &s, &err), &err);
        assert_ok(hsp_segment_verify(s, &err), &err);
        (void)hsp_segment_close(s);
        hsp_pool_release(&w->env, 3, plan + 1);
    }
    dw_give_all_back(w);
    assert_int_equal(file_of(w, 5, 0, ".tmp") + file_of(w, 5, 1, ".tmp"), 0);
    assert_int_equal(dw_pinned(w), 0);
    dw_assert_no_breach(w);
}

/* An epoch of the same layout uses the same mappings. */
static void a_layout_that_goes_on_is_pinned_once(void **state)
{
    struct dw_world *w = *state;
    dw_open_device(w, (struct hsp_mockdev_opts){.must_pin = true});
    for (int k = 0; k < 3; k++) {
        prepare(w, 2, 8);
        assert_int_equal(pins(w), 2);
        assert_true((hsp_segment_version(w->e.seg[0]) == 4) == (k > 0));
        dw_there_and_back(w, 1.0 * k);
        hsp_segment_seal(w->e.seg[0], 4);
        end(w, false);
    }
    dw_give_all_back(w);
    assert_true(file_of(w, 2, 0, ".seg") > 0);
    assert_int_equal(dw_pinned(w), 0);
    dw_assert_no_breach(w);
}

/* The old segments are too small for the home, but not for a copy: the copy takes them pinned, and
 * they are unpinned at the end. */
static void a_copy_takes_the_spare_of_a_home(void **state)
{
    struct dw_world *w = *state;
    struct hsp_pkg_param param = {.name = "w", .rank = 2, .ext = {8, 4}};
    struct hsp_pkg_row copy = {.from = 1, .box = hsp_box_whole(2, dw_full)};
    dw_open_device(w, (struct hsp_mockdev_opts){.must_pin = true});
    prepare(w, 2, 8);
    const void *home[2] = {hsp_segment_map(w->e.seg[0]), hsp_segment_map(w->e.seg[1])};
    end(w, false);
    hsp_pool_release(&w->env, 3, 3);
    w->p.n_ranks = 2;
    w->e.pkg = (struct hsp_package){.dtype = HSP_F64,
                                    .n_kinds = 1,
                                    .kinds = {HSP_STATE_PARAM},
                                    .n_params = 1,
                                    .params = &param,
                                    .copies = {.n = 1, .row = &copy}};
    prepare(w, 3, 80);
    assert_int_equal(w->e.n_copies, 1);
    for (int k = 0; k < 2; k++) {
        const void *now = hsp_segment_map(w->e.copies[0].seg[k]);
        assert_true(now == home[0] || now == home[1]);
    }
    assert_int_equal(pins(w), 4);
    end(w, false);
    dw_give_all_back(w);
    assert_int_equal(dw_pinned(w), 0);
    dw_assert_no_breach(w);
}

/* Another executor lacks room and cuts the spare. */
static void a_spare_that_was_cut_is_not_used(void **state)
{
    struct dw_world *w = *state;
    dw_open_device(w, (struct hsp_mockdev_opts){.must_pin = true});
    prepare(w, 2, 8);
    end(w, true);
    hsp_spare_cut(w->dir);
    assert_int_equal(file_of(w, 2, 0, ".tmp"), 0);
    prepare(w, 3, 8);
    assert_int_equal(pins(w), 4);
    dw_there_and_back(w, 1.0);
    dw_leave(w);
}

/* Beside a running epoch no segment is unpinned. The next prepared epoch uses the segments of a
 * dropped one. If these are too small, they stay mapped until the running epoch has left, and only
 * then a third pair is pinned. */
static void what_is_dropped_beside_steps_stays_mapped(void **state)
{
    struct dw_world *w = *state;
    struct hsp_err err = {0};
    dw_open_device(w, (struct hsp_mockdev_opts){0});
    atomic_store(&w->env.on_device, 1); /* another epoch runs, */
    (void)w->env.backend->native(w->env.backend,
                                 HSP_DEVQ_COMM); /* whose transport may be at work */
    prepare(w, 2, 8);
    end(w, true);
    prepare(w, 3, 8);
    assert_int_equal(pins(w), 2);
    end(w, true);
    prepare(w, 4, 16);
    assert_int_equal(dw_pinned(w), 4);
    end(w, true);
    prepare(w, 5, 32);
    assert_int_equal(dw_pinned(w), 4); /* the old segments */
    assert_ok(hsp_epoch_device_begin(&w->e, &err), &err);
    assert_false(hsp_pool_has_out(&w->env));
    assert_int_equal(dw_pinned(w), 2); /* the new segments */
    dw_leave(w);                       /* unmapping too early fails the test */
}

static struct dw_world *trimmed; /* trimmed world; NULL: none */
static bool (*trim_now)(struct hsp_backend *b);

static bool trim_before_segments(struct hsp_backend *b)
{
    struct dw_world *w = trimmed;
    assert_true(w == NULL || w->e.seg[0] == NULL);
    trimmed = NULL;
    return trim_now(b);
}

/* Discarded segments take room of the folder while they are mapped: they are closed before the
 * segments of an epoch that is alone are made. */
static void what_was_discarded_goes_before_new_segments(void **state)
{
    struct dw_world *w = *state;
    struct hsp_err err = {0};
    enum hsp_fact_kind fact;
    uint64_t lacks = 0;
    dw_open_device(w, (struct hsp_mockdev_opts){.keeps = true});
    w->env.mem_bytes = 1 << 20;
    dw_take(w);
    dw_there_and_back(w, 1.0);
    end(w, true);
    hsp_pool_empty(&w->env);
    assert_true(hsp_pool_has_out(&w->env)); /* before any trim */
    trim_now = w->env.backend->trim;
    w->env.backend->trim = trim_before_segments;
    trimmed = w;
    assert_ok(hsp_epoch_take_memory(&w->e, &fact, &lacks, &err), &err);
    w->env.backend->trim = trim_now;
    assert_null(trimmed);
    assert_false(hsp_pool_has_out(&w->env));
    dw_leave(w);
}

static bool trim_before_transport(struct hsp_backend *b)
{
    bool quiet = trim_now(b);
    (void)b->native(b, HSP_DEVQ_COMM);
    return quiet;
}

/* A transport begins to work between the trim and the unpinning. The device is to be trimmed again,
 * which unpins the segments. */
static void what_could_not_be_unpinned_is_unpinned_later(void **state)
{
    struct dw_world *w = *state;
    dw_open_device(w, (struct hsp_mockdev_opts){0});
    dw_take(w);
    end(w, true);
    hsp_pool_empty(&w->env);
    trim_now = w->env.backend->trim;
    w->env.backend->trim = trim_before_transport;
    hsp_epoch_device_trim(&w->env);
    w->env.backend->trim = trim_now;
    assert_true(hsp_pool_has_out(&w->env));
    assert_true(atomic_load(&w->env.untrimmed));
    hsp_epoch_device_trim(&w->env);
    assert_false(hsp_pool_has_out(&w->env));
    assert_false(atomic_load(&w->env.untrimmed));
    dw_leave(w);
}

HSP_TEST_FILE(segment_pool_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_next_layout_pins_nothing, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(a_copy_takes_the_spare_of_a_home, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(a_layout_that_goes_on_is_pinned_once, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(a_spare_that_was_cut_is_not_used, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(what_is_dropped_beside_steps_stays_mapped, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(what_was_discarded_goes_before_new_segments, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(what_could_not_be_unpinned_is_unpinned_later, dw_setup,
                                        dw_teardown),
    };
    return cmocka_run_group_tests_name("segmentpool", tests, NULL, NULL);
}
