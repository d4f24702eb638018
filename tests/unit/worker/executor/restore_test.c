/* Checks which checkpoint all members load if their folders have several checkpoints of one step.
 * Each member has a folder of its own, and members are connected by the loop transport. */
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/size.h"
#include "proto/host/file_io.h"
#include "proto/layout/box.h"
#include "tests/unit/worker/state/shard_write.h"
#include "tests/unit/worker/state/state_lib.h"
#include "worker/comm/loop/loop_comm.h"
#include "worker/executor/epoch.h"
#include "worker/executor/epoch_checkpoint.h"
#include "worker/executor/epoch_restore.h"
#include "worker/state/ckpt.h"
#include "worker/state/ckpt_shard.h"
#include "worker/state/part_sums.h"
#include "worker/state/safetensors_read.h"

#define MAX_RANKS 4
#define STEP      40
#define N_PARAMS  2
#define N_KINDS   2

#define SHARD      "shard-00001-model-00001-of-00001.safetensors"
#define DATA_BYTES ((8 * 4 + 6) * N_KINDS * 8)

static struct hsp_pkg_param params[N_PARAMS] = {{"wte.weight", 2, {8, 4}}, {"bias", 1, {6}}};
static const uint8_t kinds[N_KINDS] = {HSP_STATE_PARAM, HSP_STATE_M};

/* Describes the checkpoint in the folder of a member; job 0: there is none. */
struct had {
    uint64_t job; /* job whose numbers it has; each job has others */
    uint64_t term, epoch;
    bool other_data, other_model, damaged;
    bool flipped; /* a bit of its data is flipped, not of its metadata */
    bool forged;  /* flipped, but with right hashes, as if damaged before it was written */
    bool meant;   /* named by hspmdd; if none is named, the latest is loaded */
};

struct member {
    struct hsp_ex_epoch e;
    struct hsp_m_prepare p;
    struct hsp_held_data data;
    struct hsp_pkg_row owned[N_PARAMS];
    char folder[4200];
    bool fails; /* members may end with different errors */
    enum hsp_status st;
    struct hsp_err err;
};

struct world {
    char *dir;
    uint32_t n;
    struct hsp_pkg_peer peers[MAX_RANKS];
    struct member m[MAX_RANKS];
};

/* ---- a world of members, none of which computes ---- */

/* Returns rank @rank's part of parameter @param: some rows of parameter 0; all of parameter 1 if
 * this is the last rank. */
static struct hsp_box part(const struct world *w, uint32_t rank, uint32_t param)
{
    struct hsp_box b = hsp_box_whole(params[param].rank, params[param].ext);
    if (param == 0) {
        b.lo[0] = 8 * rank / w->n;
        b.hi[0] = 8 * (rank + 1) / w->n;
    } else if (rank + 1 < w->n) {
        b.lo[0] = b.hi[0];
    }
    return b;
}

static void make_home(const struct world *w, struct member *m)
{
    struct hsp_segment_key key = {.job = "t", .epoch = 1};
    struct hsp_segment_row rows[N_PARAMS * N_KINDS] = {0};
    struct hsp_err err = {0};
    uint32_t n = 0;
    (void)snprintf(key.device, sizeof key.device, "n%u/0", m->p.rank);
    for (uint32_t i = 0; i < N_PARAMS; i++) {
        for (uint8_t k = 0; k < N_KINDS; k++) {
            rows[n] = (struct hsp_segment_row){.tensor = i,
                                               .kind = kinds[k],
                                               .dtype = HSP_F64,
                                               .box = part(w, m->p.rank, i),
                                               .offset = 256 * (int64_t)n};
            memcpy(rows[n++].full, params[i].ext, sizeof params[i].ext);
        }
    }
    assert_ok(hsp_segment_create(w->dir, &key, &(struct hsp_whose){0}, rows, n, 256 * (int64_t)n,
                                 NULL, &m->e.seg[STEP % 2], &err),
              &err);
}

