#include "daemon/cluster/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/allocate.h"
#include "daemon/cluster/broken_pairs.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/link_probe.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/plan_info.h"
#include "daemon/cluster/waits.h"
#include "proto/base/size.h"
#include "proto/base/str.h"
#include "proto/base/vec.h"

#define STEPS 10u /* median steps in a period, at least */
/* periods that a transfer, validation or checkpoint may last before one was timed */
#define LONG      20u
#define ANSWER_MS 750u
#define SLOW_PART 0.5 /* of the rate of plans: less is slow */
#define NAMED     2u  /* periods running: it is a fact */

static const char *const doing_texts[] = {
    [HSP_DOING_PREPARE] = "has not begun",
    [HSP_DOING_MOVE] = "fetches the state",
    [HSP_DOING_COMPUTE] = "computes",
    [HSP_DOING_RECEIVE] = "receives from",
    [HSP_DOING_SEND] = "sends to",
    [HSP_DOING_COPY] = "copies a version",
    [HSP_DOING_CHECKPOINT] = "writes a checkpoint",
    [HSP_DOING_FINISH] = "writes the final model",
    [HSP_DOING_NOTHING] = "has nothing to do",
};

const char *hsp_doing_text(enum hsp_doing d)
{
    return (unsigned)d < HSP_ARRAY_LEN(doing_texts) ? doing_texts[d] : "?";
}

/* ---- times ---- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Seconds; 0: no step was timed. */
static double median_step(const struct hsp_progress *p)
{
    double took[HSP_STEP_TIMES];
    uint32_t n = p->n_took < HSP_STEP_TIMES ? p->n_took : HSP_STEP_TIMES;
    if (n == 0) {
        return 0;
    }
    memcpy(took, p->took_s, n * sizeof(took[0]));
    qsort(took, n, sizeof(took[0]), ascending);
    return took[(n - 1) / 2];
}

uint32_t hsp_cluster_period_ms(const struct hsp_cluster *c, const struct hsp_job *j)
{
    double ms = 1e3 * STEPS * median_step(&j->progress);
    return ms < c->cfg.dead_ms ? c->cfg.dead_ms : ms < 1e9 ? (uint32_t)ms : 1000000000u;
}

hsp_msec hsp_ci_progress_due(const struct hsp_job *j)
{
    const struct hsp_progress *p = &j->progress;
    hsp_msec next = p->due_ms < p->look_ms ? p->due_ms : p->look_ms;
    return p->epoch == 0 ? HSP_NEVER : p->round != 0 ? p->answer_ms : next;
}

/* ---- the epoch that is watched ---- */

const struct hsp_cl_epoch *hsp_cluster_watched(const struct hsp_job *j)
{
    if (hsp_ci_attempt_gone(j)) {
        return &j->att;
    }
    bool told = j->state == HSP_JOB_FINISHING && j->unwritten == j->cur.epoch; /* why it waits */
    return hsp_ci_job_runs(j) && !told ? &j->cur : NULL;
}

/* Sources are not needed behind the first vote. */
static uint32_t n_watched(const struct hsp_cl_epoch *e)
{
    return e->settled ? hsp_ci_participants(e) : e->n_peers;
}

static void forget(struct hsp_progress *p)
{
    p->periods = p->times = 0;
    p->moved_once = false;
    p->says[0] = '\0';
}

static void begin(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cl_epoch *e)
{
    struct hsp_progress *p = &j->progress;
    uint32_t n = n_watched(e);
    if (!hsp_grow(&p->stand, &p->cap, n, sizeof(*p->stand), HSP_MSG_RANKS)) {
        c->failed = true;
        return;
    }
    forget(p);
    p->round = 0;
    p->n = n;
    memset(p->stand, 0, n * sizeof(*p->stand));
    p->epoch = e->epoch;
    p->stable = j->stable > e->step ? j->stable : e->step;
    p->since_ms = c->now_ms;
    p->due_ms = c->now_ms + hsp_cluster_period_ms(c, j);
    p->look_ms = c->now_ms + c->cfg.retune_ms;
}

/* ---- votes ---- */

