#include "daemon/spmd/total/total_check.h"

#include <stdlib.h> /* qsort */
#include <string.h>

#include "daemon/plan/name_range.h"
#include "daemon/plan/plan_yaml_total.h"
#include "proto/layout/annot_text.h"

#define SCRATCH_BYTES ((size_t)1 << 30)
#define LINE_BYTES    ((size_t)16 << 20)
#define SIDE_BYTES    60 /* of each side in a message */

struct item {
    const char *key;        /* "Reshard of h.0.attn.proj#sum, forward of pipeline 0 stage 1" */
    struct hsp_digest rest; /* of everything else */
    uint32_t entry, stage;  /* of the section; uses: entry of a stage's list */
    uint32_t index;         /* number in the entry's range */
    uint32_t order;         /* of the spelled out list */
    bool alone;             /* the other side does not say the same */
};

struct side {
    const struct hsp_plan *p;
    struct item *item;
    uint32_t n;
};

struct checker {
    struct hsp_arena *tmp;
    struct hsp_buf text;
    struct hsp_err *err;
    void (*put_rest)(const struct hsp_plan *p, const struct item *it, struct hsp_buf *out);
};

static uint32_t range_count(const char *name)
{
    struct hsp_name_range r;
    return hsp_range_parse(name, &r) ? r.n : 1;
}

static void put_name(const char *name, uint32_t i, struct hsp_buf *out)
{
    struct hsp_name_range r;
    if (hsp_range_parse(name, &r)) {
        hsp_range_put(&r, r.n > 1 ? i : 0, out);
    }
}

/* ---- the meaning of lines ---- */

static void put_reshard_key(const struct hsp_plan_reshard *r, uint32_t i, struct hsp_buf *out)
{
    hsp_buf_puts(out, "Reshard that makes ");
    put_name(r->makes, i, out);
    hsp_buf_printf(out, " in %s", hsp_phase_name(r->phase));
    if (r->stage != HSP_NONE) {
        hsp_buf_printf(out, " of pipeline %u stage %u", r->pipeline, r->stage);
    }
}

static void put_reshard(const struct hsp_plan *p, const struct item *it, struct hsp_buf *out)
{
    const struct hsp_plan_reshard *r = &p->reshards[it->entry];
    if (r->from != r->stage) {
        hsp_buf_printf(out, "from stage %u, ", r->from);
    }
    if (r->before != NULL) {
        hsp_buf_puts(out, "before ");
        put_name(r->before, it->index, out);
        hsp_buf_puts(out, ", ");
    }
    hsp_plan_put_moves(r, out);
}

static void put_use_key(const struct hsp_stage_uses *s, const struct hsp_op_use *u, uint32_t i,
                        struct hsp_buf *out)
{
    hsp_buf_printf(out, "use of pipeline %u stage %u, %s that makes ", s->pipeline, s->stage,
                   hsp_op_name((enum hsp_op)u->op));
    put_name(u->makes, i, out);
}

static void put_operands(const struct hsp_stage_uses *s, const uint32_t *v, uint8_t n,
                         struct hsp_buf *out)
{
    for (uint8_t i = 0; i < n; i++) {
        hsp_buf_puts(out, i > 0 ? ", " : "[");
        if (v[i] == 0) {
            hsp_buf_puts(out, "whole");
        } else {
            hsp_annot_dump(s->layout[v[i] - 1].at, out);
        }
    }
    hsp_buf_puts(out, "]");
}

static void put_use(const struct hsp_plan *p, const struct item *it, struct hsp_buf *out)
{
    const struct hsp_stage_uses *s = &p->uses[it->stage];
    const struct hsp_op_use *u = &s->op[it->entry];
    hsp_buf_printf(out, "cut %s, in ", u->cut[0] != '\0' ? u->cut : "none");
    put_operands(s, u->in, u->n_in, out);
    hsp_buf_puts(out, ", out ");
    put_operands(s, u->out, u->n_out, out);
}

/* ---- spelling out ---- */

static enum hsp_status new_side(struct checker *x, const struct hsp_plan *p, uint64_t n,
                                struct side *ret)
{
    *ret = (struct side){.p = p};
    if (n > (uint64_t)HSP_MAX_ENTRIES * 16) {
        return hsp_err_set(x->err, HSP_ELIMIT, 0, "a plan of more than %u lines",
                           HSP_MAX_ENTRIES * 16);
    }
    ret->item = hsp_arena_array(x->tmp, n, sizeof *ret->item);
    return ret->item != NULL ? HSP_OK : hsp_err_nomem(x->err, "comparison of plans");
}

/* @it with its key in x->text. */
static enum hsp_status add_item(struct checker *x, struct side *s, struct item it)
{
    it.key = x->text.failed ? NULL : hsp_arena_strdup(x->tmp, hsp_buf_cstr(&x->text));
    hsp_buf_reset(&x->text);
    x->put_rest(s->p, &it, &x->text);
    it.rest = hsp_hash128(x->text.data, x->text.len);
    if (it.key == NULL || x->text.failed) {
        return hsp_err_nomem(x->err, "comparison of plans");
    }
    it.order = s->n;
    s->item[s->n++] = it;
    return HSP_OK;
}

