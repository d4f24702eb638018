/* Writes and reads manifests. A manifest is JSON; its last member is a hash of the text without it,
 * so a flipped bit is found. */
#include "worker/state/ckpt_manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/state/ckpt_files.h"

#define MANIFEST_MAX (64U << 20)

/* ---- the place in the data ---- */

static bool add_data(cJSON *m, const struct hsp_data_cursor *c)
{
    char digest[HSP_DIGEST_HEX];
    const char *format = hsp_data_format_name(c->format), *packing = hsp_packing_name(c->packing);
    const char *samples = hsp_samples_name(c->unit);
    cJSON *o = cJSON_AddObjectToObject(m, "data");
    hsp_digest_hex(c->digest, digest);
    return o != NULL && samples != NULL && format != NULL && packing != NULL &&
           c->pass_samples > 0 && cJSON_AddStringToObject(o, "digest", digest) != NULL &&
           hsp_json_add_u64(o, "bytes", c->bytes) && hsp_json_add_u64(o, "tokens", c->n_tokens) &&
           cJSON_AddStringToObject(o, "format", format) != NULL &&
           cJSON_AddStringToObject(o, "packing", packing) != NULL &&
           cJSON_AddStringToObject(o, "samples", samples) != NULL &&
           hsp_json_add_u64(o, "pass_tokens", c->pass_tokens) &&
           hsp_json_add_u64(o, "separator", c->separator) &&
           hsp_json_add_u64(o, "sequence", c->sequence) && hsp_json_add_u64(o, "seed", c->seed) &&
           hsp_json_add_u64(o, "pass_samples", c->pass_samples) &&
           hsp_json_add_u64(o, "pass", hsp_data_cursor_pass(c)) &&
           hsp_json_add_u64(o, "sample", hsp_data_cursor_sample(c)) &&
           hsp_json_add_u64(o, "tokens_read", hsp_data_cursor_tokens(c));
}

/* Gets the number of a name. Returns false if there is no such name. */
static bool read_name(const cJSON *o, const char *key, const char *(*name)(unsigned), uint8_t *ret)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key)), *one;
    for (uint8_t i = 0; text != NULL && (one = name(i)) != NULL; i++) {
        if (strcmp(text, one) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

static bool read_data(const cJSON *m, struct hsp_data_cursor *ret)
{
    const cJSON *o = cJSON_GetObjectItemCaseSensitive(m, "data");
    const char *digest = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "digest"));
    uint64_t separator, sequence, pass, sample, tokens;
    struct hsp_data_cursor c = {0};
    bool unit = cJSON_HasObjectItem(o, "samples"); /* not said before there were documents */
    if (digest == NULL || !hsp_digest_parse(digest, &c.digest) ||
        !hsp_json_u64(o, "bytes", &c.bytes) || !hsp_json_u64(o, "tokens", &c.n_tokens) ||
        !read_name(o, "format", hsp_data_format_name, &c.format) ||
        !read_name(o, "packing", hsp_packing_name, &c.packing) ||
        (unit && (!read_name(o, "samples", hsp_samples_name, &c.unit) ||
                  !hsp_json_u64(o, "pass_tokens", &c.pass_tokens))) ||
        !hsp_json_u64(o, "separator", &separator) || separator > UINT32_MAX ||
        !hsp_json_u64(o, "sequence", &sequence) || sequence > UINT32_MAX ||
        !hsp_json_u64(o, "seed", &c.seed) || !hsp_json_u64(o, "pass_samples", &c.pass_samples) ||
        !hsp_json_u64(o, "pass", &pass) || !hsp_json_u64(o, "sample", &sample) ||
        !hsp_json_u64(o, "tokens_read", &tokens) || sample >= c.pass_samples ||
        pass > (UINT64_MAX - sample) / c.pass_samples) {
        return false;
    }
    c.separator = (uint32_t)separator;
    c.sequence = (uint32_t)sequence;
    c.samples = pass * c.pass_samples + sample;
    *ret = c;
    return hsp_data_cursor_tokens(&c) == tokens;
}

