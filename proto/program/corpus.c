#include "proto/program/corpus.h"

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
    /* neighbours share a token: the label of the last position is the first token of the next */
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
