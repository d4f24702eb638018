#include "daemon/app/store/first_store.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/app/store/store_files.h"
#include "proto/base/size.h"

#define NEW_NAME   ".first-store.db"
#define STORE_NAME "state.db"

/* Behind the name of a store. The last one is an index of the journal, and holds
 * nothing of its own. */
static const char *const ends[] = {"", "-wal", "-journal", "-shm"};

/* True when @name is that of @store or of a journal of it; *ret_end: which. */
static bool is_of(const char *name, const char *store, const char **ret_end)
{
    size_t n = strlen(store);
    for (size_t i = 0; i < HSP_ARRAY_LEN(ends); i++) {
        if (strncmp(name, store, n) == 0 && strcmp(name + n, ends[i]) == 0) {
            *ret_end = ends[i];
            return true;
        }
    }
    return false;
}

static bool holds_nothing(const struct stat *sb, const char *end)
{
    return S_ISREG(sb->st_mode) && (sb->st_size == 0 || strcmp(end, "-shm") == 0);
}

bool hsp_first_store_left(const char *dir, const char *name)
{
    char store[PATH_MAX], path[PATH_MAX];
    const char *end;
    struct stat sb;
    if (is_of(name, NEW_NAME, &end)) {
        return true;
    }
    return is_of(name, STORE_NAME, &end) && hsp_store_path(store, dir, "/" STORE_NAME) &&
           hsp_store_path(path, store, end) && lstat(path, &sb) == 0 && holds_nothing(&sb, end);
}

void hsp_first_store_tidy(const char *dir)
{
    char path[PATH_MAX];
    if (hsp_store_path(path, dir, "/" NEW_NAME)) {
        hsp_store_remove(path);
    }
}

/* A journal that is left beside the new store would be read into it. */
static enum hsp_status clear_place(const char *store, struct hsp_err *err)
{
    char path[PATH_MAX];
    struct stat sb;
    for (size_t i = 0; i < HSP_ARRAY_LEN(ends); i++) {
        if (!hsp_store_path(path, store, ends[i])) {
            return hsp_err_set(err, HSP_ELIMIT, 0, "state_dir is too long");
        }
        if (lstat(path, &sb) != 0) {
            continue;
        }
        if (!holds_nothing(&sb, ends[i])) {
            return hsp_err_set(err, HSP_EEXIST, 0,
                               "%s exists, and its store does not: mount or put back the store "
                               "that belongs to it, or move the file away",
                               path);
        }
        if (unlink(path) != 0) {
            return hsp_store_file_error("cannot remove", path, err);
        }
    }
    return HSP_OK;
}

static enum hsp_status write_rows(const char *path, const struct hsp_store_row *rows, size_t n,
                                  struct hsp_err *err)
{
    struct hsp_store *s = NULL;
    enum hsp_status st = hsp_store_open(path, &s, err);
    st = st == HSP_OK ? hsp_store_apply(s, rows, n, NULL, 0, err) : st;
    (void)hsp_store_close(s);
    return st == HSP_OK ? hsp_store_all_in_file(path, err) : st;
}

enum hsp_status hsp_first_store(const char *dir, const struct hsp_store_row *rows, size_t n,
                                struct hsp_err *err)
{
    char new[PATH_MAX], store[PATH_MAX];
    if (!hsp_store_path(new, dir, "/" NEW_NAME) || !hsp_store_path(store, dir, "/" STORE_NAME)) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "state_dir is too long");
    }
    hsp_first_store_tidy(dir);
    enum hsp_status st = clear_place(store, err);
    st = st == HSP_OK ? write_rows(new, rows, n, err) : st;
    if (st == HSP_OK && rename(new, store) != 0) {
        st = hsp_store_file_error("cannot rename", new, err);
    }
    if (st != HSP_OK) {
        hsp_first_store_tidy(dir);
        return st == HSP_ENOSPC ? hsp_store_no_room(err) : st;
    }
    return hsp_store_sync_folder(dir, err);
}
