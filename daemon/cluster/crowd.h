/* Chooses which agents that are no members have a place, when there are more of them than places.
 *
 * As long as there is room, each has one. Then a newcomer takes the place of
 *
 *   an agent of a lower rank      proven: it has proven to be a node of the store; named: it has
 *                                 the name of a node of the store that is not here; else a stranger
 *   one of its own rank           of a source that has more places than the source of the newcomer
 *                                 would have; or one that has had its place for HSP_CROWD_TURN_MS,
 *                                 of a source with no fewer
 *
 * and else there is none. A name costs nothing: agents of a source with more than a quarter of the
 * places count as strangers, but for the proven. So each source has its share, no agent is pushed
 * out by its equals again and again, and each one is seen in turn. An agent without a place is told
 * when to come back (HSP_MSG_PARKED).
 *
 * Example: 300 honest agents behind one address, 288 places. 288 have one, 12 come back every
 *          minute; each takes the place of one that was here for five minutes. An agent from
 *          elsewhere comes in at once.
 * Example: the holder of a worker key parks 300 agents from one host. Each other agent takes a
 * place of these.
 *
 * Purity:  pure. */
#ifndef HSP_CROWD_H
#define HSP_CROWD_H
#include "daemon/cluster/cluster_state.h"

#define HSP_CROWD_TURN_MS 300000u

struct hsp_crowd_caller {
    const char *name;
    enum hsp_parked_as as;
    uint64_t source;
    uint32_t n_kept; /* jobs that it names */
};

/* False: there is no place for @who. True, *ret: whose place it takes; NULL: there is room. */
bool hsp_ci_crowd_place(struct hsp_cluster *c, const struct hsp_crowd_caller *who,
                        const struct hsp_parked **ret);
/* When an agent without a place is to come back, in ms: never all at once. */
uint32_t hsp_ci_crowd_again(struct hsp_cluster *c);
/* An event says that there is no room for agent @name: once a minute at most. */
void hsp_ci_crowd_tell(struct hsp_cluster *c, const char *name);

/* Whether agents of the address @source may cause one more line of the kind that @of counts: a
 * few in a minute. */
bool hsp_ci_may_complain(const struct hsp_cluster *c, struct hsp_complaints of[HSP_COMPLAINTS],
                         uint64_t source);

#endif
