#include "daemon/cluster/cluster_check.h"

#include <inttypes.h>

#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/parked.h"
#include "daemon/cluster/plan_info.h"
#include "proto/base/check.h"

static void check_epoch(const struct hsp_cluster *c, const struct hsp_job *j,
                        const struct hsp_cl_epoch *e)
{
    HSP_ASSERT(e->epoch < j->next_epoch); /* I1 */
    HSP_ASSERT(e->n_ranks > 0 && e->n_ranks <= e->n_peers);
    HSP_ASSERT(hsp_ci_plan(j, e->plan) != NULL);
    const struct hsp_plan_info *p = &hsp_ci_plan(j, e->plan)->info;
    HSP_ASSERT(p->n_ranks == e->n_ranks && p->n_replica_holders == e->n_replica_holders);
    HSP_ASSERT(hsp_ci_participants(e) <= e->n_peers);
    for (uint32_t i = 0; i < e->n_peers; i++) {
        HSP_ASSERT(e->peers[i].device < c->n_nodes * HSP_NODE_DEVICES);
        HSP_ASSERT(i >= hsp_ci_participants(e) || e->peers[i].device == hsp_ci_holder(p, i));
        HSP_ASSERT(i >= e->n_ranks || !hsp_ci_device(c, e->peers[i].device)->replica_holder);
    }
}

/* I2: every peer that matters is leased to its job, unless its node is gone. */
static void check_leases(const struct hsp_cluster *c, const struct hsp_job *j,
                         const struct hsp_cl_epoch *e, bool lasting_only)
{
    for (uint32_t i = 0; i < (lasting_only ? hsp_ci_participants(e) : e->n_peers); i++) {
        HSP_ASSERT(hsp_ci_device(c, e->peers[i].device)->job == j->id);
    }
}

static void check_job(const struct hsp_cluster *c, const struct hsp_job *j)
{
    bool attempt = j->state == HSP_JOB_STARTING || j->state == HSP_JOB_SWITCHING ||
                   j->state == HSP_JOB_RECOVERING || j->state == HSP_JOB_FINISHING;
    bool runs = j->state == HSP_JOB_RUNNING || j->state == HSP_JOB_SWITCHING ||
                j->state == HSP_JOB_FINISHING;
    HSP_ASSERT(j->att.epoch == 0 || attempt); /* I4 */
    HSP_ASSERT(j->state != HSP_JOB_SWITCHING || j->att.epoch != 0);
    HSP_ASSERT(!runs || j->cur.epoch != 0);
    HSP_ASSERT(!j->suspending || !hsp_ci_at_rest(j));
    HSP_ASSERT(!j->unrecorded || j->state == HSP_JOB_BEHIND);
    if (hsp_ci_at_rest(j)) { /* I6 */
        HSP_ASSERT(j->cur.epoch == 0 && j->att.epoch == 0 && j->ticket == 0);
        HSP_ASSERT(j->n_plans == 0 || j->state == HSP_JOB_FAILED); /* kept_state.h */
        return;
    }
    if (j->state == HSP_JOB_BEHIND) { /* I6 */
        HSP_ASSERT(j->cur.epoch == 0 && j->att.epoch == 0 && j->ticket == 0);
    }
    if (j->cur.epoch != 0) {
        check_epoch(c, j, &j->cur);
    }
    if (j->att.epoch != 0) {
        HSP_ASSERT(j->att.epoch > j->cur.epoch); /* I1 */
        check_epoch(c, j, &j->att);
        check_leases(c, j, &j->att, false);
    }
    if (runs) {
        check_leases(c, j, &j->cur, j->cur.settled);
    }
    for (uint32_t i = 1; i < j->n_plans; i++) {
        HSP_ASSERT(j->plans[i - 1].plan < j->plans[i].plan);
    }
    for (uint32_t i = 0; i < j->n_older; i++) { /* ckpt_marks.h */
        uint64_t next = i + 1 < j->n_older ? j->older[i + 1].step : j->ckpt_step;
        HSP_ASSERT(j->has_ckpt && j->older[i].step < next);
    }
    for (uint32_t i = 1; i < j->cuts.n; i++) { /* ckpt_cuts.h */
        HSP_ASSERT(j->cuts.cut[i - 1].step <= j->cuts.cut[i].step);
    }
    HSP_ASSERT(j->ticket == 0 || !j->have_result);
    HSP_ASSERT(j->ticket < c->next_ticket);
}

