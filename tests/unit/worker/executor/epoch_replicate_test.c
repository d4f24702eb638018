/* What the keeper threads of members do when one of them cannot go on: nobody waits for what will not
 * come. Members over the loop transport, none of which computes. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/layout/box.h"
#include "tests/unit/worker/state/state_lib.h"
#include "worker/backend/cpu/cpu.h"
#include "worker/comm/loop/loop_comm.h"
#include "worker/executor/epoch.h"
#include "worker/executor/epoch_checkpoint.h"
#include "worker/executor/epoch_copies.h"
#include "worker/executor/epoch_replicate.h"
#include "worker/executor/epoch_train.h"
#include "worker/executor/epoch_twins.h"
#include "worker/state/ckpt_files.h"
#include "worker/state/ckpt_shard.h"
#include "worker/state/ckpt_steps.h"
#include "worker/state/folder.h"

#define MAX_RANKS 3
#define STEP      40

static struct hsp_pkg_param params[1] = {{"wte.weight", 2, {6, 4}}};

struct member {
    struct hsp_exec_env env;
    struct hsp_backend backend; /* no device: nothing is called; or */
    struct hsp_backend *cpu;    /* where an update is done */
    uint64_t read, sum[1];      /* the hash of what it has read; of what is computed with */
    struct hsp_chan chan;       /* to nobody who reads */
    int agent;                  /* the other end */
    struct hsp_ex_epoch e;
    struct hsp_m_prepare p;
    struct hsp_held_data data;
    struct hsp_pkg_row copy;
};

struct world {
    char *dir;
    char folder[4200]; /* of checkpoints */
    uint32_t n;
    struct hsp_pkg_peer peers[MAX_RANKS];
    struct hsp_pkg_row gather[MAX_RANKS];
    struct member m[MAX_RANKS];
};

static void make_home(const struct world *w, struct member *m, uint64_t version)
{
    struct hsp_segment_key key = {.job = "t", .epoch = 1, .slot = (uint32_t)(version % 2)};
    struct hsp_state_segment **s = &m->e.seg[version % 2];
    struct hsp_segment_row row = {.dtype = HSP_F64, .box = w->gather[m->p.rank].box};
    struct hsp_err err = {0};
    memcpy(row.full, params[0].ext, sizeof row.full);
    (void)snprintf(key.device, sizeof key.device, "n%u/0", m->p.rank);
    assert_ok(hsp_segment_create(w->dir, &key, &(struct hsp_whose){0}, &row, 1, 256, s, &err),
              &err);
    fill_box(HSP_F64, 0, HSP_STATE_PARAM, version, params[0].ext, &row.box, hsp_segment_area(*s));
}

/* The update of STEP is done. */
static void make_next(const struct world *w, struct member *m)
{
    struct hsp_err err = {0};
    make_home(w, m, STEP + 1);
    const struct hsp_state_segment *s = m->e.seg[(STEP + 1) % 2];
    size_t bytes = (size_t)hsp_segment_area_bytes(s);
    assert_ok(hsp_backend_cpu_open(1, &m->cpu, &err), &err);
    assert_ok(m->cpu->alloc(m->cpu, HSP_MEM_DEVICE, bytes, &m->e.dev.state, &err), &err);
    memcpy(m->e.dev.state, hsp_segment_area(s), bytes);
    m->e.dev.sum = m->sum;
    m->e.dev.seen = m->sum;
    m->env.backend = m->cpu;
    m->read = hsp_segment_row_hash(m->e.seg[STEP % 2], 0);
    m->e.dev.newest = (struct hsp_written){.version = STEP + 1, .read = &m->read};
    m->e.written = STEP + 1;
    assert_ok(hsp_epoch_twins_open(&m->e, &err), &err);
}

static void damage(struct member *m, uint64_t version)
{
    ((uint8_t *)hsp_segment_area(m->e.seg[version % 2]))[3] ^= 1;
}

static void make_member(struct world *w, uint32_t rank, struct hsp_comm *comm)
{
    struct member *m = &w->m[rank];
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    hsp_chan_init(&m->chan, pair[0]);
    m->agent = pair[1];
    m->env = (struct hsp_exec_env){.chan = &m->chan, .wake_fd = -1, .backend = &m->backend};
    m->data.set.n_bytes = m->data.set.n_tokens = 1000;
    m->p = (struct hsp_m_prepare){.job_name = "t",
                                  .rank = rank,
                                  .n_ranks = w->n,
                                  .n_peers = w->n,
                                  .checkpoint_path = w->folder};
    m->e = (struct hsp_ex_epoch){.env = &m->env,
                                 .p = &m->p,
                                 .member = true,
                                 .data = &m->data,
                                 .phase = HSP_EPOCH_RUNNING,
                                 .written = STEP,
                                 .sealed = STEP,
                                 .confirmed = HSP_NO_VERSION,
                                 .checkpoint_at = HSP_NO_VERSION};
    (void)pthread_mutex_init(&m->e.lock, NULL);
    (void)pthread_cond_init(&m->e.cond, NULL);
    m->e.pkg = (struct hsp_package){.dtype = HSP_F64,
                                    .n_kinds = 1,
                                    .kinds = {HSP_STATE_PARAM},
                                    .n_peers = w->n,
                                    .peers = w->peers,
                                    .n_params = 1,
                                    .params = params,
                                    .config_json = "{}",
                                    .gather = {.n = w->n, .row = w->gather}};
    m->e.prog.bind.data =
        (struct hsp_data_bind){.seed = 3, .global_batch = 2, .sequence = 4, .vocab = 256};
    m->e.mesh[HSP_MESH_STATE] = comm;
    make_home(w, m, STEP);
    hsp_segment_seal(m->e.seg[STEP % 2], STEP);
}

