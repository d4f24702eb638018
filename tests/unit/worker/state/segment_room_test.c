/* Tests room for segments: taken in pieces, given up between two of them, and awaited. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tests/unit/worker/state/state_lib.h"
#include "worker/state/segment.h"
#include "worker/state/segment_dir.h"
#include "worker/state/segment_room.h"

#define GIB  ((int64_t)1 << 30)
#define NAME "gpt+node-1+0+e1+s0.seg"

static const struct hsp_segment_key key = {.job = "gpt", .device = "node-1/0", .epoch = 1};

static enum hsp_status create(const char *dir, int64_t bytes, const struct hsp_segment_stop *stop,
                              struct hsp_state_segment **ret, struct hsp_err *err)
{
    static const struct hsp_whose whose = {{11, 22}, 33};
    static const struct hsp_segment_row row = {
        .tensor = 4, .dtype = HSP_F32, .full = {8}, .box = {.rank = 1, .hi = {8}}};
    return hsp_segment_create(dir, &key, &whose, &row, 1, bytes, stop, ret, err);
}

static int no_room;              /* a false answer of posix_fallocate; 0: its own answer */
static bool full_now;            /* posix_fallocate answers ENOSPC until frees_slowly is false */
static atomic_bool frees_slowly; /* until this is false no file without a name is closed */
static bool takes_none;          /* neither posix_fallocate nor madvise does anything; */
static unsigned pieces;          /* their calls, */
static size_t greatest;          /* bytes of one */

int __wrap_posix_fallocate(int fd, off_t at, off_t bytes);
int __real_posix_fallocate(int fd, off_t at, off_t bytes);
int __wrap_madvise(void *at, size_t bytes, int how);
int __real_madvise(void *at, size_t bytes, int how);

static int take_none(size_t bytes)
{
    pieces++;
    greatest = bytes > greatest ? bytes : greatest;
    return 0;
}

int __wrap_posix_fallocate(int fd, off_t at, off_t bytes)
{
    return no_room != 0                             ? no_room
           : full_now && atomic_load(&frees_slowly) ? ENOSPC
           : takes_none                             ? take_none((size_t)bytes)
                                                    : __real_posix_fallocate(fd, at, bytes);
}

int __wrap_madvise(void *at, size_t bytes, int how)
{
    return takes_none ? take_none(bytes) : __real_madvise(at, bytes, how);
}

static bool counts_down(void *left)
{
    unsigned *n = left;
    return *n == 0 || (*n)-- == 0;
}

static void want_of_room_is_told_by_its_name(void **state)
{
    static const struct {
        int sys;
        enum hsp_status st;
        const char *name;
    } cases[] = {{ENOSPC, HSP_ENOSPC, "No space left"},
                 {EDQUOT, HSP_ENOSPC, "quota"},
                 {EFBIG, HSP_ELIMIT, "File too large"},
                 {ENOMEM, HSP_ENOMEM, "Cannot allocate memory"},
                 {EIO, HSP_EIO, "Input/output error"}};
    struct hsp_state_segment *s;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hsp_err err = {0};
        no_room = cases[i].sys;
        enum hsp_status st = create(*state, 8192, NULL, &s, &err);
        no_room = 0;
        assert_status(st, cases[i].st);
        assert_int_equal(err.sys, cases[i].sys);
        assert_non_null(strstr(err.msg, "no room for a state segment of "));
        assert_non_null(strstr(err.msg, cases[i].name));
    }
}

/* Tens of GiB take seconds, and an executor has one second to answer SEAL. */
static void creation_ends_between_two_pieces(void **state)
{
    struct hsp_state_segment *s;
    enum hsp_status st = HSP_ECANCELED;
    unsigned n = 0;
    takes_none = true;
    for (; st == HSP_ECANCELED && n <= 100; n++) {
        unsigned left = n;
        const struct hsp_segment_stop stop = {counts_down, &left};
        struct hsp_err err = {0};
        pieces = 0;
        st = create(*state, GIB, &stop, &s, &err);
        assert_int_equal(pieces, n);
        assert_true(st == HSP_OK || rmdir(*state) == 0); /* nothing is left in it */
        assert_true(st == HSP_OK || mkdir(*state, 0700) == 0);
    }
    takes_none = false;
    assert_int_equal(st, HSP_OK);
    assert_int_equal(n - 1, 10); /* twice: 1 GiB in four, and the rest */
    assert_int_equal(greatest, HSP_ROOM_PIECE);
    hsp_segment_close(s);
}

