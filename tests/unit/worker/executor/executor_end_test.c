/* Checks that no answer to the agent waits until the memory of an ended epoch is unpinned and
 * unmapped, which takes seconds for much memory. An epoch has ended when no thread can write its
 * memory. In these tests unmapping does not go on before the test allows it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/worker/executor/executor_world.h"
#include "worker/executor/epoch.h"
#include "worker/executor/epoch_sources.h"
#include "worker/executor/segment_pool.h"
#include "worker/state/segment_name.h"

/* Work that waits, in executors forked from now on, until the file held_by[work] exists. */
enum held { STATE, DEVICE, SOURCES, HANGS, TRIM, KEEP, N_HELD };
static char held_by[N_HELD][4300];

static void make_file(const char *path)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && close(fd) == 0);
}

static void await_leave(enum held what)
{
    while (held_by[what][0] != '\0' && access(held_by[what], F_OK) != 0) {
        (void)usleep(1000);
    }
}

/* These declarations make the compiler check that each wrap has the type of its function. */
__typeof__(hsp_pool_unpin) __real_hsp_pool_unpin, __wrap_hsp_pool_unpin;
__typeof__(hsp_epoch_device_close) __real_hsp_epoch_device_close, __wrap_hsp_epoch_device_close;
__typeof__(hsp_epoch_sources_free) __real_hsp_epoch_sources_free, __wrap_hsp_epoch_sources_free;
__typeof__(hsp_reaper_give) __real_hsp_reaper_give, __wrap_hsp_reaper_give;
__typeof__(hsp_reaper_hangs) __real_hsp_reaper_hangs, __wrap_hsp_reaper_hangs;
__typeof__(hsp_reaper_keep) __real_hsp_reaper_keep, __wrap_hsp_reaper_keep;

static struct hsp_exec_env *trims;

void __wrap_hsp_pool_unpin(struct hsp_exec_env *env)
{
    trims = env;
    if (hsp_pool_has_out(env)) {
        await_leave(STATE);
    }
    __real_hsp_pool_unpin(env);
}

void __wrap_hsp_reaper_give(struct hsp_reaper *r, struct hsp_gift *g, void (*work)(void *of),
                            void *of)
{
    if (work == hsp_epoch_device_trim && hsp_pool_has_out(of) && held_by[TRIM][0] != '\0') {
        char path[4310];
        (void)snprintf(path, sizeof path, "%s.waits", held_by[TRIM]);
        make_file(path);
        await_leave(TRIM);
    }
    __real_hsp_reaper_give(r, g, work, of);
}

/* With KEEP, waits until a trim has freed all segments. So the trim comes between the check that
 * finds segments and this call. */
void __wrap_hsp_reaper_keep(struct hsp_reaper *r, bool on)
{
    while (on && held_by[KEEP][0] != '\0' && hsp_pool_has_out(trims)) {
        hsp_epoch_device_trim(trims);
        (void)usleep(1000);
    }
    __real_hsp_reaper_keep(r, on);
}

void __wrap_hsp_epoch_device_close(struct hsp_ex_epoch *e)
{
    await_leave(DEVICE);
    __real_hsp_epoch_device_close(e);
}

void __wrap_hsp_epoch_sources_free(void *sources)
{
    await_leave(SOURCES);
    __real_hsp_epoch_sources_free(sources);
}

bool __wrap_hsp_reaper_hangs(struct hsp_reaper *r)
{
    return (held_by[HANGS][0] != '\0' && access(held_by[HANGS], F_OK) == 0) ||
           __real_hsp_reaper_hangs(r);
}

/* Starts executor @dev, in which the work @what waits for the test. */
static void start_held(struct xw_world *w, int dev, enum held what)
{
    (void)snprintf(held_by[what], sizeof held_by[what], "%s/leave", w->dir);
    xw_start_executor(w, dev);
    held_by[what][0] = '\0';
}

/* Makes a world in whose executor 0 the work @what waits for the test. */
static struct xw_world *hold(void **state, enum held what)
{
    struct xw_world *w = *state;
    start_held(w, 0, what);
    return w;
}

static void leave(struct xw_world *w)
{
    char path[4300];
    (void)snprintf(path, sizeof path, "%s/leave", w->dir);
    make_file(path);
}

