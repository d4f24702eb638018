/* Tests the owners of steps in the folder of a job, and the choice of steps to delete. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/host/file_io.h"
#include "tests/unit/worker/state/ckpt_lib.h"
#include "worker/state/ckpt_shard.h"
#include "worker/state/ckpt_steps.h"

#define SHARD_1 "shard-00001-model-00001-of-00001.safetensors"

static enum hsp_status prune(const char *dir, uint64_t upto, size_t keep, struct hsp_err *err)
{
    struct hsp_ckpt_info us = ck_info_of(upto, 1);
    return hsp_ckpt_prune(dir, &us, keep, NULL, 0, err);
}

static enum hsp_status sweep(const char *dir, uint64_t below, struct hsp_err *err)
{
    struct hsp_ckpt_info us = ck_info_of(below, 1);
    return hsp_ckpt_sweep(dir, &us, err);
}

static bool is_there(const char *dir, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static void put_file(const char *dir, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
}

/* A reader that takes all shards of a step must not find those of another attempt. */
static void a_step_has_nothing_of_a_former_attempt(void **state)
{
    struct hsp_ckpt_info four = ck_info_of(5, 4), two = ck_info_of(5, 2);
    struct hsp_err err = {0};
    struct ck_layout l;
    ck_layout_init(&l, 1, 4, 5);
    for (uint32_t r = 0; r < 4; r++) {
        assert_ok(ck_write_rank(*state, &four, &l, r, &err), &err);
    }
    ck_layout_fini(&l);
    put_file(ck_attempt_at(*state, 5), "manifest.json.Xy12z0"); /* killed while writing it */
    ck_layout_init(&l, 1, 2, 5);
    for (uint32_t r = 0; r < 2; r++) {
        assert_ok(ck_write_rank(*state, &two, &l, r, &err), &err);
    }
    ck_layout_fini(&l);
    assert_ok(ck_commit(*state, &two, &err), &err);
    assert_true(is_there(*state, "step-0000000005/shard-00002-model-00001-of-00001.safetensors"));
    assert_false(is_there(*state, "step-0000000005/shard-00003-model-00001-of-00001.safetensors"));
    assert_false(is_there(*state, "step-0000000005/shard-00004-model-00001-of-00001.safetensors"));
    assert_false(is_there(*state, "step-0000000005/manifest.json.Xy12z0"));
}

/* Makes attempts at steps 10, 20 and 30 of the job and cluster at hand. */
static void make_attempts(const char *dir)
{
    for (uint64_t step = 10; step <= 30; step += 10) {
        const char *path = ck_attempt_at(dir, step);
        (void)mkdir(path, 0755);
        put_file(path, "shard-00001-model-00001-of-00001.safetensors");
    }
}

static bool has_attempts(const char *dir, int of_10, int of_20, int of_30)
{
    return (access(ck_attempt_at(dir, 10), F_OK) == 0) == of_10 &&
           (access(ck_attempt_at(dir, 20), F_OK) == 0) == of_20 &&
           (access(ck_attempt_at(dir, 30), F_OK) == 0) == of_30;
}

/* Somebody's folder in a step keeps neither that step's room nor that of older ones. */
static void what_cannot_be_deleted_keeps_nothing_else(void **state)
{
    struct hsp_err err = {0};
    char path[4096];
    for (uint64_t s = 10; s <= 40; s += 10) {
        ck_write_step(*state, s, 2, s);
    }
    (void)snprintf(path, sizeof(path), "%s/step-0000000030/mine", (char *)*state);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_status(prune(*state, 40, 1, &err), HSP_EIO);
    assert_non_null(strstr(err.msg, "step-0000000030/mine"));
    assert_true(is_there(*state, "step-0000000040"));
    assert_false(is_there(*state, "step-0000000030/shard-00001-model-00001-of-00001.safetensors"));
    assert_false(is_there(*state, "step-0000000020"));
    assert_false(is_there(*state, "step-0000000010"));
    (void)snprintf(path, sizeof(path), "%s/step-0000000040/mine", (char *)*state);
    assert_int_equal(mkdir(path, 0755), 0);
    ck_write_step(*state, 40, 2, 1); /* takes the name all the same */
}

