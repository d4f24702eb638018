#include "proto/host/file_io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_ALLOC 65536

static enum hsp_status sys_status(int e)
{
    switch (e) {
    case ENOENT:
    case ENOTDIR: return HSP_ENOENT;
    case EACCES:
    case EPERM:
    case EROFS: return HSP_EPERM;
    case ENOSPC:
    case EDQUOT: return HSP_ENOSPC;
    case ENOMEM:
    case EMFILE:
    case ENFILE: return HSP_ENOMEM;
    default: return HSP_EIO;
    }
}

static enum hsp_status fail(const char *what, const char *path, struct hsp_err *err)
{
    int e = errno;
    return hsp_err_set(err, sys_status(e), e, "%s %s", what, path);
}

/* Reads to the end into a growing buffer; a NUL always fits. */
static enum hsp_status read_fd(int fd, const char *path, size_t max, uint8_t **buf, size_t *len,
                               struct hsp_err *err)
{
    size_t cap = 0;
    for (;;) {
        if (*len + 1 >= cap) {
            cap = cap == 0 ? FIRST_ALLOC : cap * 2;
            uint8_t *p = realloc(*buf, cap);
            if (p == NULL) {
                return hsp_err_nomem(err, "reading %s", path);
            }
            *buf = p;
        }
        ssize_t n = read(fd, *buf + *len, cap - *len - 1);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return fail("cannot read", path, err);
        }
        if (n == 0) {
            (*buf)[*len] = 0;
            return HSP_OK;
        }
        *len += (size_t)n;
        if (*len > max) {
            return hsp_err_set(err, HSP_ELIMIT, 0, "%s is longer than %zu bytes", path, max);
        }
    }
}

static enum hsp_status check_regular(int fd, const char *path, struct hsp_err *err)
{
    struct stat sb;
    if (fstat(fd, &sb) != 0) {
        return fail("cannot look at", path, err);
    }
    return S_ISREG(sb.st_mode)
               ? HSP_OK
               : hsp_err_set(err, HSP_EIO, 0, "%s is no regular file: remove it", path);
}

static enum hsp_status read_path(const char *path, bool own, size_t max, uint8_t **ret,
                                 size_t *ret_len, struct hsp_err *err)
{
    uint8_t *buf = NULL;
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | (own ? O_NONBLOCK : 0));
    if (fd < 0) {
        return fail("cannot open", path, err);
    }
    enum hsp_status st = own ? check_regular(fd, path, err) : HSP_OK;
    st = st == HSP_OK ? read_fd(fd, path, max, &buf, &len, err) : st;
    close(fd);
    if (st != HSP_OK) {
        free(buf);
        return st;
    }
    *ret = buf;
    *ret_len = len;
    return HSP_OK;
}

enum hsp_status hsp_file_read(const char *path, size_t max, uint8_t **ret, size_t *ret_len,
                              struct hsp_err *err)
{
    return read_path(path, false, max, ret, ret_len, err);
}

enum hsp_status hsp_file_read_own(const char *path, size_t max, uint8_t **ret, size_t *ret_len,
                                  struct hsp_err *err)
{
    return read_path(path, true, max, ret, ret_len, err);
}

static bool write_fd(int fd, const uint8_t *p, size_t n)
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

/* The rename is only durable when its folder is. */
static bool sync_folder(const char *path)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - path);
    (void)snprintf(dir, sizeof dir, "%.*s", (int)n, path);
    int fd = open(slash == NULL ? "." : n == 0 ? "/" : dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    bool ok = fsync(fd) == 0 || errno == EINVAL; /* some file systems have nothing to sync */
    close(fd);
    return ok;
}

/* A device, a pipe or a link stays what it is: /dev/null must not become a file. */
static bool is_special(const char *path)
{
    struct stat s;
    return lstat(path, &s) == 0 && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode);
}

static enum hsp_status write_into(const char *path, const void *data, size_t len, mode_t mode,
                                  struct hsp_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    bool ok = fd >= 0 && write_fd(fd, data, len);
    int e = errno;
    if (fd >= 0 && close(fd) != 0 && ok) {
        e = errno;
        ok = false;
    }
    errno = e;
    return ok ? HSP_OK : fail("cannot write", path, err);
}

enum hsp_status hsp_file_write(const char *path, const void *data, size_t len, mode_t mode,
                               struct hsp_err *err)
{
    char tmp[PATH_MAX];
    if (is_special(path)) {
        return write_into(path, data, len, mode, err);
    }
    int n = snprintf(tmp, sizeof tmp, "%s.XXXXXX", path);
    if (n < 0 || (size_t)n >= sizeof tmp) {
        return hsp_err_set(err, HSP_EINVAL, 0, "path of %zu bytes is too long", strlen(path));
    }
    int fd = mkostemp(tmp, O_CLOEXEC);
    if (fd < 0) {
        return fail("cannot create a file beside", path, err);
    }
    bool ok = write_fd(fd, data, len) && fchmod(fd, mode) == 0 && fsync(fd) == 0;
    int e = errno;
    if (close(fd) != 0 && ok) {
        e = errno;
        ok = false;
    }
    if (ok && rename(tmp, path) != 0) {
        e = errno;
        ok = false;
    }
    if (!ok) {
        (void)unlink(tmp);
        errno = e;
        return fail("cannot write", path, err);
    }
    return sync_folder(path) ? HSP_OK : fail("cannot sync the folder of", path, err);
}