/* Waits until the executor is about to trim its device; the trim waits for the test. */
static void await_trim(struct xw_world *w)
{
    char path[4310];
    (void)snprintf(path, sizeof path, "%s/leave.waits", w->dir);
    while (access(path, F_OK) != 0) {
        (void)usleep(1000);
    }
}

static void begin(struct xw_world *w, struct hsp_epoch_plan *plan, uint64_t epoch)
{
    struct xw_epoch d = {
        .epoch = epoch, .plan_no = epoch, .mode = HSP_MODE_FRESH, .plan = plan, .n_peers = 1};
    xw_prepare(w, &d);
    xw_send_start(w, 0, epoch, 0);
    xw_await_step(w, 0, 2);
}

static void order(struct xw_world *w, uint16_t type, uint16_t answer, uint64_t epoch)
{
    xw_send_ref(w, 0, type, epoch);
    xw_await(w, 0, answer);
}

/* Returns the newest sealed version of layout @plan. */
static uint64_t newest(struct xw_world *w, uint64_t plan)
{
    struct hsp_m_holding *held = NULL;
    uint32_t n = 0;
    struct hsp_err err = {0};
    uint64_t best = 0;
    assert_ok(hsp_segname_scan(w->ex[0].state_dir, &held, &n, &err), &err);
    for (uint32_t k = 0; k < n; k++) {
        best = held[k].plan == plan && held[k].version > best ? held[k].version : best;
    }
    free(held);
    return best;
}

/* Describes epoch @epoch, a recovery from layout @from to layout @to. */
static struct xw_epoch recovery(struct xw_world *w, const struct hsp_epoch_plan *plan,
                                uint64_t epoch, uint64_t from, uint64_t to)
{
    return (struct xw_epoch){.epoch = epoch,
                             .plan_no = to,
                             .from_no = from,
                             .mode = HSP_MODE_RECOVER,
                             .step = newest(w, from),
                             .plan = plan,
                             .from = plan,
                             .n_peers = 1,
                             .n_live = 1,
                             .live = {{0, 0, 0}}};
}

/* Returns true if another executor that uses the folder of @dev and lacked room would wait. */
static bool room_comes_at(const struct xw_world *w, int dev)
{
    int folder = open(w->ex[dev].state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0);
    bool comes = flock(folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    assert_int_equal(close(folder), 0);
    return comes;
}

static bool room_comes(const struct xw_world *w)
{
    return room_comes_at(w, 0);
}

/* SEALED does not wait until the state of the epoch is unmapped. The next epoch is prepared
 * meanwhile without a wait, and may be sealed, too. */
static void test_no_answer_waits_until_state_is_unmapped(void **state)
{
    struct xw_world *w = hold(state, STATE);
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one);
    begin(w, one, 1);
    order(w, HSP_MSG_SEAL, HSP_MSG_SEALED, 2);
    assert_true(newest(w, 1) >= w->stable);
    for (uint64_t epoch = 3; epoch < 6; epoch++) {
        struct xw_epoch d = recovery(w, one, epoch, 1, 1);
        xw_prepare(w, &d);
        if (epoch == 4) {
            xw_send_start(w, 0, epoch, d.step);
            xw_await(w, 0, HSP_MSG_STARTED);
        }
        order(w, HSP_MSG_SEAL, HSP_MSG_SEALED, epoch);
    }
    order(w, HSP_MSG_STOP, HSP_MSG_STOPPED, 6);
    assert_int_equal(newest(w, 1), 0); /* the names are deleted */
    assert_true(room_comes(w));
    leave(w);
    while (room_comes(w)) {
        xw_await_beat(w, 0);
    }
    (void)hsp_epoch_plan_free(one);
}

/* The device is trimmed after STOPPED is sent. Other executors learn before STOPPED is sent that
 * room will come. */
static void test_room_is_told_before_the_answer(void **state)
{
    struct xw_world *w = hold(state, TRIM);
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one);
    begin(w, one, 1);
    order(w, HSP_MSG_STOP, HSP_MSG_STOPPED, 2);
    assert_true(room_comes(w));
    await_trim(w);
    assert_true(room_comes(w));
    leave(w);
    while (room_comes(w)) {
        xw_await_beat(w, 0);
    }
    (void)hsp_epoch_plan_free(one);
}

