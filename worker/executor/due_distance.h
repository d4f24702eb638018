/* Chooses how far due versions are apart, at rank 0 of a job with `recovery.every: auto`.
 *
 * Steps take longer while a due version is hashed, sealed and copied, on any rank. The extra time
 * is the cost of the version, which rank 0 measures by the times between its votes. The distance is
 * the least for which the cost is at most a part `overhead` of the time, and never more steps than
 * take `recompute_s`.
 *
 * Times of steps are noisy, and a cost is a difference of such times. So the distance follows from
 * an upper bound: the median cost of the newest versions plus two standard errors. The more
 * versions are measured, the nearer the bound is to the cost. Until nine steps are known each 4th
 * version is due.
 *
 * Steps without a copy beside them show how long a step takes alone. So until HSP_DUE_TIMES such
 * steps are known the next version is due only after such a step, and again once after each
 * HSP_DUE_TIMES versions without such a step between them.
 *
 * Purity:  pure.
 * Example: steps take 0.5 s, and 0.4 s more in all while a version is copied; overhead is 0.01.
 *          Each 80th version is due, or each 60th with recompute_s 30.
 */
#ifndef HSP_DUE_DISTANCE_H
#define HSP_DUE_DISTANCE_H
#include <stdbool.h>
#include <stdint.h>

#define HSP_DUE_TIMES 15 /* number of times of which the median counts; odd */

struct hsp_due_times {
    double s[HSP_DUE_TIMES];
    uint32_t n; /* times so far; the newest HSP_DUE_TIMES are in `s` */
};

struct hsp_due_distance {
    double overhead, recompute_s;
    struct hsp_due_times alone; /* of steps without a copy beside them */
    struct hsp_due_times more;  /* total extra time of the steps beside a version */
    uint32_t beside;            /* number of steps beside the newest version of `more` */
    bool rests;                 /* the newest step had no copy beside it */
    uint32_t n_close;           /* versions that are stable since the newest step alone */
    bool validated;             /* the newest step had a validation */
    double more_s;              /* extra time of steps since the last due version */
    uint32_t n_beside;          /* number of these steps */
};

/* A step took @seconds. @copied: a due version was pending. A step with a validation (@validates)
 * counts where the step before had one, too: in a job that validates in each step. */
void hsp_due_distance_step(struct hsp_due_distance *d, double seconds, bool copied, bool validates);
/* Notes that the pending version is stable. */
void hsp_due_distance_stable(struct hsp_due_distance *d);
/* Returns the upper bound of the cost of a due version in seconds; 0 where it is not known. */
double hsp_due_distance_cost(const struct hsp_due_distance *d);
/* Returns the time of a step without a copy beside it, in seconds; 0 where it is not known. */
double hsp_due_distance_alone(const struct hsp_due_distance *d);
/* Returns the number of steps from one due version to the next, at least 1. */
uint64_t hsp_due_distance_choose(const struct hsp_due_distance *d);
/* Returns true if a version @steps after the newest due version is to be due. */
bool hsp_due_distance_reached(const struct hsp_due_distance *d, uint64_t steps);

#endif
