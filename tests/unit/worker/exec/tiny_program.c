#include "tests/unit/worker/exec/tiny_program.h"

#include "proto/base/check.h"
#include "proto/program/template_codec.h"

enum { MAX_SYM = 64, MAX_T = 64, MAX_I = 64, MAX_P = 32, MAX_S = 8, MAX_R = 16, MAX_E = 256 };

struct build {
    struct hsp_arena *arena;
    struct hsp_template t;
    struct hsp_binding b;
    int64_t memory, state;
};

static uint32_t sym(struct build *x, int64_t value)
{
    HSP_ASSERT(x->t.n_symbols < MAX_SYM);
    x->t.symbols[x->t.n_symbols].name =
        x->t.n_symbols == 0 ? "batch" : hsp_arena_printf(x->arena, "s%u", x->t.n_symbols);
    x->b.symbol[x->t.n_symbols] = value;
    return x->t.n_symbols++;
}

static uint32_t tensor(struct build *x, const char *name, enum hsp_dtype dt, uint8_t cls,
                       uint8_t rank, const uint32_t *syms)
{
    HSP_ASSERT(x->t.n_tensors < MAX_T);
    uint32_t k = x->t.n_tensors++;
    struct hsp_ptensor *p = &x->t.tensors[k];
    struct hsp_tensor_bind *b = &x->b.tensor[k];
    *p = (struct hsp_ptensor){.name = name, .dtype = (uint8_t)dt, .cls = cls, .rank = rank};
    int64_t bytes = (int64_t)hsp_dtype_size(dt);
    b->box.rank = rank;
    for (uint8_t d = 0; d < rank; d++) {
        p->sym[d] = syms[d];
        b->box.hi[d] = x->b.symbol[syms[d]];
        bytes *= b->box.hi[d];
    }
    b->batch_dim0 = rank > 0 && syms[0] == HSP_SYM_BATCH;
    b->n_slots = cls == HSP_CLASS_MICRO ? 2 : 1;
    b->slot_bytes = (bytes + 63) / 64 * 64;
    int64_t *area = cls == HSP_CLASS_STATE ? &x->state : &x->memory;
    b->offset = *area;
    *area += b->slot_bytes * b->n_slots;
    return k;
}

static struct hsp_instr *instr(struct build *x, uint8_t kind, uint8_t queue, uint8_t n_in,
                               uint8_t n_out, const uint32_t *operands)
{
    HSP_ASSERT(x->t.n_instrs < MAX_I);
    struct hsp_instr *i = &x->t.instrs[x->t.n_instrs++];
    *i = (struct hsp_instr){.kind = kind,
                            .queue = queue,
                            .n_in = n_in,
                            .n_out = n_out,
                            .node = UINT32_MAX,
                            .origin_sym = {UINT32_MAX, UINT32_MAX}};
    for (uint8_t k = 0; k < n_in; k++) {
        i->in[k] = operands[k];
    }
    for (uint8_t k = 0; k < n_out; k++) {
        i->out[k] = operands[n_in + k];
    }
    return i;
}

static struct hsp_instr *op(struct build *x, enum hsp_op o, const uint32_t *operands)
{
    struct hsp_instr *i =
        instr(x, HSP_I_OP, HSP_QUEUE_COMPUTE, hsp_op_n_in(o), hsp_op_n_out(o), operands);
    i->op = (uint8_t)o;
    return i;
}

/* Makes the instructions since the last piece a piece of @queue, and returns its number. */
static uint32_t piece(struct build *x, uint8_t queue)
{
    HSP_ASSERT(x->t.n_pieces < MAX_P);
    uint32_t first = 0;
    if (x->t.n_pieces > 0) {
        first = x->t.pieces[x->t.n_pieces - 1].first + x->t.pieces[x->t.n_pieces - 1].n;
    }
    x->t.pieces[x->t.n_pieces] =
        (struct hsp_piece){.first = first, .n = x->t.n_instrs - first, .queue = queue};
    return x->t.n_pieces++;
}

static void segment(struct build *x, uint8_t kind, uint32_t first_piece)
{
    HSP_ASSERT(x->t.n_segments < MAX_S);
    x->t.segments[x->t.n_segments++] = (struct hsp_segment){
        .kind = kind, .first_piece = first_piece, .n_pieces = x->t.n_pieces - first_piece};
}

