/* Tests resolution: moves of random pairs of covers, executed on small arrays, and the kinds
 * chosen. */
#include <stdio.h>

#include "daemon/spmd/reshard/move_list.h"
#include "daemon/spmd/reshard/resolve.h"
#include "proto/base/buf.h"
#include "proto/layout/box.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/spmd/move_text.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { MAX_N = 9, MAX_ITEMS = 3, MAX_ELEMENTS = 512 };

/* ---- executing moves ---- */

/* The inputs, or the output, of each rank. */
struct side {
    uint32_t n[MAX_N];
    struct hsp_held item[MAX_N][MAX_ITEMS];
    double v[MAX_N][MAX_ITEMS][MAX_ELEMENTS]; /* by number in the whole tensor */
    bool set[MAX_N][MAX_ITEMS][MAX_ELEMENTS];
};

static int64_t number(const int64_t *ext, uint8_t rank, const int64_t *at)
{
    int64_t n = 0;
    for (uint8_t d = 0; d < rank; d++) {
        n = n * ext[d] + at[d];
    }
    return n;
}

/* Next index inside the box; false at the end. */
static bool next(const struct hsp_box *b, int64_t *at)
{
    for (uint8_t d = b->rank; d-- > 0;) {
        if (++at[d] < b->hi[d]) {
            return true;
        }
        at[d] = b->lo[d];
    }
    return false;
}

typedef void (*each_fn)(void *ctx, int64_t element);

static void each(const struct hsp_box *b, const int64_t *ext, each_fn fn, void *ctx)
{
    int64_t at[HSP_MAX_RANK] = {0};
    if (hsp_box_empty(b)) {
        return;
    }
    memcpy(at, b->lo, sizeof at);
    do {
        fn(ctx, number(ext, b->rank, at));
    } while (next(b, at));
}

struct exec {
    const struct hsp_reshard_bind *bind; /* [rank] */
    struct side *in, *out;
    const int64_t *ext;
    const struct hsp_move *m;
    const struct hsp_cell *c;
};

/* The move as rank @rank executes it. */
static const struct hsp_move *bound(const struct exec *x, uint32_t rank)
{
    const struct hsp_reshard_bind *b = &x->bind[rank];
    for (uint32_t i = 0; i < b->n_moves; i++) {
        if (b->moves[i].channel == x->m->channel) {
            return &b->moves[i];
        }
    }
    fail_msg("rank %u has no part in channel %u", rank, x->m->channel);
    return NULL;
}

/* The sum of @v and the value there, or the maximum. */
static double joined(uint8_t reduce, bool any, double there, double v)
{
    return !any ? v : reduce == HSP_REDUCE_MAX ? (v > there ? v : there) : there + v;
}

/* As the executor reads: one input, the output, or the sum of the inputs that hold the element. */
static double read_element(const struct exec *x, uint32_t rank, int64_t e)
{
    const struct hsp_move *m = bound(x, rank);
    uint8_t src = m->src;
    double v = 0;
    if (src == HSP_MOVE_FROM_OUT) {
        assert_true(x->out->set[rank][0][e]); /* a move reads only values that the rank holds */
        return x->out->v[rank][0][e];
    }
    if (src != HSP_MOVE_SUM) {
        assert_true(src < x->in->n[rank] && x->in->set[rank][src][e]);
        return x->in->v[rank][src][e];
    }
    bool any = false;
    for (uint32_t k = 0; k < x->in->n[rank]; k++) {
        bool set = x->in->set[rank][k][e];
        v = set ? joined(m->reduce, any, v, x->in->v[rank][k][e]) : v;
        any = any || set;
    }
    assert_true(any);
    return v;
}

/* Each element is written once, or again with the same sum (groups side by side). */
static void write_element(const struct exec *x, uint32_t rank, int64_t e, double v)
{
    assert_true(x->out->n[rank] > 0);
    assert_true(!x->out->set[rank][0][e] ||
                (x->m->kind == HSP_MOVE_ALL_REDUCE && x->out->v[rank][0][e] == v));
    x->out->v[rank][0][e] = v;
    x->out->set[rank][0][e] = true;
}

