/* Tests the search for steps of a job, and its messages about steps that cannot be used. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/worker/state/ckpt_lib.h"
#include "worker/state/ckpt_found.h"
#include "worker/state/ckpt_sign.h"
#include "worker/state/final_folder.h"

#define SHARD_1 "shard-00001-model-00001-of-00001.safetensors"
#define RANKS   40u

/* A folder that cannot be opened, for the reason `sick`; a folder whose files cannot be read, with
 * EIO. NULL: none. */
static const char *unopened, *unread_in;
static const char
    *unseen; /* names with this begin cannot be looked for, for the same reason; NULL: none */
static int sick;
void (*at_open)(const char *name);

int __wrap_openat(int at, const char *name, int flags, ...);
int __real_openat(int at, const char *name, int flags, ...);
ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at);
ssize_t __real_pread(int fd, void *buf, size_t n, off_t at);

int __wrap_openat(int at, const char *name, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
    va_end(more);
    if (at_open != NULL) {
        at_open(name);
    }
    if (unopened != NULL && strcmp(name, unopened) == 0) {
        errno = sick;
        return -1;
    }
    return __real_openat(at, name, flags, mode);
}

ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at)
{
    char link[64], path[4400] = "";
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (unread_in != NULL && readlink(link, path, sizeof path - 1) > 0 &&
        strstr(path, unread_in) != NULL) {
        errno = EIO;
        return -1;
    }
    return __real_pread(fd, buf, n, at);
}

int __wrap_fstatat(int at, const char *name, struct stat *ret, int flags);
int __real_fstatat(int at, const char *name, struct stat *ret, int flags);

int __wrap_fstatat(int at, const char *name, struct stat *ret, int flags)
{
    if (unseen != NULL && strncmp(name, unseen, strlen(unseen)) == 0) {
        errno = sick;
        return -1;
    }
    return __real_fstatat(at, name, ret, flags);
}

static int setup(void **state)
{
    unopened = unread_in = hidden_name = NULL;
    names_left = -1;
    return ck_setup(state);
}

static void path_of(const char *dir, const char *name, char ret[4400])
{
    (void)snprintf(ret, 4400, "%s/%s", dir, name);
}

static void spoil_manifest(const char *dir, const char *step)
{
    char path[4400];
    (void)snprintf(path, sizeof path, "%s/%s/manifest.json", dir, step);
    flip_bit(path, strlen("{\n\t\"f"), 0); /* {"format": 2 */
}

static struct hsp_err damage, unread; /* results of the last search */
static bool absent;

/* "60 40 20": the steps that are found of the job and cluster at hand, of which @n at @step are on
 * record. */
static const char *found_of(const char *dir, size_t max, const uint64_t *step, size_t n)
{
    static char text[200];
    struct hsp_ckpts_asked q = {.us = ck_info_of(0, 1), .n = n, .step = step, .max = max};
    struct hsp_ckpts_found l;
    struct hsp_err err = {0};
    size_t len = 0;
    assert_ok(hsp_ckpt_find_all(dir, &q, &l, &err), &err);
    text[0] = '\0';
    for (size_t i = 0; i < l.n; i++) {
        assert_true(l.item[i].term == 2 && l.item[i].epoch == 7 && l.item[i].content != 0);
        len += (size_t)snprintf(text + len, sizeof text - len, i == 0 ? "%u" : " %u",
                                (unsigned)l.item[i].step);
    }
    free(l.item);
    damage = l.damage;
    unread = l.unread;
    absent = l.absent;
    return text;
}

static const char *found_in(const char *dir, size_t max)
{
    return found_of(dir, max, NULL, 0);
}

/* A coordinator that lost its store asks for the complete steps of a job; the list has them under
 * any name. */
static void the_steps_of_a_job_are_found(void **state)
{
    char path[4400];
    for (uint64_t s = 20; s <= 100; s += 20) {
        ck_write_step(*state, s, 2, s);
    }
    path_of(*state, "step-0000000100/" SHARD_1, path);
    assert_int_equal(unlink(path), 0);
    spoil_manifest(*state, "step-0000000060");
    assert_string_equal(found_in(*state, 9), "80 40 20");
    assert_int_equal(damage.code,
                     HSP_EDIGEST); /* of the newest: the damage of 60 does not matter */
    assert_non_null(strstr(damage.msg, "step-0000000100/" SHARD_1 " is missing"));
    assert_string_equal(found_in(*state, 2), "80 40");
    ck_job = 9; /* of the same name; the job moves 20 aside */
    ck_write_step(*state, 20, 1, 1);
    ck_write_step(*state, 140, 1, 1);
    assert_string_equal(found_in(*state, 9), "140 20");
    assert_int_equal(damage.code, HSP_OK);
    ck_job = 3;
    assert_string_equal(found_in(*state, 9), "80 40 20");
    ck_whose.cluster.lo++;
    assert_string_equal(found_in(*state, 9), "");
    assert_true(absent); /* no step is of that job */
    ck_whose.cluster.lo--;
    assert_string_equal(found_in("/nonexistent/j", 9), "");
    assert_true(unread.code == HSP_OK && absent);
}

