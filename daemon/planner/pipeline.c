/* Finds uneven pipelines by dynamic programming. States are numbered used * (n_blocks + 1) + first,
 * mixed-radix number of the devices used of each kind; adding a stage in front raises `used` and
 * lowers `first`, so one sweep in ascending `used` sees every state complete. */
#include "daemon/planner/pipeline.h"

#include <math.h>
#include <string.h>

struct pair {
    double sum, slow;
    uint32_t next, next_pair; /* state and pair behind the first stage; UINT32_MAX: none */
    uint32_t kind, end;       /* of the first stage */
};

struct state {
    uint32_t n, cap;
    struct pair *pairs; /* NULL until the first one */
};

struct sweep {
    const struct hsp_pipe *p;
    struct hsp_arena *arena;
    struct state *states;
    uint32_t n_used, stride[HSP_PIPE_MAX_KINDS];
};

uint64_t hsp_pipe_states(const struct hsp_pipe *p)
{
    uint64_t n = (uint64_t)p->n_blocks + 1;
    for (uint32_t k = 0; k < p->n_kinds; k++) {
        if (__builtin_mul_overflow(n, (uint64_t)p->count[k] + 1, &n)) {
            return UINT64_MAX;
        }
    }
    return n;
}

static double total_us(const struct hsp_pipe *p, const struct pair *x)
{
    return x->sum + (p->n_micro - 1) * x->slow;
}

/* Most fronts have a few pairs: room for 4, then doubled. */
static bool make_room(struct sweep *s, struct state *st)
{
    if (st->n < st->cap || st->cap == HSP_PIPE_MAX_FRONT) {
        return true;
    }
    uint32_t cap = st->cap == 0 ? 4 : 2 * st->cap;
    struct pair *pairs = hsp_arena_array(s->arena, cap, sizeof(*pairs));
    if (pairs == NULL) {
        return false;
    }
    if (st->n > 0) {
        memcpy(pairs, st->pairs, st->n * sizeof(*pairs));
    }
    st->pairs = pairs;
    st->cap = cap;
    return true;
}

/* Keeps only pairs that no other one beats in both parts; the first of equals stays. */
static bool insert(struct sweep *s, struct state *st, const struct pair *x)
{
    for (uint32_t i = 0; i < st->n; i++) {
        if (st->pairs[i].sum <= x->sum && st->pairs[i].slow <= x->slow) {
            return true;
        }
    }
    if (!make_room(s, st)) {
        return false;
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < st->n; i++) {
        if (st->pairs[i].sum < x->sum || st->pairs[i].slow < x->slow) {
            st->pairs[n++] = st->pairs[i];
        }
    }
    st->n = n;
    if (n < HSP_PIPE_MAX_FRONT) {
        st->pairs[st->n++] = *x;
        return true;
    }
    uint32_t worst = 0;
    for (uint32_t i = 1; i < n; i++) {
        if (total_us(s->p, &st->pairs[i]) > total_us(s->p, &st->pairs[worst])) {
            worst = i;
        }
    }
    if (total_us(s->p, x) < total_us(s->p, &st->pairs[worst])) {
        st->pairs[worst] = *x;
    }
    return true;
}

/* Puts every possible first stage in front of state (used, end). */
static bool extend(struct sweep *s, uint32_t used, uint32_t end, uint32_t behind)
{
    const struct hsp_pipe *p = s->p;
    uint32_t from = used * (p->n_blocks + 1) + end;
    for (uint32_t k = 0; k < p->n_kinds; k++) {
        if (used / s->stride[k] % (p->count[k] + 1) == p->count[k]) {
            continue;
        }
        for (uint32_t first = end; first-- > 0;) {
            double us = p->stage_us(p->ctx, k, first, end, behind);
            if (us < 0) {
                break; /* more blocks fit even less */
            }
            struct state *to = &s->states[(used + s->stride[k]) * (p->n_blocks + 1) + first];
            for (uint32_t i = 0; i < s->states[from].n; i++) {
                const struct pair *b = &s->states[from].pairs[i];
                struct pair x = {.sum = b->sum + us,
                                 .slow = fmax(b->slow, us),
                                 .next = from,
                                 .next_pair = i,
                                 .kind = k,
                                 .end = end};
                if (!insert(s, to, &x)) {
                    return false;
                }
            }
        }
    }
    return true;
}

