#include "proto/program/pack.h"

#include <stdlib.h> /* qsort */
#include <string.h> /* memset */

#include "proto/base/check.h"
#include "proto/program/corpus.h"
#include "proto/program/micro_size.h"

/* Micro-batches per stage at which the pipeline's filling and draining cost little. */
#define PER_STAGE 4

#define NOBODY UINT32_MAX

struct item {         /* a document */
    uint32_t len, at; /* place in the list of samples */
};

struct bin {          /* a sequence */
    uint32_t used, n; /* tokens, documents */
    uint32_t next;    /* of those with the same room; NOBODY */
    uint64_t pairs;   /* of tokens that attend to each other */
};

struct packing {
    const struct hsp_pack_order *o;
    struct item *item; /* [n], longest first */
    uint32_t *bin_of;  /* [n], by item */
    uint32_t *col;     /* [n], by item */
    struct bin *bin;   /* [n] */
    uint32_t n_bins;
    uint32_t *head;    /* [sequence + 1]: the last bin with that room, NOBODY */
    uint64_t *present; /* bits: head is somebody */
};

static int by_length(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->len != y->len) {
        return x->len > y->len ? -1 : 1;
    }
    return x->at < y->at ? -1 : x->at > y->at;
}

/* The least room, from @len on, that a bin has; sequence + 1: none has it. */
static uint32_t least_room(const struct packing *p, uint32_t len)
{
    uint32_t words = p->o->sequence / 64 + 1, w = len / 64;
    uint64_t bits = p->present[w] & (~UINT64_C(0) << (len % 64));
    while (bits == 0 && ++w < words) {
        bits = p->present[w];
    }
    return bits == 0 ? p->o->sequence + 1 : w * 64 + (uint32_t)__builtin_ctzll(bits);
}

static void put_bin(struct packing *p, uint32_t bin, uint32_t room)
{
    p->bin[bin].next = p->head[room];
    p->head[room] = bin;
    p->present[room / 64] |= UINT64_C(1) << (room % 64);
}

static uint32_t take_bin(struct packing *p, uint32_t room)
{
    uint32_t bin = p->head[room];
    p->head[room] = p->bin[bin].next;
    if (p->head[room] == NOBODY) {
        p->present[room / 64] &= ~(UINT64_C(1) << (room % 64));
    }
    return bin;
}

static void fill_bins(struct packing *p)
{
    for (uint32_t k = 0; k < p->o->n; k++) {
        uint32_t len = p->item[k].len, room = least_room(p, len);
        uint32_t b = room <= p->o->sequence ? take_bin(p, room) : p->n_bins++;
        struct bin *bin = &p->bin[b];
        p->bin_of[k] = b;
        p->col[k] = bin->used;
        bin->used += len;
        bin->n++;
        bin->pairs += (uint64_t)len * (len + 1) / 2;
        put_bin(p, b, p->o->sequence - bin->used);
    }
}

static enum hsp_status packing_init(struct packing *p, const struct hsp_pack_order *o,
                                    const struct hsp_corpus *c, const uint64_t *sample,
                                    struct hsp_arena *arena)
{
    size_t rooms = (size_t)o->sequence + 1, words = rooms / 64 + 1;
    *p = (struct packing){.o = o,
                          .item = hsp_arena_array(arena, o->n, sizeof(*p->item)),
                          .bin_of = hsp_arena_array(arena, o->n, sizeof(*p->bin_of)),
                          .col = hsp_arena_array(arena, o->n, sizeof(*p->col)),
                          .bin = hsp_arena_array(arena, o->n, sizeof(*p->bin)),
                          .head = hsp_arena_array(arena, rooms, sizeof(*p->head)),
                          .present = hsp_arena_array(arena, words, sizeof(*p->present))};
    if (!p->item || !p->bin_of || !p->col || !p->bin || !p->head || !p->present) {
        return HSP_ENOMEM;
    }
    memset(p->head, 0xff, rooms * sizeof(*p->head));
    for (uint32_t k = 0; k < o->n; k++) {
        p->item[k] = (struct item){hsp_sample_len(c, sample[k]), k};
        HSP_ASSERT(p->item[k].len <= o->sequence); /* the program was chosen by the longest */
    }
    qsort(p->item, o->n, sizeof(*p->item), by_length);
    return HSP_OK;
}

/* ---- dealing ---- */

struct rank { /* of a bin by cost */
    uint64_t pairs;
    uint32_t bin;
};

static int by_cost(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;
    if (x->pairs != y->pairs) {
        return x->pairs > y->pairs ? -1 : 1;
    }
    return x->bin < y->bin ? -1 : x->bin > y->bin;
}

static uint32_t reversed(uint32_t v, unsigned bits)
{
    uint32_t r = 0;
    for (unsigned i = 0; i < bits; i++) {
        r |= (v >> i & 1) << (bits - 1 - i);
    }
    return r;
}

