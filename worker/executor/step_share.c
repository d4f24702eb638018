/* A rank whose file cannot be read or written takes part all the same, as one that has nothing and
 * keeps nothing. Lines travel with their sums, and are looked at where they arrive. Sends never wait
 * for the peer (worker/comm), so nobody waits in a circle. */
#include "worker/executor/step_share.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/buf.h"
#include "proto/base/vec.h"
#include "proto/host/file_io.h"
#include "worker/executor/step_log.h"
#include "worker/state/segment_name.h"

#define CHANNEL_NOTES 0x7ffffff5u
#define NOTES_MAX     ((size_t)1 << 30)
#define RANGES_MAX    ((size_t)1 << 20)

/* ---- lists of steps ---- */

static enum hsp_status push(struct hsp_step_ranges *a, uint64_t epoch, uint64_t from, uint64_t to,
                            struct hsp_err *err)
{
    struct hsp_step_range *last = a->n > 0 ? &a->r[a->n - 1] : NULL;
    if (last != NULL && last->epoch == epoch && last->to + 1 == from) {
        last->to = to;
        return HSP_OK;
    }
    if (!hsp_grow(&a->r, &a->cap, a->n + 1, sizeof *a->r, RANGES_MAX)) {
        return hsp_err_nomem(err, "a list of steps");
    }
    a->r[a->n++] = (struct hsp_step_range){epoch, from, to};
    return HSP_OK;
}

enum hsp_status hsp_ranges_lack(const struct hsp_step_ranges *have,
                                const struct hsp_step_ranges *theirs, struct hsp_step_ranges *ret,
                                struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    size_t i = 0;
    for (size_t k = 0; k < theirs->n; k++) {
        const struct hsp_step_range *t = &theirs->r[k];
        uint64_t at = t->from;
        while (st == HSP_OK && at <= t->to) {
            while (i < have->n && have->r[i].to < at) {
                i++;
            }
            const struct hsp_step_range *h = i < have->n ? &have->r[i] : NULL;
            bool in = h != NULL && h->from <= at;
            uint64_t end = t->to;
            if (in) {
                end = h->to < end ? h->to : end;
            } else if (h != NULL && h->from <= end) {
                end = h->from - 1;
            }
            st = !in || h->epoch < t->epoch ? push(ret, t->epoch, at, end, err) : HSP_OK;
            at = end + 1;
        }
    }
    return st;
}

