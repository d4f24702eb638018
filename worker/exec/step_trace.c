/* Turns recorded spans into spans of a trace. Spans of the same instructions share one label (their
 * name, phase, work and messages). */
#include "worker/exec/step_trace.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/size.h"
#include "proto/base/str.h"
#include "proto/layout/box.h"

#define NONE UINT32_MAX

struct maker {
    const struct hsp_program *const *programs;
    uint32_t n_programs;
    struct hsp_arena *arena;
    struct hsp_trace_part *part;
    uint32_t **first; /* [program][instruction]: the first label of a run that begins there; NONE */
    uint32_t *next;   /* of each label: the next label of a run that begins there; NONE */
    size_t cap;       /* number of labels for which there is memory */
};

/* ---- names ---- */

static const char *kind_name(const struct hsp_instr *i)
{
    static const char *const name[] = {"op",      "load", "zero", "one",  "acc",
                                       "reshard", "stat", "vote", "seal", "copy"};
    return i->kind == HSP_I_OP ? hsp_op_name((enum hsp_op)i->op)
                               : name[i->kind]; /* hsp_program_check has checked the kind */
}

/* Returns the name of a Reshard: of its first move that leaves the device, else of its last
 * copy. */
static const char *reshard_name(const struct hsp_reshard_bind *b)
{
    static const char *const name[] = {"copy",           "send-receive", "all-reduce",
                                       "reduce-scatter", "all-gather",   "reduce-send"};
    const char *best = "reshard";
    for (uint32_t k = 0; k < b->n_moves; k++) {
        best = name[b->moves[k].kind];
        if (b->moves[k].kind != HSP_MOVE_COPY) {
            break;
        }
    }
    return best;
}

/* Writes the name of the @n instructions from @first on to @ret. */
static void put_name(const struct hsp_program *p, uint32_t first, uint32_t n, char *ret,
                     size_t size)
{
    const struct hsp_instr *i = &p->tpl.instrs[first];
    const char *what =
        i->kind == HSP_I_RESHARD ? reshard_name(&p->bind.reshard[i->arg]) : kind_name(i);
    const char *tensor = i->n_out > 0  ? p->tpl.tensors[i->out[0]].name
                         : i->n_in > 0 ? p->tpl.tensors[i->in[0]].name
                                       : "";
    char more[32] = "";
    if (n > 1) {
        (void)snprintf(more, sizeof(more), " and %u more", n - 1);
    }
    hsp_str_printf(ret, size, "%s%s%s%s", what, tensor[0] != '\0' ? " " : "", tensor, more);
}

/* ---- work ---- */

static double operand_bytes(const struct hsp_program *p, uint32_t tensor)
{
    return (double)hsp_box_count(&p->bind.tensor[tensor].box) *
           (double)hsp_dtype_size((enum hsp_dtype)p->tpl.tensors[tensor].dtype);
}

/* Adds the work of an op to a label, counted as by the planner (daemon/planner/work.h), so that the
 * two can be compared: a product counts operations by its shape class, another op the bytes that it
 * reads and writes. */
