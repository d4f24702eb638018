#include "worker/state/box_hash.h"

#include <string.h>

#include "proto/base/element_hash.h"
#include "proto/base/hash.h"
#include "proto/layout/box.h"
#include "worker/state/region.h"

#define COPY_BYTES ((int64_t)128 << 10) /* stay in the second cache of a core */

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

/* Copies @n elements, and hashes the copy while it is in a cache. */
static uint64_t hash_copy(enum hsp_dtype t, const uint8_t *from, uint8_t *to, int64_t n,
                          uint64_t key)
{
    const int64_t size = (int64_t)hsp_dtype_size(t), most = COPY_BYTES / size;
    uint64_t sum = 0;
    for (int64_t i = 0, some; i < n; i += some) {
        uint64_t k = key + (uint64_t)i * HSP_HASH_STEP;
        some = n - i < most ? n - i : most;
        memcpy(to + i * size, from + i * size, (size_t)(some * size));
        sum += t == HSP_F64 ? hsp_hash_64(to + i * size, some, k)
                            : hsp_hash_32(to + i * size, some, k);
    }
    return sum;
}

uint64_t hsp_box_hash_copy(const struct hsp_box_id *id, const struct hsp_box *region,
                           const struct hsp_box *held, const void *data, void *dense)
{
    struct hsp_box whole = hsp_box_whole(region->rank, id->full);
    struct hsp_walk w;
    int64_t at, index;
    const int64_t size = (int64_t)hsp_dtype_size(id->dtype);
    uint64_t sum = 0, salt = salt_of(id);
    uint8_t *to = dense;
    hsp_walk_init(&w, region, held, &whole);
    while (hsp_walk_next(&w, &at, &index)) {
        uint64_t key = salt + (uint64_t)index * HSP_HASH_STEP;
        sum += hash_copy(id->dtype, (const uint8_t *)data + size * at, to, w.run, key);
        to += size * w.run;
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