/* @equal: all have all of it; else each a part. */
static void make_members(struct world *w, uint32_t n, bool equal)
{
    static const char *const names[MAX_RANKS] = {"n0/0", "n1/0", "n2/0"};
    struct hsp_comm *comm[MAX_RANKS];
    struct hsp_err err = {0};
    char job[4300];
    memset(w, 0, sizeof *w);
    w->dir = hsp_test_tmpdir();
    (void)snprintf(w->folder, sizeof w->folder, "%s/ckpt", w->dir);
    (void)snprintf(job, sizeof job, "%s/t", w->folder);
    assert_int_equal(mkdir(w->folder, 0700), 0);
    assert_int_equal(mkdir(job, 0700), 0);
    w->n = n;
    assert_ok(hsp_loop_open(n, comm, &err), &err);
    for (uint32_t r = 0; r < n; r++) {
        struct hsp_box b = hsp_box_whole(2, params[0].ext);
        b.lo[0] = equal ? 0 : 6 * r / n;
        b.hi[0] = equal ? 6 : 6 * (r + 1) / n;
        w->peers[r].name = names[r];
        w->gather[r] = (struct hsp_pkg_row){.from = r, .box = b};
    }
    for (uint32_t r = 0; r < n; r++) {
        make_member(w, r, comm[r]);
    }
}

static void make_world(struct world *w, uint32_t n)
{
    make_members(w, n, false);
}

static void end_world(struct world *w)
{
    for (uint32_t r = 0; r < w->n; r++) {
        struct member *m = &w->m[r];
        m->e.mesh[HSP_MESH_STATE]->ops->close(m->e.mesh[HSP_MESH_STATE]);
        (void)hsp_segment_close(m->e.seg[STEP % 2]);
        (void)hsp_segment_close(m->e.seg[(STEP + 1) % 2]);
        hsp_epoch_twins_close(&m->e);
        hsp_disk_threads_close(&m->env.disks);
        if (m->cpu != NULL) {
            m->cpu->release(m->cpu, HSP_MEM_DEVICE, m->e.dev.state);
            m->cpu->close(m->cpu);
        }
        hsp_chan_fini(&m->chan);
        (void)close(m->agent);
        (void)pthread_cond_destroy(&m->e.cond);
        (void)pthread_mutex_destroy(&m->e.lock);
    }
    hsp_test_rmdir(w->dir);
    free(w->dir);
}

/* ---- want of memory on one thread ---- */

static _Thread_local unsigned allocation, failing; /* 0: none */

void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
    return failing != 0 && ++allocation == failing ? NULL : __real_calloc(n, size);
}

struct keeping {
    struct hsp_ex_epoch *e;
    unsigned failing;
};

static void *keep(void *arg)
{
    const struct keeping *k = arg;
    failing = k->failing;
    return hsp_epoch_keeper(k->e);
}

/* ---- tests ---- */

/* A vote waits for copies of its version; the one who makes them has not what it should copy. */
static void a_vote_does_not_wait_for_a_keeper_that_failed(void **state)
{
    struct world w;
    pthread_t t[2];
    struct hsp_err err = {0};
    (void)state;
    make_world(&w, 2);
    for (uint32_t r = 0; r < 2; r++) {
        struct member *m = &w.m[r];
        m->copy = (struct hsp_pkg_row){.from = 0, .to = 1, .box = w.gather[0].box};
        m->e.pkg.copies = (struct hsp_pkg_table){.n = 1, .row = &m->copy};
        m->e.no_more_versions = true; /* behind this one */
    }
    hsp_segment_unseal(w.m[0].e.seg[STEP % 2]);
    (void)alarm(60);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(pthread_create(&t[r], NULL, hsp_epoch_keeper, &w.m[r].e), 0);
    }
    assert_int_equal(hsp_epoch_await_confirmed(&w.m[0].e, STEP, &err), HSP_ENOENT);
    assert_string_equal(err.msg, "version 40 of wte.weight is not here as promised");
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(pthread_join(t[r], NULL), 0);
    }
    (void)alarm(0);
    end_world(&w);
}

