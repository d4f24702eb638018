#include "daemon/plan/plan_yaml_one.h"

#include <inttypes.h> /* PRId64 */

#include "daemon/plan/plan_yaml_annot.h"
#include "daemon/plan/plan_yaml_total.h"
#include "daemon/plan/stage_groups.h"
#include "proto/base/size.h"
#include "proto/layout/annot_text.h"
#include "proto/layout/cut_shares.h"
#include "proto/text/yaml.h"
#include "proto/text/yaml_read.h"
#include "proto/text/yaml_write.h"

static const char *const patterns[] = {"contiguous", "interleaved"};
static const char *const schedules[HSP_N_SCHEDULES] = {"1f1b", "gpipe", "interleaved",
                                                       "zero_bubble"};

const char *hsp_schedule_name(uint8_t schedule)
{
    return schedules[schedule];
}

/* A sequence or map of at most @max children; absent (NULL) is an error of @parent. */
static enum hsp_status want(const struct hsp_yaml *parent, const char *key, enum hsp_yaml_kind kind,
                            size_t max, const struct hsp_yaml **ret, struct hsp_err *err)
{
    const struct hsp_yaml *y = hsp_yaml_get(parent, key);
    if (y == NULL) {
        return hsp_yaml_error(parent, err, "missing key %s", key);
    }
    enum hsp_status rc = hsp_yaml_expect(y, kind, err);
    if (rc == HSP_OK && (y->n == 0 || y->n > max)) {
        rc = hsp_yaml_error(y, err, "%zu entries, must be 1 to %zu", y->n, max);
    }
    *ret = y;
    return rc;
}

static enum hsp_status read_u32(const struct hsp_yaml *parent, const char *key, uint64_t min,
                                uint64_t max, const uint32_t *dflt, uint32_t *ret,
                                struct hsp_err *err)
{
    const struct hsp_yaml *y = hsp_yaml_get(parent, key);
    if (y == NULL) {
        if (dflt == NULL) {
            return hsp_yaml_error(parent, err, "missing key %s", key);
        }
        *ret = *dflt;
        return HSP_OK;
    }
    uint64_t v = 0;
    enum hsp_status rc = hsp_yaml_u64(y, min, max, &v, err);
    *ret = (uint32_t)v;
    return rc;
}

/* layers: a number, or with several chunks a list of one for each. */
static enum hsp_status read_layers(const struct hsp_yaml *y, uint32_t chunks,
                                   struct hsp_arena *arena, struct hsp_stage *s,
                                   struct hsp_err *err)
{
    const struct hsp_yaml *l = hsp_yaml_get(y, "layers");
    if (chunks == 1 && l != NULL && l->kind == HSP_YAML_SEQ) {
        return hsp_yaml_error(l, err, "a list, of a pipeline without chunks");
    }
    if (chunks == 1) {
        return read_u32(y, "layers", 0, UINT32_MAX, NULL, &s->layers, err);
    }
    enum hsp_status rc = want(y, "layers", HSP_YAML_SEQ, HSP_MAX_CHUNKS, &l, err);
    if (rc == HSP_OK && l->n != chunks) {
        rc = hsp_yaml_error(l, err, "%zu numbers for %u chunks", l->n, chunks);
    }
    if (rc != HSP_OK) {
        return rc;
    }
    s->chunk_layers = hsp_arena_array(arena, chunks, sizeof *s->chunk_layers);
    if (s->chunk_layers == NULL) {
        return hsp_err_nomem(err, "the plan");
    }
    for (uint32_t i = 0; rc == HSP_OK && i < chunks; i++) {
        uint64_t v = 0;
        rc = hsp_yaml_u64(&l->items[i], 0, UINT32_MAX / HSP_MAX_CHUNKS, &v, err);
        s->chunk_layers[i] = (uint32_t)v;
        s->layers += (uint32_t)v;
    }
    return rc;
}

static enum hsp_status read_stage(const struct hsp_yaml *y, uint32_t chunks,
                                  struct hsp_arena *arena, struct hsp_stage *s, struct hsp_err *err)
{
    static const char *const keys[] = {"layers",  "ranks",  "tensor",
                                       "saved",   "split",  "shares",
                                       "balance", "groups", "sequence_parallel"};
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_MAP, err);
    if (rc == HSP_OK) {
        rc = hsp_yaml_check_keys(y, keys, HSP_ARRAY_LEN(keys), err);
    }
    if (rc == HSP_OK) {
        rc = read_layers(y, chunks, arena, s, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_plan_read_saved(y, s, err);
    }
    return rc == HSP_OK ? hsp_plan_read_members(y, arena, s, err) : rc;
}

