/* Writes safetensors files: zeros stand in place of the sums until all tensors are there. */
#include "worker/state/safetensors_write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/map.h"
#include "worker/state/folder.h"
#include "worker/state/io_error.h"
#include "worker/state/json_text.h"
#include "worker/state/part_sums.h"

#define SYNC_BYTES ((size_t)16 << 20) /* written: so the sync at the end waits for no more */
#define DATA_ALIGN \
    64 /* of the data section in the file, so that a mapping is aligned for kernels */

/* A file by its name in an open folder; for messages by its path. */
struct name {
    int at; /* AT_FDCWD: name is the path */
    const char *name, *path;
};

struct hsp_st_writer {
    int fd;
    int at;            /* its folder, open until the end; AT_FDCWD */
    char *name, *path; /* owned */
    size_t n;
    uint64_t data_start; /* file offset of the data section */
    uint64_t *begin, *end;
    uint8_t *dtype;
    struct hsp_part_sums sums;
    uint64_t sums_at; /* file offset of their text */
    size_t unsynced;  /* bytes */
};

static enum hsp_status write_all(int fd, const void *data, size_t n, uint64_t at)
{
    const uint8_t *p = data;
    while (n > 0) {
        ssize_t k = pwrite(fd, p, n, (off_t)at);
        if (k < 0 && errno == EINTR) {
            continue;
        }
        if (k <= 0) {
            return HSP_EIO;
        }
        p += k;
        at += (uint64_t)k;
        n -= (size_t)k;
    }
    return HSP_OK;
}

static const char *dtype_text(enum hsp_dtype t)
{
    switch (t) {
    case HSP_F32: return "F32";
    case HSP_F64: return "F64";
    case HSP_I32: return "I32";
    case HSP_BF16: return "BF16";
    }
    return "?";
}

static bool add_tensor(cJSON *root, const struct hsp_st_entry *e)
{
    cJSON *t = cJSON_AddObjectToObject(root, e->name);
    if (t == NULL || cJSON_AddStringToObject(t, "dtype", dtype_text(e->dtype)) == NULL) {
        return false;
    }
    cJSON *shape = cJSON_AddArrayToObject(t, "shape");
    cJSON *off = cJSON_AddArrayToObject(t, "data_offsets");
    if (shape == NULL || off == NULL) {
        return false;
    }
    for (uint8_t d = 0; d < e->rank; d++) {
        cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)e->ext[d]));
    }
    cJSON_AddItemToArray(off, cJSON_CreateNumber((double)e->begin));
    cJSON_AddItemToArray(off, cJSON_CreateNumber((double)e->end));
    return cJSON_GetArraySize(shape) == e->rank && cJSON_GetArraySize(off) == 2;
}

/* Offsets of all tensors, refusing a name twice. */
static enum hsp_status place_tensors(struct hsp_st_entry *e, size_t n, uint64_t *ret_total,
                                     struct hsp_err *err)
{
    struct hsp_map names;
    uint64_t at = 0;
    enum hsp_status st = HSP_OK;
    hsp_map_init(&names, HSP_ST_MAX_TENSORS);
    for (size_t i = 0; st == HSP_OK && i < n; i++) {
        uint64_t bytes = 0;
        uint32_t seen;
        if (hsp_map_get(&names, e[i].name, &seen)) {
            st = hsp_err_set(err, HSP_EINVAL, 0, "tensor %s appears twice", e[i].name);
        } else if (!hsp_st_bytes(&e[i], &bytes)) {
            st = hsp_err_set(err, HSP_EINVAL, 0, "tensor %s is too large", e[i].name);
        } else if (hsp_map_put(&names, e[i].name, (uint32_t)i) != HSP_OK) {
            st = hsp_err_nomem(err, "the names of tensors");
        }
        e[i].begin = at;
        e[i].end = at + bytes;
        at += bytes;
    }
    hsp_map_fini(&names);
    *ret_total = at;
    return st;
}

static bool add_meta(cJSON *root, const struct hsp_st_meta *meta, size_t n, const char *sums)
{
    cJSON *m = cJSON_AddObjectToObject(root, "__metadata__");
    bool ok = m != NULL && cJSON_AddStringToObject(m, HSP_ST_SUMS, sums) != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        ok = cJSON_AddStringToObject(m, meta[i].key, meta[i].value) != NULL;
    }
    return ok;
}

/* The header's text, padded with spaces so that the data section is aligned; @sums stands first in
 * it. */
static char *header_text(const struct hsp_st_entry *e, size_t n, const struct hsp_st_meta *meta,
                         size_t n_meta, const char *sums, size_t *ret_len)
{
    cJSON *root = cJSON_CreateObject();
    bool ok = root != NULL && add_meta(root, meta, n_meta, sums);
    for (size_t i = 0; ok && i < n; i++) {
        ok = add_tensor(root, &e[i]);
    }
    char *text = ok ? cJSON_PrintUnformatted(root) : NULL;
    cJSON_Delete(root);
    if (text == NULL) {
        return NULL;
    }
    size_t len = strlen(text);
    size_t padded = (8 + len + DATA_ALIGN - 1) / DATA_ALIGN * DATA_ALIGN - 8;
    char *out = realloc(text, padded + 1);
    if (out == NULL) {
        free(text);
        return NULL;
    }
    memset(out + len, ' ', padded - len);
    out[padded] = '\0';
    *ret_len = padded;
    return out;
}

