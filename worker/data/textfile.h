/* A text as a device reads it: a mapped file, or a made-up one.
 *
 * Role:      read by the interpreter for HSP_I_LOAD; its digest is compared between workers.
 * Purity:    shell (maps a file).
 * Threads:   immutable after open.
 * Ownership: the text owns its bytes. The file must not shrink while it is mapped (SIGBUS).
 * Bounds:    HSP_TEXTFILE_MAX bytes.
 */
#ifndef HSP_TEXTFILE_H
#define HSP_TEXTFILE_H
#include "proto/base/hash.h"
#include "proto/program/sheet.h"

#define HSP_TEXTFILE_MAX (UINT64_C(1) << 42)

struct hsp_text {
    const uint8_t *data;
    uint64_t n_bytes;
    bool mapped; /* else heap */
};

/* HSP_ENOENT, HSP_EPERM, HSP_EIO, HSP_EINVAL (not a regular file, empty) name the path. */
enum hsp_status hsp_text_open(const char *path, struct hsp_text *ret, struct hsp_err *err);
/* @n_bytes made from @seed with letters below @vocab; learnable: each letter narrows the next. */
enum hsp_status hsp_text_synthetic(uint64_t seed, uint32_t vocab, uint64_t n_bytes,
                                   struct hsp_text *ret, struct hsp_err *err);
void hsp_text_close(struct hsp_text *t);

/* XXH3-128 of all bytes; reads the whole file. */
struct hsp_digest hsp_text_digest(const struct hsp_text *t);

/* What to load: rows are the sequences of the micro-batch, columns global positions
 * first_col .. first_col + n_cols - 1 of each. */
struct hsp_load_spec {
    enum hsp_load what;
    const struct hsp_data_bind *data;
    const struct hsp_micro *micro;
    int64_t first_col, n_cols;
};

/* Fills @dst[n_seq * n_cols]. Ids are bytes, labels the following byte; with next_token_only the
 * one label is the byte after the sequence. HSP_EINVAL: a byte outside the vocabulary (says which
 * and where), a window outside the text. */
enum hsp_status hsp_text_load(const struct hsp_text *t, const struct hsp_load_spec *s, int32_t *dst,
                              struct hsp_err *err);

#endif
