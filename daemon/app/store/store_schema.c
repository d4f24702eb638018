/* Creates the tables of the store, and upgrades those of older versions. */
#include "daemon/app/store/store_schema.h"

#include <errno.h>
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/row_load.h"
#include "daemon/cluster/row_read.h"
#include "proto/base/buf.h"
#include "proto/base/hash.h"

/* 1 had no sums, 2 none of events and metrics, which had names of jobs, 3 no total of the rows. */
#define SCHEMA_VERSION 4
#define PEEK_PATH      (16u << 10)

/* To version 2. */
static const char add_sums[] =
    "CREATE TABLE IF NOT EXISTS kv(key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;"
    "ALTER TABLE kv ADD COLUMN sum INTEGER;";

/* To version 3, whose tables have other names. Lines name their job's number; they had its name,
 * and most events both. Of several jobs of a name the newest one gets the lines that have no
 * number. Metrics of a name that no row and no event gives to a job were shown to nobody. */
static const char by_number[] =
    "CREATE TABLE IF NOT EXISTS events(seq INTEGER PRIMARY KEY, job TEXT NOT NULL, json TEXT NOT "
    "NULL);"
    "CREATE TABLE IF NOT EXISTS metrics(job TEXT, step INTEGER, json TEXT NOT NULL, "
    "epoch INTEGER NOT NULL, PRIMARY KEY(job, step)) WITHOUT ROWID;"
    "CREATE TABLE event(seq INTEGER PRIMARY KEY, job INTEGER NOT NULL, json TEXT NOT NULL, "
    "sum INTEGER);"
    "CREATE TABLE metric(job INTEGER, step INTEGER, epoch INTEGER NOT NULL, json TEXT NOT NULL, "
    "sum INTEGER, PRIMARY KEY(job, step)) WITHOUT ROWID;"
    "CREATE TABLE named(seq INTEGER PRIMARY KEY, name TEXT NOT NULL, job INTEGER NOT NULL);"
    "INSERT INTO named SELECT seq, job, CASE WHEN json_valid(json) THEN "
    "COALESCE(CAST(json_extract(json, '$.job_id') AS INTEGER), 0) ELSE 0 END FROM events;"
    "CREATE TABLE newest(name TEXT PRIMARY KEY, job INTEGER NOT NULL) WITHOUT ROWID;"
    "INSERT INTO newest SELECT name, MAX(job) FROM (SELECT name, job FROM named UNION ALL "
    "SELECT job_name(key, value) AS name, CAST(substr(key, 5) AS INTEGER) AS job FROM kv "
    "WHERE key GLOB 'job/[0-9]*') WHERE job > 0 AND name <> '' GROUP BY name;"
    "INSERT INTO event(seq, job, json) SELECT e.seq, COALESCE(NULLIF(d.job, 0), n.job, 0), e.json "
    "FROM events e JOIN named d ON d.seq = e.seq LEFT JOIN newest n ON n.name = e.job;"
    "INSERT INTO metric(job, step, epoch, json) SELECT n.job, m.step, m.epoch, m.json "
    "FROM metrics m JOIN newest n ON n.name = m.job;"
    "UPDATE event SET sum = row_sum(seq, job, json);"
    "UPDATE metric SET sum = row_sum(job, step, epoch, json);"
    "DROP TABLE events; DROP TABLE metrics; DROP TABLE named; DROP TABLE newest;";

/* To version 4. */
static const char with_total[] =
    "CREATE TABLE total(id INTEGER PRIMARY KEY, rows INTEGER NOT NULL, sums INTEGER NOT NULL);"
    "INSERT INTO total SELECT 1, COUNT(*), added(sum) FROM kv;";

enum hsp_status hsp_db_error(sqlite3 *db, struct hsp_err *err, const char *what)
{
    int rc = sqlite3_errcode(db);
    bool io = rc == SQLITE_IOERR || rc == SQLITE_CANTOPEN; /* the system's error says more */
    int sys = io ? sqlite3_system_errno(db) : 0;
    rc = sys == ENOSPC || sys == EDQUOT ? SQLITE_FULL : rc;
    return hsp_err_set(err,
                       rc == SQLITE_FULL                             ? HSP_ENOSPC
                       : rc == SQLITE_NOMEM                          ? HSP_ENOMEM
                       : rc == SQLITE_CORRUPT || rc == SQLITE_NOTADB ? HSP_EDIGEST
                                                                     : HSP_EIO,
                       0, "%s: %s", what,
                       rc == SQLITE_FULL ? sqlite3_errstr(rc) : sqlite3_errmsg(db));
}

enum hsp_status hsp_db_exec(sqlite3 *db, const char *sql, struct hsp_err *err)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? HSP_OK
               : hsp_db_error(db, err, "cannot write the state");
}

