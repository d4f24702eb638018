/* Adds up the sums of parts. A sum is kept while the elements come in any order; `missing` counts
 * the bytes that are still to come. Elements of bf16 are widened to fp32, which box_hash can hash,
 * 1024 at a time. */
#include "worker/state/part_sums.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/size.h"
#include "worker/state/box_hash.h"

#define WIDE 1024 /* bf16 elements that are widened at a time */

bool hsp_part_sums_init(struct hsp_part_sums *s, const uint64_t *bytes, size_t n)
{
    *s = (struct hsp_part_sums){.n_tensors = n, .first = calloc(n + 1, sizeof *s->first)};
    uint64_t total = 0;
    for (size_t i = 0; s->first != NULL && i < n; i++) {
        uint64_t parts = bytes[i] / HSP_PART_BYTES + (bytes[i] % HSP_PART_BYTES != 0);
        total = parts > UINT32_MAX - total ? UINT32_MAX : total + parts;
        s->first[i + 1] = (size_t)total;
    }
    if (s->first == NULL || total == UINT32_MAX) {
        hsp_part_sums_fini(s);
        return false;
    }
    s->n = (size_t)total;
    s->sum = calloc(s->n + 1, sizeof *s->sum);
    s->missing = calloc(s->n + 1, sizeof *s->missing);
    if (s->sum == NULL || s->missing == NULL) {
        hsp_part_sums_fini(s);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = s->first[i]; k < s->first[i + 1]; k++) {
            uint64_t before = (k - s->first[i]) * HSP_PART_BYTES;
            s->missing[k] = bytes[i] - before < HSP_PART_BYTES ? bytes[i] - before : HSP_PART_BYTES;
        }
    }
    return true;
}

void hsp_part_sums_fini(struct hsp_part_sums *s)
{
    free(s->first);
    free(s->sum);
    free(s->missing);
    *s = (struct hsp_part_sums){0};
}

static uint64_t row_hash(size_t part, enum hsp_dtype t, int64_t first, int64_t n, const void *data)
{
    const int64_t full[1] = {first + n};
    const struct hsp_box row = {.rank = 1, .lo = {first}, .hi = {first + n}};
    const struct hsp_box_id id = {.tensor = (uint32_t)part, .dtype = t, .full = full};
    return hsp_box_hash(&id, &row, &row, data);
}

uint64_t hsp_part_sum(size_t part, enum hsp_dtype t, uint64_t first, const void *data, size_t bytes)
{
    int64_t n = (int64_t)(bytes / hsp_dtype_size(t)), at = (int64_t)first;
    if (hsp_dtype_size(t) != 2) {
        return row_hash(part, t, at, n, data);
    }
    const uint16_t *x = data; /* hashes are of 32 or 64 bits */
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i += WIDE) {
        uint32_t wide[WIDE];
        int64_t k = 0;
        for (; k < WIDE && i + k < n; k++) {
            wide[k] = x[i + k];
        }
        sum += row_hash(part, HSP_F32, at + i, k, wide);
    }
    return sum;
}

void hsp_part_sums_add(struct hsp_part_sums *s, size_t i, enum hsp_dtype t, uint64_t offset,
                       const void *data, size_t bytes)
{
    const uint8_t *p = data;
    while (bytes > 0) {
        size_t part = s->first[i] + (size_t)(offset / HSP_PART_BYTES);
        uint64_t in = offset % HSP_PART_BYTES;
        size_t n = HSP_PART_BYTES - in < bytes ? (size_t)(HSP_PART_BYTES - in) : bytes;
        s->sum[part] += hsp_part_sum(part, t, in / hsp_dtype_size(t), p, n);
        s->missing[part] -= n;
        p += n;
        offset += n;
        bytes -= n;
    }
}

void hsp_part_sums_put(const struct hsp_part_sums *s, char *out)
{
    for (size_t k = 0; k < s->n; k++) {
        char digits[HSP_PART_DIGITS + 1];
        (void)snprintf(digits, sizeof digits, "%016" PRIx64, s->sum[k]);
        memcpy(out + k * HSP_PART_DIGITS, digits, HSP_PART_DIGITS);
    }
}

bool hsp_part_sums_get(struct hsp_part_sums *s, const char *text)
{
    if (strlen(text) != s->n * HSP_PART_DIGITS ||
        strspn(text, "0123456789abcdef") != s->n * HSP_PART_DIGITS) {
        return false;
    }
    for (size_t k = 0; k < s->n; k++) {
        char digits[HSP_PART_DIGITS + 1] = {0};
        memcpy(digits, text + k * HSP_PART_DIGITS, HSP_PART_DIGITS);
        s->sum[k] = strtoull(digits, NULL, 16);
    }
    return true;
}