static void make_member(struct world *w, uint32_t rank, struct hsp_comm *comm)
{
    struct member *m = &w->m[rank];
    (void)snprintf(m->folder, sizeof m->folder, "%s/at-%u", w->dir, rank);
    m->data.set.n_bytes = m->data.set.n_tokens = 1000;
    m->p = (struct hsp_m_prepare){.job_name = "t",
                                  .rank = rank,
                                  .n_ranks = w->n,
                                  .n_peers = w->n,
                                  .checkpoint_path = m->folder};
    m->e = (struct hsp_ex_epoch){.p = &m->p, .member = true, .data = &m->data};
    m->e.pkg = (struct hsp_package){.dtype = HSP_F64,
                                    .n_kinds = N_KINDS,
                                    .kinds = {kinds[0], kinds[1]},
                                    .n_peers = w->n,
                                    .peers = w->peers,
                                    .n_params = N_PARAMS,
                                    .params = params};
    for (uint32_t i = 0; i < N_PARAMS; i++) { /* no two ranks have the same part */
        m->owned[i] = (struct hsp_pkg_row){.from = rank, .param = i, .box = part(w, rank, i)};
    }
    m->e.pkg.gather = (struct hsp_pkg_table){.n = N_PARAMS, .row = m->owned};
    m->e.prog.bind.data =
        (struct hsp_data_bind){.seed = 3, .global_batch = 2, .sequence = 4, .vocab = 256};
    m->e.mesh[HSP_MESH_STATE] = comm;
    make_home(w, m);
}

/* Writes hashes into the file that fit its data. */
static void make_sums(const char *path)
{
    char *data = NULL, *key;
    size_t len = 0, at = 0;
    struct hsp_st_reader *r;
    struct hsp_part_sums sums;
    uint64_t bytes[N_PARAMS * N_KINDS];
    struct hsp_err err = {0};
    assert_ok(hsp_file_read(path, 1 << 16, (uint8_t **)&data, &len, &err), &err);
    assert_ok(hsp_st_open(path, &r, &err), &err);
    size_t n;
    const struct hsp_st_entry *e = hsp_st_entries(r, &n);
    assert_int_equal(n, N_PARAMS * N_KINDS);
    for (size_t i = 0; i < n; i++) {
        bytes[i] = e[i].end - e[i].begin;
    }
    hsp_st_close(r);
    assert_true(hsp_part_sums_init(&sums, bytes, N_PARAMS * N_KINDS));
    for (size_t i = 0; i < N_PARAMS * N_KINDS; at += bytes[i++]) {
        hsp_part_sums_add(&sums, i, HSP_F64, 0, data + len - DATA_BYTES + at, bytes[i]);
    }
    key = strstr(data + 8, "hspmd.sums");
    hsp_part_sums_put(&sums, key + strlen("hspmd.sums\":\""));
    hsp_part_sums_fini(&sums);
    assert_ok(hsp_file_write(path, data, len, 0644, &err), &err);
    free(data);
}

