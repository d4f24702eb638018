/* Rank 0 gets the order TRACE and puts it into its next vote record, so that all ranks see it at
 * the same step: the number of the trace is in the upper half of the flags, the number of steps in
 * bits 8 to 15. If the epoch ends before all steps are recorded, the steps recorded so far are
 * sent. */
#include "worker/executor/epoch_trace.h"

#include <inttypes.h>
#include <string.h>

#include "worker/exec/record.h"
#include "worker/exec/step_trace.h"
#include "worker/executor/epoch.h"

#define ARENA_BYTES ((size_t)64 << 20)
#define ALL_SPANS   196608u /* spans of all members; they take 50 MiB of JSON at hspmdd */

/* Returns the most spans that one queue of one member may record. */
static uint32_t spans_of(uint32_t n_ranks)
{
    uint32_t most = ALL_SPANS / n_ranks / 2, cap = (HSP_PART_SPANS - HSP_STATE_SPANS) / 2;
    return most < cap ? most : cap; /* at least 24, since n_ranks is at most HSP_MSG_RANKS */
}

void hsp_epoch_trace_want(struct hsp_ex_epoch *e, uint32_t number, uint32_t steps)
{
    (void)pthread_mutex_lock(&e->lock);
    e->trace.flags = number << 16 | steps << 8;
    (void)pthread_mutex_unlock(&e->lock);
}

uint32_t hsp_epoch_trace_flags(struct hsp_ex_epoch *e)
{
    uint32_t flags = e->trace.flags;
    e->trace.flags = 0;
    return flags;
}

void hsp_epoch_trace_passed(struct hsp_ex_epoch *e, const struct hsp_vote *v, uint32_t flags)
{
    uint32_t number = flags >> 16, steps = flags >> 8 & 255;
    struct hsp_err err = {0};
    if (number == 0 || steps == 0) {
        return;
    }
    if (hsp_engine_record(e->engine, v->step + 1, steps, spans_of(e->p->n_ranks), &err) != HSP_OK) {
        hsp_log(e->env->log, HSP_LOG_WARN, "executor", "no trace of job %u: %s", e->p->job,
                err.msg);
    }
    (void)pthread_mutex_lock(&e->lock);
    e->trace.number = number; /* set also if recording failed: hspmdd waits for TRACED */
    e->trace.n_state = 0;
    (void)pthread_mutex_unlock(&e->lock);
}

void hsp_epoch_trace_state(struct hsp_ex_epoch *e, const char *what, int64_t from_ns)
{
    (void)pthread_mutex_lock(&e->lock);
    struct hsp_epoch_record *t = &e->trace;
    if (t->number != 0 && t->n_state < HSP_STATE_SPANS) {
        t->state[t->n_state++] = (struct hsp_state_span){what, from_ns, hsp_clock_ns()};
    }
    (void)pthread_mutex_unlock(&e->lock);
}

/* Sends TRACED with the steps recorded so far. */
static enum hsp_status tell(struct hsp_ex_epoch *e, uint32_t number, const struct hsp_recording *r,
                            const struct hsp_state_span *state, uint32_t n_state,
                            struct hsp_err *err)
{
    static const struct hsp_recording nothing;
    const struct hsp_program *programs[1 + HSP_PKG_POOL] = {&e->prog};
    struct hsp_trace_part part;
    struct hsp_buf blob;
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    enum hsp_status st = arena != NULL ? HSP_OK : hsp_err_nomem(err, "a trace");
    hsp_buf_init(&blob, HSP_MSG_TRACE_MAX);
    for (uint32_t k = 0; k < e->pkg.n_shorter; k++) {
        programs[k + 1] = e->shorter[k];
    }
    if (st == HSP_OK) {
        st = hsp_step_trace(r != NULL ? r : &nothing, programs, 1 + e->pkg.n_shorter, state,
                            n_state, arena, &part, err);
    }
    if (st == HSP_OK) {
        st = hsp_trace_part_encode(&part, &blob, err);
    }
    if (st == HSP_OK) {
        struct hsp_msg m = {
            .type = HSP_MSG_TRACED,
            .epoch = e->number,
            .blob = blob.data,
            .blob_len = (uint32_t)blob.len,
            .u.traced = {
                .job = e->p->job, .device = e->env->device, .rank = e->p->rank, .number = number}};
        st = hsp_chan_send(e->env->chan, &m, err);
    }
    hsp_buf_fini(&blob);
    (void)hsp_arena_free(arena);
    return st;
}

void hsp_epoch_trace_tell(struct hsp_ex_epoch *e, bool now)
{
    struct hsp_state_span state[HSP_STATE_SPANS];
    struct hsp_err err = {0};
    (void)pthread_mutex_lock(&e->lock);
    uint32_t number = e->trace.number;
    (void)pthread_mutex_unlock(&e->lock);
    struct hsp_recording *r =
        number != 0 && e->engine != NULL ? hsp_engine_recorded(e->engine, now) : NULL;
    if (number == 0 || (r == NULL && !now)) {
        return;
    }
    (void)pthread_mutex_lock(&e->lock);
    uint32_t n = e->trace.n_state;
    memcpy(state, e->trace.state, n * sizeof(state[0]));
    e->trace.number = 0;
    (void)pthread_mutex_unlock(&e->lock);
    if (tell(e, number, r, state, n, &err) != HSP_OK) {
        hsp_log(e->env->log, HSP_LOG_WARN, "executor", "the trace of job %u is not sent: %s",
                e->p->job, err.msg);
    }
    (void)hsp_recording_free(r);
}
