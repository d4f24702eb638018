/* Tests a first start that is killed at any moment, or finds no room: the next one begins again, or
 * goes on with the whole store. */
#include "daemon/app/store/first_store.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/app/store/state_folder.h"
#include "proto/base/size.h"
#include "proto/host/file_io.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/app/store_lib.h"

static const struct hsp_store_row new_rows[] = {{"cluster", "c", 1, false},
                                                {"term", "0", 1, false}};

/* Starts as a packaged service does, in the folder @dir: true when it comes to serve a whole
 * store. */
static bool starts(const char *dir, struct hsp_err *err)
{
    struct hsp_state_folder f;
    struct hsp_store_row next = {"term", "1", 1, false};
    struct sl_collected c = {""};
    struct hsp_store *s = NULL;
    enum hsp_status st = hsp_state_folder_open(dir, false, dir, &f, err);
    if (st == HSP_OK) {
        hsp_first_store_tidy(dir);
    }
    if (st == HSP_OK && !f.store) {
        st = hsp_first_store(dir, new_rows, HSP_ARRAY_LEN(new_rows), err);
    }
    st = st == HSP_OK ? hsp_store_open(sl_path, &s, err) : st;
    st = st == HSP_OK ? hsp_store_load(s, sl_collect_row, &c, err) : st;
    bool whole = strncmp(c.text, "cluster=c;term=", 15) == 0;
    st = st == HSP_OK && whole ? hsp_store_apply(s, &next, 1, NULL, 0, err) : st;
    (void)hsp_store_close(s);
    hsp_state_folder_close(&f);
    return st == HSP_OK && whole;
}

/* ---- a process that is killed at one of the calls that change files ---- */

static uint32_t calls_left; /* the last one kills */

static void call(void)
{
    if (--calls_left == 0) {
        (void)raise(SIGKILL);
    }
}

static int killing_open(const char *file, int flags, int mode)
{
    call();
    return open(file, flags, mode);
}

static int killing_close(int fd)
{
    call();
    return close(fd);
}

static int killing_unlink(const char *file)
{
    call();
    return unlink(file);
}

static int killing_ftruncate(int fd, off_t len)
{
    call();
    return ftruncate(fd, len);
}

static ssize_t killing_pwrite(int fd, const void *data, size_t len, off_t at)
{
    if (calls_left == 1) {
        (void)!pwrite(fd, data, len / 2, at);
    }
    call();
    return pwrite(fd, data, len, at);
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    if (calls_left > 0) { /* in such a process */
        call();
    }
    return __real_rename(from, to);
}

static void make_deadly(uint32_t n)
{
    static const struct {
        const char *name;
        sqlite3_syscall_ptr call;
    } calls[] = {{"open", (sqlite3_syscall_ptr)killing_open},
                 {"close", (sqlite3_syscall_ptr)killing_close},
                 {"unlink", (sqlite3_syscall_ptr)killing_unlink},
                 {"ftruncate", (sqlite3_syscall_ptr)killing_ftruncate},
                 {"pwrite", (sqlite3_syscall_ptr)killing_pwrite},
                 {"pwrite64", (sqlite3_syscall_ptr)killing_pwrite}};
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    calls_left = n;
    for (size_t i = 0; i < HSP_ARRAY_LEN(calls); i++) {
        (void)vfs->xSetSystemCall(vfs, calls[i].name, calls[i].call); /* one pwrite is not there */
    }
}

/* Starts in @dir, and is killed at its call number @n. Returns the exit status, -1: it was
 * killed. */
