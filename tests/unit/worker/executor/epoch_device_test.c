/* Checks the state of an epoch on a device whose memory the host cannot access
 * (tests/lib/mockdev.h), and on a CPU: pinning and unpinning of segments, copies, the message if no
 * memory can be pinned, and the comparison of each byte. */
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/host/file_io.h"
#include "proto/layout/box.h"
#include "tests/unit/worker/executor/device_world.h"
#include "worker/backend/cpu/cpu.h"
#include "worker/executor/epoch.h"
#include "worker/executor/epoch_memory.h"
#include "worker/executor/epoch_segments.h"

static void segments_are_pinned_as_long_as_they_are_used(void **state)
{
    struct dw_world *w = *state;
    dw_open_device(w, (struct hsp_mockdev_opts){.must_pin = true});
    for (int k = 0; k < 3; k++) {
        dw_take(w);
        assert_int_equal(dw_pinned(w), 2);
        dw_there_and_back(w, 10.0 * k);
        dw_leave(w);
    }
    hsp_epoch_device_close(&w->e); /* a second call does nothing */
    dw_assert_no_breach(w);
}

static void what_cannot_be_pinned_is_copied_and_told_once(void **state)
{
    struct dw_world *w = *state;
    uint8_t *text = NULL;
    size_t bytes = 0;
    struct hsp_err err = {0};
    dw_open_device(w, (struct hsp_mockdev_opts){.no_pin = true});
    for (int k = 0; k < 3; k++) {
        dw_take(w);
        assert_int_equal(dw_pinned(w), 0);
        dw_there_and_back(w, 10.0 * k);
        dw_leave(w);
    }
    assert_ok(hsp_file_read(w->log, 1 << 16, &text, &bytes, &err), &err);
    const char *line = memmem(text, bytes, "not pinned", 10);
    assert_non_null(line);
    assert_null(memmem(line + 1, bytes - (size_t)(line + 1 - (char *)text), "not pinned", 10));
    free(text);
}

static uint32_t first_that_differs(struct dw_world *w, uint64_t version)
{
    struct hsp_err err = {0};
    uint32_t row = 0;
    assert_ok(hsp_epoch_device_compare(&w->e, version, &row, &err), &err);
    return row;
}

/* Asserts that a flipped bit anywhere in the state is found. Damage of the segment alone is no
 * damage of the state. */
static void compare(struct dw_world *w, int64_t rows, int64_t columns)
{
    struct hsp_err err = {0};
    const int64_t ext[HSP_MAX_RANK] = {rows, columns}, bytes = 8 * rows * columns;
    dw_open_device(w, (struct hsp_mockdev_opts){.must_pin = true});
    w->bind.box = w->state.full = hsp_box_whole(2, ext);
    w->e.prog.bind.state_bytes = bytes;
    dw_take(w);
    double *from = hsp_segment_area(w->e.seg[0]);
    for (int64_t i = 0; i < bytes / 8; i++) {
        from[i] = (double)i;
    }
    hsp_segment_seal(w->e.seg[0], 4);
    assert_ok(hsp_epoch_device_begin(&w->e, &err), &err);
    assert_ok(hsp_epoch_device_load(&w->e, 4, HSP_EPOCH_ALL, &err), &err);
    assert_int_equal(first_that_differs(w, 4), UINT32_MAX);
    for (uint64_t i = 0; i < 12; i++) {
        int64_t at = i == 0 ? 0 : i == 1 ? bytes - 1 : hsp_test_range("bytes", i, 0, bytes - 1);
        uint8_t *byte = hsp_mockdev_byte(w->env.backend, (uint8_t *)w->e.dev.state + at);
        *byte ^= (uint8_t)(1u << i % 8);
        assert_int_equal(first_that_differs(w, 4), 0);
        *byte ^= (uint8_t)(1u << i % 8);
    }
    from[1] = 7;
    assert_int_equal(first_that_differs(w, 4), UINT32_MAX);
    assert_false(hsp_segment_row_fits(w->e.seg[0], 0));
    dw_leave(w);
}

