#include "proto/layout/annot_text.h"

#include "proto/base/size.h"
#include "proto/layout/annot.h"
#include "proto/text/yaml.h"
#include "proto/text/yaml_read.h"

static enum hsp_status read_numbers(const struct hsp_yaml *y, size_t n, const char *what,
                                    struct hsp_arena *arena, int64_t **ret, struct hsp_err *err)
{
    enum hsp_status st = hsp_yaml_expect(y, HSP_YAML_SEQ, err);
    if (st != HSP_OK) {
        return st;
    }
    if (y->n != n) {
        return hsp_yaml_error(y, err, "%zu %s, not %zu", y->n, what, n);
    }
    *ret = hsp_arena_array(arena, n, sizeof **ret);
    if (*ret == NULL) {
        return hsp_err_nomem(err, "an annotation");
    }
    for (size_t i = 0; st == HSP_OK && i < n; i++) {
        st = hsp_yaml_i64(&y->items[i], 0, INT64_MAX, &(*ret)[i], err);
    }
    return st;
}

static enum hsp_status read_split(const struct hsp_yaml *y, struct hsp_annot *a,
                                  struct hsp_arena *arena, const struct hsp_yaml **ret_of,
                                  struct hsp_err *err)
{
    static const char *const patterns[] = {"contiguous", "interleaved"};
    const struct hsp_yaml *of = hsp_yaml_get(y, "of"), *cuts = hsp_yaml_get(y, "cuts"),
                          *shares = hsp_yaml_get(y, "shares"),
                          *pattern = hsp_yaml_get(y, "pattern");
    if (of == NULL || (cuts != NULL) == (shares != NULL)) {
        return hsp_yaml_error(y, err, "split needs of, and either cuts or shares");
    }
    uint64_t dim = 0;
    size_t p = 0;
    enum hsp_status st = hsp_yaml_u64(hsp_yaml_get(y, "split"), 0, HSP_MAX_RANK - 1, &dim, err);
    st = st == HSP_OK ? hsp_yaml_expect(of, HSP_YAML_SEQ, err) : st; /* before it is counted */
    if (st == HSP_OK && pattern != NULL) {
        st = hsp_yaml_choice(pattern, patterns, HSP_ARRAY_LEN(patterns), &p, err);
    }
    if (st == HSP_OK && p == 1 && cuts != NULL) {
        st = hsp_yaml_error(cuts, err, "an interleaved split has shares, no cuts");
    }
    a->tier = HSP_TIER_SPLIT;
    a->dim = (uint8_t)dim;
    a->interleaved = p == 1;
    *ret_of = of;
    if (st == HSP_OK && cuts != NULL) {
        st = read_numbers(cuts, of->n + 1, "cuts", arena, &a->cuts, err);
    } else if (st == HSP_OK) {
        st = read_numbers(shares, of->n, "shares", arena, &a->shares, err);
    }
    return st;
}

static enum hsp_status read_tier(const struct hsp_yaml *y, struct hsp_annot *a,
                                 struct hsp_arena *arena, const struct hsp_yaml **ret_of,
                                 struct hsp_err *err)
{
    static const char *const keys[] = {"split", "dup",    "partial", "max",
                                       "cuts",  "shares", "pattern", "of"};
    static const enum hsp_tier tiers[] = {HSP_TIER_SPLIT, HSP_TIER_DUP, HSP_TIER_PARTIAL,
                                          HSP_TIER_MAX};
    enum hsp_status st = hsp_yaml_expect(y, HSP_YAML_MAP, err);
    st = st == HSP_OK ? hsp_yaml_check_keys(y, keys, HSP_ARRAY_LEN(keys), err) : st;
    if (st != HSP_OK) {
        return st;
    }
    size_t kinds = 0;
    for (size_t i = 0; i < HSP_ARRAY_LEN(tiers); i++) {
        const struct hsp_yaml *child = hsp_yaml_get(y, keys[i]);
        if (child != NULL) {
            a->tier = tiers[i];
            *ret_of = child;
            kinds++;
        }
    }
    if (kinds != 1) {
        return hsp_yaml_error(y, err, "a tier is one of split, dup, partial, max");
    }
    if (a->tier == HSP_TIER_SPLIT) {
        return read_split(y, a, arena, ret_of, err);
    }
    return y->n == 1 ? HSP_OK
                     : hsp_yaml_error(y, err, "of, cuts, shares and pattern belong to split");
}