/* The stages of a pipeline, or the statements about those of a batch, which may be none. */
static enum hsp_status read_stages(const struct hsp_yaml *y, bool batch, struct hsp_arena *arena,
                                   struct hsp_pipeline *s, struct hsp_err *err)
{
    const struct hsp_yaml *stages = NULL;
    if (batch && hsp_yaml_get(y, "stages") == NULL) {
        return HSP_OK;
    }
    enum hsp_status rc = want(y, "stages", HSP_YAML_SEQ, HSP_MAX_STAGES, &stages, err);
    if (rc != HSP_OK) {
        return rc;
    }
    s->n_stages = (uint32_t)stages->n;
    s->stages = hsp_arena_array(arena, s->n_stages, sizeof *s->stages);
    if (s->stages == NULL) {
        return hsp_err_nomem(err, "the plan");
    }
    for (uint32_t i = 0; rc == HSP_OK && i < s->n_stages; i++) {
        rc = batch ? hsp_plan_read_settings(&stages->items[i], arena, &s->stages[i], err)
                   : read_stage(&stages->items[i], s->chunks, arena, &s->stages[i], err);
    }
    return rc;
}

static enum hsp_status read_sizes(const struct hsp_yaml *y, struct hsp_arena *arena,
                                  struct hsp_pipeline *s, struct hsp_err *err)
{
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_SEQ, err);
    if (rc == HSP_OK && y->n != s->micro_batches) {
        rc = hsp_yaml_error(y, err, "%zu sizes of %u micro-batches", y->n, s->micro_batches);
    }
    s->sizes = hsp_arena_array(arena, s->micro_batches, sizeof *s->sizes);
    if (rc == HSP_OK && s->sizes == NULL) {
        return hsp_err_nomem(err, "the plan");
    }
    for (uint32_t i = 0; rc == HSP_OK && i < s->micro_batches; i++) {
        uint64_t v = 0;
        rc = hsp_yaml_u64(&y->items[i], 1, UINT32_MAX, &v, err);
        s->sizes[i] = (uint32_t)v;
    }
    return rc;
}

static enum hsp_status read_pipeline(const struct hsp_yaml *y, bool batch, struct hsp_arena *arena,
                                     struct hsp_pipeline *s, struct hsp_err *err)
{
    static const char *const keys[] = {"sequences", "micro_batches", "sizes",
                                       "schedule",  "chunks",        "stages"};
    static const uint32_t one = 1;
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_MAP, err);
    if (rc == HSP_OK) {
        rc = hsp_yaml_check_keys(y, keys, HSP_ARRAY_LEN(keys), err);
    }
    if (rc == HSP_OK) {
        rc = read_u32(y, "sequences", 1, UINT32_MAX, NULL, &s->sequences, err);
    }
    if (rc == HSP_OK) {
        rc = read_u32(y, "micro_batches", 1, HSP_MAX_MICRO, &one, &s->micro_batches, err);
    }
    const struct hsp_yaml *kind = hsp_yaml_get(y, "schedule"), *sizes = hsp_yaml_get(y, "sizes");
    if (rc == HSP_OK && sizes != NULL) {
        rc = read_sizes(sizes, arena, s, err);
    }
    if (rc == HSP_OK && kind != NULL) {
        size_t i = 0;
        rc = hsp_yaml_choice(kind, schedules, HSP_ARRAY_LEN(schedules), &i, err);
        s->schedule = (uint8_t)i;
    }
    if (rc == HSP_OK) {
        rc = read_u32(y, "chunks", 1, HSP_MAX_CHUNKS, &one, &s->chunks, err);
    }
    return rc == HSP_OK ? read_stages(y, batch, arena, s, err) : rc;
}

/* The pipelines of a plan, or the batches of one with annotations. */
static enum hsp_status want_pipelines(const struct hsp_yaml *y, bool batches,
                                      const struct hsp_yaml **ret, struct hsp_err *err)
{
    const struct hsp_yaml *pipelines = NULL, *b = hsp_yaml_get(y, "batches");
    enum hsp_status rc = hsp_yaml_renamed(y, "pipelines", "streams", &pipelines, err);
    if (rc != HSP_OK) {
        return rc;
    }
    if (batches ? pipelines != NULL : b != NULL) {
        return hsp_yaml_error(batches ? pipelines : b, err,
                              "a plan has pipelines, or annotations and batches");
    }
    const char *key = !batches && pipelines != NULL ? pipelines->key : "pipelines";
    return want(y, batches ? "batches" : key, HSP_YAML_SEQ, HSP_MAX_PIPELINES, ret, err);
}

