#include "tests/unit/daemon/cluster/cluster_world.h"

#include <stdio.h>

#include "daemon/cluster/cluster_check.h"
#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "proto/base/size.h"

static void keep_row(struct cw_world *w, const struct hsp_action *a)
{
    uint32_t i = 0;
    while (i < w->n_rows && strcmp(w->rows[i].key, a->key) != 0) {
        i++;
    }
    if (a->type == HSP_ACT_ERASE) {
        if (i < w->n_rows) {
            free(w->rows[i].value);
            w->rows[i] = w->rows[--w->n_rows];
        }
        return;
    }
    if (i == w->n_rows) {
        assert_true(w->n_rows < HSP_ARRAY_LEN(w->rows));
        w->rows[w->n_rows++].value = NULL;
    }
    free(w->rows[i].value);
    (void)snprintf(w->rows[i].key, sizeof(w->rows[i].key), "%s", a->key);
    w->rows[i].value = malloc(a->len);
    memcpy(w->rows[i].value, a->value, a->len);
    w->rows[i].len = a->len;
}

void cw_look(struct cw_world *w)
{
    hsp_cluster_check(w->c);
    for (uint32_t i = 0; i < w->a.n; i++) {
        const struct hsp_action *a = &w->a.item[i];
        if (a->type == HSP_ACT_STORE || a->type == HSP_ACT_ERASE) {
            keep_row(w, a);
        } else if (a->type == HSP_ACT_START_PLAN) {
            const struct hsp_plan_request *r = a->u.plan;
            w->ticket = r->ticket;
            w->asked_job = a->job;
            w->n_asked = r->n_devices;
            w->n_facts = r->n_facts;
            memcpy(w->asked, r->devices, r->n_devices * sizeof(w->asked[0]));
            memcpy(w->speed, r->speed, r->n_devices * sizeof(w->speed[0]));
            memcpy(w->facts, r->facts, r->n_facts * sizeof(w->facts[0]));
        }
        w->n_copied += a->type == HSP_ACT_COPY_PLAN;
        if (a->type == HSP_ACT_FIND_CKPTS) {
            w->find_job = a->job;
            w->find = a->ticket;
        }
    }
}

struct hsp_digest cw_secret(uint64_t incarnation)
{
    return (struct hsp_digest){incarnation != 0 ? 0x5ec4e7 : 0, incarnation};
}

struct hsp_digest cw_last(const struct cw_world *w, const char *node)
{
    const struct hsp_cluster_node *n = hsp_cluster_node_by_name(w->c, node);
    return n != NULL ? n->secret : cw_secret(0);
}

/* Keeps the reply and the facts of the last step. */
static void keep_told(struct cw_world *w)
{
    const struct hsp_action *r = cw_find(w, HSP_ACT_REPLY);
    if (r != NULL && r != &w->reply) {
        w->reply = *r;
        (void)snprintf(w->reply_text, sizeof w->reply_text, "%s", r->text);
        w->reply.text = w->reply_text;
    }
    for (uint32_t i = 0; i < w->a.n; i++) {
        const struct hsp_fact *f = w->a.item[i].u.fact;
        if (w->a.item[i].type == HSP_ACT_FACT && w->n_facts_before < CW_FACTS) {
            uint32_t k = w->n_facts_before++;
            (void)snprintf(w->before[k].type, sizeof w->before[k].type, "%s", f->type);
            (void)snprintf(w->before[k].reason, sizeof w->before[k].reason, "%s", f->reason);
            w->before[k].step = f->step;
            w->before[k].lost_steps = f->lost_steps;
        }
    }
}

static uint32_t on_record(const struct cw_world *w, struct hsp_m_seen ret[CW_DISK])
{
    const struct hsp_job *j = cw_job(w, w->find_job);
    uint32_t n = 0;
    for (uint32_t i = 0; j != NULL && i < j->n_older; i++) {
        const struct hsp_ckpt_kept *k = &j->older[i];
        ret[n++] = (struct hsp_m_seen){k->step, k->mark.term, k->mark.epoch, k->mark.content};
    }
    if (j != NULL && j->has_ckpt) {
        ret[n++] = (struct hsp_m_seen){j->ckpt_step, j->ckpt.term, j->ckpt.epoch, j->ckpt.content};
    }
    return n;
}

static void one_step(struct cw_world *w, struct hsp_event ev);

