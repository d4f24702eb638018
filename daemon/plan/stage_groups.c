#include "daemon/plan/stage_groups.h"

#include <inttypes.h> /* PRId64 */

#include "proto/base/size.h"
#include "proto/text/yaml_read.h"

uint32_t hsp_stage_groups(const struct hsp_stage *s)
{
    return s->n_groups > 1 ? s->n_groups : 1;
}

void hsp_stage_group(const struct hsp_stage *s, uint32_t group, uint32_t *ret_first,
                     uint32_t *ret_end)
{
    *ret_first = s->n_groups > 1 ? s->first[group] : 0;
    *ret_end = group + 1 < s->n_groups ? s->first[group + 1] : s->n;
}

uint32_t hsp_stage_group_of(const struct hsp_stage *s, uint32_t member)
{
    uint32_t g = 0;
    while (g + 1 < s->n_groups && s->first[g + 1] <= member) {
        g++;
    }
    return g;
}

static double part_of(const int64_t *w, uint32_t n, uint32_t i)
{
    double sum = 0;
    for (uint32_t k = 0; k < n; k++) {
        sum += (double)w[k];
    }
    return sum > 0 ? (double)w[i] / sum : 1;
}

double hsp_stage_shares(const struct hsp_stage *s, uint32_t member, double *ret_inner)
{
    uint32_t g = hsp_stage_group_of(s, member), first, end;
    hsp_stage_group(s, g, &first, &end);
    *ret_inner = part_of(&s->shares[first], end - first, member - first);
    return s->n_groups > 1 ? part_of(s->group_shares, s->n_groups, g) : 1;
}

double hsp_stage_part(const struct hsp_stage *s, uint32_t member)
{
    double inner, share = hsp_stage_shares(s, member, &inner);
    return share * inner;
}

bool hsp_pipeline_cuts_batch(const struct hsp_pipeline *s)
{
    for (uint32_t i = 0; i < s->n_stages; i++) {
        if (s->stages[i].split == HSP_SPLIT_BATCH) {
            return true;
        }
    }
    return false;
}

/* ---- parse ---- */

static const char *const splits[] = {"none", "sequence", "batch"};

/* @n weights of the list under @key of @y; 1 each when there is none. */
static enum hsp_status read_weights(const struct hsp_yaml *y, const char *key, uint32_t n,
                                    const char *of, int64_t *ret, struct hsp_err *err)
{
    const struct hsp_yaml *t = hsp_yaml_get(y, key);
    for (uint32_t i = 0; i < n; i++) {
        ret[i] = 1;
    }
    if (t == NULL) {
        return HSP_OK;
    }
    enum hsp_status rc = hsp_yaml_expect(t, HSP_YAML_SEQ, err);
    if (rc == HSP_OK && t->n != n) {
        rc = hsp_yaml_error(t, err, "%zu shares for %u %s", t->n, n, of);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < n; i++) {
        rc = hsp_yaml_i64(&t->items[i], 0, HSP_MAX_SHARE, &ret[i], err);
    }
    return rc;
}

/* The list of ranks of @y. */
static enum hsp_status want_ranks(const struct hsp_yaml *y, const struct hsp_yaml **ret,
                                  struct hsp_err *err)
{
    *ret = hsp_yaml_get(y, "ranks");
    if (*ret == NULL) {
        return hsp_yaml_error(y, err, "missing key ranks");
    }
    enum hsp_status rc = hsp_yaml_expect(*ret, HSP_YAML_SEQ, err);
    if (rc == HSP_OK && ((*ret)->n == 0 || (*ret)->n > HSP_MAX_RANKS)) {
        rc = hsp_yaml_error(*ret, err, "%zu entries, must be 1 to %d", (*ret)->n, HSP_MAX_RANKS);
    }
    return rc;
}

/* Ranks and tensor shares of @y become the members from s->n on. */
static enum hsp_status read_group(const struct hsp_yaml *y, struct hsp_stage *s,
                                  struct hsp_err *err)
{
    const struct hsp_yaml *ranks = NULL;
    enum hsp_status rc = want_ranks(y, &ranks, err);
    if (rc != HSP_OK) {
        return rc;
    }
    uint32_t n = (uint32_t)ranks->n;
    for (uint32_t i = 0; rc == HSP_OK && i < n; i++) {
        uint64_t v = 0;
        rc = hsp_yaml_u64(&ranks->items[i], 0, HSP_MAX_RANKS - 1, &v, err);
        s->ranks[s->n + i] = (uint32_t)v;
    }
    if (rc == HSP_OK) {
        rc = read_weights(y, "tensor", n, "ranks", &s->shares[s->n], err);
    }
    s->n += n;
    return rc;
}

