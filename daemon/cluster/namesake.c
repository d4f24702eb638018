#include "daemon/cluster/namesake.h"

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/outbox.h"
#include "proto/base/str.h"

#define COUNTS_MS 180000u /* a second agent calls again within a minute */
#define TELL_MS   600000u

void hsp_ci_namesake(struct hsp_cluster *c, struct hsp_cluster_node *n, const char *peer)
{
    struct hsp_namesake *x = &n->namesake;
    hsp_str_printf(x->peer, sizeof(x->peer), "%s", peer != NULL ? peer : "");
    x->until_ms = c->now_ms + COUNTS_MS;
    if (c->now_ms < x->tell_ms) {
        return;
    }
    x->tell_ms = c->now_ms + TELL_MS;
    hsp_ci_fact(
        c, "node.namesake", HSP_SEV_WARN, NULL, n,
        "another agent under this name is refused, from %s: each node needs a name of its own: set "
        "`node` in hspmd-worker.yaml of one of them, and restart its hspmd-worker",
        x->peer);
}

const char *hsp_cluster_namesake(const struct hsp_cluster_node *n, hsp_msec now_ms)
{
    return n->conn != 0 && now_ms < n->namesake.until_ms ? n->namesake.peer : NULL;
}
