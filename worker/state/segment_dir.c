/* Scans a folder for segments. The happy path: the head of each file that ends in .seg is read and
 * checked.
 *
 * Possible failure modes: a folder of such a name (passed over: it is none of ours, and holds no
 * state); a damaged head (listed as such, with the key of its name); a copy of a segment under
 * another name (listed as such, or its deletion would hit the original); a file of a creator that
 * died (deleted after a minute); a folder that the disk gives in part, or want of memory (an error:
 * a short list would be believed). */
#include "worker/state/segment_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/vec.h"
#include "worker/state/folder.h"
#include "worker/state/segment.h"
#include "worker/state/segment_free.h"
#include "worker/state/segment_key.h"

#define MAX_FILES 65536 /* slots and copies of all jobs of a node */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static int by_file(const void *a, const void *b)
{
    const struct hsp_segment_info *x = a, *y = b;
    return strcmp(x->file, y->file);
}

/* Fills @i from the head of the segment. HSP_ENOMEM: nothing is known of the segment. */
static enum hsp_status read_info(const char *path, struct hsp_segment_info *i, struct hsp_err *err)
{
    struct hsp_state_segment *s;
    struct hsp_err why = {0};
    struct stat sb;
    i->version = HSP_NO_VERSION;
    i->status = hsp_segment_open_path(path, false, &s, &why);
    if (i->status == HSP_EDIGEST) {
        (void)hsp_segment_key_parse(i->file, &i->key); /* else its owner is not known */
    }
    if (i->status != HSP_OK) {
        return i->status == HSP_ENOMEM ? hsp_err_set(err, HSP_ENOMEM, 0, "%s", why.msg) : HSP_OK;
    }
    if (!hsp_segment_key_names(hsp_segment_key_of(s), i->file)) {
        i->status = HSP_EINVAL;
        hsp_segment_close(s);
        return HSP_OK;
    }
    i->key = *hsp_segment_key_of(s);
    i->whose = hsp_segment_whose(s);
    i->version = hsp_segment_version(s);
    i->content = i->version != HSP_NO_VERSION ? hsp_segment_content(s) : 0;
    i->file_bytes = stat(path, &sb) == 0 ? (uint64_t)sb.st_size : 0;
    hsp_segment_close(s);
    return HSP_OK;
}

/* Opens @dir for reading names. */
static enum hsp_status open_dir(const char *dir, DIR **ret, struct hsp_err *err)
{
    *ret = opendir(dir);
    if (*ret == NULL) {
        int e = errno;
        bool want = e == ENOMEM || e == EMFILE || e == ENFILE;
        enum hsp_status code = e == ENOENT ? HSP_ENOENT : want ? HSP_ENOMEM : HSP_EIO;
        return hsp_err_set(err, code, e, "state directory %s", dir);
    }
    return HSP_OK;
}

/* Returns the next name of a folder, NULL at its end. An error of the disk is not the end: NULL,
 * and *st is set. */
static const struct dirent *next_name(DIR *d, const char *dir, enum hsp_status *st,
                                      struct hsp_err *err)
{
    errno = 0;
    const struct dirent *e = readdir(d);
    if (e == NULL && errno != 0) {
        *st = hsp_err_set(err, HSP_EIO, errno, "state directory %s", dir);
    }
    return e;
}

/* The path of @file in @dir. HSP_ELIMIT. */
static enum hsp_status path_of(const char *dir, const char *file, char ret[HSP_SEGMENT_PATH],
                               struct hsp_err *err)
{
    return snprintf(ret, HSP_SEGMENT_PATH, "%s/%s", dir, file) < HSP_SEGMENT_PATH
               ? HSP_OK
               : hsp_err_set(err, HSP_ELIMIT, 0, "path of %s is too long", file);
}

enum hsp_status hsp_segment_scan(const char *dir, struct hsp_segment_info **ret, size_t *ret_n,
                                 struct hsp_err *err)
{
    struct hsp_segment_info *list = NULL;
    size_t n = 0, cap = 0;
    DIR *d;
    const struct dirent *e;
    enum hsp_status st = open_dir(dir, &d, err);
    if (st != HSP_OK) {
        return st;
    }
    while (st == HSP_OK && (e = next_name(d, dir, &st, err)) != NULL) {
        char path[HSP_SEGMENT_PATH];
        if (!ends_with(e->d_name, ".seg") || hsp_is_folder(dirfd(d), e->d_name)) {
            continue;
        }
        st = path_of(dir, e->d_name, path, err);
        if (st == HSP_OK && !hsp_grow(&list, &cap, n + 1, sizeof(*list), MAX_FILES)) {
            st = hsp_grow_error(n + 1, MAX_FILES, "state segments", err);
        } else if (st == HSP_OK) {
            (void)snprintf(list[n].file, sizeof(list[n].file), "%s", e->d_name);
            st = read_info(path, &list[n++], err);
        }
    }
    (void)closedir(d); /* read only */
    if (st != HSP_OK) {
        free(list);
        return st;
    }
    if (n > 0) {
        qsort(list, n, sizeof(*list), by_file);
    }
    *ret = list;
    *ret_n = n;
    return HSP_OK;
}

enum hsp_status hsp_segment_remove(const char *dir, const struct hsp_segment_key *key,
                                   struct hsp_err *err)
{
    char path[HSP_SEGMENT_PATH], tmp[HSP_SEGMENT_PATH];
    struct hsp_segment_key k;
    enum hsp_status st = hsp_segment_normal_key(key, &k, err);
    if (st == HSP_OK) {
        st = hsp_segment_paths(dir, &k, path, tmp, err);
    }
    if (st == HSP_OK && hsp_segment_unlink(dir, path) != 0 && errno != ENOENT) {
        st = hsp_err_set(err, HSP_EIO, errno, "cannot remove %s", path);
    }
    return st;
}

/* The key of NAME.seg, where @file is NAME.tmp. */
static bool unfinished_key(const char *file, struct hsp_segment_key *ret)
{
    char name[HSP_SEGMENT_FILE];
    size_t n = strlen(file);
    if (!ends_with(file, ".tmp") || n >= sizeof name) {
        return false;
    }
    memcpy(name, file, n + 1);
    memcpy(name + n - 4, ".seg", 4);
    return hsp_segment_key_parse(name, ret);
}

enum hsp_status hsp_segment_remove_unfinished(const char *dir, hsp_segment_filter *which,
                                              const void *ctx, struct hsp_err *err)
{
    DIR *d;
    const struct dirent *e;
    enum hsp_status st = open_dir(dir, &d, err);
    if (st != HSP_OK) {
        return st;
    }
    while (st == HSP_OK && (e = next_name(d, dir, &st, err)) != NULL) {
        char path[HSP_SEGMENT_PATH];
        struct hsp_segment_key key;
        if (!unfinished_key(e->d_name, &key) || hsp_is_folder(dirfd(d), e->d_name) ||
            (which != NULL && !which(&key, ctx))) {
            continue;
        }
        st = path_of(dir, e->d_name, path, err);
        if (st == HSP_OK && hsp_segment_unlink(dir, path) != 0 && errno != ENOENT) {
            st = hsp_err_set(err, HSP_EIO, errno, "cannot remove %s", path);
        }
    }
    (void)closedir(d); /* read only */
    return st;
}
