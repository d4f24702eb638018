/* Packed strategies, and what all forms share. */
#include "daemon/spmd/strategy.h"

#include <stdlib.h> /* qsort, bsearch */
#include <string.h>

#include "proto/base/size.h"
#include "proto/base/str.h"
#include "proto/text/yaml.h"

static enum hsp_status no_memory(struct hsp_err *err)
{
    return hsp_err_set(err, HSP_ENOMEM, 0, "strategies do not fit their arena");
}

enum hsp_status hsp_strategy_numbers(const struct hsp_yaml *y, uint32_t end,
                                     struct hsp_arena *arena, uint32_t **ret, uint32_t *ret_n,
                                     struct hsp_err *err)
{
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_SEQ, err);
    if (rc != HSP_OK) {
        return rc;
    }
    uint32_t *v = hsp_arena_array(arena, y->n, sizeof *v);
    if (v == NULL) {
        return no_memory(err);
    }
    for (size_t i = 0; rc == HSP_OK && i < y->n; i++) {
        uint64_t x = 0;
        rc = hsp_yaml_u64(&y->items[i], 0, end - 1, &x, err);
        v[i] = (uint32_t)x;
    }
    *ret = v;
    *ret_n = (uint32_t)y->n;
    return rc;
}

/* ---- packed ---- */

struct packed {
    const struct hsp_yaml *y, *layers, *micro, *stage_devices;
    uint32_t tp, n_unused, slots; /* slots: virtual ranks of all stages */
    struct hsp_rings rings;
    uint32_t *unused;
    uint32_t *device; /* [slot] */
    struct hsp_arena *arena;
    struct hsp_err *err;
};

/* One key of two spellings. */
static const struct hsp_yaml *either(const struct hsp_yaml *y, const char *a, const char *b)
{
    const struct hsp_yaml *v = hsp_yaml_get(y, a);
    return v != NULL ? v : hsp_yaml_get(y, b);
}

/* A sequence of @min to @max children. */
static enum hsp_status want_list(const struct packed *p, const struct hsp_yaml *y, const char *what,
                                 size_t min, size_t max)
{
    if (y == NULL) {
        return hsp_yaml_error(p->y, p->err, "missing key %s", what);
    }
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_SEQ, p->err);
    if (rc == HSP_OK && (y->n < min || y->n > max)) {
        rc = hsp_yaml_error(y, p->err, "%zu entries, must be %zu to %zu", y->n, min, max);
    }
    return rc;
}

static enum hsp_status read_head(struct packed *p)
{
    static const char *const keys[] = {"cluster",
                                       "model",
                                       "gpus",
                                       "max_tp",
                                       "layers",
                                       "micro_batches",
                                       "note",
                                       "stage_devices",
                                       "rank_to_device",
                                       "unused_ranks",
                                       "NUM_GPUS",
                                       "DP",
                                       "CP_LIST",
                                       "TP",
                                       "LAYERS_NUM_LIST",
                                       "MICRO_BATCH_NUM_LIST",
                                       "UNUSED_RANK",
                                       "RANK_TO_DEVICE_MAPPING",
                                       "SEQ_LEN_LIST"};
    const struct hsp_yaml *tp = either(p->y, "max_tp", "TP"),
                          *unused = either(p->y, "unused_ranks", "UNUSED_RANK"),
                          *dp = hsp_yaml_get(p->y, "DP");
    uint64_t v = 0;
    p->layers = either(p->y, "layers", "LAYERS_NUM_LIST");
    p->micro = either(p->y, "micro_batches", "MICRO_BATCH_NUM_LIST");
    p->stage_devices = hsp_yaml_get(p->y, "stage_devices");
    enum hsp_status rc = hsp_yaml_check_keys(p->y, keys, HSP_ARRAY_LEN(keys), p->err);
    rc = rc == HSP_OK ? want_list(p, p->layers, "layers", 1, HSP_MAX_STREAMS) : rc;
    rc = rc == HSP_OK
             ? hsp_strategy_rings(p->y, (uint32_t)p->layers->n, p->arena, &p->rings, p->err)
             : rc;
    rc = rc == HSP_OK ? want_list(p, p->micro, "micro_batches", p->rings.n, p->rings.n) : rc;
    if (rc == HSP_OK && tp == NULL) {
        rc = hsp_yaml_error(p->y, p->err, "missing key max_tp");
    }
    rc = rc == HSP_OK ? hsp_yaml_u64(tp, 1, HSP_MAX_RANKS, &v, p->err) : rc;
    p->tp = (uint32_t)v;
    if (rc == HSP_OK && dp != NULL) {
        rc = hsp_yaml_u64(dp, p->rings.n, p->rings.n, &v, p->err);
    }
    if (rc == HSP_OK && unused != NULL) {
        rc = hsp_strategy_numbers(unused, HSP_DEVICE_END, p->arena, &p->unused, &p->n_unused,
                                  p->err);
    }
    return rc;
}

