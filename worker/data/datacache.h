/* The data sets an executor has read: mapped, compared with the vocabulary, hashed.
 *
 * Role:      an epoch's data are mostly those of the epoch before: only the first reads the files,
 *            those after it look at their names, sizes and times. Files that have changed are read
 *            again.
 * Purity:    shell (files).
 * Threads:   any thread; who comes while files are being read waits for it.
 * Ownership: the cache owns what it gives out until it has been given back by all.
 * Bounds:    one data set is kept when nobody holds it, the last one.
 */
#ifndef HSP_DATACACHE_H
#define HSP_DATACACHE_H
#include "worker/data/dataset.h"

struct hsp_data_cache; /* opaque */

struct hsp_held_data { /* immutable while it is held */
    struct hsp_dataset set;
    struct hsp_digest digest; /* hsp_dataset_digest */
};

struct hsp_data_cache *hsp_data_cache_new(void); /* NULL without memory */
/* All must have been given back. NULL allowed; returns NULL. */
struct hsp_data_cache *hsp_data_cache_free(struct hsp_data_cache *c);

/* The data set of @path, all of whose tokens are below @vocab; hold it until hsp_data_cache_put.
 * Errors of hsp_dataset_open and hsp_dataset_check; HSP_ENOMEM. */
enum hsp_status hsp_data_cache_get(struct hsp_data_cache *c, const char *path,
                                   enum hsp_data_format format, uint32_t vocab,
                                   const struct hsp_held_data **ret, struct hsp_err *err);
/* NULL allowed; returns NULL. */
const struct hsp_held_data *hsp_data_cache_put(struct hsp_data_cache *c,
                                               const struct hsp_held_data *d);

#endif