/* Attempts that this job has begun and not ended go; writers of others' attempts may be at work. */
static void attempts_of_earlier_steps_make_room(void **state)
{
    const struct hsp_whose ours = ck_whose;
    struct hsp_err err = {0};
    ck_write_step(*state, 10, 1, 1);
    make_attempts(*state);
    ck_job = 4;
    make_attempts(*state);
    ck_job = 3;
    ck_whose.cluster.lo++;
    make_attempts(*state);
    ck_whose = ours;
    assert_ok(sweep(*state, 30, &err), &err);
    assert_true(has_attempts(*state, 0, 0, 1));
    ck_job = 4;
    assert_true(has_attempts(*state, 1, 1, 1));
    assert_ok(prune(*state, 30, 1, &err), &err); /* no step of job 4 is complete */
    assert_true(has_attempts(*state, 1, 1, 1));
    ck_job = 3;
    make_attempts(*state);
    assert_ok(prune(*state, 20, 1, &err), &err);
    assert_true(
        has_attempts(*state, 0, 1, 1)); /* no attempt but that of 10 is older than step 10 */
    ck_whose.cluster.lo++;
    assert_true(has_attempts(*state, 1, 1, 1));
    ck_whose = ours;
    assert_true(is_there(*state, "step-0000000010"));
    assert_ok(sweep("/nonexistent", 30, &err), &err);
}

static void spoil_manifest(const char *dir, const char *step)
{
    char path[4300];
    (void)snprintf(path, sizeof path, "%s/%s/manifest.json", dir, step);
    flip_bit(path, size_of(path) / 2, 1);
}

/* The steps in a folder, newest first: "50 40 30.3", where 30.3 is a step of job 3 moved aside. */
static const char *steps_in(const char *dir)
{
    static char text[200];
    struct hsp_ckpt_place *steps;
    struct hsp_err err = {0};
    size_t n, len = 0;
    assert_ok(hsp_ckpt_list(dir, &steps, &n, &err), &err);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, i == 0 ? "%u" : " %u",
                                (unsigned)steps[i].step);
        if (steps[i].aside != 0) {
            len += (size_t)snprintf(text + len, sizeof text - len, ".%u", steps[i].aside);
        }
    }
    free(steps);
    return text;
}

static void prune_keeps_the_newest(void **state)
{
    struct hsp_err err = {0};
    for (uint64_t s = 10; s <= 50; s += 10) {
        ck_write_step(*state, s, 2, s);
    }
    assert_int_equal(mkdir(ck_attempt_at(*state, 20), 0755), 0);
    assert_int_equal(mkdir(ck_attempt_at(*state, 60), 0755), 0);
    spoil_manifest(*state, "step-0000000040");
    assert_ok(prune(*state, 50, 3, &err), &err);
    assert_string_equal(steps_in(*state), "50 40 30 20"); /* 40 is of no use, and does not count */
    assert_ok(prune(*state, 40, 1, &err), &err);          /* 50 is of another history */
    assert_string_equal(steps_in(*state), "50 40 30");
    assert_ok(prune(*state, 50, 1, &err), &err);
    assert_string_equal(steps_in(*state), "50");
    assert_int_equal(access(ck_attempt_at(*state, 60), F_OK), 0); /* perhaps being written */
    assert_int_not_equal(access(ck_attempt_at(*state, 20), F_OK), 0);
    assert_string_equal(steps_in("/nonexistent"), "");
}

/* Epoch 1 wrote 20, 40 and 53, and the job has gone on from 40 in epoch 3. Step 53 does not count
 * among the kept steps, so it displaces none that the job may have to go back to. */
static void what_was_given_up_is_not_one_of_the_kept(void **state)
{
    const struct hsp_m_cut cut[] = {{0, 3, 40}, {0, 4, 60}};
    struct hsp_ckpt_info us = ck_info_of(60, 1);
    struct hsp_err err = {0};
    us.epoch = 3;
    for (uint64_t k = 0; k < 4; k++) {
        ck_epoch = k < 3 ? 1 : 3;
        ck_write_step(*state, (const uint64_t[]){20, 40, 53, 60}[k], 1, k);
    }
    assert_ok(hsp_ckpt_prune(*state, &us, 2, cut, 1, &err), &err);
    assert_string_equal(steps_in(*state), "60 53 40");
    us.epoch = ck_epoch = 4;
    us.step = 80;
    ck_write_step(*state, 80, 1, 5);
    assert_ok(hsp_ckpt_prune(*state, &us, 2, cut, 2, &err), &err);
    assert_string_equal(steps_in(*state), "80 60"); /* behind those kept it goes like any other */
}

