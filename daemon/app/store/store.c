/* Keeps rows, events and metrics in SQLite. WAL with synchronous FULL for the rows of the core (no
 * message that grants an epoch leaves before its row is on disk); events and metrics share the file
 * and use the same journal. Each row has a hash: SQLite does not see a bit that changes inside a
 * value. The rows of the core have a total, of their number and their hashes: SQLite does not see a
 * bit that makes a page have fewer rows when it reads them. Lines of events and metrics have none:
 * hsp_store_pages sees it, at the start.
 *
 * When one frame of a WAL is damaged, SQLite drops it and all later ones without a word, and shows
 * an older state. So rows of the core do not stay there: each commit of some is moved into the file
 * at once, and the WAL is emptied. Moving without emptying would be worse than nothing: the first
 * frames would then hide newer pages of the file. */
#include "daemon/app/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/app/store/store_schema.h"

enum statement {
    ST_PUT,
    ST_DEL,
    ST_LOAD,
    ST_GET,
    ST_LEAVES,
    ST_COMES,
    ST_WHOLE,
    ST_EVENT,
    ST_EVENT_TRIM,
    ST_EVENT_LAST,
    ST_EVENTS,
    ST_EVENT_STEP,
    ST_EVENT_CLEAN,
    ST_METRIC,
    ST_METRIC_DROP,
    ST_METRICS,
    ST_METRIC_JOB,
    ST_METRIC_STEP,
    ST_METRIC_CLEAN,
    ST_METRIC_REST,
    N_STATEMENTS
};

static const char *const texts[N_STATEMENTS] = {
    [ST_PUT] = "INSERT OR REPLACE INTO kv(key, value, sum) VALUES(?1, ?2, ?3)",
    [ST_DEL] = "DELETE FROM kv WHERE key = ?1",
    [ST_LOAD] = "SELECT key, value, sum FROM kv ORDER BY key",
    [ST_GET] = "SELECT key, value, sum FROM kv WHERE key = ?1",
    [ST_LEAVES] = "UPDATE total SET rows = rows - 1, sums = (SELECT CASE "
                  "WHEN kv.sum IS kv_sum(kv.key, kv.value) THEN wrap(total.sums, 0, kv.sum) "
                  "ELSE (SELECT added(o.sum) FROM kv o WHERE o.key <> ?1) END "
                  "FROM kv WHERE kv.key = ?1) WHERE EXISTS (SELECT 1 FROM kv WHERE key = ?1)",
    [ST_COMES] = "UPDATE total SET rows = rows + 1, sums = wrap(sums, ?1, 0)",
    [ST_WHOLE] = "SELECT rows IS (SELECT COUNT(*) FROM kv) AND "
                 "sums IS (SELECT added(sum) FROM kv) FROM total",
    [ST_EVENT] = "INSERT OR REPLACE INTO event(seq, job, json, sum) "
                 "VALUES(?1, ?2, ?3, row_sum(?1, ?2, ?3))",
    [ST_EVENT_TRIM] = "DELETE FROM event WHERE seq <= "
                      "(SELECT seq FROM event ORDER BY seq DESC LIMIT 1 OFFSET ?1)",
    [ST_EVENT_LAST] = "SELECT seq FROM event WHERE sum IS row_sum(seq, job, json) "
                      "ORDER BY seq DESC LIMIT 1",
    [ST_EVENTS] = "SELECT seq, 0, json FROM event WHERE seq > ?2 AND (?1 = 0 OR job = ?1) "
                  "AND sum IS row_sum(seq, job, json) ORDER BY seq LIMIT ?3",
    [ST_EVENT_STEP] = "SELECT seq FROM event WHERE seq > ?2 ORDER BY seq LIMIT 1 OFFSET ?3",
    [ST_EVENT_CLEAN] =
        "DELETE FROM event WHERE seq > ?2 AND seq <= ?3 AND sum IS NOT row_sum(seq, job, json)",
    [ST_METRIC] = "INSERT INTO metric(job, step, epoch, json, sum) "
                  "VALUES(?1, ?2, ?4, ?3, row_sum(?1, ?2, ?4, ?3)) ON CONFLICT(job, step) "
                  "DO UPDATE SET epoch = excluded.epoch, json = excluded.json, sum = excluded.sum "
                  "WHERE excluded.epoch > metric.epoch OR metric.sum IS NOT "
                  "row_sum(metric.job, metric.step, metric.epoch, metric.json)",
    [ST_METRIC_DROP] = "DELETE FROM metric WHERE job = ?1",
    [ST_METRICS] = "SELECT step, epoch, json FROM metric WHERE job = ?1 AND step >= ?2 "
                   "AND sum IS row_sum(job, step, epoch, json) ORDER BY step LIMIT ?3",
    [ST_METRIC_JOB] = "SELECT job FROM metric WHERE job > ?1 ORDER BY job LIMIT 1",
    [ST_METRIC_STEP] = "SELECT step FROM metric WHERE job = ?1 AND step > ?2 AND "
                       "typeof(step) = 'integer' ORDER BY step LIMIT 1 OFFSET ?3",
    [ST_METRIC_CLEAN] = "DELETE FROM metric WHERE job = ?1 AND step > ?2 AND step <= ?3 "
                        "AND sum IS NOT row_sum(job, step, epoch, json)",
    [ST_METRIC_REST] = "DELETE FROM metric WHERE job = ?1 AND step > ?2 "
                       "AND sum IS NOT row_sum(job, step, epoch, json)",
};

