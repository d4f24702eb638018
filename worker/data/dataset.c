#include "worker/data/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h> /* PRIu64 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/le.h"

/* ---- one file ---- */

static enum hsp_status map_fd(int fd, const char *path, struct hsp_data_bytes *ret,
                              struct hsp_err *err)
{
    struct stat sb;
    if (fstat(fd, &sb) != 0) {
        return hsp_err_set(err, HSP_EIO, errno, "%s", path);
    }
    if (!S_ISREG(sb.st_mode) || sb.st_size <= 0 || (uint64_t)sb.st_size > HSP_MAX_DATA_BYTES) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%s is not a data file of 1 to %" PRIu64 " bytes",
                           path, HSP_MAX_DATA_BYTES);
    }
    void *p = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        return hsp_err_set(err, HSP_EIO, errno, "cannot map %s", path);
    }
    *ret = (struct hsp_data_bytes){p, (size_t)sb.st_size};
    return HSP_OK;
}

static enum hsp_status map_file(const char *path, struct hsp_data_bytes *ret, struct hsp_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        enum hsp_status code = errno == ENOENT ? HSP_ENOENT : errno == EACCES ? HSP_EPERM : HSP_EIO;
        return hsp_err_set(err, code, errno, "cannot read %s", path);
    }
    enum hsp_status st = map_fd(fd, path, ret, err);
    (void)close(fd); /* read-only: nothing can be lost */
    return st;
}

static void unmap(struct hsp_data_bytes *b)
{
    if (b->data != NULL) {
        (void)munmap((void *)(uintptr_t)b->data, b->n);
    }
}

/* The length of @path without the ending .bin or .idx. */
static size_t stem(const char *path)
{
    size_t n = strlen(path);
    bool ending = n > 4 && (strcmp(path + n - 4, ".bin") == 0 || strcmp(path + n - 4, ".idx") == 0);
    return ending ? n - 4 : n;
}

static enum hsp_status read_format(enum hsp_data_format format, struct hsp_data_file *f,
                                   struct hsp_err *err)
{
    switch (format) {
    case HSP_DATA_TEXT:
        f->tokens = (struct hsp_token_span){.type = HSP_TOKEN_U8, .n = f->all.n};
        return HSP_OK;
    case HSP_DATA_LLMC: return hsp_llmc_parse(f->all.data, f->all.n, f->all.n, &f->tokens, err);
    case HSP_DATA_NANOGPT: return hsp_nanogpt_parse(f->all.n, &f->tokens, err);
    case HSP_DATA_MEGATRON: break;
    }
    enum hsp_status st = hsp_megatron_parse(f->idx.data, f->idx.n, f->all.n, &f->index, err);
    f->tokens = f->index.tokens;
    return st;
}

/* @ret is fit for closing also after an error. */
static enum hsp_status open_file(const char *path, enum hsp_data_format format,
                                 struct hsp_data_file *ret, struct hsp_err *err)
{
    bool megatron = format == HSP_DATA_MEGATRON;
    int len = (int)(megatron ? stem(path) : strlen(path));
    char *idx = NULL;
    if (asprintf(&ret->name, "%.*s%s", len, path, megatron ? ".bin" : "") < 0) {
        ret->name = NULL;
        return hsp_err_set(err, HSP_ENOMEM, 0, "no memory for the name of %s", path);
    }
    enum hsp_status st = map_file(ret->name, &ret->all, err);
    if (st == HSP_OK && megatron) {
        st = asprintf(&idx, "%.*s.idx", len, path) < 0
                 ? hsp_err_set(err, HSP_ENOMEM, 0, "no memory for the name of %s", path)
                 : map_file(idx, &ret->idx, err);
        free(idx);
    }
    if (st == HSP_OK && (st = read_format(format, ret, err)) != HSP_OK) {
        (void)hsp_err_wrap(err, "%s", ret->name);
    }
    return st;
}

