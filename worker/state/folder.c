/* Works on files through open folders. The happy path: openat and its relatives look up every name
 * in an open folder.
 *
 * Possible failure modes: a link in place of a folder (refused); a pipe in place of a file
 * (refused, not waited for); a folder that the disk gives in part (an error, not the end of the
 * folder); a crash of the host (files, and the names of new folders, are synced). */
#include "worker/state/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/state/io_error.h"

#define FIRST_ALLOC 65536
#define MAX_NAMES   1000u /* NAME, NAME-2 .. NAME-999 */

static enum hsp_status join(const char *dir, const char *name, char ret[HSP_FOLDER_PATH],
                            struct hsp_err *err)
{
    int n = snprintf(ret, HSP_FOLDER_PATH, "%s/%s", dir, name);
    return n >= 0 && n < HSP_FOLDER_PATH
               ? HSP_OK
               : hsp_err_set(err, HSP_ELIMIT, 0, "path of a checkpoint is too long");
}

/* Fills @err with "WHAT PATH/NAME: WHY". */
static enum hsp_status fail(const struct hsp_folder *f, const char *what, const char *name,
                            struct hsp_err *err)
{
    char path[HSP_FOLDER_PATH];
    int e = errno;
    enum hsp_status st = join(f->path, name, path, err);
    errno = e;
    return st == HSP_OK ? hsp_state_io_error(err, what, path) : st;
}

/* ---- folders ---- */

/* Opens @name in @at as ret->path. */
static enum hsp_status open_at(int at, const char *name, struct hsp_folder *ret,
                               struct hsp_err *err)
{
    struct stat s;
    ret->fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (ret->fd >= 0) {
        return HSP_OK;
    }
    int e = errno;
    if (fstatat(at, name, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(s.st_mode)) {
        return hsp_err_set(err, HSP_EPERM, 0,
                           "%s is a symbolic link, which is not followed: put a folder there, or "
                           "name the one it leads to",
                           ret->path);
    }
    errno = e;
    return hsp_state_io_error(err, "cannot open folder", ret->path);
}

static enum hsp_status sync_fd(int fd, const char *path, struct hsp_err *err)
{
    if (fsync(fd) != 0 && errno != EINVAL) { /* some file systems cannot sync a folder */
        return hsp_state_io_error(err, "cannot sync", path);
    }
    return HSP_OK;
}

/* Makes the folder @name in @at; @path for messages. *ret_made: it was not there. */
static enum hsp_status make_at(int at, const char *name, const char *path, bool *ret_made,
                               struct hsp_err *err)
{
    *ret_made = mkdirat(at, name, 0755) == 0;
    return *ret_made || errno == EEXIST ? HSP_OK
                                        : hsp_state_io_error(err, "cannot create folder", path);
}

/* Makes the folder @path, and syncs the folder above it. Without that a crash of the host could
 * undo the new folder, with synced files in it. */
static enum hsp_status make_path(const char *path, struct hsp_err *err)
{
    char above[HSP_FOLDER_PATH];
    const char *slash = strrchr(path, '/');
    bool made = false;
    enum hsp_status st = make_at(AT_FDCWD, path, path, &made, err);
    if (st != HSP_OK || !made) {
        return st;
    }
    size_t n = slash != NULL ? (size_t)(slash - path) : 0;
    (void)snprintf(above, sizeof above, "%.*s", (int)n, path);
    (void)snprintf(above + n, sizeof above - n, "%s", slash == NULL ? "." : n == 0 ? "/" : "");
    int fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return hsp_state_io_error(err, "cannot open folder", above);
    }
    st = sync_fd(fd, above, err);
    (void)close(fd); /* read only */
    return st;
}

/* Makes all folders on the way to @path, which is changed meanwhile. */
static enum hsp_status make_above(char *path, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (char *c = path + 1; st == HSP_OK && path[0] != '\0' && *c != '\0'; c++) {
        if (*c == '/') {
            *c = '\0';
            st = make_path(path, err);
            *c = '/';
        }
    }
    return st;
}