static uint32_t devices_of(const struct sweep *s, uint32_t used)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->p->n_kinds; k++) {
        n += used / s->stride[k] % (s->p->count[k] + 1);
    }
    return n;
}

static bool sweep(struct sweep *s)
{
    const struct hsp_pipe *p = s->p;
    struct pair none = {.next = UINT32_MAX};
    if (!insert(s, &s->states[p->n_blocks], &none)) {
        return false;
    }
    for (uint32_t used = 0; used < s->n_used; used++) {
        uint32_t behind = devices_of(s, used);
        if (behind >= p->max_stages) {
            continue;
        }
        for (uint32_t end = 1; end <= p->n_blocks; end++) {
            if (s->states[used * (p->n_blocks + 1) + end].n > 0 && !extend(s, used, end, behind)) {
                return false;
            }
        }
    }
    return true;
}

static enum hsp_status trace_back(struct sweep *s, uint32_t state, uint32_t pair,
                                  struct hsp_pipe_result *ret, struct hsp_err *err)
{
    const struct hsp_pipe *p = s->p;
    const struct pair *x = &s->states[state].pairs[pair];
    *ret = (struct hsp_pipe_result){.us = total_us(p, x), .fill_us = x->sum, .slow_us = x->slow};
    ret->kind = hsp_arena_array(s->arena, p->n_blocks, sizeof(*ret->kind));
    ret->blocks = hsp_arena_array(s->arena, p->n_blocks, sizeof(*ret->blocks));
    if (ret->kind == NULL || ret->blocks == NULL) {
        return hsp_err_nomem(err, "pipeline of %u blocks", p->n_blocks);
    }
    uint32_t first = 0;
    while (x->next != UINT32_MAX) {
        ret->kind[ret->n_stages] = x->kind;
        ret->blocks[ret->n_stages++] = x->end - first;
        first = x->end;
        x = &s->states[x->next].pairs[x->next_pair];
    }
    return HSP_OK;
}

enum hsp_status hsp_pipe_solve(const struct hsp_pipe *p, struct hsp_arena *arena,
                               struct hsp_pipe_result *ret, struct hsp_err *err)
{
    uint64_t n_states = hsp_pipe_states(p);
    if (n_states > HSP_PIPE_MAX_STATES || p->n_kinds > HSP_PIPE_MAX_KINDS) {
        return hsp_err_set(err, HSP_ELIMIT, 0,
                           "pipeline of %u blocks over %u kinds of devices has %llu states, "
                           "more than %d",
                           p->n_blocks, p->n_kinds, (unsigned long long)n_states,
                           HSP_PIPE_MAX_STATES);
    }
    struct sweep s = {.p = p, .arena = arena, .n_used = 1};
    for (uint32_t k = 0; k < p->n_kinds; k++) {
        s.stride[k] = s.n_used;
        s.n_used *= p->count[k] + 1;
    }
    s.states = hsp_arena_array(arena, n_states, sizeof(*s.states));
    if (s.states == NULL || !sweep(&s)) {
        return hsp_err_nomem(err, "pipeline of %u blocks", p->n_blocks);
    }
    uint32_t best = UINT32_MAX, best_pair = 0;
    for (uint32_t used = 1; used < s.n_used; used++) {
        uint32_t at = used * (p->n_blocks + 1);
        for (uint32_t i = 0; i < s.states[at].n; i++) {
            if (best == UINT32_MAX || total_us(p, &s.states[at].pairs[i]) <
                                          total_us(p, &s.states[best].pairs[best_pair])) {
                best = at;
                best_pair = i;
            }
        }
    }
    if (best == UINT32_MAX) {
        return hsp_err_set(err, HSP_EINFEASIBLE, 0, "no pipeline of %u blocks fits", p->n_blocks);
    }
    return trace_back(&s, best, best_pair, ret, err);
}