/* Recursion is bounded by HSP_MAX_TIERS. */
static enum hsp_status read_node(const struct hsp_yaml *y, int depth, struct hsp_arena *arena,
                                 struct hsp_annot **ret, struct hsp_err *err)
{
    struct hsp_annot *a = hsp_arena_alloc(arena, sizeof *a);
    if (a == NULL) {
        return hsp_err_nomem(err, "an annotation");
    }
    *ret = a;
    if (y->kind == HSP_YAML_SCALAR) {
        uint64_t rank = 0;
        enum hsp_status st = hsp_yaml_u64(y, 0, HSP_MAX_RANKS - 1, &rank, err);
        a->tier = HSP_TIER_RANK;
        a->rank = (uint32_t)rank;
        return st;
    }
    if (depth >= HSP_MAX_TIERS) {
        return hsp_yaml_error(y, err, "annotation deeper than %d tiers", HSP_MAX_TIERS);
    }
    const struct hsp_yaml *of = NULL;
    enum hsp_status st = read_tier(y, a, arena, &of, err);
    st = st == HSP_OK ? hsp_yaml_expect(of, HSP_YAML_SEQ, err) : st;
    if (st != HSP_OK) {
        return st;
    }
    if (of->n < 1 || of->n > HSP_MAX_RANKS) {
        return hsp_yaml_error(of, err, "%zu children (1 to %d)", of->n, HSP_MAX_RANKS);
    }
    a->n = (uint32_t)of->n;
    a->of = hsp_arena_array(arena, of->n, sizeof(struct hsp_annot *));
    if (a->of == NULL) {
        return hsp_err_nomem(err, "an annotation");
    }
    for (uint32_t i = 0; st == HSP_OK && i < a->n; i++) {
        st = read_node(&of->items[i], depth + 1, arena, &a->of[i], err);
    }
    return st;
}

enum hsp_status hsp_annot_parse(const struct hsp_yaml *y, struct hsp_arena *arena,
                                struct hsp_annot **ret, struct hsp_err *err)
{
    struct hsp_annot *a = NULL;
    enum hsp_status st = read_node(y, 0, arena, &a, err);
    if (st == HSP_OK) {
        *ret = a;
    }
    return st;
}

static void dump_numbers(const char *key, const int64_t *v, uint32_t n, struct hsp_buf *out)
{
    hsp_buf_printf(out, ", %s: [", key);
    for (uint32_t i = 0; i < n; i++) {
        hsp_buf_printf(out, "%s%lld", i > 0 ? ", " : "", (long long)v[i]);
    }
    hsp_buf_puts(out, "]");
}

void hsp_annot_dump(const struct hsp_annot *a, struct hsp_buf *out)
{
    switch (a->tier) {
    case HSP_TIER_RANK: hsp_buf_printf(out, "%u", a->rank); return;
    case HSP_TIER_DUP: hsp_buf_puts(out, "{dup: ["); break;
    case HSP_TIER_PARTIAL: hsp_buf_puts(out, "{partial: ["); break;
    case HSP_TIER_MAX: hsp_buf_puts(out, "{max: ["); break;
    case HSP_TIER_SPLIT:
        hsp_buf_printf(out, "{split: %u%s", a->dim, a->interleaved ? ", pattern: interleaved" : "");
        if (a->cuts != NULL) {
            dump_numbers("cuts", a->cuts, a->n + 1, out);
        } else {
            dump_numbers("shares", a->shares, a->n, out);
        }
        hsp_buf_puts(out, ", of: [");
        break;
    }
    for (uint32_t i = 0; i < a->n; i++) {
        hsp_buf_puts(out, i > 0 ? ", " : "");
        hsp_annot_dump(a->of[i], out);
    }
    hsp_buf_puts(out, "]}");
}
