/* Tests attempts at a step that other epochs make or killed processes leave: which files they may
 * not harm. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/layout/box.h"
#include "tests/unit/worker/state/shard_write.h"
#include "tests/unit/worker/state/state_lib.h"
#include "worker/state/box_hash.h"
#include "worker/state/ckpt.h"
#include "worker/state/ckpt_files.h"
#include "worker/state/ckpt_read.h"
#include "worker/state/ckpt_shard.h"
#include "worker/state/ckpt_steps.h"

#define JOB     3
#define N       8 /* elements of the only parameter, a half for each rank */
#define STEP    "step-0000000100"
#define ASIDE   STEP ".job-3"
#define SHARD_2 "shard-00002-model-00001-of-00001.safetensors"

/* Renames that still succeed; later ones fail, as if the process were dead. Negative: all
 * succeed. */
static int renames_left = -1;

/* Lets another epoch of the job commit a step at a set moment. */
static struct {
    const char *dir;
    const char *to; /* before the next rename to this name; NULL: not */
    unsigned ends;  /* at the end of a folder, when so many have come; 0: not */
    uint64_t step, epoch;
} race;
static void commit_meanwhile(void);
static void at_renamed(const char *to); /* the rename is done */

int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __real_renameat(int from_fd, const char *from, int to_fd, const char *to);

int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    if (renames_left == 0) {
        errno = EIO;
        return -1;
    }
    renames_left -= renames_left > 0;
    if (race.to != NULL && strcmp(to, race.to) == 0) {
        commit_meanwhile();
    }
    int rc = __real_renameat(from_fd, from, to_fd, to);
    int no = errno;
    if (rc == 0) {
        at_renamed(to);
    }
    errno = no;
    return rc;
}

static const int64_t full[] = {N};

static struct hsp_ckpt_info info_of(uint64_t step, uint64_t epoch)
{
    return (struct hsp_ckpt_info){.job = "gpt",
                                  .step = step,
                                  .term = 2,
                                  .epoch = epoch,
                                  .n_ranks = 2,
                                  .n_params = 1,
                                  .job_id = JOB,
                                  .whose = {{1, 2}, 5}};
}

/* The half of rank @rank, with the values of @version in @x. */
static struct hsp_ckpt_piece half_of(uint32_t rank, uint64_t version, float x[N])
{
    struct hsp_box whole = hsp_box_whole(1, full);
    fill_box(HSP_F32, 0, 0, version, full, &whole, x);
    return (struct hsp_ckpt_piece){
        .name = "a",
        .dtype = HSP_F32,
        .full = full,
        .held = whole,
        .data = x,
        .box = {.rank = 1, .lo = {rank * N / 2}, .hi = {(rank + 1) * N / 2}}};
}

static void write_rank(const char *dir, const struct hsp_ckpt_info *info, uint32_t rank,
                       uint64_t version)
{
    float x[N];
    struct hsp_err err = {0};
    struct hsp_ckpt_piece p = half_of(rank, version, x);
    assert_ok(shard_write(dir, info, rank, &p, 1, NULL, &err), &err);
}

static enum hsp_status commit(const char *dir, const struct hsp_ckpt_info *info,
                              struct hsp_err *err)
{
    struct hsp_data_cursor data = {.sequence = 1, .pass_samples = 1};
    return hsp_ckpt_commit(dir, info, &data, "{}", NULL, err);
}

static void write_step(const char *dir, uint64_t step, uint64_t epoch, uint64_t version)
{
    struct hsp_ckpt_info info = info_of(step, epoch);
    struct hsp_err err = {0};
    for (uint32_t r = 0; r < 2; r++) {
        write_rank(dir, &info, r, version);
    }
    assert_ok(commit(dir, &info, &err), &err);
}

static void commit_meanwhile(void)
{
    race.to = NULL;
    race.ends = 0;
    write_step(race.dir, race.step, race.epoch, race.step);
}

/* Two epochs that commit step 100 side by side, and wait for each other at set places. */
static struct {
    bool on;
    struct hsp_ckpt_info info; /* of the later one */
    pthread_t later;
    bool begun, over;
    sem_t placed, go;
    enum hsp_status st;
    struct hsp_err err;
} side;
static _Thread_local bool is_later;

