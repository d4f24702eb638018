/* Rings of strategies: pipelines that cut sequences among themselves are groups of one stream. */
#include <string.h>

#include "daemon/spmd/strategy.h"
#include "proto/text/yaml.h"

static enum hsp_status no_memory(struct hsp_err *err)
{
    return hsp_err_set(err, HSP_ENOMEM, 0, "strategies do not fit their arena");
}

/* Sizes of the rings: CP_LIST, or 1 each. */
static enum hsp_status read_sizes(const struct hsp_yaml *cp, uint32_t pipelines,
                                  struct hsp_arena *arena, struct hsp_rings *r, struct hsp_err *err)
{
    uint64_t all = 0;
    r->n = pipelines;
    if (cp != NULL) {
        enum hsp_status rc = hsp_strategy_numbers(cp, HSP_DEVICE_END, arena, &r->size, &r->n, err);
        if (rc != HSP_OK) {
            return rc;
        }
    } else {
        r->size = hsp_arena_array(arena, pipelines, sizeof *r->size);
    }
    r->first = hsp_arena_array(arena, r->n, sizeof *r->first);
    if (r->size == NULL || r->first == NULL) {
        return no_memory(err);
    }
    for (uint32_t i = 0; i < r->n; i++) {
        r->size[i] = cp == NULL ? 1 : r->size[i];
        if (r->size[i] == 0) {
            return hsp_yaml_error(&cp->items[i], err, "CP_LIST has a ring of no pipelines");
        }
        r->first[i] = (uint32_t)all;
        all += r->size[i];
    }
    return all == pipelines ? HSP_OK
                            : hsp_yaml_error(cp, err, "rings of %llu pipelines, there are %u",
                                             (unsigned long long)all, pipelines);
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Ranges of each ring: SEQ_LEN_LIST by what a ring's have in common, or even ones. All rings have
 * sequences of one length. */
static enum hsp_status read_lengths(const struct hsp_yaml *y, struct hsp_arena *arena,
                                    struct hsp_rings *r, uint32_t pipelines, struct hsp_err *err)
{
    uint32_t *v = NULL, n = pipelines;
    int64_t whole = 0;
    enum hsp_status rc =
        y != NULL ? hsp_strategy_numbers(y, HSP_MAX_SHARE, arena, &v, &n, err) : HSP_OK;
    if (rc == HSP_OK && n != pipelines) {
        rc = hsp_yaml_error(y, err, "%u lengths for %u pipelines", n, pipelines);
    }
    r->share = hsp_arena_array(arena, pipelines, sizeof *r->share);
    if (rc == HSP_OK && r->share == NULL) {
        rc = no_memory(err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < r->n; i++) {
        int64_t sum = 0, common = 0, *of = &r->share[r->first[i]];
        for (uint32_t k = 0; k < r->size[i]; k++) {
            of[k] = v != NULL ? v[r->first[i] + k] : 1;
            common = common_divisor(of[k], common);
            sum += of[k];
        }
        if (y != NULL && (sum == 0 || (i > 0 && sum != whole))) {
            rc = hsp_yaml_error(&y->items[r->first[i]], err,
                                "streams with sequences of %lld and of %lld cannot be imported",
                                (long long)(i > 0 ? whole : sum), (long long)sum);
        }
        whole = sum;
        for (uint32_t k = 0; rc == HSP_OK && k < r->size[i]; k++) {
            of[k] /= common;
        }
    }
    return rc;
}

enum hsp_status hsp_strategy_rings(const struct hsp_yaml *y, uint32_t pipelines,
                                   struct hsp_arena *arena, struct hsp_rings *ret,
                                   struct hsp_err *err)
{
    struct hsp_rings r = {0};
    enum hsp_status rc = read_sizes(hsp_yaml_get(y, "CP_LIST"), pipelines, arena, &r, err);
    rc = rc == HSP_OK ? read_lengths(hsp_yaml_get(y, "SEQ_LEN_LIST"), arena, &r, pipelines, err)
                      : rc;
    if (rc == HSP_OK) {
        *ret = r;
    }
    return rc;
}

enum hsp_status hsp_strategy_stage(struct hsp_stage *s, const struct hsp_device_groups *g,
                                   const int64_t *shares, struct hsp_arena *arena,
                                   struct hsp_err *err)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->k; i++) {
        n += g->n[i];
    }
    *s = (struct hsp_stage){.layers = s->layers, .n = n, .saved = s->saved};
    s->ranks = hsp_arena_array(arena, n, sizeof *s->ranks);
    s->shares = hsp_arena_array(arena, n, sizeof *s->shares);
    if (s->ranks == NULL || s->shares == NULL) {
        return no_memory(err);
    }
    for (uint32_t i = 0; i < n; i++) {
        s->shares[i] = 1;
    }
    if (g->k > 1) {
        s->split = HSP_SPLIT_SEQUENCE;
        s->n_groups = g->k;
        s->first = hsp_arena_array(arena, g->k, sizeof *s->first);
        s->group_shares = hsp_arena_memdup(arena, shares, g->k * sizeof *shares);
        if (s->first == NULL || s->group_shares == NULL) {
            return no_memory(err);
        }
    }
    n = 0;
    for (uint32_t i = 0; i < g->k; i++) {
        if (g->k > 1) {
            s->first[i] = n;
        }
        memcpy(&s->ranks[n], g->device[i], g->n[i] * sizeof *s->ranks);
        n += g->n[i];
    }
    return HSP_OK;
}
