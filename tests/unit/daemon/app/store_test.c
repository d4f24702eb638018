/* The daemon's store: rows survive a reopen, a failed batch leaves nothing, feeds come in order. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/app/store/store.h"
#include "proto/host/file_io.h"
#include "tests/lib/testlib.h"

static char path[4200];

static int setup(void **state)
{
    char *dir = hsp_test_tmpdir();
    snprintf(path, sizeof path, "%s/state.db", dir);
    *state = dir;
    return 0;
}

static int teardown(void **state)
{
    hsp_test_rmdir(*state);
    free(*state);
    return 0;
}

struct collected {
    char text[1024];
};

static enum hsp_status collect_row(void *arg, const char *key, const void *value, size_t len)
{
    struct collected *c = arg;
    size_t n = strlen(c->text);
    snprintf(c->text + n, sizeof c->text - n, "%s=%.*s;", key, (int)len, (const char *)value);
    return HSP_OK;
}

static void collect_line(void *arg, uint64_t number, const char *json)
{
    struct collected *c = arg;
    size_t n = strlen(c->text);
    snprintf(c->text + n, sizeof c->text - n, "%d:%s;", (int)number, json);
}

static struct hsp_store *open_store(void)
{
    struct hsp_err err = {0};
    struct hsp_store *s = NULL;
    assert_ok(hsp_store_open(path, &s, &err), &err);
    return s;
}

static void test_rows_survive_a_reopen(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store_row rows[] = {
        {"term", "1", 1, false}, {"job/1", "a", 1, false}, {"x", "", 0, false}};
    struct hsp_store_row more[] = {{"term", "22", 2, false}, {"x", NULL, 0, true}};
    struct hsp_store *s = open_store();
    assert_ok(hsp_store_apply(s, rows, 3, NULL, 0, &err), &err);
    assert_ok(hsp_store_apply(s, more, 2, NULL, 0, &err), &err);
    assert_null(hsp_store_close(s));
    s = open_store();
    struct collected c = {""};
    assert_ok(hsp_store_load(s, collect_row, &c, &err), &err);
    assert_string_equal(c.text, "job/1=a;term=22;");
    assert_null(hsp_store_close(s));
}

static void test_a_batch_is_all_or_nothing(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store_row rows[] = {{"a", "1", 1, false}, {NULL, "2", 1, false}};
    struct hsp_store *s = open_store();
    assert_status(hsp_store_apply(s, rows, 2, NULL, 0, &err), HSP_EIO);
    struct collected c = {""};
    assert_ok(hsp_store_load(s, collect_row, &c, &err), &err);
    assert_string_equal(c.text, "");
    assert_ok(hsp_store_apply(s, rows, 1, NULL, 0, &err), &err);
    assert_null(hsp_store_close(s));
}

/* As another program, or a disk, would. */
static void behind_its_back(const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void assert_damaged(const char *key)
{
    struct hsp_err err = {0};
    struct collected c = {""};
    struct hsp_store *s = open_store();
    assert_status(hsp_store_load(s, collect_row, &c, &err), HSP_EDIGEST);
    assert_non_null(strstr(err.msg, key));
    assert_null(hsp_store_close(s));
}

static void test_a_damaged_row_is_refused(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store_row rows[] = {
        {"job/1", "a", 1, false}, {"job/2", "b", 1, false}, {"x", "", 0, false}};
    struct hsp_store *s = open_store();
    assert_ok(hsp_store_apply(s, rows, 3, NULL, 0, &err), &err);
    assert_null(hsp_store_close(s));
    behind_its_back("UPDATE kv SET value = x'63' WHERE key = 'job/2'");
    assert_damaged("row job/2 is damaged");
    behind_its_back("UPDATE kv SET value = x'62' WHERE key = 'job/2'; UPDATE kv SET value = x'00' "
                    "WHERE key = 'x'");
    assert_damaged("row x is damaged");
    behind_its_back("UPDATE kv SET key = 'job/3' WHERE key = 'job/1'"); /* of another job */
    assert_damaged("row job/3 is damaged");
}

static uint8_t *contents(const char *file, size_t *ret_len)
{
    struct hsp_err err = {0};
    uint8_t *data = NULL;
    assert_ok(hsp_file_read(file, 1u << 24, &data, ret_len, &err), &err);
    return data;
}

/* A store with @rows, then events, is left as by a kill, with one bit in its log of writes flipped, which makes SQLite
 * drop all that was written after it. */
static void test_a_flipped_bit_in_the_log_costs_no_row(void **state)
{
    struct hsp_err err = {0};
    struct hsp_store_row rows[] = {{"job/1", "a", 1, false}, {"node/0", "b", 1, false}},
                         more = {"job/1", "c", 1, false};
    struct hsp_store_event e = {1, "", "e"};
    char wal[4300], copy[4300], copy_wal[4300];
    snprintf(wal, sizeof wal, "%s-wal", path);
    snprintf(copy, sizeof copy, "%s/copy.db", (char *)*state);
    snprintf(copy_wal, sizeof copy_wal, "%s-wal", copy);
    struct hsp_store *s = open_store();
    assert_ok(hsp_store_apply(s, rows, 2, NULL, 0, &err), &err);
    assert_ok(hsp_store_feed_add(s, &e, 1, NULL, 0, &err), &err);
    assert_ok(hsp_store_apply(s, &more, 1, NULL, 0, &err), &err);
    e.seq = 2;
    assert_ok(hsp_store_feed_add(s, &e, 1, NULL, 0, &err), &err);
    size_t n, n_log;
    uint8_t *db = contents(path, &n), *log = contents(wal, &n_log);
    assert_null(hsp_store_close(s));
    assert_true(n_log > 4096); /* the second event is in it */
    for (size_t at = 0; at < n_log; at += 499) {
        log[at] ^= 4;
        assert_ok(hsp_file_write(copy, db, n, 0600, &err), &err);
        assert_ok(hsp_file_write(copy_wal, log, n_log, 0600, &err), &err);
        log[at] ^= 4;
        struct collected c = {""};
        assert_ok(hsp_store_open(copy, &s, &err), &err);
        assert_ok(hsp_store_load(s, collect_row, &c, &err), &err);
        assert_string_equal(c.text, "job/1=c;node/0=b;");
        assert_null(hsp_store_close(s));
    }
    free(db);
    free(log);
}

static void test_rows_of_the_first_schema_are_read(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store_row more = {"job/2", "c", 1, false};
    behind_its_back("CREATE TABLE kv(key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID; "
                    "INSERT INTO kv VALUES('job/1', x'61'); INSERT INTO kv VALUES('job/2', x'62'); "
                    "PRAGMA user_version = 1");
    struct hsp_store *s = open_store();
    assert_ok(hsp_store_apply(s, &more, 1, NULL, 0, &err), &err);
    struct collected c = {""};
    assert_ok(hsp_store_load(s, collect_row, &c, &err), &err);
    assert_string_equal(c.text, "job/1=a;job/2=c;");
    assert_null(hsp_store_close(s));
    behind_its_back("UPDATE kv SET value = x'62' WHERE key = 'job/2'");
    assert_damaged("row job/2 is damaged");
}

static void test_events_and_metrics_come_in_order(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store *s = open_store();
    struct hsp_store_event e[] = {{1, "", "n"}, {2, "a", "x"}, {3, "b", "y"}, {4, "a", "z"}};
    assert_int_equal(hsp_store_events_last(s), 0);
    assert_ok(hsp_store_feed_add(s, e, 4, NULL, 0, &err), &err);
    assert_int_equal(hsp_store_events_last(s), 4);
    struct collected c = {""};
    assert_ok(hsp_store_events(s, "a", 0, 100, collect_line, &c, &err), &err);
    assert_string_equal(c.text, "2:x;4:z;");
    c.text[0] = '\0';
    assert_ok(hsp_store_events(s, "", 1, 2, collect_line, &c, &err), &err);
    assert_string_equal(c.text, "2:x;3:y;");
    const struct hsp_store_metric m[] = {
        {"a", 1, 5, "one"}, {"a", 0, 5, "zero"}, {"b", 7, 5, "other"}};
    const struct hsp_store_metric again = {"a", 1, 6, "again"}, late = {"a", 1, 4, "late"};
    assert_ok(hsp_store_feed_add(s, NULL, 0, m, 3, &err), &err);
    assert_ok(hsp_store_feed_add(s, NULL, 0, &again, 1, &err), &err);
    assert_ok(hsp_store_feed_add(s, NULL, 0, &late, 1, &err), &err);
    c.text[0] = '\0';
    assert_ok(hsp_store_metrics(s, "a", 0, 100, collect_line, &c, &err), &err);
    assert_string_equal(c.text, "0:zero;1:again;");
    assert_null(hsp_store_close(s));
}

static void test_metrics_go_with_the_rows_or_stay(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store *s = open_store();
    const struct hsp_store_metric m[] = {{"a", 1, 5, "one"}, {"b", 7, 5, "other"}};
    const struct hsp_store_row rows[] = {{"a", "1", 1, false}, {NULL, "2", 1, false}};
    const char *const gone[] = {"a"};
    struct collected c = {""}, rest = {""};
    assert_ok(hsp_store_feed_add(s, NULL, 0, m, 2, &err), &err);
    assert_status(hsp_store_apply(s, rows, 2, gone, 1, &err), HSP_EIO);
    assert_ok(hsp_store_metrics(s, "a", 0, 100, collect_line, &c, &err), &err);
    assert_string_equal(c.text, "1:one;");
    c.text[0] = '\0';
    assert_ok(hsp_store_apply(s, rows, 1, gone, 1, &err), &err);
    assert_ok(hsp_store_metrics(s, "a", 0, 100, collect_line, &c, &err), &err);
    assert_string_equal(c.text, "");
    assert_ok(hsp_store_metrics(s, "b", 0, 100, collect_line, &rest, &err), &err);
    assert_string_equal(rest.text, "7:other;");
    assert_null(hsp_store_close(s));
}

static void test_events_are_bounded(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store *s = open_store();
    struct hsp_store_event old = {5, "", "old"}, new = {HSP_STORE_EVENTS_MAX + 5, "", "new"};
    assert_ok(hsp_store_feed_add(s, &old, 1, NULL, 0, &err), &err);
    assert_ok(hsp_store_feed_add(s, &new, 1, NULL, 0, &err), &err);
    struct collected c = {""};
    assert_ok(hsp_store_events(s, "", 0, 10, collect_line, &c, &err), &err);
    assert_string_equal(c.text, "100005:new;");
    assert_null(hsp_store_close(s));
}

static void test_a_file_that_is_no_database_is_refused(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store *s = NULL;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int i = 0; i < 200; i++) {
        fputs("this is no database ", f);
    }
    fclose(f);
    assert_status(hsp_store_open(path, &s, &err), HSP_EIO);
    assert_non_null(strstr(err.msg, path));
    assert_null(s);
}

HSP_TEST_FILE(store_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows_survive_a_reopen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_batch_is_all_or_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_damaged_row_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_flipped_bit_in_the_log_costs_no_row, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_rows_of_the_first_schema_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_events_and_metrics_come_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_metrics_go_with_the_rows_or_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(test_events_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_file_that_is_no_database_is_refused, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
