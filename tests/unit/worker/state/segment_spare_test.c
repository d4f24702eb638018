/* Tests spares, the segments of layouts that are over: a spare becomes a segment of another layout,
 * or gives its room back. */
#include "worker/state/segment_spare.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/worker/state/state_lib.h"
#include "worker/state/segment.h"
#include "worker/state/segment_dir.h"
#include "worker/state/segment_verify.h"

#define AREA 8192

static const struct hsp_whose whose = {{11, 22}, 33};

static struct hsp_state_segment *create(const char *dir, const struct hsp_segment_key *k)
{
    const struct hsp_segment_row row = {
        .tensor = 9, .dtype = HSP_F32, .full = {20}, .box = {.rank = 1, .hi = {20}}};
    struct hsp_state_segment *s;
    struct hsp_err err = {0};
    assert_ok(hsp_segment_create(dir, k, &whose, &row, 1, AREA, NULL, &s, &err), &err);
    return s;
}

/* The file of the spare goes on under another name, shorter. In between it is no source: it is
 * unsealed before it is renamed, and no scan lists it. */
static void a_spare_becomes_a_segment(void **state)
{
    const char *dir = *state;
    struct hsp_segment_key was = segment_key(7, 0), is = segment_key(9, 1);
    struct hsp_err err = {0};
    struct hsp_state_segment *s = create(dir, &was), *other;
    struct hsp_segment_info *info = NULL;
    struct hsp_segment_row row = {
        .tensor = 4, .dtype = HSP_F32, .full = {8}, .box = {.rank = 1, .hi = {8}}};
    char spare[HSP_SEGMENT_PATH];
    struct stat before, now;
    size_t n;
    hsp_segment_seal(s, 5);
    assert_int_equal(stat(segment_file(dir, &was), &before), 0);
    assert_ok(hsp_segment_open(dir, &was, false, &other, &err), &err);
    assert_true(hsp_segment_is_named(dir, s));
    assert_true(hsp_segment_make_spare(dir, s, spare));
    assert_true(hsp_segment_version(other) == HSP_NO_VERSION);
    hsp_segment_close(other);
    assert_false(hsp_segment_is_named(dir, s));
    assert_int_equal(access(segment_file(dir, &was), F_OK), -1);
    assert_ok(hsp_segment_scan(dir, &info, &n, &err), &err);
    assert_int_equal(n, 0);
    free(info);
    assert_true(hsp_spare_bytes(dir) >= AREA);
    assert_ok(hsp_segment_reuse(dir, spare, &is, &whose, &row, 1, 64, s, &err), &err);
    assert_int_equal(hsp_spare_bytes(dir), 0);
    assert_int_equal(stat(segment_file(dir, &is), &now), 0);
    assert_true(now.st_ino == before.st_ino && now.st_size < before.st_size);
    assert_true(now.st_size == (off_t)hsp_segment_file_bytes(1, 64));
    assert_true(hsp_segment_version(s) == HSP_NO_VERSION);
    hsp_segment_seal(s, 11);
    hsp_segment_close(s);
    assert_ok(hsp_segment_open(dir, &is, true, &s, &err), &err);
    assert_ok(hsp_segment_verify(s, &err), &err);
    assert_int_equal(hsp_segment_version(s), 11);
    assert_int_equal(hsp_segment_row_at(s, 0)->tensor, 4);
    assert_ok(hsp_segment_check(s, &err), &err);
    hsp_segment_close(s);
}

#define LONG 200 /* rows of a table that is longer than a small segment */

