#include "daemon/app/api/ckpt_answers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/app/store/event_line.h"
#include "daemon/cluster/ckpt_cuts.h"
#include "daemon/cluster/cluster_state.h"
#include "daemon/cluster/plan_info.h"
#include "proto/base/str.h"
#include "proto/base/vec.h"
#include "proto/wire/protocol.h"

#define SHARED_NODES 8u
#define LINE_MOST    (8u * HSP_TEXT_MAX) /* bytes of a line, its text escaped */

struct hsp_ckpt_asked {
    uint32_t conn, node;
    char name[HSP_NAME_MAX + 1];
    bool matters; /* for the job (ckpt_look.h) */
    bool ran;     /* was a rank of the job */
    bool away;    /* not connected */
    bool absent;  /* has nothing that shows that the job began there; */
    bool vague;   /* which is no proof of anything: its version makes no file of the begin */
    bool failed;  /* could not look; */
    char *why;    /* owned: why, NULL: no memory to keep that */
};

bool hsp_ckpt_answers_begin(struct hsp_ckpt_answers *x, const struct hsp_cluster *c)
{
    *x = (struct hsp_ckpt_answers){.cap_asked = c->n_nodes};
    x->asked = calloc((size_t)c->n_nodes + 1, sizeof *x->asked);
    return x->asked != NULL;
}

void hsp_ckpt_answers_free(struct hsp_ckpt_answers *x)
{
    for (uint32_t i = 0; i < x->n_asked; i++) {
        free(x->asked[i].why);
    }
    free(x->asked);
    free(x->seen);
    free(x->by);
    *x = (struct hsp_ckpt_answers){0};
}

/* ---- whom to ask ---- */

static void could_not(struct hsp_ckpt_asked *k, const char *why)
{
    k->failed = true;
    k->why = strdup(why);
}

static bool computes(const struct hsp_cluster_node *n)
{
    bool any = false;
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        any = any || (n->dev[d].present && !n->dev[d].replica_holder);
    }
    return n->conn != 0 && any;
}

enum { OWN = 1, RAN = 2 };

/* Notes the nodes of @j: those that execute it, or vouch for it, are its OWN; those that were ranks
 * RAN it. These nodes have its checkpoint.path, if any has. Returns whether these nodes are on
 * record. */
static bool note_own(const struct hsp_job *j, uint8_t *own)
{
    bool known = false;
    for (uint32_t i = 0; i < j->n_leases; i++) {
        own[HSP_DEVICE_NODE(j->leases[i])] |= OWN;
    }
    for (uint32_t i = 0; i < j->n_marks; i++) {
        const struct hsp_job_mark *m = &j->marks[i];
        own[m->node] |= m->ran ? OWN | RAN : m->keeps ? OWN : 0;
        known = known || m->keeps || m->ran;
    }
    for (uint32_t i = 0; i < j->n_plans; i++) {
        const struct hsp_plan_info *p = &j->plans[i].info;
        for (uint32_t k = 0; k < p->n_ranks; k++) {
            own[HSP_DEVICE_NODE(p->device[k])] |= j->plans[i].started ? OWN | RAN : OWN;
        }
        known = known || j->plans[i].started;
    }
    return known && !j->ran_unknown;
}

static bool was_asked(const struct hsp_ckpt_answers *x, uint32_t n_before, uint32_t node)
{
    bool was = false;
    for (uint32_t i = 0; i < n_before && !was; i++) {
        was = x->asked[i].node == node;
    }
    return was;
}

/* Notes node @at. Returns true if the node is to be asked; @may: it may be asked. */
static bool add(struct hsp_ckpt_answers *x, const struct hsp_cluster *c, uint32_t at, uint8_t own,
                bool may)
{
    const struct hsp_cluster_node *n = &c->nodes[at];
    bool away = n->conn == 0, mute = !away && n->protocol < HSP_PROTO_CKPTS;
    bool matters = !x->known || own != 0;
    bool any = x->any && n->incarnation != 0; /* 0: it never joined, as one that is allowed to */
    bool gone = away && n->name[0] != '\0' && (any || (own & RAN) != 0);
    bool notes = away ? gone : mute ? matters : may;
    x->old = x->old || mute;
    if (notes) {
        struct hsp_ckpt_asked *k = &x->asked[x->n_asked++];
        *k = (struct hsp_ckpt_asked){.conn = mute ? 0 : n->conn,
                                     .node = at,
                                     .matters = matters,
                                     .ran = (own & RAN) != 0,
                                     .vague = n->protocol < HSP_PROTO_SIGN,
                                     .away = away};
        (void)snprintf(k->name, sizeof k->name, "%s", n->name);
        x->mute = x->mute || mute;
        if (mute) {
            could_not(k, "its hspmd-worker is too old to list checkpoints: upgrade it");
        } else if (away) {
            could_not(k, "it is not connected");
        }
    }
    return notes && !mute && !away;
}

