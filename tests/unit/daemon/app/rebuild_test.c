/* Tests a store of which pages are damaged: after a change of any bit, no line vanishes without a
 * word, and no row is believed that was not written. */
#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/app/store/rebuild.h"
#include "proto/base/rng.h"
#include "proto/base/size.h"
#include "proto/host/file_io.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/app/store_lib.h"

#define ROWS  30
#define LINES 120u
#define PAGE  4096u

/* Fills the store with rows of the core, events and metrics; the bytes of its file. */
static uint8_t *filled(size_t *ret_len)
{
    struct hsp_err err = {0};
    struct hsp_store *s = sl_open();
    char value[300], key[ROWS][16];
    struct hsp_store_row rows[ROWS];
    struct hsp_store_event e[LINES];
    struct hsp_store_metric m[LINES];
    memset(value, 'v', sizeof value);
    value[sizeof value - 1] = '\0';
    for (uint32_t i = 0; i < ROWS; i++) {
        (void)snprintf(key[i], sizeof key[i], "job/%u", i);
        rows[i] = (struct hsp_store_row){key[i], value, sizeof value, false};
    }
    for (uint32_t i = 0; i < LINES; i++) {
        e[i] = (struct hsp_store_event){1 + i, 7, value};
        m[i] = (struct hsp_store_metric){7 + i / 90, i, 5, value};
    }
    assert_ok(hsp_store_apply(s, rows, ROWS, NULL, 0, &err), &err);
    assert_ok(hsp_store_feed_add(s, e, LINES, m, LINES, &err), &err);
    assert_null(hsp_store_close(s));
    return sl_contents(sl_path, ret_len);
}

static void count_line(void *arg, uint64_t number, uint64_t epoch, const char *json)
{
    uint64_t *n = arg;
    (void)number;
    (void)epoch;
    *n += json[0] == 'v' && strlen(json) == 299;
}

static enum hsp_status count_row(void *arg, const char *key, const void *value, size_t len)
{
    uint32_t *n = arg;
    (void)value;
    *n += strncmp(key, "job/", 4) == 0 && len == 300;
    return HSP_OK;
}

