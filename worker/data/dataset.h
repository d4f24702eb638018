/* Reads a data set for a device: mapped files that make one stream of tokens, or a made-up one.
 *
 * Role:      read by the interpreter for HSP_I_LOAD; its digest is compared between workers.
 * Purity:    shell (maps files). formats.h checks the headers.
 * Threads:   immutable after open. Opening, reading and looking may take for ever where a file
 *            system does not answer: data_cache.h and data_watch.h do so on threads that can be
 *            left behind.
 * Ownership: the data set owns its files, which stay open. They must not shrink while they are
 *            mapped (SIGBUS).
 * Bounds:    HSP_DATASET_MAX_FILES, HSP_MAX_DATA_BYTES each.
 */
#ifndef HSP_DATASET_H
#define HSP_DATASET_H
#include "proto/base/hash.h"
#include "proto/program/sheet.h"
#include "worker/data/formats.h"

#define HSP_DATASET_MAX_FILES 65536u
#define HSP_MAX_SAMPLES       (UINT64_C(1) << 27) /* documents and pieces: a list of 1 GiB */

/* Identity and state of a file when it was mapped. A file whose contents have changed since then
 * has another value. */
struct hsp_file_id {
    uint64_t dev, ino, bytes;
    int64_t mtime_ns, ctime_ns;
};
struct hsp_data_bytes { /* a whole file */
    const uint8_t *data;
    size_t n;
    struct hsp_file_id id; /* of mapped ones */
    int fd;                /* the same */
};
struct hsp_data_file {
    char *name;                     /* owned; for messages */
    struct hsp_data_bytes all, idx; /* idx: Megatron */
    struct hsp_token_span tokens;
    struct hsp_megatron_index index; /* of idx */
    uint64_t begin;                  /* number of its first token in the stream */
};
/* How documents become samples. */
struct hsp_data_cut {
    bool documents;  /* else nothing is listed, and the rest is 0 */
    uint8_t packing; /* enum hsp_packing */
    uint32_t separator, longest;
};
struct hsp_dataset {
    struct hsp_data_file *file;
    uint32_t n_files;
    bool mapped; /* else one file on the heap */
    uint64_t n_tokens, n_bytes;
    struct hsp_data_cut cut;
    /* Owned: the first token of each sample, then one entry for the end of the last sample. struct
     * hsp_corpus has the same form. */
    uint64_t *start;
    uint64_t n_samples;
};

/* @path: a file, or a pattern of glob(7) whose files follow each other in the order of strcmp; for
 * Megatron of the .bin or without ending, the .idx beside each. HSP_ENOENT, HSP_EPERM, HSP_EIO,
 * HSP_EINVAL (not a regular file, empty), HSP_EPARSE name the file. HSP_ELIMIT. HSP_ENOMEM: of the
 * files nothing is known. */
enum hsp_status hsp_dataset_open(const char *path, enum hsp_data_format format,
                                 struct hsp_dataset *ret, struct hsp_err *err);
void hsp_dataset_close(struct hsp_dataset *d);
/* Returns true if opening @path again would map the same bytes as @d has, as far as names, sizes
 * and times of the files tell (hsp_dataset_changed_ns). Reads none of them. False also where memory
 * does not suffice to look. */
bool hsp_dataset_is(const struct hsp_dataset *d, const char *path, enum hsp_data_format format);
/* Looks at every file that is open: HSP_ESTALE when its size or the time of its last change differs
 * from those at its mapping; names it, with old and new values. */
enum hsp_status hsp_dataset_look(const struct hsp_dataset *d, struct hsp_err *err);
/* When a file of @d was last changed before it was mapped, on the clock of its file system, in ns
 * since 1970; INT64_MIN: no files. A change soon after that moment may carry the same time, and
 * hsp_dataset_is cannot see it. */
int64_t hsp_dataset_changed_ns(const struct hsp_dataset *d);

/* Called after every MiB of a long reading; true cancels the reading. */
struct hsp_data_stop {
    bool (*asked)(void *ctx);
    void *ctx;
};

/* The rows and columns to load: rows are the sequences of the micro-batch, columns global positions
 * first_col .. first_col + n_cols - 1 of each. */
struct hsp_load_spec {
    enum hsp_load what;
    const struct hsp_data_bind *data;
    const struct hsp_micro *micro;
    int64_t first_col, n_cols;
};

#endif