static void the_end_of_an_epoch_ends_the_waiting_first(void **state)
{
    struct world w;
    struct hsp_err err = {0};
    (void)state;
    make_world(&w, 1);
    (void)hsp_err_set(&w.m[0].e.uncopied, HSP_ENOMEM, 0, "out of memory for copies");
    w.m[0].e.cancelled = true;
    assert_int_equal(hsp_epoch_await_confirmed(&w.m[0].e, STEP, &err), HSP_ECANCELED);
    w.m[0].e.cancelled = false;
    assert_int_equal(hsp_epoch_await_confirmed(&w.m[0].e, STEP, &err), HSP_ENOMEM);
    assert_string_equal(err.msg, "out of memory for copies");
    end_world(&w);
}

/* All meet for a checkpoint; a member without memory for it must not leave the others waiting. */
static void a_member_without_memory_for_a_checkpoint_ends_the_epoch(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 2; kind++) {
        for (unsigned nth = 1; nth <= 2; nth++) {
            struct world w;
            pthread_t t[3];
            struct keeping k[3];
            make_world(&w, 3);
            (void)alarm(60);
            for (uint32_t r = 0; r < 3; r++) {
                w.m[r].p.checkpoint_shared = kind == 1;
                w.m[r].e.checkpoint_at = STEP;
                w.m[r].e.no_more_versions = true;
                k[r] = (struct keeping){&w.m[r].e, r == 2 ? nth : 0};
                assert_int_equal(pthread_create(&t[r], NULL, keep, &k[r]), 0);
            }
            for (uint32_t r = 0; r < 3; r++) {
                assert_int_equal(pthread_join(t[r], NULL), 0);
            }
            (void)alarm(0);
            /* A part of a shared one that is not written is told of; else nothing can go on. */
            bool told = kind == 1 && nth == 2;
            assert_int_equal(w.m[2].e.uncopied.code, told ? HSP_OK : HSP_ENOMEM);
            assert_int_equal(w.m[0].e.uncopied.code, told ? HSP_OK : HSP_ECANCELED);
            end_world(&w);
        }
    }
}

struct writing {
    struct hsp_ex_epoch *e;
    enum hsp_status st, disk;
    struct hsp_err err;
};

static void *write_checkpoint(void *arg)
{
    struct writing *x = arg;
    struct hsp_ckpt_sum sum = {0};
    x->st = hsp_epoch_checkpoint(x->e, STEP, &sum, &x->disk, &x->err);
    return NULL;
}

/* All members write; what rank 0 says of it. */
static enum hsp_status checkpoint(struct world *w, struct hsp_err *err)
{
    pthread_t t[MAX_RANKS];
    struct writing x[MAX_RANKS];
    (void)alarm(60);
    for (uint32_t r = 0; r < w->n; r++) {
        x[r] = (struct writing){.e = &w->m[r].e};
        assert_int_equal(pthread_create(&t[r], NULL, write_checkpoint, &x[r]), 0);
    }
    for (uint32_t r = 0; r < w->n; r++) {
        assert_int_equal(pthread_join(t[r], NULL), 0);
        assert_ok(x[r].st, &x[r].err);
    }
    (void)alarm(0);
    *err = x[0].err;
    return x[0].disk;
}

static bool is_there(const struct world *w, const char *name)
{
    char path[4400];
    (void)snprintf(path, sizeof path, "%s/t/%s", w->folder, name);
    return access(path, F_OK) == 0;
}

static void make_folder(const struct world *w, const char *name)
{
    char path[4400];
    struct hsp_err err = {0};
    struct hsp_folder f;
    (void)snprintf(path, sizeof path, "%s/t/%s", w->folder, name);
    assert_ok(hsp_folder_open(path, true, &f, &err), &err);
    hsp_folder_close(&f);
}

/* The folder in which the job of @w writes step @step. */
static const char *attempt(const struct world *w, uint64_t step)
{
    static char name[HSP_CKPT_NAME];
    const struct hsp_ckpt_info info = {.step = step,
                                       .job_id = w->m[0].p.job,
                                       .whose = {w->m[0].p.ckpt_cluster, w->m[0].p.generation}};
    hsp_ckpt_tmp_name(&info, name);
    return name;
}

