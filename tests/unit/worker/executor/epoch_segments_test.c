/* Checks which segments an epoch reuses, creates again or leaves alone, and the lines that the
 * audit writes about them. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/layout/box.h"
#include "tests/unit/worker/state/state_lib.h"
#include "worker/executor/audit.h"
#include "worker/executor/epoch.h"
#include "worker/executor/epoch_memory.h"
#include "worker/executor/epoch_segments.h"

static int64_t full[HSP_MAX_RANK] = {8, 4};

struct world {
    char *dir;
    struct hsp_chan chan; /* its other end is the test, as the agent */
    int agent;
    struct hsp_exec_env env;
    struct hsp_m_prepare p;
    struct hsp_ptensor tensor;
    struct hsp_tensor_bind bind;
    struct hsp_state_bind state;
    struct hsp_ex_epoch e;
    char file[4300]; /* file of segment 0 */
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct hsp_box whole = hsp_box_whole(2, full);
    assert_non_null(w);
    w->dir = hsp_test_tmpdir();
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    hsp_chan_init(&w->chan, pair[0]);
    w->agent = pair[1];
    w->env = (struct hsp_exec_env){.state_dir = w->dir, .chan = &w->chan};
    w->p = (struct hsp_m_prepare){.job = 3, .n_ranks = 1, .plan = 2};
    w->tensor = (struct hsp_ptensor){.dtype = HSP_F64, .rank = 2, .state_kind = HSP_STATE_PARAM};
    w->bind = (struct hsp_tensor_bind){.box = whole};
    w->state = (struct hsp_state_bind){.full = whole};
    w->e = (struct hsp_ex_epoch){.env = &w->env, .p = &w->p, .member = true};
    w->e.arena = hsp_arena_new(1 << 20);
    w->e.prog.tpl.tensors = &w->tensor;
    w->e.prog.bind.tensor = &w->bind;
    w->e.prog.bind.state = &w->state;
    w->e.prog.bind.n_state = 1;
    w->e.prog.bind.state_bytes = 256;
    (void)snprintf(w->file, sizeof w->file, "%s/job-3+0+0+e2+s0.seg", w->dir);
    *state = w;
    return 0;
}

/* Ends the epoch and empties the pool. */
static void leave(struct world *w)
{
    hsp_epoch_leave_segments(&w->e);
    hsp_pool_empty(&w->env);
}

static int teardown(void **state)
{
    struct world *w = *state;
    leave(w);
    hsp_chan_fini(&w->chan);
    (void)close(w->agent);
    (void)hsp_arena_free(w->e.arena);
    hsp_test_rmdir(w->dir);
    free(w->dir);
    free(w);
    return 0;
}

/* Seals @box as version 4 in segment 0 and ends the epoch. */
static void leave_a_version_of(struct world *w, const struct hsp_box *box)
{
    struct hsp_err err = {0};
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    assert_true(hsp_segment_version(w->e.seg[0]) == HSP_NO_VERSION);
    fill_box(HSP_F64, 0, HSP_STATE_PARAM, 4, full, box, hsp_segment_area(w->e.seg[0]));
    hsp_segment_seal(w->e.seg[0], 4);
    leave(w);
    assert_int_equal(access(w->file, F_OK), 0);
}

static void leave_a_version(struct world *w)
{
    struct hsp_box whole = hsp_box_whole(2, full);
    leave_a_version_of(w, &whole);
}

/* An epoch that is dropped leaves its sealed segments, and no unsealed ones. */
static void what_is_dropped_leaves_nothing_unsealed(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    char other[4300];
    (void)snprintf(other, sizeof other, "%s/job-3+0+0+e2+s1.seg", w->dir);
    leave_a_version(w);
    assert_int_equal(access(other, F_OK), 0);
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    w->e.dropped = true;
    leave(w);
    assert_int_equal(access(w->file, F_OK), 0);
    assert_int_equal(access(other, F_OK), -1);
}

/* An epoch that has sealed no version leaves no segments: each attempt has a layout of its own, so
 * no later epoch would use them. Segments with a version stay, because the next epoch of the same
 * layout uses these files. */
