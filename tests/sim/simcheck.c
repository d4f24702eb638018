/* Plays checks of nodes: the orders that the shell of an agent carries out (contract W5 of
 * agent.h), and the verdict that a check must reach. Every figure and every fault names the order
 * it answers, so that an answer that is taken for another one's is seen in the verdict. */
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/index.h"
#include "daemon/cluster/measure.h"
#include "proto/base/check.h"
#include "tests/sim/sim.h"

#define COMPUTE_MS 30000u /* limits of orders, as in node_check.c */
#define LINK_MS    20000u

/* Of check @n, order @seq, by @node. */
static uint32_t code_of(uint32_t n, uint32_t seq, uint32_t node)
{
    return (n * SIM_ORDERS + seq) * SIM_NODES + node;
}

static uint32_t number_of(const char *name)
{
    return (uint32_t)(name[1] - '0'); /* "nK" */
}

/* ---- an agent's shell ---- */

static void begin_order(struct sim *s, uint32_t node, const struct sim_asked *o)
{
    struct sim_shell *k = &s->agent[node].check;
    uint64_t limit = o->link ? LINK_MS : COMPUTE_MS, after = 1 + sim_below(s, 800);
    uint64_t kind = sim_below(s, 20);
    *k = (struct sim_shell){.runs = true, .now = *o, .token = k->token + 1};
    if (kind == 0) {
        return; /* hangs, until it is told to stop */
    }
    if (kind == 1) {
        after = limit - 60 + sim_below(s, 60); /* on its way when it is given up */
    }
    sim_push(s, s->now + after,
             (struct sim_ev){
                 .type = SIM_E_A_CHECKED, .who = node, .gen = s->agent[node].gen, .num = k->token});
}

void sim_shell_stop(struct sim *s, uint32_t node)
{
    struct sim_shell *k = &s->agent[node].check;
    k->waits = false;
    if (!k->runs || k->stopped) {
        return;
    }
    k->stopped = true;
    k->token++; /* "fails soon": a computation is not interrupted */
    sim_push(s, s->now + 1 + sim_below(s, sim_below(s, 4) == 0 ? 3000 : 50),
             (struct sim_ev){
                 .type = SIM_E_A_CHECKED, .who = node, .gen = s->agent[node].gen, .num = k->token});
}

void sim_shell_order(struct sim *s, uint32_t node, const struct hsp_m_check *m)
{
    struct sim_shell *k = &s->agent[node].check;
    if (m->check >= SIM_PROBES) { /* of a link, not of an administrator */
        sim_probe(s, node, m);
        return;
    }
    struct sim_asked o = {.check = m->check, .seq = m->seq, .link = m->what == HSP_CHECK_LINK};
    memcpy(&o.n, m->key, sizeof(o.n));
    if (m->what == HSP_CHECK_STOP || m->what == HSP_CHECK_END) {
        sim_shell_stop(s, node);
    } else if (!k->runs) {
        begin_order(s, node, &o);
    } else if (k->stopped) {
        k->next = o;
        k->waits = true;
    } else {
        sim_fail(s, "agent n%u: two orders of a check at once", node);
    }
}

void sim_shell_done(struct sim *s, uint32_t node, uint64_t token)
{
    struct sim_shell *k = &s->agent[node].check;
    if (!k->runs || token != k->token) {
        return; /* told to stop since */
    }
    struct sim_asked o = k->now;
    struct hsp_m_figures f = {.gemm_fp32_flops = code_of(o.n, o.seq, node), .share = 1};
    bool stopped = k->stopped && sim_below(s, 2) == 0; /* or it had just ended */
    char fault[64] = "";
    if (stopped || sim_below(s, 8) == 0) {
        (void)snprintf(fault, sizeof(fault), "%s #%u", stopped ? "stopped" : "it cannot",
                       code_of(o.n, o.seq, node));
    }
    struct hsp_msg m = {.type = HSP_MSG_CHECKED,
                        .u.checked = {.check = o.check,
                                      .seq = o.seq,
                                      .fault = fault,
                                      .address = "x",
                                      .transport = o.link ? "shm" : "",
                                      .latency_s = o.link ? code_of(o.n, o.seq, node) : 0,
                                      .bytes_per_s = 1e9,
                                      .n_devices = !o.link && fault[0] == '\0',
                                      .devices = &f}};
    struct sim_asked next = k->next;
    bool waits = k->waits;
    k->runs = k->waits = false;
    sim_a_step(s, node, (struct hsp_agent_event){.type = HSP_AEV_CHECKED, .msg = &m});
    if (waits && s->agent[node].alive) {
        begin_order(s, node, &next);
    }
}

