#include "worker/data/formats.h"

#include <inttypes.h> /* PRIu64 */
#include <stdbool.h>
#include <string.h>

#include "proto/base/le.h"
#include "proto/base/simd.h"

#define GPT2_MAGIC    20240520u
#define GPT2_VERSION  1u
#define LLAMA_MAGIC   20240801u
#define LLAMA_VERSION 7u

enum { MEGATRON_HEADER = 34, LENGTH_BYTES = 4, POINTER_BYTES = 8 };
static const uint8_t megatron_magic[9] = "MMIDIDX\0";

static const uint8_t sizes[] = {
    [HSP_TOKEN_U8] = 1,  [HSP_TOKEN_I8] = 1,  [HSP_TOKEN_I16] = 2, [HSP_TOKEN_U16] = 2,
    [HSP_TOKEN_I32] = 4, [HSP_TOKEN_U32] = 4, [HSP_TOKEN_I64] = 8,
};

size_t hsp_token_size(enum hsp_token_type t)
{
    return sizes[t];
}

int64_t hsp_token_get(const struct hsp_token_span *s, const uint8_t *file, uint64_t i)
{
    uint64_t v = hsp_le_get(file + s->first + i * sizes[s->type], sizes[s->type]);
    switch (s->type) {
    case HSP_TOKEN_I8: return (int8_t)v;
    case HSP_TOKEN_I16: return (int16_t)v;
    case HSP_TOKEN_I32: return (int32_t)v;
    case HSP_TOKEN_U8:
    case HSP_TOKEN_U16:
    case HSP_TOKEN_U32:
    case HSP_TOKEN_I64: break;
    }
    return (int64_t)v;
}

/* Negative tokens are large ones. A file is little-endian, and so is every machine we run on. Whole
 * blocks are only asked for their largest token, which takes a vector register and no branch. */
#define BLOCK 1024
#define LARGEST(type, wide)                            \
    {                                                  \
        wide most = 0;                                 \
        for (size_t i = 0; i < BLOCK; i++) {           \
            type v;                                    \
            memcpy(&v, at + i * sizeof(v), sizeof(v)); \
            most = (wide)v > most ? (wide)v : most;    \
        }                                              \
        return most;                                   \
    }

HSP_CLONES static uint64_t largest(enum hsp_token_type type, const uint8_t *at)
{
    switch (type) {
    case HSP_TOKEN_U8: LARGEST(uint8_t, uint8_t)
    case HSP_TOKEN_I8: LARGEST(int8_t, uint64_t)
    case HSP_TOKEN_I16: LARGEST(int16_t, uint64_t)
    case HSP_TOKEN_U16: LARGEST(uint16_t, uint16_t)
    case HSP_TOKEN_I32: LARGEST(int32_t, uint64_t)
    case HSP_TOKEN_U32: LARGEST(uint32_t, uint32_t)
    case HSP_TOKEN_I64: LARGEST(int64_t, uint64_t)
    }
    return UINT64_MAX;
}
#undef LARGEST

uint64_t hsp_token_outside(const struct hsp_token_span *s, const uint8_t *file, uint32_t vocab)
{
    const uint8_t *first = file + s->first;
    uint64_t i = 0;
    while (s->n - i >= BLOCK && largest(s->type, first + i * sizes[s->type]) < vocab) {
        i += BLOCK;
    }
    while (i < s->n && (uint64_t)hsp_token_get(s, file, i) < vocab) {
        i++;
    }
    return i;
}
#undef BLOCK

/* ---- llm.c ---- */

static enum hsp_status llmc_type(uint32_t magic, uint32_t version, enum hsp_token_type *ret,
                                 struct hsp_err *err)
{
    if (magic != GPT2_MAGIC && magic != LLAMA_MAGIC) {
        return hsp_err_set(err, HSP_EPARSE, 0,
                           "no llm.c data: magic %" PRIu32 ", not %u (GPT-2) or %u (Llama 3)",
                           magic, GPT2_MAGIC, LLAMA_MAGIC);
    }
    uint32_t known = magic == GPT2_MAGIC ? GPT2_VERSION : LLAMA_VERSION;
    if (version != known) {
        return hsp_err_set(err, HSP_EPARSE, 0,
                           "llm.c data of magic %" PRIu32 ", version %" PRIu32 "; version %" PRIu32
                           " is read",
                           magic, version, known);
    }
    *ret = magic == GPT2_MAGIC ? HSP_TOKEN_U16 : HSP_TOKEN_U32;
    return HSP_OK;
}

