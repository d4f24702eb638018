/* Opens, reads, writes and deletes the files of a folder that other users may change, without
 * following a link.
 *
 * Example: checkpoint.path is /srv/ckpt, the job mist. The administrator has named /srv/ckpt, so
 * the path to it may have links. /srv/ckpt/mist may not be a link: any user with write access to
 * /srv/ckpt could have us write to, and delete from, any folder of our user. Names are looked up in
 * the open folder, so a link that is put in place later changes nothing.
 *
 * Role:      the folder of a job, its steps and its final model.
 * Purity:    shell (files).
 * Ownership: hsp_folder_close. Messages name the path.
 */
#ifndef HSP_FOLDER_H
#define HSP_FOLDER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

#define HSP_FOLDER_PATH 4096

struct hsp_folder {
    int fd;
    char path[HSP_FOLDER_PATH]; /* for messages */
};

/* Opens the folder @path; its last name may not be a link. @create: makes missing folders, also
 * above it, and syncs the folder above each. HSP_ENOENT; HSP_EPERM: also a link, the message names
 * the remedy; HSP_ELIMIT, HSP_ENOSPC, HSP_EIO, HSP_ENOMEM. *ret is closed after a failure. */
enum hsp_status hsp_folder_open(const char *path, bool create, struct hsp_folder *ret,
                                struct hsp_err *err);
/* Opens the folder @name in @in. @create and errors as above. */
enum hsp_status hsp_folder_open_in(const struct hsp_folder *in, const char *name, bool create,
                                   struct hsp_folder *ret, struct hsp_err *err);
void hsp_folder_close(struct hsp_folder *f); /* also of one that is closed */
enum hsp_status hsp_folder_sync(const struct hsp_folder *f, struct hsp_err *err);

/* Reads the regular file @name, not through a link. @ret: free(), a NUL behind the bytes.
 * HSP_ELIMIT: longer than @max; HSP_EDIGEST: a pipe, a device or a folder; errors of reading. */
enum hsp_status hsp_folder_read(const struct hsp_folder *f, const char *name, size_t max,
                                uint8_t **ret, size_t *ret_len, struct hsp_err *err);
/* Writes NAME.part, syncs it and renames it to @name: whole or not at all. */
enum hsp_status hsp_folder_write(const struct hsp_folder *f, const char *name, const void *data,
                                 size_t len, struct hsp_err *err);
/* Renames @from to @to and syncs. A file or an empty folder @to is replaced, another folder is an
 * error. */
enum hsp_status hsp_folder_rename(const struct hsp_folder *f, const char *from, const char *to,
                                  struct hsp_err *err);
/* As hsp_folder_rename, without the sync: an error means that nothing was renamed. */
enum hsp_status hsp_folder_move(const struct hsp_folder *f, const char *from, const char *to,
                                struct hsp_err *err);
/* Deletes the folder @name with its files, the file @first before the others. After an error with
 * one file the others are still deleted; the first error is returned. No error when there is no
 * folder. */
enum hsp_status hsp_folder_remove(const struct hsp_folder *f, const char *name, const char *first,
                                  struct hsp_err *err);
/* Deletes the folder @in, open as @name, whose owner the caller has found. Another folder that has
 * the name by now stays: HSP_EIO then. */
enum hsp_status hsp_folder_remove_open(const struct hsp_folder *f, const struct hsp_folder *in,
                                       const char *name, const char *first, struct hsp_err *err);
/* Renames @from to @to, or to the first free name of TO-2, TO-3 .. TO-999, and syncs. @to has room
 * for @cap bytes, and holds that name then. HSP_EEXIST: none is free; HSP_ELIMIT; errors of
 * renaming. */
enum hsp_status hsp_folder_set_aside(const struct hsp_folder *f, const char *from, char *to,
                                     size_t cap, struct hsp_err *err);
/* Returns true if @name in the open folder @at is a folder, and no link to one. */
bool hsp_is_folder(int at, const char *name);
/* Calls @fn with each name in the folder but "." and ".."; false from @fn ends the calls.
 * HSP_EIO: the folder could not be read to its end, so @fn has not seen all names. */
typedef bool hsp_folder_fn(void *ctx, const char *name);
enum hsp_status hsp_folder_each(const struct hsp_folder *f, hsp_folder_fn *fn, void *ctx,
                                struct hsp_err *err);

#endif
