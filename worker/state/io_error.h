/* Records the errno of a file of state as a status, so that callers tell want of room from damage.
 *
 * Purity: pure, but for errno.
 */
#ifndef HSP_IO_ERROR_H
#define HSP_IO_ERROR_H
#include "proto/base/err.h"

/* Records errno under "@what @path"; err->sys keeps it, and the message its text.
 *
 * HSP_ENOSPC: full, or over quota. HSP_ELIMIT: a file or a path that is too long. HSP_EPERM,
 * HSP_ENOENT, HSP_EEXIST. HSP_ENOMEM: want of memory or of descriptors, so nothing is known of the
 * file. Else HSP_EIO. */
enum hsp_status hsp_state_io_error(struct hsp_err *err, const char *what, const char *path);
/* Opens the regular file @name in the folder @at for reading, without waiting for the writer of a
 * pipe. @flags: O_NOFOLLOW or 0. *ret: close(). HSP_EDIGEST: not a regular file; else as above. */
enum hsp_status hsp_regular_open(int at, const char *name, int flags, const char *path, int *ret,
                                 struct hsp_err *err);

#endif
