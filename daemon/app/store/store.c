/* Keeps rows, events and metrics in SQLite. WAL with synchronous FULL for the rows of the core (no message that grants an epoch
 * leaves before its row is on disk); events and metrics share the file and use the same journal.
 * Each of those rows has a hash: SQLite does not see a bit that changes inside a value.
 *
 * When one frame of a WAL is damaged, SQLite drops it and all later ones without a word, and shows
 * an older state. So rows of the core do not stay there: each commit of some is moved into the file
 * at once, and the WAL is emptied. Moving without emptying would be worse than nothing: the first
 * frames would then hide newer pages of the file. */
#include "daemon/app/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/hash.h"

#define SCHEMA_VERSION 2 /* 1 had no sums */

enum statement {
    ST_PUT,
    ST_DEL,
    ST_LOAD,
    ST_GET,
    ST_EVENT,
    ST_EVENT_TRIM,
    ST_EVENT_LAST,
    ST_EVENTS,
    ST_METRIC,
    ST_METRIC_DROP,
    ST_METRICS,
    N_STATEMENTS
};

static const char *const texts[N_STATEMENTS] = {
    [ST_PUT] = "INSERT OR REPLACE INTO kv(key, value, sum) VALUES(?1, ?2, ?3)",
    [ST_DEL] = "DELETE FROM kv WHERE key = ?1",
    [ST_LOAD] = "SELECT key, value, sum FROM kv ORDER BY key",
    [ST_GET] = "SELECT key, value, sum FROM kv WHERE key = ?1",
    [ST_EVENT] = "INSERT OR REPLACE INTO events(seq, job, json) VALUES(?1, ?2, ?3)",
    [ST_EVENT_TRIM] = "DELETE FROM events WHERE seq <= "
                      "(SELECT seq FROM events ORDER BY seq DESC LIMIT 1 OFFSET ?1)",
    [ST_EVENT_LAST] = "SELECT COALESCE(MAX(seq), 0) FROM events",
    [ST_EVENTS] = "SELECT seq, json FROM events WHERE seq > ?2 AND (?1 = '' OR job = ?1) "
                  "ORDER BY seq LIMIT ?3",
    [ST_METRIC] =
        "INSERT INTO metrics(job, step, json, epoch) VALUES(?1, ?2, ?3, ?4) "
        "ON CONFLICT(job, step) DO UPDATE SET json = excluded.json, epoch = excluded.epoch "
        "WHERE excluded.epoch >= metrics.epoch",
    [ST_METRIC_DROP] = "DELETE FROM metrics WHERE job = ?1",
    [ST_METRICS] =
        "SELECT step, json FROM metrics WHERE job = ?1 AND step >= ?2 ORDER BY step LIMIT ?3",
};

#define BUSY_MS 2000 /* for another process that looks at the file */
/* Events between two counts of all of them: numbers have gaps, and counting costs milliseconds. */
#define TRIM_EVERY (HSP_STORE_EVENTS_MAX / 100)

/* Pages of the WAL when it is emptied although only events and metrics are in it. */
#define WAL_PAGES 1000

struct hsp_store {
    sqlite3 *db;
    int wal_pages;  /* after the last commit */
    size_t n_added; /* events since all were counted */
    sqlite3_stmt *st[N_STATEMENTS];
};

static enum hsp_status db_error(struct hsp_store *s, struct hsp_err *err, const char *what)
{
    int rc = sqlite3_errcode(s->db);
    return hsp_err_set(err,
                       rc == SQLITE_FULL    ? HSP_ENOSPC
                       : rc == SQLITE_NOMEM ? HSP_ENOMEM
                                            : HSP_EIO,
                       0, "%s: %s", what, sqlite3_errmsg(s->db));
}

static enum hsp_status exec(struct hsp_store *s, const char *sql, struct hsp_err *err)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? HSP_OK
               : db_error(s, err, "cannot write the state");
}

/* *ret: the version of the file, 0 when it is new. */
static enum hsp_status check_schema(struct hsp_store *s, int *ret, struct hsp_err *err)
{
    sqlite3_stmt *q = NULL;
    int version = -1;
    if (sqlite3_prepare_v2(s->db, "PRAGMA user_version", -1, &q, NULL) == SQLITE_OK &&
        sqlite3_step(q) == SQLITE_ROW) {
        version = sqlite3_column_int(q, 0);
    }
    (void)sqlite3_finalize(q); /* repeats the step's result, which version already tells */
    if (version < 0) {
        return db_error(s, err, "cannot read the schema version");
    }
    if (version > SCHEMA_VERSION) {
        return hsp_err_set(err, HSP_EIO, 0, "schema version %d is newer than this program's %d",
                           version, SCHEMA_VERSION);
    }
    *ret = version;
    return HSP_OK;
}