static void the_state_is_compared_with_its_seal(void **state)
{
    compare(*state, 60000, 4);
}

/* The state that the first update reads is compared with the seal of the first version, also after
 * no-op steps, whose versions need not be sealed. */
static void what_was_read_first_is_compared_with_its_seal(void **state)
{
    struct dw_world *w = *state;
    uint64_t read;
    dw_open_device(w, (struct hsp_mockdev_opts){0});
    dw_take(w);
    atomic_store(&w->e.slots.taken, 4 * 2 + 0);
    w->e.first = 4;
    hsp_segment_seal(w->e.seg[0], 4);
    for (uint64_t version = 4; version < 7; version++) {
        read = hsp_segment_row_hash(w->e.seg[0], 0);
        w->e.dev.newest = (struct hsp_written){.version = version + 1, .first = &read};
        assert_int_equal(hsp_epoch_device_changed(&w->e, version), UINT32_MAX);
        read ^= 1;
        assert_int_equal(hsp_epoch_device_changed(&w->e, version), 0);
        assert_int_equal(hsp_epoch_device_changed(&w->e, version - 1), UINT32_MAX);
    }
    hsp_segment_seal(w->e.seg[0], 5); /* 5 is stable, so the first version is unsealed */
    w->e.sealed = 5;
    w->e.dev.newest = (struct hsp_written){.version = 7, .first = &read};
    read = hsp_segment_row_hash(w->e.seg[0], 0);
    assert_int_equal(hsp_epoch_device_changed(&w->e, 6), UINT32_MAX);
    read ^= 1;
    assert_int_equal(hsp_epoch_device_changed(&w->e, 6), 0);
    dw_leave(w);
}

/* The state that a later update reads is compared with the state that its predecessor wrote. */
static void what_was_read_is_compared_with_what_was_written(void **state)
{
    struct dw_world *w = *state;
    struct hsp_state_sums before = {.wrote = {7, 9}}, sums = {.read = {7, 9}, .wrote = {3, 4}};
    dw_open_device(w, (struct hsp_mockdev_opts){0});
    dw_take(w);
    w->e.dev.newest = (struct hsp_written){.version = 5, .sums = &sums, .before = &before};
    assert_int_equal(hsp_epoch_device_changed(&w->e, 4), UINT32_MAX);
    for (int k = 0; k < 2; k++) {
        uint64_t *word = k == 0 ? &sums.read.sum : &sums.read.places;
        *word ^= 1;
        assert_int_equal(hsp_epoch_device_changed(&w->e, 4), 0);
        *word ^= 1;
    }
    sums.read.sum ^= 1;
    w->e.dev.newest.before = NULL; /* a no-op step, or not known */
    assert_int_equal(hsp_epoch_device_changed(&w->e, 4), UINT32_MAX);
    dw_leave(w);
}

/* A segment is compared with the sums of its update, also for the version before the newest. */
static void a_segment_is_compared_with_what_was_written(void **state)
{
    struct dw_world *w = *state;
    struct hsp_state_sums sums = {{0, 0}, {0, 0}};
    dw_open_device(w, (struct hsp_mockdev_opts){0});
    dw_take(w);
    atomic_store(&w->e.slots.taken, 4 * 2 + 0);
    double *x = hsp_segment_area(w->e.seg[0]);
    for (int i = 0; i < DW_BYTES / 8; i++) {
        x[i] = 0.5 + i;
    }
    hsp_word_sums_add(&sums.wrote, x, DW_BYTES / 4, 0);
    for (uint64_t newest = 4; newest < 6; newest++) {
        w->e.dev.newest = (struct hsp_written){.version = newest,
                                               .sums = newest == 4 ? &sums : NULL,
                                               .before = newest == 5 ? &sums : NULL};
        assert_int_equal(hsp_epoch_device_unlike(&w->e, 4), UINT32_MAX);
        ((uint8_t *)x)[DW_BYTES - 1] ^= 4;
        assert_int_equal(hsp_epoch_device_unlike(&w->e, 4), 0);
        ((uint8_t *)x)[DW_BYTES - 1] ^= 4;
    }
    dw_leave(w);
}