static void *commit_beside(void *dir)
{
    is_later = true;
    side.st = commit(dir, &side.info, &side.err);
    (void)sem_post(&side.placed); /* if it never got there */
    return NULL;
}

/* The earlier epoch has found the owner of the old step. The later one replaces that step, and is
 * not yet done. */
static void begin_later(const char *name)
{
    if (side.on && !is_later && !side.begun && strcmp(name, ASIDE) == 0) {
        side.begun = true;
        assert_int_equal(pthread_create(&side.later, NULL, commit_beside, (void *)race.dir), 0);
        assert_int_equal(sem_wait(&side.placed), 0);
    }
}

static void end_later(void)
{
    if (side.begun && !side.over) {
        side.over = true;
        (void)sem_post(&side.go);
        assert_int_equal(pthread_join(side.later, NULL), 0);
    }
}

/* Another epoch moves the step aside by mistake, when its commit is all but done. */
static bool mistake;

/* No descriptors are left while the old step is aside; the step is then put back. */
static bool starves;

static void at_renamed(const char *to)
{
    if (starves && strcmp(to, ASIDE) == 0) {
        starve_descriptors(0);
    } else if (starves && strcmp(to, STEP) == 0) {
        feed_descriptors();
    } else if (side.on && is_later && strcmp(to, STEP) == 0) {
        (void)sem_post(&side.placed);
        (void)sem_wait(&side.go);
    } else if (side.on && !is_later && strcmp(to, ASIDE) == 0) {
        end_later(); /* its last looks find its own step aside */
    } else if (mistake && strcmp(to, STEP) == 0) {
        char from[4300], aside[4300];
        (void)snprintf(from, sizeof from, "%s/%s", race.dir, STEP);
        (void)snprintf(aside, sizeof aside, "%s/%s", race.dir, ASIDE);
        mistake = false;
        assert_int_equal(rename(from, aside), 0);
    }
}

static void count_ends(void)
{
    if (race.ends > 0 && --race.ends == 0) {
        commit_meanwhile();
    }
}

/* Asserts that @step can be read and has the values of @version. */
static void assert_step(const char *dir, uint64_t step, uint64_t version)
{
    float x[N];
    struct hsp_ckpt *c = NULL;
    struct hsp_err err = {0};
    struct hsp_box whole = hsp_box_whole(1, full);
    assert_ok(hsp_ckpt_open(dir, step, JOB, &c, &err), &err);
    assert_ok(hsp_ckpt_verify(c, &err), &err);
    assert_ok(hsp_ckpt_read(c, hsp_ckpt_find(c, "a", 0), &whole, &whole, x, &err), &err);
    assert_int_equal(wrong_in_box(HSP_F32, 0, 0, version, full, &whole, &whole, x), 0);
    (void)hsp_ckpt_close(c);
}

static size_t n_steps(const char *dir)
{
    struct hsp_ckpt_place *place = NULL;
    struct hsp_err err = {0};
    size_t n = 0;
    assert_ok(hsp_ckpt_list(dir, &place, &n, &err), &err);
    free(place);
    return n;
}

static const char *path_of(const char *dir, const char *name)
{
    static char path[4300];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static bool is_there(const char *dir, const char *name)
{
    return access(path_of(dir, name), F_OK) == 0;
}

static int setup(void **state)
{
    *state = hsp_test_tmpdir();
    mistake = false;
    syncs_left = -1;
    at_open = begin_later;
    renames_left = -1;
    race.dir = *state;
    race.to = NULL;
    race.ends = 0;
    race.step = 100;
    race.epoch = 9;
    at_folder_end = count_ends;
    return 0;
}

static int teardown(void **state)
{
    renames_left = -1;
    at_folder_end = NULL;
    at_open = NULL;
    hsp_test_rmdir(*state);
    free(*state);
    return 0;
}

/* People copy and link steps. A worker writes into no copy, under any name. */
static void names_that_we_do_not_write_are_left_alone(void **state)
{
    static const char *const strangers[] = {
        "step-20", "step-00000000020", "step-0000000020.job-03", "step-20.job-3",
        "step-0000000020.job-3.term-02.epoch-7.00000000000000010000000000000002.tmp"};
    const size_t n = sizeof strangers / sizeof strangers[0];
    struct hsp_err err = {0};
    struct hsp_ckpt_info us = info_of(30, 8);
    write_step(*state, 10, 7, 10);
    write_step(*state, 20, 7, 20);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(mkdir(path_of(*state, strangers[i]), 0755), 0);
    }
    assert_int_equal(symlink("step-0000000020", path_of(*state, "step-020")), 0);
    assert_int_equal(n_steps(*state), 2);
    assert_ok(hsp_ckpt_prune(*state, &us, 1, NULL, 0, &err), &err);
    assert_ok(hsp_ckpt_sweep(*state, &us, &err), &err);
    assert_step(*state, 20, 20);
    assert_int_equal(n_steps(*state), 1);
    for (size_t i = 0; i < n; i++) {
        if (!is_there(*state, strangers[i])) {
            fail_msg("%s is gone", strangers[i]);
        }
    }
    assert_true(is_there(*state, "step-020"));
}

