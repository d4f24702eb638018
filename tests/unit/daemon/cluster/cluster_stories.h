/* Leads a job or a node to each of its states: job 1 has two devices of three nodes, n0/0 and n1/0;
 * n2 is left. */
#ifndef HSP_CLUSTER_STORIES_H
#define HSP_CLUSTER_STORIES_H
#include "tests/unit/daemon/cluster/cluster_world.h"

#define CW_NODES  3
#define CW_NO_JOB (-1)

struct cw_scenario {
    const char *name;
    void (*tell)(struct cw_world *w);
    int state; /* enum hsp_job_state of job 1, or CW_NO_JOB */
    enum hsp_attempt_phase phase;
    bool asks; /* the planner is at it */
};
extern const struct cw_scenario cw_scenarios[];
extern const size_t cw_n_scenarios;

/* A message about job 1, or about the node itself. */
void cw_said(struct cw_world *w, uint32_t node, uint16_t type, uint64_t epoch);
void cw_of_node(struct cw_world *w, uint32_t node, uint16_t type);

#endif
