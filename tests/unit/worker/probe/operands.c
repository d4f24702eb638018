#include "tests/unit/worker/probe/operands.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/op/bf16.h"

#define SMALLEST 1e-7 /* but for 0 */
#define MANY     1000 /* elements, of which some is known on the average */

static struct operands *of(struct hsp_backend *b)
{
    return (struct operands *)b;
}

static double element(const struct hsp_array *a, size_t i)
{
    return a->dtype == HSP_F64   ? ((const double *)a->data)[i]
           : a->dtype == HSP_F32 ? (double)((const float *)a->data)[i]
                                 : (double)hsp_bf16_float(((const uint16_t *)a->data)[i]);
}

static size_t count(const struct hsp_array *a)
{
    size_t n = 1;
    for (uint8_t d = 0; d < a->rank; d++) {
        n *= (size_t)a->ext[d];
    }
    return n;
}

/* The fault of an input; NULL: none. @made: by a call before this one, so its size is not
 * known. */
static const char *look(const struct hsp_array *a, bool made)
{
    size_t n = count(a), zeros = 0;
    double squares = 0, most = made ? 100 : 1;
    for (size_t i = 0; i < n; i++) {
        double v = element(a, i);
        if (!isfinite(v) || fabs(v) > most) {
            return "a number that is too large, or none";
        }
        if (v > -SMALLEST && v < SMALLEST && (v < 0 || v > 0) && !made) {
            return "a tiny number";
        }
        zeros += !(v < 0 || v > 0);
        squares += v * v;
    }
    double mean = squares / (double)n;
    return zeros > n / 100                                      ? "zeros"
           : n >= MANY && !made && (mean < 0.25 || mean > 0.42) ? "numbers that are not uniform"
                                                                : NULL;
}

static bool alike(const struct hsp_array *a, const struct hsp_array *b)
{
    size_t n = count(a) < count(b) ? count(a) : count(b);
    return a->data != b->data && memcmp(a->data, b->data, n * hsp_dtype_size(a->dtype)) == 0;
}

static enum hsp_status run(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                           struct hsp_err *err)
{
    struct operands *o = of(b);
    const char *what = NULL;
    for (uint8_t k = 0; k < c->n_in && what == NULL; k++) {
        what = look(&c->in[k], c->op == HSP_OP_ATTENTION_BWD && k >= 4);
        what = what == NULL && k == 1 && alike(&c->in[0], &c->in[1]) ? "the same twice" : what;
    }
    if (what != NULL && o->wrong++ == 0) {
        (void)snprintf(o->what, sizeof o->what, "%s of %s: %s", hsp_op_name(c->op),
                       hsp_dtype_name(c->in[0].dtype), what);
    }
    o->calls[c->in[0].dtype]++;
    return o->cpu->run(o->cpu, q, c, err);
}

/* ---- a clock ---- */

static enum hsp_status mark(struct hsp_backend *b, enum hsp_devq q, uint64_t *ret,
                            struct hsp_err *err)
{
    struct operands *o = of(b);
    struct timespec t;
    (void)q;
    (void)err;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    o->mark_s[++o->n_marks % HSP_MAX_MARKS] = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    *ret = o->n_marks;
    return HSP_OK;
}

static enum hsp_status seconds(struct hsp_backend *b, enum hsp_devq q, uint64_t from, uint64_t to,
                               double *ret, struct hsp_err *err)
{
    (void)q;
    (void)err;
    *ret = of(b)->mark_s[to % HSP_MAX_MARKS] - of(b)->mark_s[from % HSP_MAX_MARKS];
    return HSP_OK;
}

static void close_both(struct hsp_backend *b)
{
    of(b)->cpu->close(of(b)->cpu);
    of(b)->cpu = NULL;
}

struct operands *operands_open(struct hsp_backend *cpu)
{
    struct operands *o = calloc(1, sizeof *o);
    if (o == NULL) {
        abort();
    }
    o->base = *cpu; /* the functions not below need nothing of it */
    o->base.run = run;
    o->base.mark = mark;
    o->base.seconds = seconds;
    o->base.close = close_both;
    o->cpu = cpu;
    return o;
}
