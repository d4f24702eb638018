/* Makes the store of a new cluster, whole or not at all.
 *
 * Purity:  shell (files).
 * Example: hspmdd --init. The rows that say which cluster this is are written to .first-store.db,
 *          which then becomes state.db. Killed at any moment before, hspmdd has left no state.db,
 *          and the next start begins again.
 * Crash:   before the name is changed there is no store, after that a whole one: a state.db without
 *          rows is damaged.
 */
#ifndef HSP_FIRST_STORE_H
#define HSP_FIRST_STORE_H
#include <stdbool.h>
#include <stddef.h>

#include "daemon/app/store/store.h"

/* @dir: a state folder without a store that is locked by this process. Empty files of the names of
 * a store and its journals go. HSP_EEXIST: a journal that holds something, or another kind of file,
 * is in the place; HSP_EPERM, HSP_ENOSPC, HSP_EIO. */
enum hsp_status hsp_first_store(const char *dir, const struct hsp_store_row *rows, size_t n,
                                struct hsp_err *err);
/* True when the file @name of @dir is the rest of a killed first start: of the unfinished store, or
 * empty. */
bool hsp_first_store_left(const char *dir, const char *name);
/* Removes the store that a killed start was making in @dir, which is locked by this process. */
void hsp_first_store_tidy(const char *dir);

#endif
