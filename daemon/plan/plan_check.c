#include "daemon/plan/plan_check.h"

#include "daemon/plan/plan.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/plan/name_range.h"
#include "daemon/plan/stage_groups.h"
#include "proto/program/micro_size.h"
#include "proto/program/sheet.h"

bool hsp_plan_name_fits(const char *pattern, const char *name)
{
    const char *star = NULL, *retry = NULL; /* the last star, and where its text may end */
    while (*name != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            retry = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star != NULL) {
            pattern = star + 1;
            name = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

bool hsp_plan_names_fit(const char *pattern, const char *name, struct hsp_buf *text)
{
    struct hsp_name_range r;
    if (strchr(pattern, '[') == NULL || !hsp_range_parse(pattern, &r)) {
        return hsp_plan_name_fits(pattern, name);
    }
    for (const char *c = name; *c != '\0'; c++) {
        uint32_t v = 0;
        if (*c < '0' || *c > '9') {
            continue;
        }
        for (; *c >= '0' && *c <= '9' && v < HSP_RANGE_END; c++) {
            v = v * 10 + (uint32_t)(*c - '0');
        }
        c--;
        if (v < r.lo || v - r.lo >= r.n) {
            continue;
        }
        hsp_buf_reset(text);
        hsp_range_put(&r, v - r.lo, text);
        if (hsp_plan_name_fits(hsp_buf_cstr(text), name)) {
            return true;
        }
    }
    return false;
}

/* Blocks of each chunk: they are the stage's, and every chunk has work. */
static enum hsp_status check_layers(const struct hsp_pipeline *s, uint32_t si, uint32_t ti,
                                    struct hsp_err *err)
{
    const struct hsp_stage *t = &s->stages[ti];
    uint32_t chunks = hsp_pipeline_chunks(s);
    uint64_t sum = 0;
    if (chunks > 1 && t->chunk_layers == NULL) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "pipeline %u stage %u does not list the layers of its %u chunks", si, ti,
                           chunks);
    }
    for (uint32_t c = 0; c < chunks; c++) {
        bool first = ti == 0 && c == 0, last = ti + 1 == s->n_stages && c + 1 == chunks;
        sum += hsp_chunk_layers(t, c);
        if (hsp_chunk_layers(t, c) > 0 || first || last) {
            continue;
        }
        return chunks == 1
                   ? hsp_err_set(err, HSP_EINVAL, 0,
                                 "pipeline %u stage %u has no layers: only the first and the "
                                 "last stage have work without",
                                 si, ti)
                   : hsp_err_set(err, HSP_EINVAL, 0,
                                 "pipeline %u stage %u has no layers in chunk %u: only the "
                                 "first and the last chunk of all have work without",
                                 si, ti, c);
    }
    return sum == t->layers ? HSP_OK
                            : hsp_err_set(err, HSP_EINVAL, 0,
                                          "pipeline %u stage %u has %u layers, its chunks %llu", si,
                                          ti, t->layers, (unsigned long long)sum);
}

/* Weights @w of @n: each in range, not all 0. */
static enum hsp_status check_weights(const int64_t *w, uint32_t n, uint32_t si, uint32_t ti,
                                     const char *what, struct hsp_err *err)
{
    int64_t sum = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (w[k] < 0 || w[k] > HSP_MAX_SHARE) {
            return hsp_err_set(err, HSP_EINVAL, 0,
                               "pipeline %u stage %u: share %" PRId64 " outside 0 to %d", si, ti,
                               w[k], HSP_MAX_SHARE);
        }
        sum += w[k];
    }
    return sum > 0 ? HSP_OK
                   : hsp_err_set(err, HSP_EINVAL, 0, "pipeline %u stage %u: all %s are 0", si, ti,
                                 what);
}