enum hsp_status hsp_llmc_parse(const uint8_t *head, size_t len, uint64_t file_bytes,
                               struct hsp_token_span *ret, struct hsp_err *err)
{
    if (file_bytes < HSP_LLMC_HEADER_BYTES || len < HSP_LLMC_HEADER_BYTES) {
        return hsp_err_set(err, HSP_EPARSE, 0,
                           "no llm.c data: %" PRIu64 " bytes, its header alone has %u", file_bytes,
                           HSP_LLMC_HEADER_BYTES);
    }
    struct hsp_token_span s = {.first = HSP_LLMC_HEADER_BYTES};
    enum hsp_status st =
        llmc_type((uint32_t)hsp_le_get(head, 4), (uint32_t)hsp_le_get(head + 4, 4), &s.type, err);
    if (st != HSP_OK) {
        return st;
    }
    s.n = hsp_le_get(head + 8, 4);
    uint64_t want = s.first + s.n * sizes[s.type]; /* below 2^35 */
    if (s.n == 0 || s.n > INT32_MAX) {
        return hsp_err_set(err, HSP_EPARSE, 0, "llm.c data of %" PRId32 " tokens",
                           (int32_t)(uint32_t)s.n);
    }
    if (file_bytes != want) {
        return hsp_err_set(
            err, HSP_EPARSE, 0,
            "%s: %" PRIu64 " tokens of %u bytes make %" PRIu64 " bytes, the file has %" PRIu64,
            file_bytes < want ? "cut short" : "too long", s.n, sizes[s.type], want, file_bytes);
    }
    *ret = s;
    return HSP_OK;
}

/* ---- nanoGPT ---- */

enum hsp_status hsp_nanogpt_parse(uint64_t file_bytes, struct hsp_token_span *ret,
                                  struct hsp_err *err)
{
    if (file_bytes == 0 || file_bytes % 2 != 0) {
        return hsp_err_set(err, HSP_EPARSE, 0, "%" PRIu64 " bytes are no uint16 tokens",
                           file_bytes);
    }
    *ret = (struct hsp_token_span){.type = HSP_TOKEN_U16, .n = file_bytes / 2};
    return HSP_OK;
}

/* ---- Megatron ---- */

static enum hsp_status megatron_type(unsigned code, enum hsp_token_type *ret, struct hsp_err *err)
{
    switch (code) {
    case 1: *ret = HSP_TOKEN_U8; return HSP_OK;
    case 2: *ret = HSP_TOKEN_I8; return HSP_OK;
    case 3: *ret = HSP_TOKEN_I16; return HSP_OK;
    case 4: *ret = HSP_TOKEN_I32; return HSP_OK;
    case 5: *ret = HSP_TOKEN_I64; return HSP_OK;
    case 8: *ret = HSP_TOKEN_U16; return HSP_OK;
    default: break;
    }
    return hsp_err_set(err, HSP_EPARSE, 0, "index: type %u is no type of tokens%s", code,
                       code == 6 || code == 7 ? " (floating point)" : "");
}

static enum hsp_status megatron_head(const uint8_t *idx, size_t len, struct hsp_megatron_index *ret,
                                     struct hsp_err *err)
{
    if (len < MEGATRON_HEADER || memcmp(idx, megatron_magic, sizeof(megatron_magic)) != 0) {
        return hsp_err_set(err, HSP_EPARSE, 0, "index: does not begin with the %d bytes of MMIDIDX",
                           MEGATRON_HEADER);
    }
    if (hsp_le_get(idx + 9, 8) != 1) {
        return hsp_err_set(err, HSP_EPARSE, 0, "index: version %" PRIu64 "; version 1 is read",
                           hsp_le_get(idx + 9, 8));
    }
    struct hsp_megatron_index x = {.n_sequences = hsp_le_get(idx + 18, 8)};
    uint64_t marks = hsp_le_get(idx + 26, 8), left = len - MEGATRON_HEADER;
    enum hsp_status st = megatron_type(idx[17], &x.tokens.type, err);
    if (st != HSP_OK) {
        return st;
    }
    uint64_t each = LENGTH_BYTES + POINTER_BYTES;
    if (x.n_sequences == 0 || marks < 2 || x.n_sequences > left / each ||
        marks > (left - x.n_sequences * each) / POINTER_BYTES) {
        return hsp_err_set(err, HSP_EPARSE, 0,
                           "index: %" PRIu64 " sequences and %" PRIu64
                           " document indices in a file of %zu bytes",
                           x.n_sequences, marks, len);
    }
    x.n_documents = marks - 1;
    uint64_t rest = left - x.n_sequences * each - marks * POINTER_BYTES;
    if (rest != 0 && rest != x.n_sequences) { /* modes */
        return hsp_err_set(err, HSP_EPARSE, 0, "index: %" PRIu64 " bytes too many", rest);
    }
    x.pointers = idx + MEGATRON_HEADER + x.n_sequences * LENGTH_BYTES;
    x.documents = x.pointers + x.n_sequences * POINTER_BYTES;
    *ret = x;
    return HSP_OK;
}