/* Writes checkpoint @h to the folder of member @m. Returns its content hash. */
static uint64_t write_had(struct member *m, const struct had *h)
{
    struct hsp_ckpt_done done;
    char dir[4300], file[4400];
    struct hsp_err err = {0};
    struct hsp_data_cursor data;
    struct hsp_ckpt_info info = {"t", STEP, h->term, h->epoch, 1, N_PARAMS, 4, {{1, 2}, 3}, false};
    double x[N_PARAMS * N_KINDS][32];
    struct hsp_ckpt_piece p[N_PARAMS * N_KINDS];
    uint32_t n = 0;
    (void)snprintf(dir, sizeof dir, "%s/t", m->folder);
    (void)mkdir(m->folder, 0700); /* exists when a second step is written */
    (void)mkdir(dir, 0700);
    for (uint32_t i = 0; i < N_PARAMS; i++) {
        struct hsp_box whole = hsp_box_whole(params[i].rank, params[i].ext);
        for (uint8_t k = 0; k < N_KINDS; k++, n++) {
            fill_box(HSP_F64, i, kinds[k], h->job, params[i].ext, &whole, x[n]);
            p[n] = (struct hsp_ckpt_piece){h->other_model && i == 0 ? "wpe.weight" : params[i].name,
                                           i,
                                           kinds[k],
                                           HSP_F64,
                                           params[i].ext,
                                           whole,
                                           whole,
                                           x[n],
                                           0};
        }
    }
    assert_ok(shard_write(dir, &info, 0, p, n, NULL, &err), &err);
    assert_ok(hsp_epoch_cursor(&m->e, STEP, &data, &err), &err);
    data.digest.lo += h->other_data;
    assert_ok(hsp_ckpt_commit(dir, &info, &data, "{}", &done, &err), &err);
    if (h->damaged) {
        (void)snprintf(file, sizeof file, "%s/step-%010d/manifest.json", dir, STEP);
        cut_file(file, 30);
    }
    (void)snprintf(file, sizeof file, "%s/step-%010d/" SHARD, dir, STEP);
    if (h->flipped || h->forged) {
        flip_bit(file, size_of(file) - 1 - hsp_test_rand("at", h->job) % DATA_BYTES, 3);
    }
    if (h->forged) {
        make_sums(file);
    }
    return done.content;
}

static void mean(struct world *w, const struct had *h, uint64_t content)
{
    for (uint32_t r = 0; r < w->n; r++) {
        w->m[r].p.ckpt_term = h->term;
        w->m[r].p.ckpt_epoch = h->epoch;
        w->m[r].p.ckpt_content = content;
    }
}

static void make_world(struct world *w, uint32_t n, const struct had *had)
{
    static const char *const names[MAX_RANKS] = {"n0/0", "n1/0", "n2/0", "n3/0"};
    struct hsp_comm *comm[MAX_RANKS];
    struct hsp_err err = {0};
    memset(w, 0, sizeof *w);
    w->dir = hsp_test_tmpdir();
    w->n = n;
    assert_ok(hsp_loop_open(n, comm, &err), &err);
    for (uint32_t r = 0; r < n; r++) {
        w->peers[r].name = names[r];
        make_member(w, r, comm[r]);
    }
    for (uint32_t r = 0; r < n; r++) {
        uint64_t content = had[r].job != 0 ? write_had(&w->m[r], &had[r]) : 0;
        if (had[r].meant) {
            mean(w, &had[r], content);
        }
    }
}

static void end_world(struct world *w)
{
    for (uint32_t r = 0; r < w->n; r++) {
        struct hsp_ex_epoch *e = &w->m[r].e;
        e->mesh[HSP_MESH_STATE]->ops->close(e->mesh[HSP_MESH_STATE]);
        (void)hsp_segment_close(e->seg[STEP % 2]);
    }
    hsp_test_rmdir(w->dir);
    free(w->dir);
}

static void *restore(void *arg)
{
    struct member *m = arg;
    m->st = hsp_epoch_restore(&m->e, STEP, &m->err);
    if (m->st != HSP_OK && !m->fails) {
        m->e.mesh[HSP_MESH_STATE]->ops->abort(m->e.mesh[HSP_MESH_STATE]);
    }
    return NULL;
}

static void restore_all(struct world *w)
{
    pthread_t t[MAX_RANKS];
    (void)alarm(60); /* members that choose differently may deadlock */
    for (uint32_t r = 0; r < w->n; r++) {
        assert_int_equal(pthread_create(&t[r], NULL, restore, &w->m[r]), 0);
    }
    for (uint32_t r = 0; r < w->n; r++) {
        assert_int_equal(pthread_join(t[r], NULL), 0);
    }
    (void)alarm(0);
}

/* Counts the elements of a member's home that differ from the numbers of @job. */
static int64_t wrong_at_home(const struct member *m, uint64_t job)
{
    const struct hsp_state_segment *s = m->e.seg[STEP % 2];
    int64_t wrong = hsp_segment_version(s) != STEP;
    for (uint32_t i = 0; i < hsp_segment_n(s); i++) {
        const struct hsp_segment_row *row = hsp_segment_row_at(s, i);
        wrong += wrong_in_box(row->dtype, row->tensor, row->kind, job, row->full, &row->box,
                              &row->box, (const uint8_t *)hsp_segment_area(s) + row->offset);
    }
    return wrong;
}