static enum hsp_status check_groups(const struct hsp_stage *t, uint32_t si, uint32_t ti,
                                    struct hsp_err *err)
{
    uint32_t groups = hsp_stage_groups(t);
    enum hsp_status rc = HSP_OK;
    if ((groups > 1) != (t->split != HSP_SPLIT_NONE) || t->split > HSP_SPLIT_BATCH) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "pipeline %u stage %u: several groups need a split, and a split needs "
                           "several groups",
                           si, ti);
    }
    for (uint32_t g = 0; rc == HSP_OK && g < groups; g++) {
        uint32_t first, end;
        hsp_stage_group(t, g, &first, &end);
        if (first >= end || end > t->n) {
            return hsp_err_set(err, HSP_EINVAL, 0, "pipeline %u stage %u: group %u has no ranks",
                               si, ti, g);
        }
        rc = check_weights(&t->shares[first], end - first, si, ti, "shares", err);
    }
    return rc == HSP_OK && groups > 1
               ? check_weights(t->group_shares, groups, si, ti, "shares of groups", err)
               : rc;
}

static enum hsp_status check_stage(const struct hsp_plan *p, uint32_t si, uint32_t ti, bool *used,
                                   struct hsp_err *err)
{
    const struct hsp_pipeline *s = &p->pipelines[si];
    const struct hsp_stage *t = &s->stages[ti];
    if (t->n == 0 || t->n > p->n_ranks) {
        return hsp_err_set(err, HSP_EINVAL, 0, "pipeline %u stage %u has %u of %u ranks", si, ti,
                           t->n, p->n_ranks);
    }
    enum hsp_status rc = check_layers(s, si, ti, err);
    if (rc != HSP_OK) {
        return rc;
    }
    for (uint32_t k = 0; k < t->n; k++) {
        if (t->ranks[k] >= p->n_ranks) {
            return hsp_err_set(err, HSP_EINVAL, 0,
                               "pipeline %u stage %u names rank %u of a plan of %u ranks", si, ti,
                               t->ranks[k], p->n_ranks);
        }
        if (used[t->ranks[k]]) {
            return hsp_err_set(err, HSP_EINVAL, 0, "rank %u is used twice (pipeline %u stage %u)",
                               t->ranks[k], si, ti);
        }
        used[t->ranks[k]] = true;
    }
    return check_groups(t, si, ti, err);
}

/* A cut micro-batch is cut at numbers, so all have one size; a model that makes one row of a
 * sequence has no sequence to cut behind that. */
static enum hsp_status check_splits(const struct hsp_pipeline *s, uint32_t si,
                                    const struct hsp_graph *g, struct hsp_err *err)
{
    bool rows = false;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        rows = rows || g->nodes[i].op == HSP_OP_FLATTEN;
    }
    for (uint32_t i = 0; i < s->n_stages; i++) {
        if (s->stages[i].split == HSP_SPLIT_SEQUENCE && rows) {
            return hsp_err_set(err, HSP_EINVAL, 0,
                               "pipeline %u stage %u: split: sequence, but %s makes one row of a "
                               "sequence",
                               si, i, g->spec.family);
        }
    }
    if (hsp_pipeline_cuts_batch(s) && s->sequences % s->micro_batches != 0) {
        return hsp_err_set(
            err, HSP_EINVAL, 0,
            "pipeline %u: split: batch needs micro-batches of one size, %u sequences "
            "are not a multiple of %u",
            si, s->sequences, s->micro_batches);
    }
    return HSP_OK;
}

/* Stated sizes of micro-batches are those the executors use. */
static enum hsp_status check_sizes(const struct hsp_pipeline *s, uint32_t si, struct hsp_err *err)
{
    for (uint32_t i = 0; s->sizes != NULL && i < s->micro_batches; i++) {
        uint32_t n = hsp_micro_size(s->sequences, s->micro_batches, i);
        if (s->sizes[i] != n) {
            return hsp_err_set(err, HSP_EINVAL, 0,
                               "pipeline %u micro-batch %u has %u sequences, must have %u", si, i,
                               s->sizes[i], n);
        }
    }
    return HSP_OK;
}

