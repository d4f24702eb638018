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

enum what { CORE, EVENT, METRIC, N_KINDS };

/* A page that cannot be read ends a statement: lines are read from both ends. Rows of the core are
 * compared with their total when all are there. */
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

static enum hsp_status copy_all(sqlite3 *old, sqlite3 *new, uint64_t n[N_KINDS],
                                struct hsp_err *err)
{
    enum hsp_status st = hsp_store_set_up(old, err);
    st = st == HSP_OK ? hsp_store_set_up(new, err) : st;
    st = st == HSP_OK ? hsp_db_exec(new, "BEGIN", err) : st;
    for (size_t i = 0; st == HSP_OK && i < HSP_ARRAY_LEN(parts); i++) {
        st = copy_part(old, new, i, &n[parts[i].what], err);
    }
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
    (void)sqlite3_close(to);   /* takes back what was not committed */
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
                   "pages were damaged, and lines may be missing: the file was written anew with "
                   "all jobs and nodes, %" PRIu64 " events and %" PRIu64
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
                       "it is damaged, and cannot be written anew: %s (%s)", bad.msg, why.msg);
    }
    st = hsp_state_folder_lock_store(dir, f, err);
    return st == HSP_OK ? open_store(path, ret, err) : st;
}
