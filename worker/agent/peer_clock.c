/* Estimates a clock's offset. Differences are taken as integers: a clock since 1970 in microseconds
 * is more than a double holds to the microsecond for ever. */
#include "worker/agent/peer_clock.h"

void hsp_peerclock_add(struct hsp_peerclock *c, uint64_t sent_us, uint64_t got_us,
                       uint64_t there_us)
{
    if (got_us < sent_us || got_us > INT64_MAX || there_us > INT64_MAX) {
        return;
    }
    uint64_t middle = sent_us + (got_us - sent_us) / 2;
    uint32_t k = c->n++ % HSP_CLOCK_SAMPLES;
    c->sample[k].at_us = middle;
    c->sample[k].offset_us = (double)((int64_t)there_us - (int64_t)middle);
    c->sample[k].error_us = 0.5 * (double)(got_us - sent_us) + 1; /* both clocks are cut to 1 us */
}

bool hsp_peerclock_now(const struct hsp_peerclock *c, uint64_t now_us, double *ret_offset_us,
                       double *ret_error_us)
{
    uint32_t n = c->n < HSP_CLOCK_SAMPLES ? c->n : HSP_CLOCK_SAMPLES;
    bool found = false;
    for (uint32_t k = 0; k < n; k++) {
        uint64_t at = c->sample[k].at_us, age = now_us > at ? now_us - at : 0;
        double error = c->sample[k].error_us + HSP_CLOCK_DRIFT * (double)age;
        if (!found || error < *ret_error_us) {
            *ret_offset_us = c->sample[k].offset_us;
            *ret_error_us = error;
            found = true;
        }
    }
    return found;
}
