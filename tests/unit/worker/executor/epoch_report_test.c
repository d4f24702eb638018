/* Checks the reports of steps to hspmdd: rank 0 reports each step at once, and its heir, the first
 * member on another node, reports the newest steps again when the epoch breaks. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/host/file_io.h"
#include "proto/wire/frame.h"
#include "proto/base/size.h"
#include "tests/lib/testlib.h"
#include "worker/comm/loop/loop_comm.h"
#include "worker/comm/mesh/mesh_stand.h"
#include "worker/executor/epoch.h"
#include "worker/executor/epoch_control.h"
#include "worker/executor/epoch_report.h"

#define RANKS 4
#define STEPS (HSP_EPOCH_SAID + 4)

static struct hsp_pkg_peer peers[RANKS] = {
    {.name = "a/0"}, {.name = "a/1"}, {.name = "b/0"}, {.name = "b/1"}};

struct rank {
    struct hsp_chan out, agent; /* both ends of the channel */
    struct hsp_exec_env env;
    struct hsp_m_prepare p;
    struct hsp_ex_epoch e;
};

static void begin(struct rank *r, uint32_t rank)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    hsp_chan_init(&r->out, pair[0]);
    hsp_chan_init(&r->agent, pair[1]);
    r->env = (struct hsp_exec_env){.chan = &r->out, .wake_fd = -1};
    r->p = (struct hsp_m_prepare){.job = 3, .rank = rank, .n_ranks = RANKS, .n_peers = RANKS};
    r->e = (struct hsp_ex_epoch){.env = &r->env, .p = &r->p, .number = 7};
    r->e.pkg.peers = peers;
    (void)pthread_mutex_init(&r->e.lock, NULL);
}

static void end(struct rank *r)
{
    (void)pthread_mutex_destroy(&r->e.lock);
    free(r->e.said.untold);
    hsp_chan_fini(&r->out);
    hsp_chan_fini(&r->agent);
}

/* Asserts that the agent receives steps @from to @to - 1 in order, and no other message. */
static void heard(struct rank *r, uint64_t from, uint64_t to)
{
    struct hsp_err err = {0};
    struct hsp_msg last = {.type = HSP_MSG_HEARTBEAT};
    assert_ok(hsp_chan_send(&r->out, &last, &err), &err);
    for (uint64_t s = from; s <= to; s++) {
        struct hsp_frame frame;
        struct hsp_msg m;
        struct hsp_arena *arena = hsp_arena_new(1 << 20);
        assert_ok(hsp_chan_recv(&r->agent, arena, &frame, &m, &err), &err);
        assert_int_equal(m.type, s < to ? HSP_MSG_STEP : HSP_MSG_HEARTBEAT);
        if (s < to) {
            assert_int_equal(m.epoch, 7);
            assert_int_equal(m.u.step.job, 3);
            assert_int_equal(m.u.step.step, s);
            assert_true(m.u.step.loss == 2.5 && m.u.step.sequence == 512 &&
                        isnan(m.u.step.val_loss));
        }
        hsp_frame_fini(&frame);
        (void)hsp_arena_free(arena);
    }
}

static void one_rank_says_what_the_first_may_have_taken_with_it(void **state)
{
    (void)state;
    struct hsp_vote_record all[RANKS] = {{.compute_s = 0.1}};
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct rank r;
        begin(&r, rank);
        for (uint64_t s = 1; s <= STEPS; s++) {
            const struct hsp_vote v = {.step = s, .loss = 2.5, .tokens = 8};
            hsp_epoch_report_step(&r.e, &v, all, RANKS, 0.25, 512);
        }
        heard(&r, 1, rank == 0 ? STEPS + 1 : 1);
        hsp_epoch_say_again(&r.e);
        heard(&r, STEPS + 1 - HSP_EPOCH_SAID, rank == 2 ? STEPS + 1 : STEPS + 1 - HSP_EPOCH_SAID);
        end(&r);
    }
}

static uint64_t lines_noted(const char *dir)
{
    struct hsp_err err = {0};
    uint8_t *notes = NULL;
    size_t len = 0;
    uint64_t lines = 0;
    char path[512];
    (void)snprintf(path, sizeof path, "%s/job-3-0.metrics", dir);
    if (access(path, F_OK) == 0) {
        assert_ok(hsp_file_read(path, 65536, &notes, &len, &err), &err);
    }
    for (size_t i = 0; i < len; i++) {
        lines += notes[i] == '\n';
    }
    free(notes);
    return lines;
}

/* Of three nodes @n_ranks train, and the others are replica holders. All holders note all steps,
 * because each of them may be the last device that knows a step. If a peer runs an older program
 * (@agreed is false), only the heir of rank 0 notes steps. */
