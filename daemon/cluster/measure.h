/* Gives nodes their turn to measure the link to this process, and decides which figures to
 * believe.
 *
 *   WAITS --a place is free: MEASURE--> TURN --UPLINK, or its time is over--> NONE
 *
 * A HELLO begins in WAITS when the link of this incarnation is not known. So after a restart of
 * the coordinator the agent is asked too, and repeats its figures.
 *
 * At most `measures` nodes measure at a time, each for at most measure_ms. Figures are in memory
 * only. New figures change no plan that was made; the next question is asked with them. */
#ifndef HSP_MEASURE_H
#define HSP_MEASURE_H
#include "daemon/cluster/cluster_state.h"

/* Where the executors of this node listen: "HOST:PORT", followed by ",unix:NAME.HOST.NUMBER" where
 * executors of one host need no network (worker/comm). NULL: no executor has said it. */
const char *hsp_cluster_listener(const struct hsp_cluster_node *n);
/* True when both nodes are on one host, as far as their listeners show: no network is between
 * them. */
bool hsp_cluster_one_host(const struct hsp_cluster_node *a, const struct hsp_cluster_node *b);

/* Node @n said HELLO; @anew: with a new incarnation, whose link is not known. */
void hsp_ci_measure_hello(struct hsp_cluster *c, struct hsp_cluster_node *n, bool anew);
/* Ends turns that are over and gives the next ones. */
void hsp_ci_measure_advance(struct hsp_cluster *c);
/* Next time a turn is over. */
hsp_msec hsp_ci_measure_due(const struct hsp_cluster *c);
/* True when it is the turn of the node of this connection. */
bool hsp_cluster_measures(const struct hsp_cluster *c, uint32_t conn);
/* Takes in UPLINK and ends the turn of @n. */
void hsp_ci_uplink(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_m_uplink *m);

#endif