/* ---- actions of the coordinator ---- */

static const struct hsp_cluster_node *core_node(const struct sim *s, uint32_t node)
{
    char name[16];
    (void)snprintf(name, sizeof(name), "n%u", node);
    return hsp_cluster_node_by_name(s->d, name);
}

static bool executes(const struct sim *s, uint32_t node)
{
    const struct hsp_cluster_node *n = core_node(s, node);
    bool any = false;
    for (uint32_t d = 0; n != NULL && d < HSP_NODE_DEVICES; d++) {
        any = any || n->dev[d].job != 0;
    }
    return any;
}

void sim_check_before(struct sim *s, const struct hsp_event *ev)
{
    bool begins = ev->type == HSP_EV_ADMIN && ev->u.admin.verb == HSP_ADMIN_CHECK;
    s->checks.executed = 0;
    for (uint32_t i = 0; (begins || s->checks.open) && i < s->n_nodes; i++) {
        s->checks.executed |= (executes(s, i) ? 1u : 0u) << i;
    }
}

/* As far as can be known: one without executors has not said where it is. */
static bool one_host(const struct sim *s, uint32_t a, uint32_t b)
{
    bool known = hsp_cluster_listener(core_node(s, a)) != NULL &&
                 hsp_cluster_listener(core_node(s, b)) != NULL;
    return a == b || (s->two_a_host && a / 2 == b / 2 && known);
}

static void order_sent(struct sim *s, uint32_t conn, const struct hsp_m_check *m)
{
    struct sim_checks *c = &s->checks;
    uint32_t node = s->conn_node[conn], side = m->what == HSP_CHECK_LINK ? m->rank : 0;
    for (uint32_t q = 1; q < SIM_ORDERS; q++) {
        for (uint32_t k = 0; k < 2; k++) {
            const struct sim_order *o = &c->order[q];
            if (o->open[k] && q != m->seq && one_host(s, o->node[k], node)) {
                sim_fail(s, "a check orders two things at once on the host of n%u", node);
            }
        }
    }
    if (!s->d->check.terms.busy && (c->executed >> node & 1) != 0 && executes(s, node)) {
        sim_fail(s, "a check disturbs n%u, which executes a job", node);
    }
    c->order[m->seq].link = m->what == HSP_CHECK_LINK;
    c->order[m->seq].open[side] = true;
    c->order[m->seq].node[side] = node;
    c->order[m->seq].incarnation[side] = core_node(s, node)->incarnation;
    c->order[m->seq].sent_ms = s->now;
}

void sim_check_sent(struct sim *s, uint32_t conn, struct hsp_m_check *m)
{
    struct sim_checks *c = &s->checks;
    uint32_t node = s->conn_node[conn];
    memcpy(m->key, &c->n, sizeof(c->n));
    if (m->check >= SIM_PROBES) {
        return;
    }
    if (m->seq >= SIM_ORDERS) {
        sim_fail(s, "a check has more orders than nodes and pairs");
        return;
    }
    if (m->what == HSP_CHECK_COMPUTE || m->what == HSP_CHECK_LINK) {
        order_sent(s, conn, m);
        return;
    }
    for (uint32_t q = 1; q < SIM_ORDERS; q++) {
        for (uint32_t k = 0; k < 2; k++) {
            bool meant = m->what == HSP_CHECK_END || q == m->seq;
            c->order[q].open[k] = c->order[q].open[k] && !(meant && c->order[q].node[k] == node);
        }
    }
}

void sim_check_begun(struct sim *s)
{
    struct sim_checks *c = &s->checks;
    const struct hsp_check *k = &s->d->check;
    if (c->open) {
        sim_fail(s, "a check begins while another is under way");
    }
    c->open = true;
    c->stopping = false;
    c->n++;
    memset(c->order, 0, sizeof(c->order));
    c->until = s->now + (uint64_t)k->n_nodes * COMPUTE_MS + (uint64_t)k->n_pairs * LINK_MS + 1000;
}

/* ---- answers ---- */

static const struct hsp_check_node *node_of(const struct sim *s, uint32_t node)
{
    const struct hsp_check *k = &s->d->check;
    for (uint32_t i = 0; i < k->n_nodes; i++) {
        if (number_of(s->d->nodes[k->nodes[i].node].name) == node) {
            return &k->nodes[i];
        }
    }
    return NULL;
}

static const struct hsp_check_pair *pair_of(const struct sim *s, uint32_t a, uint32_t b)
{
    const struct hsp_check *k = &s->d->check;
    for (uint32_t i = 0; i < k->n_pairs; i++) {
        if (&k->nodes[k->pairs[i].a] == node_of(s, a) &&
            &k->nodes[k->pairs[i].b] == node_of(s, b)) {
            return &k->pairs[i];
        }
    }
    return NULL;
}

