/* Shares the descriptors of hspmdd among the kinds of callers.
 *
 * Example: max_nodes 256. 576 places for agents (each may come back before its old connection has
 * gone), at most 288 of them for agents that are no members. Unidentified callers have 1024 places
 * by TCP and 512 on the socket; administrators 64 by TCP and 128 on the socket. With fewer
 * descriptors the strangers by TCP give theirs up first, down to 256; then agents have one place
 * for each node; then strangers 16; then the others have less, with fewer than 128 strangers too.
 *
 * Purity: pure.
 */
#ifndef HSP_PLACES_H
#define HSP_PLACES_H
#include "proto/net/net.h"

/* The places that @max_nodes want. Returns their number, at most HSP_NET_MAX_PLACES. */
uint32_t hsp_places_wanted(uint32_t max_nodes, uint32_t ret[HSP_NET_POOLS]);
/* Most agents that are no members: each of @max_nodes keeps a place where there are so many. At
 * most half, at least one. */
uint32_t hsp_places_parked(uint32_t max_nodes, const uint32_t places[HSP_NET_POOLS]);
/* Makes @places of so many, but at least one for each that wanted one. @max_nodes as wanted. */
void hsp_places_fit(uint32_t have, uint32_t max_nodes, uint32_t places[HSP_NET_POOLS]);

#endif
