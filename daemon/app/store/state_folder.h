/* Opens the folder of a cluster's state, and refuses one that is not: an hspmdd with an empty
 * folder would take itself for a new cluster.
 *
 * Purity:  shell (files).
 * Rules:   a folder with a store is opened. One without becomes a new cluster only by --init, which
 *          also makes the folder, or when it is empty and systemd has made it for this service
 *          ($STATE_DIRECTORY). Nothing else is ever made. A folder with nothing but the lost+found
 *          of a file system, or the rest of a killed first start (first_store.h), is empty. Root is
 *          refused in the folder of another user: an hspmdd of that user could not read the files
 *          that root makes.
 * Example: state_dir /var/lib/hspmdd, a typo for /var/lib/hspmd, is not there: hspmdd says so and
 *          ends, and training goes on without it.
 */
#ifndef HSP_STATE_FOLDER_H
#define HSP_STATE_FOLDER_H
#include <stdbool.h>
#include <sys/stat.h>

#include "proto/base/err.h"

struct hsp_state_folder {
    int lock_fd;  /* owned: one hspmdd per folder; -1 none */
    int store_fd; /* owned: one hspmdd per store, under all links to it; -1 none */
    bool fresh;   /* a new cluster begins here, if the store has no rows */
    bool store;   /* there is one; else hsp_first_store makes it */
    bool given;   /* by systemd: that is worth a line */
};

/* @init: --init was given. @service: $STATE_DIRECTORY, NULL none. *ret must be closed, on failure
 * too. HSP_ENOENT: no store here; HSP_EEXIST: another hspmdd uses the folder or its store;
 * HSP_EPERM: also root in the folder of another user; HSP_EIO. The message names the folder, the
 * reason and the remedy. */
enum hsp_status hsp_state_folder_open(const char *dir, bool init, const char *service,
                                      struct hsp_state_folder *ret, struct hsp_err *err);
/* Locks a folder into which a store is to be restored: the folder may have no store, and nothing is
 * made. */
enum hsp_status hsp_state_folder_lock(const char *dir, struct hsp_state_folder *ret,
                                      struct hsp_err *err);
/* Locks a store that was made or replaced in the folder after hsp_state_folder_open or _lock. (A
 * store that these calls find is locked by them.) HSP_EEXIST, HSP_EPERM, HSP_EIO. */
enum hsp_status hsp_state_folder_lock_store(const char *dir, struct hsp_state_folder *f,
                                            struct hsp_err *err);
/* Decides whether the store that is open, @mine of fstat, is the file at its path: @at of stat,
 * unless that failed with errno @no. HSP_ENOENT: another file is there, or none, and the next start
 * would not have the rows written now; the message names the event and the way out, and goes
 * behind the path. Pure. */
enum hsp_status hsp_store_in_place(const struct stat *mine, int no, const struct stat *at,
                                   struct hsp_err *err);
/* Checks whether the store of @f is still state.db in @dir. It opens no file, since closing that
 * file would drop SQLite's locks. */
enum hsp_status hsp_state_folder_check(const char *dir, const struct hsp_state_folder *f,
                                       struct hsp_err *err);
/* Closes the files, so that the kernel drops the locks. It drops SQLite's locks on the same file
 * too, so the store must be closed before. */
void hsp_state_folder_close(struct hsp_state_folder *f);

#endif
