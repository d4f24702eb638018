/* Checks executors on mock devices, whose memory the host cannot access and which do their work
 * later than the call (tests/lib/mockdev.h). The results must have the same bits as on CPUs. Also
 * checks messages about insufficient memory, a device that fails within a step, and an executor
 * that is killed within an update. */
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/host/file_io.h"
#include "tests/unit/worker/executor/executor_world.h"
#include "worker/exec/pace.h"
#include "worker/exec/state_watch.h"
#include "worker/executor/epoch.h"
#include "worker/executor/executor.h"
#include "worker/state/segment.h"
#include "worker/state/segment_name.h"

/* Begins a fresh job on the ranks of @plan, as epoch @epoch in layout @plan_no. */
static void begin(struct xw_world *w, struct hsp_epoch_plan *plan, uint64_t epoch, uint64_t plan_no)
{
    int n = (int)plan->plan->n_ranks;
    struct xw_epoch d = {
        .epoch = epoch, .plan_no = plan_no, .mode = HSP_MODE_FRESH, .plan = plan, .n_peers = n};
    for (int i = 0; i < n; i++) {
        w->mockdev[i].must_pin = !w->mockdev[i].no_pin;
        if (w->ex[i].pid == 0) {
            xw_start_executor(w, i);
        }
    }
    xw_prepare(w, &d);
    for (int i = 0; i < n; i++) {
        xw_send_start(w, i, epoch, 0);
    }
}

/* The results of a job. */
struct run {
    double loss[XW_STEPS], val[XW_STEPS];
    uint8_t *model;
    size_t bytes;
};

static void forget(struct xw_world *w)
{
    memset(w->loss, 0, sizeof w->loss);
    memset(w->val, 0, sizeof w->val);
    w->stable = w->said_in = 0;
    w->final = w->finished = false;
}

static void train(struct xw_world *w, struct hsp_epoch_plan *plan, bool device, struct run *ret)
{
    struct hsp_err err = {0};
    char path[4300];
    w->device = device;
    begin(w, plan, 1, 1);
    xw_await_end(w, 0);
    memcpy(ret->loss, w->loss, sizeof w->loss);
    memcpy(ret->val, w->val, sizeof w->val);
    (void)snprintf(path, sizeof path, "%s/t/final/model.safetensors", w->dir);
    assert_ok(hsp_file_read(path, 1 << 26, &ret->model, &ret->bytes, &err), &err);
    for (uint32_t i = 0; i < plan->plan->n_ranks; i++) {
        xw_end(&w->ex[i]);
        assert_ok(hsp_segname_discard(w->ex[i].state_dir, 1, 0, 0, &err), &err);
    }
    forget(w);
}

static void same_bits(struct xw_world *w, const char *text)
{
    struct hsp_epoch_plan *plan = xw_make_plan(w, text);
    struct run cpu, device;
    train(w, plan, false, &cpu);
    train(w, plan, true, &device);
    assert_memory_equal(cpu.loss, device.loss, sizeof cpu.loss);
    assert_memory_equal(cpu.val, device.val, sizeof cpu.val);
    assert_int_equal(cpu.bytes, device.bytes);
    assert_memory_equal(cpu.model, device.model, cpu.bytes);
    free(cpu.model);
    free(device.model);
    (void)hsp_epoch_plan_free(plan);
}

static void test_training_has_the_same_bits(void **state)
{
    same_bits(*state, xw_plan_dp);
    same_bits(*state, xw_plan_pp);
}

static void test_so_has_training_in_bf16(void **state)
{
    struct xw_world *w = *state;
    xw_compute(w, "bf16");
    same_bits(w, xw_plan_dp);
}

/* A CPU and a mock device are in one group, and each of the two is rank 0 once. Both kinds of
 * groups are checked: sums over two data parallel ranks, and sums within a layer of which two ranks
 * have a part each. */
static void test_cpus_and_devices_in_one_group(void **state)
{
    struct xw_world *w = *state;
    w->cpu[1] = true;
    same_bits(w, xw_plan_dp);
    same_bits(w, xw_plan_pp);
    w->cpu[1] = false;
    w->cpu[0] = w->cpu[2] = true;
    same_bits(w, xw_plan_dp);
    same_bits(w, xw_plan_pp);
}

