/* Plays a planner that draws layouts at random, and the work of hspmdd's shell at PREPARE. */
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/lookup.h"
#include "proto/base/hash.h"
#include "tests/sim/sim.h"

struct sim_plan *sim_plan_get(struct sim *s, uint32_t job, uint64_t plan)
{
    for (uint32_t i = 0; i < SIM_PLANS; i++) {
        if (s->plans[i].used && s->plans[i].plan != 0 && s->plans[i].job == job &&
            s->plans[i].plan == plan) {
            return &s->plans[i];
        }
    }
    return NULL;
}

static struct sim_plan *by_ticket(struct sim *s, uint64_t ticket)
{
    for (uint32_t i = 0; i < SIM_PLANS; i++) {
        if (s->plans[i].used && s->plans[i].ticket == ticket) {
            return &s->plans[i];
        }
    }
    return NULL;
}

static void add_copy(struct sim_plan *p, uint32_t from, uint32_t to, uint32_t cell)
{
    uint32_t i = 0;
    while (i < p->n_copies && (p->copy[i].from != from || p->copy[i].to != to)) {
        i++;
    }
    if (i == p->n_copies) {
        p->copy[p->n_copies++] = (struct sim_copy){(uint8_t)from, (uint8_t)to, 0};
    }
    p->copy[i].cells |= (uint8_t)(1u << cell);
}

static uint32_t nodes_of(const struct sim_plan *p, uint32_t cell)
{
    uint32_t nodes = 0;
    for (uint32_t r = 0; r < p->n_ranks; r++) {
        nodes |= (p->home[r] >> cell & 1u) << HSP_DEVICE_NODE(p->device[r]);
    }
    return nodes;
}

/* Adds second copies as daemon/migrate/state_placement.h makes them: of cells that too few nodes
 * hold, from the first rank that has the cell to ranks of the next nodes, then to replica
 * holders. */
static void add_copies(struct sim_plan *p, uint32_t copies)
{
    uint32_t nodes = 0;
    for (uint32_t r = 0; r < p->n_ranks; r++) {
        nodes |= 1u << HSP_DEVICE_NODE(p->device[r]);
    }
    p->n_nodes = (uint32_t)__builtin_popcount(nodes);
    p->n_spare = copies > p->n_nodes && copies > 1 ? copies - p->n_nodes : 0;
    for (uint32_t c = 0; copies > 1 && c < SIM_CELLS; c++) {
        uint32_t have = nodes_of(p, c), owner = 0;
        while (owner < p->n_ranks && (p->home[owner] >> c & 1) == 0) {
            owner++;
        }
        if (owner == p->n_ranks) {
            continue;
        }
        for (uint32_t k = 1; k < SIM_NODES; k++) {
            uint32_t at = (HSP_DEVICE_NODE(p->device[owner]) + k) % SIM_NODES, q = 0;
            while (q < p->n_ranks && HSP_DEVICE_NODE(p->device[q]) != at) {
                q++;
            }
            if (q < p->n_ranks && (have >> at & 1) == 0 &&
                (uint32_t)__builtin_popcount(have) < copies) {
                have |= 1u << at;
                add_copy(p, owner, q, c);
            }
        }
        for (uint32_t k = 0; k < p->n_spare; k++) {
            add_copy(p, owner, p->n_ranks + k, c);
        }
    }
}

uint32_t sim_plan_spread(const struct sim_prep *p)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t c = 0; c < SIM_CELLS; c++) {
        uint32_t nodes = 0; /* numbers of the simulation, not of the coordinator */
        for (uint32_t r = 0; r < p->plan.n_ranks; r++) {
            nodes |= (p->plan.home[r] >> c & 1u) << (p->exec[r] / SIM_DEVS);
        }
        if (nodes == 0) {
            continue;
        }
        for (uint32_t i = 0; i < p->plan.n_copies; i++) {
            const struct sim_copy *k = &p->plan.copy[i];
            if ((k->cells >> c & 1) != 0 && k->to < p->plan.n_ranks + p->n_replica_holders) {
                nodes |= 1u << (p->exec[k->to] / SIM_DEVS);
            }
        }
        uint32_t n = (uint32_t)__builtin_popcount(nodes);
        least = n < least ? n : least;
    }
    return least;
}

static uint8_t cells_of(const struct sim_plan *p, uint32_t holder, uint32_t owner)
{
    if (holder == owner) {
        return p->home[owner];
    }
    for (uint32_t i = 0; i < p->n_copies; i++) {
        if (p->copy[i].from == owner && p->copy[i].to == holder) {
            return p->copy[i].cells;
        }
    }
    return 0;
}