/* ---- the owner ---- */

static bool add_whose(cJSON *m, const struct hsp_whose *w)
{
    char hex[HSP_DIGEST_HEX];
    hsp_digest_hex(w->cluster, hex);
    return cJSON_AddStringToObject(m, "cluster", hex) != NULL &&
           hsp_json_add_u64(m, "generation", w->generation);
}

static bool read_whose(const cJSON *m, struct hsp_whose *ret)
{
    const cJSON *cluster = cJSON_GetObjectItemCaseSensitive(m, "cluster");
    *ret = (struct hsp_whose){0};
    return cluster == NULL ||
           (cJSON_IsString(cluster) && hsp_digest_parse(cluster->valuestring, &ret->cluster) &&
            hsp_json_u64(m, "generation", &ret->generation));
}

/* ---- all of it ---- */

char *hsp_ckpt_manifest_text(const struct hsp_ckpt_info *info, const struct hsp_ckpt_shard *s,
                             const struct hsp_data_cursor *data, const char *config)
{
    cJSON *m = cJSON_CreateObject();
    cJSON *shards = cJSON_AddArrayToObject(m, "shards");
    uint64_t content = 0;
    bool ok = shards != NULL && cJSON_AddNumberToObject(m, "format", HSP_CKPT_FORMAT) != NULL &&
              cJSON_AddStringToObject(m, "job", info->job) != NULL &&
              hsp_json_add_u64(m, "step", info->step) && hsp_json_add_u64(m, "term", info->term) &&
              hsp_json_add_u64(m, "epoch", info->epoch) &&
              cJSON_AddNumberToObject(m, "ranks", info->n_ranks) != NULL &&
              cJSON_AddNumberToObject(m, "params", info->n_params) != NULL &&
              cJSON_AddNumberToObject(m, "job_id", info->job_id) != NULL &&
              add_whose(m, &info->whose) && add_data(m, data) &&
              cJSON_AddStringToObject(m, "config", config) != NULL;
    for (uint32_t i = 0; ok && i < info->n_ranks; i++) {
        cJSON *o = cJSON_CreateObject();
        ok = cJSON_AddItemToArray(shards, o);
        if (!ok) {
            cJSON_Delete(o);
            break;
        }
        ok = hsp_json_add_u64(o, "metadata", s[i].meta_hash) &&
             hsp_json_add_u64(o, "content", s[i].content);
        content += s[i].content;
    }
    ok = ok && hsp_json_add_u64(m, "content", content);
    uint64_t digest = 0;
    ok = ok && hsp_json_hash(m, HSP_CKPT_FORMAT, &digest) && hsp_json_add_u64(m, "digest", digest);
    char *text = ok ? cJSON_Print(m) : NULL;
    cJSON_Delete(m);
    return text;
}

enum hsp_status hsp_ckpt_other_format(const struct hsp_folder *step, const char *name,
                                      uint32_t format, struct hsp_err *err)
{
    return hsp_err_set(
        err, HSP_EVERSION, 0,
        "checkpoint of format %u, this program reads %d%s: use the hspmd that wrote "
        "it, or submit the job again: %s/%s",
        format, HSP_CKPT_FORMAT,
        format < HSP_CKPT_FORMAT ? " (older ones do not say where in its data the job was)" : "",
        step->path, name);
}

/* Reads all members except the digest, which is right. Returns false if a member is missing or
 * wrong. */