/* Returns the newest version of which all ranks 0 to @n - 1 of layout @plan have their homes. */
static uint64_t newest_of_all(struct xw_world *w, int n, uint64_t plan)
{
    uint64_t version = UINT64_MAX;
    for (int i = 0; i < n; i++) {
        struct hsp_m_holding *held = NULL;
        uint32_t n_held = 0;
        struct hsp_err err = {0};
        uint64_t best = 0;
        assert_ok(hsp_segname_scan(w->ex[i].state_dir, &held, &n_held, &err), &err);
        for (uint32_t k = 0; k < n_held; k++) {
            if (held[k].owner == held[k].rank && held[k].plan == plan && held[k].version > best) {
                best = held[k].version;
            }
        }
        free(held);
        version = best < version ? best : version;
    }
    return version;
}

/* The time at which the executor of device 1 fails or is killed; for executors forked from now
 * on. */
enum moment { NEVER, SAVED, UPDATES };
static struct {
    enum moment when;
    uint64_t left; /* number of versions that the device saves before */
} fails;

/* This executor is to be killed within the next update. */
static atomic_bool dies;
static uint32_t n_ops; /* number of ops until it dies; of the computing thread */

/* ---- memory that steps ask for ---- */

enum { FIRST = 12, LAST = 52 }; /* counted between these versions; validated before */

static atomic_uint *asked;         /* number of takes, of all executors; NULL: not counted */
static atomic_bool counts;         /* this executor counts now */
static struct hsp_backend mockdev; /* the original functions */

static void count_call(void)
{
    if (atomic_load(&counts)) {
        atomic_fetch_add(asked, 1);
    }
}

static enum hsp_status counted_alloc(struct hsp_backend *b, enum hsp_mem mem, size_t bytes,
                                     void **ret, struct hsp_err *err)
{
    count_call();
    return mockdev.alloc(b, mem, bytes, ret, err);
}

static enum hsp_status counted_pin(struct hsp_backend *b, void *p, size_t bytes,
                                   struct hsp_err *err)
{
    count_call();
    return mockdev.pin(b, p, bytes, err);
}

static bool counted_unpin(struct hsp_backend *b, void *p)
{
    count_call();
    return mockdev.unpin(b, p);
}

__typeof__(hsp_mockdev_open) __real_hsp_mockdev_open, __wrap_hsp_mockdev_open;

enum hsp_status __wrap_hsp_mockdev_open(const struct hsp_mockdev_opts *o, struct hsp_backend **ret,
                                        struct hsp_err *err)
{
    enum hsp_status st = __real_hsp_mockdev_open(o, ret, err);
    if (st == HSP_OK && asked != NULL) {
        mockdev = **ret;
        (*ret)->alloc = counted_alloc;
        (*ret)->pin = counted_pin;
        (*ret)->unpin = counted_unpin;
    }
    return st;
}

/* The steps of an epoch take no memory of the device and pin none, also if they validate, or if a
 * version is sealed, copied, or saved meanwhile. */
static void test_steps_take_no_memory(void **state)
{
    struct xw_world *w = *state;
    const struct {
        const char *plan;
        uint32_t due_every;
    } c[] = {{xw_plan_dp, 0}, {xw_plan_dp, 4}, {xw_plan_pp, 4}};
    asked = mmap(NULL, sizeof *asked, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(asked != MAP_FAILED);
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        struct hsp_epoch_plan *plan = xw_make_plan(w, c[i].plan);
        struct run r;
        w->due_every = c[i].due_every;
        train(w, plan, true, &r);
        assert_int_equal(atomic_load(asked), 0);
        free(r.model);
        (void)hsp_epoch_plan_free(plan);
    }
    assert_int_equal(munmap(asked, sizeof *asked), 0);
    asked = NULL;
} /* dies after n_ops of the computing thread */

static void count(const struct hsp_ex_epoch *e)
{
    if (fails.when == NEVER || strcmp(e->env->node, "n1") != 0 || fails.left-- > 0) {
        return;
    }
    if (fails.when == SAVED) {
        hsp_mockdev_fail_copy(e->env->backend);
    } else {
        atomic_store(&dies, true);
    }
}