/* Restores @n members with the checkpoints @had, and asserts that all have the state of @job. */
static void all_take(uint32_t n, const struct had *had, uint64_t job)
{
    struct world w;
    make_world(&w, n, had);
    restore_all(&w);
    for (uint32_t r = 0; r < n; r++) {
        assert_ok(w.m[r].st, &w.m[r].err);
        if (wrong_at_home(&w.m[r], job) != 0) {
            fail_msg("%u members: member %u has not the state of job %d", n, r, (int)job);
        }
    }
    end_world(&w);
}

/* ---- tests ---- */

static void the_later_job_is_taken_by_all(void **state)
{
    static const struct had former = {.job = 1, .term = 1, .epoch = 3};
    static const struct had present = {.job = 2, .term = 1, .epoch = 9};
    static const struct had none = {0};
    (void)state;
    all_take(1, (const struct had[]){present}, 2);
    all_take(2, (const struct had[]){former, present}, 2);
    all_take(2, (const struct had[]){present, former}, 2);
    all_take(3, (const struct had[]){none, former, present}, 2);
    all_take(3, (const struct had[]){former, none, present}, 2);
    all_take(4, (const struct had[]){present, former, none, present}, 2);
    all_take(4, (const struct had[]){former, present, former, present}, 2);
}

static void a_later_term_is_later_whatever_the_epoch(void **state)
{
    static const struct had old = {.job = 1, .term = 1, .epoch = 9};
    static const struct had young = {.job = 2, .term = 2, .epoch = 3};
    (void)state;
    all_take(2, (const struct had[]){old, young}, 2);
    all_take(2, (const struct had[]){young, old}, 2);
}

/* If two checkpoints of one term and epoch have different contents, their order is unknown, but all
 * members load the same one. */
static void no_two_contents_are_mixed(void **state)
{
    static const struct had a = {.job = 1, .term = 1, .epoch = 3};
    static const struct had b = {.job = 2, .term = 1, .epoch = 3};
    struct world w;
    (void)state;
    make_world(&w, 2, (const struct had[]){a, b});
    restore_all(&w);
    assert_ok(w.m[0].st, &w.m[0].err);
    assert_ok(w.m[1].st, &w.m[1].err);
    uint64_t job = wrong_at_home(&w.m[0], 1) == 0 ? 1 : 2;
    end_world(&w);
    all_take(2, (const struct had[]){a, b}, job);
    all_take(2, (const struct had[]){b, a}, job);
    all_take(3, (const struct had[]){b, a, b}, job);
}

static void what_cannot_be_used_is_not_chosen(void **state)
{
    static const struct had good = {.job = 1, .term = 1, .epoch = 3};
    static const struct had of_other_data = {.job = 2, .term = 1, .epoch = 9, .other_data = true};
    static const struct had of_other_model = {.job = 2, .term = 1, .epoch = 9, .other_model = true};
    static const struct had damaged = {.job = 2, .term = 1, .epoch = 9, .damaged = true};
    (void)state;
    all_take(2, (const struct had[]){of_other_data, good}, 1);
    all_take(2, (const struct had[]){of_other_model, good}, 1);
    all_take(2, (const struct had[]){good, of_other_model}, 1);
    all_take(3, (const struct had[]){damaged, good, of_other_data}, 1);
}

static void nobody_begins(const struct had *had, enum hsp_status want, const char *why)
{
    struct world w;
    make_world(&w, 2, had);
    w.m[0].fails = w.m[1].fails = true;
    restore_all(&w);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(w.m[r].st, want);
        assert_int_equal(strncmp(w.m[r].err.msg, why, strlen(why)), 0);
        assert_int_not_equal(hsp_segment_version(w.m[r].e.seg[STEP % 2]), STEP);
    }
    end_world(&w);
}

