/* A rank whose file cannot be read only says that it takes no part, because the content of its file
 * is unknown; no line is written to that file. If rank 0 cannot read its file, the file counts as
 * empty. Rank 0 passes the notes of the other ranks on from its memory, also if it cannot write its
 * own file. Lines are sent with their checksums, and the receiver checks them.
 *
 * Invariant (S1): only errors of the mesh, and a lack of memory for the array in share_all, end an
 * epoch here. A device that lacks memory or room on disk tells the sender that it wants no more
 * pieces (`enough`), or says that it takes no part. Invariant (S2): a peer waits only for rank 0,
 * and rank 0 waits for one peer at a time. So there is no deadlock. */
#include "worker/executor/step_share.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/vec.h"
#include "proto/host/file_io.h"
#include "worker/executor/epoch_report.h"
#include "worker/executor/step_log.h"
#include "worker/executor/step_ranges.h"
#include "worker/state/segment_name.h"

#define CHANNEL_NOTES 0x7ffffff5u
#define NOTES_MAX     ((size_t)1 << 30)
#define PIECE         ((size_t)16368) /* most bytes of a message: complete lines or ranges */
#define WINDOW        64u             /* messages that are sent before the receiver asks for more */

_Static_assert(PIECE % sizeof(struct hsp_step_range) == 0, "pieces hold whole ranges");

/* ---- the notes of a device ---- */

struct line {
    uint64_t epoch, step;
    const char *text; /* with its checksum, without its newline */
    size_t len;
};

struct book {
    char *text; /* owned */
    size_t len, cap;
    struct line *line; /* owned: newest valid line of each step, in order of steps */
    size_t n;
    struct hsp_step_ranges has; /* owned: the steps of `line` */
    bool unread;                /* the file cannot be read: no line is written to it */
    bool unwritten;             /* a write failed: no line is written any more */
};

struct share {
    const struct hsp_ex_epoch *e;
    struct hsp_comm *c;
    struct book b;
    char piece[PIECE + 1]; /* one byte more, for a missing newline */
};

static void book_fini(struct book *b)
{
    free(b->text);
    free(b->line);
    free(b->has.r);
    *b = (struct book){0};
}

static void tell(const struct hsp_ex_epoch *e, const char *what, const struct hsp_err *why)
{
    hsp_log(e->env->log, HSP_LOG_WARN, "executor", "job %u: %s: %s", e->p->job, what, why->msg);
}

static int newest_last(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    if (x->step != y->step) {
        return x->step < y->step ? -1 : 1;
    }
    return (x->epoch > y->epoch) - (x->epoch < y->epoch);
}

/* Reads epoch and step from the begin of a line: "EPOCH STEP {". Returns false if the line has
 * another form. */
static bool read_line(const struct hsp_note_line *l, struct line *ret)
{
    char head[64], *end;
    size_t n = l->len < sizeof head - 1 ? l->len : sizeof head - 1;
    memcpy(head, l->body, n);
    head[n] = '\0';
    ret->epoch = strtoull(head, &end, 10);
    if (end == head || *end != ' ' || l->raw_len >= PIECE) {
        return false;
    }
    char *step = end + 1;
    ret->step = strtoull(step, &end, 10);
    ret->text = l->raw;
    ret->len = l->raw_len;
    return end != step && end[0] == ' ' && end[1] == '{' && ret->step < UINT64_MAX;
}

static bool is_whole(const struct hsp_note_line *l)
{
    return l->as == HSP_NOTE_PROVEN || l->as == HSP_NOTE_UNPROVEN;
}

/* Lists the lines in the text of @b whose steps PREPARE @p does not name as given up; such a line
 * does not hide an older line of its step. Damaged lines are ignored here, and reported at the end
 * of the job. */
