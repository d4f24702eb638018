#include "proto/host/file_io.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/testlib.h"

static size_t n_files(const char *dir)
{
    DIR *d = opendir(dir);
    size_t n = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        n += e->d_name[0] != '.';
    }
    closedir(d);
    return n;
}

static void test_round_trip(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), path[512];
    struct hsp_err err;
    struct stat st;
    size_t len = 200001, got_len = 0;
    uint8_t *data = malloc(len), *got = NULL;
    for (size_t i = 0; i < len; i++) {
        data[i] = (uint8_t)hsp_test_rand("file", i);
    }
    (void)snprintf(path, sizeof path, "%s/a", dir);
    assert_ok(hsp_file_write(path, "old", 3, 0600, &err), &err);
    assert_ok(hsp_file_write(path, data, len, 0640, &err), &err);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(n_files(dir), 1); /* no temporary file is left */
    assert_ok(hsp_file_read(path, len, &got, &got_len, &err), &err);
    assert_int_equal(got_len, len);
    assert_memory_equal(got, data, len);
    assert_int_equal(got[len], 0);
    free(got);
    assert_status(hsp_file_read(path, len - 1, &got, &got_len, &err), HSP_ELIMIT);
    assert_non_null(strstr(err.msg, "longer than 200000 bytes"));
    free(data);
    hsp_test_rmdir(dir);
    free(dir);
}

static void test_errors(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), path[512];
    struct hsp_err err;
    uint8_t *got = NULL;
    size_t len = 0;
    (void)snprintf(path, sizeof path, "%s/none", dir);
    assert_status(hsp_file_read(path, 10, &got, &len, &err), HSP_ENOENT);
    assert_non_null(strstr(err.msg, path));
    (void)snprintf(path, sizeof path, "%s/none/a", dir);
    assert_status(hsp_file_write(path, "x", 1, 0600, &err), HSP_ENOENT);
    assert_status(hsp_file_read(dir, 10, &got, &len, &err), HSP_EIO); /* a folder */
    /* When the target is a folder the rename fails, and the temporary file is deleted. */
    (void)snprintf(path, sizeof path, "%s/sub", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_status(hsp_file_write(path, "x", 1, 0600, &err), HSP_EIO);
    assert_int_equal(n_files(dir), 1);
    hsp_test_rmdir(dir);
    free(dir);
}

/* Writing to /dev/null as root must not replace the device by a file. Writing to a symbolic link
 * writes its target. */
static void test_what_is_no_file_is_written_into(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), path[512], file[512];
    struct hsp_err err;
    struct stat st;
    uint8_t *got = NULL;
    size_t len = 0;
    (void)snprintf(file, sizeof file, "%s/file", dir);
    (void)snprintf(path, sizeof path, "%s/link", dir);
    assert_int_equal(symlink("file", path), 0); /* to nothing yet */
    for (int i = 0; i < 2; i++) {
        assert_ok(hsp_file_write(path, &"longer"[i], 6 - (size_t)i, 0600, &err), &err);
        assert_int_equal(lstat(path, &st), 0);
        assert_true(S_ISLNK(st.st_mode));
        assert_ok(hsp_file_read(file, 10, &got, &len, &err), &err);
        assert_int_equal(len, 6 - i);
        free(got);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/full", path), 0);
    assert_status(hsp_file_write(path, "x", 1, 0600, &err), HSP_ENOSPC);
    assert_non_null(strstr(err.msg, "cannot write"));
    assert_int_equal(n_files(dir), 2);
    hsp_test_rmdir(dir);
    free(dir);
}

/* A FIFO that stands in the place of one of our files is refused at once: opening it does not
 * block. */
static void test_an_own_file_is_regular(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), path[512];
    struct hsp_err err;
    uint8_t *got = NULL;
    size_t n = 0;
    (void)snprintf(path, sizeof path, "%s/a", dir);
    assert_ok(hsp_file_write(path, "abc", 3, 0600, &err), &err);
    assert_ok(hsp_file_read_own(path, 10, &got, &n, &err), &err);
    assert_int_equal(n, 3);
    free(got);
    assert_int_equal(unlink(path), 0);
    assert_status(hsp_file_read_own(path, 10, &got, &n, &err), HSP_ENOENT);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_status(hsp_file_read_own(path, 10, &got, &n, &err), HSP_EIO);
    assert_status(hsp_file_read_own(dir, 10, &got, &n, &err), HSP_EIO);
    hsp_test_rmdir(dir);
    free(dir);
}

HSP_TEST_FILE(file_io_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_what_is_no_file_is_written_into),
        cmocka_unit_test(test_an_own_file_is_regular),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
