#include "worker/state/json_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/hash.h"
#include "proto/base/str.h"

enum hsp_status hsp_json_parse(const char *text, size_t len, cJSON **ret)
{
    errno = 0; /* cJSON does not say why it gave up; malloc does */
    *ret = cJSON_ParseWithLength(text, len);
    return *ret != NULL ? HSP_OK : errno == ENOMEM ? HSP_ENOMEM : HSP_EPARSE;
}

bool hsp_json_hash(const cJSON *o, uint64_t seed, uint64_t *ret)
{
    char *text = cJSON_PrintUnformatted(o);
    if (text == NULL) {
        return false;
    }
    *ret = hsp_hash64(text, strlen(text), seed);
    cJSON_free(text);
    return true;
}

bool hsp_json_add_u64(cJSON *o, const char *key, uint64_t v)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRIu64, v);
    return cJSON_AddStringToObject(o, key, text) != NULL;
}

bool hsp_json_u64(const cJSON *o, const char *key, uint64_t *ret)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsString(v) && hsp_parse_u64(v->valuestring, ret);
}
