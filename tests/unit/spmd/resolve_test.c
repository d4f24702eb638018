/* Resolution: moves of random pairs of covers, executed on small arrays, and the kinds chosen. */
#include <stdio.h>

#include "daemon/spmd/resolve.h"
#include "proto/base/buf.h"
#include "tests/lib/testlib.h"

enum { MAX_N = 9, MAX_ELEMENTS = 512 };

/* ---- executing moves ---- */

struct side {
    bool has[MAX_N];
    struct hsp_box box[MAX_N];
    uint32_t addend[MAX_N];
    double v[MAX_N][MAX_ELEMENTS]; /* by number in the whole tensor */
    bool set[MAX_N][MAX_ELEMENTS];
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
    struct side *in, *out;
    const int64_t *ext;
    const struct hsp_move *m;
    const struct hsp_cell *c;
};

static double read_element(const struct exec *x, uint32_t rank, int64_t e)
{
    const struct side *s = x->m->src == HSP_MOVE_FROM_OUT ? x->out : x->in;
    assert_true(s->set[rank][e]); /* a move reads only what the rank holds */
    return s->v[rank][e];
}

static void write_element(const struct exec *x, uint32_t rank, int64_t e, double v)
{
    assert_true(x->out->has[rank]);
    assert_false(x->out->set[rank][e]); /* each element is written once */
    x->out->v[rank][e] = v;
    x->out->set[rank][e] = true;
}

static void run_element(void *ctx, int64_t e)
{
    const struct exec *x = ctx;
    const uint32_t *ranks = x->m->ranks;
    double sum = 0;
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
    case HSP_MOVE_ALL_REDUCE:
    case HSP_MOVE_REDUCE_SCATTER:
        for (uint32_t i = 0; i < x->m->n_ranks; i++) {
            sum += read_element(x, ranks[i], e);
        }
        for (uint32_t i = 0; i < x->m->n_ranks; i++) {
            if (x->m->kind == HSP_MOVE_ALL_REDUCE || i == x->c->root) {
                write_element(x, ranks[i], e, sum);
            }
        }
        return;
    }
}

/* Runs the moves in order, from what hsp_moves_bind gives each rank too: same kinds, cells, order.
 */
