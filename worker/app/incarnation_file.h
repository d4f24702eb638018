/* Keeps the incarnation of the node beside its state segments, in the file `incarnation`.
 *
 * The incarnation proves to hspmdd that a new agent process is the same node. It is as secret as a
 * key: a reader of the file can take the place of the node. The file is a line of 32 hex digits, of
 * mode 0600, and lives as long as the segments do.
 *
 * Purity: shell (blocking file I/O). */
#ifndef HSP_INCARNATION_FILE_H
#define HSP_INCARNATION_FILE_H
#include "proto/base/err.h"
#include "proto/base/hash.h"

/* Reads the incarnation in folder @dir. *ret is 0 if there is none, or if the file is damaged, as
 * @err says. HSP_EPARSE: damaged; HSP_EIO, HSP_EPERM, HSP_ENOMEM. */
enum hsp_status hsp_incarnation_read(const char *dir, struct hsp_digest *ret, struct hsp_err *err);
/* Replaces the incarnation. HSP_EIO, HSP_EPERM, HSP_ENOSPC, HSP_ENOMEM: the old incarnation
 * stays. */
enum hsp_status hsp_incarnation_write(const char *dir, struct hsp_digest d, struct hsp_err *err);

#endif
