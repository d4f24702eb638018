#include "daemon/spmd/lower/ring_attention.h"

#include "daemon/plan/stage_groups.h"
#include "daemon/spmd/lower/tensor_versions.h"
#include "daemon/spmd/sharding/activation_rest.h"
#include "proto/base/check.h"

#define SEQ 1 /* dim of queries, keys and values along the sequence */

/* Cuts of blocks that are not a group's own: one name for each round. */
#define CUT_RING 0x50000000u

struct ring {
    struct hsp_compiler *c;
    struct hsp_stagecode *s;
    uint32_t part, node;
    const struct hsp_node *n;
    const struct hsp_deduced *d;
    uint32_t rounds; /* groups of the stage */
    bool causal;
    uint8_t keys;             /* operand with the keys; queries before it, values behind it */
    uint32_t own[HSP_MAX_IN]; /* versions of the operands, keys and values of the own group */
    uint32_t block[2][2];     /* [round % 2]: keys and values of that round */
    struct hsp_err *err;
};

static bool keys_of(uint8_t op, uint8_t *ret)
{
    bool forward = op == HSP_OP_ATTENTION || op == HSP_OP_PACKED_ATTENTION;
    *ret = forward ? 1 : 2;
    return forward || op == HSP_OP_ATTENTION_BWD || op == HSP_OP_PACKED_ATTENTION_BWD;
}

enum hsp_status hsp_ring_open(const struct hsp_compiler *c, const struct hsp_stagecode *s,
                              const struct hsp_node *n, struct hsp_layout *in, bool *ret,
                              struct hsp_err *err)
{
    struct hsp_tiers tiers = hsp_stage_tiers(s->group);
    uint8_t k = 0;
    *ret = keys_of(n->op, &k) && s->group->split == HSP_SPLIT_SEQUENCE && tiers.n_groups > 1;
    for (uint8_t i = 0; *ret && i < n->n_in; i++) { /* all but the starts of documents */
        *ret = in[i].rank == 2 || (in[i].split[SEQ] != 0 && in[i].cut[SEQ] == 0 &&
                                   in[i].extent[SEQ] == in[k].extent[SEQ]);
    }
    enum hsp_status rc = HSP_OK;
    for (uint8_t i = k; rc == HSP_OK && *ret && i <= k + 1; i++) {
        rc = hsp_layout_uncut(&in[i], SEQ, true, &tiers, c->arena, err);
    }
    return rc;
}

/* ---- values ---- */

/* The group whose block @group uses in @round; false: none. */
static bool block_of(const struct ring *r, uint32_t group, uint32_t round, uint32_t *ret)
{
    *ret = (group + r->rounds - round) % r->rounds;
    return !r->causal || group >= round;
}

/* Of keys and values @whole along the sequence each member's block of @round; its own part of them
 * in round 0. Members without a block hold nothing. */
static enum hsp_status block_layout(const struct ring *r, const struct hsp_layout *whole,
                                    uint32_t round, struct hsp_layout *ret)
{
    const struct hsp_layout *queries = &r->d->need[r->keys - 1];
    *ret = *whole;
    ret->split[SEQ] = round == 0 ? queries->split[SEQ] : CUT_RING + round;
    ret->box = hsp_arena_memdup(r->c->arena, whole->box, whole->n * sizeof *ret->box);
    if (ret->box == NULL) {
        return hsp_err_nomem(r->err, "blocks of attention");
    }
    for (uint32_t j = 0; j < ret->n; j++) {
        uint32_t group = 0, first = 0, end = 0;
        bool any = block_of(r, hsp_stage_group_of(r->s->group, j), round, &group);
        hsp_stage_group(r->s->group, group, &first, &end);
        ret->box[j].lo[SEQ] = any ? queries->box[first].lo[SEQ] : 0;
        ret->box[j].hi[SEQ] = any ? queries->box[end - 1].hi[SEQ] : 0;
    }
    return HSP_OK;
}

/* Members that use a block in @round, or with @back those whose block is used; NULL: all. */
static enum hsp_status present_in(const struct ring *r, uint32_t round, bool back, bool **ret)
{
    *ret = NULL;
    if (!r->causal || round == 0) {
        return HSP_OK;
    }
    *ret = hsp_arena_array(r->c->arena, r->s->group->n, sizeof **ret);
    if (*ret == NULL) {
        return hsp_err_nomem(r->err, "blocks of attention");
    }
    for (uint32_t j = 0; j < r->s->group->n; j++) {
        uint32_t g = hsp_stage_group_of(r->s->group, j);
        (*ret)[j] = back ? g + round < r->rounds : g >= round;
    }
    return HSP_OK;
}

