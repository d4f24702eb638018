#include "daemon/cluster/live_state.h"

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/plan_info.h"
#include "daemon/cluster/recover.h"

/* Bytes a millisecond at which a node saves state: one thread that copies and hashes 2 GB/s while
 * others of the node want the same memory. */
#define SAVED_PER_MS (UINT64_C(500) << 10)

bool hsp_ci_replicated(const struct hsp_plan_info *p)
{
    bool all = true;
    for (uint32_t s = 0; all && s < p->n_shards; s++) {
        uint32_t node = HSP_NO_NODE;
        bool two = false;
        for (uint32_t k = p->shard_first[s]; !two && k < p->shard_first[s + 1]; k++) {
            const struct hsp_piece_holder *x = &p->pieces[k];
            uint32_t at = HSP_DEVICE_NODE(p->device[x->owner]);
            two = x->holder == x->owner && node != HSP_NO_NODE && at != node;
            node = x->holder == x->owner ? at : node;
        }
        all = two;
    }
    return all;
}

uint32_t hsp_ci_seal_more_ms(const struct hsp_job *j, uint32_t node)
{
    const struct hsp_job_plan *p = j->cur.epoch != 0 ? hsp_ci_plan(j, j->cur.plan) : NULL;
    uint64_t ms = 0;
    bool live = p != NULL && j->cur.live;
    for (uint32_t r = 0; live && ms < HSP_SEAL_MORE_MS && r < p->info.n_ranks; r++) {
        bool here = HSP_DEVICE_NODE(p->info.device[r]) == node;
        ms += here ? p->info.mem_bytes[r] / SAVED_PER_MS : 0;
    }
    return ms < HSP_SEAL_MORE_MS ? (uint32_t)ms : HSP_SEAL_MORE_MS;
}

bool hsp_ci_keep_older(struct hsp_cluster *c, const struct hsp_job *j, const struct hsp_cl_epoch *e,
                       uint64_t *ret_version)
{
    const struct hsp_job_plan *p = hsp_ci_plan(j, e->plan);
    return e->mode == HSP_MODE_RECOVER && e->from_plan == e->plan && p != NULL &&
           hsp_ci_whole_below(c, j, p, e->step, ret_version);
}
