/* Finds out which listeners of executors answer a call from this node.
 *
 * Each is called several times within the time, as a call or its answer may be lost on the way: of
 * 15 % lost packets two thousandths of the targets seem deaf. A call is a TCP connection that is
 * closed again at once.
 *
 * Purity:  shell (sockets, names, the clock).
 * Threads: the caller's; blocks for @within_ms at most, and for the resolution of a name.
 */
#ifndef HSP_REACH_H
#define HSP_REACH_H
#include <stdint.h>

enum hsp_reach_answer {
    HSP_REACH_YES,     /* also where this process could not call, which tells nothing */
    HSP_REACH_REFUSED, /* its host answers, and nobody listens */
    HSP_REACH_NO
};

/* Calls @n addresses, as hsp_mesh_listener_address has them. */
void hsp_reach(const char *const *address, uint32_t n, uint32_t within_ms,
               enum hsp_reach_answer *ret);

#endif