static enum hsp_status book_lines(const struct hsp_m_prepare *p, struct book *b,
                                  struct hsp_err *err)
{
    size_t cap = 1, n = 0;
    struct hsp_note_line l;
    struct hsp_notes_walk w = {.job = p->job};
    for (size_t i = 0; i < b->len; i++) {
        cap += b->text[i] == '\n';
    }
    struct line *all = calloc(cap, sizeof *all);
    if (all == NULL) {
        return hsp_err_nomem(err, "notes of steps");
    }
    if (b->len > 0) { /* else the file has no text */
        w.at = b->text;
        w.end = b->text + b->len;
    }
    while (n < cap && hsp_notes_next(&w, &l)) {
        n += is_whole(&l) && read_line(&l, &all[n]) &&
             hsp_cuts_allow_metrics(p->cuts, p->n_cuts, all[n].epoch, all[n].step);
    }
    if (n > 1) {
        qsort(all, n, sizeof *all, newest_last);
    }
    enum hsp_status st = HSP_OK;
    b->line = all;
    for (size_t i = 0; st == HSP_OK && i < n; i++) {
        if (i + 1 == n || all[i + 1].step != all[i].step) {
            st = hsp_ranges_push(&b->has, all[i].epoch, all[i].step, all[i].step, err);
            all[b->n++] = all[i];
        }
    }
    return st;
}

/* Lists the lines of @b again; after an error @b has no lines. */
static enum hsp_status book_read(const struct hsp_m_prepare *p, struct book *b, struct hsp_err *err)
{
    free(b->line);
    b->line = NULL;
    b->n = b->has.n = 0;
    enum hsp_status st = book_lines(p, b, err);
    if (st != HSP_OK) {
        b->n = b->has.n = 0;
    }
    return st;
}

static void book_open(const struct hsp_ex_epoch *e, struct book *b)
{
    char path[PATH_MAX];
    uint8_t *text = NULL;
    struct hsp_err why = {0};
    hsp_segname_notes(e->env->state_dir, e->p->job, e->env->device, path);
    enum hsp_status st = hsp_file_read_own(path, NOTES_MAX, &text, &b->len, &why);
    b->text = (char *)text;
    b->len = b->cap = text != NULL ? b->len : 0;
    st = st == HSP_ENOENT ? HSP_OK : st;
    st = st == HSP_OK ? book_read(e->p, b, &why) : st;
    if (st != HSP_OK) {
        book_fini(b);
        b->unread = true;
        tell(e, "this device neither gives notes of steps to others nor takes any", &why);
    }
}

/* Keeps the complete, undamaged lines of @text, and ends each with a newline. @text has @n bytes
 * and room for one more. Returns the new length. */
static size_t whole_lines(uint32_t job, char *text, size_t n)
{
    struct hsp_note_line l;
    struct hsp_notes_walk w = {job, text, text + n};
    char *to = text;
    while (hsp_notes_next(&w, &l)) {
        if (is_whole(&l)) {
            memmove(to, l.raw, l.raw_len);
            to += l.raw_len;
            *to++ = '\n';
        }
    }
    return (size_t)(to - text);
}

/* Appends the lines of @text to the file of this device, if possible. */
static void book_write(const struct hsp_ex_epoch *e, struct book *b, const char *text, size_t n)
{
    struct hsp_err why = {0};
    if (!b->unread && !b->unwritten && hsp_notes_append(e, text, n, &why) != HSP_OK) {
        b->unwritten = true;
        tell(e, "notes of steps that others have are not kept here", &why);
    }
}

/* Appends lines to the text of @b in memory; book_read lists them later. */
static enum hsp_status book_hold(struct book *b, const char *text, size_t n, struct hsp_err *err)
{
    size_t need = b->len + n + 1;
    if (!hsp_grow(&b->text, &b->cap, need, 1, NOTES_MAX)) {
        return hsp_grow_error(need, NOTES_MAX, "bytes of notes of steps", err);
    }
    if (b->len > 0 && b->text[b->len - 1] != '\n') { /* an incomplete line: damaged */
        b->text[b->len++] = '\n';
    }
    memcpy(b->text + b->len, text, n);
    b->len += n;
    return HSP_OK;
}

/* ---- messages ---- */

/* A sequence of pieces that one rank sends to another; the last piece is empty. */
struct flow {
    uint32_t peer;
    uint32_t n;  /* pieces since the last request of the receiver */
    bool enough; /* the receiver wants no more */
};

static enum hsp_status put(struct share *s, struct flow *f, const void *data, size_t n,
                           struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    uint8_t more = 1;
    uint32_t len = (uint32_t)n;
    if (f->n == WINDOW) {
        st = s->c->ops->recv(s->c, f->peer, CHANNEL_NOTES, &more, sizeof more, err);
        f->enough = f->enough || more == 0;
        f->n = 0;
    }
    if (st != HSP_OK || (n > 0 && f->enough)) {
        return st;
    }
    f->n++;
    st = s->c->ops->send(s->c, f->peer, CHANNEL_NOTES, &len, sizeof len, err);
    return st == HSP_OK && n > 0 ? s->c->ops->send(s->c, f->peer, CHANNEL_NOTES, data, n, err) : st;
}

