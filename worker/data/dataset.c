#include "worker/data/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h> /* PRIu64 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/data/pattern.h"

/* ---- one file ---- */

static struct hsp_file_id file_id(const struct stat *sb)
{
    return (struct hsp_file_id){
        .dev = (uint64_t)sb->st_dev,
        .ino = (uint64_t)sb->st_ino,
        .bytes = (uint64_t)sb->st_size,
        .mtime_ns = (int64_t)sb->st_mtim.tv_sec * 1000000000 + sb->st_mtim.tv_nsec,
        .ctime_ns = (int64_t)sb->st_ctim.tv_sec * 1000000000 + sb->st_ctim.tv_nsec};
}

/* Without memory nothing is known of the file. */
static enum hsp_status status_of(int e)
{
    return e == ENOENT                                 ? HSP_ENOENT
           : e == EACCES                               ? HSP_EPERM
           : e == ENOMEM || e == EMFILE || e == ENFILE ? HSP_ENOMEM
                                                       : HSP_EIO;
}

static enum hsp_status map_fd(int fd, const char *path, struct hsp_data_bytes *ret,
                              struct hsp_err *err)
{
    struct stat sb;
    if (fstat(fd, &sb) != 0) {
        return hsp_err_set(err, status_of(errno), errno, "%s", path);
    }
    if (!S_ISREG(sb.st_mode) || sb.st_size <= 0 || (uint64_t)sb.st_size > HSP_MAX_DATA_BYTES) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%s is not a data file of 1 to %" PRIu64 " bytes",
                           path, HSP_MAX_DATA_BYTES);
    }
    void *p = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        return hsp_err_set(err, status_of(errno), errno, "cannot map %s", path);
    }
    *ret = (struct hsp_data_bytes){p, (size_t)sb.st_size, file_id(&sb), fd};
    return HSP_OK;
}

static enum hsp_status map_file(const char *path, struct hsp_data_bytes *ret, struct hsp_err *err)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); /* a pipe is refused */
    if (fd < 0) {
        return hsp_err_set(err, status_of(errno), errno, "cannot read %s", path);
    }
    enum hsp_status st = map_fd(fd, path, ret, err);
    if (st != HSP_OK) {
        (void)close(fd); /* read-only: nothing can be lost */
    }
    return st;
}