static void an_epoch_without_a_version_leaves_nothing(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    char other[4300];
    (void)snprintf(other, sizeof other, "%s/job-3+0+0+e2+s1.seg", w->dir);
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    w->e.alone = true;
    leave(w);
    assert_int_equal(access(w->file, F_OK), -1);
    assert_int_equal(access(other, F_OK), -1);
    leave_a_version(w);
    assert_int_equal(access(other, F_OK), 0);
}

static void what_fits_is_taken(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    leave_a_version(w);
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    assert_true(hsp_segment_version(w->e.seg[0]) == 4);
    assert_ok(hsp_segment_verify(w->e.seg[0], &err), &err);
}

/* Taking room takes long, and the control thread waits for the end of a cancelled epoch. So a
 * cancelled epoch takes no more room. An epoch with a lost peer goes on, since a loss is reported
 * only after READY. */
static void an_epoch_that_is_cancelled_takes_no_room(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    w->e.cancelled = true;
    assert_status(hsp_epoch_open_segments(&w->e, &err), HSP_ECANCELED);
    assert_null(w->e.seg[0]);
    assert_int_equal(access(w->file, F_OK), -1);
    w->e.cancelled = false;
    w->e.lost = true;
    leave_a_version(w);
    w->e.cancelled = true;
    assert_status(hsp_epoch_open_segments(&w->e, &err), HSP_ECANCELED);
    assert_null(w->e.seg[0]);
    w->e.cancelled = false;
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    assert_true(hsp_segment_version(w->e.seg[0]) == 4);
    w->e.cancelled = true;
    assert_status(hsp_epoch_renew_segment(&w->e, &w->e.seg[0], &err), HSP_ECANCELED);
    assert_null(w->e.seg[0]);
}

static void what_is_damaged_is_made_anew(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    leave_a_version(w);
    char said[4096];
    flip_bit(w->file, 0, 3);
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    assert_true(hsp_segment_version(w->e.seg[0]) == HSP_NO_VERSION);
    ssize_t n = read(w->agent, said, sizeof said);
    assert_true(n > 0 && memmem(said, (size_t)n, "the head", 8) != NULL); /* STATE_DAMAGED */
}

static void what_is_not_sealed_and_of_another_shape_is_made_anew(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    leave(w);
    w->e.prog.bind.state_bytes = 512;
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    assert_int_equal(hsp_segment_area_bytes(w->e.seg[0]), 512);
}

/* Another version of hspmdd has used other offsets for the same layout. The sealed segment must
 * stay, because it may be the only copy of its state. */
static void what_is_sealed_and_of_another_shape_stays(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    struct hsp_state_segment *s = NULL;
    const struct {
        int64_t bytes, offset, rows; /* the rows that hspmdd now wants */
        uint32_t mode;
        uint64_t from_plan;
        enum hsp_status st;
        enum hsp_fact_kind fact;
        uint64_t amount;
    } cases[] = {
        {512, 0, 8, HSP_MODE_RECOVER, 2, HSP_ESTATE, HSP_FACT_STATE_SHAPE, 0},
        {512, 64, 8, HSP_MODE_RECOVER, 2, HSP_ESTATE, HSP_FACT_STATE_SHAPE, 0},
        {512, 0, 4, HSP_MODE_RECOVER, 2, HSP_ESTATE, HSP_FACT_STATE_SHAPE, 0}, /* a part */
        {768, 0, 12, HSP_MODE_RECOVER, 2, HSP_EUNSUPPORTED, HSP_FACT_STATE_SHAPE, UINT64_MAX},
        {768, 0, 12, HSP_MODE_RECOVER, 1, HSP_ESTATE, HSP_FACT_STATE_SHAPE, 0},
        {768, 0, 12, HSP_MODE_RESTORE, 0, HSP_ESTATE, HSP_FACT_STATE_SHAPE, 0},
    };
    full[0] = w->state.full.hi[0] = 12;
    w->bind.box.hi[0] = 8;
    leave_a_version_of(w, &w->bind.box);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum hsp_fact_kind fact = HSP_FACT_OTHER;
        uint64_t amount = 7;
        w->e.prog.bind.state_bytes = cases[i].bytes;
        w->bind.offset = cases[i].offset;
        w->bind.box.hi[0] = cases[i].rows;
        w->p.mode = cases[i].mode;
        w->p.from_plan = cases[i].from_plan;
        assert_int_equal(hsp_epoch_take_memory(&w->e, &fact, &amount, &err), cases[i].st);
        assert_true(fact == cases[i].fact && amount == cases[i].amount);
        assert_non_null(strstr(err.msg, "version 4 of layout 2 is "));
        w->e.dropped = true;
        leave(w);
        assert_ok(hsp_segment_open_path(w->file, false, &s, &err), &err);
        assert_true(hsp_segment_version(s) == 4 && hsp_segment_area_bytes(s) == 256);
        assert_ok(hsp_segment_verify(s, &err), &err);
        (void)hsp_segment_close(s);
    }
    full[0] = 8;
}

