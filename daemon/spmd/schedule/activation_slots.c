#include "daemon/spmd/schedule/activation_slots.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/check.h"

#define WORDS (HSP_MAX_SEGMENTS / 64)

/* Segments that touch a tensor. */
struct set {
    uint64_t word[WORDS];
};

struct counter {
    const struct hsp_program *p;
    uint32_t n_micro;       /* of the longer schedule */
    uint32_t *when;         /* [segment * n_micro + micro]: 1 + index of its pass, 0: none */
    struct set *of;         /* [tensor] */
    uint32_t *first, *last; /* [micro] */
};

static uint32_t segment_of(const struct hsp_program *p, const struct hsp_pass *u)
{
    uint32_t i = 0;
    while (i < p->tpl.n_segments &&
           (p->tpl.segments[i].kind != u->kind || p->tpl.segments[i].chunk != u->chunk)) {
        i++;
    }
    HSP_ASSERT(i < p->tpl.n_segments);
    return i;
}

static void note_passes(struct counter *c, const struct hsp_pass *u, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        c->when[(size_t)segment_of(c->p, &u[i]) * c->n_micro + u[i].micro] = 1 + i;
    }
}

static void note_segments(struct counter *c)
{
    const struct hsp_template *t = &c->p->tpl;
    for (uint32_t s = 0; s < t->n_segments; s++) {
        for (uint32_t k = 0; k < t->segments[s].n_pieces; k++) {
            const struct hsp_piece *q = &t->pieces[t->segments[s].first_piece + k];
            for (uint32_t i = q->first; i < q->first + q->n; i++) {
                const struct hsp_instr *x = &t->instrs[i];
                for (uint8_t o = 0; o < x->n_in + x->n_out; o++) {
                    uint32_t tensor = o < x->n_in ? x->in[o] : x->out[o - x->n_in];
                    c->of[tensor].word[s / 64] |= UINT64_C(1) << (s % 64);
                }
            }
        }
    }
}

/* The slots of a tensor touched by @set. Orders keep the micro-batches of a segment in order, so
 * both ends of their lives are in that order, too: alive with i are the ones right behind it. */
static uint32_t count_slots(struct counter *c, const struct set *set)
{
    uint32_t n = 0, most = 1;
    for (uint32_t i = 0; i < c->n_micro; i++) {
        uint32_t first = UINT32_MAX, last = 0;
        for (uint32_t s = 0; s < c->p->tpl.n_segments; s++) {
            uint32_t at = c->when[(size_t)s * c->n_micro + i];
            if ((set->word[s / 64] >> (s % 64) & 1) == 0 || at == 0) {
                continue;
            }
            first = at < first ? at : first;
            last = at > last ? at : last;
        }
        if (last == 0) {
            break; /* the other schedule has more micro-batches */
        }
        HSP_ASSERT(i == 0 || (first > c->first[i - 1] && last > c->last[i - 1]));
        c->first[i] = first;
        c->last[i] = last;
        n = i + 1;
    }
    for (uint32_t i = 0, j = 0; i < n; i++) {
        for (; j < n && c->first[j] <= c->last[i]; j++) {
        }
        most = j - i > most ? j - i : most;
    }
    return most;
}

static void fill(struct counter *c, struct hsp_program *p, uint32_t *known)
{
    uint32_t n_known = 0; /* tensors with sets of segments unlike those of all others before */
    for (uint32_t i = 0; i < p->tpl.n_tensors; i++) {
        uint32_t k = 0;
        p->bind.tensor[i].n_slots = 1;
        if (p->tpl.tensors[i].cls != HSP_CLASS_MICRO && p->tpl.tensors[i].cls != HSP_CLASS_HOST) {
            continue;
        }
        while (k < n_known && memcmp(&c->of[known[k]], &c->of[i], sizeof *c->of) != 0) {
            k++;
        }
        if (k == n_known) {
            known[n_known++] = i;
            p->bind.tensor[i].n_slots = count_slots(c, &c->of[i]);
        } else {
            p->bind.tensor[i].n_slots = p->bind.tensor[known[k]].n_slots;
        }
    }
}

enum hsp_status hsp_slots_assign(struct hsp_program *p, const struct hsp_pipeline_order *o,
                                 struct hsp_err *err)
{
    struct counter c = {.p = p};
    size_t n = p->tpl.n_tensors;
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; i < o->n_train + o->n_eval; i++) {
        const struct hsp_pass *u = i < o->n_train ? &o->train[i] : &o->eval[i - o->n_train];
        c.n_micro = u->micro >= c.n_micro ? u->micro + 1 : c.n_micro;
    }
    c.when = calloc((size_t)p->tpl.n_segments * c.n_micro + 1, sizeof *c.when);
    c.of = calloc(n + 1, sizeof *c.of);
    c.first = calloc((size_t)c.n_micro + 1, sizeof *c.first);
    c.last = calloc((size_t)c.n_micro + 1, sizeof *c.last);
    uint32_t *known = calloc(n + 1, sizeof *known);
    if (c.when == NULL || c.of == NULL || c.first == NULL || c.last == NULL || known == NULL) {
        rc = hsp_err_nomem(err, "slots of %u tensors", p->tpl.n_tensors);
    } else {
        note_passes(&c, o->train, o->n_train);
        note_passes(&c, o->eval, o->n_eval);
        note_segments(&c);
        fill(&c, p, known);
    }
    free(c.when);
    free(c.of);
    free(c.first);
    free(c.last);
    free(known);
    return rc;
}
