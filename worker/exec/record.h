/* Records when the instructions of a few steps began and ended, queue by queue, on one clock.
 *
 * Role:      executor/epoch_trace.c asks for a recording (hsp_engine_record) and makes a trace of
 *            it.
 * Threads:   while the recorded steps run, each queue's thread writes the spans of its queue. After
 *            that only the owner of the recording uses it.
 * Ownership: the engine owns a recording until hsp_engine_recorded returns it; the caller then
 *            frees it by hsp_recording_free.
 * Bounds:    HSP_RECORD_STEPS steps; for each queue as many spans as asked for, at most
 *            HSP_RECORD_SPANS. If a queue has more instructions than that, its spans are entries of
 *            the schedule.
 * Time:      On a CPU the host's clock before and after each instruction, pacing included. On a
 *            device that measures its seconds the device's own time between marks (`seconds` of
 *            backend.h), tied to the host's clock where the recording begins. A run of instructions
 *            that the device repeats by itself is one span. */
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
    int64_t from_ns, to_ns; /* on the clock of hsp_clock_ns on this host */
    uint32_t first, n;      /* instructions of the program: [first, first + n) */
    uint32_t micro;
    uint16_t step;   /* number of the step, counted from first_step */
    uint8_t program; /* of a pool: 0 is the program for the longest sequences */
    bool eval;
};

struct hsp_recorded_queue {
    /* owned: @n spans in order; none begins before the span before it has ended */
    struct hsp_span *span;
    uint32_t n, cap;
    /* number of spans that are missing: there was no room, or the device no longer knew their
     * times */
    uint32_t lost;
    bool entries; /* each span is an entry of the schedule */
};

struct hsp_recording {
    uint64_t first_step;
    uint32_t n_steps; /* number of steps asked for */
    uint32_t done;    /* number of steps that are recorded from their beginning to their end */
    int64_t error_ns; /* largest error of a device's times on the clock of its host */
    struct hsp_recorded_queue queue[HSP_N_QUEUES];
};

/* Frees a recording. NULL is fine; returns NULL. */
struct hsp_recording *hsp_recording_free(struct hsp_recording *r);
/* Asks for a recording of @n_steps steps, with at most @cap spans of each queue. The first recorded
 * step is @first_step, or the next step that begins if that is later. Any thread may call it.
 * Returns HSP_EINVAL if steps or spans are 0 or too many; HSP_ESTATE if there is another recording
 * that was not taken yet; HSP_ENOMEM. */
enum hsp_status hsp_engine_record(struct hsp_engine *e, uint64_t first_step, uint32_t n_steps,
                                  uint32_t cap, struct hsp_err *err);
/* Begin and end a span of queue @q, and return errors of the device. Call them only while e->rec is
 * not NULL. */
enum hsp_status hsp_record_from(struct hsp_engine *e, enum hsp_queue q, struct hsp_err *err);
enum hsp_status hsp_record_to(struct hsp_engine *e, enum hsp_queue q, uint32_t first, uint32_t n,
                              uint32_t micro, struct hsp_err *err);
/* Returns true if the spans of queue @q are entries. Call it only while e->rec is not NULL. */
bool hsp_record_entries(const struct hsp_engine *e, enum hsp_queue q);
/* Called at the beginning of each step, and at the end of each step that succeeded: begin and end a
 * recording that is due. */
void hsp_record_step_begins(struct hsp_engine *e);
void hsp_record_step_ends(struct hsp_engine *e);
/* Frees a recorder and its recording. NULL is fine; returns NULL. */
struct hsp_recorder *hsp_recorder_free(struct hsp_recorder *r);
/* Returns the recording if all its steps are done, or, if @now, with the steps that are done so
 * far. The caller then owns it. Returns NULL if there is no such recording. Call it between steps.
 * On a device it waits for the last recorded step. */
struct hsp_recording *hsp_engine_recorded(struct hsp_engine *e, bool now);

#endif