enum hsp_status hsp_folder_open(const char *path, bool create, struct hsp_folder *ret,
                                struct hsp_err *err)
{
    size_t n = strlen(path);
    ret->fd = -1;
    if (n >= sizeof ret->path) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "path of a checkpoint is too long");
    }
    memcpy(ret->path, path, n + 1);
    while (n > 1 && ret->path[n - 1] == '/') { /* behind a slash a link is followed */
        ret->path[--n] = '\0';
    }
    enum hsp_status st = create ? make_above(ret->path, err) : HSP_OK;
    if (st == HSP_OK && create) {
        st = make_path(ret->path, err);
    }
    return st == HSP_OK ? open_at(AT_FDCWD, ret->path, ret, err) : st;
}

enum hsp_status hsp_folder_open_in(const struct hsp_folder *in, const char *name, bool create,
                                   struct hsp_folder *ret, struct hsp_err *err)
{
    ret->fd = -1;
    enum hsp_status st = join(in->path, name, ret->path, err);
    bool made = false;
    if (st == HSP_OK && create) {
        st = make_at(in->fd, name, ret->path, &made, err);
    }
    if (st == HSP_OK && made) {
        st = hsp_folder_sync(in, err);
    }
    return st == HSP_OK ? open_at(in->fd, name, ret, err) : st;
}

void hsp_folder_close(struct hsp_folder *f)
{
    if (f->fd >= 0) {
        (void)close(f->fd); /* nothing is written through it */
        f->fd = -1;
    }
}

enum hsp_status hsp_folder_sync(const struct hsp_folder *f, struct hsp_err *err)
{
    return sync_fd(f->fd, f->path, err);
}

bool hsp_is_folder(int at, const char *name)
{
    struct stat s;
    return fstatat(at, name, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(s.st_mode);
}

/* ---- files ---- */

static enum hsp_status read_all(const struct hsp_folder *f, const char *name, int fd, size_t max,
                                uint8_t **buf, size_t *len, struct hsp_err *err)
{
    size_t cap = 0;
    for (;;) {
        if (*len + 1 >= cap) {
            cap = cap == 0 ? FIRST_ALLOC : cap * 2;
            uint8_t *p = realloc(*buf, cap);
            if (p == NULL) {
                return hsp_err_nomem(err, "%s/%s", f->path, name);
            }
            *buf = p;
        }
        ssize_t n = read(fd, *buf + *len, cap - *len - 1);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return fail(f, "cannot read", name, err);
        }
        if (n == 0) {
            (*buf)[*len] = 0;
            return HSP_OK;
        }
        *len += (size_t)n;
        if (*len > max) {
            return hsp_err_set(err, HSP_ELIMIT, 0, "%s/%s is longer than %zu bytes", f->path, name,
                               max);
        }
    }
}

enum hsp_status hsp_folder_read(const struct hsp_folder *f, const char *name, size_t max,
                                uint8_t **ret, size_t *ret_len, struct hsp_err *err)
{
    uint8_t *buf = NULL;
    size_t len = 0;
    char path[HSP_FOLDER_PATH];
    int fd;
    enum hsp_status st = join(f->path, name, path, err);
    st = st == HSP_OK ? hsp_regular_open(f->fd, name, O_NOFOLLOW, path, &fd, err) : st;
    if (st != HSP_OK) {
        return st;
    }
    st = read_all(f, name, fd, max, &buf, &len, err);
    (void)close(fd); /* read only */
    if (st != HSP_OK) {
        free(buf);
        return st;
    }
    *ret = buf;
    *ret_len = len;
    return HSP_OK;
}

static bool write_all(int fd, const uint8_t *p, size_t n)
{
    while (n > 0) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) {
            continue;
        }
        if (k < 0) {
            return false;
        }
        p += k;
        n -= (size_t)k;
    }
    return true;
}

enum hsp_status hsp_folder_write(const struct hsp_folder *f, const char *name, const void *data,
                                 size_t len, struct hsp_err *err)
{
    char part[256];
    int n = snprintf(part, sizeof part, "%s.part", name);
    if (n < 0 || (size_t)n >= sizeof part) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "a name of %zu bytes is too long", strlen(name));
    }
    (void)unlinkat(f->fd, part, 0); /* left by a dead writer; a pipe there would be in the way */
    int fd = openat(f->fd, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0) {
        return fail(f, "cannot create", part, err);
    }
    bool ok = write_all(fd, data, len) && fsync(fd) == 0;
    int e = errno;
    if (close(fd) != 0 && ok) {
        e = errno;
        ok = false;
    }
    enum hsp_status st = HSP_OK;
    if (ok) {
        st = hsp_folder_rename(f, part, name, err);
    } else {
        errno = e;
        st = fail(f, "cannot write", name, err);
    }
    if (st != HSP_OK) {
        (void)unlinkat(f->fd, part, 0); /* frees room; the first error is reported */
    }
    return st;
}

