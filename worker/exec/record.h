/* Recordings: when the instructions of a few steps were done, queue by queue, on one clock.
 *
 * Role:      who asks the engine for one (hsp_engine_record) makes a trace of it.
 * Threads:   while its steps run each queue is written by its own thread; then it is its owner's.
 * Ownership: the engine's until hsp_engine_recorded hands it over; then hsp_recording_free.
 * Bounds:    HSP_RECORD_STEPS steps, the spans of each queue as asked, at most HSP_RECORD_SPANS. Where a
 *            queue has more instructions than that, its spans are entries of the schedule.
 * Time:      of a CPU the host's clock around each instruction, pacing included. Of a device its own time
 *            between marks (backend's `seconds`), tied to the host's clock where the recording begins; a
 *            run that the device repeats by itself is one span. */
#ifndef HSP_RECORD_H
#define HSP_RECORD_H
#include <stdbool.h>
#include <stdint.h>
#include "proto/program/program.h"

#define HSP_RECORD_STEPS 64
#define HSP_RECORD_SPANS 65536

struct hsp_span {
    int64_t from_ns, to_ns; /* hsp_clock_ns of this host */
    uint32_t first, n;      /* instructions of the program: [first, first + n) */
    uint32_t micro;
    uint16_t step;   /* from first_step on */
    uint8_t program; /* of a pool: 0 is the one for the longest sequences */
    bool eval;
};

struct hsp_recorded_queue {
    struct hsp_span *span; /* owned: n, in order; none begins before the one in front has ended */
    uint32_t n, cap;
    uint32_t
        lost;     /* for which there was no room, or whose time the device does not know any more */
    bool entries; /* each span is an entry of the schedule */
};

struct hsp_recording {
    uint64_t first_step;
    uint32_t n_steps; /* as asked */
    uint32_t done;    /* steps that are in it from their beginning to their end */
    int64_t error_ns; /* how far the time of a device may be off the clock of its host */
    struct hsp_recorded_queue queue[HSP_N_QUEUES];
};

struct hsp_recording *hsp_recording_free(struct hsp_recording *r); /* NULL is fine; returns NULL */

#endif
