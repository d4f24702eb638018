#include "worker/exec/voting.h"

#include <inttypes.h> /* PRIu64 */
#include <stdlib.h>

#include "proto/program/data_cursor.h"
#include "worker/comm/collective.h"
#include "worker/exec/device_queue.h"
#include "worker/exec/engine_impl.h"
#include "worker/exec/queues.h"
#include "worker/exec/staging.h"

/* Sends this rank's record to all ranks, and receives theirs. */
static enum hsp_status exchange(struct hsp_engine *e, const struct hsp_vote_record *mine,
                                struct hsp_vote_record *all, struct hsp_err *err)
{
    uint32_t n = e->b->n_ranks;
    uint8_t out[HSP_VOTE_BYTES], *in = calloc(n, HSP_VOTE_BYTES);
    uint32_t *ranks = calloc(n, sizeof(*ranks));
    size_t *count = calloc(n, sizeof(*count));
    enum hsp_status st = HSP_OK;
    if (!in || !ranks || !count) {
        st = hsp_err_nomem(err, "%u votes", n);
        goto out;
    }
    for (uint32_t i = 0; i < n; i++) {
        ranks[i] = i;
        count[i] = HSP_VOTE_BYTES / sizeof(double);
    }
    hsp_vote_encode(mine, out);
    struct hsp_group g = {.n = n, .ranks = ranks, .me = e->b->rank};
    st = hsp_comm_all_gather(e->o.comm, &g, HSP_VOTE_CHANNEL, HSP_F64, out, count, in, err);
    for (uint32_t i = 0; i < n && st == HSP_OK; i++) {
        hsp_vote_decode(in + (size_t)i * HSP_VOTE_BYTES, &all[i]);
    }
out:
    free(in);
    free(ranks);
    free(count);
    return st;
}

/* Computes the outcome of all records and calls the hook `passed`. */
static enum hsp_status decide(struct hsp_engine *e, const struct hsp_vote_record *all,
                              struct hsp_err *err)
{
    enum hsp_status st = hsp_vote_count(all, e->b->n_ranks, e->step, &e->b->hyper, &e->vote, err);
    if (st != HSP_OK) {
        return st;
    }
    e->n_noop = e->vote.noop ? e->n_noop + 1 : 0;
    if (e->n_noop >= HSP_MAX_NOOP_STEPS) {
        return hsp_err_set(err, HSP_ESTATE, 0,
                           "training diverged: loss or gradient norm not finite in %u steps up to "
                           "step %" PRIu64,
                           e->n_noop, e->step);
    }
    e->voted = true;
    return e->o.hooks.passed ? e->o.hooks.passed(e->o.hooks.ctx, &e->vote, all, e->b->n_ranks, err)
                             : HSP_OK;
}

/* Returns the hash of the place in the data of version @step, which this vote commits. */
static uint64_t place(const struct hsp_engine *e)
{
    struct hsp_data_cursor c;
    hsp_data_cursor_init(&e->b->data, &e->corpus, e->o.data_digest, e->o.dataset->n_bytes, e->step,
                         &c);
    return hsp_data_cursor_mark(&c);
}

/* Writes the seconds that the device has measured since the vote before to @mine. */
static enum hsp_status measured(struct hsp_engine *e, struct hsp_vote_record *mine,
                                struct hsp_err *err)
{
    enum hsp_status st = hsp_spans_take(e, err);
    int64_t now = hsp_clock_ns();
    double all = (double)(now - e->last_vote_ns) * 1e-9;
    e->last_vote_ns = now;
    e->compute_s = mine->compute_s = e->spans.seconds;
    e->wait_s = mine->wait_s = all > e->compute_s ? all - e->compute_s : 0.0;
    e->spans.seconds = 0.0;
    return st;
}

/* Makes this rank's record. Waits once for the device; after that the host has all data of the
 * vote. */
static enum hsp_status record(struct hsp_engine *e, struct hsp_vote_record *ret,
                              struct hsp_err *err)
{
    e->voted_ns = e->compute_ns;
    *ret = (struct hsp_vote_record){.rank = e->b->rank,
                                    .step = e->step,
                                    .compute_s = (double)(e->late_ns + e->voted_ns) * 1e-9,
                                    .wait_s = (double)e->wait_ns * 1e-9,
                                    .data = place(e)};
    enum hsp_status st = hsp_queue_finish(e, HSP_DEVQ_COMM, err);
    if (st != HSP_OK) {
        return st;
    }
    hsp_stat_sum(e, ret->stat);
    return hsp_measures(e) ? measured(e, ret, err) : HSP_OK;
}

/* Copies the numbers of the update to the device, where the update reads them. */
static enum hsp_status hand_scalars(struct hsp_engine *e, struct hsp_err *err)
{
    struct hsp_backend *b = e->o.backend;
    *e->scalars.host = e->vote.scalars;
    return b->copy(b, HSP_DEVQ_COMM, e->scalars.device, e->scalars.host, sizeof(*e->scalars.host),
                   err);
}

/* Marks the begin of the vote. If the update needs no other rank, an abort stops nothing from now
 * until the vote is over. Returns false if the engine was stopped before. */
static bool enter(struct hsp_engine *e)
{
    (void)pthread_mutex_lock(&e->lock);
    bool enters = atomic_load(&e->stop) == 0;
    atomic_store(&e->finishes, enters && e->lone);
    (void)pthread_mutex_unlock(&e->lock);
    return enters;
}

/* Marks the end of the vote. If it has passed in a lone engine, the update is finished in spite of
 * an abort, unless a queue has failed: this queue runs no more entries, so the other queue must not
 * wait for them. */
static void leave(struct hsp_engine *e, bool passed)
{
    (void)pthread_mutex_lock(&e->lock);
    atomic_store(&e->finishes, passed && e->lone && e->failure.code == HSP_OK);
    (void)pthread_cond_broadcast(&e->cond);
    (void)pthread_mutex_unlock(&e->lock);
}

/* Makes this rank's record, exchanges the records, and acts on their outcome. */
static enum hsp_status vote(struct hsp_engine *e, struct hsp_err *err)
{
    struct hsp_vote_record mine;
    enum hsp_status st = record(e, &mine, err);
    if (st == HSP_OK && e->o.hooks.before_vote) {
        st = e->o.hooks.before_vote(e->o.hooks.ctx, &mine, err);
    }
    struct hsp_vote_record *all = calloc(e->b->n_ranks, sizeof(*all));
    if (st == HSP_OK && !all) {
        st = hsp_err_nomem(err, "%u votes", e->b->n_ranks);
    }
    if (st == HSP_OK) {
        st = exchange(e, &mine, all, err);
    }
    if (st == HSP_OK) {
        st = decide(e, all, err);
    }
    if (st == HSP_OK) {
        st = hand_scalars(e, err);
    }
    free(all);
    return st;
}

enum hsp_status hsp_run_vote(struct hsp_engine *e, struct hsp_err *err)
{
    if (!enter(e)) {
        return hsp_err_set(err, HSP_ECANCELED, 0, "step %" PRIu64 " was aborted", e->step);
    }
    enum hsp_status st = vote(e, err);
    leave(e, st == HSP_OK);
    return st;
}
