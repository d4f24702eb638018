/* Writes and opens shards. The happy path: pieces become entries of a safetensors file with our
 * metadata in its header; a stream writes the header first, then the data as they come.
 *
 * Possible failure modes: no space (the file is deleted); data that do not fit their hash
 * (likewise); a reader finds another format, or header and metadata that do not agree. */
#include "worker/state/ckpt_shard.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/hash.h"
#include "proto/base/map.h"
#include "proto/base/size.h"
#include "proto/layout/box.h"
#include "proto/program/program.h"
#include "worker/state/box_hash.h"
#include "worker/state/ckpt_files.h"
#include "worker/state/ckpt_manifest.h"
#include "worker/state/ckpt_sign.h"
#include "worker/state/safetensors_write.h"

#define NAME_BYTES 512

/* Prefixes of names for the state of the optimizer, as PyTorch names it. */
static const char *const kind_prefix[HSP_N_STATE_KINDS] = {
    [HSP_STATE_PARAM] = "",
    [HSP_STATE_M] = "optim.exp_avg.",
    [HSP_STATE_V] = "optim.exp_avg_sq.",
    [HSP_STATE_MOMENTUM] = "optim.momentum_buffer.",
};

/* ---- writing ---- */

struct shard_plan {
    size_t n;
    const struct hsp_ckpt_piece **p; /* not empty */
    struct hsp_st_entry *e;
    char (*name)[NAME_BYTES];
    uint64_t *hash;        /* by entry */
    char *sharding, *meta; /* JSON */
};

static void plan_fini(struct shard_plan *w)
{
    free(w->p);
    free(w->e);
    free(w->name);
    free(w->hash);
    cJSON_free(w->sharding);
    cJSON_free(w->meta);
}

static enum hsp_status check_piece(const struct hsp_ckpt_piece *p, struct hsp_err *err)
{
    struct hsp_box whole;
    bool ok = p->kind < HSP_N_STATE_KINDS && p->box.rank <= HSP_MAX_RANK &&
              p->held.rank == p->box.rank && (p->dtype == HSP_F32 || p->dtype == HSP_F64) &&
              strlen(p->name) + 40 < NAME_BYTES;
    if (ok) {
        whole = hsp_box_whole(p->box.rank, p->full);
        ok = hsp_box_inside(&p->box, &p->held) && hsp_box_inside(&p->held, &whole);
    }
    if (!ok) {
        return hsp_err_set(err, HSP_EINVAL, 0, "piece of %.80s cannot be written", p->name);
    }
    return HSP_OK;
}

/* Names and shapes of the entries; a second piece of one tensor gets "@1" behind its name. */
static enum hsp_status plan_entries(struct shard_plan *w, const struct hsp_ckpt_piece *p, size_t n,
                                    struct hsp_err *err)
{
    struct hsp_map seen;
    enum hsp_status st = HSP_OK;
    w->p = calloc(n + 1, sizeof(*w->p));
    w->e = calloc(n + 1, sizeof(*w->e));
    w->name = calloc(n + 1, sizeof(*w->name));
    w->hash = calloc(n + 1, sizeof(*w->hash));
    if (w->p == NULL || w->e == NULL || w->name == NULL || w->hash == NULL) {
        return hsp_err_nomem(err, "a checkpoint");
    }
    hsp_map_init(&seen, HSP_CKPT_MAX_PIECES);
    for (size_t i = 0; st == HSP_OK && i < n; i++) {
        uint32_t times = 0;
        st = check_piece(&p[i], err);
        if (st != HSP_OK || hsp_box_empty(&p[i].box)) {
            continue;
        }
        struct hsp_st_entry *e = &w->e[w->n];
        char *name = w->name[w->n];
        (void)snprintf(name, NAME_BYTES, "%s%s", kind_prefix[p[i].kind], p[i].name);
        (void)hsp_map_get(&seen, name, &times); /* absent: 0 */
        if (hsp_map_put(&seen, name, times + 1) != HSP_OK) {
            st = hsp_err_nomem(err, "a checkpoint");
        }
        if (times > 0) {
            (void)snprintf(name, NAME_BYTES, "%s%s@%u", kind_prefix[p[i].kind], p[i].name, times);
        }
        *e = (struct hsp_st_entry){.name = name, .dtype = p[i].dtype, .rank = p[i].box.rank};
        for (uint8_t d = 0; d < e->rank; d++) {
            e->ext[d] = p[i].box.hi[d] - p[i].box.lo[d];
        }
        w->hash[w->n] = p[i].hash;
        w->p[w->n++] = &p[i];
    }
    hsp_map_fini(&seen);
    return st;
}

