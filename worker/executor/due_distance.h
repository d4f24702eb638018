/* Chooses how far due versions are apart, at rank 0 of a job with `recovery.every: auto`.
 *
 * A due version costs what the steps take longer while it is sealed and copied, on whatever rank:
 * rank 0 sees that by the times between its votes. The distance is the least for which this is at
 * most a part `overhead` of the time, and no more steps than take `recompute_s`.
 *
 * Purity:  pure.
 * Example: steps take 0.5 s, and 0.4 s more in all while a version is copied; overhead is 0.01.
 *          Each 80th version is due; with recompute_s 30 each 60th.
 */
#ifndef HSP_DUE_DISTANCE_H
#define HSP_DUE_DISTANCE_H
#include <stdbool.h>
#include <stdint.h>

#define HSP_DUE_TIMES 15 /* undisturbed steps of which the median counts; odd */

struct hsp_due_distance {
    double overhead, recompute_s;
    double alone_s[HSP_DUE_TIMES]; /* durations of steps without a copy beside them */
    uint32_t n_alone;              /* so far; the newest are here */
    double more_s;                 /* what steps have taken longer since the last due version */
    double cost_s;                 /* of a due version, smoothed */
    bool known;                    /* cost_s is */
};

/* A step took @seconds. @copied: a due version was pending. Steps that do more than train are left
 * out by the caller. */
void hsp_due_distance_step(struct hsp_due_distance *d, double seconds, bool copied);
/* The pending version is stable. */
void hsp_due_distance_stable(struct hsp_due_distance *d);
/* Steps from one due version to the next, at least 1. */
uint64_t hsp_due_distance_choose(const struct hsp_due_distance *d);

#endif
