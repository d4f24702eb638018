#include "daemon/plan/plan_yaml_total.h"

#include <inttypes.h> /* PRId64 */
#include <string.h>

#include "daemon/plan/name_range.h"
#include "proto/base/size.h"
#include "proto/layout/annot_text.h"
#include "proto/program/move_name.h"
#include "proto/text/yaml_read.h"
#include "proto/text/yaml_write.h"

static const char *const phases[] = {"pre", "forward", "backward", "post"};

const char *hsp_phase_name(uint8_t phase)
{
    return phases[phase];
}

/* The map @y has no key but @keys, and all of the first @n_must. */
static enum hsp_status check_map(const struct hsp_yaml *y, const char *const *keys, size_t n,
                                 size_t n_must, struct hsp_err *err)
{
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_MAP, err);
    if (rc == HSP_OK) {
        rc = hsp_yaml_check_keys(y, keys, n, err);
    }
    for (size_t i = 0; rc == HSP_OK && i < n_must; i++) {
        if (hsp_yaml_get(y, keys[i]) == NULL) {
            rc = hsp_yaml_error(y, err, "missing key %s", keys[i]);
        }
    }
    return rc;
}

/* An array for the children of sequence @y. */
static enum hsp_status new_list(const struct hsp_yaml *y, size_t max, size_t elem,
                                struct hsp_arena *arena, void *ret, uint32_t *ret_n,
                                struct hsp_err *err)
{
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_SEQ, err);
    if (rc == HSP_OK && y->n > max) {
        rc = hsp_yaml_error(y, err, "%zu entries, at most %zu", y->n, max);
    }
    if (rc != HSP_OK) {
        return rc;
    }
    void *a = hsp_arena_array(arena, y->n, elem);
    if (a == NULL) {
        return hsp_err_nomem(err, "the plan");
    }
    memcpy(ret, &a, sizeof a);
    *ret_n = (uint32_t)y->n;
    return HSP_OK;
}

static enum hsp_status read_index(const struct hsp_yaml *y, uint64_t end, uint32_t *ret,
                                  struct hsp_err *err)
{
    uint64_t v = 0;
    enum hsp_status rc = hsp_yaml_u64(y, 0, end - 1, &v, err);
    *ret = (uint32_t)v;
    return rc;
}

/* A name with a well-formed range. */
static enum hsp_status read_name(const struct hsp_yaml *y, const char **ret, struct hsp_err *err)
{
    struct hsp_name_range r;
    enum hsp_status rc = hsp_yaml_str(y, ret, err);
    if (rc == HSP_OK && !hsp_range_parse(*ret, &r)) {
        rc = hsp_yaml_error(y, err, "a range is [FIRST-LAST], once in a name, below %d",
                            HSP_RANGE_END);
    }
    return rc;
}

/* ---- homes ---- */

static enum hsp_status read_homes(const struct hsp_yaml *y, struct hsp_arena *arena,
                                  struct hsp_plan *p, struct hsp_err *err)
{
    static const char *const keys[] = {"name", "home"};
    if (y == NULL) {
        return HSP_OK;
    }
    enum hsp_status rc =
        new_list(y, HSP_MAX_ENTRIES, sizeof *p->homes, arena, &p->homes, &p->n_homes, err);
    for (uint32_t i = 0; rc == HSP_OK && i < p->n_homes; i++) {
        const struct hsp_yaml *h = &y->items[i];
        rc = check_map(h, keys, 2, 2, err);
        if (rc == HSP_OK) {
            rc = read_name(hsp_yaml_get(h, "name"), &p->homes[i].pattern, err);
        }
        if (rc == HSP_OK) {
            rc = hsp_annot_parse(hsp_yaml_get(h, "home"), arena, &p->homes[i].home, err);
        }
    }
    return rc;
}