static enum hsp_status spell_reshards(struct checker *x, const struct hsp_plan *p, struct side *ret)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->n_reshards; i++) {
        n += range_count(p->reshards[i].makes);
    }
    enum hsp_status rc = new_side(x, p, n, ret);
    for (uint32_t i = 0; rc == HSP_OK && i < p->n_reshards; i++) {
        uint32_t len = range_count(p->reshards[i].makes);
        for (uint32_t k = 0; rc == HSP_OK && k < len; k++) {
            hsp_buf_reset(&x->text);
            put_reshard_key(&p->reshards[i], k, &x->text);
            rc = add_item(x, ret, (struct item){.entry = i, .index = k});
        }
    }
    return rc;
}

static enum hsp_status spell_uses(struct checker *x, const struct hsp_plan *p, struct side *ret)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->n_uses; i++) {
        for (uint32_t k = 0; k < p->uses[i].n_ops; k++) {
            n += range_count(p->uses[i].op[k].makes);
        }
    }
    enum hsp_status rc = new_side(x, p, n, ret);
    for (uint32_t s = 0; rc == HSP_OK && s < p->n_uses; s++) {
        for (uint32_t i = 0; rc == HSP_OK && i < p->uses[s].n_ops; i++) {
            uint32_t len = range_count(p->uses[s].op[i].makes);
            for (uint32_t k = 0; rc == HSP_OK && k < len; k++) {
                hsp_buf_reset(&x->text);
                put_use_key(&p->uses[s], &p->uses[s].op[i], k, &x->text);
                rc = add_item(x, ret, (struct item){.entry = i, .stage = s, .index = k});
            }
        }
    }
    return rc;
}

/* ---- comparison ---- */

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct item *)a)->key, ((const struct item *)b)->key);
}

static int by_key_and_rest(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int k = by_key(a, b);
    if (k != 0) {
        return k;
    }
    if (x->rest.hi != y->rest.hi) {
        return x->rest.hi < y->rest.hi ? -1 : 1;
    }
    return x->rest.lo < y->rest.lo ? -1 : x->rest.lo > y->rest.lo;
}

/* Marks the lines that only one side has. */
static void match(struct side *a, struct side *b)
{
    uint32_t i = 0, k = 0;
    qsort(a->item, a->n, sizeof *a->item, by_key_and_rest);
    qsort(b->item, b->n, sizeof *b->item, by_key_and_rest);
    while (i < a->n || k < b->n) {
        int c = i == a->n ? 1 : k == b->n ? -1 : by_key_and_rest(&a->item[i], &b->item[k]);
        if (c < 0) {
            a->item[i].alone = true;
        } else if (c > 0) {
            b->item[k].alone = true;
        }
        i += c <= 0 ? 1 : 0;
        k += c >= 0 ? 1 : 0;
    }
}

/* The first such line in the order of the plan, or the one with the key @key. NULL: none. */
static const struct item *first_alone(const struct side *s, const char *key)
{
    const struct item *first = NULL;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct item *it = &s->item[i];
        if (it->alone && (key == NULL || strcmp(it->key, key) == 0) &&
            (first == NULL || it->order < first->order)) {
            first = it;
        }
    }
    return first;
}

/* The two sides from where they part, as much as a message holds. */
static enum hsp_status say_both(struct checker *x, const struct side *stated,
                                const struct side *total, const struct item *a,
                                const struct item *b)
{
    x->put_rest(stated->p, a, &x->text);
    const char *left = hsp_arena_strdup(x->tmp, hsp_buf_cstr(&x->text));
    hsp_buf_reset(&x->text);
    x->put_rest(total->p, b, &x->text);
    const char *right = hsp_buf_cstr(&x->text);
    size_t from = 0;
    if (left == NULL) {
        return hsp_err_nomem(x->err, "comparison of plans");
    }
    for (size_t i = 0; left[i] != '\0' && left[i] == right[i]; i++) {
        from = left[i] == ' ' ? i + 1 : from;
    }
    const char *dots = from > 0 ? ".." : "";
    return hsp_err_set(x->err, HSP_EINVAL, 0, "%s: the plan states %s%.*s, it must be %s%.*s",
                       a->key, dots, SIDE_BYTES, left + from, dots, SIDE_BYTES, right + from);
}

/* The earliest difference: later ones may follow from it. */
static enum hsp_status compare(struct checker *x, struct side *stated, struct side *total)
{
    match(stated, total);
    const struct item *a = first_alone(stated, NULL), *b = first_alone(total, NULL);
    if (a == NULL && b == NULL) {
        return HSP_OK;
    }
    if (b == NULL || (a != NULL && a->order <= b->order)) {
        b = first_alone(total, a->key);
    } else {
        a = first_alone(stated, b->key);
    }
    hsp_buf_reset(&x->text);
    if (b == NULL) {
        return hsp_err_set(x->err, HSP_EINVAL, 0, "%s: the plan states one that nothing needs",
                           a->key);
    }
    if (a == NULL) {
        x->put_rest(total->p, b, &x->text);
        return hsp_err_set(x->err, HSP_EINVAL, 0, "%s: the plan does not state it: %s", b->key,
                           hsp_buf_cstr(&x->text));
    }
    return say_both(x, stated, total, a, b);
}

