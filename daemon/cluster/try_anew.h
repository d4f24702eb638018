/* Forgets the lessons of a node's failures, so that jobs try the node at once.
 *
 * Example: h had no room in its state folder, and job mist does without it. The disk is cleared,
 * and an administrator says `undrain h`. The fault of h, the facts of mist about h and its refusals
 * of h are gone. That mist was asked about h/0 before, and does without it, counts no more: it asks
 * for a plan.
 *
 * The same follows when a new agent of the node says hello. */
#ifndef HSP_TRY_ANEW_H
#define HSP_TRY_ANEW_H
#include "daemon/cluster/cluster_state.h"

/* For all jobs, and for the node itself. */
void hsp_ci_try_anew(struct hsp_cluster *c, struct hsp_cluster_node *n);

#endif
