#include "proto/layout/box.h"

#include "proto/layout/cover.h"

#include "proto/base/check.h"
#include "proto/base/size.h"

struct hsp_box hsp_box_whole(uint8_t rank, const int64_t *extent)
{
    HSP_ASSERT(rank <= HSP_MAX_RANK);
    struct hsp_box b = {.rank = rank};
    for (uint8_t d = 0; d < rank; d++) {
        b.hi[d] = extent[d];
    }
    return b;
}

int64_t hsp_box_count(const struct hsp_box *b)
{
    int64_t n = 1;
    for (uint8_t d = 0; d < b->rank; d++) {
        n *= b->hi[d] - b->lo[d];
    }
    return n;
}

bool hsp_box_empty(const struct hsp_box *b)
{
    for (uint8_t d = 0; d < b->rank; d++) {
        if (b->lo[d] >= b->hi[d]) {
            return true;
        }
    }
    return false;
}

bool hsp_box_equal(const struct hsp_box *a, const struct hsp_box *b)
{
    if (a->rank != b->rank) {
        return false;
    }
    for (uint8_t d = 0; d < a->rank; d++) {
        if (a->lo[d] != b->lo[d] || a->hi[d] != b->hi[d]) {
            return false;
        }
    }
    return true;
}

bool hsp_box_inside(const struct hsp_box *in, const struct hsp_box *out)
{
    if (in->rank != out->rank) {
        return false;
    }
    if (hsp_box_empty(in)) {
        return true;
    }
    for (uint8_t d = 0; d < in->rank; d++) {
        if (in->lo[d] < out->lo[d] || in->hi[d] > out->hi[d]) {
            return false;
        }
    }
    return true;
}

bool hsp_box_cut(const struct hsp_box *a, const struct hsp_box *b, struct hsp_box *ret)
{
    HSP_ASSERT(a->rank == b->rank);
    struct hsp_box r = {.rank = a->rank};
    for (uint8_t d = 0; d < a->rank; d++) {
        r.lo[d] = hsp_max_i64(a->lo[d], b->lo[d]);
        r.hi[d] = hsp_min_i64(a->hi[d], b->hi[d]);
        if (r.lo[d] >= r.hi[d]) {
            return false;
        }
    }
    *ret = r;
    return true;
}