/* The pipelines of a plan, or annotations and batches from which they are found. */
static enum hsp_status read_pipelines(const struct hsp_yaml *y, struct hsp_arena *arena,
                                      struct hsp_plan *p, const struct hsp_yaml **ret,
                                      struct hsp_err *err)
{
    const struct hsp_yaml *uses = hsp_yaml_get(y, "annotations");
    enum hsp_status rc = want_pipelines(y, uses != NULL, ret, err);
    if (rc == HSP_OK && uses != NULL) {
        rc = hsp_plan_read_annotations(uses, arena, p, err);
    }
    if (rc != HSP_OK) {
        return rc;
    }
    p->n_pipelines = (uint32_t)(*ret)->n;
    p->pipelines = hsp_arena_array(arena, p->n_pipelines, sizeof *p->pipelines);
    if (p->pipelines == NULL) {
        return hsp_err_nomem(err, "the plan");
    }
    for (uint32_t i = 0; rc == HSP_OK && i < p->n_pipelines; i++) {
        rc = read_pipeline(&(*ret)->items[i], uses != NULL, arena, &p->pipelines[i], err);
    }
    return rc;
}

static enum hsp_status read_rules(const struct hsp_yaml *y, struct hsp_arena *arena,
                                  struct hsp_plan *p, struct hsp_err *err)
{
    static const char *const keys[] = {"name", "home"};
    if (y == NULL || y->kind == HSP_YAML_NULL) {
        return HSP_OK;
    }
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_SEQ, err);
    if (rc == HSP_OK && y->n > HSP_MAX_RULES) {
        rc = hsp_yaml_error(y, err, "%zu rules, at most %d", y->n, HSP_MAX_RULES);
    }
    if (rc != HSP_OK) {
        return rc;
    }
    p->n_rules = (uint32_t)y->n;
    p->rules = hsp_arena_array(arena, y->n, sizeof *p->rules);
    if (p->rules == NULL) {
        return hsp_err_nomem(err, "the plan");
    }
    for (uint32_t i = 0; rc == HSP_OK && i < p->n_rules; i++) {
        const struct hsp_yaml *r = &y->items[i];
        rc = hsp_yaml_expect(r, HSP_YAML_MAP, err);
        if (rc == HSP_OK) {
            rc = hsp_yaml_check_keys(r, keys, HSP_ARRAY_LEN(keys), err);
        }
        const struct hsp_yaml *name = hsp_yaml_get(r, "name"), *home = hsp_yaml_get(r, "home");
        if (rc == HSP_OK && (name == NULL || home == NULL)) {
            rc = hsp_yaml_error(r, err, "missing key %s", name == NULL ? "name" : "home");
        }
        if (rc == HSP_OK) {
            rc = hsp_yaml_str(name, &p->rules[i].pattern, err);
        }
        if (rc == HSP_OK) {
            rc = hsp_annot_parse(home, arena, &p->rules[i].home, err);
        }
    }
    return rc;
}

/* The planner's explanation of its plan. */
static enum hsp_status read_explain(const struct hsp_yaml *y, struct hsp_arena *arena,
                                    struct hsp_plan *p, struct hsp_err *err)
{
    const struct hsp_yaml *us = hsp_yaml_get(y, "predicted_step_us");
    const struct hsp_yaml *why = hsp_yaml_get(y, "why");
    const struct hsp_yaml *mem = hsp_yaml_get(y, "memory_bytes");
    enum hsp_status rc = HSP_OK;
    if (us != NULL) {
        rc = hsp_yaml_f64(us, 0, 1e18, &p->predicted_step_us, err);
    }
    if (rc == HSP_OK && why != NULL) {
        rc = hsp_yaml_str(why, &p->why, err);
    }
    if (rc != HSP_OK || mem == NULL) {
        return rc;
    }
    rc = hsp_yaml_expect(mem, HSP_YAML_SEQ, err);
    if (rc == HSP_OK && mem->n != p->n_ranks) {
        rc = hsp_yaml_error(mem, err, "%zu numbers for %u ranks", mem->n, p->n_ranks);
    }
    if (rc != HSP_OK) {
        return rc;
    }
    p->memory_bytes = hsp_arena_array(arena, p->n_ranks, sizeof *p->memory_bytes);
    if (p->memory_bytes == NULL) {
        return hsp_err_nomem(err, "the plan");
    }
    for (uint32_t i = 0; rc == HSP_OK && i < p->n_ranks; i++) {
        rc = hsp_yaml_i64(&mem->items[i], 0, INT64_MAX, &p->memory_bytes[i], err);
    }
    return rc;
}

