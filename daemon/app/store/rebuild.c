#include "daemon/app/store/rebuild.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <string.h>
#include <unistd.h>

#include "daemon/app/store/restore.h"
#include "daemon/app/store/store_files.h"
#include "daemon/app/store/store_schema.h"
#include "proto/base/size.h"
#include "proto/base/str.h"

#define ROOM_MIB 16u /* a start needs some 32 KiB, and the WAL has 4 MiB before it is emptied */

#define EVENTS \
    "SELECT seq, job, json, sum FROM event WHERE sum IS row_sum(seq, job, json) ORDER BY "
#define TO_EVENT "INSERT OR IGNORE INTO event(seq, job, json, sum) VALUES(?1, ?2, ?3, ?4)"
#define METRICS                                       \
    "SELECT job, step, epoch, json, sum FROM metric " \
    "WHERE sum IS row_sum(job, step, epoch, json) ORDER BY "
#define TO_METRIC \
    "INSERT OR IGNORE INTO metric(job, step, epoch, json, sum) VALUES(?1, ?2, ?3, ?4, ?5)"

#define EVENTS_UP                                                              \
    "SELECT seq, job, json, sum FROM event WHERE ?1 IS NOT NULL AND seq > ?2 " \
    "AND sum IS row_sum(seq, job, json) ORDER BY seq"
#define EVENTS_DOWN                                                                          \
    "SELECT seq, job, json, sum FROM event WHERE ?1 IS NOT NULL AND seq > ?2 AND seq <= ?3 " \
    "AND sum IS row_sum(seq, job, json) ORDER BY seq DESC"
#define METRICS_UP                                                                 \
    "SELECT job, step, epoch, json, sum FROM metric WHERE job = ?1 AND step > ?2 " \
    "AND sum IS row_sum(job, step, epoch, json) ORDER BY step"
#define METRICS_DOWN                                                                              \
    "SELECT job, step, epoch, json, sum FROM metric WHERE job = ?1 AND step > ?2 AND step <= ?3 " \
    "AND sum IS row_sum(job, step, epoch, json) ORDER BY step DESC"
#define JOBS "SELECT CAST(substr(key, 5) AS INTEGER) FROM kv WHERE key GLOB 'job/[0-9]*'"

#define NO_NUMBER  (INT64_MAX / 2) /* of an event or a step is as great */
#define MOST_PAGES 4096u           /* damaged ones that are passed in a table */

enum what { CORE, EVENT, METRIC, N_KINDS };

/* A page that cannot be read ends a statement: lines are read from both ends, then between damaged
 * pages. Rows of the core are compared with their total when all are there. */
static const struct {
    enum what what;
    const char *from, *to;
} parts[] = {
    {CORE, "SELECT key, value, sum FROM kv", "INSERT INTO kv(key, value, sum) VALUES(?1, ?2, ?3)"},
    {CORE, "SELECT rows, sums FROM total LIMIT 1", "UPDATE total SET rows = ?1, sums = ?2"},
    {EVENT, EVENTS "seq", TO_EVENT},
    {EVENT, EVENTS "seq DESC", TO_EVENT},
    {METRIC, METRICS "job, step", TO_METRIC},
    {METRIC, METRICS "job DESC, step DESC", TO_METRIC}};

static bool put_row(sqlite3_stmt *from, sqlite3_stmt *to)
{
    bool ok = true;
    for (int i = 0; ok && i < sqlite3_column_count(from); i++) {
        ok = sqlite3_bind_value(to, i + 1, sqlite3_column_value(from, i)) == SQLITE_OK;
    }
    ok = ok && sqlite3_step(to) == SQLITE_DONE;
    return sqlite3_reset(to) == SQLITE_OK && ok;
}

