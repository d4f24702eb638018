#include "worker/backend/call_check.h"

#include <string.h>

static enum hsp_status check_types(const struct hsp_call *c, enum hsp_dtype *ret,
                                   struct hsp_err *err)
{
    uint8_t dtype[HSP_MAX_IN + HSP_MAX_OUT], wrong = 0;
    if (c->n_in != hsp_op_n_in(c->op) || c->n_out != hsp_op_n_out(c->op)) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%s: %u inputs and %u outputs", hsp_op_name(c->op),
                           c->n_in, c->n_out);
    }
    for (uint8_t i = 0; i < c->n_in + c->n_out; i++) {
        dtype[i] = (uint8_t)(i < c->n_in ? c->in[i].dtype : c->out[i - c->n_in].dtype);
    }
    if (!hsp_op_real(c->op, dtype, ret, &wrong)) {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "%s: operand %u is %s", hsp_op_name(c->op),
                           wrong, hsp_dtype_name((enum hsp_dtype)dtype[wrong]));
    }
    return HSP_OK;
}

static enum hsp_status check_shapes(const struct hsp_call *c, struct hsp_err *err)
{
    struct hsp_axes ax;
    int64_t in[HSP_MAX_IN][HSP_MAX_RANK], axis[HSP_MAX_AXES];
    uint8_t rank = c->op == HSP_OP_BROADCAST ? c->in[1].rank : c->in[0].rank;
    enum hsp_status st = hsp_op_axes(c->op, c->at, rank, &ax, err);
    if (st != HSP_OK) {
        return st;
    }
    for (uint8_t i = 0; i < c->n_in; i++) {
        if (c->in[i].rank != ax.in[i].rank) {
            return hsp_err_set(err, HSP_EINVAL, 0, "%s: input %u has rank %u, not %u",
                               hsp_op_name(c->op), i, c->in[i].rank, ax.in[i].rank);
        }
        memcpy(in[i], c->in[i].ext, sizeof(in[i]));
    }
    st = hsp_op_extents(c->op, c->at, &ax, in, axis, err);
    for (uint8_t i = 0; st == HSP_OK && i < c->n_out; i++) {
        const struct hsp_array *a = &c->out[i];
        bool same = a->rank == ax.out[i].rank;
        for (uint8_t d = 0; same && d < a->rank; d++) {
            const struct hsp_dim_use *u = &ax.out[i].dim[d];
            /* The table of embed_dw may have only some of the rows that the attribute states; the
             * output then says how many. */
            same = a->ext[d] == axis[u->axis] * u->unit || (c->op == HSP_OP_EMBED_DW && d == 0);
        }
        if (!same) {
            st = hsp_err_set(err, HSP_EINVAL, 0, "%s: wrong shape of output %u", hsp_op_name(c->op),
                             i);
        }
    }
    return st;
}

enum hsp_status hsp_call_check(const struct hsp_call *c, enum hsp_dtype *ret_real,
                               struct hsp_err *err)
{
    if ((unsigned)c->op >= HSP_N_OPS) {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "op %d", (int)c->op);
    }
    enum hsp_status st = check_types(c, ret_real, err);
    if (st == HSP_OK) {
        st = check_shapes(c, err);
    }
    if (st == HSP_OK && (c->op == HSP_OP_ADAMW || c->op == HSP_OP_SGDM) && c->update == NULL) {
        st = hsp_err_set(err, HSP_EINVAL, 0, "%s without the scalars of the update",
                         hsp_op_name(c->op));
    }
    return st;
}

static bool same_shape(const struct hsp_array *a, const struct hsp_array *b)
{
    return a->rank == b->rank && memcmp(a->ext, b->ext, a->rank * sizeof(a->ext[0])) == 0;
}

enum hsp_status hsp_sum_check(const struct hsp_call *c, const struct hsp_sum *s,
                              struct hsp_err *err)
{
    const struct hsp_array *own = &c->out[0], *out = s->out;
    bool product = c->op == HSP_OP_LINEAR || c->op == HSP_OP_LINEAR_DX || c->op == HSP_OP_LINEAR_DW;
    if (!product || !hsp_dtype_real(out->dtype) ||
        (s->bias != NULL && s->bias->dtype != out->dtype) ||
        (s->add != NULL && s->add->dtype != out->dtype)) {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "a sum of %s and other types",
                           hsp_op_name(c->op));
    }
    if (!same_shape(out, own) || (s->add != NULL && !same_shape(s->add, own)) ||
        (s->bias != NULL && (s->bias->rank != 1 || s->bias->ext[0] != own->ext[own->rank - 1]))) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%s and its addend differ in shape",
                           hsp_op_name(c->op));
    }
    return HSP_OK;
}
