/* Keeps the notes of a job about single nodes; most jobs have no note of most nodes. */
#ifndef HSP_MARKS_H
#define HSP_MARKS_H
#include "daemon/cluster/cluster_state.h"

/* The mark of @node; NULL: there is none. */
struct hsp_job_mark *hsp_ci_marked(const struct hsp_job *j, uint32_t node);
/* The mark of @node, made when there is none. Never NULL: without memory c->failed is set and the
 * spare mark is returned. */
struct hsp_job_mark *hsp_ci_mark(struct hsp_cluster *c, struct hsp_job *j, uint32_t node);
/* @node could not keep a copy, until hsp_ci_mark_may_keep. @why: one line. */
void hsp_ci_mark_no_replica_holder(struct hsp_cluster *c, struct hsp_job *j, uint32_t node,
                                   const char *why);
void hsp_ci_mark_may_keep(struct hsp_job_mark *m);
/* Drops the mark of @node. */
void hsp_ci_mark_drop(struct hsp_job *j, uint32_t node);
/* The nodes of the ranks of @e may have checkpoints of @j from now on. */
void hsp_ci_mark_ran(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cl_epoch *e);
/* Earlier checkpoints are of no use to @j any more: no node counts as one that has run it. */
void hsp_ci_mark_none_ran(struct hsp_job *j);
bool hsp_ci_any_ran(const struct hsp_job *j);
void hsp_ci_marks_free(struct hsp_job *j);

#endif