/* If the room has come already, no executor is made to wait for it. */
static void test_room_that_came_meanwhile_is_not_told(void **state)
{
    struct xw_world *w = hold(state, KEEP);
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one);
    begin(w, one, 1);
    order(w, HSP_MSG_SEAL, HSP_MSG_SEALED, 2); /* its segments stay pinned */
    for (int beats = 0; beats < 4; beats++) {  /* the device memory is freed meanwhile */
        xw_await_beat(w, 0);
    }
    order(w, HSP_MSG_STOP, HSP_MSG_STOPPED, 2);
    for (int beats = 0; beats < 20 && room_comes(w); beats++) {
        xw_await_beat(w, 0);
    }
    assert_false(room_comes(w));
    (void)hsp_epoch_plan_free(one);
}

/* The next PREPARE comes before device memory is freed, and names the executor as a source only.
 * The room of the ended epoch comes before the next epoch begins. */
static void test_room_comes_from_a_source(void **state)
{
    struct xw_world *w = *state;
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one), *dp = xw_make_plan(w, xw_plan_dp);
    struct xw_epoch d = {
        .epoch = 1, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = dp, .n_peers = 2};
    xw_start_executor(w, 0);
    start_held(w, 1, DEVICE);
    xw_prepare(w, &d);
    xw_send_start(w, 0, 1, 0);
    xw_send_start(w, 1, 1, 0);
    xw_await_step(w, 0, 2);
    xw_send_ref(w, 0, HSP_MSG_STOP, 1);
    xw_send_ref(w, 1, HSP_MSG_STOP, 1);
    xw_await(w, 0, HSP_MSG_STOPPED);
    xw_await(w, 1, HSP_MSG_STOPPED);
    assert_true(room_comes_at(w, 1));
    d = (struct xw_epoch){
        .epoch = 2, .plan_no = 2, .mode = HSP_MODE_FRESH, .plan = one, .n_peers = 2};
    xw_send_prepare(w, &d);
    xw_send_ref(w, 1, HSP_MSG_DROP, 1);
    xw_await(w, 1, HSP_MSG_DROPPED); /* epoch 2 is being prepared */
    assert_true(room_comes_at(w, 1));
    leave(w);
    for (int beats = 0; beats < 20 && room_comes_at(w, 1); beats++) {
        xw_await_beat(w, 1);
    }
    assert_false(room_comes_at(w, 1));
    (void)hsp_epoch_plan_free(one);
    (void)hsp_epoch_plan_free(dp);
}

/* No answer waits until device memory is freed. A PREPARE that needs the device waits for that, and
 * can be cancelled meanwhile. */
static void test_no_answer_waits_for_the_device(void **state)
{
    struct xw_world *w = hold(state, DEVICE);
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one);
    begin(w, one, 1);
    order(w, HSP_MSG_SEAL, HSP_MSG_SEALED, 2);
    struct xw_epoch d = recovery(w, one, 3, 1, 1);
    xw_send_prepare(w, &d);
    for (int beats = 0; beats < 3;) {
        assert_true(xw_next_msg(w, 0, XW_WAIT_MS));
        assert_int_not_equal(w->last.type, HSP_MSG_READY);
        beats += w->last.type == HSP_MSG_HEARTBEAT;
    }
    order(w, HSP_MSG_SEAL, HSP_MSG_SEALED, 3);
    d = recovery(w, one, 4, 1, 1);
    xw_send_prepare(w, &d);
    order(w, HSP_MSG_DROP, HSP_MSG_DROPPED, 4);
    d = recovery(w, one, 5, 1, 1);
    xw_send_prepare(w, &d);
    xw_await_beat(w, 0);
    leave(w);
    xw_await(w, 0, HSP_MSG_READY);
    xw_send_start(w, 0, 5, d.step);
    xw_await_end(w, 0);
    (void)hsp_epoch_plan_free(one);
}

/* The sources of a recovery are unmapped when it is cancelled before it begins, or after its
 * transfer. No answer waits for that. */