/* A path that is not mounted looks like a job without a checkpoint. The file that marks the begin
 * of a job tells them apart. */
static void a_job_that_has_begun_is_told_from_a_path_that_is_not_mounted(void **state)
{
    struct hsp_ckpt_info us = ck_info_of(0, 1), other = us;
    struct hsp_err err = {0};
    char dir[4400], far[4400], file[4400];
    other.job_id++;
    path_of(*state, "a/j", dir);
    path_of(*state, "b/j", far);
    assert_true(strcmp(found_in(dir, 9), "") == 0 && absent);
    for (uint32_t again = 0; again < 2; again++) {
        assert_ok(hsp_ckpt_sign(dir, &us, again == 1, &err),
                  &err); /* makes the missing folder or file */
        assert_true(strcmp(found_in(dir, 9), "") == 0 && !absent);
        assert_true(strcmp(found_in(far, 9), "") == 0 && absent);
    }
    ck_job = 9; /* a later job of the same name */
    assert_true(strcmp(found_in(dir, 9), "") == 0 && absent);
    ck_job = 3;
    ck_whose.cluster.lo++;
    assert_true(strcmp(found_in(dir, 9), "") == 0 && absent);
    ck_whose.cluster.lo--;
    path_of(*state, "b", file);
    assert_int_equal(mkdir(file, 0700), 0);
    assert_ok(hsp_ckpt_sign(far, &other, true, &err), &err); /* the mount is there */
    ck_write_step(far, 20, 1, 1); /* written by an agent that knew of no such file */
    assert_true(strcmp(found_in(far, 9), "20") == 0 && !absent);
    spoil_manifest(far, "step-0000000020");
    assert_true(strcmp(found_in(far, 9), "") == 0 && !absent);
    path_of(*state, "c", file);
    int fd = open(file, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0 && close(fd) == 0);
    path_of(*state, "c/j", file);
    assert_int_not_equal(hsp_ckpt_sign(file, &us, false, &err), HSP_OK);
    assert_non_null(strstr(err.msg, "/c"));
}

/* The mount is missing: nothing is made in its place. */
static void a_folder_that_is_not_mounted_is_not_made(void **state)
{
    struct hsp_ckpt_info us = ck_info_of(20, 1);
    struct hsp_err err = {0};
    struct hsp_folder f;
    struct ck_layout l;
    char path[4400], dir[4400], want[4600], aside[HSP_CKPT_NAME];
    path_of(*state, "mount", path);
    path_of(*state, "mount/j", dir);
    ck_layout_init(&l, 1, 1, 20);
    assert_status(hsp_ckpt_sign(dir, &us, true, &err), HSP_ENOENT);
    (void)snprintf(want, sizeof want,
                   "%s is not there: mount checkpoint.path, or make that folder for the user of "
                   "hspmd-worker",
                   dir);
    assert_string_equal(err.msg, want);
    for (int above = 0; above < 2; above++) {
        assert_status(ck_write_rank(dir, &us, &l, 0, &err), HSP_ENOENT);
        assert_string_equal(err.msg, want);
        assert_status(hsp_final_open(dir, &us, aside, &f, &err), HSP_ENOENT);
        assert_string_equal(err.msg, want);
        assert_int_equal(access(path, F_OK), above - 1);
        assert_int_equal(access(dir, F_OK), -1);
        if (above == 0) {
            assert_int_equal(mkdir(path, 0700), 0);
        }
    }
    assert_ok(hsp_ckpt_sign(dir, &us, true, &err), &err);
    assert_ok(ck_write_rank(dir, &us, &l, 0, &err), &err);
    ck_layout_fini(&l);
}

/* The folder can be opened once: to be listed. */
static const char *opened_once;
static uint32_t n_opened;

static void count_opens(const char *name)
{
    if (opened_once != NULL && strcmp(name, opened_once) == 0 && ++n_opened == 2) {
        unopened = opened_once;
    }
}

/* A missing mark means a path that is not mounted. A node that cannot look for the mark does not
 * say so. */
