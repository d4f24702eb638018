#include "worker/state/box_hash.h"

#include "proto/base/element_hash.h"
#include "proto/base/hash.h"
#include "proto/layout/box.h"
#include "worker/state/region.h"

static uint64_t salt_of(const struct hsp_box_id *id)
{
    return hsp_mix64(hsp_mix64((uint64_t)id->kind << 32 | id->tensor) + HSP_HASH_STEP);
}

uint64_t hsp_box_hash(const struct hsp_box_id *id, const struct hsp_box *region,
                      const struct hsp_box *held, const void *data)
{
    struct hsp_box whole = hsp_box_whole(region->rank, id->full);
    struct hsp_walk w;
    int64_t at, index;
    uint64_t sum = 0;
    uint64_t salt = salt_of(id);
    hsp_walk_init(&w, region, held, &whole);
    while (hsp_walk_next(&w, &at, &index)) {
        uint64_t key = salt + (uint64_t)index * HSP_HASH_STEP;
        if (id->dtype == HSP_F64) {
            sum += hsp_hash_64((const uint8_t *)data + 8 * at, w.run, key);
        } else {
            sum += hsp_hash_32((const uint8_t *)data + 4 * at, w.run, key);
        }
    }
    return sum;
}

void hsp_box_hash_call(const struct hsp_box_id *id, const struct hsp_box *box, const void *data,
                       struct hsp_hash_call *ret)
{
    int64_t stride = 1, first = 0;
    *ret = (struct hsp_hash_call){.data = data, .dtype = id->dtype, .rank = box->rank};
    for (int d = (int)box->rank - 1; d >= 0; d--) {
        ret->ext[d] = box->hi[d] - box->lo[d];
        ret->stride[d] = stride;
        first += box->lo[d] * stride;
        stride *= id->full[d];
    }
    ret->key = salt_of(id) + (uint64_t)first * HSP_HASH_STEP;
}