/* `sequences` are weights when they do not add up to the global batch. @y: the pipelines. */
static enum hsp_status scale_sequences(const struct hsp_yaml *y, struct hsp_plan *p,
                                       uint32_t global_batch, struct hsp_err *err)
{
    int64_t w[HSP_MAX_PIPELINES], cut[HSP_MAX_PIPELINES + 1], sum = 0;
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        w[i] = p->pipelines[i].sequences;
        sum += w[i];
    }
    if (sum == (int64_t)global_batch) {
        return HSP_OK;
    }
    hsp_cut_shares(global_batch, p->n_pipelines, w, cut);
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        p->pipelines[i].sequences = (uint32_t)(cut[i + 1] - cut[i]);
        if (p->pipelines[i].sequences == 0) {
            return hsp_yaml_error(&y->items[i], err,
                                  "pipeline %u gets no sequence of a global batch of %u", i,
                                  global_batch);
        }
    }
    return HSP_OK;
}

static enum hsp_status read_zero(const struct hsp_yaml *y, struct hsp_plan *p, struct hsp_err *err)
{
    static const uint32_t none = 0;
    const struct hsp_yaml *how = hsp_yaml_get(y, "zero_pattern");
    uint32_t zero = 0;
    size_t pattern = 0;
    enum hsp_status rc = read_u32(y, "zero", 0, HSP_ZERO_PARAMETERS, &none, &zero, err);
    if (rc == HSP_OK && zero != HSP_ZERO_NONE && zero != HSP_ZERO_STATE &&
        zero != HSP_ZERO_PARAMETERS) {
        rc = hsp_yaml_error(hsp_yaml_get(y, "zero"), err, "zero is 0, 1 or 3");
    }
    if (rc == HSP_OK && how != NULL) {
        rc = hsp_yaml_choice(how, patterns, HSP_ARRAY_LEN(patterns), &pattern, err);
    }
    if (rc == HSP_OK && zero == HSP_ZERO_NONE && pattern != HSP_ZERO_CONTIGUOUS) {
        rc = hsp_yaml_error(how, err, "with zero 0 nothing is cut by this pattern");
    }
    p->zero = (uint8_t)zero;
    p->zero_pattern = (uint8_t)pattern;
    return rc;
}

static enum hsp_status read_bucket(const struct hsp_yaml *y, struct hsp_plan *p,
                                   struct hsp_err *err)
{
    const struct hsp_yaml *bucket = hsp_yaml_get(y, "bucket");
    p->states_bucket = bucket != NULL;
    return bucket != NULL ? hsp_yaml_u64(bucket, 0, HSP_MAX_BUCKET, &p->bucket_bytes, err) : HSP_OK;
}

enum hsp_status hsp_plan_read(const struct hsp_yaml *y, uint32_t global_batch,
                              struct hsp_arena *arena, struct hsp_plan **ret, struct hsp_err *err)
{
    static const char *const keys[] = {
        "apiVersion",   "kind",        "ranks",   "zero",
        "pipelines",    "parameters",  "why",     "predicted_step_us",
        "memory_bytes", "homes",       "uses",    "reshards",
        "zero_pattern", "annotations", "batches", "bucket",
        "streams"};
    const struct hsp_yaml *pipelines = NULL;
    struct hsp_plan *p = hsp_arena_alloc(arena, sizeof *p);
    if (p == NULL) {
        return hsp_err_nomem(err, "the plan");
    }
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_MAP, err);
    if (rc == HSP_OK) {
        rc = hsp_yaml_check_keys(y, keys, HSP_ARRAY_LEN(keys), err);
    }
    if (rc == HSP_OK) {
        rc = read_u32(y, "ranks", 1, HSP_MAX_RANKS, NULL, &p->n_ranks, err);
    }
    if (rc == HSP_OK) {
        rc = read_zero(y, p, err);
    }
    if (rc == HSP_OK) {
        rc = read_bucket(y, p, err);
    }
    if (rc == HSP_OK) {
        rc = read_pipelines(y, arena, p, &pipelines, err);
    }
    if (rc == HSP_OK) {
        rc = read_rules(hsp_yaml_get(y, "parameters"), arena, p, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_plan_read_total(y, arena, p, err);
    }
    if (rc == HSP_OK) {
        rc = read_explain(y, arena, p, err);
    }
    if (rc == HSP_OK) {
        rc = scale_sequences(pipelines, p, global_batch, err);
    }
    if (rc == HSP_OK) {
        *ret = p;
    }
    return rc;
}

