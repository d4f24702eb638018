/* Makes a device's part of a trace of its recording: spans with names, phases, work, messages.
 *
 * Role:      epoch_trace.c sends it to the agent; hspmdd puts the parts together.
 * Purity:    pure.
 * Ownership: the part lives in the arena given. */
#ifndef HSP_STEP_TRACE_H
#define HSP_STEP_TRACE_H
#include "proto/wire/trace_part.h"
#include "worker/exec/record.h"

struct hsp_state_span {     /* of the thread that keeps the state */
    const char *name;       /* borrowed: "seal", "copy", ... */
    int64_t from_ns, to_ns; /* hsp_clock_ns */
};

/* @programs: of the pool, the one for the longest sequences first; they are those that were
 * recorded. @state: in order, none begins before the one in front has ended. HSP_ENOMEM:
 * *ret untouched. */
enum hsp_status hsp_step_trace(const struct hsp_recording *r,
                               const struct hsp_program *const *programs, uint32_t n_programs,
                               const struct hsp_state_span *state, uint32_t n_state,
                               struct hsp_arena *arena, struct hsp_trace_part *ret,
                               struct hsp_err *err);

#endif
