#include "worker/backend/hash_runs.h"

bool hsp_hash_join(const struct hsp_hash_call *c, struct hsp_hash_call *ret)
{
    struct hsp_hash_call r = {.data = c->data, .dtype = c->dtype, .key = c->key};
    for (uint8_t d = 0; d < c->rank; d++) {
        if (c->ext[d] == 0) {
            return false;
        }
        if (c->ext[d] == 1) {
            continue; /* an index of this dim is always 0 */
        }
        if (r.rank > 0 && r.stride[r.rank - 1] == c->ext[d] * c->stride[d]) {
            r.ext[r.rank - 1] *= c->ext[d];
            r.stride[r.rank - 1] = c->stride[d];
        } else {
            r.ext[r.rank] = c->ext[d];
            r.stride[r.rank++] = c->stride[d];
        }
    }
    if (r.rank == 0 || r.stride[r.rank - 1] != 1) { /* every contiguous run has one element */
        r.ext[r.rank] = 1;
        r.stride[r.rank++] = 1;
    }
    *ret = r;
    return true;
}

int64_t hsp_hash_number(const struct hsp_hash_call *c, int64_t at)
{
    int64_t number = 0;
    for (uint8_t d = c->rank; d-- > 0;) {
        number += at % c->ext[d] * c->stride[d];
        at /= c->ext[d];
    }
    return number;
}
