#include "daemon/cluster/past_epochs.h"

#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/lookup.h"

static struct hsp_past_epoch tellers(const struct hsp_cl_epoch *e)
{
    struct hsp_past_epoch p = {.epoch = e->epoch, .n = 1};
    p.node[0] = HSP_DEVICE_NODE(e->peers[0].device);
    p.incarnation[0] = e->peers[0].incarnation;
    for (uint32_t i = 1; i < hsp_ci_participants(e) && p.n == 1; i++) {
        if (HSP_DEVICE_NODE(e->peers[i].device) != p.node[0]) {
            p.node[1] = HSP_DEVICE_NODE(e->peers[i].device);
            p.incarnation[1] = e->peers[i].incarnation;
            p.n = 2;
        }
    }
    return p;
}

static void add(struct hsp_job *j, const struct hsp_past_epoch *p)
{
    if (j->n_past == HSP_JOB_PAST) {
        j->n_past--;
        memmove(&j->past[0], &j->past[1], j->n_past * sizeof(j->past[0]));
    }
    j->past[j->n_past++] = *p;
}

void hsp_ci_epoch_over(struct hsp_job *j, struct hsp_cl_epoch *e)
{
    bool dropped = e == &j->att && !hsp_ci_attempt_gone(j);
    if (e->epoch == 0) {
        return;
    }
    if (dropped) {
        hsp_ci_epoch_fini(&j->over);
        j->over = *e;
        *e = (struct hsp_cl_epoch){0};
        return;
    }
    if (e->n_ranks > 0) {
        struct hsp_past_epoch p = tellers(e);
        add(j, &p);
    }
    hsp_ci_epoch_fini(e);
}

bool hsp_ci_tellers(const struct hsp_job *j, uint64_t epoch, struct hsp_past_epoch *ret)
{
    const struct hsp_cl_epoch *e = epoch == j->cur.epoch ? &j->cur : &j->att;
    if (epoch == 0) {
        return false;
    }
    if (epoch == e->epoch && e->n_ranks > 0 && (e == &j->cur || hsp_ci_attempt_gone(j))) {
        *ret = tellers(e);
        return true;
    }
    for (uint32_t i = 0; i < j->n_past; i++) {
        if (j->past[i].epoch == epoch) {
            *ret = j->past[i];
            return true;
        }
    }
    return false;
}