/* Begins the half of rank 1 of an epoch that is over, with other values, and writes nothing yet. */
static struct hsp_ckpt_stream *begin_stale(const char *dir, const struct hsp_ckpt_info *info,
                                           struct hsp_ckpt_piece *p, float x[N])
{
    struct hsp_ckpt_stream *s = NULL;
    struct hsp_err err = {0};
    *p = half_of(1, 99, x);
    const struct hsp_box_id id = {p->tensor, p->kind, p->dtype, p->full};
    p->hash = hsp_box_hash(&id, &p->box, &p->held, p->data);
    p->data = NULL;
    assert_ok(hsp_ckpt_stream_open(dir, info, 1, p, 1, &s, &err), &err);
    return s;
}

/* A node that was cut off writes on when hspmdd has long recovered without it, and other ranks have
 * committed the same step on the shared path. */
static void a_writer_of_an_earlier_epoch_harms_no_step(void **state)
{
    float x[N];
    struct hsp_err err = {0};
    struct hsp_ckpt_piece p;
    struct hsp_ckpt_info old = info_of(100, 7), now = info_of(100, 9);
    for (int swept = 0; swept < 2; swept++) {
        struct hsp_ckpt_stream *s = begin_stale(*state, &old, &p, x);
        if (swept == 1) {
            assert_ok(hsp_ckpt_sweep(*state, &now, &err), &err);
        }
        write_step(*state, 100, 9, 100);
        assert_step(*state, 100, 100);
        assert_ok(hsp_ckpt_stream_put(s, 0, &p.box, x + N / 2, &err), &err);
        assert_step(*state, 100, 100);
        if (swept == 0) { /* the writer fails, deletes its part and gives up */
            (void)hsp_ckpt_stream_discard(s);
        } else { /* the writer comes to its end */
            assert_status(hsp_ckpt_stream_close(s, NULL, &err), HSP_ESTALE);
        }
        assert_ok(hsp_ckpt_abandon(*state, &old, &err), &err);
        assert_true(is_there(*state, "step-0000000100/" SHARD_2));
        assert_step(*state, 100, 100);
    }
}

/* Returns true if the attempt of @epoch at @step is there. */
static bool has_attempt(const char *dir, uint64_t step, uint64_t epoch)
{
    char name[HSP_CKPT_NAME];
    struct hsp_ckpt_info info = info_of(step, epoch);
    hsp_ckpt_tmp_name(&info, name);
    return is_there(dir, name);
}

/* Attempts of earlier epochs go, to make room for a step that is written again; attempts of this
 * epoch and of later ones stay. */
