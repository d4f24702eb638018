/* Checks the notes of steps (step_log.h): the note of a step that trains nothing is valid JSON and
 * says so, and damaged notes are left out. Also checks how devices share their notes
 * (step_share.h). */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/size.h"
#include "proto/host/file_io.h"
#include "proto/wire/frame.h"
#include "tests/lib/testlib.h"
#include "worker/comm/loop/loop_comm.h"
#include "worker/executor/executor.h"
#include "worker/executor/step_gather.h"
#include "worker/executor/step_ranges.h"
#include "worker/executor/step_share.h"

/* Notes step @step of job 3, made by epoch @epoch, in the state folder @dir. */
static void note_in(const char *dir, uint64_t epoch, uint64_t step)
{
    struct hsp_err err = {0};
    struct hsp_exec_env env = {.state_dir = dir, .device = 1};
    const struct hsp_m_prepare prepare = {.job = 3};
    const struct hsp_ex_epoch e = {.env = &env, .p = &prepare, .number = epoch};
    const struct hsp_vote v = {.step = step,
                               .loss = (double)NAN,
                               .norm = (double)INFINITY,
                               .tokens = 24,
                               .lr = 0.5,
                               .eval_loss = -(double)INFINITY,
                               .eval_tokens = 4};
    assert_ok(hsp_metrics_note(&e, &v, 0.25, 512, &err), &err);
}

static void note(const char *dir, uint64_t step)
{
    note_in(dir, 5, step);
}

/* Returns the content of the file of notes. The caller frees it. */
static char *noted(const char *dir, char path[512], size_t *ret_len)
{
    struct hsp_err err = {0};
    uint8_t *text = NULL;
    (void)snprintf(path, 512, "%s/job-3-1.metrics", dir);
    assert_ok(hsp_file_read(path, 65536, &text, ret_len, &err), &err);
    text = realloc(text, *ret_len + 1);
    assert_non_null(text);
    text[*ret_len] = '\0';
    return (char *)text;
}

static void numbers_that_are_none_are_texts(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), path[512];
    struct hsp_notes_damage d;
    size_t len;
    note(dir, 8);
    char *text = noted(dir, path, &len);
    text[hsp_metrics_check(3, text, len, &d)] = '\0';
    assert_true(d.n == 0 && text[len - 1] == '\n');
    assert_string_equal(
        text, "5 8 {\"step\":8,\"loss\":\"nan\",\"tokens\":24,\"grad_norm\":\"inf\",\"lr\":0.5,"
              "\"val_loss\":\"-inf\",\"seconds\":0.250000,\"sequence\":512,\"epoch\":5}\n");
    free(text);
    hsp_test_rmdir(dir);
    free(dir);
}

/* Asserts that the lines of @text have the steps @steps: "8 9 ". */
static void assert_steps(const char *text, size_t n, const char *steps)
{
    char got[256] = "";
    for (const char *at = text; at < text + n; at = strchr(at, '\n') + 1) {
        size_t used = strlen(got);
        unsigned epoch, step;
        assert_int_equal(sscanf(at, "%u %u {\"step\":", &epoch, &step), 2);
        assert_int_equal(epoch, 5);
        (void)snprintf(got + used, sizeof got - used, "%u ", step);
    }
    assert_string_equal(got, steps);
}

/* Each flipped bit of a note counts as damage, and so does a note of another job. */
static void a_damaged_note_is_left_out_and_told(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), path[512];
    struct hsp_notes_damage d;
    size_t len;
    for (uint64_t step = 8; step < 11; step++) {
        note(dir, step);
    }
    char *text = noted(dir, path, &len), *copy = calloc(1, len + 1);
    assert_non_null(copy);
    const char *second = strchr(text, '\n') + 1, *third = strchr(second, '\n') + 1;
    for (size_t bit = 0; bit < 8 * (size_t)(third - second); bit++) {
        size_t at = (size_t)(second - text) + bit / 8;
        memcpy(copy, text, len);
        copy[at] = (char)(copy[at] ^ (1 << bit % 8));
        bool joined = at + 1 == (size_t)(third - text); /* the second line is joined to the third */
        bool cut = copy[at] == '\n';                    /* the line is cut into two */
        size_t n = hsp_metrics_check(3, copy, len, &d);
        assert_steps(copy, n, joined ? "8 " : "8 10 ");
        assert_true(d.first == 2 && d.n == (cut ? 2 : 1) && d.unproven == 0);
    }
    memcpy(copy, text, len);
    assert_int_equal(hsp_metrics_check(4, copy, len, &d), 0);
    assert_true(d.n == 3 && d.first == 1);
    free(copy);
    free(text);
    hsp_test_rmdir(dir);
    free(dir);
}