static enum hsp_status no_fill(struct hsp_backend *b, enum hsp_devq q, enum hsp_dtype t, void *dst,
                               double value, int64_t n, struct hsp_err *err)
{
    (void)b;
    (void)q;
    (void)t;
    (void)dst;
    (void)value;
    return hsp_err_set(err, HSP_EIO, 0, "%" PRId64 " elements are touched while a switch waits", n);
}

/* On a CPU the state in use is apart from the segments, so both may be written at the same time.
 * The state's memory is not touched before the state is loaded. */
static void a_cpu_has_its_state_apart(void **state)
{
    struct dw_world *w = *state;
    struct hsp_err err = {0};
    assert_ok(hsp_backend_cpu_open(1, &w->env.backend, &err), &err);
    w->env.backend->fill = no_fill;
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    bool of_host;
    assert_ok(hsp_epoch_device_take(&w->e, &of_host, &err), &err);
    assert_int_equal(atomic_load(&w->env.on_device), 1);
    hsp_epoch_device_pin(&w->e);
    dw_there_and_back(w, 3);
    ((double *)hsp_segment_area(w->e.seg[0]))[1] = 77;
    ((double *)w->e.dev.state)[2] = 88;
    w->e.dev.newest.version = 6;
    assert_ok(hsp_epoch_device_save(&w->e, 6, &err), &err);
    const double *saved = hsp_segment_area(w->e.seg[0]);
    assert_true(saved[0] == 3 && saved[1] == 4 && saved[2] == 88);
    assert_true(((double *)hsp_segment_area(w->e.seg[1]))[2] == 5);
    hsp_epoch_device_close(&w->e);
    assert_int_equal(atomic_load(&w->env.on_device), 0);
}

static enum hsp_status (*copy_of)(struct hsp_backend *b, enum hsp_devq q, void *dst,
                                  const void *src, size_t bytes, struct hsp_err *err);
static size_t copied;

static enum hsp_status count_copy(struct hsp_backend *b, enum hsp_devq q, void *dst,
                                  const void *src, size_t bytes, struct hsp_err *err)
{
    copied += bytes;
    return copy_of(b, q, dst, src, bytes, err);
}

/* The device has memory for one version, and each due version is copied from there once. */
static void a_due_version_leaves_its_only_slot_once(void **state)
{
    struct dw_world *w = *state;
    struct hsp_err err = {0};
    dw_open_device(w, (struct hsp_mockdev_opts){.must_pin = true});
    dw_take(w);
    dw_there_and_back(w, 1);
    assert_in_range(hsp_mockdev_tally(w->env.backend).memory, DW_BYTES, 2 * DW_BYTES - 1);
    copy_of = w->env.backend->copy;
    w->env.backend->copy = count_copy;
    for (uint64_t version = 6; version < 9; version++) {
        copied = 0;
        w->e.dev.newest.version = version;
        assert_ok(hsp_epoch_device_save(&w->e, version, &err), &err);
        assert_int_equal(copied, hsp_segment_area_bytes(w->e.seg[0]));
    }
    dw_leave(w);
}

/* In an executor a piece has 256 MiB. No copy crosses a piece. */
static void segments_are_pinned_in_pieces(void **state)
{
    struct dw_world *w = *state;
    dw_open_device(w, (struct hsp_mockdev_opts){.must_pin = true});
    w->env.pin_piece = DW_PIECE;
    dw_take(w);
    assert_int_equal(dw_pinned(w), 6);
    dw_there_and_back(w, 5.0);
    dw_leave(w);
}

static struct dw_world *ends; /* world whose epoch ends; NULL: none */
static enum hsp_status (*pin_now)(struct hsp_backend *b, void *p, size_t bytes,
                                  struct hsp_err *err);

static enum hsp_status pin_and_end(struct hsp_backend *b, void *p, size_t bytes,
                                   struct hsp_err *err)
{
    enum hsp_status st = pin_now(b, p, bytes, err);
    ends->e.cancelled = true;
    return st;
}