static enum hsp_status check_sequences(const uint8_t *lengths, uint64_t bin_bytes,
                                       struct hsp_megatron_index *x, struct hsp_err *err)
{
    uint64_t at = 0, size = sizes[x->tokens.type];
    for (uint64_t i = 0; i < x->n_sequences; i++) {
        uint64_t n = hsp_le_get(lengths + i * LENGTH_BYTES, LENGTH_BYTES);
        uint64_t p = hsp_le_get(x->pointers + i * POINTER_BYTES, POINTER_BYTES);
        if (n > INT32_MAX) {
            return hsp_err_set(err, HSP_EPARSE, 0,
                               "index: sequence %" PRIu64 " of %" PRId32 " tokens", i,
                               (int32_t)(uint32_t)n);
        }
        if (p != at) {
            return hsp_err_set(err, HSP_EPARSE, 0,
                               "index: sequence %" PRIu64 " begins at byte %" PRIu64
                               ", the one before ends at %" PRIu64,
                               i, p, at);
        }
        if (n * size > bin_bytes - at) {
            return hsp_err_set(err, HSP_EPARSE, 0,
                               "index: sequence %" PRIu64 " ends behind the %" PRIu64
                               " bytes of the tokens",
                               i, bin_bytes);
        }
        at += n * size;
    }
    if (at != bin_bytes || at == 0) {
        return hsp_err_set(err, HSP_EPARSE, 0,
                           "index: sequences of %" PRIu64 " bytes, tokens of %" PRIu64, at,
                           bin_bytes);
    }
    x->tokens.n = at / size;
    return HSP_OK;
}

static uint64_t document(const struct hsp_megatron_index *x, uint64_t d)
{
    return hsp_le_get(x->documents + d * POINTER_BYTES, POINTER_BYTES);
}

static enum hsp_status check_documents(const struct hsp_megatron_index *x, struct hsp_err *err)
{
    uint64_t last = 0;
    for (uint64_t d = 0; d <= x->n_documents; d++) {
        uint64_t first = document(x, d);
        bool end = d == 0 ? first != 0 : d == x->n_documents && first != x->n_sequences;
        if (end || first < last || first > x->n_sequences) {
            return hsp_err_set(err, HSP_EPARSE, 0,
                               "index: document %" PRIu64 " begins with sequence %" PRIu64
                               " of %" PRIu64 ", after %" PRIu64,
                               d, first, x->n_sequences, last);
        }
        last = first;
    }
    return HSP_OK;
}

enum hsp_status hsp_megatron_parse(const uint8_t *idx, size_t len, uint64_t bin_bytes,
                                   struct hsp_megatron_index *ret, struct hsp_err *err)
{
    struct hsp_megatron_index x;
    enum hsp_status st = megatron_head(idx, len, &x, err);
    st = st == HSP_OK ? check_sequences(idx + MEGATRON_HEADER, bin_bytes, &x, err) : st;
    st = st == HSP_OK ? check_documents(&x, err) : st;
    if (st == HSP_OK) {
        *ret = x;
    }
    return st;
}

uint64_t hsp_megatron_start(const struct hsp_megatron_index *ix, uint64_t d)
{
    uint64_t s = document(ix, d);
    return s == ix->n_sequences ? ix->tokens.n
                                : hsp_le_get(ix->pointers + s * POINTER_BYTES, POINTER_BYTES) /
                                      sizes[ix->tokens.type];
}

uint64_t hsp_megatron_next(const struct hsp_megatron_index *ix, uint64_t at)
{
    uint64_t lo = 0, hi = ix->n_documents;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (hsp_megatron_start(ix, mid) > at) {
            hi = mid;
        } else {
            lo = mid + 1;
        }
    }
    return lo;
}