static int by_step(const void *a, const void *b)
{
    const struct hsp_step_range *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

enum hsp_status hsp_ranges_unite(struct hsp_step_ranges *have, const struct hsp_step_ranges *more,
                                 struct hsp_err *err)
{
    struct hsp_step_ranges both = {0}, newest = {0};
    enum hsp_status st = HSP_OK;
    for (size_t i = 0; st == HSP_OK && i < more->n; i++) { /* as if nothing were newer */
        st = push(&newest, UINT64_MAX, more->r[i].from, more->r[i].to, err);
    }
    st = st == HSP_OK ? hsp_ranges_lack(&newest, have, &both, err) : st;
    for (size_t i = 0; st == HSP_OK && i < more->n; i++) {
        st = push(&both, more->r[i].epoch, more->r[i].from, more->r[i].to, err);
    }
    free(newest.r);
    if (st != HSP_OK) {
        free(both.r);
        return st;
    }
    if (both.n > 1) {
        qsort(both.r, both.n, sizeof *both.r, by_step);
    }
    free(have->r);
    *have = both;
    return HSP_OK;
}

/* As a peer says it: @a is put in order by nobody. */
static bool is_list(const struct hsp_step_ranges *a)
{
    bool ok = true;
    for (size_t i = 0; ok && i < a->n; i++) {
        ok = a->r[i].from <= a->r[i].to && a->r[i].to < UINT64_MAX &&
             (i == 0 || a->r[i - 1].to < a->r[i].from);
    }
    return ok;
}

/* ---- the notes of a device ---- */

struct line {
    uint64_t epoch, step;
    const char *text; /* with its sum, without its end */
    size_t len;
};

struct book {
    char *text; /* owned */
    size_t len;
    struct line *line; /* owned: of each step the newest, in order of steps */
    size_t n;
    struct hsp_step_ranges has; /* owned: the same */
};

static void book_fini(struct book *b)
{
    free(b->text);
    free(b->line);
    free(b->has.r);
    *b = (struct book){0};
}

static int newest_last(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    if (x->step != y->step) {
        return x->step < y->step ? -1 : 1;
    }
    return (x->epoch > y->epoch) - (x->epoch < y->epoch);
}

/* "EPOCH STEP {" */
static bool read_line(const struct hsp_note_line *l, struct line *ret)
{
    char head[64], *end;
    size_t n = l->len < sizeof head - 1 ? l->len : sizeof head - 1;
    memcpy(head, l->body, n);
    head[n] = '\0';
    ret->epoch = strtoull(head, &end, 10);
    if (end == head || *end != ' ') {
        return false;
    }
    char *step = end + 1;
    ret->step = strtoull(step, &end, 10);
    ret->text = l->raw;
    ret->len = l->raw_len;
    return end != step && end[0] == ' ' && end[1] == '{' && ret->step < UINT64_MAX;
}

/* What the text of @b says; damaged lines are passed over, for the end of the job tells them. */
static enum hsp_status book_read(uint32_t job, struct book *b, struct hsp_err *err)
{
    size_t cap = 1, n = 0;
    struct hsp_note_line l;
    struct hsp_notes_walk w = {.job = job};
    for (size_t i = 0; i < b->len; i++) {
        cap += b->text[i] == '\n';
    }
    struct line *all = calloc(cap, sizeof *all);
    if (all == NULL) {
        return hsp_err_nomem(err, "notes of steps");
    }
    if (b->len > 0) { /* else there is no text */
        w.at = b->text;
        w.end = b->text + b->len;
    }
    while (n < cap && hsp_notes_next(&w, &l)) {
        bool whole = l.as == HSP_NOTE_PROVEN || l.as == HSP_NOTE_UNPROVEN;
        n += whole && read_line(&l, &all[n]);
    }
    if (n > 1) {
        qsort(all, n, sizeof *all, newest_last);
    }
    enum hsp_status st = HSP_OK;
    free(b->line);
    b->line = all;
    b->n = b->has.n = 0;
    for (size_t i = 0; st == HSP_OK && i < n; i++) {
        if (i + 1 == n || all[i + 1].step != all[i].step) {
            st = push(&b->has, all[i].epoch, all[i].step, all[i].step, err);
            all[b->n++] = all[i];
        }
    }
    return st;
}

static enum hsp_status book_open(const struct hsp_ex_epoch *e, struct book *b, struct hsp_err *err)
{
    char path[PATH_MAX];
    uint8_t *text = NULL;
    hsp_segname_notes(e->env->state_dir, e->p->job, e->env->device, path);
    enum hsp_status st = hsp_file_read_own(path, NOTES_MAX, &text, &b->len, err);
    b->text = (char *)text;
    st = st == HSP_ENOENT ? HSP_OK : st;
    return st == HSP_OK ? book_read(e->p->job, b, err) : st;
}

/* The lines of @steps, which are all here. */
static enum hsp_status book_cut(const struct book *b, const struct hsp_step_ranges *steps,
                                struct hsp_buf *out, struct hsp_err *err)
{
    size_t k = 0;
    for (size_t i = 0; i < b->n && k < steps->n; i++) {
        while (k < steps->n && steps->r[k].to < b->line[i].step) {
            k++;
        }
        if (k < steps->n && steps->r[k].from <= b->line[i].step) {
            hsp_buf_append(out, b->line[i].text, b->line[i].len);
            hsp_buf_puts(out, "\n");
        }
    }
    return out->failed ? hsp_err_set(err, hsp_buf_status(out), 0, "no room for notes of steps")
                       : HSP_OK;
}

/* Puts the whole lines of @text, @n bytes, behind those that are here, in memory and in the file. */
static enum hsp_status book_add(const struct hsp_ex_epoch *e, struct book *b, const char *text,
                                size_t n, struct hsp_err *err)
{
    struct hsp_buf more;
    struct hsp_note_line l;
    struct hsp_notes_walk w = {e->p->job, text, text + n};
    hsp_buf_init(&more, NOTES_MAX);
    while (n > 0 && hsp_notes_next(&w, &l)) {
        if (l.as == HSP_NOTE_PROVEN || l.as == HSP_NOTE_UNPROVEN) {
            hsp_buf_append(&more, l.raw, l.raw_len);
            hsp_buf_puts(&more, "\n");
        }
    }
    enum hsp_status st = more.failed ? hsp_err_nomem(err, "notes of steps") : HSP_OK;
    if (st == HSP_OK && more.len > 0) {
        st = hsp_notes_append(e, (const char *)more.data, more.len, err);
    }
    char *grown = st == HSP_OK ? realloc(b->text, b->len + more.len + 2) : NULL;
    if (st == HSP_OK && grown == NULL) {
        st = hsp_err_nomem(err, "notes of steps");
    }
    if (st == HSP_OK) {
        b->text = grown;
        if (b->len > 0 &&
            grown[b->len - 1] != '\n') { /* half a line: read as a damaged one, if at all */
            grown[b->len++] = '\n';
        }
        if (more.len > 0) {
            memcpy(grown + b->len, more.data, more.len);
        }
        b->len += more.len;
        st = book_read(e->p->job, b, err);
    }
    hsp_buf_fini(&more);
    return st;
}

/* ---- messages ---- */

static enum hsp_status send_bytes(struct hsp_comm *c, uint32_t to, const void *data, uint64_t n,
                                  struct hsp_err *err)
{
    enum hsp_status st = c->ops->send(c, to, CHANNEL_NOTES, &n, sizeof n, err);
    return st == HSP_OK && n > 0 ? c->ops->send(c, to, CHANNEL_NOTES, data, (size_t)n, err) : st;
}

/* *ret: free(). */
static enum hsp_status recv_bytes(struct hsp_comm *c, uint32_t from, uint64_t most, void **ret,
                                  size_t *ret_n, struct hsp_err *err)
{
    uint64_t n = 0;
    *ret = NULL;
    *ret_n = 0;
    enum hsp_status st = c->ops->recv(c, from, CHANNEL_NOTES, &n, sizeof n, err);
    if (st != HSP_OK || n == 0) {
        return st;
    }
    void *p = n <= most ? malloc((size_t)n) : NULL;
    if (p == NULL) {
        return hsp_err_nomem(err, "%" PRIu64 " bytes about steps", n);
    }
    st = c->ops->recv(c, from, CHANNEL_NOTES, p, (size_t)n, err);
    if (st != HSP_OK) {
        free(p);
        return st;
    }
    *ret = p;
    *ret_n = (size_t)n;
    return HSP_OK;
}

static enum hsp_status send_list(struct hsp_comm *c, uint32_t to, const struct hsp_step_ranges *a,
                                 struct hsp_err *err)
{
    return send_bytes(c, to, a->r, a->n * sizeof *a->r, err);
}

static enum hsp_status recv_list(struct hsp_comm *c, uint32_t from, struct hsp_step_ranges *ret,
                                 struct hsp_err *err)
{
    void *p;
    size_t n;
    enum hsp_status st = recv_bytes(c, from, RANGES_MAX * sizeof *ret->r, &p, &n, err);
    if (st == HSP_OK) {
        ret->r = p;
        ret->n = ret->cap = n / sizeof *ret->r;
        st = n % sizeof *ret->r == 0 && is_list(ret)
                 ? HSP_OK
                 : hsp_err_set(err, HSP_EPROTO, 0, "rank %u lists steps that cannot be", from);
    }
    return st;
}

/* ---- the exchange ---- */

/* This device takes no part but by words: why is logged. */
static void go_without(const struct hsp_ex_epoch *e, struct book *b, const struct hsp_err *why)
{
    hsp_log(e->env->log, HSP_LOG_WARN, "executor",
            "notes of steps of job %u are not shared here: %s", e->p->job, why->msg);
    b->n = b->has.n = 0;
}

/* The lines of @steps; none where they do not fit into memory. */
static enum hsp_status send_lines(const struct hsp_ex_epoch *e, struct hsp_comm *c, uint32_t to,
                                  struct book *b, const struct hsp_step_ranges *steps,
                                  struct hsp_err *err)
{
    struct hsp_buf out;
    struct hsp_err why = {0};
    hsp_buf_init(&out, NOTES_MAX);
    if (book_cut(b, steps, &out, &why) != HSP_OK) {
        go_without(e, b, &why);
        hsp_buf_reset(&out);
    }
    enum hsp_status st = send_bytes(c, to, out.data, out.len, err);
    hsp_buf_fini(&out);
    return st;
}

static enum hsp_status recv_lines(const struct hsp_ex_epoch *e, struct hsp_comm *c, uint32_t from,
                                  struct book *b, struct hsp_err *err)
{
    void *text;
    size_t n;
    struct hsp_err why = {0};
    enum hsp_status st = recv_bytes(c, from, NOTES_MAX, &text, &n, err);
    if (st == HSP_OK && n > 0 && book_add(e, b, text, n, &why) != HSP_OK) {
        go_without(e, b, &why);
    }
    free(text);
    return st;
}

static bool takes_part(const struct hsp_ex_epoch *e, uint32_t peer)
{
    return peer != e->p->rank && !e->pkg.peers[peer].apart;
}

static bool lasts(const struct hsp_ex_epoch *e, uint32_t peer)
{
    return peer < e->p->n_ranks + e->p->n_keepers;
}

struct hub {
    struct hsp_step_ranges *theirs, *wanted; /* [n] */
    uint32_t n;
};

/* What each peer has, and what is wanted of it: each step of the first that has its newest line. */
static enum hsp_status hub_ask(const struct hsp_ex_epoch *e, struct hsp_comm *c, struct hub *h,
                               const struct book *b, struct hsp_err *err)
{
    struct hsp_step_ranges sure = {0};
    enum hsp_status st = hsp_ranges_unite(&sure, &b->has, err);
    for (uint32_t i = 1; st == HSP_OK && i < h->n; i++) {
        st = takes_part(e, i) ? recv_list(c, i, &h->theirs[i], err) : HSP_OK;
    }
    for (uint32_t i = 1; st == HSP_OK && i < h->n; i++) {
        if (takes_part(e, i)) {
            st = hsp_ranges_lack(&sure, &h->theirs[i], &h->wanted[i], err);
            st = st == HSP_OK ? hsp_ranges_unite(&sure, &h->wanted[i], err) : st;
            st = st == HSP_OK ? send_list(c, i, &h->wanted[i], err) : st;
        }
    }
    free(sure.r);
    return st;
}

static enum hsp_status hub_give(const struct hsp_ex_epoch *e, struct hsp_comm *c,
                                const struct hub *h, struct book *b, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 1; st == HSP_OK && i < h->n; i++) {
        if (takes_part(e, i) && h->wanted[i].n > 0) {
            st = recv_lines(e, c, i, b, err);
        }
    }
    for (uint32_t i = 1; st == HSP_OK && i < h->n; i++) {
        struct hsp_step_ranges lacks = {0};
        if (takes_part(e, i) && lasts(e, i)) {
            st = hsp_ranges_lack(&h->theirs[i], &b->has, &lacks, err);
            st = st == HSP_OK ? send_lines(e, c, i, b, &lacks, err) : st;
        }
        free(lacks.r);
    }
    return st;
}