static void run_moves(const struct hsp_moves *m, const int64_t *ext, struct side *in,
                      struct side *out)
{
    for (uint32_t i = 0; i < m->n; i++) {
        for (uint32_t k = 0; k < m->move[i].n_cells; k++) {
            struct exec x = {in, out, ext, &m->move[i], &m->move[i].cells[k]};
            each(&x.c->box, ext, run_element, &x);
        }
    }
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

static void set_element(void *ctx, int64_t e)
{
    ((bool *)ctx)[e] = true;
}

static void make_cover(struct hsp_cover *c, struct side *s, uint32_t n, uint8_t rank,
                       const int64_t *ext, uint32_t addends)
{
    hsp_cover_init(c, rank, ext);
    for (uint32_t r = 0; r < n; r++) {
        s->has[r] = pick(0, 4) > 0;
        if (!s->has[r]) {
            continue;
        }
        s->box[r] = random_box(rank, ext);
        s->addend[r] = (uint32_t)pick(0, addends - 1);
        assert_int_equal(hsp_cover_add(c, r, s->addend[r], &s->box[r]), HSP_OK);
    }
    hsp_cover_normalise(c);
}

struct fill {
    struct side *s;
    uint32_t rank;
};

static void fill_element(void *ctx, int64_t e)
{
    const struct fill *f = ctx;
    f->s->set[f->rank][e] = true;
    f->s->v[f->rank][e] =
        (double)hsp_test_range("value", f->s->addend[f->rank] * 1024 + (uint64_t)e, -99, 99);
}

/* The value at an element: the sum over the distinct addends that cover it. */
static double value_at(const struct side *s, uint32_t n, int64_t e)
{
    double v = 0;
    for (uint32_t r = 0; r < n; r++) {
        bool seen = !s->has[r] || !s->set[r][e];
        for (uint32_t k = 0; !seen && k < r; k++) {
            seen = s->has[k] && s->set[k][e] && s->addend[k] == s->addend[r];
        }
        v += seen ? 0 : s->v[r][e];
    }
    return v;
}

/* Whether somebody who adds to @e also receives it, for each element that is a sum. */
static bool feasible(const struct side *in, const struct side *out, bool (*want)[MAX_ELEMENTS],
                     uint32_t n, int64_t elements)
{
    for (int64_t e = 0; e < elements; e++) {
        bool several = false, received = false, both = false;
        uint32_t first = UINT32_MAX;
        for (uint32_t r = 0; r < n; r++) {
            bool holds = in->has[r] && in->set[r][e], wants = out->has[r] && want[r][e];
            if (holds && first == UINT32_MAX) {
                first = in->addend[r];
            }
            several = several || (holds && in->addend[r] != first);
            received = received || wants;
            both = both || (holds && wants);
        }
        if (several && received && !both) {
            return false;
        }
    }
    return true;
}

static void random_case(uint32_t seed, uint32_t *n_sums, uint32_t *n_refused)
{
    static struct side in, out;
    static bool want[MAX_N][MAX_ELEMENTS];
    draw = (uint64_t)seed << 20;
    uint8_t rank = (uint8_t)pick(0, 3);
    uint32_t n = (uint32_t)pick(1, MAX_N), channel = 7;
    int64_t ext[HSP_MAX_RANK] = {0}, elements = 1;
    for (uint8_t d = 0; d < rank; d++) {
        ext[d] = pick(1, 6);
        elements *= ext[d];
    }
    memset(&in, 0, sizeof in);
    memset(&out, 0, sizeof out);
    memset(want, 0, sizeof want);
    struct hsp_cover src, dst;
    make_cover(&src, &in, n, rank, ext, (uint32_t)pick(1, 4));
    make_cover(&dst, &out, n, rank, ext, 1);
    for (uint32_t r = 0; r < n; r++) {
        struct fill f = {&in, r};
        if (in.has[r]) {
            each(&in.box[r], ext, fill_element, &f);
        }
        if (out.has[r]) {
            each(&out.box[r], ext, set_element, want[r]);
        }
    }
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    struct hsp_moves m = {0};
    struct hsp_err err = {0};
    struct hsp_resolve_opts opts = {.owner_bytes = pick(0, 1) == 1};
    enum hsp_status rc = hsp_resolve(&src, &dst, &opts, &channel, arena, &m, &err);
    if (!feasible(&in, &out, want, n, elements)) {
        assert_status(rc, HSP_EINFEASIBLE);
        (*n_refused)++;
    } else {
        assert_ok(rc, &err);
        assert_int_equal(channel, 7 + m.n);
        run_moves(&m, ext, &in, &out);
        for (uint32_t r = 0; r < n; r++) {
            bool zero = false;
            for (uint32_t k = 0; k < m.n_zero; k++) {
                zero = zero || m.zero[k] == r;
            }
            for (int64_t e = 0; e < elements; e++) {
                double v = value_at(&in, n, e);
                assert_true(want[r][e] || !out.set[r][e]);
                assert_true(!want[r][e] || out.set[r][e] || zero);
                assert_true(!want[r][e] || out.v[r][e] == v);
            }
        }
        for (uint32_t k = 0; k < m.n; k++) {
            *n_sums += m.move[k].kind == HSP_MOVE_ALL_REDUCE ? 1 : 0;
        }
    }
    hsp_cover_fini(&src);
    hsp_cover_fini(&dst);
    hsp_arena_free(arena);
}

static void test_random(void **state)
{
    (void)state;
    uint32_t sums = 0, refused = 0;
    for (uint32_t i = 0; i < 3000; i++) {
        random_case(i, &sums, &refused);
    }
    assert_true(sums > 100); /* the draw reaches the interesting cases */
    assert_true(refused > 10);
    assert_true(refused < 2000);
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

static void expect(const struct held *from, size_t n_from, const struct held *to, size_t n_to,
                   const char *text)
{
    expect_with(NULL, from, n_from, to, n_to, text);
}

#define LEN(a) (sizeof(a) / sizeof((a)[0]))
#define WHOLE  0, EXTENT

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

/* Copies that several ranks computed: all get the bytes of one. */
static void test_owner_bytes(void **state)
{
    (void)state;
    const struct held dup[] = {{0, 0, WHOLE}, {1, 0, WHOLE}, {2, 0, 4, 8}};
    struct hsp_resolve_opts opts = {.owner_bytes = true};
    expect_with(&opts, dup, LEN(dup), dup, LEN(dup),
                "copy {0} [0:4,0:2] [8:12,0:2] [4:8,0:2]\n"
                "p2p {0,1,2} [0:4,0:2] 0->1 [8:12,0:2] 0->1 [4:8,0:2] 0->1 [4:8,0:2] 0->2\n");
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

/* A binding holds exactly what its rank takes part in; the batch dim ends where the micro-batch
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
    assert_false(hsp_moves_local(&m));
    hsp_cover_fini(&src);
    hsp_cover_fini(&dst);
    hsp_arena_free(arena);
}

static void test_refusals(void **state)
{
    (void)state;
    const struct held twice[] = {{0, 0, 0, 3}, {0, 0, 6, 9}};
    const struct held one[] = {{0, 0, WHOLE}};
    const struct held sum[] = {{0, 0, WHOLE}, {1, 1, WHOLE}};
    const struct held far[] = {{2, 0, WHOLE}};
    struct hsp_cover a, b, c, d;
    struct hsp_moves m = {0};
    struct hsp_err err = {0};
    uint32_t channel = 0;
    struct hsp_arena *arena = hsp_arena_new((size_t)1 << 20);
    cover_of(&a, twice, LEN(twice));
    cover_of(&b, one, LEN(one));
    cover_of(&c, sum, LEN(sum));
    cover_of(&d, far, LEN(far));
    assert_status(hsp_resolve(&a, &b, NULL, &channel, arena, &m, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "rank 0 holds two boxes");
    assert_status(hsp_resolve(&c, &d, NULL, &channel, arena, &m, &err), HSP_EINFEASIBLE);
    b.extent[0] = 3;
    assert_status(hsp_resolve(&c, &b, NULL, &channel, arena, &m, &err), HSP_EINVAL);
    assert_int_equal(channel, 0);
    hsp_cover_fini(&a);
    hsp_cover_fini(&b);
    hsp_cover_fini(&c);
    hsp_cover_fini(&d);
    hsp_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),         cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_wider),          cmocka_unit_test(test_owner_bytes),
        cmocka_unit_test(test_hspmd_quarters), cmocka_unit_test(test_bind),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