static void unmap(struct hsp_data_bytes *b)
{
    if (b->data != NULL) {
        (void)munmap((void *)(uintptr_t)b->data, b->n);
        (void)close(b->fd); /* read-only: nothing can be lost */
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

/* The names of the file of tokens and, for Megatron (else NULL), its index; free() both. False:
 * no memory. */
static bool file_names(const char *path, enum hsp_data_format format, char **ret_all,
                       char **ret_idx)
{
    bool megatron = format == HSP_DATA_MEGATRON;
    int len = (int)(megatron ? stem(path) : strlen(path));
    *ret_idx = NULL;
    if (asprintf(ret_all, "%.*s%s", len, path, megatron ? ".bin" : "") < 0) {
        *ret_all = NULL;
        return false;
    }
    if (megatron && asprintf(ret_idx, "%.*s.idx", len, path) < 0) {
        *ret_idx = NULL;
        return false;
    }
    return true;
}

/* @ret is fit for closing also after an error. */
static enum hsp_status open_file(const char *path, enum hsp_data_format format,
                                 struct hsp_data_file *ret, struct hsp_err *err)
{
    char *idx = NULL;
    enum hsp_status st = file_names(path, format, &ret->name, &idx)
                             ? map_file(ret->name, &ret->all, err)
                             : hsp_err_nomem(err, "the name of %s", path);
    if (st == HSP_OK && idx != NULL) {
        st = map_file(idx, &ret->idx, err);
    }
    free(idx);
    if (st == HSP_OK && (st = read_format(format, ret, err)) != HSP_OK) {
        (void)hsp_err_wrap(err, "%s", ret->name);
    }
    return st;
}

/* ---- the list ---- */

/* Files that @path stands for, in order; hsp_names_free. */
static enum hsp_status list_files(const char *path, enum hsp_data_format format,
                                  struct hsp_names *ret, struct hsp_err *err)
{
    char *pattern = NULL;
    bool megatron = format == HSP_DATA_MEGATRON;
    int len = (int)(megatron ? stem(path) : strlen(path));
    if (asprintf(&pattern, "%.*s%s", len, path, megatron ? ".idx" : "") < 0) {
        return hsp_err_nomem(err, "the name of %s", path);
    }
    enum hsp_status st = hsp_pattern_files(pattern, HSP_DATASET_MAX_FILES, ret, err);
    if (st != HSP_OK) {
        (void)hsp_err_wrap(err, "%s", pattern);
    } else if (ret->n == 0) {
        st = hsp_err_set(err, HSP_ENOENT, 0, "no file matches %s", pattern);
    }
    free(pattern);
    return st;
}

static enum hsp_status open_list(char *const *path, size_t n, enum hsp_data_format format,
                                 struct hsp_dataset *ret, struct hsp_err *err)
{
    struct hsp_dataset d = {.mapped = true, .file = calloc(n, sizeof(*d.file))};
    enum hsp_status st = d.file != NULL ? HSP_OK : hsp_err_nomem(err, "%zu files", n);
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
    if (!hsp_is_pattern(path)) {
        return open_list(&(char *){(char *)(uintptr_t)path}, 1, format, ret, err);
    }
    struct hsp_names names = {0};
    enum hsp_status st = list_files(path, format, &names, err);
    if (st == HSP_OK) {
        st = open_list(names.name, names.n, format, ret, err);
    }
    hsp_names_free(&names);
    return st;
}

static bool same_bytes(const char *path, const struct hsp_data_bytes *b)
{
    struct stat sb;
    if (stat(path, &sb) != 0) {
        return false;
    }
    struct hsp_file_id now = file_id(&sb);
    return now.dev == b->id.dev && now.ino == b->id.ino && now.bytes == b->id.bytes &&
           now.mtime_ns == b->id.mtime_ns && now.ctime_ns == b->id.ctime_ns;
}

static bool same_list(const struct hsp_dataset *d, char *const *path, size_t n,
                      enum hsp_data_format format)
{
    bool same = d->mapped && d->n_files == n;
    for (size_t i = 0; i < n && same; i++) {
        char *all = NULL, *idx = NULL;
        same = file_names(path[i], format, &all, &idx) && strcmp(all, d->file[i].name) == 0 &&
               same_bytes(all, &d->file[i].all) && (idx != NULL) == (d->file[i].idx.n > 0) &&
               (idx == NULL || same_bytes(idx, &d->file[i].idx));
        free(all);
        free(idx);
    }
    return same;
}

bool hsp_dataset_is(const struct hsp_dataset *d, const char *path, enum hsp_data_format format)
{
    if (!hsp_is_pattern(path)) {
        return same_list(d, &(char *){(char *)(uintptr_t)path}, 1, format);
    }
    struct hsp_names names = {0};
    bool same = list_files(path, format, &names, NULL) == HSP_OK &&
                same_list(d, names.name, names.n, format);
    hsp_names_free(&names);
    return same;
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
    free(d->start);
    *d = (struct hsp_dataset){0};
}

static enum hsp_status look_at_file(const char *name, const struct hsp_data_bytes *b,
                                    struct hsp_err *err)
{
    struct stat sb;
    if (b->data == NULL) {
        return HSP_OK;
    }
    if (fstat(b->fd, &sb) != 0) {
        return hsp_err_set(err, HSP_ESTALE, errno, "%s cannot be looked at", name);
    }
    struct hsp_file_id now = file_id(&sb);
    if (now.bytes == b->id.bytes && now.mtime_ns == b->id.mtime_ns) {
        return HSP_OK;
    }
    if (now.bytes == b->id.bytes) {
        return hsp_err_set(
            err, HSP_ESTALE, 0,
            "%s has changed while the job reads it: it was written again, with %" PRIu64
            " bytes as before; the job continues when the file is restored",
            name, now.bytes);
    }
    return hsp_err_set(err, HSP_ESTALE, 0,
                       "%s has changed while the job reads it: it has %" PRIu64
                       " bytes and had %" PRIu64 "; the job continues when the file is restored",
                       name, now.bytes, b->id.bytes);
}

enum hsp_status hsp_dataset_look(const struct hsp_dataset *d, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 0; d->mapped && st == HSP_OK && i < d->n_files; i++) {
        const struct hsp_data_file *f = &d->file[i];
        st = look_at_file(f->name, &f->all, err);
        st = st == HSP_OK ? look_at_file(f->name, &f->idx, err) : st;
    }
    return st;
}

static int64_t later(int64_t ns, const struct hsp_file_id *id)
{
    ns = id->mtime_ns > ns ? id->mtime_ns : ns;
    return id->ctime_ns > ns ? id->ctime_ns : ns;
}

int64_t hsp_dataset_changed_ns(const struct hsp_dataset *d)
{
    int64_t newest = INT64_MIN;
    for (uint32_t i = 0; i < d->n_files; i++) {
        newest = later(newest, &d->file[i].all.id);
        newest = d->file[i].idx.data != NULL ? later(newest, &d->file[i].idx.id) : newest;
    }
    return newest;
}
