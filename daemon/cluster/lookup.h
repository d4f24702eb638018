/* Finds nodes, devices, jobs and layouts by their numbers, and names their states.
 *
 * Nothing here changes the state. Lookups by name or connection of a node are in index.h. */
#ifndef HSP_LOOKUP_H
#define HSP_LOOKUP_H
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_state.h"

/* ---- nodes and devices ---- */

/* The node of device @d, which must exist. */
struct hsp_cluster_node *hsp_ci_node(const struct hsp_cluster *c, hsp_device_id d);
struct hsp_node_device *hsp_ci_device(const struct hsp_cluster *c, hsp_device_id d);
/* "n1/0", in the arena of the step. */
const char *hsp_ci_device_name(struct hsp_cluster *c, hsp_device_id d);
const char *hsp_node_state_name(enum hsp_node_state s); /* "away", "live", ... */
const char *hsp_health_name(enum hsp_health h);         /* "fine", "warned", "cordoned", "lost" */
/* True when @n is dead or has left. */
bool hsp_ci_node_gone(const struct hsp_cluster_node *n);
/* True from CORDON on: the device gets no work. */
bool hsp_ci_device_unhealthy(const struct hsp_node_device *d);
/* True while @d ends its work for another job than @job: it would refuse. */
bool hsp_ci_ends_other(const struct hsp_node_device *d, uint32_t job);
/* True when the device is there and may get work: its node stays, and the device is well. */
bool hsp_cluster_offers(const struct hsp_cluster_node *n, uint32_t device);
/* Why work is to leave @d: "drain of", "planned leave of", "cordon of", "deny of"; NULL: it may
 * stay. */
const char *hsp_ci_to_leave(const struct hsp_cluster *c, hsp_device_id d);
/* True when @list, in any order, has @d. */
bool hsp_ci_contains(const hsp_device_id *list, uint32_t n, hsp_device_id d);

/* ---- jobs ---- */

/* NULL when unknown. */
struct hsp_job *hsp_ci_job(const struct hsp_cluster *c, uint32_t id);
/* NULL when unknown. */
const struct hsp_job *hsp_cluster_job(const struct hsp_cluster *c, uint32_t id);
/* The job of this name that is not terminal, else the last submitted, else one that is not adopted.
 * NULL when unknown. */
const struct hsp_job *hsp_cluster_job_by_name(const struct hsp_cluster *c, const char *name);
/* The job that a person calls @what. Digits are a number, never a name; else it is the job of that
 * name that is not terminal, or the last submitted, or one that is not adopted. HSP_ENOENT: there
 * is none; HSP_ESTATE: there are several of that kind that are not terminal, and the message lists
 * their numbers. @err may be NULL. */
enum hsp_status hsp_cluster_job_called(const struct hsp_cluster *c, const char *what,
                                       const struct hsp_job **ret, struct hsp_err *err);
/* The same for a command that cannot be taken back: of several jobs of that name that have all
 * ended none is meant, HSP_ESTATE lists their numbers. */
enum hsp_status hsp_cluster_job_to_forget(const struct hsp_cluster *c, const char *what,
                                          const struct hsp_job **ret, struct hsp_err *err);
/* Agents that are no members keep a job that is called @what, its name or its number: true, and
 * @err names the agents and the remedy. For a job that is not on record: both functions above say
 * the same of it. */
bool hsp_cluster_parked_keeps(const struct hsp_cluster *c, const char *what, struct hsp_err *err);
const char *hsp_job_state_name(enum hsp_job_state s); /* "pending", "starting", ... */
bool hsp_job_terminal(enum hsp_job_state s);
/* True when @j is terminal or suspended: it has no devices and wants none. */
/* True when @j may have ended or gone on elsewhere since this store was written: it begins nothing
 * (doubt.h). */
bool hsp_ci_in_doubt(const struct hsp_job *j);
/* The job whose devices on @n no drain moves, since it is behind or held (behind.h, doubt.h); NULL:
 * there is none. */
const struct hsp_job *hsp_cluster_stays(const struct hsp_cluster *c,
                                        const struct hsp_cluster_node *n);
/* A job of which something is on @n, so that a drain has not ended: one that stays, else one that
 * has a device there, else one that may need state that is there, as one that has failed. NULL:
 * nothing is left. */
const struct hsp_job *hsp_cluster_left_on(const struct hsp_cluster *c,
                                          const struct hsp_cluster_node *n);
/* Writes why the drain of @n waits, cut to @size bytes; "": nothing is left there, or @n is not
 * here. Example: "waits: job mist is running here: drain of n1: cannot be done: needs 2
 * devices". */
void hsp_cluster_drain_text(const struct hsp_cluster *c, const struct hsp_cluster_node *n,
                            char *ret, size_t size);
/* The state of @n as people see it: "live", "draining", "drained" when nothing is left there,
 * "leaving", ... */
const char *hsp_cluster_node_word(const struct hsp_cluster *c, const struct hsp_cluster_node *n);
bool hsp_ci_at_rest(const struct hsp_job *j);
/* True when @j has failed and its layouts are on record: its nodes may hold state of it. */
bool hsp_ci_keeps_state(const struct hsp_job *j);
/* True when @j is another cluster's: agents keep it, and it is BEHIND until it is
 * adopted (behind.h). */
bool hsp_ci_not_adopted(const struct hsp_job *j);
/* True when @j has an epoch that runs: RUNNING, SWITCHING or FINISHING. */
bool hsp_ci_job_runs(const struct hsp_job *j);
/* True when the attempt of @j is past GO and cannot be taken back. */
bool hsp_ci_attempt_gone(const struct hsp_job *j);
/* Layout @plan of @j; NULL: not kept. */
struct hsp_job_plan *hsp_ci_plan(const struct hsp_job *j, uint64_t plan);

#endif