static void entry(struct hsp_sched *s, int q, uint32_t p, uint32_t micro, uint32_t wait)
{
    HSP_ASSERT(s->n[q] < MAX_E);
    s->e[q][s->n[q]++] = (struct hsp_sched_entry){.piece = p, .micro = micro, .wait = wait};
}

/* The tensors of a parameter [dim0, dim1]: parameter, m, v, sum of gradients, reduced gradient. */
struct par {
    uint32_t p, m, v, acc, grad;
    int64_t ext[2];
};

static void param(struct build *x, const struct tiny_spec *s, const char *name, uint32_t s0,
                  uint32_t s1, uint32_t id, struct par *ret)
{
    uint32_t d[2] = {s0, s1};
    ret->p = tensor(x, name, s->dtype, HSP_CLASS_STATE, 2, d);
    ret->m = tensor(x, name, s->dtype, HSP_CLASS_STATE, 2, d);
    ret->v = tensor(x, name, s->dtype, HSP_CLASS_STATE, 2, d);
    x->t.tensors[ret->m].state_kind = HSP_STATE_M;
    x->t.tensors[ret->v].state_kind = HSP_STATE_V;
    ret->acc =
        tensor(x, hsp_arena_printf(x->arena, "%s#acc", name), s->dtype, HSP_CLASS_STEP, 2, d);
    ret->grad =
        tensor(x, hsp_arena_printf(x->arena, "%s#grad", name), s->dtype, HSP_CLASS_STEP, 2, d);
    ret->ext[0] = x->b.symbol[s0];
    ret->ext[1] = x->b.symbol[s1];
    const uint32_t st[3] = {ret->p, ret->m, ret->v};
    for (int k = 0; k < 3; k++) {
        x->b.state[x->b.n_state++] =
            (struct hsp_state_bind){.tensor = st[k],
                                    .tensor_id = id,
                                    .init = k == 0 ? HSP_INIT_NORMAL : HSP_INIT_ZERO,
                                    .init_std = 0.1,
                                    .full = x->b.tensor[st[k]].box};
    }
}

static void move(struct build *x, struct hsp_reshard_bind *r, uint8_t kind, uint8_t src,
                 const struct hsp_box *box, uint32_t channel)
{
    struct hsp_move *m = &r->moves[r->n_moves++];
    *m = (struct hsp_move){.kind = kind, .src = src, .n_ranks = x->b.n_ranks, .channel = channel};
    m->ranks = hsp_arena_array(x->arena, m->n_ranks, sizeof(*m->ranks));
    uint32_t n = kind >= HSP_MOVE_REDUCE_SCATTER ? m->n_ranks : 1;
    m->cells = hsp_arena_array(x->arena, n, sizeof(*m->cells));
    m->n_cells = n;
    for (uint32_t k = 0; k < m->n_ranks; k++) {
        m->ranks[k] = k;
    }
    /* columns are cut among the ranks, so that cells are strided in memory */
    for (uint32_t k = 0; k < n; k++) {
        m->cells[k] = (struct hsp_cell){.box = *box, .root = k};
        if (n > 1) {
            m->cells[k].box.lo[1] = box->hi[1] * k / n;
            m->cells[k].box.hi[1] = box->hi[1] * (k + 1) / n;
        }
    }
}

static void reshard(struct build *x, const struct tiny_spec *s, const struct par *p)
{
    uint32_t o[2] = {p->acc, p->grad};
    struct hsp_reshard_bind *r = &x->b.reshard[x->t.n_reshards];
    instr(x, HSP_I_RESHARD, HSP_QUEUE_COMM, 1, 1, o)->arg = x->t.n_reshards++;
    r->moves = hsp_arena_array(x->arena, 2, sizeof(*r->moves));
    const struct hsp_box *box = &x->b.tensor[p->acc].box;
    uint32_t channel = 2 * x->t.n_reshards;
    if (x->b.n_ranks == 1) {
        move(x, r, HSP_MOVE_COPY, 0, box, channel);
    } else if (s->scatter) {
        r->zero_first = true;
        move(x, r, HSP_MOVE_REDUCE_SCATTER, 0, box, channel);
        move(x, r, HSP_MOVE_ALL_GATHER, HSP_MOVE_FROM_OUT, box, channel + 1);
    } else {
        move(x, r, HSP_MOVE_ALL_REDUCE, 0, box, channel);
    }
}

struct acts {
    uint32_t ids, labels, x, y, loss, lse, sum, count, one, dloss, dy, dx, gw, ge;
};