static void replica_holders_note(uint32_t n_ranks, bool agreed)
{
    static struct hsp_pkg_peer three[3] = {{.name = "a/0"}, {.name = "b/0"}, {.name = "c/0"}};
    struct hsp_comm *comm[3];
    struct hsp_err err = {0};
    struct hsp_vote_record all[2] = {{.compute_s = 0.1}};
    struct rank r[3];
    char *dir[3];
    assert_ok(hsp_loop_open(3, comm, &err), &err);
    for (uint32_t i = 0; i < 3; i++) {
        begin(&r[i], i);
        r[i].p.n_ranks = n_ranks;
        r[i].p.n_keepers = 3 - n_ranks;
        r[i].p.share_notes = agreed;
        r[i].e.pkg.peers = three;
        r[i].e.mesh[HSP_MESH_STATE] = comm[i];
        r[i].e.keeps = i >= n_ranks;
        r[i].env.state_dir = dir[i] = hsp_test_tmpdir();
    }
    for (uint64_t s = 0; s <= STEPS; s++) { /* first without a step, as before the first step */
        const struct hsp_vote v = {.step = s, .loss = 2.5, .tokens = 8};
        for (uint32_t i = 0; s > 0 && i < n_ranks; i++) {
            hsp_epoch_report_step(&r[i].e, &v, all, n_ranks, 0.25, 512);
        }
        for (uint32_t i = 0; i < 3; i++) {
            assert_ok(hsp_epoch_share_step(&r[i].e, 5, &err), &err);
        }
    }
    heard(&r[0], 1, STEPS + 1);
    for (uint32_t i = 0; i < 3; i++) {
        hsp_epoch_say_again(&r[i].e);
        heard(&r[i], STEPS + 1 - HSP_EPOCH_SAID, i == 1 ? STEPS + 1 : STEPS + 1 - HSP_EPOCH_SAID);
        assert_int_equal(lines_noted(dir[i]), i >= n_ranks && (agreed || i == 1) ? STEPS : 0);
    }
    for (uint32_t i = 0; i < 3; i++) {
        comm[i]->ops->close(comm[i]);
        end(&r[i]);
        hsp_test_rmdir(dir[i]);
        free(dir[i]);
    }
}

static void every_replica_holder_notes_the_steps(void **state)
{
    (void)state;
    replica_holders_note(1, true);
    replica_holders_note(2, true);
}

/* One device trains, and two replica holders keep its state: the first holder is the heir, and gets
 * every step before the copies of the next version. */
static void a_replica_holder_says_it_where_nobody_else_trains(void **state)
{
    (void)state;
    replica_holders_note(1, false);
    replica_holders_note(2, false);
}

/* If few versions are due, replica holders get the steps of many votes in one message, with the
 * number of the next version to take. */
static void replica_holders_are_told_of_many_steps(void **state)
{
    (void)state;
    enum { FIRST = HSP_EPOCH_SAID / 2, LAST = FIRST + HSP_EPOCH_SAID + 3 };
    struct hsp_comm *comm[3];
    struct hsp_err err = {0};
    struct hsp_vote_record all[1] = {{.compute_s = 0.1}};
    struct rank r[3];
    char *dir[3];
    uint64_t version = 0;
    assert_ok(hsp_loop_open(3, comm, &err), &err);
    for (uint32_t i = 0; i < 3; i++) {
        begin(&r[i], i);
        r[i].p.n_ranks = 1;
        r[i].p.n_keepers = 2;
        r[i].p.share_notes = true;
        r[i].e.mesh[HSP_MESH_STATE] = comm[i];
        r[i].e.keeps = i > 0;
        r[i].env.state_dir = dir[i] = hsp_test_tmpdir();
    }
    for (uint64_t s = 0; s < LAST; s++) {
        const struct hsp_vote v = {.step = s, .loss = 2.5, .tokens = 8};
        if (s == FIRST) { /* no copies follow yet */
            assert_ok(hsp_epoch_share_steps(&r[0].e, 5, HSP_NO_VERSION, &err), &err);
        }
        hsp_epoch_report_step(&r[0].e, &v, all, 1, 0.25, 512);
    }
    assert_ok(hsp_epoch_share_steps(&r[0].e, 5, 40, &err), &err); /* in two messages */
    assert_ok(hsp_epoch_share_steps(&r[0].e, 5, 41, &err), &err); /* without a step between */
    for (uint32_t i = 1; i < 3; i++) {
        assert_false(r[i].e.voted);
        for (int k = 0; k < 2; k++) {
            assert_ok(hsp_epoch_take_steps(&r[i].e, 5, &version, &err), &err);
            assert_true(version == HSP_NO_VERSION && r[i].e.voted);
        }
        assert_ok(hsp_epoch_take_steps(&r[i].e, 5, &version, &err), &err);
        assert_int_equal(version, 40);
        assert_ok(hsp_epoch_take_steps(&r[i].e, 5, &version, &err), &err);
        assert_int_equal(version, 41);
        assert_int_equal(lines_noted(dir[i]), LAST);
    }
    for (uint32_t i = 0; i < 3; i++) {
        comm[i]->ops->close(comm[i]);
        end(&r[i]);
        hsp_test_rmdir(dir[i]);
        free(dir[i]);
    }
}