/* Writes @data as the store and opens it. Its status; *ret: the store. */
static enum hsp_status open_with(const char *dir, const uint8_t *data, size_t n,
                                 struct hsp_store **ret, struct hsp_rebuilt *done,
                                 struct hsp_err *err)
{
    struct hsp_state_folder f;
    *ret = NULL;
    hsp_test_rmdir(dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_ok(hsp_file_write(sl_path, data, n, 0600, err), err);
    assert_ok(hsp_state_folder_lock(dir, &f, err), err);
    enum hsp_status st = hsp_store_open_whole(dir, &f, ret, done, err);
    if (st == HSP_OK) {
        assert_ok(hsp_state_folder_check(dir, &f, err), err);
    } else {
        *ret = hsp_store_close(*ret);
    }
    hsp_state_folder_close(&f); /* the lock of this test is not needed */
    return st;
}

/* Every line that is there, of both kinds. */
static uint64_t n_lines(struct hsp_store *s)
{
    struct hsp_err err = {0};
    uint64_t n = 0;
    assert_ok(hsp_store_events(s, 0, 0, 2 * LINES, count_line, &n, &err), &err);
    assert_ok(hsp_store_metrics(s, 7, 0, 2 * LINES, count_line, &n, &err), &err);
    assert_ok(hsp_store_metrics(s, 8, 0, 2 * LINES, count_line, &n, &err), &err);
    return n;
}

static void test_no_flipped_bit_of_a_page_hides_lines(void **state)
{
    static const uint32_t at[] = {0, 3, 4, 8, 12};
    uint64_t seed = hsp_test_seed();
    struct hsp_err err = {0};
    size_t n;
    uint8_t *data = filled(&n);
    uint32_t refused = 0, rebuilt = 0, tried = 0;
    for (size_t page = 0; page < n; page += PAGE) {
        for (size_t i = 0; i < HSP_ARRAY_LEN(at); i++) {
            struct hsp_store *s;
            struct hsp_rebuilt done;
            struct hsp_store_damage found = {0};
            uint8_t bit = (uint8_t)(1u << hsp_rng_below(8, seed, page, i, 0));
            uint32_t rows = 0;
            tried++;
            data[page + at[i]] ^= bit;
            enum hsp_status st = open_with(*state, data, n, &s, &done, &err);
            st = st == HSP_OK ? hsp_store_load(s, count_row, &rows, &err) : st;
            data[page + at[i]] ^= bit;
            if (st != HSP_OK) {
                (void)hsp_store_close(s);
                refused++;
                continue;
            }
            assert_int_equal(rows, ROWS);
            assert_false(done.failed);
            rebuilt += done.text[0] != '\0';
            assert_ok(hsp_store_clean(s, &found, &err), &err);
            if (done.text[0] == '\0') { /* the missing line had a wrong sum */
                assert_int_equal(n_lines(s) + found.events + found.metrics, 2 * LINES);
            }
            assert_ok(hsp_store_verify(s, &found, &err), &err);
            (void)hsp_store_close(s);
        }
    }
    print_message("# %u of %u refused, %u written anew\n", refused, tried, rebuilt);
    assert_true(rebuilt > tried / 4 && refused < tried / 4);
    free(data);
}

/* The first page of a table is lost, with all of its lines and none of the others'. */
static void test_a_lost_table_costs_its_lines(void **state)
{
    const char *dir = *state;
    struct hsp_err err = {0};
    struct hsp_store *s;
    struct hsp_rebuilt done;
    char kept[4400], name[100] = "";
    size_t n, n_kept;
    uint8_t *data = filled(&n), was[PAGE];
    size_t root = 4 * PAGE; /* the fifth page, of the table of events */
    memcpy(was, data + root, PAGE);
    memset(data + root, 0xff, PAGE);
    assert_ok(open_with(dir, data, n, &s, &done, &err), &err);
    assert_false(done.failed);
    assert_non_null(strstr(
        done.text,
        "all jobs and nodes, 0 events and 120 lines of metrics; the damaged one is kept as "));
    assert_int_equal(n_lines(s), LINES);
    const struct hsp_store_event e = {500, 7, "new"};
    assert_ok(hsp_store_feed_add(s, &e, 1, NULL, 0, &err), &err);
    assert_int_equal(hsp_store_events_last(s), 500);
    assert_null(hsp_store_close(s));
    assert_int_equal(sscanf(strstr(done.text, "kept as "), "kept as %99s", name), 1);
    (void)snprintf(kept, sizeof kept, "%s/%s", dir, name);
    uint8_t *there = sl_contents(kept, &n_kept);
    assert_true(n_kept == n && memcmp(there, data, n) == 0);
    free(there);
    free(data);
}

/* Lines that are left when the pages @p and @q are damaged; UINT64_MAX: the store is refused. */
static uint64_t left_without(const char *dir, uint8_t *data, size_t n, size_t p, size_t q)
{
    const size_t pages[] = {p, q};
    struct hsp_err err = {0};
    struct hsp_store *s;
    struct hsp_rebuilt done;
    uint8_t was[2][PAGE];
    for (size_t i = 0; i < 2; i++) {
        memcpy(was[i], data + pages[i] * PAGE, PAGE);
        memset(data + pages[i] * PAGE, 0xff, PAGE);
    }
    enum hsp_status st = open_with(dir, data, n, &s, &done, &err);
    for (size_t i = 2; i-- > 0;) {
        memcpy(data + pages[i] * PAGE, was[i], PAGE);
    }
    uint64_t left = st == HSP_OK ? n_lines(s) : UINT64_MAX;
    (void)hsp_store_close(s);
    return left;
}

/* Two damaged pages of a table cost the lines that are on them, and none of those between. */
static void test_lines_between_damaged_pages_stay(void **state)
{
    enum { MOST = 64 };
    size_t n, n_pages, leaf[MOST], n_leaves = 0;
    uint64_t lost[MOST];
    uint8_t *data = filled(&n);
    n_pages = n / PAGE;
    for (size_t p = 1; p < n_pages; p++) {
        uint64_t left = left_without(*state, data, n, p, p);
        if (left < 2 * LINES && left > LINES && n_leaves < MOST) {
            leaf[n_leaves] = p;
            lost[n_leaves++] = 2 * LINES - left;
        }
    }
    assert_true(n_leaves > 12);
    for (size_t i = 0; i < n_leaves; i++) {
        for (size_t k = i + 2; k < n_leaves; k += 7) {
            assert_int_equal(left_without(*state, data, n, leaf[i], leaf[k]),
                             2 * LINES - lost[i] - lost[k]);
        }
    }
    free(data);
}

/* Where no new file can be made the damaged one is used, and that is a problem; the file is as it
 * was. */
static void test_a_store_that_cannot_be_written_anew(void **state)
{
    struct hsp_err err = {0};
    struct hsp_store *s = NULL;
    struct hsp_rebuilt done;
    struct hsp_state_folder f;
    char copy[4400];
    size_t n;
    uint8_t *data = filled(&n);
    memset(data + 4 * PAGE, 0xff, PAGE);
    (void)snprintf(copy, sizeof copy, "%s/.restore-copy.db", (char *)*state);
    assert_int_equal(mkdir(copy, 0700), 0);
    assert_ok(hsp_file_write(sl_path, data, n, 0600, &err), &err);
    assert_ok(hsp_state_folder_lock(*state, &f, &err), &err);
    assert_ok(hsp_store_open_whole(*state, &f, &s, &done, &err), &err);
    assert_true(done.failed);
    assert_non_null(strstr(done.text, "it is damaged, and cannot be rebuilt: cannot make "));
    const struct hsp_store_event e = {500, 7, "new"};
    assert_status(hsp_store_feed_add(s, &e, 1, NULL, 0, &err), HSP_EDIGEST);
    uint32_t rows = 0;
    assert_ok(hsp_store_load(s, count_row, &rows, &err), &err);
    assert_int_equal(rows, ROWS);
    assert_null(hsp_store_close(s));
    hsp_state_folder_close(&f);
    free(data);
}

/* A start that cannot read the store, as a page of the rows of the core is lost, or the end of the
 * file, names the remedy. */
static void test_a_store_that_cannot_be_read_has_a_remedy(void **state)
{
    struct hsp_err err = {0};
    struct hsp_store *s;
    struct hsp_rebuilt done;
    size_t n;
    uint8_t *data = filled(&n);
    assert_status(open_with(*state, data, n - PAGE, &s, &done, &err), HSP_EDIGEST);
    assert_non_null(strstr(err.msg, "malformed; put a backup back"));
    memset(data + PAGE, 0xff, PAGE); /* the second page, of the table of rows */
    assert_status(open_with(*state, data, n, &s, &done, &err), HSP_EDIGEST);
    assert_non_null(strstr(err.msg, "malformed; put a backup back"));
    free(data);
}

static ssize_t no_room(int fd, const void *data, size_t len, off_t at)
{
    (void)fd, (void)data, (void)len, (void)at;
    errno = ENOSPC;
    return -1;
}

/* The disk has no room for the index that SQLite keeps beside the file: the start names the
 * remedy. */
static void test_a_disk_that_is_full(void **state)
{
    static const char *const names[] = {"pwrite", "pwrite64"}; /* one of them is not there */
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    struct hsp_err err = {0};
    struct hsp_store *s = NULL;
    struct hsp_rebuilt done;
    struct hsp_state_folder f;
    char told[4400];
    size_t n;
    free(filled(&n));
    assert_ok(hsp_state_folder_lock(*state, &f, &err), &err);
    for (size_t i = 0; i < HSP_ARRAY_LEN(names); i++) {
        (void)vfs->xSetSystemCall(vfs, names[i], (sqlite3_syscall_ptr)no_room);
    }
    enum hsp_status st = hsp_store_open_whole(*state, &f, &s, &done, &err);
    for (size_t i = 0; i < HSP_ARRAY_LEN(names); i++) {
        (void)vfs->xSetSystemCall(vfs, names[i], NULL);
    }
    assert_int_equal(st, HSP_ENOSPC);
    (void)snprintf(told, sizeof told,
                   "%s: its disk is full: free 16 MiB or more there, and start hspmdd again",
                   sl_path);
    assert_string_equal(err.msg, told);
    assert_ok(hsp_store_open_whole(*state, &f, &s, &done, &err), &err); /* there is room */
    assert_null(hsp_store_close(s));
    hsp_state_folder_close(&f);
}

HSP_TEST_FILE(rebuild_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_flipped_bit_of_a_page_hides_lines, sl_setup,
                                        sl_teardown),
        cmocka_unit_test_setup_teardown(test_a_lost_table_costs_its_lines, sl_setup, sl_teardown),
        cmocka_unit_test_setup_teardown(test_lines_between_damaged_pages_stay, sl_setup,
                                        sl_teardown),
        cmocka_unit_test_setup_teardown(test_a_disk_that_is_full, sl_setup, sl_teardown),
        cmocka_unit_test_setup_teardown(test_a_store_that_cannot_be_written_anew, sl_setup,
                                        sl_teardown),
        cmocka_unit_test_setup_teardown(test_a_store_that_cannot_be_read_has_a_remedy, sl_setup,
                                        sl_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
