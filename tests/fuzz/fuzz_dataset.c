/* Reads headers of data sets. The tokens of an accepted file lie inside it and can all be read; the
 * documents of a Megatron index are in order. Input: a byte that chooses the format, then 0: an
 * llm.c file; 1: the .idx of a Megatron data set, whose .bin is as long as the next two bytes say;
 * 2: a nanoGPT file. */
#include <stdlib.h>
#include <string.h>

#include "proto/base/le.h"
#include "tests/fuzz/fuzz.h"
#include "worker/data/formats.h"

static void check_err(enum hsp_status st, const struct hsp_err *err)
{
    HSP_ASSERT(st == HSP_EPARSE || st == HSP_EINVAL || st == HSP_ELIMIT || st == HSP_EUNSUPPORTED);
    HSP_ASSERT(err->code == st && err->msg[0] != '\0');
}

static void check_tokens(const struct hsp_token_span *s, const uint8_t *file, uint64_t bytes)
{
    size_t size = hsp_token_size(s->type);
    HSP_ASSERT(size > 0 && s->first <= bytes);
    HSP_ASSERT(s->n <= (bytes - s->first) / size);
    uint64_t bad = hsp_token_outside(s, file, 16);
    HSP_ASSERT(bad <= s->n);
    for (uint64_t i = 0; i < s->n; i++) {
        int64_t t = hsp_token_get(s, file, i);
        HSP_ASSERT(i > bad || (t >= 0 && t < 16) == (i < bad));
    }
}

static void llmc(const uint8_t *data, size_t len)
{
    struct hsp_err err = {0};
    struct hsp_token_span s, again;
    enum hsp_status st = hsp_llmc_parse(data, len, len, &s, &err);
    if (st == HSP_OK) {
        check_tokens(&s, data, len);
        size_t head = len < HSP_LLMC_HEADER_BYTES ? len : HSP_LLMC_HEADER_BYTES;
        HSP_ASSERT(hsp_llmc_parse(data, head, len, &again, NULL) == HSP_OK);
        HSP_ASSERT(again.type == s.type && again.first == s.first && again.n == s.n);
    } else {
        check_err(st, &err);
    }
}

static void nanogpt(const uint8_t *data, size_t len)
{
    struct hsp_err err = {0};
    struct hsp_token_span s;
    enum hsp_status st = hsp_nanogpt_parse(len, &s, &err);
    if (st == HSP_OK) {
        check_tokens(&s, data, len);
    } else {
        check_err(st, &err);
    }
}

static void megatron(const uint8_t *data, size_t len)
{
    static const uint8_t bin[65535];
    struct hsp_err err = {0};
    struct hsp_megatron_index ix;
    uint64_t bytes = hsp_le_get(data, 2);
    enum hsp_status st = hsp_megatron_parse(data + 2, len - 2, bytes, &ix, &err);
    if (st != HSP_OK) {
        check_err(st, &err);
        return;
    }
    check_tokens(&ix.tokens, bin, bytes);
    HSP_ASSERT(hsp_megatron_start(&ix, ix.n_documents) == ix.tokens.n);
    for (uint64_t d = 0; d < ix.n_documents; d++) {
        uint64_t at = hsp_megatron_start(&ix, d);
        HSP_ASSERT(at <= hsp_megatron_start(&ix, d + 1));
        uint64_t next = hsp_megatron_next(&ix, at);
        HSP_ASSERT(next > d && next <= ix.n_documents);
        HSP_ASSERT(next == ix.n_documents || hsp_megatron_start(&ix, next) > at);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 3) {
        return 0;
    }
    switch (data[0] % 3) {
    case 0: llmc(data + 1, len - 1); break;
    case 1: megatron(data + 1, len - 1); break;
    default: nanogpt(data + 1, len - 1); break;
    }
    return 0;
}

/* Three sequences of 2, 0 and 3 tokens of @type, in two documents. */
static void megatron_seed(uint8_t type, uint16_t size, struct hsp_buf *out)
{
    static const uint32_t length[] = {2, 0, 3}, document[] = {0, 1, 3};
    hsp_buf_u16(out, (uint16_t)(5 * size));
    hsp_buf_append(out, "MMIDIDX\0\0", 9);
    hsp_buf_u64(out, 1);
    hsp_buf_u8(out, type);
    hsp_buf_u64(out, 3);
    hsp_buf_u64(out, 3);
    uint64_t at = 0;
    for (int i = 0; i < 3; i++) {
        hsp_buf_u32(out, length[i]);
    }
    for (int i = 0; i < 3; i++) {
        hsp_buf_u64(out, at);
        at += (uint64_t)length[i] * size;
    }
    for (int i = 0; i < 3; i++) {
        hsp_buf_u64(out, document[i]);
    }
}

static bool seed(size_t i, struct hsp_buf *out)
{
    static const uint8_t zeros[HSP_LLMC_HEADER_BYTES];
    hsp_buf_u8(out, (uint8_t)i);
    if (i % 3 == 0) {
        hsp_buf_u32(out, i == 0 ? 20240520 : 20240801);
        hsp_buf_u32(out, i == 0 ? 1 : 7);
        hsp_buf_u32(out, 4);
        hsp_buf_append(out, zeros, HSP_LLMC_HEADER_BYTES - 12);
        hsp_buf_append(out, "\1\0\2\0\3\0\4\0\5\0\6\0\7\0\10\0", i == 0 ? 8 : 16);
    } else if (i % 3 == 1) {
        megatron_seed(i == 1 ? 8 : 4, i == 1 ? 2 : 4, out);
    } else {
        hsp_buf_append(out, "\1\0\2\0\377\377", 6);
    }
    return i < 6;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "dataset", .seed = seed};