static enum hsp_status check_pipeline(const struct hsp_plan *p, uint32_t si,
                                      const struct hsp_graph *g, bool *used, struct hsp_err *err)
{
    const struct hsp_pipeline *s = &p->pipelines[si];
    int64_t blocks = (int64_t)g->n_layers - 2;
    if (s->n_stages == 0 || s->n_stages > HSP_MAX_STAGES) {
        return hsp_err_set(err, HSP_EINVAL, 0, "pipeline %u has %u stages, must be 1 to %d", si,
                           s->n_stages, HSP_MAX_STAGES);
    }
    if (s->sequences == 0) {
        return hsp_err_set(err, HSP_EINVAL, 0, "pipeline %u has no sequences", si);
    }
    if (s->micro_batches == 0 || s->micro_batches > s->sequences ||
        s->micro_batches > HSP_MAX_MICRO) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "pipeline %u has %u micro-batches for %u sequences (at most %d)", si,
                           s->micro_batches, s->sequences, HSP_MAX_MICRO);
    }
    if (s->schedule >= HSP_N_SCHEDULES) {
        return hsp_err_set(err, HSP_EINVAL, 0, "pipeline %u has unknown schedule %u", si,
                           s->schedule);
    }
    if (s->chunks > HSP_MAX_CHUNKS || (s->chunks > 1 && s->schedule != HSP_SCHED_INTERLEAVED)) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "pipeline %u has %u chunks: 1, or up to %d with schedule interleaved",
                           si, s->chunks, HSP_MAX_CHUNKS);
    }
    int64_t layers = 0;
    for (uint32_t i = 0; i < s->n_stages; i++) {
        enum hsp_status rc = check_stage(p, si, i, used, err);
        if (rc != HSP_OK) {
            return rc;
        }
        layers += s->stages[i].layers;
    }
    if (layers != blocks) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "pipeline %u has %" PRId64 " layers, the model has %" PRId64, si, layers,
                           blocks);
    }
    enum hsp_status rc = check_splits(s, si, g, err);
    return rc == HSP_OK ? check_sizes(s, si, err) : rc;
}

/* Stated homes name parameters, each at most once. */
static enum hsp_status check_homes(const struct hsp_plan *p, const struct hsp_graph *g,
                                   struct hsp_err *err)
{
    struct hsp_name_range r;
    if (p->n_homes > g->n_params) {
        return hsp_err_set(err, HSP_EINVAL, 0, "homes: %u for the model's %u parameters",
                           p->n_homes, g->n_params);
    }
    for (uint32_t i = 0; i < p->n_homes; i++) {
        uint32_t here = 0;
        if (!hsp_range_parse(p->homes[i].pattern, &r)) {
            return hsp_err_set(err, HSP_EINVAL, 0, "homes: %s is not a name", p->homes[i].pattern);
        }
        for (uint32_t k = 0; k < g->n_params; k++) {
            here += hsp_range_has(&r, g->tensors[g->params[k].tensor].name) ? 1 : 0;
        }
        if (here != r.n) {
            return hsp_err_set(err, HSP_EINVAL, 0, "homes: %u of the %u parameters of %s exist",
                               here, r.n, p->homes[i].pattern);
        }
    }
    for (uint32_t k = 0; p->n_homes > 0 && k < g->n_params; k++) {
        const char *name = g->tensors[g->params[k].tensor].name;
        uint32_t times = 0;
        for (uint32_t i = 0; i < p->n_homes; i++) {
            times += hsp_name_in(p->homes[i].pattern, name) ? 1 : 0;
        }
        if (times > 1) {
            return hsp_err_set(err, HSP_EINVAL, 0, "homes: %s has %u homes", name, times);
        }
    }
    return HSP_OK;
}