/* index.c: its lists agree with the rest. */
static void check_index(const struct hsp_cluster *c)
{
    uint32_t away = 0, faults = 0, conns = 0, listed = 0, vacant = 0, live = HSP_NO_NODE;
    size_t leases = 0, held = 0;
    hsp_msec last = 0;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const struct hsp_cluster_node *n = &c->nodes[i];
        bool heard = n->state == HSP_NODE_LIVE || n->state == HSP_NODE_SUSPECT;
        away += n->state == HSP_NODE_AWAY;
        faults += n->fault.until_ms != 0;
        conns += n->conn != 0;
        listed += heard;
        vacant += n->name[0] == '\0';
        HSP_ASSERT(n->listed == heard);
        HSP_ASSERT(n->name[0] == '\0' || hsp_cluster_node_by_name(c, n->name) == n);
        for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
            HSP_ASSERT(c->holders[HSP_DEVICE(i, d)] == n->dev[d].job);
            leases += n->dev[d].job != 0;
        }
    }
    for (uint32_t i = c->oldest; i != HSP_NO_NODE; i = c->nodes[i].newer) {
        HSP_ASSERT(c->nodes[i].last_ms >= last && listed-- > 0);
        last = c->nodes[i].last_ms;
        live = live == HSP_NO_NODE && c->nodes[i].state == HSP_NODE_LIVE ? i : live;
    }
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        const struct hsp_job *j = c->jobs[i];
        held += j->n_leases;
        for (uint32_t k = 0; k < j->n_leases; k++) {
            HSP_ASSERT(k == 0 || j->leases[k - 1] < j->leases[k]);
            HSP_ASSERT(hsp_ci_device(c, j->leases[k])->job == j->id);
        }
    }
    HSP_ASSERT(faults == c->n_faults && away == c->n_away && conns == hsp_map_len(&c->by_conn) &&
               listed == 0);
    HSP_ASSERT(live == c->first_live && leases == held && vacant == c->n_vacant);
}

/* node_check.c: an order belongs to a node that measures, or to a pair that does. */
static void check_orders(const struct hsp_cluster *c)
{
    const struct hsp_check *k = &c->check;
    for (uint32_t i = 0; i < k->n_nodes; i++) {
        const struct hsp_check_node *n = &k->nodes[i];
        bool own = n->state == HSP_CHECK_RUNS;
        HSP_ASSERT(!own || n->seq != 0 || !k->active);
        for (uint32_t p = 0; n->seq != 0 && p < k->n_pairs; p++) {
            const struct hsp_check_pair *x = &k->pairs[p];
            own =
                own || (x->seq == n->seq && x->state == HSP_CHECK_RUNS && (x->a == i || x->b == i));
        }
        HSP_ASSERT(n->seq == 0 || (k->active && own));
        HSP_ASSERT(n->seq < k->next_seq);
    }
}

/* I7 */
static void check_parked(const struct hsp_cluster *c)
{
    HSP_ASSERT(c->n_parked == hsp_map_len(&c->parked_conn));
    for (uint32_t i = 0; i < c->n_parked; i++) {
        HSP_ASSERT(hsp_ci_parked_of(c, c->parked[i].conn) == &c->parked[i]);
        HSP_ASSERT(hsp_ci_node_of_conn(c, c->parked[i].conn) == NULL);
    }
}

/* broken_pairs.c: in order, each once, none of a node that is gone; reach_rounds.c: a job that
 * waits for a round waits for one that is open. */
