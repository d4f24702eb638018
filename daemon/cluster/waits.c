#include "daemon/cluster/waits.h"

#include <stdlib.h>

enum { UNSEEN, ON_WAY, KNOWN };

static bool is_sink(const struct hsp_wait *w)
{
    return w->on == HSP_WAITS_NOBODY || w->link;
}

/* The vertex of the circle through @v that waits the longest stands for it. */
static uint32_t head_of_circle(const struct hsp_wait *w, uint32_t v)
{
    uint32_t head = v;
    for (uint32_t x = w[v].on; x != v; x = w[x].on) {
        bool longer = w[x].since_ms > w[head].since_ms;
        head = longer || (w[x].since_ms == w[head].since_ms && x < head) ? x : head;
    }
    return head;
}

/* Writes the sink of @v, and of all on its way. */
static void follow(const struct hsp_wait *w, struct hsp_waits_place *p, uint32_t v)
{
    uint32_t x = v;
    while (p[x].state == UNSEEN && !is_sink(&w[x])) {
        p[x].state = ON_WAY;
        x = w[x].on;
    }
    uint32_t sink = p[x].state == KNOWN    ? p[x].sink
                    : p[x].state == ON_WAY ? head_of_circle(w, x)
                                           : x;
    if (p[x].state == UNSEEN) {
        p[x].sink = sink;
        p[x].state = KNOWN;
    }
    for (x = v; p[x].state == ON_WAY; x = w[x].on) {
        p[x].sink = sink;
        p[x].state = KNOWN;
    }
}

static enum hsp_culprit_kind kind_of(const struct hsp_wait *w)
{
    return w->on == HSP_WAITS_NOBODY ? HSP_CULPRIT_THREAD
           : w->link                 ? HSP_CULPRIT_LINK
                                     : HSP_CULPRIT_CIRCLE;
}

/* A number for the pair of nodes of a link; 0: the edge is no link. */
static uint64_t link_of(const struct hsp_wait *w, uint32_t v)
{
    if (kind_of(&w[v]) != HSP_CULPRIT_LINK) {
        return 0;
    }
    uint32_t a = w[v].node, b = w[w[v].on].node;
    return ((uint64_t)(a < b ? a : b) << 32 | (a < b ? b : a)) + 1;
}

static int by_link(const void *a, const void *b)
{
    const struct hsp_waits_place *x = a, *y = b;
    if (x->link != y->link) {
        return x->link < y->link ? -1 : 1;
    }
    return x->sink < y->sink ? -1 : x->sink > y->sink;
}

static bool is_worse(const struct hsp_wait *w, const struct hsp_culprit *a,
                     const struct hsp_culprit *b)
{
    if (a->waiters != b->waiters) {
        return a->waiters > b->waiters;
    }
    if (w[a->at].since_ms != w[b->at].since_ms) {
        return w[a->at].since_ms > w[b->at].since_ms;
    }
    return a->kind != b->kind ? a->kind < b->kind : a->at < b->at;
}

/* The sinks @p, of one link or one other sink. */
static struct hsp_culprit sum_of(const struct hsp_wait *w, const struct hsp_waits_place *p,
                                 uint32_t n)
{
    struct hsp_culprit c = {.kind = kind_of(&w[p[0].sink]), .at = p[0].sink, .on = w[p[0].sink].on};
    for (uint32_t i = 0; i < n; i++) {
        c.waiters += p[i].waiters;
        if (w[p[i].sink].since_ms > w[c.at].since_ms) {
            c.at = p[i].sink;
            c.on = w[c.at].on;
        }
    }
    return c;
}

/* Leaves in @p the sinks that anybody waits for; returns their number. */
static uint32_t list_sinks(const struct hsp_wait *w, uint32_t n, struct hsp_waits_place *p)
{
    uint32_t n_sinks = 0;
    for (uint32_t v = 0; v < n; v++) {
        p[v] = (struct hsp_waits_place){.state = UNSEEN};
    }
    for (uint32_t v = 0; v < n; v++) {
        follow(w, p, v);
        p[p[v].sink].waiters += w[v].on != HSP_WAITS_NOBODY;
    }
    for (uint32_t v = 0; v < n; v++) {
        if (p[v].sink == v && p[v].waiters > 0) {
            p[n_sinks++] = (struct hsp_waits_place){v, p[v].waiters, link_of(w, v), KNOWN};
        }
    }
    return n_sinks;
}

bool hsp_waits_culprit(const struct hsp_wait *w, uint32_t n, struct hsp_waits_place *scratch,
                       struct hsp_culprit *ret)
{
    uint32_t n_sinks = list_sinks(w, n, scratch);
    bool found = false;
    if (n_sinks > 1) {
        qsort(scratch, n_sinks, sizeof(*scratch), by_link);
    }
    for (uint32_t i = 0, k; i < n_sinks; i = k) {
        for (k = i + 1; k < n_sinks && scratch[i].link != 0 && scratch[k].link == scratch[i].link;
             k++) {
        }
        struct hsp_culprit c = sum_of(w, &scratch[i], k - i);
        if (!found || is_worse(w, &c, ret)) {
            *ret = c;
            found = true;
        }
    }
    return found;
}
