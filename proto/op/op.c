#include "proto/op/op.h"

#include <assert.h> /* static_assert */
#include <string.h> /* strcmp */

#include "proto/base/check.h"
#include "proto/base/size.h"

static_assert(HSP_N_OPS <= 64, "masks of backends (backend.h) have a bit for each op");

struct op_info {
    const char *name, *axes, *types;
    uint8_t n_in, n_out;
    uint32_t linear[2];
};

static const struct op_info ops[HSP_N_OPS] = {
#define X(id, name, n_in, n_out, axes, types, l0, l1) {name, axes, types, n_in, n_out, {l0, l1}},
    HSP_OP_MAP(X)
#undef X
};

const char *hsp_op_name(enum hsp_op op)
{
    return (uint32_t)op < HSP_N_OPS ? ops[op].name : "unknown";
}

bool hsp_op_find(const char *name, enum hsp_op *ret_op)
{
    for (int i = 0; i < HSP_N_OPS; i++) {
        if (strcmp(ops[i].name, name) == 0) {
            *ret_op = (enum hsp_op)i;
            return true;
        }
    }
    return false;
}

uint8_t hsp_op_n_in(enum hsp_op op)
{
    return (uint32_t)op < HSP_N_OPS ? ops[op].n_in : 0;
}

uint8_t hsp_op_n_out(enum hsp_op op)
{
    return (uint32_t)op < HSP_N_OPS ? ops[op].n_out : 0;
}

/* ---- types ---- */

bool hsp_op_moves(enum hsp_op op)
{
    return op == HSP_OP_EMBED || op == HSP_OP_FLATTEN || op == HSP_OP_UNFLATTEN ||
           op == HSP_OP_NARROW || op == HSP_OP_WIDEN;
}

const char *hsp_op_types(enum hsp_op op)
{
    return (uint32_t)op < HSP_N_OPS ? ops[op].types : "";
}

/* The letter of an operand: those of the outputs stand behind the colon. */
static char type_letter(enum hsp_op op, uint8_t operand)
{
    return ops[op].types[operand + (operand < ops[op].n_in ? 0 : 1)];
}

enum hsp_dtype hsp_op_dtype(enum hsp_op op, uint8_t operand, enum hsp_dtype real)
{
    HSP_ASSERT((uint32_t)op < HSP_N_OPS);
    HSP_ASSERT(operand < ops[op].n_in + ops[op].n_out);
    char c = type_letter(op, operand);
    return c == 'i' ? HSP_I32 : c == 'd' ? HSP_F64 : c == 'w' ? hsp_dtype_wide(real) : real;
}

bool hsp_op_real(enum hsp_op op, const uint8_t *dtype, enum hsp_dtype *ret, uint8_t *ret_wrong)
{
    uint8_t n = (uint8_t)(hsp_op_n_in(op) + hsp_op_n_out(op)), from = n;
    for (uint8_t i = 0; i < n; i++) {
        char c = type_letter(op, i);
        bool better = c == 't' ? from == n || type_letter(op, from) != 't' : c == 'w' && from == n;
        from = better ? i : from;
    }
    enum hsp_dtype real = from < n ? (enum hsp_dtype)dtype[from] : HSP_F32;
    for (uint8_t i = 0; i < n; i++) {
        if (dtype[i] != hsp_op_dtype(op, i, real) || (i == from && !hsp_dtype_real(real))) {
            *ret_wrong = i;
            return false;
        }
    }
    *ret = real;
    return true;
}

/* ---- reading the axes strings ---- */

/* Marks one use leaves on its axis; the class follows from all of them. */
struct axis_marks {
    bool whole, lookup, in_output;
};

static int8_t axis_of(struct hsp_axes *ax, char name)
{
    for (uint8_t i = 0; i < ax->n_axes; i++) {
        if (ax->axis[i].name == name) {
            return (int8_t)i;
        }
    }
    HSP_ASSERT(ax->n_axes < HSP_MAX_AXES);
    ax->axis[ax->n_axes].name = name;
    return (int8_t)ax->n_axes++;
}

static void add_dim(struct hsp_operand_use *u, int8_t axis)
{
    HSP_ASSERT(u->rank < HSP_MAX_RANK);
    u->dim[u->rank].axis = axis;
    u->dim[u->rank].unit = 1;
    u->rank++;
}

/* One dim such as "v?^" or "h:02". Returns the first character after it; NULL: a factor of the
 * unit is <= 0, or their product too large. */