static void rename_step(const char *dir, const char *from, const char *to)
{
    char a[4300], b[4300];
    (void)snprintf(a, sizeof a, "%s/%s", dir, from);
    (void)snprintf(b, sizeof b, "%s/%s", dir, to);
    assert_int_equal(rename(a, b), 0);
}

static uint64_t content_at(const char *dir, uint32_t aside)
{
    const struct hsp_ckpt_place at = {20, aside};
    struct hsp_err err = {0};
    struct hsp_ckpt *c = NULL;
    assert_ok(hsp_ckpt_look_at(dir, &at, &c, &err), &err);
    uint64_t content = hsp_ckpt_content(c);
    (void)hsp_ckpt_close(c);
    return content;
}

/* A commit was killed before it deleted the step that it had moved aside, and no report of it was
 * sent. */
static void the_content_that_is_meant_may_be_aside(void **state)
{
    const struct hsp_ckpt_info us = ck_info_of(21, 1);
    struct ck_layout l;
    struct hsp_err err = {0};
    struct hsp_ckpt *c = NULL;
    ck_write_step(*state, 20, 1, 1);
    rename_step(*state, "step-0000000020", "hidden");
    ck_layout_init(&l, 1, 1, 21); /* another state of step 20 */
    struct hsp_ckpt_info again = us;
    again.step = 20;
    again.epoch++;
    assert_ok(ck_write_rank(*state, &again, &l, 0, &err), &err);
    assert_ok(ck_commit(*state, &again, &err), &err);
    ck_layout_fini(&l);
    rename_step(*state, "hidden", "step-0000000020.job-3");
    const uint64_t named = content_at(*state, 0), aside = content_at(*state, 3);
    assert_true(named != aside);
    for (uint32_t k = 0; k < 4; k++) { /* 2: neither; 3: any */
        const uint64_t meant = k == 0 ? named : k == 1 ? aside : 5;
        assert_ok(k < 3 ? hsp_ckpt_open_meant(*state, 20, 3, meant, &c, &err)
                        : hsp_ckpt_open(*state, 20, 3, &c, &err),
                  &err);
        assert_int_equal(hsp_ckpt_content(c), k == 1 ? aside : named);
        (void)hsp_ckpt_close(c);
    }
    spoil_manifest(*state, "step-0000000020");
    assert_ok(hsp_ckpt_open_meant(*state, 20, 3, 5, &c, &err), &err);
    assert_int_equal(hsp_ckpt_content(c), aside);
    (void)hsp_ckpt_close(c);
}

/* A step whose owner cannot be read may be another's: it is not deleted, nor is its name taken. */
static void a_step_of_unknown_owner_stays(void **state)
{
    static const char *const harm[] = {"manifest", "manifest and shard", "format", "pipe"};
    const struct hsp_whose ours = ck_whose;
    struct hsp_err err = {0};
    struct ck_layout l;
    char path[4300];
    for (int h = 0; h < 4; h++) {
        ck_whose.cluster.lo =
            h == 0 ? ours.cluster.lo + 1 : ours.cluster.lo; /* 0: another cluster's */
        ck_write_step(*state, 10, 1, 1);
        ck_whose = ours;
        (void)snprintf(path, sizeof path, "%s/step-0000000010/manifest.json", (char *)*state);
        if (h < 2) {
            spoil_manifest(*state, "step-0000000010");
        } else if (h == 2) {
            assert_ok(hsp_file_write(path, "{\"format\": 3}", 13, 0600, &err), &err);
        } else {
            assert_int_equal(unlink(path), 0);
            assert_int_equal(mkfifo(path, 0600), 0);
        }
        (void)snprintf(path, sizeof path, "%s/step-0000000010/" SHARD_1, (char *)*state);
        if (h == 1 || h == 3) {
            flip_bit(path, 9, 1);
        }
        ck_write_step(*state, 20, 1, 1);
        assert_ok(prune(*state, 20, 1, &err), &err);
        if (strcmp(steps_in(*state), "20 10") != 0) {
            fail_msg("%s: %s", harm[h], steps_in(*state));
        }
        struct hsp_ckpt_info info = ck_info_of(10, 1);
        ck_layout_init(&l, 1, 1, 10);
        assert_ok(ck_write_rank(*state, &info, &l, 0, &err), &err);
        assert_status(ck_commit(*state, &info, &err), HSP_EEXIST);
        assert_non_null(strstr(err.msg, h == 0 ? "is of another cluster, and stays: move it"
                                               : "may be of another job or cluster, and stays"));
        ck_layout_fini(&l);
        hsp_test_rmdir(*state);
        assert_int_equal(mkdir(*state, 0700), 0);
    }
}

