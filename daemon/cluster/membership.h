/* Decides which nodes are members: hello, incarnations, silence, restarts of executors.
 *
 * A node is dead when it was silent for the bound, when its connection is closed and a peer saw
 * its data plane break, or when a new agent process says HELLO in its place. While the old agent
 * is connected and live, the new one is another node of the same name and is refused. Dead is
 * for ever for that incarnation: a HELLO that carries it is answered by FENCED. A closed
 * connection alone only makes a node suspect. Which agent is which node is decided in
 * same_node.h. */
#ifndef HSP_MEMBERSHIP_H
#define HSP_MEMBERSHIP_H
#include "daemon/cluster/cluster_state.h"

struct hsp_event;

/* Takes in the HELLO of @ev: a new incarnation, which is then its random bits, or one that connects
 * again. */
void hsp_ci_hello(struct hsp_cluster *c, const struct hsp_event *ev);
void hsp_ci_conn_closed(struct hsp_cluster *c, uint32_t conn);
/* Moves silent nodes to SUSPECT and DEAD, and those to DEAD that beat and owe an answer too
 * long. */
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
