/* Tests the store: rows survive a reopen, a failed batch leaves nothing, feeds come in order. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "daemon/app/store/store.h"
#include "proto/base/rng.h"
#include "proto/base/size.h"
#include "proto/host/file_io.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/app/store_lib.h"

static struct hsp_store_damage left_out;

/* How many, and the first number. */
static void count_line(void *arg, uint64_t number, uint64_t epoch, const char *json)
{
    uint64_t *n = arg;
    (void)epoch;
    (void)json;
    n[1] = n[0]++ == 0 ? number : n[1];
}

static void test_rows_survive_a_reopen(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store_row rows[] = {
        {"term", "1", 1, false}, {"job/1", "a", 1, false}, {"x", "", 0, false}};
    struct hsp_store_row more[] = {{"term", "22", 2, false}, {"x", NULL, 0, true}};
    struct hsp_store *s = sl_open();
    assert_ok(hsp_store_apply(s, rows, 3, NULL, 0, &err), &err);
    assert_ok(hsp_store_apply(s, more, 2, NULL, 0, &err), &err);
    assert_null(hsp_store_close(s));
    s = sl_open();
    struct sl_collected c = {""};
    assert_ok(hsp_store_load(s, sl_collect_row, &c, &err), &err);
    assert_string_equal(c.text, "job/1=a;term=22;");
    assert_null(hsp_store_close(s));
}

/* Another file in the place of one that is open is not read with the last writes of that one. */
static void test_the_log_goes_with_its_file(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store_event theirs = {1, 0, "theirs"}, ours = {1, 0, "ours"};
    char other[4300], away[4300];
    (void)snprintf(other, sizeof other, "%s.other", sl_path);
    (void)snprintf(away, sizeof away, "%s.away", sl_path);
    struct hsp_store *s = sl_open();
    assert_ok(hsp_store_feed_add(s, &theirs, 1, NULL, 0, &err), &err);
    assert_null(hsp_store_close(s));
    assert_int_equal(rename(sl_path, other), 0);
    s = sl_open();
    assert_ok(hsp_store_feed_add(s, &ours, 1, NULL, 0, &err), &err);
    assert_int_equal(rename(sl_path, away), 0);
    assert_int_equal(rename(other, sl_path), 0);
    assert_null(hsp_store_close(s));
    s = sl_open();
    struct sl_collected c = {""};
    assert_ok(hsp_store_events(s, 0, 0, 100, sl_collect_line, &c, &err), &err);
    assert_string_equal(c.text, "1:theirs;");
    assert_null(hsp_store_close(s));
}

static void test_a_batch_is_all_or_nothing(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store_row rows[] = {{"a", "1", 1, false}, {NULL, "2", 1, false}};
    struct hsp_store *s = sl_open();
    assert_status(hsp_store_apply(s, rows, 2, NULL, 0, &err), HSP_EIO);
    struct sl_collected c = {""};
    assert_ok(hsp_store_load(s, sl_collect_row, &c, &err), &err);
    assert_string_equal(c.text, "");
    assert_ok(hsp_store_apply(s, rows, 1, NULL, 0, &err), &err);
    assert_null(hsp_store_close(s));
}

static void test_a_damaged_row_is_refused(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store_row rows[] = {
        {"job/1", "a", 1, false}, {"job/2", "b", 1, false}, {"x", "", 0, false}};
    struct hsp_store *s = sl_open();
    assert_ok(hsp_store_apply(s, rows, 3, NULL, 0, &err), &err);
    assert_null(hsp_store_close(s));
    sl_behind_its_back("UPDATE kv SET value = x'63' WHERE key = 'job/2'");
    sl_assert_damaged("row job/2 is damaged");
    sl_behind_its_back(
        "UPDATE kv SET value = x'62' WHERE key = 'job/2'; UPDATE kv SET value = x'00' "
        "WHERE key = 'x'");
    sl_assert_damaged("row x is damaged");
    sl_behind_its_back("UPDATE kv SET key = 'job/3' WHERE key = 'job/1'"); /* of another job */
    sl_assert_damaged("row job/3 is damaged");
}