uint32_t hsp_ckpt_answers_choose(struct hsp_ckpt_answers *x, const struct hsp_cluster *c,
                                 const struct hsp_job *j)
{
    const uint32_t before = x->n_asked;
    uint32_t most = j->checkpoint_shared && before == 0 ? SHARED_NODES : x->cap_asked;
    if (before > 0 && (!j->checkpoint_shared || x->n_seen > 0 || x->own_seen)) {
        return 0;
    }
    uint8_t *own = calloc((size_t)c->n_nodes + 1, sizeof *own);
    x->shared = j->checkpoint_shared;
    x->any = j->ran_unknown;
    x->known = own != NULL && note_own(j, own); /* else in the order of their numbers */
    uint32_t n_new = 0;
    for (uint32_t others = 0; others < 2; others++) {
        for (uint32_t i = 0; i < c->n_nodes && x->n_asked < x->cap_asked; i++) {
            uint8_t is = own != NULL ? own[i] : 0;
            bool has =
                computes(&c->nodes[i]) || (is & RAN) != 0 || (x->any && c->nodes[i].conn == 0);
            if ((is != 0) != (others != 0) && has && !was_asked(x, before, i)) {
                n_new += add(x, c, i, is, n_new < most);
            }
        }
    }
    free(own);
    x->n_left += n_new;
    return n_new;
}

/* ---- the answers of agents ---- */

uint32_t hsp_ckpt_answers_conn(const struct hsp_ckpt_answers *x, uint32_t i)
{
    return x->asked[i].conn;
}

static struct hsp_ckpt_asked *strike(struct hsp_ckpt_answers *x, uint32_t conn)
{
    for (uint32_t i = 0; i < x->n_asked; i++) {
        if (x->asked[i].conn == conn && conn != 0) {
            x->asked[i].conn = 0;
            x->n_left--;
            return &x->asked[i];
        }
    }
    return NULL;
}

/* Returns false without memory, or if there are too many checkpoints. */
static bool keep(struct hsp_ckpt_answers *x, uint32_t by, const struct hsp_m_ckpts *m)
{
    size_t n = (size_t)x->n_seen + m->n_seen;
    if (!hsp_grow(&x->seen, &x->cap_seen, n + 1, sizeof *x->seen, HSP_SEEN_MOST) ||
        !hsp_grow(&x->by, &x->cap_by, n + 1, sizeof *x->by, HSP_SEEN_MOST)) {
        return false;
    }
    for (uint32_t i = 0; i < m->n_seen; i++) {
        x->seen[x->n_seen] = m->seen[i];
        x->by[x->n_seen++] = by;
    }
    return true;
}

bool hsp_ckpt_answers_take(struct hsp_ckpt_answers *x, uint32_t conn, const struct hsp_m_ckpts *m)
{
    struct hsp_ckpt_asked *k = strike(x, conn);
    if (k == NULL) {
        return false;
    }
    if (m->damaged[0] != '\0' && (k->matters || x->shared)) {
        hsp_str_printf(x->damaged, sizeof x->damaged, "%s", m->damaged);
    }
    bool kept = keep(x, (uint32_t)(k - x->asked), m); /* also beside a reason: the readable ones */
    k->absent = kept && m->reason[0] == '\0' && m->n_seen == 0 && m->absent;
    if (m->reason[0] != '\0' || !kept) {
        could_not(k, kept ? m->reason : "too many checkpoints");
    } else if (k->absent) {
        could_not(k, "nothing in checkpoint.path shows that the job began there: is that mounted?");
    } else {
        const bool shows = !k->vague || m->n_seen > 0;
        x->path_seen = true;
        x->begun = x->begun || shows;
        x->own_seen = x->own_seen || (x->known && k->matters && shows);
    }
    return true;
}

static bool is_on_record(const struct hsp_job *j, const struct hsp_m_seen *s)
{
    bool is = j->has_ckpt && j->ckpt_step == s->step && j->ckpt.content == s->content;
    for (uint32_t i = 0; i < j->n_older && !is; i++) {
        is = j->older[i].step == s->step && j->older[i].mark.content == s->content;
    }
    return is;
}

/* Reports that node @k, which has not executed @j, has checkpoints that the executing nodes lack:
 * an administrator must decide about them. */
static void doubt(struct hsp_ckpt_asked *k, const struct hsp_job *j, uint64_t step)
{
    char text[2 * HSP_NAME_MAX + 160];
    if (!k->failed) {
        (void)snprintf(text, sizeof text,
                       "it has not run the job and says that it has checkpoint %" PRIu64
                       ": to take that: cancel %s, then resume %s --from %" PRIu64,
                       step, j->name, j->name, step);
        could_not(k, text);
    }
}