/* kill -9 may leave an incomplete last line: a reader drops this line without a report, and so does
 * the next process that writes. A line that lacks only its newline is kept, or reported if it is
 * damaged. */
static void half_a_line_at_the_end_is_dropped(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_notes_damage d;
    char *dir = hsp_test_tmpdir(), path[512];
    size_t len;
    note(dir, 8);
    note(dir, 9);
    char *text = noted(dir, path, &len), *copy = calloc(1, len + 1);
    assert_non_null(copy);
    size_t first = (size_t)(strchr(text, '\n') + 1 - text);
    for (size_t n = first; n <= len; n++) {
        memcpy(copy, text, n);
        size_t kept = hsp_metrics_check(3, copy, n, &d);
        assert_true(d.n == 0);
        assert_steps(copy, kept, n >= len - 1 ? "8 9 " : "8 ");
        if (n % 7 == 0 || n >= len - 1) {
            size_t now;
            assert_ok(hsp_file_write(path, text, n, 0600, &err), &err);
            note(dir, 10);
            char *then = noted(dir, path, &now);
            kept = hsp_metrics_check(3, then, now, &d);
            assert_true(d.n == 0);
            assert_steps(then, kept, n >= len - 1 ? "8 9 10 " : "8 10 ");
            free(then);
        }
    }
    text[len - 1] = 'x'; /* the newline of the last line is damaged */
    assert_ok(hsp_file_write(path, text, len, 0600, &err), &err);
    note(dir, 10);
    free(text);
    text = noted(dir, path, &len);
    assert_steps(text, hsp_metrics_check(3, text, len, &d), "8 10 ");
    assert_true(d.n == 1 && d.first == 2);
    free(copy);
    free(text);
    hsp_test_rmdir(dir);
    free(dir);
}

/* A job goes on after an upgrade: its first lines have no checksums, and do not count as damaged. A
 * changed line counts as damaged, and so does an incomplete line. */
static void notes_of_an_earlier_version_are_kept(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_notes_damage d;
    char *dir = hsp_test_tmpdir(), path[512], both[1024];
    size_t len;
    note(dir, 8);
    char *text = noted(dir, path, &len);
    len = hsp_metrics_check(3, text, len, &d);
    (void)snprintf(both, sizeof both, "%.*s4%.*s", (int)len, text, (int)len, text);
    assert_ok(hsp_file_write(path, both, 2 * len + 1, 0600, &err), &err);
    free(text);
    note(dir, 9);
    text = noted(dir, path, &len);
    assert_steps(text, hsp_metrics_check(3, text, len, &d), "8 9 ");
    assert_true(d.unproven == 1 && d.n == 1 && d.first == 2); /* 45 is not the epoch of the JSON */
    free(text);
    hsp_test_rmdir(dir);
    free(dir);
}

/* Many devices have noted the same steps: the notes of all of them together take twice the room of
 * one device's notes. A note that was given up does not hide an older note that counts. */
