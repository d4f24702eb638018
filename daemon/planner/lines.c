#include "daemon/planner/lines.h"

#include <math.h>
#include <string.h>

#include "daemon/planner/candidates.h"
#include "daemon/planner/pipeline.h"

#define MAX_STATES 20000 /* of one pipeline's program: some milliseconds */

/* A stage's price without the part that its position decides: filled once per (kind, first,
 * end). */
struct cell {
    double us;
    struct hsp_member m; /* memory: the largest of the group's members in every part */
};

struct pipe_ctx {
    struct hsp_search *s;
    uint32_t size, n_micro; /* sequences in a micro-batch, micro-batches */
    uint32_t holders, held; /* pipelines; nodes that hold each piece of the state */
    uint8_t zero;
    double mem[HSP_PIPE_MAX_KINDS], room[HSP_PIPE_MAX_KINDS];
    struct cell *cells; /* [kind][first][end - 1] */
};

static double stage_us(void *arg, uint32_t kind, uint32_t first, uint32_t end, uint32_t behind)
{
    const struct pipe_ctx *c = arg;
    uint32_t n = c->s->n_blocks;
    const struct cell *x = &c->cells[((size_t)kind * n + first) * n + end - 1];
    uint32_t flight = behind + 1 < c->n_micro ? behind + 1 : c->n_micro;
    bool fits = x->m.folder_bytes <= c->room[kind] &&
                hsp_member_bytes(&x->m, c->size, flight) <= c->mem[kind];
    return fits ? x->us : -1;
}

static void fill_cell(const struct pipe_ctx *c, const struct hsp_tp_group *x,
                      const struct hsp_stage_work *r, struct cell *ret)
{
    const struct hsp_search *s = c->s;
    double total = 0;
    *ret = (struct cell){0};
    for (uint32_t i = 0; i < x->n; i++) {
        total += (double)x->shares[i];
    }
    for (uint32_t i = 0; i < x->n; i++) {
        struct hsp_member m;
        hsp_member_price(&s->in, r, &s->in.cluster->dev[x->dev[i]], (double)x->shares[i] / total,
                         x->n, c->holders, c->zero, c->held, &m);
        ret->us = fmax(ret->us, c->size * m.seq_us + m.micro_us);
        ret->m.base_bytes = fmax(ret->m.base_bytes, m.base_bytes);
        ret->m.folder_bytes = fmax(ret->m.folder_bytes, m.folder_bytes);
        ret->m.bytes_per_flight = fmax(ret->m.bytes_per_flight, m.bytes_per_flight);
        ret->m.scratch_bytes = fmax(ret->m.scratch_bytes, m.scratch_bytes);
        ret->m.wide_bytes = fmax(ret->m.wide_bytes, m.wide_bytes);
        ret->m.micro_bytes = fmax(ret->m.micro_bytes, m.micro_bytes);
        ret->m.post_bytes = fmax(ret->m.post_bytes, m.post_bytes);
    }
    ret->us += hsp_tensor_us(r, x->n, c->size, &x->in) +
               2 * (x->out.latency_us + c->size * r->w.leaving * x->out.us_per_byte);
}

static bool about(double a, double b, double tol)
{
    return fabs(a - b) <= tol * b;
}

/* Also where both have all the room they want; with any tolerance all are alike. */
static bool about_room(double a, double b, double tol)
{
    return isinf(a) || isinf(b) ? tol > 1 || isinf(a) == isinf(b) : about(a, b, tol);
}

/* Whether @x may stand where @l does. */
static bool of_kind(const struct hsp_tp_group *x, const struct hsp_tp_group *l, double tol)
{
    return about(x->seq_us, l->seq_us, tol) && about(x->mem_bytes, l->mem_bytes, tol) &&
           about_room(x->room, l->room, tol) &&
           about(x->out.us_per_byte, l->out.us_per_byte, tol) &&
           about(x->in.us_per_byte, l->in.us_per_byte, tol);
}

