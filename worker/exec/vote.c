#include "worker/exec/vote.h"

#include <inttypes.h> /* PRIu64 */
#include <math.h>
#include <string.h>

static void put(uint8_t *out, size_t *at, uint64_t v, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        out[(*at)++] = (uint8_t)(v >> (8 * k));
    }
}

static void put_f64(uint8_t *out, size_t *at, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    put(out, at, bits, 8);
}

void hsp_vote_encode(const struct hsp_vote_record *r, uint8_t out[HSP_VOTE_BYTES])
{
    size_t at = 0;
    memset(out, 0, HSP_VOTE_BYTES);
    put(out, &at, r->rank, 4);
    put(out, &at, r->flags, 4);
    put(out, &at, r->step, 8);
    for (int k = 0; k < HSP_N_STATS; k++) {
        put_f64(out, &at, r->stat[k]);
    }
    put(out, &at, r->armed, 8);
    put_f64(out, &at, r->compute_s);
    put_f64(out, &at, r->wait_s);
    put(out, &at, r->data, 8);
    put(out, &at, r->state, 8);
}

void hsp_vote_decode(const uint8_t in[HSP_VOTE_BYTES], struct hsp_vote_record *ret)
{
    struct hsp_cursor c;
    hsp_cur_init(&c, in, HSP_VOTE_BYTES);
    ret->rank = hsp_cur_u32(&c);
    ret->flags = hsp_cur_u32(&c);
    ret->step = hsp_cur_u64(&c);
    for (int k = 0; k < HSP_N_STATS; k++) {
        ret->stat[k] = hsp_cur_f64(&c);
    }
    ret->armed = hsp_cur_u64(&c);
    ret->compute_s = hsp_cur_f64(&c);
    ret->wait_s = hsp_cur_f64(&c);
    ret->data = hsp_cur_u64(&c);
    ret->state = hsp_cur_u64(&c);
}

bool hsp_vote_state_agrees(const struct hsp_vote_record *all, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += all[i].state;
    }
    return sum == 0;
}

/* Returns base^n with the same bits on every machine, which no C library's pow promises. So ranks
 * whose parts of the state are equal update them alike. */
static double power(double base, uint64_t n)
{
    double x = 1.0;
    for (; n > 0; n /= 2, base *= base) {
        x = n % 2 == 1 ? x * base : x;
    }
    return x;
}

enum hsp_status hsp_vote_count(const struct hsp_vote_record *all, uint32_t n, uint64_t step,
                               const struct hsp_train_bind *h, struct hsp_vote *ret,
                               struct hsp_err *err)
{
    double sum[HSP_N_STATS] = {0};
    uint64_t armed = all[0].armed;
    for (uint32_t i = 0; i < n; i++) {
        if (all[i].rank != i || all[i].step != step) {
            return hsp_err_set(err, HSP_EPROTO, 0,
                               "vote of rank %u, step %" PRIu64 " says rank %u, step %" PRIu64, i,
                               step, all[i].rank, all[i].step);
        }
        if (all[i].data != all[0].data) {
            return hsp_err_set(err, HSP_EPROTO, 0,
                               "at step %" PRIu64 " rank %u is at another place in the data, or in "
                               "other data, than rank 0",
                               step, i);
        }
        for (int k = 0; k < HSP_N_STATS; k++) {
            sum[k] += all[i].stat[k];
        }
        armed = all[i].armed == armed ? armed : 0;
    }
    struct hsp_vote v = {.step = step, .tokens = sum[HSP_STAT_TOKENS], .clip = 1.0, .armed = armed};
    v.loss = sum[HSP_STAT_LOSS] / v.tokens;
    v.norm = sqrt(sum[HSP_STAT_SQNORM]) / v.tokens;
    v.lr = hsp_lr_at(h, step);
    v.eval_tokens = sum[HSP_STAT_EVAL_TOKENS];
    v.eval_loss = v.eval_tokens > 0.0 ? sum[HSP_STAT_EVAL_LOSS] / v.eval_tokens : 0.0;
    v.noop = !(v.tokens > 0.0) || !isfinite(v.loss) || !isfinite(v.norm);
    if (h->clip_norm > 0.0 && v.norm > h->clip_norm) {
        v.clip = h->clip_norm / v.norm;
    }
    v.scalars = (struct hsp_update_scalars){.lr = v.lr,
                                            .grad_scale = v.clip / v.tokens,
                                            .bias1 = 1.0 - power(h->beta1, step + 1),
                                            .bias2 = 1.0 - power(h->beta2, step + 1)};
    *ret = v;
    return HSP_OK;
}
