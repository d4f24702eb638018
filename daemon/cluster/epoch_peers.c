#include "daemon/cluster/epoch_peers.h"

#include <stdlib.h>

#include "daemon/cluster/cluster.h"

void hsp_ci_epoch_fini(struct hsp_cl_epoch *e)
{
    free(e->peers);
    free(e->by_device);
    free(e->sources);
    free(e->apart);
    *e = (struct hsp_cl_epoch){0};
}

static int by_device(const void *a, const void *b)
{
    const struct hsp_epoch_peer *const *x = a, *const *y = b;
    return (*x)->device < (*y)->device ? -1 : (*x)->device > (*y)->device;
}

bool hsp_ci_epoch_index(struct hsp_cl_epoch *e)
{
    size_t n = (size_t)e->n_peers + 1;
    const struct hsp_epoch_peer **sorted = calloc(n, sizeof(*sorted));
    uint32_t *order = calloc(n, sizeof(*order));
    if (sorted == NULL || order == NULL) {
        free(sorted);
        free(order);
        return false;
    }
    for (uint32_t i = 0; i < e->n_peers; i++) {
        sorted[i] = &e->peers[i];
    }
    qsort(sorted, e->n_peers, sizeof(*sorted), by_device);
    for (uint32_t i = 0; i < e->n_peers; i++) {
        order[i] = (uint32_t)(sorted[i] - e->peers);
    }
    free(sorted);
    free(e->by_device);
    e->by_device = order;
    return true;
}

struct hsp_epoch_peer *hsp_ci_peer(const struct hsp_cl_epoch *e, hsp_device_id d)
{
    uint32_t lo = 0, hi = e->n_peers;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (e->peers[e->by_device[mid]].device < d) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    struct hsp_epoch_peer *p = lo < e->n_peers ? &e->peers[e->by_device[lo]] : NULL;
    return p != NULL && p->device == d ? p : NULL;
}

uint32_t hsp_ci_participants(const struct hsp_cl_epoch *e)
{
    return e->n_ranks + e->n_replica_holders;
}