/* A file that has the name of another segment is left alone: it may be the only copy of its owner's
 * state. */
static void what_was_renamed_is_left_alone(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    char other[4300];
    (void)snprintf(other, sizeof other, "%s/job-3+0+0+e2+s1.seg", w->dir);
    leave_a_version(w);
    assert_int_equal(rename(w->file, other), 0);
    assert_status(hsp_epoch_open_segments(&w->e, &err), HSP_EINVAL);
    assert_non_null(strstr(err.msg, "job-3+0+0+e2+s1.seg is a copy of another segment, or was "
                                    "renamed: move it away"));
    assert_int_equal(access(other, F_OK), 0);
}

/* An executor that cannot open a file must not delete it, because the file may be undamaged. */
static void what_cannot_be_opened_is_left_alone(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    char elsewhere[4300];
    leave_a_version(w);
    (void)snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", w->dir);
    assert_int_equal(rename(w->file, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, w->file), 0); /* links are not followed */
    assert_status(hsp_epoch_open_segments(&w->e, &err), HSP_EIO);
    assert_null(w->e.seg[0]);
    leave(w);
    assert_int_equal(unlink(w->file), 0);
    assert_int_equal(rename(elsewhere, w->file), 0);
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    assert_true(hsp_segment_version(w->e.seg[0]) == 4);
}

/* Reads the only line of the audit file with the device's state, or "" if there is none. */
static void read_notes(const struct world *w, char text[1000])
{
    char path[4300];
    (void)snprintf(path, sizeof path, "%s/n-0.state", w->dir);
    FILE *f = fopen(path, "re");
    size_t n = f != NULL ? fread(text, 1, 999, f) : 0;
    text[n] = '\0';
    if (f != NULL) {
        (void)fclose(f);
    }
}

static void the_audit_notes_what_is_sealed(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    char text[1000], want[1000];
    leave_a_version(w);
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    w->env.node = "n";
    w->e.number = 7;
    hsp_audit_state(&w->e, 4, true); /* without a folder */
    w->env.audit_dir = w->dir;
    hsp_audit_state(&w->e, 5, true); /* not sealed */
    read_notes(w, text);
    assert_string_equal(text, "");
    hsp_audit_state(&w->e, 4, false);
    read_notes(w, text);
    (void)snprintf(
        want, sizeof want,
        "{\"job\":3,\"epoch\":\"7\",\"version\":4,\"rank\":0,\"begins\":false,\"state\":["
        "{\"tensor\":0,\"kind\":\"param\",\"extent\":[8,4],\"from\":[0,0],\"to\":[8,4],"
        "\"hash\":\"%" PRIu64 "\"}]}\n",
        hsp_segment_content(w->e.seg[0]));
    assert_string_equal(text, want);
}

HSP_TEST_FILE(epoch_segments_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_dropped_leaves_nothing_unsealed, setup, teardown),
        cmocka_unit_test_setup_teardown(an_epoch_without_a_version_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(what_fits_is_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(an_epoch_that_is_cancelled_takes_no_room, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_damaged_is_made_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_sealed_and_of_another_shape_is_made_anew, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_is_sealed_and_of_another_shape_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_renamed_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_opened_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(the_audit_notes_what_is_sealed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