/* These declarations make the compiler check that each wrap has the type of its function. */
__typeof__(hsp_epoch_device_save) __real_hsp_epoch_device_save, __wrap_hsp_epoch_device_save;
__typeof__(hsp_state_watch_before) __real_hsp_state_watch_before, __wrap_hsp_state_watch_before;
__typeof__(hsp_pace_done) __real_hsp_pace_done, __wrap_hsp_pace_done;

enum hsp_status __wrap_hsp_epoch_device_save(struct hsp_ex_epoch *e, uint64_t version,
                                             struct hsp_err *err)
{
    count(e);
    atomic_store(&counts, asked != NULL && version >= FIRST && version < LAST);
    return __real_hsp_epoch_device_save(e, version, err);
}

/* Returns the number of ops from @first to the second update before @end if more updates follow,
 * else 0. */
static uint32_t ops_to_the_midst(const struct hsp_instr *instrs, uint32_t first, uint32_t end)
{
    uint32_t n = 0, before = 0, updates = 0;
    for (uint32_t k = first; k < end; k++) {
        bool update = instrs[k].kind == HSP_I_OP && instrs[k].op == HSP_OP_ADAMW;
        n += instrs[k].kind == HSP_I_OP || instrs[k].kind == HSP_I_ACC;
        updates += update;
        before = update && updates == 2 ? n : before;
    }
    return updates > 2 ? before : 0;
}

enum hsp_status __wrap_hsp_state_watch_before(struct hsp_engine *e, uint32_t first, uint32_t end,
                                              struct hsp_err *err)
{
    enum hsp_status st = __real_hsp_state_watch_before(e, first, end, err);
    if (atomic_load(&dies) && n_ops == 0) {
        n_ops = ops_to_the_midst(hsp_engine_program(e)->tpl.instrs, first, end);
    }
    return st;
}

void __wrap_hsp_pace_done(struct hsp_pace *p)
{
    __real_hsp_pace_done(p);
    if (n_ops > 0 && --n_ops == 0) {
        (void)raise(SIGKILL);
    }
}

/* Lets device 1 fail as @how or `fails` says, so that its process ends with @status. Asserts that
 * another process goes on from the sealed state, and that no committed step is lost. Returns the
 * newest committed step. */
static uint64_t fail_and_go_on(struct xw_world *w, struct hsp_mockdev_opts how, int status,
                               const double *loss)
{
    struct hsp_epoch_plan *dp = xw_make_plan(w, xw_plan_dp);
    w->mockdev[1] = how;
    begin(w, dp, 11, 1);
    w->mockdev[1] = (struct hsp_mockdev_opts){.seed = 0};
    fails.when = NEVER;
    assert_int_equal(xw_await_exit(w, 1), status);
    xw_await(w, 0, HSP_MSG_PEER_LOST);
    xw_send_ref(w, 0, HSP_MSG_SEAL, 12);
    xw_await(w, 0, HSP_MSG_SEALED);
    uint64_t committed = w->stable, version = newest_of_all(w, 2, 1);
    assert_true(version >= committed && version < XW_STEPS);
    xw_start_executor(w, 1);
    struct xw_epoch next =
        xw_go_on(13, HSP_MODE_RECOVER, (struct xw_layout){1, dp}, (struct xw_layout){1, dp}, 2);
    next.n_peers = 2;
    next.step = version;
    xw_prepare(w, &next);
    xw_send_start(w, 0, 13, version);
    xw_send_start(w, 1, 13, version);
    xw_await_end(w, 0);
    xw_assert_same(loss, w->loss);
    struct hsp_err err = {0};
    for (int i = 0; i < 2; i++) {
        xw_end(&w->ex[i]);
        assert_ok(hsp_segname_discard(w->ex[i].state_dir, 1, 0, 0, &err), &err);
    }
    forget(w);
    (void)hsp_epoch_plan_free(dp);
    return committed;
}

