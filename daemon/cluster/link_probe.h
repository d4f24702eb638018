/* Measures the connection of two nodes whose pair is slow, or may be, one pair at a time.
 *
 *   a pair wants it --OPEN to both--> both have said where they listen --LINK to both--> both have
 *   said their rate, or PROBE_MS have passed --END--> hsp_ci_pair_probed
 *
 * Where the rate of a pair that is used has changed, the jobs that use it are planned anew.
 *
 * The orders are those of a check of nodes (node_check.h), under a number of their own; while an
 * administrator's check is under way none is given.
 *
 * Example: n1-n2 was named twice. After 5 s both agents listen, connect and measure 1.1 s: 240 kB/s
 * where plans reckon with 300 MB/s. The pair stays out, and is measured again in 5 s. */
#ifndef HSP_LINK_PROBE_H
#define HSP_LINK_PROBE_H
#include "daemon/cluster/cluster_state.h"

/* Bytes a second that plans reckon with between two nodes. */
double hsp_cluster_planned_rate(const struct hsp_cluster *c, uint32_t a, uint32_t b);
/* Begins the next measurement, and ends one that takes too long. */
void hsp_ci_probe_advance(struct hsp_cluster *c);
/* CHECKED of @n, when it is of the measurement under way. */
void hsp_ci_probe_answer(struct hsp_cluster *c, const struct hsp_cluster_node *n,
                         const struct hsp_m_checked *m);
hsp_msec hsp_ci_probe_due(const struct hsp_cluster *c);

#endif