static void add_op(const struct hsp_program *p, const struct hsp_instr *i, bool product,
                   struct hsp_part_label *l)
{
    struct hsp_attrs at = hsp_instr_attrs(i, p->bind.symbol);
    int64_t in[HSP_MAX_IN][HSP_MAX_RANK] = {{0}}, axis[HSP_MAX_AXES], origin[2];
    uint8_t dtype[HSP_MAX_IN + HSP_MAX_OUT], wrong;
    enum hsp_dtype real = HSP_F32;
    enum hsp_op op = (enum hsp_op)i->op;
    struct hsp_axes ax;
    for (uint8_t k = 0; k < i->n_in + i->n_out; k++) {
        dtype[k] = p->tpl.tensors[k < i->n_in ? i->in[k] : i->out[k - i->n_in]].dtype;
    }
    for (uint8_t k = 0; k < i->n_in; k++) {
        const struct hsp_box *b = &p->bind.tensor[i->in[k]].box;
        for (uint8_t d = 0; d < b->rank; d++) {
            in[k][d] = b->hi[d] - b->lo[d];
        }
    }
    for (int k = 0; k < 2; k++) {
        origin[k] = i->origin_sym[k] == UINT32_MAX ? 0 : p->bind.symbol[i->origin_sym[k]];
    }
    /* rank of the dims "..." of the op */
    uint8_t rank = p->tpl.tensors[i->in[op == HSP_OP_BROADCAST ? 1 : 0]].rank;
    if (hsp_op_axes(op, &at, rank, &ax, NULL) != HSP_OK ||
        hsp_op_extents(op, &at, &ax, in, axis, NULL) != HSP_OK ||
        !hsp_op_real(op, dtype, &real, &wrong)) {
        return;
    }
    if (product) {
        l->flops[hsp_op_gemm_class(op, &ax, axis)] += hsp_op_flops_at(op, &at, axis, &ax, origin);
    } else {
        l->bytes += hsp_op_bytes(op, &ax, axis, real);
    }
}

/* Adds instruction @k to a label. The label has the class that all its instructions share, or
 * HSP_PART_OTHER, and the sum of their work. */
static void add_work(const struct hsp_program *p, uint32_t k, bool first, struct hsp_part_label *l)
{
    const struct hsp_instr *i = &p->tpl.instrs[k];
    uint8_t cls = HSP_PART_OTHER;
    if (i->kind == HSP_I_OP && hsp_op_is_product((enum hsp_op)i->op)) {
        cls = HSP_PART_PRODUCT;
        add_op(p, i, true, l);
    } else if (i->kind == HSP_I_OP) {
        cls = HSP_PART_ELEMENTS;
        add_op(p, i, false, l);
    } else if (i->kind == HSP_I_ACC || i->kind == HSP_I_ZERO || i->kind == HSP_I_ONE) {
        cls = HSP_PART_ELEMENTS; /* an accumulation reads and writes the sum */
        l->bytes += operand_bytes(p, i->out[0]) * (i->kind == HSP_I_ACC ? 2 : 1) +
                    (i->n_in > 0 ? operand_bytes(p, i->in[0]) : 0);
    } else if (i->kind == HSP_I_RESHARD || i->kind == HSP_I_COPY) {
        cls = HSP_PART_MOVE;
    }
    l->cls = first || l->cls == cls ? cls : HSP_PART_OTHER;
}

/* ---- messages ---- */

/* Adds a message to a label, unless the label has it. All cells of one move to the same rank go in
 * one message. */
static void add_msg(struct hsp_part_label *l, uint32_t channel, uint32_t peer, bool out)
{
    for (uint32_t k = 0; k < l->n_msgs; k++) {
        const struct hsp_part_msg *m = &l->msgs[k];
        if (m->channel == channel && m->peer == peer && m->out == out) {
            return;
        }
    }
    if (l->n_msgs < HSP_PART_MSGS) {
        l->msgs[l->n_msgs++] = (struct hsp_part_msg){channel, peer, out};
    }
}

/* Adds the messages of instruction @k to a label. Returns false without memory. */
static bool add_msgs(struct maker *x, const struct hsp_program *p, uint32_t k,
                     struct hsp_part_label *l)
{
    const struct hsp_instr *i = &p->tpl.instrs[k];
    const struct hsp_reshard_bind *b = i->kind == HSP_I_RESHARD ? &p->bind.reshard[i->arg] : NULL;
    uint64_t most = l->n_msgs;
    for (uint32_t m = 0; b != NULL && m < b->n_moves; m++) {
        most += b->moves[m].kind == HSP_MOVE_P2P ? b->moves[m].n_cells : 0;
    }
    if (most == l->n_msgs) {
        return true;
    }
    most = most < HSP_PART_MSGS ? most : HSP_PART_MSGS;
    struct hsp_part_msg *msgs = hsp_arena_array(x->arena, (size_t)most, sizeof(*msgs));
    if (msgs == NULL) {
        return false;
    }
    if (l->n_msgs > 0) {
        memcpy(msgs, l->msgs, l->n_msgs * sizeof(*msgs));
    }
    l->msgs = msgs;
    for (uint32_t m = 0; m < b->n_moves; m++) {
        const struct hsp_move *v = &b->moves[m];
        for (uint32_t c = 0; v->kind == HSP_MOVE_P2P && c < v->n_cells; c++) {
            uint32_t from = v->ranks[v->cells[c].root], to = v->ranks[v->cells[c].peer];
            if (from != to && (from == p->bind.rank || to == p->bind.rank)) {
                add_msg(l, v->channel, from == p->bind.rank ? to : from, from == p->bind.rank);
            }
        }
    }
    return true;
}