static enum hsp_status check_rules(const struct hsp_plan *p, const struct hsp_graph *g,
                                   struct hsp_err *err)
{
    for (uint32_t i = 0; i < p->n_rules; i++) {
        bool found = false;
        for (uint32_t k = 0; !found && k < g->n_params; k++) {
            const char *name = g->tensors[g->params[k].tensor].name;
            found = hsp_plan_name_fits(p->rules[i].pattern, name);
        }
        if (!found) {
            return hsp_err_set(err, HSP_EINVAL, 0, "no parameter is named like %s",
                               p->rules[i].pattern);
        }
    }
    return HSP_OK;
}

static enum hsp_status check_one(const struct hsp_plan *p, const struct hsp_graph *g,
                                 uint32_t global_batch, struct hsp_err *err)
{
    bool used[HSP_MAX_RANKS] = {false};
    if (p->n_ranks == 0 || p->n_ranks > HSP_MAX_RANKS) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%u ranks, must be 1 to %d", p->n_ranks,
                           HSP_MAX_RANKS);
    }
    if (p->n_pipelines == 0 || p->n_pipelines > HSP_MAX_PIPELINES) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%u pipelines, must be 1 to %d", p->n_pipelines,
                           HSP_MAX_PIPELINES);
    }
    if (p->zero != HSP_ZERO_NONE && p->zero != HSP_ZERO_STATE && p->zero != HSP_ZERO_PARAMETERS) {
        return hsp_err_set(err, HSP_EINVAL, 0, "zero %u, must be 0, 1 or 3", p->zero);
    }
    if (p->zero_pattern > HSP_ZERO_INTERLEAVED) {
        return hsp_err_set(err, HSP_EINVAL, 0, "unknown pattern %u of zero", p->zero_pattern);
    }
    if (p->n_annotations > 0) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "the pipelines of its annotations are not found yet");
    }
    uint64_t sequences = 0;
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        enum hsp_status rc = check_pipeline(p, i, g, used, err);
        if (rc != HSP_OK) {
            return rc;
        }
        sequences += p->pipelines[i].sequences;
    }
    if (sequences != global_batch) {
        return hsp_err_set(err, HSP_EINVAL, 0, "pipelines have %llu sequences, the global batch %u",
                           (unsigned long long)sequences, global_batch);
    }
    for (uint32_t r = 0; r < p->n_ranks; r++) {
        if (!used[r]) {
            return hsp_err_set(err, HSP_EINVAL, 0, "rank %u is in no stage", r);
        }
    }
    enum hsp_status rc = check_rules(p, g, err);
    return rc == HSP_OK ? check_homes(p, g, err) : rc;
}

/* Checks the size of a pool, its longest sequence, and that its plans have equally many ranks. */
static enum hsp_status check_pool(const struct hsp_plan *p, const struct hsp_graph *g,
                                  struct hsp_err *err)
{
    if (p->n_shorter >= HSP_MAX_POOL) {
        return hsp_err_set(err, HSP_EINVAL, 0, "a pool of more than %d plans", HSP_MAX_POOL);
    }
    if (p->max_length != 0 && (int64_t)p->max_length != g->spec.sequence) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "the last max_length of the pool is %u, model.sequence %lld",
                           p->max_length, (long long)g->spec.sequence);
    }
    for (uint32_t k = 0; k < p->n_shorter; k++) {
        if (p->shorter[k]->n_ranks != p->n_ranks) {
            return hsp_err_set(err, HSP_EINVAL, 0, "plans of %u and of %u ranks in one pool",
                               p->shorter[k]->n_ranks, p->n_ranks);
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_plan_check(const struct hsp_plan *p, const struct hsp_graph *g,
                               uint32_t global_batch, struct hsp_err *err)
{
    enum hsp_status rc = check_pool(p, g, err);
    for (uint32_t k = 0; rc == HSP_OK && k <= p->n_shorter; k++) {
        const struct hsp_plan *one = hsp_pool_plan(p, k);
        rc = check_one(one, g, global_batch, err);
        if (rc != HSP_OK && p->n_shorter > 0) {
            rc = hsp_err_wrap(err, "plan for %u tokens", one->max_length);
        }
    }
    return rc;
}