static void a_mark_that_cannot_be_looked_for_is_not_absent(void **state)
{
    static const int harm[] = {EMFILE, EIO, EACCES, EIO};
    struct hsp_ckpts_asked q = {.us = ck_info_of(0, 1), .max = 9};
    struct hsp_ckpts_found l;
    struct hsp_err err = {0};
    char dir[4400];
    path_of(*state, "j", dir);
    assert_ok(hsp_ckpt_sign(dir, &q.us, false, &err), &err);
    at_open = count_opens;
    for (int h = 0; h < 4; h++) {
        sick = harm[h];
        n_opened = 0;
        opened_once = h < 3 ? dir : NULL;
        unseen = h == 3 ? "begun.job-3" : NULL;
        assert_int_equal(hsp_ckpt_find_all(dir, &q, &l, &err), h == 0   ? HSP_ENOMEM
                                                               : h == 2 ? HSP_EPERM
                                                                        : HSP_EIO);
        assert_non_null(strstr(err.msg, dir));
        unopened = NULL;
    }
    at_open = NULL;
    unseen = NULL;
    assert_true(strcmp(found_in(dir, 9), "") == 0 && !absent);
}

/* One step may have two contents: moved aside, then written anew with other steps behind it. */
static void a_step_is_found_once_for_each_content(void **state)
{
    struct hsp_ckpt_info info = ck_info_of(20, 1);
    struct hsp_err err = {0};
    struct ck_layout l;
    ck_write_step(*state, 20, 1, 1);
    ck_job = 9;
    ck_write_step(*state, 20, 1, 1);
    ck_job = 3;
    assert_string_equal(found_in(*state, 9), "20");
    char from[4300], to[4300];
    (void)snprintf(from, sizeof from, "%s/step-0000000020.job-3", (char *)*state);
    (void)snprintf(to, sizeof to, "%s/keep", (char *)*state);
    assert_int_equal(rename(from, to), 0);
    ck_layout_init(&l, 1, 1, 21); /* another state as step 20 */
    assert_ok(ck_write_rank(*state, &info, &l, 0, &err), &err);
    ck_layout_fini(&l);
    assert_ok(ck_commit(*state, &info, &err), &err);
    assert_int_equal(rename(to, from), 0);
    assert_string_equal(found_in(*state, 9), "20 20");
}

/* Otherwise a job on a shared path would go back at once, for a false reason: the newest step may
 * be whole, and be read the next time. */
static void a_step_that_cannot_be_read_is_not_gone(void **state)
{
    static const uint64_t on_record[] = {40, 60};
    static const int harm[] = {EIO, ESTALE, EACCES, 0};
    for (uint64_t s = 20; s <= 60; s += 20) {
        ck_write_step(*state, s, 2, s);
    }
    for (int h = 0; h < 4; h++) {
        sick = harm[h];
        unopened = sick != 0 ? "step-0000000060" : NULL;
        unread_in =
            sick == 0 ? "step-0000000060/shard" : NULL; /* a disk that gives only the names */
        for (size_t n = 0; n <= 2; n++) {
            assert_string_equal(found_of(*state, 9, on_record, n), "40 20");
            assert_int_equal(damage.code, HSP_OK);
            assert_int_equal(unread.code, h == 2 ? HSP_EPERM : HSP_EIO); /* on record or not */
        }
        assert_true(h == 3 || strstr(unread.msg, ", nor whose it is: ") != NULL);
        assert_true(h != 3 ||
                    strstr(unread.msg, "nor whose") == NULL); /* its manifest names the owner */
        assert_non_null(strstr(unread.msg, "step 60 cannot be read"));
        assert_non_null(strstr(unread.msg, strerror(sick != 0 ? sick : EIO)));
    }
    unread_in = NULL;
    char from[4400], to[4400];
    path_of(*state, "step-0000000060", from);
    path_of(*state, "keep", to);
    assert_int_equal(rename(from, to), 0);
    assert_string_equal(found_of(*state, 9, on_record, 2), "40 20");
    assert_true(unread.code == HSP_OK && damage.code == HSP_OK); /* now it is gone */
    assert_int_equal(symlink("keep", from), 0);
    assert_string_equal(found_of(*state, 9, on_record, 2), "40 20");
    assert_int_equal(unread.code, HSP_EPERM);
}

/* A node joins after the step was written (NFS caches the names of a folder for a while). */
static void a_step_on_record_is_found_where_it_is_not_listed(void **state)
{
    static const uint64_t on_record[] = {40, 60, 80};
    ck_write_step(*state, 40, 2, 1);
    ck_write_step(*state, 60, 2, 1);
    hidden_name = "step-0000000060";
    assert_string_equal(found_in(*state, 9), "40");
    assert_string_equal(found_of(*state, 9, on_record, 3), "60 40");
    assert_int_equal(unread.code, HSP_OK); /* 80 is not there */
    ck_job = 9;
    ck_write_step(*state, 60, 1, 1);
    ck_job = 3;
    hidden_name = "step-0000000060.job-3";
    assert_string_equal(found_in(*state, 9), "40");
    assert_string_equal(found_of(*state, 9, on_record, 3), "60 40");
    names_left = 0; /* the folder cannot be read: steps that can be opened are told beside that */
    assert_string_equal(found_of(*state, 9, on_record, 3), "60 40");
    assert_int_equal(unread.code, HSP_EIO);
    assert_non_null(strstr(unread.msg, *state));
    assert_string_equal(found_in(*state, 9), "");
    assert_int_equal(unread.code, HSP_EIO);
}