/* ---- labels ---- */

/* Returns the kind of the segment that contains instruction @instr. */
static uint8_t phase_of(const struct hsp_template *t, uint32_t instr, uint32_t *ret_chunk)
{
    for (uint32_t s = 0; s < t->n_segments; s++) {
        const struct hsp_segment *g = &t->segments[s];
        for (uint32_t k = g->first_piece; k < g->first_piece + g->n_pieces; k++) {
            if (instr >= t->pieces[k].first && instr < t->pieces[k].first + t->pieces[k].n) {
                *ret_chunk = g->chunk;
                return g->kind;
            }
        }
    }
    return HSP_PART_NO_PHASE;
}

/* Adds a label whose fields are 0. Returns NULL without memory. */
static struct hsp_part_label *label_new(struct maker *x)
{
    struct hsp_trace_part *p = x->part;
    if (p->n_labels == x->cap) {
        size_t cap = x->cap > 0 ? 2 * x->cap : 256;
        struct hsp_part_label *l = hsp_arena_array(x->arena, cap, sizeof(*l));
        uint32_t *next = hsp_arena_array(x->arena, cap, sizeof(*next));
        if (l == NULL || next == NULL) {
            return NULL;
        }
        if (p->n_labels > 0) {
            memcpy(l, p->labels, p->n_labels * sizeof(*l));
            memcpy(next, x->next, p->n_labels * sizeof(*next));
        }
        p->labels = l;
        x->next = next;
        x->cap = cap;
    }
    p->labels[p->n_labels] = (struct hsp_part_label){.phase = HSP_PART_NO_PHASE};
    return &p->labels[p->n_labels++];
}

/* Returns the label of a span of queue @q, made if there is none yet. Returns NONE without
 * memory. */
static uint32_t label_of(struct maker *x, const struct hsp_span *s, int q)
{
    const struct hsp_program *p = x->programs[s->program];
    uint32_t *head = &x->first[s->program][s->first];
    char name[HSP_PART_NAME + 1];
    for (uint32_t k = *head; k != NONE; k = x->next[k]) {
        if (x->part->labels[k].n_instrs == s->n) {
            return k;
        }
    }
    struct hsp_part_label *l = label_new(x);
    if (l == NULL) {
        return NONE;
    }
    uint32_t number = x->part->n_labels - 1;
    put_name(p, s->first, s->n, name, sizeof(name));
    l->name = hsp_arena_strdup(x->arena, name);
    l->queue = (uint8_t)q;
    l->n_instrs = s->n;
    l->phase = phase_of(&p->tpl, s->first, &l->chunk);
    bool ok = l->name != NULL;
    for (uint32_t k = 0; k < s->n && ok; k++) {
        add_work(p, s->first + k, k == 0, l);
        ok = add_msgs(x, p, s->first + k, l);
    }
    x->next[number] = *head;
    *head = number;
    return ok ? number : NONE;
}

