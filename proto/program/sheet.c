#include "proto/program/sheet.h"

#include "proto/base/rng.h"
#include "proto/program/corpus.h"
#include "proto/program/micro_size.h"
#include "proto/program/pack.h"

static enum hsp_status sheet_alloc(uint32_t n_seq, uint32_t n_micro, struct hsp_arena *arena,
                                   struct hsp_sheet *ret, uint64_t **ret_offset,
                                   uint64_t **ret_sample)
{
    struct hsp_micro *m = hsp_arena_array(arena, n_micro, sizeof(*m));
    uint64_t *offset = hsp_arena_array(arena, n_seq, sizeof(*offset));
    uint64_t *sample = hsp_arena_array(arena, n_seq, sizeof(*sample));
    if (!m || !offset || !sample) {
        return HSP_ENOMEM;
    }
    uint32_t at = 0;
    for (uint32_t k = 0; k < n_micro; k++) {
        m[k] = (struct hsp_micro){.n_seq = hsp_micro_size(n_seq, n_micro, k),
                                  .offset = offset + at,
                                  .sample = sample + at};
        at += m[k].n_seq;
    }
    *ret = (struct hsp_sheet){.n_micro = n_micro, .micro = m};
    *ret_offset = offset;
    *ret_sample = sample;
    return HSP_OK;
}

/* Sample @k of step @step, of the validation list. */
static uint64_t train_sample(const struct hsp_data_bind *d, const struct hsp_corpus *c,
                             uint64_t step, uint64_t k)
{
    return hsp_sample_at(d->seed, c->n_train, step * d->global_batch + k);
}

/* Spread evenly over the validation part; a short one is read again. */
static uint64_t eval_sample(const struct hsp_data_bind *d, const struct hsp_corpus *c, uint64_t k)
{
    uint64_t all = d->eval_seqs;
    uint64_t w = c->n_eval == 0 ? 0 : all <= c->n_eval ? k * c->n_eval / all : k % c->n_eval;
    return c->n_train + w;
}

/* The whole list of @n samples, packed and dealt: the part of this rank's pipeline. */
static enum hsp_status packed_sheet(const struct hsp_binding *b, const struct hsp_corpus *c,
                                    const uint64_t *sample, bool eval, struct hsp_arena *arena,
                                    struct hsp_sheet *ret)
{
    const struct hsp_pipeline_bind *s = &b->pipeline;
    const struct hsp_pack_order o = {.sequence = b->data.sequence,
                                     .n = eval ? b->data.eval_seqs : b->data.global_batch,
                                     .first = eval ? s->eval_first : s->first_seq,
                                     .n_seq = eval ? s->eval_n_seq : s->n_seq,
                                     .n_micro = eval ? s->eval_n_micro : s->n_micro,
                                     .n_stages = s->n_stages,
                                     .bound = (uint32_t)b->symbol[HSP_SYM_BATCH]};
    return hsp_pack_step(&o, c, sample, arena, ret);
}

enum hsp_status hsp_sheet_train(const struct hsp_binding *b, const struct hsp_corpus *c,
                                uint64_t step, struct hsp_arena *arena, struct hsp_sheet *ret)
{
    uint64_t *offset, *sample;
    const struct hsp_pipeline_bind *s = &b->pipeline;
    if (c->start != NULL) {
        sample = hsp_arena_array(arena, b->data.global_batch, sizeof(*sample));
        for (uint32_t k = 0; sample != NULL && k < b->data.global_batch; k++) {
            sample[k] = train_sample(&b->data, c, step, k);
        }
        return sample == NULL ? HSP_ENOMEM : packed_sheet(b, c, sample, false, arena, ret);
    }
    enum hsp_status st = sheet_alloc(s->n_seq, s->n_micro, arena, ret, &offset, &sample);
    for (uint32_t k = 0; k < s->n_seq && st == HSP_OK; k++) {
        sample[k] = train_sample(&b->data, c, step, (uint64_t)s->first_seq + k);
        offset[k] = sample[k] * b->data.sequence;
    }
    return st;
}