void cw_ckpts(struct cw_world *w, const struct hsp_m_seen *seen, uint32_t n, const char *why)
{
    struct hsp_event ev = {.type = HSP_EV_CKPTS,
                           .u.ckpts = {.job = w->find_job,
                                       .ticket = w->find,
                                       .n = n,
                                       .seen = seen,
                                       .n_others = w->n_others,
                                       .why = why,
                                       .lack = w->lack,
                                       .begun = w->begun,
                                       .mute = w->mute,
                                       .damaged = w->damaged}};
    assert_int_not_equal(w->find_job, 0);
    w->find_job = 0;
    one_step(w, ev);
}

void cw_step(struct cw_world *w, struct hsp_event ev)
{
    w->n_facts_before = 0;
    w->reply.text = NULL;
    one_step(w, ev);
    while (w->find_job != 0 && !w->asks) {
        struct hsp_m_seen seen[CW_DISK];
        uint32_t n = w->has_disk ? w->n_disk : on_record(w, seen);
        keep_told(w);
        cw_ckpts(w, w->has_disk ? w->disk : seen, n, "");
    }
}

static void one_step(struct cw_world *w, struct hsp_event ev)
{
    struct hsp_err err = {0};
    ev.now_ms = w->now;
    ev.unix_s = w->unix_s;
    if (ev.type == HSP_EV_MSG && ev.u.msg->type == HSP_MSG_HELLO) {
        ev.random = cw_secret(w->c->next_incarnation);
    }
    assert_ok(hsp_cluster_step(w->c, &ev, &w->a, &err), &err);
    cw_look(w);
}

void cw_msg(struct cw_world *w, uint32_t conn, struct hsp_msg m)
{
    cw_step(w, (struct hsp_event){.type = HSP_EV_MSG, .conn = conn, .u.msg = &m});
}

void cw_say_hello(struct cw_world *w, uint32_t conn, struct hsp_m_hello h)
{
    struct hsp_m_device dev = {
        .kind = "cpu", .speed = 1, .mem_bytes = 1, .up = true, .address = "x"};
    h.protocol = h.protocol != 0 ? h.protocol : HSP_PROTO_VERSION;
    h.address = h.address != NULL ? h.address : h.node;
    if (h.devices == NULL) {
        h.n_devices = 1;
        h.devices = &dev;
    }
    cw_msg(w, conn, (struct hsp_msg){.type = HSP_MSG_HELLO, .u.hello = h});
}

void cw_hello_running(struct cw_world *w, uint32_t conn, const char *node, uint64_t incarnation,
                      uint32_t n_dev, uint64_t runs)
{
    struct hsp_m_run run = {.job = 1, .running = runs};
    struct hsp_m_device dev[HSP_NODE_DEVICES];
    for (uint32_t i = 0; i < n_dev; i++) {
        dev[i] = (struct hsp_m_device){
            .index = i, .kind = "cpu", .speed = 1, .mem_bytes = 1, .up = true, .address = "x"};
    }
    cw_say_hello(w, conn,
                 (struct hsp_m_hello){.node = node,
                                      .incarnation = cw_secret(incarnation),
                                      .was = cw_last(w, node),
                                      .n_devices = n_dev,
                                      .n_runs = runs != 0,
                                      .runs = &run,
                                      .devices = dev});
}

void cw_hello(struct cw_world *w, uint32_t conn, const char *node, uint64_t incarnation,
              uint32_t n_dev)
{
    cw_hello_running(w, conn, node, incarnation, n_dev, 0);
}

void cw_hello_keeping(struct cw_world *w, uint32_t conn, const char *node, uint64_t incarnation,
                      const struct hsp_m_kept *k, bool runs)
{
    struct hsp_m_kept kept = *k;
    struct hsp_m_run run = {.job = k->job, .running = k->epoch};
    struct hsp_m_holding piece = {.job = k->job, .plan = k->plan, .version = 3};
    cw_say_hello(w, conn,
                 (struct hsp_m_hello){.node = node,
                                      .address = "a",
                                      .incarnation = cw_secret(incarnation),
                                      .cluster = w->c->id,
                                      .generation = w->c->generation,
                                      .n_kept = 1,
                                      .kept = &kept,
                                      .n_holdings = 1,
                                      .holdings = &piece,
                                      .n_runs = runs,
                                      .runs = &run});
}