/* Rows of which a page has lost count are whole themselves. */
static void test_a_row_that_is_missing_is_noticed(void **state)
{
    (void)state;
    enum { KEYS = 7, ROUNDS = 200 };
    struct hsp_err err = {0};
    uint64_t seed = hsp_test_seed();
    struct hsp_store *s = sl_open();
    for (uint64_t i = 0; i < ROUNDS; i++) { /* new ones, new values, the same value, removed ones */
        char key[16], value[4];
        (void)snprintf(key, sizeof key, "plan/4/%d", (int)hsp_rng_below(KEYS, seed, 0, i, 0));
        (void)snprintf(value, sizeof value, "%d", (int)hsp_rng_below(3, seed, 1, i, 0));
        struct hsp_store_row r = {key, value, strlen(value), hsp_rng_below(4, seed, 2, i, 0) == 0};
        assert_ok(hsp_store_apply(s, &r, 1, NULL, 0, &err), &err);
    }
    struct hsp_store_row last = {"plan/4/9", "x", 1, false};
    assert_ok(hsp_store_apply(s, &last, 1, NULL, 0, &err), &err);
    assert_null(hsp_store_close(s));
    s = sl_open();
    struct sl_collected c = {""};
    assert_ok(hsp_store_load(s, sl_collect_row, &c, &err), &err);
    assert_null(hsp_store_close(s));
    sl_behind_its_back(
        "CREATE TABLE old AS SELECT * FROM kv; CREATE TABLE was AS SELECT * FROM total;"
        "DELETE FROM kv WHERE key = 'plan/4/9'");
    sl_assert_damaged("rows are missing");
    sl_behind_its_back("DELETE FROM kv; INSERT INTO kv SELECT * FROM old; DELETE FROM total");
    sl_assert_damaged("rows are missing");
    sl_behind_its_back("INSERT INTO total SELECT id, rows, sums + 1 FROM was");
    sl_assert_damaged("rows are missing");
    sl_behind_its_back("UPDATE total SET sums = sums - 1");
    s = sl_open();
    assert_ok(hsp_store_load(s, sl_collect_row, &c, &err), &err);
    assert_null(hsp_store_close(s));
}

/* A store with @rows, then events, is left as by a kill, with one bit in its log of writes flipped,
 * which makes SQLite drop all that was written after it. */
static void test_a_flipped_bit_in_the_log_costs_no_row(void **state)
{
    struct hsp_err err = {0};
    struct hsp_store_row rows[] = {{"job/1", "a", 1, false}, {"node/0", "b", 1, false}},
                         more = {"job/1", "c", 1, false};
    struct hsp_store_event e = {1, 0, "e"};
    char wal[4300], copy[4300], copy_wal[4300];
    snprintf(wal, sizeof wal, "%s-wal", sl_path);
    snprintf(copy, sizeof copy, "%s/copy.db", (char *)*state);
    snprintf(copy_wal, sizeof copy_wal, "%s-wal", copy);
    struct hsp_store *s = sl_open();
    assert_ok(hsp_store_apply(s, rows, 2, NULL, 0, &err), &err);
    assert_ok(hsp_store_feed_add(s, &e, 1, NULL, 0, &err), &err);
    assert_ok(hsp_store_apply(s, &more, 1, NULL, 0, &err), &err);
    e.seq = 2;
    assert_ok(hsp_store_feed_add(s, &e, 1, NULL, 0, &err), &err);
    size_t n, n_log;
    uint8_t *db = sl_contents(sl_path, &n), *log = sl_contents(wal, &n_log);
    assert_null(hsp_store_close(s));
    assert_true(n_log > 4096); /* the second event is in it */
    for (size_t at = 0; at < n_log; at += 499) {
        log[at] ^= 4;
        assert_ok(hsp_file_write(copy, db, n, 0600, &err), &err);
        assert_ok(hsp_file_write(copy_wal, log, n_log, 0600, &err), &err);
        log[at] ^= 4;
        struct sl_collected c = {""};
        assert_ok(hsp_store_open(copy, &s, &err), &err);
        assert_ok(hsp_store_load(s, sl_collect_row, &c, &err), &err);
        assert_string_equal(c.text, "job/1=c;node/0=b;");
        assert_null(hsp_store_close(s));
    }
    free(db);
    free(log);
}

