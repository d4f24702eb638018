/* Checks how members of an epoch write a checkpoint if memory is lacking, folders are left over,
 * state is damaged, or disks do not answer, are slow, or are not mounted. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/worker/executor/epoch_members.h"
#include "worker/executor/epoch_checkpoint.h"
#include "worker/executor/epoch_replicate.h"
#include "worker/state/ckpt_files.h"
#include "worker/state/ckpt_shard.h"
#include "worker/state/ckpt_steps.h"
#include "worker/state/folder.h"

/* Makes a world of @n members. @shared: all members have the same folder for checkpoints. */
static void make_world(struct em_world *w, uint32_t n, bool shared)
{
    em_make_world(w, n);
    for (uint32_t r = 0; r < n; r++) {
        w->m[r].p.checkpoint_shared = shared;
    }
}

/* Asks all members for a checkpoint of EM_STEP and for no further version. */
static void make_last(struct em_world *w)
{
    for (uint32_t r = 0; r < w->n; r++) {
        w->m[r].e.checkpoint_at = EM_STEP;
        w->m[r].e.no_more_versions = true;
    }
}

static void keep_to_the_end(struct em_world *w, void (*keep)(struct em_member *m))
{
    make_last(w);
    em_start(w, keep);
    em_join(w);
}

/* ---- lack of memory on the thread of rank 2 ---- */

static unsigned nth_fails;
static _Thread_local unsigned allocation, failing; /* 0: none */

void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
    return failing != 0 && ++allocation == failing ? NULL : __real_calloc(n, size);
}

static void keep_without_memory(struct em_member *m)
{
    failing = m->p.rank == 2 ? nth_fails : 0;
    em_keep(m);
}

/* If a member lacks memory for a checkpoint, the other members must not wait forever for its
 * messages. */
static void a_member_without_memory_for_a_checkpoint_ends_the_epoch(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 2; kind++) {
        for (unsigned nth = 1; nth <= 2; nth++) {
            struct em_world w;
            make_world(&w, 3, kind == 1);
            nth_fails = nth;
            keep_to_the_end(&w, keep_without_memory);
            /* If rank 2 cannot write its part of a shared checkpoint, that is reported; all other
             * failures end the epoch. */
            bool told = kind == 1 && nth == 2;
            assert_int_equal(w.m[2].e.uncopied.code, told ? HSP_OK : HSP_ENOMEM);
            assert_int_equal(w.m[0].e.uncopied.code, told ? HSP_OK : HSP_ECANCELED);
            em_end_world(&w);
        }
    }
}

static void write_checkpoint(struct em_member *m)
{
    struct hsp_ckpt_sum sum = {0};
    m->disk = HSP_OK;
    m->err = (struct hsp_err){0};
    m->st = hsp_epoch_checkpoint(&m->e, EM_STEP, &sum, &m->disk, &m->err);
}

/* Lets all members write a checkpoint. Returns the result of rank 0. */
static enum hsp_status checkpoint(struct em_world *w, struct hsp_err *err)
{
    em_start(w, write_checkpoint);
    em_join(w);
    for (uint32_t r = 0; r < w->n; r++) {
        assert_ok(w->m[r].st, &w->m[r].err);
    }
    *err = w->m[0].err;
    return w->m[0].disk;
}

static bool is_there(const struct em_world *w, const char *name)
{
    char path[4400];
    (void)snprintf(path, sizeof path, "%s/t/%s", w->folder, name);
    return access(path, F_OK) == 0;
}

static void make_folder(const struct em_world *w, const char *name)
{
    char path[4400];
    struct hsp_err err = {0};
    struct hsp_folder f;
    (void)snprintf(path, sizeof path, "%s/t/%s", w->folder, name);
    assert_ok(hsp_folder_open(path, true, &f, &err), &err);
    hsp_folder_close(&f);
}

/* Returns the name of the folder in which the job of @w writes step @step before the commit. */
static const char *attempt(const struct em_world *w, uint64_t step)
{
    static char name[HSP_CKPT_NAME];
    const struct hsp_ckpt_info info = {.step = step,
                                       .job_id = w->m[0].p.job,
                                       .whose = {w->m[0].p.ckpt_cluster, w->m[0].p.generation}};
    hsp_ckpt_tmp_name(&info, name);
    return name;
}

