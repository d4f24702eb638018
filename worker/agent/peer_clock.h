/* Estimates how far the clock of hspmdd is from ours, by the round trips of heartbeats.
 *
 * An answer that says time s, sent for by us at a and here at b, was made between the two: so its
 * clock was ahead of ours by s - (a + b) / 2, give or take (b - a) / 2. Since then the two may have
 * drifted apart by HSP_CLOCK_DRIFT of the time that went by. Of the newest samples the one counts
 * whose bound is the smallest now (the filter of NTP, RFC 5905 section 10, without its statistics).
 *
 * Purity: pure. Units: microseconds of monotonic clocks. */
#ifndef HSP_PEER_CLOCK_H
#define HSP_PEER_CLOCK_H
#include <stdbool.h>
#include <stdint.h>

#define HSP_CLOCK_SAMPLES 64u  /* half a minute of heartbeats */
#define HSP_CLOCK_DRIFT   2e-4 /* two quartzes of 100 ppm */

struct hsp_peerclock {
    uint32_t n; /* so far */
    struct {
        uint64_t at_us; /* our clock, in the middle */
        double offset_us, error_us;
    } sample[HSP_CLOCK_SAMPLES];
};

/* Asked at @sent_us, answered at @got_us of our clock by the other's @there_us. Times that go back
 * are passed over. */
void hsp_peerclock_add(struct hsp_peerclock *c, uint64_t sent_us, uint64_t got_us,
                       uint64_t there_us);
/* Its clock is ours + *ret_offset_us, to within *ret_error_us, at @now_us. Returns false if nothing
 * is known. */
bool hsp_peerclock_now(const struct hsp_peerclock *c, uint64_t now_us, double *ret_offset_us,
                       double *ret_error_us);

#endif