static double sum_element(const struct exec *x, int64_t e, uint32_t but)
{
    double sum = 0;
    bool any = false;
    for (uint32_t i = 0; i < x->m->n_ranks; i++) {
        if (i != but) {
            uint8_t reduce = bound(x, x->m->ranks[i])->reduce;
            sum = joined(reduce, any, sum, read_element(x, x->m->ranks[i], e));
            any = true;
        }
    }
    return sum;
}

static void run_element(void *ctx, int64_t e)
{
    const struct exec *x = ctx;
    const uint32_t *ranks = x->m->ranks;
    switch ((enum hsp_move_kind)x->m->kind) {
    case HSP_MOVE_COPY: write_element(x, ranks[0], e, read_element(x, ranks[0], e)); return;
    case HSP_MOVE_P2P:
        write_element(x, ranks[x->c->peer], e, read_element(x, ranks[x->c->root], e));
        return;
    case HSP_MOVE_ALL_GATHER:
        for (uint32_t i = 0; i < x->m->n_ranks; i++) {
            write_element(x, ranks[i], e, read_element(x, ranks[x->c->root], e));
        }
        return;
    case HSP_MOVE_REDUCE_SCATTER:
        write_element(x, ranks[x->c->root], e, sum_element(x, e, UINT32_MAX));
        return;
    case HSP_MOVE_REDUCE_SEND:
        assert_true(x->c->root != x->c->peer);
        write_element(x, ranks[x->c->peer], e, sum_element(x, e, x->c->peer));
        return;
    case HSP_MOVE_ALL_REDUCE: {
        double sum = sum_element(x, e, UINT32_MAX);
        for (uint32_t i = 0; i < x->m->n_ranks; i++) {
            write_element(x, ranks[i], e, sum);
        }
        return;
    }
    }
}

/* Runs the moves in order, each rank from the source that its binding names. */
static void run_moves(const struct hsp_moves *m, const int64_t *ext, struct side *in,
                      struct side *out)
{
    struct hsp_reshard_bind bind[MAX_N];
    struct hsp_err err = {0};
    struct hsp_arena *arena = hsp_arena_new((size_t)16 << 20);
    for (uint32_t r = 0; r < MAX_N; r++) {
        assert_ok(hsp_moves_bind(m, r, false, arena, &bind[r], &err), &err);
    }
    for (uint32_t i = 0; i < m->n; i++) {
        for (uint32_t k = 0; k < m->move[i].n_cells; k++) {
            struct exec x = {bind, in, out, ext, &m->move[i], &m->move[i].cells[k]};
            each(&x.c->box, ext, run_element, &x);
        }
    }
    hsp_arena_free(arena);
}

/* ---- covers ---- */

static uint64_t draw;

static int64_t pick(int64_t lo, int64_t hi)
{
    return hsp_test_range("resolve", draw++, lo, hi);
}

static struct hsp_box random_box(uint8_t rank, const int64_t *ext)
{
    struct hsp_box b = {.rank = rank};
    for (uint8_t d = 0; d < rank; d++) {
        int64_t x = pick(0, ext[d]), y = pick(0, ext[d]);
        bool whole = pick(0, 2) == 0;
        b.lo[d] = whole ? 0 : x < y ? x : y;
        b.hi[d] = whole ? ext[d] : x < y ? y : x;
    }
    return b;
}

struct mark {
    struct side *s;
    uint32_t rank, item;
    bool fill;
};

static double addend_value(uint32_t addend, int64_t e)
{
    return (double)hsp_test_range("value", (uint64_t)addend * 1024 + (uint64_t)e, -99, 99);
}

static void mark_element(void *ctx, int64_t e)
{
    const struct mark *f = ctx;
    f->s->set[f->rank][f->item][e] = true;
    f->s->v[f->rank][f->item][e] =
        f->fill ? addend_value(f->s->item[f->rank][f->item].addend, e) : 0;
}

/* The items of the cover on each rank, in their order: its inputs. */
static void read_cover(const struct hsp_cover *c, struct side *s, bool fill)
{
    memset(s, 0, sizeof *s);
    for (uint32_t i = 0; i < c->n; i++) {
        struct mark f = {s, c->items[i].rank, s->n[c->items[i].rank]++, fill};
        s->item[f.rank][f.item] = c->items[i];
        each(&c->items[i].box, c->extent, mark_element, &f);
    }
}