static void without_any_all_say_why(void **state)
{
    static const struct had none = {0};
    static const struct had of_other_data = {.job = 2, .term = 1, .epoch = 9, .other_data = true};
    static const struct had of_other_model = {.job = 2, .term = 1, .epoch = 9, .other_model = true};
    (void)state;
    nobody_begins((const struct had[]){none, none}, HSP_ENOENT, "no member has the checkpoint: ");
    nobody_begins((const struct had[]){none, of_other_data}, HSP_ESTATE,
                  "checkpoint 40: trained on other data: ");
    nobody_begins((const struct had[]){none, of_other_model}, HSP_ESTATE,
                  "checkpoint 40: of another model: it has no wte.weight as this job has it; "
                  "resume the job it is of, or submit this one again");
}

/* Members load the checkpoint that hspmdd names, not the later one: epochs of two jobs of one name
 * cannot be compared, and an epoch that was lost without a report is in no history. */
static void the_one_that_is_meant_is_taken(void **state)
{
    static const struct had former = {.job = 1, .term = 1, .epoch = 9};
    static const struct had meant = {.job = 2, .term = 1, .epoch = 3, .meant = true};
    static const struct had again = {.job = 2, .term = 2, .epoch = 5}; /* same state, newer */
    static const struct had none = {0};
    (void)state;
    all_take(2, (const struct had[]){former, meant}, 2);
    all_take(2, (const struct had[]){meant, former}, 2);
    all_take(4, (const struct had[]){former, none, meant, meant}, 2);
    all_take(3, (const struct had[]){former, again, meant}, 2);
}

static void rename_step(const struct member *m, const char *from, const char *to)
{
    char a[4400], b[4400];
    (void)snprintf(a, sizeof a, "%s/t/%s", m->folder, from);
    (void)snprintf(b, sizeof b, "%s/t/%s", m->folder, to);
    assert_int_equal(rename(a, b), 0);
}

/* The named checkpoint is found also if another checkpoint of the step has replaced it and it was
 * renamed; the writer of the other was killed before its report. */
static void the_one_that_is_meant_may_be_aside(void **state)
{
    static const struct had none = {0};
    static const struct had meant = {.job = 2, .term = 1, .epoch = 3, .meant = true};
    static const struct had again = {.job = 1, .term = 1, .epoch = 4};
    struct world w;
    (void)state;
    make_world(&w, 2, (const struct had[]){meant, none});
    rename_step(&w.m[0], "step-0000000040", "hidden");
    (void)write_had(&w.m[0], &again);
    rename_step(&w.m[0], "hidden", "step-0000000040.job-4");
    w.m[0].p.job = w.m[1].p.job = 4;
    restore_all(&w);
    for (uint32_t r = 0; r < 2; r++) {
        assert_ok(w.m[r].st, &w.m[r].err);
        assert_int_equal(wrong_at_home(&w.m[r], 2), 0);
    }
    end_world(&w);
}

/* The disk of the only member that had the named checkpoint is broken: no other checkpoint is
 * loaded. */
static void another_one_is_not_taken_for_it(void **state)
{
    static const struct had former = {.job = 1, .term = 1, .epoch = 2};
    static const struct had broken = {
        .job = 2, .term = 1, .epoch = 3, .damaged = true, .meant = true};
    (void)state;
    nobody_begins(
        (const struct had[]){former, broken}, HSP_ENOENT,
        "no member has checkpoint 40 of epoch 3 in term 1 (start a node that has it): member 1: ");
    nobody_begins(
        (const struct had[]){broken, former}, HSP_ENOENT,
        "no member has checkpoint 40 of epoch 3 in term 1 (start a node that has it): member 0: ");
}

/* No damaged element is loaded: a member with a damaged checkpoint, and a member without a
 * checkpoint, load the elements of another member. */