enum hsp_status hsp_folder_move(const struct hsp_folder *f, const char *from, const char *to,
                                struct hsp_err *err)
{
    return renameat(f->fd, from, f->fd, to) == 0 ? HSP_OK : fail(f, "cannot rename to", to, err);
}

enum hsp_status hsp_folder_rename(const struct hsp_folder *f, const char *from, const char *to,
                                  struct hsp_err *err)
{
    enum hsp_status st = hsp_folder_move(f, from, to, err);
    return st == HSP_OK ? hsp_folder_sync(f, err) : st;
}

enum hsp_status hsp_folder_set_aside(const struct hsp_folder *f, const char *from, char *to,
                                     size_t cap, struct hsp_err *err)
{
    size_t len = strlen(to);
    if (len + sizeof "-999" > cap) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "a name of %zu bytes is too long", len);
    }
    for (unsigned i = 2; i <= MAX_NAMES; i++) {
        if (faccessat(f->fd, to, F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
            return hsp_folder_rename(f, from, to, err);
        }
        (void)snprintf(to + len, cap - len, "-%u", i);
    }
    to[len] = '\0';
    return hsp_err_set(err, HSP_EEXIST, 0, "%s/%s and %u more are there already: move some away",
                       f->path, to, MAX_NAMES - 2);
}

/* ---- all that is in a folder ---- */

enum hsp_status hsp_folder_each(const struct hsp_folder *f, hsp_folder_fn *fn, void *ctx,
                                struct hsp_err *err)
{
    int fd = openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* with a place of its own */
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (d == NULL) {
        enum hsp_status st = hsp_state_io_error(err, "cannot open", f->path);
        if (fd >= 0) {
            (void)close(fd); /* read only */
        }
        return st;
    }
    const struct dirent *e;
    bool more = true;
    while (more && (errno = 0, e = readdir(d)) != NULL) {
        more = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || fn(ctx, e->d_name);
    }
    enum hsp_status st =
        more && errno != 0 ? hsp_state_io_error(err, "cannot read", f->path) : HSP_OK;
    (void)closedir(d); /* read only */
    return st;
}

struct removal {
    const struct hsp_folder *in;
    enum hsp_status st;
    struct hsp_err *err;
};

static bool remove_one(void *ctx, const char *name)
{
    struct removal *r = ctx;
    struct hsp_err why = {0};
    if (unlinkat(r->in->fd, name, 0) != 0 && errno != ENOENT) {
        enum hsp_status st = fail(r->in, "cannot remove", name, &why);
        if (r->st == HSP_OK) {
            r->st = hsp_err_set(r->err, st, 0, "%s", why.msg);
        }
    }
    return true; /* each file that goes makes room, though others stay */
}

enum hsp_status hsp_folder_remove(const struct hsp_folder *f, const char *name, const char *first,
                                  struct hsp_err *err)
{
    struct hsp_folder in;
    enum hsp_status st = hsp_folder_open_in(f, name, false, &in, err);
    if (st != HSP_OK) {
        return st == HSP_ENOENT ? HSP_OK : st;
    }
    st = hsp_folder_remove_open(f, &in, name, first, err);
    hsp_folder_close(&in);
    return st;
}

enum hsp_status hsp_folder_remove_open(const struct hsp_folder *f, const struct hsp_folder *in,
                                       const char *name, const char *first, struct hsp_err *err)
{
    struct removal r = {.in = in, .err = err};
    (void)unlinkat(in->fd, first, 0); /* may not be there */
    enum hsp_status st = hsp_folder_each(in, remove_one, &r, err);
    st = st == HSP_OK ? r.st : st;
    if (st == HSP_OK && unlinkat(f->fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
        st = fail(f, "cannot remove", name, err);
    }
    return st;
}
