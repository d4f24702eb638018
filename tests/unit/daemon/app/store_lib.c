#include "tests/unit/daemon/app/store_lib.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/host/file_io.h"
#include "tests/lib/testlib.h"

char sl_path[4200];

int sl_setup(void **state)
{
    char *dir = hsp_test_tmpdir();
    snprintf(sl_path, sizeof sl_path, "%s/state.db", dir);
    *state = dir;
    return 0;
}

int sl_teardown(void **state)
{
    hsp_test_rmdir(*state);
    free(*state);
    return 0;
}

enum hsp_status sl_collect_row(void *arg, const char *key, const void *value, size_t len)
{
    struct sl_collected *c = arg;
    size_t n = strlen(c->text);
    snprintf(c->text + n, sizeof c->text - n, "%s=%.*s;", key, (int)len, (const char *)value);
    return HSP_OK;
}

void sl_collect_line(void *arg, uint64_t number, uint64_t epoch, const char *json)
{
    struct sl_collected *c = arg;
    size_t n = strlen(c->text);
    (void)epoch;
    snprintf(c->text + n, sizeof c->text - n, "%d:%s;", (int)number, json);
}

struct hsp_store *sl_open(void)
{
    struct hsp_err err = {0};
    struct hsp_store *s = NULL;
    assert_ok(hsp_store_open(sl_path, &s, &err), &err);
    return s;
}

struct sl_collected sl_metrics_of(struct hsp_store *s, uint32_t job)
{
    struct hsp_err err = {0};
    struct sl_collected c = {""};
    assert_ok(hsp_store_metrics(s, job, 0, 100, sl_collect_line, &c, &err), &err);
    return c;
}

/* As another program, or a disk, would. */
void sl_behind_its_back(const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(sl_path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

void sl_assert_damaged(const char *key)
{
    struct hsp_err err = {0};
    struct sl_collected c = {""};
    struct hsp_store *s = sl_open();
    assert_status(hsp_store_load(s, sl_collect_row, &c, &err), HSP_EDIGEST);
    assert_non_null(strstr(err.msg, key));
    assert_null(hsp_store_close(s));
}

uint8_t *sl_contents(const char *file, size_t *ret_len)
{
    struct hsp_err err = {0};
    uint8_t *data = NULL;
    assert_ok(hsp_file_read(file, 1u << 24, &data, ret_len, &err), &err);
    return data;
}