static void moved_on(struct hsp_cluster *c, struct hsp_job *j, uint64_t stable)
{
    struct hsp_progress *p = &j->progress;
    uint32_t period = hsp_cluster_period_ms(c, j);
    hsp_msec took = c->now_ms - p->since_ms;
    if (p->says[0] != '\0') {
        hsp_ci_fact(c, "job.progress", HSP_SEV_NOTICE, j, NULL,
                    "a vote has passed again, after %.1f s", 1e-3 * (double)took);
    }
    if (took < period) {
        forget(p);
    }
    p->says[0] = '\0';
    p->round = p->looks ? p->round : 0;
    p->moved_once = false;
    p->stable = stable;
    p->since_ms = c->now_ms;
    p->due_ms = c->now_ms + period;
}

void hsp_ci_progress_vote(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_m_step *s)
{
    struct hsp_progress *p = &j->progress;
    if (p->epoch != j->cur.epoch || s->step < p->stable) {
        return; /* repeated; or it is not looked at yet */
    }
    bool special = p->special || !isnan(s->val_loss), stalled = p->periods > 0;
    p->special = j->checkpoint_every > 0 && s->step > 0 && s->step % j->checkpoint_every == 0;
    moved_on(c, j, s->step);
    bool first = s->step == j->cur.step; /* the first step warms up, and includes no update */
    if (first || !(s->seconds > 0 && s->seconds < 1e6)) {
        return;
    }
    if (!special) {
        p->took_s[p->n_took++ % HSP_STEP_TIMES] = s->seconds;
    } else if (!stalled && s->seconds > p->special_s) {
        p->special_s = s->seconds;
    }
}

/* ---- questions and answers ---- */

static void ask(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cl_epoch *e, bool looks)
{
    struct hsp_progress *p = &j->progress;
    p->looks = looks;
    p->look_ms = c->now_ms + c->cfg.retune_ms;
    c->next_round = c->next_round < UINT32_MAX ? c->next_round + 1 : 1;
    p->round = c->next_round;
    p->answer_ms = c->now_ms + ANSWER_MS;
    for (uint32_t i = 0; i < p->n; i++) {
        hsp_device_id d = e->peers[i].device;
        struct hsp_msg m = {.type = HSP_MSG_WHERE,
                            .epoch = e->epoch,
                            .u.where = {j->id, HSP_DEVICE_INDEX(d), p->round}};
        p->stand[i].said = false;
        hsp_ci_send(c, hsp_ci_node(c, d)->conn, &m);
    }
}

/* Takes the links with the most bytes on their way. */
static void take_links(const struct hsp_cl_epoch *said, const struct hsp_m_stands *s,
                       struct hsp_stand *to)
{
    to->n_links = 0;
    for (uint32_t i = 0; i < s->n_links; i++) {
        const struct hsp_m_link *l = &s->links[i];
        if (l->peer >= said->n_peers || (l->unsent == 0 && !l->held)) {
            continue;
        }
        uint32_t at = to->n_links < HSP_STAND_LINKS ? to->n_links++ : HSP_STAND_LINKS;
        for (uint32_t k = 0; at == HSP_STAND_LINKS && k < HSP_STAND_LINKS; k++) {
            at = to->link[k].unsent < l->unsent ? k : at;
        }
        if (at < HSP_STAND_LINKS) {
            to->link[at] = (struct hsp_stand_link){said->peers[l->peer].device, l->unsent, l->held};
        }
    }
}

/* Messages come more slowly than plans reckon with. The fastest of a minute counts, as others may
 * have been on their way beside the rest. */
static void doubt_links(struct hsp_cluster *c, const struct hsp_cluster_node *n,
                        const struct hsp_cl_epoch *said, const struct hsp_m_stands *s)
{
    uint32_t here = hsp_ci_index_of(c, n);
    for (uint32_t i = 0; i < s->n_links; i++) {
        const struct hsp_m_link *l = &s->links[i];
        if (l->peer >= said->n_peers || !(l->bytes_per_s > 0)) {
            continue;
        }
        uint32_t there = HSP_DEVICE_NODE(said->peers[l->peer].device);
        double known = hsp_ci_pair_rate(c, here, there);
        double planned = known > 0 ? known : hsp_cluster_planned_rate(c, here, there);
        if (l->bytes_per_s < SLOW_PART * planned) {
            hsp_ci_pair_doubt(c, here, there);
            c->dirty = true;
        }
    }
}