/* Its room is wanted, most of all when it was want of room that failed. */
static void an_attempt_that_failed_leaves_nothing(void **state)
{
    struct hsp_err err;
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct world w;
        make_world(&w, 3);
        for (uint32_t r = 0; r < 3; r++) {
            w.m[r].p.checkpoint_shared = shared == 1;
        }
        make_folder(&w, attempt(&w, 30));   /* of one that was killed */
        make_folder(&w, "step-0000000040"); /* ours cannot take the name: */
        make_folder(&w, "step-0000000040/mine");
        make_folder(&w, attempt(&w, 50)); /* of another history */
        assert_int_equal(checkpoint(&w, &err), HSP_OK);
        assert_false(is_there(&w, attempt(&w, 30)));
        assert_true(is_there(&w, "step-0000000040/manifest.json"));
        assert_true(is_there(&w, attempt(&w, 50)));
        if (shared == 1) {
            w.m[1].p.checkpoint_path = "/dev/null/x"; /* cannot write its part */
        } else {
            w.m[0].data.set.n_tokens = 2; /* there is no manifest for the shard */
        }
        assert_int_equal(checkpoint(&w, &err), shared == 1 ? HSP_EIO : HSP_EINVAL);
        char shard[4400];
        (void)snprintf(shard, sizeof shard, "%s/shard-00001-model-00001-of-00001.safetensors",
                       attempt(&w, 40));
        assert_false(is_there(&w, shard));
        end_world(&w);
    }
}

/* A path that is not shared, against what was said: rank 0 does not see what rank 1 leaves there at each checkpoint. */
static void a_rank_deletes_what_it_left_on_its_own_disk(void **state)
{
    struct hsp_err err;
    struct world w;
    char own[4200], path[4500];
    (void)state;
    make_world(&w, 2);
    (void)snprintf(own, sizeof own, "%s/own", w.folder);
    w.m[0].p.checkpoint_shared = w.m[1].p.checkpoint_shared = true;
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
        for (uint64_t step = 20; step <= 30; step += 10) { /* rank 0 may be at that of 30 */
            (void)snprintf(path, sizeof path, "%s/t/%s", own, attempt(&w, step));
            assert_int_equal(access(path, F_OK) == 0, step == 30 || !second);
        }
        assert_int_equal(w.m[1].e.ckpt_written, STEP);
    }
    end_world(&w);
}

/* The epoch before may still be at its last checkpoint. */
static void an_attempt_under_way_is_left_alone(void **state)
{
    struct hsp_err err;
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct world w;
        make_world(&w, 2);
        w.m[0].p.checkpoint_shared = w.m[1].p.checkpoint_shared = shared == 1;
        for (uint32_t r = 0; r < 2; r++) { /* that of the epoch before */
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
        end_world(&w);
    }
}

/* The new one is in place and can be begun with, whatever becomes of an old one. */
static void an_old_checkpoint_that_stays_makes_the_new_one_no_worse(void **state)
{
    struct hsp_err err;
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct world w;
        make_world(&w, 2);
        w.m[0].p.checkpoint_shared = w.m[1].p.checkpoint_shared = shared == 1;
        make_folder(&w, "step-0000000020/mine");
        assert_ok(checkpoint(&w, &err), &err);
        assert_true(is_there(&w, "step-0000000040/manifest.json"));
        end_world(&w);
    }
}

/* ---- damage ---- */

static void assert_refused(enum hsp_status st, const struct hsp_err *err, enum hsp_status want,
                           const char *why)
{
    assert_int_equal(st, want);
    assert_err(err, want, why);
}

static uint64_t sealed_next(const struct member *m)
{
    return hsp_segment_version(m->e.seg[(STEP + 1) % 2]);
}

/* Whoever comes second finds nothing that could be checked any more. */
static void what_one_thread_does_not_seal_no_other_seals(void **state)
{
    struct world w;
    struct hsp_err err = {0};
    (void)state;
    make_world(&w, 1);
    make_next(&w, &w.m[0]);
    w.m[0].read ^= 1;
    for (int i = 0; i < 2; i++) {
        assert_refused(hsp_epoch_seal_written(&w.m[0].e, &err), &err, HSP_EDIGEST,
                       "version 40 here is damaged: wte.weight (param) [0:6, 0:4] in main memory");
        assert_int_equal(sealed_next(&w.m[0]), HSP_NO_VERSION);
        assert_int_equal(w.m[0].e.sealed, STEP);
    }
    end_world(&w);
}

static void what_is_made_of_a_version_that_is_gone_is_not_sealed(void **state)
{
    struct world w;
    struct hsp_err err = {0};
    (void)state;
    for (int gone = 0; gone < 2; gone++) {
        make_world(&w, 1);
        make_next(&w, &w.m[0]);
        if (gone) {
            hsp_segment_unseal(w.m[0].e.seg[STEP % 2]); /* a checkpoint found it damaged */
            assert_refused(hsp_epoch_seal_written(&w.m[0].e, &err), &err, HSP_EDIGEST,
                           "version 40 here is damaged");
        } else {
            assert_ok(hsp_epoch_seal_written(&w.m[0].e, &err), &err);
        }
        assert_int_equal(sealed_next(&w.m[0]), gone ? HSP_NO_VERSION : STEP + 1);
        end_world(&w);
    }
}