static bool add_ints(cJSON *o, const char *key, const int64_t *v, uint8_t n)
{
    cJSON *a = cJSON_AddArrayToObject(o, key);
    for (uint8_t d = 0; a != NULL && d < n; d++) {
        cJSON *x = cJSON_CreateNumber((double)v[d]);
        if (!cJSON_AddItemToArray(a, x)) {
            cJSON_Delete(x);
            return false;
        }
    }
    return a != NULL;
}

static bool add_piece(cJSON *pieces, const char *key, const struct hsp_ckpt_piece *p, uint64_t hash)
{
    cJSON *o = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(pieces, o)) {
        cJSON_Delete(o);
        return false;
    }
    return cJSON_AddStringToObject(o, "key", key) != NULL &&
           cJSON_AddStringToObject(o, "name", p->name) != NULL &&
           cJSON_AddNumberToObject(o, "tensor", p->tensor) != NULL &&
           cJSON_AddNumberToObject(o, "kind", p->kind) != NULL &&
           add_ints(o, "full", p->full, p->box.rank) && add_ints(o, "lo", p->box.lo, p->box.rank) &&
           hsp_json_add_u64(o, "hash", hash);
}

static enum hsp_status plan_meta(struct shard_plan *w, const struct hsp_ckpt_info *info,
                                 uint32_t rank, struct hsp_err *err)
{
    cJSON *meta = cJSON_CreateObject(), *sharding = cJSON_CreateObject();
    cJSON *pieces = cJSON_AddArrayToObject(meta, "pieces");
    char cluster[HSP_DIGEST_HEX];
    hsp_digest_hex(info->whose.cluster, cluster);
    bool ok = pieces != NULL && sharding != NULL &&
              cJSON_AddNumberToObject(meta, "format", HSP_CKPT_FORMAT) != NULL &&
              cJSON_AddStringToObject(meta, "job", info->job) != NULL &&
              hsp_json_add_u64(meta, "step", info->step) &&
              hsp_json_add_u64(meta, "term", info->term) &&
              hsp_json_add_u64(meta, "epoch", info->epoch) &&
              cJSON_AddNumberToObject(meta, "ranks", info->n_ranks) != NULL &&
              cJSON_AddNumberToObject(meta, "params", info->n_params) != NULL &&
              cJSON_AddNumberToObject(meta, "job_id", info->job_id) != NULL &&
              cJSON_AddStringToObject(meta, "cluster", cluster) != NULL &&
              cJSON_AddNumberToObject(meta, "rank", rank) != NULL;
    for (size_t i = 0; ok && i < w->n; i++) {
        cJSON *o = cJSON_AddObjectToObject(sharding, w->name[i]);
        ok = o != NULL && add_ints(o, "saved_offsets", w->p[i]->box.lo, w->p[i]->box.rank) &&
             add_piece(pieces, w->name[i], w->p[i], w->hash[i]);
    }
    if (ok) {
        w->meta = cJSON_PrintUnformatted(meta);
        w->sharding = cJSON_PrintUnformatted(sharding);
    }
    cJSON_Delete(meta);
    cJSON_Delete(sharding);
    return w->meta != NULL && w->sharding != NULL ? HSP_OK : hsp_err_nomem(err, "a checkpoint");
}

/* Makes the entries, metadata and temporary folder of a shard, and its file with the head. */
static enum hsp_status create_shard(const char *dir, const struct hsp_ckpt_info *info,
                                    uint32_t rank, const struct hsp_ckpt_piece *p, size_t n,
                                    struct shard_plan *w, struct hsp_st_writer **ret,
                                    struct hsp_err *err)
{
    char tmp[HSP_CKPT_NAME], name[HSP_CKPT_NAME];
    struct hsp_folder job = {.fd = -1}, step = {.fd = -1};
    if (rank >= info->n_ranks || info->n_ranks > HSP_CKPT_MAX_RANKS || n > HSP_ST_MAX_TENSORS) {
        return hsp_err_set(err, HSP_EINVAL, 0, "shard %u of %u with %zu pieces", rank,
                           info->n_ranks, n);
    }
    hsp_ckpt_tmp_name(info, tmp);
    hsp_ckpt_shard_name(rank, name);
    enum hsp_status st = plan_entries(w, p, n, err);
    if (st == HSP_OK) {
        st = plan_meta(w, info, rank, err);
    }
    if (st == HSP_OK) {
        st = hsp_ckpt_open_folder(dir, &job, err);
    }
    if (st == HSP_OK) {
        st = hsp_folder_open_in(&job, tmp, true, &step, err);
    }
    if (st == HSP_OK) {
        struct hsp_st_meta meta[] = {{"format", "pt"},
                                     {"DCP_VERSION", "1.0"},
                                     {"DCP_SHARDING_INFO", w->sharding},
                                     {"hspmd", w->meta}};
        const struct hsp_st_head head = {w->e, w->n, meta, HSP_ARRAY_LEN(meta)};
        st = hsp_st_create_in(&step, name, &head, ret, err);
    }
    hsp_folder_close(&step);
    hsp_folder_close(&job);
    return st;
}

