#include "daemon/cluster/plan_info.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/lookup.h"

/* A shard is held by at most every rank, and each rank has one copy of another's. */
#define MAX_SHARDS 65536u
#define MAX_PIECES (1u << 20)

const char *hsp_ci_info_fault(const struct hsp_plan_info *p)
{
    if (p->n_ranks == 0 || p->n_ranks > HSP_MSG_RANKS || p->device == NULL) {
        return "number of ranks";
    }
    if (p->n_spare > HSP_MAX_REPLICA_HOLDERS || p->n_replica_holders > p->n_spare) {
        return "number of replica holders";
    }
    if (p->n_shards == 0 || p->n_shards > MAX_SHARDS || p->shard_first == NULL ||
        p->shard_first[0] != 0 || p->shard_first[p->n_shards] > MAX_PIECES) {
        return "number of shards";
    }
    for (uint32_t i = 0; i < p->n_ranks; i++) {
        if (hsp_ci_contains(p->device, i, p->device[i])) {
            return "a device twice";
        }
    }
    for (uint32_t s = 0; s < p->n_shards; s++) {
        if (p->shard_first[s] >= p->shard_first[s + 1]) {
            return "a shard nobody holds";
        }
        for (uint32_t k = p->shard_first[s]; k < p->shard_first[s + 1]; k++) {
            if (p->pieces[k].holder >= p->n_ranks + p->n_spare ||
                p->pieces[k].owner >= p->n_ranks) {
                return "rank of a piece";
            }
        }
    }
    return NULL;
}

static void *dup(const void *from, size_t n, size_t size)
{
    void *p = calloc(n != 0 ? n : 1, size);
    if (p != NULL && n != 0 && from != NULL) {
        memcpy(p, from, n * size);
    }
    return p;
}

bool hsp_ci_info_copy(const struct hsp_plan_info *from, struct hsp_plan_info *ret)
{
    struct hsp_plan_info p = *from;
    uint32_t n_pieces = from->shard_first[from->n_shards];
    p.device = dup(from->device, p.n_ranks, sizeof(*p.device));
    p.mem_bytes = dup(from->mem_bytes, p.n_ranks, sizeof(*p.mem_bytes));
    p.compute_s = dup(from->compute_s, p.n_ranks, sizeof(*p.compute_s));
    p.folder_bytes = dup(from->folder_bytes, p.n_ranks, sizeof(*p.folder_bytes));
    p.speed = dup(from->speed, p.n_ranks, sizeof(*p.speed));
    p.shard_first = dup(from->shard_first, (size_t)p.n_shards + 1, sizeof(*p.shard_first));
    p.pieces = dup(from->pieces, n_pieces, sizeof(*p.pieces));
    p.why = strdup(from->why != NULL ? from->why : "");
    if (p.device == NULL || p.mem_bytes == NULL || p.compute_s == NULL || p.speed == NULL ||
        p.folder_bytes == NULL || p.shard_first == NULL || p.pieces == NULL || p.why == NULL) {
        hsp_ci_info_fini(&p);
        return false;
    }
    *ret = p;
    return true;
}

void hsp_ci_info_fini(struct hsp_plan_info *p)
{
    free(p->device);
    free(p->mem_bytes);
    free(p->compute_s);
    free(p->folder_bytes);
    free(p->speed);
    free(p->shard_first);
    free(p->pieces);
    free((char *)(uintptr_t)p->why);
    *p = (struct hsp_plan_info){0};
}

void hsp_ci_plan_fini(struct hsp_job_plan *p)
{
    hsp_ci_info_fini(&p->info);
    free(p->holder);
    p->holder = NULL;
}

hsp_device_id hsp_ci_holder(const struct hsp_plan_info *p, uint32_t rank)
{
    if (rank < p->n_ranks) {
        return p->device[rank];
    }
    return rank - p->n_ranks < p->n_replica_holders ? p->replica_holder[rank - p->n_ranks]
                                                    : HSP_NO_DEVICE;
}
