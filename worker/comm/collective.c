/* Runs collectives by direct exchange, written once over the operations of a transport. Collectives
 * that sum are in reduce.c.
 *
 * Deadlock is impossible: a send never waits for a receive, and all members post the same messages
 * per pair in the same order. */
#include "worker/comm/collective.h"

#include <stdlib.h>
#include <string.h>

#include "worker/comm/collective_impl.h"

enum hsp_status hsp_group_check(const struct hsp_comm *c, const struct hsp_group *g,
                                struct hsp_err *err)
{
    if (g->n == 0 || g->n > c->n_ranks || g->me >= g->n || g->ranks[g->me] != c->rank ||
        g->ranks[g->n - 1] >= c->n_ranks) {
        return hsp_err_set(err, HSP_EINVAL, 0, "not a group of rank %u among %u", c->rank,
                           c->n_ranks);
    }
    for (uint32_t i = 1; i < g->n; i++) {
        if (g->ranks[i] <= g->ranks[i - 1]) {
            return hsp_err_set(err, HSP_EINVAL, 0, "group is not ascending at member %u", i);
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_batch_init(struct comm_batch *b, struct hsp_comm *c, uint32_t channel,
                               size_t cap, struct hsp_err *err)
{
    *b = (struct comm_batch){.c = c, .channel = channel, .cap = cap};
    b->req = calloc(cap > 0 ? cap : 1, sizeof *b->req);
    if (b->req == NULL) {
        return hsp_err_nomem(err, "%zu requests", cap);
    }
    if (c->ops->attend != NULL) {
        c->ops->attend(c, true);
    }
    return HSP_OK;
}

enum hsp_status hsp_batch_finish(struct comm_batch *b, enum hsp_status st, struct hsp_err *err)
{
    for (size_t i = 0; i < b->n; i++) {
        enum hsp_status s = b->c->ops->wait(b->c, &b->req[i], st == HSP_OK ? err : NULL);
        st = st == HSP_OK ? s : st;
    }
    if (b->c->ops->attend != NULL) {
        b->c->ops->attend(b->c, false);
    }
    free(b->req);
    return st;
}

/* Sends @in to every other member; piece i of @out comes from member i. */
static enum hsp_status exchange(struct comm_batch *b, const struct hsp_group *g, const uint8_t *in,
                                uint8_t *out, const size_t *bytes, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 0; i < g->n && st == HSP_OK; i++) {
        if (i != g->me) {
            st = hsp_batch_recv(b, g->ranks[i], out, bytes[i], err);
        }
        out += bytes[i];
    }
    for (uint32_t i = 0; i < g->n && st == HSP_OK; i++) {
        if (i != g->me) {
            st = hsp_batch_send_now(b, g->ranks[i], in, bytes[g->me], err);
        }
    }
    return st;
}

static size_t sum_before(const size_t *v, uint32_t n)
{
    size_t s = 0;
    for (uint32_t i = 0; i < n; i++) {
        s += v[i];
    }
    return s;
}

enum hsp_status hsp_comm_all_gather(struct hsp_comm *c, const struct hsp_group *g, uint32_t channel,
                                    enum hsp_dtype t, const void *in, const size_t *count,
                                    void *out, struct hsp_err *err)
{
    struct comm_batch b;
    enum hsp_status st = hsp_group_check(c, g, err);
    if (st == HSP_OK && c->ops->collect != NULL) {
        return c->ops->collect->all_gather(c, g, channel, t, in, count, out, err);
    }
    if (st != HSP_OK || (st = hsp_batch_init(&b, c, channel, 2 * (size_t)g->n, err)) != HSP_OK) {
        return st;
    }
    size_t *bytes = calloc(g->n, sizeof *bytes);
    if (bytes == NULL) {
        return hsp_batch_finish(&b, hsp_err_nomem(err, "a group"), err);
    }
    for (uint32_t i = 0; i < g->n; i++) {
        bytes[i] = count[i] * hsp_dtype_size(t);
    }
    st = exchange(&b, g, in, out, bytes, err);
    uint8_t *mine = (uint8_t *)out + sum_before(bytes, g->me);
    if (mine != in && bytes[g->me] > 0) {
        memcpy(mine, in, bytes[g->me]);
    }
    free(bytes);
    return hsp_batch_finish(&b, st, err);
}
