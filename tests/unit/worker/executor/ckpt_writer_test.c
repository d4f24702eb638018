/* Checks that a failed checkpoint leaves no files on the disk, and for how long an epoch waits for
 * their deletion. In each test one writer writes one complete checkpoint. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/layout/box.h"
#include "tests/lib/testlib.h"
#include "worker/executor/ckpt_writer.h"
#include "worker/state/ckpt_files.h"
#include "worker/state/ckpt_shard.h"
#include "worker/state/ckpt_steps.h"

static struct hsp_pkg_param params[1] = {{"wte.weight", 2, {6, 4}}};

struct world {
    char *dir;
    char attempt[4400];
    struct hsp_exec_env env;
    struct hsp_m_prepare p;
    struct hsp_ex_epoch e;
    struct hsp_ckpt_info info;
    struct hsp_ckpt_piece piece;
    struct hsp_ckpt_writer w;
    uint64_t sweeps;
};

static void begin(struct world *x)
{
    char name[HSP_CKPT_NAME];
    memset(x, 0, sizeof *x);
    x->dir = hsp_test_tmpdir();
    x->p = (struct hsp_m_prepare){.job_name = "t", .n_ranks = 1, .checkpoint_path = x->dir};
    x->e = (struct hsp_ex_epoch){.env = &x->env, .p = &x->p, .member = true};
    x->e.pkg = (struct hsp_package){
        .dtype = HSP_F64, .n_params = 1, .params = params, .config_json = "{}"};
    (void)pthread_mutex_init(&x->e.lock, NULL);
    x->info = (struct hsp_ckpt_info){.job = "t", .step = 40, .n_ranks = 1, .n_params = 1};
    const struct hsp_box all = hsp_box_whole(2, params[0].ext);
    x->piece = (struct hsp_ckpt_piece){
        .name = params[0].name, .dtype = HSP_F64, .full = params[0].ext, .box = all, .held = all};
    hsp_ckpt_tmp_name(&x->info, name);
    (void)snprintf(x->attempt, sizeof x->attempt, "%s/t/%s", x->dir, name);
}

static enum hsp_status open_writer(struct world *x, struct hsp_err *err)
{
    const struct hsp_ckpt_order o = {
        .info = &x->info, .p = &x->piece, .n = 1, .sweeps = x->sweeps, .whole = true};
    return hsp_ckpt_writer_open(&x->e, &o, &x->w, err);
}

static void end(struct world *x)
{
    hsp_disk_threads_close(&x->env.disks);
    (void)pthread_mutex_destroy(&x->e.lock);
    hsp_test_rmdir(x->dir);
    free(x->dir);
}

/* A failed attempt to write a checkpoint leaves no folder: once the attempt ends without a commit;
 * once the process may write files of 0 bytes only, so that the folder of the attempt is made and
 * its file cannot be written. */
static void an_attempt_without_a_file_goes_too(void **state)
{
    struct world x;
    struct hsp_err err = {0};
    struct rlimit was, none;
    (void)state;
    begin(&x);
    assert_ok(open_writer(&x, &err), &err);
    assert_int_equal(access(x.attempt, F_OK), 0);
    hsp_ckpt_writer_end(&x.w, false);
    assert_int_not_equal(access(x.attempt, F_OK), 0);
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    enum hsp_status st = open_writer(&x, &err);
    hsp_ckpt_writer_end(&x.w, false);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    (void)signal(SIGXFSZ, old);
    assert_int_equal(st, HSP_ELIMIT);
    assert_int_not_equal(access(x.attempt, F_OK), 0);
    end(&x);
}

static atomic_int slow; /* calls of this kind do not return until `slow` changes */
enum { NOTHING, ABANDON, SWEEP, CLOSE };

static void go_on_while(int call)
{
    while (atomic_load(&slow) == call) {
        (void)usleep(1000);
    }
}

/* These declarations make the compiler check that each wrap has the type of its function. */
__typeof__(hsp_ckpt_abandon) __real_hsp_ckpt_abandon, __wrap_hsp_ckpt_abandon;

enum hsp_status __wrap_hsp_ckpt_abandon(const char *dir, const struct hsp_ckpt_info *us,
                                        struct hsp_err *err)
{
    go_on_while(ABANDON);
    return __real_hsp_ckpt_abandon(dir, us, err);
}

/* Ends the writer without a commit; the deletion of the files takes longer than the time limit. */
static void give_up(struct world *x)
{
    x->env.disk_ms = 20;
    hsp_ckpt_writer_end(&x->w, false);
    x->env.disk_ms = 0;
}

/* A working disk may take minutes to delete the files of a large attempt: the next checkpoint
 * begins while they are deleted. */
