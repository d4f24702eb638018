#include "tests/lib/covers.h"

#include "proto/layout/canon.h"

static enum hsp_status canonical_copy(const struct hsp_cover *c, struct hsp_cover *ret)
{
    enum hsp_status st = HSP_OK;
    hsp_cover_init(ret, c->rank, c->extent);
    ret->reduce = c->reduce;
    for (uint32_t i = 0; st == HSP_OK && i < c->n; i++) {
        st = hsp_cover_add(ret, c->items[i].rank, c->items[i].addend, &c->items[i].box);
    }
    return st == HSP_OK ? hsp_cover_canonical(ret) : st;
}

enum hsp_status hsp_cover_same(const struct hsp_cover *a, const struct hsp_cover *b, bool *ret)
{
    struct hsp_cover x, y;
    enum hsp_status st = canonical_copy(a, &x);
    enum hsp_status rc = canonical_copy(b, &y);
    if (st == HSP_OK && rc == HSP_OK) {
        *ret = hsp_cover_equal(&x, &y);
    }
    hsp_cover_fini(&x);
    hsp_cover_fini(&y);
    return st == HSP_OK ? rc : st;
}
