/* Tests the papers of jobs beside their segments: papers are replaced whole or not at all, damage
 * is found when they are read, and they go with the last segment of their job. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/host/file_io.h"
#include "tests/unit/proto/wire/papers_sample.h"
#include "tests/unit/worker/state/state_lib.h"
#include "worker/state/kept.h"
#include "worker/state/papers_file.h"
#include "worker/state/segment_name.h"

static int setup(void **state)
{
    *state = hsp_test_tmpdir();
    return 0;
}

static int teardown(void **state)
{
    hsp_test_rmdir(*state);
    free(*state);
    return 0;
}

static void put(const char *dir, uint32_t job, struct hsp_whose whose, uint64_t epoch)
{
    struct hsp_papers p = papers_sample();
    struct hsp_err err = {0};
    struct hsp_buf b;
    p.job = job;
    p.whose = whose;
    p.epoch = epoch;
    hsp_buf_init(&b, 1 << 20);
    hsp_papers_write(&p, &b);
    assert_ok(hsp_papers_file_write(dir, job, b.data, b.len, &err), &err);
    hsp_buf_fini(&b);
}

/* The path of @name in @dir, valid until the next call. */
static const char *at(const char *dir, const char *name)
{
    static char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static bool has(const char *dir, const char *name)
{
    return access(at(dir, name), F_OK) == 0;
}

static void make_segment(const char *dir, uint32_t job, uint32_t device, uint64_t plan,
                         struct hsp_whose whose)
{
    const struct hsp_segname name = {.job = job, .device = device, .plan = plan};
    const struct hsp_segment_row row = {
        .dtype = HSP_F32, .full = {4}, .box = {.rank = 1, .hi = {4}}};
    struct hsp_state_segment *s;
    struct hsp_segment_key key;
    struct hsp_err err = {0};
    hsp_segname_key(&name, &key);
    assert_ok(hsp_segment_create(dir, &key, &whose, &row, 1, 4096, NULL, &s, &err), &err);
    (void)hsp_segment_close(s);
}

static void only_what_was_written_is_read(void **state)
{
    const char *dir = *state;
    char path[PATH_MAX];
    struct hsp_err err = {0};
    uint8_t *data = NULL;
    size_t len = 0;
    assert_status(hsp_papers_file_read(dir, 7, &data, &len, &err), HSP_ENOENT);
    assert_status(hsp_papers_file_write(dir, 7, "x", 1, &err), HSP_EDIGEST);
    put(dir, 7, papers_sample().whose, 9);
    put(dir, 7, papers_sample().whose, 10);
    assert_ok(hsp_papers_file_read(dir, 7, &data, &len, &err), &err);
    assert_status(hsp_papers_file_write(dir, 8, data, len, &err), HSP_EDIGEST); /* of another job */
    free(data);
    (void)snprintf(path, sizeof(path), "%s/job-7.papers", dir);
    uint64_t bytes = size_of(path);
    for (uint64_t at = 0; at < bytes; at++) {
        flip_bit(path, at, (int)(at % 8));
        enum hsp_status st = hsp_papers_file_read(dir, 7, &data, &len, &err);
        assert_true(st == HSP_EDIGEST || (st == HSP_EVERSION && at >= 8 && at < 12));
        assert_non_null(strstr(err.msg, path));
        flip_bit(path, at, (int)(at % 8));
    }
    cut_file(path, bytes - 1);
    assert_status(hsp_papers_file_read(dir, 7, &data, &len, &err), HSP_EDIGEST);
    cut_file(path, 0);
    assert_status(hsp_papers_file_read(dir, 7, &data, &len, &err), HSP_EDIGEST);
}

static void scan_one(const char *dir, struct hsp_m_kept *ret, char name[HSP_NAME_MAX + 1])
{
    struct hsp_m_kept *k = NULL;
    struct hsp_err err = {0};
    bool more = true;
    uint32_t n = 0;
    assert_ok(hsp_kept_scan(dir, &k, &n, &more, &err), &err);
    assert_false(more);
    assert_int_equal(n, 1);
    *ret = k[0];
    (void)snprintf(name, HSP_NAME_MAX + 1, "%s", k[0].name);
    free(k);
}

/* Segments name the owner at the time when they were made, papers the owner since the job was
 * adopted. */
static void a_scan_tells_what_papers_say(void **state)
{
    const char *dir = *state;
    const struct hsp_whose made = {{1, 1}, 5}, later = {{1, 1}, UINT64_C(1) << 32},
                           other = {{2, 2}, 3};
    struct hsp_m_kept k;
    char name[HSP_NAME_MAX + 1];
    make_segment(dir, 7, 0, 3, made);
    scan_one(dir, &k, name);
    assert_true(k.job == 7 && k.plan == 3 && k.epoch == 0 && name[0] == '\0');
    assert_true(hsp_digest_equal(k.cluster, made.cluster) && k.generation == 5);
    put(dir, 7, other, 9);
    scan_one(dir, &k, name);
    assert_true(hsp_digest_equal(k.cluster, other.cluster) && k.generation == 3 && k.epoch == 9);
    assert_string_equal(name, "mist");
    put(dir, 7, later, 1000001);
    scan_one(dir, &k, name);
    assert_true(hsp_digest_equal(k.cluster, made.cluster) && k.generation == later.generation);
    assert_false(k.papers_damaged);
    cut_file(at(dir, "job-7.papers"), 20); /* as without papers, but papers are reported */
    scan_one(dir, &k, name);
    assert_true(hsp_digest_equal(k.cluster, made.cluster) && k.generation == 5 && k.epoch == 0);
    assert_true(k.papers_damaged);
    assert_int_equal(unlink(at(dir, "job-7.papers")), 0);
    scan_one(dir, &k, name);
    assert_false(k.papers_damaged);
}

/* Only the agent, which writes papers, deletes them. The process that deletes the last segment of a
 * job does not. */
static void they_go_behind_the_last_segment(void **state)
{
    const char *dir = *state;
    const struct hsp_whose whose = papers_sample().whose;
    struct hsp_err err = {0};
    make_segment(dir, 7, 0, 3, whose);
    make_segment(dir, 7, 0, 4, whose);
    make_segment(dir, 7, 1, 4, whose);
    make_segment(dir, 8, 1, 4, whose);
    put(dir, 7, whose, 9);
    put(dir, 8, whose, 9);
    assert_ok(hsp_segname_discard(dir, 7, 0, 4, &err), &err);
    assert_ok(hsp_segname_discard(dir, 7, 0, 0, &err), &err);
    assert_ok(hsp_kept_tidy_job(dir, 7, &err), &err);
    assert_true(has(dir, "job-7.papers"));
    assert_int_equal(mkdir(at(dir, "job-7-1.metrics"), 0700), 0); /* somebody's: in nobody's way */
    assert_ok(hsp_segname_discard(dir, 7, 1, 0, &err), &err);
    assert_int_equal(rmdir(at(dir, "job-7-1.metrics")), 0);
    assert_true(has(dir, "job-7.papers"));
    assert_ok(hsp_kept_tidy_job(dir, 7, &err), &err);
    assert_ok(hsp_kept_tidy_job(at(dir, "none"), 7, &err), &err);
    assert_false(has(dir, "job-7.papers"));
    assert_true(has(dir, "job-8.papers"));
}

/* An agent that begins deletes the papers of a job of which the folder has no segment, and a
 * temporary file of papers whose writer died. Such a job was only prepared. */
static void an_agent_that_begins_tidies(void **state)
{
    const char *dir = *state;
    const struct hsp_whose whose = papers_sample().whose;
    struct hsp_err err = {0};
    assert_ok(hsp_kept_tidy(at(dir, "none"), &err), &err);
    make_segment(dir, 8, 1, 4, whose);
    put(dir, 7, whose, 9);
    put(dir, 8, whose, 9);
    assert_ok(hsp_file_write(at(dir, "job-8.papers.ab12cd"), "x", 1, 0600, &err), &err);
    assert_ok(hsp_file_write(at(dir, "incarnation"), "x", 1, 0600, &err), &err);
    assert_ok(hsp_kept_tidy(dir, &err), &err);
    assert_false(has(dir, "job-7.papers"));
    assert_true(has(dir, "job-8.papers"));
    assert_false(has(dir, "job-8.papers.ab12cd"));
    assert_true(has(dir, "incarnation"));
}

/* Folders with the names of papers or segments are no files of the agent. The agent reads and
 * deletes none of them, and begins all the same. */
static void folders_in_the_place_of_files_are_passed_over(void **state)
{
    static const char *const names[] = {"job-1+9+9+e9+s0.seg", "job-1+9+9+e9+s0.tmp",
                                        "job-2.papers", "job-7-0.metrics"};
    const char *dir = *state;
    struct hsp_err err = {0};
    struct hsp_m_damaged *damaged = NULL;
    struct hsp_m_holding *held = NULL;
    struct hsp_m_kept k;
    char name[HSP_NAME_MAX + 1], copy[HSP_SEGMENT_FILE];
    uint32_t n = 9;
    make_segment(dir, 7, 0, 3, papers_sample().whose);
    put(dir, 7, papers_sample().whose, 9);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(mkdir(at(dir, names[i]), 0700), 0);
    }
    scan_one(dir, &k, name);
    assert_int_equal(k.job, 7);
    assert_ok(hsp_segname_scan(dir, &held, &n, &err), &err);
    assert_int_equal(n, 0); /* the segment is not sealed */
    free(held);
    assert_ok(hsp_segname_tidy(dir, &damaged, &n, copy, &err), &err);
    assert_int_equal(n, 0);
    free(damaged);
    assert_false(has(dir, "job-7+0+0+e3+s0.seg"));
    assert_ok(hsp_kept_tidy(dir, &err), &err);
    assert_false(has(dir, "job-7.papers"));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_true(has(dir, names[i]));
        assert_int_equal(rmdir(at(dir, names[i])), 0);
    }
}

HSP_TEST_FILE(papers_file_test)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(only_what_was_written_is_read), T(a_scan_tells_what_papers_say),
        T(they_go_behind_the_last_segment), T(an_agent_that_begins_tidies),
        T(folders_in_the_place_of_files_are_passed_over)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
