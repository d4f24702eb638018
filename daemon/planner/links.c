/* Prices messages between devices of a described cluster by its links. */
#include "daemon/planner/links.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

static bool known(const struct hsp_device_desc *d)
{
    return d->uplink.us_per_byte > 0;
}

/* Devices whose uplinks are known; hosts: of the first one, and whether there is another. */
struct uplinks {
    const struct hsp_device_desc *top; /* of the longest way; NULL: none is known */
    bool hosts;
    double us_per_byte;
};

static struct uplinks look(const struct hsp_cluster_desc *c, const uint32_t *device, uint32_t n)
{
    struct uplinks u = {0};
    const struct hsp_device_desc *first = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const struct hsp_device_desc *d = &c->dev[device[i]];
        if (known(d)) {
            first = first == NULL ? d : first;
            u.hosts = u.hosts || d->host != first->host;
            u.us_per_byte = fmax(u.us_per_byte, d->uplink.us_per_byte);
            u.top = u.top == NULL || d->uplink.latency_us > u.top->uplink.latency_us ? d : u.top;
        }
    }
    return u;
}

/* All of them are in one fast domain: *ret is its link. */
static bool one_domain(const struct hsp_cluster_desc *c, const uint32_t *device, uint32_t n,
                       struct hsp_link_cost *ret)
{
    const struct hsp_device_desc *first = &c->dev[device[0]];
    struct hsp_link_cost worst = first->fast;
    bool same = n > 1 && first->domain != 0;
    for (uint32_t i = 1; same && i < n; i++) {
        const struct hsp_device_desc *d = &c->dev[device[i]];
        same = d->domain == first->domain;
        worst.latency_us = fmax(worst.latency_us, d->fast.latency_us);
        worst.us_per_byte = fmax(worst.us_per_byte, d->fast.us_per_byte);
    }
    *ret = same ? worst : *ret;
    return same;
}

static bool has_node(const struct hsp_cluster_desc *c, const uint32_t *device, uint32_t n,
                     uint32_t node)
{
    bool has = false;
    for (uint32_t i = 0; i < n && !has; i++) {
        has = c->dev[device[i]].node == node;
    }
    return has;
}

/* Of the links known to be slow that are between two of them; 0: none is. */
static double slowest(const struct hsp_cluster_desc *c, const uint32_t *device, uint32_t n)
{
    double us = 0;
    for (uint32_t i = 0; i < c->n_slow; i++) {
        const struct hsp_slow_link *s = &c->slow[i];
        if (s->us_per_byte > us && has_node(c, device, n, s->a) && has_node(c, device, n, s->b)) {
            us = s->us_per_byte;
        }
    }
    return us;
}

struct hsp_link_cost hsp_link_group(const struct hsp_cluster_desc *c, const uint32_t *device,
                                    uint32_t n)
{
    struct uplinks u = look(c, device, n);
    bool nodes = false;
    double second = 0; /* the longest way of those on other hosts than the top one's */
    for (uint32_t i = 0; i < n; i++) {
        const struct hsp_device_desc *d = &c->dev[device[i]];
        nodes = nodes || d->node != c->dev[device[0]].node;
        if (u.hosts && d->host != u.top->host) {
            second = fmax(second, d->uplink.latency_us);
        }
    }
    struct hsp_link_cost fast;
    if (!nodes || !u.hosts) {
        return nodes ? c->cross : one_domain(c, device, n, &fast) ? fast : c->same_node;
    }
    return (struct hsp_link_cost){
        .latency_us = fmax(c->cross.latency_us, (u.top->uplink.latency_us + second) / 2),
        .us_per_byte = fmax(slowest(c, device, n), fmax(c->cross.us_per_byte, u.us_per_byte))};
}

struct hsp_link_cost hsp_link_pair(const struct hsp_cluster_desc *c, uint32_t a, uint32_t b)
{
    const uint32_t pair[2] = {a, b};
    return hsp_link_group(c, pair, 2);
}

struct hsp_link_cost hsp_link_out(const struct hsp_cluster_desc *c, uint32_t device)
{
    const struct hsp_link_cost *up = &c->dev[device].uplink;
    return (struct hsp_link_cost){.latency_us = fmax(c->cross.latency_us, up->latency_us / 2),
                                  .us_per_byte = fmax(c->cross.us_per_byte, up->us_per_byte)};
}

static struct hsp_link_cost between_ranks(const void *ctx, uint32_t from, uint32_t to)
{
    const struct hsp_rank_devices *d = ctx;
    return hsp_link_pair(d->cluster, d->device[from], d->device[to]);
}

struct hsp_rank_links hsp_links_of_ranks(const struct hsp_rank_devices *d)
{
    return (struct hsp_rank_links){.between = between_ranks, .ctx = d};
}