/* Groups of about equal speed, memory and links are one kind; the tolerance doubles until the
 * pipeline's program has few enough states. kind_of[i]: of tp_group i. */
static void make_kinds(const struct hsp_tp_group *x, uint32_t n, uint32_t n_blocks,
                       struct hsp_pipe *p, uint32_t *kind_of, uint32_t *leader)
{
    for (double tol = HSP_ALIKE;; tol *= 2) {
        p->n_kinds = 0;
        memset(p->count, 0, sizeof(p->count));
        bool full = false;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t k = 0;
            while (k < p->n_kinds && !of_kind(&x[i], &x[leader[k]], tol)) {
                k++;
            }
            if (k == HSP_PIPE_MAX_KINDS) {
                full = true;
                break;
            }
            if (k == p->n_kinds) {
                leader[p->n_kinds++] = i;
            }
            kind_of[i] = k;
            p->count[k]++;
        }
        p->n_blocks = n_blocks;
        if (!full && hsp_pipe_states(p) <= MAX_STATES) {
            return;
        }
        if (tol > 1e9) { /* one kind: bound its count by the program's limit */
            p->count[0] = MAX_STATES / (n_blocks + 1) - 1;
            return;
        }
    }
}

/* One pipeline over some of the groups x[member[0..n)]. */
struct line {
    uint32_t n, *member; /* in */
    uint32_t n_micro;
    struct hsp_pipe_result r;
    uint32_t *stage_at; /* out: by stage, position in member */
};

/* Slowest member and smallest memory stand for a kind, so that every choice of members fits. */
static enum hsp_status fill_table(struct pipe_ctx *ctx, const struct hsp_tp_group *x,
                                  const struct line *l, const uint32_t *kind_of, uint32_t n_kinds)
{
    struct hsp_search *s = ctx->s;
    uint32_t nb = s->n_blocks;
    ctx->cells = hsp_arena_array(s->arena, (size_t)n_kinds * nb * nb, sizeof(*ctx->cells));
    if (ctx->cells == NULL) {
        return hsp_search_no_memory(s);
    }
    for (uint32_t k = 0; k < n_kinds; k++) {
        uint32_t worst = UINT32_MAX;
        ctx->mem[k] = ctx->room[k] = (double)INFINITY;
        for (uint32_t i = 0; i < l->n; i++) {
            const struct hsp_tp_group *m = &x[l->member[i]];
            if (kind_of[i] == k) {
                worst = worst == UINT32_MAX || m->seq_us > x[l->member[worst]].seq_us ? i : worst;
                ctx->mem[k] = fmin(ctx->mem[k], m->mem_bytes);
                ctx->room[k] = fmin(ctx->room[k], m->room);
            }
        }
        for (uint32_t first = 0; first < nb; first++) {
            for (uint32_t end = first + 1; end <= nb; end++) {
                size_t at = (size_t)first * nb + end - 1;
                fill_cell(ctx, &x[l->member[worst]], &s->ranges[at],
                          &ctx->cells[(size_t)k * nb * nb + at]);
            }
        }
    }
    return HSP_OK;
}

static enum hsp_status solve_line(struct hsp_search *s, const struct hsp_tp_group *x,
                                  struct line *l, struct pipe_ctx *ctx)
{
    struct hsp_pipe p = {
        .n_micro = l->n_micro, .max_stages = HSP_MAX_STAGES, .stage_us = stage_us, .ctx = ctx};
    uint32_t leader[HSP_PIPE_MAX_KINDS], taken[HSP_PIPE_MAX_KINDS] = {0};
    uint32_t *kind_of = hsp_arena_array(s->arena, l->n, sizeof(*kind_of));
    struct hsp_tp_group *mine = hsp_arena_array(s->arena, l->n, sizeof(*mine));
    l->stage_at = hsp_arena_array(s->arena, s->n_blocks, sizeof(*l->stage_at));
    if (kind_of == NULL || mine == NULL || l->stage_at == NULL) {
        return hsp_search_no_memory(s);
    }
    for (uint32_t i = 0; i < l->n; i++) {
        mine[i] = x[l->member[i]];
    }
    make_kinds(mine, l->n, s->n_blocks, &p, kind_of, leader);
    ctx->n_micro = l->n_micro;
    enum hsp_status st = fill_table(ctx, x, l, kind_of, p.n_kinds);
    if (st == HSP_OK) {
        st = hsp_pipe_solve(&p, s->arena, &l->r, s->err);
    }
    for (uint32_t g = 0; st == HSP_OK && g < l->r.n_stages; g++) {
        uint32_t k = l->r.kind[g], skip = taken[k]++;
        for (uint32_t i = 0; i < l->n; i++) {
            if (kind_of[i] == k && skip-- == 0) {
                l->stage_at[g] = i;
                break;
            }
        }
    }
    return st;
}

