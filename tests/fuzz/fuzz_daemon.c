/* Feeds the coordinator's core with any messages of agents at any time: no message is an error of
 * the machine, and its invariants hold after each event. Input: events, each a byte and its
 * contents. */
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_check.h"
#include "daemon/cluster/cluster_step.h"
#include "proto/base/size.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzzmsg.h"

enum { CONNS = 4, EVENTS = 200, TICKETS = EVENTS + 1 /* one a job */ };
enum { SPOKEN = 1 }; /* a protocol that inputs name with one byte: it stands for ours */

struct world {
    uint64_t drawn; /* random numbers */
    struct hsp_cluster *c;
    struct hsp_arena *arena;
    uint64_t now;
    uint32_t conn[CONNS], last_conn, last_job; /* conn 0: closed */
    uint32_t n_tickets;
    struct hsp_plan_event ticket[TICKETS]; /* asked and not answered */
    uint32_t n_devices[TICKETS];
    hsp_device_id device[TICKETS][HSP_NODE_DEVICES];
};

static void forget(struct world *w, uint32_t i)
{
    w->n_tickets--;
    w->ticket[i] = w->ticket[w->n_tickets];
    w->n_devices[i] = w->n_devices[w->n_tickets];
    memcpy(w->device[i], w->device[w->n_tickets], sizeof w->device[i]);
}

static void take(struct world *w, const struct hsp_action *a)
{
    if (a->type == HSP_ACT_START_PLAN) {
        const struct hsp_plan_request *q = a->u.plan;
        uint32_t i = w->n_tickets++;
        HSP_ASSERT(i < TICKETS);
        w->ticket[i] = (struct hsp_plan_event){.job = q->job, .ticket = q->ticket};
        w->n_devices[i] = q->n_devices < HSP_NODE_DEVICES ? q->n_devices : HSP_NODE_DEVICES;
        memcpy(w->device[i], q->devices, w->n_devices[i] * sizeof *q->devices);
    } else if (a->type == HSP_ACT_CANCEL_PLAN) {
        for (uint32_t i = w->n_tickets; i-- > 0;) {
            if (w->ticket[i].job == a->job && w->ticket[i].ticket == a->ticket) {
                forget(w, i);
            }
        }
    } else if (a->type == HSP_ACT_REPLY && a->status == HSP_OK && a->job > w->last_job) {
        w->last_job = a->job;
    }
}

/* Connections that the actions close; the shell tells of each. */
static void step(struct world *w, const struct hsp_event *ev)
{
    struct hsp_actions acts;
    struct hsp_err err = {0};
    uint32_t closing[CONNS] = {0};
    enum hsp_status st = hsp_cluster_step(w->c, ev, &acts, &err);
    if (st != HSP_OK) {
        hsp_assert_fail(err.msg, __FILE__, __LINE__);
    }
    hsp_cluster_check(w->c);
    for (uint32_t i = 0; i < acts.n; i++) {
        take(w, &acts.item[i]);
        for (uint32_t k = 0; k < CONNS; k++) {
            if (acts.item[i].type == HSP_ACT_CLOSE && acts.item[i].conn == w->conn[k]) {
                closing[k] = w->conn[k];
                w->conn[k] = 0;
            }
        }
    }
    for (uint32_t k = 0; k < CONNS; k++) {
        struct hsp_event gone = {.now_ms = w->now, .type = HSP_EV_CONN_CLOSED, .conn = closing[k]};
        if (closing[k] != 0) {
            step(w, &gone);
        }
    }
}

static void answer_plan(struct world *w, struct hsp_cursor *c, struct hsp_event *ev)
{
    uint8_t b = hsp_fuzz_byte(c);
    uint32_t i = b % w->n_tickets, n = w->n_devices[i];
    static uint64_t mem[HSP_NODE_DEVICES];
    static double compute[HSP_NODE_DEVICES], speed[HSP_NODE_DEVICES];
    static uint32_t first[HSP_NODE_DEVICES + 1];
    static struct hsp_piece_holder piece[HSP_NODE_DEVICES];
    struct hsp_plan_info *info = hsp_arena_alloc(w->arena, sizeof *info);
    HSP_ASSERT(info != NULL);
    ev->u.plan = w->ticket[i];
    ev->u.plan.reason = "reason";
    ev->u.plan.status = n == 0 || b % 16 == 0 ? HSP_EINFEASIBLE : HSP_OK;
    ev->u.plan.keep = ev->u.plan.status == HSP_OK && b % 16 == 1;
    for (uint32_t k = 0; k < n; k++) { /* each rank has a part of its own */
        first[k] = k;
        piece[k] = (struct hsp_piece_holder){k, k};
        speed[k] = 1;
    }
    first[n] = n;
    *info = (struct hsp_plan_info){
        .n_ranks = n,
        .device = hsp_arena_memdup(w->arena, w->device[i], n * sizeof(hsp_device_id)),
        .mem_bytes = mem,
        .compute_s = compute,
        .speed = speed,
        .n_shards = n,
        .shard_first = first,
        .pieces = piece,
        .why = "why"};
    if (ev->u.plan.status == HSP_OK && !ev->u.plan.keep) {
        ev->u.plan.info = info;
    }
    forget(w, i);
    step(w, ev);
}