static void test_no_answer_waits_until_sources_are_unmapped(void **state)
{
    struct xw_world *w = hold(state, SOURCES);
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one);
    begin(w, one, 1);
    order(w, HSP_MSG_SEAL, HSP_MSG_SEALED, 2);
    struct xw_epoch d = recovery(w, one, 3, 1, 2);
    xw_prepare(w, &d);
    order(w, HSP_MSG_SEAL, HSP_MSG_SEALED, 3);
    d = recovery(w, one, 4, 1, 3);
    xw_prepare(w, &d);
    xw_send_start(w, 0, 4, d.step);
    xw_await(w, 0, HSP_MSG_STARTED);
    order(w, HSP_MSG_SEAL, HSP_MSG_SEALED, 4);
    leave(w);
    order(w, HSP_MSG_STOP, HSP_MSG_STOPPED, 4);
    (void)hsp_epoch_plan_free(one);
}

static ino_t file_of(const struct xw_world *w, uint64_t plan, unsigned slot)
{
    char path[4300];
    struct stat sb;
    (void)snprintf(path, sizeof path, "%s/job-1+0+0+e%u+s%u.seg", w->ex[0].state_dir,
                   (unsigned)plan, slot);
    return stat(path, &sb) == 0 ? sb.st_ino : 0;
}

/* After a switch the old epoch is closed when the next epoch has voted, and no answer waits until
 * its memory is freed. The following switch uses its files. */
static void test_no_answer_waits_for_the_epoch_that_was_left(void **state)
{
    struct xw_world *w = hold(state, STATE);
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one);
    begin(w, one, 1);
    const ino_t first = file_of(w, 1, 0), second = file_of(w, 1, 1);
    for (uint64_t epoch = 2; epoch < 4; epoch++) {
        struct xw_epoch d = {.epoch = epoch,
                             .plan_no = epoch,
                             .from_no = epoch - 1,
                             .base = epoch - 1,
                             .mode = HSP_MODE_SWITCH,
                             .plan = one,
                             .from = one,
                             .n_peers = 1,
                             .n_live = 1,
                             .live = {{0, 0, 0}}};
        xw_prepare(w, &d);
        xw_send_ref(w, 0, HSP_MSG_ARM, epoch);
        xw_await(w, 0, HSP_MSG_STARTED);
        xw_await_step(w, 0, w->stable + 2);
        struct hsp_err err = {0};
        struct hsp_msg m = {.type = HSP_MSG_RELEASE,
                            .epoch = epoch,
                            .u.release = {.job = 1, .keep_plan = epoch, .known = epoch}};
        assert_ok(hsp_chan_send(&w->ex[0].chan, &m, &err), &err);
        xw_await(w, 0, HSP_MSG_RELEASED);
    }
    assert_int_equal(file_of(w, 1, 0) + file_of(w, 2, 0), 0);
    assert_true(first > 0 && second > 0);
    assert_int_equal(file_of(w, 3, 0) + file_of(w, 3, 1), first + second);
    order(w, HSP_MSG_SEAL, HSP_MSG_SEALED, 4);
    leave(w);
    (void)hsp_epoch_plan_free(one);
}

/* If the driver hangs, the executor stops its heartbeats, so that the agent kills it. */
static void test_who_cannot_give_memory_back_falls_silent(void **state)
{
    struct xw_world *w = hold(state, HANGS);
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one);
    uint32_t beats = 0;
    xw_await_beat(w, 0);
    leave(w);
    while (xw_next_msg(w, 0, 2000)) {
        assert_true(++beats < 8);
    }
    order(w, HSP_MSG_SEAL, HSP_MSG_SEALED, 2); /* else the epoch goes on */
    (void)hsp_epoch_plan_free(one);
}

HSP_TEST_FILE(executor_end_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_answer_waits_until_state_is_unmapped,
                                        xw_setup_device, xw_teardown),
        cmocka_unit_test_setup_teardown(test_room_is_told_before_the_answer, xw_setup_device,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_room_that_came_meanwhile_is_not_told, xw_setup_device,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_room_comes_from_a_source, xw_setup_device,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_no_answer_waits_for_the_device, xw_setup_device,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_no_answer_waits_until_sources_are_unmapped, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_no_answer_waits_for_the_epoch_that_was_left, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_who_cannot_give_memory_back_falls_silent, xw_setup,
                                        xw_teardown),
    };
    return cmocka_run_group_tests_name("executorend", tests, NULL, NULL);
}