static void dump_homes(const struct hsp_plan *p, struct hsp_buf *out)
{
    for (uint32_t i = 0; i < p->n_homes; i++) {
        hsp_buf_puts(out, i == 0 ? "homes:\n  - {name: " : "  - {name: ");
        hsp_yaml_put_json_str(out, p->homes[i].pattern);
        hsp_buf_puts(out, ", home: ");
        hsp_annot_dump(p->homes[i].home, out);
        hsp_buf_puts(out, "}\n");
    }
}

/* ---- uses ---- */

static enum hsp_status read_layouts(const struct hsp_yaml *y, struct hsp_arena *arena,
                                    struct hsp_stage_uses *s, struct hsp_err *err)
{
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_MAP, err);
    if (rc == HSP_OK && y->n > HSP_MAX_ENTRIES) {
        rc = hsp_yaml_error(y, err, "%zu layouts, at most %u", y->n, HSP_MAX_ENTRIES);
    }
    if (rc != HSP_OK) {
        return rc;
    }
    s->n_layouts = (uint32_t)y->n;
    s->layout = hsp_arena_array(arena, y->n, sizeof *s->layout);
    if (s->layout == NULL) {
        return hsp_err_nomem(err, "the plan");
    }
    for (uint32_t i = 0; rc == HSP_OK && i < s->n_layouts; i++) {
        s->layout[i].name = y->items[i].key;
        if (strcmp(s->layout[i].name, "whole") == 0) {
            rc = hsp_yaml_error(&y->items[i], err, "whole is the name of no other layout");
        } else {
            rc = hsp_annot_parse(&y->items[i], arena, &s->layout[i].at, err);
        }
    }
    return rc;
}

static enum hsp_status read_operands(const struct hsp_yaml *y, const struct hsp_stage_uses *s,
                                     uint32_t want, uint8_t *ret_n, uint32_t *ret,
                                     struct hsp_err *err)
{
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_SEQ, err);
    if (rc == HSP_OK && y->n != want) {
        rc = hsp_yaml_error(y, err, "%zu layouts, the op has %u", y->n, want);
    }
    for (size_t i = 0; rc == HSP_OK && i < y->n; i++) {
        const char *name = NULL;
        uint32_t k = 0;
        rc = hsp_yaml_str(&y->items[i], &name, err);
        if (rc != HSP_OK || strcmp(name, "whole") == 0) {
            ret[i] = 0;
            continue;
        }
        while (k < s->n_layouts && strcmp(s->layout[k].name, name) != 0) {
            k++;
        }
        if (k == s->n_layouts) {
            rc = hsp_yaml_error(&y->items[i], err, "no layout %s in this stage", name);
        }
        ret[i] = k + 1;
    }
    *ret_n = (uint8_t)want;
    return rc;
}