static void notes_of_many_devices_need_the_room_of_one(void **state)
{
    static const char mine[] = "1 0 {\"step\":0}\n1 1 {\"step\":1}\n1 2 {\"step\":2}\n";
    static const char later[] = "2 2 {\"step\":2,\"again\":1}\n2 3 {\"step\":3}\n";
    static const char *const left[] = {"1 0 {\"step\":0}\n"
                                       "1 1 {\"step\":1}\n"
                                       "2 2 {\"step\":2,\"again\":1}\n"
                                       "2 3 {\"step\":3}\n",
                                       "1 0 {\"step\":0}\n"
                                       "1 1 {\"step\":1}\n"
                                       "1 2 {\"step\":2}\n"};
    struct hsp_m_cut cut = {2, 3, 1}; /* epoch 2 after step 1 */
    struct hsp_err err = {0};
    (void)state;
    for (uint32_t cuts = 0; cuts < 2; cuts++) {
        const struct hsp_m_prepare p = {.n_cuts = cuts, .cuts = &cut};
        const size_t limit = 400;
        struct hsp_buf all;
        hsp_buf_init(&all, 16);
        for (int device = 0; device < 100; device++) {
            assert_ok(hsp_metrics_add(&all, &p, limit, mine, sizeof mine - 1, &err), &err);
            assert_ok(hsp_metrics_add(&all, &p, limit, later, sizeof later - 1, &err), &err);
        }
        assert_true(all.len <= all.max && all.max <= 2 * (strlen(left[0]) + sizeof mine));
        char big[512];
        memset(big, 'x', sizeof big);
        assert_status(hsp_metrics_add(&all, &p, limit, big, sizeof big, &err), HSP_ELIMIT);
        assert_true(all.max == limit);
        assert_string_equal(hsp_buf_cstr(&all), left[cuts]);
        hsp_buf_fini(&all);
    }
}

/* Steps without a note are reported, also if they are the first or the last step. */
static void steps_without_a_note_are_told(void **state)
{
    (void)state;
    static const uint64_t noted_steps[] = {1, 2, 4, 7};
    char *dir = hsp_test_tmpdir();
    struct hsp_err err = {0};
    struct hsp_buf out;
    struct hsp_notes_faults faults;
    struct hsp_exec_env env = {.state_dir = dir, .device = 1};
    struct hsp_m_prepare prepare = {.job = 3, .n_ranks = 1, .steps = 10};
    struct hsp_ex_epoch e = {.env = &env, .p = &prepare, .number = 5};
    for (size_t i = 0; i < HSP_ARRAY_LEN(noted_steps); i++) {
        note(dir, noted_steps[i]);
    }
    for (int whole = 0; whole < 2; whole++) {
        hsp_buf_init(&out, 1 << 16);
        assert_ok(hsp_metrics_merge(&e, &out, &faults, &err), &err);
        assert_string_equal(faults.lacking,
                            whole != 0 ? "" : "6 of 10 steps: 0, 3, 5 to 6, 8 to 9");
        assert_string_equal(faults.damage, "");
        hsp_buf_fini(&out);
        for (uint64_t s = 0; s < 10; s++) {
            note(dir, s);
        }
    }
    hsp_test_rmdir(dir);
    free(dir);
}

/* Notes of steps that PREPARE names as given up are left out, also if these steps have no later
 * note. */
static void what_was_given_up_is_no_note(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir();
    struct hsp_err err = {0};
    struct hsp_buf out;
    struct hsp_notes_faults faults;
    struct hsp_m_cut cut = {0, 5, 4};
    struct hsp_exec_env env = {.state_dir = dir, .device = 1};
    struct hsp_m_prepare prepare = {.job = 3, .n_ranks = 1, .steps = 10, .n_cuts = 1, .cuts = &cut};
    struct hsp_ex_epoch e = {.env = &env, .p = &prepare, .number = 5};
    for (uint64_t s = 0; s < 10; s++) {
        note_in(dir, 2, s);
    }
    for (uint64_t s = 6; s < 9; s++) {
        note_in(dir, 5, s);
    }
    hsp_buf_init(&out, 1 << 16);
    assert_ok(hsp_metrics_merge(&e, &out, &faults, &err), &err);
    assert_string_equal(faults.lacking, "2 of 10 steps: 5, 9");
    assert_non_null(strstr(hsp_buf_cstr(&out), "{\"step\":4,"));
    assert_null(strstr(hsp_buf_cstr(&out), "{\"step\":5,"));
    hsp_buf_fini(&out);
    hsp_test_rmdir(dir);
    free(dir);
}

/* ---- notes shared at the begin of an epoch ---- */

#define PEERS 4 /* two ranks, a replica holder, a source */

struct peer {
    char *dir;
    struct hsp_exec_env env;
    struct hsp_m_prepare p;
    struct hsp_ex_epoch e;
    pthread_t thread;
};

static void *share(void *arg)
{
    struct peer *p = arg;
    struct hsp_err err = {0};
    assert_ok(hsp_notes_share(&p->e, &err), &err);
    return NULL;
}