#define BUSY_MS 2000 /* for another process that looks at the file */
/* Events between two counts of all of them: numbers have gaps, and counting costs milliseconds. */
#define TRIM_EVERY (HSP_STORE_EVENTS_MAX / 100)

#define CLEAN_LINES 1000 /* that one portion reads: some milliseconds */

/* Pages of the WAL when it is emptied although only events and metrics are in it. */
#define WAL_PAGES 1000

struct hsp_store {
    sqlite3 *db;
    int wal_pages;  /* after the last commit */
    size_t n_added; /* events since all were counted */
    sqlite3_stmt *st[N_STATEMENTS];
};

static enum hsp_status set_up(struct hsp_store *s, struct hsp_err *err)
{
    enum hsp_status st = hsp_store_set_up(s->db, err);
    for (int i = 0; st == HSP_OK && i < N_STATEMENTS; i++) {
        if (sqlite3_prepare_v3(s->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &s->st[i], NULL) !=
            SQLITE_OK) {
            st = hsp_db_error(s->db, err, "state");
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

/* Adds the remedy to the error @st where the store cannot be read. */
static enum hsp_status put_back(enum hsp_status st, struct hsp_err *err)
{
    const struct hsp_err why = *err;
    return st == HSP_EDIGEST ? hsp_err_set(err, st, 0, "%s; put a backup back", why.msg) : st;
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
        st = s->db != NULL ? hsp_db_error(s->db, err, "cannot open")
                           : hsp_err_nomem(err, "%s", path);
    } else {
        (void)sqlite3_busy_timeout(s->db, BUSY_MS);
        st = set_up(s, err);
        (void)sqlite3_wal_hook(s->db, committed, s); /* in the place of SQLite's own */
    }
    if (st != HSP_OK) {
        (void)put_back(st, err);
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
        if (s->db != NULL) {
            /* SQLite leaves it where the file was moved: to be read with the next one there. */
            empty_wal(s);
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

/* The total does without the row @key, if there is one, and with one of @sum, unless it is NULL.
 * Which sum a damaged row had in the total is not known: the total is then that of all others. */
static bool count_row(struct hsp_store *s, const char *key, const sqlite3_int64 *sum)
{
    bool ok = sqlite3_bind_text(s->st[ST_LEAVES], 1, key, -1, SQLITE_STATIC) == SQLITE_OK;
    ok = run(s, ST_LEAVES) && ok;
    if (ok && sum != NULL) {
        ok = sqlite3_bind_int64(s->st[ST_COMES], 1, *sum) == SQLITE_OK;
        ok = run(s, ST_COMES) && ok;
    }
    return ok;
}

static bool apply_row(struct hsp_store *s, const struct hsp_store_row *r)
{
    enum statement which = r->removed ? ST_DEL : ST_PUT;
    const void *value = r->len > 0 ? r->value : "";
    sqlite3_int64 sum = r->key != NULL && !r->removed ? hsp_store_sum(r->key, value, r->len) : 0;
    bool ok = count_row(s, r->key, r->removed ? NULL : &sum) &&
              sqlite3_bind_text(s->st[which], 1, r->key, -1, SQLITE_STATIC) == SQLITE_OK;
    if (ok && !r->removed) {
        ok = sqlite3_bind_blob64(s->st[which], 2, value, r->len, SQLITE_STATIC) == SQLITE_OK &&
             (r->key == NULL || /* which the table refuses */
              sqlite3_bind_int64(s->st[which], 3, sum) == SQLITE_OK);
    }
    return run(s, which) && ok;
}

/* Ends a transaction that went well, or takes it back; the first error is the one reported. */
static enum hsp_status end_transaction(struct hsp_store *s, bool ok, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    if (!ok || sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) {
        st = hsp_db_error(s->db, err, "cannot write the state");
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL); /* may have happened by itself */
    }
    return st;
}

static bool drop_metrics(struct hsp_store *s, uint32_t job)
{
    bool ok = sqlite3_bind_int64(s->st[ST_METRIC_DROP], 1, job) == SQLITE_OK;
    return run(s, ST_METRIC_DROP) && ok;
}

enum hsp_status hsp_store_apply(struct hsp_store *s, const struct hsp_store_row *rows, size_t n,
                                const uint32_t *gone, size_t n_gone, struct hsp_err *err)
{
    sqlite3_mutex_enter(sqlite3_db_mutex(s->db));
    enum hsp_status st = hsp_db_exec(s->db, "BEGIN IMMEDIATE", err);
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
    if (summed && sqlite3_column_int64(q, 2) != hsp_store_sum(key, len > 0 ? value : "", len)) {
        return hsp_err_set(err, HSP_EDIGEST, 0, "state.db: row %s is damaged; put a backup back",
                           key);
    }
    enum hsp_status st = fn != NULL ? fn(arg, key, value, len) : HSP_OK;
    return st == HSP_OK ? HSP_OK : hsp_err_set(err, st, 0, "state.db: row %s was refused", key);
}

/* All rows that were written are there, and no others. */
static enum hsp_status check_total(struct hsp_store *s, struct hsp_err *err)
{
    sqlite3_stmt *q = s->st[ST_WHOLE];
    int rc = sqlite3_step(q);
    bool whole = rc == SQLITE_ROW && sqlite3_column_int(q, 0) == 1;
    enum hsp_status st = HSP_OK;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        st = put_back(hsp_db_error(s->db, err, "cannot read the state"), err);
    } else if (!whole) {
        st = hsp_err_set(err, HSP_EDIGEST, 0,
                         "state.db: rows are missing, or damaged; put a backup back");
    }
    (void)sqlite3_reset(q); /* repeats the step's result */
    return st;
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
        st = put_back(hsp_db_error(s->db, err, "cannot read the state"), err);
    }
    (void)sqlite3_reset(q);                       /* repeats the step's result */
    st = st == HSP_OK ? check_total(s, err) : st; /* a damaged row is named first */
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
                                             : hsp_db_error(s->db, err, "cannot read the state");
    (void)sqlite3_reset(q); /* repeats the step's result */
    (void)sqlite3_clear_bindings(q);
    sqlite3_mutex_leave(sqlite3_db_mutex(s->db));
    return st;
}

/* ---- copies ---- */

/* Makes an empty file that nobody else may read, in the place of the present one. */
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
#define COPY_PAGES  256
#define COPY_TRIALS 10000 /* of a millisecond each, while another has the store locked */

static int copy_pages(struct hsp_store *s, sqlite3 *to)
{
    sqlite3_backup *b = sqlite3_backup_init(to, "main", s->db, "main");
    int rc = b != NULL ? SQLITE_OK : sqlite3_errcode(to);
    int trials = 0;
    while (rc == SQLITE_OK ||
           ((rc == SQLITE_BUSY || rc == SQLITE_LOCKED) && trials++ < COPY_TRIALS)) {
        rc = sqlite3_backup_step(b, COPY_PAGES);
        if (rc != SQLITE_OK && rc != SQLITE_DONE) {
            (void)sqlite3_sleep(1);
        }
    }
    int end = b != NULL ? sqlite3_backup_finish(b) : rc;
    return rc == SQLITE_DONE ? end : rc;
}

void hsp_store_damage_text(const struct hsp_store_damage *d, char ret[HSP_DAMAGE_TEXT])
{
    (void)snprintf(ret, HSP_DAMAGE_TEXT,
                   "damaged lines are left out: %" PRIu64 " of events, %" PRIu64 " of metrics",
                   d->events, d->metrics);
}

/* Lines of one kind, cleaned by portions of their numbers: other calls go on between these. */
struct cleaning {
    enum statement step, clean, rest; /* rest: of the last portion */
    int64_t job, after;               /* all up to @after are done */
    uint64_t n;                       /* deleted rows */
};

static void bind_range(sqlite3_stmt *q, const struct cleaning *c, int64_t last)
{
    (void)sqlite3_bind_int64(q, 1, c->job); /* of a statement that is reset: cannot fail */
    (void)sqlite3_bind_int64(q, 2, c->after);
    (void)sqlite3_bind_int64(q, 3, last); /* which the last portion of metrics does not have */
}

/* Reads a number, *@ret, by a statement that is bound. *@any: there is one. */
static enum hsp_status one_number(struct hsp_store *s, enum statement which, int64_t *ret,
                                  bool *any, struct hsp_err *err)
{
    int rc = sqlite3_step(s->st[which]);
    *any = rc == SQLITE_ROW;
    *ret = *any ? sqlite3_column_int64(s->st[which], 0) : *ret;
    enum hsp_status st =
        *any || rc == SQLITE_DONE ? HSP_OK : hsp_db_error(s->db, err, "cannot read the state");
    (void)sqlite3_reset(s->st[which]); /* repeats the step's result */
    return st;
}

/* The next CLEAN_LINES. *@more: there may be others behind them. */
static enum hsp_status clean_portion(struct hsp_store *s, struct cleaning *c, bool *more,
                                     struct hsp_err *err)
{
    int64_t last = INT64_MAX;
    sqlite3_mutex_enter(sqlite3_db_mutex(s->db));
    bind_range(s->st[c->step], c, CLEAN_LINES - 1);
    enum hsp_status st = one_number(s, c->step, &last, more, err);
    enum statement which = *more ? c->clean : c->rest;
    if (st == HSP_OK) {
        bind_range(s->st[which], c, last);
        st = run(s, which) ? HSP_OK : hsp_db_error(s->db, err, "cannot write the state");
        c->n += st == HSP_OK ? (uint64_t)sqlite3_changes64(s->db) : 0;
        c->after = last;
    }
    sqlite3_mutex_leave(sqlite3_db_mutex(s->db));
    return st;
}

static enum hsp_status clean_all(struct hsp_store *s, struct cleaning *c, struct hsp_err *err)
{
    bool more = true;
    enum hsp_status st = HSP_OK;
    c->after = INT64_MIN;
    while (st == HSP_OK && more) {
        st = clean_portion(s, c, &more, err);
        if (more) {
            (void)sqlite3_sleep(1); /* a thread that waits for the mutex gets it now */
        }
    }
    return st;
}

/* The first job behind *@job that has metrics; *@any: there is one. Entries that are no numbers
 * come last: no row of them is ever read. */
static enum hsp_status next_job(struct hsp_store *s, int64_t *job, bool *any, struct hsp_err *err)
{
    int64_t before = *job;
    sqlite3_mutex_enter(sqlite3_db_mutex(s->db));
    (void)sqlite3_bind_int64(s->st[ST_METRIC_JOB], 1, before); /* a reset statement cannot fail */
    enum hsp_status st = one_number(s, ST_METRIC_JOB, job, any, err);
    sqlite3_mutex_leave(sqlite3_db_mutex(s->db));
    *any = *any && *job > before;
    return st;
}

enum hsp_status hsp_store_clean(struct hsp_store *s, struct hsp_store_damage *ret,
                                struct hsp_err *err)
{
    bool any = true;
    struct cleaning events = {ST_EVENT_STEP, ST_EVENT_CLEAN, ST_EVENT_CLEAN, 0, 0, 0};
    struct cleaning metrics = {ST_METRIC_STEP, ST_METRIC_CLEAN, ST_METRIC_REST, INT64_MIN, 0, 0};
    enum hsp_status st = clean_all(s, &events, err);
    while (st == HSP_OK && any) {
        st = next_job(s, &metrics.job, &any, err);
        st = st == HSP_OK && any ? clean_all(s, &metrics, err) : st;
    }
    *ret = (struct hsp_store_damage){events.n, metrics.n};
    return st;
}

enum hsp_status hsp_store_pages(struct hsp_store *s, struct hsp_err *err)
{
    sqlite3_mutex_enter(sqlite3_db_mutex(s->db));
    enum hsp_status st = hsp_db_pages(s->db, "PRAGMA integrity_check(1)", err);
    sqlite3_mutex_leave(sqlite3_db_mutex(s->db));
    return st;
}

enum hsp_status hsp_store_verify(struct hsp_store *s, struct hsp_store_damage *ret,
                                 struct hsp_err *err)
{
    enum hsp_status st = hsp_store_pages(s, err);
    st = st == HSP_OK ? hsp_store_clean(s, ret, err) : st;
    return st == HSP_OK ? hsp_store_load(s, NULL, NULL, err) : st;
}

static enum hsp_status copy_error(int rc, const char *path, struct hsp_err *err)
{
    return hsp_err_set(err,
                       rc == SQLITE_FULL    ? HSP_ENOSPC
                       : rc == SQLITE_NOMEM ? HSP_ENOMEM
                                            : HSP_EIO,
                       0, "cannot copy the store to %s: %s", path, sqlite3_errstr(rc));
}

/* A copy equals the disk: a row that has gone bad is found now, not when it is put back. */
static enum hsp_status verify_copy(const char *path, struct hsp_store_damage *ret,
                                   struct hsp_err *err)
{
    struct hsp_store *copy = NULL;
    enum hsp_status st = hsp_store_open(path, &copy, err);
    st = st == HSP_OK ? hsp_store_verify(copy, ret, err) : st;
    (void)hsp_store_close(copy);
    return st;
}

enum hsp_status hsp_store_backup(struct hsp_store *s, const char *path,
                                 struct hsp_store_damage *ret, struct hsp_err *err)
{
    sqlite3 *to = NULL;
    enum hsp_status st = make_private(path, err);
    if (st != HSP_OK) {
        return st;
    }
    int rc = sqlite3_open_v2(path, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX, NULL);
    rc = rc == SQLITE_OK ? copy_pages(s, to) : rc;
    (void)sqlite3_close(to); /* no statement is open: cannot fail */
    st = rc == SQLITE_OK ? verify_copy(path, ret, err) : copy_error(rc, path, err);
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
              sqlite3_bind_int64(q, 2, e->job) == SQLITE_OK &&
              sqlite3_bind_text(q, 3, e->json, -1, SQLITE_STATIC) == SQLITE_OK;
    return run(s, ST_EVENT) && ok;
}

static bool add_metric(struct hsp_store *s, const struct hsp_store_metric *m)
{
    sqlite3_stmt *q = s->st[ST_METRIC];
    bool ok = sqlite3_bind_int64(q, 1, m->job) == SQLITE_OK &&
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
    enum hsp_status st = hsp_db_exec(s->db, "BEGIN IMMEDIATE", err);
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

static enum hsp_status lines(struct hsp_store *s, enum statement which, uint32_t job,
                             uint64_t since, uint32_t limit, hsp_store_line_fn *fn, void *arg,
                             struct hsp_err *err)
{
    sqlite3_mutex_enter(sqlite3_db_mutex(s->db));
    sqlite3_stmt *q = s->st[which];
    int rc = SQLITE_ERROR;
    if (sqlite3_bind_int64(q, 1, job) == SQLITE_OK &&
        sqlite3_bind_int64(q, 2, since > INT64_MAX ? INT64_MAX : (sqlite3_int64)since) ==
            SQLITE_OK &&
        sqlite3_bind_int64(q, 3, limit) == SQLITE_OK) {
        while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
            fn(arg, (uint64_t)sqlite3_column_int64(q, 0), (uint64_t)sqlite3_column_int64(q, 1),
               (const char *)sqlite3_column_text(q, 2));
        }
    }
    enum hsp_status st =
        rc == SQLITE_DONE ? HSP_OK : hsp_db_error(s->db, err, "cannot read the state");
    (void)sqlite3_reset(q); /* repeats the step's result */
    (void)sqlite3_clear_bindings(q);
    sqlite3_mutex_leave(sqlite3_db_mutex(s->db));
    return st;
}

enum hsp_status hsp_store_events(struct hsp_store *s, uint32_t job, uint64_t since, uint32_t limit,
                                 hsp_store_line_fn *fn, void *arg, struct hsp_err *err)
{
    return lines(s, ST_EVENTS, job, since, limit, fn, arg, err);
}

enum hsp_status hsp_store_metrics(struct hsp_store *s, uint32_t job, uint64_t since, uint32_t limit,
                                  hsp_store_line_fn *fn, void *arg, struct hsp_err *err)
{
    return lines(s, ST_METRICS, job, since, limit, fn, arg, err);
}
