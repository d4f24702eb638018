/* Reads and writes JSON in the files of this room, and tells damage from want of memory.
 *
 * Purity:    pure (heap only).
 * Ownership: a tree belongs to the caller: cJSON_Delete.
 */
#ifndef HSP_JSON_TEXT_H
#define HSP_JSON_TEXT_H
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

/* Parses the first @len bytes of @text. HSP_EPARSE: they are no JSON; HSP_ENOMEM. *@ret is NULL
 * then. */
enum hsp_status hsp_json_parse(const char *text, size_t len, cJSON **ret);

/* Hash of @o as text. False without memory. */
bool hsp_json_hash(const cJSON *o, uint64_t seed, uint64_t *ret);

/* Adds or reads a number; beyond 2^53 as a string (decision D16). False: no memory; not a
 * number. */
bool hsp_json_add_u64(cJSON *o, const char *key, uint64_t v);
bool hsp_json_u64(const cJSON *o, const char *key, uint64_t *ret);

#endif