/* Adds to *n the rows that it writes. */
static enum hsp_status copy_part(sqlite3 *old, sqlite3 *new, size_t part, uint64_t *n,
                                 struct hsp_err *err)
{
    sqlite3_stmt *from = NULL, *to = NULL;
    bool ok = sqlite3_prepare_v2(new, parts[part].to, -1, &to, NULL) == SQLITE_OK;
    (void)sqlite3_prepare_v2(old, parts[part].from, -1, &from, NULL); /* NULL has no row */
    while (ok && from != NULL && sqlite3_step(from) == SQLITE_ROW) {
        ok = put_row(from, to);
        *n += ok ? (uint64_t)sqlite3_changes64(new) : 0;
    }
    enum hsp_status st = ok ? HSP_OK : hsp_db_error(new, err, "cannot write");
    (void)sqlite3_finalize(from); /* both repeat the step's result */
    (void)sqlite3_finalize(to);
    return st;
}

/* ---- between damaged pages ---- */

/* The lines of a table, or of one job in it, in the order of their number: that of the
 * event, or the step. */
struct lines {
    sqlite3_stmt *up;   /* from the line behind ?2 on */
    sqlite3_stmt *down; /* the same lines downwards from ?3 */
    sqlite3_stmt *to;
    int number;        /* its column */
    sqlite3_int64 job; /* ?1 */
};

/* The first line behind @after. SQLITE_ROW: its number is *ret; SQLITE_DONE: there is none; else it
 * cannot be read. */
static int look(const struct lines *l, sqlite3_int64 after, sqlite3_int64 *ret)
{
    (void)sqlite3_reset(l->up);
    int rc = sqlite3_bind_int64(l->up, 1, l->job);
    rc = rc == SQLITE_OK ? sqlite3_bind_int64(l->up, 2, after) : rc;
    rc = rc == SQLITE_OK ? sqlite3_step(l->up) : rc;
    *ret = rc == SQLITE_ROW ? sqlite3_column_int64(l->up, l->number) : *ret;
    return rc;
}

/* Behind @at a page is damaged. True: from *ret on, lines can be read again. Steps that grow by an
 * eighth pass the page: behind the lines that come next another page may be damaged. Then halves
 * look for lines between the last step that has failed and one that has passed all lines. */
static bool behind_page(const struct lines *l, sqlite3_int64 at, sqlite3_int64 *ret)
{
    sqlite3_int64 bad = at, end = NO_NUMBER;
    int rc = SQLITE_CORRUPT;
    for (sqlite3_int64 step = 1; rc != SQLITE_ROW && rc != SQLITE_DONE && step < end - at;
         step += 1 + step / 8) {
        rc = look(l, at + step, ret);
        end = rc == SQLITE_DONE ? at + step : end;
        bad = rc == SQLITE_ROW || rc == SQLITE_DONE ? bad : at + step;
    }
    while (rc != SQLITE_ROW && end - bad > 1) {
        sqlite3_int64 half = bad + (end - bad) / 2;
        rc = look(l, half, ret);
        end = rc == SQLITE_DONE ? half : end;
        bad = rc == SQLITE_DONE ? bad : half;
    }
    return rc == SQLITE_ROW;
}

/* Copies the readable rows upwards behind *at, which is then the last line read.
 * *ret_all: all were readable. */
static bool copy_up(const struct lines *l, sqlite3_int64 *at, uint64_t *n, bool *ret_all)
{
    bool ok = true;
    int rc;
    for (rc = look(l, *at, at); ok && rc == SQLITE_ROW; rc = sqlite3_step(l->up)) {
        *at = sqlite3_column_int64(l->up, l->number);
        ok = put_row(l->up, l->to);
        *n += ok ? (uint64_t)sqlite3_changes64(sqlite3_db_handle(l->to)) : 0;
    }
    *ret_all = rc == SQLITE_DONE;
    return ok;
}

