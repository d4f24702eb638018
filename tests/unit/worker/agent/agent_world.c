#include "tests/unit/worker/agent/agent_world.h"

void aw_step(struct aw_world *w, struct hsp_agent_event ev)
{
    struct hsp_err err = {0};
    ev.now_ms = w->now;
    assert_ok(hsp_agent_step(w->a, &ev, &w->acts, &err), &err);
    hsp_agent_check(w->a);
    const struct hsp_agent_action *x = aw_find(w, HSP_AACT_SCAN);
    w->scan = x != NULL ? x->scan : w->scan;
}

const struct hsp_agent_action *aw_find(const struct aw_world *w, enum hsp_agent_action_type type)
{
    for (uint32_t i = 0; i < w->acts.n; i++) {
        if (w->acts.item[i].type == type) {
            return &w->acts.item[i];
        }
    }
    return NULL;
}

uint32_t aw_count(const struct aw_world *w, enum hsp_agent_action_type type)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->acts.n; i++) {
        n += w->acts.item[i].type == type;
    }
    return n;
}

const struct hsp_msg *aw_sent(const struct aw_world *w, enum hsp_agent_action_type to,
                              uint16_t type)
{
    for (uint32_t i = 0; i < w->acts.n; i++) {
        const struct hsp_agent_action *x = &w->acts.item[i];
        if (x->type == to && x->msg->type == type) {
            return x->msg;
        }
    }
    return NULL;
}

void aw_tick(struct aw_world *w)
{
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_TICK});
}

void aw_from_daemon(struct aw_world *w, struct hsp_msg m)
{
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_DAEMON_MSG, .msg = &m});
}

void aw_from_exec(struct aw_world *w, uint32_t device, struct hsp_msg m)
{
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_EXEC_MSG, .device = device, .msg = &m});
}

void aw_exit_of(struct aw_world *w, uint32_t device)
{
    aw_step(w, (struct hsp_agent_event){
                   .type = HSP_AEV_EXEC_EXIT, .device = device, .text = "signal 9"});
}

void aw_scanned(struct aw_world *w, const struct hsp_m_holding *h, uint32_t n)
{
    const struct hsp_agent_action *x = aw_find(w, HSP_AACT_SCAN);
    assert_non_null(x);
    aw_step(w, (struct hsp_agent_event){
                   .type = HSP_AEV_SCANNED, .scan = x->scan, .n = n, .holdings = h});
}

void aw_beats(struct aw_world *w)
{
    for (uint32_t i = 0; i < 2; i++) {
        aw_from_exec(w, i, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
    }
}

void aw_link_up(struct aw_world *w, uint64_t term, uint64_t incarnation)
{
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
    aw_scanned(w, NULL, 0);
    assert_non_null(aw_sent(w, HSP_AACT_SEND, HSP_MSG_HELLO));
    aw_from_daemon(w, (struct hsp_msg){.type = HSP_MSG_WELCOME,
                                       .u.welcome = {.protocol = HSP_PROTO_VERSION,
                                                     .term = term,
                                                     .incarnation = {1, incarnation},
                                                     .heartbeat_ms = 500,
                                                     .dead_ms = 3000}});
}

void aw_begin(struct aw_world *w)
{
    struct hsp_agent_config cfg;
    struct hsp_m_device dev[2] = {{.kind = "cpu", .mem_bytes = 9, .address = ""},
                                  {.kind = "cpu", .address = ""}};
    hsp_agent_defaults(&cfg);
    cfg.node = "n1";
    cfg.devices = dev;
    cfg.n_devices = 2;
    const struct hsp_m_card cards[] = {{"eth0", 10}, {"ib0", 100}};
    cfg.n_cards = 2;
    cfg.cards = cards;
    dev[0].card = 1;
    *w = (struct aw_world){.a = hsp_agent_new(&cfg), .now = 100};
    assert_non_null(w->a);
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_START});
    assert_int_equal(aw_count(w, HSP_AACT_SPAWN), 2);
    assert_int_equal(aw_count(w, HSP_AACT_CONNECT), 1);
    for (uint32_t i = 0; i < 2; i++) {
        aw_from_exec(w, i,
                     (struct hsp_msg){.type = HSP_MSG_EXECUTOR_UP, .u.up = {.address = "a:1"}});
    }
}

void aw_prepare(struct aw_world *w, uint32_t device, uint32_t job, uint64_t epoch)
{
    aw_from_daemon(w, (struct hsp_msg){.type = HSP_MSG_PREPARE,
                                       .epoch = epoch,
                                       .u.prepare = {.job = job,
                                                     .device = device,
                                                     .n_ranks = 2,
                                                     .rank = device,
                                                     .n_peers = 2,
                                                     .plan = 1}});
}

void aw_run_job(struct aw_world *w, uint32_t device, uint32_t job, uint64_t epoch)
{
    aw_prepare(w, device, job, epoch);
    assert_non_null(aw_sent(w, HSP_AACT_SEND_EXEC, HSP_MSG_PREPARE));
    aw_from_exec(w, device,
                 (struct hsp_msg){.type = HSP_MSG_READY, .epoch = epoch, .u.ready.job = job});
    assert_int_equal(aw_sent(w, HSP_AACT_SEND, HSP_MSG_READY)->u.ready.device, device);
    aw_from_daemon(w, (struct hsp_msg){.type = HSP_MSG_START,
                                       .epoch = epoch,
                                       .u.start = {.job = job, .device = device}});
    assert_non_null(aw_sent(w, HSP_AACT_SEND_EXEC, HSP_MSG_START));
    aw_from_exec(w, device,
                 (struct hsp_msg){.type = HSP_MSG_STARTED, .epoch = epoch, .u.started.job = job});
    assert_int_equal(hsp_agent_device_at(w->a, device)->run.running, epoch);
}