static void make_cover(struct hsp_cover *c, uint32_t n, uint8_t rank, const int64_t *ext,
                       uint32_t addends, uint32_t items)
{
    hsp_cover_init(c, rank, ext);
    c->reduce = pick(0, 2) == 0 ? HSP_REDUCE_MAX : HSP_REDUCE_SUM;
    for (uint32_t r = 0; r < n; r++) {
        uint32_t k = pick(0, 4) > 0 ? (uint32_t)pick(1, items) : 0;
        for (uint32_t i = 0; i < k; i++) {
            struct hsp_box b = random_box(rank, ext);
            uint32_t addend = (uint32_t)pick(0, addends - 1);
            assert_int_equal(hsp_cover_add(c, r, addend, &b), HSP_OK);
        }
    }
    hsp_cover_normalise(c);
}

/* The value at an element: the sum, or maximum, over the distinct addends that cover it. */
static double value_at(const struct side *s, uint8_t reduce, int64_t e)
{
    double v = 0;
    uint32_t seen[MAX_N * MAX_ITEMS], n = 0;
    for (uint32_t r = 0; r < MAX_N; r++) {
        for (uint32_t i = 0; i < s->n[r]; i++) {
            bool known = !s->set[r][i][e];
            for (uint32_t k = 0; !known && k < n; k++) {
                known = seen[k] == s->item[r][i].addend;
            }
            if (!known) {
                v = joined(reduce, n > 0, v, s->v[r][i][e]);
                seen[n++] = s->item[r][i].addend;
            }
        }
    }
    return v;
}

/* Every receiver has the value; of a partial target, every addend is the same on all its ranks. */
static void check_element(const struct side *in, const struct side *want, const struct side *out,
                          int64_t e, bool partial, const uint8_t *reduce)
{
    double sum = value_at(in, reduce[0], e);
    for (uint32_t r = 0; r < MAX_N; r++) {
        bool wanted = want->n[r] > 0 && want->set[r][0][e];
        assert_true(wanted || !out->set[r][0][e]);
        assert_true(!wanted || partial || out->v[r][0][e] == sum);
        for (uint32_t k = 0; wanted && partial && k < r; k++) {
            bool equal = want->n[k] > 0 && want->set[k][0][e] &&
                         want->item[k][0].addend == want->item[r][0].addend;
            assert_true(!equal || out->v[k][0][e] == out->v[r][0][e]);
        }
    }
    bool any = false;
    double total = 0;
    for (uint32_t r = 0; partial && r < MAX_N; r++) {
        bool first = want->n[r] > 0 && want->set[r][0][e];
        for (uint32_t k = 0; first && k < r; k++) {
            first = want->n[k] == 0 || !want->set[k][0][e] ||
                    want->item[k][0].addend != want->item[r][0].addend;
        }
        total = first ? joined(reduce[1], any, total, out->v[r][0][e]) : total;
        any = any || first;
    }
    assert_true(!any || total == sum);
}

static struct hsp_link_cost pair_cost(const void *ctx, uint32_t from, uint32_t to)
{
    (void)ctx; /* two nodes of unlike size */
    return (struct hsp_link_cost){10, from / 4 == to / 4 ? 0.1 : 1};
}

struct tally {
    uint32_t kind[HSP_MOVE_REDUCE_SEND + 1], max[HSP_MOVE_REDUCE_SEND + 1], refused, several;
};