void sim_plan_make(struct sim *s, const struct hsp_plan_request *r)
{
    struct sim_plan p = {.used = true, .job = r->job, .ticket = r->ticket};
    uint32_t want = r->n_devices;
    const struct hsp_job *j = hsp_cluster_job(s->d, r->job);
    if (!s->plan_all && sim_below(s, 4) == 0) {
        want = 1 + (uint32_t)sim_below(s, r->n_devices);
        want = want < j->min ? j->min : want;
        want = want < r->n_devices ? want : r->n_devices; /* fewer: for the final model alone */
    }
    uint32_t skip = r->n_devices - want;
    for (uint32_t i = 0; i < r->n_devices && p.n_ranks < want; i++) {
        if (skip > 0 && sim_below(s, 2) == 0) {
            skip--;
            continue;
        }
        p.device[p.n_ranks++] = r->devices[i];
    }
    uint64_t kind = s->plan_all ? 0 : sim_below(s, 3);
    for (uint32_t c = 0; c < SIM_CELLS; c++) {
        uint32_t a = (uint32_t)sim_below(s, p.n_ranks), b = (uint32_t)sim_below(s, p.n_ranks);
        for (uint32_t k = 0; k < p.n_ranks; k++) {
            bool has = kind == 0 || k == a || (kind == 2 && k == b) || k == c % p.n_ranks;
            p.home[k] |= (uint8_t)((has ? 1u : 0u) << c);
        }
    }
    for (uint32_t k = 0; k < p.n_ranks; k++) {
        p.home[k] |= (uint8_t)(p.home[k] == 0); /* nobody is without state */
    }
    add_copies(&p, j->copies);
    for (uint32_t i = 0; i < SIM_PLANS; i++) {
        if (!s->plans[i].used) {
            s->plans[i] = p;
            return;
        }
    }
    sim_fail(s, "plans are never dropped");
}

void sim_plan_answer(struct sim *s, uint64_t ticket, uint32_t job)
{
    struct sim_plan *p = by_ticket(s, ticket);
    if (p == NULL) {
        return; /* cancelled */
    }
    uint64_t mem[SIM_EXECS] = {0};
    double compute[SIM_EXECS];
    uint32_t first[SIM_CELLS + 1], n = 0;
    struct hsp_piece_holder pieces[SIM_CELLS * SIM_EXECS * 2];
    for (uint32_t i = 0; i < SIM_EXECS; i++) {
        compute[i] = 1;
    }
    for (uint32_t c = 0; c < SIM_CELLS; c++) {
        first[c] = n;
        for (uint32_t r = 0; r < p->n_ranks; r++) {
            if ((p->home[r] >> c & 1) != 0) {
                pieces[n++] = (struct hsp_piece_holder){r, r};
            }
        }
        for (uint32_t i = 0; i < p->n_copies; i++) {
            if ((p->copy[i].cells >> c & 1) != 0) {
                pieces[n++] = (struct hsp_piece_holder){p->copy[i].to, p->copy[i].from};
            }
        }
    }
    first[SIM_CELLS] = n;
    struct hsp_plan_info info = {.n_ranks = p->n_ranks,
                                 .device = p->device,
                                 .mem_bytes = mem,
                                 .compute_s = compute,
                                 .step_s = 0.02,
                                 .n_shards = SIM_CELLS,
                                 .shard_first = first,
                                 .pieces = pieces,
                                 .n_spare = p->n_spare,
                                 .keep_bytes = 1000,
                                 .why = "simulated"};
    struct hsp_event ev = {.now_ms = s->now,
                           .type = HSP_EV_PLAN_DONE,
                           .u.plan = {.job = job, .ticket = ticket, .info = &info}};
    const struct hsp_job *j = hsp_cluster_job(s->d, job);
    bool odd = s->chaos && sim_below(s, 12) == 0;
    if (odd && j != NULL && j->state == HSP_JOB_RUNNING && sim_below(s, 2) == 0) {
        ev.u.plan.keep = true;
        ev.u.plan.reason = "as good";
    } else if (odd) {
        ev.u.plan.status = HSP_EINFEASIBLE;
        ev.u.plan.reason = "needs 3.1 GiB, largest device offers 1.0 GiB";
    }
    sim_d_step(s, &ev);
}

static bool are_apart(const struct sim_prep *p, uint32_t a, uint32_t b)
{
    return (p->apart[a] >> b & 1) != 0;
}