/* Receives the next piece in s->piece. *ret_n: its length; 0 after the last piece. */
static enum hsp_status get(struct share *s, struct flow *f, size_t *ret_n, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    uint8_t more = !f->enough;
    uint32_t len = 0;
    if (f->n == WINDOW) {
        st = s->c->ops->send(s->c, f->peer, CHANNEL_NOTES, &more, sizeof more, err);
        f->n = 0;
    }
    st = st == HSP_OK ? s->c->ops->recv(s->c, f->peer, CHANNEL_NOTES, &len, sizeof len, err) : st;
    if (st == HSP_OK && len > PIECE) {
        st = hsp_err_set(err, HSP_EPROTO, 0, "rank %u sends %u bytes of notes of steps at once",
                         f->peer, len);
    }
    f->n++;
    *ret_n = len;
    return st == HSP_OK && len > 0
               ? s->c->ops->recv(s->c, f->peer, CHANNEL_NOTES, s->piece, len, err)
               : st;
}

static enum hsp_status send_list(struct share *s, uint32_t to, const struct hsp_step_ranges *a,
                                 struct hsp_err *err)
{
    const size_t most = PIECE / sizeof *a->r;
    struct flow f = {.peer = to};
    enum hsp_status st = HSP_OK;
    for (size_t i = 0; st == HSP_OK && i < a->n; i += most) {
        st = put(s, &f, a->r + i, (a->n - i < most ? a->n - i : most) * sizeof *a->r, err);
    }
    return st == HSP_OK ? put(s, &f, NULL, 0, err) : st;
}

/* Receives the list of steps of rank @from in *ret, which is empty before. *why: set if the list is
 * invalid or memory is lacking; *ret is empty then. */
static enum hsp_status recv_list(struct share *s, uint32_t from, struct hsp_step_ranges *ret,
                                 struct hsp_err *why, struct hsp_err *err)
{
    struct flow f = {.peer = from};
    size_t n = 0;
    enum hsp_status st = get(s, &f, &n, err);
    while (st == HSP_OK && n > 0) {
        for (size_t at = 0; !f.enough && at < n; at += sizeof *ret->r) {
            struct hsp_step_range r = {0, 1, 0}; /* a part of a range makes the list invalid */
            memcpy(&r, s->piece + at, n - at < sizeof r ? 0 : sizeof r);
            bool can_be = r.from <= r.to && r.to < UINT64_MAX &&
                          (ret->n == 0 || ret->r[ret->n - 1].to < r.from);
            f.enough = (can_be ? hsp_ranges_push(ret, r.epoch, r.from, r.to, why)
                               : hsp_err_set(why, HSP_EPROTO, 0,
                                             "rank %u lists steps that cannot be", from)) != HSP_OK;
        }
        st = get(s, &f, &n, err);
    }
    ret->n = why->code == HSP_OK ? ret->n : 0;
    return st;
}

/* Sends the lines of @steps, all of which this rank has, to rank @to. */
static enum hsp_status send_lines(struct share *s, uint32_t to, const struct hsp_step_ranges *steps,
                                  struct hsp_err *err)
{
    struct flow f = {.peer = to};
    enum hsp_status st = HSP_OK;
    size_t used = 0;
    for (size_t i = 0, k = 0; st == HSP_OK && !f.enough && i < s->b.n; i++) {
        const struct line *l = &s->b.line[i];
        while (k < steps->n && steps->r[k].to < l->step) {
            k++;
        }
        if (k == steps->n) {
            break;
        }
        if (steps->r[k].from > l->step) {
            continue;
        }
        if (used + l->len + 1 > PIECE) {
            st = put(s, &f, s->piece, used, err);
            used = 0;
        }
        memcpy(s->piece + used, l->text, l->len);
        used += l->len;
        s->piece[used++] = '\n';
    }
    st = st == HSP_OK && used > 0 ? put(s, &f, s->piece, used, err) : st;
    return st == HSP_OK ? put(s, &f, NULL, 0, err) : st;
}

