/* Keeps connections of agents that are no members. A parked agent is asked for nothing, and no
 * state that it keeps is deleted.
 *
 * Example: hspmdd begins with an empty folder. Node a says hello with state of job 7 of another
 * cluster: it is parked, status shows "foreign", its executors train on. `node adopt a` or `node
 * discard a` ends that; so does hspmdd with the right folder.
 *
 * Bounds: max_parked agents and HSP_MAX_PARKED_JOBS jobs of all of them; crowd.h chooses the
 *         agents that have a place. */
#ifndef HSP_PARKED_H
#define HSP_PARKED_H
#include "daemon/cluster/cluster_state.h"
#include "daemon/cluster/standing.h"

struct hsp_park_cause {
    const char *why; /* NULL: the agent may join */
    bool ahead;  /* the agent names a node of the store and a newer coordinator of this cluster */
    bool claims; /* the agent has devices and names a node of the store that was not heard yet */
    enum hsp_parked_as as; /* UNPROVEN becomes AHEAD when one with devices proves its node */
    uint64_t source;       /* as in struct hsp_event */
    uint32_t protocol;     /* version that the agent and hspmdd talk */
};

/* Why the agent that says @m must be parked.
 *
 * @n  the member of this name, NULL: there is none. */
struct hsp_park_cause hsp_ci_must_park(struct hsp_cluster *c, const struct hsp_cluster_node *n,
                                       const struct hsp_m_hello *m);
/* Parks the agent of @conn and tells it; or closes it, or another one. */
void hsp_ci_park(struct hsp_cluster *c, uint32_t conn, const struct hsp_m_hello *m,
                 const struct hsp_park_cause *cause);
/* An absent member of @j whose name a parked agent uses to claim a newer epoch of @j; NULL: none.
 * The agent has no proof, but may be right: @j begins nothing meanwhile. The claim ends at claim_ms
 * of the node, state_wait_ms after the first claim since the start. */
const struct hsp_cluster_node *hsp_ci_claimed(struct hsp_cluster *c, const struct hsp_job *j);
/* Ends the claims under the name of @n until the next start. False: there were none. */
bool hsp_ci_end_claim(struct hsp_cluster *c, struct hsp_cluster_node *n);
/* The agent with devices that has proven to be a node of the store, and keeps more of @j than is on
 * record; NULL: none. Its node need not be a member of @j by this store: @j begins nothing
 * meanwhile. Example: the backup has mist on a and b; since then a and b were drained and mist went
 * on on c and d. */
const struct hsp_parked *hsp_ci_ahead_of(const struct hsp_cluster *c, const struct hsp_job *j);
bool hsp_ci_is_ahead(const struct hsp_cluster *c, const struct hsp_parked *p,
                     const struct hsp_job *j); /* @p is one of those */
/* The latest generation in which the state of @j on such agents was given (standing.h); UINT64_MAX:
 * no such agent is here. */
uint64_t hsp_ci_ahead_given_in(const struct hsp_cluster *c, const struct hsp_job *j);
/* @j is given up, with all epochs and layouts that such agents keep of it. */
void hsp_ci_give_up_ahead(struct hsp_cluster *c, struct hsp_job *j);
/* The agent of @conn is gone, or says hello again. False: it was not parked. */
bool hsp_ci_unpark(struct hsp_cluster *c, uint32_t conn);
/* The standing here of a job that a parked agent keeps. */
enum hsp_standing hsp_ci_parked_standing(const struct hsp_cluster *c,
                                         const struct hsp_parked_job *p);
/* NULL: not parked. */
struct hsp_parked *hsp_ci_parked_of(const struct hsp_cluster *c, uint32_t conn);
/* The first parked agent of node @name; NULL: none. */
const struct hsp_parked *hsp_cluster_parked_by_name(const struct hsp_cluster *c, const char *name);
/* All parked agents say hello again, and are judged anew. */
void hsp_ci_judge_again(struct hsp_cluster *c);
/* The same of those that keep state of job @job of this cluster, or of one of which jobs were
 * adopted: it has ended, or is on record now. */
void hsp_ci_judge_job(struct hsp_cluster *c, uint32_t job);
/* The same of those of node @name: it has been forgotten. */
void hsp_ci_judge_node(struct hsp_cluster *c, const char *name);
const char *hsp_parked_name(enum hsp_parked_as as);
void hsp_ci_parked_free(struct hsp_cluster *c);

#endif