/* The order that is under way and answered by @m. */
static struct sim_order *answered(struct sim *s, uint32_t conn, const struct hsp_m_checked *m,
                                  uint32_t *ret_side)
{
    const char *mark = strchr(m->fault, '#');
    uint32_t node = s->conn_node[conn];
    uint32_t code = mark != NULL        ? (uint32_t)strtoul(mark + 1, NULL, 10)
                    : m->n_devices != 0 ? (uint32_t)m->devices[0].gemm_fp32_flops
                                        : (uint32_t)m->latency_s;
    struct sim_order *o = &s->checks.order[m->seq < SIM_ORDERS ? m->seq : 0];
    for (uint32_t k = 0; k < 2; k++) {
        if (o->open[k] && o->node[k] == node && code == code_of(s->checks.n, m->seq, node)) {
            *ret_side = k;
            return o;
        }
    }
    return NULL; /* it was given up */
}

/* The figures of @m must be in the check now. */
static void must_be_taken(struct sim *s, const struct sim_order *o, uint32_t side,
                          const struct hsp_m_checked *m)
{
    bool ok = m->fault[0] == '\0', taken;
    enum hsp_check_state want = ok ? HSP_CHECK_DONE : HSP_CHECK_FAILED;
    if (o->link) {
        const struct hsp_check_pair *p = pair_of(s, o->node[0], o->node[1]);
        want = ok && !(p->end[0].said && p->end[1].said) ? HSP_CHECK_RUNS : want;
        bool late = want == HSP_CHECK_RUNS && s->now >= o->sent_ms + LINK_MS; /* the other one is */
        taken = p->end[side].said && (p->state == want || late);
    } else {
        const struct hsp_check_node *k = node_of(s, o->node[0]);
        taken = k != NULL && k->state == want;
    }
    if (!taken) {
        sim_fail(s, "a check: the answer of n%u to order %u is not taken", o->node[side], m->seq);
    }
}

void sim_check_after(struct sim *s, const struct hsp_event *ev)
{
    bool checked = ev->type == HSP_EV_MSG && ev->u.msg->type == HSP_MSG_CHECKED;
    uint32_t side = 0;
    struct sim_order *o =
        checked && s->checks.open ? answered(s, ev->conn, &ev->u.msg->u.checked, &side) : NULL;
    if (o != NULL) {
        o->open[side] = false;
        must_be_taken(s, o, side, &ev->u.msg->u.checked);
    }
    for (uint32_t q = 1; s->checks.open && q < SIM_ORDERS; q++) {
        /* an order ends with the connection, and with the agent */
        for (uint32_t k = 0; k < 2; k++) {
            o = &s->checks.order[q];
            const struct hsp_cluster_node *n = o->open[k] ? core_node(s, o->node[k]) : NULL;
            o->open[k] = n != NULL && n->conn != 0 && n->incarnation == o->incarnation[k];
        }
    }
}

/* ---- the verdict ---- */

/* True when @code stands for the answer of @node to the order of this check for its devices. */
static bool of_devices(const struct sim *s, uint32_t code, uint32_t node)
{
    uint32_t seq = code / SIM_NODES % SIM_ORDERS;
    const struct sim_order *o = &s->checks.order[seq];
    return code == code_of(s->checks.n, seq, node) && !o->link && o->node[0] == node;
}

/* The same of the link between @a and @b. */
static bool of_link(const struct sim *s, uint32_t code, uint32_t node, uint32_t a, uint32_t b)
{
    uint32_t seq = code / SIM_NODES % SIM_ORDERS;
    const struct sim_order *o = &s->checks.order[seq];
    return code == code_of(s->checks.n, seq, node) && o->link && o->node[0] == a && o->node[1] == b;
}

/* The answer a reason quotes; 0: it quotes none. */
static uint32_t quoted(const char *why)
{
    const char *mark = strchr(why, '#');
    return mark != NULL ? (uint32_t)strtoul(mark + 1, NULL, 10) : 0;
}

static void judge_node(struct sim *s, const struct hsp_check_node *k)
{
    uint32_t node = number_of(s->d->nodes[k->node].name);
    uint32_t why = quoted(k->why);
    bool ok = false;
    if (k->state == HSP_CHECK_DONE) {
        ok = k->n_devices == 1 && of_devices(s, (uint32_t)k->devices[0].gemm_fp32_flops, node);
    } else if (k->state == HSP_CHECK_SKIPPED) {
        ok = k->why[0] != '\0' && !s->d->check.terms.busy;
    } else if (k->state == HSP_CHECK_FAILED) {
        ok = k->why[0] != '\0' && (why == 0 || of_devices(s, why, node));
    }
    if (!ok) {
        sim_fail(s, "a check ends with n%u in state %d: %s", node, (int)k->state, k->why);
    }
    s->checks.n_measured += k->state == HSP_CHECK_DONE;
}

