/* @@SENTENCE@@ index: purpose to be written. */
#ifndef HSP_INDEX_H
#define HSP_INDEX_H
#include "daemon/cluster/cluster_state.h"

void hsp_ci_index_init(struct hsp_cluster *c);
void hsp_ci_index_fini(struct hsp_cluster *c);
uint32_t hsp_ci_index_of(const struct hsp_cluster *c, const struct hsp_cluster_node *n);
/* Node @at, made with all before it, without names and dead, when it is not there. NULL: too many, or no memory. */
struct hsp_cluster_node *hsp_ci_node_add(struct hsp_cluster *c, uint32_t at);
bool hsp_ci_node_named(struct hsp_cluster *c, const struct hsp_cluster_node *n); /* false: memory */
struct hsp_cluster_node *hsp_ci_node_of_conn(const struct hsp_cluster *c, uint32_t conn);
void hsp_ci_node_conn(struct hsp_cluster *c, struct hsp_cluster_node *n, uint32_t conn);
/* Any state but to LIVE: that is hsp_ci_node_heard, now. */
void hsp_ci_node_state(struct hsp_cluster *c, struct hsp_cluster_node *n, enum hsp_node_state to);
void hsp_ci_node_heard(struct hsp_cluster *c, struct hsp_cluster_node *n);
/* When to look at nodes if none is heard: the next one is suspect or dead; or one is suspect, and its bound so far
 * away that a stall of this process before it would not be noticed. */
hsp_msec hsp_ci_silence_due(const struct hsp_cluster *c);
/* Is @d in an ascending list? */
bool hsp_ci_has(const hsp_device_id *list, uint32_t n, hsp_device_id d);
void hsp_ci_lease(struct hsp_cluster *c, hsp_device_id d, uint32_t job); /* 0: to nobody */
void hsp_ci_ask(struct hsp_cluster *c, hsp_device_id d, enum hsp_device_ask ask);
/* What has changed is looked at when the event has been taken in: a node that may be told something or may be
 * offered, one job, all jobs because devices have come, gone or changed hands. */
void hsp_ci_look_node(struct hsp_cluster *c, struct hsp_cluster_node *n);
void hsp_ci_look_job(struct hsp_cluster *c, struct hsp_job *j);
void hsp_ci_look_jobs(struct hsp_cluster *c);
void hsp_ci_refresh(struct hsp_cluster *c); /* makes briefs true */
/* The nodes to be looked at, ascending, in the arena of the step; then there are none. */
uint32_t hsp_ci_take_look(struct hsp_cluster *c, uint32_t **ret);
void hsp_ci_await(struct hsp_cluster *c, hsp_device_id d); /* its executor is down */
hsp_msec hsp_ci_await_due(struct hsp_cluster *c);

const struct hsp_cluster_node *hsp_cluster_node_by_name(const struct hsp_cluster *c,
                                                        const char *name);

#endif