/* A job that gets the name of one that has ended: the steps of that one stay, and can be read. */
static void steps_of_an_earlier_job_stay(void **state)
{
    struct hsp_err err = {0};
    struct hsp_ckpt *c = NULL;
    ck_write_step(*state, 10, 1, 1);
    ck_write_step(*state, 20, 1, 2);
    spoil_manifest(*state, "step-0000000010");
    ck_job = 4;
    ck_write_step(*state, 10, 1, 3);
    assert_string_equal(steps_in(*state), "20 10 10.3");
    assert_int_equal(ck_done.aside, 3);
    ck_write_step(*state, 20, 1, 4);
    ck_write_step(*state, 30, 1, 5);
    assert_int_equal(ck_done.aside, 0);
    assert_ok(prune(*state, 30, 1, &err), &err);
    assert_string_equal(steps_in(*state), "30 20.3 10.3");
    ck_write_step(*state, 20, 1, 6);
    for (uint32_t whom = 3; whom <= 5; whom++) {
        assert_ok(hsp_ckpt_open(*state, 20, whom, &c, &err), &err);
        assert_int_equal(hsp_ckpt_about(c)->job_id, whom == 5 ? 4 : whom);
        ck_assert_right(c, 20);
        (void)hsp_ckpt_close(c);
    }
    ck_job = 3; /* is resumed, and comes to this step anew */
    ck_epoch++;
    ck_write_step(*state, 20, 1, 7);
    assert_string_equal(steps_in(*state), "30 20 20.4 10.3");
    assert_ok(prune(*state, 20, 1, &err), &err);
    assert_string_equal(steps_in(*state), "30 20 20.4"); /* 10.3 is damaged, and its shard says 3 */
}

/* Two clusters that write to one folder delete and replace their own steps alone. */
static void steps_of_another_cluster_stay(void **state)
{
    const struct hsp_digest ours = {1, 2}, theirs = {1, 3};
    struct hsp_err err = {0};
    struct hsp_ckpt *c = NULL;
    struct ck_layout l;
    struct hsp_ckpt_place *steps;
    size_t n;
    for (uint64_t s = 10; s <= 60; s += 10) { /* theirs: 20, 40, 60 */
        ck_whose.cluster = s % 20 == 0 ? theirs : ours;
        ck_write_step(*state, s, 1, s);
    }
    spoil_manifest(*state, "step-0000000020"); /* its shard names the owner */
    assert_ok(hsp_ckpt_open(*state, 60, 0, &c, &err), &err);
    assert_true(hsp_digest_equal(hsp_ckpt_about(c)->whose.cluster, theirs));
    assert_true(hsp_ckpt_about(c)->whose.generation == UINT64_MAX - 4);
    (void)hsp_ckpt_close(c);
    ck_whose.cluster = ours;
    assert_ok(prune(*state, 60, 2, &err), &err);
    assert_ok(hsp_ckpt_list(*state, &steps, &n, &err), &err);
    assert_int_equal(n, 5);
    assert_true(steps[0].step == 60 && steps[2].step == 40 && steps[3].step == 30 &&
                steps[4].step == 20);
    free(steps);
    struct hsp_ckpt_info info = ck_info_of(40, 1);
    ck_layout_init(&l, 1, 1, 40);
    assert_ok(ck_write_rank(*state, &info, &l, 0, &err), &err);
    assert_status(ck_commit(*state, &info, &err), HSP_EEXIST);
    assert_non_null(strstr(err.msg, "step-0000000040 is of another cluster, and stays: move it"));
    info.whose.cluster = theirs;
    assert_status(ck_commit(*state, &info, &err),
                  HSP_EDIGEST); /* the other cluster has not written a shard */
    assert_ok(ck_write_rank(*state, &info, &l, 0, &err), &err);
    assert_ok(ck_commit(*state, &info, &err), &err);
    ck_layout_fini(&l);
}