/* Receives lines from rank @from and writes them to the file of this device. @hold: also keeps them
 * in memory, to send them to other ranks. */
static enum hsp_status recv_lines(struct share *s, uint32_t from, bool hold, struct hsp_err *err)
{
    struct flow f = {.peer = from};
    struct hsp_err why = {0};
    size_t n = 0;
    enum hsp_status st = get(s, &f, &n, err);
    while (st == HSP_OK && n > 0) {
        n = whole_lines(s->e->p->job, s->piece, n);
        if (n > 0) {
            book_write(s->e, &s->b, s->piece, n);
        }
        if (n > 0 && hold && !f.enough && book_hold(&s->b, s->piece, n, &why) != HSP_OK) {
            f.enough = true;
            tell(s->e, "notes of steps go without those of a peer", &why);
        }
        f.enough = f.enough || (!hold && s->b.unwritten);
        st = get(s, &f, &n, err);
    }
    return st;
}

/* ---- the exchange ---- */

static bool takes_part(const struct hsp_ex_epoch *e, uint32_t peer)
{
    return peer != e->p->rank && !e->pkg.peers[peer].apart;
}

static bool lasts(const struct hsp_ex_epoch *e, uint32_t peer)
{
    return peer < e->p->n_ranks + e->p->n_keepers;
}

struct hub_peer {
    uint8_t said;                          /* the peer has said that it takes part */
    uint8_t part;                          /* rank 0 has let the peer take part */
    struct hsp_step_ranges theirs, wanted; /* owned */
};

/* Called at rank 0: receives the list of each peer. */
static enum hsp_status hub_hear(struct share *s, struct hub_peer *h, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 1; st == HSP_OK && i < s->c->n_ranks; i++) {
        struct hsp_err why = {0};
        if (takes_part(s->e, i)) {
            st = s->c->ops->recv(s->c, i, CHANNEL_NOTES, &h[i].said, sizeof h[i].said, err);
        }
        if (st == HSP_OK && h[i].said != 0) {
            st = recv_list(s, i, &h[i].theirs, &why, err);
            h[i].part = why.code == HSP_OK;
        }
        if (why.code != HSP_OK) {
            tell(s->e, "notes of steps go past a peer", &why);
        }
    }
    return st;
}

/* Called at rank 0: requests each step that rank 0 lacks from the first peer that has the newest
 * line of the step. */
static enum hsp_status hub_ask(struct share *s, struct hub_peer *h, struct hsp_err *err)
{
    struct hsp_step_ranges sure = {0};
    struct hsp_err why = {0};
    enum hsp_status ok = hsp_ranges_unite(&sure, &s->b.has, &why), st = HSP_OK;
    for (uint32_t i = 1; st == HSP_OK && i < s->c->n_ranks; i++) {
        if (h[i].part != 0) {
            ok = ok == HSP_OK ? hsp_ranges_lack(&sure, &h[i].theirs, &h[i].wanted, &why) : ok;
            ok = ok == HSP_OK ? hsp_ranges_unite(&sure, &h[i].wanted, &why) : ok;
            h[i].wanted.n = ok == HSP_OK ? h[i].wanted.n : 0;
        }
        if (h[i].said != 0) {
            st = s->c->ops->send(s->c, i, CHANNEL_NOTES, &h[i].part, sizeof h[i].part, err);
        }
        st = st == HSP_OK && h[i].part != 0 ? send_list(s, i, &h[i].wanted, err) : st;
    }
    if (ok != HSP_OK) {
        tell(s->e, "notes of steps go without those of some peers", &why);
    }
    free(sure.r);
    return st;
}

static enum hsp_status hub_take(struct share *s, const struct hub_peer *h, struct hsp_err *err)
{
    struct hsp_err why = {0};
    enum hsp_status st = HSP_OK;
    size_t had = s->b.len;
    for (uint32_t i = 1; st == HSP_OK && i < s->c->n_ranks; i++) {
        st = h[i].part != 0 ? recv_lines(s, i, true, err) : HSP_OK;
    }
    if (s->b.len > had && book_read(s->e->p, &s->b, &why) != HSP_OK) {
        tell(s->e, "notes of steps are not passed on", &why);
    }
    return st;
}

