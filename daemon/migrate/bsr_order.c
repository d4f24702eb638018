#include "daemon/migrate/bsr_order.h"

#include <stdlib.h>

#include "daemon/migrate/bsr_cells.h"
#include "daemon/migrate/bsr_impl.h"

struct line {
    uint32_t head, tail; /* drafts in waiting; HSP_NONE: none */
    double free_us;      /* when the sender is free */
};

struct waiting { /* a line in the heap */
    double start_us;
    uint32_t line;
};

struct timing {
    const struct hsp_bsr_work *w;
    struct line *line;      /* [n_ranks + n_nics]: devices, then cards */
    double *taken_us;       /* the same: when the receiver is free */
    uint32_t *next;         /* [n_drafts] in its line */
    double *ready_us;       /* [n_drafts] when the sender has it */
    uint32_t *child, *peer; /* [n_drafts] first one passed on from it; next of the same parent */
    struct waiting *heap;
    uint32_t n_heap;
};

static bool through_card(const struct timing *t, uint32_t draft)
{
    const struct hsp_bsr_draft *d = &t->w->draft[draft];
    return hsp_bsr_link(t->w->net, d->from, d->to) == HSP_LINK_NIC;
}

static uint32_t line_of(const struct timing *t, uint32_t draft, uint32_t rank)
{
    const struct hsp_bsr_net *net = t->w->net;
    return through_card(t, draft) ? net->n_ranks + net->place[rank].nic : rank;
}

static double start_of(const struct timing *t, uint32_t line)
{
    uint32_t head = t->line[line].head;
    double start = t->ready_us[head];
    double taken = t->taken_us[line_of(t, head, t->w->draft[head].to)];
    start = start > t->line[line].free_us ? start : t->line[line].free_us;
    return start > taken ? start : taken;
}

static bool before(const struct waiting *a, const struct waiting *b)
{
    return a->start_us < b->start_us || (a->start_us <= b->start_us && a->line < b->line);
}

static void push(struct timing *t, uint32_t line)
{
    const struct waiting x = {start_of(t, line), line};
    uint32_t at = t->n_heap++;
    while (at > 0 && before(&x, &t->heap[(at - 1) / 2])) {
        t->heap[at] = t->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    t->heap[at] = x;
}

static struct waiting pop(struct timing *t)
{
    const struct waiting top = t->heap[0], x = t->heap[--t->n_heap];
    uint32_t at = 0;
    for (;;) {
        uint32_t k = 2 * at + 1;
        if (k + 1 < t->n_heap && before(&t->heap[k + 1], &t->heap[k])) {
            k++;
        }
        if (k >= t->n_heap || !before(&t->heap[k], &x)) {
            break;
        }
        t->heap[at] = t->heap[k];
        at = k;
    }
    t->heap[at] = x;
    return top;
}

static void wait_in_line(struct timing *t, uint32_t draft, double ready_us)
{
    uint32_t line = line_of(t, draft, t->w->draft[draft].from);
    struct line *l = &t->line[line];
    t->ready_us[draft] = ready_us;
    if (l->head == HSP_NONE) {
        l->head = l->tail = draft;
        push(t, line);
    } else {
        t->next[l->tail] = draft;
        l->tail = draft;
    }
}

/* Starts the head of a line; a chunk passed on from it waits from its arrival. */
static uint32_t run_head(struct timing *t, uint32_t line, double start)
{
    const struct hsp_bsr_net *net = t->w->net;
    struct line *l = &t->line[line];
    uint32_t draft = l->head;
    const struct hsp_bsr_draft *d = &t->w->draft[draft];
    enum hsp_link_class link = hsp_bsr_link(net, d->from, d->to);
    double per_byte = net->link[link].us_per_byte;
    if (link == HSP_LINK_NIC) {
        double a = net->nic_us_per_byte[net->place[d->from].nic];
        double b = net->nic_us_per_byte[net->place[d->to].nic];
        per_byte = a > b ? a : b;
    }
    double end = start + (double)t->w->cell[d->cell].bytes * per_byte;
    l->free_us = t->taken_us[line_of(t, draft, d->to)] = end;
    l->head = t->next[draft];
    if (l->head != HSP_NONE) {
        push(t, line);
    }
    for (uint32_t c = t->child[draft]; c != HSP_NONE; c = t->peer[c]) {
        wait_in_line(t, c, end + net->link[link].latency_us);
    }
    return draft;
}

/* Links each draft to its parent; those of one parent in their order. */
static void link_drafts(struct timing *t)
{
    for (size_t i = 0; i < t->w->n_drafts; i++) {
        t->next[i] = t->child[i] = t->peer[i] = HSP_NONE;
    }
    for (size_t i = t->w->n_drafts; i-- > 0;) {
        uint32_t parent = t->w->draft[i].parent;
        if (parent != HSP_NONE) {
            t->peer[i] = t->child[parent];
            t->child[parent] = (uint32_t)i;
        }
    }
}

static void run_all(struct timing *t, uint32_t *ret)
{
    uint32_t n = 0;
    link_drafts(t);
    for (uint32_t i = 0; i < t->w->net->n_ranks + t->w->net->n_nics; i++) {
        t->line[i].head = t->line[i].tail = HSP_NONE;
    }
    for (uint32_t i = 0; i < t->w->n_drafts; i++) {
        if (t->w->draft[i].parent == HSP_NONE) {
            wait_in_line(t, i, 0);
        }
    }
    while (t->n_heap > 0) {
        const struct waiting top = pop(t);
        double start = start_of(t, top.line);
        if (start > top.start_us) { /* its receiver has been taken since */
            push(t, top.line);
        } else {
            ret[n++] = run_head(t, top.line, start);
        }
    }
}

enum hsp_status hsp_bsr_order(const struct hsp_bsr_work *w, uint32_t *ret, struct hsp_err *err)
{
    size_t n = w->n_drafts + 1, k = (size_t)w->net->n_ranks + w->net->n_nics + 1;
    struct timing t = {.w = w,
                       .line = calloc(k, sizeof *t.line),
                       .taken_us = calloc(k, sizeof *t.taken_us),
                       .next = calloc(n, sizeof *t.next),
                       .ready_us = calloc(n, sizeof *t.ready_us),
                       .child = calloc(n, sizeof *t.child),
                       .peer = calloc(n, sizeof *t.peer),
                       .heap = calloc(k, sizeof *t.heap)};
    bool ok = t.line != NULL && t.taken_us != NULL && t.next != NULL && t.ready_us != NULL &&
              t.child != NULL && t.peer != NULL && t.heap != NULL;
    if (ok) {
        run_all(&t, ret);
    }
    free(t.line);
    free(t.taken_us);
    free(t.next);
    free(t.ready_us);
    free(t.child);
    free(t.peer);
    free(t.heap);
    return ok ? HSP_OK : hsp_err_nomem(err, "a transfer of state");
}