/* Room for all ranks of the groups @y, or of the one group @y is itself. */
static enum hsp_status make_room(const struct hsp_yaml *y, struct hsp_arena *arena,
                                 struct hsp_stage *s, struct hsp_err *err)
{
    const struct hsp_yaml *ranks = NULL;
    size_t n = 0, groups = y->kind == HSP_YAML_SEQ ? y->n : 1;
    for (size_t i = 0; i < groups; i++) {
        enum hsp_status rc = want_ranks(y->kind == HSP_YAML_SEQ ? &y->items[i] : y, &ranks, err);
        if (rc != HSP_OK) {
            return rc;
        }
        n += ranks->n;
    }
    if (n > HSP_MAX_RANKS) {
        return hsp_yaml_error(y, err, "%zu ranks, at most %d", n, HSP_MAX_RANKS);
    }
    s->ranks = hsp_arena_array(arena, n, sizeof *s->ranks);
    s->shares = hsp_arena_array(arena, n, sizeof *s->shares);
    s->first = hsp_arena_array(arena, groups, sizeof *s->first);
    s->group_shares = hsp_arena_array(arena, groups, sizeof *s->group_shares);
    return s->ranks == NULL || s->shares == NULL || s->first == NULL || s->group_shares == NULL
               ? hsp_err_nomem(err, "the plan")
               : HSP_OK;
}

static enum hsp_status read_groups(const struct hsp_yaml *y, const struct hsp_yaml *groups,
                                   struct hsp_arena *arena, struct hsp_stage *s,
                                   struct hsp_err *err)
{
    static const char *const keys[] = {"ranks", "tensor"};
    enum hsp_status rc = hsp_yaml_expect(groups, HSP_YAML_SEQ, err);
    if (rc == HSP_OK && (groups->n == 0 || groups->n > HSP_MAX_RANKS)) {
        rc = hsp_yaml_error(groups, err, "%zu entries, must be 1 to %d", groups->n, HSP_MAX_RANKS);
    }
    for (size_t i = 0; rc == HSP_OK && i < groups->n; i++) {
        rc = hsp_yaml_expect(&groups->items[i], HSP_YAML_MAP, err);
        if (rc == HSP_OK) {
            rc = hsp_yaml_check_keys(&groups->items[i], keys, HSP_ARRAY_LEN(keys), err);
        }
    }
    if (rc == HSP_OK) {
        rc = make_room(groups, arena, s, err);
    }
    for (size_t i = 0; rc == HSP_OK && i < groups->n; i++) {
        s->first[i] = s->n;
        rc = read_group(&groups->items[i], s, err);
    }
    s->n_groups = (uint32_t)groups->n;
    return rc == HSP_OK ? read_weights(y, "shares", s->n_groups, "groups", s->group_shares, err)
                        : rc;
}

static enum hsp_status read_balance(const struct hsp_yaml *y, struct hsp_stage *s,
                                    struct hsp_err *err)
{
    static const char *const names[] = {"length", "work"};
    const struct hsp_yaml *balance = hsp_yaml_get(y, "balance");
    size_t i = 0;
    if (balance == NULL) {
        return HSP_OK;
    }
    enum hsp_status rc = hsp_yaml_choice(balance, names, HSP_ARRAY_LEN(names), &i, err);
    s->by_work = i == 1;
    return rc == HSP_OK && s->by_work && s->split != HSP_SPLIT_SEQUENCE
               ? hsp_yaml_error(balance, err, "work needs split: sequence")
               : rc;
}

/* Keys that say the same twice, or that only several groups have. */
static enum hsp_status check_keys(const struct hsp_yaml *y, struct hsp_err *err)
{
    static const char *const one[] = {"ranks", "tensor"}, *const many[] = {"split", "shares",
                                                                           "balance"};
    bool groups = hsp_yaml_get(y, "groups") != NULL;
    for (size_t i = 0; i < (groups ? HSP_ARRAY_LEN(one) : HSP_ARRAY_LEN(many)); i++) {
        const struct hsp_yaml *k = hsp_yaml_get(y, groups ? one[i] : many[i]);
        if (k != NULL) {
            return hsp_yaml_error(k, err,
                                  groups ? "belongs into each of the groups" : "needs groups");
        }
    }
    return HSP_OK;
}

/* split and sequence_parallel. */
static enum hsp_status read_kinds(const struct hsp_yaml *y, struct hsp_stage *s,
                                  struct hsp_err *err)
{
    const struct hsp_yaml *split = hsp_yaml_get(y, "split"),
                          *rows = hsp_yaml_get(y, "sequence_parallel");
    enum hsp_status rc = HSP_OK;
    size_t i = 0;
    if (split != NULL) {
        rc = hsp_yaml_choice(split, &splits[1], HSP_ARRAY_LEN(splits) - 1, &i, err);
        s->split = (uint8_t)(i + 1);
    }
    return rc == HSP_OK && rows != NULL ? hsp_yaml_bool(rows, &s->sequence_parallel, err) : rc;
}

