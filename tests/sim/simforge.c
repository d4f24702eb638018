/* Plays a stranger that has the key: it joins under a name of its own, without a device, says
 * messages that it has no right to say, and goes. Nothing may change but the record of the stranger
 * itself. */
#include <string.h>

#include "daemon/cluster/cluster_check.h"
#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/lookup.h"
#include "proto/base/size.h"
#include "tests/sim/sim.h"

#define NAME "x"

/* All that is known, but for the stranger and the time. */
static void known(const struct sim *s, struct hsp_buf *ret)
{
    struct hsp_buf all;
    hsp_buf_init(&all, 1u << 20);
    hsp_buf_init(ret, 1u << 20);
    hsp_cluster_dump(s->d, &all);
    for (const char *at = hsp_buf_cstr(&all), *end; *at != '\0'; at = end) {
        end = at + strcspn(at, "\n");
        end += *end == '\n';
        char word[64] = "";
        uint32_t n;
        bool own =
            (sscanf(at, " node %u %63s", &n, word) == 2 || sscanf(at, " parked %63s", word) == 1) &&
            strcmp(word, NAME) == 0;
        if (!own && strncmp(at, "term", 4) != 0) {
            hsp_buf_append(ret, at, (size_t)(end - at));
        }
    }
    for (uint32_t i = 0; i < s->d->n_jobs; i++) {
        const struct hsp_job *j = s->d->jobs[i];
        hsp_buf_printf(ret, "%llu %u %llu %u %u %u %u\n", (unsigned long long)j->ckpt_step,
                       j->has_ckpt, (unsigned long long)j->ckpt.epoch, j->n_leases, j->n_facts,
                       j->n_marks, j->n_refused);
    }
    hsp_buf_fini(&all);
}

static bool harmless(const struct hsp_action *a, uint32_t conn)
{
    switch (a->type) {
    case HSP_ACT_SEND:
    case HSP_ACT_CLOSE: return a->conn == conn;
    case HSP_ACT_FACT: /* of itself, or that it has the name of another */
        return a->u.fact->job == 0 && (strcmp(a->u.fact->node, NAME) == 0 ||
                                       strcmp(a->u.fact->type, "node.namesake") == 0);
    case HSP_ACT_PREPARE:
    case HSP_ACT_PAPERS:
    case HSP_ACT_CHECK:
    case HSP_ACT_STORE:
    case HSP_ACT_ERASE:
    case HSP_ACT_START_PLAN:
    case HSP_ACT_FIND_CKPTS:
    case HSP_ACT_CANCEL_PLAN:
    case HSP_ACT_KEEP_PLAN:
    case HSP_ACT_COPY_PLAN:
    case HSP_ACT_DROP_PLAN:
    case HSP_ACT_REPLY:
    case HSP_ACT_METRIC: break;
    }
    return false;
}

static bool step(struct sim *s, struct hsp_event ev, struct hsp_actions *acts)
{
    struct hsp_err err = {0};
    ev.now_ms = s->now;
    ev.random = sim_digest(s);
    if (hsp_cluster_step(s->d, &ev, acts, &err) != HSP_OK) {
        sim_fail(s, "coordinator: %s", err.msg);
        return false;
    }
    hsp_cluster_check(s->d);
    return true;
}

static uint64_t number(struct sim *s, uint64_t most)
{
    static const uint64_t odd[] = {0, 1, 1000000000000, UINT64_MAX};
    return sim_below(s, 4) == 0 ? odd[sim_below(s, 4)] : sim_below(s, most + 2);
}

static struct hsp_m_holding holding[4];
static struct hsp_m_run run[2];
static double compute[2] = {1, 1};
static struct hsp_m_deaf deaf[2] = {{0, false}, {1, true}};
static struct hsp_m_thread thread = {HSP_DOING_RECEIVE, 1, 100000};
static struct hsp_m_link link = {.peer = 0, .unsent = 100000};

