/* Turns errno of a failed call on a file into a status.
 *
 * Purity: pure but for errno.
 */
#ifndef HSP_IO_ERROR_H
#define HSP_IO_ERROR_H
#include "proto/base/err.h"

/* Records errno under "@what @path". HSP_ENOSPC, HSP_EPERM, HSP_ENOENT, HSP_EEXIST; HSP_ENOMEM:
 * want of memory or of descriptors, which says nothing of the file; else HSP_EIO. */
enum hsp_status hsp_state_io_error(struct hsp_err *err, const char *what, const char *path);

#endif
