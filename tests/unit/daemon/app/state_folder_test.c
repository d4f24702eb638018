/* Tests which state folders hspmdd accepts and which it refuses when it starts, and that it notices
 * when its store is moved or deleted. */
#include "daemon/app/store/state_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/testlib.h"

static char *top;

static const char *in(const char *name)
{
    static char path[2][4200];
    static int at;
    at = 1 - at;
    (void)snprintf(path[at], sizeof path[at], "%s/%s", top, name);
    return path[at];
}

static int setup(void **state)
{
    (void)state;
    top = hsp_test_tmpdir();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    hsp_test_rmdir(top);
    free(top);
    return 0;
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(in(name), "w");
    assert_non_null(f);
    (void)fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void refused(const char *dir, const char *service, enum hsp_status code, const char *text)
{
    struct hsp_state_folder f;
    struct hsp_err err = {0};
    assert_status(hsp_state_folder_open(dir, false, service, &f, &err), code);
    if (strstr(err.msg, text) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", text, err.msg);
    }
    assert_int_equal(f.lock_fd, -1);
    assert_int_equal(f.store_fd, -1);
}

static void taken(const char *dir, bool init, const char *service, bool fresh, bool given)
{
    struct hsp_state_folder f, second;
    struct hsp_err err = {0};
    assert_ok(hsp_state_folder_open(dir, init, service, &f, &err), &err);
    assert_true(f.fresh == fresh && f.given == given);
    if (!fresh) {
        const char *end_it =
            "another hspmdd uses it: end that one, or name a folder of its own here";
        assert_status(hsp_state_folder_open(dir, false, NULL, &second, &err), HSP_EEXIST);
        assert_non_null(strstr(err.msg, end_it));
        hsp_state_folder_close(&second);
        assert_status(hsp_state_folder_lock(dir, &second, &err), HSP_EEXIST); /* --restore */
        assert_non_null(strstr(err.msg, end_it));
        hsp_state_folder_close(&second);
    }
    hsp_state_folder_close(&f);
}

static void without_a_store(void **state)
{
    (void)state;
    struct stat sb;
    refused(in("typo"), NULL, HSP_ENOENT,
            "typo is not there: mount or name the right folder, or begin a new cluster with --init "
            "(job adopt takes over the jobs that agents store), or put a backup in with --restore "
            "FILE");
    refused(in("typo"), in("typo"), HSP_ENOENT, "is not there");
    assert_int_equal(stat(in("typo"), &sb), -1);
    assert_int_equal(mkdir(in("empty"), 0700), 0);
    refused(in("empty"), NULL, HSP_ENOENT, "empty has no store");
    refused(in("empty"), in("other"), HSP_ENOENT, "has no store");
    assert_int_equal(mkdir(in("left"), 0700), 0);
    put("left/jobs", "x");
    refused(in("left"), in("left"), HSP_ENOENT, "has no store"); /* a former store's? */
    put("left/state.db", "");
    refused(in("left"), NULL, HSP_ENOENT, "has no store");
    put("file", "x");
    refused(in("file"), NULL, HSP_EIO, "file");
}

static void a_new_cluster(void **state)
{
    (void)state;
    char list[9000];
    taken(in("new"), true, NULL, true, false);
    taken(in("new"), true, NULL, true, false); /* ended before it wrote */
    assert_int_equal(mkdir(in("var"), 0700), 0);
    (void)snprintf(list, sizeof list, "/x:%s/var/:/y", top);
    taken(in("var"), false, list, true, true);
    taken(in("var"), false, in("var"), true, true); /* only its lock is there */
    assert_int_equal(mkdir(in("var/lost+found"), 0700), 0);
    taken(in("var"), false, in("var"), true, true); /* the top of a file system */
}

/* Files that root creates could not be read by the user who owns the folder. */
static void of_another_user(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    struct hsp_state_folder f;
    struct hsp_err err = {0};
    assert_int_equal(mkdir(in("other"), 0700), 0);
    assert_int_equal(chown(in("other"), 65534, 65534), 0);
    refused(in("other"), in("other"), HSP_EPERM,
            "(65534), who could not read the files that root makes there");
    assert_status(hsp_state_folder_open(in("other"), true, NULL, &f, &err), HSP_EPERM);
    assert_int_equal(access(in("other/lock"), F_OK), -1); /* nothing is made */
    assert_ok(hsp_state_folder_lock(in("other"), &f, &err),
              &err); /* --restore gives the owner its files */
    hsp_state_folder_close(&f);
    put("other/state.db", "SQLite"); /* root's: it has run here before, as in a container */
    taken(in("other"), false, NULL, false, false);
    assert_int_equal(chown(in("other/state.db"), 65534, 65534), 0);
    refused(in("other"), NULL, HSP_EPERM, "(65534), who could not read");
}

static void with_a_store(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in("s"), 0700), 0);
    put("s/state.db", "SQLite");
    taken(in("s"), false, NULL, false, false);
    taken(in("s"), false, in("s"), false, false);
}