/* Groups in the order of the lines: @n_single of them are a pipeline each, the others are dealt to
 * @n_lines pipelines like a snake, fastest first, so that these are about equal. */
struct pool {
    uint32_t n, n_single, n_lines;
    uint32_t *member;
    uint32_t degree;
};

static enum hsp_status deal(struct hsp_search *s, const struct pool *p, struct line *lines)
{
    for (uint32_t i = 0; i < p->n_single + p->n_lines; i++) {
        lines[i].member = hsp_arena_array(s->arena, p->n, sizeof(*lines[i].member));
        if (lines[i].member == NULL) {
            return hsp_search_no_memory(s);
        }
    }
    for (uint32_t i = 0; i < p->n; i++) {
        struct line *l = &lines[i];
        if (i >= p->n_single) {
            uint32_t lap = (i - p->n_single) / p->n_lines, at = (i - p->n_single) % p->n_lines;
            l = &lines[p->n_single + (lap % 2 == 0 ? at : p->n_lines - 1 - at)];
        }
        l->member[l->n++] = p->member[i];
    }
    return HSP_OK;
}

/* Sequences of each line in proportion to its speed, before any pipeline is known. */
static uint32_t guess_sequences(const struct hsp_search *s, const struct hsp_tp_group *x,
                                const struct line *lines, uint32_t n, uint32_t at)
{
    double all = 0, mine = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < lines[i].n; k++) {
            double rate = 1 / x[lines[i].member[k]].seq_us;
            all += rate;
            mine += i == at ? rate : 0;
        }
    }
    double guess = floor(s->global_batch * mine / all);
    return guess >= 1 ? (uint32_t)guess : 1;
}

static enum hsp_status build_lines(struct hsp_search *s, const struct hsp_tp_group *x,
                                   const struct line *lines, uint32_t n, uint32_t size,
                                   uint8_t zero, struct hsp_plan_draft *d)
{
    double us = 0;
    struct hsp_share_dev *dev = hsp_arena_array(s->arena, n, sizeof(*dev));
    uint32_t *share = hsp_arena_array(s->arena, n, sizeof(*share));
    enum hsp_status st = hsp_draft_make(s, n, zero, d);
    if (dev == NULL || share == NULL || st != HSP_OK) {
        return hsp_search_no_memory(s);
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct hsp_pipe_result *r = &lines[i].r;
        dev[i] = (struct hsp_share_dev){.fixed_us = r->fill_us - r->slow_us,
                                        .micro_us = r->slow_us,
                                        .micro = size,
                                        .min = 1,
                                        .max = s->global_batch};
    }
    st = hsp_shares_minmax(n, dev, s->global_batch, share, &us, s->err);
    for (uint32_t i = 0; i < n && st == HSP_OK; i++) {
        struct hsp_pipeline *t = &d->plan->pipelines[i];
        t->sequences = share[i];
        t->micro_batches = hsp_parts(share[i], size);
        t->n_stages = lines[i].r.n_stages;
        t->stages = hsp_arena_array(s->arena, t->n_stages, sizeof(*t->stages));
        for (uint32_t g = 0; g < t->n_stages && st == HSP_OK; g++) {
            st = t->stages == NULL ? hsp_search_no_memory(s)
                                   : hsp_draft_stage(s, d, &t->stages[g], lines[i].r.blocks[g],
                                                     &x[lines[i].member[lines[i].stage_at[g]]]);
        }
    }
    return st;
}