static void forward(struct build *x, const struct acts *a, const struct par *e, const struct par *w,
                    bool eval)
{
    uint32_t first = x->t.n_pieces;
    instr(x, HSP_I_LOAD, HSP_QUEUE_COMPUTE, 0, 1, &a->ids)->arg = HSP_LOAD_IDS;
    instr(x, HSP_I_LOAD, HSP_QUEUE_COMPUTE, 0, 1, &a->labels)->arg = HSP_LOAD_LABELS;
    op(x, HSP_OP_EMBED, (uint32_t[]){a->ids, e->p, a->x});
    op(x, HSP_OP_LINEAR, (uint32_t[]){a->x, w->p, a->y});
    op(x, HSP_OP_XENT, (uint32_t[]){a->y, a->labels, a->loss, a->lse});
    op(x, HSP_OP_SUM, (uint32_t[]){a->loss, a->sum});
    op(x, HSP_OP_COUNT, (uint32_t[]){a->labels, a->count});
    instr(x, HSP_I_STAT, HSP_QUEUE_COMPUTE, 1, 0, &a->sum)->arg =
        eval ? HSP_STAT_EVAL_LOSS : HSP_STAT_LOSS;
    instr(x, HSP_I_STAT, HSP_QUEUE_COMPUTE, 1, 0, &a->count)->arg =
        eval ? HSP_STAT_EVAL_TOKENS : HSP_STAT_TOKENS;
    piece(x, HSP_QUEUE_COMPUTE);
    segment(x, eval ? HSP_SEG_EVAL : HSP_SEG_FORWARD, first);
}

static void backward(struct build *x, const struct acts *a, const struct par *e,
                     const struct par *w)
{
    uint32_t first = x->t.n_pieces;
    instr(x, HSP_I_ONE, HSP_QUEUE_COMPUTE, 0, 1, &a->one);
    op(x, HSP_OP_BROADCAST, (uint32_t[]){a->one, a->loss, a->dloss});
    op(x, HSP_OP_XENT_DX, (uint32_t[]){a->dloss, a->y, a->labels, a->lse, a->dy});
    op(x, HSP_OP_LINEAR_DX, (uint32_t[]){a->dy, w->p, a->dx});
    op(x, HSP_OP_LINEAR_DW, (uint32_t[]){a->dy, a->x, a->gw});
    op(x, HSP_OP_EMBED_DW, (uint32_t[]){a->ids, a->dx, a->ge})->at.i[0] = e->ext[0];
    instr(x, HSP_I_ACC, HSP_QUEUE_COMPUTE, 1, 1, (uint32_t[]){a->gw, w->acc});
    instr(x, HSP_I_ACC, HSP_QUEUE_COMPUTE, 1, 1, (uint32_t[]){a->ge, e->acc});
    piece(x, HSP_QUEUE_COMPUTE);
    segment(x, HSP_SEG_BACKWARD, first);
}

static void post(struct build *x, const struct tiny_spec *s, const struct par *e,
                 const struct par *w)
{
    uint32_t first = x->t.n_pieces;
    uint32_t sq = tensor(x, "#sq", HSP_F64, HSP_CLASS_SCRATCH, 0, NULL);
    reshard(x, s, e);
    reshard(x, s, w);
    piece(x, HSP_QUEUE_COMM);
    /* rank 0 owns the embedding and the last rank the linear: each computes the norm of its own */
    if (x->b.rank == 0) {
        op(x, HSP_OP_SQSUM, (uint32_t[]){e->grad, sq});
        instr(x, HSP_I_STAT, HSP_QUEUE_COMPUTE, 1, 0, &sq)->arg = HSP_STAT_SQNORM;
    }
    if (x->b.rank + 1 == x->b.n_ranks) {
        op(x, HSP_OP_SQSUM, (uint32_t[]){w->grad, sq});
        instr(x, HSP_I_STAT, HSP_QUEUE_COMPUTE, 1, 0, &sq)->arg = HSP_STAT_SQNORM;
    }
    piece(x, HSP_QUEUE_COMPUTE);
    instr(x, HSP_I_VOTE, HSP_QUEUE_COMM, 0, 0, NULL);
    piece(x, HSP_QUEUE_COMM);
    const struct par *all[2] = {e, w};
    for (int k = 0; k < 2; k++) {
        const struct par *p = all[k];
        struct hsp_instr *i =
            op(x, HSP_OP_ADAMW, (uint32_t[]){p->p, p->m, p->v, p->grad, p->p, p->m, p->v});
        i->at.f[0] = 0.9;
        i->at.f[1] = 0.95;
        i->at.f[2] = 1e-8;
        i->at.f[3] = 0.1;
    }
    instr(x, HSP_I_SEAL, HSP_QUEUE_COMPUTE, 0, 0, NULL);
    piece(x, HSP_QUEUE_COMPUTE);
    segment(x, HSP_SEG_POST, first);
}