static void forge_hello(struct sim *s, const struct hsp_job *j, uint64_t epoch, struct hsp_msg *m)
{
    const struct hsp_cluster_node *x = &s->d->nodes[s->d->n_nodes - 1];
    for (uint32_t i = 0; i < HSP_ARRAY_LEN(run); i++) {
        run[i] = (struct hsp_m_run){.job = j->id,
                                    .device = i,
                                    .running = sim_below(s, 2) * epoch,
                                    .prepared = sim_below(s, 2) * epoch,
                                    .broken = sim_below(s, 2),
                                    .finished = sim_below(s, 2)};
        run[i].armed = sim_below(s, 2) * run[i].prepared;
    }
    m->u.hello = (struct hsp_m_hello){.protocol = HSP_PROTO_VERSION,
                                      .node = NAME,
                                      .address = NAME,
                                      .term = s->d->term,
                                      .n_holdings = HSP_ARRAY_LEN(holding),
                                      .holdings = holding,
                                      .n_runs = HSP_ARRAY_LEN(run),
                                      .runs = run};
    for (uint32_t i = 0; i < s->d->n_nodes; i++) {
        x = strcmp(s->d->nodes[i].name, NAME) == 0 ? &s->d->nodes[i] : x;
    }
    m->u.hello.incarnation = x->secret;
}

struct lie { /* the subject of the lie */
    const struct hsp_job *job;
    uint32_t device, rank;
    uint64_t step;
};

/* Forges a message of executors about epochs. False: @m is none of these. */
static bool forge_report(struct sim *s, const struct lie *l, struct hsp_msg *m)
{
    uint32_t job = l->job->id, d = l->device, rank = l->rank;
    switch ((enum hsp_msg_type)m->type) {
    case HSP_MSG_READY: m->u.ready = (struct hsp_m_ready){.job = job, .device = d}; break;
    case HSP_MSG_PREPARE_FAILED:
        m->u.failed = (struct hsp_m_failed){
            .job = job, .device = d, .peer = rank, .silent = true, .reason = NAME};
        m->u.failed.fact = (uint32_t)sim_below(s, 8);
        m->u.failed.by = (uint32_t)sim_below(s, 4);
        break;
    case HSP_MSG_STARTED:
        m->u.started = (struct hsp_m_started){.job = job, .device = d, .step = l->step};
        break;
    case HSP_MSG_STEP:
        m->u.step = (struct hsp_m_step){.job = job,
                                        .step = l->step,
                                        .final = l->step == l->job->steps,
                                        .n_compute = 2,
                                        .compute_s = compute};
        break;
    case HSP_MSG_PEER_LOST:
        m->u.lost = (struct hsp_m_lost){.job = job,
                                        .device = d,
                                        .peer = rank,
                                        .by = (uint32_t)sim_below(s, 4),
                                        .silent = true,
                                        .before_start = rank == 0,
                                        .reason = NAME};
        break;
    case HSP_MSG_CHECKPOINTED:
        m->u.ckpt = (struct hsp_m_ckpt){.job = job,
                                        .step = l->step,
                                        .term = 1,
                                        .complete = sim_below(s, 3) != 0,
                                        .reason = NAME};
        break;
    case HSP_MSG_CKPT_REFUSED:
        m->u.refused = (struct hsp_m_refused){job, d, l->step, rank == 0, NAME};
        break;
    case HSP_MSG_FINISHED:
        m->u.finished = (struct hsp_m_finished){job, l->job->steps, "", ""};
        break;
    case HSP_MSG_JOB_FAILED: m->u.jobfail = (struct hsp_m_jobfail){job, d, NAME}; break;
    default: return false;
    }
    return true;
}