/* A failed attempt must free its room on the disk, all the more if room was lacking. */
static void an_attempt_that_failed_leaves_nothing(void **state)
{
    struct hsp_err err;
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct em_world w;
        make_world(&w, 3, shared == 1);
        make_folder(&w, attempt(&w, 30));   /* left by a killed attempt */
        make_folder(&w, "step-0000000040"); /* the commit cannot take this name: */
        make_folder(&w, "step-0000000040/mine");
        make_folder(&w, attempt(&w, 50)); /* an attempt of another history */
        assert_int_equal(checkpoint(&w, &err), HSP_OK);
        assert_false(is_there(&w, attempt(&w, 30)));
        assert_true(is_there(&w, "step-0000000040/manifest.json"));
        assert_true(is_there(&w, attempt(&w, 50)));
        if (shared == 1) {
            w.m[1].p.checkpoint_path = "/dev/null/x"; /* rank 1 cannot write its part */
        } else {
            w.m[0].data.set.n_tokens = 2; /* rank 0 cannot make the manifest */
        }
        assert_int_equal(checkpoint(&w, &err), shared == 1 ? HSP_EIO : HSP_EINVAL);
        char shard[4400];
        (void)snprintf(shard, sizeof shard, "%s/shard-00001-model-00001-of-00001.safetensors",
                       attempt(&w, 40));
        assert_false(is_there(&w, shard));
        em_end_world(&w);
    }
}

/* Although the configuration says so, the path is not shared: rank 0 does not see the files that
 * rank 1 leaves on its own disk at each checkpoint. So rank 1 has to delete them. */
static void a_rank_deletes_what_it_left_on_its_own_disk(void **state)
{
    struct hsp_err err;
    struct em_world w;
    char own[4200], path[4500];
    (void)state;
    make_world(&w, 2, true);
    (void)snprintf(own, sizeof own, "%s/own", w.folder);
    w.m[1].p.checkpoint_path = own;
    for (int second = 0; second < 2; second++) {
        struct hsp_folder f;
        for (uint64_t step = 20; step <= 30; step += 10) {
            (void)snprintf(path, sizeof path, "%s/t/%s", own, attempt(&w, step));
            assert_ok(hsp_folder_open(path, true, &f, &err), &err);
            hsp_folder_close(&f);
        }
        w.m[1].e.ckpt_written = second ? 30 : 0;
        assert_int_equal(checkpoint(&w, &err), HSP_EDIGEST);
        assert_non_null(strstr(err.msg, ": checkpoint.path must be one folder on all nodes"));
        for (uint64_t step = 20; step <= 30; step += 10) { /* rank 0 may still commit step 30 */
            (void)snprintf(path, sizeof path, "%s/t/%s", own, attempt(&w, step));
            assert_int_equal(access(path, F_OK) == 0, step == 30 || !second);
        }
        assert_int_equal(w.m[1].e.ckpt_written, EM_STEP);
    }
    em_end_world(&w);
}

/* The previous epoch may still be writing its last checkpoint; its files must not be deleted. */
static void an_attempt_under_way_is_left_alone(void **state)
{
    struct hsp_err err;
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct em_world w;
        make_world(&w, 2, shared == 1);
        for (uint32_t r = 0; r < 2; r++) { /* attempt of the previous epoch */
            atomic_store(&w.m[r].env.writing, 1);
        }
        make_folder(&w, attempt(&w, 30));
        make_folder(&w, "step-0000000020");
        assert_ok(checkpoint(&w, &err), &err);
        assert_true(is_there(&w, "step-0000000040/manifest.json"));
        assert_true(is_there(&w, attempt(&w, 30)));
        assert_int_equal(atomic_load(&w.m[0].env.writing), 1);
        atomic_store(&w.m[0].env.writing, 0);
        atomic_store(&w.m[1].env.writing, 0);
        assert_ok(checkpoint(&w, &err), &err);
        assert_false(is_there(&w, attempt(&w, 30)));
        assert_false(is_there(&w, "step-0000000020"));
        em_end_world(&w);
    }
}