static void one_layer(const struct hsp_cover *src, const struct hsp_cover *dst,
                      const struct hsp_resolve_opts *opts, struct tally *t)
{
    static struct side in, want, out;
    uint32_t channel = 7;
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    struct hsp_moves m = {0};
    struct hsp_err err = {0};
    int64_t elements = 1;
    for (uint8_t d = 0; d < src->rank; d++) {
        elements *= src->extent[d];
    }
    read_cover(src, &in, true);
    read_cover(dst, &want, false);
    read_cover(dst, &out, false);
    memset(out.set, 0, sizeof out.set);
    enum hsp_status rc = hsp_resolve(src, dst, opts, &channel, arena, &m, &err);
    t->several += m.n_inputs;
    if (rc == HSP_EUNSUPPORTED) {
        t->refused++;
    } else {
        assert_ok(rc, &err);
        assert_int_equal(channel, 7 + m.n);
        run_moves(&m, src->extent, &in, &out);
        for (int64_t e = 0; e < elements; e++) {
            check_element(&in, &want, &out, e, opts->partial_target,
                          (uint8_t[]){src->reduce, dst->reduce});
        }
    }
    for (uint32_t r = 0; rc == HSP_OK && r < MAX_N; r++) { /* unwritten values must read 0 */
        bool zero = false;
        for (uint32_t k = 0; k < m.n_zero; k++) {
            zero = zero || m.zero[k] == r;
        }
        for (int64_t e = 0; e < elements; e++) {
            assert_true(want.n[r] == 0 || !want.set[r][0][e] || out.set[r][0][e] || zero);
        }
    }
    for (uint32_t k = 0; rc == HSP_OK && k < m.n; k++) {
        t->kind[m.move[k].kind]++;
        t->max[m.move[k].kind] += m.move[k].reduce == HSP_REDUCE_MAX ? 1 : 0;
    }
    hsp_arena_free(arena);
}

/* The most boxes any rank has in @c, which is normalised. */
static uint32_t n_layers(const struct hsp_cover *c)
{
    uint32_t most = 0;
    for (uint32_t i = 0, n = 0; i < c->n; i++) {
        n = i > 0 && c->items[i].rank == c->items[i - 1].rank ? n + 1 : 1;
        most = n > most ? n : most;
    }
    return most;
}

/* The @k-th box of every rank that has so many, as a cover of its own. */
static void layer_of(const struct hsp_cover *c, uint32_t k, struct hsp_cover *ret)
{
    hsp_cover_init(ret, c->rank, c->extent);
    ret->reduce = c->reduce;
    for (uint32_t i = 0, n = 0; i < c->n; i++) {
        const struct hsp_held *h = &c->items[i];
        n = i > 0 && h->rank == c->items[i - 1].rank ? n + 1 : 0;
        if (n == k) {
            assert_status(hsp_cover_add(ret, h->rank, h->addend, &h->box), HSP_OK);
        }
    }
}

static void random_case(uint32_t seed, struct tally *t)
{
    draw = (uint64_t)seed << 20;
    uint8_t rank = (uint8_t)pick(0, 3);
    uint32_t n = (uint32_t)pick(1, MAX_N);
    int64_t ext[HSP_MAX_RANK] = {0};
    for (uint8_t d = 0; d < rank; d++) {
        ext[d] = pick(1, 6);
    }
    struct hsp_cover src, dst, layer;
    struct hsp_rank_links links = {.between = pair_cost};
    struct hsp_resolve_opts opts = {.owner_bytes = pick(0, 1) == 1,
                                    .partial_target = pick(0, 2) == 0,
                                    .links = pick(0, 1) == 1 ? &links : NULL};
    make_cover(&src, n, rank, ext, (uint32_t)pick(1, 4), pick(0, 1) == 0 ? 1 : MAX_ITEMS);
    make_cover(&dst, n, rank, ext, opts.partial_target ? 3 : 1, pick(0, 1) == 0 ? 1 : MAX_ITEMS);
    for (uint32_t k = 0; k < n_layers(&dst); k++) {
        layer_of(&dst, k, &layer);
        one_layer(&src, &layer, &opts, t);
        hsp_cover_fini(&layer);
    }
    hsp_cover_fini(&src);
    hsp_cover_fini(&dst);
}

static void test_random(void **state)
{
    (void)state;
    struct tally t = {0};
    for (uint32_t i = 0; i < 4000; i++) {
        random_case(i, &t);
    }
    for (uint32_t k = 0; k < LEN(t.kind); k++) {
        assert_true(t.kind[k] > 100); /* the draw reaches every kind */
        assert_true(t.max[k] > 30);
    }
    assert_true(t.several > 1000);
    assert_true(t.refused > 0 && t.refused < 1000);
}

/* ---- kinds ---- */

struct held {
    uint32_t rank, addend;
    int64_t lo, hi; /* of the first dim; the second is whole */
};

#define EXTENT 12