/* Messages of the agents themselves, and their findings where an executor does not answer. */
static void forge_other(struct sim *s, const struct lie *l, struct hsp_msg *m)
{
    uint32_t job = l->job->id, d = l->device;
    bool first = l->rank == 0;
    switch ((enum hsp_msg_type)m->type) {
    case HSP_MSG_SEALED: m->u.sealed = (struct hsp_m_sealed){job, 4, holding}; break;
    case HSP_MSG_HELLO: forge_hello(s, l->job, m->epoch, m); break;
    case HSP_MSG_EXECUTOR_DEAD: m->u.dead = (struct hsp_m_dead){d, 0, NAME}; break;
    case HSP_MSG_EXECUTOR_UP: m->u.up = (struct hsp_m_up){d, NAME}; break;
    case HSP_MSG_STATE_DAMAGED:
        m->u.damaged =
            (struct hsp_m_damaged){job,     d,     holding[0].plan,      l->rank, holding[0].owner,
                                   l->step, first, first ? m->epoch : 0, NAME};
        break;
    case HSP_MSG_STANDS:
        m->u.stands = (struct hsp_m_stands){.job = job,
                                            .device = d,
                                            .round = l->job->progress.round,
                                            .step = l->step,
                                            .stable = l->step,
                                            .n_threads = 1,
                                            .threads = &thread,
                                            .n_links = 1,
                                            .links = &link};
        break;
    case HSP_MSG_REACHED:
        m->u.reached = (struct hsp_m_reached){s->d->next_round, HSP_ARRAY_LEN(deaf), deaf};
        break;
    case HSP_MSG_DEVICE_HEALTH:
        m->u.health = (struct hsp_m_health){d, HSP_HEALTH_LOST, NAME};
        break;
    default: m->u.devref = (struct hsp_m_devref){job, d}; break;
    }
}

/* Of a job and an epoch that there are, mostly. */
static struct hsp_msg forge(struct sim *s)
{
    static const uint16_t types[] = {
        HSP_MSG_READY,         HSP_MSG_PREPARE_FAILED, HSP_MSG_STARTED,       HSP_MSG_SEALED,
        HSP_MSG_STEP,          HSP_MSG_PEER_LOST,      HSP_MSG_STOPPED,       HSP_MSG_RELEASED,
        HSP_MSG_CHECKPOINTED,  HSP_MSG_FINISHED,       HSP_MSG_JOB_FAILED,    HSP_MSG_HELLO,
        HSP_MSG_EXECUTOR_DEAD, HSP_MSG_EXECUTOR_UP,    HSP_MSG_DEVICE_HEALTH, HSP_MSG_CKPT_REFUSED,
        HSP_MSG_STATE_DAMAGED, HSP_MSG_REACHED,        HSP_MSG_STANDS};
    const struct hsp_job *j = s->d->jobs[sim_below(s, s->d->n_jobs)];
    struct hsp_msg m = {.type = types[sim_below(s, HSP_ARRAY_LEN(types))]};
    m.epoch = number(s, j->next_epoch);
    struct lie l = {.job = j, .device = (uint32_t)sim_below(s, 3)};
    l.rank = (uint32_t)sim_below(s, 4);
    l.step = sim_below(s, 2) == 0 ? j->steps : number(s, j->steps);
    for (uint32_t i = 0; i < HSP_ARRAY_LEN(holding); i++) {
        struct hsp_m_holding *h = &holding[i];
        *h = (struct hsp_m_holding){.job = j->id, .rank = l.rank};
        h->device = (uint32_t)sim_below(s, 3);
        h->plan = number(s, j->next_plan);
        h->owner = (uint32_t)sim_below(s, 4);
        h->version = number(s, j->steps);
    }
    if (!forge_report(s, &l, &m)) {
        forge_other(s, &l, &m);
    }
    return m;
}