enum hsp_status hsp_db_pages(sqlite3 *db, const char *pragma, struct hsp_err *err)
{
    sqlite3_stmt *q = NULL;
    int rc = sqlite3_prepare_v2(db, pragma, -1, &q, NULL);
    rc = rc == SQLITE_OK ? sqlite3_step(q) : rc;
    const char *said = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(q, 0) : NULL;
    const char *line = said != NULL ? strchr(said, '\n') : NULL; /* behind a title */
    enum hsp_status st = said == NULL              ? hsp_db_error(db, err, "cannot read the state")
                         : strcmp(said, "ok") == 0 ? HSP_OK
                                                   : hsp_err_set(err, HSP_EDIGEST, 0, "damaged: %s",
                                                                 line != NULL ? line + 1 : said);
    (void)sqlite3_finalize(q); /* repeats the step's result */
    return st;
}

/* *ret: the version of the file, 0 when it is new. */
static enum hsp_status check_version(sqlite3 *db, int *ret, struct hsp_err *err)
{
    sqlite3_stmt *q = NULL;
    int version = -1;
    if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &q, NULL) == SQLITE_OK &&
        sqlite3_step(q) == SQLITE_ROW) {
        version = sqlite3_column_int(q, 0);
    }
    (void)sqlite3_finalize(q); /* repeats the step's result, which version already tells */
    if (version < 0) {
        return hsp_db_error(db, err, "cannot read the schema version");
    }
    if (version > SCHEMA_VERSION) {
        return hsp_err_set(err, HSP_EIO, 0, "schema version %d is newer than this program's %d",
                           version, SCHEMA_VERSION);
    }
    *ret = version;
    return HSP_OK;
}

/* ---- functions ---- */

sqlite3_int64 hsp_store_sum(const char *key, const void *value, size_t len)
{
    return (sqlite3_int64)hsp_hash64(value, len, hsp_hash_str(key));
}

/* row_sum(X, ...): a hash of numbers and texts. */
static void row_sum(sqlite3_context *ctx, int n, sqlite3_value **x)
{
    uint64_t h = 0;
    for (int i = 0; i < n; i++) {
        if (sqlite3_value_type(x[i]) == SQLITE_INTEGER) {
            h = hsp_mix64(h ^ (uint64_t)sqlite3_value_int64(x[i]));
        } else {
            const void *text = sqlite3_value_text(x[i]);
            h = hsp_hash64(text != NULL ? text : "", (size_t)sqlite3_value_bytes(x[i]), h);
        }
    }
    sqlite3_result_int64(ctx, (sqlite3_int64)h);
}

/* kv_sum(KEY, VALUE): the hash of a row of the core. */
static void kv_sum(sqlite3_context *ctx, int n, sqlite3_value **x)
{
    (void)n;
    const char *key = (const char *)sqlite3_value_text(x[0]);
    const void *value = sqlite3_value_blob(x[1]);
    size_t len = (size_t)sqlite3_value_bytes(x[1]);
    if (key == NULL || (len > 0 && value == NULL)) {
        sqlite3_result_error_nomem(ctx);
    } else {
        sqlite3_result_int64(ctx, hsp_store_sum(key, len > 0 ? value : "", len));
    }
}

/* job_name(KEY, VALUE): of a job's row of the core; NULL: it is no such row. */
static void job_name(sqlite3_context *ctx, int n, sqlite3_value **x)
{
    (void)n;
    char name[HSP_NAME_MAX + 1];
    const char *key = (const char *)sqlite3_value_text(x[0]);
    struct hsp_cluster_row row = {key, sqlite3_value_blob(x[1]),
                                  (uint32_t)sqlite3_value_bytes(x[1])};
    if (key != NULL && row.value != NULL && hsp_cluster_row_job_name(&row, name)) {
        sqlite3_result_text(ctx, name, -1, SQLITE_TRANSIENT);
    }
}

/* wrap(A, B, C): A + B - C modulo 2^64; NULL is 0. */
static void wrap(sqlite3_context *ctx, int n, sqlite3_value **x)
{
    (void)n;
    uint64_t sum = (uint64_t)sqlite3_value_int64(x[0]) + (uint64_t)sqlite3_value_int64(x[1]) -
                   (uint64_t)sqlite3_value_int64(x[2]);
    sqlite3_result_int64(ctx, (sqlite3_int64)sum);
}

/* added(X): the sum of all modulo 2^64. */
static void added_step(sqlite3_context *ctx, int n, sqlite3_value **x)
{
    (void)n;
    uint64_t *sum = sqlite3_aggregate_context(ctx, sizeof *sum);
    if (sum == NULL) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    *sum += (uint64_t)sqlite3_value_int64(x[0]);
}

static void added_end(sqlite3_context *ctx)
{
    const uint64_t *sum = sqlite3_aggregate_context(ctx, 0);
    sqlite3_result_int64(ctx, sum != NULL ? (sqlite3_int64)*sum : 0);
}