static enum hsp_status write_header(struct hsp_st_writer *w, const char *text, size_t len,
                                    uint64_t total, struct hsp_err *err)
{
    uint8_t head[8];
    for (int i = 0; i < 8; i++) {
        head[i] = (uint8_t)((uint64_t)len >> (8 * i));
    }
    w->data_start = 8 + len;
    if (write_all(w->fd, head, 8, 0) != HSP_OK || write_all(w->fd, text, len, 8) != HSP_OK) {
        return hsp_state_io_error(err, "cannot write", w->path);
    }
    off_t bytes = (off_t)(w->data_start + total);
    bool reserved;
    do { /* a process that is stopped and continued, or frozen, is interrupted */
        reserved = fallocate(w->fd, 0, 0, bytes) == 0;
    } while (!reserved && errno == EINTR);
    if (!reserved && errno != EOPNOTSUPP && errno != ENOSYS) {
        return hsp_state_io_error(err, "cannot write", w->path);
    }
    if (!reserved && ftruncate(w->fd, bytes) != 0) {
        return hsp_state_io_error(err, "cannot extend", w->path);
    }
    return HSP_OK;
}

static void writer_free(struct hsp_st_writer *w)
{
    if (w != NULL) {
        if (w->at >= 0) {
            (void)close(w->at); /* only looked names up in it */
        }
        hsp_part_sums_fini(&w->sums);
        free(w->name);
        free(w->path);
        free(w->begin);
        free(w->end);
        free(w->dtype);
        free(w);
    }
}

/* A writer without a file yet. NULL without memory. */
static struct hsp_st_writer *writer_new(const struct name *f, const struct hsp_st_entry *e,
                                        size_t n)
{
    struct hsp_st_writer *w = calloc(1, sizeof *w);
    uint64_t *bytes = calloc(n + 1, sizeof *bytes);
    if (w != NULL) {
        w->at = AT_FDCWD;
    }
    bool ok = w != NULL && bytes != NULL && (w->name = strdup(f->name)) != NULL &&
              (w->path = strdup(f->path)) != NULL &&
              (w->begin = calloc(n + 1, sizeof *w->begin)) != NULL &&
              (w->end = calloc(n + 1, sizeof *w->end)) != NULL &&
              (w->dtype = calloc(n + 1, sizeof *w->dtype)) != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        w->begin[i] = e[i].begin;
        w->end[i] = e[i].end;
        w->dtype[i] = (uint8_t)e[i].dtype;
        bytes[i] = e[i].end - e[i].begin;
    }
    ok = ok && hsp_part_sums_init(&w->sums, bytes, n);
    free(bytes);
    if (!ok) {
        writer_free(w);
        return NULL;
    }
    w->n = n;
    return w;
}

/* The text of the sums as they are now, free(); NULL without memory. */
static char *sums_text(const struct hsp_st_writer *w)
{
    char *text = calloc(w->sums.n * HSP_PART_DIGITS + 1, 1);
    if (text != NULL) {
        hsp_part_sums_put(&w->sums, text);
    }
    return text;
}

/* Opens the file, and keeps its folder for hsp_st_discard. In a folder the file is a new one:
 * another writer may still have the one of that name open, and would write into ours. */
static enum hsp_status create_file(struct hsp_st_writer *w, const struct name *f,
                                   struct hsp_err *err)
{
    bool in = f->at != AT_FDCWD;
    int how = in ? O_EXCL | O_NOFOLLOW : O_TRUNC;
    if (in && (w->at = fcntl(f->at, F_DUPFD_CLOEXEC, 0)) < 0) {
        return hsp_state_io_error(err, "cannot create", f->path);
    }
    if (in) {
        (void)unlinkat(w->at, f->name, 0); /* if it stays, the open fails */
    }
    w->fd = openat(f->at, f->name, O_CREAT | O_RDWR | O_CLOEXEC | how, 0644);
    return w->fd >= 0 ? HSP_OK : hsp_state_io_error(err, "cannot create", f->path);
}