static const char *read_dim(const char *p, const struct hsp_attrs *at, struct hsp_axes *ax,
                            struct hsp_operand_use *u, struct axis_marks *marks)
{
    int8_t axis = axis_of(ax, *p++);
    add_dim(u, axis);
    struct hsp_dim_use *d = &u->dim[u->rank - 1];
    for (;; p++) {
        if (*p == '!') {
            marks[axis].whole = true;
        } else if (*p == '?') {
            marks[axis].lookup = true;
        } else if (*p == '^') {
            d->origin = true;
        } else if (*p == ':') {
            for (; p[1] >= '0' && p[1] < '0' + HSP_N_ATTR_I; p++) {
                int64_t factor = at->i[p[1] - '0'];
                if (factor <= 0 || !hsp_mul_i64(d->unit, factor, &d->unit)) {
                    d->unit = factor;
                    return NULL;
                }
            }
        } else {
            return p;
        }
    }
}

static void set_classes(struct hsp_axes *ax, const struct axis_marks *marks)
{
    for (uint8_t i = 0; i < ax->n_axes; i++) {
        ax->axis[i].cls = marks[i].whole       ? HSP_AXIS_WHOLE
                          : marks[i].lookup    ? HSP_AXIS_LOOKUP
                          : marks[i].in_output ? HSP_AXIS_FREE
                                               : HSP_AXIS_CONTRACTED;
    }
}

enum hsp_status hsp_op_axes(enum hsp_op op, const struct hsp_attrs *at, uint8_t rank,
                            struct hsp_axes *ret, struct hsp_err *err)
{
    if ((uint32_t)op >= HSP_N_OPS) {
        return hsp_err_set(err, HSP_EINVAL, 0, "no op has number %u", (unsigned)op);
    }
    if (rank > HSP_MAX_RANK) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%s: rank %u above limit %d", ops[op].name, rank,
                           HSP_MAX_RANK);
    }
    struct hsp_axes ax = {.linear = {ops[op].linear[0], ops[op].linear[1]}};
    struct axis_marks marks[HSP_MAX_AXES] = {0};
    struct hsp_operand_use *u = &ax.in[ax.n_in++];
    for (const char *p = ops[op].axes; *p != '\0';) {
        uint8_t first = u->rank;
        if (*p == ' ') {
            p++;
        } else if (*p == ',') {
            HSP_ASSERT(ax.n_out > 0 ? ax.n_out < HSP_MAX_OUT : ax.n_in < HSP_MAX_IN);
            u = ax.n_out > 0 ? &ax.out[ax.n_out++] : &ax.in[ax.n_in++];
            p++;
        } else if (p[0] == '-' && p[1] == '>') {
            u = &ax.out[ax.n_out++];
            p += 2;
        } else if (*p == '.') {
            for (uint8_t d = 0; d < rank; d++) {
                add_dim(u, axis_of(&ax, (char)('0' + d)));
            }
            p += 3;
        } else {
            p = read_dim(p, at, &ax, u, marks);
            if (p == NULL) {
                return hsp_err_set(err, HSP_EINVAL, 0, "%s: unit %lld below 1 or too large",
                                   ops[op].name, (long long)u->dim[u->rank - 1].unit);
            }
        }
        for (uint8_t d = first; ax.n_out > 0 && d < u->rank; d++) {
            marks[u->dim[d].axis].in_output = true;
        }
    }
    HSP_ASSERT(ax.n_in == ops[op].n_in);
    HSP_ASSERT(ax.n_out == ops[op].n_out);
    set_classes(&ax, marks);
    *ret = ax;
    return HSP_OK;
}

enum hsp_status hsp_op_extents(enum hsp_op op, const struct hsp_attrs *at,
                               const struct hsp_axes *ax, int64_t in[][HSP_MAX_RANK],
                               int64_t ret_axis[HSP_MAX_AXES], struct hsp_err *err)
{
    int64_t ext[HSP_MAX_AXES];
    for (int a = 0; a < HSP_MAX_AXES; a++) {
        ext[a] = -1;
    }
    for (uint8_t i = 0; i < ax->n_in; i++) {
        for (uint8_t d = 0; d < ax->in[i].rank; d++) {
            const struct hsp_dim_use *u = &ax->in[i].dim[d];
            if (in[i][d] < 0 || in[i][d] % u->unit != 0) {
                return hsp_err_set(err, HSP_EINVAL, 0,
                                   "%s: extent %lld of operand %u dim %u is not a multiple of %lld",
                                   hsp_op_name(op), (long long)in[i][d], i, d, (long long)u->unit);
            }
            int64_t n = in[i][d] / u->unit;
            if (ext[u->axis] >= 0 && ext[u->axis] != n) {
                return hsp_err_set(err, HSP_EINVAL, 0,
                                   "%s: axis %c is %lld in operand %u dim %u but %lld before",
                                   hsp_op_name(op), ax->axis[u->axis].name, (long long)n, i, d,
                                   (long long)ext[u->axis]);
            }
            ext[u->axis] = n;
        }
    }
    for (uint8_t a = 0; a < ax->n_axes; a++) {
        if (ext[a] < 0) {
            ext[a] = ax->axis[a].name == 'o' ? 1 : at->i[0];
        }
        if (ext[a] < 0) {
            return hsp_err_set(err, HSP_EINVAL, 0, "%s: extent %lld of axis %c is negative",
                               hsp_op_name(op), (long long)ext[a], ax->axis[a].name);
        }
    }
    memcpy(ret_axis, ext, sizeof ext);
    return HSP_OK;
}