/* The next version is made of it. */
static void damage_that_a_checkpoint_finds_ends_the_epoch(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct world w;
        pthread_t t[2];
        make_world(&w, 2);
        damage(&w.m[1], STEP);
        (void)alarm(60);
        for (uint32_t r = 0; r < 2; r++) {
            w.m[r].p.checkpoint_shared = shared == 1;
            w.m[r].e.checkpoint_at = STEP;
            w.m[r].e.no_more_versions = true;
            assert_int_equal(pthread_create(&t[r], NULL, hsp_epoch_keeper, &w.m[r].e), 0);
        }
        for (uint32_t r = 0; r < 2; r++) {
            assert_int_equal(pthread_join(t[r], NULL), 0);
        }
        (void)alarm(0);
        assert_int_equal(w.m[1].e.uncopied.code, HSP_EDIGEST);
        assert_int_equal(w.m[0].e.uncopied.code, HSP_ECANCELED);
        assert_false(is_there(&w, "step-0000000040/manifest.json"));
        end_world(&w);
    }
}

/* ---- a bit that flips behind the last comparison ---- */

static struct member *at_writing; /* whose home is damaged when its part is written; NULL: none */

/* A call of the disk that does not come back until hangs is NEVER again. */
enum hanging { NEVER, AT_OPEN, AT_PUT, AT_COMMIT, AT_PRUNE };
static _Atomic(enum hanging) hangs;
static atomic_uint n_hung; /* so far */

static void hang(enum hanging at)
{
    if (atomic_load(&hangs) == at) {
        atomic_fetch_add(&n_hung, 1);
        while (atomic_load(&hangs) == at) {
            (void)usleep(1000);
        }
    }
}

static struct hsp_ex_epoch *_Atomic ends_at_open; /* is over when the next checkpoint is begun */
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
        damage(at_writing, STEP);
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

/* The compiler compares them with the product's. */
__typeof__(hsp_ckpt_prune) __real_hsp_ckpt_prune, __wrap_hsp_ckpt_prune;

enum hsp_status __wrap_hsp_ckpt_prune(const char *dir, const struct hsp_ckpt_info *us, size_t keep,
                                      const struct hsp_m_cut *cut, uint32_t n_cuts,
                                      struct hsp_err *err)
{
    hang(AT_PRUNE);
    return __real_hsp_ckpt_prune(dir, us, keep, cut, n_cuts, err);
}

/* A dead server of a hard mount: the epoch goes on after its bound, and says which path does not answer. The
 * next checkpoint waits for nothing, and no second call hangs. When the server is back all is as before. */
static void a_disk_that_does_not_answer_ends_no_epoch(void **state)
{
    (void)state;
    for (int k = 0; k < 6; k++) {
        struct world w;
        struct hsp_err err = {0};
        char want[4400];
        make_world(&w, 2);
        for (uint32_t r = 0; r < 2; r++) {
            w.m[r].p.checkpoint_shared = k % 2 == 1;
            w.m[r].env.disk_ms = 100;
        }
        (void)snprintf(want, sizeof want, "n0/0: %s does not answer since ", w.folder);
        atomic_store(&hangs, (enum hanging)(AT_OPEN + k / 2));
        assert_int_equal(checkpoint(&w, &err), HSP_ETIMEDOUT);
        assert_true(strncmp(err.msg, want, strlen(want)) == 0);
        unsigned n = atomic_load(&n_hung);
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
        end_world(&w);
    }
}

/* It takes a slow disk long to delete a large one: that disk is not taken for dead. */
static void an_old_checkpoint_may_go_slowly(void **state)
{
    struct world w;
    struct hsp_err err = {0};
    (void)state;
    make_world(&w, 2);
    w.m[0].p.checkpoint_shared = w.m[1].p.checkpoint_shared = true;
    make_folder(&w, "step-0000000020");
    atomic_store(&hangs, AT_PRUNE);
    assert_ok(checkpoint(&w, &err), &err);
    assert_true(is_there(&w, "step-0000000040/manifest.json"));
    atomic_store(&w.m[0].env.writing, 1); /* none is deleted behind the next one */
    assert_ok(checkpoint(&w, &err), &err);
    assert_true(is_there(&w, "step-0000000020"));
    atomic_store(&hangs, NEVER);
    (void)alarm(60);
    while (is_there(&w, "step-0000000020")) {
        (void)usleep(1000);
    }
    (void)alarm(0);
    end_world(&w);
}

/* Who ends an epoch does not wait for its disk. */
static void an_epoch_that_is_over_leaves_its_disk(void **state)
{
    struct world w;
    pthread_t t;
    (void)state;
    make_world(&w, 1);
    struct hsp_ex_epoch *e = &w.m[0].e;
    e->checkpoint_at = STEP;
    e->no_more_versions = true;
    unsigned n = atomic_load(&n_hung);
    atomic_store(&hangs, AT_PUT);
    (void)alarm(20); /* HSP_DISK_MS is longer */
    assert_int_equal(pthread_create(&t, NULL, hsp_epoch_keeper, e), 0);
    while (atomic_load(&n_hung) == n) {
        (void)usleep(1000);
    }
    (void)pthread_mutex_lock(&e->lock);
    e->cancelled = true;
    (void)pthread_mutex_unlock(&e->lock);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(e->uncopied.code, HSP_OK);
    atomic_store(&hangs, NEVER);
    while (is_there(&w, attempt(&w, STEP))) {
        (void)usleep(1000);
    }
    (void)alarm(0);
    end_world(&w);
}

