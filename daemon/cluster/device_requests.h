/* Asks agents to give back devices and their state, and tells nodes that nothing is left on them.
 *
 * A lease with ask STOP or RELEASE is told once per connection; a HELLO opens the question
 * again. A node that beats, but does not answer within a minute, is dead: else its job would never
 * be planned again, nor be forgotten when it has ended. A source is told when it has left the epoch
 * before, and has a minute for that, too.
 *
 * Example: n2 is drained and was a source of epoch 8, which votes. STARTED of n2 does not come: its
 * executor hangs. A minute behind the first vote n2 is dead, and the job may be planned anew. */
#ifndef HSP_DEVICE_REQUESTS_H
#define HSP_DEVICE_REQUESTS_H
#include "daemon/cluster/cluster_state.h"

/* Looks at the nodes that have changed: sends STOP, RELEASE and BYE, reports drained nodes,
 * gives the next turns of measurements and checks. */
void hsp_ci_nodes_advance(struct hsp_cluster *c);
/* Nodes that owe an answer to SEAL, STOP or RELEASE too long are dead. For ticks alone (W7): when
 * this process was stopped, the answers may be there and unread. */
void hsp_ci_answers_late(struct hsp_cluster *c);

#endif