/* A value like @like, named after graph tensor @tensor (or @like, for HSP_NONE), that is no version
 * of it. */
static enum hsp_status add_value(struct ring *r, uint32_t like, uint32_t tensor, const char *what,
                                 uint32_t round, const struct hsp_layout *at, bool *present,
                                 uint32_t *ret)
{
    struct hsp_value v = r->s->value[like];
    v.dtype = tensor != HSP_NONE ? r->c->g->tensors[tensor].dtype : v.dtype;
    v.name =
        hsp_arena_printf(r->c->arena, "%s%s%u",
                         tensor != HSP_NONE ? r->c->g->tensors[tensor].name : v.name, what, round);
    if (v.name == NULL) {
        return hsp_err_nomem(r->err, "blocks of attention");
    }
    v.at = *at;
    v.present = present;
    v.parts = 0;
    v.tensor = v.next = HSP_NONE;
    return hsp_value_add(r->s, &v, ret, r->err);
}

/* The value of result @o: all rounds together. */
static enum hsp_status add_result(struct ring *r, uint8_t o, const struct hsp_layout *at,
                                  uint32_t *ret)
{
    uint32_t t = r->n->out[o];
    return t != HSP_NONE ? hsp_value_version(r->c, r->s, t, "", at, ret, r->err)
                         : add_value(r, r->own[0], t, "#unused", o, at, NULL, ret);
}

/* ---- steps ---- */

static enum hsp_status add_op(struct ring *r, enum hsp_op op, uint8_t n_in, const uint32_t *in,
                              uint8_t n_out, const uint32_t *out, const struct hsp_step *stands_for)
{
    struct hsp_step st = hsp_step_make(HSP_I_OP, HSP_QUEUE_COMPUTE);
    st.op = (uint8_t)op;
    st.node = r->node;
    st.pass = op != (enum hsp_op)r->n->op;
    st.inner = stands_for == NULL;
    st.stands_for = stands_for;
    st.n_in = n_in;
    st.n_out = n_out;
    for (uint8_t i = 0; i < n_in; i++) {
        st.in[i] = in[i];
    }
    for (uint8_t i = 0; i < n_out; i++) {
        st.out[i] = out[i];
    }
    if (op != HSP_OP_ADD) {
        st.at = r->n->at;
    }
    enum hsp_status rc = hsp_step_origins(r->s, &st, r->err);
    return rc == HSP_OK ? hsp_step_add(r->s, r->part, SIZE_MAX, &st, r->err) : rc;
}

/* Adds a step that moves @from to where @to is; @at: index in the part. */
static enum hsp_status add_move(struct ring *r, uint32_t from, uint32_t to, size_t at)
{
    struct hsp_step st = hsp_step_make(HSP_I_RESHARD, HSP_QUEUE_COMM);
    st.n_in = st.n_out = 1;
    st.in[0] = from;
    st.out[0] = to;
    enum hsp_status rc = hsp_reshard_values(r->c, r->s, from, to, HSP_APART_NOT, &st.arg, r->err);
    return rc == HSP_OK ? hsp_step_add(r->s, r->part, at, &st, r->err) : rc;
}

/* Keys and values of @round. The first ones to travel do so as soon as they are there. */
static enum hsp_status fetch(struct ring *r, uint32_t round)
{
    enum hsp_status rc = HSP_OK;
    for (uint8_t i = 0; rc == HSP_OK && round < r->rounds && i < 2; i++) {
        uint32_t own = r->own[r->keys + i], *to = &r->block[round % 2][i];
        struct hsp_layout at;
        bool *present = NULL;
        if (round == 0) {
            *to = own;
            continue;
        }
        rc = block_layout(r, &r->d->need[r->keys + i], round, &at);
        if (rc == HSP_OK) {
            rc = present_in(r, round, false, &present);
        }
        if (rc == HSP_OK) {
            rc = add_value(r, own, r->n->in[r->keys + i], "#ring", round, &at, present, to);
        }
        if (rc == HSP_OK) {
            rc = add_move(r, own, *to, round == 1 ? hsp_step_after(r->s, r->part, own) : SIZE_MAX);
        }
    }
    return rc;
}