void hsp_ci_stands(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cluster_node *n,
                   const struct hsp_msg *m)
{
    const struct hsp_m_stands *s = &m->u.stands;
    const struct hsp_cl_epoch *e = hsp_cluster_watched(j);
    const struct hsp_cl_epoch *said = m->epoch == j->att.epoch ? &j->att : &j->cur;
    hsp_device_id d = HSP_DEVICE(hsp_ci_index_of(c, n), s->device);
    const struct hsp_epoch_peer *peer = e != NULL ? hsp_ci_peer(e, d) : NULL;
    uint32_t at = peer != NULL ? (uint32_t)(peer - e->peers) : UINT32_MAX;
    if (e == NULL || e->epoch != j->progress.epoch || at >= j->progress.n) {
        return;
    }
    struct hsp_stand *to = &j->progress.stand[at];
    *to = (struct hsp_stand){.said = true,
                             .step = s->step,
                             .stable = s->stable,
                             .moved = s->moved,
                             .validation = s->validation,
                             .checkpoint = s->checkpoint,
                             .micro = s->micro,
                             .instruction = s->instruction,
                             .n_threads = s->n_threads < 2 ? s->n_threads : 2};
    for (uint32_t k = 0; k < to->n_threads; k++) {
        bool known = s->threads[k].peer < said->n_peers;
        to->thread[k] = (struct hsp_stand_thread){
            (enum hsp_doing)s->threads[k].doing,
            known ? said->peers[s->threads[k].peer].device : HSP_NO_DEVICE, s->threads[k].since_ms};
    }
    take_links(said, s, to);
    doubt_links(c, n, said, s);
}

static bool all_said(const struct hsp_cluster *c, const struct hsp_progress *p,
                     const struct hsp_cl_epoch *e)
{
    for (uint32_t i = 0; i < p->n; i++) {
        if (!p->stand[i].said && hsp_ci_node(c, e->peers[i].device)->conn != 0) {
            return false;
        }
    }
    return true;
}

/* ---- the graph: vertices 2 i and 2 i + 1 are the threads of rank i ---- */

static uint32_t index_of(const struct hsp_progress *p, const struct hsp_cl_epoch *e,
                         hsp_device_id d)
{
    const struct hsp_epoch_peer *x = d != HSP_NO_DEVICE ? hsp_ci_peer(e, d) : NULL;
    uint32_t at = x != NULL ? (uint32_t)(x - e->peers) : UINT32_MAX;
    return at < p->n ? at : UINT32_MAX;
}

static const struct hsp_stand_link *link_to(const struct hsp_stand *s, hsp_device_id d)
{
    for (uint32_t i = 0; i < s->n_links; i++) {
        if (s->link[i].peer == d) {
            return &s->link[i];
        }
    }
    return NULL;
}

/* Whether bytes of @from for @to are under way, and @to reads all that comes. */
static bool under_way(const struct hsp_progress *p, const struct hsp_cl_epoch *e, uint32_t from,
                      uint32_t to)
{
    const struct hsp_stand_link *out = link_to(&p->stand[from], e->peers[to].device);
    const struct hsp_stand_link *in = link_to(&p->stand[to], e->peers[from].device);
    bool far = HSP_DEVICE_NODE(e->peers[from].device) != HSP_DEVICE_NODE(e->peers[to].device);
    return far && out != NULL && out->unsent > 0 && (in == NULL || !in->held);
}

/* The thread of rank @to for which thread @k of rank @from waits. */
static uint32_t vertex_of(const struct hsp_progress *p, uint32_t from, uint32_t k, uint32_t to)
{
    const struct hsp_stand *s = &p->stand[to];
    bool copies = k == 1 || p->stand[from].thread[0].doing == HSP_DOING_COPY;
    return 2 * to + (copies && s->n_threads > 1 ? 1 : 0);
}

