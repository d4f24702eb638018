#include "daemon/ctl/cmd_backup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/ctl/ctl.h"
#include "daemon/ctl/remote.h"

#define COPY_MS 600000u /* hspmdd copies its whole store before it answers */

struct fetched {
    struct hsp_remote *remote;
    char number[24];
    uint64_t bytes, got;
    const char *left_out; /* the damaged parts, which are not in it; "" nothing */
};

static enum hsp_status file_error(const char *what, const char *path, struct hsp_err *err)
{
    int e = errno;
    return hsp_err_set(err,
                       e == EACCES || e == EPERM ? HSP_EPERM
                       : e == ENOSPC             ? HSP_ENOSPC
                                                 : HSP_EIO,
                       e, "cannot %s %s", what, path);
}

static enum hsp_status begin(struct hsp_ctl *ctl, struct fetched *f, struct hsp_err *err)
{
    struct hsp_msg m = {.type = HSP_MSG_BACKUP, .u.query = {.name = "", .what = ""}};
    const char *text;
    size_t len;
    bool more;
    cJSON *doc = NULL;
    enum hsp_status st = hsp_remote_send(f->remote, &m, err);
    if (st == HSP_OK) {
        st = hsp_remote_recv(f->remote, COPY_MS, &text, &len, &more, err);
    }
    if (st == HSP_OK) {
        st = hsp_doc_parse(text, len, &doc, err);
    }
    if (st == HSP_OK) {
        (void)snprintf(f->number, sizeof f->number, "%.0f", hsp_doc_number(doc, "backup"));
        f->bytes = (uint64_t)hsp_doc_number(doc, "bytes");
        f->left_out = hsp_ctl_text(ctl, "%s", hsp_doc_text(doc, "left_out"));
    }
    cJSON_Delete(doc);
    return st;
}

static enum hsp_status fetch(struct fetched *f, FILE *to, const char *path, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    while (st == HSP_OK && f->got < f->bytes) {
        struct hsp_msg m = {.type = HSP_MSG_BACKUP,
                            .u.query = {.name = "", .what = f->number, .since = f->got}};
        struct hsp_buf piece;
        hsp_buf_init(&piece, HSP_MSG_BLOB_MAX);
        st = hsp_remote_send(f->remote, &m, err);
        if (st == HSP_OK) {
            st = hsp_remote_recv_bytes(f->remote, COPY_MS, &piece, err);
        }
        if (st == HSP_OK && (piece.len == 0 || piece.len > f->bytes - f->got)) {
            st = hsp_err_set(err, HSP_EPROTO, 0, "hspmdd sent a piece of %zu bytes", piece.len);
        }
        if (st == HSP_OK && fwrite(piece.data, 1, piece.len, to) != piece.len) {
            st = file_error("write", path, err);
        }
        f->got += piece.len;
        hsp_buf_fini(&piece);
    }
    return st;
}

/* A device, pipe or link is not replaced by a file; nor is a store in use, which has a
 * journal beside it. */
static enum hsp_status check_target(const char *path, struct hsp_err *err)
{
    static const char *const ends[] = {"-wal", "-shm"};
    char name[PATH_MAX];
    struct stat sb;
    if (lstat(path, &sb) == 0 && !S_ISREG(sb.st_mode)) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%s is no regular file: name another one", path);
    }
    for (size_t i = 0; i < 2; i++) {
        if (snprintf(name, sizeof name, "%s%s", path, ends[i]) < (int)sizeof name &&
            lstat(name, &sb) == 0) {
            return hsp_err_set(err, HSP_EINVAL, 0,
                               "%s is beside it, the journal of a store in use: name another file",
                               name);
        }
    }
    return HSP_OK;
}

/* The name of the new file is on disk. */
static enum hsp_status settle(const char *path, struct hsp_err *err)
{
    char name[PATH_MAX];
    (void)snprintf(name, sizeof name, "%s", path);
    int fd = open(dirname(name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum hsp_status st = fd >= 0 && fsync(fd) == 0 ? HSP_OK : file_error("write", path, err);
    if (fd >= 0) {
        (void)close(fd); /* synced */
    }
    return st;
}

/* The file is whole, or as it was. */
static enum hsp_status save(struct fetched *f, const char *path, struct hsp_err *err)
{
    char tmp[PATH_MAX];
    if (snprintf(tmp, sizeof tmp, "%s.XXXXXX", path) >= (int)sizeof tmp) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "the name of the file is too long");
    }
    int fd = mkostemp(tmp, O_CLOEXEC); /* of mode 0600 */
    FILE *to = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (to == NULL) {
        enum hsp_status st = file_error("make", tmp, err);
        if (fd >= 0) {
            (void)close(fd); /* nothing was written */
            (void)unlink(tmp);
        }
        return st;
    }
    enum hsp_status st = fetch(f, to, tmp, err);
    if (st == HSP_OK && (fflush(to) != 0 || fsync(fileno(to)) != 0)) {
        st = file_error("write", tmp, err);
    }
    if (fclose(to) != 0 && st == HSP_OK) {
        st = file_error("write", tmp, err);
    }
    if (st == HSP_OK && rename(tmp, path) != 0) {
        st = file_error("rename to", path, err);
    }
    if (st != HSP_OK) {
        (void)unlink(tmp); /* the first error is the one to report */
        return st;
    }
    return settle(path, err);
}

int hsp_cmd_backup(struct hsp_ctl *ctl)
{
    struct fetched f = {0};
    struct hsp_err err = {0};
    enum hsp_status st = check_target(ctl->pos[0], &err);
    st = st == HSP_OK ? hsp_remote_open(ctl, &f.remote, &err) : st;
    if (st == HSP_OK) {
        st = begin(ctl, &f, &err);
    }
    if (st == HSP_OK) {
        st = save(&f, ctl->pos[0], &err);
    }
    f.remote = hsp_remote_close(f.remote);
    if (st != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    if (f.left_out[0] != '\0') {
        (void)fprintf(ctl->msg, "hspmdctl: %s\n", f.left_out);
    }
    return fprintf(ctl->out,
                   "%s has the store, %" PRIu64
                   " bytes; on the host of hspmdd, hspmdd -c CONFIG --restore FILE puts it back\n",
                   ctl->pos[0], f.bytes) > 0
               ? HSP_EXIT_OK
               : HSP_EXIT_FAILED;
}
