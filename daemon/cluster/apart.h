/* Chooses the nodes that a job leaves out because some pairs of nodes cannot reach each other.
 *
 * All members of an epoch talk to each other, so no broken pair may be among them. The nodes
 * that are kept are an independent set of the graph of broken pairs, the best one by, in this
 * order:
 *   1. the newest version of the state that can be had from the nodes kept, or through them;
 *   2. at least `min` devices;
 *   3. the sum of the speeds of the devices;
 *   4. nodes with lower numbers.
 * Example: n1 with a device of speed 1, n2 with two, n3 with one; n1-n2 and n2-n3 are broken.
 * The sets are {n1, n3} and {n2}, both of speed 2: {n1, n3} is kept. Were n2 the only one with a
 * part of the newest version, {n2} would be.
 *
 * The state of a node that is left out can be had through another that reaches it and all that
 * are kept; the node is *cut off* when there is none. In a recovery it is a source only where
 * its state is needed, no connection is made over the broken pair, and others pass its state on
 * (daemon/migrate/bsr.h).
 *
 * The nodes of the running epoch are never left out; other nodes are. So no two peers of a switch
 * are a broken pair, unless two nodes of the running epoch are one: then there is no switch until
 * these two can connect again.
 *
 * Bounds: if at most 64 nodes belong to broken pairs, the search over their independent sets is
 * exact, and looks at the state of at most SEARCH sets. Otherwise, or if that search finds no set,
 * it is greedy. */
#ifndef HSP_APART_H
#define HSP_APART_H
#include "daemon/cluster/cluster_state.h"

/* hsp_ci_available without the nodes that are left out. Those nodes are marked: their state counts
 * as reachable or not (hsp_ci_reachable). */
uint32_t hsp_ci_usable(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id **ret);
/* "; n2 is left out, as ..." of the last choice, in the arena of the step; "": none is. */
const char *hsp_ci_apart_why(struct hsp_cluster *c, const struct hsp_job *j);
/* True when nodes of the attempt of @j that must reach each other cannot; *ret_why: which, in the
 * arena of the step. A slow pair that the running epoch has does not count. */
bool hsp_ci_attempt_apart(struct hsp_cluster *c, const struct hsp_job *j, const char **ret_why);
/* Returns true if two members or replica holders of the running epoch of @j cannot reach each
 * other. Their connections may still work, but all of them are peers of each switch, so no switch
 * is possible. */
bool hsp_ci_members_apart(struct hsp_cluster *c, const struct hsp_job *j, const char **ret_why);
/* Before the sources of @e, of layout @info, are fixed: state of nodes that cannot reach all of its
 * members is not asked for where the others have all. Returns the number of devices in *ret, in the
 * arena of the step, that are to be sources without state: they reach nodes whose state is needed
 * and which no member reaches. */
uint32_t hsp_ci_spare_sources(struct hsp_cluster *c, struct hsp_job *j,
                              const struct hsp_plan_info *info, const struct hsp_cl_epoch *e,
                              hsp_device_id **ret);

#endif
