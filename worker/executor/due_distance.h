/* Chooses how far due versions are apart, at rank 0 of a job with `recovery.every: auto`.
 *
 * Steps take longer while a due version is hashed, sealed and copied, on whatever rank. That time is
 * the cost of the version, and rank 0 sees it by the times between its votes. The distance is the
 * least for which the cost is at most a part `overhead` of the time, and no more steps than take
 * `recompute_s`.
 *
 * Times of steps are noisy, and a cost is a difference of them. So the distance follows from an upper
 * bound: the median cost of the newest versions and two standard errors. The more versions have been
 * measured, the nearer the bound is to the cost. Until nine steps are known each 4th version is due.
 *
 * Steps without a copy beside them show how long a step takes alone. So the next version is due
 * behind such a step until HSP_DUE_TIMES of them are known, and once after each HSP_DUE_TIMES
 * versions that left no such step between them.
 *
 * Purity:  pure.
 * Example: steps take 0.5 s, and 0.4 s more in all while a version is copied; overhead is 0.01.
 *          Each 80th version is due; with recompute_s 30 each 60th.
 */
#ifndef HSP_DUE_DISTANCE_H
#define HSP_DUE_DISTANCE_H
#include <stdbool.h>
#include <stdint.h>

#define HSP_DUE_TIMES 15 /* times of which the median counts; odd */

struct hsp_due_times {
    double s[HSP_DUE_TIMES];
    uint32_t n; /* so far; the newest are here */
};

struct hsp_due_distance {
    double overhead, recompute_s;
    struct hsp_due_times alone; /* of steps without a copy beside them */
    struct hsp_due_times more;  /* what the steps beside a version took longer in all */
    uint32_t beside;            /* steps beside the newest version in `more` */
    bool rests;                 /* the newest step had no copy beside it */
    uint32_t n_close;           /* versions that are stable since the newest such step */
    bool validated;             /* the newest step had a validation */
    double more_s;              /* what steps have taken longer since the last due version */
    uint32_t n_beside;          /* these steps */
};

/* A step took @seconds. @copied: a due version was pending. A step with a validation (@validates)
 * counts where the step before had one, too: in a job that validates in each step. */
void hsp_due_distance_step(struct hsp_due_distance *d, double seconds, bool copied, bool validates);
/* The pending version is stable. */
void hsp_due_distance_stable(struct hsp_due_distance *d);
/* What a due version costs at most, in seconds; 0 where it is not known. */
double hsp_due_distance_cost(const struct hsp_due_distance *d);
/* The time of a step without a copy beside it, in seconds; 0 where it is not known. */
double hsp_due_distance_alone(const struct hsp_due_distance *d);
/* Steps from one due version to the next, at least 1. */
uint64_t hsp_due_distance_choose(const struct hsp_due_distance *d);
/* Whether a version @steps behind the newest due one is to be due. */
bool hsp_due_distance_reached(const struct hsp_due_distance *d, uint64_t steps);

#endif