static void judge_pair(struct sim *s, const struct hsp_check_pair *p)
{
    const struct hsp_check *k = &s->d->check;
    uint32_t a = number_of(s->d->nodes[k->nodes[p->a].node].name);
    uint32_t b = number_of(s->d->nodes[k->nodes[p->b].node].name);
    bool ends = k->nodes[p->a].state == HSP_CHECK_DONE && k->nodes[p->b].state == HSP_CHECK_DONE;
    uint32_t why = quoted(p->why);
    bool ok = false;
    if (p->state == HSP_CHECK_DONE) {
        ok = ends && p->end[0].said && p->end[1].said &&
             of_link(s, (uint32_t)p->end[0].latency_s, a, a, b) &&
             of_link(s, (uint32_t)p->end[1].latency_s, b, a, b);
    } else if (p->state == HSP_CHECK_SKIPPED) {
        ok = p->why[0] != '\0' && !k->terms.busy;
    } else if (p->state == HSP_CHECK_FAILED) {
        bool node = of_devices(s, why, a) || of_devices(s, why, b);
        bool link = of_link(s, why, a, a, b) || of_link(s, why, b, a, b);
        ok = p->why[0] != '\0' && (why == 0 || (ends ? link : node));
    }
    if (!ok) {
        sim_fail(s, "a check ends with pair n%u, n%u in state %d: %s", a, b, (int)p->state, p->why);
    }
}

void sim_check_reply(struct sim *s, const struct hsp_action *a)
{
    struct sim_checks *c = &s->checks;
    const struct hsp_check *k = &s->d->check;
    if (a->request != c->request || !c->open) {
        if (a->status == HSP_OK || a->text[0] == '\0') {
            sim_fail(s, "a check that does not begin is answered by %d: %s", (int)a->status,
                     a->text);
        }
        return;
    }
    c->open = false;
    if (a->status != (c->stopping ? HSP_ECANCELED : HSP_OK)) {
        sim_fail(s, "a check is answered by %d: %s", (int)a->status, a->text);
    }
    for (uint32_t q = 1; q < SIM_ORDERS; q++) {
        if (c->order[q].open[0] || c->order[q].open[1]) {
            sim_fail(s, "a check ends and order %u goes on", q);
        }
    }
    for (uint32_t i = 0; !c->stopping && i < k->n_nodes; i++) {
        judge_node(s, &k->nodes[i]);
    }
    for (uint32_t i = 0; !c->stopping && i < k->n_pairs; i++) {
        judge_pair(s, &k->pairs[i]);
    }
    c->n_ended += !c->stopping;
}

void sim_check_watch(struct sim *s)
{
    const struct sim_checks *c = &s->checks;
    if (c->open != s->d->check.active) {
        sim_fail(s, "a check %s and nobody is told", c->open ? "has ended" : "goes on");
    } else if (c->open && s->now > c->until) {
        sim_fail(s, "a check does not end");
    }
}

/* ---- commands of an administrator ---- */

void sim_check_ask(struct sim *s, bool busy, uint32_t n_names)
{
    static char name[2][4];
    const char *names[2] = {name[0], name[1]};
    HSP_ASSERT(n_names <= 2);
    for (uint32_t i = 0; i < n_names; i++) {
        (void)snprintf(name[i], sizeof(name[i]), "n%u", (uint32_t)sim_below(s, s->n_nodes) % 10);
    }
    uint64_t request = SIM_CHECK_REQUEST + s->checks.n_asked++;
    if (!s->checks.open) {
        s->checks.request = request;
    }
    sim_admin(s, (struct hsp_admin_event){
                     .verb = HSP_ADMIN_CHECK,
                     .request = request,
                     .check = {.busy = busy, .threshold = 0.7, .n_nodes = n_names, .node = names}});
}

void sim_check_stop(struct sim *s)
{
    if (!s->d_alive || s->d_paused) {
        return;
    }
    s->checks.stopping = s->checks.open;
    sim_admin(s,
              (struct hsp_admin_event){.verb = HSP_ADMIN_CHECK_STOP, .request = s->checks.request});
    if (s->checks.open) {
        sim_fail(s, "a check that is stopped goes on");
    }
}