static void test_a_device_fails(void **state)
{
    struct xw_world *w = *state;
    double loss[XW_STEPS], val[XW_STEPS];
    uint64_t committed = 0;
    w->device = false;
    xw_reference(w, loss, val);
    w->device = true;
    const char *log = xw_log(w);
    for (uint64_t i = 0; i < 4; i++) {
        const struct hsp_mockdev_opts how = {.fail_at =
                                                 (uint64_t)hsp_test_range("fails", i, 2000, 6000)};
        committed += fail_and_go_on(w, how, HSP_EXIT_DEVICE, loss);
    }
    assert_true(committed > 0);
    /* The device fails while a version is copied from it to the segment. That version must not be
     * used, because it is not complete. */
    const struct hsp_mockdev_opts plain = {.seed = 0};
    fails.when = SAVED;
    fails.left = (uint64_t)hsp_test_range("copies", 0, 10, 20);
    assert_true(fail_and_go_on(w, plain, HSP_EXIT_DEVICE, loss) > 0);
    assert_int_equal(
        xw_lines_with(log, "device 0 has failed: mockdev: the device failed: this executor ends"),
        5);
}

/* The executor is killed within an update, when a part of the next version is written over the
 * state in use. No process may read this state later. */
static void test_an_executor_is_killed_in_an_update(void **state)
{
    struct xw_world *w = *state;
    const struct hsp_mockdev_opts plain = {.seed = 0};
    double loss[XW_STEPS], val[XW_STEPS];
    w->device = false;
    xw_reference(w, loss, val);
    for (uint64_t i = 0; i < 3; i++) {
        fails.when = UPDATES;
        fails.left = (uint64_t)hsp_test_range("updates", i, 0, 20);
        uint64_t saved = 1 + fails.left; /* newest version sealed whose vote has passed */
        assert_true(fail_and_go_on(w, plain, -SIGKILL, loss) + 1 >= saved);
    }
}

/* The device fails at its first work, so the state cannot be loaded. */
static void test_a_device_fails_at_once(void **state)
{
    struct xw_world *w = *state;
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one);
    (void)xw_log(w);
    w->mockdev[0].fail_at = 1;
    begin(w, one, 11, 1);
    assert_int_equal(xw_await_exit(w, 0), HSP_EXIT_DEVICE);
    (void)hsp_epoch_plan_free(one);
}

static uint64_t taken(struct xw_world *w, struct hsp_epoch_plan *plan)
{
    begin(w, plan, 1, 1);
    uint64_t bytes = w->last.u.ready.mem_bytes;
    xw_end(&w->ex[0]);
    struct hsp_err err = {0};
    assert_ok(hsp_segname_discard(w->ex[0].state_dir, 1, 0, 0, &err), &err);
    return bytes;
}

/* PREPARE of a plan that needs too much memory fails with a fact and a reason, and the executor can
 * prepare other plans. */
static void test_memory_does_not_suffice(void **state)
{
    struct xw_world *w = *state;
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one);
    uint64_t need = taken(w, one);
    const size_t less[] = {1 << 16, (size_t)need / 2};
    for (int i = 0; i < 2; i++) {
        struct xw_epoch d = {
            .epoch = 5, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = one, .n_peers = 1};
        w->mockdev[0].memory = less[i];
        xw_start_executor(w, 0);
        xw_send_prepare(w, &d);
        do {
            assert_true(xw_next_msg(w, 0, XW_WAIT_MS));
        } while (w->last.type != HSP_MSG_PREPARE_FAILED);
        assert_int_equal(w->last.u.failed.fact, HSP_FACT_OUT_OF_MEMORY);
        assert_non_null(strstr(w->last.u.failed.reason, "no memory for "));
        xw_await_beat(w, 0);
        xw_end(&w->ex[0]);
    }
    (void)hsp_epoch_plan_free(one);
}

/* Switches on devices with memory for one epoch and not for two: the next epoch gets the memory of
 * the running epoch. */
