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

/* Makes the cursor of version @step, for which the first @step global batches have been read. @c is
 * the corpus of the data set @d. */
void hsp_data_cursor_init(const struct hsp_data_bind *d, const struct hsp_corpus *c,
                          struct hsp_digest digest, uint64_t bytes, uint64_t step,
                          struct hsp_data_cursor *ret);

/* Return the number of complete passes over the data, the number of samples used in the running
 * pass, and the number of tokens read in all. A label that is the first token of the next sample
 * counts once. Documents of the running pass count with the mean length of all documents. */
uint64_t hsp_data_cursor_pass(const struct hsp_data_cursor *c);
uint64_t hsp_data_cursor_sample(const struct hsp_data_cursor *c);
uint64_t hsp_data_cursor_tokens(const struct hsp_data_cursor *c);

/* Returns a hash of all fields: two cursors that differ have the same mark only by chance. */
uint64_t hsp_data_cursor_mark(const struct hsp_data_cursor *c);

/* Compares the cursor @was, from which a job is to go on, with the cursor @now of its present data.
 * HSP_ESTATE: the job would train on other samples; the message says in one line how they differ
 * and how to mend it. */
enum hsp_status hsp_data_cursor_match(const struct hsp_data_cursor *was,
                                      const struct hsp_data_cursor *now, struct hsp_err *err);

/* Return the name of a value: "text", "llm.c", ...; "none", "start", "end", "index"; "windows",
 * "documents". Return NULL beyond the last value. */
const char *hsp_data_format_name(unsigned format);
const char *hsp_packing_name(unsigned packing);
const char *hsp_samples_name(unsigned samples);

#endif