static void cover_of(struct hsp_cover *c, const struct held *h, size_t n)
{
    int64_t ext[HSP_MAX_RANK] = {EXTENT, 2};
    hsp_cover_init(c, 2, ext);
    for (size_t i = 0; i < n; i++) {
        struct hsp_box b = {.rank = 2, .lo = {h[i].lo, 0}, .hi = {h[i].hi, 2}};
        assert_int_equal(hsp_cover_add(c, h[i].rank, h[i].addend, &b), HSP_OK);
    }
    hsp_cover_normalise(c);
}

static uint8_t from_reduce = HSP_REDUCE_SUM; /* of the source in expect_with */

static void expect_with(const struct hsp_resolve_opts *opts, const struct held *from, size_t n_from,
                        const struct held *to, size_t n_to, const char *text)
{
    struct hsp_cover src, dst;
    struct hsp_moves m = {0};
    struct hsp_err err = {0};
    struct hsp_buf b;
    uint32_t channel = 0;
    struct hsp_arena *arena = hsp_arena_new((size_t)1 << 20);
    cover_of(&src, from, n_from);
    src.reduce = from_reduce;
    cover_of(&dst, to, n_to);
    hsp_buf_init(&b, 1 << 16);
    assert_ok(hsp_resolve(&src, &dst, opts, &channel, arena, &m, &err), &err);
    hsp_moves_dump(&m, &b);
    assert_string_equal(hsp_buf_cstr(&b), text);
    hsp_buf_fini(&b);
    hsp_cover_fini(&src);
    hsp_cover_fini(&dst);
    hsp_arena_free(arena);
}

/* The same for a source whose addends make a maximum. */
static void expect_max(const struct held *from, size_t n_from, const struct held *to, size_t n_to,
                       const char *text)
{
    from_reduce = HSP_REDUCE_MAX;
    expect_with(NULL, from, n_from, to, n_to, text);
    from_reduce = HSP_REDUCE_SUM;
}

static void expect(const struct held *from, size_t n_from, const struct held *to, size_t n_to,
                   const char *text)
{
    expect_with(NULL, from, n_from, to, n_to, text);
}

#define WHOLE 0, EXTENT

static void test_kinds(void **state)
{
    (void)state;
    const struct held partial[] = {{0, 0, WHOLE}, {1, 1, WHOLE}, {2, 2, WHOLE}};
    const struct held dup[] = {{0, 0, WHOLE}, {1, 0, WHOLE}, {2, 0, WHOLE}};
    const struct held split[] = {{0, 0, 0, 3}, {1, 0, 3, 4}, {2, 0, 4, EXTENT}};
    const struct held one[] = {{1, 1, WHOLE}};
    const struct held other[] = {{3, 0, WHOLE}};
    const struct held empty[] = {{0, 0, 0, 12}, {1, 0, 12, 12}};
    expect(dup, LEN(dup), dup, LEN(dup),
           "copy {0} [0:12,0:2]\ncopy {1} [0:12,0:2]\ncopy {2} [0:12,0:2]\n");
    expect(partial, LEN(partial), dup, LEN(dup), "all_reduce {0,1,2} [0:12,0:2]\n");
    expect(partial, LEN(partial), split, LEN(split),
           "reduce_scatter {0,1,2} [0:3,0:2] @0 [3:4,0:2] @1 [4:12,0:2] @2\n");
    expect(split, LEN(split), dup, LEN(dup),
           "all_gather {0,1,2} [0:3,0:2] @0 [3:4,0:2] @1 [4:12,0:2] @2\n");
    expect(partial, LEN(partial), one, LEN(one), "reduce_scatter {0,1,2} [0:12,0:2] @1\n");
    expect(one, LEN(one), other, LEN(other), "p2p {1,3} [0:12,0:2] 1->3\n");
    expect(dup, LEN(dup), split, LEN(split),
           "copy {0} [0:3,0:2]\ncopy {1} [3:4,0:2]\ncopy {2} [4:12,0:2]\n");
    expect(empty, LEN(empty), split, LEN(split),
           "copy {0} [0:3,0:2]\np2p {0,1,2} [3:4,0:2] 0->1 [4:12,0:2] 0->2\n");
}

/* The sum goes to more ranks than added: the group all-reduces, the rest gets the sum. Senders are
 * spread. */