/* The op on the block of @round: results @out. @at: their layouts. */
static enum hsp_status run_block(struct ring *r, uint32_t round, const struct hsp_layout *at,
                                 uint32_t *out)
{
    uint32_t in[HSP_MAX_IN];
    bool *present = NULL;
    enum hsp_status rc = present_in(r, round, false, &present);
    for (uint8_t o = 0; rc == HSP_OK && o < r->n->n_out; o++) {
        rc = add_value(r, r->own[0], r->n->out[o], ".block", round, &at[o], present, &out[o]);
    }
    for (uint8_t i = 0; i < r->n->n_in; i++) {
        bool block = i == r->keys || i == r->keys + 1;
        in[i] = block ? r->block[round % 2][i - r->keys] : r->own[i];
    }
    return rc == HSP_OK ? add_op(r, (enum hsp_op)r->n->op, r->n->n_in, in, r->n->n_out, out, NULL)
                        : rc;
}

/* The node as the graph has it, for lists: operands as a group holds them, all rounds' results. */
static enum hsp_status whole_step(const struct ring *r, const uint32_t *out, struct hsp_step **ret)
{
    struct hsp_step st = hsp_step_make(HSP_I_OP, HSP_QUEUE_COMPUTE);
    st.op = r->n->op;
    st.node = r->node;
    st.at = r->n->at;
    st.n_in = r->n->n_in;
    st.n_out = r->n->n_out;
    for (uint8_t i = 0; i < st.n_in; i++) {
        st.in[i] = r->own[i];
    }
    for (uint8_t i = 0; i < st.n_out; i++) {
        st.out[i] = out[i];
    }
    *ret = hsp_arena_memdup(r->c->arena, &st, sizeof st);
    return *ret != NULL ? HSP_OK : hsp_err_nomem(r->err, "blocks of attention");
}

/* @sum, the o and lse so far, becomes that with the block of @round. */
static enum hsp_status merge_block(struct ring *r, uint32_t round, const uint32_t *block,
                                   uint32_t *sum)
{
    bool last = round + 1 == r->rounds;
    uint32_t in[4] = {sum[0], sum[1], block[0], block[1]};
    struct hsp_step *whole = NULL;
    enum hsp_status rc = HSP_OK;
    for (uint8_t o = 0; rc == HSP_OK && o < 2; o++) {
        const struct hsp_layout *at = &r->d->out[o];
        rc = last ? add_result(r, o, at, &sum[o])
                  : add_value(r, r->own[0], r->n->out[o], ".blocks", round, at, NULL, &sum[o]);
    }
    if (rc == HSP_OK && last) {
        rc = whole_step(r, sum, &whole);
    }
    return rc == HSP_OK ? add_op(r, HSP_OP_ATTENTION_MERGE, 4, in, 2, sum, whole) : rc;
}

static enum hsp_status forward(struct ring *r)
{
    uint32_t sum[HSP_MAX_OUT], block[HSP_MAX_OUT];
    enum hsp_status rc = fetch(r, 0);
    for (uint32_t round = 0; rc == HSP_OK && round < r->rounds; round++) {
        rc = fetch(r, round + 1);
        if (rc == HSP_OK) {
            rc = run_block(r, round, r->d->out, round == 0 ? sum : block);
        }
        if (rc == HSP_OK && round > 0) {
            rc = merge_block(r, round, block, sum);
        }
    }
    return rc;
}

/* Gradients of the node: dq, dk, dv. */
struct gradients {
    struct hsp_layout at[3]; /* where the own group has them */
    uint32_t sum[3];         /* so far */
    uint32_t back[3];        /* dk, dv of the last round, back at the own group */
    uint32_t result[3];
    const struct hsp_step *whole;
};

/* Adds @part, the gradient @o of @round, to the sum so far. */
static enum hsp_status add_gradient(struct ring *r, struct gradients *g, uint8_t o, uint32_t round,
                                    uint32_t part)
{
    bool last = round + 1 == r->rounds;
    uint32_t in[2] = {g->sum[o], part};
    enum hsp_status rc = HSP_OK;
    g->sum[o] = g->result[o];
    if (!last) {
        rc = add_value(r, r->own[0], r->n->out[o], ".blocks", round, &g->at[o], NULL, &g->sum[o]);
    }
    return rc == HSP_OK
               ? add_op(r, HSP_OP_ADD, 2, in, 1, &g->sum[o], last && o == 2 ? g->whole : NULL)
               : rc;
}

