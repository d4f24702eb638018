#include "daemon/app/api/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/app/state/app_state.h"
#include "daemon/app/state/tasks.h"
#include "proto/base/str.h"

#define PIECE (4u << 20) /* bytes of an answer: hardly any delay for others on the loop */

struct backup {
    struct hsp_app_task work;
    struct hsp_store *store;
    uint32_t conn;
    uint64_t request, number, since;
    bool make;
    char path[PATH_MAX];
    uint64_t bytes; /* of the copy */
    uint8_t *piece;
    size_t len;
    enum hsp_status status;
    struct hsp_err err;
};

static bool path_of(const struct hsp_app *a, char ret[PATH_MAX])
{
    return snprintf(ret, PATH_MAX, "%s/backup.db", a->cfg->state_dir) < PATH_MAX;
}

void hsp_app_backup_tidy(const struct hsp_app *a)
{
    char path[PATH_MAX];
    if (path_of(a, path)) {
        (void)unlink(path); /* mostly not there */
    }
}

/* ---- on the pool thread ---- */

static enum hsp_status io_error(struct backup *b)
{
    return hsp_err_set(&b->err, errno == ENOENT ? HSP_ESTATE : HSP_EIO, errno, "cannot read %s",
                       b->path);
}

static void read_piece(struct backup *b, int fd)
{
    struct stat sb;
    if (fstat(fd, &sb) != 0) {
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
        ssize_t n = pread(fd, b->piece + b->len, PIECE - b->len, (off_t)(b->since + b->len));
        if (n == 0 || (n < 0 && errno != EINTR)) {
            b->status = io_error(b);
            return;
        }
        b->len += n > 0 ? (size_t)n : 0;
    }
}

static void run_backup(struct hsp_app_task *work)
{
    struct backup *b = (struct backup *)work;
    if (b->make) {
        b->status = hsp_store_backup(b->store, b->path, &b->err);
    }
    int fd = b->status == HSP_OK ? open(b->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (b->status == HSP_OK && fd < 0) {
        b->status = io_error(b);
    }
    if (fd >= 0) {
        read_piece(b, fd);
        (void)close(fd); /* read only */
    }
}

/* ---- on the loop ---- */

static void done_backup(struct hsp_app_task *work)
{
    struct backup *b = (struct backup *)work;
    struct hsp_app *a = b->work.app;
    char doc[96];
    a->backing_up = false;
    bool last = !b->make && b->since + b->len >= b->bytes;
    if (b->status != HSP_OK) {
        hsp_app_reply(a, b->conn, b->request, b->status, b->err.msg, NULL, 0, false);
    } else if (b->make) {
        int n = snprintf(doc, sizeof doc, "{\"backup\": %" PRIu64 ", \"bytes\": %" PRIu64 "}",
                         b->number, b->bytes);
        hsp_log(a->log, HSP_LOG_NOTICE, "admin", "a backup of %" PRIu64 " bytes", b->bytes);
        hsp_app_reply(a, b->conn, b->request, HSP_OK, "", doc, (size_t)n, false);
    } else {
        hsp_app_reply(a, b->conn, b->request, HSP_OK, "", (const char *)b->piece, b->len, false);
    }
    if (b->status != HSP_OK || last) {
        hsp_app_backup_tidy(a);
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
    if (b->make) {
        a->backup++;
    } else if (!hsp_parse_u64(m->u.query.what, &b->number) || b->number != a->backup) {
        return hsp_err_set(err, HSP_ESTATE, 0, "another backup was begun since; begin again");
    }
    b->number = a->backup;
    b->since = m->u.query.since;
    b->store = a->store;
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
        st = a->backing_up ? HSP_OK : hsp_err_nomem(&err, "a backup");
    }
    if (st != HSP_OK) {
        hsp_app_reply(a, cl->conn, m->request, st, err.msg, NULL, 0, false);
        free(b);
    }
}