static enum hsp_status read_op(const struct hsp_yaml *y, const struct hsp_stage_uses *s,
                               struct hsp_op_use *u, struct hsp_err *err)
{
    static const char *const keys[] = {"op", "makes", "cut", "in", "out"};
    const char *name = NULL;
    enum hsp_op op = HSP_OP_LINEAR;
    enum hsp_status rc = check_map(y, keys, HSP_ARRAY_LEN(keys), HSP_ARRAY_LEN(keys), err);
    if (rc == HSP_OK) {
        rc = hsp_yaml_str(hsp_yaml_get(y, "op"), &name, err);
    }
    if (rc == HSP_OK && !hsp_op_find(name, &op)) {
        rc = hsp_yaml_error(hsp_yaml_get(y, "op"), err, "no op %s", name);
    }
    u->op = (uint8_t)op;
    if (rc == HSP_OK) {
        rc = read_name(hsp_yaml_get(y, "makes"), &u->makes, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_yaml_str(hsp_yaml_get(y, "cut"), &u->cut, err);
    }
    if (rc == HSP_OK) {
        rc = read_operands(hsp_yaml_get(y, "in"), s, hsp_op_n_in(op), &u->n_in, u->in, err);
    }
    return rc == HSP_OK
               ? read_operands(hsp_yaml_get(y, "out"), s, hsp_op_n_out(op), &u->n_out, u->out, err)
               : rc;
}

static enum hsp_status read_stage_uses(const struct hsp_yaml *y, struct hsp_arena *arena,
                                       struct hsp_stage_uses *s, struct hsp_err *err)
{
    static const char *const keys[] = {"stage", "layouts", "ops", "pipeline", "stream"};
    const struct hsp_yaml *ops = hsp_yaml_get(y, "ops"), *pipeline = NULL;
    enum hsp_status rc = check_map(y, keys, HSP_ARRAY_LEN(keys), 3, err);
    if (rc == HSP_OK) {
        rc = hsp_yaml_renamed(y, "pipeline", "stream", &pipeline, err);
    }
    if (rc == HSP_OK) {
        rc = pipeline != NULL ? read_index(pipeline, HSP_MAX_PIPELINES, &s->pipeline, err)
                              : hsp_yaml_error(y, err, "missing key pipeline");
    }
    if (rc == HSP_OK) {
        rc = read_index(hsp_yaml_get(y, "stage"), HSP_MAX_STAGES, &s->stage, err);
    }
    if (rc == HSP_OK) {
        rc = read_layouts(hsp_yaml_get(y, "layouts"), arena, s, err);
    }
    if (rc == HSP_OK) {
        rc = new_list(ops, HSP_MAX_ENTRIES, sizeof *s->op, arena, &s->op, &s->n_ops, err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < s->n_ops; i++) {
        rc = read_op(&ops->items[i], s, &s->op[i], err);
    }
    return rc;
}

/* The digest is of the older name (hsp_plan_dump_bare). */
static const char *pipeline_key(bool explain)
{
    return explain ? "pipeline" : "stream";
}

static void dump_operands(const struct hsp_stage_uses *s, const uint32_t *v, uint8_t n,
                          struct hsp_buf *out)
{
    for (uint8_t i = 0; i < n; i++) {
        hsp_buf_puts(out, i > 0 ? ", " : "[");
        hsp_yaml_put_str(out, v[i] == 0 ? "whole" : s->layout[v[i] - 1].name);
    }
    hsp_buf_puts(out, n == 0 ? "[]" : "]");
}

static void dump_stage_uses(const struct hsp_stage_uses *s, bool explain, struct hsp_buf *out)
{
    hsp_buf_printf(out, "  - %s: %u\n    stage: %u\n    layouts:%s\n", pipeline_key(explain),
                   s->pipeline, s->stage, s->n_layouts == 0 ? " {}" : "");
    for (uint32_t i = 0; i < s->n_layouts; i++) {
        hsp_buf_puts(out, "      ");
        hsp_yaml_put_str(out, s->layout[i].name);
        hsp_buf_puts(out, ": ");
        hsp_annot_dump(s->layout[i].at, out);
        hsp_buf_puts(out, "\n");
    }
    hsp_buf_printf(out, "    ops:%s\n", s->n_ops == 0 ? " []" : "");
    for (uint32_t i = 0; i < s->n_ops; i++) {
        const struct hsp_op_use *u = &s->op[i];
        hsp_buf_printf(out, "      - {op: %s, makes: ", hsp_op_name((enum hsp_op)u->op));
        hsp_yaml_put_json_str(out, u->makes);
        hsp_buf_puts(out, ", cut: ");
        hsp_yaml_put_json_str(out, u->cut);
        hsp_buf_puts(out, ", in: ");
        dump_operands(s, u->in, u->n_in, out);
        hsp_buf_puts(out, ", out: ");
        dump_operands(s, u->out, u->n_out, out);
        hsp_buf_puts(out, "}\n");
    }
}

/* ---- reshards ---- */

/* A list of @n numbers, or one for all. */
static enum hsp_status read_bytes(const struct hsp_yaml *y, uint32_t n, struct hsp_arena *arena,
                                  int64_t **ret, struct hsp_err *err)
{
    bool one = y->kind == HSP_YAML_SCALAR;
    enum hsp_status rc = one ? HSP_OK : hsp_yaml_expect(y, HSP_YAML_SEQ, err);
    if (rc == HSP_OK && !one && y->n != n) {
        rc = hsp_yaml_error(y, err, "%zu numbers for %u ranks", y->n, n);
    }
    *ret = hsp_arena_array(arena, n, sizeof **ret);
    if (rc == HSP_OK && *ret == NULL) {
        return hsp_err_nomem(err, "the plan");
    }
    for (uint32_t i = 0; rc == HSP_OK && i < n; i++) {
        rc = hsp_yaml_i64(one ? y : &y->items[i], 0, INT64_MAX, &(*ret)[i], err);
    }
    return rc;
}

static enum hsp_status read_ranks(const struct hsp_yaml *y, struct hsp_arena *arena, uint32_t **ret,
                                  uint32_t *ret_n, struct hsp_err *err)
{
    enum hsp_status rc = new_list(y, HSP_MAX_RANKS, sizeof **ret, arena, ret, ret_n, err);
    for (uint32_t i = 0; rc == HSP_OK && i < *ret_n; i++) {
        rc = read_index(&y->items[i], HSP_MAX_RANKS, &(*ret)[i], err);
        if (rc == HSP_OK && i > 0 && (*ret)[i] <= (*ret)[i - 1]) {
            rc = hsp_yaml_error(&y->items[i], err, "ranks do not ascend");
        }
    }
    return rc;
}

static enum hsp_status read_move(const struct hsp_yaml *y, struct hsp_arena *arena,
                                 struct hsp_plan_move *m, struct hsp_err *err)
{
    static const char *const keys[] = {"kind", "ranks", "gives", "gets", "of_sums"};
    const char *kinds[HSP_MOVE_REDUCE_SEND + 1];
    size_t kind = 0;
    for (uint8_t k = 0; k <= HSP_MOVE_REDUCE_SEND; k++) {
        kinds[k] = hsp_move_name(k);
    }
    enum hsp_status rc = check_map(y, keys, HSP_ARRAY_LEN(keys), 4, err);
    if (rc == HSP_OK) {
        rc = hsp_yaml_choice(hsp_yaml_get(y, "kind"), kinds, HSP_ARRAY_LEN(kinds), &kind, err);
    }
    m->kind = (uint8_t)kind;
    if (rc == HSP_OK) {
        rc = read_ranks(hsp_yaml_get(y, "ranks"), arena, &m->ranks, &m->n, err);
    }
    if (rc == HSP_OK) {
        rc = read_bytes(hsp_yaml_get(y, "gives"), m->n, arena, &m->gives, err);
    }
    if (rc == HSP_OK) {
        rc = read_bytes(hsp_yaml_get(y, "gets"), m->n, arena, &m->gets, err);
    }
    const struct hsp_yaml *sums = hsp_yaml_get(y, "of_sums");
    return rc == HSP_OK && sums != NULL ? hsp_yaml_bool(sums, &m->of_sums, err) : rc;
}

/* Where a Reshard of Forward or Backward stands. */
static enum hsp_status read_place(const struct hsp_yaml *y, struct hsp_plan_reshard *r,
                                  struct hsp_err *err)
{
    static const char *const must[] = {"pipeline", "stage", "from", "before"};
    const struct hsp_yaml *k[HSP_ARRAY_LEN(must)];
    bool micro = r->phase == HSP_PHASE_FORWARD || r->phase == HSP_PHASE_BACKWARD;
    enum hsp_status rc = hsp_yaml_renamed(y, must[0], "stream", &k[0], err);
    for (size_t i = 0; rc == HSP_OK && i < HSP_ARRAY_LEN(must); i++) {
        k[i] = i == 0 ? k[0] : hsp_yaml_get(y, must[i]);
        if (k[i] != NULL && !micro) {
            return hsp_yaml_error(k[i], err, "%s belongs to forward and backward", must[i]);
        }
    }
    if (rc != HSP_OK || !micro) {
        return rc;
    }
    if (k[0] == NULL || k[1] == NULL) {
        return hsp_yaml_error(y, err, "missing key %s", k[0] == NULL ? must[0] : must[1]);
    }
    rc = read_index(k[0], HSP_MAX_PIPELINES, &r->pipeline, err);
    if (rc == HSP_OK) {
        rc = read_index(k[1], HSP_MAX_STAGES, &r->stage, err);
    }
    r->from = r->stage;
    if (rc == HSP_OK && k[2] != NULL) {
        rc = read_index(k[2], HSP_MAX_STAGES, &r->from, err);
    }
    return rc == HSP_OK && k[3] != NULL ? read_name(k[3], &r->before, err) : rc;
}

static enum hsp_status read_reshard(const struct hsp_yaml *y, struct hsp_arena *arena,
                                    struct hsp_plan_reshard *r, struct hsp_err *err)
{
    static const char *const keys[] = {"phase",  "makes", "moves",  "pipeline", "stage", "from",
                                       "before", "zero",  "method", "us",       "stream"};
    struct hsp_name_range makes, before;
    size_t phase = 0;
    *r = (struct hsp_plan_reshard){.pipeline = HSP_NONE, .stage = HSP_NONE, .from = HSP_NONE};
    enum hsp_status rc = check_map(y, keys, HSP_ARRAY_LEN(keys), 3, err);
    if (rc == HSP_OK) {
        rc = hsp_yaml_choice(hsp_yaml_get(y, "phase"), phases, HSP_ARRAY_LEN(phases), &phase, err);
    }
    r->phase = (uint8_t)phase;
    if (rc == HSP_OK) {
        rc = read_name(hsp_yaml_get(y, "makes"), &r->makes, err);
    }
    if (rc == HSP_OK) {
        rc = read_place(y, r, err);
    }
    if (rc == HSP_OK && r->before != NULL && hsp_range_parse(r->makes, &makes) &&
        hsp_range_parse(r->before, &before) && before.n > 1 && before.n != makes.n) {
        rc = hsp_yaml_error(hsp_yaml_get(y, "before"), err, "%u names for %u made", before.n,
                            makes.n);
    }
    const struct hsp_yaml *moves = hsp_yaml_get(y, "moves"), *zero = hsp_yaml_get(y, "zero");
    if (rc == HSP_OK) {
        rc = new_list(moves, HSP_MAX_ENTRIES, sizeof *r->move, arena, &r->move, &r->n_moves, err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < r->n_moves; i++) {
        rc = read_move(&moves->items[i], arena, &r->move[i], err);
    }
    if (rc == HSP_OK && zero != NULL) {
        rc = read_ranks(zero, arena, &r->zero, &r->n_zero, err);
    }
    const struct hsp_yaml *method = hsp_yaml_get(y, "method"), *us = hsp_yaml_get(y, "us");
    if (rc == HSP_OK && method != NULL) {
        rc = hsp_yaml_str(method, &r->method, err);
    }
    return rc == HSP_OK && us != NULL ? hsp_yaml_f64(us, 0, 1e18, &r->us, err) : rc;
}

/* "[a, b]"; one number where all are equal and @short_form. */
static void put_numbers(const int64_t *v, uint32_t n, bool short_form, struct hsp_buf *out)
{
    bool equal = short_form && n > 0;
    for (uint32_t i = 1; i < n; i++) {
        equal = equal && v[i] == v[0];
    }
    if (equal) {
        hsp_buf_printf(out, "%" PRId64, v[0]);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        hsp_buf_printf(out, "%s%" PRId64, i > 0 ? ", " : "[", v[i]);
    }
    hsp_buf_puts(out, n == 0 ? "[]" : "]");
}

static void put_ranks(const uint32_t *v, uint32_t n, struct hsp_buf *out)
{
    for (uint32_t i = 0; i < n; i++) {
        hsp_buf_printf(out, "%s%u", i > 0 ? ", " : "[", v[i]);
    }
    hsp_buf_puts(out, n == 0 ? "[]" : "]");
}

void hsp_plan_put_moves(const struct hsp_plan_reshard *r, struct hsp_buf *out)
{
    hsp_buf_puts(out, "[");
    for (uint32_t i = 0; i < r->n_moves; i++) {
        const struct hsp_plan_move *m = &r->move[i];
        hsp_buf_printf(out, "%s{kind: %s, ranks: ", i > 0 ? ", " : "", hsp_move_name(m->kind));
        put_ranks(m->ranks, m->n, out);
        hsp_buf_puts(out, ", gives: ");
        put_numbers(m->gives, m->n, true, out);
        hsp_buf_puts(out, ", gets: ");
        put_numbers(m->gets, m->n, true, out);
        hsp_buf_puts(out, m->of_sums ? ", of_sums: true}" : "}");
    }
    hsp_buf_puts(out, "]");
    if (r->n_zero > 0) {
        hsp_buf_puts(out, ", zero: ");
        put_ranks(r->zero, r->n_zero, out);
    }
}

static void dump_reshard(const struct hsp_plan_reshard *r, bool explain, struct hsp_buf *out)
{
    hsp_buf_printf(out, "  - {phase: %s, ", phases[r->phase]);
    if (r->stage != HSP_NONE) {
        hsp_buf_printf(out, "%s: %u, stage: %u, ", pipeline_key(explain), r->pipeline, r->stage);
        if (r->from != r->stage) {
            hsp_buf_printf(out, "from: %u, ", r->from);
        }
    }
    hsp_buf_puts(out, "makes: ");
    hsp_yaml_put_json_str(out, r->makes);
    if (r->before != NULL) {
        hsp_buf_puts(out, ", before: ");
        hsp_yaml_put_json_str(out, r->before);
    }
    hsp_buf_puts(out, ", moves: ");
    hsp_plan_put_moves(r, out);
    if (explain && r->method != NULL) {
        hsp_buf_puts(out, ", method: ");
        hsp_yaml_put_json_str(out, r->method);
    }
    if (explain && r->us > 0) {
        hsp_buf_puts(out, ", us: ");
        hsp_yaml_put_f64(out, r->us);
    }
    hsp_buf_puts(out, "}\n");
}

/* ---- all of it ---- */

enum hsp_status hsp_plan_read_total(const struct hsp_yaml *y, struct hsp_arena *arena,
                                    struct hsp_plan *p, struct hsp_err *err)
{
    const struct hsp_yaml *uses = hsp_yaml_get(y, "uses"), *rs = hsp_yaml_get(y, "reshards");
    enum hsp_status rc = read_homes(hsp_yaml_get(y, "homes"), arena, p, err);
    p->states_uses = uses != NULL;
    p->states_reshards = rs != NULL;
    if (rc == HSP_OK && uses != NULL) {
        rc = new_list(uses, HSP_MAX_RANKS, sizeof *p->uses, arena, &p->uses, &p->n_uses, err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < p->n_uses; i++) {
        rc = read_stage_uses(&uses->items[i], arena, &p->uses[i], err);
    }
    if (rc == HSP_OK && rs != NULL) {
        rc = new_list(rs, HSP_MAX_ENTRIES, sizeof *p->reshards, arena, &p->reshards, &p->n_reshards,
                      err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < p->n_reshards; i++) {
        rc = read_reshard(&rs->items[i], arena, &p->reshards[i], err);
    }
    return rc;
}

void hsp_plan_dump_total(const struct hsp_plan *p, bool explain, struct hsp_buf *out)
{
    dump_homes(p, out);
    if (p->states_uses) {
        hsp_buf_puts(out, p->n_uses == 0 ? "uses: []\n" : "uses:\n");
    }
    for (uint32_t i = 0; i < p->n_uses; i++) {
        dump_stage_uses(&p->uses[i], explain, out);
    }
    if (p->states_reshards) {
        hsp_buf_puts(out, p->n_reshards == 0 ? "reshards: []\n" : "reshards:\n");
    }
    for (uint32_t i = 0; i < p->n_reshards; i++) {
        dump_reshard(&p->reshards[i], explain, out);
    }
}