/* A cancelled epoch stops pinning: SEAL and STOP wait for one piece, not for tens of GiB. */
static void an_epoch_that_is_cancelled_pins_no_more(void **state)
{
    struct dw_world *w = *state;
    struct hsp_err err = {0};
    bool of_host;
    ends = w;
    dw_open_device(w, (struct hsp_mockdev_opts){0});
    w->env.pin_piece = DW_PIECE;
    pin_now = w->env.backend->pin;
    w->env.backend->pin = pin_and_end;
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    assert_ok(hsp_epoch_device_take(&w->e, &of_host, &err), &err);
    hsp_epoch_device_pin(&w->e);
    w->env.backend->pin = pin_now;
    assert_int_equal(dw_pinned(w), 1);
    dw_leave(w);
    w->e.cancelled = false;
    dw_take(w);
    hsp_epoch_device_leave(&w->e); /* no step of a switch waits for unpinning */
    assert_int_equal(dw_pinned(w), 6);
    dw_leave(w);
}

/* A rank without state has a segment without bytes. */
static void a_segment_without_bytes_is_not_pinned(void **state)
{
    struct dw_world *w = *state;
    dw_open_device(w, (struct hsp_mockdev_opts){.must_pin = true});
    w->e.prog.bind.n_state = 0;
    w->e.prog.bind.state_bytes = 0;
    dw_take(w);
    assert_int_equal(dw_pinned(w), 0);
    dw_leave(w);
}

/* An epoch that gets no device memory leaves no pinned bytes. */
static void no_memory_no_pins(void **state)
{
    struct dw_world *w = *state;
    struct hsp_err err = {0};
    bool of_host = true;
    dw_open_device(w, (struct hsp_mockdev_opts){.memory = 100});
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    assert_status(hsp_epoch_device_take(&w->e, &of_host, &err), HSP_ENOMEM);
    assert_false(of_host);
    dw_leave(w);
}

static enum hsp_status (*alloc_all)(struct hsp_backend *b, enum hsp_mem mem, size_t bytes,
                                    void **ret, struct hsp_err *err);

static enum hsp_status alloc_but_pinned(struct hsp_backend *b, enum hsp_mem mem, size_t bytes,
                                        void **ret, struct hsp_err *err)
{
    return mem == HSP_MEM_HOST
               ? hsp_err_set(err, HSP_ENOMEM, 0, "%zu bytes of pinned memory", bytes)
               : alloc_all(b, mem, bytes, ret, err);
}

/* If the host lacks memory to pin, PREPARE must not say that the device is smaller. */
static void want_of_pinned_memory_is_not_the_devices(void **state)
{
    struct dw_world *w = *state;
    struct hsp_err err = {0};
    enum hsp_fact_kind fact;
    uint64_t lacks = 0;
    dw_open_device(w, (struct hsp_mockdev_opts){0});
    w->env.mem_bytes = 1 << 20;
    alloc_all = w->env.backend->alloc;
    w->env.backend->alloc = alloc_but_pinned;
    assert_status(hsp_epoch_take_memory(&w->e, &fact, &lacks, &err), HSP_ENOMEM);
    assert_int_equal(fact, HSP_FACT_OTHER);
    assert_string_equal(err.msg, "the host, not the device, lacks memory that can be pinned (free "
                                 "some): 8 bytes of pinned memory");
    dw_leave(w);
}

/* A message that a transport receives. */
struct message {
    atomic_uint looks; /* polls of its queue before it arrives; UINT_MAX: never */
    atomic_bool done;
};

static bool has_come(void *arg)
{
    struct message *m = arg;
    unsigned looks = atomic_load(&m->looks);
    if (looks > 0 && looks < UINT_MAX) {
        atomic_fetch_sub(&m->looks, 1);
    }
    return looks == 0;
}

static void arrives(void *arg)
{
    struct message *m = arg;
    atomic_store(&m->done, true);
}

