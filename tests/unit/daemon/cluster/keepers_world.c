#include "tests/unit/daemon/cluster/keepers_world.h"

#include <stdio.h>

#include "daemon/cluster/lookup.h"

void kw_msg(struct cw_world *w, uint32_t node, struct hsp_msg m)
{
    cw_msg(w, node + 1, m);
}

void kw_allow(struct cw_world *w, uint32_t node, bool on)
{
    char name[8];
    (void)snprintf(name, sizeof(name), "n%u", node);
    assert_int_equal(
        cw_admin(w, (struct hsp_admin_event){.verb = on ? HSP_ADMIN_ALLOW : HSP_ADMIN_DENY,
                                             .node = name}),
        HSP_OK);
}

void kw_hello_replica_holder(struct cw_world *w, uint32_t node)
{
    char name[8];
    struct hsp_m_device dev = {
        .kind = HSP_KIND_REPLICA_HOLDER, .speed = 1, .up = true, .address = "x"};
    (void)snprintf(name, sizeof(name), "n%u", node);
    kw_allow(w, node, true);
    cw_say_hello(w, node + 1,
                 (struct hsp_m_hello){
                     .node = name, .was = cw_last(w, name), .n_devices = 1, .devices = &dev});
}

void kw_joins(struct cw_world *w, uint32_t node, uint32_t n_replica_holders, uint64_t room)
{
    struct hsp_m_device dev[4];
    char name[8];
    (void)snprintf(name, sizeof(name), "n%u", node);
    for (uint32_t i = 0; i <= n_replica_holders; i++) {
        dev[i] = (struct hsp_m_device){.index = i,
                                       .kind = i == 0 ? "cpu" : HSP_KIND_REPLICA_HOLDER,
                                       .speed = 1,
                                       .mem_bytes = i == 0 ? 1 : room,
                                       .up = true,
                                       .address = "x"};
    }
    cw_say_hello(w, node + 1,
                 (struct hsp_m_hello){.node = name,
                                      .was = cw_last(w, name),
                                      .n_devices = n_replica_holders + 1,
                                      .devices = dev});
}

void kw_hello(struct cw_world *w, uint32_t node, uint32_t n_replica_holders, uint64_t room)
{
    kw_allow(w, node, true);
    kw_joins(w, node, n_replica_holders, room);
}

void kw_begin(struct cw_world *w, uint32_t n_nodes, uint32_t n_replica_holders)
{
    cw_begin(w, 0, 0);
    for (uint32_t i = 0; i < n_nodes; i++) {
        kw_hello(w, i, n_replica_holders, 0);
    }
}

void kw_plan(struct cw_world *w, uint32_t copies)
{
    uint64_t mem = 0, folder = KW_BYTES;
    double compute = 1;
    uint32_t first[2] = {0, copies};
    struct hsp_piece_holder pieces[8] = {{0, 0}};
    for (uint32_t i = 1; i < copies; i++) {
        pieces[i] = (struct hsp_piece_holder){i, 0};
    }
    struct hsp_plan_info info = {.n_ranks = 1,
                                 .device = &w->asked[0],
                                 .mem_bytes = &mem,
                                 .folder_bytes = &folder,
                                 .compute_s = &compute,
                                 .n_shards = 1,
                                 .shard_first = first,
                                 .pieces = pieces,
                                 .n_spare = copies - 1,
                                 .keep_bytes = KW_BYTES};
    cw_step(
        w, (struct hsp_event){.type = HSP_EV_PLAN_DONE,
                              .u.plan = {.job = w->asked_job, .ticket = w->ticket, .info = &info}});
}

void kw_run(struct cw_world *w, uint32_t id, uint64_t version)
{
    const struct hsp_job *j = cw_job(w, id);
    uint64_t epoch = j->att.epoch;
    for (uint32_t i = 0; i < j->att.n_peers && j->att.phase != HSP_ATT_GO; i++) {
        hsp_device_id d = j->att.peers[i].device;
        kw_msg(w, HSP_DEVICE_NODE(d),
               (struct hsp_msg){.type = HSP_MSG_READY,
                                .epoch = epoch,
                                .u.ready = {.job = id, .device = HSP_DEVICE_INDEX(d)}});
    }
    assert_int_equal(j->att.phase, HSP_ATT_GO);
    for (uint32_t i = j->att.n_ranks; i < j->att.n_peers; i++) { /* a peer without a vote says so */
        hsp_device_id d = j->att.peers[i].device;
        kw_msg(w, HSP_DEVICE_NODE(d),
               (struct hsp_msg){
                   .type = HSP_MSG_STARTED,
                   .epoch = epoch,
                   .u.started = {.job = id, .device = HSP_DEVICE_INDEX(d), .step = version}});
    }
    double compute = 1;
    kw_msg(w, HSP_DEVICE_NODE(j->att.peers[0].device),
           (struct hsp_msg){
               .type = HSP_MSG_STEP,
               .epoch = epoch,
               .u.step = {.job = id, .step = version, .n_compute = 1, .compute_s = &compute}});
    assert_int_equal(j->cur.epoch, epoch);
    for (uint32_t d = 0; d < w->c->n_nodes * HSP_NODE_DEVICES; d++) {
        if (hsp_ci_device(w->c, d)->job == id && hsp_ci_device(w->c, d)->ask != HSP_ASK_NONE) {
            kw_msg(w, HSP_DEVICE_NODE(d),
                   (struct hsp_msg){.type = HSP_MSG_RELEASED,
                                    .u.devref = {.job = id, .device = HSP_DEVICE_INDEX(d)}});
        }
    }
}

void kw_submit(struct cw_world *w, const char *name, uint32_t copies)
{
    cw_step(w,
            (struct hsp_event){
                .type = HSP_EV_ADMIN,
                .u.admin = {
                    .verb = HSP_ADMIN_SUBMIT,
                    .spec = {.name = name, .min = 1, .max = 1, .copies = copies, .steps = 100}}});
    kw_plan(w, copies);
}

void kw_sealed(struct cw_world *w, uint32_t node, struct hsp_m_holding *h, uint32_t n)
{
    kw_msg(w, node,
           (struct hsp_msg){.type = HSP_MSG_SEALED,
                            .epoch = cw_job(w, 1)->seal_upto,
                            .u.sealed = {.job = 1, .n_holdings = n, .holdings = h}});
}
