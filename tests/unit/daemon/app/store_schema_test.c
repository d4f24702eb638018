/* Stores of older versions, and files that are no store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/app/store/store.h"
#include "proto/host/file_io.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/app/store_lib.h"

static struct hsp_store_damage left_out;

/* The hspmdd that wrote it still reads it: it has to finish its jobs. */
static void test_a_store_with_rows_of_an_old_form_stays_as_it_is(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store *s = NULL;
    sl_behind_its_back(
        "CREATE TABLE kv(key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID; "
        "INSERT INTO kv VALUES('app/1', x'00'); INSERT INTO kv VALUES('job/2', x'03'); "
        "PRAGMA user_version = 1");
    assert_status(hsp_store_open(sl_path, &s, &err), HSP_EVERSION);
    assert_non_null(strstr(err.msg, "stored row job/2 has form 3, this hspmdd reads 4 to "));
    sl_behind_its_back("INSERT INTO kv VALUES('job/3', x'04')"); /* a table of the first version */
    sl_behind_its_back("DELETE FROM kv WHERE key = 'job/2'");
    s = sl_open();
    assert_null(hsp_store_close(s));
}

static void test_rows_of_the_first_schema_are_read(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store_row more = {"job/2", "c", 1, false};
    sl_behind_its_back(
        "CREATE TABLE kv(key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID; "
        "INSERT INTO kv VALUES('job/1', x'61'); INSERT INTO kv VALUES('job/2', x'62'); "
        "PRAGMA user_version = 1");
    struct hsp_store *s = sl_open();
    assert_ok(hsp_store_apply(s, &more, 1, NULL, 0, &err), &err);
    struct sl_collected c = {""};
    assert_ok(hsp_store_load(s, sl_collect_row, &c, &err), &err);
    assert_string_equal(c.text, "job/1=a;job/2=c;");
    assert_null(hsp_store_close(s));
    sl_behind_its_back("UPDATE kv SET value = x'62' WHERE key = 'job/2'");
    sl_assert_damaged("row job/2 is damaged");
}

/* Of version 2: metrics are those of the last job of their name, events of the job they name. */
static void test_lines_of_the_second_schema_are_read(void **state)
{
    (void)state;
    sl_behind_its_back(
        "CREATE TABLE kv(key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER) WITHOUT ROWID;"
        "CREATE TABLE events(seq INTEGER PRIMARY KEY, job TEXT NOT NULL, json TEXT NOT NULL);"
        "CREATE INDEX events_job ON events(job, seq);"
        "CREATE TABLE metrics(job TEXT, step INTEGER, json TEXT NOT NULL, epoch INTEGER NOT NULL, "
        "PRIMARY KEY(job, step)) WITHOUT ROWID;"
        "INSERT INTO events VALUES(1, '', '{}'), (2, 'a', '{\"job_id\":1}'), "
        "(3, 'a', '{\"job_id\":2}'), (4, 'b', 'no json');"
        "INSERT INTO metrics VALUES('a', 5, 'five', 9), ('gone', 5, 'x', 9);"
        "PRAGMA user_version = 2");
    for (int open = 0; open < 2; open++) {
        struct hsp_err err = {0};
        struct hsp_store *s = sl_open();
        struct sl_collected c = {""};
        assert_ok(hsp_store_events(s, 0, 0, 100, sl_collect_line, &c, &err), &err);
        assert_string_equal(c.text, "1:{};2:{\"job_id\":1};3:{\"job_id\":2};4:no json;");
        c.text[0] = '\0';
        assert_ok(hsp_store_events(s, 1, 0, 100, sl_collect_line, &c, &err), &err);
        assert_string_equal(c.text, "2:{\"job_id\":1};");
        assert_string_equal(sl_metrics_of(s, 1).text, "");
        assert_string_equal(sl_metrics_of(s, 2).text, "5:five;");
        assert_ok(hsp_store_clean(s, &left_out, &err), &err);
        assert_true(left_out.events + left_out.metrics == 0);
        assert_null(hsp_store_close(s));
    }
    sl_behind_its_back("PRAGMA user_version = 2"); /* a flipped bit */
    struct hsp_err err = {0};
    struct hsp_store *s = NULL;
    assert_status(hsp_store_open(sl_path, &s, &err), HSP_EIO);
}

/* The row of a job in the form of the core, hexadecimal: form 12, its number, its name. */
static const char *job_row(uint32_t id, const char *name)
{
    static char text[4][200];
    static int at;
    at = (at + 1) % 4;
    size_t n = (size_t)snprintf(text[at], sizeof text[at], "0c%02x000000%02x000000", id,
                                (unsigned)strlen(name));
    for (const char *c = name; *c != '\0'; c++) {
        n += (size_t)snprintf(text[at] + n, sizeof text[at] - n, "%02x", *c);
    }
    return text[at];
}