static void attempts_of_earlier_epochs_make_room(void **state)
{
    struct hsp_err err = {0};
    for (uint64_t epoch = 7; epoch <= 9; epoch++) {
        for (uint64_t step = 90; step <= 110; step += 10) {
            struct hsp_ckpt_info info = info_of(step, epoch);
            write_rank(*state, &info, 1, step);
        }
    }
    char old[3]
            [HSP_CKPT_NAME]; /* names of a version without epochs; the last one is another job's */
    for (uint64_t i = 0; i < 3; i++) {
        struct hsp_ckpt_info before = info_of(i == 0 ? 90 : 100, 7);
        before.job_id += i == 2;
        hsp_ckpt_old_tmp_name(&before, old[i]);
        assert_int_equal(mkdir(path_of(*state, old[i]), 0755), 0);
    }
    struct hsp_ckpt_info us = info_of(100, 8);
    assert_ok(hsp_ckpt_sweep(*state, &us, &err), &err);
    assert_false(is_there(*state, old[0]));
    assert_true(is_there(*state, old[1])); /* perhaps of a member of that version */
    assert_true(is_there(*state, old[2]));
    assert_true(has_attempt(*state, 90, 9)); /* of a later epoch */
    assert_false(has_attempt(*state, 100, 7));
    assert_true(has_attempt(*state, 100, 8) && has_attempt(*state, 100, 9));
    assert_true(has_attempt(*state, 110, 7));
    write_step(*state, 100, 8, 100);
    us.step = 110;
    assert_ok(hsp_ckpt_prune(*state, &us, 1, NULL, 0, &err), &err);
    assert_false(is_there(*state, old[1]));
    assert_true(has_attempt(*state, 100, 9));
    us.epoch = 9;
    assert_ok(hsp_ckpt_prune(*state, &us, 1, NULL, 0, &err), &err);
    assert_false(has_attempt(*state, 100, 9));
    assert_true(has_attempt(*state, 110, 7)); /* no step above it is complete */
}

/* In an upgrade node by node rank 1 is of a version that names no epoch, and has begun first. */
static void members_of_two_versions_write_one_step(void **state)
{
    static const char name[] = "step-0000000100.job-3.00000000000000010000000000000002.tmp";
    struct hsp_ckpt_info us = info_of(100, 8);
    struct hsp_err err = {0};
    us.old_name = true;
    for (uint32_t k = 0; k < 2; k++) {
        write_rank(*state, &us, 1, 100);
        assert_true(is_there(*state, name));
        assert_ok(hsp_ckpt_sweep(*state, &us, &err), &err);
        if (k == 0) { /* rank 0 has no room */
            assert_ok(hsp_ckpt_abandon(*state, &us, &err), &err);
            assert_false(is_there(*state, name));
        }
    }
    write_rank(*state, &us, 0, 100);
    assert_ok(commit(*state, &us, &err), &err);
    assert_false(is_there(*state, name));
    assert_step(*state, 100, 100);
    write_rank(*state, &us, 1, 100); /* left behind, as an attempt with its own epoch is */
    us.step = 110;
    us.old_name = false;
    write_rank(*state, &us, 1, 110);
    us.old_name = true;
    assert_ok(hsp_ckpt_sweep(*state, &us, &err), &err);
    assert_true(!is_there(*state, name) && has_attempt(*state, 110, 8));
}

/* A node is cut off from hspmdd and trains on. Others have gone on without it, and it commits
 * late. */
static void an_earlier_epoch_deletes_nothing_of_a_later_one(void **state)
{
    struct hsp_err err = {0};
    write_step(*state, 90, 9, 90);
    write_step(*state, 100, 9, 100);
    struct hsp_ckpt_info late = info_of(100, 8);
    for (uint32_t r = 0; r < 2; r++) {
        write_rank(*state, &late, r, 55);
    }
    assert_status(commit(*state, &late, &err), HSP_ESTALE);
    assert_step(*state, 100, 100);
    write_step(*state, 110, 8, 110);
    late.step = 110;
    assert_ok(hsp_ckpt_prune(*state, &late, 1, NULL, 0, &err), &err);
    assert_step(*state, 90, 90);
    assert_step(*state, 100, 100);
    assert_step(*state, 110, 110);
}

static void spoil_manifest(const char *dir, const char *name)
{
    flip_bit(path_of(dir, name), strlen("{\n\t\"f"), 0); /* {"format": 2 */
}

/* Both epochs commit the same step. The earlier one finds the place free, or an old step in it, or
 * a damaged one, just before the later one takes the place. */