enum hsp_status hsp_sheet_eval(const struct hsp_binding *b, const struct hsp_corpus *c,
                               struct hsp_arena *arena, struct hsp_sheet *ret)
{
    uint64_t *offset, *sample;
    const struct hsp_pipeline_bind *s = &b->pipeline;
    if (c->start != NULL) {
        sample = hsp_arena_array(arena, b->data.eval_seqs, sizeof(*sample));
        for (uint32_t k = 0; sample != NULL && k < b->data.eval_seqs; k++) {
            sample[k] = eval_sample(&b->data, c, k);
        }
        return sample == NULL ? HSP_ENOMEM : packed_sheet(b, c, sample, true, arena, ret);
    }
    enum hsp_status st = sheet_alloc(s->eval_n_seq, s->eval_n_micro, arena, ret, &offset, &sample);
    for (uint32_t k = 0; k < s->eval_n_seq && st == HSP_OK; k++) {
        sample[k] = eval_sample(&b->data, c, (uint64_t)s->eval_first + k);
        offset[k] = c->train_tokens + (sample[k] - c->n_train) * b->data.sequence;
    }
    return st;
}

uint32_t hsp_longest_train(const struct hsp_data_bind *d, const struct hsp_corpus *c, uint64_t step)
{
    uint32_t longest = c->start == NULL ? d->sequence : 0;
    for (uint32_t k = 0; c->start != NULL && k < d->global_batch; k++) {
        uint32_t len = hsp_sample_len(c, train_sample(d, c, step, k));
        longest = len > longest ? len : longest;
    }
    return longest;
}

uint32_t hsp_longest_eval(const struct hsp_data_bind *d, const struct hsp_corpus *c)
{
    uint32_t longest = c->start == NULL ? d->sequence : 0;
    for (uint32_t k = 0; c->start != NULL && k < d->eval_seqs; k++) {
        uint32_t len = hsp_sample_len(c, eval_sample(d, c, k));
        longest = len > longest ? len : longest;
    }
    return longest;
}

void hsp_sample_keys(const struct hsp_data_bind *d, uint64_t step, uint64_t sample, int32_t ret[2])
{
    uint64_t r = hsp_rng_u64(d->seed, hsp_hash_str("dropout"), step, sample);
    ret[0] = (int32_t)(r & 0x7fffffff);
    ret[1] = (int32_t)(r >> 32 & 0x7fffffff);
}

bool hsp_step_has_eval(const struct hsp_binding *b, uint64_t step)
{
    return b->data.validation_every > 0 && b->data.eval_seqs > 0 &&
           (step % b->data.validation_every == 0 || step + 1 == b->hyper.steps);
}

/* Of 0 <= x <= pi, by its series: the same bits on every machine, as those of no C library are. */
static double cosine(double x)
{
    const double pi = 3.14159265358979323846;
    double y = x > pi / 2 ? pi - x : x, sum = 1.0;
    for (int n = 24; n > 0; n -= 2) {
        sum = 1.0 - sum * y * y / (double)(n * (n - 1));
    }
    return x > pi / 2 ? -sum : sum;
}

double hsp_lr_at(const struct hsp_train_bind *h, uint64_t step)
{
    if (step < h->warmup_steps) {
        return h->lr * (double)(step + 1) / (double)h->warmup_steps;
    }
    if (h->schedule == HSP_LR_CONSTANT) {
        return h->lr;
    }
    if (step >= h->steps) {
        return h->min_lr;
    }
    const double pi = 3.14159265358979323846;
    double part = (double)(step - h->warmup_steps) / (double)(h->steps - h->warmup_steps);
    return h->min_lr + 0.5 * (h->lr - h->min_lr) * (1.0 + cosine(pi * part));
}
