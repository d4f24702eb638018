#include "worker/probe/probe_gemm.h"

#include <math.h>
#include <string.h>

#include "proto/base/size.h"

#define HEAD         64   /* elements of a head */
#define MOST_HEADS   32   /* 2048 wide */
#define MOST_TOKENS  1024 /* of a sequence of attention */
#define FEW          32
#define UNEVEN       8 /* between the sides of wide and long products */
#define ATTENTION_IN 3

static void set_array(struct hsp_array *a, void *data, enum hsp_dtype t, int64_t rows, int64_t row,
                      bool is_matrix)
{
    *a = is_matrix ? (struct hsp_array){.data = data, .dtype = t, .rank = 2, .ext = {rows, row}}
                   : (struct hsp_array){.data = data, .dtype = t, .rank = 3, .ext = {1, rows, row}};
}

static void add_call(struct hsp_shape *x, enum hsp_op op, uint8_t n_in, uint8_t n_out, bool tf32)
{
    struct hsp_shape_call *o = &x->call[x->n++];
    o->c = (struct hsp_call){.op = op,
                             .at = &o->at,
                             .n_in = n_in,
                             .n_out = n_out,
                             .in = o->in,
                             .out = o->out,
                             .tf32 = tf32};
    int64_t in[HSP_MAX_IN][HSP_MAX_RANK] = {{0}}, axis[HSP_MAX_AXES];
    struct hsp_axes ax;
    for (uint8_t k = 0; k < n_in; k++) {
        memcpy(in[k], o->in[k].ext, sizeof o->in[k].ext);
    }
    if (hsp_op_axes(op, &o->at, 3, &ax, NULL) == HSP_OK &&
        hsp_op_extents(op, &o->at, &ax, in, axis, NULL) == HSP_OK) {
        x->flops += hsp_op_flops_at(op, &o->at, axis, &ax, o->c.origin);
    }
}

/* y[rows, outs] = x[rows, ins] w[outs, ins]^T */
static void linear(struct hsp_shape *x, enum hsp_dtype t, bool tf32, uint8_t *const mem[3],
                   const int64_t side[3])
{
    struct hsp_shape_call *o = &x->call[0];
    set_array(&o->in[0], mem[0], t, side[0], side[2], false);
    set_array(&o->in[1], mem[1], t, side[1], side[2], true);
    set_array(&o->out[0], mem[2], t, side[0], side[1], false);
    add_call(x, HSP_OP_LINEAR, 2, 1, tf32);
}

/* A gradient of weights [side, side] over many tokens. */
static void gradient(struct hsp_shape *x, enum hsp_dtype t, bool tf32, uint8_t *const mem[3],
                     int64_t side, int64_t tokens)
{
    struct hsp_shape_call *o = &x->call[0];
    set_array(&o->in[0], mem[0], t, tokens, side, false);
    set_array(&o->in[1], mem[1], t, tokens, side, false);
    set_array(&o->out[0], mem[2], hsp_op_dtype(HSP_OP_LINEAR_DW, 2, t), side, side, true);
    add_call(x, HSP_OP_LINEAR_DW, 2, 1, tf32);
}

/* Causal, of one sequence: three arrays of tokens and heads in each piece of memory, or two and the
 * logarithms. */
static void attention(struct hsp_shape *x, enum hsp_dtype t, bool tf32, uint8_t *const mem[3],
                      size_t bytes, int64_t n)
{
    int64_t s = n < MOST_TOKENS ? n : MOST_TOKENS, heads = MOST_HEADS;
    size_t elem = hsp_dtype_size(t);
    while (heads > 1 && (heads * HEAD > 2 * n || (size_t)(4 * s * heads * HEAD) * elem > bytes)) {
        heads /= 2;
    }
    while (s > 1 && (size_t)(4 * s * heads * HEAD) * elem > bytes) {
        s /= 2;
    }
    int64_t width = heads * HEAD;
    size_t one = (size_t)(s * width) * elem;
    struct hsp_array a[3][3];
    for (int k = 0; k < 9; k++) { /* q k v, do o lse, dq dk dv */
        set_array(&a[k / 3][k % 3], mem[k / 3] + (size_t)(k % 3) * one, t, s, width, false);
    }
    set_array(&a[1][2], a[1][2].data, hsp_op_dtype(HSP_OP_ATTENTION, 4, t), s, heads, false);
    for (int k = 0; k < HSP_SHAPE_CALLS; k++) {
        x->call[k].at = (struct hsp_attrs){.i = {HEAD, 1, 1}, .f = {1 / sqrt(HEAD)}};
    }
    memcpy(x->call[0].in, a[0], sizeof a[0]);
    x->call[0].out[0] = a[1][1];
    x->call[0].out[1] = a[1][2];
    add_call(x, HSP_OP_ATTENTION, ATTENTION_IN, 2, tf32);
    x->call[1].in[0] = a[1][0];
    memcpy(&x->call[1].in[1], a[0], sizeof a[0]);
    x->call[1].in[4] = a[1][1];
    x->call[1].in[5] = a[1][2];
    memcpy(x->call[1].out, a[2], sizeof a[2]);
    add_call(x, HSP_OP_ATTENTION_BWD, 6, 3, tf32);
}

void hsp_shape_make(enum hsp_gemm_class cls, enum hsp_dtype t, bool tf32, int64_t n,
                    uint8_t *const mem[3], size_t bytes, struct hsp_shape *ret)
{
    size_t elem = hsp_dtype_size(t);
    int64_t q = cls == HSP_GEMM_WIDE ? 2 * n : cls == HSP_GEMM_LONG ? n / 2 : n;
    int64_t longest = cls == HSP_GEMM_LONG ? UNEVEN : 1; /* of the largest array, in q * q */
    while (q > HSP_GEMM_TILE && (size_t)(longest * q * q) * elem > bytes) {
        q /= 2;
    }
    q = q < HSP_GEMM_TILE ? HSP_GEMM_TILE : q;
    *ret = (struct hsp_shape){.n = 0};
    switch (cls) {
    case HSP_GEMM_EVEN: linear(ret, t, tf32, mem, (const int64_t[]){q, q, q}); break;
    case HSP_GEMM_FEW: linear(ret, t, tf32, mem, (const int64_t[]){q, FEW, q}); break;
    case HSP_GEMM_WIDE: linear(ret, t, tf32, mem, (const int64_t[]){q, q, q / UNEVEN}); break;
    case HSP_GEMM_LONG: gradient(ret, t, tf32, mem, q, UNEVEN * q); break;
    case HSP_GEMM_ATTENTION: attention(ret, t, tf32, mem, bytes, n); break;
    }
}

double hsp_shape_part(const struct hsp_shape *x, double seconds, double fixed_s, double rate)
{
    double work = fmax(seconds - x->n * fixed_s, seconds / 2);
    return hsp_gemm_part(x->flops / work / rate);
}
