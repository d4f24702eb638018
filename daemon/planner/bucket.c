#include "daemon/planner/bucket.h"

#include <math.h>

#include "daemon/plan/stage_groups.h"

#define LATENCY_PART 0.05                 /* of the time of a bucket, at most */
#define LEAST        (UINT64_C(64) << 10) /* bytes: below, a message is latency anyway */

uint64_t hsp_bucket_bytes(const struct hsp_link_cost *link, uint32_t holders)
{
    if (holders < 2) {
        return 0;
    }
    /* as the synchronisation is priced (price.c) */
    double latency = (1 + (holders - 1) / 4.0) * link->latency_us;
    double us_per_byte = link->us_per_byte * (holders - 1) / holders;
    uint64_t bytes = LEAST;
    while (bytes < HSP_MAX_BUCKET &&
           latency > LATENCY_PART * (latency + us_per_byte * (double)bytes)) {
        bytes *= 2;
    }
    return bytes;
}

uint64_t hsp_bucket_of_plan(const struct hsp_plan *plan, const struct hsp_cluster_desc *c,
                            const uint32_t *device)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < plan->n_ranks; r++) {
        if (c->dev[device[r]].no_buckets) {
            return 0;
        }
    }
    if (plan->states_bucket) {
        return plan->bucket_bytes;
    }
    for (uint32_t i = 0; i < plan->n_pipelines; i++) {
        for (uint32_t j = 0; j < plan->pipelines[i].n_stages; j++) {
            uint32_t n = plan->n_pipelines * hsp_stage_groups(&plan->pipelines[i].stages[j]);
            most = n > most ? n : most;
        }
    }
    struct hsp_link_cost link = hsp_link_group(c, device, plan->n_ranks);
    return hsp_bucket_bytes(&link, most);
}

double hsp_bucket_count(uint64_t bucket, double n, double bytes)
{
    return bucket > 0 ? fmin(n, 1 + floor(bytes / (double)bucket)) : n;
}