/* Makes the schedules of the pieces 0 pre, 1 forward, 2 backward, 3 eval, 4 reduce, 5 norm, 6 vote
 * and 7 update. */
static void schedules(struct build *x)
{
    struct hsp_sched *t = &x->b.train, *v = &x->b.eval;
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        t->e[q] = hsp_arena_array(x->arena, MAX_E, sizeof(*t->e[q]));
        v->e[q] = hsp_arena_array(x->arena, MAX_E, sizeof(*v->e[q]));
    }
    entry(t, HSP_QUEUE_COMPUTE, 0, 0, 0);
    for (uint32_t m = 0; m < x->b.pipeline.n_micro; m++) {
        entry(t, HSP_QUEUE_COMPUTE, 1, m, 0);
        entry(t, HSP_QUEUE_COMPUTE, 2, m, 0);
    }
    uint32_t done = t->n[HSP_QUEUE_COMPUTE];
    entry(t, HSP_QUEUE_COMM, 4, 0, done);
    entry(t, HSP_QUEUE_COMPUTE, 5, 0, 1);
    entry(t, HSP_QUEUE_COMM, 6, 0, done + 1);
    entry(t, HSP_QUEUE_COMPUTE, 7, 0, 2);
    for (uint32_t m = 0; m < x->b.pipeline.eval_n_micro; m++) {
        entry(v, HSP_QUEUE_COMPUTE, 3, m, 0);
    }
}

static void hyper(struct build *x, const struct tiny_spec *s, uint32_t rank)
{
    uint32_t first = 0, mine = 0;
    for (uint32_t k = 0; k <= rank; k++) {
        first += mine;
        mine = s->seqs[0] ? s->seqs[k] : s->global_batch / s->n_ranks;
    }
    x->b.pipeline = (struct hsp_pipeline_bind){.first_seq = first,
                                               .n_seq = mine,
                                               .n_micro = s->n_micro,
                                               .eval_first = rank,
                                               .eval_n_seq = 1,
                                               .eval_n_micro = 1};
    x->b.data = (struct hsp_data_bind){.seed = 7,
                                       .global_batch = s->global_batch,
                                       .sequence = s->sequence,
                                       .eval_seqs = s->n_ranks,
                                       .validation_every = s->validation_every,
                                       .validation_fraction = 0.1,
                                       .vocab = s->vocab};
    x->b.hyper = (struct hsp_train_bind){.steps = s->steps,
                                         .lr = 1e-2,
                                         .min_lr = 1e-4,
                                         .clip_norm = 1.0,
                                         .warmup_steps = 3,
                                         .schedule = HSP_LR_COSINE,
                                         .optimizer = HSP_OPT_ADAMW,
                                         .beta1 = 0.9,
                                         .beta2 = 0.95};
}

static void build_alloc(struct build *x)
{
    struct hsp_arena *a = x->arena;
    x->t.symbols = hsp_arena_array(a, MAX_SYM, sizeof(*x->t.symbols));
    x->t.tensors = hsp_arena_array(a, MAX_T, sizeof(*x->t.tensors));
    x->t.instrs = hsp_arena_array(a, MAX_I, sizeof(*x->t.instrs));
    x->t.pieces = hsp_arena_array(a, MAX_P, sizeof(*x->t.pieces));
    x->t.segments = hsp_arena_array(a, MAX_S, sizeof(*x->t.segments));
    x->b.symbol = hsp_arena_array(a, MAX_SYM, sizeof(*x->b.symbol));
    x->b.tensor = hsp_arena_array(a, MAX_T, sizeof(*x->b.tensor));
    x->b.reshard = hsp_arena_array(a, MAX_R, sizeof(*x->b.reshard));
    x->b.state = hsp_arena_array(a, MAX_T, sizeof(*x->b.state));
    HSP_ASSERT(x->t.symbols && x->t.tensors && x->t.instrs && x->b.tensor && x->b.state);
}

