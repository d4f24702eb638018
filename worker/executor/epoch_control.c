#include "worker/executor/epoch_control.h"

#include <string.h>
#include <unistd.h>

#include "proto/base/str.h"
#include "worker/comm/mesh/mesh_stand.h"
#include "worker/executor/epoch_nccl.h"

void hsp_epoch_set_phase(struct hsp_ex_epoch *e, enum hsp_epoch_phase phase)
{
    (void)pthread_mutex_lock(&e->lock);
    e->phase = phase;
    (void)pthread_cond_broadcast(&e->cond);
    (void)pthread_mutex_unlock(&e->lock);
}

void hsp_epoch_poke(int event_fd)
{
    uint64_t one = 1;
    if (write(event_fd, &one, sizeof one) < 0) {
        return; /* the counter is full, so its reader wakes anyway */
    }
}

void hsp_epoch_go(struct hsp_ex_epoch *e, uint64_t version)
{
    (void)pthread_mutex_lock(&e->lock);
    if (!e->go) {
        e->go = true;
        e->go_version = version;
    }
    (void)pthread_cond_broadcast(&e->cond);
    (void)pthread_mutex_unlock(&e->lock);
}

void hsp_epoch_note_loss(struct hsp_ex_epoch *e, enum hsp_epoch_mesh which,
                         const struct hsp_mesh_loss *loss, const char *why)
{
    (void)pthread_mutex_lock(&e->lock);
    if (!e->lost && (which != HSP_MESH_MOVE || !e->moved)) {
        e->lost = true;
        e->loss = *loss;
        hsp_str_printf(e->lost_why, sizeof e->lost_why, "%s: %s",
                       loss->rank < e->pkg.n_peers ? e->pkg.peers[loss->rank].name : "?", why);
    }
    (void)pthread_mutex_unlock(&e->lock);
}

bool hsp_epoch_loss(struct hsp_ex_epoch *e, struct hsp_mesh_loss *ret)
{
    struct hsp_comm *comm[HSP_EPOCH_MESHES];
    struct hsp_mesh_loss loss;
    struct hsp_err why;
    (void)pthread_mutex_lock(&e->lock);
    memcpy(comm, e->mesh, sizeof comm);
    (void)pthread_mutex_unlock(&e->lock);
    for (int i = 0; i < HSP_EPOCH_MESHES; i++) {
        if (comm[i] != NULL && hsp_mesh_lost(comm[i], &loss, &why)) {
            hsp_epoch_note_loss(e, (enum hsp_epoch_mesh)i, &loss, why.msg);
        }
    }
    (void)pthread_mutex_lock(&e->lock); /* the I/O threads of the meshes write the loss */
    bool lost = e->lost;
    if (lost) {
        *ret = e->loss;
    }
    (void)pthread_mutex_unlock(&e->lock);
    return lost;
}

struct hsp_disk_wait hsp_epoch_disk_wait(struct hsp_ex_epoch *e)
{
    uint32_t ms = e->env->disk_ms > 0 ? e->env->disk_ms : HSP_DISK_MS;
    return (struct hsp_disk_wait){.ms = ms, .over = hsp_epoch_is_over, .of = e};
}

void hsp_epoch_abort(struct hsp_ex_epoch *e)
{
    (void)pthread_mutex_lock(&e->lock);
    struct hsp_comm *comm[HSP_EPOCH_MESHES];
    memcpy(comm, e->mesh, sizeof comm);
    struct hsp_engine *engine = e->engine;
    (void)pthread_cond_broadcast(&e->cond);
    (void)pthread_mutex_unlock(&e->lock);
    if (engine != NULL) {
        hsp_engine_abort(engine);
    }
    for (int i = 0; i < HSP_EPOCH_MESHES; i++) {
        if (comm[i] != NULL) {
            comm[i]->ops->abort(comm[i]);
        }
    }
    hsp_epoch_direct_abort(e);
}
