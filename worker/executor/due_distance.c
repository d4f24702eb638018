#include "worker/executor/due_distance.h"

#include <math.h>
#include <string.h>

#define BLIND    4    /* until the cost is known */
#define ENOUGH   3    /* times that make a median */
#define NEWEST   0.25 /* part of the newest cost in the smoothed one */
#define ROOM     0.25 /* part of the overhead that hashes leave to due versions */
#define FARTHEST 1000000

static double median(const struct hsp_due_distance *d)
{
    double s[HSP_DUE_TIMES];
    uint32_t n = d->n_alone < HSP_DUE_TIMES ? d->n_alone : HSP_DUE_TIMES;
    memcpy(s, d->alone_s, sizeof s);
    for (uint32_t i = 1; i < n; i++) {
        for (uint32_t k = i; k > 0 && s[k] < s[k - 1]; k--) {
            double t = s[k];
            s[k] = s[k - 1];
            s[k - 1] = t;
        }
    }
    return n >= ENOUGH ? s[n / 2] : 0;
}

void hsp_due_distance_step(struct hsp_due_distance *d, double seconds, bool copied, bool validates)
{
    bool alike = !validates || d->validated;
    d->validated = validates;
    if (!alike || !(seconds > 0) || !isfinite(seconds)) {
        return;
    }
    double alone = median(d);
    d->rests = !copied;
    if (!copied) {
        d->alone_s[d->n_alone++ % HSP_DUE_TIMES] = seconds;
        d->n_close = 0;
    } else if (alone > 0) {
        d->more_s += seconds - alone;
    }
}

void hsp_due_distance_hashed(struct hsp_due_distance *d, double seconds)
{
    d->hash_s = d->hash_s > 0 ? d->hash_s + NEWEST * (seconds - d->hash_s) : seconds;
}

void hsp_due_distance_stable(struct hsp_due_distance *d)
{
    if (median(d) > 0) {
        double cost = d->more_s > 0 ? d->more_s : 0;
        d->cost_s = d->known ? d->cost_s + NEWEST * (cost - d->cost_s) : cost;
        d->known = true;
    }
    d->more_s = 0;
    d->n_close++;
}

uint64_t hsp_due_distance_choose(const struct hsp_due_distance *d)
{
    double alone = median(d);
    if (!(alone > 0) || !d->known) {
        return BLIND;
    }
    double left = d->overhead - d->hash_s / alone;
    double room = left > d->overhead * ROOM ? left : d->overhead * ROOM;
    double least = ceil(d->cost_s / (room * alone)), most = floor(d->recompute_s / alone);
    double n = least < most ? least : most;
    return n < 1 ? 1 : n < FARTHEST ? (uint64_t)n : FARTHEST;
}

bool hsp_due_distance_reached(const struct hsp_due_distance *d, uint64_t steps)
{
    bool looks = d->n_alone < HSP_DUE_TIMES || d->n_close >= HSP_DUE_TIMES;
    return d->n_alone >= ENOUGH && steps >= hsp_due_distance_choose(d) && (d->rests || !looks);
}