/* If an old checkpoint cannot be deleted, the new checkpoint is in place and usable all the
 * same. */
static void an_old_checkpoint_that_stays_makes_the_new_one_no_worse(void **state)
{
    struct hsp_err err;
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct em_world w;
        make_world(&w, 2, shared == 1);
        make_folder(&w, "step-0000000020/mine");
        assert_ok(checkpoint(&w, &err), &err);
        assert_true(is_there(&w, "step-0000000040/manifest.json"));
        em_end_world(&w);
    }
}

/* Damage that a checkpoint finds ends the epoch, because the next version is computed from the
 * damaged version. */
static void damage_that_a_checkpoint_finds_ends_the_epoch(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct em_world w;
        make_world(&w, 2, shared == 1);
        em_damage(&w.m[1], EM_STEP);
        keep_to_the_end(&w, em_keep);
        assert_int_equal(w.m[1].e.uncopied.code, HSP_EDIGEST);
        assert_int_equal(w.m[0].e.uncopied.code, HSP_ECANCELED);
        assert_false(is_there(&w, "step-0000000040/manifest.json"));
        em_end_world(&w);
    }
}

/* ---- faults of the disk ---- */

static struct em_member
    *at_writing; /* member whose home is damaged when its part is written; NULL: none */

/* The call to the file system that hangs until `hangs` is NEVER again. */
enum hanging { NEVER, AT_OPEN, AT_PUT, AT_COMMIT, AT_PRUNE };
static _Atomic(enum hanging) hangs;
static atomic_uint n_hung; /* number of calls that have hung so far */

static void hang(enum hanging at)
{
    if (atomic_load(&hangs) == at) {
        atomic_fetch_add(&n_hung, 1);
        while (atomic_load(&hangs) == at) {
            (void)usleep(1000);
        }
    }
}

static struct hsp_ex_epoch *_Atomic ends_at_open; /* epoch that ends when its checkpoint begins */
static atomic_uint n_puts;

enum hsp_status __wrap_hsp_ckpt_stream_open(const char *dir, const struct hsp_ckpt_info *info,
                                            uint32_t rank, const struct hsp_ckpt_piece *p, size_t n,
                                            struct hsp_ckpt_stream **ret, struct hsp_err *err);
enum hsp_status __real_hsp_ckpt_stream_open(const char *dir, const struct hsp_ckpt_info *info,
                                            uint32_t rank, const struct hsp_ckpt_piece *p, size_t n,
                                            struct hsp_ckpt_stream **ret, struct hsp_err *err);

enum hsp_status __wrap_hsp_ckpt_stream_open(const char *dir, const struct hsp_ckpt_info *info,
                                            uint32_t rank, const struct hsp_ckpt_piece *p, size_t n,
                                            struct hsp_ckpt_stream **ret, struct hsp_err *err)
{
    if (at_writing != NULL && at_writing->p.rank == rank) {
        em_damage(at_writing, EM_STEP);
    }
    struct hsp_ex_epoch *e = atomic_exchange(&ends_at_open, NULL);
    if (e != NULL) {
        (void)pthread_mutex_lock(&e->lock);
        e->cancelled = true;
        (void)pthread_mutex_unlock(&e->lock);
    }
    hang(AT_OPEN);
    return __real_hsp_ckpt_stream_open(dir, info, rank, p, n, ret, err);
}

enum hsp_status __wrap_hsp_ckpt_stream_put(struct hsp_ckpt_stream *s, size_t i,
                                           const struct hsp_box *part, const void *data,
                                           struct hsp_err *err);
enum hsp_status __real_hsp_ckpt_stream_put(struct hsp_ckpt_stream *s, size_t i,
                                           const struct hsp_box *part, const void *data,
                                           struct hsp_err *err);

enum hsp_status __wrap_hsp_ckpt_stream_put(struct hsp_ckpt_stream *s, size_t i,
                                           const struct hsp_box *part, const void *data,
                                           struct hsp_err *err)
{
    atomic_fetch_add(&n_puts, 1);
    hang(AT_PUT);
    return __real_hsp_ckpt_stream_put(s, i, part, data, err);
}