static void switch_in_the_memory_of_one(struct xw_world *w)
{
    double loss[XW_STEPS], val[XW_STEPS];
    xw_reference(w, loss, val);
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one), *dp = xw_make_plan(w, xw_plan_dp);
    w->mockdev[0].memory = (size_t)taken(w, one) + (1 << 16);
    w->speed = 0.1;
    begin(w, one, 11, 1);
    xw_await_step(w, 0, 10);
    xw_start_executor(w, 1);
    struct xw_epoch second = {.epoch = 12,
                              .plan_no = 2,
                              .from_no = 1,
                              .base = 11,
                              .mode = HSP_MODE_SWITCH,
                              .plan = dp,
                              .from = one,
                              .n_peers = 2,
                              .n_live = 1,
                              .live = {{0, 0, 0}}};
    xw_prepare(w, &second);
    xw_send_ref(w, 0, HSP_MSG_ARM, 12);
    xw_await(w, 1, HSP_MSG_STARTED);
    xw_await_end(w, 0);
    xw_assert_same(loss, w->loss);
    xw_assert_same(val, w->val);
    (void)hsp_epoch_plan_free(one);
    (void)hsp_epoch_plan_free(dp);
}

/* The switch succeeds, although no device memory is freed while steps run. */
static void test_a_switch_in_the_memory_of_one_epoch(void **state)
{
    struct xw_world *w = *state;
    w->mockdev[0].keeps = w->mockdev[1].keeps = true;
    switch_in_the_memory_of_one(w);
}

/* Returns true if executor @dev has mapped files of its state folder. */
static bool maps_state(const struct xw_world *w, int dev)
{
    char path[64], line[4500];
    bool any = false;
    (void)snprintf(path, sizeof path, "/proc/%d/maps", (int)w->ex[dev].pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        any = any || strstr(line, w->ex[dev].state_dir) != NULL;
    }
    (void)fclose(f);
    return any;
}

/* Memory that could not be freed while the steps of a job ran is freed when the job ends, and not
 * only when the next job begins. */
static void test_nothing_is_kept_of_a_job_that_is_over(void **state)
{
    struct xw_world *w = *state;
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one);
    w->mockdev[0].keeps = true;
    begin(w, one, 1, 1);
    xw_await_end(w, 0);
    assert_true(maps_state(w, 0));
    xw_send_ref(w, 0, HSP_MSG_STOP, 1);
    xw_await(w, 0, HSP_MSG_STOPPED);
    for (int k = 0; k < 20 && maps_state(w, 0); k++) {
        xw_await_beat(w, 0);
    }
    assert_false(maps_state(w, 0));
    (void)hsp_epoch_plan_free(one);
}

static atomic_bool trims_slowly; /* makes the first trim slow, in executors forked from now on */

/* This declaration makes the compiler check that the wrap has the type of its function. */
__typeof__(hsp_epoch_device_trim) __real_hsp_epoch_device_trim, __wrap_hsp_epoch_device_trim;

void __wrap_hsp_epoch_device_trim(void *env)
{
    if (atomic_exchange(&trims_slowly, false)) {
        (void)sleep(30);
    }
    __real_hsp_epoch_device_trim(env);
}

/* Memory that was kept until a job ends may be large. While it is freed, the executor sends
 * heartbeats. An epoch that is prepared meanwhile, and waits for the memory, can be dropped. */
static void test_what_goes_slowly_holds_no_heartbeat_up(void **state)
{
    struct xw_world *w = *state;
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one);
    struct xw_epoch d = {
        .epoch = 2, .plan_no = 2, .mode = HSP_MODE_FRESH, .plan = one, .n_peers = 1};
    w->mockdev[0].keeps = true;
    atomic_store(&trims_slowly, true);
    begin(w, one, 1, 1);
    atomic_store(&trims_slowly, false);
    xw_await_end(w, 0);
    xw_send_ref(w, 0, HSP_MSG_STOP, 1);
    xw_await(w, 0, HSP_MSG_STOPPED);
    int64_t from = hsp_clock_ns();
    xw_send_prepare(w, &d);
    for (int k = 0; k < 3; k++) {
        xw_await_beat(w, 0);
    }
    xw_send_ref(w, 0, HSP_MSG_DROP, 2);
    xw_await(w, 0, HSP_MSG_DROPPED);
    assert_true(hsp_clock_ns() - from < INT64_C(15000000000));
    (void)hsp_epoch_plan_free(one);
}

static uint32_t creates_slowly; /* number of segments that are created slowly */
static bool creates_for_ever;   /* creating a segment ends only when the epoch is cancelled */

