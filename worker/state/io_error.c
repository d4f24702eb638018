#include "worker/state/io_error.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum hsp_status hsp_state_io_error(struct hsp_err *err, const char *what, const char *path)
{
    int e = errno;
    enum hsp_status code = e == ENOSPC || e == EDQUOT                  ? HSP_ENOSPC
                           : e == EFBIG || e == ENAMETOOLONG           ? HSP_ELIMIT
                           : e == EACCES || e == EPERM                 ? HSP_EPERM
                           : e == ENOENT                               ? HSP_ENOENT
                           : e == EEXIST                               ? HSP_EEXIST
                           : e == ENOMEM || e == EMFILE || e == ENFILE ? HSP_ENOMEM
                                                                       : HSP_EIO;
    return hsp_err_set(err, code, e, "%s %s", what, path);
}

enum hsp_status hsp_regular_open(int at, const char *name, int flags, const char *path, int *ret,
                                 struct hsp_err *err)
{
    struct stat s;
    int fd = openat(at, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
    if (fd < 0) {
        return hsp_state_io_error(err, "cannot open", path);
    }
    enum hsp_status st = HSP_OK;
    if (fstat(fd, &s) != 0) {
        st = hsp_state_io_error(err, "cannot stat", path);
    } else if (!S_ISREG(s.st_mode)) {
        st = hsp_err_set(err, HSP_EDIGEST, 0,
                         "%s is no regular file, and is not read: put a file there", path);
    }
    if (st != HSP_OK) {
        (void)close(fd); /* read only */
        return st;
    }
    *ret = fd;
    return HSP_OK;
}