enum hsp_status __wrap_hsp_ckpt_commit(const char *dir, const struct hsp_ckpt_info *info,
                                       const struct hsp_data_cursor *data, const char *config_json,
                                       struct hsp_ckpt_done *ret, struct hsp_err *err);
enum hsp_status __real_hsp_ckpt_commit(const char *dir, const struct hsp_ckpt_info *info,
                                       const struct hsp_data_cursor *data, const char *config_json,
                                       struct hsp_ckpt_done *ret, struct hsp_err *err);

enum hsp_status __wrap_hsp_ckpt_commit(const char *dir, const struct hsp_ckpt_info *info,
                                       const struct hsp_data_cursor *data, const char *config_json,
                                       struct hsp_ckpt_done *ret, struct hsp_err *err)
{
    hang(AT_COMMIT);
    return __real_hsp_ckpt_commit(dir, info, data, config_json, ret, err);
}

/* These declarations make the compiler check that each wrap has the type of its function. */
__typeof__(hsp_ckpt_prune) __real_hsp_ckpt_prune, __wrap_hsp_ckpt_prune;

enum hsp_status __wrap_hsp_ckpt_prune(const char *dir, const struct hsp_ckpt_info *us, size_t keep,
                                      const struct hsp_m_cut *cut, uint32_t n_cuts,
                                      struct hsp_err *err)
{
    hang(AT_PRUNE);
    return __real_hsp_ckpt_prune(dir, us, keep, cut, n_cuts, err);
}

/* The server of a hard mount is dead: the epoch goes on after the time limit, and reports the path
 * that does not answer. The next checkpoint fails at once, without another call that hangs. When
 * the server is back, checkpoints are written again. */
static void a_disk_that_does_not_answer_ends_no_epoch(void **state)
{
    (void)state;
    for (int k = 0; k < 6; k++) {
        struct em_world w;
        struct hsp_err err = {0};
        char want[4400];
        make_world(&w, 2, k % 2 == 1);
        for (uint32_t r = 0; r < 2; r++) {
            w.m[r].env.disk_ms = k < 2 ? 100 : 500; /* long enough to reach the hanging call */
        }
        /* Only rank 0 commits a shared checkpoint. */
        const unsigned n = atomic_load(&n_hung) + (k == 5 ? 1 : 2);
        (void)snprintf(want, sizeof want, "n0/0: %s has not answered for ", w.folder);
        atomic_store(&hangs, (enum hanging)(AT_OPEN + k / 2));
        assert_int_equal(checkpoint(&w, &err), HSP_ETIMEDOUT);
        assert_true(strncmp(err.msg, want, strlen(want)) == 0);
        (void)alarm(60);
        while (atomic_load(&n_hung) != n) { /* the disk thread may begin late */
            (void)usleep(1000);
        }
        assert_int_equal(checkpoint(&w, &err), HSP_ETIMEDOUT);
        assert_true(strncmp(err.msg, want, strlen(want)) == 0);
        assert_int_equal(atomic_load(&n_hung), n);
        atomic_store(&hangs, NEVER);
        for (uint32_t r = 0; r < 2; r++) {
            w.m[r].env.disk_ms = 0;
        }
        (void)alarm(60);
        while (checkpoint(&w, &err) != HSP_OK) {
            (void)usleep(1000);
        }
        assert_true(is_there(&w, "step-0000000040/manifest.json"));
        em_end_world(&w);
    }
}

/* A slow disk may take long to delete a large checkpoint; the disk must not count as dead then. */
static void an_old_checkpoint_may_go_slowly(void **state)
{
    struct em_world w;
    struct hsp_err err = {0};
    (void)state;
    make_world(&w, 2, true);
    make_folder(&w, "step-0000000020");
    atomic_store(&hangs, AT_PRUNE);
    assert_ok(checkpoint(&w, &err), &err);
    assert_true(is_there(&w, "step-0000000040/manifest.json"));
    atomic_store(&w.m[0].env.writing, 1); /* then the next checkpoint deletes none */
    assert_ok(checkpoint(&w, &err), &err);
    assert_true(is_there(&w, "step-0000000020"));
    atomic_store(&hangs, NEVER);
    (void)alarm(60);
    while (is_there(&w, "step-0000000020")) {
        (void)usleep(1000);
    }
    (void)alarm(0);
    em_end_world(&w);
}