static bool open_maker(struct maker *x)
{
    x->first = hsp_arena_array(x->arena, x->n_programs, sizeof(*x->first));
    for (uint32_t k = 0; x->first != NULL && k < x->n_programs; k++) {
        uint32_t n = x->programs[k]->tpl.n_instrs;
        x->first[k] = hsp_arena_array(x->arena, n, sizeof(*x->first[k]));
        if (x->first[k] == NULL) {
            return false;
        }
        memset(x->first[k], 0xff, n * sizeof(*x->first[k]));
    }
    return x->first != NULL;
}

/* ---- spans ---- */

/* Adds the spans of queue @q. Returns false without memory. */
static bool add_queue(struct maker *x, const struct hsp_recorded_queue *of, int q)
{
    for (uint32_t k = 0; k < of->n; k++) {
        const struct hsp_span *s = &of->span[k];
        uint32_t label = label_of(x, s, q);
        if (label == NONE) {
            return false;
        }
        x->part->spans[x->part->n_spans++] =
            (struct hsp_part_span){.label = label,
                                   .micro = s->micro,
                                   .step = s->step,
                                   .eval = s->eval,
                                   .at_ns = (uint64_t)(s->from_ns - x->part->base_ns),
                                   .took_ns = (uint64_t)(s->to_ns - s->from_ns)};
    }
    return true;
}

/* Adds the spans of the state's thread, as many as fit into the bounds of a part. Returns false
 * without memory. */
static bool add_state(struct maker *x, const struct hsp_state_span *state, uint32_t n)
{
    struct hsp_trace_part *p = x->part;
    uint32_t first = p->n_labels;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t l = first;
        while (l < p->n_labels && strcmp(p->labels[l].name, state[k].name) != 0) {
            l++;
        }
        if (l == p->n_labels) {
            struct hsp_part_label *fresh = label_new(x);
            if (fresh == NULL) {
                return false;
            }
            fresh->name = state[k].name;
            fresh->queue = HSP_PART_STATE;
            fresh->cls = HSP_PART_OTHER;
            fresh->n_instrs = 1;
        }
        if (p->n_spans == HSP_PART_SPANS) {
            p->lost++;
            continue;
        }
        p->spans[p->n_spans++] =
            (struct hsp_part_span){.label = l,
                                   .at_ns = (uint64_t)(state[k].from_ns - p->base_ns),
                                   .took_ns = (uint64_t)(state[k].to_ns - state[k].from_ns)};
    }
    return true;
}

enum hsp_status hsp_step_trace(const struct hsp_recording *r,
                               const struct hsp_program *const *programs, uint32_t n_programs,
                               const struct hsp_state_span *state, uint32_t n_state,
                               struct hsp_arena *arena, struct hsp_trace_part *ret,
                               struct hsp_err *err)
{
    struct hsp_trace_part part = {.first_step = r->first_step,
                                  .n_steps = r->n_steps,
                                  .done = r->done,
                                  .error_ns = (uint64_t)r->error_ns};
    struct maker x = {
        .programs = programs, .n_programs = n_programs, .arena = arena, .part = &part};
    size_t most = n_state;
    part.base_ns = INT64_MAX;
    for (uint32_t k = 0; k < n_state; k++) { /* spans of the state are sorted by their ends */
        part.base_ns = state[k].from_ns < part.base_ns ? state[k].from_ns : part.base_ns;
    }
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        const struct hsp_recorded_queue *of = &r->queue[q];
        most += of->n;
        part.lost += of->lost;
        if (of->n > 0 && of->span[0].from_ns < part.base_ns) {
            part.base_ns = of->span[0].from_ns;
        }
    }
    part.base_ns = part.base_ns == INT64_MAX ? 0 : part.base_ns;
    part.spans = hsp_arena_array(arena, most, sizeof(*part.spans));
    bool ok = part.spans != NULL && open_maker(&x);
    for (int q = 0; ok && q < HSP_N_QUEUES; q++) {
        ok = add_queue(&x, &r->queue[q], q);
    }
    if (!ok || !add_state(&x, state, n_state)) {
        return hsp_err_nomem(err, "a trace of %zu spans", most);
    }
    *ret = part;
    return HSP_OK;
}