static enum hsp_status set_up(struct hsp_store *s, struct hsp_err *err)
{
    static const char *const sql[] = {
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=FULL",
        "CREATE TABLE IF NOT EXISTS kv(key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE IF NOT EXISTS events(seq INTEGER PRIMARY KEY, job TEXT NOT NULL, json TEXT "
        "NOT NULL)",
        "CREATE INDEX IF NOT EXISTS events_job ON events(job, seq)",
        "CREATE TABLE IF NOT EXISTS metrics(job TEXT, step INTEGER, json TEXT NOT NULL, "
        "epoch INTEGER NOT NULL, "
        "PRIMARY KEY(job, step)) WITHOUT ROWID",
    };
    int version = 0;
    enum hsp_status st = check_schema(s, &version, err);
    for (size_t i = 0; st == HSP_OK && i < sizeof sql / sizeof sql[0]; i++) {
        st = exec(s, sql[i], err);
    }
    if (st == HSP_OK && version < SCHEMA_VERSION) {
        st = exec(s,
                  "BEGIN IMMEDIATE; ALTER TABLE kv ADD COLUMN sum INTEGER; "
                  "PRAGMA user_version=2; COMMIT",
                  err);
    }
    for (int i = 0; st == HSP_OK && i < N_STATEMENTS; i++) {
        if (sqlite3_prepare_v3(s->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &s->st[i], NULL) !=
            SQLITE_OK) {
            st = db_error(s, err, "state");
        }
    }
    return st;
}

static int committed(void *arg, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    ((struct hsp_store *)arg)->wal_pages = pages;
    return SQLITE_OK;
}

/* A disk that takes nothing more, or another process that reads, keeps all in the WAL until a later
 * call. */
static void empty_wal(struct hsp_store *s)
{
    (void)sqlite3_busy_timeout(s->db, 0);
    (void)sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    (void)sqlite3_busy_timeout(s->db, BUSY_MS);
}

enum hsp_status hsp_store_open(const char *path, struct hsp_store **ret, struct hsp_err *err)
{
    struct hsp_store *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return hsp_err_nomem(err, "%s", path);
    }
    enum hsp_status st = HSP_OK;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
    if (sqlite3_open_v2(path, &s->db, flags, NULL) != SQLITE_OK) {
        st = s->db != NULL ? db_error(s, err, "cannot open") : hsp_err_nomem(err, "%s", path);
    } else {
        (void)sqlite3_busy_timeout(s->db, BUSY_MS);
        st = set_up(s, err);
        (void)sqlite3_wal_hook(s->db, committed, s); /* in the place of SQLite's own */
    }
    if (st != HSP_OK) {
        (void)hsp_err_wrap(err, "%s", path);
        (void)hsp_store_close(s);
        return st;
    }
    *ret = s;
    return HSP_OK;
}

struct hsp_store *hsp_store_close(struct hsp_store *s)
{
    if (s != NULL) {
        for (int i = 0; i < N_STATEMENTS; i++) {
            (void)sqlite3_finalize(s->st[i]); /* repeats an error already reported */
        }
        (void)sqlite3_close(s->db); /* no statement is open: cannot fail */
        free(s);
    }
    return NULL;
}

/* Runs a statement that returns no rows and makes it ready for the next use. */
static bool run(struct hsp_store *s, enum statement which)
{
    bool ok = sqlite3_step(s->st[which]) == SQLITE_DONE;
    (void)sqlite3_reset(s->st[which]); /* repeats the step's result */
    (void)sqlite3_clear_bindings(s->st[which]);
    return ok;
}

static sqlite3_int64 sum_of(const char *key, const void *value, size_t len)
{
    return (sqlite3_int64)hsp_hash64(value, len, hsp_hash_str(key));
}