/* ---- costs ---- */

/* Elements of an operand on these axis extents. */
static double operand_count(const struct hsp_operand_use *u, const int64_t *axis)
{
    double n = 1;
    for (uint8_t d = 0; d < u->rank; d++) {
        n *= (double)(axis[u->dim[d].axis] * u->dim[d].unit);
    }
    return n;
}

/* The product of all axes: multiply-adds of an einsum. */
static double axes_count(const int64_t *axis, const struct hsp_axes *ax)
{
    double n = 1;
    for (uint8_t a = 0; a < ax->n_axes; a++) {
        n *= (double)axis[a];
    }
    return n;
}

/* Operations per element of the input that hsp_op_flops measures; transcendental functions count
 * 10. */
static double element_work(enum hsp_op op)
{
    switch (op) {
    case HSP_OP_BIAS_ADD:
    case HSP_OP_BIAS_DB:
    case HSP_OP_ADD:
    case HSP_OP_NARROW:
    case HSP_OP_WIDEN:
    case HSP_OP_SUM:
    case HSP_OP_COUNT:
    case HSP_OP_EMBED_DW: return 1;
    case HSP_OP_SQSUM: return 2;
    case HSP_OP_LAYERNORM: return 8;
    case HSP_OP_LAYERNORM_DX: return 11;
    case HSP_OP_LAYERNORM_DW: return 5;
    case HSP_OP_RMSNORM: return 5;
    case HSP_OP_RMSNORM_DX: return 9;
    case HSP_OP_RMSNORM_DW: return 3;
    case HSP_OP_ROPE:
    case HSP_OP_ROPE_DX: return 6;
    case HSP_OP_DROPOUT: return 24;
    case HSP_OP_SWIGLU: return 14;
    case HSP_OP_SWIGLU_DX: return 20;
    case HSP_OP_GELU: return 14;
    case HSP_OP_GELU_DX: return 28;
    case HSP_OP_LSE_PARTS:
    case HSP_OP_LSE_MERGE:
    case HSP_OP_XENT: return 12;
    case HSP_OP_XENT_PART_DX:
    case HSP_OP_XENT_DX: return 13;
    case HSP_OP_ADAMW: return 16;
    case HSP_OP_SGDM: return 6;
    case HSP_OP_ATTENTION_MERGE: return 3;
    case HSP_OP_XENT_PART:
    case HSP_OP_EMBED:
    case HSP_OP_BROADCAST:
    case HSP_OP_FLATTEN:
    case HSP_OP_UNFLATTEN:
    case HSP_OP_LINEAR:
    case HSP_OP_LINEAR_DX:
    case HSP_OP_LINEAR_DW:
    case HSP_OP_ATTENTION:
    case HSP_OP_ATTENTION_BWD:
    case HSP_OP_PACKED_ATTENTION:
    case HSP_OP_PACKED_ATTENTION_BWD: return 0;
    }
    return 0;
}

double hsp_causal_pairs(int64_t q_lo, int64_t q_hi, int64_t k_lo, int64_t k_hi)
{
    int64_t first = q_lo > k_lo ? q_lo : k_lo; /* below it nothing is seen */
    int64_t all = q_lo > k_hi ? q_lo : k_hi;   /* from it on everything */
    int64_t end = q_hi < k_hi ? q_hi : k_hi;
    double pairs = 0;
    if (end > first) { /* query q sees q + 1 - k_lo keys */
        pairs += (double)(end - first) * ((double)(first + end + 1) / 2 - (double)k_lo);
    }
    if (q_hi > all && k_hi > k_lo) {
        pairs += (double)(q_hi - all) * (double)(k_hi - k_lo);
    }
    return pairs;
}

/* Query-key pairs of all heads. A causal query at an unknown place (@origin is NULL) sees
 * (t + 1) / 2 keys; documents are as long as they can be. */