/* Each slab is written soon, all of them are not: an epoch that is over writes no more. */
static void an_epoch_that_is_over_writes_no_more(void **state)
{
    struct world w;
    (void)state;
    make_world(&w, 1);
    struct hsp_ex_epoch *e = &w.m[0].e;
    e->checkpoint_at = STEP;
    e->no_more_versions = true;
    unsigned n = atomic_load(&n_puts);
    atomic_store(&ends_at_open, e);
    (void)alarm(60);
    (void)hsp_epoch_keeper(e);
    assert_int_equal(e->uncopied.code, HSP_OK);
    assert_int_equal(atomic_load(&n_puts), n);
    while (is_there(&w, attempt(&w, STEP))) {
        (void)usleep(1000);
    }
    (void)alarm(0);
    end_world(&w);
}

/* The path of members is not mounted: the folder is none of the job's, and none is made in its place. As soon as
 * a person makes it there are checkpoints, also when the job began without it. */
static void what_is_not_mounted_gets_no_checkpoint(void **state)
{
    static const char *const who[] = {"n0/0: ", "n1/0: ", "n1/0 and 1 more: "};
    (void)state;
    for (uint32_t k = 0; k < 3; k++) { /* rank 0; rank 1; ranks 1 and 2 */
        struct world w;
        struct hsp_err err = {0};
        char root[4300], job[4400], want[4600];
        make_world(&w, 3);
        (void)snprintf(root, sizeof root, "%s/root", w.dir);
        (void)snprintf(job, sizeof job, "%s/t", root);
        assert_int_equal(mkdir(root, 0700), 0);
        for (uint32_t r = 0; r < 3; r++) {
            w.m[r].p.checkpoint_shared = true;
            w.m[r].p.mode = HSP_MODE_SWITCH; /* the job has begun before */
            w.m[r].p.checkpoint_path = r == k || (r == 1 && k == 2) ? root : w.folder;
        }
        assert_int_equal(checkpoint(&w, &err), k == 0 ? HSP_ENOENT : HSP_EIO);
        (void)snprintf(want, sizeof want, "%s%s/t is not there%s", who[k], k == 0 ? root : w.folder,
                       k == 0 ? ": mount checkpoint.path, or make that folder for the user of "
                                "hspmd-worker"
                              : ", but on n0/0: mount checkpoint.path on all nodes");
        assert_string_equal(err.msg, want);
        assert_int_equal(rmdir(root), 0); /* it is empty */
        for (uint32_t r = 0; r < 3; r++) {
            w.m[r].p.checkpoint_path = root;
        }
        assert_int_equal(mkdir(root, 0700), 0);
        assert_int_equal(mkdir(job, 0700), 0);
        assert_ok(checkpoint(&w, &err), &err);
        (void)snprintf(job, sizeof job, "%s/t/step-0000000040/manifest.json", root);
        assert_int_equal(access(job, F_OK), 0);
        end_world(&w);
    }
}

/* It would be a complete checkpoint of state that no rank has had. */
static void state_damaged_while_it_is_written_is_no_checkpoint(void **state)
{
    struct world w;
    pthread_t t[2];
    (void)state;
    make_world(&w, 2);
    at_writing = &w.m[1];
    (void)alarm(60);
    for (uint32_t r = 0; r < 2; r++) {
        w.m[r].p.checkpoint_shared = true;
        w.m[r].e.checkpoint_at = STEP;
        w.m[r].e.no_more_versions = true;
        assert_int_equal(pthread_create(&t[r], NULL, hsp_epoch_keeper, &w.m[r].e), 0);
    }
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(pthread_join(t[r], NULL), 0);
    }
    (void)alarm(0);
    at_writing = NULL;
    assert_refused(w.m[1].e.uncopied.code, &w.m[1].e.uncopied, HSP_EDIGEST,
                   "version 40 here is damaged: wte.weight (param) [3:6, 0:4]");
    assert_int_equal(w.m[0].e.uncopied.code, HSP_ECANCELED);
    assert_false(is_there(&w, "step-0000000040/manifest.json"));
    end_world(&w);
}

static struct hsp_state_segment *at_copying; /* damaged as it is written to; NULL: none */

void __wrap_hsp_region_copy(size_t elem, const struct hsp_box *region,
                            const struct hsp_box *src_box, const void *src,
                            const struct hsp_box *dst_box, void *dst);
void __real_hsp_region_copy(size_t elem, const struct hsp_box *region,
                            const struct hsp_box *src_box, const void *src,
                            const struct hsp_box *dst_box, void *dst);

