/* Makes the papers of a job (proto/wire/papers.h), which its agents keep for a coordinator that has
 * lost its rows.
 *
 * Papers are rows of the store, of that one job: its terms, the layouts that may still be needed,
 * and the names of the nodes in these. The shell adds its own rows. Each node of an attempt gets
 * them before the PREPAREs. Example: job 7 runs layout 3 and prepares layout 4: rows node/0,
 * node/1, node/4, job/7, plan/7/3, plan/7/4. */
#ifndef HSP_CLUSTER_PAPERS_H
#define HSP_CLUSTER_PAPERS_H
#include "daemon/cluster/cluster_state.h"

/* One round of PREPAREs: the papers are made once, and sent once to each node. */
struct hsp_papers_round {
    const struct hsp_papers *papers; /* NULL: not yet */
    bool *told;                      /* by node */
    struct hsp_digest from;          /* the cluster that @told nodes know it of, 0: this one */
};

/* Sends the papers of @j, as it is now, to node @at unless this round has. */
void hsp_ci_papers_send(struct hsp_cluster *c, const struct hsp_job *j, uint32_t at,
                        struct hsp_papers_round *r);

#endif