static atomic_bool unmaps_slowly; /* until this is false no 64 MiB are unmapped */

int __wrap_munmap(void *at, size_t bytes);
int __real_munmap(void *at, size_t bytes);

int __wrap_munmap(void *at, size_t bytes)
{
    while (bytes >= (size_t)GIB / 16 && atomic_load(&unmaps_slowly)) {
        (void)usleep(1000);
    }
    return __real_munmap(at, bytes);
}

/* An executor that gives up does not wait until its pages are unmapped. One that lacks room
 * does. */
static void what_is_given_up_is_unmapped_behind_it(void **state)
{
    struct hsp_state_segment *s;
    struct hsp_err err = {0};
    unsigned left = 7;
    const struct hsp_segment_stop stop = {counts_down, &left};
    takes_none = true;
    (void)alarm(60);
    atomic_store(&unmaps_slowly, true);
    assert_status(create(*state, GIB, &stop, &s, &err), HSP_ECANCELED);
    takes_none = false;
    int folder = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK);
    atomic_store(&unmaps_slowly, false);
    assert_int_equal(flock(folder, LOCK_EX), 0);
    assert_int_equal(close(folder), 0);
    (void)alarm(0);
}

static void a_segment_that_is_there_is_mapped_in_pieces(void **state)
{
    struct hsp_err err = {0};
    unsigned left = 0;
    const struct hsp_segment_stop stop = {counts_down, &left};
    struct hsp_state_segment *s;
    takes_none = true;
    assert_ok(create(*state, GIB, NULL, &s, &err), &err);
    hsp_segment_close(s);
    pieces = 0;
    assert_ok(hsp_segment_open(*state, &key, true, &s, &err), &err);
    assert_int_equal(pieces, 0);
    left = 3;
    assert_status(hsp_segment_populate(s, &stop, &err), HSP_ECANCELED);
    assert_int_equal(pieces, 3);
    assert_ok(hsp_segment_populate(s, NULL, &err), &err);
    assert_int_equal(pieces, 8);
    takes_none = false;
    hsp_segment_close(s);
}

static atomic_uint n_freeing; /* files without a name that are being closed, so far */
static bool is_full;          /* the file system claims to be full */

int __wrap_close(int fd);
int __real_close(int fd);
int __wrap_fstatvfs(int fd, struct statvfs *ret);
int __real_fstatvfs(int fd, struct statvfs *ret);

int __wrap_close(int fd)
{
    struct stat sb;
    if (atomic_load(&frees_slowly) && fstat(fd, &sb) == 0 && sb.st_nlink == 0) {
        atomic_fetch_add(&n_freeing, 1);
        while (atomic_load(&frees_slowly)) {
            (void)usleep(1000);
        }
    }
    return __real_close(fd);
}

int __wrap_fstatvfs(int fd, struct statvfs *ret)
{
    int rc = __real_fstatvfs(fd, ret);
    ret->f_bavail = is_full ? 0 : ret->f_bavail;
    return rc;
}

/* A full folder gets room when its spares are deleted. */
static void spares_make_room(void **state)
{
    struct hsp_state_segment *s, *next;
    struct hsp_err err = {0};
    char spare[HSP_SEGMENT_PATH];
    assert_ok(create(*state, 8192, NULL, &s, &err), &err);
    assert_true(hsp_segment_make_spare(*state, s, spare));
    const struct hsp_segment_key other = {.job = "gpt", .device = "node-1/0", .epoch = 2};
    static const struct hsp_whose whose = {{11, 22}, 33};
    is_full = true;
    enum hsp_status st =
        hsp_segment_create(*state, &other, &whose, NULL, 0, 4096, NULL, &next, &err);
    is_full = false;
    assert_ok(st, &err);
    assert_int_equal(access(spare, F_OK), -1);
    hsp_segment_close(s);
    hsp_segment_close(next);
}