/* Bytes that rank 0 has sent to each peer; bytes that the peer has not yet received; the most of
 * these at any time. */
static atomic_size_t sent[PEERS], waiting[PEERS], most_waiting;
static atomic_size_t largest; /* largest message of any peer */
static const struct hsp_comm_ops *loop_ops;

static enum hsp_status count_send(struct hsp_comm *c, uint32_t to, uint32_t channel,
                                  const void *buf, size_t bytes, struct hsp_err *err)
{
    if (bytes > atomic_load(&largest)) {
        atomic_store(&largest, bytes);
    }
    if (c->rank == 0) {
        size_t now = atomic_fetch_add(&waiting[to], bytes) + bytes;
        (void)atomic_fetch_add(&sent[to], bytes);
        if (now > atomic_load(&most_waiting)) {
            atomic_store(&most_waiting, now);
        }
    }
    return loop_ops->send(c, to, channel, buf, bytes, err);
}

static enum hsp_status count_recv(struct hsp_comm *c, uint32_t from, uint32_t channel, void *buf,
                                  size_t bytes, struct hsp_err *err)
{
    if (from == 0) {
        (void)usleep(100); /* simulates a slow link */
    }
    enum hsp_status st = loop_ops->recv(c, from, channel, buf, bytes, err);
    if (from == 0) {
        (void)atomic_fetch_sub(&waiting[c->rank], bytes);
    }
    return st;
}

static void count(struct hsp_comm *comm[], uint32_t n)
{
    static struct hsp_comm_ops counted;
    loop_ops = comm[0]->ops;
    counted = *loop_ops;
    counted.send = count_send;
    counted.recv = count_recv;
    most_waiting = largest = 0;
    for (uint32_t i = 0; i < n; i++) {
        comm[i]->ops = &counted;
        sent[i] = waiting[i] = 0;
    }
}

/* Shares the notes of all peers at the begin of epoch 9, as @prepare says; rank 0 reports to
 * @agent. */
static void begin_with(struct peer peer[PEERS], const struct hsp_m_prepare *prepare,
                       uint64_t version, struct hsp_chan *agent)
{
    static struct hsp_pkg_peer names[PEERS];
    struct hsp_err err = {0};
    struct hsp_comm *comm[PEERS];
    assert_ok(hsp_loop_open(PEERS, comm, &err), &err);
    count(comm, PEERS);
    for (uint32_t i = 0; i < PEERS; i++) {
        struct peer *p = &peer[i];
        p->env = (struct hsp_exec_env){.state_dir = p->dir, .device = 1};
        p->env.chan = i == 0 ? agent : NULL;
        p->p = *prepare;
        p->p.job = 3;
        p->p.rank = i;
        p->p.n_ranks = 2;
        p->p.n_keepers = 1;
        p->p.n_peers = PEERS;
        p->e = (struct hsp_ex_epoch){
            .env = &p->env, .p = &p->p, .number = 9, .go = true, .go_version = version};
        (void)pthread_mutex_init(&p->e.lock, NULL);
        p->e.pkg.peers = names;
        p->e.mesh[HSP_MESH_MOVE] = comm[i];
        assert_int_equal(pthread_create(&p->thread, NULL, share, p), 0);
    }
    for (uint32_t i = 0; i < PEERS; i++) {
        assert_int_equal(pthread_join(peer[i].thread, NULL), 0);
        comm[i]->ops->close(comm[i]);
        (void)pthread_mutex_destroy(&peer[i].e.lock);
    }
}

/* Calls begin_with for a recovery in which there are no steps to report. */
static void begin_epoch(struct peer peer[PEERS], bool agreed)
{
    const struct hsp_m_prepare p = {.mode = HSP_MODE_RECOVER, .share_notes = agreed};
    begin_with(peer, &p, 0, NULL);
}

/* Makes a state folder for each peer except peer @without, which cannot write then; PEERS: for all
 * peers. */
static void make_folders(struct peer peer[PEERS], uint32_t without)
{
    for (uint32_t i = 0; i < PEERS; i++) {
        peer[i].dir = i != without ? hsp_test_tmpdir() : strdup("/nowhere");
    }
}

