/* Reads safetensors files: parses the header with cJSON and checks every member against the file. A
 * reader keeps the part that it has read last, since the runs of a region follow each other in a
 * part. */
#include "worker/state/safetensors_read.h"

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

#define HEADER_MAX 100000000u

/* The part that was read last, with its bytes. */
struct kept_part {
    size_t part; /* SIZE_MAX: none */
    uint8_t *data;
};

struct hsp_st_reader {
    int fd;
    char *path;
    cJSON *root; /* owns the strings of entries */
    uint64_t data_start, data_bytes;
    size_t n;
    struct hsp_st_entry *e;
    struct hsp_part_sums sums; /* n 0: it has none */
    struct kept_part *kept;
};

static enum hsp_status read_all(int fd, void *data, size_t n, uint64_t at)
{
    uint8_t *p = data;
    while (n > 0) {
        ssize_t k = pread(fd, p, n, (off_t)at);
        if (k < 0 && errno == EINTR) {
            continue;
        }
        if (k <= 0) {
            errno = k == 0 ? EIO : errno;
            return HSP_EIO;
        }
        p += k;
        at += (uint64_t)k;
        n -= (size_t)k;
    }
    return HSP_OK;
}

static bool json_u64(const cJSON *v, uint64_t *ret)
{
    if (!cJSON_IsNumber(v) || v->valuedouble < 0 || v->valuedouble > 9007199254740992.0 ||
        v->valuedouble != (double)(uint64_t)v->valuedouble) {
        return false;
    }
    *ret = (uint64_t)v->valuedouble;
    return true;
}

static enum hsp_status read_shape(const cJSON *shape, struct hsp_st_entry *e, struct hsp_err *err)
{
    const cJSON *d;
    if (!cJSON_IsArray(shape)) {
        return hsp_err_set(err, HSP_EPARSE, 0, "tensor %s: no shape", e->name);
    }
    if (cJSON_GetArraySize(shape) > HSP_MAX_RANK) {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "tensor %s: more than %d dims", e->name,
                           HSP_MAX_RANK);
    }
    cJSON_ArrayForEach(d, shape)
    {
        uint64_t v;
        if (!json_u64(d, &v)) {
            return hsp_err_set(err, HSP_EPARSE, 0, "tensor %s: bad extent", e->name);
        }
        e->ext[e->rank++] = (int64_t)v;
    }
    return HSP_OK;
}

static enum hsp_status read_entry(const cJSON *t, uint64_t data_bytes, struct hsp_st_entry *e,
                                  struct hsp_err *err)
{
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(t, "dtype");
    const cJSON *off = cJSON_GetObjectItemCaseSensitive(t, "data_offsets");
    uint64_t bytes;
    e->name = t->string;
    const char *dt = cJSON_IsString(dtype) ? dtype->valuestring : "";
    if (strcmp(dt, "F32") == 0) {
        e->dtype = HSP_F32;
    } else if (strcmp(dt, "F64") == 0) {
        e->dtype = HSP_F64;
    } else if (strcmp(dt, "I32") == 0) {
        e->dtype = HSP_I32;
    } else if (strcmp(dt, "BF16") == 0) {
        e->dtype = HSP_BF16;
    } else {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "tensor %s: dtype %.16s", e->name, dt);
    }
    enum hsp_status st = read_shape(cJSON_GetObjectItemCaseSensitive(t, "shape"), e, err);
    if (st != HSP_OK) {
        return st;
    }
    if (!cJSON_IsArray(off) || cJSON_GetArraySize(off) != 2 ||
        !json_u64(cJSON_GetArrayItem(off, 0), &e->begin) ||
        !json_u64(cJSON_GetArrayItem(off, 1), &e->end) || e->begin > e->end ||
        e->end > data_bytes) {
        return hsp_err_set(err, HSP_EPARSE, 0, "tensor %s: data_offsets outside the file", e->name);
    }
    if (!hsp_st_bytes(e, &bytes) || bytes != e->end - e->begin) {
        return hsp_err_set(err, HSP_EPARSE, 0, "tensor %s: shape and data_offsets disagree",
                           e->name);
    }
    return HSP_OK;
}