static struct hsp_wait wait_of(const struct hsp_progress *p, const struct hsp_cl_epoch *e,
                               uint32_t i, uint32_t k)
{
    const struct hsp_stand *s = &p->stand[i];
    struct hsp_wait w = {.on = HSP_WAITS_NOBODY, .node = HSP_DEVICE_NODE(e->peers[i].device)};
    if (!s->said || k >= s->n_threads) {
        return w;
    }
    const struct hsp_stand_thread *t = &s->thread[k];
    uint32_t peer = index_of(p, e, t->peer);
    w.since_ms = t->since_ms;
    if (t->doing == HSP_DOING_COPY && k == 0 && s->n_threads > 1) {
        w.on = 2 * i + 1;
    } else if (peer != UINT32_MAX && peer != i && t->doing == HSP_DOING_RECEIVE) {
        w.on = vertex_of(p, i, k, peer);
        w.link = under_way(p, e, peer, i);
    } else if (peer != UINT32_MAX && peer != i && t->doing == HSP_DOING_SEND) {
        w.on = vertex_of(p, i, k, peer);
        w.link = under_way(p, e, i, peer);
    }
    return w;
}

/* ---- texts for people ---- */

static const char *stands_text(struct hsp_cluster *c, const struct hsp_progress *p,
                               const struct hsp_cl_epoch *e, uint32_t vertex)
{
    uint32_t i = vertex / 2;
    const struct hsp_stand *s = &p->stand[i];
    const struct hsp_stand_thread *t = &s->thread[vertex % 2];
    const char *name = hsp_ci_device_name(c, e->peers[i].device);
    if (!s->said) {
        return hsp_ci_printf(c, "rank %u (%s) does not report its progress", i, name);
    }
    uint32_t peer = index_of(p, e, t->peer);
    const char *whom =
        peer == UINT32_MAX
            ? ""
            : hsp_ci_printf(c, " rank %u (%s)", peer, hsp_ci_device_name(c, e->peers[peer].device));
    const char *where =
        s->instruction == UINT32_MAX
            ? ""
            : hsp_ci_printf(c, ", micro-batch %u, instruction %u", s->micro, s->instruction);
    return hsp_ci_printf(c, "rank %u (%s) %s%s for %.1f s in step %llu%s%s", i, name,
                         hsp_doing_text(t->doing), whom, 1e-3 * (double)t->since_ms,
                         (unsigned long long)s->step, s->validation ? ", validation" : "", where);
}

/* Nobody waits for a peer: the rank that is the furthest behind. */
static struct hsp_culprit last_of(const struct hsp_progress *p)
{
    uint32_t last = 0;
    for (uint32_t i = 1; i < p->n; i++) {
        const struct hsp_stand *a = &p->stand[i], *b = &p->stand[last];
        bool behind = a->step != b->step ? a->step < b->step : a->moved < b->moved;
        last = a->said != b->said ? (a->said ? last : i) : behind ? i : last;
    }
    return (struct hsp_culprit){HSP_CULPRIT_THREAD, 2 * last, HSP_WAITS_NOBODY, 0};
}

static const char *culprit_text(struct hsp_cluster *c, const struct hsp_progress *p,
                                const struct hsp_cl_epoch *e, const struct hsp_culprit *u)
{
    const char *at = stands_text(c, p, e, u->at);
    const char *who =
        u->waiters == 1 ? "1 thread waits" : hsp_ci_printf(c, "%u threads wait", u->waiters);
    if (u->kind == HSP_CULPRIT_THREAD) {
        return u->waiters == 0 ? hsp_ci_printf(c, "no rank waits for another; %s", at)
                               : hsp_ci_printf(c, "%s for one rank: %s", who, at);
    }
    const char *a = hsp_ci_node(c, e->peers[u->at / 2].device)->name;
    const char *b = hsp_ci_node(c, e->peers[u->on / 2].device)->name;
    return u->kind == HSP_CULPRIT_LINK
               ? hsp_ci_printf(c, "%s for the connection between %s and %s: %s", who, a, b, at)
               : hsp_ci_printf(c, "%s in a circle: %s", who, at);
}

