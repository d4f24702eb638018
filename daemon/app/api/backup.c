#include "daemon/app/api/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "daemon/app/state/app_state.h"
#include "daemon/app/state/tasks.h"
#include "proto/base/str.h"

#define ROOM  (16u << 20) /* bytes that a copy leaves to the core */
#define PIECE (4u << 20)  /* bytes of an answer: hardly any delay for others on the loop */

struct backup {
    struct hsp_app_task work;
    struct hsp_store *store;
    uint32_t conn;
    uint64_t request, number, since;
    bool make;
    char dir[PATH_MAX], path[PATH_MAX];
    int store_fd;   /* borrowed */
    int fd;         /* of the copy, borrowed; of a new one owned; -1 none */
    uint64_t bytes; /* of the copy */
    uint8_t *piece;
    size_t len;
    struct hsp_store_damage damage; /* not in the copy */
    enum hsp_status status;
    struct hsp_err err;
};

/* The name of a copy while it is made. */
static bool path_of(const struct hsp_app *a, char ret[PATH_MAX])
{
    return snprintf(ret, PATH_MAX, "%s/.backup-copy.db", a->cfg->state_dir) < PATH_MAX;
}

void hsp_app_backup_tidy(const struct hsp_app *a)
{
    char path[PATH_MAX];
    if (path_of(a, path)) {
        (void)unlink(path); /* mostly not there */
    }
}

void hsp_app_backup_end(struct hsp_app *a)
{
    if (a->backup_fd >= 0) {
        (void)close(a->backup_fd); /* the file has no name: it is gone */
    }
    a->backup_fd = -1;
}

void hsp_app_backup_gone(struct hsp_app *a, uint32_t conn)
{
    if (conn == a->backup_conn) {
        a->backup_conn = 0;
        if (!a->backing_up) { /* else done_backup ends it */
            hsp_app_backup_end(a);
        }
    }
}

/* ---- on the pool thread ---- */

static enum hsp_status io_error(struct backup *b)
{
    return hsp_err_set(&b->err, HSP_EIO, errno, "cannot read the copy of the store");
}

static void read_piece(struct backup *b)
{
    struct stat sb;
    if (fstat(b->fd, &sb) != 0) {
        b->status = io_error(b);
        return;
    }
    b->bytes = (uint64_t)sb.st_size;
    if (b->make) {
        return;
    }
    b->piece = malloc(PIECE);
    if (b->piece == NULL) {
        b->status = hsp_err_nomem(&b->err, "a piece of the backup");
        return;
    }
    while (b->len < PIECE && b->since + b->len < b->bytes) {
        ssize_t n = pread(b->fd, b->piece + b->len, PIECE - b->len, (off_t)(b->since + b->len));
        if (n == 0 || (n < 0 && errno != EINTR)) {
            b->status = io_error(b);
            return;
        }
        b->len += n > 0 ? (size_t)n : 0;
    }
}

/* The core's rows need the disk more than a copy does. The store may have been deleted: a
 * copy saves it. */
static enum hsp_status check_room(struct backup *b)
{
    struct stat sb;
    struct statvfs vfs;
    if (fstat(b->store_fd, &sb) != 0 || statvfs(b->dir, &vfs) != 0) {
        return hsp_err_set(&b->err, HSP_EIO, errno, "no copy of the store can be made in %s",
                           b->dir);
    }
    uint64_t room = (uint64_t)vfs.f_bavail * vfs.f_frsize, need = 2 * (uint64_t)sb.st_size + ROOM;
    return room >= need ? HSP_OK
                        : hsp_err_set(&b->err, HSP_ENOSPC, 0,
                                      "state_dir %s has %" PRIu64 " MiB free, a copy wants %" PRIu64
                                      " MiB for a while: make room",
                                      b->dir, room >> 20, need >> 20);
}