static enum hsp_status share_all(const struct hsp_ex_epoch *e, struct hsp_comm *c, struct book *b,
                                 struct hsp_err *err)
{
    struct hub h = {.n = c->n_ranks};
    h.theirs = calloc(h.n, sizeof *h.theirs);
    h.wanted = calloc(h.n, sizeof *h.wanted);
    enum hsp_status st = h.theirs != NULL && h.wanted != NULL
                             ? hub_ask(e, c, &h, b, err)
                             : hsp_err_nomem(err, "the notes of %u peers", h.n);
    st = st == HSP_OK ? hub_give(e, c, &h, b, err) : st;
    for (uint32_t i = 0; h.theirs != NULL && h.wanted != NULL && i < h.n; i++) {
        free(h.theirs[i].r);
        free(h.wanted[i].r);
    }
    free(h.theirs);
    free(h.wanted);
    return st;
}

static enum hsp_status share_mine(const struct hsp_ex_epoch *e, struct hsp_comm *c, struct book *b,
                                  struct hsp_err *err)
{
    struct hsp_step_ranges wanted = {0};
    if (!takes_part(e, 0)) {
        return HSP_OK;
    }
    enum hsp_status st = send_list(c, 0, &b->has, err);
    st = st == HSP_OK ? recv_list(c, 0, &wanted, err) : st;
    st = st == HSP_OK && wanted.n > 0 ? send_lines(e, c, 0, b, &wanted, err) : st;
    free(wanted.r);
    return st == HSP_OK && lasts(e, e->p->rank) ? recv_lines(e, c, 0, b, err) : st;
}

enum hsp_status hsp_notes_share(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    struct hsp_comm *c = e->mesh[HSP_MESH_MOVE] != NULL ? e->mesh[HSP_MESH_MOVE]
                         : lasts(e, e->p->rank)         ? e->mesh[HSP_MESH_STATE]
                                                        : NULL;
    struct book b = {0};
    struct hsp_err why = {0};
    if (!e->p->share_notes || e->p->mode == HSP_MODE_FRESH || c == NULL) {
        return HSP_OK;
    }
    if (book_open(e, &b, &why) != HSP_OK) {
        go_without(e, &b, &why);
    }
    enum hsp_status st = e->p->rank == 0 ? share_all(e, c, &b, err) : share_mine(e, c, &b, err);
    book_fini(&b);
    return st;
}