static void test_events_and_metrics_come_in_order(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store *s = sl_open();
    struct hsp_store_event e[] = {{1, 0, "n"}, {2, 7, "x"}, {3, 8, "y"}, {4, 7, "z"}};
    assert_int_equal(hsp_store_events_last(s), 0);
    assert_ok(hsp_store_feed_add(s, e, 4, NULL, 0, &err), &err);
    assert_int_equal(hsp_store_events_last(s), 4);
    struct sl_collected c = {""};
    assert_ok(hsp_store_events(s, 7, 0, 100, sl_collect_line, &c, &err), &err);
    assert_string_equal(c.text, "2:x;4:z;");
    c.text[0] = '\0';
    assert_ok(hsp_store_events(s, 0, 1, 2, sl_collect_line, &c, &err), &err);
    assert_string_equal(c.text, "2:x;3:y;");
    const struct hsp_store_metric m[] = {{7, 1, 5, "one"}, {7, 0, 5, "zero"}, {8, 7, 5, "other"}};
    assert_ok(hsp_store_feed_add(s, NULL, 0, m, 3, &err), &err);
    assert_string_equal(sl_metrics_of(s, 7).text, "0:zero;1:one;");
    assert_null(hsp_store_close(s));
}

/* Steps of an epoch that workers say again change nothing; a newer epoch has run the step again. */
static void test_the_first_line_of_the_newest_epoch_stays(void **state)
{
    (void)state;
    static const struct {
        struct hsp_store_metric m;
        const char *then;
    } said[] = {{{7, 1, 5, "one"}, "1:one;"},
                {{7, 1, 5, "said again"}, "1:one;"},
                {{7, 1, 4, "late"}, "1:one;"},
                {{7, 1, 6, "run again"}, "1:run again;"},
                {{8, 1, 9, "another job's"}, "1:run again;"}};
    struct hsp_err err = {0};
    struct hsp_store *s = sl_open();
    for (size_t i = 0; i < HSP_ARRAY_LEN(said); i++) {
        assert_ok(hsp_store_feed_add(s, NULL, 0, &said[i].m, 1, &err), &err);
        assert_string_equal(sl_metrics_of(s, 7).text, said[i].then);
    }
    sl_behind_its_back("UPDATE metric SET json = 'run agaim' WHERE job = 7");
    assert_string_equal(sl_metrics_of(s, 7).text, ""); /* nobody believes it */
    assert_ok(hsp_store_feed_add(s, NULL, 0, &said[1].m, 1, &err), &err);
    assert_string_equal(sl_metrics_of(s, 7).text, "1:said again;");
    assert_null(hsp_store_close(s));
}

static void test_metrics_go_with_the_rows_or_stay(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store *s = sl_open();
    const struct hsp_store_metric m[] = {{7, 1, 5, "one"}, {8, 7, 5, "other"}};
    const struct hsp_store_row rows[] = {{"a", "1", 1, false}, {NULL, "2", 1, false}};
    const uint32_t gone[] = {7};
    assert_ok(hsp_store_feed_add(s, NULL, 0, m, 2, &err), &err);
    assert_status(hsp_store_apply(s, rows, 2, gone, 1, &err), HSP_EIO);
    assert_string_equal(sl_metrics_of(s, 7).text, "1:one;");
    assert_ok(hsp_store_apply(s, rows, 1, gone, 1, &err), &err);
    assert_string_equal(sl_metrics_of(s, 7).text, "");
    assert_string_equal(sl_metrics_of(s, 8).text, "7:other;");
    assert_null(hsp_store_close(s));
}

