/* Records when the instructions of a few steps were done, queue by queue, on one clock.
 *
 * Role:      executor/epoch_trace.c asks for a recording (hsp_engine_record) and makes a trace of
 *            it.
 * Threads:   while its steps run each queue is written by its own thread; then it is its owner's.
 * Ownership: the engine's until hsp_engine_recorded hands it over; then hsp_recording_free.
 * Bounds:    HSP_RECORD_STEPS steps, the spans of each queue as asked, at most HSP_RECORD_SPANS.
 *            Where a queue has more instructions than that, its spans are entries of the schedule.
 * Time:      of a CPU the host's clock around each instruction, pacing included. Of a device its
 *            own time between marks (backend's `seconds`), tied to the host's clock where the
 *            recording begins; a run that the device repeats by itself is one span. */
#ifndef HSP_RECORD_H
#define HSP_RECORD_H
#include <stdbool.h>
#include <stdint.h>
#include "proto/program/program.h"

struct hsp_engine;
struct hsp_recorder;

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
    /* spans for which there was no room, or whose time the device does not know any more */
    uint32_t lost;
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
/* Asks for a recording of @n_steps steps from @first_step on, or from the next one that begins if
 * that is later, with at most @cap spans of each queue. By any thread. HSP_EINVAL: no or too many
 * steps or spans; HSP_ESTATE: there is one that was not taken yet; HSP_ENOMEM. */
enum hsp_status hsp_engine_record(struct hsp_engine *e, uint64_t first_step, uint32_t n_steps,
                                  uint32_t cap, struct hsp_err *err);
/* While e->rec is not NULL: a span of queue @q begins and ends. Errors of the device. */
enum hsp_status hsp_record_from(struct hsp_engine *e, enum hsp_queue q, struct hsp_err *err);
enum hsp_status hsp_record_to(struct hsp_engine *e, enum hsp_queue q, uint32_t first, uint32_t n,
                              uint32_t micro, struct hsp_err *err);
bool hsp_record_entries(const struct hsp_engine *e, enum hsp_queue q); /* spans are entries */
/* At the begin of each step, and at its end when the step succeeded. */
void hsp_record_step_begins(struct hsp_engine *e);
void hsp_record_step_ends(struct hsp_engine *e);
struct hsp_recorder *hsp_recorder_free(struct hsp_recorder *r); /* NULL is fine; returns NULL */
/* Between steps: the recording when all its steps are done, or as far as it is when @now; the
 * caller's then. NULL: there is none. Of a device it waits for the last recorded step. */
struct hsp_recording *hsp_engine_recorded(struct hsp_engine *e, bool now);

#endif
