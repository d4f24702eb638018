/* Keeps the data sets an executor has read: mapped, compared with the vocabulary, hashed.
 *
 * Role:      an epoch's data are mostly those of the epoch before: only the first reads the files,
 *            those after it look at their names, sizes and times. Files that have changed are read
 *            again, and so are those that had changed less than 3 s before they were opened: a
 *            further change may have left no trace in their times.
 * Purity:    shell (files).
 * Threads:   any thread. A thread of its own looks and reads, one data set at a time: a caller
 *            waits for its data, and may give up waiting; nobody else waits. A reading goes on
 *            without its callers: the next to ask for the same finds it done, or under way. A file
 *            system may never answer. A reading that does not end soon after it was given up is
 *            left behind: the next one begins, and its result is thrown away.
 * Ownership: the cache owns its data sets until all callers have given them back.
 * Bounds:    one data set is kept when nobody holds it, the last one, until hsp_data_cache_drop.
 *            A reading for which nobody waits ends when another data set is asked for, too.
 *            HSP_DATA_LEFT_BEHIND readings.
 */
#ifndef HSP_DATA_CACHE_H
#define HSP_DATA_CACHE_H
#include "worker/data/dataset.h"

struct hsp_data_cache; /* opaque */

/* Bound of abandoned readings. A thread that hangs in a file system is abandoned when nobody waits
 * for its data. At this bound nothing more is read, until the file system answers or an operator
 * starts the worker again. */
#define HSP_DATA_LEFT_BEHIND 4u

struct hsp_held_data { /* immutable while it is held */
    struct hsp_dataset set;
    struct hsp_digest digest; /* hsp_dataset_digest */
};

/* The wanted data; borrowed for the call. */
struct hsp_data_wish {
    const char *path; /* as of hsp_dataset_open */
    enum hsp_data_format format;
    uint32_t vocab;                   /* all tokens are below it */
    struct hsp_data_cut cut;          /* documents to be listed */
    const struct hsp_data_stop *stop; /* asked every 50 ms whether to wait no more; NULL: not */
};

/* @wall_ns: ns since 1970, to compare with the times of files; NULL: the system's clock. NULL
 * without memory. */
struct hsp_data_cache *hsp_data_cache_new(int64_t (*wall_ns)(void));
/* Frees the cache. Data sets that are still held, and a reading that hangs, may outlive it. NULL is
 * allowed; returns NULL. */
struct hsp_data_cache *hsp_data_cache_free(struct hsp_data_cache *c);

/* Hold it until hsp_data_cache_put. Errors of hsp_dataset_open and hsp_dataset_read; HSP_EIO: also
 * when too many readings are abandoned; HSP_ECANCELED: the stop of the wish; HSP_ENOMEM. */
enum hsp_status hsp_data_cache_get(struct hsp_data_cache *c, const struct hsp_data_wish *w,
                                   const struct hsp_held_data **ret, struct hsp_err *err);
/* Adds another holder of @d; returns @d. */
const struct hsp_held_data *hsp_data_cache_hold(struct hsp_data_cache *c,
                                                const struct hsp_held_data *d);
/* NULL allowed; returns NULL. */
const struct hsp_held_data *hsp_data_cache_put(struct hsp_data_cache *c,
                                               const struct hsp_held_data *d);
/* Releases data sets without holders, and ends readings without callers. */
void hsp_data_cache_drop(struct hsp_data_cache *c);

#endif