/* ---- the short way: line by line the same ---- */

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool same_move(const struct hsp_plan_move *a, const struct hsp_plan_move *b)
{
    return a->kind == b->kind && a->of_sums == b->of_sums && a->n == b->n &&
           memcmp(a->ranks, b->ranks, a->n * sizeof *a->ranks) == 0 &&
           memcmp(a->gives, b->gives, a->n * sizeof *a->gives) == 0 &&
           memcmp(a->gets, b->gets, a->n * sizeof *a->gets) == 0;
}

static bool same_reshard(const struct hsp_plan_reshard *a, const struct hsp_plan_reshard *b)
{
    bool same = a->phase == b->phase && a->pipeline == b->pipeline && a->stage == b->stage &&
                a->from == b->from && same_text(a->makes, b->makes) &&
                same_text(a->before, b->before) && a->n_moves == b->n_moves &&
                a->n_zero == b->n_zero;
    for (uint32_t i = 0; same && i < a->n_moves; i++) {
        same = same_move(&a->move[i], &b->move[i]);
    }
    for (uint32_t i = 0; same && i < a->n_zero; i++) {
        same = a->zero[i] == b->zero[i];
    }
    return same;
}

static bool same_reshards(const struct hsp_plan *a, const struct hsp_plan *b)
{
    bool same = a->n_reshards == b->n_reshards;
    for (uint32_t i = 0; same && i < a->n_reshards; i++) {
        same = same_reshard(&a->reshards[i], &b->reshards[i]);
    }
    return same;
}

static bool same_annot(struct checker *x, const struct hsp_annot *a, const struct hsp_annot *b)
{
    hsp_buf_reset(&x->text);
    hsp_annot_dump(a, &x->text);
    size_t at = x->text.len;
    hsp_annot_dump(b, &x->text);
    return !x->text.failed && x->text.len == 2 * at &&
           memcmp(x->text.data, x->text.data + at, at) == 0;
}

static bool same_use(const struct hsp_op_use *a, const struct hsp_op_use *b)
{
    return a->op == b->op && same_text(a->makes, b->makes) && same_text(a->cut, b->cut) &&
           a->n_in == b->n_in && a->n_out == b->n_out &&
           memcmp(a->in, b->in, a->n_in * sizeof *a->in) == 0 &&
           memcmp(a->out, b->out, a->n_out * sizeof *a->out) == 0;
}

static bool same_uses(struct checker *x, const struct hsp_plan *a, const struct hsp_plan *b)
{
    bool same = a->n_uses == b->n_uses;
    for (uint32_t i = 0; same && i < a->n_uses; i++) {
        const struct hsp_stage_uses *s = &a->uses[i], *t = &b->uses[i];
        same = s->pipeline == t->pipeline && s->stage == t->stage && s->n_layouts == t->n_layouts &&
               s->n_ops == t->n_ops;
        for (uint32_t k = 0; same && k < s->n_layouts; k++) {
            same = same_annot(x, s->layout[k].at, t->layout[k].at);
        }
        for (uint32_t k = 0; same && k < s->n_ops; k++) {
            same = same_use(&s->op[k], &t->op[k]);
        }
    }
    return same;
}

enum hsp_status hsp_plan_agrees(const struct hsp_plan *stated, const struct hsp_plan *total,
                                struct hsp_err *err)
{
    struct side a, b;
    enum hsp_status rc = HSP_OK;
    if (!stated->states_uses && !stated->states_reshards) {
        return HSP_OK;
    }
    struct checker x = {.tmp = hsp_arena_new(SCRATCH_BYTES), .err = err, .put_rest = put_use};
    if (x.tmp == NULL) {
        return hsp_err_nomem(err, "comparison of plans");
    }
    hsp_buf_init(&x.text, LINE_BYTES);
    if (stated->states_uses && !same_uses(&x, stated, total)) {
        rc = spell_uses(&x, stated, &a);
        rc = rc == HSP_OK ? spell_uses(&x, total, &b) : rc;
        rc = rc == HSP_OK ? compare(&x, &a, &b) : rc;
    }
    x.put_rest = put_reshard;
    if (rc == HSP_OK && stated->states_reshards && !same_reshards(stated, total)) {
        rc = spell_reshards(&x, stated, &a);
        rc = rc == HSP_OK ? spell_reshards(&x, total, &b) : rc;
        rc = rc == HSP_OK ? compare(&x, &a, &b) : rc;
    }
    hsp_buf_fini(&x.text);
    x.tmp = hsp_arena_free(x.tmp);
    return rc;
}