static uint64_t shard_bytes(const struct shard_plan *w)
{
    return w->n > 0 ? w->e[w->n - 1].end : 0;
}

/* ---- streaming ---- */

struct hsp_ckpt_stream {
    struct shard_plan w;
    const struct hsp_ckpt_piece *p;
    size_t n;
    uint32_t *entry;   /* [n]: of a piece, UINT32_MAX: empty */
    uint64_t *sum;     /* by entry: hashes of the parts that came */
    int64_t *elements; /* by entry: how many came */
    struct hsp_st_writer *file;
};

enum hsp_status hsp_ckpt_stream_open(const char *dir, const struct hsp_ckpt_info *info,
                                     uint32_t rank, const struct hsp_ckpt_piece *p, size_t n,
                                     struct hsp_ckpt_stream **ret, struct hsp_err *err)
{
    struct hsp_ckpt_stream *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return hsp_err_nomem(err, "a checkpoint");
    }
    *s = (struct hsp_ckpt_stream){.p = p,
                                  .n = n,
                                  .entry = calloc(n + 1, sizeof *s->entry),
                                  .sum = calloc(n + 1, sizeof *s->sum),
                                  .elements = calloc(n + 1, sizeof *s->elements)};
    enum hsp_status st = s->entry != NULL && s->sum != NULL && s->elements != NULL
                             ? create_shard(dir, info, rank, p, n, &s->w, &s->file, err)
                             : hsp_err_nomem(err, "a checkpoint");
    if (st != HSP_OK) {
        (void)hsp_ckpt_stream_discard(s);
        return st;
    }
    for (size_t i = 0; i < n; i++) {
        s->entry[i] = UINT32_MAX;
    }
    for (size_t k = 0; k < s->w.n; k++) {
        s->entry[s->w.p[k] - p] = (uint32_t)k;
    }
    *ret = s;
    return HSP_OK;
}

enum hsp_status hsp_ckpt_stream_put(struct hsp_ckpt_stream *s, size_t i, const struct hsp_box *part,
                                    const void *data, struct hsp_err *err)
{
    if (i >= s->n || s->entry[i] == UINT32_MAX || !hsp_box_inside(part, &s->p[i].box)) {
        return hsp_err_set(err, HSP_EINVAL, 0, "a part outside of piece %zu of a checkpoint", i);
    }
    const struct hsp_ckpt_piece *p = &s->p[i];
    uint32_t k = s->entry[i];
    struct hsp_box_id id = {p->tensor, p->kind, p->dtype, p->full};
    size_t elem = hsp_dtype_size(p->dtype);
    struct hsp_walk w;
    int64_t from, to;
    enum hsp_status st = HSP_OK;
    hsp_walk_init(&w, part, part, &p->box);
    while (st == HSP_OK && hsp_walk_next(&w, &from, &to)) {
        st = hsp_st_write(s->file, k, (uint64_t)to * elem,
                          (const uint8_t *)data + (size_t)from * elem, (size_t)w.run * elem, err);
    }
    s->sum[k] += hsp_box_hash(&id, part, part, data);
    s->elements[k] += hsp_box_count(part);
    return st;
}

