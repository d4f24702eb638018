/* Forgives nodes the time in which hspmdd itself did not run: a suspended machine, a paused virtual
 * one, a process that was stopped or starved.
 *
 * Messages that nodes sent meanwhile are still unread, and their own time may have stood too. So
 * that time is no silence of nodes, and it ends no wait for a message: each wait is longer by it,
 * and lasts one more beat at least, as a node may have to connect again first.
 *
 * Example: RELEASE has gone to n1, which has 60 s for it. 10 s later hspmdd is stopped for 5
 * minutes. Its first event behind that finds that n1 has 50 s left.
 *
 * Every field of cluster_state.h that ends a wait for a message of an agent, or from which the end
 * is reckoned, has its line in stall.c. A pause of hspmdd's own, as retry_ms, and how long a lesson
 * counts have none. */
#ifndef HSP_STALL_H
#define HSP_STALL_H
#include "daemon/cluster/cluster_state.h"

/* To be called before the event is looked at. */
void hsp_ci_forgive_stall(struct hsp_cluster *c);

#endif
