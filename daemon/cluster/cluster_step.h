/* Runs the machine: takes one event, does all that the facts then allow, returns the actions.
 *
 * A step has two halves. First the event changes facts: a node is silent, a device is ready, a plan
 * is there. Then hsp_ci_advance looks at the jobs and does all that these facts allow. The second
 * half depends on the state alone, so a message that comes twice, facts learnt in another order and
 * a restart from the store lead to the same place.
 *
 * Contract, types and invariants: cluster.h.
 * Purity:    pure: time and everything else arrive in events.
 * Ownership: the actions of a step live until the next call of hsp_cluster_step. */
#ifndef HSP_CLUSTER_STEP_H
#define HSP_CLUSTER_STEP_H
#include "daemon/cluster/cluster.h"

/* Derives all times from the bound of silence: heartbeat = detect / 6, suspect = 1.5 beats, seal
 * = 2 x detect, ... Example: 3000 gives a beat each 500 ms, suspect after 750 ms, dead after
 * 3000 ms. */
void hsp_cluster_defaults(uint32_t failure_detection_ms, struct hsp_cluster_config *ret);
/* A machine without rows has term 0 and accepts no event before hsp_cluster_load. NULL: no
 * memory. */
struct hsp_cluster *hsp_cluster_new(const struct hsp_cluster_config *cfg);
struct hsp_cluster *hsp_cluster_free(struct hsp_cluster *c); /* NULL allowed; returns NULL */
/* The rows of a new cluster, as STORE actions: for a store that is made whole before it is
 * loaded. HSP_ENOMEM. */
enum hsp_status hsp_cluster_found(struct hsp_cluster *c, struct hsp_actions *ret,
                                  struct hsp_err *err);
/* Begins a term: restores the stored rows (none at the first start) and raises the term. The
 * actions store it.
 *
 * HSP_EPARSE: a row does not decode; HSP_EVERSION: a row is of another hspmdd; @err names the
 * row, and the machine is then only good to be freed. HSP_ENOMEM. */
enum hsp_status hsp_cluster_load(struct hsp_cluster *c, const struct hsp_cluster_row *rows,
                                 uint32_t n, hsp_msec now_ms, struct hsp_actions *ret,
                                 struct hsp_err *err);
/* Advances the machine by one event. Everything unexpected from agents is decided here (answered,
 * closed or ignored); HSP_EINVAL only for an event the shell may not send (state unchanged);
 * HSP_ENOMEM: the machine is half way, the process must end and reload. */
enum hsp_status hsp_cluster_step(struct hsp_cluster *c, const struct hsp_event *ev,
                                 struct hsp_actions *ret, struct hsp_err *err);
/* When the next TICK is due; UINT64_MAX: none. */
hsp_msec hsp_cluster_deadline(const struct hsp_cluster *c);

#endif