/* A process that scans the folder may still read the table of the segment that a spare was. */
static void a_spare_is_not_cut_into_its_table(void **state)
{
    struct hsp_segment_key was = segment_key(7, 0), is = segment_key(9, 0);
    struct hsp_segment_row rows[LONG];
    struct hsp_state_segment *s, *reader;
    char spare[HSP_SEGMENT_PATH];
    struct hsp_err err = {0};
    for (uint32_t i = 0; i < LONG; i++) {
        rows[i] = (struct hsp_segment_row){.tensor = i,
                                           .dtype = HSP_F32,
                                           .full = {8},
                                           .box = {.rank = 1, .hi = {8}},
                                           .offset = 64 * (int64_t)i};
    }
    assert_ok(hsp_segment_create(*state, &was, &whose, rows, LONG, 64 * LONG, NULL, &s, &err),
              &err);
    assert_ok(hsp_segment_open(*state, &was, false, &reader, &err), &err);
    assert_true(hsp_segment_make_spare(*state, s, spare));
    assert_status(hsp_segment_reuse(*state, spare, &is, &whose, rows, 1, 64, s, &err), HSP_ENOENT);
    assert_ok(hsp_segment_check(reader, &err), &err);
    assert_ok(hsp_segment_reuse(*state, spare, &is, &whose, rows, LONG, 64 * LONG, s, &err), &err);
    hsp_segment_close(reader);
    hsp_segment_close(s);
}

/* A spare belongs to its executor while that has locked it; else any process may cut it. */
static void a_spare_is_cut_unless_it_is_locked(void **state)
{
    const char *dir = *state;
    struct hsp_segment_key k = segment_key(7, 0), next = segment_key(9, 0);
    struct hsp_state_segment *s = create(dir, &k), *sealed = create(dir, &next);
    struct hsp_segment_row row = {
        .tensor = 4, .dtype = HSP_F32, .full = {8}, .box = {.rank = 1, .hi = {8}}};
    char spare[HSP_SEGMENT_PATH], making[HSP_SEGMENT_PATH];
    struct hsp_err err = {0};
    struct stat sb;
    assert_true(hsp_segment_make_spare(dir, s, spare));
    (void)snprintf(making, sizeof making, "%s/gpt-2.small+node-1+0+e8+s0.tmp", dir);
    int fd = open(making, O_CREAT | O_RDWR | O_CLOEXEC, 0600); /* a segment in the making */
    assert_true(fd >= 0 && ftruncate(fd, 8192) == 0 && close(fd) == 0);
    assert_int_equal(stat(spare, &sb), 0);
    const struct hsp_segment_file f = {sb.st_dev, sb.st_ino};
    int lock = hsp_spare_lock(spare, &f, (uint64_t)sb.st_size);
    assert_true(lock >= 0);
    assert_int_equal(hsp_spare_lock(spare, &f, (uint64_t)sb.st_size), -1);
    hsp_spare_cut(dir);
    assert_int_equal(stat(spare, &sb), 0);
    assert_true((size_t)sb.st_size == hsp_segment_bytes(s));
    assert_int_equal(close(lock), 0);
    assert_int_equal(hsp_spare_lock(spare, &f, 1), -1); /* another file */
    hsp_spare_cut(dir);
    assert_int_equal(access(spare, F_OK), -1);
    for (size_t i = 0; i < hsp_segment_bytes(s);
         i++) { /* in the mapping that its executor still has */
        assert_int_equal(((const uint8_t *)hsp_segment_map(s))[i], 0);
    }
    assert_int_equal(access(making, F_OK), 0);
    assert_ok(hsp_segment_check(sealed, &err), &err);
    k = segment_key(10, 0);
    assert_status(hsp_segment_reuse(dir, spare, &k, &whose, &row, 1, 64, s, &err), HSP_ENOENT);
    hsp_segment_close(s);
    hsp_segment_close(sealed);
}

HSP_TEST_FILE(segment_spare_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_spare_becomes_a_segment, in_folder, folder_gone),
        cmocka_unit_test_setup_teardown(a_spare_is_not_cut_into_its_table, in_folder, folder_gone),
        cmocka_unit_test_setup_teardown(a_spare_is_cut_unless_it_is_locked, in_folder, folder_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
