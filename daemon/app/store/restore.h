/* Puts an older store in the place of the one in a folder.
 *
 * Purity:  shell (files).
 * Example: hspmdd --restore backup.db. The copy is verified whole before anything is touched. The
 *          store that was there stays beside it: as state.db.replaced-SECONDS.N where it is newer
 *          than backup.db, of the same cluster and not damaged, so that putting it back again
 *          undoes the restore; else as state.db.replaced-SECONDS.N-other, or N-unused where it was
 *          put back itself and no hspmdd has opened it since. The new one says that it is put back
 *          (HSP_RESTORED_ROW of daemon/cluster/row_read.h), so that the core begins a generation
 *          after both, also when this process ends before the core has read it. A store that is
 *          put back over one that was never opened comes after the one before that, too.
 * Crash:   the new store takes the place of the old one by one rename. A crash before this rename
 *          leaves the old store in place, a crash after it the new one.
 */
#ifndef HSP_RESTORE_H
#define HSP_RESTORE_H
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/app/store/store.h"

#define HSP_RESTORE_COPY \
    ".restore-copy.db" /* the new store in the folder, until it takes its place */

/* @dir: a state folder that is locked by this process. @file: a backup, or a store of an hspmdd
 * that has ended, with its journal beside it. HSP_ENOENT, HSP_EPERM, HSP_ENOSPC, HSP_EIO;
 * HSP_EDIGEST: damaged; HSP_EPARSE: no store of a cluster; HSP_EINVAL: @file is a file of @dir.
 * After an error the store that was there is in place, with all its rows: its journal may have been
 * moved into it. Files made by root belong to the owner of @dir. *ret has the number of lines of
 * @file that the new store lacks: damaged lines of events or metrics are left out, and do not keep
 * a cluster from being restored. */
enum hsp_status hsp_restore(const char *dir, const char *file, struct hsp_store_damage *ret,
                            struct hsp_err *err);
/* Removes the copy that a killed restore has left in @dir, a state folder that is locked by this
 * process: .restore-copy.db with its journal, and only regular files. */
void hsp_restore_tidy(const char *dir);
/* Puts HSP_RESTORE_COPY, which rebuild.c has made of the damaged store in @dir, in the place of
 * that store. *ret_kept is the path at which the damaged store stays,
 * state.db.replaced-SECONDS.N-damaged. Errors of hsp_store_file_error. */
enum hsp_status hsp_restore_rebuilt(const char *dir, char ret_kept[PATH_MAX], struct hsp_err *err);
/* Gets the path of the store in @dir that was replaced last, state.db.replaced-SECONDS.N, and the
 * number of its generation. Returns false if there is none, if it was not newer than the store that
 * took its place, if it is not of the cluster of @there, or if its path does not fit. Stores that
 * were replaced earlier are not considered: going back to one would lose all that happened after
 * it. */
bool hsp_restore_replaced(const char *dir, struct hsp_store *there, char *ret, size_t size,
                          uint32_t *ret_generation);

#endif
