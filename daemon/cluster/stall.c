#include "daemon/cluster/stall.h"

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/outbox.h"

struct stall {
    hsp_msec from;   /* the last event */
    hsp_msec by;     /* so long ago */
    hsp_msec chance; /* a wait that ends later leaves time for a beat */
};

/* @t is when a wait for a message ends. One that was over before stays over; 0 and HSP_NEVER:
 * there is none. */
static void ends_later(const struct stall *s, hsp_msec *t)
{
    if (*t > s->from && *t != HSP_NEVER) {
        *t += s->by;
        *t = *t > s->chance ? *t : s->chance;
    }
}

/* The same of a wait whose end is also told by the clock on the wall, @until_s; 0: it is not. */
static void told_later(const struct stall *s, hsp_msec *t, uint64_t *until_s)
{
    hsp_msec before = *t;
    ends_later(s, t);
    *until_s += *until_s != 0 ? (*t - before) / 1000 : 0;
}

/* @t is when a wait began, from which its end is reckoned. */
static void began_later(const struct stall *s, hsp_msec *t)
{
    *t += *t != 0 ? s->by : 0;
}

static void nodes_later(struct hsp_cluster *c, const struct stall *s)
{
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        struct hsp_cluster_node *n = &c->nodes[i];
        ends_later(s, &n->claim_ms);
        ends_later(s, &n->measure_ms);
        for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
            began_later(s, &n->dev[d].restart_ms);
            ends_later(s, &n->dev[d].let_go_ms);
        }
    }
}

static void jobs_later(struct hsp_cluster *c, const struct stall *s)
{
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        struct hsp_job *j = c->jobs[i];
        struct hsp_progress *p = &j->progress;
        for (uint32_t k = 0; k < j->n_marks; k++) {
            ends_later(s, &j->marks[k].seal_by_ms);
        }
        told_later(s, &j->state_deadline_ms, &j->state_until_s);
        ends_later(s, &j->state_moment_ms);
        ends_later(s, &j->state_before_ms);
        told_later(s, &j->ckpt_deadline_ms, &j->ckpt_until_s);
        ends_later(s, &j->tries.until_ms);
        ends_later(s, &j->claim_ms);
        ends_later(s, &j->att.deadline_ms);
        began_later(s, &p->since_ms);
        ends_later(s, &p->due_ms);
        ends_later(s, &p->look_ms);
        ends_later(s, &p->answer_ms);
    }
}

static void others_later(struct hsp_cluster *c, const struct stall *s)
{
    ends_later(s, &c->grace_ms);
    ends_later(s, &c->answers_ms);
    ends_later(s, &c->probe.deadline_ms);
    for (uint32_t i = 0; i < HSP_CHECK_NODES; i++) {
        ends_later(s, &c->check.deadline_ms[i]);
    }
    for (uint32_t i = 0; i < c->check.n_pairs; i++) {
        ends_later(s, &c->check.pairs[i].deadline_ms);
    }
    for (uint32_t i = 0; i < HSP_REACH_ROUNDS; i++) {
        if (c->round[i] != NULL) {
            ends_later(s, &c->round[i]->deadline_ms);
        }
    }
}

/* Nobody was silent while hspmdd did not run, and a node near the bound before has time for a
 * beat. */
static void silence_later(struct hsp_cluster *c, hsp_msec by, hsp_msec chance)
{
    hsp_msec floor = chance > c->cfg.dead_ms ? chance - c->cfg.dead_ms : 0;
    for (uint32_t i = 0; i < c->n_nodes; i++) { /* their order stays */
        hsp_msec t = c->nodes[i].last_ms + by;
        t = t > floor ? t : floor;
        c->nodes[i].last_ms = t < c->now_ms ? t : c->now_ms;
    }
}

/* A tick is due when a node has been silent for a while, when nodes of the store have not come
 * back, or when any other wait is over, as that for the state of nodes that are all dead. One that
 * comes much later says that this process did not run. */
void hsp_ci_forgive_stall(struct hsp_cluster *c)
{
    hsp_msec due = hsp_ci_silence_due(c), now = c->now_ms;
    due = c->n_away > 0 && c->grace_ms < due ? c->grace_ms : due;
    due = c->due_ms < due ? c->due_ms : due;
    if (c->behind || due == HSP_NEVER || now <= due + c->cfg.suspect_ms) {
        return;
    }
    const struct stall s = {c->looked_ms, now - c->looked_ms,
                            now + c->cfg.heartbeat_ms + c->cfg.suspect_ms};
    silence_later(c, now - due, s.chance);
    nodes_later(c, &s);
    jobs_later(c, &s);
    others_later(c, &s);
    hsp_ci_fact(c, "coordinator.stalled", HSP_SEV_WARN, NULL, NULL,
                "did not run for %llu ms; silence of nodes in that time does not count",
                (unsigned long long)(now - due));
}