static enum hsp_status map_slot(struct packed *p, const struct hsp_yaml *at, uint64_t slot,
                                const struct hsp_yaml *device)
{
    uint64_t d = 0;
    enum hsp_status rc = hsp_yaml_u64(device, 0, HSP_DEVICE_END - 1, &d, p->err);
    if (rc == HSP_OK && slot >= p->slots) {
        rc = hsp_yaml_error(at, p->err, "rank %llu of %u", (unsigned long long)slot, p->slots);
    }
    if (rc == HSP_OK && p->device[slot] != HSP_NONE) {
        rc = hsp_yaml_error(at, p->err, "rank %llu is mapped twice", (unsigned long long)slot);
    }
    if (rc == HSP_OK) {
        p->device[slot] = (uint32_t)d;
    }
    return rc;
}

/* {"rank": device, ..} or [[rank, device], ..]; nothing: each rank is its device. */
static enum hsp_status read_map(struct packed *p)
{
    const struct hsp_yaml *map = either(p->y, "rank_to_device", "RANK_TO_DEVICE_MAPPING");
    enum hsp_status rc = HSP_OK;
    p->device = hsp_arena_array(p->arena, p->slots, sizeof *p->device);
    if (p->device == NULL) {
        return no_memory(p->err);
    }
    for (uint32_t i = 0; i < p->slots; i++) {
        p->device[i] = map == NULL || map->n == 0 ? i : HSP_NONE;
    }
    if (map == NULL) {
        return HSP_OK;
    }
    if (map->kind != HSP_YAML_MAP) {
        rc = hsp_yaml_expect(map, HSP_YAML_SEQ, p->err);
    }
    for (size_t i = 0; rc == HSP_OK && i < map->n; i++) {
        const struct hsp_yaml *e = &map->items[i], *to = e;
        uint64_t slot = 0;
        if (map->kind == HSP_YAML_MAP) {
            rc = hsp_parse_u64(e->key, &slot)
                     ? HSP_OK
                     : hsp_yaml_error(e, p->err, "%s is not a rank", e->key);
        } else {
            rc = want_list(p, e, "rank_to_device", 2, 2);
            rc = rc == HSP_OK ? hsp_yaml_u64(&e->items[0], 0, UINT32_MAX, &slot, p->err) : rc;
            to = rc == HSP_OK ? &e->items[1] : e;
        }
        rc = rc == HSP_OK ? map_slot(p, e, slot, to) : rc;
    }
    return rc;
}

/* The devices of the stage whose first virtual rank is @slot. */
static enum hsp_status devices_of(const struct packed *p, const struct hsp_yaml *at, uint32_t slot,
                                  uint32_t **ret, uint32_t *ret_n)
{
    uint32_t *d = hsp_arena_array(p->arena, p->tp, sizeof *d), n = 0;
    if (d == NULL) {
        return no_memory(p->err);
    }
    for (uint32_t i = slot; i < slot + p->tp; i++) {
        bool used = true;
        for (uint32_t k = 0; k < p->n_unused; k++) {
            used = used && p->unused[k] != i;
        }
        if (used && p->device[i] == HSP_NONE) {
            return hsp_yaml_error(at, p->err, "rank %u has no device", i);
        }
        if (used) {
            d[n++] = p->device[i];
        }
    }
    *ret = d;
    *ret_n = n;
    return HSP_OK;
}

/* Layers of the stages of ring @r: every pipeline of it has the same. */
static enum hsp_status read_layers(const struct packed *p, uint32_t r, uint32_t **ret,
                                   uint32_t *ret_n)
{
    uint32_t first = p->rings.first[r], *v = NULL, n = 0;
    enum hsp_status rc = hsp_strategy_numbers(&p->layers->items[first], HSP_DEVICE_END, p->arena,
                                              ret, ret_n, p->err);
    for (uint32_t i = first + 1; rc == HSP_OK && i < first + p->rings.size[r]; i++) {
        const struct hsp_yaml *at = &p->layers->items[i];
        rc = hsp_strategy_numbers(at, HSP_DEVICE_END, p->arena, &v, &n, p->err);
        if (rc == HSP_OK && (n != *ret_n || memcmp(v, *ret, n * sizeof *v) != 0)) {
            rc = hsp_yaml_error(
                at, p->err, "pipeline %u has not the layers of pipeline %u, of whose ring it is", i,
                first);
        }
    }
    return rc;
}