void hsp_ckpt_answers_believe(struct hsp_ckpt_answers *x, const struct hsp_job *j)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->n_seen; i++) {
        struct hsp_ckpt_asked *k = &x->asked[x->by[i]];
        const struct hsp_m_seen seen = x->seen[i];
        const uint32_t by = x->by[i];
        if (k->matters || (x->shared && !x->own_seen) || is_on_record(j, &seen)) {
            x->seen[i] = x->seen[n];
            x->by[i] = x->by[n];
            x->seen[n] = seen;
            x->by[n++] = by;
        } else {
            doubt(k, j, seen.step);
        }
    }
    x->n_others = x->n_seen - n;
    x->n_seen = n;
}

bool hsp_ckpt_answers_gone(struct hsp_ckpt_answers *x, uint32_t conn)
{
    struct hsp_ckpt_asked *k = strike(x, conn);
    if (k != NULL) {
        could_not(k, "it has gone");
    }
    return k != NULL;
}

/* Returns whether some node has seen the shared folder, and so all of its checkpoints. A node that
 * has run the job certainly sees the folder. */
static bool folder_seen(const struct hsp_ckpt_answers *x)
{
    return x->shared && (x->known ? x->own_seen : x->path_seen);
}

/* Returns true if the missing answer of node @k does not matter: the node is not connected or has
 * no sign of the job, and either another node sees the shared folder, or node @k never ran the job.
 */
static bool is_idle(const struct hsp_ckpt_answers *x, const struct hsp_ckpt_asked *k)
{
    bool may_have = !x->known || k->ran || (x->shared && !x->path_seen);
    return (k->away || k->absent) && (folder_seen(x) || !may_have);
}

/* Returns the failure of node @k; NULL if there is nothing to report. */
static const char *fault_of(const struct hsp_ckpt_answers *x, const struct hsp_ckpt_asked *k)
{
    return k->conn != 0                  ? "no answer"
           : !k->failed || is_idle(x, k) ? NULL
           : k->why != NULL              ? k->why
                                         : "it could not look";
}

/* Returns why the answer of node @k, which failed and matters, is missing. A node that has run the
 * job, by a row of any age, has the files of the job if the path is mounted. If other nodes see the
 * shared folder, their answers do for a while. */
static enum hsp_ckpt_lack lack_of(const struct hsp_ckpt_answers *x, const struct hsp_ckpt_asked *k)
{
    bool others_see = x->shared && x->path_seen;
    bool had_it = k->ran && !k->vague;
    return (k->away || k->absent) && others_see ? HSP_LACK_PATH
           : k->away                            ? HSP_LACK_AWAY
           : k->absent && !had_it               ? HSP_LACK_PATH
                                                : HSP_LACK_LOOK;
}

/* Returns the worst reason for which the answer may be incomplete. If no node has seen the shared
 * path, every node matters, since any of them may be the one on which the path is mounted. */
enum hsp_ckpt_lack hsp_ckpt_answers_lack(const struct hsp_ckpt_answers *x)
{
    enum hsp_ckpt_lack worst = x->n_asked == 0 ? HSP_LACK_LOOK : HSP_LACK_OTHERS;
    for (uint32_t i = 0; i < x->n_asked; i++) {
        const struct hsp_ckpt_asked *k = &x->asked[i];
        bool matters = k->matters || (x->shared && !x->path_seen);
        if (matters && fault_of(x, k) != NULL) {
            enum hsp_ckpt_lack lack = lack_of(x, k);
            worst = lack < worst ? lack : worst;
        }
    }
    return worst;
}

struct faults { /* a text that grows in `ret` */
    char *ret;
    size_t size, len;
    uint32_t n_cut;
};

static void put_fault(struct faults *f, const char *name, const char *why)
{
    const size_t more = sizeof "; and 4294967295 more";
    size_t room = strlen(name) + strlen(why) + sizeof "; : ";
    if (f->len > 0 && (f->n_cut > 0 || f->len + room + more > f->size)) {
        f->n_cut++;
        return;
    }
    hsp_str_printf(f->ret + f->len, f->size - f->len - more, "%s%s: %s", f->len > 0 ? "; " : "",
                   name, why);
    f->len += strlen(f->ret + f->len);
}

void hsp_ckpt_answers_fault(const struct hsp_ckpt_answers *x, char *ret, size_t size)
{
    struct faults f = {.ret = ret, .size = size};
    ret[0] = '\0';
    if (x->n_asked == 0) {
        hsp_str_printf(
            ret, size, "%s",
            x->old ? "no connected node has an hspmd-worker that can list checkpoints: upgrade one"
                   : "no node is connected");
    }
    for (uint32_t others = 0; others < 2; others++) {
        for (uint32_t i = 0; i < x->n_asked; i++) {
            const struct hsp_ckpt_asked *k = &x->asked[i];
            const char *why = k->matters != (others != 0) ? fault_of(x, k) : NULL;
            if (why != NULL) {
                put_fault(&f, k->name, why);
            }
        }
    }
    if (f.n_cut > 0) {
        (void)snprintf(ret + f.len, size - f.len, "; and %" PRIu32 " more", f.n_cut);
    }
}