static void end_folders(struct peer peer[PEERS], uint32_t without)
{
    for (uint32_t i = 0; i < PEERS; i++) {
        if (i != without) {
            hsp_test_rmdir(peer[i].dir);
        }
        free(peer[i].dir);
    }
}

/* Asserts that the notes in @dir have the steps @want, each with its newest epoch: "0/5 1/7 ". */
static void assert_knows(const char *dir, const char *want)
{
    char path[512], got[256] = "";
    uint64_t newest[32] = {0};
    struct hsp_notes_damage d;
    size_t len, used = 0;
    (void)snprintf(path, sizeof path, "%s/job-3-1.metrics", dir);
    if (access(path, F_OK) == 0) {
        char *text = noted(dir, path, &len);
        size_t n = hsp_metrics_check(3, text, len, &d);
        assert_int_equal(d.n, 0);
        for (char *at = text; at < text + n; at = (char *)memchr(at, '\n', 4096) + 1) {
            unsigned epoch, step;
            assert_int_equal(sscanf(at, "%u %u {\"step\":", &epoch, &step), 2);
            assert_true(newest[step] == 0 || newest[step] < epoch); /* no line comes twice */
            newest[step] = epoch;
        }
        free(text);
    }
    for (unsigned s = 0; s < 32; s++) {
        if (newest[s] != 0) {
            used +=
                (size_t)snprintf(got + used, sizeof got - used, "%u/%u ", s, (unsigned)newest[s]);
        }
    }
    assert_string_equal(got, want);
}

/* Rank 0 is new. Rank 1 and the replica holder each have steps that the other lacks, and the holder
 * has the newer note of one step. The source has a step that no other peer has. If a peer runs an
 * older program, no peer waits for it. */
static void notes_go_to_all_that_begin(void **state)
{
    (void)state;
    static const char all[] = "0/5 1/5 2/5 3/7 4/7 5/8 ";
    struct peer peer[PEERS];
    make_folders(peer, PEERS);
    for (uint64_t s = 0; s < 4; s++) {
        note_in(peer[1].dir, 5, s);
    }
    note_in(peer[2].dir, 5, 0);
    note_in(peer[2].dir, 7, 3);
    note_in(peer[2].dir, 7, 4);
    note_in(peer[3].dir, 5, 1);
    note_in(peer[3].dir, 8, 5);
    begin_epoch(peer, false);
    assert_knows(peer[0].dir, "");
    assert_knows(peer[2].dir, "0/5 3/7 4/7 ");
    for (int again = 0; again < 2; again++) { /* the second time nothing is sent */
        begin_epoch(peer, true);
        for (uint32_t i = 0; i < 3; i++) {
            assert_knows(peer[i].dir, all);
        }
        assert_knows(peer[3].dir, "1/5 5/8 ");
    }
    end_folders(peer, PEERS);
}

/* Epoch 5 made steps 0 to 4, and epoch 7 made steps 3 and 4 again. Then an administrator chose the
 * state of epoch 5 after step 4. So the notes of epoch 5 are valid, and joining peers get them. */
static void a_note_that_was_given_up_hides_none(void **state)
{
    (void)state;
    struct hsp_m_cut cut = {6, 9, 2};
    const struct hsp_m_prepare p = {
        .mode = HSP_MODE_RECOVER, .share_notes = true, .n_cuts = 1, .cuts = &cut};
    struct peer peer[PEERS];
    make_folders(peer, PEERS);
    for (uint64_t s = 0; s < 5; s++) {
        note_in(peer[1].dir, 5, s);
    }
    note_in(peer[1].dir, 7, 3);
    note_in(peer[1].dir, 7, 4);
    note_in(peer[2].dir, 7, 4);
    for (int again = 0; again < 2; again++) { /* the second time nothing is sent */
        begin_with(peer, &p, 0, NULL);
        assert_knows(peer[0].dir, "0/5 1/5 2/5 3/5 4/5 ");
    }
    end_folders(peer, PEERS);
}

/* Asserts that the agent has got reports of the steps @want, "EPOCH/STEP ", with the metrics of
 * note_in. */