/* The devices of stage @j of pipeline @i, whose virtual ranks begin at @slot. */
static enum hsp_status read_group(const struct packed *p, uint32_t i, uint32_t j, uint32_t slot,
                                  uint32_t **ret, uint32_t *ret_n)
{
    const struct hsp_yaml *at = &p->layers->items[i];
    const struct hsp_yaml *stated = p->stage_devices != NULL ? &p->stage_devices->items[i] : NULL;
    enum hsp_status rc = HSP_OK;
    if (stated != NULL) {
        rc = want_list(p, stated, "stage_devices", at->n, at->n);
        rc = rc == HSP_OK ? hsp_strategy_numbers(&stated->items[j], HSP_DEVICE_END, p->arena, ret,
                                                 ret_n, p->err)
                          : rc;
    } else {
        rc = devices_of(p, &at->items[j], slot + j * p->tp, ret, ret_n);
    }
    if (rc == HSP_OK && (*ret_n == 0 || *ret_n > p->tp)) {
        rc = hsp_yaml_error(&at->items[j], p->err, "a stage of %u devices, must be 1 to %u", *ret_n,
                            p->tp);
    }
    return rc;
}

/* The stages of ring @r, whose virtual ranks begin at *@slot, which is moved on. */
static enum hsp_status read_stages(const struct packed *p, uint32_t r, uint32_t *slot,
                                   struct hsp_stream *s)
{
    uint32_t *layers = NULL, first = p->rings.first[r];
    struct hsp_device_groups g = {.k = p->rings.size[r]};
    uint64_t micro = 0;
    enum hsp_status rc = hsp_yaml_u64(&p->micro->items[r], 1, HSP_MAX_MICRO, &micro, p->err);
    rc = rc == HSP_OK ? read_layers(p, r, &layers, &s->n_stages) : rc;
    if (rc != HSP_OK) {
        return rc;
    }
    s->sequences = s->micro_batches = (uint32_t)micro;
    s->stages = hsp_arena_array(p->arena, s->n_stages, sizeof *s->stages);
    g.n = hsp_arena_array(p->arena, g.k, sizeof *g.n);
    g.device = hsp_arena_array(p->arena, g.k, sizeof *g.device);
    if (s->stages == NULL || g.n == NULL || g.device == NULL) {
        return no_memory(p->err);
    }
    for (uint32_t j = 0; rc == HSP_OK && j < s->n_stages; j++) {
        for (uint32_t i = 0; rc == HSP_OK && i < g.k; i++) {
            rc =
                read_group(p, first + i, j, *slot + i * s->n_stages * p->tp, &g.device[i], &g.n[i]);
        }
        s->stages[j] = (struct hsp_stage){.layers = layers[j]};
        rc = rc == HSP_OK
                 ? hsp_strategy_stage(&s->stages[j], &g, &p->rings.share[first], p->arena, p->err)
                 : rc;
    }
    *slot += g.k * s->n_stages * p->tp;
    return rc;
}

static enum hsp_status read_packed(const struct hsp_yaml *y, struct hsp_arena *arena,
                                   struct hsp_plan *ret, struct hsp_err *err)
{
    struct packed p = {.y = y, .arena = arena, .err = err};
    enum hsp_status rc = read_head(&p);
    uint64_t slots = 0;
    for (size_t i = 0; rc == HSP_OK && i < p.layers->n; i++) {
        rc = want_list(&p, &p.layers->items[i], "layers", 1, HSP_MAX_STAGES);
        slots += rc == HSP_OK ? (uint64_t)p.layers->items[i].n * p.tp : 0;
    }
    if (rc == HSP_OK && slots > HSP_MAX_RANKS) {
        rc = hsp_yaml_error(p.layers, err, "%llu ranks, at most %d", (unsigned long long)slots,
                            HSP_MAX_RANKS);
    }
    p.slots = (uint32_t)slots;
    if (rc == HSP_OK && p.stage_devices != NULL) {
        rc = want_list(&p, p.stage_devices, "stage_devices", p.layers->n, p.layers->n);
    }
    rc = rc == HSP_OK ? read_map(&p) : rc;
    if (rc != HSP_OK) {
        return rc;
    }
    ret->n_streams = p.rings.n;
    ret->streams = hsp_arena_array(arena, ret->n_streams, sizeof *ret->streams);
    uint32_t slot = 0;
    for (uint32_t i = 0; ret->streams != NULL && rc == HSP_OK && i < ret->n_streams; i++) {
        rc = read_stages(&p, i, &slot, &ret->streams[i]);
    }
    return ret->streams != NULL ? rc : no_memory(err);
}

/* ---- all forms ---- */

