/* Decides which nodes are members: hello, incarnations, silence, restarts of executors.
 *
 * A node is dead when it was silent for the bound, when its connection is closed and a peer saw
 * its data plane break, or when a new agent process says HELLO in its place. While the old agent
 * is connected and live, the new one is another node of the same name and is refused. Dead is
 * for ever for that incarnation: a HELLO that carries it is answered by FENCED. A closed
 * connection alone only makes a node suspect.
 *
 * An incarnation is 128 random bits, known to the agent and here. Nobody else can connect again
 * under it. A new agent process proves by the incarnation before, which stands in its state
 * folder, that it is the same node; only then does it take the place of a node that is not dead
 * yet. Without that proof it is a new node of the name: its incarnations begin anew
 * (same_since), and what it holds or tells of earlier epochs is not believed (may_say.h). The agent
 * before it is remembered: when it comes back and shows its incarnation, it is that node again.
 *
 * Example: a is 5 and dies. Somebody mistypes its state folder, and a joins as 6, without the state. With
 * the right folder it shows 5 and becomes 7: 5 and 7 are one node, 6 is another. If the other folder
 * comes back after that, it shows 6, and what 6 holds is believed again. Should a job have begun an
 * epoch with 7 meanwhile, 7 counts when the right folder comes as 9, and 5 does not any more.
 * Two agents are remembered, those first that hold state of a job: an agent that begins with an empty
 * folder each time, like a container without a volume, has none forgotten.
 *
 * Example: a shows 5 and gets 6, but WELCOME is lost with the connection. a shows 5 again and gets
 * 7, and that WELCOME is lost too. As often as it comes, 5 proves that it is a: what it was given
 * since and never showed, it never had.
 *
 * After a restore the store may know an older incarnation than the agent has. So an agent that
 * has obeyed an older generation takes the name of its node without proof, once: until the node
 * has said hello in this generation. It is a new node of the name as well, but what it keeps is
 * evidence (behind.h). WELCOME never tells it an incarnation that it has not shown.
 *
 * Example: the backup knows a's incarnation 5; a joined again as 9 and ran epoch 30 of mist; the
 * backup is put back. The agent shows 9: mist is behind, and a goes on as incarnation 10. Later
 * somebody shows a made-up incarnation, and is refused. */
#ifndef HSP_MEMBERSHIP_H
#define HSP_MEMBERSHIP_H
#include "daemon/cluster/cluster_state.h"

struct hsp_event;

/* Takes in the HELLO of @ev: a new incarnation, which is then its random bits, or one that connects
 * again. */
void hsp_ci_hello(struct hsp_cluster *c, const struct hsp_event *ev);
void hsp_ci_conn_closed(struct hsp_cluster *c, uint32_t conn);
/* Moves silent nodes to SUSPECT and DEAD, and those to DEAD that beat and owe an answer too long. */
void hsp_ci_nodes_tick(struct hsp_cluster *c);
/* Takes in EXECUTOR_DEAD: the device is lost to its job and awaited. */
void hsp_ci_executor_dead(struct hsp_cluster *c, struct hsp_cluster_node *n,
                          const struct hsp_m_dead *m);
/* Takes in EXECUTOR_UP. */
void hsp_ci_executor_up(struct hsp_cluster *c, struct hsp_cluster_node *n,
                        const struct hsp_m_up *m);
/* Tells all members generation, term and times again: they are others now. */
void hsp_ci_welcome_all(struct hsp_cluster *c);
/* Takes new times; connected agents are told by another WELCOME. */
void hsp_ci_reconfigure(struct hsp_cluster *c, const struct hsp_cluster_config *cfg);

#endif