/* Lets the other epoch leave with its last message under way: its memory is kept. */
static void leave_other(struct dw_world *w, struct message *m)
{
    struct hsp_err err = {0};
    struct hsp_backend *b = w->env.backend;
    void *p = NULL;
    const struct hsp_mockdev_work work = {.ready = has_come, .run = arrives, .arg = m};
    assert_ok(b->alloc(b, HSP_MEM_DEVICE, 4096, &p, &err), &err);
    hsp_mockdev_submit(b->native(b, HSP_DEVQ_LANE), &work);
    b->release(b, HSP_MEM_DEVICE, p);
    assert_int_equal(hsp_mockdev_tally(b).memory, 4096);
}

/* At a hand-over the kept memory is freed as soon as the device is idle, also if the next epoch has
 * no state there. */
static void what_the_epoch_before_has_left_goes_at_once(void **state)
{
    struct dw_world *w = *state;
    struct hsp_err err = {0};
    dw_open_device(w, (struct hsp_mockdev_opts){0});
    for (int member = 0; member < 2; member++) {
        struct message m = {.looks = 100};
        w->e.member = member != 0;
        leave_other(w, &m);
        assert_ok(hsp_epoch_device_begin(&w->e, &err), &err);
        assert_true(atomic_load(&m.done));
        assert_int_equal(hsp_mockdev_tally(w->env.backend).memory,
                         member * (DW_BYTES + 8)); /* the state, and the hash of its row */
    }
    hsp_epoch_device_close(&w->e);
    dw_assert_no_breach(w);
}

static bool trims(struct dw_world *w)
{
    atomic_store(&w->env.untrimmed, true);
    hsp_epoch_device_trim(&w->env);
    return !atomic_load(&w->env.untrimmed);
}

/* A cancelled epoch does not wait for a device that waits for a lost peer. While communicators are
 * made, no memory is freed. */
static void nothing_waits_for_a_peer_that_is_gone(void **state)
{
    struct dw_world *w = *state;
    struct hsp_err err = {0};
    struct message m = {.looks = UINT_MAX};
    dw_open_device(w, (struct hsp_mockdev_opts){0});
    w->e.member = false;
    w->e.lost = true;
    leave_other(w, &m);
    (void)alarm(60);
    assert_ok(hsp_epoch_device_begin(&w->e, &err), &err);
    (void)alarm(0);
    assert_false(trims(w));
    assert_int_equal(hsp_mockdev_tally(w->env.backend).memory, 4096);
    atomic_store(&m.looks, 0);
    while (!atomic_load(&m.done) || hsp_mockdev_tally(w->env.backend).pending > 0) {
        (void)usleep(1000);
    }
    (void)pthread_mutex_lock(&w->env.greets);
    assert_false(trims(w));
    assert_int_equal(hsp_mockdev_tally(w->env.backend).memory, 4096);
    (void)pthread_mutex_unlock(&w->env.greets);
    assert_true(trims(w));
    assert_int_equal(hsp_mockdev_tally(w->env.backend).memory, 0);
}

HSP_TEST_FILE(epoch_device_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_due_version_leaves_its_only_slot_once, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(segments_are_pinned_as_long_as_they_are_used, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(segments_are_pinned_in_pieces, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(an_epoch_that_is_cancelled_pins_no_more, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_pinned_is_copied_and_told_once, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(the_state_is_compared_with_its_seal, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(what_was_read_first_is_compared_with_its_seal, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(what_was_read_is_compared_with_what_was_written, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(a_segment_is_compared_with_what_was_written, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(a_cpu_has_its_state_apart, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(a_segment_without_bytes_is_not_pinned, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(no_memory_no_pins, dw_setup, dw_teardown),
        cmocka_unit_test_setup_teardown(want_of_pinned_memory_is_not_the_devices, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(what_the_epoch_before_has_left_goes_at_once, dw_setup,
                                        dw_teardown),
        cmocka_unit_test_setup_teardown(nothing_waits_for_a_peer_that_is_gone, dw_setup,
                                        dw_teardown),
    };
    return cmocka_run_group_tests_name("epochdevice", tests, NULL, NULL);
}