void __wrap_hsp_region_copy(size_t elem, const struct hsp_box *region,
                            const struct hsp_box *src_box, const void *src,
                            const struct hsp_box *dst_box, void *dst)
{
    __real_hsp_region_copy(elem, region, src_box, src, dst_box, dst);
    if (at_copying != NULL && dst == hsp_segment_area(at_copying)) {
        ((uint8_t *)dst)[5] ^= 8;
    }
}

static void *copy_version(void *arg)
{
    struct writing *x = arg;
    x->st = hsp_epoch_copy_version(x->e, STEP, &x->err);
    return NULL;
}

/* The copy is confirmed with the hashes that came, so each reader finds the damage. */
static void a_copy_damaged_as_it_is_written_does_not_verify(void **state)
{
    (void)state;
    for (int harm = 0; harm < 2; harm++) {
        struct world w;
        pthread_t t[2];
        struct writing x[2];
        struct hsp_err err = {0};
        make_world(&w, 2);
        struct hsp_segment_key key = {.job = "t", .device = "n1/0", .owner = "n0/0", .epoch = 1};
        struct hsp_segment_row row = {.dtype = HSP_F64, .box = w.gather[0].box};
        uint64_t hash[1];
        struct hsp_epoch_copy copy = {.owner = 0, .hash = hash};
        memcpy(row.full, params[0].ext, sizeof row.full);
        assert_ok(hsp_segment_create(w.dir, &key, &(struct hsp_whose){0}, &row, 1, 256,
                                     &copy.seg[STEP % 2], &err),
                  &err);
        w.m[1].e.copies = &copy;
        w.m[1].e.n_copies = 1;
        at_copying = harm == 1 ? copy.seg[STEP % 2] : NULL;
        (void)alarm(60);
        for (uint32_t r = 0; r < 2; r++) {
            w.m[r].copy = (struct hsp_pkg_row){.from = 0, .to = 1, .box = w.gather[0].box};
            w.m[r].e.pkg.copies = (struct hsp_pkg_table){.n = 1, .row = &w.m[r].copy};
            x[r] = (struct writing){.e = &w.m[r].e};
            assert_int_equal(pthread_create(&t[r], NULL, copy_version, &x[r]), 0);
        }
        for (uint32_t r = 0; r < 2; r++) {
            assert_int_equal(pthread_join(t[r], NULL), 0);
            assert_ok(x[r].st, &x[r].err);
        }
        (void)alarm(0);
        at_copying = NULL;
        assert_true(hsp_segment_version(copy.seg[STEP % 2]) == STEP);
        assert_int_equal(hsp_segment_verify(copy.seg[STEP % 2], &err),
                         harm == 1 ? HSP_EDIGEST : HSP_OK);
        (void)hsp_segment_close(copy.seg[STEP % 2]);
        end_world(&w);
    }
}

/* The next epoch would begin with a version whose copies, or whose seal, have failed. */
static void an_epoch_that_has_failed_hands_nothing_over(void **state)
{
    struct world w;
    struct hsp_err err = {0};
    bool left = true;
    (void)state;
    make_world(&w, 2); /* the second one stands for the next epoch */
    struct hsp_ex_epoch *e = &w.m[0].e, *next = &w.m[1].e;
    e->next = next;
    next->number = 8;
    (void)hsp_err_set(&e->uncopied, HSP_EDIGEST, 0, "version 40 here is damaged");
    assert_refused(hsp_epoch_hand_over(e, 8, STEP, 0, &left, &err), &err, HSP_EDIGEST,
                   "version 40 here is damaged");
    assert_false(left || next->go);
    e->uncopied.code = HSP_OK;
    e->cancelled = true;
    assert_int_equal(hsp_epoch_hand_over(e, 8, STEP, 0, &left, &err), HSP_ECANCELED);
    assert_false(left || next->go);
    assert_int_equal(e->phase, HSP_EPOCH_RUNNING);
    e->cancelled = false;
    assert_ok(hsp_epoch_hand_over(e, 9, STEP, 0, &left, &err), &err); /* dropped meanwhile */
    assert_false(left || next->go);
    e->member = false; /* nothing is computed here, so there is no memory to give back */
    assert_ok(hsp_epoch_hand_over(e, 8, STEP, 0, &left, &err), &err);
    assert_true(left && next->go && next->go_version == STEP);
    assert_int_equal(e->phase, HSP_EPOCH_LEFT);
    end_world(&w);
}

static bool drops_next; /* in the place of the control thread, while an epoch leaves its device */

__typeof__(hsp_epoch_device_leave) __real_hsp_epoch_device_leave, __wrap_hsp_epoch_device_leave;

void __wrap_hsp_epoch_device_leave(struct hsp_ex_epoch *e)
{
    if (drops_next) {
        assert_int_equal(pthread_mutex_trylock(&e->lock), 0);
        e->next = NULL;
        (void)pthread_mutex_unlock(&e->lock);
    }
    __real_hsp_epoch_device_leave(e);
}