static void damaged_contents_are_not_taken(void **state)
{
    static const struct had none = {0};
    static const struct had good = {.job = 2, .term = 1, .epoch = 3, .meant = true};
    static const struct had flipped = {.job = 2, .term = 1, .epoch = 3, .flipped = true};
    static const struct had forged = {.job = 2, .term = 1, .epoch = 3, .forged = true};
    (void)state;
    all_take(2, (const struct had[]){flipped, good}, 2);
    all_take(2, (const struct had[]){good, flipped}, 2);
    all_take(4, (const struct had[]){flipped, none, flipped, good}, 2);
    all_take(4, (const struct had[]){none, flipped, good, none}, 2);
    all_take(3, (const struct had[]){flipped, good, good}, 2);
    all_take(4, (const struct had[]){none, forged, good, flipped}, 2);
    all_take(2, (const struct had[]){good, forged}, 2);
}

/* If every checkpoint is damaged, no member has state of that version afterwards, and all report
 * the damage. */
static void damage_everywhere_is_told(void **state)
{
    static const struct had flipped = {
        .job = 2, .term = 1, .epoch = 3, .flipped = true, .meant = true};
    static const struct had forged = {
        .job = 2, .term = 1, .epoch = 3, .forged = true, .meant = true};
    static const struct had none = {0};
    const char *what = "no member has checkpoint 40 of epoch 3 in term 1 (start a node that has "
                       "it): member 0: step-0000000040/" SHARD ": ";
    (void)state;
    nobody_begins((const struct had[]){flipped, flipped}, HSP_ENOENT, what);
    nobody_begins((const struct had[]){flipped, none}, HSP_ENOENT, what);
    nobody_begins((const struct had[]){forged, none}, HSP_ENOENT, what);
    nobody_begins((const struct had[]){forged, forged}, HSP_ENOENT, what);
}

static const struct hsp_comm_ops *link_ops;

/* Receives a message, and flips a bit if the message has data of an answer. */
static enum hsp_status recv_damaged(struct hsp_comm *c, uint32_t peer, uint32_t channel, void *buf,
                                    size_t bytes, struct hsp_err *err)
{
    enum hsp_status st = link_ops->recv(c, peer, channel, buf, bytes, err);
    if (st == HSP_OK && bytes == 4 * 4 * 8) { /* four rows of the first parameter */
        ((uint8_t *)buf)[17] ^= 2;
    }
    return st;
}

/* An answer that is damaged on its way is not used as state; then the members may end with
 * different errors. */
static void a_damaged_answer_is_found(void **state)
{
    static const struct had none = {0};
    static const struct had good = {.job = 2, .term = 1, .epoch = 3, .meant = true};
    struct world w;
    (void)state;
    make_world(&w, 2, (const struct had[]){good, none});
    struct hsp_comm *comm = w.m[1].e.mesh[HSP_MESH_STATE];
    struct hsp_comm_ops damaging = *comm->ops;
    link_ops = comm->ops;
    damaging.recv = recv_damaged;
    comm->ops = &damaging;
    restore_all(&w);
    assert_int_equal(w.m[1].st, HSP_EDIGEST);
    assert_string_equal(w.m[1].err.msg, "wte.weight of a checkpoint from n0/0 is damaged");
    assert_int_not_equal(w.m[0].st, HSP_OK);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_not_equal(hsp_segment_version(w.m[r].e.seg[STEP % 2]), STEP);
    }
    end_world(&w);
}

HSP_TEST_FILE(restore_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_later_job_is_taken_by_all),
        cmocka_unit_test(a_later_term_is_later_whatever_the_epoch),
        cmocka_unit_test(no_two_contents_are_mixed),
        cmocka_unit_test(what_cannot_be_used_is_not_chosen),
        cmocka_unit_test(without_any_all_say_why),
        cmocka_unit_test(the_one_that_is_meant_is_taken),
        cmocka_unit_test(the_one_that_is_meant_may_be_aside),
        cmocka_unit_test(another_one_is_not_taken_for_it),
        cmocka_unit_test(damaged_contents_are_not_taken),
        cmocka_unit_test(damage_everywhere_is_told),
        cmocka_unit_test(a_damaged_answer_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
