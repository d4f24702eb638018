/* Checks the headers of the files of tokenised data sets.
 *
 * Role:      data set files as other tools write them; dataset.h maps files and reads tokens.
 * Purity:    pure functions over bytes; nothing is trusted: HSP_EPARSE names the mistake.
 * Ownership: an index borrows the bytes it was read from.
 * Formats:   llm.c      256 x int32 (magic 20240520, version 1: uint16 tokens; 20240801, 7: uint32;
 *                       then the number of tokens), tokens.  dev/data/data_common.py of llm.c
 *            nanogpt    uint16 tokens and nothing else.
 *            megatron   .bin: tokens; .idx: "MMIDIDX\0\0", u64 version = 1, u8 type of a token, u64
 *                       sequences, u64 document indices, i32 length of each sequence, i64 byte in
 *                       .bin of each, i64 first sequence of each document and of the end; then
 *                       perhaps one byte for each sequence.  core/datasets/indexed_dataset.py
 */
#ifndef HSP_FORMATS_H
#define HSP_FORMATS_H
#include <stddef.h>
#include <stdint.h>
#include "proto/base/err.h"

#define HSP_LLMC_HEADER_BYTES 1024u
#define HSP_MAX_DATA_BYTES    (UINT64_C(1) << 42) /* of one file */

enum hsp_token_type {
    HSP_TOKEN_U8,
    HSP_TOKEN_I8,
    HSP_TOKEN_I16,
    HSP_TOKEN_U16,
    HSP_TOKEN_I32,
    HSP_TOKEN_U32,
    HSP_TOKEN_I64
};

/* The tokens of one file: @n tokens of @type, from byte @first on. */
struct hsp_token_span {
    enum hsp_token_type type;
    uint64_t first, n;
};

/* The documents of a Megatron data set: document d consists of the sequences doc(d) .. doc(d + 1) -
 * 1. */
struct hsp_megatron_index {
    struct hsp_token_span tokens; /* in the .bin */
    uint64_t n_sequences, n_documents;
    const uint8_t *pointers, *documents; /* borrowed; unaligned i64 */
};

size_t hsp_token_size(enum hsp_token_type t);
/* Returns token @i (< s->n) of the file that starts at @file. */
int64_t hsp_token_get(const struct hsp_token_span *s, const uint8_t *file, uint64_t i);

/* Returns the index of the first token that is not in 0 .. vocab - 1; s->n if there is none. Reads
 * all tokens. */
uint64_t hsp_token_outside(const struct hsp_token_span *s, const uint8_t *file, uint32_t vocab);

/* @head: the first @len bytes of a file of @file_bytes (min(file_bytes, header) are enough). */
enum hsp_status hsp_llmc_parse(const uint8_t *head, size_t len, uint64_t file_bytes,
                               struct hsp_token_span *ret, struct hsp_err *err);
enum hsp_status hsp_nanogpt_parse(uint64_t file_bytes, struct hsp_token_span *ret,
                                  struct hsp_err *err);
/* @idx: the whole .idx; @bin_bytes: size of the .bin. After HSP_OK sequences follow each other
 * without holes and fill the .bin; documents are in order and cover all sequences. */
enum hsp_status hsp_megatron_parse(const uint8_t *idx, size_t len, uint64_t bin_bytes,
                                   struct hsp_megatron_index *ret, struct hsp_err *err);
/* Returns the first token of document @d; for @d = n_documents the number of tokens. */
uint64_t hsp_megatron_start(const struct hsp_megatron_index *ix, uint64_t d);
/* Returns the first document that begins after token @at; n_documents if there is none. */
uint64_t hsp_megatron_next(const struct hsp_megatron_index *ix, uint64_t at);

#endif
