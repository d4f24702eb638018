/* Checks the state of an epoch on a device whose memory the host cannot access
 * (tests/lib/mockdev.h), and on a CPU: pinning and unpinning of segments, copies, the message if no
 * memory can be pinned, and the comparison of each byte. */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/host/file_io.h"
#include "proto/layout/box.h"
#include "tests/lib/mockdev.h"
#include "tests/unit/worker/state/state_lib.h"
#include "worker/backend/cpu/cpu.h"
#include "worker/executor/epoch.h"
#include "worker/executor/epoch_memory.h"
#include "worker/executor/epoch_segments.h"
#include "worker/state/segment_name.h"

#define BYTES 256 /* bytes of a version: one tensor of 8 x 4 doubles */

static int64_t full[HSP_MAX_RANK] = {8, 4};

struct world {
    char *dir;
    char log[4300];
    int fd;
    struct hsp_exec_env env;
    struct hsp_m_prepare p;
    struct hsp_ptensor tensor;
    struct hsp_tensor_bind bind;
    struct hsp_state_bind state;
    struct hsp_ex_epoch e;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct hsp_box whole = hsp_box_whole(2, full);
    assert_non_null(w);
    w->dir = hsp_test_tmpdir();
    (void)snprintf(w->log, sizeof w->log, "%s/log", w->dir);
    w->fd = open(w->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(w->fd >= 0);
    w->env = (struct hsp_exec_env){.state_dir = w->dir, .log = hsp_log_new(w->fd, HSP_LOG_WARN)};
    w->p = (struct hsp_m_prepare){.job = 3, .n_ranks = 1, .plan = 2};
    w->tensor = (struct hsp_ptensor){.dtype = HSP_F64, .rank = 2, .state_kind = HSP_STATE_PARAM};
    w->bind = (struct hsp_tensor_bind){.box = whole};
    w->state = (struct hsp_state_bind){.full = whole};
    w->e = (struct hsp_ex_epoch){.env = &w->env, .p = &w->p, .member = true};
    (void)pthread_mutex_init(&w->e.lock, NULL);
    w->e.arena = hsp_arena_new(1 << 20);
    w->e.prog.tpl.tensors = &w->tensor;
    w->e.prog.bind.tensor = &w->bind;
    w->e.prog.bind.state = &w->state;
    w->e.prog.bind.n_state = 1;
    w->e.prog.bind.state_bytes = BYTES;
    *state = w;
    return 0;
}

/* Gives all memory back: the epoch has ended, and the device has no job any more. */
static void give_all_back(struct world *w)
{
    hsp_epoch_leave_segments(&w->e);
    hsp_pool_empty(&w->env);
    hsp_epoch_device_trim(&w->env);
}

static int teardown(void **state)
{
    struct world *w = *state;
    give_all_back(w);
    w->env.backend->close(w->env.backend);
    (void)pthread_mutex_destroy(&w->e.lock);
    (void)hsp_arena_free(w->e.arena);
    w->env.log = hsp_log_free(w->env.log);
    (void)close(w->fd);
    hsp_test_rmdir(w->dir);
    free(w->dir);
    free(w);
    return 0;
}

static void open_device(struct world *w, struct hsp_mockdev_opts o)
{
    struct hsp_err err = {0};
    o.seed = hsp_test_seed();
    o.max_delay_us = 300;
    assert_ok(hsp_mockdev_open(&o, &w->env.backend, &err), &err);
}

static uint32_t pinned(const struct world *w)
{
    return hsp_mockdev_tally(w->env.backend).pinned;
}

static void assert_no_breach(struct world *w)
{
    struct hsp_err why = {0};
    if (hsp_mockdev_forgive(w->env.backend, &why)) {
        fail_msg("%s", why.msg);
    }
}

/* Takes memory as PREPARE does. */
static void take(struct world *w)
{
    struct hsp_err err = {0};
    bool of_host;
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    assert_ok(hsp_epoch_device_take(&w->e, &of_host, &err), &err);
    assert_int_equal(pinned(w), 0); /* before that a damaged segment may be made again */
    hsp_epoch_device_pin(&w->e);
}

/* Gives memory back as the end of an epoch does. */
static void leave(struct world *w)
{
    hsp_epoch_device_close(&w->e);
    give_all_back(w);
    assert_int_equal(pinned(w), 0);
    assert_no_breach(w);
}

/* Copies a version to the device and, as the engine has written it there, back into the other
 * segment. */
static void there_and_back(struct world *w, double first)
{
    struct hsp_err err = {0};
    struct hsp_backend *b = w->env.backend;
    double *from = hsp_segment_area(w->e.seg[0]), *to = hsp_segment_area(w->e.seg[1]);
    atomic_store(&w->e.slots.taken, 4 * 2 + 0);
    for (int i = 0; i < BYTES / 8; i++) {
        from[i] = first + i;
    }
    assert_ok(hsp_epoch_device_begin(&w->e, &err), &err);
    assert_ok(hsp_epoch_device_load(&w->e, 4, HSP_EPOCH_ALL, &err), &err);
    struct hsp_written newest = {.version = 5, .queue = HSP_DEVQ_COMPUTE};
    assert_ok(b->mark(b, HSP_DEVQ_COMPUTE, &newest.ticket, &err), &err);
    w->e.dev.newest = newest;
    assert_ok(hsp_epoch_device_save(&w->e, 5, &err), &err);
    assert_memory_equal(from, to, BYTES);
}

static void segments_are_pinned_as_long_as_they_are_used(void **state)
{
    struct world *w = *state;
    open_device(w, (struct hsp_mockdev_opts){.must_pin = true});
    for (int k = 0; k < 3; k++) {
        take(w);
        assert_int_equal(pinned(w), 2);
        there_and_back(w, 10.0 * k);
        leave(w);
    }
    hsp_epoch_device_close(&w->e); /* a second call does nothing */
    assert_no_breach(w);
}

static void what_cannot_be_pinned_is_copied_and_told_once(void **state)
{
    struct world *w = *state;
    uint8_t *text = NULL;
    size_t bytes = 0;
    struct hsp_err err = {0};
    open_device(w, (struct hsp_mockdev_opts){.no_pin = true});
    for (int k = 0; k < 3; k++) {
        take(w);
        assert_int_equal(pinned(w), 0);
        there_and_back(w, 10.0 * k);
        leave(w);
    }
    assert_ok(hsp_file_read(w->log, 1 << 16, &text, &bytes, &err), &err);
    const char *line = memmem(text, bytes, "not pinned", 10);
    assert_non_null(line);
    assert_null(memmem(line + 1, bytes - (size_t)(line + 1 - (char *)text), "not pinned", 10));
    free(text);
}

static uint32_t first_that_differs(struct world *w, uint64_t version)
{
    struct hsp_err err = {0};
    uint32_t row = 0;
    assert_ok(hsp_epoch_device_compare(&w->e, version, &row, &err), &err);
    return row;
}

/* Asserts that a flipped bit anywhere in the state is found. Damage of the segment alone is no
 * damage of the state. */
static void compare(struct world *w, int64_t rows, int64_t columns)
{
    struct hsp_err err = {0};
    const int64_t ext[HSP_MAX_RANK] = {rows, columns}, bytes = 8 * rows * columns;
    open_device(w, (struct hsp_mockdev_opts){.must_pin = true});
    w->bind.box = w->state.full = hsp_box_whole(2, ext);
    w->e.prog.bind.state_bytes = bytes;
    take(w);
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
    leave(w);
}

static void the_state_is_compared_with_its_seal(void **state)
{
    compare(*state, 60000, 4);
}

/* The state that the first update has read is compared with the seal of the first version; also
 * after no-op steps, whose versions need not be sealed. */
static void what_was_read_first_is_compared_with_its_seal(void **state)
{
    struct world *w = *state;
    uint64_t read;
    open_device(w, (struct hsp_mockdev_opts){0});
    take(w);
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
    hsp_segment_seal(w->e.seg[0], 5); /* and is stable: the first one is no longer sealed */
    w->e.sealed = 5;
    w->e.dev.newest = (struct hsp_written){.version = 7, .first = &read};
    read = hsp_segment_row_hash(w->e.seg[0], 0);
    assert_int_equal(hsp_epoch_device_changed(&w->e, 6), UINT32_MAX);
    read ^= 1;
    assert_int_equal(hsp_epoch_device_changed(&w->e, 6), 0);
    leave(w);
}

/* A later update is compared with the state as the update before has written it. */
static void what_was_read_is_compared_with_what_was_written(void **state)
{
    struct world *w = *state;
    struct hsp_state_sums before = {.wrote = {7, 9}}, sums = {.read = {7, 9}, .wrote = {3, 4}};
    open_device(w, (struct hsp_mockdev_opts){0});
    take(w);
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
    leave(w);
}

/* A segment is compared with the sums of its update, also for the version before the newest. */
static void a_segment_is_compared_with_what_was_written(void **state)
{
    struct world *w = *state;
    struct hsp_state_sums sums = {{0, 0}, {0, 0}};
    open_device(w, (struct hsp_mockdev_opts){0});
    take(w);
    atomic_store(&w->e.slots.taken, 4 * 2 + 0);
    double *x = hsp_segment_area(w->e.seg[0]);
    for (int i = 0; i < BYTES / 8; i++) {
        x[i] = 0.5 + i;
    }
    hsp_word_sums_add(&sums.wrote, x, BYTES / 4, 0);
    for (uint64_t newest = 4; newest < 6; newest++) {
        w->e.dev.newest = (struct hsp_written){.version = newest,
                                               .sums = newest == 4 ? &sums : NULL,
                                               .before = newest == 5 ? &sums : NULL};
        assert_int_equal(hsp_epoch_device_unlike(&w->e, 4), UINT32_MAX);
        ((uint8_t *)x)[BYTES - 1] ^= 4;
        assert_int_equal(hsp_epoch_device_unlike(&w->e, 4), 0);
        ((uint8_t *)x)[BYTES - 1] ^= 4;
    }
    leave(w);
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

/* The state in use is apart from the segments, so both may be written at the same time. Its memory
 * is not touched before it is loaded. */
static void a_cpu_has_its_state_apart(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    assert_ok(hsp_backend_cpu_open(1, &w->env.backend, &err), &err);
    w->env.backend->fill = no_fill;
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    bool of_host;
    assert_ok(hsp_epoch_device_take(&w->e, &of_host, &err), &err);
    assert_int_equal(atomic_load(&w->env.on_device), 1);
    hsp_epoch_device_pin(&w->e);
    there_and_back(w, 3);
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

/* The device has one version, and each due version is copied from the device once. */
static void a_due_version_leaves_its_only_slot_once(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    open_device(w, (struct hsp_mockdev_opts){.must_pin = true});
    take(w);
    there_and_back(w, 1);
    assert_in_range(hsp_mockdev_tally(w->env.backend).memory, BYTES, 2 * BYTES - 1);
    copy_of = w->env.backend->copy;
    w->env.backend->copy = count_copy;
    for (uint64_t version = 6; version < 9; version++) {
        copied = 0;
        w->e.dev.newest.version = version;
        assert_ok(hsp_epoch_device_save(&w->e, version, &err), &err);
        assert_int_equal(copied, hsp_segment_area_bytes(w->e.seg[0]));
    }
    leave(w);
}

#define PIECE 4150 /* a file has three pieces: 8192 bytes precede the area */

/* In an executor a piece has 256 MiB. No copy crosses a piece. */
static void segments_are_pinned_in_pieces(void **state)
{
    struct world *w = *state;
    open_device(w, (struct hsp_mockdev_opts){.must_pin = true});
    w->env.pin_piece = PIECE;
    take(w);
    assert_int_equal(pinned(w), 6);
    there_and_back(w, 5.0);
    leave(w);
}

static struct world *ends; /* world whose epoch ends; NULL: none */
static enum hsp_status (*pin_now)(struct hsp_backend *b, void *p, size_t bytes,
                                  struct hsp_err *err);

static enum hsp_status pin_and_end(struct hsp_backend *b, void *p, size_t bytes,
                                   struct hsp_err *err)
{
    enum hsp_status st = pin_now(b, p, bytes, err);
    ends->e.cancelled = true;
    return st;
}

/* SEAL and STOP wait for one piece, not for tens of GiB. */
static void an_epoch_that_is_cancelled_pins_no_more(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    bool of_host;
    ends = w;
    open_device(w, (struct hsp_mockdev_opts){0});
    w->env.pin_piece = PIECE;
    pin_now = w->env.backend->pin;
    w->env.backend->pin = pin_and_end;
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    assert_ok(hsp_epoch_device_take(&w->e, &of_host, &err), &err);
    hsp_epoch_device_pin(&w->e);
    w->env.backend->pin = pin_now;
    assert_int_equal(pinned(w), 1);
    leave(w);
    w->e.cancelled = false;
    take(w);
    hsp_epoch_device_leave(&w->e); /* no step of a switch waits for unpinning */
    assert_int_equal(pinned(w), 6);
    leave(w);
}

/* A rank without state has a segment without bytes. */
static void a_segment_without_bytes_is_not_pinned(void **state)
{
    struct world *w = *state;
    open_device(w, (struct hsp_mockdev_opts){.must_pin = true});
    w->e.prog.bind.n_state = 0;
    w->e.prog.bind.state_bytes = 0;
    take(w);
    assert_int_equal(pinned(w), 0);
    leave(w);
}

/* An epoch without memory leaves no pinned bytes. */
static void no_memory_no_pins(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    bool of_host = true;
    open_device(w, (struct hsp_mockdev_opts){.memory = 100});
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    assert_status(hsp_epoch_device_take(&w->e, &of_host, &err), HSP_ENOMEM);
    assert_false(of_host);
    leave(w);
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

/* If the host cannot pin memory, the planner is not told that the device is smaller. */
static void want_of_pinned_memory_is_not_the_devices(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    enum hsp_fact_kind fact;
    uint64_t lacks = 0;
    open_device(w, (struct hsp_mockdev_opts){0});
    w->env.mem_bytes = 1 << 20;
    alloc_all = w->env.backend->alloc;
    w->env.backend->alloc = alloc_but_pinned;
    assert_status(hsp_epoch_take_memory(&w->e, &fact, &lacks, &err), HSP_ENOMEM);
    assert_int_equal(fact, HSP_FACT_OTHER);
    assert_string_equal(err.msg, "the host, not the device, lacks memory that can be pinned (free "
                                 "some): 8 bytes of pinned memory");
    leave(w);
}

/* Prepares layout @plan as PREPARE does, with a state of @rows times 4 doubles. */
static void prepare(struct world *w, uint64_t plan, int64_t rows)
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
static void end(struct world *w, bool dropped)
{
    w->e.dropped = dropped;
    hsp_epoch_device_close(&w->e);
    hsp_epoch_leave_segments(&w->e);
}

static uint32_t pins(const struct world *w)
{
    return hsp_mockdev_tally(w->env.backend).pins;
}

/* Returns the inode of slot @slot in layout @plan; 0: there is none. */
static ino_t file_of(const struct world *w, uint64_t plan, int slot, const char *ending)
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
    struct world *w = *state;
    struct hsp_err err = {0};
    open_device(w, (struct hsp_mockdev_opts){.must_pin = true});
    w->env.pin_piece = PIECE;
    prepare(w, 2, 8);
    there_and_back(w, 1.0);
    hsp_segment_seal(w->e.seg[0], 4);
    hsp_segment_seal(w->e.seg[1], 5);
    const ino_t first = file_of(w, 2, 0, ".seg"), second = file_of(w, 2, 1, ".seg");
    end(w, false);
    prepare(w, 3, 8); /* beside layout 2 */
    end(w, false);
    assert_int_equal(pins(w), 12);
    hsp_pool_release(&w->env, 3, 3);
    assert_int_equal(file_of(w, 2, 0, ".seg") + file_of(w, 2, 1, ".seg"), 0);
    assert_true(hsp_spare_bytes(w->dir) >= 2 * BYTES);
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
            assert_int_equal(hsp_segment_area_bytes(w->e.seg[k]), plan == 4 ? BYTES : 160);
        }
        if (plan == 4) {
            there_and_back(w, 2.0);
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
    give_all_back(w);
    assert_int_equal(file_of(w, 5, 0, ".tmp") + file_of(w, 5, 1, ".tmp"), 0);
    assert_int_equal(pinned(w), 0);
    assert_no_breach(w);
}

/* An epoch of the same layout uses the same mappings. */
static void a_layout_that_goes_on_is_pinned_once(void **state)
{
    struct world *w = *state;
    open_device(w, (struct hsp_mockdev_opts){.must_pin = true});
    for (int k = 0; k < 3; k++) {
        prepare(w, 2, 8);
        assert_int_equal(pins(w), 2);
        assert_true((hsp_segment_version(w->e.seg[0]) == 4) == (k > 0));
        there_and_back(w, 1.0 * k);
        hsp_segment_seal(w->e.seg[0], 4);
        end(w, false);
    }
    give_all_back(w);
    assert_true(file_of(w, 2, 0, ".seg") > 0);
    assert_int_equal(pinned(w), 0);
    assert_no_breach(w);
}

/* The old segments are too small for the home, but not for a copy: the copy takes them pinned, and
 * they are unpinned at the end. */
static void a_copy_takes_the_spare_of_a_home(void **state)
{
    struct world *w = *state;
    struct hsp_pkg_param param = {.name = "w", .rank = 2, .ext = {8, 4}};
    struct hsp_pkg_row copy = {.from = 1, .box = hsp_box_whole(2, full)};
    open_device(w, (struct hsp_mockdev_opts){.must_pin = true});
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
    give_all_back(w);
    assert_int_equal(pinned(w), 0);
    assert_no_breach(w);
}

/* Another executor lacks room and cuts the spare. */
static void a_spare_that_was_cut_is_not_used(void **state)
{
    struct world *w = *state;
    open_device(w, (struct hsp_mockdev_opts){.must_pin = true});
    prepare(w, 2, 8);
    end(w, true);
    hsp_spare_cut(w->dir);
    assert_int_equal(file_of(w, 2, 0, ".tmp"), 0);
    prepare(w, 3, 8);
    assert_int_equal(pins(w), 4);
    there_and_back(w, 1.0);
    leave(w);
}

/* Beside a running epoch no segment is unpinned. The next prepared epoch uses the segments of a
 * dropped one. If these are too small, they stay mapped until the running epoch has left, and only
 * then a third pair is pinned. */
static void what_is_dropped_beside_steps_stays_mapped(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    open_device(w, (struct hsp_mockdev_opts){0});
    atomic_store(&w->env.on_device, 1); /* another epoch runs, */
    (void)w->env.backend->native(w->env.backend,
                                 HSP_DEVQ_COMM); /* whose transport may be at work */
    prepare(w, 2, 8);
    end(w, true);
    prepare(w, 3, 8);
    assert_int_equal(pins(w), 2);
    end(w, true);
    prepare(w, 4, 16);
    assert_int_equal(pinned(w), 4);
    end(w, true);
    prepare(w, 5, 32);
    assert_int_equal(pinned(w), 4); /* the old segments */
    assert_ok(hsp_epoch_device_begin(&w->e, &err), &err);
    assert_false(hsp_pool_has_out(&w->env));
    assert_int_equal(pinned(w), 2); /* the new segments */
    leave(w);                       /* unmapping too early fails the test */
}

/* A message of a transport. */
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
static void leave_other(struct world *w, struct message *m)
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

/* At a hand-over kept memory is freed as soon as the device is idle, also if the next epoch has no
 * state on the device. */
static void what_the_epoch_before_has_left_goes_at_once(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    open_device(w, (struct hsp_mockdev_opts){0});
    for (int member = 0; member < 2; member++) {
        struct message m = {.looks = 100};
        w->e.member = member != 0;
        leave_other(w, &m);
        assert_ok(hsp_epoch_device_begin(&w->e, &err), &err);
        assert_true(atomic_load(&m.done));
        assert_int_equal(hsp_mockdev_tally(w->env.backend).memory,
                         member * (BYTES + 8)); /* the state, and the hash of its row */
    }
    hsp_epoch_device_close(&w->e);
    assert_no_breach(w);
}

static struct world *trimmed; /* trimmed world; NULL: none */
static bool (*trim_now)(struct hsp_backend *b);

static bool trim_before_segments(struct hsp_backend *b)
{
    struct world *w = trimmed;
    assert_true(w == NULL || w->e.seg[0] == NULL);
    trimmed = NULL;
    return trim_now(b);
}

/* Discarded segments take room of the folder while they are mapped: they are closed before the
 * segments of an epoch that is alone are made. */
static void what_was_discarded_goes_before_new_segments(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    enum hsp_fact_kind fact;
    uint64_t lacks = 0;
    open_device(w, (struct hsp_mockdev_opts){.keeps = true});
    w->env.mem_bytes = 1 << 20;
    take(w);
    there_and_back(w, 1.0);
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
    leave(w);
}

static bool trims(struct world *w)
{
    atomic_store(&w->env.untrimmed, true);
    hsp_epoch_device_trim(&w->env);
    return !atomic_load(&w->env.untrimmed);
}

/* A cancelled epoch does not wait for a device that waits for a lost peer. While communicators are
 * made no memory is freed. */
static void nothing_waits_for_a_peer_that_is_gone(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    struct message m = {.looks = UINT_MAX};
    open_device(w, (struct hsp_mockdev_opts){0});
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
        cmocka_unit_test_setup_teardown(a_due_version_leaves_its_only_slot_once, setup, teardown),
        cmocka_unit_test_setup_teardown(segments_are_pinned_as_long_as_they_are_used, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(segments_are_pinned_in_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(the_next_layout_pins_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_copy_takes_the_spare_of_a_home, setup, teardown),
        cmocka_unit_test_setup_teardown(a_layout_that_goes_on_is_pinned_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_spare_that_was_cut_is_not_used, setup, teardown),
        cmocka_unit_test_setup_teardown(an_epoch_that_is_cancelled_pins_no_more, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_pinned_is_copied_and_told_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_state_is_compared_with_its_seal, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_read_first_is_compared_with_its_seal, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_was_read_is_compared_with_what_was_written, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_segment_is_compared_with_what_was_written, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_cpu_has_its_state_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(a_segment_without_bytes_is_not_pinned, setup, teardown),
        cmocka_unit_test_setup_teardown(no_memory_no_pins, setup, teardown),
        cmocka_unit_test_setup_teardown(want_of_pinned_memory_is_not_the_devices, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_dropped_beside_steps_stays_mapped, setup, teardown),
        cmocka_unit_test_setup_teardown(what_the_epoch_before_has_left_goes_at_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_was_discarded_goes_before_new_segments, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(nothing_waits_for_a_peer_that_is_gone, setup, teardown),
    };
    return cmocka_run_group_tests_name("epochdevice", tests, NULL, NULL);
}