/* When an epoch ends, it does not wait for a hanging disk. */
static void an_epoch_that_is_over_leaves_its_disk(void **state)
{
    struct em_world w;
    pthread_t t;
    (void)state;
    make_world(&w, 1, false);
    struct hsp_ex_epoch *e = &w.m[0].e;
    make_last(&w);
    unsigned n = atomic_load(&n_hung);
    atomic_store(&hangs, AT_PUT);
    (void)alarm(20); /* HSP_DISK_MS is longer */
    assert_int_equal(pthread_create(&t, NULL, hsp_epoch_replication, e), 0);
    while (atomic_load(&n_hung) == n) {
        (void)usleep(1000);
    }
    (void)pthread_mutex_lock(&e->lock);
    e->cancelled = true;
    (void)pthread_mutex_unlock(&e->lock);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(e->uncopied.code, HSP_OK);
    atomic_store(&hangs, NEVER);
    while (is_there(&w, attempt(&w, EM_STEP))) {
        (void)usleep(1000);
    }
    (void)alarm(0);
    em_end_world(&w);
}

/* Each slab is written quickly, but all slabs together take long: an epoch that is over stops
 * between two slabs. */
static void an_epoch_that_is_over_writes_no_more(void **state)
{
    struct em_world w;
    (void)state;
    make_world(&w, 1, false);
    struct hsp_ex_epoch *e = &w.m[0].e;
    make_last(&w);
    unsigned n = atomic_load(&n_puts);
    atomic_store(&ends_at_open, e);
    (void)alarm(60);
    (void)hsp_epoch_replication(e);
    assert_int_equal(e->uncopied.code, HSP_OK);
    assert_int_equal(atomic_load(&n_puts), n);
    while (is_there(&w, attempt(&w, EM_STEP))) {
        (void)usleep(1000);
    }
    (void)alarm(0);
    em_end_world(&w);
}

/* Rank 0 runs its replication thread; rank 1 writes one checkpoint and ends. */
static void keep_or_write(struct em_member *m)
{
    if (m->p.rank == 0) {
        em_keep(m);
    } else {
        write_checkpoint(m);
        atomic_store(&hangs, NEVER);
    }
}

