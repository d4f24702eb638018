/* Opens a folder that others may have replaced, and works on the files in it, following no link.
 *
 * Example: checkpoint.path is /srv/ckpt, the job mist. /srv/ckpt may be reached through links, the
 * administrator named it; /srv/ckpt/mist may not be one: who can write to /srv/ckpt could have us
 * write to, and delete from, any folder of our user. All names are looked up in the open folder, so
 * nothing changes by a link that is put there later.
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

/* Opens @path, whose last name is not followed where it is a link; with @create, makes it and those
 * above it if need be. HSP_ENOENT; HSP_EPERM: also a link, says what to do; HSP_ELIMIT, HSP_ENOSPC,
 * HSP_EIO, HSP_ENOMEM. *ret is closed after a failure. */
enum hsp_status hsp_folder_open(const char *path, bool create, struct hsp_folder *ret,
                                struct hsp_err *err);
/* The same for the folder @name in @in. */
enum hsp_status hsp_folder_open_in(const struct hsp_folder *in, const char *name, bool create,
                                   struct hsp_folder *ret, struct hsp_err *err);
void hsp_folder_close(struct hsp_folder *f); /* also of one that is closed */
enum hsp_status hsp_folder_sync(const struct hsp_folder *f, struct hsp_err *err);

/* Reads the file @name, a link is none. @ret: free(), a NUL behind. HSP_ELIMIT: above @max. */
enum hsp_status hsp_folder_read(const struct hsp_folder *f, const char *name, size_t max,
                                uint8_t **ret, size_t *ret_len, struct hsp_err *err);
/* Writes NAME.part, syncs it and renames it to @name: whole or not at all. */
enum hsp_status hsp_folder_write(const struct hsp_folder *f, const char *name, const void *data,
                                 size_t len, struct hsp_err *err);
/* Renames @from to @to, replacing what is no folder there, and syncs. */
enum hsp_status hsp_folder_rename(const struct hsp_folder *f, const char *from, const char *to,
                                  struct hsp_err *err);
/* Deletes the folder @name with its files, @first of them first. What cannot be deleted keeps
 * nothing else: the first error is returned. No error when it is not there. */
enum hsp_status hsp_folder_remove(const struct hsp_folder *f, const char *name, const char *first,
                                  struct hsp_err *err);
/* Calls @fn with each name in it but "." and ".."; false ends it. */
typedef bool hsp_folder_fn(void *ctx, const char *name);
enum hsp_status hsp_folder_each(const struct hsp_folder *f, hsp_folder_fn *fn, void *ctx,
                                struct hsp_err *err);

#endif
