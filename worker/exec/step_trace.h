/* Turns the recording of a device into the device's part of a trace: spans with names, phases, work
 * and messages.
 *
 * Role:      epoch_trace.c sends the part to the agent; hspmdd joins the parts of all devices.
 * Purity:    pure.
 * Ownership: the part lives in the arena given. */
#ifndef HSP_STEP_TRACE_H
#define HSP_STEP_TRACE_H
#include "proto/wire/trace_part.h"
#include "worker/exec/record.h"

struct hsp_state_span {     /* a span of the thread that seals and copies the state */
    const char *name;       /* borrowed: "seal", "copy", ... */
    int64_t from_ns, to_ns; /* on the clock of hsp_clock_ns */
};

/* Makes the part of a trace. @programs: the recorded programs of the pool, the program for the
 * longest sequences first. @state: spans in order; none begins before the span before it has ended.
 * Returns HSP_ENOMEM; *ret is then untouched. */
enum hsp_status hsp_step_trace(const struct hsp_recording *r,
                               const struct hsp_program *const *programs, uint32_t n_programs,
                               const struct hsp_state_span *state, uint32_t n_state,
                               struct hsp_arena *arena, struct hsp_trace_part *ret,
                               struct hsp_err *err);

#endif
