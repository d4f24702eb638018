#include "worker/comm/runs.h"

#include <string.h>

#include "proto/base/size.h"

enum hsp_status hsp_runs_check(const struct hsp_runs *r, uint64_t max, size_t *ret,
                               struct hsp_err *err)
{
    size_t bytes = 0, span = 0;
    if (!hsp_mul_size(r->run, r->n, &bytes) || bytes > max) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "message of %zu times %zu bytes above limit", r->n,
                           r->run);
    }
    bool fits = bytes == 0 || r->n == 1 ||
                (r->stride >= r->run && hsp_mul_size(r->stride, r->n - 1, &span));
    if (!fits || !hsp_add_size(span, r->run, &span) || span > UINTPTR_MAX - (uintptr_t)r->base) {
        return hsp_err_set(err, HSP_EINVAL, 0, "no message: %zu runs of %zu bytes every %zu", r->n,
                           r->run, r->stride);
    }
    *ret = bytes;
    return HSP_OK;
}

uint8_t *hsp_runs_at(const struct hsp_runs *r, size_t at, size_t *ret_n)
{
    size_t k = at / r->run, off = at % r->run;
    *ret_n = r->run - off;
    return r->base + k * r->stride + off;
}

const uint8_t *hsp_runs_piece(const struct hsp_runs *r, size_t at, uint8_t *stage, size_t cap,
                              size_t *ret_n)
{
    const uint8_t *lies = hsp_runs_at(r, at, ret_n);
    size_t rest = r->run * r->n - at;
    if (*ret_n >= cap || *ret_n == rest) {
        return lies;
    }
    *ret_n = rest < cap ? rest : cap;
    hsp_runs_gather(r, at, stage, *ret_n);
    return stage;
}

void hsp_runs_gather(const struct hsp_runs *r, size_t at, void *to, size_t n)
{
    size_t k = 0;
    const uint8_t *from = n > 0 ? hsp_runs_at(r, at, &k) : NULL;
    uint8_t *p = to;
    while (n > k) {
        memcpy(p, from, k);
        from += k + (r->stride - r->run);
        p += k;
        n -= k;
        k = r->run;
    }
    if (n > 0) {
        memcpy(p, from, n);
    }
}

void hsp_runs_scatter(const struct hsp_runs *r, size_t at, const void *from, size_t n)
{
    size_t k = 0;
    uint8_t *to = n > 0 ? hsp_runs_at(r, at, &k) : NULL;
    const uint8_t *p = from;
    while (n > k) {
        memcpy(to, p, k);
        to += k + (r->stride - r->run);
        p += k;
        n -= k;
        k = r->run;
    }
    if (n > 0) {
        memcpy(to, p, n);
    }
}

void hsp_runs_copy(const struct hsp_runs *to, const struct hsp_runs *from, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        size_t k, n;
        uint8_t *p = hsp_runs_at(to, at, &k);
        const uint8_t *q = hsp_runs_at(from, at, &n);
        k = k < n ? k : n;
        memcpy(p, q, k);
        at += k;
    }
}