static bool is_power_of_two(uint32_t n)
{
    return (n & (n - 1)) == 0;
}

static void tell(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cl_epoch *e,
                 const struct hsp_culprit *u, bool news)
{
    struct hsp_progress *p = &j->progress;
    double median = median_step(p);
    hsp_str_printf(p->says, sizeof(p->says), "no vote for %.1f s%s: %s",
                   1e-3 * (double)(c->now_ms - p->since_ms),
                   median > 0 ? hsp_ci_printf(c, ", a step takes %.3g s", median) : "",
                   culprit_text(c, p, e, u));
    if (news || is_power_of_two(p->periods)) {
        hsp_ci_fact(c, "job.stalled", HSP_SEV_WARN, j, hsp_ci_node(c, e->peers[u->at / 2].device),
                    "%s", p->says);
    }
}

/* ---- judgement ---- */

/* True while work that takes long by its nature is under way, and moves. */
static bool goes_on(struct hsp_cluster *c, const struct hsp_job *j, struct hsp_progress *p)
{
    double limit_ms = 0, any_ms = 1.0 * LONG * hsp_cluster_period_ms(c, j);
    double special_ms = p->special_s > 0 ? 1e3 * STEPS * p->special_s : any_ms;
    uint64_t moved = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct hsp_stand *s = &p->stand[i];
        moved += s->said ? s->moved : 0;
        bool special = s->said && (s->validation || s->checkpoint), moves = false;
        for (uint32_t k = 0; s->said && k < s->n_threads; k++) {
            moves = moves || s->thread[k].doing == HSP_DOING_MOVE;
        }
        double ms = moves ? any_ms : special ? special_ms : 0;
        limit_ms = ms > limit_ms ? ms : limit_ms;
    }
    bool moves = !p->moved_once || moved != p->moved;
    p->moved = moved;
    p->moved_once = true;
    return moves && (double)(c->now_ms - p->since_ms) < limit_ms;
}

/* Notes the culprit; true: another one than in the period before. */
static bool note_name(struct hsp_progress *p, const struct hsp_cl_epoch *e,
                      const struct hsp_culprit *u)
{
    bool by_link = u->kind == HSP_CULPRIT_LINK;
    uint32_t a = HSP_DEVICE_NODE(e->peers[u->at / 2].device);
    uint32_t b = by_link ? HSP_DEVICE_NODE(e->peers[u->on / 2].device) : a;
    uint32_t lo = a < b ? a : b, hi = a < b ? b : a;
    bool same = p->times > 0 && p->by_link == by_link && p->link_a == lo && p->link_b == hi;
    p->by_link = by_link;
    p->link_a = lo;
    p->link_b = hi;
    p->times = same ? p->times + 1 : 1;
    return !same;
}

static void name_culprit(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cl_epoch *e)
{
    struct hsp_progress *p = &j->progress;
    struct hsp_wait *w = hsp_ci_alloc(c, (size_t)2 * p->n, sizeof(*w));
    struct hsp_waits_place *scratch = hsp_ci_alloc(c, (size_t)2 * p->n, sizeof(*scratch));
    struct hsp_culprit u;
    if (w == NULL || scratch == NULL) {
        return;
    }
    for (uint32_t v = 0; v < 2 * p->n; v++) {
        w[v] = wait_of(p, e, v / 2, v % 2);
    }
    if (!hsp_waits_culprit(w, 2 * p->n, scratch, &u)) {
        u = last_of(p);
    }
    tell(c, j, e, &u, note_name(p, e, &u));
}

/* ---- a link that is named twice, or that has fallen silent before ---- */

/* Each part of layout @p has a holder elsewhere, or @node reaches another node that passes the part
 * on. */
static bool has_state_without(const struct hsp_cluster *c, const struct hsp_plan_info *p,
                              uint32_t node, uint32_t other)
{
    bool all = true;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        if (i != node && i != other && c->nodes[i].conn != 0 && !hsp_ci_apart(c, i, node)) {
            return true;
        }
    }
    for (uint32_t s = 0; s < p->n_shards && all; s++) {
        bool some = false;
        for (uint32_t k = p->shard_first[s]; k < p->shard_first[s + 1]; k++) {
            some = some || HSP_DEVICE_NODE(hsp_ci_holder(p, p->pieces[k].holder)) != node;
        }
        all = some;
    }
    return all;
}