static enum hsp_status create(const struct name *f, const struct hsp_st_head *h,
                              struct hsp_st_writer **ret, struct hsp_err *err)
{
    uint64_t total = 0;
    size_t len = 0;
    if (h->n > HSP_ST_MAX_TENSORS) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "%zu tensors, at most %d", h->n, HSP_ST_MAX_TENSORS);
    }
    enum hsp_status st = place_tensors(h->e, h->n, &total, err);
    if (st != HSP_OK) {
        return st;
    }
    struct hsp_st_writer *w = writer_new(f, h->e, h->n);
    char *sums = w != NULL ? sums_text(w) : NULL;
    char *text = sums != NULL ? header_text(h->e, h->n, h->meta, h->n_meta, sums, &len) : NULL;
    free(sums);
    if (text == NULL) {
        st = hsp_err_nomem(err, "the header of %s", f->path);
    } else if ((st = create_file(w, f, err)) == HSP_OK) {
        /* Texts in it have no quote without a backslash, so this is the key. */
        w->sums_at =
            8 + (uint64_t)(strstr(text, "\"" HSP_ST_SUMS "\":\"") - text) + strlen(HSP_ST_SUMS) + 4;
        st = write_header(w, text, len, total, err);
        if (st == HSP_OK) {
            *ret = w;
        } else {
            (void)hsp_st_discard(w);
        }
        w = NULL;
    }
    free(text);
    writer_free(w);
    return st;
}

enum hsp_status hsp_st_create(const char *path, struct hsp_st_entry *e, size_t n,
                              const struct hsp_st_meta *meta, size_t n_meta,
                              struct hsp_st_writer **ret, struct hsp_err *err)
{
    const struct hsp_st_head h = {e, n, meta, n_meta};
    return create(&(struct name){AT_FDCWD, path, path}, &h, ret, err);
}

enum hsp_status hsp_st_create_in(const struct hsp_folder *in, const char *name,
                                 const struct hsp_st_head *head, struct hsp_st_writer **ret,
                                 struct hsp_err *err)
{
    char path[HSP_FOLDER_PATH + 256];
    (void)snprintf(path, sizeof path, "%s/%s", in->path, name);
    return create(&(struct name){in->fd, name, path}, head, ret, err);
}

enum hsp_status hsp_st_write(struct hsp_st_writer *w, size_t i, uint64_t offset, const void *data,
                             size_t bytes, struct hsp_err *err)
{
    size_t elem = i < w->n ? hsp_dtype_size((enum hsp_dtype)w->dtype[i]) : 1;
    if (i >= w->n || offset > w->end[i] - w->begin[i] || bytes > w->end[i] - w->begin[i] - offset ||
        offset % elem != 0 || bytes % elem != 0) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "write of %zu bytes at %" PRIu64 " outside tensor %zu", bytes, offset,
                           i);
    }
    if (write_all(w->fd, data, bytes, w->data_start + w->begin[i] + offset) != HSP_OK) {
        return hsp_state_io_error(err, "cannot write", w->path);
    }
    hsp_part_sums_add(&w->sums, i, (enum hsp_dtype)w->dtype[i], offset, data, bytes);
    w->unsynced += bytes;
    if (w->unsynced >= SYNC_BYTES) {
        w->unsynced = 0;
        if (fdatasync(w->fd) != 0) {
            return hsp_state_io_error(err, "cannot sync", w->path);
        }
    }
    return HSP_OK;
}

/* Writes the sums, which are known since all elements are there, once. */
static enum hsp_status write_sums(const struct hsp_st_writer *w, struct hsp_err *err)
{
    for (size_t k = 0; k < w->sums.n; k++) {
        if (w->sums.missing[k] != 0) {
            return hsp_err_set(err, HSP_EINVAL, 0, "%s: not every element was written once",
                               w->path);
        }
    }
    char *text = sums_text(w);
    if (text == NULL) {
        return hsp_err_nomem(err, "the header of %s", w->path);
    }
    enum hsp_status st = write_all(w->fd, text, strlen(text), w->sums_at);
    free(text);
    return st == HSP_OK ? st : hsp_state_io_error(err, "cannot write", w->path);
}

/* Returns true if the name is still that of the file that was created, not of a later writer's. */
static bool is_own(const struct hsp_st_writer *w)
{
    struct stat own, now;
    int follow = w->at == AT_FDCWD ? 0 : AT_SYMLINK_NOFOLLOW;
    return fstat(w->fd, &own) == 0 && fstatat(w->at, w->name, &now, follow) == 0 &&
           own.st_dev == now.st_dev && own.st_ino == now.st_ino;
}

enum hsp_status hsp_st_finish(struct hsp_st_writer *w, struct hsp_err *err)
{
    enum hsp_status st = write_sums(w, err);
    if (st == HSP_OK && w->at != AT_FDCWD && !is_own(w)) {
        st = hsp_err_set(err, HSP_ESTALE, 0, "%s is another writer's by now, or gone", w->path);
    }
    if (st == HSP_OK && fsync(w->fd) != 0) {
        st = hsp_state_io_error(err, "cannot sync", w->path);
    }
    if (close(w->fd) != 0 && st == HSP_OK) {
        st = hsp_state_io_error(err, "cannot close", w->path);
    }
    writer_free(w);
    return st;
}

struct hsp_st_writer *hsp_st_discard(struct hsp_st_writer *w)
{
    if (w != NULL) {
        if (is_own(w)) {
            (void)unlinkat(w->at, w->name,
                           0); /* best effort: there is an error to report already */
        }
        (void)close(w->fd); /* the file is removed: nothing to lose */
        writer_free(w);
    }
    return NULL;
}