/* The same downwards from @from, as far as behind @at. */
static bool copy_down(const struct lines *l, sqlite3_int64 at, sqlite3_int64 from, uint64_t *n)
{
    (void)sqlite3_reset(l->down);
    bool ok = sqlite3_bind_int64(l->down, 1, l->job) == SQLITE_OK &&
              sqlite3_bind_int64(l->down, 2, at) == SQLITE_OK &&
              sqlite3_bind_int64(l->down, 3, from) == SQLITE_OK;
    while (ok && sqlite3_step(l->down) == SQLITE_ROW) {
        ok = put_row(l->down, l->to);
        *n += ok ? (uint64_t)sqlite3_changes64(sqlite3_db_handle(l->to)) : 0;
    }
    return ok;
}

/* False: a line cannot be written. */
static bool copy_between(const struct lines *l, uint64_t *n)
{
    sqlite3_int64 at = -1, next = 0;
    bool all = false, ok = copy_up(l, &at, n, &all);
    for (uint32_t pages = 0; ok && !all && pages < MOST_PAGES && behind_page(l, at, &next);
         pages++) {
        ok = copy_down(l, at, next, n);
        at = next;
        ok = ok && copy_up(l, &at, n, &all);
    }
    return ok;
}

static bool prepare(sqlite3 *old, sqlite3 *new, const char *up, const char *down, const char *to,
                    struct lines *l)
{
    (void)sqlite3_prepare_v2(old, up, -1, &l->up, NULL); /* NULL is misuse: no row */
    (void)sqlite3_prepare_v2(old, down, -1, &l->down, NULL);
    return sqlite3_prepare_v2(new, to, -1, &l->to, NULL) == SQLITE_OK;
}

static void finalize(struct lines *l)
{
    (void)sqlite3_finalize(l->up); /* these repeat the step's result */
    (void)sqlite3_finalize(l->down);
    (void)sqlite3_finalize(l->to);
}

static enum hsp_status copy_rest(sqlite3 *old, sqlite3 *new, uint64_t n[N_KINDS],
                                 struct hsp_err *err)
{
    struct lines events = {.number = 0}, metrics = {.number = 1};
    sqlite3_stmt *jobs = NULL;
    bool ok = prepare(old, new, EVENTS_UP, EVENTS_DOWN, TO_EVENT, &events) &&
              prepare(old, new, METRICS_UP, METRICS_DOWN, TO_METRIC, &metrics) &&
              sqlite3_prepare_v2(new, JOBS, -1, &jobs, NULL) == SQLITE_OK &&
              copy_between(&events, &n[EVENT]);
    while (ok && sqlite3_step(jobs) == SQLITE_ROW) {
        metrics.job = sqlite3_column_int64(jobs, 0);
        ok = copy_between(&metrics, &n[METRIC]);
    }
    enum hsp_status st = ok ? HSP_OK : hsp_db_error(new, err, "cannot write");
    finalize(&events);
    finalize(&metrics);
    (void)sqlite3_finalize(jobs);
    return st;
}

static enum hsp_status copy_all(sqlite3 *old, sqlite3 *new, uint64_t n[N_KINDS],
                                struct hsp_err *err)
{
    enum hsp_status st = hsp_store_set_up(old, err);
    st = st == HSP_OK ? hsp_store_set_up(new, err) : st;
    st = st == HSP_OK ? hsp_db_exec(new, "BEGIN", err) : st;
    for (size_t i = 0; st == HSP_OK && i < HSP_ARRAY_LEN(parts); i++) {
        st = copy_part(old, new, i, &n[parts[i].what], err);
    }
    st = st == HSP_OK ? copy_rest(old, new, n, err) : st;
    return st == HSP_OK ? hsp_db_exec(new, "COMMIT", err) : st;
}