/* Its memory may go for seconds: the control thread, which beats, does not wait for that. */
static void an_epoch_leaves_its_device_without_the_lock(void **state)
{
    struct world w;
    struct hsp_err err = {0};
    bool left = true;
    (void)state;
    make_world(&w, 2); /* the second one stands for the next epoch */
    struct hsp_ex_epoch *e = &w.m[0].e, *next = &w.m[1].e;
    e->next = next;
    e->member = false; /* nothing is computed here, so there is no memory to give back */
    next->number = 8;
    drops_next = true;
    assert_refused(hsp_epoch_hand_over(e, 8, STEP, 0, &left, &err), &err, HSP_ECANCELED,
                   "epoch 8 was dropped as it was to begin");
    drops_next = false;
    assert_false(left || next->go);
    end_world(&w);
}

static void *settle(void *arg)
{
    struct writing *x = arg;
    x->st = hsp_epoch_twins_settle(x->e, STEP + 1, &x->err);
    return NULL;
}

/* Of two replicas that differ the one is wrong whose version before is not sealed any more. */
static void a_replica_made_of_a_version_that_is_gone_is_the_wrong_one(void **state)
{
    struct world w;
    pthread_t t[2];
    struct writing x[2];
    struct hsp_pkg_row ring[1] = {{.from = 0, .to = 1, .box = hsp_box_whole(2, params[0].ext)}};
    struct hsp_comm *data[2];
    struct hsp_err err = {0};
    (void)state;
    make_members(&w, 2, true);
    assert_ok(hsp_loop_open(2, data, &err), &err);
    for (uint32_t r = 0; r < 2; r++) {
        w.m[r].e.pkg.replicas = (struct hsp_pkg_table){1, ring};
        w.m[r].e.first = STEP - 1;
        w.m[r].e.mesh[HSP_MESH_DATA] = data[r];
        make_next(&w, &w.m[r]);
    }
    damage(&w.m[0], STEP + 1); /* computed so */
    ((uint8_t *)w.m[0].e.dev.state)[3] ^= 1;
    for (uint32_t r = 0; r < 2; r++) {
        hsp_epoch_twins_seal(&w.m[r].e, STEP + 1);
    }
    assert_true(
        hsp_epoch_twins_sum(&w.m[0].e, STEP + 1) + hsp_epoch_twins_sum(&w.m[1].e, STEP + 1) != 0);
    hsp_segment_unseal(w.m[0].e.seg[STEP % 2]);
    (void)alarm(60);
    for (uint32_t r = 0; r < 2; r++) {
        x[r] = (struct writing){.e = &w.m[r].e};
        assert_int_equal(pthread_create(&t[r], NULL, settle, &x[r]), 0);
    }
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(pthread_join(t[r], NULL), 0);
        assert_refused(x[r].st, &x[r].err, HSP_EDIGEST,
                       "equal copies of version 41 differ: wrong at n0/0");
        assert_int_equal(sealed_next(&w.m[r]), HSP_NO_VERSION);
        data[r]->ops->close(data[r]);
    }
    (void)alarm(0);
    end_world(&w);
}

HSP_TEST_FILE(epoch_replicate_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vote_does_not_wait_for_a_keeper_that_failed),
        cmocka_unit_test(the_end_of_an_epoch_ends_the_waiting_first),
        cmocka_unit_test(a_member_without_memory_for_a_checkpoint_ends_the_epoch),
        cmocka_unit_test(an_attempt_that_failed_leaves_nothing),
        cmocka_unit_test(a_rank_deletes_what_it_left_on_its_own_disk),
        cmocka_unit_test(an_attempt_under_way_is_left_alone),
        cmocka_unit_test(an_old_checkpoint_that_stays_makes_the_new_one_no_worse),
        cmocka_unit_test(what_one_thread_does_not_seal_no_other_seals),
        cmocka_unit_test(what_is_made_of_a_version_that_is_gone_is_not_sealed),
        cmocka_unit_test(damage_that_a_checkpoint_finds_ends_the_epoch),
        cmocka_unit_test(a_disk_that_does_not_answer_ends_no_epoch),
        cmocka_unit_test(an_old_checkpoint_may_go_slowly),
        cmocka_unit_test(an_epoch_that_is_over_leaves_its_disk),
        cmocka_unit_test(an_epoch_that_is_over_writes_no_more),
        cmocka_unit_test(what_is_not_mounted_gets_no_checkpoint),
        cmocka_unit_test(state_damaged_while_it_is_written_is_no_checkpoint),
        cmocka_unit_test(a_copy_damaged_as_it_is_written_does_not_verify),
        cmocka_unit_test(an_epoch_that_has_failed_hands_nothing_over),
        cmocka_unit_test(an_epoch_leaves_its_device_without_the_lock),
        cmocka_unit_test(a_replica_made_of_a_version_that_is_gone_is_the_wrong_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
