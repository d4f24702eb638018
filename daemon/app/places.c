#include "daemon/app/places.h"

#define STRANGERS 1024u /* a cluster that comes back at once takes turns; a crowd is cheap */
/* Strangers: a large cluster that comes back does not throw itself out. */
#define FEW           256u
#define LEAST         16u /* strangers, where descriptors are few */
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

uint32_t hsp_places_parked(uint32_t max_nodes, const uint32_t places[HSP_NET_POOLS])
{
    uint32_t all = places[HSP_POOL_AGENTS], beside = all > max_nodes ? all - max_nodes : 1;
    return beside < all / 2 ? beside : all / 2;
}

/* Leaves @least of *@places, or more where that is @want less already. */
static uint32_t shrink(uint32_t *places, uint32_t least, uint32_t want)
{
    uint32_t spare = *places > least ? *places - least : 0;
    uint32_t less = want < spare ? want : spare;
    *places -= less;
    return want - less;
}

void hsp_places_fit(uint32_t have, uint32_t max_nodes, uint32_t places[HSP_NET_POOLS])
{
    uint32_t want = sum(places);
    uint32_t less = want > have ? want - have : 0;
    less = shrink(&places[HSP_POOL_STRANGERS], FEW, less);
    less = shrink(&places[HSP_POOL_AGENTS], max_nodes + AGENTS_BESIDE, less);
    (void)shrink(&places[HSP_POOL_STRANGERS], LEAST, less);
    uint32_t kept =
        have >= 8 * LEAST ? places[HSP_POOL_STRANGERS] : 0; /* all agents come by these */
    want = sum(places);
    for (uint32_t i = 0; have < want && i < HSP_NET_POOLS; i++) {
        uint64_t part = kept > 0 && i == HSP_POOL_STRANGERS
                            ? kept
                            : (uint64_t)places[i] * (have - kept) / (want - kept);
        places[i] = places[i] == 0 ? 0 : part == 0 ? 1 : (uint32_t)part;
    }
}
