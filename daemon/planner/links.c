/* See links.h. */
#include "daemon/planner/links.h"

#include <math.h>
#include <stdbool.h>

struct hsp_link_cost hsp_link_group(const struct hsp_cluster_desc *c, const uint32_t *device,
                                    uint32_t n)
{
    const struct hsp_device_desc *top = &c->dev[device[0]];
    bool nodes = false, hosts = false;
    double us_per_byte = 0, second = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct hsp_device_desc *d = &c->dev[device[i]];
        nodes = nodes || d->node != c->dev[device[0]].node;
        hosts = hosts || d->host != c->dev[device[0]].host;
        us_per_byte = fmax(us_per_byte, d->uplink.us_per_byte);
        top = d->uplink.latency_us > top->uplink.latency_us ? d : top;
    }
    if (!nodes) {
        return c->same_node;
    }
    if (!hosts) {
        return c->cross;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct hsp_device_desc *d = &c->dev[device[i]];
        second = d->host != top->host ? fmax(second, d->uplink.latency_us) : second;
    }
    return (struct hsp_link_cost){
        .latency_us = fmax(c->cross.latency_us, (top->uplink.latency_us + second) / 2),
        .us_per_byte = fmax(c->cross.us_per_byte, us_per_byte)};
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