/* Their events have no number of a job: lines are those of the newest job of their name. */
static void test_lines_without_a_number_go_to_the_job_of_their_name(void **state)
{
    (void)state;
    for (int version = 1; version < 3; version++) {
        struct hsp_err err = {0};
        char sql[2000];
        (void)snprintf(
            sql, sizeof sql,
            "CREATE TABLE kv(key TEXT PRIMARY KEY, value BLOB NOT NULL%s) WITHOUT ROWID;"
            "INSERT INTO kv(key, value) VALUES('job/3', x'%s'), ('job/11', x'%s'), "
            "('job/12', x'%s'), ('job/13', x'00'), ('plan/14/1', x'%s');"
            "CREATE TABLE events(seq INTEGER PRIMARY KEY, job TEXT NOT NULL, json TEXT NOT NULL);"
            "CREATE TABLE metrics(job TEXT, step INTEGER, json TEXT NOT NULL, epoch INTEGER NOT "
            "NULL, PRIMARY KEY(job, step)) WITHOUT ROWID;"
            "INSERT INTO events VALUES(1, '', '{}'), (2, 'a', '{}'), (3, 'a', '{\"job_id\":3}'), "
            "(4, 'b', 'no json'), (5, 'c', '{\"job_id\":99}'), (6, 'gone', '{}');"
            "INSERT INTO metrics VALUES('a', 5, 'five', 9), ('a', 6, 'six', 9), ('b', 1, 'one', "
            "2), "
            "('c', 1, 'c', 2);"
            "PRAGMA user_version = %d",
            version == 1 ? "" : ", sum INTEGER", job_row(3, "a"), job_row(11, "a"),
            job_row(12, "b"), job_row(14, "a"), version);
        sl_behind_its_back(sql);
        struct hsp_store *s = sl_open();
        struct sl_collected c = {""};
        assert_string_equal(sl_metrics_of(s, 11).text, "5:five;6:six;");
        assert_string_equal(sl_metrics_of(s, 3).text, "");
        assert_string_equal(sl_metrics_of(s, 12).text, "1:one;");
        assert_string_equal(sl_metrics_of(s, 99).text, "1:c;"); /* as its events say */
        assert_ok(hsp_store_events(s, 11, 0, 100, sl_collect_line, &c, &err), &err);
        assert_ok(hsp_store_events(s, 3, 0, 100, sl_collect_line, &c, &err), &err);
        assert_ok(hsp_store_events(s, 12, 0, 100, sl_collect_line, &c, &err), &err);
        assert_string_equal(c.text, "2:{};3:{\"job_id\":3};4:no json;");
        c.text[0] = '\0';
        assert_ok(hsp_store_events(s, 0, 0, 100, sl_collect_line, &c, &err), &err);
        assert_non_null(strstr(c.text, "6:{};"));
        assert_null(hsp_store_close(s));
        assert_int_equal(unlink(sl_path), 0);
    }
}

/* A bit in the head of a page hides rows without a word. The total of the rows that version 4 has
 * is not made of the rest. */
static void test_a_damaged_store_of_before_is_not_changed(void **state)
{
    (void)state;
    enum { ROWS = 40, PAGE = 4096 };
    struct hsp_err err = {0};
    struct hsp_store *s = sl_open();
    char key[ROWS][16], value[300] = "";
    struct hsp_store_row rows[ROWS];
    size_t n, n_now, page = PAGE;
    for (uint32_t i = 0; i < ROWS; i++) {
        (void)snprintf(key[i], sizeof key[i], "app/job/%u", i);
        rows[i] = (struct hsp_store_row){key[i], value, sizeof value, false};
    }
    assert_ok(hsp_store_apply(s, rows, ROWS, NULL, 0, &err), &err);
    assert_null(hsp_store_close(s));
    sl_behind_its_back("DROP TABLE total; PRAGMA journal_mode = DELETE; PRAGMA user_version = 3");
    uint8_t *data = sl_contents(sl_path, &n);
    while (page < n &&
           !(data[page] == 0x0a && data[page + 4] > 3)) { /* a leaf of rows of the core */
        page += PAGE;
    }
    assert_true(page < n);
    data[page + 4] -= 3;
    assert_ok(hsp_file_write(sl_path, data, n, 0600, &err), &err);
    assert_status(hsp_store_open(sl_path, &s, &err), HSP_EDIGEST);
    assert_non_null(strstr(err.msg, "; put a backup back"));
    sl_behind_its_back("PRAGMA journal_mode = DELETE");
    uint8_t *now = sl_contents(sl_path, &n_now);
    assert_true(n_now == n && memcmp(now + PAGE, data + PAGE, n - PAGE) == 0);
    free(now);
    data[page + 4] += 3;
    assert_ok(hsp_file_write(sl_path, data, n, 0600, &err), &err);
    assert_null(hsp_store_close(sl_open()));
    free(data);
}

static void test_a_file_that_is_no_database_is_refused(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store *s = NULL;
    FILE *f = fopen(sl_path, "wb");
    assert_non_null(f);
    for (int i = 0; i < 200; i++) {
        fputs("this is no database ", f);
    }
    fclose(f);
    assert_status(hsp_store_open(sl_path, &s, &err), HSP_EDIGEST);
    assert_non_null(strstr(err.msg, sl_path));
    assert_non_null(strstr(err.msg, "; put a backup back"));
    assert_null(s);
}

HSP_TEST_FILE(store_schema_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_store_with_rows_of_an_old_form_stays_as_it_is,
                                        sl_setup, sl_teardown),
        cmocka_unit_test_setup_teardown(test_rows_of_the_first_schema_are_read, sl_setup,
                                        sl_teardown),
        cmocka_unit_test_setup_teardown(test_lines_of_the_second_schema_are_read, sl_setup,
                                        sl_teardown),
        cmocka_unit_test_setup_teardown(test_lines_without_a_number_go_to_the_job_of_their_name,
                                        sl_setup, sl_teardown),
        cmocka_unit_test_setup_teardown(test_a_damaged_store_of_before_is_not_changed, sl_setup,
                                        sl_teardown),
        cmocka_unit_test_setup_teardown(test_a_file_that_is_no_database_is_refused, sl_setup,
                                        sl_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
