#include "proto/layout/cover.h"

#include <stdlib.h> /* qsort, free */
#include <string.h> /* memcpy */

#include "proto/base/check.h"
#include "proto/base/vec.h"
#include "proto/layout/box.h"

void hsp_cover_init(struct hsp_cover *c, uint8_t rank, const int64_t *extent)
{
    HSP_ASSERT(rank <= HSP_MAX_RANK);
    *c = (struct hsp_cover){.rank = rank};
    for (uint8_t d = 0; d < rank; d++) {
        c->extent[d] = extent[d];
    }
}

void hsp_cover_fini(struct hsp_cover *c)
{
    free(c->items);
    c->items = NULL;
    c->n = 0;
    c->cap = 0;
}

enum hsp_status hsp_cover_add(struct hsp_cover *c, uint32_t rank, uint32_t addend,
                              const struct hsp_box *box)
{
    HSP_ASSERT(box->rank == c->rank);
    for (uint8_t d = 0; d < box->rank; d++) {
        HSP_ASSERT(box->lo[d] <= box->hi[d]);
    }
    if (c->n >= HSP_MAX_COVER) {
        return HSP_ELIMIT;
    }
    size_t cap = c->cap;
    if (!hsp_grow(&c->items, &cap, (size_t)c->n + 1, sizeof *c->items, HSP_MAX_COVER)) {
        return HSP_ENOMEM;
    }
    c->cap = (uint32_t)cap;
    c->items[c->n++] = (struct hsp_held){.rank = rank, .addend = addend, .box = *box};
    return HSP_OK;
}

static int compare_i64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_boxes(const struct hsp_box *a, const struct hsp_box *b)
{
    for (uint8_t d = 0; d < a->rank; d++) {
        int r = compare_i64(a->lo[d], b->lo[d]);
        r = r != 0 ? r : compare_i64(a->hi[d], b->hi[d]);
        if (r != 0) {
            return r;
        }
    }
    return 0;
}

static int compare_by_rank(const void *x, const void *y)
{
    const struct hsp_held *a = x, *b = y;
    int r = compare_i64(a->rank, b->rank);
    r = r != 0 ? r : compare_boxes(&a->box, &b->box);
    return r != 0 ? r : compare_i64(a->addend, b->addend);
}

static int compare_by_addend(const void *x, const void *y)
{
    const struct hsp_held *a = x, *b = y;
    int r = compare_i64(a->addend, b->addend);
    return r != 0 ? r : compare_by_rank(x, y);
}

static bool overlap(const struct hsp_held *a, const struct hsp_held *b)
{
    struct hsp_box cut;
    return hsp_box_cut(&a->box, &b->box, &cut);
}

/* Some item of [0, first) has @label and meets one of [first, end). */
static bool label_meets(const struct hsp_held *items, uint32_t first, uint32_t end, uint32_t label)
{
    for (uint32_t i = 0; i < first; i++) {
        for (uint32_t j = first; items[i].addend == label && j < end; j++) {
            if (overlap(&items[i], &items[j])) {
                return true;
            }
        }
    }
    return false;
}

/* Items [first, end) carry one label, items before first have their new one. Collects the items
 * joined to the first one by overlaps at the front and renames them. Returns where the next
 * component starts. */
static uint32_t rename_component(struct hsp_held *items, uint32_t first, uint32_t end)
{
    uint32_t joined = first + 1, label = items[first].rank;
    for (uint32_t i = first; i < joined; i++) {
        for (uint32_t j = joined; j < end; j++) {
            if (overlap(&items[i], &items[j])) {
                struct hsp_held t = items[j];
                items[j] = items[joined];
                items[joined++] = t;
                label = t.rank < label ? t.rank : label;
            }
        }
    }
    while (label_meets(items, first, joined, label)) {
        label += HSP_ADDEND_STEP;
    }
    for (uint32_t i = first; i < joined; i++) {
        items[i].addend = label;
    }
    return joined;
}

void hsp_cover_normalise(struct hsp_cover *c)
{
    if (c->n == 0) {
        return;
    }
    qsort(c->items, c->n, sizeof *c->items, compare_by_addend);
    for (uint32_t first = 0; first < c->n;) {
        uint32_t end = first + 1;
        while (end < c->n && c->items[end].addend == c->items[first].addend) {
            end++;
        }
        while (first < end) {
            first = rename_component(c->items, first, end);
        }
    }
    qsort(c->items, c->n, sizeof *c->items, compare_by_rank);
    uint32_t kept = 1;
    for (uint32_t i = 1; i < c->n; i++) {
        if (compare_by_rank(&c->items[i], &c->items[kept - 1]) != 0) {
            c->items[kept++] = c->items[i];
        }
    }
    c->n = kept;
}

bool hsp_cover_equal(const struct hsp_cover *a, const struct hsp_cover *b)
{
    if (a->rank != b->rank || a->n != b->n || a->reduce != b->reduce) {
        return false;
    }
    for (uint8_t d = 0; d < a->rank; d++) {
        if (a->extent[d] != b->extent[d]) {
            return false;
        }
    }
    for (uint32_t i = 0; i < a->n; i++) {
        if (compare_by_rank(&a->items[i], &b->items[i]) != 0) {
            return false;
        }
    }
    return true;
}

/* Items from @from on cover @box: the first item that meets it takes its part, the rest of the box
 * falls into at most two slabs per dim. Depth is bounded by the number of items. */
static bool covered_from(const struct hsp_cover *c, uint32_t from, const struct hsp_box *box,
                         uint32_t addend)
{
    struct hsp_box cut;
    uint32_t i = from;
    while (i < c->n && ((addend != HSP_ANY_ADDEND && c->items[i].addend != addend) ||
                        !hsp_box_cut(&c->items[i].box, box, &cut))) {
        i++;
    }
    if (i == c->n) {
        return false;
    }
    struct hsp_box rest = *box;
    for (uint8_t d = 0; d < box->rank; d++) {
        struct hsp_box slab = rest;
        slab.hi[d] = cut.lo[d];
        if (!hsp_box_empty(&slab) && !covered_from(c, i + 1, &slab, addend)) {
            return false;
        }
        slab = rest;
        slab.lo[d] = cut.hi[d];
        if (!hsp_box_empty(&slab) && !covered_from(c, i + 1, &slab, addend)) {
            return false;
        }
        rest.lo[d] = cut.lo[d];
        rest.hi[d] = cut.hi[d];
    }
    return true;
}

bool hsp_cover_covers(const struct hsp_cover *c, const struct hsp_box *box, uint32_t addend)
{
    return hsp_box_empty(box) || covered_from(c, 0, box, addend);
}

bool hsp_cover_has_partial(const struct hsp_cover *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        for (uint32_t j = i + 1; j < c->n; j++) {
            if (c->items[i].addend != c->items[j].addend && overlap(&c->items[i], &c->items[j])) {
                return true;
            }
        }
    }
    return false;
}

bool hsp_cover_is_complete(const struct hsp_cover *c)
{
    struct hsp_box whole = hsp_box_whole(c->rank, c->extent);
    return hsp_cover_covers(c, &whole, HSP_ANY_ADDEND) && !hsp_cover_has_partial(c);
}
