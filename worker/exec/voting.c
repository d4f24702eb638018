/* The VOTE instruction: exchange of the records and what the step does with the outcome. */
#include <inttypes.h> /* PRIu64 */
#include <stdlib.h>

#include "proto/program/datacursor.h"
#include "worker/exec/runner.h"

static enum hsp_status exchange(struct hsp_engine *e, const struct hsp_vote_record *mine,
                                struct hsp_vote_record *all, struct hsp_err *err)
{
    uint32_t n = e->b->n_ranks;
    uint8_t out[HSP_VOTE_BYTES], *in = calloc(n, HSP_VOTE_BYTES);
    uint32_t *ranks = calloc(n, sizeof(*ranks));
    size_t *count = calloc(n, sizeof(*count));
    enum hsp_status st = HSP_OK;
    if (!in || !ranks || !count) {
        st = hsp_err_set(err, HSP_ENOMEM, 0, "no memory for %u votes", n);
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

/* Where version @step, which this vote commits, is in the data. */
static uint64_t place(const struct hsp_engine *e)
{
    struct hsp_data_cursor c;
    hsp_data_cursor_init(&e->b->data, &e->corpus, e->o.data_digest, e->o.dataset->n_bytes, e->step,
                         &c);
    return hsp_data_cursor_mark(&c);
}

enum hsp_status hsp_run_vote(struct hsp_engine *e, struct hsp_err *err)
{
    e->voted_ns = e->compute_ns;
    struct hsp_vote_record mine = {.rank = e->b->rank,
                                   .step = e->step,
                                   .compute_s = (double)(e->late_ns + e->voted_ns) * 1e-9,
                                   .wait_s = (double)e->wait_ns * 1e-9};
    for (int k = 0; k < HSP_N_STATS; k++) {
        mine.stat[k] = e->stat[HSP_QUEUE_COMPUTE][k] + e->stat[HSP_QUEUE_COMM][k];
    }
    enum hsp_status st = HSP_OK;
    mine.data = place(e);
    if (e->o.hooks.before_vote) {
        st = e->o.hooks.before_vote(e->o.hooks.ctx, &mine, err);
    }
    struct hsp_vote_record *all = calloc(e->b->n_ranks, sizeof(*all));
    if (st == HSP_OK && !all) {
        st = hsp_err_set(err, HSP_ENOMEM, 0, "no memory for %u votes", e->b->n_ranks);
    }
    if (st == HSP_OK) {
        st = exchange(e, &mine, all, err);
    }
    if (st == HSP_OK) {
        st = decide(e, all, err);
    }
    free(all);
    return st;
}