/* ---- the list ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names that @path stands for, sorted, in @ret; globfree() after HSP_OK. */
static enum hsp_status list_files(const char *path, enum hsp_data_format format, glob_t *ret,
                                  struct hsp_err *err)
{
    char *pattern = NULL;
    bool megatron = format == HSP_DATA_MEGATRON;
    int len = (int)(megatron ? stem(path) : strlen(path));
    if (asprintf(&pattern, "%.*s%s", len, path, megatron ? ".idx" : "") < 0) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no memory for the name of %s", path);
    }
    *ret = (glob_t){0};
    int rc = glob(pattern, GLOB_NOSORT, NULL, ret);
    enum hsp_status st = HSP_OK;
    if (rc == GLOB_NOMATCH) {
        st = hsp_err_set(err, HSP_ENOENT, 0, "no file matches %s", pattern);
    } else if (rc != 0) {
        st = hsp_err_set(err, rc == GLOB_NOSPACE ? HSP_ENOMEM : HSP_EIO, errno,
                         "cannot list the files of %s", pattern);
    } else if (ret->gl_pathc > HSP_DATASET_MAX_FILES) {
        st = hsp_err_set(err, HSP_ELIMIT, 0, "%s matches %zu files; %u are read", pattern,
                         ret->gl_pathc, HSP_DATASET_MAX_FILES);
        globfree(ret);
    } else {
        qsort(ret->gl_pathv, ret->gl_pathc, sizeof(*ret->gl_pathv), by_name);
    }
    free(pattern);
    return st;
}

static enum hsp_status open_list(char *const *path, size_t n, enum hsp_data_format format,
                                 struct hsp_dataset *ret, struct hsp_err *err)
{
    struct hsp_dataset d = {.mapped = true, .file = calloc(n, sizeof(*d.file))};
    enum hsp_status st =
        d.file != NULL ? HSP_OK : hsp_err_set(err, HSP_ENOMEM, 0, "no memory for %zu files", n);
    for (size_t i = 0; i < n && st == HSP_OK; i++) {
        struct hsp_data_file *f = &d.file[d.n_files++];
        st = open_file(path[i], format, f, err);
        f->begin = d.n_tokens;
        d.n_tokens += f->tokens.n;
        d.n_bytes += f->all.n + f->idx.n;
    }
    if (st == HSP_OK) {
        *ret = d;
    } else {
        hsp_dataset_close(&d);
    }
    return st;
}

enum hsp_status hsp_dataset_open(const char *path, enum hsp_data_format format,
                                 struct hsp_dataset *ret, struct hsp_err *err)
{
    if (strpbrk(path, "*?[") == NULL) {
        return open_list(&(char *){(char *)(uintptr_t)path}, 1, format, ret, err);
    }
    glob_t names;
    enum hsp_status st = list_files(path, format, &names, err);
    if (st == HSP_OK) {
        st = open_list(names.gl_pathv, names.gl_pathc, format, ret, err);
        globfree(&names);
    }
    return st;
}

void hsp_dataset_close(struct hsp_dataset *d)
{
    for (uint32_t i = 0; i < d->n_files; i++) {
        struct hsp_data_file *f = &d->file[i];
        if (d->mapped) {
            unmap(&f->all);
            unmap(&f->idx);
        } else {
            free((void *)(uintptr_t)f->all.data);
            free((void *)(uintptr_t)f->idx.data);
        }
        free(f->name);
    }
    free(d->file);
    *d = (struct hsp_dataset){0};
}

static void hash_bytes(struct hsp_hasher *h, const struct hsp_data_bytes *b, bool first)
{
    uint8_t size[8];
    hsp_le_put(size, b->n, 8);
    if (!first) {
        hsp_hasher_update(h, size, sizeof(size));
    }
    hsp_hasher_update(h, b->data, b->n);
}

enum hsp_status hsp_dataset_digest(const struct hsp_dataset *d, struct hsp_digest *ret)
{
    struct hsp_hasher *h = hsp_hasher_new();
    if (h == NULL) {
        return HSP_ENOMEM;
    }
    for (uint32_t i = 0; i < d->n_files; i++) {
        hash_bytes(h, &d->file[i].all, i == 0);
        if (d->file[i].idx.data != NULL) {
            hash_bytes(h, &d->file[i].idx, false);
        }
    }
    *ret = hsp_hasher_digest(h);
    (void)hsp_hasher_free(h);
    return HSP_OK;
}