static int killed_at(const char *dir, uint32_t n)
{
    struct hsp_err err = {0};
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        make_deadly(n);
        _exit(starts(dir, &err) ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void killed_at_any_moment(void **state)
{
    const char *dir = *state;
    struct hsp_err err = {0};
    uint32_t n = 1, without = 0;
    int rc;
    for (; (rc = killed_at(dir, n)) == -1; n++) {
        without += access(sl_path, F_OK) != 0;
        if (!starts(dir, &err)) {
            fail_msg("killed at call %u: %s", n, err.msg);
        }
        hsp_test_rmdir(dir);
        assert_int_equal(mkdir(dir, 0700), 0);
    }
    print_message("# killed at %u calls, %u of them before there was a store\n", n - 1, without);
    assert_int_equal(rc, 0);
    assert_true(without > 10 && n - 1 - without > 5);
}

static uint32_t room; /* for so many writes */

static ssize_t pwrite_in_room(int fd, const void *data, size_t len, off_t at)
{
    if (room == 0) {
        errno = ENOSPC;
        return -1;
    }
    room--;
    return pwrite(fd, data, len, at);
}

/* One line, on any file that could not be written, and nothing half made. */
static void a_full_disk(void **state)
{
    const char *dir = *state;
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    enum hsp_status st = HSP_ENOSPC;
    uint32_t n = 0;
    for (; st != HSP_OK; n++) {
        struct hsp_err err = {0};
        room = n;
        (void)vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)pwrite_in_room);
        (void)vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)pwrite_in_room);
        st = hsp_first_store(dir, new_rows, HSP_ARRAY_LEN(new_rows), &err);
        (void)vfs->xSetSystemCall(vfs, "pwrite", NULL);
        (void)vfs->xSetSystemCall(vfs, "pwrite64", NULL);
        if (st != HSP_OK) {
            assert_status(st, HSP_ENOSPC);
            assert_string_equal(err.msg,
                                "the disk of state_dir takes no more: make room, and try again");
            assert_int_equal(rmdir(dir), 0); /* empty */
            assert_int_equal(mkdir(dir, 0700), 0);
        }
    }
    print_message("# no room at %u writes\n", n - 1);
    assert_true(n > 5);
    assert_int_equal(access(sl_path, F_OK), 0);
}

/* @name in the folder of the store. */
static const char *in(const char *dir, const char *name)
{
    static char text[4300];
    (void)snprintf(text, sizeof text, "%s/%s", dir, name);
    return text;
}

static void files_that_hold_nothing(void **state)
{
    static const char *const names[] = {"state.db", "state.db-wal", "state.db-journal",
                                        ".first-store.db", ".first-store.db-journal"};
    const char *dir = *state;
    struct hsp_err err = {0};
    struct stat sb;
    for (size_t i = 0; i < HSP_ARRAY_LEN(names); i++) {
        assert_ok(hsp_file_write(in(dir, names[i]), "half", i < 3 ? 0 : 4, 0600, &err), &err);
    }
    if (!starts(dir, &err)) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(stat(in(dir, ".first-store.db"), &sb), -1);
    assert_int_equal(stat(in(dir, ".first-store.db-journal"), &sb), -1);
    assert_true(starts(dir, &err)); /* with its store */
}

/* A possible rest of a store is neither believed nor deleted. */
static void what_is_left_of_a_store(void **state)
{
    static const char *const names[] = {"state.db-wal", "state.db-journal"};
    const char *dir = *state;
    struct hsp_err err = {0};
    struct stat sb;
    for (size_t i = 0; i < HSP_ARRAY_LEN(names); i++) {
        assert_ok(hsp_file_write(in(dir, names[i]), "rows", 4, 0600, &err), &err);
        assert_false(starts(dir, &err));
        assert_status(err.code, HSP_ENOENT);
        assert_status(hsp_first_store(dir, new_rows, 2, &err), HSP_EEXIST); /* with --init */
        assert_non_null(strstr(err.msg, "exists, and its store does not"));
        assert_int_equal(stat(in(dir, names[i]), &sb), 0);
        assert_int_equal(unlink(in(dir, names[i])), 0);
    }
    assert_int_equal(symlink("/nonexistent/state.db", sl_path), 0); /* a disk that is not mounted */
    assert_false(starts(dir, &err));
    assert_status(hsp_first_store(dir, new_rows, 2, &err), HSP_EEXIST);
    assert_int_equal(lstat(sl_path, &sb), 0);
    assert_true(S_ISLNK(sb.st_mode));
    assert_int_equal(unlink(sl_path), 0);
    assert_true(starts(dir, &err));
}

HSP_TEST_FILE(first_store_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(killed_at_any_moment, sl_setup, sl_teardown),
        cmocka_unit_test_setup_teardown(a_full_disk, sl_setup, sl_teardown),
        cmocka_unit_test_setup_teardown(files_that_hold_nothing, sl_setup, sl_teardown),
        cmocka_unit_test_setup_teardown(what_is_left_of_a_store, sl_setup, sl_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
