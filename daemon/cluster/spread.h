/* Counts the nodes that hold the state of a job, so that status can name the cost of losing a
 * node. */
#ifndef HSP_SPREAD_H
#define HSP_SPREAD_H
#include "daemon/cluster/cluster_state.h"

struct hsp_spread {
    uint32_t min_nodes; /* every part of the state is on at least so many nodes that are there */
    uint32_t n_sole;    /* nodes that are the only one with some part */
    uint32_t node;      /* the first of them; meaningless when there is none */
};

/* Of the layout that runs; where none does, of that layout that is on most nodes. False: there is
 * none, or no memory. */
bool hsp_cluster_spread(const struct hsp_cluster *c, const struct hsp_job *j,
                        struct hsp_spread *ret);
/* A node that would keep copies, may not, and runs nothing of @j: it could hold more than is there.
 * NULL: there is none. */
const char *hsp_cluster_not_allowed(const struct hsp_cluster *c, const struct hsp_job *j);

#endif
