#include "daemon/app/places.h"

#define STRANGERS     1024u /* a cluster that comes back at once takes turns; a crowd is cheap */
#define LEAST         16u   /* strangers, where descriptors are few */
#define VISITORS      512u
#define ADMINS        64u
#define LOCAL         128u /* also scripts that ask all the time, and followers of feeds */
#define AGENTS_BESIDE 64u  /* hellos that are being turned away */

static uint32_t sum(const uint32_t places[HSP_NET_POOLS])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < HSP_NET_POOLS; i++) {
        n += places[i];
    }
    return n;
}

uint32_t hsp_places_wanted(uint32_t max_nodes, uint32_t ret[HSP_NET_POOLS])
{
    const uint32_t most = HSP_NET_MAX_PLACES - STRANGERS - VISITORS - ADMINS - LOCAL;
    ret[HSP_POOL_OWN] = 0;
    ret[HSP_POOL_STRANGERS] = STRANGERS;
    ret[HSP_POOL_VISITORS] = VISITORS;
    ret[HSP_POOL_ADMINS] = ADMINS;
    ret[HSP_POOL_LOCAL] = LOCAL;
    ret[HSP_POOL_AGENTS] =
        max_nodes <= (most - AGENTS_BESIDE) / 2 ? 2 * max_nodes + AGENTS_BESIDE : most;
    return sum(ret);
}

uint32_t hsp_places_parked(const uint32_t places[HSP_NET_POOLS])
{
    return places[HSP_POOL_AGENTS] / 2;
}

void hsp_places_fit(uint32_t have, uint32_t places[HSP_NET_POOLS])
{
    uint32_t want = sum(places), spare = places[HSP_POOL_STRANGERS] - LEAST;
    if (have >= want) {
        return;
    }
    uint32_t less = want - have < spare ? want - have : spare;
    places[HSP_POOL_STRANGERS] -= less;
    want -= less;
    for (uint32_t i = 0; have < want && i < HSP_NET_POOLS; i++) {
        uint64_t part = (uint64_t)places[i] * have / want;
        places[i] = places[i] == 0 ? 0 : part == 0 ? 1 : (uint32_t)part;
    }
}