/* Leaves an open file without a name: nobody meets it, and it goes with this process. */
static enum hsp_status make_copy(struct backup *b)
{
    enum hsp_status st = check_room(b);
    st = st == HSP_OK ? hsp_store_backup(b->store, b->path, &b->damage, &b->err) : st;
    if (st == HSP_OK) {
        b->fd = open(b->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        st = b->fd >= 0 ? HSP_OK : io_error(b);
        (void)unlink(b->path); /* the next start would */
    }
    return st;
}

static void run_backup(struct hsp_app_task *work)
{
    struct backup *b = (struct backup *)work;
    if (b->make) {
        b->status = make_copy(b);
    }
    if (b->status == HSP_OK) {
        read_piece(b);
    }
}

/* ---- on the loop ---- */

static void done_backup(struct hsp_app_task *work)
{
    struct backup *b = (struct backup *)work;
    struct hsp_app *a = b->work.app;
    char doc[96 + HSP_DAMAGE_TEXT], left_out[HSP_DAMAGE_TEXT] = "";
    a->backing_up = false;
    if (b->make) {
        a->backup_fd = b->fd;
    }
    bool last = !b->make && b->since + b->len >= b->bytes;
    if (b->status != HSP_OK) {
        hsp_app_reply(a, b->conn, b->request, b->status, b->err.msg, NULL, 0, false);
    } else if (b->make) {
        if (b->damage.events + b->damage.metrics > 0) {
            hsp_store_damage_text(&b->damage, left_out);
        }
        int n = snprintf(doc, sizeof doc,
                         "{\"backup\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"left_out\": \"%s\"}",
                         b->number, b->bytes, left_out);
        hsp_log(a->log, HSP_LOG_NOTICE, "admin", "a backup of %" PRIu64 " bytes%s%s", b->bytes,
                left_out[0] != '\0' ? ": " : "", left_out);
        hsp_app_reply(a, b->conn, b->request, HSP_OK, "", doc, (size_t)n, false);
    } else {
        hsp_app_reply(a, b->conn, b->request, HSP_OK, "", (const char *)b->piece, b->len, false);
    }
    if (b->status != HSP_OK || last || a->backup_conn == 0) {
        hsp_app_backup_end(a);
    }
    free(b->piece);
    free(b);
}

static enum hsp_status prepare(struct hsp_app *a, const struct hsp_msg *m, struct backup *b,
                               struct hsp_err *err)
{
    b->make = m->u.query.what[0] == '\0';
    if (a->backing_up) {
        return hsp_err_set(err, HSP_ESTATE, 0, "another backup is under way; try again");
    }
    if (!path_of(a, b->path)) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "state_dir is too long");
    }
    (void)snprintf(b->dir, sizeof b->dir, "%s", a->cfg->state_dir); /* shorter than the path */
    if (b->make) {
        a->backup++;
        hsp_app_backup_end(a);
    } else if (!hsp_parse_u64(m->u.query.what, &b->number) || b->number != a->backup ||
               a->backup_fd < 0) {
        return hsp_err_set(err, HSP_ESTATE, 0,
                           "that copy is gone, or another one was begun since; "
                           "begin again");
    }
    b->number = a->backup;
    b->fd = a->backup_fd;
    b->since = m->u.query.since;
    b->store = a->store;
    b->store_fd = a->folder.store_fd;
    return HSP_OK;
}

void hsp_app_backup(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m)
{
    struct hsp_err err = {0};
    struct backup *b = calloc(1, sizeof *b);
    enum hsp_status st = b != NULL ? prepare(a, m, b, &err) : hsp_err_nomem(&err, "a backup");
    if (st == HSP_OK) {
        b->conn = cl->conn;
        b->request = m->request;
        b->work.run = run_backup;
        b->work.done = done_backup;
        a->backing_up = hsp_app_queue(a, &b->work);
        a->backup_conn = cl->conn;
        st = a->backing_up ? HSP_OK : hsp_err_nomem(&err, "a backup");
    }
    if (st != HSP_OK) {
        hsp_app_reply(a, cl->conn, m->request, st, err.msg, NULL, 0, false);
        free(b);
    }
}
