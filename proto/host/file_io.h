/* Reads whole files with a limit, and replaces them atomically.
 *
 * Purity:  shell (blocking file I/O): never on a loop thread while it serves connections. Messages
 * name the path. HSP_ENOMEM: want of memory or of descriptors, which says nothing of the file. */
#ifndef HSP_FILE_IO_H
#define HSP_FILE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/base/err.h"

/* Reads a regular file, pipe or device to its end.
 * @ret  heap, the caller's to free; a NUL follows the @ret_len bytes.
 * HSP_ENOENT, HSP_EPERM, HSP_EIO; HSP_ELIMIT: longer than @max bytes; HSP_ENOMEM. */
enum hsp_status hsp_file_read(const char *path, size_t max, uint8_t **ret, size_t *ret_len,
                              struct hsp_err *err);

/* Reads a file that belongs to this program: anything except a regular file is HSP_EIO. The call
 * does not wait if a pipe is in the place of the file. */
enum hsp_status hsp_file_read_own(const char *path, size_t max, uint8_t **ret, size_t *ret_len,
                                  struct hsp_err *err);

/* Writes @path.XXXXXX in the same folder, syncs it, renames it to @path and syncs the folder: after
 * a crash the old content or the new one is there, never a part. @mode: permissions of the file.
 * HSP_ENOENT (no such folder), HSP_EPERM, HSP_ENOSPC, HSP_EIO, HSP_ENOMEM: @path is unchanged.
 * A @path that is a device, a pipe or a symbolic link is written into, not replaced. */
enum hsp_status hsp_file_write(const char *path, const void *data, size_t len, mode_t mode,
                               struct hsp_err *err);

#endif
