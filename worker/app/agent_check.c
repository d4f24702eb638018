#include "worker/app/agent_check.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "worker/app/agent_shell.h"
#include "worker/comm/mesh/mesh.h"
#include "worker/comm/mesh/mesh_join.h"
#include "worker/comm/mesh/mesh_links.h"
#include "worker/comm/mesh/mesh_listen.h"
#include "worker/comm/mesh/mesh_start.h"
#include "worker/probe/gpu_probe.h"
#include "worker/probe/probe.h"
#include "worker/probe/probe_link.h"

struct order {
    struct hsp_m_check what; /* its texts are below */
    char peer[HSP_NAME_MAX + 1], address[HSP_ADDRESS_MAX + 1];
};

struct hsp_node_check {
    uv_work_t work;
    struct hsp_agent_shell *shell;
    bool running, waiting, close; /* close: the listener, when nothing runs any more */
    struct order now, next;       /* under way; waits for its end */
    struct hsp_mesh_listener *listener;
    int cancel_fd;
    atomic_bool stop;     /* the work under way shall end */
    pthread_mutex_t lock; /* of mesh */
    struct hsp_comm *mesh;
    /* the configuration as it was when the order came */
    uint32_t n_devices;
    struct hsp_device_config device[HSP_WORKER_DEVICES];
    /* the results */
    enum hsp_status st;
    struct hsp_err err;
    struct hsp_link_figures link;
    const char *transport;
    struct hsp_m_figures figures[HSP_WORKER_DEVICES];
};

/* ---- on the pool ---- */

static enum hsp_status open_listener(struct hsp_node_check *k)
{
    const struct hsp_worker_config *c = k->shell->cfg;
    bool advertised = c->advertise_address != NULL && c->advertise_address[0] != '\0';
    return k->listener != NULL
               ? HSP_OK
               : hsp_mesh_listener_open(c->listen, advertised ? c->advertise_address : NULL,
                                        (enum hsp_mesh_transport)c->transport, &k->listener,
                                        &k->err);
}

/* Device @i; those before it are in @p. One measurement for all CPUs with the same number of
 * threads, as at the start. */
static enum hsp_status measure_one(struct hsp_node_check *k, uint32_t i, struct hsp_probe *p)
{
    const struct hsp_device_config *c = k->device;
    struct hsp_device_info info;
    uint32_t same = 0;
    if (atomic_load(&k->stop)) {
        return hsp_err_set(&k->err, HSP_ECANCELED, 0, "stopped");
    }
    if (c[i].gpu) {
        return hsp_gpu_ask(c[i].index, &info, &p[i], &k->err);
    }
    while (same < i && (c[same].gpu || c[same].threads != c[i].threads)) {
        same++;
    }
    if (same < i) {
        p[i] = p[same];
        return HSP_OK;
    }
    return hsp_probe_cpu((int)c[i].threads, false, &p[i], &k->err);
}

static enum hsp_status measure_devices(struct hsp_node_check *k)
{
    struct hsp_probe p[HSP_WORKER_DEVICES];
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 0; st == HSP_OK && i < k->n_devices; i++) {
        st = measure_one(k, i, p);
        if (st == HSP_OK) {
            struct hsp_probe q = hsp_probe_scale(&p[i], k->device[i].speed);
            k->figures[i] = (struct hsp_m_figures){.device = i,
                                                   .gemm_fp32_flops = q.gemm_fp32_flops,
                                                   .gemm_fp64_flops = q.gemm_fp64_flops,
                                                   .mem_bytes_per_s = q.mem_bytes_per_s,
                                                   .op_us = q.op_us,
                                                   .share = q.share};
        }
    }
    return st;
}

static void set_mesh(struct hsp_node_check *k, struct hsp_comm *mesh)
{
    (void)pthread_mutex_lock(&k->lock);
    k->mesh = mesh;
    if (mesh != NULL && atomic_load(&k->stop)) {
        mesh->ops->abort(mesh);
    }
    (void)pthread_mutex_unlock(&k->lock);
}

static const char *transport_of(const struct hsp_comm *mesh)
{
    struct hsp_mesh_links n = hsp_mesh_count_links(mesh);
    return n.shm > 0 ? "shm" : n.local > 0 ? "unix" : n.tls > 0 ? "tls" : "tcp";
}

static enum hsp_status measure_link(struct hsp_node_check *k)
{
    const struct order *o = &k->now;
    struct hsp_mesh_peer peers[2] = {{.name = k->shell->node, .address = ""},
                                     {.name = k->shell->node, .address = ""}};
    struct hsp_comm *mesh = NULL;
    enum hsp_status st = open_listener(k);
    if (st != HSP_OK) {
        return st;
    }
    peers[o->what.rank].address = hsp_mesh_listener_address(k->listener);
    peers[!o->what.rank] = (struct hsp_mesh_peer){.name = o->peer, .address = o->address};
    struct hsp_mesh_params p = {.job = o->what.check,
                                .epoch = o->what.seq,
                                .rank = o->what.rank,
                                .n = 2,
                                .peers = peers,
                                .timeout_ms = o->what.within_ms,
                                .cancel_fd = k->cancel_fd,
                                .tls = o->what.tls};
    memcpy(p.key, o->what.key, sizeof p.key);
    st = hsp_mesh_connect(k->listener, &p, &mesh, &k->err);
    if (st != HSP_OK) {
        return st;
    }
    set_mesh(k, mesh);
    k->transport = transport_of(mesh);
    st = hsp_link_test(mesh, &k->link, &k->err);
    set_mesh(k, NULL);
    mesh->ops->close(mesh);
    return st;
}