static void tell(struct sim *s, uint32_t conn, const struct hsp_msg *m)
{
    struct hsp_actions acts;
    struct hsp_buf before, after;
    known(s, &before);
    if (!step(s, (struct hsp_event){.type = HSP_EV_MSG, .conn = conn, .u.msg = m}, &acts)) {
        hsp_buf_fini(&before);
        return;
    }
    s->forged++;
    for (uint32_t i = 0; i < acts.n; i++) {
        if (!harmless(&acts.item[i], conn)) {
            sim_fail(s, "%s of epoch %llu by a stranger: action %d", hsp_msg_name(m->type),
                     (unsigned long long)m->epoch, acts.item[i].type);
        }
    }
    known(s, &after);
    if (strcmp(hsp_buf_cstr(&before), hsp_buf_cstr(&after)) != 0) {
        sim_fail(s, "%s of epoch %llu by a stranger: it was\n%sand is\n%s", hsp_msg_name(m->type),
                 (unsigned long long)m->epoch, hsp_buf_cstr(&before), hsp_buf_cstr(&after));
    }
    hsp_buf_fini(&before);
    hsp_buf_fini(&after);
}

/* As a node that is not dead: by its name alone, or with an incarnation that is guessed. */
static void pose(struct sim *s)
{
    const struct hsp_cluster_node *n = &s->d->nodes[sim_below(s, s->d->n_nodes)];
    struct hsp_msg m = {.type = HSP_MSG_HELLO,
                        .u.hello = {.protocol = HSP_PROTO_VERSION,
                                    .node = n->name,
                                    .address = NAME,
                                    .incarnation = {0, sim_below(s, 2) * n->incarnation}}};
    uint32_t conn = ++s->n_conns;
    s->conn_open[conn] = false; /* nobody reads messages sent there */
    if (!hsp_ci_node_gone(n) && strcmp(n->name, NAME) != 0) {
        tell(s, conn, &m);
    }
    struct hsp_event ev = {.now_ms = s->now, .type = HSP_EV_CONN_CLOSED, .conn = conn};
    sim_d_step(s, &ev);
}

/* ---- under the name of a dead node ---- */

/* Writes the facts that nobody may change by a name alone. */
static void of_jobs(const struct sim *s, struct hsp_buf *ret)
{
    hsp_buf_init(ret, 1u << 20);
    for (uint32_t i = 0; i < s->d->n_jobs; i++) {
        const struct hsp_job *j = s->d->jobs[i];
        hsp_buf_printf(ret,
                       "job %u %s, stable %llu, epochs %llu and %llu of %llu, %u failures, %u "
                       "leases, %u layouts\n",
                       j->id, hsp_job_state_name(j->state), (unsigned long long)j->stable,
                       (unsigned long long)j->cur.epoch, (unsigned long long)j->att.epoch,
                       (unsigned long long)j->next_epoch, j->failures, j->n_leases, j->n_plans);
    }
}

/* Runs of @node as if they were the last ones of each job, and were finished. */
static uint32_t forge_runs(const struct sim *s, struct hsp_m_run ret[SIM_JOBS])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->d->n_jobs && n < SIM_JOBS; i++) {
        const struct hsp_job *j = s->d->jobs[i];
        const struct hsp_cl_epoch *e = j->att.epoch != 0 ? &j->att : &j->cur;
        hsp_device_id first = e->n_ranks > 0 ? e->peers[0].device : HSP_NO_DEVICE;
        ret[n] = (struct hsp_m_run){.job = j->id,
                                    .device = first != HSP_NO_DEVICE ? HSP_DEVICE_INDEX(first) : n,
                                    .running = e->epoch != 0 ? e->epoch : j->next_epoch - 1,
                                    .finished = true};
        n++;
    }
    return n;
}

/* A node whose agent is not there, with a dead incarnation; of rank 0 if there is such a one. */
static const struct hsp_cluster_node *dead_node(struct sim *s, uint32_t *ret_node)
{
    const struct hsp_cluster_node *found = NULL;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        char name[8];
        uint32_t at;
        (void)snprintf(name, sizeof(name), "n%u", i);
        const struct hsp_cluster_node *n =
            hsp_map_get(&s->d->by_name, name, &at) ? &s->d->nodes[at] : NULL;
        bool dead = n != NULL && !s->agent[i].alive && hsp_ci_node_gone(n), first = false;
        for (uint32_t k = 0; dead && k < s->d->n_jobs; k++) {
            const struct hsp_cl_epoch *e = &s->d->jobs[k]->cur;
            first = first || (e->n_ranks > 0 && HSP_DEVICE_NODE(e->peers[0].device) == at);
        }
        if (dead && (found == NULL || first)) {
            found = n;
            *ret_node = i;
        }
    }
    return found;
}