/* Another folder has a link to the store: a symbolic one, then a second name of the file. */
static void with_the_store_of_another_folder(void **state)
{
    (void)state;
    struct hsp_state_folder f, second;
    struct hsp_err err = {0};
    for (int hard = 0; hard < 2; hard++) {
        const char *name = hard == 1 ? "two/state.db" : "one/state.db";
        assert_int_equal(mkdir(in("s"), 0700), hard == 0 ? 0 : -1);
        assert_int_equal(mkdir(in(hard == 1 ? "two" : "one"), 0700), 0);
        put("s/state.db", "SQLite");
        assert_int_equal(
            hard == 1 ? link(in("s/state.db"), in(name)) : symlink("../s/state.db", in(name)), 0);
        assert_ok(hsp_state_folder_open(in("s"), false, NULL, &f, &err), &err);
        const char *dir = in(hard == 1 ? "two" : "one");
        assert_status(hsp_state_folder_open(dir, false, NULL, &second, &err), HSP_EEXIST);
        assert_non_null(strstr(err.msg, hard == 1 ? "two/state.db is in use by another hspmdd"
                                                  : "s/state.db is in use by another hspmdd"));
        hsp_state_folder_close(&second);
        assert_status(hsp_state_folder_lock(dir, &second, &err), HSP_EEXIST); /* --restore */
        hsp_state_folder_close(&second);
        hsp_state_folder_close(&f);
        assert_ok(hsp_state_folder_open(dir, false, NULL, &second, &err), &err);
        hsp_state_folder_close(&second);
    }
}

static void store_at_its_path(void **state)
{
    (void)state;
    static const struct {
        nlink_t links; /* of the store that is open: device 5, inode 12 */
        int no;
        dev_t dev; /* of the file at its path */
        ino_t ino;
        const char *said; /* NULL: it is in its place */
    } is[] = {
        {1, 0, 5, 12, NULL},
        {2, 0, 5, 12, NULL},
        {1, 0, 5, 13, "another file is in its place: put back the one that was there"},
        {1, 0, 6, 12, "another file is in its place"}, /* of another file system */
        {1, ENOENT, 0, 0, "it was moved or unmounted: put it back, and hspmdd goes on by itself"},
        {1, ENOTDIR, 0, 0, "it was moved or unmounted"},
        {0, ENOENT, 0, 0,
         "it was deleted: make state_dir again if it is gone, save the store with "},
        {0, 0, 5, 13, "it was deleted, and another file is in its place: make state_dir again"},
        {1, EACCES, 0, 0, "which cannot be read: Permission denied"},
        {0, EIO, 0, 0, "which cannot be read: Input/output error"},
    };
    for (size_t i = 0; i < sizeof is / sizeof is[0]; i++) {
        struct stat mine = {.st_dev = 5, .st_ino = 12, .st_nlink = is[i].links};
        struct stat at = {.st_dev = is[i].dev, .st_ino = is[i].ino, .st_nlink = 1};
        struct hsp_err err = {0};
        enum hsp_status st = hsp_store_in_place(&mine, is[i].no, &at, &err);
        assert_status(st, is[i].said == NULL ? HSP_OK : HSP_ENOENT);
        if (is[i].said != NULL && strstr(err.msg, is[i].said) == NULL) {
            fail_msg("\"%s\" is not in \"%s\"", is[i].said, err.msg);
        }
        assert_true(strlen(err.msg) < sizeof err.msg - 1); /* whole */
    }
}

/* The folder of an open store is moved, another folder takes its place, and the first folder comes
 * back. */
static void folder_that_is_moved(void **state)
{
    (void)state;
    struct hsp_state_folder f;
    struct hsp_err err = {0};
    assert_int_equal(mkdir(in("s"), 0700), 0);
    put("s/state.db", "SQLite");
    assert_ok(hsp_state_folder_open(in("s"), false, NULL, &f, &err), &err);
    assert_ok(hsp_state_folder_check(in("s"), &f, &err), &err);
    assert_int_equal(rename(in("s"), in("away")), 0);
    assert_status(hsp_state_folder_check(in("s"), &f, &err), HSP_ENOENT);
    assert_non_null(strstr(err.msg, "moved"));
    assert_int_equal(mkdir(in("s"), 0700), 0);
    put("s/state.db", "SQLite");
    assert_status(hsp_state_folder_check(in("s"), &f, &err), HSP_ENOENT);
    assert_non_null(strstr(err.msg, "another file"));
    assert_int_equal(unlink(in("s/state.db")), 0);
    assert_int_equal(rename(in("away/state.db"), in("s/state.db")), 0); /* the file alone will do */
    assert_ok(hsp_state_folder_check(in("s"), &f, &err), &err);
    assert_int_equal(unlink(in("s/state.db")), 0);
    assert_status(hsp_state_folder_check(in("s"), &f, &err), HSP_ENOENT);
    assert_non_null(strstr(err.msg, "deleted"));
    hsp_state_folder_close(&f);
    assert_ok(hsp_state_folder_check(in("s"), &f, &err), &err); /* none is open */
}

HSP_TEST_FILE(state_folder_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_store, setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_cluster, setup, teardown),
        cmocka_unit_test_setup_teardown(of_another_user, setup, teardown),
        cmocka_unit_test_setup_teardown(with_a_store, setup, teardown),
        cmocka_unit_test_setup_teardown(with_the_store_of_another_folder, setup, teardown),
        cmocka_unit_test(store_at_its_path),
        cmocka_unit_test_setup_teardown(folder_that_is_moved, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
