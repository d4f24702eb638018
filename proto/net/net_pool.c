#include "proto/net/net_pool.h"

#include <stdlib.h>

static struct net_pool *pool_of(const struct net_conn *c)
{
    return c->pooled ? &c->net->pool[c->pool] : NULL;
}

enum hsp_status hsp_net_pools_init(struct hsp_net *n, struct hsp_err *err)
{
    for (uint32_t i = HSP_POOL_STRANGERS; i <= HSP_POOL_VISITORS; i++) {
        /* One more: a newcomer is listed before its victim goes. */
        size_t most = (size_t)n->cfg.places[i] + 1;
        n->pool[i].list = calloc(most, sizeof *n->pool[i].list);
        n->pool[i].who = calloc(most, sizeof *n->pool[i].who);
        if (n->pool[i].list == NULL || n->pool[i].who == NULL) {
            return hsp_err_nomem(err, "connections");
        }
    }
    return HSP_OK;
}

void hsp_net_pools_fini(struct hsp_net *n)
{
    for (uint32_t i = 0; i < HSP_NET_POOLS; i++) {
        free(n->pool[i].list);
        free(n->pool[i].who);
    }
}

bool hsp_net_pool_join(struct net_conn *c, enum hsp_net_pool pool)
{
    struct net_pool *p = &c->net->pool[pool];
    if (p->n >= c->net->cfg.places[pool]) {
        return false;
    }
    hsp_net_pool_leave(c);
    c->pooled = true;
    c->pool = pool;
    p->n++;
    return true;
}

struct net_conn *hsp_net_pool_arrive(struct net_conn *c, enum hsp_net_pool pool,
                                     struct hsp_source from)
{
    struct hsp_net *n = c->net;
    struct net_pool *p = &n->pool[pool];
    uint64_t now = uv_now(n->loop), kept = n->cfg.kept_ms;
    uint32_t i = hsp_strangers_victim(p->list, p->n, n->cfg.places[pool], &from,
                                      now > kept ? now - kept : 0);
    if (i == HSP_NEWCOMER) {
        return c;
    }
    struct net_conn *victim = i != HSP_NO_STRANGER ? p->who[i] : NULL;
    p->list[p->n] = (struct hsp_stranger){.from = from, .since = n->n_arrived++};
    p->who[p->n] = c;
    c->pooled = true;
    c->pool = pool;
    c->at = p->n++;
    return victim;
}

void hsp_net_pool_proved(struct net_conn *c)
{
    const struct net_pool *p = pool_of(c);
    if (p != NULL && p->list != NULL && p->list[c->at].proved_ms == 0) {
        p->list[c->at].proved_ms = uv_now(c->net->loop);
    }
}

void hsp_net_pool_leave(struct net_conn *c)
{
    struct net_pool *p = pool_of(c);
    if (p == NULL) {
        return;
    }
    c->pooled = false;
    p->n--;
    if (p->list != NULL) { /* the last one takes its place */
        p->list[c->at] = p->list[p->n];
        p->who[c->at] = p->who[p->n];
        p->who[c->at]->at = c->at;
    }
}

struct net_conn *hsp_net_pool_oldest(const struct hsp_net *n)
{
    struct net_conn *oldest = NULL;
    uint64_t since = UINT64_MAX;
    for (uint32_t i = HSP_POOL_STRANGERS; i <= HSP_POOL_VISITORS; i++) {
        for (uint32_t k = 0; k < n->pool[i].n; k++) {
            if (n->pool[i].list[k].since < since) {
                since = n->pool[i].list[k].since;
                oldest = n->pool[i].who[k];
            }
        }
    }
    return oldest;
}