enum hsp_status hsp_plan_read_members(const struct hsp_yaml *y, struct hsp_arena *arena,
                                      struct hsp_stage *s, struct hsp_err *err)
{
    const struct hsp_yaml *groups = hsp_yaml_get(y, "groups"), *split = hsp_yaml_get(y, "split");
    enum hsp_status rc = check_keys(y, err);
    if (rc == HSP_OK) {
        rc = read_kinds(y, s, err);
    }
    if (rc == HSP_OK && groups != NULL) {
        rc = read_groups(y, groups, arena, s, err);
        if (rc == HSP_OK && (s->n_groups > 1) != (split != NULL)) {
            rc = hsp_yaml_error(y, err,
                                "several groups need a split, and a split needs several groups");
        }
        return rc == HSP_OK ? read_balance(y, s, err) : rc;
    }
    if (rc == HSP_OK) {
        rc = make_room(y, arena, s, err);
    }
    return rc == HSP_OK ? read_group(y, s, err) : rc;
}

enum hsp_status hsp_plan_read_split(const struct hsp_yaml *y, struct hsp_arena *arena,
                                    struct hsp_stage *s, struct hsp_err *err)
{
    static const char *const of_split[] = {"shares", "balance"};
    const struct hsp_yaml *shares = hsp_yaml_get(y, "shares");
    enum hsp_status rc = read_kinds(y, s, err);
    for (size_t i = 0; rc == HSP_OK && s->split == HSP_SPLIT_NONE && i < 2; i++) {
        const struct hsp_yaml *k = hsp_yaml_get(y, of_split[i]);
        rc = k != NULL ? hsp_yaml_error(k, err, "needs a split") : HSP_OK;
    }
    if (rc == HSP_OK && shares != NULL) {
        rc = hsp_yaml_expect(shares, HSP_YAML_SEQ, err);
    }
    if (rc == HSP_OK && shares != NULL && (shares->n == 0 || shares->n > HSP_MAX_RANKS)) {
        rc = hsp_yaml_error(shares, err, "%zu entries, must be 1 to %d", shares->n, HSP_MAX_RANKS);
    }
    if (rc == HSP_OK && shares != NULL) {
        s->n_groups = (uint32_t)shares->n;
        s->group_shares = hsp_arena_array(arena, shares->n, sizeof *s->group_shares);
        rc = s->group_shares != NULL
                 ? read_weights(y, "shares", s->n_groups, "groups", s->group_shares, err)
                 : hsp_err_nomem(err, "the plan");
    }
    return rc == HSP_OK ? read_balance(y, s, err) : rc;
}

/* ---- dump ---- */

/* ", key: [2, 1]"; nothing when all are 1. */
static void put_weights(const char *key, const int64_t *w, uint32_t n, struct hsp_buf *out)
{
    bool even = true;
    for (uint32_t i = 0; i < n; i++) {
        even = even && w[i] == 1;
    }
    if (even) {
        return;
    }
    hsp_buf_printf(out, ", %s: [", key);
    for (uint32_t i = 0; i < n; i++) {
        hsp_buf_printf(out, "%s%" PRId64, i > 0 ? ", " : "", w[i]);
    }
    hsp_buf_puts(out, "]");
}

static void put_group(const struct hsp_stage *s, uint32_t group, struct hsp_buf *out)
{
    uint32_t first, end;
    hsp_stage_group(s, group, &first, &end);
    for (uint32_t i = first; i < end; i++) {
        hsp_buf_printf(out, "%s%u", i > first ? ", " : "ranks: [", s->ranks[i]);
    }
    hsp_buf_puts(out, "]");
    put_weights("tensor", &s->shares[first], end - first, out);
}

void hsp_plan_put_split(const struct hsp_stage *s, struct hsp_buf *out)
{
    if (s->split != HSP_SPLIT_NONE) {
        hsp_buf_printf(out, ", split: %s", splits[s->split]);
        put_weights("shares", s->group_shares, s->n_groups, out);
        hsp_buf_puts(out, s->by_work ? ", balance: work" : "");
    }
}

void hsp_plan_put_members(const struct hsp_stage *s, struct hsp_buf *out)
{
    if (s->n_groups <= 1) {
        put_group(s, 0, out);
    } else {
        hsp_buf_printf(out, "split: %s", splits[s->split]);
        put_weights("shares", s->group_shares, s->n_groups, out);
        hsp_buf_puts(out, s->by_work ? ", balance: work" : "");
        for (uint32_t g = 0; g < s->n_groups; g++) {
            hsp_buf_puts(out, g == 0 ? ", groups: [{" : "}, {");
            put_group(s, g, out);
        }
        hsp_buf_puts(out, "}]");
    }
    hsp_buf_puts(out, s->sequence_parallel ? ", sequence_parallel: true" : "");
}
