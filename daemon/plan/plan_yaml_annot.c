#include "daemon/plan/plan_yaml_annot.h"

#include "daemon/plan/name_range.h"
#include "daemon/plan/stage_groups.h"
#include "proto/base/size.h"
#include "proto/layout/annot_text.h"
#include "proto/text/yaml_read.h"
#include "proto/text/yaml_write.h"

static enum hsp_status read_rule(const struct hsp_yaml *y, struct hsp_arena *arena,
                                 struct hsp_use_rule *r, struct hsp_err *err)
{
    static const char *const keys[] = {"name", "use"};
    struct hsp_name_range range;
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_MAP, err);
    if (rc == HSP_OK) {
        rc = hsp_yaml_check_keys(y, keys, HSP_ARRAY_LEN(keys), err);
    }
    const struct hsp_yaml *name = hsp_yaml_get(y, "name"), *use = hsp_yaml_get(y, "use");
    if (rc == HSP_OK && (name == NULL || use == NULL)) {
        rc = hsp_yaml_error(y, err, "missing key %s", name == NULL ? "name" : "use");
    }
    if (rc == HSP_OK) {
        rc = hsp_yaml_str(name, &r->pattern, err);
    }
    if (rc == HSP_OK && !hsp_range_parse(r->pattern, &range)) {
        rc = hsp_yaml_error(name, err, "a range is [FIRST-LAST], once in a name, below %d",
                            HSP_RANGE_END);
    }
    return rc == HSP_OK ? hsp_annot_parse(use, arena, &r->use, err) : rc;
}

enum hsp_status hsp_plan_read_annotations(const struct hsp_yaml *y, struct hsp_arena *arena,
                                          struct hsp_plan *p, struct hsp_err *err)
{
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_SEQ, err);
    if (rc == HSP_OK && (y->n == 0 || y->n > HSP_MAX_RULES)) {
        rc = hsp_yaml_error(y, err, "%zu annotations, must be 1 to %d", y->n, HSP_MAX_RULES);
    }
    if (rc != HSP_OK) {
        return rc;
    }
    p->n_annotations = (uint32_t)y->n;
    p->annotations = hsp_arena_array(arena, y->n, sizeof *p->annotations);
    if (p->annotations == NULL) {
        return hsp_err_nomem(err, "the plan");
    }
    for (uint32_t i = 0; rc == HSP_OK && i < p->n_annotations; i++) {
        rc = read_rule(&y->items[i], arena, &p->annotations[i], err);
    }
    return rc;
}

enum hsp_status hsp_plan_read_saved(const struct hsp_yaml *y, struct hsp_stage *s,
                                    struct hsp_err *err)
{
    static const char *const saved[] = {"keep", "recompute", "offload"};
    const struct hsp_yaml *kept = hsp_yaml_get(y, "saved");
    size_t i = 0;
    if (kept == NULL) {
        return HSP_OK;
    }
    enum hsp_status rc = hsp_yaml_choice(kept, saved, HSP_ARRAY_LEN(saved), &i, err);
    s->saved = (uint8_t)(HSP_SAVED_KEEP + i);
    return rc;
}

enum hsp_status hsp_plan_read_settings(const struct hsp_yaml *y, struct hsp_arena *arena,
                                       struct hsp_stage *s, struct hsp_err *err)
{
    static const char *const keys[] = {"saved", "split", "shares", "balance", "sequence_parallel"};
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_MAP, err);
    if (rc == HSP_OK) {
        rc = hsp_yaml_check_keys(y, keys, HSP_ARRAY_LEN(keys), err);
    }
    if (rc == HSP_OK) {
        rc = hsp_plan_read_saved(y, s, err);
    }
    return rc == HSP_OK ? hsp_plan_read_split(y, arena, s, err) : rc;
}

void hsp_plan_put_annotations(const struct hsp_plan *p, struct hsp_buf *out)
{
    for (uint32_t i = 0; i < p->n_annotations; i++) {
        hsp_buf_puts(out, i == 0 ? "annotations:\n  - {name: " : "  - {name: ");
        hsp_yaml_put_json_str(out, p->annotations[i].pattern);
        hsp_buf_puts(out, ", use: ");
        hsp_annot_dump(p->annotations[i].use, out);
        hsp_buf_puts(out, "}\n");
    }
}

void hsp_plan_put_saved(const struct hsp_stage *s, struct hsp_buf *out)
{
    static const char *const saved[] = {"}\n", ", saved: keep}\n", ", saved: recompute}\n",
                                        ", saved: offload}\n"};
    hsp_buf_puts(out, saved[s->saved]);
}

void hsp_plan_put_settings(const struct hsp_stage *s, struct hsp_buf *out)
{
    hsp_buf_printf(out, "      - {sequence_parallel: %s", s->sequence_parallel ? "true" : "false");
    hsp_plan_put_split(s, out);
    hsp_plan_put_saved(s, out);
}
