#include "tests/unit/worker/executor/epoch_members.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/layout/box.h"
#include "tests/unit/worker/state/state_lib.h"
#include "worker/backend/cpu/cpu.h"
#include "worker/comm/loop/loop_comm.h"
#include "worker/executor/epoch_replicate.h"
#include "worker/executor/replica_check.h"

struct hsp_pkg_param em_params[1] = {{"wte.weight", 2, {6, 4}}};

static void make_home(const struct em_world *w, struct em_member *m, uint64_t version)
{
    struct hsp_segment_key key = {.job = "t", .epoch = 1, .slot = (uint32_t)(version % 2)};
    struct hsp_state_segment **s = &m->e.seg[version % 2];
    struct hsp_segment_row row = {.dtype = HSP_F64, .box = w->gather[m->p.rank].box};
    struct hsp_err err = {0};
    memcpy(row.full, em_params[0].ext, sizeof row.full);
    (void)snprintf(key.device, sizeof key.device, "n%u/0", m->p.rank);
    assert_ok(hsp_segment_create(w->dir, &key, &(struct hsp_whose){0}, &row, 1, 256, NULL, s, &err),
              &err);
    fill_box(HSP_F64, 0, HSP_STATE_PARAM, version, em_params[0].ext, &row.box,
             hsp_segment_area(*s));
}

void em_make_next(const struct em_world *w, struct em_member *m)
{
    struct hsp_err err = {0};
    make_home(w, m, EM_STEP + 1);
    const struct hsp_state_segment *s = m->e.seg[(EM_STEP + 1) % 2];
    size_t bytes = (size_t)hsp_segment_area_bytes(s);
    assert_ok(hsp_backend_cpu_open(1, &m->cpu, &err), &err);
    assert_ok(m->cpu->alloc(m->cpu, HSP_MEM_DEVICE, bytes, &m->e.dev.state, &err), &err);
    memcpy(m->e.dev.state, hsp_segment_area(s), bytes);
    m->e.dev.sum = m->sum;
    m->e.dev.seen = m->sum;
    m->env.backend = m->cpu;
    hsp_word_sums_add(&m->sums[0].wrote, hsp_segment_area(s), (int64_t)bytes / 4, 0);
    hsp_word_sums_add(&m->sums[0].read, hsp_segment_area(m->e.seg[EM_STEP % 2]), (int64_t)bytes / 4,
                      0);
    m->before[0].wrote = m->sums[0].read;
    m->e.dev.newest =
        (struct hsp_written){.version = EM_STEP + 1, .sums = m->sums, .before = m->before};
    m->e.written = EM_STEP + 1;
    m->e.due =
        (struct hsp_due){.all = true, .newest = EM_STEP + 1, .before = EM_STEP, .pending = true};
    assert_ok(hsp_replica_check_open(&m->e, &err), &err);
}

void em_damage(struct em_member *m, uint64_t version)
{
    ((uint8_t *)hsp_segment_area(m->e.seg[version % 2]))[3] ^= 1;
}

static void make_member(struct em_world *w, uint32_t rank, struct hsp_comm *comm)
{
    struct em_member *m = &w->m[rank];
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
                                 .written = EM_STEP,
                                 .sealed = EM_STEP,
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
                                    .params = em_params,
                                    .config_json = "{}",
                                    .gather = {.n = w->n, .row = w->gather}};
    m->e.prog.bind.data =
        (struct hsp_data_bind){.seed = 3, .global_batch = 2, .sequence = 4, .vocab = 256};
    m->e.mesh[HSP_MESH_STATE] = comm;
    make_home(w, m, EM_STEP);
    hsp_segment_seal(m->e.seg[EM_STEP % 2], EM_STEP);
}

/* Makes @n members. @equal: each member has all of the parameter; else each has a part. */
static void make_members(struct em_world *w, uint32_t n, bool equal)
{
    static const char *const names[EM_RANKS] = {"n0/0", "n1/0", "n2/0"};
    struct hsp_comm *comm[EM_RANKS];
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
        struct hsp_box b = hsp_box_whole(2, em_params[0].ext);
        b.lo[0] = equal ? 0 : 6 * r / n;
        b.hi[0] = equal ? 6 : 6 * (r + 1) / n;
        w->peers[r].name = names[r];
        w->gather[r] = (struct hsp_pkg_row){.from = r, .box = b};
    }
    for (uint32_t r = 0; r < n; r++) {
        make_member(w, r, comm[r]);
    }
}

void em_make_world(struct em_world *w, uint32_t n)
{
    make_members(w, n, false);
}

void em_make_equal(struct em_world *w, uint32_t n)
{
    make_members(w, n, true);
}

void em_end_world(struct em_world *w)
{
    for (uint32_t r = 0; r < w->n; r++) {
        struct em_member *m = &w->m[r];
        m->e.mesh[HSP_MESH_STATE]->ops->close(m->e.mesh[HSP_MESH_STATE]);
        (void)hsp_segment_close(m->e.seg[EM_STEP % 2]);
        (void)hsp_segment_close(m->e.seg[(EM_STEP + 1) % 2]);
        hsp_replica_check_close(&m->e);
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

static void *work(void *arg)
{
    struct em_member *m = arg;
    m->work(m);
    return NULL;
}

void em_start(struct em_world *w, void (*body)(struct em_member *m))
{
    (void)alarm(60);
    for (uint32_t r = 0; r < w->n; r++) {
        w->m[r].work = body;
        assert_int_equal(pthread_create(&w->m[r].thread, NULL, work, &w->m[r]), 0);
    }
}

void em_join(struct em_world *w)
{
    for (uint32_t r = 0; r < w->n; r++) {
        assert_int_equal(pthread_join(w->m[r].thread, NULL), 0);
    }
    (void)alarm(0);
}

void em_keep(struct em_member *m)
{
    (void)hsp_epoch_replication(&m->e);
}

void em_assert_refused(enum hsp_status st, const struct hsp_err *err, enum hsp_status want,
                       const char *why)
{
    assert_int_equal(st, want);
    assert_err(err, want, why);
}