static bool apply_row(struct hsp_store *s, const struct hsp_store_row *r)
{
    enum statement which = r->removed ? ST_DEL : ST_PUT;
    bool ok = sqlite3_bind_text(s->st[which], 1, r->key, -1, SQLITE_STATIC) == SQLITE_OK;
    if (ok && !r->removed) {
        const void *value = r->len > 0 ? r->value : "";
        ok = sqlite3_bind_blob64(s->st[which], 2, value, r->len, SQLITE_STATIC) == SQLITE_OK &&
             (r->key == NULL || /* which the table refuses */
              sqlite3_bind_int64(s->st[which], 3, sum_of(r->key, value, r->len)) == SQLITE_OK);
    }
    return run(s, which) && ok;
}

/* Ends a transaction that went well, or takes it back; the first error is the one reported. */
static enum hsp_status end_transaction(struct hsp_store *s, bool ok, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    if (!ok || sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) {
        st = db_error(s, err, "cannot write the state");
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL); /* may have happened by itself */
    }
    return st;
}

static bool drop_metrics(struct hsp_store *s, const char *job)
{
    bool ok = sqlite3_bind_text(s->st[ST_METRIC_DROP], 1, job, -1, SQLITE_STATIC) == SQLITE_OK;
    return run(s, ST_METRIC_DROP) && ok;
}

enum hsp_status hsp_store_apply(struct hsp_store *s, const struct hsp_store_row *rows, size_t n,
                                const char *const *gone, size_t n_gone, struct hsp_err *err)
{
    sqlite3_mutex_enter(sqlite3_db_mutex(s->db));
    enum hsp_status st = exec(s, "BEGIN IMMEDIATE", err);
    if (st == HSP_OK) {
        bool ok = true;
        for (size_t i = 0; ok && i < n; i++) {
            ok = apply_row(s, &rows[i]);
        }
        for (size_t i = 0; ok && i < n_gone; i++) {
            ok = drop_metrics(s, gone[i]);
        }
        st = end_transaction(s, ok, err);
    }
    if (st == HSP_OK) {
        empty_wal(s);
    }
    sqlite3_mutex_leave(sqlite3_db_mutex(s->db));
    return st;
}

static enum hsp_status load_row(sqlite3_stmt *q, hsp_store_row_fn *fn, void *arg,
                                struct hsp_err *err)
{
    const char *key = (const char *)sqlite3_column_text(q, 0);
    const void *value = sqlite3_column_blob(q, 1);
    size_t len = (size_t)sqlite3_column_bytes(q, 1);
    bool summed = sqlite3_column_type(q, 2) != SQLITE_NULL; /* else of an older program */
    if (key == NULL || (len > 0 && value == NULL)) {
        return hsp_err_nomem(err, "a stored row");
    }
    if (summed && sqlite3_column_int64(q, 2) != sum_of(key, len > 0 ? value : "", len)) {
        return hsp_err_set(err, HSP_EDIGEST, 0, "state.db: row %s is damaged; put a backup back",
                           key);
    }
    enum hsp_status st = fn(arg, key, value, len);
    return st == HSP_OK ? HSP_OK : hsp_err_set(err, st, 0, "state.db: row %s was refused", key);
}

enum hsp_status hsp_store_load(struct hsp_store *s, hsp_store_row_fn *fn, void *arg,
                               struct hsp_err *err)
{
    sqlite3_mutex_enter(sqlite3_db_mutex(s->db));
    sqlite3_stmt *q = s->st[ST_LOAD];
    enum hsp_status st = HSP_OK;
    int rc;
    while ((rc = sqlite3_step(q)) == SQLITE_ROW && st == HSP_OK) {
        st = load_row(q, fn, arg, err);
    }
    if (st == HSP_OK && rc != SQLITE_DONE) {
        st = db_error(s, err, "cannot read the state");
    }
    (void)sqlite3_reset(q); /* repeats the step's result */
    sqlite3_mutex_leave(sqlite3_db_mutex(s->db));
    return st;
}

enum hsp_status hsp_store_get(struct hsp_store *s, const char *key, hsp_store_row_fn *fn, void *arg,
                              struct hsp_err *err)
{
    sqlite3_mutex_enter(sqlite3_db_mutex(s->db));
    sqlite3_stmt *q = s->st[ST_GET];
    int rc = sqlite3_bind_text(q, 1, key, -1, SQLITE_STATIC);
    rc = rc == SQLITE_OK ? sqlite3_step(q) : rc;
    enum hsp_status st = rc == SQLITE_ROW    ? load_row(q, fn, arg, err)
                         : rc == SQLITE_DONE ? HSP_OK
                                             : db_error(s, err, "cannot read the state");
    (void)sqlite3_reset(q); /* repeats the step's result */
    (void)sqlite3_clear_bindings(q);
    sqlite3_mutex_leave(sqlite3_db_mutex(s->db));
    return st;
}