static void assert_heard(struct hsp_chan *agent, const char *want)
{
    char got[2048] = "";
    struct hsp_err err = {0};
    for (bool more = true; more;) {
        struct hsp_frame frame;
        struct hsp_msg m;
        struct hsp_arena *arena = hsp_arena_new(1 << 20);
        assert_ok(hsp_chan_recv(agent, arena, &frame, &m, &err), &err);
        more = m.type != HSP_MSG_HEARTBEAT;
        if (more) {
            const struct hsp_m_step *s = &m.u.step;
            size_t used = strlen(got);
            assert_int_equal(m.type, HSP_MSG_STEP);
            assert_true(s->job == 3 && s->tokens == 24 && s->sequence == 512 && !s->final);
            assert_true(isnan(s->loss) && isinf(s->grad_norm) && isinf(s->val_loss));
            assert_true(s->val_loss < 0 && s->lr == 0.5 && s->seconds == 0.25);
            (void)snprintf(got + used, sizeof got - used, "%u/%u ", (unsigned)m.epoch,
                           (unsigned)s->step);
        }
        hsp_frame_fini(&frame);
        (void)hsp_arena_free(arena);
    }
    assert_string_equal(got, want);
}

/* The newest reports may have been lost with the agent of a rank, so rank 0 of the next epoch
 * reports the noted steps before its own first step. Rank 0 reports no step that was given up, and
 * none in a switch, in which no report is lost. */
static void noted_steps_are_told_by_who_goes_on(void **state)
{
    (void)state;
    struct hsp_m_cut cut = {0, 8, 3}; /* epochs before 8 after step 3 */
    const struct {
        uint8_t mode;
        uint64_t version;
        uint32_t n_cuts;
        const char *told;
    } c[] = {{HSP_MODE_RECOVER, 8, 0, "5/0 5/1 5/2 7/3 7/4 8/5 "},
             {HSP_MODE_RECOVER, 5, 0, "5/0 5/1 5/2 7/3 7/4 "},
             {HSP_MODE_RESTORE, 8, 1, "5/0 5/1 5/2 7/3 8/5 "},
             {HSP_MODE_SWITCH, 8, 0, ""}};
    for (size_t k = 0; k < HSP_ARRAY_LEN(c); k++) {
        struct hsp_chan out, agent;
        struct peer peer[PEERS];
        struct hsp_msg last = {.type = HSP_MSG_HEARTBEAT};
        struct hsp_err err = {0};
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        hsp_chan_init(&out, pair[0]);
        hsp_chan_init(&agent, pair[1]);
        make_folders(peer, PEERS);
        for (uint64_t s = 0; s < 4; s++) {
            note_in(peer[0].dir, 5, s);
        }
        note_in(peer[2].dir, 7, 3);
        note_in(peer[1].dir, 7, 4);
        note_in(peer[0].dir, 8, 5);
        const struct hsp_m_prepare p = {
            .mode = c[k].mode, .share_notes = true, .n_cuts = c[k].n_cuts, .cuts = &cut};
        begin_with(peer, &p, c[k].version, &out);
        assert_ok(hsp_chan_send(&out, &last, &err), &err);
        assert_heard(&agent, c[k].told);
        end_folders(peer, PEERS);
        hsp_chan_fini(&out);
        hsp_chan_fini(&agent);
    }
}

static off_t size_of_notes(const char *dir)
{
    char path[512];
    struct stat s;
    (void)snprintf(path, sizeof path, "%s/job-3-1.metrics", dir);
    return stat(path, &s) == 0 ? s.st_size : 0;
}

/* If rank 0 cannot write its file, it still forwards the notes of other peers. */
static void notes_go_through_a_rank_that_cannot_keep_them(void **state)
{
    (void)state;
    struct peer peer[PEERS];
    make_folders(peer, 0);
    note_in(peer[1].dir, 5, 0);
    note_in(peer[2].dir, 7, 1);
    note_in(peer[3].dir, 7, 2);
    begin_epoch(peer, true);
    assert_knows(peer[1].dir, "0/5 1/7 2/7 ");
    assert_knows(peer[2].dir, "0/5 1/7 2/7 ");
    end_folders(peer, 0);
}

/* A peer that cannot read its file of notes does not know its content, so it writes no line to this
 * file. Rank 0 in this situation still forwards the notes of other peers. */