/* Lines of equal members get equal pipelines; @to takes that of @from. */
static bool alike(const struct hsp_tp_group *x, const struct line *from, struct line *to)
{
    if (from->n != to->n || from->n_micro != to->n_micro) {
        return false;
    }
    for (uint32_t i = 0; i < to->n; i++) {
        const struct hsp_tp_group *a = &x[from->member[i]], *b = &x[to->member[i]];
        if (a->n != b->n || memcmp(a->shares, b->shares, a->n * sizeof(*a->shares)) != 0 ||
            fabs(a->seq_us - b->seq_us) > 1e-9 * a->seq_us ||
            fabs(a->mem_bytes - b->mem_bytes) > 0 || !about_room(a->room, b->room, 0) ||
            fabs(a->out.us_per_byte - b->out.us_per_byte) > 0 ||
            fabs(a->out.latency_us - b->out.latency_us) > 0 ||
            fabs(a->in.us_per_byte - b->in.us_per_byte) > 0 ||
            fabs(a->in.latency_us - b->in.latency_us) > 0) {
            return false;
        }
    }
    to->r = from->r;
    to->stage_at = from->stage_at;
    return true;
}

static enum hsp_status try_lines(struct hsp_search *s, const struct hsp_tp_group *x,
                                 const struct pool *p, uint32_t size, uint8_t zero)
{
    struct hsp_plan_draft d;
    uint32_t n = p->n_single + p->n_lines, deepest = 0;
    uint32_t held = zero > 0 || n == 1 ? hsp_nodes_of(s, x, p->member, p->n) : 1;
    struct pipe_ctx ctx = {.s = s, .size = size, .holders = n, .held = held, .zero = zero};
    struct line *lines = hsp_arena_array(s->arena, n, sizeof(*lines));
    enum hsp_status st = lines == NULL || held == 0 ? hsp_search_no_memory(s) : deal(s, p, lines);
    for (uint32_t i = 0; i < n && st == HSP_OK; i++) {
        lines[i].n_micro = hsp_parts(guess_sequences(s, x, lines, n, i), size);
        if (i == 0 || !alike(x, &lines[i - 1], &lines[i])) {
            st = solve_line(s, x, &lines[i], &ctx);
        }
        deepest = st == HSP_OK && lines[i].r.n_stages > deepest ? lines[i].r.n_stages : deepest;
    }
    if (st == HSP_OK && deepest > 1) {
        st = build_lines(s, x, lines, n, size, zero, &d);
    }
    if (st != HSP_OK || deepest < 2) { /* single stages are try_replicas' matter */
        return st == HSP_EINFEASIBLE || st == HSP_ELIMIT ? HSP_OK : st;
    }
    const char *many = n > 1 ? hsp_arena_printf(s->arena, "%u pipelines", n) : "pipeline";
    const char *what = hsp_arena_printf(s->arena, "%s of up to %u stages%s%s", many, deepest,
                                        p->degree > 1 ? ", tensor groups" : "",
                                        zero > 0 ? ", optimizer state cut (ZeRO-1)" : "");
    if (many == NULL || what == NULL) {
        return hsp_search_no_memory(s);
    }
    enum hsp_structure kind = p->degree > 1 || n > 1 ? HSP_STRUCT_MIXED : HSP_STRUCT_PIPE;
    return hsp_search_offer(s, kind, d.plan, d.device, what);
}

