#include "proto/base/map.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/hash.h"
#include "proto/base/size.h"
#include "proto/base/vec.h"

/* A slot holds an entry index + 1. Removal leaves the index in place and marks the entry dead, so
 * probing sequences stay intact; a rebuild drops the dead ones. */
struct hsp_map_entry {
    uint64_t key; /* the 64-bit key, or the hash of the text */
    char *text;   /* owned; NULL for 64-bit keys and dead entries */
    uint32_t value;
    bool live;
};

enum { SLOTS_MIN = 16 };
static const size_t ENTRIES_MAX = UINT32_MAX - 1; /* indices + 1 must fit a slot */

void hsp_map_init(struct hsp_map *m, size_t max)
{
    *m = (struct hsp_map){.max = max < ENTRIES_MAX / 2 ? max : ENTRIES_MAX / 2};
}

void hsp_map_clear(struct hsp_map *m)
{
    for (size_t i = 0; i < m->n_entries; i++) {
        free(m->entries[i].text);
    }
    m->n_entries = 0;
    m->n_live = 0;
    if (m->n_slots > 0) {
        memset(m->slots, 0, m->n_slots * sizeof(*m->slots));
    }
}

void hsp_map_fini(struct hsp_map *m)
{
    hsp_map_clear(m);
    free(m->entries);
    free(m->slots);
    *m = (struct hsp_map){.max = m->max};
}

size_t hsp_map_len(const struct hsp_map *m)
{
    return m->n_live;
}

static bool entry_matches(const struct hsp_map_entry *e, uint64_t key, const char *text)
{
    if (!e->live || e->key != key || (e->text == NULL) != (text == NULL)) {
        return false;
    }
    return text == NULL || strcmp(e->text, text) == 0;
}

static struct hsp_map_entry *find(const struct hsp_map *m, uint64_t key, const char *text)
{
    if (m->n_slots == 0) {
        return NULL;
    }
    size_t mask = m->n_slots - 1;
    for (size_t i = (size_t)hsp_mix64(key) & mask; m->slots[i] != 0; i = (i + 1) & mask) {
        struct hsp_map_entry *e = &m->entries[m->slots[i] - 1];
        if (entry_matches(e, key, text)) {
            return e;
        }
    }
    return NULL;
}

static void link_slot(struct hsp_map *m, size_t entry)
{
    size_t mask = m->n_slots - 1;
    size_t i = (size_t)hsp_mix64(m->entries[entry].key) & mask;
    while (m->slots[i] != 0) {
        i = (i + 1) & mask;
    }
    m->slots[i] = (uint32_t)(entry + 1);
}

/* Drops dead entries and makes room so that at most half of the slots are used after one more
 * insertion. */
static bool rebuild(struct hsp_map *m)
{
    size_t n_slots = SLOTS_MIN;
    while (n_slots / 2 < m->n_live + 1) {
        n_slots *= 2; /* n_live <= ENTRIES_MAX / 2, so this cannot overflow on 64-bit */
    }
    uint32_t *slots = calloc(n_slots, sizeof(*slots));
    if (slots == NULL) {
        return false;
    }
    size_t n = 0;
    for (size_t i = 0; i < m->n_entries; i++) {
        if (m->entries[i].live) {
            m->entries[n++] = m->entries[i];
        }
    }
    free(m->slots);
    m->slots = slots;
    m->n_slots = n_slots;
    m->n_entries = n;
    for (size_t i = 0; i < n; i++) {
        link_slot(m, i);
    }
    return true;
}

static enum hsp_status put(struct hsp_map *m, uint64_t key, const char *text, uint32_t value)
{
    struct hsp_map_entry *e = find(m, key, text);
    if (e != NULL) {
        e->value = value;
        return HSP_OK;
    }
    if (m->n_live >= m->max) {
        return HSP_ELIMIT;
    }
    /* Dead entries count: they occupy slots. */
    if ((m->n_entries + 1) * 4 > m->n_slots * 3 && !rebuild(m)) {
        return HSP_ENOMEM;
    }
    if (!hsp_grow(&m->entries, &m->cap_entries, m->n_entries + 1, sizeof(*m->entries),
                  ENTRIES_MAX)) {
        return HSP_ENOMEM;
    }
    char *copy = NULL;
    if (text != NULL) {
        copy = strdup(text);
        if (copy == NULL) {
            return HSP_ENOMEM;
        }
    }
    m->entries[m->n_entries] =
        (struct hsp_map_entry){.key = key, .text = copy, .value = value, .live = true};
    link_slot(m, m->n_entries);
    m->n_entries++;
    m->n_live++;
    return HSP_OK;
}

static bool get(const struct hsp_map *m, uint64_t key, const char *text, uint32_t *ret_value)
{
    const struct hsp_map_entry *e = find(m, key, text);
    if (e != NULL && ret_value != NULL) {
        *ret_value = e->value;
    }
    return e != NULL;
}

enum hsp_status hsp_map_put(struct hsp_map *m, const char *key, uint32_t value)
{
    return put(m, hsp_hash_str(key), key, value);
}

enum hsp_status hsp_map_put_u64(struct hsp_map *m, uint64_t key, uint32_t value)
{
    return put(m, key, NULL, value);
}

bool hsp_map_get(const struct hsp_map *m, const char *key, uint32_t *ret_value)
{
    return get(m, hsp_hash_str(key), key, ret_value);
}

bool hsp_map_get_u64(const struct hsp_map *m, uint64_t key, uint32_t *ret_value)
{
    return get(m, key, NULL, ret_value);
}

static bool drop(struct hsp_map *m, struct hsp_map_entry *e)
{
    if (e != NULL) {
        free(e->text);
        e->text = NULL;
        e->live = false;
        m->n_live--;
    }
    return e != NULL;
}

bool hsp_map_remove(struct hsp_map *m, const char *key)
{
    return drop(m, find(m, hsp_hash_str(key), key));
}

bool hsp_map_remove_u64(struct hsp_map *m, uint64_t key)
{
    return drop(m, find(m, key, NULL));
}