static void of_two_epochs_at_once_the_later_one_has_the_step(void **state)
{
    struct hsp_err err = {0};
    for (int before = 0; before < 3; before++) {
        struct hsp_ckpt_info late = info_of(100, 7);
        if (before > 0) {
            write_step(*state, 100, 5, 55);
        }
        if (before == 2) {
            spoil_manifest(*state, "step-0000000100/manifest.json");
        }
        for (uint32_t r = 0; r < 2; r++) {
            write_rank(*state, &late, r, 77);
        }
        race.to = before == 0 ? "step-0000000100" : before == 1 ? "step-0000000100.job-3" : NULL;
        race.ends = before == 2 ? 2 : 0; /* ends of its own folder and of the damaged one */
        enum hsp_status st = commit(*state, &late, &err);
        if (st != HSP_ESTALE) {
            fail_msg("before %d: %d: %s", before, (int)st, err.msg);
        }
        assert_true(race.to == NULL && race.ends == 0);
        assert_true(is_there(*state, "step-0000000100/" SHARD_2));
        assert_step(*state, 100, 100);
        assert_int_equal(n_steps(*state), 1);
        assert_false(is_there(*state, "step-0000000100.left"));
        hsp_test_rmdir(*state);
        assert_int_equal(mkdir(*state, 0700), 0);
    }
    struct hsp_ckpt_info now = info_of(100, 9);
    for (uint32_t r = 0; r < 2; r++) {
        write_rank(*state, &now, r, 77);
    }
    race.to = "step-0000000100"; /* the earlier epoch has been quicker */
    race.epoch = 7;
    assert_ok(commit(*state, &now, &err), &err);
    assert_step(*state, 100, 77);
    assert_int_equal(n_steps(*state), 1);
}

static void write_ranks(const char *dir, const struct hsp_ckpt_info *info, uint64_t version)
{
    for (uint32_t r = 0; r < info->n_ranks; r++) {
        write_rank(dir, info, r, version);
    }
}

/* The earlier epoch has found the owner of the old step when the later one moves that step aside
 * and replaces it. The last look of the later one comes when the earlier one has perhaps moved its
 * step aside. */
static void the_later_epoch_does_not_delete_its_own_step(void **state)
{
    struct hsp_err err = {0};
    struct hsp_ckpt_info late = info_of(100, 7);
    side.info = info_of(100, 9);
    write_step(*state, 100, 5, 55);
    write_ranks(*state, &late, 77);
    write_ranks(*state, &side.info, 100);
    assert_int_equal(sem_init(&side.placed, 0, 0) | sem_init(&side.go, 0, 0), 0);
    side.on = true;
    enum hsp_status st = commit(*state, &late, &err);
    end_later();
    side.on = false;
    assert_true(side.begun);
    assert_ok(side.st, &side.err);
    assert_status(st, HSP_ESTALE);
    assert_step(*state, 100, 100);
    assert_true(is_there(*state, STEP "/" SHARD_2));
    assert_int_equal(n_steps(*state), 1);
}

/* Another epoch has moved the step aside, and will put it back, or has died before. */
static void what_is_aside_of_the_same_or_a_later_epoch_is_not_deleted(void **state)
{
    struct hsp_err err = {0};
    struct hsp_ckpt_info us = info_of(100, 9);
    write_ranks(*state, &us, 100);
    mistake = true;
    assert_ok(commit(*state, &us, &err), &err);
    assert_false(mistake);
    assert_false(is_there(*state, STEP));
    assert_step(*state, 100, 100); /* the step is found there */
    us.epoch = 7;                  /* and an earlier epoch does not take its name */
    write_ranks(*state, &us, 77);
    assert_status(commit(*state, &us, &err), HSP_ESTALE);
    assert_non_null(strstr(err.msg, ASIDE ", to be " STEP ", is of a later epoch, and stays"));
    assert_step(*state, 100, 100);
    assert_int_equal(n_steps(*state), 1);
    us.epoch = 10;
    assert_ok(hsp_ckpt_prune(*state, &us, 1, NULL, 0, &err), &err);
    assert_true(is_there(*state, ASIDE "/" SHARD_2));
    write_step(*state, 100, 10, 110); /* epochs that are over */
    assert_step(*state, 100, 110);
    assert_int_equal(n_steps(*state), 1);
}