static int by_begin(const void *a, const void *b)
{
    const struct hsp_st_entry *x = a, *y = b;
    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Sorts by offset: no holes, no overlap, nothing behind the last tensor. */
static enum hsp_status check_offsets(struct hsp_st_reader *r, struct hsp_err *err)
{
    uint64_t at = 0;
    qsort(r->e, r->n, sizeof *r->e, by_begin);
    for (size_t i = 0; i < r->n; i++) {
        if (r->e[i].begin != at) {
            return hsp_err_set(err, HSP_EPARSE, 0, "tensor %s: hole or overlap at byte %" PRIu64,
                               r->e[i].name, at);
        }
        at = r->e[i].end;
    }
    if (at != r->data_bytes) {
        return hsp_err_set(err, HSP_EPARSE, 0, "%" PRIu64 " bytes of data, tensors fill %" PRIu64,
                           r->data_bytes, at);
    }
    return HSP_OK;
}

static enum hsp_status read_entries(struct hsp_st_reader *r, struct hsp_err *err)
{
    int n = cJSON_GetArraySize(r->root);
    struct hsp_map names;
    const cJSON *t;
    enum hsp_status st = HSP_OK;
    if (n > HSP_ST_MAX_TENSORS) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "%d tensors, at most %d", n, HSP_ST_MAX_TENSORS);
    }
    r->e = calloc((size_t)n + 1, sizeof *r->e);
    hsp_map_init(&names, HSP_ST_MAX_TENSORS + 1);
    if (r->e == NULL) {
        st = hsp_err_nomem(err, "the header");
        goto out;
    }
    cJSON_ArrayForEach(t, r->root)
    {
        uint32_t seen;
        if (hsp_map_get(&names, t->string, &seen)) {
            st = hsp_err_set(err, HSP_EPARSE, 0, "key %s appears twice", t->string);
        } else if (hsp_map_put(&names, t->string, (uint32_t)r->n) != HSP_OK) {
            st = hsp_err_nomem(err, "the names of tensors");
        } else if (strcmp(t->string, "__metadata__") != 0) {
            st = read_entry(t, r->data_bytes, &r->e[r->n], err);
            r->n++;
        }
        if (st != HSP_OK) {
            goto out;
        }
    }
    st = check_offsets(r, err);
out:
    hsp_map_fini(&names);
    return st;
}

static enum hsp_status read_header(struct hsp_st_reader *r, struct hsp_err *err)
{
    struct stat sb;
    uint8_t head[8];
    uint64_t len = 0;
    if (fstat(r->fd, &sb) != 0) {
        return hsp_state_io_error(err, "cannot stat", r->path);
    }
    if (sb.st_size < 10) {
        return hsp_err_set(err, HSP_EPARSE, 0, "too short for a safetensors file");
    }
    if (read_all(r->fd, head, 8, 0) != HSP_OK) {
        return hsp_state_io_error(err, "cannot read", r->path);
    }
    for (int i = 0; i < 8; i++) {
        len |= (uint64_t)head[i] << (8 * i);
    }
    if (len > HEADER_MAX || len > (uint64_t)sb.st_size - 8) {
        return hsp_err_set(err, HSP_EPARSE, 0, "header of %" PRIu64 " bytes does not fit the file",
                           len);
    }
    r->data_start = 8 + len;
    r->data_bytes = (uint64_t)sb.st_size - r->data_start;
    char *text = malloc((size_t)len + 1);
    if (text == NULL) {
        return hsp_err_nomem(err, "a header of %" PRIu64 " bytes", len);
    }
    if (read_all(r->fd, text, (size_t)len, 8) != HSP_OK) {
        free(text);
        return hsp_state_io_error(err, "cannot read", r->path);
    }
    text[len] = '\0';
    enum hsp_status st = text[0] == '{' ? hsp_json_parse(text, (size_t)len, &r->root) : HSP_EPARSE;
    free(text);
    if (st == HSP_ENOMEM) {
        return hsp_err_set(err, st, 0, "out of memory for a header of %" PRIu64 " bytes", len);
    }
    if (!cJSON_IsObject(r->root)) {
        return hsp_err_set(err, HSP_EPARSE, 0, "the header is not a JSON object");
    }
    return read_entries(r, err);
}