static enum hsp_status add_functions(sqlite3 *db, struct hsp_err *err)
{
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
    bool ok = sqlite3_create_function_v2(db, "row_sum", -1, flags, NULL, row_sum, NULL, NULL,
                                         NULL) == SQLITE_OK &&
              sqlite3_create_function_v2(db, "kv_sum", 2, flags, NULL, kv_sum, NULL, NULL, NULL) ==
                  SQLITE_OK &&
              sqlite3_create_function_v2(db, "job_name", 2, flags, NULL, job_name, NULL, NULL,
                                         NULL) == SQLITE_OK &&
              sqlite3_create_function_v2(db, "wrap", 3, flags, NULL, wrap, NULL, NULL, NULL) ==
                  SQLITE_OK &&
              sqlite3_create_function_v2(db, "added", 1, flags, NULL, NULL, added_step, added_end,
                                         NULL) == SQLITE_OK;
    return ok ? HSP_OK : hsp_db_error(db, err, "state");
}

/* ---- one row ---- */

/* "file:PATH?immutable=1": no journal of it is looked for, and none is made. */
static bool immutable(const char *path, struct hsp_buf *uri)
{
    hsp_buf_printf(uri, "file:");
    for (const char *c = path; *c != '\0'; c++) {
        hsp_buf_printf(uri, strchr("%?#", *c) != NULL ? "%%%02x" : "%c", (unsigned char)*c);
    }
    hsp_buf_printf(uri, "?immutable=1");
    return !uri->failed;
}

enum hsp_status hsp_store_peek(const char *path, const char *key, hsp_store_row_fn *fn, void *arg,
                               struct hsp_err *err)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *q = NULL;
    struct hsp_buf uri;
    hsp_buf_init(&uri, PEEK_PATH);
    enum hsp_status st = HSP_OK;
    if (!immutable(path, &uri)) {
        st = hsp_err_nomem(err, "%s", path);
    } else if (sqlite3_open_v2(hsp_buf_cstr(&uri), &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI,
                               NULL) != SQLITE_OK ||
               sqlite3_prepare_v2(db, "SELECT value FROM kv WHERE key = ?", -1, &q, NULL) !=
                   SQLITE_OK ||
               sqlite3_bind_text(q, 1, key, -1, SQLITE_STATIC) != SQLITE_OK) {
        st = db != NULL ? hsp_db_error(db, err, "cannot read") : hsp_err_nomem(err, "%s", path);
    } else if (sqlite3_step(q) == SQLITE_ROW) {
        st = fn(arg, key, sqlite3_column_blob(q, 0), (size_t)sqlite3_column_bytes(q, 0));
    }
    (void)sqlite3_finalize(q); /* repeats the step's result: no row was read */
    (void)sqlite3_close(db);   /* no statement is open: cannot fail */
    hsp_buf_fini(&uri);
    return st;
}

/* ---- upgrades ---- */

/* Rows that this program does not read are left to the one that wrote them, with its tables. */
static enum hsp_status check_forms(sqlite3 *db, struct hsp_err *err)
{
    sqlite3_stmt *q = NULL;
    enum hsp_status st = HSP_OK;
    if (sqlite3_prepare_v2(db, "SELECT key, value FROM kv", -1, &q, NULL) != SQLITE_OK) {
        return HSP_OK; /* the file has none */
    }
    while (st == HSP_OK && sqlite3_step(q) == SQLITE_ROW) {
        struct hsp_cluster_row row = {(const char *)sqlite3_column_text(q, 0),
                                      sqlite3_column_blob(q, 1),
                                      (uint32_t)sqlite3_column_bytes(q, 1)};
        st = row.key != NULL ? hsp_cluster_row_old(&row, err) : HSP_OK;
    }
    (void)sqlite3_finalize(q); /* the upgrade reports an unreadable row */
    return st;
}

/* All of it, or none. Rows that a damaged page hides would be missed by nobody afterwards: the
 * total is made of the rows of the core that are seen, and before version 3 lines go to other
 * tables. */
static enum hsp_status upgrade(sqlite3 *db, int from, struct hsp_err *err)
{
    const char *pragma = from < 3 ? "PRAGMA integrity_check(1)" : "PRAGMA integrity_check(kv)";
    enum hsp_status st = hsp_db_exec(db, "BEGIN IMMEDIATE", err);
    st = st == HSP_OK && from > 0 ? hsp_db_pages(db, pragma, err) : st;
    if (st == HSP_OK && from < 2) {
        st = hsp_db_exec(db, add_sums, err);
    }
    if (st == HSP_OK && from < 3) {
        st = hsp_db_exec(db, by_number, err);
    }
    st = st == HSP_OK ? hsp_db_exec(db, with_total, err) : st;
    st = st == HSP_OK ? hsp_db_exec(db, "PRAGMA user_version=4; COMMIT", err) : st;
    if (st != HSP_OK) {
        (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL); /* may have happened by itself */
    }
    return st;
}

enum hsp_status hsp_store_set_up(sqlite3 *db, struct hsp_err *err)
{
    int version = 0;
    enum hsp_status st = check_version(db, &version, err);
    if (st == HSP_OK && version > 0 && version < SCHEMA_VERSION) {
        st = check_forms(db, err);
    }
    st = st == HSP_OK ? hsp_db_exec(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL", err)
                      : st;
    st = st == HSP_OK ? add_functions(db, err) : st;
    return st == HSP_OK && version < SCHEMA_VERSION ? upgrade(db, version, err) : st;
}
