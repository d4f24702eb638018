/* Maps a text, or a 64-bit key, to a uint32_t (usually an index), by hashing.
 *
 * Purity:     pure (heap only).
 * Threads:    confined to one thread.
 * Ownership:  keys are copied and owned by the map.
 * Bounds:     at most max live entries.
 * One map holds either text keys or 64-bit keys, never both.
 */
#ifndef HSP_MAP_H
#define HSP_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

struct hsp_map_entry;

struct hsp_map {
    struct hsp_map_entry *entries; /* owned, in order of insertion, dead ones included */
    uint32_t *slots;               /* owned, open addressing, power of two */
    size_t n_entries, cap_entries; /* used and allocated entries */
    size_t n_slots;                /* 0 before the first insertion */
    size_t n_live;                 /* entries that are not dead: the size of the map */
    size_t max;                    /* bound on n_live */
};

void hsp_map_init(struct hsp_map *m, size_t max);
void hsp_map_fini(struct hsp_map *m);
void hsp_map_clear(struct hsp_map *m); /* keeps the memory */
size_t hsp_map_len(const struct hsp_map *m);

/* Inserts or replaces. HSP_ELIMIT above max, HSP_ENOMEM: the map is unchanged. */
enum hsp_status hsp_map_put(struct hsp_map *m, const char *key, uint32_t value);
enum hsp_status hsp_map_put_u64(struct hsp_map *m, uint64_t key, uint32_t value);

/* False when absent (*ret_value untouched). ret_value may be NULL. */
bool hsp_map_get(const struct hsp_map *m, const char *key, uint32_t *ret_value);
bool hsp_map_get_u64(const struct hsp_map *m, uint64_t key, uint32_t *ret_value);

/* False when there was nothing to remove. */
bool hsp_map_remove(struct hsp_map *m, const char *key);
bool hsp_map_remove_u64(struct hsp_map *m, uint64_t key);

#endif
