/* Notices that a job makes no progress, and finds out which link or rank all others wait for.
 *
 * A *period* is max(10 x the median step, failure_detection). When one ends without a vote, each
 * rank of the epoch is asked where it stands (WHERE). From the answers the culprit is found
 * (waits.h), and told: job.stalled, and in status. A link that is named in two periods running is a
 * fact about its two nodes, as if they could not reach each other (broken_pairs.h), and the job is
 * planned anew. Once is enough where the two have fallen silent in the minute before.
 *
 *     VOTE t   0.0 s                         steps take 0.1 s, failure_detection is 3 s
 *     WHERE    3.0 s  to n1, n2, n3
 *     STANDS   3.0 s  n1, n3 wait for n2; n2 for n1, which has sent its message:
 *                     job.stalled: the connection between n1 and n2, named once
 *     WHERE    6.0 s  the same: named twice, the pair is broken, the job does without n2
 *
 * Also where votes pass, but each takes longer than a period, periods count as running; a vote
 * within the period begins the count again.
 *
 * Validation, checkpoints and the transfer of state have another bound: while a rank is at one of
 * these, a period in which anything has moved on any rank names nobody, up to 10 x the longest step
 * with a validation or a checkpoint so far; a transfer, and where none was timed yet, 20 periods.
 *
 * Once a minute the ranks are asked all the same: how fast the long messages came since. Where the
 * fastest was below half of the rate that plans reckon with, the link is measured anew
 * (link_probe.h), and jobs that use it are planned anew. Example: 40 MB/s where uplinks tell 300
 * MB/s.
 *
 * An epoch is watched from GO on: also a transfer may stand still. Messages about an epoch that is
 * over are not heard. Ranks that hspmdd does not reach are not asked, and where no rank answers
 * nothing is named; a vote that all of them know of counts as one that rank 0 has told.
 *
 * Purity: pure, as all of the machine. */
#ifndef HSP_PROGRESS_H
#define HSP_PROGRESS_H
#include "daemon/cluster/cluster_state.h"

/* Vote @s of the epoch that runs has passed. */
void hsp_ci_progress_vote(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_m_step *s);
/* STANDS @m of node @n, which may say it. */
void hsp_ci_stands(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cluster_node *n,
                   const struct hsp_msg *m);
/* Begins to watch, asks, and judges, as the time says. */
void hsp_ci_progress_advance(struct hsp_cluster *c, struct hsp_job *j);
/* When that is due next. */
hsp_msec hsp_ci_progress_due(const struct hsp_job *j);
/* Length of a period of @j. */
uint32_t hsp_cluster_period_ms(const struct hsp_cluster *c, const struct hsp_job *j);
/* The epoch whose peers the stands of @j are; NULL: none. */
const struct hsp_cl_epoch *hsp_cluster_watched(const struct hsp_job *j);
const char *hsp_doing_text(enum hsp_doing d); /* "computes", "receives from", ... */

#endif