static void admin(struct world *w, struct hsp_cursor *c, struct hsp_event *ev)
{
    static const char *const node[] = {"a", "b", "c", "d"};
    static const char *const name[] = {"one", "two", "three"};
    uint8_t b = hsp_fuzz_byte(c);
    ev->u.admin = (struct hsp_admin_event){.verb = (enum hsp_admin_verb)(b % 7),
                                           .request = 1,
                                           .actor = "fuzz",
                                           .spec = {.name = name[b / 7 % 3],
                                                    .priority = b % 3,
                                                    .min = 1 + b % 2,
                                                    .max = 2 + b % 4,
                                                    .copies = 1 + b % 3,
                                                    .steps = 20,
                                                    .checkpoint_every = b % 5,
                                                    .data_path = "/data",
                                                    .checkpoint_path = b % 2 == 0 ? "/ckpt" : "",
                                                    .checkpoint_shared = b % 4 == 0},
                                           .job = w->last_job > 0 ? 1 + b / 7 % w->last_job : 1,
                                           .min = 1,
                                           .max = 1 + b % 5,
                                           .node = node[b / 7 % 4],
                                           .reason = "reason"};
    step(w, ev);
}

static void one_event(struct world *w, struct hsp_cursor *c)
{
    uint8_t b = hsp_fuzz_byte(c);
    uint32_t k = b % CONNS;
    struct hsp_event ev = {.now_ms = w->now};
    struct hsp_msg m;
    switch (b / CONNS % 8) {
    case 0:
        w->now += 1u << hsp_fuzz_byte(c) % 14;
        ev = (struct hsp_event){.now_ms = w->now, .type = HSP_EV_TICK};
        step(w, &ev);
        break;
    case 1:
        ev.type = w->conn[k] == 0 ? HSP_EV_CONN_OPENED : HSP_EV_CONN_CLOSED;
        ev.conn = w->conn[k] == 0 ? ++w->last_conn : w->conn[k];
        w->conn[k] = w->conn[k] == 0 ? ev.conn : 0;
        step(w, &ev);
        break;
    case 2:
        ev.type = HSP_EV_ADMIN;
        admin(w, c, &ev);
        break;
    case 3:
        ev.type = HSP_EV_PLAN_DONE;
        if (w->n_tickets > 0) {
            answer_plan(w, c, &ev);
        }
        break;
    default:
        m = hsp_fuzz_message(c, hsp_fuzz_type(c), w->arena);
        if (m.type == HSP_MSG_HELLO && m.u.hello.protocol == SPOKEN) {
            m.u.hello.protocol = HSP_PROTO_VERSION;
        }
        ev.type = HSP_EV_MSG;
        ev.random = (struct hsp_digest){1, ++w->drawn};
        ev.conn = w->conn[k];
        ev.u.msg = &m;
        if (ev.conn != 0) {
            step(w, &ev);
        }
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct world *w = calloc(1, sizeof *w);
    struct hsp_cluster_config cfg;
    struct hsp_actions acts;
    struct hsp_cursor c;
    HSP_ASSERT(w != NULL);
    w->arena = hsp_fuzz_arena();
    w->now = 1;
    hsp_cluster_defaults(3000, &cfg);
    w->c = hsp_cluster_new(&cfg);
    HSP_ASSERT(w->c != NULL);
    HSP_ASSERT(hsp_cluster_load(w->c, NULL, 0, w->now, &acts, NULL) == HSP_OK);
    hsp_cur_init(&c, data, len);
    for (uint32_t i = 0; hsp_cur_left(&c) > 0 && i < EVENTS; i++) {
        one_event(w, &c);
    }
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 20);
    hsp_cluster_dump(w->c, &b);
    hsp_buf_fini(&b);
    (void)hsp_cluster_free(w->c);
    free(w);
    return 0;
}

/* Two nodes say hello, a job comes, is planned and prepared. */
static bool seed(size_t i, struct hsp_buf *out)
{
    enum { OPEN = CONNS, ADMIN = 2 * CONNS, PLAN = 3 * CONNS, SAY = 4 * CONNS };
    for (uint8_t k = 0; k < 2; k++) {
        const uint8_t hello[] = {
            (uint8_t)(OPEN + k),
            (uint8_t)(SAY + k),
            0,
            0,
            SPOKEN,
            0,
            k,
            6,
            0,
            0,
            0,
            0,
            0,
            0,
            0, /* the oldest protocol, node, address, incarnation, the one before, links */
            1,
            0,
            1, /* one network card */
            1,
            0,
            0,
            4,
            1,
            227,
            5,
            5,
            5,
            0,
            1,
            6,
            0,
            0, /* one device; no holdings, no runs */
        };
        hsp_buf_append(out, hello, sizeof hello);
    }
    for (size_t k = 0; k <= i; k++) {
        hsp_buf_append(out, (const uint8_t[]){ADMIN, 0, PLAN, 5}, 4);
    }
    hsp_buf_append(out, (const uint8_t[]){SAY, 1, 5, 1, 0, 0, 3, 3, 0, 0}, 10); /* READY */
    hsp_buf_append(out, (const uint8_t[]){0, 13, 0, 12}, 4);
    return i < 3;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "daemon", .seed = seed};