static void dump_layers(const struct hsp_stage *s, uint32_t chunks, struct hsp_buf *out)
{
    if (chunks == 1) {
        hsp_buf_printf(out, "      - {layers: %u", s->layers);
        return;
    }
    for (uint32_t i = 0; i < chunks; i++) {
        hsp_buf_printf(out, "%s%u", i == 0 ? "      - {layers: [" : ", ", hsp_chunk_layers(s, i));
    }
    hsp_buf_puts(out, "]");
}

static void dump_stage(const struct hsp_stage *s, uint32_t chunks, struct hsp_buf *out)
{
    dump_layers(s, chunks, out);
    hsp_buf_puts(out, ", ");
    hsp_plan_put_members(s, out);
    hsp_plan_put_saved(s, out);
}

static void dump_sizes(const struct hsp_pipeline *s, struct hsp_buf *out)
{
    for (uint32_t i = 0; s->sizes != NULL && i < s->micro_batches; i++) {
        hsp_buf_printf(out, "%s%u", i > 0 ? ", " : "    sizes: [", s->sizes[i]);
    }
    hsp_buf_puts(out, s->sizes != NULL ? "]\n" : "");
}

static void dump_explain(const struct hsp_plan *p, struct hsp_buf *out)
{
    if (p->predicted_step_us > 0) {
        hsp_buf_puts(out, "predicted_step_us: ");
        hsp_yaml_put_f64(out, p->predicted_step_us);
        hsp_buf_puts(out, "\n");
    }
    if (p->memory_bytes != NULL) {
        hsp_buf_puts(out, "memory_bytes: [");
        for (uint32_t i = 0; i < p->n_ranks; i++) {
            hsp_buf_printf(out, "%s%" PRId64, i > 0 ? ", " : "", p->memory_bytes[i]);
        }
        hsp_buf_puts(out, "]\n");
    }
    if (p->why != NULL) {
        hsp_buf_puts(out, "why: ");
        hsp_yaml_put_str(out, p->why);
        hsp_buf_puts(out, "\n");
    }
}

static void dump_pipeline(const struct hsp_pipeline *s, bool batch, struct hsp_buf *out)
{
    uint32_t chunks = hsp_pipeline_chunks(s);
    hsp_buf_printf(out, "  - sequences: %u\n    micro_batches: %u\n", s->sequences,
                   s->micro_batches);
    dump_sizes(s, out);
    hsp_buf_printf(out, "    schedule: %s\n", hsp_schedule_name(s->schedule));
    if (chunks > 1) {
        hsp_buf_printf(out, "    chunks: %u\n", chunks);
    }
    hsp_buf_puts(out, s->n_stages > 0 ? "    stages:\n" : "");
    for (uint32_t j = 0; j < s->n_stages; j++) {
        if (batch) {
            hsp_plan_put_settings(&s->stages[j], out);
        } else {
            dump_stage(&s->stages[j], chunks, out);
        }
    }
}

static void dump_plan(const struct hsp_plan *p, bool explain, struct hsp_buf *out)
{
    hsp_buf_printf(out, "apiVersion: hspmd/v1\nkind: plan\nranks: %u\nzero: %u\n", p->n_ranks,
                   p->zero);
    if (p->zero_pattern != HSP_ZERO_CONTIGUOUS) {
        hsp_buf_printf(out, "zero_pattern: %s\n", patterns[p->zero_pattern]);
    }
    if (p->states_bucket) {
        hsp_buf_printf(out, "bucket: %" PRIu64 "\n", p->bucket_bytes);
    }
    hsp_plan_put_annotations(p, out);
    const char *pipelines = explain ? "pipelines:\n" : "streams:\n"; /* of the digest: see below */
    hsp_buf_puts(out, p->n_annotations > 0 ? "batches:\n" : pipelines);
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        dump_pipeline(&p->pipelines[i], p->n_annotations > 0, out);
    }
    for (uint32_t i = 0; i < p->n_rules; i++) {
        hsp_buf_puts(out, i == 0 ? "parameters:\n  - {name: " : "  - {name: ");
        hsp_yaml_put_json_str(out, p->rules[i].pattern);
        hsp_buf_puts(out, ", home: ");
        hsp_annot_dump(p->rules[i].home, out);
        hsp_buf_puts(out, "}\n");
    }
    hsp_plan_dump_total(p, explain, out);
    if (explain) {
        dump_explain(p, out);
    }
}

void hsp_plan_dump_one(const struct hsp_plan *p, struct hsp_buf *out)
{
    dump_plan(p, true, out);
}

void hsp_plan_dump_bare(const struct hsp_plan *p, struct hsp_buf *out)
{
    dump_plan(p, false, out);
}