static void check_pairs(const struct hsp_cluster *c)
{
    uint32_t broken = 0;
    for (uint32_t i = 0; i < c->n_pairs; i++) {
        const struct hsp_broken_pair *p = &c->pairs[i], *q = i > 0 ? p - 1 : p;
        HSP_ASSERT(p->a < p->b && p->b < c->n_nodes);
        HSP_ASSERT(i == 0 || q->a < p->a || (q->a == p->a && q->b < p->b));
        HSP_ASSERT(!hsp_ci_node_gone(&c->nodes[p->a]) && !hsp_ci_node_gone(&c->nodes[p->b]));
        broken += p->broken;
    }
    HSP_ASSERT(broken == c->n_broken && c->n_pairs <= HSP_MAX_PAIRS);
    for (uint32_t k = 0; k < c->n_jobs; k++) {
        bool open = c->jobs[k]->round == 0;
        for (uint32_t i = 0; i < HSP_REACH_ROUNDS && !open; i++) {
            open = c->round[i] != NULL && c->round[i]->number == c->jobs[k]->round;
        }
        HSP_ASSERT(open);
    }
}

void hsp_cluster_check(const struct hsp_cluster *c)
{
    check_index(c);
    check_parked(c);
    check_orders(c);
    check_pairs(c);
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const struct hsp_cluster_node *n = &c->nodes[i];
        HSP_ASSERT(n->incarnation < c->next_incarnation && n->same_since <= n->incarnation);
        HSP_ASSERT(n->state != HSP_NODE_LIVE || n->conn != 0);
        HSP_ASSERT(!hsp_ci_node_gone(n) || n->conn == 0);
        HSP_ASSERT(n->conn == 0 || hsp_ci_node_of_conn(c, n->conn) == n); /* I3 */
        for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
            HSP_ASSERT(n->dev[d].job == 0 || hsp_ci_job(c, n->dev[d].job) != NULL);
            HSP_ASSERT(n->dev[d].ask == HSP_ASK_NONE || n->dev[d].job != 0);
            HSP_ASSERT(!hsp_ci_node_gone(n) || n->dev[d].job == 0);
        }
    }
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        HSP_ASSERT(i == 0 || c->jobs[i - 1]->id < c->jobs[i]->id);
        check_job(c, c->jobs[i]);
    }
}

static void dump_epoch(const struct hsp_cl_epoch *e, const char *what, struct hsp_buf *out)
{
    static const char *const phases[] = {"runs", "waits", "prepares", "goes"};
    static const char *const modes[] = {"fresh", "switch", "recover", "restore"};
    if (e->epoch == 0) {
        return;
    }
    hsp_buf_printf(out,
                   "    %s epoch %" PRIu64 " %s %s plan %" PRIu64 " from %" PRIu64 " step %" PRIu64
                   "%s, cause: %s\n     ",
                   what, e->epoch, modes[e->mode], phases[e->phase], e->plan, e->from_plan, e->step,
                   e->settled ? " settled" : "", e->cause);
    for (uint32_t i = 0; i < e->n_peers; i++) {
        const struct hsp_epoch_peer *p = &e->peers[i];
        hsp_buf_printf(out, " %s%s%u/%u%s%s%s%s", i == e->n_ranks ? "| " : "",
                       i >= e->n_ranks && i < hsp_ci_participants(e) ? "replica holder " : "",
                       HSP_DEVICE_NODE(p->device), HSP_DEVICE_INDEX(p->device),
                       p->prepare_sent ? "p" : "", p->ready ? "r" : "", p->go_sent ? "g" : "",
                       p->started ? "s" : "");
    }
    hsp_buf_puts(out, "\n");
}

