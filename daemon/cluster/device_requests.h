/* Tells agents what their devices have to give back, and tells nodes that nothing is left on
 * them.
 *
 * A lease with ask STOP or RELEASE is told once per connection; a HELLO opens the question
 * again. A node that beats, but does not answer within a minute, is dead: else its job would never be planned
 * again, nor be forgotten when it has ended. */
#ifndef HSP_DEVICE_REQUESTS_H
#define HSP_DEVICE_REQUESTS_H
#include "daemon/cluster/cluster_state.h"

/* Looks at the nodes that have changed: sends STOP, RELEASE and BYE, reports drained nodes,
 * gives the next turns of measurements and checks. */
void hsp_ci_nodes_advance(struct hsp_cluster *c);

#endif
