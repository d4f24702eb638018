#include "worker/executor/step_ranges.h"

#include <stdlib.h>

#include "proto/base/vec.h"

#define RANGES_MAX ((size_t)1 << 20)

enum hsp_status hsp_ranges_push(struct hsp_step_ranges *a, uint64_t epoch, uint64_t from,
                                uint64_t to, struct hsp_err *err)
{
    struct hsp_step_range *last = a->n > 0 ? &a->r[a->n - 1] : NULL;
    if (last != NULL && last->epoch == epoch && last->to + 1 == from) {
        last->to = to;
        return HSP_OK;
    }
    if (!hsp_grow(&a->r, &a->cap, a->n + 1, sizeof *a->r, RANGES_MAX)) {
        return hsp_grow_error(a->n + 1, RANGES_MAX, "ranges of steps", err);
    }
    a->r[a->n++] = (struct hsp_step_range){epoch, from, to};
    return HSP_OK;
}

enum hsp_status hsp_ranges_lack(const struct hsp_step_ranges *have,
                                const struct hsp_step_ranges *theirs, struct hsp_step_ranges *ret,
                                struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    size_t i = 0;
    for (size_t k = 0; k < theirs->n; k++) {
        const struct hsp_step_range *t = &theirs->r[k];
        uint64_t at = t->from;
        while (st == HSP_OK && at <= t->to) {
            while (i < have->n && have->r[i].to < at) {
                i++;
            }
            const struct hsp_step_range *h = i < have->n ? &have->r[i] : NULL;
            bool in = h != NULL && h->from <= at;
            uint64_t end = t->to;
            if (in) {
                end = h->to < end ? h->to : end;
            } else if (h != NULL && h->from <= end) {
                end = h->from - 1;
            }
            st = !in || h->epoch < t->epoch ? hsp_ranges_push(ret, t->epoch, at, end, err) : HSP_OK;
            at = end + 1;
        }
    }
    return st;
}

static int by_step(const void *a, const void *b)
{
    const struct hsp_step_range *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

enum hsp_status hsp_ranges_unite(struct hsp_step_ranges *have, const struct hsp_step_ranges *more,
                                 struct hsp_err *err)
{
    struct hsp_step_ranges both = {0}, newest = {0};
    enum hsp_status st = HSP_OK;
    for (size_t i = 0; st == HSP_OK && i < more->n; i++) { /* newest: @more replaces @have */
        st = hsp_ranges_push(&newest, UINT64_MAX, more->r[i].from, more->r[i].to, err);
    }
    st = st == HSP_OK ? hsp_ranges_lack(&newest, have, &both, err) : st;
    for (size_t i = 0; st == HSP_OK && i < more->n; i++) {
        st = hsp_ranges_push(&both, more->r[i].epoch, more->r[i].from, more->r[i].to, err);
    }
    free(newest.r);
    if (st != HSP_OK) {
        free(both.r);
        return st;
    }
    if (both.n > 1) {
        qsort(both.r, both.n, sizeof *both.r, by_step);
    }
    free(have->r);
    *have = both;
    return HSP_OK;
}