/* Damage of another job's step tells nothing of this job, whose steps may be gone for another
 * reason. */
static void damage_of_another_job_is_not_told(void **state)
{
    ck_write_step(*state, 40, 2, 1);
    for (uint32_t other = 0; other < 2; other++) {
        ck_job = other == 0 ? 9 : 3;
        ck_whose.cluster.lo += other;
        ck_write_step(*state, 60, 2, 1);
        spoil_manifest(*state, "step-0000000060"); /* its shards say whose it is */
        assert_string_equal(found_in(*state, 9), "");
        assert_int_equal(damage.code, HSP_EDIGEST);
        ck_job = 3;
        ck_whose.cluster.lo -= other;
        assert_string_equal(found_in(*state, 9), "40");
        assert_int_equal(damage.code, HSP_OK);
        char from[4400], to[4400];
        path_of(*state, "step-0000000060", from);
        path_of(*state, other == 0 ? "keep" : "keep too", to);
        assert_int_equal(rename(from, to), 0);
    }
}

/* Nor is such a step told that cannot be read: with no step on record, the job would wait for it
 * for ever. */
static void one_of_another_job_that_cannot_be_read_is_not_told(void **state)
{
    ck_job = 9;
    ck_write_step(*state, 100, 2, 1);
    ck_job = 3;
    unread_in = "step-0000000100/shard";
    assert_string_equal(found_in(*state, 9), "");
    assert_int_equal(unread.code, HSP_OK);
    unread_in = NULL;
    sick = EACCES;
    unopened = "step-0000000100"; /* the step may be ours */
    assert_string_equal(found_in(*state, 9), "");
    assert_non_null(strstr(unread.msg, "step 100 cannot be read, nor whose it is: "));
    ck_write_step(*state, 120, 2, 1); /* a step below a whole one does not matter */
    assert_string_equal(found_in(*state, 9), "120");
    assert_int_equal(unread.code, HSP_OK);
}

/* Steps that are not on record are told as well, and a damaged step hides no unreadable one. */
static void what_is_not_on_record_is_told_too(void **state)
{
    static const uint64_t on_record[] = {20};
    for (uint64_t s = 20; s <= 60; s += 20) {
        ck_write_step(*state, s, 2, s);
    }
    spoil_manifest(*state, "step-0000000060");
    unread_in = "step-0000000040/shard";
    assert_string_equal(found_of(*state, 9, on_record, 1), "20");
    assert_int_equal(damage.code, HSP_EDIGEST);
    assert_int_equal(unread.code, HSP_EIO);
    assert_non_null(strstr(unread.msg, "step 40 cannot be read: "));
}

/* The agent lists several folders at a time, and has other work. */
static void a_list_holds_few_descriptors(void **state)
{
    struct hsp_ckpt_info info = ck_info_of(20, RANKS);
    struct hsp_err err = {0};
    struct ck_layout l;
    ck_layout_init(&l, 1, RANKS, 20);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_ok(ck_write_rank(*state, &info, &l, r, &err), &err);
    }
    ck_layout_fini(&l);
    starve_descriptors(5);
    enum hsp_status st = ck_commit(*state, &info, &err);
    feed_descriptors();
    assert_ok(st, &err);
    starve_descriptors(4);
    const char *found = found_in(*state, 9);
    int fd[6] = {0}, n = 0;
    while (n < 6 && (fd[n] = dup(STDIN_FILENO)) >= 0) {
        n++;
    }
    feed_descriptors();
    for (int i = 0; i < n; i++) {
        (void)close(fd[i]);
    }
    assert_string_equal(found, "20");
    assert_int_equal(n, 4); /* the limit is where it was, and nothing is held */
}

HSP_TEST_FILE(ckpt_found_test)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, ck_teardown)
    const struct CMUnitTest tests[] = {
        T(the_steps_of_a_job_are_found),
        T(a_job_that_has_begun_is_told_from_a_path_that_is_not_mounted),
        T(a_folder_that_is_not_mounted_is_not_made),
        T(a_mark_that_cannot_be_looked_for_is_not_absent),
        T(a_step_is_found_once_for_each_content),
        T(a_step_that_cannot_be_read_is_not_gone),
        T(a_step_on_record_is_found_where_it_is_not_listed),
        T(damage_of_another_job_is_not_told),
        T(one_of_another_job_that_cannot_be_read_is_not_told),
        T(what_is_not_on_record_is_told_too),
        T(a_list_holds_few_descriptors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
