/* Jobs of one rank whose state replica holders have. Node k has device 0 and replica holders behind
 * it, on connection k + 1. */
#ifndef HSP_KEEPERS_WORLD_H
#define HSP_KEEPERS_WORLD_H
#include "tests/unit/daemon/cluster/cluster_world.h"

#define KW_BYTES 1000u /* of a state */

void kw_msg(struct cw_world *w, uint32_t node, struct hsp_msg m);
void kw_allow(struct cw_world *w, uint32_t node, bool on); /* node allow, or deny */
/* A node of replica holders alone, one of them. */
void kw_hello_replica_holder(struct cw_world *w, uint32_t node);
void kw_joins(struct cw_world *w, uint32_t node, uint32_t n_replica_holders, uint64_t room);
/* The node is allowed, and joins. */
void kw_hello(struct cw_world *w, uint32_t node, uint32_t n_replica_holders, uint64_t room);
void kw_begin(struct cw_world *w, uint32_t n_nodes, uint32_t n_replica_holders);
/* Answers the last question: one rank on the first device offered, and the replica holders that
 * @copies need. */
void kw_plan(struct cw_world *w, uint32_t copies);
/* All peers of the attempt are ready, then its first vote passes, then the requested devices are
 * given back. */
void kw_run(struct cw_world *w, uint32_t id, uint64_t version);
void kw_submit(struct cw_world *w, const char *name, uint32_t copies); /* and plans it */
void kw_sealed(struct cw_world *w, uint32_t node, struct hsp_m_holding *h, uint32_t n);

#endif