static void test_wider(void **state)
{
    (void)state;
    const struct held two[] = {{0, 0, WHOLE}, {1, 1, WHOLE}};
    const struct held four[] = {{0, 0, WHOLE}, {1, 0, WHOLE}, {2, 0, WHOLE}, {3, 0, WHOLE}};
    const struct held last[] = {{1, 0, WHOLE}, {3, 0, WHOLE}};
    expect(two, LEN(two), four, LEN(four),
           "all_reduce {0,1} [0:12,0:2]\np2p of sums {0,1,2,3} [0:12,0:2] 0->2 [0:12,0:2] 1->3\n");
    expect(two, LEN(two), last, LEN(last),
           "reduce_scatter {0,1} [0:12,0:2] @1\np2p of sums {1,3} [0:12,0:2] 1->3\n");
}

/* Maxima go the ways of sums. */
static void test_maxima(void **state)
{
    (void)state;
    const struct held partial[] = {{0, 0, WHOLE}, {1, 1, WHOLE}, {2, 2, WHOLE}};
    const struct held dup[] = {{0, 0, WHOLE}, {1, 0, WHOLE}, {2, 0, WHOLE}, {3, 0, WHOLE}};
    const struct held split[] = {{0, 0, 0, 3}, {1, 0, 3, 4}, {2, 0, 4, EXTENT}};
    const struct held other[] = {{3, 0, WHOLE}};
    const struct held two[] = {{0, 0, WHOLE}, {1, 1, WHOLE}, {2, 0, WHOLE}, {3, 1, WHOLE}};
    expect_max(partial, LEN(partial), dup, 3, "all_reduce by max {0,1,2} [0:12,0:2]\n");
    expect_max(partial, LEN(partial), split, LEN(split),
               "reduce_scatter by max {0,1,2} [0:3,0:2] @0 [3:4,0:2] @1 [4:12,0:2] @2\n");
    expect_max(partial, LEN(partial), other, 1, "reduce_send by max {0,1,2,3} [0:12,0:2] 0->3\n");
    expect_max(two, LEN(two), dup, LEN(dup),
               "all_reduce by max {0,1} [0:12,0:2]\nall_reduce by max {2,3} [0:12,0:2]\n");
    expect_max(partial, LEN(partial), dup, LEN(dup),
               "all_reduce by max {0,1,2} [0:12,0:2]\np2p of maxima {0,3} [0:12,0:2] 0->3\n");
    expect_max(dup, LEN(dup), dup, LEN(dup),
               "copy {0} [0:12,0:2]\ncopy {1} [0:12,0:2]\ncopy {2} [0:12,0:2]\n"
               "copy {3} [0:12,0:2]\n");
}

/* Copies that several ranks computed: all get the bytes of one. */
static void test_owner_bytes(void **state)
{
    (void)state;
    const struct held dup[] = {{0, 0, WHOLE}, {1, 0, WHOLE}, {2, 0, 4, 8}};
    struct hsp_resolve_opts opts = {.owner_bytes = true};
    expect_with(&opts, dup, LEN(dup), dup, LEN(dup),
                "copy {0} [0:4,0:2] [4:8,0:2] [8:12,0:2]\n"
                "p2p {0,1,2} [0:4,0:2] 0->1 [4:8,0:2] 0->1 [4:8,0:2] 0->2 [8:12,0:2] 0->1\n");
}

/* Gradient synchronisation of unequal tensor parallelism (HSPMD, C2: TP4 against TP2 and TP1): one
 * group per quarter. */
