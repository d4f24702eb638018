#include "proto/program/sheet.h"

#include <inttypes.h> /* PRIu64 */
#include <math.h>     /* cos */

#include "proto/base/rng.h"
#include "proto/program/pack.h"

enum hsp_status hsp_corpus_init(const struct hsp_data_bind *d, uint64_t n_tokens,
                                struct hsp_corpus *ret, struct hsp_err *err)
{
    uint64_t held = (uint64_t)((double)n_tokens * d->validation_fraction);
    bool validates = d->validation_every > 0 && d->eval_seqs > 0;
    uint64_t window = (uint64_t)d->sequence + 1;
    struct hsp_corpus c = {.n_tokens = n_tokens, .train_tokens = n_tokens - held};
    if (d->samples != HSP_SAMPLES_WINDOWS) {
        return hsp_err_set(err, HSP_EINVAL, 0, "the documents of the data are not listed");
    }
    if (c.train_tokens < window) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "data of %" PRIu64 " tokens, %" PRIu64
                           " of them for training; one window needs %" PRIu64,
                           n_tokens, c.train_tokens, window);
    }
    if (validates && held < window) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "data of %" PRIu64 " tokens, %" PRIu64
                           " of them for validation; one window needs %" PRIu64,
                           n_tokens, held, window);
    }
    /* neighbours share one token: the label of the last position is the next window's first token */
    c.n_train = (c.train_tokens - 1) / d->sequence;
    c.n_eval = held >= window ? (held - 1) / d->sequence : 0;
    *ret = c;
    return HSP_OK;
}

enum hsp_status hsp_corpus_documents(const struct hsp_data_bind *d, const uint64_t *start,
                                     uint64_t n, struct hsp_corpus *ret, struct hsp_err *err)
{
    uint64_t n_tokens = start[n] & ~HSP_SAMPLE_HEAD;
    uint64_t held = (uint64_t)((double)n_tokens * d->validation_fraction), lo = 0, hi = n;
    struct hsp_corpus c = {.n_tokens = n_tokens, .train_tokens = n_tokens - held, .start = start};
    while (lo < hi) { /* samples that end inside of the part that trains */
        uint64_t mid = lo + (hi - lo) / 2;
        if ((start[mid + 1] & ~HSP_SAMPLE_HEAD) <= c.train_tokens) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    c.n_train = lo;
    c.n_eval = n - lo;
    bool validates = d->validation_every > 0 && d->eval_seqs > 0;
    if (c.n_train == 0 || (validates && c.n_eval == 0)) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "data of %" PRIu64 " tokens in %" PRIu64
                           " documents or pieces of up to %u: none of them for %s",
                           n_tokens, n, d->longest, c.n_train == 0 ? "training" : "validation");
    }
    *ret = c;
    return HSP_OK;
}

uint32_t hsp_sample_len(const struct hsp_corpus *c, uint64_t sample)
{
    return (uint32_t)((c->start[sample + 1] & ~HSP_SAMPLE_HEAD) -
                      (c->start[sample] & ~HSP_SAMPLE_HEAD));
}

uint64_t hsp_corpus_tokens(const struct hsp_corpus *c)
{
    return c->start[c->n_train] & ~HSP_SAMPLE_HEAD;
}

/* A keyed permutation of [0, n): a balanced Feistel network on the smallest even number of bits
 * that holds n, walked along its cycle until it lands inside (Black and Rogaway, Ciphers with
 * arbitrary finite domains, CT-RSA 2002). The domain is below 4 n, so four rounds of walking are
 * expected at most. Eight rounds of hsp_mix64 mix well enough for shuffling. */
static uint64_t permute(uint64_t n, uint64_t key, uint64_t x)
{
    unsigned half = 1;
    while (half < 32 && (UINT64_C(1) << (2 * half)) < n) {
        half++;
    }
    uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t l = x >> half, r = x & mask;
        for (uint64_t round = 0; round < 8; round++) {
            uint64_t f = hsp_mix64(key ^ hsp_mix64(r + (round << 40))) & mask;
            uint64_t next = l ^ f;
            l = r;
            r = next;
        }
        x = (l << half) | r;
    } while (x >= n);
    return x;
}

uint64_t hsp_sample_at(uint64_t seed, uint64_t n_train, uint64_t i)
{
    uint64_t pass = i / n_train;
    uint64_t key = hsp_rng_u64(seed, hsp_hash_str("shuffle"), pass, 0);
    return permute(n_train, key, i % n_train);
}

uint32_t hsp_micro_size(uint32_t n_seq, uint32_t n_micro, uint32_t micro)
{
    return n_micro == 0 ? 0 : n_seq / n_micro + (micro < n_seq % n_micro ? 1 : 0);
}

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

/* The whole list of @n samples, packed and dealt: what this rank's stream has of it. */
static enum hsp_status packed_sheet(const struct hsp_binding *b, const struct hsp_corpus *c,
                                    const uint64_t *sample, bool eval, struct hsp_arena *arena,
                                    struct hsp_sheet *ret)
{
    const struct hsp_stream_bind *s = &b->stream;
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
    const struct hsp_stream_bind *s = &b->stream;
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
    const struct hsp_stream_bind *s = &b->stream;
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
    return h->min_lr + 0.5 * (h->lr - h->min_lr) * (1.0 + cos(pi * part));
}