/* Where rank @r gets cell @c; from itself if it can, over a third one only where it must. */
static bool add_row(struct sim *s, struct sim_prep *p, const struct hsp_m_prepare *m,
                    const struct hsp_prepare_action *a, uint32_t r, uint32_t c)
{
    int best = -1;
    for (uint32_t k = 0; k < a->n_sources; k++) {
        const struct hsp_prepare_source *q = &a->sources[k];
        const struct hsp_prepare_source *b = best >= 0 ? &a->sources[best] : NULL;
        bool nearer =
            b == NULL || q->peer == r || (are_apart(p, b->peer, r) && !are_apart(p, q->peer, r));
        bool farther =
            b != NULL && (b->peer == r || (!are_apart(p, b->peer, r) && are_apart(p, q->peer, r)));
        bool drawn = (hsp_mix64(m->plan * 4096 + r * 256 + c * 16 + k) & 1) != 0;
        if ((cells_of(&p->from, q->holder, q->owner) >> c & 1) != 0 &&
            (nearer || (!farther && drawn))) {
            best = (int)k;
        }
    }
    if (best < 0) {
        sim_fail(s, "job %u: nobody has cell %u of plan %llu", m->job, c,
                 (unsigned long long)m->from_plan);
        return false;
    }
    const struct hsp_prepare_source *q = &a->sources[best];
    struct sim_row row = {(uint8_t)q->peer, (uint8_t)r, (uint8_t)c, (uint8_t)q->owner, SIM_DIRECT};
    for (uint32_t v = 0; are_apart(p, q->peer, r) && v < a->n_peers; v++) {
        if (!are_apart(p, q->peer, v) && !are_apart(p, v, r) && v != q->peer && v != r) {
            row.via = (uint8_t)v;
        }
    }
    if (are_apart(p, q->peer, r) && row.via == SIM_DIRECT) {
        sim_fail(s, "job %u: cell %u of plan %llu reaches rank %u in no way", m->job, c,
                 (unsigned long long)m->from_plan, r);
        return false;
    }
    s->relayed += row.via != SIM_DIRECT;
    p->row[p->n_rows++] = row;
    return true;
}

struct sim_prep *sim_prep_make(struct sim *s, const struct hsp_msg *prepare,
                               const struct hsp_prepare_action *a)
{
    const struct hsp_m_prepare *m = &prepare->u.prepare;
    struct sim_prep *p = hsp_arena_alloc(s->arena, sizeof(*p));
    const struct sim_plan *to = sim_plan_get(s, m->job, m->plan);
    const struct sim_plan *from = m->from_plan != 0 ? sim_plan_get(s, m->job, m->from_plan) : NULL;
    bool holds = m->mode == HSP_MODE_SWITCH || m->mode == HSP_MODE_RECOVER;
    if (to == NULL || (holds && from == NULL)) {
        sim_fail(s, "PREPARE of a plan that is not kept");
        return p;
    }
    p->plan = *to;
    p->n_replica_holders = a->n_replica_holders;
    p->n_peers = a->n_peers;
    for (uint32_t i = 0; i < a->n_peers; i++) {
        unsigned x = 0, gen = 0;
        if (sscanf(a->peers[i].address, "h%*u:%u#%u", &x, &gen) != 2) {
            sim_fail(s, "peer without an address");
            return p;
        }
        p->exec[i] = x;
        p->gen[i] = gen;
        p->wipes[i] = s->exec[x].wipes;
        p->voted[i] =
            from != NULL && hsp_ci_contains(from->device, from->n_ranks, a->peers[i].device);
    }
    for (uint32_t i = 0; i < a->n_apart; i++) {
        p->apart[a->apart[i].a] |= 1u << a->apart[i].b;
        p->apart[a->apart[i].b] |= 1u << a->apart[i].a;
    }
    p->lineage = m->mode == HSP_MODE_RESTORE ? sim_ckpt_restored(s, prepare) : 12345;
    if (!holds) {
        return p;
    }
    p->from = *from;
    for (uint32_t r = 0; r < to->n_ranks; r++) {
        for (uint32_t c = 0; c < SIM_CELLS; c++) {
            if ((to->home[r] >> c & 1) != 0 && !add_row(s, p, m, a, r, c)) {
                return p;
            }
        }
    }
    return p;
}

/* The memory of a node is gone: did anybody lose more than was promised? */
void sim_node_lost(struct sim *s, uint32_t node)
{
    for (uint32_t j = 1; j <= SIM_JOBS; j++) {
        struct sim_job_truth *t = &s->job[j];
        t->lost |= 1u << node;
        if ((uint32_t)__builtin_popcount(t->lost) > t->tolerance) {
            t->excess = true;
        }
    }
    for (uint32_t d = 0; d < SIM_DEVS; d++) {
        s->exec[node * SIM_DEVS + d].n_seg = 0;
        s->exec[node * SIM_DEVS + d].wipes++;
    }
}