static enum hsp_status check_stream(const struct hsp_ckpt_stream *s, struct hsp_err *err)
{
    for (size_t k = 0; k < s->w.n; k++) {
        int64_t want = hsp_box_count(&s->w.p[k]->box);
        if (s->elements[k] != want || s->sum[k] != s->w.hash[k]) {
            return hsp_err_set(err, HSP_EDIGEST, 0,
                               "%s of a checkpoint differs from the copy of its owner: %" PRId64
                               " of %" PRId64 " elements came%s",
                               s->w.name[k], s->elements[k], want,
                               s->elements[k] == want ? ", with another hash" : "");
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_ckpt_stream_close(struct hsp_ckpt_stream *s, uint64_t *ret_bytes,
                                      struct hsp_err *err)
{
    enum hsp_status st = check_stream(s, err);
    if (st == HSP_OK) {
        st = hsp_st_finish(s->file, err);
        s->file = NULL;
    }
    if (st == HSP_OK && ret_bytes != NULL) {
        *ret_bytes = shard_bytes(&s->w);
    }
    (void)hsp_ckpt_stream_discard(s);
    return st;
}

struct hsp_ckpt_stream *hsp_ckpt_stream_discard(struct hsp_ckpt_stream *s)
{
    if (s != NULL) {
        (void)hsp_st_discard(s->file);
        plan_fini(&s->w);
        free(s->entry);
        free(s->sum);
        free(s->elements);
        free(s);
    }
    return NULL;
}

/* ---- opening ---- */

static bool read_ints(const cJSON *o, const char *key, int64_t *ret, uint8_t *ret_n)
{
    const cJSON *a = cJSON_GetObjectItemCaseSensitive(o, key), *x;
    uint8_t n = 0;
    if (!cJSON_IsArray(a) || cJSON_GetArraySize(a) > HSP_MAX_RANK) {
        return false;
    }
    cJSON_ArrayForEach(x, a)
    {
        if (!cJSON_IsNumber(x) || x->valuedouble < 0 || x->valuedouble > 0x1p53) {
            return false;
        }
        ret[n++] = (int64_t)x->valuedouble;
    }
    *ret_n = n;
    return true;
}

static bool read_u32(const cJSON *o, const char *key, uint32_t *ret)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    if (!cJSON_IsNumber(v) || v->valuedouble < 0 || v->valuedouble > (double)UINT32_MAX) {
        return false;
    }
    *ret = (uint32_t)v->valuedouble;
    return true;
}

/* Reads one piece of the metadata, and checks it against the entry of the header it names. */
static bool read_piece(const cJSON *o, const struct hsp_st_reader *st, struct hsp_ckpt_entry *e)
{
    const cJSON *key = cJSON_GetObjectItemCaseSensitive(o, "key");
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(o, "name");
    uint32_t kind;
    uint8_t rank;
    if (!cJSON_IsString(key) || !cJSON_IsString(name) || !read_u32(o, "tensor", &e->t.tensor) ||
        !read_u32(o, "kind", &kind) || kind >= HSP_N_STATE_KINDS ||
        !hsp_json_u64(o, "hash", &e->hash) || !read_ints(o, "full", e->t.full, &e->t.rank) ||
        !read_ints(o, "lo", e->box.lo, &rank) || rank != e->t.rank) {
        return false;
    }
    e->st = hsp_st_find(st, key->valuestring);
    if (e->st == NULL || e->st->rank != rank) {
        return false;
    }
    e->t.name = name->valuestring;
    e->t.kind = (uint8_t)kind;
    e->t.dtype = e->st->dtype;
    e->box.rank = rank;
    int64_t bytes = (int64_t)hsp_dtype_size(e->t.dtype);
    for (uint8_t d = 0; d < rank; d++) {
        if (!hsp_mul_i64(bytes, e->t.full[d], &bytes)) {
            return false;
        }
        e->box.hi[d] = e->box.lo[d] + e->st->ext[d];
        if (e->st->ext[d] > e->t.full[d] || e->box.hi[d] > e->t.full[d]) {
            return false;
        }
    }
    return !hsp_box_empty(&e->box);
}

/* HSP_EDIGEST: header and metadata do not agree. HSP_ENOMEM. */
static enum hsp_status read_meta(struct hsp_ckpt_shard *s, uint32_t *ret_format)
{
    const cJSON *job = cJSON_GetObjectItemCaseSensitive(s->meta, "job");
    const cJSON *cluster = cJSON_GetObjectItemCaseSensitive(s->meta, "cluster");
    const cJSON *pieces = cJSON_GetObjectItemCaseSensitive(s->meta, "pieces"), *o;
    if (!read_u32(s->meta, "format", ret_format)) {
        return HSP_EDIGEST;
    }
    if (*ret_format != HSP_CKPT_FORMAT) {
        return HSP_OK;
    }
    size_t n_entries;
    (void)hsp_st_entries(s->st, &n_entries);
    if (!cJSON_IsString(job) || strlen(job->valuestring) >= sizeof(s->info.job) ||
        !hsp_json_u64(s->meta, "step", &s->info.step) ||
        !hsp_json_u64(s->meta, "term", &s->info.term) ||
        !hsp_json_u64(s->meta, "epoch", &s->info.epoch) ||
        !read_u32(s->meta, "ranks", &s->info.n_ranks) ||
        !read_u32(s->meta, "params", &s->info.n_params) ||
        (cJSON_HasObjectItem(s->meta, "job_id") && !read_u32(s->meta, "job_id", &s->info.job_id)) ||
        (cluster != NULL && (!cJSON_IsString(cluster) ||
                             !hsp_digest_parse(cluster->valuestring, &s->info.whose.cluster))) ||
        !read_u32(s->meta, "rank", &s->rank) || !cJSON_IsArray(pieces) ||
        (size_t)cJSON_GetArraySize(pieces) != n_entries) {
        return HSP_EDIGEST;
    }
    (void)snprintf(s->info.job, sizeof(s->info.job), "%s", job->valuestring);
    s->e = calloc((size_t)cJSON_GetArraySize(pieces) + 1, sizeof(*s->e));
    if (s->e == NULL) {
        return HSP_ENOMEM;
    }
    cJSON_ArrayForEach(o, pieces)
    {
        if (!read_piece(o, s->st, &s->e[s->n])) {
            return HSP_EDIGEST;
        }
        s->content += s->e[s->n++].hash;
    }
    return HSP_OK;
}

enum hsp_status hsp_ckpt_shard_open(const struct hsp_folder *step, const char *name,
                                    struct hsp_ckpt_shard *ret, struct hsp_err *err)
{
    struct hsp_ckpt_shard s = {0};
    uint32_t format = HSP_CKPT_FORMAT;
    enum hsp_status st = hsp_st_open_in(step, name, &s.st, err);
    if (st != HSP_OK) {
        return st == HSP_EPARSE
                   ? hsp_err_set(err, HSP_EDIGEST, 0, "%s/%s is damaged", step->path, name)
                   : st;
    }
    const char *text = hsp_st_meta_value(s.st, "hspmd");
    st = HSP_EPARSE;
    if (text != NULL) {
        s.meta_hash = hsp_hash64(text, strlen(text), HSP_CKPT_FORMAT);
        st = hsp_json_parse(text, strlen(text), &s.meta);
    }
    if (st == HSP_OK) {
        st = read_meta(&s, &format);
    }
    if (st == HSP_ENOMEM) {
        st = hsp_err_nomem(err, "a checkpoint");
    } else if (st != HSP_OK) {
        st = hsp_err_set(err, HSP_EDIGEST, 0, "%s/%s: header and metadata do not agree", step->path,
                         name);
    } else if (format != HSP_CKPT_FORMAT) {
        st = hsp_ckpt_other_format(step, name, format, err);
    }
    if (st != HSP_OK) {
        hsp_ckpt_shard_close(&s);
        return st;
    }
    *ret = s;
    return HSP_OK;
}

void hsp_ckpt_shard_close(struct hsp_ckpt_shard *s)
{
    hsp_st_close(s->st);
    cJSON_Delete(s->meta);
    free(s->e);
    *s = (struct hsp_ckpt_shard){0};
}

/* ---- coverage ---- */

static int by_tensor(const void *a, const void *b)
{
    const struct hsp_ckpt_entry *x = *(const struct hsp_ckpt_entry *const *)a;
    const struct hsp_ckpt_entry *y = *(const struct hsp_ckpt_entry *const *)b;
    if (x->t.tensor != y->t.tensor) {
        return x->t.tensor < y->t.tensor ? -1 : 1;
    }
    if (x->t.kind != y->t.kind) {
        return x->t.kind < y->t.kind ? -1 : 1;
    }
    for (uint8_t d = 0; d < x->box.rank && d < y->box.rank; d++) {
        if (x->box.lo[d] != y->box.lo[d]) {
            return x->box.lo[d] < y->box.lo[d] ? -1 : 1;
        }
    }
    return 0;
}

static bool same_tensor(const struct hsp_ckpt_entry *x, const struct hsp_ckpt_entry *y)
{
    return x->t.dtype == y->t.dtype && x->t.rank == y->t.rank &&
           strcmp(x->t.name, y->t.name) == 0 &&
           memcmp(x->t.full, y->t.full, sizeof(x->t.full)) == 0;
}

/* Checks the pieces e[0..n) of one (tensor, kind): equal descriptions, no overlap, no gap. */
static enum hsp_status cover_tensor(const struct hsp_ckpt_entry *const *e, size_t n,
                                    struct hsp_err *err)
{
    int64_t sum = 0;
    struct hsp_box whole = hsp_box_whole(e[0]->t.rank, e[0]->t.full), cut;
    for (size_t i = 0; i < n; i++) {
        if (!same_tensor(e[i], e[0])) {
            return hsp_err_set(err, HSP_EDIGEST, 0, "the shards disagree about tensor %u (%s)",
                               e[0]->t.tensor, e[0]->t.name);
        }
    }
    for (size_t i = 0; i < n; i++) {
        sum += hsp_box_count(&e[i]->box);
        for (size_t j = i + 1; j < n; j++) {
            if (e[0]->t.rank > 0 && e[j]->box.lo[0] >= e[i]->box.hi[0]) {
                break; /* sorted by lo[0]: no later piece meets it */
            }
            if (hsp_box_cut(&e[i]->box, &e[j]->box, &cut)) {
                return hsp_err_set(err, HSP_EDIGEST, 0, "two shards hold the same part of %s",
                                   e[0]->t.name);
            }
        }
    }
    if (sum != hsp_box_count(&whole)) {
        return hsp_err_set(err, HSP_EDIGEST, 0,
                           "%" PRId64 " of %" PRId64 " elements of %s kind %u are in no shard",
                           hsp_box_count(&whole) - sum, hsp_box_count(&whole), e[0]->t.name,
                           e[0]->t.kind);
    }
    return HSP_OK;
}

/* The kinds of the tensors seen so far: parameters are numbered 0, 1, ..., each with the kinds of
 * the first one. */
struct kinds_seen {
    uint32_t tensors;     /* begun */
    unsigned first, last; /* kinds of tensor 0 and of the latest, as bits */
};

static enum hsp_status count_kind(struct kinds_seen *k, const struct hsp_ckpt_entry *e,
                                  struct hsp_err *err)
{
    bool next = e->t.tensor + 1U != k->tensors;
    if (next && (e->t.tensor != k->tensors || (k->tensors > 1 && k->last != k->first))) {
        return hsp_err_set(err, HSP_EDIGEST, 0, "parameter %u or part of its state is in no shard",
                           e->t.tensor != k->tensors ? k->tensors : k->tensors - 1);
    }
    k->last = next ? 0 : k->last;
    k->tensors += next;
    k->last |= 1U << e->t.kind;
    k->first = k->tensors == 1 ? k->last : k->first;
    return HSP_OK;
}

enum hsp_status hsp_ckpt_coverage(const struct hsp_ckpt_shard *s, uint32_t n,
                                  const struct hsp_ckpt_entry ***ret, size_t *ret_n,
                                  struct hsp_err *err)
{
    size_t total = 0, k = 0;
    for (uint32_t i = 0; i < n; i++) {
        total += s[i].n;
    }
    if (total > HSP_CKPT_MAX_PIECES) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "%zu pieces, at most %d", total,
                           HSP_CKPT_MAX_PIECES);
    }
    const struct hsp_ckpt_entry **e = calloc(total + 1, sizeof(*e));
    if (e == NULL) {
        return hsp_err_nomem(err, "a checkpoint");
    }
    for (uint32_t i = 0; i < n; i++) {
        for (size_t j = 0; j < s[i].n; j++) {
            e[k++] = &s[i].e[j];
        }
    }
    qsort(e, total, sizeof(*e), by_tensor);
    enum hsp_status st = HSP_OK;
    uint32_t n_params = n > 0 ? s[0].info.n_params : 0;
    struct kinds_seen seen = {0};
    for (size_t i = 0; st == HSP_OK && i < total;) {
        size_t j = i + 1;
        while (j < total && e[j]->t.tensor == e[i]->t.tensor && e[j]->t.kind == e[i]->t.kind) {
            j++;
        }
        st = cover_tensor(e + i, j - i, err);
        if (st == HSP_OK) {
            st = count_kind(&seen, e[i], err);
        }
        i = j;
    }
    if (st == HSP_OK && (seen.tensors != n_params || (n_params > 0 && seen.last != seen.first))) {
        st = hsp_err_set(err, HSP_EDIGEST, 0, "the shards have all of %u of %u parameters",
                         seen.tensors - (seen.last != seen.first), n_params);
    }
    if (st != HSP_OK) {
        free(e);
        return st;
    }
    *ret = e;
    *ret_n = total;
    return HSP_OK;
}