static enum hsp_status open_file(const char *path, sqlite3 **ret, struct hsp_err *err)
{
    return sqlite3_open_v2(path, ret, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK
               ? HSP_OK
               : hsp_err_set(err, HSP_EIO, 0, "cannot open %s", path);
}

static enum hsp_status verify(const char *path, struct hsp_err *err)
{
    struct hsp_store *s = NULL;
    struct hsp_store_damage none;
    enum hsp_status st = hsp_store_open(path, &s, err);
    st = st == HSP_OK ? hsp_store_verify(s, &none, err) : st;
    (void)hsp_store_close(s);
    return st == HSP_OK ? hsp_store_all_in_file(path, err) : st;
}

/* Writes the file @new; @old is not open. @n: how many rows of each kind are in it. */
static enum hsp_status write_new(const char *old, const char *new, uint64_t n[N_KINDS],
                                 struct hsp_err *err)
{
    sqlite3 *from = NULL, *to = NULL;
    int fd = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return hsp_store_file_error("cannot make", new, err);
    }
    (void)close(fd); /* nothing was written */
    enum hsp_status st = open_file(old, &from, err);
    st = st == HSP_OK ? open_file(new, &to, err) : st;
    st = st == HSP_OK ? copy_all(from, to, n, err) : st;
    (void)sqlite3_close(from); /* no statement is open: cannot fail */
    (void)sqlite3_close(to);   /* takes back uncommitted rows */
    return st == HSP_OK ? verify(new, err) : st;
}

/* Puts a new file in the place of the damaged store @path, which is not open. */
static enum hsp_status rebuild(const char *dir, const char *path, const char *why,
                               struct hsp_rebuilt *ret, struct hsp_err *err)
{
    char new[PATH_MAX], kept[PATH_MAX];
    uint64_t n[N_KINDS] = {0};
    if (!hsp_store_path(new, dir, "/" HSP_RESTORE_COPY)) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "state_dir is too long");
    }
    hsp_restore_tidy(dir);
    enum hsp_status st = hsp_store_all_in_file(path, err);
    st = st == HSP_OK ? write_new(path, new, n, err) : st;
    st = st == HSP_OK ? hsp_restore_rebuilt(dir, kept, err) : st;
    if (st != HSP_OK) {
        hsp_restore_tidy(dir);
        return st;
    }
    hsp_str_printf(ret->text, sizeof ret->text,
                   "pages were damaged, and lines may be missing: the file was rebuilt with all "
                   "jobs and nodes, %" PRIu64 " events and %" PRIu64
                   " lines of metrics; the damaged one is kept as %s (%s)",
                   n[EVENT], n[METRIC], strrchr(kept, '/') + 1, why);
    return HSP_OK;
}

static enum hsp_status open_store(const char *path, struct hsp_store **ret, struct hsp_err *err)
{
    enum hsp_status st = hsp_store_open(path, ret, err);
    return st == HSP_ENOSPC
               ? hsp_err_set(err, st, 0,
                             "%s: its disk is full: free %u MiB or more there, and start hspmdd "
                             "again",
                             path, ROOM_MIB)
               : st;
}

enum hsp_status hsp_store_open_whole(const char *dir, struct hsp_state_folder *f,
                                     struct hsp_store **ret, struct hsp_rebuilt *ret_done,
                                     struct hsp_err *err)
{
    char path[PATH_MAX];
    struct hsp_err why = {0}, bad = {0};
    *ret_done = (struct hsp_rebuilt){.failed = false};
    if (!hsp_store_path(path, dir, "/state.db")) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "state_dir is too long");
    }
    enum hsp_status st = open_store(path, ret, err);
    if (st != HSP_OK || hsp_store_pages(*ret, &why) != HSP_EDIGEST) {
        return st;
    }
    st = hsp_store_load(*ret, NULL, NULL, err);
    if (st != HSP_OK) {
        return hsp_err_wrap(err, "%s", dir);
    }
    *ret = hsp_store_close(*ret);
    if (rebuild(dir, path, why.msg, ret_done, &bad) != HSP_OK) {
        ret_done->failed = true;
        hsp_str_printf(ret_done->text, sizeof ret_done->text,
                       "it is damaged, and cannot be rebuilt: %s (%s)", bad.msg, why.msg);
    }
    st = hsp_state_folder_lock_store(dir, f, err);
    return st == HSP_OK ? open_store(path, ret, err) : st;
}