static double attention_pairs(const struct hsp_attrs *at, const int64_t *axis,
                              const struct hsp_axes *ax, const int64_t *origin)
{
    double pairs = (double)at->i[2];
    int64_t s = 0, t = 0;
    for (uint8_t a = 0; a < ax->n_axes; a++) {
        s = ax->axis[a].name == 's' ? axis[a] : s;
        t = ax->axis[a].name == 't' ? axis[a] : t;
        pairs *= ax->axis[a].name == 's' || ax->axis[a].name == 't' ? 1 : (double)axis[a];
    }
    if (at->i[1] == 0) {
        return pairs * (double)s * (double)t;
    }
    return pairs * (origin == NULL
                        ? (double)s * ((double)t + 1) / 2
                        : hsp_causal_pairs(origin[0], origin[0] + s, origin[1], origin[1] + t));
}

static double flops(enum hsp_op op, const struct hsp_attrs *at, const int64_t *axis,
                    const struct hsp_axes *ax, const int64_t *origin)
{
    if (op == HSP_OP_LINEAR || op == HSP_OP_LINEAR_DX || op == HSP_OP_LINEAR_DW) {
        return 2 * axes_count(axis, ax);
    }
    if (op == HSP_OP_ATTENTION || op == HSP_OP_PACKED_ATTENTION) { /* q k^T and p v, the softmax */
        return attention_pairs(at, axis, ax, origin) * (4 * (double)at->i[0] + 12);
    }
    if (op == HSP_OP_ATTENTION_BWD ||
        op == HSP_OP_PACKED_ATTENTION_BWD) { /* q k^T again, do v^T, dq, dk, dv */
        return attention_pairs(at, axis, ax, origin) * (10 * (double)at->i[0] + 14);
    }
    bool second = op == HSP_OP_EMBED_DW || op == HSP_OP_XENT_DX || op == HSP_OP_XENT_PART_DX ||
                  op == HSP_OP_ROPE || op == HSP_OP_ROPE_DX || op == HSP_OP_DROPOUT;
    uint8_t measured = second ? 1 : 0;
    return element_work(op) * operand_count(&ax->in[measured], axis);
}

double hsp_op_flops(enum hsp_op op, const struct hsp_attrs *at, const int64_t axis[HSP_MAX_AXES],
                    const struct hsp_axes *ax)
{
    return flops(op, at, axis, ax, NULL);
}

double hsp_op_flops_at(enum hsp_op op, const struct hsp_attrs *at, const int64_t axis[HSP_MAX_AXES],
                       const struct hsp_axes *ax, const int64_t origin[2])
{
    return flops(op, at, axis, ax, origin);
}

/* A table is read only where the ids point: at most one row for each of them. */
static double lookup_count(const struct hsp_axes *ax, uint8_t operand, const int64_t *axis)
{
    const struct hsp_operand_use *u = &ax->in[operand];
    double ids = 1, rows = 1, rest = 1;
    for (uint8_t d = 0; operand != 0 && d < ax->in[0].rank; d++) {
        ids *= (double)axis[ax->in[0].dim[d].axis];
    }
    for (uint8_t d = 0; d < u->rank; d++) {
        double n = (double)(axis[u->dim[d].axis] * u->dim[d].unit);
        if (ax->axis[u->dim[d].axis].cls == HSP_AXIS_LOOKUP) {
            rows *= n;
        } else {
            rest *= n;
        }
    }
    return rest * (ids < rows ? ids : rows);
}

bool hsp_op_is_product(enum hsp_op op)
{
    return op == HSP_OP_LINEAR || op == HSP_OP_LINEAR_DX || op == HSP_OP_LINEAR_DW ||
           op == HSP_OP_ATTENTION || op == HSP_OP_ATTENTION_BWD || op == HSP_OP_PACKED_ATTENTION ||
           op == HSP_OP_PACKED_ATTENTION_BWD;
}

double hsp_op_bytes(enum hsp_op op, const struct hsp_axes *ax, const int64_t axis[HSP_MAX_AXES],
                    enum hsp_dtype real)
{
    double bytes = 0;
    for (uint8_t i = 0; i < ax->n_in; i++) {
        bool lookup = false;
        for (uint8_t d = 0; d < ax->in[i].rank; d++) {
            lookup = lookup || ax->axis[ax->in[i].dim[d].axis].cls == HSP_AXIS_LOOKUP;
        }
        bytes += (lookup ? lookup_count(ax, i, axis) : operand_count(&ax->in[i], axis)) *
                 (double)hsp_dtype_size(hsp_op_dtype(op, i, real));
    }
    for (uint8_t i = 0; i < ax->n_out; i++) {
        bytes += operand_count(&ax->out[i], axis) *
                 (double)hsp_dtype_size(hsp_op_dtype(op, (uint8_t)(ax->n_in + i), real));
    }
    return bytes;
}