static enum hsp_status hub_give(struct share *s, const struct hub_peer *h, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 1; st == HSP_OK && i < s->c->n_ranks; i++) {
        struct hsp_step_ranges lacks = {0};
        struct hsp_err why = {0};
        if (h[i].part != 0 && lasts(s->e, i)) {
            if (hsp_ranges_lack(&h[i].theirs, &s->b.has, &lacks, &why) != HSP_OK) {
                tell(s->e, "a peer gets a part of the notes of steps", &why);
            }
            st = send_lines(s, i, &lacks, err);
        }
        free(lacks.r);
    }
    return st;
}

static enum hsp_status share_all(struct share *s, struct hsp_err *err)
{
    struct hub_peer *h = calloc(s->c->n_ranks, sizeof *h);
    if (h == NULL) {
        return hsp_err_nomem(err, "the notes of %u peers", s->c->n_ranks);
    }
    enum hsp_status st = hub_hear(s, h, err);
    st = st == HSP_OK ? hub_ask(s, h, err) : st;
    st = st == HSP_OK ? hub_take(s, h, err) : st;
    st = st == HSP_OK ? hub_give(s, h, err) : st;
    for (uint32_t i = 0; i < s->c->n_ranks; i++) {
        free(h[i].theirs.r);
        free(h[i].wanted.r);
    }
    free(h);
    return st;
}

static enum hsp_status share_mine(struct share *s, struct hsp_err *err)
{
    uint8_t part = !s->b.unread;
    struct hsp_step_ranges wanted = {0};
    struct hsp_err why = {0};
    if (!takes_part(s->e, 0)) {
        return HSP_OK;
    }
    enum hsp_status st = s->c->ops->send(s->c, 0, CHANNEL_NOTES, &part, sizeof part, err);
    if (st == HSP_OK && part != 0) {
        st = send_list(s, 0, &s->b.has, err);
        st = st == HSP_OK ? s->c->ops->recv(s->c, 0, CHANNEL_NOTES, &part, sizeof part, err) : st;
    }
    if (st != HSP_OK || part == 0) {
        return st;
    }
    st = recv_list(s, 0, &wanted, &why, err);
    if (why.code != HSP_OK) {
        tell(s->e, "notes of steps are not given to others", &why);
    }
    st = st == HSP_OK ? send_lines(s, 0, &wanted, err) : st;
    free(wanted.r);
    return st == HSP_OK && lasts(s->e, s->e->p->rank) ? recv_lines(s, 0, false, err) : st;
}

/* Reports the newest steps before the first step of this epoch to hspmdd, because earlier reports
 * may have been lost with an agent. In a switch no report can be lost, so nothing is reported. */
static void say_newest(struct hsp_ex_epoch *e, const struct book *b)
{
    const struct line *newest[HSP_EPOCH_SAID];
    uint32_t n = 0;
    if (e->p->mode != HSP_MODE_RECOVER && e->p->mode != HSP_MODE_RESTORE) {
        return;
    }
    (void)pthread_mutex_lock(&e->lock);
    uint64_t first = e->go_version;
    (void)pthread_mutex_unlock(&e->lock);
    for (size_t i = b->n; i > 0 && n < HSP_EPOCH_SAID; i--) {
        const struct line *l = &b->line[i - 1];
        if (l->step < first) {
            newest[n++] = l;
        }
    }
    while (n > 0) {
        const struct line *l = newest[--n];
        struct hsp_said_step s;
        if (hsp_metrics_said(l->text, l->len, &s)) {
            hsp_epoch_say_noted(e, l->epoch, &s);
        }
    }
}

enum hsp_status hsp_notes_share(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    struct share s = {.e = e};
    s.c = e->mesh[HSP_MESH_MOVE] != NULL ? e->mesh[HSP_MESH_MOVE]
          : lasts(e, e->p->rank)         ? e->mesh[HSP_MESH_STATE]
                                         : NULL;
    if (!e->p->share_notes || e->p->mode == HSP_MODE_FRESH || s.c == NULL) {
        return HSP_OK;
    }
    book_open(e, &s.b);
    enum hsp_status st = e->p->rank == 0 ? share_all(&s, err) : share_mine(&s, err);
    if (st == HSP_OK && e->p->rank == 0) {
        say_newest(e, &s.b);
    }
    book_fini(&s.b);
    return st;
}