static void a_file_that_cannot_be_read_is_left_alone(void **state)
{
    (void)state;
    const off_t long_one = ((off_t)1 << 30) + 1; /* longer than the longest file that is read */
    for (uint32_t who = 0; who < 3; who++) {
        struct peer peer[PEERS];
        char path[512];
        make_folders(peer, PEERS);
        note_in(peer[3].dir, 7, 2);
        note_in(peer[who].dir, 5, 0);
        (void)snprintf(path, sizeof path, "%s/job-3-1.metrics", peer[who].dir);
        assert_int_equal(truncate(path, long_one), 0);
        begin_epoch(peer, true);
        for (uint32_t i = 0; i < 3; i++) {
            if (i == who) {
                assert_int_equal(size_of_notes(peer[i].dir), long_one);
            } else {
                assert_knows(peer[i].dir, "2/7 ");
            }
        }
        end_folders(peer, PEERS);
    }
}

/* Only few of many notes are under way at any time, and a peer that cannot write notes soon gets no
 * more. */
static void many_notes_need_little_memory(void **state)
{
    (void)state;
    enum { STEPS = 20000, MOST = 1200000 };
    struct peer peer[PEERS];
    make_folders(peer, 2);
    for (uint64_t s = 0; s < STEPS; s++) {
        note_in(peer[0].dir, 5, s);
    }
    off_t all = size_of_notes(peer[0].dir);
    assert_true(all > 2 * MOST);
    begin_epoch(peer, true);
    assert_int_equal(size_of_notes(peer[1].dir), all);
    assert_in_range(most_waiting, 1, MOST);
    assert_in_range(sent[2], 1, MOST);
    char path[512];
    (void)snprintf(path, sizeof path, "%s/job-3-1.metrics", peer[0].dir);
    assert_int_equal(unlink(path), 0);
    begin_epoch(peer, true); /* now in the other direction */
    assert_int_equal(size_of_notes(peer[0].dir), all);
    assert_int_equal(size_of_notes(peer[1].dir), all);
    end_folders(peer, 2);
}

struct merging {
    struct peer peer;
    struct hsp_buf out;
    struct hsp_notes_faults faults;
};

static void *merge(void *arg)
{
    struct merging *m = arg;
    struct hsp_err err = {0};
    hsp_buf_init(&m->out, 1 << 24);
    assert_ok(hsp_metrics_merge(&m->peer.e, &m->out, &m->faults, &err), &err);
    return NULL;
}

/* At the end of a job rank 0 requests the notes of each rank piece by piece, so the notes of many
 * ranks are never under way at the same time. Ranks of an earlier version send all notes in one
 * message. */
static void notes_of_all_ranks_come_in_pieces(void **state)
{
    (void)state;
    enum { RANKS = 3, STEPS = 30000, MOST = 1 << 20 };
    static struct hsp_pkg_peer names[RANKS];
    static struct merging m[RANKS];
    char *dir[RANKS], *whole = NULL;
    struct hsp_err err = {0};
    for (uint32_t r = 0; r < RANKS; r++) {
        dir[r] = hsp_test_tmpdir();
    }
    for (uint64_t s = 0; s < STEPS; s++) {
        note_in(dir[s % RANKS], 5, s);
    }
    for (int pieces = 0; pieces < 2; pieces++) {
        struct hsp_comm *comm[RANKS];
        assert_ok(hsp_loop_open(RANKS, comm, &err), &err);
        count(comm, RANKS);
        for (uint32_t r = 0; r < RANKS; r++) {
            struct peer *p = &m[r].peer;
            p->env = (struct hsp_exec_env){.state_dir = dir[r], .device = 1};
            p->p = (struct hsp_m_prepare){
                .job = 3, .rank = r, .n_ranks = RANKS, .steps = STEPS, .share_notes = pieces == 1};
            p->e = (struct hsp_ex_epoch){.env = &p->env, .p = &p->p, .number = 9};
            p->e.pkg.peers = names;
            p->e.mesh[HSP_MESH_DATA] = comm[r];
            assert_int_equal(pthread_create(&p->thread, NULL, merge, &m[r]), 0);
        }
        for (uint32_t r = 0; r < RANKS; r++) {
            assert_int_equal(pthread_join(m[r].peer.thread, NULL), 0);
            comm[r]->ops->close(comm[r]);
        }
        assert_string_equal(m[0].faults.lacking, "");
        assert_string_equal(m[0].faults.damage, "");
        assert_true((pieces == 1) == (largest <= MOST));
        if (pieces == 0) {
            whole = strdup(hsp_buf_cstr(&m[0].out));
        } else {
            assert_string_equal(hsp_buf_cstr(&m[0].out), whole);
        }
        for (uint32_t r = 0; r < RANKS; r++) {
            hsp_buf_fini(&m[r].out);
        }
    }
    free(whole);
    for (uint32_t r = 0; r < RANKS; r++) {
        hsp_test_rmdir(dir[r]);
        free(dir[r]);
    }
}