/* A user that may write to checkpoint.path could have a worker write to, and delete from, a folder
 * of the worker's user. */
static void a_link_is_not_followed(void **state)
{
    struct hsp_err err = {0};
    struct hsp_ckpt_info info = ck_info_of(20, 1);
    struct hsp_ckpt *c;
    struct ck_layout l;
    struct hsp_ckpt_place *steps;
    size_t n;
    char link[4096];
    ck_write_step(*state, 10, 1, 1);
    ck_write_step(*state, 15, 1, 1);
    ck_layout_init(&l, 1, 1, 20);
    for (int slash = 0; slash < 2; slash++) { /* behind a slash a link would be followed */
        (void)snprintf(link, sizeof link, "%s-link", (char *)*state);
        assert_int_equal(symlink(*state, link), slash == 0 ? 0 : -1);
        (void)snprintf(link, sizeof link, "%s-link%s", (char *)*state, slash == 0 ? "" : "/");
        const char *what =
            "-link is a symbolic link, which is not followed: put a folder there, or "
            "name the one it leads to";
        assert_status(ck_write_rank(link, &info, &l, 0, &err), HSP_EPERM);
        assert_non_null(strstr(err.msg, what));
        assert_status(ck_commit(link, &info, &err), HSP_EPERM);
        assert_status(hsp_ckpt_open(link, 10, 0, &c, &err), HSP_EPERM);
        assert_status(hsp_ckpt_list(link, &steps, &n, &err), HSP_EPERM);
        assert_status(prune(link, 20, 1, &err), HSP_EPERM);
        assert_status(sweep(link, 20, &err), HSP_EPERM);
        assert_status(hsp_ckpt_abandon(link, &info, &err), HSP_EPERM);
    }
    assert_true(is_there(*state, "step-0000000010") && is_there(*state, "step-0000000015"));
    assert_int_not_equal(access(ck_attempt_at(*state, 20), F_OK), 0);
    (void)snprintf(link, sizeof link, "%s-link", (char *)*state);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("step-0000000010", ck_attempt_at(*state, 20)), 0); /* nor within */
    assert_status(ck_write_rank(*state, &info, &l, 0, &err), HSP_EPERM);
    assert_status(hsp_ckpt_abandon(*state, &info, &err), HSP_EPERM);
    assert_true(is_there(*state, "step-0000000010/manifest.json"));
    ck_layout_fini(&l);
}

HSP_TEST_FILE(ckpt_steps_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(steps_of_another_cluster_stay, ck_setup, ck_teardown),
        cmocka_unit_test_setup_teardown(prune_keeps_the_newest, ck_setup, ck_teardown),
        cmocka_unit_test_setup_teardown(what_was_given_up_is_not_one_of_the_kept, ck_setup,
                                        ck_teardown),
        cmocka_unit_test_setup_teardown(the_content_that_is_meant_may_be_aside, ck_setup,
                                        ck_teardown),
        cmocka_unit_test_setup_teardown(a_step_of_unknown_owner_stays, ck_setup, ck_teardown),
        cmocka_unit_test_setup_teardown(steps_of_an_earlier_job_stay, ck_setup, ck_teardown),
        cmocka_unit_test_setup_teardown(a_step_has_nothing_of_a_former_attempt, ck_setup,
                                        ck_teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_deleted_keeps_nothing_else, ck_setup,
                                        ck_teardown),
        cmocka_unit_test_setup_teardown(attempts_of_earlier_steps_make_room, ck_setup, ck_teardown),
        cmocka_unit_test_setup_teardown(a_link_is_not_followed, ck_setup, ck_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