/* Lines that a disk has changed are left out when they are read, are counted, and go. */
static void test_a_damaged_line_is_left_out(void **state)
{
    static const char *const damage[] = {"UPDATE event SET json = 'Y' WHERE seq = 3",
                                         "UPDATE event SET job = 9 WHERE seq = 3",
                                         "UPDATE event SET seq = 1000000000000 WHERE seq = 3",
                                         "UPDATE event SET sum = NULL WHERE seq = 3"};
    static const char *const of_metrics[] = {
        "UPDATE metric SET json = 'o' WHERE step = 1", "UPDATE metric SET epoch = 4 WHERE step = 1",
        "UPDATE metric SET step = 2 WHERE step = 1", "UPDATE metric SET job = 8 WHERE step = 1"};
    const struct hsp_store_event e[] = {{2, 7, "x"}, {3, 7, "y"}};
    const struct hsp_store_metric m[] = {{7, 0, 5, "zero"}, {7, 1, 5, "one"}, {9, 3, 1, "three"}};
    for (size_t i = 0; i < HSP_ARRAY_LEN(damage); i++) {
        struct hsp_err err = {0};
        struct hsp_store *s = sl_open();
        assert_ok(hsp_store_feed_add(s, e, 2, m, 3, &err), &err);
        assert_null(hsp_store_close(s));
        sl_behind_its_back(damage[i]);
        sl_behind_its_back(of_metrics[i]);
        s = sl_open();
        struct sl_collected c = {""};
        assert_ok(hsp_store_events(s, 0, 0, 100, sl_collect_line, &c, &err), &err);
        assert_string_equal(c.text, "2:x;");
        assert_int_equal(hsp_store_events_last(s), 2);
        assert_string_equal(sl_metrics_of(s, 7).text, "0:zero;");
        assert_string_equal(sl_metrics_of(s, 8).text, "");
        for (uint64_t there = 1; there + 1 > 0; there--) { /* counted once */
            char text[HSP_DAMAGE_TEXT];
            assert_ok(hsp_store_clean(s, &left_out, &err), &err);
            assert_true(left_out.events == there && left_out.metrics == there);
            hsp_store_damage_text(&left_out, text);
            assert_string_equal(
                text, there == 1 ? "damaged lines are left out: 1 of events, 1 of metrics"
                                 : "damaged lines are left out: 0 of events, 0 of metrics");
        }
        assert_string_equal(sl_metrics_of(s, 9).text, "3:three;");
        assert_null(hsp_store_close(s));
        hsp_test_rmdir(*state);
        assert_int_equal(mkdir(*state, 0700), 0);
    }
}

/* A thousand lines are read at a time: those at both ends of that are cleaned like others. */
static void test_damage_is_found_between_portions(void **state)
{
    (void)state;
    enum { LINES = 2500 };
    struct hsp_err err = {0};
    struct hsp_store *s = sl_open();
    struct hsp_store_event *e = calloc(LINES, sizeof *e);
    struct hsp_store_metric *m = calloc(LINES, sizeof *m);
    assert_true(e != NULL && m != NULL);
    for (uint32_t i = 0; i < LINES; i++) {
        e[i] = (struct hsp_store_event){1 + i, 7, "e"};
        m[i] = (struct hsp_store_metric){i < 2000 ? 7 : 8, i, 5, "m"};
    }
    assert_ok(hsp_store_feed_add(s, e, LINES, m, LINES, &err), &err);
    assert_null(hsp_store_close(s));
    sl_behind_its_back(
        "UPDATE event SET json = 'x' WHERE seq IN (1, 1000, 1001, 2000, 2001, 2500)");
    sl_behind_its_back(
        "UPDATE metric SET json = 'x' WHERE step IN (0, 999, 1000, 1999, 2000, 2499)");
    sl_behind_its_back("UPDATE metric SET step = 'x' WHERE step = 500");
    s = sl_open();
    assert_ok(hsp_store_clean(s, &left_out, &err), &err);
    assert_true(left_out.events == 6 && left_out.metrics == 7);
    uint64_t n[2] = {0, 0};
    assert_ok(hsp_store_events(s, 0, 0, LINES, count_line, n, &err), &err);
    assert_ok(hsp_store_metrics(s, 7, 0, LINES, count_line, n, &err), &err);
    assert_ok(hsp_store_metrics(s, 8, 0, LINES, count_line, n, &err), &err);
    assert_int_equal(n[0], 2 * LINES - 13);
    assert_ok(hsp_store_clean(s, &left_out, &err), &err);
    assert_true(left_out.events == 0 && left_out.metrics == 0);
    assert_null(hsp_store_close(s));
    free(e);
    free(m);
}