/* Checks hsp_ranges_lack and hsp_ranges_unite for every pair of small lists. */
static void lists_of_steps(void **state)
{
    (void)state;
    enum { STEPS = 5, EPOCHS = 3, LISTS = 243 };
    for (uint32_t x = 0; x < LISTS * LISTS; x++) {
        struct hsp_step_ranges a = {0}, b = {0}, lacks = {0};
        struct hsp_step_range ra[STEPS], rb[STEPS];
        uint64_t ea[STEPS], eb[STEPS], got[STEPS] = {0};
        struct hsp_err err = {0};
        for (uint32_t s = 0, y = x; s < STEPS; s++) {
            ea[s] = y % LISTS % EPOCHS; /* 0: lacks the step */
            y = y % LISTS / EPOCHS;
        }
        for (uint32_t s = 0, y = x / LISTS; s < STEPS; s++, y /= EPOCHS) {
            eb[s] = y % EPOCHS;
        }
        for (uint64_t s = 0; s < STEPS; s++) {
            if (ea[s] != 0) {
                ra[a.n++] = (struct hsp_step_range){ea[s], s, s};
            }
            if (eb[s] != 0) {
                rb[b.n++] = (struct hsp_step_range){eb[s], s, s};
            }
        }
        a.r = ra;
        b.r = rb;
        assert_ok(hsp_ranges_lack(&b, &a, &lacks, &err), &err);
        for (size_t i = 0; i < lacks.n; i++) {
            for (uint64_t s = lacks.r[i].from; s <= lacks.r[i].to; s++) {
                got[s] = lacks.r[i].epoch;
            }
        }
        for (uint64_t s = 0; s < STEPS; s++) {
            assert_int_equal(got[s], ea[s] > eb[s] ? ea[s] : 0);
        }
        struct hsp_step_ranges both = {0}, none = {0};
        assert_ok(hsp_ranges_unite(&both, &b, &err), &err);
        assert_ok(hsp_ranges_unite(&both, &lacks, &err), &err);
        assert_ok(hsp_ranges_lack(&both, &a, &none, &err), &err);
        assert_int_equal(none.n, 0);
        assert_ok(hsp_ranges_lack(&both, &b, &none, &err), &err);
        assert_int_equal(none.n, 0);
        free(both.r);
        free(lacks.r);
    }
}

HSP_TEST_FILE(step_log_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_are_none_are_texts),
        cmocka_unit_test(a_damaged_note_is_left_out_and_told),
        cmocka_unit_test(half_a_line_at_the_end_is_dropped),
        cmocka_unit_test(notes_of_an_earlier_version_are_kept),
        cmocka_unit_test(notes_of_many_devices_need_the_room_of_one),
        cmocka_unit_test(steps_without_a_note_are_told),
        cmocka_unit_test(what_was_given_up_is_no_note),
        cmocka_unit_test(notes_go_to_all_that_begin),
        cmocka_unit_test(a_note_that_was_given_up_hides_none),
        cmocka_unit_test(noted_steps_are_told_by_who_goes_on),
        cmocka_unit_test(notes_go_through_a_rank_that_cannot_keep_them),
        cmocka_unit_test(a_file_that_cannot_be_read_is_left_alone),
        cmocka_unit_test(many_notes_need_little_memory),
        cmocka_unit_test(notes_of_all_ranks_come_in_pieces),
        cmocka_unit_test(lists_of_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
