/* Remembers pairs of nodes whose executors cannot reach each other, though hspmdd reaches both.
 *
 * Example: executors of n1 and n2 lose each other without a word. The pair is *suspected*. n1 and
 * n2 call each other in a round (reach_rounds.h), and neither is answered: the pair is *broken*.
 * Plans leave out n1 or n2 (apart.h). Every 5 s the pair is measured again, until both are
 * answered: it is *mended*, and both are used. Where it breaks again within ten minutes, the pause
 * is doubled, up to 60 s.
 *
 * A pair that is answered and falls silent all the same, twice within a minute, is broken too: some
 * packets pass. So is one that falls silent once and holds up a job once (progress.h) within a
 * minute, in either order. An outage of 3.2 s does both at once, and counts as one silence.
 *
 * A pair through which too little comes (progress.h) is broken, too. Such a pair is mended when its
 * rate, measured again (link_probe.h), is at least half of the rate that plans reckon with.
 * Answered calls say nothing of the rate. Where planning finds that a job cannot do without the
 * pair, it is *borne*.
 *
 * A pair that is only slower than plans reckon with, but by which votes pass, is *slow*: measured
 * anew, planned with (struct hsp_slow_link), and measured again every minute.
 *
 * In memory only: a new hspmdd learns it again at the price of one loss. A node that says hello
 * with a new incarnation, is dead or has left starts without broken pairs.
 *
 * Bounds: HSP_MAX_PAIRS. When there are more, a pair that is not broken gives way, else the new one
 *         is not remembered. */
#ifndef HSP_BROKEN_PAIRS_H
#define HSP_BROKEN_PAIRS_H
#include "daemon/cluster/cluster_state.h"

/* True when nodes @a and @b are known not to reach each other. */
bool hsp_ci_apart(const struct hsp_cluster *c, uint32_t a, uint32_t b);
/* The same, and no new connection can be made between them. False for a slow pair. */
bool hsp_ci_deaf(const struct hsp_cluster *c, uint32_t a, uint32_t b);
/* Executors of @a and @b in @epoch of @j have fallen silent to each other. @own: one of the two
 * says so. */
void hsp_ci_pair_suspect(struct hsp_cluster *c, const struct hsp_job *j, uint64_t epoch, uint32_t a,
                         uint32_t b, bool own);
/* One of the two was called and did not answer. @why: "no answer", "refused". */
void hsp_ci_pair_deaf(struct hsp_cluster *c, uint32_t a, uint32_t b, const char *why);
/* All calls between them were answered. */
void hsp_ci_pair_answered(struct hsp_cluster *c, uint32_t a, uint32_t b);
/* The two could not be measured: a pair that is suspected counts as broken. */
void hsp_ci_pair_unmeasured(struct hsp_cluster *c, uint32_t a, uint32_t b);
/* For a whole period all ranks of a job wait for the connection of the two. True: the connection
 * has fallen silent in the minute before. */
bool hsp_ci_pair_stalled(struct hsp_cluster *c, uint32_t a, uint32_t b);
/* Too little comes through between them, as @why says: the pair is broken until its rate is that of
 * plans again. False: it is borne, as no job could do without it. */
bool hsp_ci_pair_slow(struct hsp_cluster *c, uint32_t a, uint32_t b, const char *why);
/* Slow pairs count as broken no more for ten minutes: a job cannot do without them. False: there
 * are none. */
bool hsp_ci_pairs_bear(struct hsp_cluster *c, const struct hsp_job *j);
/* Messages between them come with less than half of the rate that plans reckon with: it is
 * measured, at most once a minute. */
void hsp_ci_pair_doubt(struct hsp_cluster *c, uint32_t a, uint32_t b);
/* Its measured rate where that is less than it should be; 0: nothing of the kind is known. */
double hsp_ci_pair_rate(const struct hsp_cluster *c, uint32_t a, uint32_t b);
/* Takes the next pair whose rate is to be measured. False: none. */
bool hsp_ci_pair_to_probe(struct hsp_cluster *c, uint32_t *ret_a, uint32_t *ret_b);
/* The pair has @rate bytes a second, where plans reckon with @planned for any two nodes. @why: the
 * reason why nothing was measured; NULL: it was. True: plans are to be made with another rate than
 * before. */
bool hsp_ci_pair_probed(struct hsp_cluster *c, uint32_t a, uint32_t b, double rate, double planned,
                        const char *why);
/* Forgets the pairs of @node. */
void hsp_ci_pairs_forget(struct hsp_cluster *c, uint32_t node);
/* Forgets pairs that were mended long ago. Lists the nodes of broken pairs that are to be measured
 * again, at most @cap, ascending; returns their number. */
uint32_t hsp_ci_pairs_due_nodes(struct hsp_cluster *c, uint32_t *ret, uint32_t cap);
/* When that is next. */
hsp_msec hsp_ci_pairs_due(const struct hsp_cluster *c);
void hsp_ci_pairs_fini(struct hsp_cluster *c);

#endif
