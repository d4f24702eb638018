#include "proto/program/sheet.h"

#include <inttypes.h> /* PRIu64 */
#include <math.h>     /* cos */

#include "proto/base/rng.h"

enum hsp_status hsp_corpus_init(const struct hsp_data_bind *d, uint64_t n_tokens,
                                struct hsp_corpus *ret, struct hsp_err *err)
{
    uint64_t held = (uint64_t)((double)n_tokens * d->validation_fraction);
    bool validates = d->validation_every > 0 && d->eval_seqs > 0;
    uint64_t window = (uint64_t)d->sequence + 1;
    struct hsp_corpus c = {.n_tokens = n_tokens, .train_tokens = n_tokens - held};
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

enum hsp_status hsp_sheet_train(const struct hsp_binding *b, const struct hsp_corpus *c,
                                uint64_t step, struct hsp_arena *arena, struct hsp_sheet *ret)
{
    uint64_t *offset, *sample;
    const struct hsp_stream_bind *s = &b->stream;
    enum hsp_status st = sheet_alloc(s->n_seq, s->n_micro, arena, ret, &offset, &sample);
    for (uint32_t k = 0; k < s->n_seq && st == HSP_OK; k++) {
        uint64_t at = step * b->data.global_batch + s->first_seq + k;
        sample[k] = hsp_sample_at(b->data.seed, c->n_train, at);
        offset[k] = sample[k] * b->data.sequence;
    }
    return st;
}

enum hsp_status hsp_sheet_eval(const struct hsp_binding *b, const struct hsp_corpus *c,
                               struct hsp_arena *arena, struct hsp_sheet *ret)
{
    uint64_t *offset, *sample;
    const struct hsp_stream_bind *s = &b->stream;
    uint64_t all = b->data.eval_seqs;
    enum hsp_status st = sheet_alloc(s->eval_n_seq, s->eval_n_micro, arena, ret, &offset, &sample);
    for (uint32_t k = 0; k < s->eval_n_seq && st == HSP_OK; k++) {
        uint64_t at = (uint64_t)s->eval_first + k;
        /* spread evenly over the validation part; a short one is read again */
        uint64_t w = c->n_eval == 0 ? 0 : all <= c->n_eval ? at * c->n_eval / all : at % c->n_eval;
        sample[k] = c->n_train + w;
        offset[k] = c->train_tokens + w * b->data.sequence;
    }
    return st;
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