/* ret[place] = bin, for all bins. */
static enum hsp_status order_bins(const struct packing *p, struct hsp_arena *arena, uint32_t **ret)
{
    struct rank *r = hsp_arena_array(arena, p->n_bins, sizeof(*r));
    uint32_t *order = hsp_arena_array(arena, p->n_bins, sizeof(*order)), n = 0;
    unsigned bits = 0;
    if (!r || !order) {
        return HSP_ENOMEM;
    }
    for (uint32_t b = 0; b < p->n_bins; b++) {
        r[b] = (struct rank){p->bin[b].pairs, b};
    }
    qsort(r, p->n_bins, sizeof(*r), by_cost);
    while ((UINT64_C(1) << bits) < p->n_bins) {
        bits++;
    }
    for (uint32_t i = 0; n < p->n_bins; i++) {
        uint32_t at = reversed(i, bits);
        if (at < p->n_bins) {
            order[n++] = r[at].bin;
        }
    }
    *ret = order;
    return HSP_OK;
}

/* How many micro-batches @n sequences make: as few as hold them, but enough for the pipeline. */
static uint32_t micros_of(const struct hsp_pack_order *o, uint32_t n)
{
    uint32_t m = o->bound == 0 ? 0 : (n + o->bound - 1) / o->bound;
    uint32_t want = o->n_stages > 1 ? PER_STAGE * o->n_stages : 1;
    want = want < n ? want : n;
    m = m > want ? m : want;
    return m < o->n_micro ? m : o->n_micro;
}

/* Where each bin's parts begin, in the order of this pipeline's sequences: first[n + 1]. */
static enum hsp_status list_parts(const struct packing *p, const struct hsp_corpus *c,
                                  const uint64_t *sample, const uint32_t *mine, uint32_t n,
                                  struct hsp_arena *arena, uint32_t **ret_first,
                                  struct hsp_passage **ret)
{
    uint32_t *at = hsp_arena_array(arena, p->n_bins, sizeof(*at));
    uint32_t *first = hsp_arena_array(arena, (size_t)n + 1, sizeof(*first));
    if (!at || !first) {
        return HSP_ENOMEM;
    }
    memset(at, 0xff, p->n_bins * sizeof(*at));
    for (uint32_t i = 0; i < n; i++) {
        at[mine[i]] = first[i];
        first[i + 1] = first[i] + p->bin[mine[i]].n;
    }
    struct hsp_passage *part = hsp_arena_array(arena, first[n], sizeof(*part));
    if (!part) {
        return HSP_ENOMEM;
    }
    for (uint32_t k = 0; k < p->o->n; k++) {
        uint32_t *to = &at[p->bin_of[k]];
        uint64_t s = sample[p->item[k].at];
        if (*to != NOBODY) {
            part[(*to)++] =
                (struct hsp_passage){.sample = s,
                                     .offset = c->start[s] & ~HSP_SAMPLE_HEAD,
                                     .len = p->item[k].len,
                                     .col = p->col[k],
                                     .goes_on = (c->start[s + 1] & HSP_SAMPLE_HEAD) == 0};
        }
    }
    *ret_first = first;
    *ret = part;
    return HSP_OK;
}

enum hsp_status hsp_pack_step(const struct hsp_pack_order *o, const struct hsp_corpus *c,
                              const uint64_t *sample, struct hsp_arena *arena,
                              struct hsp_sheet *ret)
{
    struct packing p;
    uint32_t *order = NULL, *first = NULL;
    struct hsp_passage *part = NULL;
    enum hsp_status st = packing_init(&p, o, c, sample, arena);
    if (st == HSP_OK) {
        fill_bins(&p);
        st = order_bins(&p, arena, &order);
    }
    if (st != HSP_OK) {
        return st;
    }
    /* at most n_seq, since there are no more sequences than samples */
    uint64_t lo = (uint64_t)p.n_bins * o->first / o->n;
    uint64_t hi = (uint64_t)p.n_bins * ((uint64_t)o->first + o->n_seq) / o->n;
    uint32_t n = (uint32_t)(hi - lo), m = micros_of(o, n), at = 0;
    st = list_parts(&p, c, sample, order + lo, n, arena, &first, &part);
    struct hsp_micro *micro = hsp_arena_array(arena, o->n_micro, sizeof(*micro));
    if (st != HSP_OK || !micro) {
        return HSP_ENOMEM;
    }
    for (uint32_t k = 0; k < o->n_micro; k++) {
        uint32_t size = k < m ? hsp_micro_size(n, m, k) : 0;
        micro[k] = (struct hsp_micro){.n_seq = size, .first = first + at, .part = part};
        at += size;
    }
    *ret = (struct hsp_sheet){.n_micro = o->n_micro, .micro = micro};
    return HSP_OK;
}
