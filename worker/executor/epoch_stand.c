#include "worker/executor/epoch_stand.h"

#include <string.h>

#include "worker/comm/mesh/mesh_stand.h"
#include "worker/executor/epoch_report.h"

struct view { /* fields of the epoch, copied under its lock */
    enum hsp_epoch_phase phase;
    struct hsp_epoch_threads at;
    struct hsp_comm *mesh[HSP_EPOCH_MESHES];
    struct hsp_engine *engine;
    bool finishing;
    uint64_t step, stable;
};

static struct view view_of(struct hsp_ex_epoch *e)
{
    struct view v = {0};
    (void)pthread_mutex_lock(&e->lock);
    v.phase = e->phase;
    v.at = e->at;
    memcpy(v.mesh, e->mesh, sizeof v.mesh);
    v.engine = e->engine;
    v.finishing = e->no_more_versions;
    v.stable = e->passed;
    v.step = e->go ? e->go_version : e->p->step;
    (void)pthread_mutex_unlock(&e->lock);
    return v;
}

static uint64_t age_ms(int64_t since_ns)
{
    int64_t now = hsp_clock_ns();
    return since_ns > 0 && now > since_ns ? (uint64_t)(now - since_ns) / 1000000 : 0;
}

/* Returns the present work of a thread: its wait for a peer in one of the meshes from @first to
 * @last, or @doing if there is no such wait. */
static struct hsp_m_thread thread_of(const struct view *v, enum hsp_epoch_mesh first,
                                     enum hsp_epoch_mesh last, enum hsp_doing doing,
                                     int64_t since_ns)
{
    struct hsp_m_thread t = {doing, HSP_MSG_RANKS, age_ms(since_ns)};
    for (int k = (int)first; k <= (int)last; k++) {
        struct hsp_mesh_wait w = {.waits = false};
        if (v->mesh[k] != NULL) {
            w = hsp_mesh_waits(v->mesh[k]);
        }
        if (w.waits) {
            t = (struct hsp_m_thread){w.sends ? HSP_DOING_SEND : HSP_DOING_RECEIVE, w.peer,
                                      age_ms((int64_t)w.since_ns)};
        }
    }
    return t;
}

static struct hsp_m_thread replication_of(const struct view *v)
{
    switch (v->at.work) {
    case HSP_REPLICATION_FETCH:
        return thread_of(v, HSP_MESH_MOVE, HSP_MESH_MOVE, HSP_DOING_MOVE, v->at.work_ns);
    case HSP_REPLICATION_SEAL:
        return (struct hsp_m_thread){HSP_DOING_COMPUTE, HSP_MSG_RANKS, age_ms(v->at.work_ns)};
    case HSP_KEEPER_COPY:
    case HSP_REPLICATION_TELL:
        return thread_of(v, HSP_MESH_STATE, HSP_MESH_STATE, HSP_DOING_COPY, v->at.work_ns);
    case HSP_REPLICATION_CHECKPOINT:
        return thread_of(v, HSP_MESH_STATE, HSP_MESH_STATE, HSP_DOING_CHECKPOINT, v->at.work_ns);
    case HSP_KEEPER_NONE:
    case HSP_KEEPER_IDLE:
    case HSP_KEEPER_END: break;
    }
    return (struct hsp_m_thread){HSP_DOING_NOTHING, HSP_MSG_RANKS, age_ms(v->at.work_ns)};
}

static struct hsp_m_thread running(const struct hsp_ex_epoch *e, const struct view *v,
                                   const struct hsp_engine_place *at)
{
    if (e->keeps) { /* the run thread of a replica holder receives the copies */
        return thread_of(v, HSP_MESH_STATE, HSP_MESH_STATE, HSP_DOING_COPY, 0);
    }
    if (v->at.awaits_copies) {
        return (struct hsp_m_thread){HSP_DOING_COPY, HSP_MSG_RANKS, age_ms(v->at.awaits_ns)};
    }
    if (v->finishing) {
        return thread_of(v, HSP_MESH_DATA, HSP_MESH_STATE, HSP_DOING_FINISH, 0);
    }
    return thread_of(v, HSP_MESH_DATA, HSP_MESH_DATA, HSP_DOING_COMPUTE, at->since_ns);
}