/* ---- the list ---- */

struct line { /* one checkpoint on one node */
    struct hsp_m_seen seen;
    uint32_t by;
};

static int newest_first(const void *x, const void *y)
{
    const struct line *p = x, *q = y;
    const struct hsp_m_seen *a = &p->seen, *b = &q->seen;
    return a->step != b->step         ? (a->step < b->step) - (a->step > b->step)
           : a->content != b->content ? (a->content > b->content) - (a->content < b->content)
                                      : (p->by > q->by) - (p->by < q->by);
}

static bool same(const struct line *a, const struct line *b)
{
    return a->seen.step == b->seen.step && a->seen.content == b->seen.content;
}

/* @step: of a checkpoint, 0: none. */
static void put_line(const struct hsp_ckpt_lines *l, const char *type, enum hsp_severity severity,
                     uint64_t step, const char *reason, struct hsp_buf *out)
{
    struct hsp_err err = {0};
    struct hsp_fact f = {
        .type = type, .severity = severity, .job = l->id, .step = step, .reason = reason};
    struct hsp_feed_event e = {.seq = l->seq, .unix_ms = l->unix_ms, .job = l->job, .fact = &f};
    if (hsp_feed_event_line(&e, out, &err) == HSP_OK) {
        hsp_buf_puts(out, "\n");
    }
}

/* Writes the line of the checkpoint that nodes @s[0] to @s[n - 1] see. */
static void put_ckpt(const struct hsp_ckpt_answers *x, const struct hsp_ckpt_lines *l,
                     const struct line *s, size_t n, struct hsp_buf *out)
{
    char text[HSP_TEXT_MAX + 1];
    const size_t more = sizeof " and 4294967295 more";
    const struct hsp_ckpt_kept k = {s->seen.step, {s->seen.term, s->seen.epoch, s->seen.content}};
    int len = snprintf(
        text, sizeof text, "version %" PRIu64 " of epoch %" PRIu64 ", complete, %sseen by ",
        s->seen.step, s->seen.epoch, hsp_ci_cuts_allow(l->of, &k) ? "" : "given-up, ");
    size_t at = (size_t)len, i = 0; /* numbers: they fit */
    for (; i < n && at + HSP_NAME_MAX + 2 + more < sizeof text; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i > 0 ? ", " : "",
                               x->asked[s[i].by].name);
    }
    if (i < n) {
        (void)snprintf(text + at, sizeof text - at, " and %zu more", n - i);
    }
    put_line(l, "ckpt.on_disk", HSP_SEV_INFO, s->seen.step, text, out);
}

static void put_rest(const struct hsp_ckpt_answers *x, const struct hsp_ckpt_lines *l,
                     uint32_t n_left, struct hsp_buf *out)
{
    char fault[HSP_TEXT_MAX - 100], text[HSP_TEXT_MAX + 1];
    if (n_left > 0) {
        (void)snprintf(text, sizeof text, "%" PRIu32 " more that are older", n_left);
        put_line(l, "ckpt.not_listed", HSP_SEV_WARN, 0, text, out);
    }
    hsp_ckpt_answers_fault(x, fault, sizeof fault);
    if (fault[0] != '\0') {
        (void)snprintf(text, sizeof text, "there may be more, as not all could look: %s", fault);
        put_line(l, "ckpt.not_seen", HSP_SEV_WARN, 0, text, out);
    }
}

bool hsp_ckpt_answers_list(const struct hsp_ckpt_answers *x, const struct hsp_ckpt_lines *l,
                           struct hsp_buf *out)
{
    uint32_t n_left = 0;
    struct line *s = calloc((size_t)x->n_seen + 1, sizeof *s);
    if (s == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < x->n_seen; i++) {
        s[i] = (struct line){x->seen[i], x->by[i]};
    }
    qsort(s, x->n_seen, sizeof *s, newest_first);
    for (size_t i = 0, end; i < x->n_seen; i = end) {
        for (end = i + 1; end < x->n_seen && same(&s[i], &s[end]); end++) {
        }
        if (n_left > 0 || out->len + 3 * (size_t)LINE_MOST > HSP_LIST_MAX) {
            n_left++;
        } else {
            put_ckpt(x, l, &s[i], end - i, out);
        }
    }
    put_rest(x, l, n_left, out);
    free(s);
    return !out->failed;
}