/* Another executor lacks room just when a segment in the making has the first word of its head. */
static bool has_its_head(void *dir)
{
    const uint64_t word = HSP_SEGMENT_MAGIC;
    char path[4300];
    (void)snprintf(path, sizeof path, "%s/gpt+node-1+0+e1+s0.tmp", (const char *)dir);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0 && pwrite(fd, &word, sizeof word, 0) == sizeof word && close(fd) == 0);
    hsp_spare_cut(dir);
    return false;
}

static void a_segment_in_the_making_is_no_spare(void **state)
{
    const struct hsp_segment_stop stop = {.over = has_its_head, .of = *state};
    struct hsp_state_segment *s;
    struct hsp_err err = {0};
    assert_ok(create(*state, 8192, &stop, &s, &err), &err);
    assert_true(hsp_segment_is_named(*state, s));
    hsp_segment_close(s);
}

static bool frees_at_last(void *left)
{
    if (counts_down(left)) {
        atomic_store(&frees_slowly, false);
    }
    return false;
}

/* Deletes a segment of 64 MiB: its name is gone, its memory is not free before frees_slowly is
 * false. */
static void delete_slowly(const char *dir)
{
    struct hsp_state_segment *s;
    struct hsp_err err = {0};
    char path[4300];
    unsigned n = atomic_load(&n_freeing);
    (void)snprintf(path, sizeof path, "%s/" NAME, dir);
    assert_ok(create(dir, GIB / 16, NULL, &s, &err), &err);
    hsp_segment_close(s);
    (void)alarm(60);
    atomic_store(&frees_slowly, true);
    assert_ok(hsp_segment_remove(dir, &key, &err), &err);
    assert_int_not_equal(access(path, F_OK), 0);
    while (atomic_load(&n_freeing) == n) {
        (void)usleep(1000);
    }
}

/* Two executors look for the same room, which is enough for one: the other waits, too. */
static void room_that_another_has_taken_is_waited_for(void **state)
{
    struct hsp_state_segment *s;
    struct hsp_err err = {0};
    unsigned left = 5;
    struct hsp_segment_stop stop = {counts_down, &left};
    delete_slowly(*state);
    full_now = true;
    assert_status(create(*state, 8192, &stop, &s, &err), HSP_ECANCELED);
    left = 5;
    stop.over = frees_at_last;
    assert_ok(create(*state, 8192, &stop, &s, &err), &err);
    full_now = false;
    assert_false(atomic_load(&frees_slowly));
    (void)alarm(0);
    hsp_segment_close(s);
}

/* An executor that trains does not wait until tens of GiB are free. An executor that wants that
 * room does, and can give up. */
static void memory_goes_behind_its_name(void **state)
{
    struct hsp_state_segment *s;
    struct hsp_err err = {0};
    unsigned left = 5; /* more than the pieces of a small segment */
    struct hsp_segment_stop stop = {counts_down, &left};
    delete_slowly(*state);
    is_full = true;
    assert_status(create(*state, 8192, &stop, &s, &err), HSP_ECANCELED);
    assert_true(atomic_load(&frees_slowly));
    left = 5;
    stop.over = frees_at_last;
    assert_ok(create(*state, 8192, &stop, &s, &err), &err);
    is_full = false;
    assert_false(atomic_load(&frees_slowly));
    (void)alarm(0);
    hsp_segment_close(s);
}

HSP_TEST_FILE(segment_room_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(spares_make_room, in_folder, folder_gone),
        cmocka_unit_test_setup_teardown(a_segment_in_the_making_is_no_spare, in_folder,
                                        folder_gone),
        cmocka_unit_test_setup_teardown(want_of_room_is_told_by_its_name, in_folder, folder_gone),
        cmocka_unit_test_setup_teardown(creation_ends_between_two_pieces, in_folder, folder_gone),
        cmocka_unit_test_setup_teardown(what_is_given_up_is_unmapped_behind_it, in_folder,
                                        folder_gone),
        cmocka_unit_test_setup_teardown(a_segment_that_is_there_is_mapped_in_pieces, in_folder,
                                        folder_gone),
        cmocka_unit_test_setup_teardown(memory_goes_behind_its_name, in_folder, folder_gone),
        cmocka_unit_test_setup_teardown(room_that_another_has_taken_is_waited_for, in_folder,
                                        folder_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