static void on_pool(uv_work_t *w)
{
    struct hsp_node_check *k = w->data;
    k->st = open_listener(k);
    if (k->st == HSP_OK && k->now.what.what == HSP_CHECK_COMPUTE) {
        k->st = measure_devices(k);
    } else if (k->st == HSP_OK && k->now.what.what == HSP_CHECK_LINK) {
        k->st = measure_link(k);
    }
}

/* ---- on the loop ---- */

static void start(struct hsp_node_check *k, const struct order *o);

/* The answer to the order under way. */
static void tell(struct hsp_node_check *k)
{
    bool ok = k->st == HSP_OK, link = k->now.what.what == HSP_CHECK_LINK;
    struct hsp_msg m = {
        .type = HSP_MSG_CHECKED,
        .u.checked = {.check = k->now.what.check,
                      .seq = k->now.what.seq,
                      .fault = ok ? "" : k->err.msg,
                      .address = ok && !link ? hsp_mesh_listener_address(k->listener) : "",
                      .transport = ok && link ? k->transport : "",
                      .latency_s = ok && link ? k->link.latency_s : 0,
                      .bytes_per_s = ok && link ? k->link.bytes_per_s : 0,
                      .n_devices = ok && k->now.what.what == HSP_CHECK_COMPUTE ? k->n_devices : 0,
                      .devices = k->figures}};
    struct hsp_agent_event ev = {.type = HSP_AEV_CHECKED, .msg = &m};
    hsp_agent_deliver(k->shell, &ev);
}

static void close_listener(struct hsp_node_check *k)
{
    if (k->close) {
        hsp_mesh_listener_close(k->listener);
        k->listener = NULL;
        k->close = false;
    }
}

static void on_done(uv_work_t *w, int status)
{
    struct hsp_node_check *k = w->data;
    (void)status; /* never cancelled */
    k->running = false;
    if (!k->shell->ending) {
        tell(k);
    }
    close_listener(k);
    if (k->waiting && !k->shell->ending) {
        struct order o = k->next;
        k->waiting = false;
        start(k, &o);
    }
}

static void start(struct hsp_node_check *k, const struct order *o)
{
    uint64_t spent;
    const struct hsp_worker_config *c = k->shell->cfg;
    atomic_store(&k->stop, false);
    (void)!read(k->cancel_fd, &spent, sizeof spent); /* an earlier order to stop may be there */
    k->now = *o;
    k->err = (struct hsp_err){0};
    k->n_devices = c->n_devices;
    memcpy(k->device, c->devices, sizeof k->device);
    k->running = true;
    (void)uv_queue_work(&k->shell->loop, &k->work, on_pool,
                        on_done); /* fails only without a call */
}

static void stop(struct hsp_node_check *k)
{
    const uint64_t one = 1;
    k->waiting = false;
    atomic_store(&k->stop, true);
    (void)!write(k->cancel_fd, &one, sizeof one); /* full means readable, too */
    (void)pthread_mutex_lock(&k->lock);
    if (k->mesh != NULL) {
        k->mesh->ops->abort(k->mesh);
    }
    (void)pthread_mutex_unlock(&k->lock);
}

static struct hsp_node_check *get(struct hsp_agent_shell *s)
{
    struct hsp_node_check *k = s->check != NULL ? s->check : calloc(1, sizeof *k);
    if (k != NULL && s->check == NULL) {
        k->shell = s;
        k->work.data = k;
        k->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        (void)pthread_mutex_init(&k->lock, NULL);
        s->check = k;
    }
    return k;
}

void hsp_agent_check_stop(struct hsp_agent_shell *s)
{
    struct hsp_node_check *k = s->check;
    if (k != NULL) {
        stop(k);
        k->close = true;
        if (!k->running) {
            close_listener(k);
        }
    }
}

void hsp_agent_check_order(struct hsp_agent_shell *s, const struct hsp_m_check *m)
{
    struct hsp_node_check *k;
    struct order o = {.what = *m};
    if (m->what == HSP_CHECK_END) {
        hsp_agent_check_stop(s);
        return;
    }
    k = get(s);
    if (k == NULL || k->cancel_fd < 0) {
        struct hsp_err err = {0};
        (void)hsp_err_set(&err, HSP_ENOMEM, k != NULL ? errno : 0, "a check of nodes");
        hsp_agent_fail(s, &err);
        return;
    }
    if (m->what == HSP_CHECK_STOP) {
        stop(k);
        return;
    }
    (void)snprintf(o.peer, sizeof o.peer, "%s", m->peer);
    (void)snprintf(o.address, sizeof o.address, "%s", m->peer_address);
    o.what.peer = o.what.peer_address = NULL;
    if (k->running) {
        k->next = o;
        k->waiting = true;
    } else {
        start(k, &o);
    }
}

void hsp_agent_check_free(struct hsp_agent_shell *s)
{
    struct hsp_node_check *k = s->check;
    if (k != NULL) {
        hsp_mesh_listener_close(k->listener);
        (void)close(k->cancel_fd);
        (void)pthread_mutex_destroy(&k->lock);
        free(k);
        s->check = NULL;
    }
}