void cw_uplink(struct cw_world *w, uint32_t conn, double latency_s, double bytes_per_s)
{
    cw_msg(w, conn, (struct hsp_msg){.type = HSP_MSG_UPLINK, .u.uplink = {latency_s, bytes_per_s}});
}

void cw_begin(struct cw_world *w, uint32_t n_nodes, uint32_t n_dev)
{
    struct hsp_cluster_config cfg;
    struct hsp_err err = {0};
    *w = (struct cw_world){.now = 1000, .damaged = ""};
    hsp_cluster_defaults(3000, &cfg);
    w->c = hsp_cluster_new(&cfg);
    assert_non_null(w->c);
    assert_ok(hsp_cluster_load(w->c, NULL, 0, w->now, &w->a, &err), &err);
    cw_look(w);
    for (uint32_t i = 0; i < n_nodes; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "n%u", i);
        cw_hello(w, i + 1, name, 0, n_dev);
        cw_uplink(w, i + 1, 1e-4, 1e8);
    }
}

void cw_end(struct cw_world *w)
{
    hsp_cluster_free(w->c);
    for (uint32_t i = 0; i < w->n_rows; i++) {
        free(w->rows[i].value);
    }
}

uint32_t cw_rows(const struct cw_world *w, struct hsp_cluster_row ret[CW_ROWS])
{
    for (uint32_t i = 0; i < w->n_rows; i++) {
        ret[i] = (struct hsp_cluster_row){w->rows[i].key, w->rows[i].value, w->rows[i].len};
    }
    return w->n_rows;
}

static int by_key(const void *a, const void *b)
{
    const struct cw_row *x = a, *y = b;
    return strcmp(x->key, y->key);
}

void cw_restart(struct cw_world *w, const struct hsp_cluster_config *cfg)
{
    struct hsp_cluster_config mine = cfg != NULL ? *cfg : w->c->cfg;
    struct hsp_cluster_row rows[CW_ROWS];
    struct hsp_err err = {0};
    qsort(w->rows, w->n_rows, sizeof(w->rows[0]), by_key); /* as the store reads them */
    uint32_t n = cw_rows(w, rows);
    hsp_cluster_free(w->c);
    w->find_job = 0;
    w->c = hsp_cluster_new(&mine);
    assert_non_null(w->c);
    assert_ok(hsp_cluster_load(w->c, rows, n, w->now, &w->a, &err), &err);
    cw_look(w);
}

void cw_restart_nodes(struct cw_world *w, uint32_t n_nodes)
{
    uint64_t incarnation[4];
    for (uint32_t i = 0; i < n_nodes; i++) {
        incarnation[i] = w->c->nodes[i].incarnation;
    }
    cw_restart(w, NULL);
    for (uint32_t i = 0; i < n_nodes; i++) {
        const char name[3] = {'n', (char)('0' + i), '\0'};
        uint64_t runs = cw_job(w, 1) != NULL ? cw_job(w, 1)->cur.epoch : 0;
        cw_hello_running(w, i + 1, name, incarnation[i], 1, runs);
    }
}

void cw_older_row(struct cw_world *w, const uint8_t *bytes, uint32_t n, uint8_t form)
{
    uint32_t cut = 0;
    for (uint32_t i = 0; i < w->n_rows; i++) {
        uint8_t *v = w->rows[i].value;
        uint32_t len = w->rows[i].len;
        for (uint32_t k = 0; strcmp(w->rows[i].key, "job/1") == 0 && k + n <= len; k++) {
            if (memcmp(v + k, bytes, n) == 0) {
                memmove(v + k, v + k + n, len - k - n);
                w->rows[i].len = len -= n;
                v[0] = form;
                cut++;
            }
        }
    }
    assert_int_equal(cut, 1);
}

uint32_t cw_ran_bytes(const struct hsp_job *j)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < j->n_marks; i++) {
        n += j->marks[i].ran;
    }
    return 1 + 4 + 4 * n;
}

uint32_t cw_cuts_bytes(const struct hsp_job *j)
{
    uint32_t line = j->att.phase == HSP_ATT_GO ? j->line.n : 0;
    return 4 + 24 * j->cuts.n + 4 + 24 * line;
}

void cw_form_14(struct cw_world *w)
{
    for (uint32_t i = 0; i < w->n_rows; i++) {
        if (strcmp(w->rows[i].key, "job/1") == 0) {
            w->rows[i].len -= cw_cuts_bytes(cw_job(w, 1)) + cw_ran_bytes(cw_job(w, 1));
            ((uint8_t *)w->rows[i].value)[0] = 14;
        }
    }
}