static bool read_members(const cJSON *m, struct hsp_ckpt *c)
{
    const cJSON *job = cJSON_GetObjectItemCaseSensitive(m, "job");
    const cJSON *config = cJSON_GetObjectItemCaseSensitive(m, "config");
    const cJSON *ranks = cJSON_GetObjectItemCaseSensitive(m, "ranks");
    const cJSON *params = cJSON_GetObjectItemCaseSensitive(m, "params");
    const cJSON *shards = cJSON_GetObjectItemCaseSensitive(m, "shards");
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(m, "job_id"); /* later than format 2 */
    if (id != NULL &&
        !(cJSON_IsNumber(id) && id->valuedouble >= 0 && id->valuedouble <= (double)UINT32_MAX)) {
        return false;
    }
    if (!cJSON_IsNumber(params) || params->valueint < 0 || !cJSON_IsString(job) ||
        strlen(job->valuestring) >= sizeof(c->info.job) || !cJSON_IsString(config) ||
        !cJSON_IsNumber(ranks) || ranks->valueint < 1 || ranks->valueint > HSP_CKPT_MAX_RANKS ||
        cJSON_GetArraySize(shards) != ranks->valueint || !hsp_json_u64(m, "step", &c->info.step) ||
        !hsp_json_u64(m, "term", &c->info.term) || !hsp_json_u64(m, "epoch", &c->info.epoch) ||
        !read_data(m, &c->data)) {
        return false;
    }
    (void)snprintf(c->info.job, sizeof(c->info.job), "%s", job->valuestring);
    c->info.n_ranks = (uint32_t)ranks->valueint;
    c->info.n_params = (uint32_t)params->valueint;
    c->info.job_id = id != NULL ? (uint32_t)id->valuedouble : 0;
    return read_whose(m, &c->info.whose);
}

/* Compares the manifest with its digest, which @m loses, and takes its members. The number of the
 * format may be damaged like all else: with our number in its place the manifest fits its
 * digest. */
static enum hsp_status take_members(cJSON *m, const struct hsp_folder *step, struct hsp_ckpt *c,
                                    struct hsp_err *err)
{
    cJSON *format = cJSON_GetObjectItemCaseSensitive(m, "format");
    uint32_t number = cJSON_IsNumber(format) ? (uint32_t)format->valueint : HSP_CKPT_FORMAT;
    uint64_t said = 0, is = 0;
    bool ok = cJSON_IsNumber(format) && hsp_json_u64(m, "digest", &said);
    if (number != HSP_CKPT_FORMAT) {
        cJSON_SetNumberValue(format, HSP_CKPT_FORMAT);
    }
    cJSON_DeleteItemFromObjectCaseSensitive(m, "digest");
    if (ok && !hsp_json_hash(m, HSP_CKPT_FORMAT, &is)) {
        return hsp_err_nomem(err, "%s/%s", step->path, HSP_CKPT_MANIFEST);
    }
    ok = ok && said == is;
    if (number != HSP_CKPT_FORMAT && !ok) {
        return hsp_ckpt_other_format(step, HSP_CKPT_MANIFEST, number, err);
    }
    if (!ok || number != HSP_CKPT_FORMAT || !read_members(m, c)) {
        return hsp_err_set(err, HSP_EDIGEST, 0, "%s/%s is damaged", step->path, HSP_CKPT_MANIFEST);
    }
    c->config = strdup(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(m, "config")));
    return c->config != NULL ? HSP_OK : hsp_err_nomem(err, "%s/%s", step->path, HSP_CKPT_MANIFEST);
}

enum hsp_status hsp_ckpt_manifest_read(const struct hsp_folder *step, struct hsp_ckpt *c,
                                       cJSON **ret, struct hsp_err *err)
{
    uint8_t *text = NULL;
    size_t len = 0;
    cJSON *m = NULL;
    enum hsp_status st = hsp_folder_read(step, HSP_CKPT_MANIFEST, MANIFEST_MAX, &text, &len, err);
    if (st != HSP_OK) {
        return st;
    }
    st = hsp_json_parse((const char *)text, len, &m);
    free(text);
    st = st == HSP_ENOMEM ? hsp_err_nomem(err, "%s/%s", step->path, HSP_CKPT_MANIFEST)
                          : take_members(m, step, c, err);
    if (st != HSP_OK) {
        cJSON_Delete(m);
        return st;
    }
    *ret = m;
    return HSP_OK;
}