struct breaking {
    struct hsp_ex_epoch *e;
    atomic_bool half; /* a part of the loss is stored */
};

/* Stores the loss of a peer, as a mesh does on its own thread. */
static void *lose(void *arg)
{
    struct breaking *b = arg;
    (void)pthread_mutex_lock(&b->e->lock);
    b->e->lost = true;
    atomic_store(&b->half, true);
    (void)usleep(20000);
    b->e->loss = (struct hsp_mesh_loss){.rank = 3, .by = 1, .silent = true};
    (void)pthread_mutex_unlock(&b->e->lock);
    return NULL;
}

static void a_loss_is_read_whole(void **state)
{
    (void)state;
    struct rank r;
    struct breaking b = {.e = &r.e};
    struct hsp_mesh_loss loss = {.rank = 77};
    pthread_t t;
    begin(&r, 0);
    assert_false(hsp_epoch_loss(&r.e, &loss));
    assert_int_equal(loss.rank, 77);
    assert_int_equal(pthread_create(&t, NULL, lose, &b), 0);
    while (!atomic_load(&b.half)) {
        (void)usleep(100);
    }
    assert_true(hsp_epoch_loss(&r.e, &loss));
    assert_true(loss.rank == 3 && loss.by == 1 && loss.silent);
    assert_int_equal(pthread_join(t, NULL), 0);
    end(&r);
}

/* Lets rank 1 report that an operation failed with @st. Returns the PEER_LOST message. */
static struct hsp_m_lost told(struct rank *r, enum hsp_status st, struct hsp_arena *arena)
{
    struct hsp_err err = {0}, why = {0};
    struct hsp_frame frame;
    struct hsp_msg m;
    (void)hsp_err_set(&why, st, 0, "an operation failed");
    r->e.told = false;
    hsp_epoch_tell_broken(&r->e, st, &why, false);
    assert_ok(hsp_chan_recv(&r->agent, arena, &frame, &m, &err), &err);
    assert_int_equal(m.type, HSP_MSG_PEER_LOST);
    hsp_frame_fini(&frame);
    return m.u.lost;
}

/* A mesh has lost rank 3: its operations fail at once, but its thread reports the loss later. The
 * message PEER_LOST names both ends of the lost link all the same, also if another mesh was aborted
 * because of the loss. */
static void a_loss_is_told_before_the_mesh_says_so(void **state)
{
    static const enum hsp_epoch_mesh which[] = {HSP_MESH_DATA, HSP_MESH_STATE, HSP_MESH_MOVE};
    struct hsp_mesh lost = {.base.n_ranks = RANKS, .loss = {.rank = 3, .by = 1, .silent = true}};
    struct hsp_mesh aborted = {.base.n_ranks = RANKS, .loss.rank = UINT32_MAX};
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    (void)state;
    (void)hsp_err_set(&lost.dead, HSP_EPEER, 0, "lost rank 3");
    (void)hsp_err_set(&aborted.dead, HSP_ECANCELED, 0, "aborted by rank 1");
    (void)pthread_mutex_init(&lost.lock, NULL);
    (void)pthread_mutex_init(&aborted.lock, NULL);
    for (size_t i = 0; i < HSP_ARRAY_LEN(which); i++) {
        for (int moved = 0; moved < 2; moved++) {
            const enum hsp_status st[] = {HSP_EPEER, HSP_ECANCELED, HSP_EDIGEST};
            for (size_t k = 0; k < HSP_ARRAY_LEN(st); k++) {
                struct rank r;
                begin(&r, 1);
                r.env.log = hsp_log_new(2, HSP_LOG_ERROR);
                r.e.pkg.n_peers = RANKS;
                r.e.mesh[HSP_MESH_DATA] = r.e.mesh[HSP_MESH_STATE] = &aborted.base;
                r.e.mesh[which[i]] = &lost.base;
                r.e.moved = moved != 0;
                struct hsp_m_lost l = told(&r, st[k], arena);
                bool named = st[k] != HSP_EDIGEST && (which[i] != HSP_MESH_MOVE || moved == 0);
                assert_int_equal(l.peer, named ? 3 : HSP_MSG_RANKS);
                assert_true(l.by == 1 && l.silent == named);
                assert_string_equal(l.reason, named ? "b/1: lost rank 3" : "an operation failed");
                (void)hsp_log_free(r.env.log);
                end(&r);
            }
        }
    }
    (void)hsp_arena_free(arena);
}

HSP_TEST_FILE(epoch_report_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_says_what_the_first_may_have_taken_with_it),
        cmocka_unit_test(every_replica_holder_notes_the_steps),
        cmocka_unit_test(replica_holders_are_told_of_many_steps),
        cmocka_unit_test(a_replica_holder_says_it_where_nobody_else_trains),
        cmocka_unit_test(a_loss_is_read_whole),
        cmocka_unit_test(a_loss_is_told_before_the_mesh_says_so),
    };
    return cmocka_run_group_tests_name("epochsteps", tests, NULL, NULL);
}