/* The job can train without @node, as far as devices and state go. Planning may find otherwise. */
static bool can_do_without(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cl_epoch *e,
                           uint32_t node, uint32_t other)
{
    const struct hsp_job_plan *p = hsp_ci_plan(j, e->plan);
    hsp_device_id *dev;
    uint32_t n = hsp_ci_available(c, j, &dev), left = 0;
    for (uint32_t i = 0; i < n; i++) {
        left += HSP_DEVICE_NODE(dev[i]) != node;
    }
    return left > 0 && left >= j->min && p != NULL && has_state_without(c, &p->info, node, other);
}

static void avoid_link(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cl_epoch *e)
{
    const struct hsp_progress *p = &j->progress;
    uint32_t a = p->link_a, b = p->link_b;
    bool silent = p->by_link && a != b && hsp_ci_pair_stalled(c, a, b);
    if (!p->by_link || (p->times < NAMED && !silent) || a == b ||
        (!can_do_without(c, j, e, a, b) && !can_do_without(c, j, e, b, a))) {
        return;
    }
    const char *why = hsp_ci_printf(c, "job %s waited %.1f s for it", j->name,
                                    1e-3 * (double)(c->now_ms - p->since_ms));
    if (hsp_ci_pair_slow(c, a, b, why)) {
        hsp_ci_job_loss(c, j,
                        hsp_ci_printf(c, "the connection between %s and %s is too slow",
                                      c->nodes[a].name, c->nodes[b].name));
    }
}

/* The newest vote that has passed without doubt, as the ranks say: all know of it, or of a later
 * one. When a job stands still, some ranks may have all votes of a step that others wait for. Sets
 * *ret_any when anybody has said anything. */
static uint64_t passed(const struct hsp_progress *p, const struct hsp_cl_epoch *e, bool *ret_any)
{
    uint64_t most = 0, least = UINT64_MAX;
    *ret_any = false;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct hsp_stand *s = &p->stand[i];
        *ret_any = *ret_any || s->said;
        if (s->said && i < e->n_ranks) {
            most = s->stable > most ? s->stable : most;
            least = s->stable < least ? s->stable : least;
        }
    }
    return most == 0 ? 0 : least > most - 1 ? least : most - 1;
}

static void judge(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cl_epoch *e)
{
    struct hsp_progress *p = &j->progress;
    uint32_t period = hsp_cluster_period_ms(c, j);
    bool any;
    uint64_t stable = passed(p, e, &any);
    p->round = 0;
    p->due_ms = p->due_ms + period > c->now_ms ? p->due_ms + period : c->now_ms + period;
    if (stable > p->stable) { /* rank 0 may have nobody to tell */
        moved_on(c, j, stable);
    } else if (any) {
        p->periods++;
        if (!goes_on(c, j, p)) {
            name_culprit(c, j, e);
            avoid_link(c, j, e);
        }
    }
}

void hsp_ci_progress_advance(struct hsp_cluster *c, struct hsp_job *j)
{
    struct hsp_progress *p = &j->progress;
    const struct hsp_cl_epoch *e = hsp_cluster_watched(j);
    if (e == NULL) {
        p->epoch = 0;
        p->round = 0;
        forget(p);
        return;
    }
    if (p->epoch != e->epoch) {
        begin(c, j, e);
    }
    if (c->failed) {
        return;
    }
    if (p->round == 0 && c->now_ms >= p->due_ms) {
        ask(c, j, e, false);
    } else if (p->round == 0 && c->now_ms >= p->look_ms) {
        ask(c, j, e, true);
    }
    if (p->round != 0 && (all_said(c, p, e) || c->now_ms >= p->answer_ms)) {
        if (p->looks) {
            p->round = 0; /* its rates were taken as they came */
        } else {
            judge(c, j, e);
        }
    }
}