static struct hsp_m_thread trainer_of(const struct hsp_ex_epoch *e, const struct view *v,
                                      const struct hsp_engine_place *at)
{
    const struct hsp_m_thread idle = {HSP_DOING_NOTHING, HSP_MSG_RANKS, 0};
    switch (v->phase) {
    case HSP_EPOCH_BUILDING:
    case HSP_EPOCH_READY: return (struct hsp_m_thread){HSP_DOING_PREPARE, HSP_MSG_RANKS, 0};
    case HSP_EPOCH_MOVING: return thread_of(v, HSP_MESH_DATA, HSP_MESH_MOVE, HSP_DOING_MOVE, 0);
    case HSP_EPOCH_RUNNING: return running(e, v, at);
    case HSP_EPOCH_SERVING:
    case HSP_EPOCH_LEFT:
    case HSP_EPOCH_FAILED: break;
    }
    return idle;
}

static void add_link(struct hsp_m_stands *s, const struct hsp_mesh_link_state *l)
{
    struct hsp_m_link *to = NULL;
    for (uint32_t i = 0; i < s->n_links && to == NULL; i++) {
        to = s->links[i].peer == l->peer ? &s->links[i] : NULL;
    }
    if (to == NULL && s->n_links < HSP_STANDS_LINKS) {
        to = &s->links[s->n_links++];
        *to = (struct hsp_m_link){.peer = l->peer};
    }
    if (to != NULL) {
        to->unsent += l->unsent;
        to->held = to->held || l->held;
        to->bytes_per_s = l->bytes_per_s > to->bytes_per_s ? l->bytes_per_s : to->bytes_per_s;
    }
}

static void add_meshes(const struct view *v, struct hsp_m_stands *s)
{
    struct hsp_mesh_link_state state[HSP_STANDS_LINKS];
    for (int k = 0; k < HSP_EPOCH_MESHES; k++) {
        uint32_t n =
            v->mesh[k] != NULL ? hsp_mesh_link_states(v->mesh[k], state, HSP_STANDS_LINKS) : 0;
        for (uint32_t i = 0; i < n; i++) {
            if (k == HSP_MESH_STATE) { /* messages of the state mesh may yield to the data mesh */
                state[i].bytes_per_s = 0;
            }
            add_link(s, &state[i]);
        }
        s->moved += v->mesh[k] != NULL ? hsp_mesh_arrived(v->mesh[k]) : 0;
    }
}

void hsp_epoch_tell_stand(struct hsp_ex_epoch *e, uint32_t round)
{
    struct view v = view_of(e);
    struct hsp_engine_place at = {.micro = UINT32_MAX, .instruction = UINT32_MAX};
    struct hsp_m_link links[HSP_STANDS_LINKS];
    if (v.engine != NULL) {
        hsp_engine_where(v.engine, &at);
    }
    struct hsp_m_thread threads[2] = {trainer_of(e, &v, &at), replication_of(&v)};
    struct hsp_msg m = {
        .type = HSP_MSG_STANDS,
        .u.stands = {.job = e->p->job,
                     .device = e->env->device,
                     .round = round,
                     .step = at.step > v.step ? at.step : v.step,
                     .stable = v.stable,
                     .moved = at.given,
                     .validation = at.validation,
                     .checkpoint = v.at.work == HSP_REPLICATION_CHECKPOINT || v.finishing,
                     .micro = at.micro,
                     .instruction = at.instruction,
                     .n_threads = v.at.work == HSP_KEEPER_NONE ? 1 : 2,
                     .threads = threads,
                     .links = links}};
    add_meshes(&v, &m.u.stands);
    hsp_epoch_send_msg(e, &m);
}