/* The sums of parts, where the file has any. */
static enum hsp_status read_sums(struct hsp_st_reader *r, struct hsp_err *err)
{
    const char *text = hsp_st_meta_value(r, HSP_ST_SUMS);
    uint64_t *bytes = text != NULL ? calloc(r->n + 1, sizeof *bytes) : NULL;
    for (size_t i = 0; bytes != NULL && i < r->n; i++) {
        bytes[i] = r->e[i].end - r->e[i].begin;
    }
    bool room = bytes != NULL && hsp_part_sums_init(&r->sums, bytes, r->n);
    free(bytes);
    if (text != NULL && !room) {
        return hsp_err_nomem(err, "the sums of its parts");
    }
    return text == NULL || hsp_part_sums_get(&r->sums, text)
               ? HSP_OK
               : hsp_err_set(err, HSP_EPARSE, 0, "its sums are not those of its tensors");
}

/* Opens @name in the folder @at; @path is for messages, and equals @name where @at is AT_FDCWD. */
static enum hsp_status open_file(int at, const char *name, const char *path,
                                 struct hsp_st_reader **ret, struct hsp_err *err)
{
    struct hsp_st_reader *r = calloc(1, sizeof *r);
    if (r == NULL || (r->path = strdup(path)) == NULL ||
        (r->kept = calloc(1, sizeof *r->kept)) == NULL) {
        free(r != NULL ? r->path : NULL);
        free(r);
        return hsp_err_nomem(err, "a reader of %s", path);
    }
    r->kept->part = SIZE_MAX;
    r->fd = -1;
    enum hsp_status st =
        hsp_regular_open(at, name, at == AT_FDCWD ? 0 : O_NOFOLLOW, path, &r->fd, err);
    if (st != HSP_OK) {
        (void)hsp_st_close(r);
        return st;
    }
    st = read_header(r, err);
    if (st == HSP_OK) {
        st = read_sums(r, err);
    }
    if (st != HSP_OK) {
        (void)hsp_err_wrap(err, "%s", path);
        (void)hsp_st_close(r);
        return st;
    }
    *ret = r;
    return HSP_OK;
}

enum hsp_status hsp_st_open(const char *path, struct hsp_st_reader **ret, struct hsp_err *err)
{
    return open_file(AT_FDCWD, path, path, ret, err);
}

enum hsp_status hsp_st_open_in(const struct hsp_folder *in, const char *name,
                               struct hsp_st_reader **ret, struct hsp_err *err)
{
    char path[HSP_FOLDER_PATH + 256];
    (void)snprintf(path, sizeof path, "%s/%s", in->path, name);
    return open_file(in->fd, name, path, ret, err);
}

const struct hsp_st_entry *hsp_st_entries(const struct hsp_st_reader *r, size_t *ret_n)
{
    *ret_n = r->n;
    return r->e;
}

const struct hsp_st_entry *hsp_st_find(const struct hsp_st_reader *r, const char *name)
{
    for (size_t i = 0; i < r->n; i++) {
        if (strcmp(r->e[i].name, name) == 0) {
            return &r->e[i];
        }
    }
    return NULL;
}

const char *hsp_st_meta_value(const struct hsp_st_reader *r, const char *key)
{
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(r->root, "__metadata__");
    const cJSON *v = cJSON_IsObject(m) ? cJSON_GetObjectItemCaseSensitive(m, key) : NULL;
    return cJSON_IsString(v) ? v->valuestring : NULL;
}

bool hsp_st_summed(const struct hsp_st_reader *r)
{
    return r->sums.first != NULL;
}