static void dump_node(const struct hsp_cluster_node *n, uint32_t at, struct hsp_buf *out)
{
    hsp_buf_printf(out,
                   "  node %u %s %s incarnation %" PRIu64 " conn %u heard %" PRIu64 "%s%s:", at,
                   n->name, hsp_node_state_name(n->state), n->incarnation, n->conn, n->last_ms,
                   n->draining ? " draining" : "", n->leaving ? " leaving" : "");
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        const struct hsp_node_device *x = &n->dev[d];
        if (!x->present && x->job == 0) {
            continue;
        }
        hsp_buf_printf(out, " %u%s%s", d, x->up ? " up" : " down", x->present ? "" : " gone");
        if (x->health != HSP_HEALTH_FINE) {
            hsp_buf_printf(out, " %s", hsp_health_name(x->health));
        }
        if (x->job != 0) {
            hsp_buf_printf(out, " job %u%s", x->job,
                           x->ask == HSP_ASK_STOP      ? " stopping"
                           : x->ask == HSP_ASK_RELEASE ? " releasing"
                                                       : "");
        }
    }
    hsp_buf_puts(out, "\n");
}

static void dump_job(const struct hsp_job *j, struct hsp_buf *out)
{
    hsp_buf_printf(out, "  job %u %s %s stable %" PRIu64 " of %" PRIu64 " failures %u%s%s\n", j->id,
                   j->name, hsp_job_state_name(j->state), j->stable, j->steps, j->failures,
                   j->reason[0] != '\0' ? ": " : "", j->reason);
    dump_epoch(&j->cur, "current", out);
    dump_epoch(&j->att, "next", out);
    for (uint32_t k = 0; k < j->n_plans; k++) {
        hsp_buf_printf(out, "    plan %" PRIu64 "%s ranks %u", j->plans[k].plan,
                       j->plans[k].started ? " started" : "", j->plans[k].info.n_ranks);
        if (j->plans[k].void_from != UINT64_MAX) {
            hsp_buf_printf(out, " void from %" PRIu64, j->plans[k].void_from);
        }
        if (j->plans[k].from_plan != 0) {
            hsp_buf_printf(out, " made of %" PRIu64 " at %" PRIu64, j->plans[k].from_plan,
                           j->plans[k].from_step);
        }
        hsp_buf_puts(out, "\n");
    }
    for (uint32_t k = 0; k < j->n_held && k < 64; k++) {
        const struct hsp_state_piece *h = &j->held[k];
        hsp_buf_printf(out, "    held %u/%u plan %" PRIu64 " rank %u of %u version %" PRIu64 "\n",
                       HSP_DEVICE_NODE(h->device), HSP_DEVICE_INDEX(h->device), h->plan, h->rank,
                       h->owner, h->version);
    }
    if (j->ticket != 0) {
        hsp_buf_printf(out, "    planning, ticket %" PRIu64 "\n", j->ticket);
    }
    if (j->round != 0) {
        hsp_buf_printf(out, "    its nodes call each other, round %u\n", j->round);
    }
}

void hsp_cluster_dump(const struct hsp_cluster *c, struct hsp_buf *out)
{
    hsp_buf_printf(out, "term %" PRIu64 " at %" PRIu64 " ms%s%s\n", c->term, c->now_ms,
                   c->behind ? ", behind: " : "", c->behind_why);
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        if (c->nodes[i].name[0] != '\0') {
            dump_node(&c->nodes[i], i, out);
        }
    }
    for (uint32_t i = 0; i < c->n_parked; i++) {
        hsp_buf_printf(out, "  parked %s conn %u: %s\n", c->parked[i].name, c->parked[i].conn,
                       c->parked[i].why);
    }
    for (uint32_t i = 0; i < c->n_pairs; i++) {
        const struct hsp_broken_pair *p = &c->pairs[i];
        hsp_buf_printf(out,
                       "  pair %u-%u%s since %" PRIu64 ", next %" PRIu64 ", suspected %u%s%s\n",
                       p->a, p->b, p->broken ? " broken" : "", p->since_ms, p->next_ms, p->suspects,
                       p->why[0] != '\0' ? ": " : "", p->why);
    }
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        dump_job(c->jobs[i], out);
    }
}
