/* Makes a core to play with, and the papers of a job that has begun there: for adoption_test and
 * fuzz_adopt. */
#ifndef HSP_ADOPT_SAMPLE_H
#define HSP_ADOPT_SAMPLE_H
#include "daemon/cluster/cluster.h"
#include "proto/base/buf.h"

#define ADOPT_NODES 2 /* a and b, which speak on connections 1 and 2 */

/* A core without rows; ends with hsp_cluster_free. */
struct hsp_cluster *adopt_core(struct hsp_digest id);
/* One step, at 1000 ms unless @ev says; the invariants hold. */
struct hsp_actions adopt_step(struct hsp_cluster *c, struct hsp_event ev);
/* NULL: there is none. */
const struct hsp_action *adopt_find(const struct hsp_actions *acts, enum hsp_action_type type);
void adopt_hello(struct hsp_cluster *c, uint32_t node);

struct adopt_twist { /* differences from the papers of job 1, tiny; zeroes: none */
    uint32_t generation;
    uint64_t epoch;   /* later by so many */
    const char *name; /* in the job file, as the next two */
    const char *data, *ckpt;
    bool device, ranks, no; /* of the shell's plan: its devices, how many, its number */
    bool no_plan;           /* the shell has none */
    bool one_name;          /* both nodes are called a */
    bool plain;             /* in the form of older programs */
};
/* Appends the papers of job 1 of cluster {1, 0}: rows of the core and of the shell. */
void adopt_papers(const struct adopt_twist *t, struct hsp_buf *out);

#endif
