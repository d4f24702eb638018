#include "worker/state/io_error.h"

#include <errno.h>

enum hsp_status hsp_state_io_error(struct hsp_err *err, const char *what, const char *path)
{
    int e = errno;
    enum hsp_status code = e == ENOSPC || e == EDQUOT || e == EFBIG    ? HSP_ENOSPC
                           : e == EACCES || e == EPERM                 ? HSP_EPERM
                           : e == ENOENT                               ? HSP_ENOENT
                           : e == EEXIST                               ? HSP_EEXIST
                           : e == ENOMEM || e == EMFILE || e == ENFILE ? HSP_ENOMEM
                                                                       : HSP_EIO;
    return hsp_err_set(err, code, e, "%s %s", what, path);
}