/* Its incarnation is guessed; then its name, which is free, is taken, and its run is claimed. */
static void inherit(struct sim *s)
{
    uint32_t node = 0;
    const struct hsp_cluster_node *n = dead_node(s, &node);
    struct hsp_m_run runs[SIM_JOBS];
    if (n == NULL) {
        return;
    }
    struct hsp_msg m = {.type = HSP_MSG_HELLO,
                        .u.hello = {.protocol = HSP_PROTO_VERSION,
                                    .node = n->name,
                                    .address = NAME,
                                    .cluster = s->d->id,
                                    .term = s->d->term,
                                    .incarnation = {7, n->incarnation},
                                    .n_runs = forge_runs(s, runs),
                                    .runs = runs}};
    uint32_t conn = ++s->n_conns;
    s->conn_open[conn] = false;
    tell(s, conn, &m);
    m.u.hello.incarnation = (struct hsp_digest){0, 0};
    for (uint32_t i = 0; i < 4 && !s->failed; i++) {
        struct hsp_buf before, after;
        of_jobs(s, &before);
        struct hsp_event ev = {
            .now_ms = s->now, .type = HSP_EV_MSG, .conn = conn, .random = sim_digest(s)};
        ev.u.msg = &m;
        sim_d_step(s, &ev);
        of_jobs(s, &after);
        if (strcmp(hsp_buf_cstr(&before), hsp_buf_cstr(&after)) != 0) {
            sim_fail(s, "hello as %s, which is dead: it was\n%sand is\n%s", n->name,
                     hsp_buf_cstr(&before), hsp_buf_cstr(&after));
        }
        hsp_buf_fini(&before);
        hsp_buf_fini(&after);
        m.u.hello.incarnation = m.u.hello.was = n->secret; /* the one that it was told */
    }
    struct hsp_event ev = {.now_ms = s->now, .type = HSP_EV_CONN_CLOSED, .conn = conn};
    sim_d_step(s, &ev);
    s->agent[node].stranger = true; /* the true one proves nothing any more */
    sim_node_lost(s, node);
    s->inherited++;
}

void sim_forge(struct sim *s)
{
    struct hsp_msg hello = {
        .type = HSP_MSG_HELLO,
        .u.hello = {.protocol = HSP_PROTO_VERSION, .node = NAME, .address = NAME}};
    if (!s->d_alive || s->d_paused || s->d->n_jobs == 0 || s->n_conns + 3 >= SIM_CONNS) {
        return;
    }
    uint32_t conn = ++s->n_conns, at;
    s->conn_open[conn] = false;
    if (hsp_map_get(&s->d->by_name, NAME, &at)) { /* the node that it was when hspmdd ran last */
        hello.u.hello.was = s->d->nodes[at].secret;
    }
    struct hsp_event ev = {
        .now_ms = s->now, .type = HSP_EV_MSG, .conn = conn, .random = sim_digest(s)};
    ev.u.msg = &hello;
    sim_d_step(s, &ev);
    /* actions that were due anyway */
    ev = (struct hsp_event){.now_ms = s->now, .type = HSP_EV_TICK};
    sim_d_step(s, &ev);
    pose(s);
    inherit(s);
    for (uint64_t n = 1 + sim_below(s, 30); n > 0 && !s->failed; n--) {
        struct hsp_msg m = forge(s);
        tell(s, conn, &m);
    }
    ev = (struct hsp_event){.now_ms = s->now, .type = HSP_EV_CONN_CLOSED, .conn = conn};
    sim_d_step(s, &ev);
}