/* Damage of any part of a row: when the row is written again or removed, the store is whole. */
static void test_a_damaged_row_that_is_written_again(void **state)
{
    static const char *const damage[] = {"UPDATE kv SET sum = sum + 1 WHERE key = 'job/1'",
                                         "UPDATE kv SET sum = NULL WHERE key = 'job/1'",
                                         "UPDATE kv SET value = x'63' WHERE key = 'job/1'"};
    for (size_t i = 0; i < 2 * HSP_ARRAY_LEN(damage); i++) {
        struct hsp_err err = {0};
        struct hsp_store_row rows[] = {{"job/1", "a", 1, false}, {"job/2", "b", 1, false}};
        struct hsp_store_row again = {"job/1", "c", 1, i % 2 == 1};
        struct sl_collected c = {""};
        struct hsp_store *s = sl_open();
        assert_ok(hsp_store_apply(s, rows, 2, NULL, 0, &err), &err);
        assert_null(hsp_store_close(s));
        sl_behind_its_back(damage[i / 2]);
        s = sl_open();
        assert_status(hsp_store_load(s, sl_collect_row, &c, &err), HSP_EDIGEST);
        assert_ok(hsp_store_apply(s, &again, 1, NULL, 0, &err), &err);
        assert_null(hsp_store_close(s));
        s = sl_open();
        c.text[0] = '\0';
        assert_ok(hsp_store_load(s, sl_collect_row, &c, &err), &err);
        assert_string_equal(c.text, i % 2 == 1 ? "job/2=b;" : "job/1=c;job/2=b;");
        assert_null(hsp_store_close(s));
        hsp_test_rmdir(*state);
        assert_int_equal(mkdir(*state, 0700), 0);
    }
}

/* Events before a gap in the numbers stay, as long as there are few. */
static void test_events_are_bounded(void **state)
{
    (void)state;
    enum { MORE = HSP_STORE_EVENTS_MAX + HSP_STORE_EVENTS_MAX / 100 };
    struct hsp_err err = {0};
    struct hsp_store *s = sl_open();
    struct hsp_store_event *ev = calloc(MORE, sizeof *ev);
    assert_non_null(ev);
    for (uint64_t i = 0; i < MORE; i++) {
        ev[i] = (struct hsp_store_event){((uint64_t)1 << 40) + i, 7, "new"};
    }
    struct hsp_store_event old = {5, 7, "old"};
    assert_ok(hsp_store_feed_add(s, &old, 1, NULL, 0, &err), &err);
    assert_ok(hsp_store_feed_add(s, ev, 1, NULL, 0, &err), &err);
    struct sl_collected c = {""};
    assert_ok(hsp_store_events(s, 0, 0, 1, sl_collect_line, &c, &err), &err);
    assert_string_equal(c.text, "5:old;");
    assert_ok(hsp_store_feed_add(s, ev + 1, MORE - 1, NULL, 0, &err), &err);
    uint64_t first = ev[MORE - HSP_STORE_EVENTS_MAX].seq, n[2] = {0, 0};
    assert_ok(hsp_store_events(s, 0, 0, MORE, count_line, n, &err), &err);
    assert_true(n[0] == HSP_STORE_EVENTS_MAX && n[1] == first);
    free(ev);
    assert_null(hsp_store_close(s));
}

HSP_TEST_FILE(store_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows_survive_a_reopen, sl_setup, sl_teardown),
        cmocka_unit_test_setup_teardown(test_the_log_goes_with_its_file, sl_setup, sl_teardown),
        cmocka_unit_test_setup_teardown(test_a_batch_is_all_or_nothing, sl_setup, sl_teardown),
        cmocka_unit_test_setup_teardown(test_a_damaged_row_is_refused, sl_setup, sl_teardown),
        cmocka_unit_test_setup_teardown(test_a_row_that_is_missing_is_noticed, sl_setup,
                                        sl_teardown),
        cmocka_unit_test_setup_teardown(test_a_flipped_bit_in_the_log_costs_no_row, sl_setup,
                                        sl_teardown),
        cmocka_unit_test_setup_teardown(test_events_and_metrics_come_in_order, sl_setup,
                                        sl_teardown),
        cmocka_unit_test_setup_teardown(test_the_first_line_of_the_newest_epoch_stays, sl_setup,
                                        sl_teardown),
        cmocka_unit_test_setup_teardown(test_metrics_go_with_the_rows_or_stay, sl_setup,
                                        sl_teardown),
        cmocka_unit_test_setup_teardown(test_a_damaged_line_is_left_out, sl_setup, sl_teardown),
        cmocka_unit_test_setup_teardown(test_damage_is_found_between_portions, sl_setup,
                                        sl_teardown),
        cmocka_unit_test_setup_teardown(test_a_damaged_row_that_is_written_again, sl_setup,
                                        sl_teardown),
        cmocka_unit_test_setup_teardown(test_events_are_bounded, sl_setup, sl_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
