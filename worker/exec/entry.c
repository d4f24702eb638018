#include "worker/exec/entry.h"

#include <inttypes.h> /* PRIu64 */

#include "worker/exec/engine.h"
#include "worker/exec/engine_impl.h"
#include "worker/exec/interp.h"
#include "worker/exec/moves.h"
#include "worker/exec/record.h"
#include "worker/exec/replay.h"
#include "worker/exec/staging.h"
#include "worker/exec/state_watch.h"

/* Adds the place of the error to its message, in the words of `hspmdctl program show`. */
static enum hsp_status place(const struct hsp_engine *e, uint32_t k, uint32_t micro,
                             enum hsp_status st, struct hsp_err *err)
{
    const struct hsp_instr *i = &e->t->instrs[k];
    if (st == HSP_EPEER || st == HSP_ECANCELED || i->kind == HSP_I_VOTE || i->kind == HSP_I_SEAL) {
        return st;
    }
    (void)hsp_err_wrap(err, "step %" PRIu64 ", micro-batch %u, instruction %u%s%s", e->step, micro,
                       k, i->kind == HSP_I_OP ? " " : "",
                       i->kind == HSP_I_OP ? hsp_op_name((enum hsp_op)i->op) : "");
    return st;
}

/* If the micro-batch has no sequences, no rank of the pipeline has any, so nothing is computed or
 * moved. Pieces that run once in a step are never empty. */
bool hsp_entry_is_empty(const struct hsp_engine *e, const struct hsp_sched_entry *entry)
{
    bool empty = entry->micro < e->sheet.n_micro && e->sheet.micro[entry->micro].n_seq == 0;
    for (uint32_t s = 0; s < e->t->n_segments && empty; s++) {
        const struct hsp_segment *g = &e->t->segments[s];
        bool once = g->kind == HSP_SEG_PRE || g->kind == HSP_SEG_POST || g->kind == HSP_SEG_SERVE;
        empty = !once || entry->piece - g->first_piece >= g->n_pieces;
    }
    return empty;
}

/* Begins an entry. A later part of a piece of the compute queue continues the entry before it. */
static void enter(struct hsp_engine *e, const struct hsp_sched_entry *entry, enum hsp_queue q)
{
    if (q == HSP_QUEUE_COMPUTE && entry->first > 0) {
        return;
    }
    e->entry[q].stat_base = e->stat[q].n;
    e->entry[q].first = false;
    if (q == HSP_QUEUE_COMPUTE) {
        e->entry[q].first = (e->piece[entry->piece] & HSP_PIECE_RAN) == 0;
        e->piece[entry->piece] |= HSP_PIECE_RAN;
    }
}

/* Runs instruction @k, or a run of instructions from @k on that the device repeats by itself,
 * before @end. *ret_n: the number of instructions given. */
static enum hsp_status run_some(struct hsp_engine *e, uint32_t k, uint32_t end, uint32_t micro,
                                enum hsp_queue q, uint32_t *ret_n, struct hsp_err *err)
{
    *ret_n = hsp_replay_length(e, k, end);
    enum hsp_status st = *ret_n > 0 ? hsp_replay_run(e, k, *ret_n, micro, q, err)
                                    : hsp_run_next(e, k, end, micro, q, ret_n, err);
    for (uint32_t j = 0; st == HSP_OK && e->o.hooks.traced && j < *ret_n; j++) {
        st = e->o.hooks.traced(e->o.hooks.ctx, k + j, micro, e->eval, err);
    }
    return st;
}

/* Runs the instructions of an entry that is not empty. */
static enum hsp_status run_instrs(struct hsp_engine *e, const struct hsp_sched_entry *entry,
                                  enum hsp_queue q, struct hsp_err *err)
{
    uint32_t first, end = hsp_entry_end(e->t, entry, &first);
    bool each = e->rec != NULL && !hsp_record_entries(e, q);
    enum hsp_status st = HSP_OK;
    bool pacing = false;
    for (uint32_t k = first, n; k < end && st == HSP_OK; k += n) {
        if (hsp_engine_stops(e)) {
            st = hsp_err_set(err, HSP_ECANCELED, 0, "step %" PRIu64 " was aborted", e->step);
            break;
        }
        const struct hsp_instr *i = &e->t->instrs[k];
        bool paced = q == HSP_QUEUE_COMPUTE && (i->kind == HSP_I_OP || i->kind == HSP_I_ACC);
        if (paced && !pacing) {
            hsp_pace_enter(&e->pace);
        } else if (!paced && pacing) {
            hsp_pace_leave(&e->pace);
        }
        pacing = paced;
        st = each ? hsp_record_from(e, q, err) : HSP_OK;
        n = 1;
        atomic_store_explicit(&e->instr[q], k, memory_order_relaxed);
        if (st == HSP_OK) {
            st = run_some(e, k, end, entry->micro, q, &n, err);
        }
        if (paced) {
            hsp_pace_done(&e->pace);
        }
        if (st == HSP_OK && each) {
            st = hsp_record_to(e, q, k, n, entry->micro, err);
        }
        if (st != HSP_OK) {
            st = place(e, k, entry->micro, st, err);
        }
    }
    if (pacing) {
        hsp_pace_leave(&e->pace);
    }
    return st;
}

enum hsp_status hsp_run_piece(struct hsp_engine *e, const struct hsp_sched_entry *entry,
                              enum hsp_queue q, struct hsp_err *err)
{
    uint32_t first, end = hsp_entry_end(e->t, entry, &first);
    bool whole = e->rec != NULL && hsp_record_entries(e, q);
    if (hsp_entry_is_empty(e, entry)) {
        return HSP_OK;
    }
    enter(e, entry, q);
    enum hsp_status st = whole ? hsp_record_from(e, q, err) : HSP_OK;
    if (st == HSP_OK && q == HSP_QUEUE_COMPUTE) {
        st = hsp_state_watch_before(e, first, end, err);
    }
    if (st == HSP_OK) {
        st = run_instrs(e, entry, q, err);
    }
    return st == HSP_OK && whole ? hsp_record_to(e, q, first, end - first, entry->micro, err) : st;
}

enum hsp_status hsp_rehearse_piece(struct hsp_engine *e, const struct hsp_sched_entry *entry,
                                   enum hsp_queue q, struct hsp_err *err)
{
    uint32_t first, end = hsp_entry_end(e->t, entry, &first);
    enum hsp_status st = HSP_OK;
    if (hsp_entry_is_empty(e, entry)) {
        return HSP_OK;
    }
    enter(e, entry, q);
    for (uint32_t k = first, n; st == HSP_OK && k < end; k += n) {
        n = hsp_replay_length(e, k, end);
        if (n > 0) {
            st = hsp_replay_run(e, k, n, entry->micro, q, err);
            continue;
        }
        n = 1;
        const struct hsp_instr *i = &e->t->instrs[k];
        /* the places of this and of later statistics depend on how many come before */
        if (i->kind == HSP_I_STAT) {
            st = hsp_stat_note(e, q, (uint8_t)i->arg, HSP_F64, NULL, err);
        } else if (i->kind == HSP_I_RESHARD && e->rehearses == HSP_REHEARSE_ALL) {
            st = hsp_run_reshard(e, k, entry->micro, q, &n, err);
        }
    }
    return st;
}
