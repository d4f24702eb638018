/* Names, removes and syncs the files of a store: state.db or a copy of it, with the journals beside
 * it.
 *
 * Role:   inner header of the room: restore.c and first_store.c put a finished file in the place of
 *         the store.
 * Purity: shell (files).
 */
#ifndef HSP_STORE_FILES_H
#define HSP_STORE_FILES_H
#include <limits.h>
#include <stdbool.h>

#include "proto/base/err.h"

/* "@a@b". False: it does not fit. */
bool hsp_store_path(char ret[PATH_MAX], const char *a, const char *b);
/* Makes an error of errno, with the text "@what @path" and its meaning: HSP_ENOENT, HSP_EPERM,
 * HSP_ENOSPC, HSP_EIO. */
enum hsp_status hsp_store_file_error(const char *what, const char *path, struct hsp_err *err);
/* Removes the file @path and its journals, and only regular files. A failure leaves the file. */
void hsp_store_remove(const char *path);
/* HSP_ENOSPC, and the way out. */
enum hsp_status hsp_store_no_room(struct hsp_err *err);
/* Checks that all rows of @path are in the file itself. SQLite moves the journal into the file when
 * it closes the file, unless the disk is full: HSP_ENOSPC. */
enum hsp_status hsp_store_all_in_file(const char *path, struct hsp_err *err);
/* Puts renames in @dir on disk. Errors of hsp_store_file_error. */
enum hsp_status hsp_store_sync_folder(const char *dir, struct hsp_err *err);

#endif
