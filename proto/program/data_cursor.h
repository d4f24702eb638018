/* Records the position of a job in its data: files, their order, progress (decisions D5, D9).
 *
 * Role:   part of every committed version. The sample order is a pure function of this record
 *         (sheet.h), so two equal cursors continue with the same sample. Votes compare its mark,
 *         checkpoints record it, a resume compares it with the files it finds.
 * Purity: pure.
 */
#ifndef HSP_DATA_CURSOR_H
#define HSP_DATA_CURSOR_H
#include "proto/program/sheet.h"

struct hsp_data_cursor {
    struct hsp_digest digest; /* of all bytes of the files; zero: made-up data */
    uint64_t bytes, n_tokens; /* of the files */
    uint64_t seed;            /* of the permutations */
    uint64_t pass_samples;    /* windows or documents that train, > 0: the samples of one pass */
    uint64_t pass_tokens;     /* in them; 0: not known (a manifest of windows) */
    uint64_t samples;         /* used up: position of the next one in the endless sequence */
    uint32_t sequence;        /* tokens of a sample; of a document at most */
    uint32_t separator;       /* of documents */
    uint8_t format, packing;  /* enum hsp_data_format, enum hsp_packing */
    uint8_t unit;             /* enum hsp_samples */
};

/* The cursor of version @step: its first @step global batches are used up. @c: of @d. */
void hsp_data_cursor_init(const struct hsp_data_bind *d, const struct hsp_corpus *c,
                          struct hsp_digest digest, uint64_t bytes, uint64_t step,
                          struct hsp_data_cursor *ret);

/* Passes over the data that are complete, samples used of the one that is not, tokens read in all
 * (labels that are the next sample's first token not counted twice; documents of the running pass
 * count as the mean of all). */
uint64_t hsp_data_cursor_pass(const struct hsp_data_cursor *c);
uint64_t hsp_data_cursor_sample(const struct hsp_data_cursor *c);
uint64_t hsp_data_cursor_tokens(const struct hsp_data_cursor *c);

/* One number of all fields; differs, but for chance, where any of them does. */
uint64_t hsp_data_cursor_mark(const struct hsp_data_cursor *c);

/* HSP_ESTATE: a job that goes on from @was with the data of @now would train on other samples. The
 * message says in one line the difference and the way out. */
enum hsp_status hsp_data_cursor_match(const struct hsp_data_cursor *was,
                                      const struct hsp_data_cursor *now, struct hsp_err *err);

/* "text", "llm.c", ...; "none", "start", "end", "index"; "windows", "documents". NULL beyond the
 * last. */
const char *hsp_data_format_name(unsigned format);
const char *hsp_packing_name(unsigned packing);
const char *hsp_samples_name(unsigned samples);

#endif
