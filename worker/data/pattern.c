#include "worker/data/pattern.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/base/vec.h"

struct walk {
    char path[PATH_MAX]; /* so far: a folder or the file */
    size_t max;
    struct hsp_names *names;
    struct hsp_err *err;
};

bool hsp_is_pattern(const char *path)
{
    return strpbrk(path, "*?[") != NULL;
}

/* Puts @n bytes behind the first @len of the path. */
static enum hsp_status append(struct walk *w, size_t len, const char *text, size_t n)
{
    if (n >= sizeof(w->path) - len) {
        return hsp_err_set(w->err, HSP_ELIMIT, 0, "a path is longer than %zu bytes",
                           sizeof(w->path) - 1);
    }
    memcpy(w->path + len, text, n);
    w->path[len + n] = '\0';
    return HSP_OK;
}

static enum hsp_status add_name(struct walk *w)
{
    struct hsp_names *l = w->names;
    if (!hsp_grow(&l->name, &l->cap, l->n + 1, sizeof(*l->name), w->max)) {
        return hsp_grow_error(l->n + 1, w->max, "files", w->err);
    }
    char *name = strdup(w->path);
    if (name == NULL) {
        return hsp_err_nomem(w->err, "the names of files");
    }
    l->name[l->n++] = name;
    return HSP_OK;
}

/* A folder that is not there, or none, or not for us, has no files of ours. */
static enum hsp_status unread(struct walk *w, int e)
{
    switch (e) {
    case ENOENT:
    case ENOTDIR:
    case EACCES:
    case ELOOP:
    case ENAMETOOLONG: return HSP_OK;
    case ENOMEM: return hsp_err_nomem(w->err, "the names of files");
    default: return hsp_err_set(w->err, HSP_EIO, e, "cannot list %s", w->path);
    }
}

/* The first part of @rest, behind the first @len bytes of the path, and all that follow. */
static enum hsp_status expand(struct walk *w, size_t len, char *rest);

/* The path is complete up to @len; NULL: and there is no more of it. */
static enum hsp_status go_on(struct walk *w, size_t len, char *rest)
{
    enum hsp_status st = rest != NULL ? append(w, len, "/", 1) : add_name(w);
    return st == HSP_OK && rest != NULL ? expand(w, len + 1, rest) : st;
}

/* A part that stands for itself, but for \. */
static enum hsp_status go_literal(struct walk *w, size_t len, const char *part, char *rest)
{
    struct stat sb;
    enum hsp_status st = HSP_OK;
    for (; st == HSP_OK && *part != '\0'; part++) {
        part += part[0] == '\\' && part[1] != '\0';
        st = append(w, len++, part, 1);
    }
    if (st == HSP_OK && rest == NULL && lstat(w->path, &sb) != 0) {
        return unread(w, errno);
    }
    return st == HSP_OK ? go_on(w, len, rest) : st;
}

/* A part that is compared with the names in the folder. */
static enum hsp_status go_wild(struct walk *w, size_t len, const char *part, char *rest)
{
    DIR *d = opendir(len > 0 ? w->path : ".");
    struct dirent *e;
    enum hsp_status st = HSP_OK;
    if (d == NULL) {
        return unread(w, errno);
    }
    for (errno = 0; st == HSP_OK && (e = readdir(d)) != NULL; errno = 0) {
        size_t n = strlen(e->d_name);
        int rc = fnmatch(part, e->d_name, FNM_PERIOD);
        if (rc == FNM_NOMATCH) {
            continue;
        }
        st = rc == 0 ? append(w, len, e->d_name, n) : hsp_err_nomem(w->err, "the names of files");
        st = st == HSP_OK ? go_on(w, len + n, rest) : st;
    }
    if (st == HSP_OK && errno != 0) {
        st = hsp_err_set(w->err, HSP_EIO, errno, "cannot list %.*s", (int)len, w->path);
    }
    (void)closedir(d); /* read only */
    return st;
}

static enum hsp_status expand(struct walk *w, size_t len, char *rest)
{
    size_t slashes = strspn(rest, "/");
    char *part = rest + slashes, *end = part + strcspn(part, "/");
    enum hsp_status st = append(w, len, rest, slashes);
    if (st != HSP_OK || part == end) { /* a slash at the end: that is no file */
        return st;
    }
    char *next = *end == '/' ? end + 1 : NULL;
    *end = '\0';
    st = hsp_is_pattern(part) ? go_wild(w, len + slashes, part, next)
                              : go_literal(w, len + slashes, part, next);
    if (next != NULL) {
        *end = '/';
    }
    return st;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum hsp_status hsp_pattern_files(const char *pattern, size_t max, struct hsp_names *ret,
                                  struct hsp_err *err)
{
    struct hsp_names names = {0};
    struct walk w = {.max = max, .names = &names, .err = err};
    char *parts = strdup(pattern);
    enum hsp_status st =
        parts != NULL ? expand(&w, 0, parts) : hsp_err_nomem(err, "the names of files");
    free(parts);
    if (st != HSP_OK) {
        hsp_names_free(&names);
    } else if (names.n > 0) {
        qsort(names.name, names.n, sizeof(*names.name), by_name);
    }
    *ret = names;
    return st;
}

void hsp_names_free(struct hsp_names *n)
{
    for (size_t i = 0; i < n->n; i++) {
        free(n->name[i]);
    }
    free(n->name);
    *n = (struct hsp_names){0};
}