static int by_value(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Calls of all stages in order. */
static enum hsp_status each_stage(const struct hsp_plan *p, struct hsp_strategy *s,
                                  bool (*fn)(struct hsp_strategy *s, struct hsp_stage *stage))
{
    for (uint32_t i = 0; i < p->n_streams; i++) {
        for (uint32_t k = 0; k < p->streams[i].n_stages; k++) {
            if (!fn(s, &p->streams[i].stages[k])) {
                return HSP_ELIMIT;
            }
        }
    }
    return HSP_OK;
}

static bool list_devices(struct hsp_strategy *s, struct hsp_stage *stage)
{
    if (stage->n > HSP_MAX_RANKS - s->plan->n_ranks) {
        return false;
    }
    for (uint32_t i = 0; i < stage->n; i++) {
        s->device[s->plan->n_ranks++] = stage->ranks[i];
    }
    return true;
}

static bool rename_devices(struct hsp_strategy *s, struct hsp_stage *stage)
{
    for (uint32_t i = 0; i < stage->n; i++) {
        const uint32_t *d =
            bsearch(&stage->ranks[i], s->device, s->plan->n_ranks, sizeof *d, by_value);
        stage->ranks[i] = (uint32_t)(d - s->device);
    }
    return true;
}

/* Devices become ranks in ascending order. */
static enum hsp_status number_ranks(const struct hsp_yaml *y, struct hsp_arena *arena,
                                    struct hsp_strategy *s, struct hsp_err *err)
{
    s->device = hsp_arena_array(arena, HSP_MAX_RANKS, sizeof *s->device);
    if (s->device == NULL) {
        return no_memory(err);
    }
    if (each_stage(s->plan, s, list_devices) != HSP_OK) {
        return hsp_yaml_error(y, err, "more than %d devices", HSP_MAX_RANKS);
    }
    qsort(s->device, s->plan->n_ranks, sizeof *s->device, by_value);
    for (uint32_t i = 1; i < s->plan->n_ranks; i++) {
        if (s->device[i] == s->device[i - 1]) {
            return hsp_yaml_error(y, err, "device %u is in two places", s->device[i]);
        }
    }
    return each_stage(s->plan, s, rename_devices);
}

static enum hsp_status read_text(const struct hsp_yaml *y, const char **ret, struct hsp_err *err)
{
    return y == NULL ? HSP_OK : hsp_yaml_str(y, ret, err);
}

static enum hsp_status read_one(const struct hsp_yaml *y, struct hsp_arena *arena,
                                struct hsp_strategy *ret, struct hsp_err *err)
{
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_MAP, err);
    ret->plan = hsp_arena_alloc(arena, sizeof *ret->plan);
    if (ret->plan == NULL) {
        return no_memory(err);
    }
    if (rc == HSP_OK && either(y, "layers", "LAYERS_NUM_LIST") != NULL) {
        rc = read_packed(y, arena, ret->plan, err);
    } else if (rc == HSP_OK) {
        rc = hsp_strategy_expanded(y, arena, ret->plan, err);
        ret->rings_open = ret->plan->n_streams > 1 && hsp_yaml_get(y, "CP_LIST") == NULL;
    }
    rc = rc == HSP_OK ? read_text(hsp_yaml_get(y, "cluster"), &ret->cluster, err) : rc;
    rc = rc == HSP_OK ? read_text(hsp_yaml_get(y, "model"), &ret->model, err) : rc;
    return rc == HSP_OK ? number_ranks(y, arena, ret, err) : rc;
}

enum hsp_status hsp_strategies_parse(const char *text, size_t len, const char *name,
                                     struct hsp_arena *arena, struct hsp_strategies *ret,
                                     struct hsp_err *err)
{
    static const char *const keys[] = {"about", "strategies"};
    const struct hsp_yaml *y = NULL;
    struct hsp_strategies out = {.n = 1};
    enum hsp_status rc = hsp_yaml_parse(name, text, len, arena, &y, err);
    rc = rc == HSP_OK ? hsp_yaml_expect(y, HSP_YAML_MAP, err) : rc;
    if (rc != HSP_OK) {
        return rc;
    }
    const struct hsp_yaml *list = hsp_yaml_get(y, "strategies");
    if (list != NULL) {
        rc = hsp_yaml_check_keys(y, keys, HSP_ARRAY_LEN(keys), err);
        rc = rc == HSP_OK ? hsp_yaml_expect(list, HSP_YAML_SEQ, err) : rc;
        if (rc == HSP_OK && (list->n == 0 || list->n > HSP_MAX_STRATEGIES)) {
            rc = hsp_yaml_error(list, err, "%zu strategies, must be 1 to %d", list->n,
                                HSP_MAX_STRATEGIES);
        }
        out.n = rc == HSP_OK ? (uint32_t)list->n : 0;
    }
    out.of = hsp_arena_array(arena, out.n, sizeof *out.of);
    if (rc == HSP_OK && out.of == NULL) {
        return no_memory(err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < out.n; i++) {
        rc = read_one(list != NULL ? &list->items[i] : y, arena, &out.of[i], err);
    }
    if (rc == HSP_OK) {
        *ret = out;
    }
    return rc;
}