/* Sends @part, the dk or dv of @round, back to the group whose block it is. */
static enum hsp_status send_back(struct ring *r, struct gradients *g, uint8_t o, uint32_t round,
                                 uint32_t part)
{
    bool *present = NULL;
    enum hsp_status rc = present_in(r, round, true, &present);
    if (rc == HSP_OK) {
        rc = add_value(r, r->own[0], r->n->out[o], ".back", round, &g->at[o], present, &g->back[o]);
    }
    return rc == HSP_OK ? add_move(r, part, g->back[o], SIZE_MAX) : rc;
}

static enum hsp_status start_gradients(struct ring *r, struct gradients *g)
{
    struct hsp_step *whole = NULL;
    enum hsp_status rc = fetch(r, 0);
    g->at[0] = r->d->out[0];
    for (uint8_t o = 0; rc == HSP_OK && o < 3; o++) {
        if (o > 0) {
            rc = block_layout(r, &r->d->need[r->keys + o - 1], 0, &g->at[o]);
        }
        if (rc == HSP_OK) {
            rc = add_result(r, o, &g->at[o], &g->result[o]);
        }
    }
    if (rc == HSP_OK) {
        rc = whole_step(r, g->result, &whole);
    }
    g->whole = whole;
    return rc;
}

/* Runs one round; the gradients that the round before sent back come while this one computes. */
static enum hsp_status backward_round(struct ring *r, struct gradients *g, uint32_t round)
{
    struct hsp_layout at[3] = {r->d->out[0]};
    uint32_t part[3];
    enum hsp_status rc = fetch(r, round + 1);
    for (uint8_t o = 1; rc == HSP_OK && o < 3; o++) {
        rc = block_layout(r, &r->d->need[r->keys + o - 1], round, &at[o]);
    }
    if (rc == HSP_OK) {
        rc = run_block(r, round, at, round == 0 ? g->sum : part);
    }
    if (rc != HSP_OK || round == 0) {
        return rc;
    }
    for (uint8_t o = 1; rc == HSP_OK && round > 1 && o < 3; o++) {
        rc = add_gradient(r, g, o, round - 1, g->back[o]);
    }
    for (uint8_t o = 1; rc == HSP_OK && o < 3; o++) {
        rc = send_back(r, g, o, round, part[o]);
    }
    return rc == HSP_OK ? add_gradient(r, g, 0, round, part[0]) : rc;
}

static enum hsp_status backward(struct ring *r)
{
    struct gradients g;
    enum hsp_status rc = start_gradients(r, &g);
    for (uint32_t round = 0; rc == HSP_OK && round < r->rounds; round++) {
        rc = backward_round(r, &g, round);
    }
    for (uint8_t o = 1; rc == HSP_OK && o < 3; o++) {
        rc = add_gradient(r, &g, o, r->rounds - 1, g.back[o]);
    }
    return rc;
}

enum hsp_status hsp_ring_lower(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t part,
                               uint32_t node, const struct hsp_deduced *d, struct hsp_err *err)
{
    struct ring r = {.c = c,
                     .s = s,
                     .part = part,
                     .node = node,
                     .n = &c->g->nodes[node],
                     .d = d,
                     .rounds = hsp_stage_groups(s->group),
                     .err = err};
    bool known = keys_of(r.n->op, &r.keys);
    enum hsp_status rc = HSP_OK;
    HSP_ASSERT(known);
    r.causal = r.n->at.i[1] != 0;
    for (uint8_t i = 0; rc == HSP_OK && i < r.n->n_in; i++) {
        struct hsp_layout at = d->need[i];
        if (i == r.keys || i == r.keys + 1) {
            rc = block_layout(&r, &d->need[i], 0, &at);
        }
        if (rc == HSP_OK) {
            rc = hsp_version_want(c, s, part, r.n->in[i], &at, &r.own[i], err);
        }
    }
    if (rc != HSP_OK) {
        return rc;
    }
    return r.n->n_out == 2 ? forward(&r) : backward(&r);
}
