/* Compares the incarnation that an agent shows with those on record of the node that it names. */
#include "daemon/cluster/same_node.h"

#include <string.h>

#include "daemon/cluster/lookup.h"
#include "daemon/cluster/may_say.h"
#include "daemon/cluster/outbox.h"
#include "proto/wire/identity.h"
#include "proto/wire/msg.h"

struct hsp_digest hsp_ci_incarnation_shown(const struct hsp_cluster *c, const struct hsp_m_hello *m)
{
    return hsp_digest_equal(m->cluster, c->id) ? m->incarnation : (struct hsp_digest){0, 0};
}

bool hsp_ci_from_before(const struct hsp_cluster *c, const struct hsp_cluster_node *n,
                        const struct hsp_m_hello *m)
{
    uint32_t here = hsp_generation_number(c->generation);
    return n->unheard && hsp_digest_equal(m->cluster, c->id) &&
           hsp_generation_number(m->generation) < here &&
           hsp_generation_number(n->generation) < here;
}

static bool shows(const struct hsp_m_hello *m, struct hsp_digest secret, struct hsp_digest before)
{
    return !hsp_digest_is_zero(m->was) &&
           (hsp_digest_equal(m->was, secret) || hsp_digest_equal(m->was, before));
}

bool hsp_ci_proves(const struct hsp_cluster_node *n, const struct hsp_m_hello *m)
{
    return shows(m, n->secret, n->before);
}

struct hsp_node_line *hsp_ci_comes_back(struct hsp_cluster_node *n, const struct hsp_m_hello *m)
{
    for (uint32_t i = 0; i < HSP_NODE_LINES; i++) {
        if (n->left[i].last != 0 && shows(m, n->left[i].secret, n->left[i].before)) {
            return &n->left[i];
        }
    }
    return NULL;
}

const char *hsp_ci_not_it(struct hsp_cluster *c, uint32_t conn, const struct hsp_cluster_node *n,
                          const struct hsp_m_hello *m)
{
    struct hsp_digest told = hsp_ci_incarnation_shown(c, m);
    bool here = n->state == HSP_NODE_LIVE && n->conn != 0 && n->conn != conn;
    if (!hsp_digest_is_zero(told)) {
        if (hsp_ci_from_before(c, n, m)) {
            return NULL;
        }
        if (!hsp_digest_equal(told, n->secret)) {
            return hsp_ci_printf(c,
                                 "another process has been node %s since; this one connects again "
                                 "by itself; if two hosts have this name, set `node` of one",
                                 n->name);
        }
        return hsp_ci_node_gone(n)
                   ? hsp_ci_printf(c,
                                   "hspmdd has given it up (%s), and goes on without it; it "
                                   "connects again by itself",
                                   n->draining ? "it left while it was drained" : n->reason)
                   : NULL;
    }
    if (here) {
        /* two nodes of one name would take each other's place for ever */
        return hsp_ci_printf(c,
                             "another agent of node %s is connected, from %s; each node needs a "
                             "name of its own: set `node`",
                             n->name, n->address);
    }
    if (!hsp_ci_node_gone(n) && !hsp_digest_is_zero(n->secret) && !hsp_ci_proves(n, m) &&
        !hsp_ci_from_before(c, n, m)) {
        return hsp_ci_printf(c,
                             "node %s may still be running: an agent without its state folder "
                             "joins when the node has been silent for %u ms",
                             n->name, c->cfg.dead_ms);
    }
    return NULL;
}

bool hsp_ci_was_it(const struct hsp_cluster *c, const struct hsp_cluster_node *n,
                   const struct hsp_m_hello *m)
{
    struct hsp_digest told = hsp_ci_incarnation_shown(c, m);
    return n != NULL && !hsp_digest_is_zero(told) && hsp_digest_equal(told, n->secret);
}

/* The place for the present line when another agent takes the name of @n: that of the oldest line
 * that holds nothing; HSP_NODE_LINES where the present line holds nothing itself, and all others
 * do. */
static size_t place_of_line(const struct hsp_cluster *c, const struct hsp_cluster_node *n)
{
    for (size_t i = HSP_NODE_LINES; i-- > 0;) {
        if (!hsp_ci_named_as(c, n, n->left[i].since, n->left[i].last)) {
            return i;
        }
    }
    bool holds = hsp_ci_named_as(c, n, n->same_since, n->incarnation);
    return holds ? HSP_NODE_LINES - 1 : HSP_NODE_LINES;
}

void hsp_ci_change_line(struct hsp_cluster *c, struct hsp_cluster_node *n,
                        struct hsp_node_line *back)
{
    const struct hsp_node_line now = {n->secret,      n->before, n->same_since,
                                      n->incarnation, n->gap,    n->gap_end};
    const struct hsp_node_line next = back != NULL ? *back : (struct hsp_node_line){0};
    size_t at = back != NULL ? (size_t)(back - n->left) : place_of_line(c, n);
    if (at < HSP_NODE_LINES) {
        memmove(n->left + 1, n->left, at * sizeof(*n->left));
        n->left[0] = now;
    }
    bool behind = next.gap != 0 && hsp_ci_named_as(c, n, next.gap_end + 1, next.last);
    n->same_since = behind ? next.gap_end + 1 : next.since;
    n->gap = back == NULL ? 0 : next.gap != 0 && !behind ? next.gap : next.last + 1;
    n->gap_end = back == NULL ? 0 : now.last;
}
