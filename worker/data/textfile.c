#include "worker/data/textfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h> /* PRIu64 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/rng.h"

static enum hsp_status map_file(int fd, const char *path, struct hsp_text *ret, struct hsp_err *err)
{
    struct stat sb;
    if (fstat(fd, &sb) != 0) {
        return hsp_err_set(err, HSP_EIO, errno, "%s", path);
    }
    if (!S_ISREG(sb.st_mode) || sb.st_size <= 0 || (uint64_t)sb.st_size > HSP_TEXTFILE_MAX) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%s is not a text file of 1 to %" PRIu64 " bytes",
                           path, HSP_TEXTFILE_MAX);
    }
    void *p = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        return hsp_err_set(err, HSP_EIO, errno, "cannot map %s", path);
    }
    *ret = (struct hsp_text){.data = p, .n_bytes = (uint64_t)sb.st_size, .mapped = true};
    return HSP_OK;
}

enum hsp_status hsp_text_open(const char *path, struct hsp_text *ret, struct hsp_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        enum hsp_status code = errno == ENOENT ? HSP_ENOENT : errno == EACCES ? HSP_EPERM : HSP_EIO;
        return hsp_err_set(err, code, errno, "cannot read %s", path);
    }
    enum hsp_status st = map_file(fd, path, ret, err);
    (void)close(fd); /* read-only: nothing can be lost */
    return st;
}

enum hsp_status hsp_text_synthetic(uint64_t seed, uint32_t vocab, uint64_t n_bytes,
                                   struct hsp_text *ret, struct hsp_err *err)
{
    if (n_bytes == 0 || n_bytes > HSP_TEXTFILE_MAX || vocab == 0) {
        return hsp_err_set(err, HSP_EINVAL, 0, "made-up text of %" PRIu64 " bytes", n_bytes);
    }
    uint8_t *p = malloc((size_t)n_bytes);
    if (!p) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no memory for %" PRIu64 " bytes of text", n_bytes);
    }
    uint64_t letters = vocab < 256 ? vocab : 256, stream = hsp_hash_str("text"), c = 0;
    for (uint64_t i = 0; i < n_bytes; i++) {
        c = (5 * c + 3 + hsp_rng_below(4, seed, stream, i, 0)) % letters;
        p[i] = (uint8_t)c;
    }
    *ret = (struct hsp_text){.data = p, .n_bytes = n_bytes};
    return HSP_OK;
}

void hsp_text_close(struct hsp_text *t)
{
    if (t->mapped) {
        (void)munmap((void *)(uintptr_t)t->data, (size_t)t->n_bytes);
    } else {
        free((void *)(uintptr_t)t->data);
    }
    *t = (struct hsp_text){0};
}

struct hsp_digest hsp_text_digest(const struct hsp_text *t)
{
    return hsp_hash128(t->data, (size_t)t->n_bytes);
}

/* Byte of the text at @at as a token; false when it is no token. */
static bool token(const struct hsp_text *t, const struct hsp_data_bind *d, uint64_t at,
                  int32_t *ret)
{
    if (at >= t->n_bytes || t->data[at] >= d->vocab) {
        return false;
    }
    *ret = t->data[at];
    return true;
}

static enum hsp_status token_error(const struct hsp_text *t, const struct hsp_data_bind *d,
                                   uint64_t at, struct hsp_err *err)
{
    return at >= t->n_bytes
               ? hsp_err_set(err, HSP_EINVAL, 0, "byte %" PRIu64 " is outside the text of %" PRIu64,
                             at, t->n_bytes)
               : hsp_err_set(err, HSP_EINVAL, 0,
                             "byte %u at offset %" PRIu64 " is outside the vocabulary of %u",
                             t->data[at], at, d->vocab);
}

enum hsp_status hsp_text_load(const struct hsp_text *t, const struct hsp_load_spec *s, int32_t *dst,
                              struct hsp_err *err)
{
    for (uint32_t i = 0; i < s->micro->n_seq; i++) {
        for (int64_t j = 0; j < s->n_cols; j++, dst++) {
            uint64_t at = s->micro->offset[i] + (uint64_t)(s->first_col + j);
            if (s->what == HSP_LOAD_POSITIONS) {
                *dst = (int32_t)(s->first_col + j);
                continue;
            }
            if (s->what == HSP_LOAD_LABELS) {
                at = s->data->next_token_only ? s->micro->offset[i] + s->data->sequence : at + 1;
            }
            if (!token(t, s->data, at, dst)) {
                return token_error(t, s->data, at, err);
            }
        }
    }
    return HSP_OK;
}