/* All micro-batch sizes, with and without ZeRO-1. */
static enum hsp_status try_pool(struct hsp_search *s, const struct hsp_tp_group *x,
                                const struct pool *p)
{
    uint32_t n = p->n_single + p->n_lines;
    if (n > s->global_batch || n > HSP_MAX_PIPELINES) {
        return HSP_OK;
    }
    for (uint32_t size = s->micro_cap; size >= 1; size /= 2) {
        for (uint8_t zero = 0; zero <= (n > 1 && !s->opts->no_zero ? 1 : 0); zero++) {
            struct hsp_attempt a;
            enum hsp_status st = hsp_attempt_begin(s, &a);
            if (st == HSP_OK) {
                st = try_lines(s, x, p, size, zero);
            }
            if (st != HSP_OK) {
                return st;
            }
            hsp_attempt_end(s, &a);
        }
    }
    return HSP_OK;
}

/* Groups that hold the whole model first, each a pipeline of its own; the others in pipelines. */
static uint32_t singles_first(const struct hsp_search *s, const struct hsp_tp_group *x, uint32_t n,
                              uint32_t *member)
{
    uint32_t n_single = 0, at = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < n; i++) {
            struct hsp_share_dev unused;
            bool alone = hsp_micro_fit(s, &x[i], n, 0, 1, &unused) > 0;
            if (alone == (pass == 0)) {
                member[at++] = i;
                n_single += alone ? 1 : 0;
            }
        }
    }
    return n_single;
}

/* 1, 2, 3, 4, 6, 8, 12, 16, 24, ... */
static uint32_t next_lines(uint32_t n)
{
    bool power = (n & (n - 1)) == 0;
    return n < 3 ? n + 1 : power ? n + n / 2 : n + n / 3;
}

static bool any_fits(const struct hsp_search *s)
{
    for (uint32_t i = 0; i < HSP_N_STRUCTS; i++) {
        if (s->best[i].tried && s->best[i].fits) {
            return true;
        }
    }
    return false;
}

/* A pipeline within one node, for each node: its copies are kept elsewhere, so it may fit where one
 * over several nodes does not. */
static enum hsp_status try_node_lines(struct hsp_search *s, const struct hsp_tp_group *x,
                                      uint32_t n, struct pool *p)
{
    const struct hsp_device_desc *dev = s->in.cluster->dev;
    enum hsp_status st = HSP_OK;
    p->n_single = 0;
    p->n_lines = 1;
    for (uint32_t i = 0; i < n && st == HSP_OK; i++) {
        bool seen = false;
        p->n = 0;
        for (uint32_t k = 0; k < n; k++) {
            if (dev[x[k].dev[0]].node == dev[x[i].dev[0]].node) {
                seen = seen || k < i;
                p->member[p->n++] = k;
            }
        }
        if (!seen && p->n > 1 && p->n < n) {
            st = try_pool(s, x, p);
        }
    }
    return st;
}

enum hsp_status hsp_try_lines(struct hsp_search *s, const struct hsp_tp_group *x, uint32_t n,
                              uint32_t degree)
{
    struct pool p = {.n = n, .degree = degree};
    enum hsp_status st = HSP_OK;
    p.member = hsp_arena_array(s->arena, n, sizeof(*p.member));
    if (p.member == NULL) {
        return hsp_search_no_memory(s);
    }
    if (n < 2 || s->n_blocks < 2) {
        return HSP_OK;
    }
    uint32_t n_single = singles_first(s, x, n, p.member), rest = n - n_single;
    for (uint32_t lines = 1; n_single > 0 && 2 * lines <= rest; lines = next_lines(lines)) {
        p.n_single = n_single;
        p.n_lines = lines;
        st = try_pool(s, x, &p);
        if (st != HSP_OK) {
            return st;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        p.member[i] = i;
    }
    for (uint32_t lines = 1; 2 * lines <= n; lines = next_lines(lines)) {
        p.n_single = 0;
        p.n_lines = lines;
        st = try_pool(s, x, &p);
        if (st != HSP_OK) {
            return st;
        }
    }
    return s->in.copies > 1 && !any_fits(s) ? try_node_lines(s, x, n, &p) : HSP_OK;
}