__typeof__(hsp_segment_create) __real_hsp_segment_create, __wrap_hsp_segment_create;

enum hsp_status __wrap_hsp_segment_create(const char *dir, const struct hsp_segment_key *key,
                                          const struct hsp_whose *of,
                                          const struct hsp_segment_row *rows, uint32_t n,
                                          int64_t area_bytes, const struct hsp_segment_stop *stop,
                                          struct hsp_state_segment **ret, struct hsp_err *err)
{
    if (creates_slowly > 0 || creates_for_ever) {
        char path[4300];
        (void)snprintf(path, sizeof path, "%s/creating", dir);
        FILE *f = fopen(path, "a");
        if (f != NULL) {
            (void)fprintf(f, "a segment\n");
            (void)fclose(f);
        }
        while (creates_for_ever && !hsp_segment_stopped(stop)) {
            (void)usleep(1000);
        }
        (void)sleep(creates_for_ever ? 0 : 4);
        creates_slowly -= creates_for_ever ? 0 : 1;
    }
    return __real_hsp_segment_create(dir, key, of, rows, n, area_bytes, stop, ret, err);
}

/* Taking room for much state takes long. If DROP comes meanwhile, no more room is taken, and while
 * DROP waits for the end of the epoch, the executor sends heartbeats. */
static void test_an_epoch_is_dropped_as_it_takes_room(void **state)
{
    struct xw_world *w = *state;
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one);
    struct xw_epoch d = {
        .epoch = 2, .plan_no = 2, .mode = HSP_MODE_FRESH, .plan = one, .n_peers = 1};
    char path[4300];
    uint32_t beats = 0;
    creates_slowly = 2;
    xw_start_executor(w, 0);
    creates_slowly = 0;
    (void)snprintf(path, sizeof path, "%s/creating", w->ex[0].state_dir);
    xw_send_prepare(w, &d);
    while (access(path, F_OK) != 0) {
        xw_await_beat(w, 0);
    }
    xw_send_ref(w, 0, HSP_MSG_DROP, 2);
    do {
        assert_true(xw_next_msg(w, 0, XW_WAIT_MS));
        beats += w->last.type == HSP_MSG_HEARTBEAT;
    } while (w->last.type != HSP_MSG_DROPPED);
    assert_true(beats >= 4);
    assert_int_equal(xw_lines_with(path, "a segment"), 1);
    (void)hsp_epoch_plan_free(one);
}

/* An epoch that takes room ends soon after it is told to end, before it has all the room. */
static void test_an_epoch_that_takes_room_ends_when_it_is_told_to(void **state)
{
    static const struct {
        uint16_t order, answer;
    } all[] = {{HSP_MSG_DROP, HSP_MSG_DROPPED},
               {HSP_MSG_SEAL, HSP_MSG_SEALED},
               {HSP_MSG_STOP, HSP_MSG_STOPPED}};
    struct xw_world *w = *state;
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one);
    char path[4300];
    creates_for_ever = true;
    xw_start_executor(w, 0);
    creates_for_ever = false;
    (void)snprintf(path, sizeof path, "%s/creating", w->ex[0].state_dir);
    for (uint32_t i = 0; i < 3; i++) {
        struct xw_epoch d = {
            .epoch = 2 + i, .plan_no = 2 + i, .mode = HSP_MODE_FRESH, .plan = one, .n_peers = 1};
        xw_send_prepare(w, &d);
        do {
            xw_await_beat(w, 0);
        } while (access(path, F_OK) != 0 || xw_lines_with(path, "a segment") <= i);
        xw_send_ref(w, 0, all[i].order, d.epoch);
        xw_await(w, 0, all[i].answer);
    }
    (void)hsp_epoch_plan_free(one);
}

/* Training goes on if segments cannot be pinned, and each executor logs that once, also if it runs
 * two epochs. Four executors log it: that of the reference run, that of the run for the other
 * losses, and the two of the switch. */
static void test_segments_that_cannot_be_pinned(void **state)
{
    struct xw_world *w = *state;
    const char *log = xw_log(w);
    w->mockdev[0].no_pin = w->mockdev[1].no_pin = true;
    switch_in_the_memory_of_one(w);
    assert_int_equal(xw_lines_with(log, "is copied through memory that is not pinned, slowly: "
                                        "mockdev: cannot pin "),
                     4);
}