static void tiny_program(const struct tiny_spec *s, uint32_t rank, struct hsp_arena *arena,
                         struct hsp_program *ret)
{
    struct build x = {.arena = arena, .b = {.rank = rank, .n_ranks = s->n_ranks}};
    build_alloc(&x);
    hyper(&x, s, rank);
    uint32_t bound = (x.b.pipeline.n_seq + s->n_micro - 1) / s->n_micro;
    uint32_t sb = sym(&x, bound), ss = sym(&x, s->sequence), sv = sym(&x, s->vocab),
             sh = sym(&x, s->hidden);
    struct par e, w;
    param(&x, s, "embed.weight", sv, sh, 0, &e);
    param(&x, s, "head.weight", sv, sh, 1, &w);
    uint32_t bs[2] = {sb, ss}, bsh[3] = {sb, ss, sh}, bsv[3] = {sb, ss, sv}, vh[2] = {sv, sh};
    struct acts a = {
        .ids = tensor(&x, "ids", HSP_I32, HSP_CLASS_MICRO, 2, bs),
        .labels = tensor(&x, "labels", HSP_I32, HSP_CLASS_MICRO, 2, bs),
        .x = tensor(&x, "x", s->dtype, HSP_CLASS_MICRO, 3, bsh),
        .y = tensor(&x, "y", s->dtype, HSP_CLASS_MICRO, 3, bsv),
        .loss = tensor(&x, "loss", s->dtype, HSP_CLASS_MICRO, 2, bs),
        .lse = tensor(&x, "lse", s->dtype, HSP_CLASS_MICRO, 2, bs),
        .sum = tensor(&x, "sum", HSP_F64, HSP_CLASS_SCRATCH, 0, NULL),
        .count = tensor(&x, "count", HSP_F64, HSP_CLASS_SCRATCH, 0, NULL),
        .one = tensor(&x, "one", HSP_F64, HSP_CLASS_SCRATCH, 0, NULL),
        .dloss = tensor(&x, "dloss", s->dtype, HSP_CLASS_SCRATCH, 2, bs),
        .dy = tensor(&x, "dy", s->dtype, HSP_CLASS_SCRATCH, 3, bsv),
        .dx = tensor(&x, "dx", s->dtype, HSP_CLASS_SCRATCH, 3, bsh),
        .gw = tensor(&x, "gw", s->dtype, HSP_CLASS_SCRATCH, 2, vh),
        .ge = tensor(&x, "ge", s->dtype, HSP_CLASS_SCRATCH, 2, vh),
    };
    instr(&x, HSP_I_ZERO, HSP_QUEUE_COMPUTE, 0, 1, &e.acc);
    instr(&x, HSP_I_ZERO, HSP_QUEUE_COMPUTE, 0, 1, &w.acc);
    piece(&x, HSP_QUEUE_COMPUTE);
    segment(&x, HSP_SEG_PRE, 0);
    forward(&x, &a, &e, &w, false);
    backward(&x, &a, &e, &w);
    forward(&x, &a, &e, &w, true);
    post(&x, s, &e, &w);
    schedules(&x);
    x.b.memory_bytes = x.memory;
    x.b.state_bytes = x.state;
    x.b.n_reshards = x.t.n_reshards;
    x.b.comm_bytes = 1 << 20;
    HSP_ASSERT(hsp_template_digest(&x.t, &x.t.digest) == HSP_OK);
    x.b.template_digest = x.t.digest;
    *ret = (struct hsp_program){.tpl = x.t, .bind = x.b};
}

struct hsp_program *tiny_programs(const struct tiny_spec *s, struct hsp_arena *arena)
{
    struct hsp_program *p = hsp_arena_array(arena, s->n_ranks, sizeof(*p));
    HSP_ASSERT(p != NULL);
    for (uint32_t k = 0; k < s->n_ranks; k++) {
        tiny_program(s, k, arena, &p[k]);
    }
    return p;
}

struct hsp_program_file tiny_file(const struct tiny_spec *s, struct hsp_arena *arena)
{
    struct tiny_spec one = *s;
    one.n_ranks = 1;
    return (struct hsp_program_file){.n = s->n_ranks,
                                     .programs = tiny_programs(s, arena),
                                     .n_ref = 1,
                                     .ref = tiny_programs(&one, arena),
                                     .data_path = "/tmp/text",
                                     .config_json = "{}"};
}

const struct tiny_spec tiny_two = {.n_ranks = 2,
                                   .global_batch = 6,
                                   .n_micro = 2,
                                   .vocab = 16,
                                   .hidden = 4,
                                   .sequence = 8,
                                   .steps = 5,
                                   .validation_every = 2,
                                   .dtype = HSP_F64,
                                   .scatter = true};