/* ---- copies ---- */

/* An empty file that nobody else may read, in the place of what is there. */
static enum hsp_status make_private(const char *path, struct hsp_err *err)
{
    (void)unlink(path); /* of a copy that was not finished */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        int e = errno;
        return hsp_err_set(err,
                           e == EACCES || e == EPERM ? HSP_EPERM
                           : e == ENOSPC             ? HSP_ENOSPC
                                                     : HSP_EIO,
                           e, "cannot make %s", path);
    }
    (void)close(fd); /* nothing was written */
    return HSP_OK;
}

/* Pages between which others get at the store. */
#define COPY_PAGES 256

static int copy_pages(struct hsp_store *s, sqlite3 *to)
{
    sqlite3_backup *b = sqlite3_backup_init(to, "main", s->db, "main");
    int rc = b != NULL ? SQLITE_OK : sqlite3_errcode(to);
    while (rc == SQLITE_OK || rc == SQLITE_BUSY || rc == SQLITE_LOCKED) {
        rc = sqlite3_backup_step(b, COPY_PAGES);
        if (rc != SQLITE_OK && rc != SQLITE_DONE) {
            (void)sqlite3_sleep(1);
        }
    }
    int end = b != NULL ? sqlite3_backup_finish(b) : rc;
    return rc == SQLITE_DONE ? end : rc;
}

static enum hsp_status no_row(void *arg, const char *key, const void *value, size_t len)
{
    (void)arg;
    (void)key;
    (void)value;
    (void)len;
    return HSP_OK;
}

enum hsp_status hsp_store_verify(struct hsp_store *s, struct hsp_err *err)
{
    sqlite3_stmt *q = NULL;
    sqlite3_mutex_enter(sqlite3_db_mutex(s->db));
    int rc = sqlite3_prepare_v2(s->db, "PRAGMA integrity_check(1)", -1, &q, NULL);
    rc = rc == SQLITE_OK ? sqlite3_step(q) : rc;
    const char *said = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(q, 0) : NULL;
    enum hsp_status st = said == NULL ? db_error(s, err, "cannot read the state")
                         : strcmp(said, "ok") == 0
                             ? HSP_OK
                             : hsp_err_set(err, HSP_EDIGEST, 0, "damaged: %s", said);
    (void)sqlite3_finalize(q); /* repeats the step's result */
    sqlite3_mutex_leave(sqlite3_db_mutex(s->db));
    return st == HSP_OK ? hsp_store_load(s, no_row, NULL, err) : st;
}

static enum hsp_status copy_error(int rc, const char *path, struct hsp_err *err)
{
    return hsp_err_set(err,
                       rc == SQLITE_FULL    ? HSP_ENOSPC
                       : rc == SQLITE_NOMEM ? HSP_ENOMEM
                                            : HSP_EIO,
                       0, "cannot copy the store to %s: %s", path, sqlite3_errstr(rc));
}

/* A copy has what the disk had: a row that has gone bad is found now, not when it is put back. */
static enum hsp_status verify_copy(const char *path, struct hsp_err *err)
{
    struct hsp_store *copy = NULL;
    enum hsp_status st = hsp_store_open(path, &copy, err);
    st = st == HSP_OK ? hsp_store_verify(copy, err) : st;
    (void)hsp_store_close(copy);
    return st;
}

enum hsp_status hsp_store_backup(struct hsp_store *s, const char *path, struct hsp_err *err)
{
    sqlite3 *to = NULL;
    enum hsp_status st = make_private(path, err);
    if (st != HSP_OK) {
        return st;
    }
    int rc = sqlite3_open_v2(path, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX, NULL);
    rc = rc == SQLITE_OK ? copy_pages(s, to) : rc;
    (void)sqlite3_close(to); /* no statement is open: cannot fail */
    st = rc == SQLITE_OK ? verify_copy(path, err) : copy_error(rc, path, err);
    if (st != HSP_OK) {
        (void)unlink(path); /* the first error is the one to report */
    }
    return st;
}

/* ---- feeds ---- */

static bool add_event(struct hsp_store *s, const struct hsp_store_event *e)
{
    sqlite3_stmt *q = s->st[ST_EVENT];
    bool ok = sqlite3_bind_int64(q, 1, (sqlite3_int64)e->seq) == SQLITE_OK &&
              sqlite3_bind_text(q, 2, e->job, -1, SQLITE_STATIC) == SQLITE_OK &&
              sqlite3_bind_text(q, 3, e->json, -1, SQLITE_STATIC) == SQLITE_OK;
    return run(s, ST_EVENT) && ok;
}

