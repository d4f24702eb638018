/* Verifies segments on several threads. The happy path: rows are cut into slabs; idle threads take
 * one slab after the other from a counter and add its hash to the sum of the row; the end compares
 * sums with the hashes of the seals.
 *
 * Possible failure modes: no threads can be started (the caller of the end hashes alone); a stop
 * (rows with slabs that were not hashed count as damaged). */
#include "worker/state/segment_verify.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/base/vec.h"
#include "worker/state/box_hash.h"
#include "worker/state/region.h"

#define MAX_PARTS ((size_t)1 << 24) /* 64 TiB of slabs */

/* A slab of a row; small rows are whole. */
struct part {
    size_t row;
    struct hsp_box box;
};

struct hsp_verify {
    struct hsp_verify_row *rows;
    size_t n;
    struct part *parts;
    size_t n_parts, cap;
    _Atomic uint64_t *sum; /* [n] hashes of the slabs so far */
    atomic_size_t next;    /* part that nobody has begun */
    atomic_bool stop;
    unsigned n_threads;
    pthread_t thread[HSP_VERIFY_THREADS];
};

static void hash_part(struct hsp_verify *v, const struct part *p)
{
    const struct hsp_verify_row *what = &v->rows[p->row];
    const struct hsp_segment_row *r = hsp_segment_row_at(what->seg, what->row);
    const struct hsp_box_id id = {r->tensor, r->kind, r->dtype, r->full};
    const uint8_t *data = (const uint8_t *)hsp_segment_area(what->seg) + r->offset;
    atomic_fetch_add_explicit(&v->sum[p->row], hsp_box_hash(&id, &p->box, &r->box, data),
                              memory_order_relaxed);
}

static void *hash_parts(void *arg)
{
    struct hsp_verify *v = arg;
    size_t i;
    while (!atomic_load_explicit(&v->stop, memory_order_relaxed) &&
           (i = atomic_fetch_add_explicit(&v->next, 1, memory_order_relaxed)) < v->n_parts) {
        hash_part(v, &v->parts[i]);
    }
    return NULL;
}

static enum hsp_status cut(struct hsp_verify *v, struct hsp_err *err)
{
    for (size_t k = 0; k < v->n; k++) {
        const struct hsp_segment_row *r = hsp_segment_row_at(v->rows[k].seg, v->rows[k].row);
        struct hsp_slabs s;
        struct hsp_box slab;
        hsp_slabs_init(&s, &r->box, hsp_dtype_size(r->dtype), HSP_VERIFY_SLAB);
        while (hsp_slabs_next(&s, &slab)) {
            if (!hsp_grow(&v->parts, &v->cap, v->n_parts + 1, sizeof(*v->parts), MAX_PARTS)) {
                return hsp_grow_error(v->n_parts + 1, MAX_PARTS, "slabs of state", err);
            }
            v->parts[v->n_parts++] = (struct part){k, slab};
        }
    }
    return HSP_OK;
}

struct hsp_verify *hsp_verify_free(struct hsp_verify *v)
{
    if (v != NULL) {
        free(v->parts);
        free(v->sum);
        free(v);
    }
    return NULL;
}

static unsigned processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > HSP_VERIFY_THREADS ? HSP_VERIFY_THREADS : (unsigned)n;
}

enum hsp_status hsp_verify_begin(struct hsp_verify_row *rows, size_t n, unsigned threads,
                                 struct hsp_verify **ret, struct hsp_err *err)
{
    struct hsp_verify *v = calloc(1, sizeof(*v));
    if (v == NULL) {
        return hsp_err_nomem(err, "the verification of state");
    }
    v->rows = rows;
    v->n = n;
    v->sum = calloc(n + 1, sizeof(*v->sum));
    enum hsp_status st = v->sum != NULL ? cut(v, err) : hsp_err_nomem(err, "%zu rows of state", n);
    if (st != HSP_OK) {
        (void)hsp_verify_free(v);
        return st;
    }
    threads = threads == 0 ? processors() : threads;
    threads = threads > HSP_VERIFY_THREADS ? HSP_VERIFY_THREADS : threads;
    for (; v->n_threads < threads && v->n_threads < v->n_parts; v->n_threads++) {
        if (pthread_create(&v->thread[v->n_threads], NULL, hash_parts, v) != 0) {
            break; /* the thread that calls end does the work */
        }
    }
    *ret = v;
    return HSP_OK;
}

void hsp_verify_stop(struct hsp_verify *v)
{
    atomic_store_explicit(&v->stop, true, memory_order_relaxed);
}

void hsp_verify_end(struct hsp_verify *v, size_t *ret_n_damaged)
{
    *ret_n_damaged = 0;
    (void)hash_parts(v);
    for (unsigned i = 0; i < v->n_threads; i++) {
        (void)pthread_join(v->thread[i], NULL); /* fails only for threads that are not ours */
    }
    for (size_t k = 0; k < v->n; k++) {
        struct hsp_verify_row *r = &v->rows[k];
        r->damaged = atomic_load(&v->sum[k]) != hsp_segment_row_hash(r->seg, r->row);
        *ret_n_damaged += r->damaged;
    }
}

enum hsp_status hsp_verify_rows(struct hsp_verify_row *rows, size_t n, size_t *ret_n_damaged,
                                struct hsp_err *err)
{
    struct hsp_verify *v = NULL;
    enum hsp_status st = hsp_verify_begin(rows, n, 0, &v, err);
    *ret_n_damaged = 0;
    if (st == HSP_OK) {
        hsp_verify_end(v, ret_n_damaged);
    }
    (void)hsp_verify_free(v);
    return st;
}
