/* Adds members to a JSON document that is built whole: without memory the document is NULL in the
 * end.
 *
 * Role:   the *doc.c of this room. Static, so without a prefix.
 * Purity: pure (heap only).
 */
#ifndef HSP_DOC_PUT_H
#define HSP_DOC_PUT_H
#include <cjson/cJSON.h>

static inline void put(cJSON *o, const char *key, double v)
{
    (void)cJSON_AddNumberToObject(o, key, v);
}

static inline void put_text(cJSON *o, const char *key, const char *v)
{
    (void)cJSON_AddStringToObject(o, key, v);
}

#endif