/* Reads part @k of tensor @e whole into @dst and compares its sum. */
static enum hsp_status read_part(const struct hsp_st_reader *r, const struct hsp_st_entry *e,
                                 size_t k, void *dst, struct hsp_err *err)
{
    size_t part = r->sums.first[e - r->e] + k, bytes = (size_t)r->sums.missing[part];
    uint64_t at = k * HSP_PART_BYTES;
    if (read_all(r->fd, dst, bytes, r->data_start + e->begin + at) != HSP_OK) {
        return hsp_state_io_error(err, "cannot read", r->path);
    }
    return hsp_part_sum(part, e->dtype, 0, dst, bytes) == r->sums.sum[part]
               ? HSP_OK
               : hsp_err_set(err, HSP_EDIGEST, 0, "%s: %s is damaged", r->path, e->name);
}

void hsp_st_relax(const struct hsp_st_reader *r)
{
    free(r->kept->data);
    *r->kept = (struct kept_part){.part = SIZE_MAX};
}

/* Reads part @k of tensor @e into the reader's memory. */
static enum hsp_status keep_part(const struct hsp_st_reader *r, const struct hsp_st_entry *e,
                                 size_t k, struct hsp_err *err)
{
    size_t part = r->sums.first[e - r->e] + k;
    if (r->kept->part == part) {
        return HSP_OK;
    }
    hsp_st_relax(r);
    r->kept->data = malloc((size_t)r->sums.missing[part]);
    if (r->kept->data == NULL) {
        return hsp_err_nomem(err, "a part of %s", r->path);
    }
    enum hsp_status st = read_part(r, e, k, r->kept->data, err);
    if (st == HSP_OK) {
        r->kept->part = part;
    }
    return st;
}

static enum hsp_status read_summed(const struct hsp_st_reader *r, const struct hsp_st_entry *e,
                                   uint64_t offset, uint8_t *dst, size_t bytes, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    while (st == HSP_OK && bytes > 0) {
        size_t k = (size_t)(offset / HSP_PART_BYTES), in = (size_t)(offset % HSP_PART_BYTES);
        size_t whole = (size_t)r->sums.missing[r->sums.first[e - r->e] + k];
        size_t n = whole - in < bytes ? whole - in : bytes;
        if (n == whole && (uintptr_t)dst % hsp_dtype_size(e->dtype) == 0) {
            st = read_part(r, e, k, dst, err);
        } else if ((st = keep_part(r, e, k, err)) == HSP_OK) {
            memcpy(dst, r->kept->data + in, n);
        }
        dst += n;
        offset += n;
        bytes -= n;
    }
    return st;
}

enum hsp_status hsp_st_read(const struct hsp_st_reader *r, const struct hsp_st_entry *e,
                            uint64_t offset, void *buf, size_t bytes, struct hsp_err *err)
{
    uint64_t size = e->end - e->begin;
    if (offset > size || bytes > size - offset) {
        return hsp_err_set(err, HSP_EINVAL, 0, "read of %zu bytes at %" PRIu64 " outside tensor %s",
                           bytes, offset, e->name);
    }
    if (hsp_st_summed(r)) {
        return read_summed(r, e, offset, buf, bytes, err);
    }
    if (read_all(r->fd, buf, bytes, r->data_start + e->begin + offset) != HSP_OK) {
        return hsp_state_io_error(err, "cannot read", r->path);
    }
    return HSP_OK;
}

void hsp_st_close_file(struct hsp_st_reader *r)
{
    if (r->fd >= 0) {
        (void)close(r->fd); /* read only: nothing to lose */
        r->fd = -1;
    }
}

struct hsp_st_reader *hsp_st_close(struct hsp_st_reader *r)
{
    if (r != NULL) {
        hsp_st_close_file(r);
        hsp_st_relax(r);
        hsp_part_sums_fini(&r->sums);
        cJSON_Delete(r->root);
        free(r->kept);
        free(r->path);
        free(r->e);
        free(r);
    }
    return NULL;
}