/* Asserts that no message was sent to the agent of @m. */
static void assert_told_nothing(const struct em_member *m)
{
    char byte;
    assert_true(recv(m->agent, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
}

/* Rank 1 learns before rank 0 that the epoch ends, and stops writing. Rank 0 must not report a
 * failed disk to hspmdd then: a job that is being suspended would go on. */
static void the_end_of_an_epoch_is_no_fault_of_a_disk(void **state)
{
    static const struct {
        bool shared, waits; /* waits: rank 1 waits for its disk; else between two slabs */
    } cases[] = {{false, false}, {true, false}, {true, true}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct em_world w;
        struct hsp_err err = {0};
        make_world(&w, 2, cases[k].shared);
        const struct em_member *m = &w.m[1];
        w.m[1].e.cancelled = cases[k].waits;
        atomic_store(&hangs, cases[k].waits ? AT_OPEN : NEVER);
        atomic_store(&ends_at_open, cases[k].waits ? NULL : &w.m[1].e);
        keep_to_the_end(&w, keep_or_write);
        assert_true(m->disk == HSP_ETIMEDOUT || (m->disk == HSP_ECANCELED && !cases[k].waits));
        assert_int_equal(w.m[0].e.uncopied.code, HSP_OK);
        assert_told_nothing(&w.m[0]);
        w.m[1].e.cancelled = false;
        (void)alarm(60);
        while (checkpoint(&w, &err) != HSP_OK) { /* the disk thread may still be writing */
            (void)usleep(1000);
        }
        em_end_world(&w);
    }
}

/* On some members the path is not mounted, so the folder of the job is missing there. No member
 * makes the folder. As soon as a person makes the folder, checkpoints are written, also if the job
 * began without it. */
static void what_is_not_mounted_gets_no_checkpoint(void **state)
{
    static const char *const who[] = {"n0/0: ", "n1/0: ", "n1/0 and 1 more: "};
    (void)state;
    for (uint32_t k = 0; k < 3; k++) { /* not mounted on rank 0; on rank 1; on ranks 1 and 2 */
        struct em_world w;
        struct hsp_err err = {0};
        char root[4300], job[4400], want[4600];
        make_world(&w, 3, true);
        (void)snprintf(root, sizeof root, "%s/root", w.dir);
        (void)snprintf(job, sizeof job, "%s/t", root);
        assert_int_equal(mkdir(root, 0700), 0);
        for (uint32_t r = 0; r < 3; r++) {
            w.m[r].p.mode = HSP_MODE_SWITCH; /* the job has begun before */
            w.m[r].p.checkpoint_path = r == k || (r == 1 && k == 2) ? root : w.folder;
        }
        assert_int_equal(checkpoint(&w, &err), k == 0 ? HSP_ENOENT : HSP_EIO);
        (void)snprintf(
            want, sizeof want, "%s%s/t is %s", who[k], k == 0 ? root : w.folder,
            k == 0 ? "not there: mount checkpoint.path, or make that folder for the user of "
                     "hspmd-worker"
                   : "not there, but is on n0/0: mount checkpoint.path on all nodes");
        assert_string_equal(err.msg, want);
        assert_int_equal(rmdir(root), 0); /* the folder is empty */
        for (uint32_t r = 0; r < 3; r++) {
            w.m[r].p.checkpoint_path = root;
        }
        assert_int_equal(mkdir(root, 0700), 0);
        assert_int_equal(mkdir(job, 0700), 0);
        assert_ok(checkpoint(&w, &err), &err);
        (void)snprintf(job, sizeof job, "%s/t/step-0000000040/manifest.json", root);
        assert_int_equal(access(job, F_OK), 0);
        em_end_world(&w);
    }
}

/* State that is damaged while it is written must not become a checkpoint: without the check, a
 * complete checkpoint of state that no rank ever had would be committed. */
static void state_damaged_while_it_is_written_is_no_checkpoint(void **state)
{
    struct em_world w;
    (void)state;
    make_world(&w, 2, true);
    at_writing = &w.m[1];
    keep_to_the_end(&w, em_keep);
    at_writing = NULL;
    em_assert_refused(w.m[1].e.uncopied.code, &w.m[1].e.uncopied, HSP_EDIGEST,
                      "version 40 here is damaged: wte.weight (param) [3:6, 0:4]");
    assert_int_equal(w.m[0].e.uncopied.code, HSP_ECANCELED);
    assert_false(is_there(&w, "step-0000000040/manifest.json"));
    em_end_world(&w);
}

HSP_TEST_FILE(epoch_checkpoint_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_without_memory_for_a_checkpoint_ends_the_epoch),
        cmocka_unit_test(an_attempt_that_failed_leaves_nothing),
        cmocka_unit_test(a_rank_deletes_what_it_left_on_its_own_disk),
        cmocka_unit_test(an_attempt_under_way_is_left_alone),
        cmocka_unit_test(an_old_checkpoint_that_stays_makes_the_new_one_no_worse),
        cmocka_unit_test(damage_that_a_checkpoint_finds_ends_the_epoch),
        cmocka_unit_test(a_disk_that_does_not_answer_ends_no_epoch),
        cmocka_unit_test(an_old_checkpoint_may_go_slowly),
        cmocka_unit_test(an_epoch_that_is_over_leaves_its_disk),
        cmocka_unit_test(an_epoch_that_is_over_writes_no_more),
        cmocka_unit_test(the_end_of_an_epoch_is_no_fault_of_a_disk),
        cmocka_unit_test(what_is_not_mounted_gets_no_checkpoint),
        cmocka_unit_test(state_damaged_while_it_is_written_is_no_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