static bool add_metric(struct hsp_store *s, const struct hsp_store_metric *m)
{
    sqlite3_stmt *q = s->st[ST_METRIC];
    bool ok = sqlite3_bind_text(q, 1, m->job, -1, SQLITE_STATIC) == SQLITE_OK &&
              sqlite3_bind_int64(q, 2, (sqlite3_int64)m->step) == SQLITE_OK &&
              sqlite3_bind_text(q, 3, m->json, -1, SQLITE_STATIC) == SQLITE_OK &&
              sqlite3_bind_int64(q, 4, (sqlite3_int64)m->epoch) == SQLITE_OK;
    return run(s, ST_METRIC) && ok;
}

enum hsp_status hsp_store_feed_add(struct hsp_store *s, const struct hsp_store_event *e, size_t n,
                                   const struct hsp_store_metric *m, size_t n_metrics,
                                   struct hsp_err *err)
{
    sqlite3_mutex_enter(sqlite3_db_mutex(s->db));
    enum hsp_status st = exec(s, "BEGIN IMMEDIATE", err);
    if (st == HSP_OK) {
        bool ok = true;
        for (size_t i = 0; ok && i < n; i++) {
            ok = add_event(s, &e[i]);
        }
        for (size_t i = 0; ok && i < n_metrics; i++) {
            ok = add_metric(s, &m[i]);
        }
        s->n_added += n;
        if (ok && s->n_added >= TRIM_EVERY) {
            s->n_added = 0;
            (void)sqlite3_bind_int64(s->st[ST_EVENT_TRIM], 1, HSP_STORE_EVENTS_MAX);
            ok = run(s, ST_EVENT_TRIM);
        }
        st = end_transaction(s, ok, err);
    }
    if (st == HSP_OK && s->wal_pages >= WAL_PAGES) {
        empty_wal(s);
    }
    sqlite3_mutex_leave(sqlite3_db_mutex(s->db));
    return st;
}

uint64_t hsp_store_events_last(struct hsp_store *s)
{
    sqlite3_mutex_enter(sqlite3_db_mutex(s->db));
    sqlite3_stmt *q = s->st[ST_EVENT_LAST];
    uint64_t last = sqlite3_step(q) == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(q, 0) : 0;
    (void)sqlite3_reset(q); /* repeats the step's result */
    sqlite3_mutex_leave(sqlite3_db_mutex(s->db));
    return last;
}

static enum hsp_status lines(struct hsp_store *s, enum statement which, const char *job,
                             uint64_t since, uint32_t limit, hsp_store_line_fn *fn, void *arg,
                             struct hsp_err *err)
{
    sqlite3_mutex_enter(sqlite3_db_mutex(s->db));
    sqlite3_stmt *q = s->st[which];
    int rc = SQLITE_ERROR;
    if (sqlite3_bind_text(q, 1, job, -1, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_bind_int64(q, 2, since > INT64_MAX ? INT64_MAX : (sqlite3_int64)since) ==
            SQLITE_OK &&
        sqlite3_bind_int64(q, 3, limit) == SQLITE_OK) {
        while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
            fn(arg, (uint64_t)sqlite3_column_int64(q, 0), (const char *)sqlite3_column_text(q, 1));
        }
    }
    enum hsp_status st = rc == SQLITE_DONE ? HSP_OK : db_error(s, err, "cannot read the state");
    (void)sqlite3_reset(q); /* repeats the step's result */
    (void)sqlite3_clear_bindings(q);
    sqlite3_mutex_leave(sqlite3_db_mutex(s->db));
    return st;
}

enum hsp_status hsp_store_events(struct hsp_store *s, const char *job, uint64_t since,
                                 uint32_t limit, hsp_store_line_fn *fn, void *arg,
                                 struct hsp_err *err)
{
    return lines(s, ST_EVENTS, job, since, limit, fn, arg, err);
}

enum hsp_status hsp_store_metrics(struct hsp_store *s, const char *job, uint64_t since,
                                  uint32_t limit, hsp_store_line_fn *fn, void *arg,
                                  struct hsp_err *err)
{
    return lines(s, ST_METRICS, job, since, limit, fn, arg, err);
}