static void test_hspmd_quarters(void **state)
{
    (void)state;
    const struct held tp4_tp2[] = {{0, 0, 0, 3},  {1, 0, 3, 6}, {2, 0, 6, 9},
                                   {3, 0, 9, 12}, {4, 4, 0, 6}, {5, 4, 6, 12}};
    const struct held tp4_tp1[] = {
        {0, 0, 0, 3}, {1, 0, 3, 6}, {2, 0, 6, 9}, {3, 0, 9, 12}, {4, 4, WHOLE}};
    const struct held tp4_tp4[] = {{0, 0, 0, 3}, {1, 0, 3, 6}, {2, 0, 6, 9}, {3, 0, 9, 12},
                                   {4, 4, 0, 3}, {5, 4, 3, 6}, {6, 4, 6, 9}, {7, 4, 9, 12}};
    expect(tp4_tp2, LEN(tp4_tp2), tp4_tp2, LEN(tp4_tp2),
           "all_reduce {0,4} [0:3,0:2]\nall_reduce {1,4} [3:6,0:2]\n"
           "all_reduce {2,5} [6:9,0:2]\nall_reduce {3,5} [9:12,0:2]\n");
    expect(tp4_tp1, LEN(tp4_tp1), tp4_tp1, LEN(tp4_tp1),
           "all_reduce {0,4} [0:3,0:2]\nall_reduce {1,4} [3:6,0:2]\n"
           "all_reduce {2,4} [6:9,0:2]\nall_reduce {3,4} [9:12,0:2]\n");
    expect(tp4_tp4, LEN(tp4_tp4), tp4_tp4, LEN(tp4_tp4),
           "all_reduce {0,4} [0:3,0:2]\nall_reduce {1,5} [3:6,0:2]\n"
           "all_reduce {2,6} [6:9,0:2]\nall_reduce {3,7} [9:12,0:2]\n");
}

/* A binding holds exactly the moves of its rank; the batch dim ends where the micro-batch
 * ends. */
static void test_bind(void **state)
{
    (void)state;
    const struct held from[] = {{0, 0, WHOLE}};
    const struct held to[] = {{1, 0, WHOLE}, {2, 0, WHOLE}};
    struct hsp_cover src, dst;
    struct hsp_moves m = {0};
    struct hsp_reshard_bind b[4];
    struct hsp_err err = {0};
    uint32_t channel = 3;
    struct hsp_arena *arena = hsp_arena_new((size_t)1 << 20);
    cover_of(&src, from, LEN(from));
    cover_of(&dst, to, LEN(to));
    assert_ok(hsp_resolve(&src, &dst, NULL, &channel, arena, &m, &err), &err);
    for (uint32_t r = 0; r < 4; r++) {
        assert_ok(hsp_moves_bind(&m, r, true, arena, &b[r], &err), &err);
    }
    assert_int_equal(b[0].moves[0].n_cells, 2);
    assert_int_equal(b[1].moves[0].n_cells, 1);
    assert_int_equal(b[1].moves[0].channel, 3);
    assert_int_equal(b[1].moves[0].ranks[b[1].moves[0].cells[0].peer], 1);
    assert_true(b[1].moves[0].cells[0].box.hi[0] == HSP_TO_END);
    assert_int_equal(b[3].n_moves, 0);
    assert_false(b[1].zero_first);
    hsp_cover_fini(&src);
    hsp_cover_fini(&dst);
    hsp_arena_free(arena);
}

static void test_refusals(void **state)
{
    (void)state;
    const struct held twice[] = {{0, 0, 0, 3}, {0, 0, 2, 9}};
    const struct held one[] = {{0, 0, WHOLE}};
    const struct held sum[] = {{0, 0, WHOLE}, {1, 1, WHOLE}};
    struct hsp_cover a, b, c;
    struct hsp_moves m = {0};
    struct hsp_err err = {0};
    uint32_t channel = 0;
    struct hsp_arena *arena = hsp_arena_new((size_t)1 << 20);
    cover_of(&a, twice, LEN(twice));
    cover_of(&b, one, LEN(one));
    cover_of(&c, sum, LEN(sum));
    assert_status(hsp_resolve(&b, &a, NULL, &channel, arena, &m, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "rank 0 receives two boxes that overlap");
    b.extent[0] = 3;
    assert_status(hsp_resolve(&c, &b, NULL, &channel, arena, &m, &err), HSP_EINVAL);
    assert_int_equal(channel, 0);
    hsp_cover_fini(&a);
    hsp_cover_fini(&b);
    hsp_cover_fini(&c);
    hsp_arena_free(arena);
}

HSP_TEST_FILE(resolve_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),      cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_wider),       cmocka_unit_test(test_maxima),
        cmocka_unit_test(test_owner_bytes), cmocka_unit_test(test_hspmd_quarters),
        cmocka_unit_test(test_bind),        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