void cw_trusting_row(struct cw_world *w)
{
    const struct hsp_job *j = cw_job(w, 1);
    for (uint32_t i = 0; i < w->n_rows; i++) {
        if (strcmp(w->rows[i].key, "job/1") == 0) {
            w->rows[i].len -= 4 + 8 + 32 * j->n_older + 4 + 1 + 4 + 32 + /* no gaps */
                              cw_cuts_bytes(j) + cw_ran_bytes(j);
            for (uint32_t k = 0; k < j->n_past; k++) {
                w->rows[i].len -= 12 + 12 * j->past[k].n;
            }
            ((uint8_t *)w->rows[i].value)[0] = 10;
        }
    }
}

void cw_untrusting_row(struct cw_world *w)
{
    cw_trusting_row(w);
    static const uint8_t text[] = {
        sizeof CW_TRUSTED - 1, 0, 0, 0, '1', '0', '.', '0', '.', '0', '.', '0', '/', '8'};
    cw_older_row(w, text, sizeof(text), 9);
}

void cw_text(const struct cw_world *w, struct hsp_buf *ret)
{
    hsp_buf_init(ret, 1u << 20);
    hsp_cluster_dump(w->c, ret);
}

const struct hsp_action *cw_find(const struct cw_world *w, enum hsp_action_type type)
{
    for (uint32_t i = 0; i < w->a.n; i++) {
        if (w->a.item[i].type == type) {
            return &w->a.item[i];
        }
    }
    return type == HSP_ACT_REPLY && w->reply.text != NULL ? &w->reply : NULL;
}

uint32_t cw_count_sent(const struct cw_world *w, uint16_t type)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->a.n; i++) {
        bool sends = w->a.item[i].type == HSP_ACT_SEND || w->a.item[i].type == HSP_ACT_PREPARE;
        n += sends && w->a.item[i].msg->type == type;
    }
    return n;
}

void cw_assert_left_alone(const struct cw_world *w)
{
    static const uint16_t orders[] = {HSP_MSG_STOP,   HSP_MSG_RELEASE, HSP_MSG_SEAL,
                                      HSP_MSG_FENCED, HSP_MSG_PREPARE, HSP_MSG_DROP};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        assert_int_equal(cw_count_sent(w, orders[i]), 0);
    }
}

const char *cw_fact(const struct cw_world *w, const char *type)
{
    for (uint32_t i = 0; i < w->a.n; i++) {
        if (w->a.item[i].type == HSP_ACT_FACT && strcmp(w->a.item[i].u.fact->type, type) == 0) {
            return w->a.item[i].u.fact->reason;
        }
    }
    for (uint32_t i = 0; i < w->n_facts_before; i++) {
        if (strcmp(w->before[i].type, type) == 0) {
            return w->before[i].reason;
        }
    }
    return NULL;
}

uint64_t cw_fact_step(const struct cw_world *w, const char *type)
{
    for (uint32_t i = 0; i < w->a.n; i++) {
        if (w->a.item[i].type == HSP_ACT_FACT && strcmp(w->a.item[i].u.fact->type, type) == 0) {
            return w->a.item[i].u.fact->step;
        }
    }
    for (uint32_t i = 0; i < w->n_facts_before; i++) {
        if (strcmp(w->before[i].type, type) == 0) {
            return w->before[i].step;
        }
    }
    return UINT64_MAX;
}

enum hsp_status cw_admin(struct cw_world *w, struct hsp_admin_event a)
{
    a.request = a.request != 0 ? a.request : 1000 + w->now;
    cw_step(w, (struct hsp_event){.type = HSP_EV_ADMIN, .u.admin = a});
    const struct hsp_action *r = cw_find(w, HSP_ACT_REPLY);
    assert_non_null(r);
    assert_int_equal(r->request, a.request);
    return r->status;
}

enum hsp_status cw_order(struct cw_world *w, enum hsp_admin_verb verb, uint32_t job)
{
    return cw_admin(w, (struct hsp_admin_event){.verb = verb, .job = job});
}

enum hsp_status cw_submit(struct cw_world *w, const char *name, int32_t prio, uint32_t min,
                          uint32_t max)
{
    return cw_admin(w, (struct hsp_admin_event){.verb = HSP_ADMIN_SUBMIT,
                                                .spec = {.name = name,
                                                         .priority = prio,
                                                         .min = min,
                                                         .max = max,
                                                         .copies = 2,
                                                         .steps = 100,
                                                         .data_path = "/d.txt"}});
}