/* Asserts that step-100, or that of job @aside, is whole, and of @epoch. */
static void assert_copy(const char *dir, uint32_t aside, uint64_t epoch)
{
    struct hsp_ckpt *c = NULL;
    struct hsp_err err = {0};
    struct hsp_ckpt_place at = {100, aside};
    assert_ok(hsp_ckpt_open_at(dir, &at, &c, &err), &err);
    assert_ok(hsp_ckpt_verify(c, &err), &err);
    assert_int_equal(hsp_ckpt_about(c)->epoch, epoch);
    (void)hsp_ckpt_close(c);
}

/* The disk has not confirmed the new names: the old step is not deleted. */
static void a_folder_that_is_not_synced_keeps_the_old_step(void **state)
{
    struct hsp_err err = {0};
    sync_in = *state;
    for (int k = 0; k < 2; k++) { /* the old one aside, the new one in place */
        uint64_t old = 5 + 10 * (uint64_t)k;
        struct hsp_ckpt_info us = info_of(100, old + 1);
        write_step(*state, 100, old, old);
        write_ranks(*state, &us, old + 1);
        syncs_left = k;
        assert_status(commit(*state, &us, &err), HSP_EIO);
        assert_int_equal(syncs_left, -1);
        assert_int_equal(err.sys, EIO);
        assert_non_null(strstr(err.msg, "cannot sync"));
        assert_copy(*state, k == 0 ? 0 : JOB, old);
        assert_int_equal(n_steps(*state), k + 1);
        us.epoch++; /* nor before the next try has synced the folder */
        write_ranks(*state, &us, old + 2);
        syncs_left = 0;
        assert_status(commit(*state, &us, &err), HSP_EIO);
        assert_copy(*state, k == 0 ? 0 : JOB, old);
        write_step(*state, 100, old + 3, old + 3);
        assert_copy(*state, 0, old + 3);
        assert_int_equal(n_steps(*state), 1);
    }
}

/* A lack of descriptors is not another epoch: the error names it, and the old step is in place. */
static void an_owner_that_is_not_known_is_not_another_epoch(void **state)
{
    struct hsp_err err = {0};
    struct hsp_ckpt_info us = info_of(100, 6);
    write_step(*state, 100, 5, 5);
    write_ranks(*state, &us, 6);
    starves = true;
    enum hsp_status st = commit(*state, &us, &err);
    starves = false;
    assert_status(st, HSP_ENOMEM);
    assert_non_null(strstr(err.msg, "Too many open files"));
    assert_step(*state, 100, 5);
    assert_int_equal(n_steps(*state), 1);
    us.epoch = 7;
    write_ranks(*state, &us, 7);
    assert_ok(commit(*state, &us, &err), &err);
    assert_step(*state, 100, 7);
}

/* The prune has found the owner of the step before, which is not there any more. */
static void what_took_the_place_of_an_old_step_is_not_pruned(void **state)
{
    struct hsp_err err = {0};
    struct hsp_ckpt_info late = info_of(100, 7);
    write_step(*state, 90, 5, 55);
    write_step(*state, 100, 7, 100);
    spoil_manifest(*state, "step-0000000090/manifest.json");
    race.step = 90;
    race.ends = 2; /* ends of the job's folder and of the damaged step */
    (void)hsp_ckpt_prune(*state, &late, 1, NULL, 0, &err); /* may report the error */
    assert_int_equal(race.ends, 0);
    assert_step(*state, 90, 90);
    assert_step(*state, 100, 100);
}

/* On NFS two names cannot be exchanged, so a step is replaced by several renames. */
static void a_kill_while_a_step_is_replaced_leaves_one(void **state)
{
    for (int renames = 0; renames <= 4; renames++) {
        uint64_t first = 10 * ((uint64_t)renames + 1), epoch = first + 1;
        struct hsp_ckpt_info info = info_of(5, epoch);
        struct hsp_err err = {0};
        write_step(*state, 5, first, 7);
        write_rank(*state, &info, 0, epoch);
        write_rank(*state, &info, 1, epoch);
        renames_left = renames; /* of the manifest, the old step, the new one */
        enum hsp_status st = commit(*state, &info, &err);
        renames_left = -1;
        assert_true((st == HSP_OK) == (renames >= 3));
        assert_step(*state, 5, st == HSP_OK ? epoch : 7);
        assert_int_equal(n_steps(*state), 1);
        write_step(*state, 5, first + 2, 8); /* the job goes on from there */
        assert_step(*state, 5, 8);
        assert_int_equal(n_steps(*state), 1);
    }
}

