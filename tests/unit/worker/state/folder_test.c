/* Tests folders and the files in them: names that are no files, folders that cannot be read to
 * their end, folders that a crash of the host must not take away. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/worker/state/state_lib.h"
#include "worker/state/ckpt_steps.h"
#include "worker/state/folder.h"
#include "worker/state/safetensors_read.h"
#include "worker/state/segment_dir.h"

int names_left = -1;
const char *hidden_name;
void (*at_folder_end)(void);
int syncs_left = -1;
const char *sync_in;
static char synced[8][4200]; /* folders, in the order of their fsync */
static unsigned n_synced;

struct dirent *__wrap_readdir(DIR *d);
struct dirent *__real_readdir(DIR *d);
int __wrap_fsync(int fd);
int __real_fsync(int fd);

struct dirent *__wrap_readdir(DIR *d)
{
    if (names_left == 0) {
        errno = EIO;
        return NULL;
    }
    names_left -= names_left > 0;
    struct dirent *e = __real_readdir(d);
    if (e != NULL && hidden_name != NULL && strcmp(e->d_name, hidden_name) == 0) {
        e = __real_readdir(d);
    }
    int no = errno;
    if (e == NULL && at_folder_end != NULL) {
        at_folder_end();
    }
    errno = no;
    return e;
}

int __wrap_fsync(int fd)
{
    char link[64];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, synced[n_synced % 8], sizeof synced[0] - 1);
    assert_true(n > 0);
    char *path = synced[n_synced++ % 8];
    path[n] = '\0';
    if (syncs_left >= 0 && strcmp(path, sync_in) == 0 && syncs_left-- == 0) {
        errno = EIO;
        return -1;
    }
    return __real_fsync(fd);
}

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

static bool count(void *ctx, const char *name)
{
    (void)name;
    ++*(int *)ctx;
    return true;
}

/* If the error counted as the end, steps or segments behind it would count as deleted. */
static void an_error_is_no_end(void **state)
{
    struct hsp_err err = {0};
    struct hsp_folder f;
    struct hsp_ckpt_place *steps = NULL;
    struct hsp_segment_info *info = NULL;
    int seen = 0;
    size_t n = 0;
    assert_ok(hsp_folder_open(*state, false, &f, &err), &err);
    for (int i = 0; i < 4; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "step-%010d", i);
        assert_ok(hsp_folder_write(&f, name, "x", 1, &err), &err);
    }
    for (names_left = 0; names_left < 6;) { /* "." and ".." are two of them */
        int left = names_left;
        assert_status(hsp_folder_each(&f, count, &seen, &err), HSP_EIO);
        names_left = left;
        assert_status(hsp_ckpt_list(*state, &steps, &n, &err), HSP_EIO);
        names_left = left;
        assert_status(hsp_segment_scan(*state, &info, &n, &err), HSP_EIO);
        names_left = left + 1;
    }
    names_left = -1;
    seen = 0;
    assert_ok(hsp_folder_each(&f, count, &seen, &err), &err);
    assert_int_equal(seen, 4);
    hsp_folder_close(&f);
}

/* A pipe without a writer would hold its reader for ever. */
static void a_pipe_is_no_file(void **state)
{
    struct hsp_err err = {0};
    struct hsp_folder f;
    struct hsp_st_reader *r = NULL;
    struct hsp_segment_info *info = NULL;
    uint8_t *data = NULL;
    char path[4300];
    size_t n = 0;
    assert_ok(hsp_folder_open(*state, false, &f, &err), &err);
    (void)snprintf(path, sizeof path, "%s/pipe.seg", (char *)*state);
    assert_int_equal(mkfifo(path, 0600), 0);
    (void)alarm(20);
    assert_status(hsp_folder_read(&f, "pipe.seg", 100, &data, &n, &err), HSP_EDIGEST);
    assert_non_null(strstr(err.msg, "pipe.seg is no regular file"));
    assert_status(hsp_st_open_in(&f, "pipe.seg", &r, &err), HSP_EDIGEST);
    assert_status(hsp_st_open(path, &r, &err), HSP_EDIGEST);
    assert_ok(hsp_segment_scan(*state, &info, &n, &err), &err);
    assert_int_equal(n, 1);
    assert_int_equal(info[0].status, HSP_EDIGEST);
    free(info);
    (void)snprintf(path, sizeof path, "%s/it.part", (char *)*state); /* in the way of a writer */
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_ok(hsp_folder_write(&f, "it", "x", 1, &err), &err);
    assert_ok(hsp_folder_read(&f, "it", 100, &data, &n, &err), &err);
    (void)alarm(0);
    assert_int_equal(n, 1);
    free(data);
    assert_status(hsp_folder_read(&f, ".", 100, &data, &n, &err), HSP_EDIGEST);
    assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0); /* no descriptor but our own was closed */
    hsp_folder_close(&f);
}

/* The name of a new folder is on disk before anything is written to the folder. */
static void a_new_folder_is_synced_with_its_name(void **state)
{
    struct hsp_err err = {0};
    struct hsp_folder f, in;
    char path[4300], want[4300];
    (void)snprintf(path, sizeof path, "%s/a/b/", (char *)*state);
    n_synced = 0;
    assert_ok(hsp_folder_open(path, true, &f, &err), &err);
    assert_ok(hsp_folder_open_in(&f, "c", true, &in, &err), &err);
    assert_int_equal(n_synced, 3);
    assert_string_equal(synced[0], *state);
    (void)snprintf(want, sizeof want, "%s/a", (char *)*state);
    assert_string_equal(synced[1], want);
    (void)snprintf(want, sizeof want, "%s/a/b", (char *)*state);
    assert_string_equal(synced[2], want);
    hsp_folder_close(&in);
    hsp_folder_close(&f);
    assert_ok(hsp_folder_open(path, true, &f, &err), &err); /* nothing is new */
    assert_int_equal(n_synced, 3);
    hsp_folder_close(&f);
}

HSP_TEST_FILE(folder_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_error_is_no_end, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pipe_is_no_file, setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_folder_is_synced_with_its_name, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