void cw_plan(struct cw_world *w, uint32_t job)
{
    uint64_t mem[64] = {0};
    double compute[64];
    uint32_t first[2] = {0, w->n_asked};
    struct hsp_piece_holder pieces[64];
    for (uint32_t i = 0; i < w->n_asked; i++) {
        compute[i] = 1;
        pieces[i] = (struct hsp_piece_holder){i, i};
    }
    struct hsp_plan_info info = {.n_ranks = w->n_asked,
                                 .device = w->asked,
                                 .mem_bytes = mem,
                                 .compute_s = compute,
                                 .n_shards = 1,
                                 .shard_first = first,
                                 .pieces = pieces};
    cw_step(w, (struct hsp_event){.type = HSP_EV_PLAN_DONE,
                                  .u.plan = {.job = job, .ticket = w->ticket, .info = &info}});
}

void cw_plan_in_halves(struct cw_world *w)
{
    uint64_t mem[2] = {0};
    double compute[2] = {1, 1};
    uint32_t first[3] = {0, 1, 2};
    struct hsp_piece_holder pieces[2] = {{0, 0}, {1, 1}};
    struct hsp_plan_info info = {.n_ranks = 2,
                                 .device = w->asked,
                                 .mem_bytes = mem,
                                 .compute_s = compute,
                                 .n_shards = 2,
                                 .shard_first = first,
                                 .pieces = pieces};
    cw_step(w, (struct hsp_event){.type = HSP_EV_PLAN_DONE,
                                  .u.plan = {.job = 1, .ticket = w->ticket, .info = &info}});
}

const struct hsp_job *cw_job(const struct cw_world *w, uint32_t id)
{
    return hsp_cluster_job(w->c, id);
}

void cw_ready(struct cw_world *w, uint32_t id, uint32_t node, uint64_t digest)
{
    cw_msg(
        w, node + 1,
        (struct hsp_msg){
            .type = HSP_MSG_READY,
            .epoch = cw_job(w, id)->att.epoch,
            .u.ready = {.job = id, .data_bytes = 7, .data_tokens = 3, .data_digest = {digest, 1}}});
}

void cw_pass(struct cw_world *w, uint32_t id, uint64_t n, const double *compute, uint32_t n_compute)
{
    double copy[8];
    memcpy(copy, compute, n_compute * sizeof(copy[0]));
    cw_msg(w, 1,
           (struct hsp_msg){
               .type = HSP_MSG_STEP,
               .epoch = cw_job(w, id)->att.epoch != 0 ? cw_job(w, id)->att.epoch
                                                      : cw_job(w, id)->cur.epoch,
               .u.step = {.job = id, .step = n, .n_compute = n_compute, .compute_s = copy}});
}

void cw_sealed(struct cw_world *w, uint32_t node, uint64_t plan, uint64_t version)
{
    struct hsp_m_holding h = {
        .job = 1, .plan = plan, .rank = node, .owner = node, .version = version};
    cw_msg(w, node + 1,
           (struct hsp_msg){.type = HSP_MSG_SEALED,
                            .epoch = cw_job(w, 1)->seal_upto,
                            .u.sealed = {.job = 1, .n_holdings = plan != 0, .holdings = &h}});
}

void cw_let_go(struct cw_world *w, uint32_t id, uint32_t n_nodes)
{
    for (uint32_t i = 0; i < n_nodes; i++) {
        cw_msg(w, i + 1, (struct hsp_msg){.type = HSP_MSG_RELEASED, .u.devref = {.job = id}});
    }
}

const double cw_even[8] = {1, 1, 1, 1, 1, 1, 1, 1};

void cw_run_job(struct cw_world *w, uint32_t n_nodes)
{
    assert_int_equal(cw_submit(w, "j", 0, 1, 8), HSP_OK);
    cw_plan(w, 1);
    for (uint32_t i = 0; i < n_nodes; i++) {
        cw_ready(w, 1, i, 5);
    }
    cw_pass(w, 1, 0, cw_even, n_nodes);
    cw_let_go(w, 1, n_nodes);
    assert_int_equal(cw_job(w, 1)->state, HSP_JOB_RUNNING);
    assert_true(cw_job(w, 1)->cur.settled);
}
