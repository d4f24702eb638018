/* Chooses the distance of due versions (versions that are sealed and copied, due.h) in steps, at
 * rank 0 of a job with `recovery.every: auto`.
 *
 * Steps take longer while a due version is hashed, sealed and copied, on any rank. The extra time
 * is the cost of the version, which rank 0 measures by the times between its votes. The distance is
 * the smallest number of steps such that the cost is at most the part `overhead` of the time of
 * these steps. Steps of that number never take more than `recompute_s` seconds.
 *
 * Times of steps are noisy, and a cost is a difference of such times. So the distance follows from
 * an upper bound: the median cost of the newest versions plus two standard errors. The more
 * versions are measured, the closer is the bound to the cost. Until nine steps are measured, each
 * 4th version is due.
 *
 * Steps during which no version is copied show how long a step takes alone. Rank 0 needs
 * HSP_DUE_TIMES such steps: until then it makes a version due only after such a step. After
 * HSP_DUE_TIMES versions in a row without such a step between them, rank 0 waits for such a step
 * again.
 *
 * Purity:  pure.
 * Example: steps take 0.5 s, and 0.4 s more in all while a version is copied; overhead is 0.01.
 *          Each 80th version is due, or each 60th with recompute_s 30.
 */
#ifndef HSP_DUE_DISTANCE_H
#define HSP_DUE_DISTANCE_H
#include <stdbool.h>
#include <stdint.h>

#define HSP_DUE_TIMES 15 /* number of times whose median is taken; odd */

struct hsp_due_times {
    double s[HSP_DUE_TIMES];
    uint32_t n; /* times so far; the newest HSP_DUE_TIMES are in `s` */
};

struct hsp_due_distance {
    double overhead, recompute_s;
    struct hsp_due_times alone; /* times of steps during which no version was copied */
    struct hsp_due_times more;  /* for each version the total extra time of the steps beside it */
    uint32_t beside;            /* number of steps beside the newest version of `more` */
    bool rests;                 /* the newest step had no copy beside it */
    uint32_t n_close;           /* versions that became stable since the newest step alone */
    bool validated;             /* the newest step had a validation */
    double more_s;              /* extra time of steps since the last due version */
    uint32_t n_beside;          /* number of these steps */
};

/* Takes the time of a step, @seconds. @copied: a due version was not yet stable during the step. A
 * step with a validation (@validates) is used only if the step before had a validation, too, i.e.
 * in a job that validates in each step. */
void hsp_due_distance_step(struct hsp_due_distance *d, double seconds, bool copied, bool validates);
/* Takes the news that the newest due version is stable, so its cost is known. */
void hsp_due_distance_stable(struct hsp_due_distance *d);
/* Returns the upper bound of the cost of a due version in seconds, or 0 if no cost is known. */
double hsp_due_distance_cost(const struct hsp_due_distance *d);
/* Returns the time of a step without a copy beside it in seconds, or 0 if it is not known. */
double hsp_due_distance_alone(const struct hsp_due_distance *d);
/* Returns the number of steps from one due version to the next, at least 1. */
uint64_t hsp_due_distance_choose(const struct hsp_due_distance *d);
/* Returns true if a version @steps after the newest due version is to be due. */
bool hsp_due_distance_reached(const struct hsp_due_distance *d, uint64_t steps);

#endif