/* Killed when the new step was in place, and the old one not yet deleted. */
static void an_old_step_aside_does_not_stay(void **state)
{
    char other[4300];
    struct hsp_err err = {0};
    struct hsp_ckpt_info us = info_of(5, 9);
    (void)snprintf(other, sizeof other, "%s-other", (const char *)*state);
    assert_int_equal(mkdir(other, 0700), 0);
    for (int again = 0; again < 2; again++) {
        char from[4400];
        write_step(other, 5, 7, 7);
        write_step(*state, 5, 8, 8);
        (void)snprintf(from, sizeof from, "%s/step-0000000005", other);
        assert_int_equal(rename(from, path_of(*state, "step-0000000005.job-3")), 0);
        assert_step(*state, 5, 8);
        if (again == 1) {
            write_step(*state, 5, 9, 9);
        } else {
            assert_ok(hsp_ckpt_prune(*state, &us, 2, NULL, 0, &err), &err);
        }
        assert_int_equal(n_steps(*state), 1);
        assert_step(*state, 5, again == 1 ? 9 : 8);
    }
    hsp_test_rmdir(other);
}

/* A folder of another program in a step outlives the step, and is in nobody's way. */
static void foreign_files_in_a_step_are_in_nobodys_way(void **state)
{
    for (uint64_t k = 0; k < 4; k++) {
        write_step(*state, 5, 7 + k, 7 + k);
        assert_step(*state, 5, 7 + k);
        assert_int_equal(n_steps(*state), 1);
        if (k < 3) {
            assert_int_equal(mkdir(path_of(*state, "step-0000000005/mine"), 0755), 0);
        }
    }
    assert_true(is_there(*state, "step-0000000005.job-3.left/mine"));
    assert_true(is_there(*state, "step-0000000005.job-3.left-2/mine"));
    assert_true(is_there(*state, "step-0000000005.job-3.left-3/mine"));
}

/* State that changes behind its last comparison is not written as that state. */
static void data_of_another_hash_are_not_written(void **state)
{
    float x[N];
    struct hsp_err err = {0};
    struct hsp_ckpt_info info = info_of(5, 7);
    struct hsp_ckpt_piece p = half_of(1, 5, x);
    const struct hsp_box_id id = {p.tensor, p.kind, p.dtype, p.full};
    p.hash = hsp_box_hash(&id, &p.box, &p.held, p.data);
    assert_ok(shard_write(*state, &info, 1, &p, 1, NULL, &err), &err);
    ((unsigned char *)&x[N - 1])[1] ^= 4;
    assert_status(shard_write(*state, &info, 1, &p, 1, NULL, &err), HSP_EDIGEST);
    assert_non_null(strstr(err.msg, "a of a checkpoint differs from the copy of its owner"));
    write_rank(*state, &info, 0, 5);
    assert_status(commit(*state, &info, &err), HSP_EDIGEST); /* nothing of it is left */
}

HSP_TEST_FILE(ckpt_attempt_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_that_we_do_not_write_are_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_writer_of_an_earlier_epoch_harms_no_step, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(attempts_of_earlier_epochs_make_room, setup, teardown),
        cmocka_unit_test_setup_teardown(members_of_two_versions_write_one_step, setup, teardown),
        cmocka_unit_test_setup_teardown(an_earlier_epoch_deletes_nothing_of_a_later_one, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(of_two_epochs_at_once_the_later_one_has_the_step, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_took_the_place_of_an_old_step_is_not_pruned, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_later_epoch_does_not_delete_its_own_step, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_is_aside_of_the_same_or_a_later_epoch_is_not_deleted,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_that_is_not_synced_keeps_the_old_step, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_owner_that_is_not_known_is_not_another_epoch, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_kill_while_a_step_is_replaced_leaves_one, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_old_step_aside_does_not_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(foreign_files_in_a_step_are_in_nobodys_way, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(data_of_another_hash_are_not_written, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
