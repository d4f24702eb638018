/* Indexes nodes, leases and changes, so that the cost of frequent events does not grow with the
 * number of nodes.
 *
 * The index finds nodes by name and by connection, keeps live nodes in the order of hearing, keeps
 * the leases of a job, and lists nodes and jobs that have changed since the last look. All of it
 * follows from the rest of the state; hsp_cluster_check compares the two. Example: with 10,000
 * nodes a heartbeat moves one node to the end of a list, and silence is found at the front.
 *
 * Debug builds look at everything after each event and assert that nothing more happens. */
#ifndef HSP_INDEX_H
#define HSP_INDEX_H
#include "daemon/cluster/cluster_state.h"

void hsp_ci_index_init(struct hsp_cluster *c);
/* Frees the index and all that the nodes own. */
void hsp_ci_index_fini(struct hsp_cluster *c);
/* The number of node @n. */
uint32_t hsp_ci_index_of(const struct hsp_cluster *c, const struct hsp_cluster_node *n);

/* ---- nodes ---- */

/* Node @at. Missing nodes up to it are made, dead and without names. NULL: too many, or no
 * memory. */
struct hsp_cluster_node *hsp_ci_node_add(struct hsp_cluster *c, uint32_t at);
/* A node that was not known, LEFT. NULL: there are HSP_MAX_NODES; or no memory, and the machine has
 * failed. */
struct hsp_cluster_node *hsp_ci_node_new(struct hsp_cluster *c, const char *name);
/* @n has gone and nothing names it: its number goes to the next new node. */
void hsp_ci_node_vacate(struct hsp_cluster *c, struct hsp_cluster_node *n);
/* @n has its name now. False: no memory. */
bool hsp_ci_node_named(struct hsp_cluster *c, const struct hsp_cluster_node *n);
/* Frees the notes of the devices of @n, and its paths. */
void hsp_ci_notes_free(struct hsp_cluster_node *n);
/* NULL when unknown. */
const struct hsp_cluster_node *hsp_cluster_node_by_name(const struct hsp_cluster *c,
                                                        const char *name);
/* NULL when no node has connection @conn. */
struct hsp_cluster_node *hsp_ci_node_of_conn(const struct hsp_cluster *c, uint32_t conn);
/* Gives @n connection @conn; 0: none. */
void hsp_ci_node_conn(struct hsp_cluster *c, struct hsp_cluster_node *n, uint32_t conn);

/* ---- the order of hearing ---- */

/* @n was heard now: it is LIVE and the last of the list. */
void hsp_ci_node_heard(struct hsp_cluster *c, struct hsp_cluster_node *n);
/* Moves @n to any state but LIVE. */
void hsp_ci_node_state(struct hsp_cluster *c, struct hsp_cluster_node *n, enum hsp_node_state to);
/* Says why @n has gone or is leaving, "" while it is here. The reason of a drain stays. */
void hsp_ci_node_reason(struct hsp_cluster_node *n, const char *why);
/* Next time silence must be checked: when a node becomes suspect or dead. While a node is
 * suspect the machine also wakes periodically, to detect that this process itself stalled. */
hsp_msec hsp_ci_silence_due(const struct hsp_cluster *c);

/* ---- lists of devices and leases ---- */

/* True when ascending list @list has @d. */
bool hsp_ci_has(const hsp_device_id *list, uint32_t n, hsp_device_id d);
/* True when every device of @want is in @have, which is ascending. */
bool hsp_ci_all_in(const hsp_device_id *want, uint32_t n_want, const hsp_device_id *have,
                   uint32_t n_have);
/* Leases @d to @job; 0: to no job. */
void hsp_ci_lease(struct hsp_cluster *c, hsp_device_id d, uint32_t job);
/* Sets the order that the lease of @d still has to answer; nothing has been sent yet. A STOP stays
 * as it is. */
void hsp_ci_ask(struct hsp_cluster *c, hsp_device_id d, enum hsp_device_ask ask);
/* A node must have answered at @t: a tick is due then. */
void hsp_ci_answer_by(struct hsp_cluster *c, hsp_msec t);

/* ---- nodes and jobs to be looked at ---- */

/* Marks a node that may be told something or may be offered. Marks are looked at when the event has
 * been taken in. */
void hsp_ci_node_dirty(struct hsp_cluster *c, struct hsp_cluster_node *n);
/* Marks one job. */
void hsp_ci_job_dirty(struct hsp_cluster *c, struct hsp_job *j);
/* Marks all jobs: devices have come, gone or changed hands. */
void hsp_ci_jobs_dirty(struct hsp_cluster *c);
/* Brings the briefs of marked nodes up to date; marks stay. */
void hsp_ci_refresh(struct hsp_cluster *c);
/* Returns the marked nodes, ascending, in the arena of the step, and clears their marks. */
uint32_t hsp_ci_take_look(struct hsp_cluster *c, uint32_t **ret);

/* ---- executors that are awaited ---- */

/* The executor of @d is down and expected back. */
void hsp_ci_await(struct hsp_cluster *c, hsp_device_id d);
/* Next time an awaited executor is too late to be waited for. */
hsp_msec hsp_ci_await_due(struct hsp_cluster *c);

#endif