static void an_attempt_may_go_slowly(void **state)
{
    struct world x;
    struct hsp_err err = {0};
    (void)state;
    begin(&x);
    assert_ok(open_writer(&x, &err), &err);
    atomic_store(&slow, ABANDON);
    give_up(&x);
    assert_int_equal(access(x.attempt, F_OK), 0);
    for (unsigned n = 1; n < HSP_DISK_THREADS; n++) {
        x.info.step++;
        assert_ok(open_writer(&x, &err), &err);
        give_up(&x);
    }
    assert_int_equal(open_writer(&x, &err), HSP_ELIMIT); /* not HSP_ETIMEDOUT: no dead disk */
    assert_string_equal(
        err.msg, "12 earlier calls have not ended: a disk deletes slowly, or does not answer");
    atomic_store(&slow, NOTHING);
    (void)alarm(60);
    while (open_writer(&x, &err) != HSP_OK) {
        (void)usleep(1000);
    }
    hsp_ckpt_writer_end(&x.w, false);
    while (access(x.attempt, F_OK) == 0) {
        (void)usleep(1000);
    }
    (void)alarm(0);
    end(&x);
}

static atomic_uint n_sweeps;
__typeof__(hsp_ckpt_sweep) __real_hsp_ckpt_sweep, __wrap_hsp_ckpt_sweep;

enum hsp_status __wrap_hsp_ckpt_sweep(const char *dir, const struct hsp_ckpt_info *us,
                                      struct hsp_err *err)
{
    atomic_fetch_add(&n_sweeps, 1);
    go_on_while(SWEEP);
    return __real_hsp_ckpt_sweep(dir, us, err);
}

/* A working disk may take minutes to delete many left-overs. Checkpoints are written meanwhile, and
 * no second thread begins to delete left-overs. */
static void left_overs_may_go_slowly(void **state)
{
    struct world x;
    struct hsp_err err = {0};
    (void)state;
    begin(&x);
    x.env.disk_ms = 3000; /* the rest takes less */
    atomic_store(&slow, SWEEP);
    for (uint64_t n = 0; n < 2; n++) {
        x.info.step++;
        x.sweeps = x.info.step;
        assert_ok(open_writer(&x, &err), &err);
        hsp_ckpt_writer_end(&x.w, false);
    }
    assert_int_equal(atomic_load(&n_sweeps), 1);
    atomic_store(&slow, NOTHING);
    (void)alarm(60);
    while (atomic_load(&n_sweeps) == 1) { /* the next deletion begins when that one is done */
        assert_ok(open_writer(&x, &err), &err);
        hsp_ckpt_writer_end(&x.w, false);
    }
    (void)alarm(0);
    end(&x);
}

__typeof__(hsp_ckpt_stream_close) __real_hsp_ckpt_stream_close, __wrap_hsp_ckpt_stream_close;

enum hsp_status __wrap_hsp_ckpt_stream_close(struct hsp_ckpt_stream *s, uint64_t *ret_bytes,
                                             struct hsp_err *err)
{
    go_on_while(CLOSE);
    return __real_hsp_ckpt_stream_close(s, ret_bytes, err);
}

/* When an epoch ends, it waits only a moment for a running sync, but the disk has two minutes for
 * the sync. Within these two minutes the next epoch may begin a checkpoint beside the sync; after
 * them it may not. */
static void a_sync_outlasts_its_epoch(void **state)
{
    (void)state;
    for (uint32_t silent = 0; silent < 2; silent++) {
        struct world x;
        struct hsp_err err = {0};
        uint64_t bytes;
        begin(&x);
        assert_ok(open_writer(&x, &err), &err);
        atomic_store(&slow, CLOSE);
        x.e.cancelled = true;
        x.env.disk_ms = silent != 0 ? 20 : 0;
        assert_status(hsp_ckpt_writer_close(&x.w, &bytes, &err), HSP_ETIMEDOUT);
        hsp_ckpt_writer_end(&x.w, false);
        x.e.cancelled = false;
        x.env.disk_ms = 0;
        x.sweeps = ++x.info.step;
        assert_status(open_writer(&x, &err), silent != 0 ? HSP_ETIMEDOUT : HSP_OK);
        hsp_ckpt_writer_end(&x.w, false);
        assert_int_equal(access(x.attempt, F_OK), 0); /* not deleted: still in use */
        atomic_store(&slow, NOTHING);
        (void)alarm(60);
        while (access(x.attempt, F_OK) == 0) {
            (void)usleep(1000);
        }
        (void)alarm(0);
        end(&x);
    }
}

HSP_TEST_FILE(ckpt_writer_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_attempt_without_a_file_goes_too),
        cmocka_unit_test(an_attempt_may_go_slowly),
        cmocka_unit_test(left_overs_may_go_slowly),
        cmocka_unit_test(a_sync_outlasts_its_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