/* Restores a checkpoint of a CPU on a mock device (@device), or the other way round: checkpoints do
 * not depend on the kind of device. */
static void restore(struct xw_world *w, bool device, const double *loss)
{
    struct hsp_epoch_plan *dp = xw_make_plan(w, xw_plan_dp), *one = xw_make_plan(w, xw_plan_one);
    struct hsp_err err = {0};
    w->device = device;
    begin(w, dp, 21, 1);
    do {
        xw_await(w, 0, HSP_MSG_CHECKPOINTED);
    } while (w->last.u.ckpt.step != 25);
    for (int i = 0; i < 2; i++) {
        xw_end(&w->ex[i]);
        assert_ok(hsp_segname_discard(w->ex[i].state_dir, 1, 0, 0, &err), &err);
    }
    w->device = !device;
    xw_start_executor(w, 0);
    struct xw_epoch d = {
        .epoch = 22, .plan_no = 2, .mode = HSP_MODE_RESTORE, .step = 25, .plan = one, .n_peers = 1};
    xw_prepare(w, &d);
    xw_send_start(w, 0, 22, 25);
    xw_await_end(w, 0);
    xw_assert_same(loss, w->loss);
    xw_end(&w->ex[0]);
    assert_ok(hsp_segname_discard(w->ex[0].state_dir, 1, 0, 0, &err), &err);
    forget(w);
    (void)hsp_epoch_plan_free(one);
    (void)hsp_epoch_plan_free(dp);
}

static void test_checkpoints_are_the_same(void **state)
{
    struct xw_world *w = *state;
    double loss[XW_STEPS], val[XW_STEPS];
    xw_reference(w, loss, val);
    restore(w, true, loss);
    char path[4300]; /* folder of the checkpoint, written by the other kind */
    (void)snprintf(path, sizeof path, "%s/t", w->dir);
    hsp_test_rmdir(path);
    restore(w, false, loss);
}

/* Replaces the opening of the device by an error. */
static enum hsp_status refuse(const struct hsp_executor_opts *o, struct hsp_backend **ret,
                              struct hsp_err *err)
{
    (void)ret;
    return hsp_err_set(err, HSP_ENODEV, 0, "no GPU %d: there are none", o->gpu_index);
}

static void test_a_device_that_is_not_there(void **state)
{
    struct xw_world *w = *state;
    struct hsp_executor_opts o = {.fd = -1,
                                  .gpu_index = 3,
                                  .node = "n0",
                                  .state_dir = w->dir,
                                  .listen = "127.0.0.1",
                                  .speed = 1,
                                  .mem_bytes = 1 << 20,
                                  .threads = 1,
                                  .heartbeat_ms = 500,
                                  .log = hsp_log_new(-1, HSP_LOG_ERROR),
                                  .open = refuse};
    assert_int_equal(hsp_executor_main(&o), HSP_EXIT_DEVICE);
    (void)hsp_log_free((struct hsp_logger *)o.log);
}

HSP_TEST_FILE(executor_device_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_is_kept_of_a_job_that_is_over, xw_setup_device,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_what_goes_slowly_holds_no_heartbeat_up,
                                        xw_setup_device, xw_teardown),
        cmocka_unit_test_setup_teardown(test_an_epoch_that_takes_room_ends_when_it_is_told_to,
                                        xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_an_epoch_is_dropped_as_it_takes_room, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_segments_that_cannot_be_pinned, xw_setup_device,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_training_has_the_same_bits, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_so_has_training_in_bf16, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_steps_take_no_memory, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_cpus_and_devices_in_one_group, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_device_fails, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_an_executor_is_killed_in_an_update, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_device_fails_at_once, xw_setup_device, xw_teardown),
        cmocka_unit_test_setup_teardown(test_memory_does_not_suffice, xw_setup_device, xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_switch_in_the_memory_of_one_epoch, xw_setup_device,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_checkpoints_are_the_same, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_device_that_is_not_there, xw_setup, xw_teardown),
    };
    return cmocka_run_group_tests_name("executordevice", tests, NULL, NULL);
}
