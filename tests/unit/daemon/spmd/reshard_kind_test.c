/* Tests names, groups and costs of Reshards: the vectors of HSPMD 3.1 to 3.6 on covers, and rules
 * for any pair of covers. */
#include <math.h>

#include "daemon/spmd/reshard/move_list.h"
#include "daemon/spmd/reshard/reshard_cost.h"
#include "daemon/spmd/reshard/reshard_kind.h"
#include "daemon/spmd/reshard/reshard_kind_text.h"
#include "proto/base/buf.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/spmd/move_text.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))
#define EXTENT 12
#define WIDTH  4
#define WHOLE  0, EXTENT
#define ALL    0, WIDTH

struct held {
    uint32_t rank, addend;
    int64_t lo, hi;   /* of the first dim */
    int64_t from, to; /* of the second */
};

static void cover_of(struct hsp_cover *c, const struct held *h, size_t n)
{
    int64_t ext[HSP_MAX_RANK] = {EXTENT, WIDTH};
    hsp_cover_init(c, 2, ext);
    for (size_t i = 0; i < n; i++) {
        struct hsp_box b = {.rank = 2, .lo = {h[i].lo, h[i].from}, .hi = {h[i].hi, h[i].to}};
        assert_int_equal(hsp_cover_add(c, h[i].rank, h[i].addend, &b), HSP_OK);
    }
    hsp_cover_normalise(c);
}

struct pair {
    struct hsp_cover src, dst;
    struct hsp_arena *arena;
    struct hsp_buf text;
};

static void make_pair(struct pair *p, const struct held *from, size_t n_from, const struct held *to,
                      size_t n_to)
{
    cover_of(&p->src, from, n_from);
    cover_of(&p->dst, to, n_to);
    p->arena = hsp_arena_new((size_t)16 << 20);
    hsp_buf_init(&p->text, 1 << 16);
}

static void free_pair(struct pair *p)
{
    hsp_cover_fini(&p->src);
    hsp_cover_fini(&p->dst);
    hsp_arena_free(p->arena);
    hsp_buf_fini(&p->text);
}

static void expect_as(bool partial_target, const struct held *from, size_t n_from,
                      const struct held *to, size_t n_to, const char *text)
{
    struct pair p;
    struct hsp_methods m;
    struct hsp_err err = {0};
    make_pair(&p, from, n_from, to, n_to);
    assert_ok(hsp_methods_find(&p.src, &p.dst, partial_target, p.arena, &m, &err), &err);
    hsp_methods_dump(&m, &p.text);
    assert_string_equal(hsp_buf_cstr(&p.text), text);
    free_pair(&p);
}

#define expect(from, to, text) expect_as(false, from, LEN(from), to, LEN(to), text)

static void expect_moves(const struct hsp_resolve_opts *opts, const struct held *from,
                         size_t n_from, const struct held *to, size_t n_to, const char *text)
{
    struct pair p;
    struct hsp_moves m = {0};
    struct hsp_err err = {0};
    uint32_t channel = 0;
    make_pair(&p, from, n_from, to, n_to);
    assert_ok(hsp_resolve(&p.src, &p.dst, opts, &channel, p.arena, &m, &err), &err);
    hsp_moves_dump(&m, &p.text);
    assert_string_equal(hsp_buf_cstr(&p.text), text);
    free_pair(&p);
}

/* ---- bottom tier: one group (3.1, 3.2) ---- */

static const struct held dup[] = {{0, 0, WHOLE, ALL}, {1, 0, WHOLE, ALL}};
static const struct held partial[] = {{0, 0, WHOLE, ALL}, {1, 1, WHOLE, ALL}};
static const struct held split[] = {{0, 0, 0, 5, ALL}, {1, 0, 5, 12, ALL}};
static const struct held columns[] = {{0, 0, WHOLE, 0, 1}, {1, 0, WHOLE, 1, 4}};

static void test_bottom(void **state)
{
    (void)state;
    const struct held backward[] = {{1, 0, 0, 5, ALL}, {0, 0, 5, 12, ALL}};
    const struct held other_dup[] = {{2, 0, WHOLE, ALL}, {3, 0, WHOLE, ALL}};
    const struct held other_split[] = {{7, 0, 0, 5, ALL}, {2, 0, 5, 12, ALL}};
    const struct held at_one[] = {{1, 0, WHOLE, ALL}};
    expect(dup, dup, "identity {0}\nidentity {1}\n");
    expect(split, split, "identity {0}\nidentity {1}\n");
    expect(dup, split, "slice {0}\nslice {1}\n");
    expect(dup, columns, "slice {0}\nslice {1}\n");
    expect(partial, dup, "all_reduce {0,1}: {0,1}\n");
    expect(partial, split, "reduce_scatter {0,1}: {0,1}\n");
    expect(partial, backward, "reduce_scatter {0,1}: {0,1}\n"); /* in any order */
    expect(partial, at_one, "reduce_scatter {0,1}: {0,1}\n");   /* the other shard is empty */
    expect(split, dup, "all_gather {0,1}: {0,1}\n");
    expect(backward, dup, "all_gather {0,1}: {1,0}\n");
    expect(at_one, dup, "all_gather {0,1}: {1}\n");
    expect(split, columns, "all_to_all {0,1}\n");
    expect(backward, columns, "all_to_all {0,1}\n");
    expect(split, backward, "bsr {0,1}\n");
    expect(dup, other_dup, "send_recv {0,2}\nsend_recv {1,3}\n");
    expect(split, other_split, "send_recv {0,7}\nsend_recv {1,2}\n");
    expect(dup, other_split, "bsr {0,2,7}\n");
    expect(split, other_dup, "bsr {0,1,2,3}\n");
}

/* Partial values: where the digest refuses them, sums are made and go further; as a target they are
 * free. */
static void test_partial(void **state)
{
    (void)state;
    const struct held wider[] = {{0, 0, WHOLE, ALL}, {1, 0, WHOLE, ALL}, {2, 0, WHOLE, ALL}};
    const struct held far[] = {{4, 0, WHOLE, ALL}};
    const struct held far_two[] = {{4, 0, WHOLE, ALL}, {5, 0, WHOLE, ALL}};
    const struct held one_more[] = {{0, 0, WHOLE, ALL}, {4, 0, WHOLE, ALL}};
    const struct held moved[] = {{4, 4, WHOLE, ALL}, {5, 5, WHOLE, ALL}};
    expect(partial, wider, "all_reduce + send_recv {0,1,2}: {0,1}\n");
    expect(partial, one_more, "reduce_scatter + send_recv {0,1,4}: {0,1}\n");
    expect(partial, far, "reduce_scatter + send_recv {0,1,4}: {0,1}\n");
    expect(partial, far_two, "reduce_scatter + bsr {0,1,4,5}: {0,1}\n");
    expect_as(true, dup, 2, partial, 2, "identity {0}\nto_partial {1}\n");
    expect_as(true, partial, 2, partial, 2, "identity {0}\nidentity {1}\n");
    expect_as(true, partial, 2, moved, 2, "send_recv {0,4}\nsend_recv {1,5}\n");
    expect_moves(NULL, partial, 2, far_two, 2,
                 "reduce_send {0,1,4} [0:12,0:4] 0->4\np2p of sums {4,5} [0:12,0:4] 4->5\n");
    const struct hsp_resolve_opts to_sum = {.partial_target = true};
    expect_moves(&to_sum, dup, 2, partial, 2, "copy {0} [0:12,0:4]\n");
    expect_moves(&to_sum, partial, 2, moved, 2, "p2p {0,1,4,5} [0:12,0:4] 0->4 [0:12,0:4] 1->5\n");
}

/* The compositions of the paper (3.3): first inside of subgroups, then across them. */
static void test_compositions(void **state)
{
    (void)state;
    const struct held four[] = {
        {0, 0, WHOLE, ALL}, {1, 1, WHOLE, ALL}, {2, 2, WHOLE, ALL}, {3, 3, WHOLE, ALL}};
    const struct held pairs[] = {
        {0, 0, 0, 6, ALL}, {1, 0, 0, 6, ALL}, {2, 0, 6, 12, ALL}, {3, 0, 6, 12, ALL}};
    const struct held cut_sums[] = {
        {0, 0, 0, 6, ALL}, {1, 0, 6, 12, ALL}, {2, 2, 0, 6, ALL}, {3, 2, 6, 12, ALL}};
    const struct held unlike[] = {{0, 0, 0, 6, ALL}, {1, 0, 6, 12, ALL}, {2, 2, WHOLE, ALL}};
    const struct held all_four[] = {
        {0, 0, WHOLE, ALL}, {1, 0, WHOLE, ALL}, {2, 0, WHOLE, ALL}, {3, 0, WHOLE, ALL}};
    const struct held mixed[] = {{0, 0, 0, 6, ALL}, {1, 1, 0, 6, ALL}, {2, 2, 6, 12, ALL}};
    const struct held fewer[] = {{2, 0, 0, 6, ALL}, {0, 0, 6, 12, ALL}, {1, 0, 6, 12, ALL}};
    const struct held source[] = {{1, 0, WHOLE, ALL}}, piece[] = {{4, 0, 2, 5, ALL}};
    expect(four, pairs, "reduce_scatter + split_all_gather {0,1,2,3}: {0,1,2,3}\n");
    expect(cut_sums, all_four, "split_all_reduce + all_gather {0,1,2,3}: {0,2} {1,3}\n");
    expect_as(false, unlike, 3, all_four, 3,
              "split_all_reduce + all_gather {0,1,2}: {0,2} {1,2}\n");
    expect_as(false, mixed, 3, all_four, 3, "all_reduce + all_gather {0,1,2}: {0,1}\n");
    expect(mixed, fewer, "reduce_scatter + bsr {0,1,2}: {0,1}\n");
    expect(source, piece, "slice + send_recv {1,4}\n");
}

/* Several addends on one rank: given as one. */
static void test_several_addends(void **state)
{
    (void)state;
    const struct held two[] = {{0, 0, WHOLE, ALL}, {0, 1, WHOLE, ALL}, {1, 2, WHOLE, ALL}};
    const struct held both[] = {{0, 0, WHOLE, ALL}, {0, 1, WHOLE, ALL}};
    const struct held overlap[] = {
        {0, 0, WHOLE, ALL}, {0, 1, WHOLE, ALL}, {1, 1, WHOLE, ALL}, {1, 2, WHOLE, ALL}};
    const struct held at[] = {{0, 0, WHOLE, ALL}};
    expect(two, dup, "all_reduce {0,1}: {0,1}\n");
    expect_moves(NULL, two, 3, dup, 2, "all_reduce {0,1} [0:12,0:4]\n");
    expect_moves(NULL, both, 2, at, 1, "copy {0} [0:12,0:4]\n");
    expect_moves(NULL, both, 2, dup, 2, "copy {0} [0:12,0:4]\np2p of sums {0,1} [0:12,0:4] 0->1\n");
    expect_moves(NULL, overlap, 4, dup, 2, "all_reduce {0,1} [0:12,0:4]\n");
    struct pair p;
    struct hsp_moves m = {0};
    struct hsp_err err = {0};
    struct hsp_reshard_bind b;
    uint32_t channel = 0;
    make_pair(&p, overlap, 4, dup, 2);
    assert_ok(hsp_resolve(&p.src, &p.dst, NULL, &channel, p.arena, &m, &err), &err);
    assert_ok(hsp_moves_bind(&m, 0, false, p.arena, &b, &err), &err);
    assert_int_equal(b.moves[0].src, HSP_MOVE_SUM); /* 0 + 1 */
    assert_ok(hsp_moves_bind(&m, 1, false, p.arena, &b, &err), &err);
    assert_int_equal(b.moves[0].src, 0); /* and 2 alone; its new number is the smaller one */
    free_pair(&p);
}

/* ---- the example of the paper's figures 4, 6 and 12: T3 ---- */

/* ZeRO-sharded weight: subgroups {0,3} TP2, {1}, {2,4} (two copies); each keeps a third of its own
 * shard, interleaved per half. Its gather is one SplitAG on 0 to 4. */
static void test_figure_weight(void **state)
{
    (void)state;
    const struct held third[] = {{0, 0, 0, 2, ALL},  {3, 0, 6, 8, ALL},  {1, 0, 2, 4, ALL},
                                 {1, 0, 8, 10, ALL}, {2, 0, 4, 6, ALL},  {2, 0, 10, 12, ALL},
                                 {4, 0, 4, 6, ALL},  {4, 0, 10, 12, ALL}};
    const struct held used[] = {{0, 0, 0, 6, ALL},
                                {3, 0, 6, 12, ALL},
                                {1, 0, WHOLE, ALL},
                                {2, 0, WHOLE, ALL},
                                {4, 0, WHOLE, ALL}};
    const struct held grads[] = {{0, 0, 0, 6, ALL},
                                 {3, 0, 6, 12, ALL},
                                 {1, 1, WHOLE, ALL},
                                 {2, 2, WHOLE, ALL},
                                 {4, 4, WHOLE, ALL}};
    expect(third, used, "split_all_gather {0,1,2,3,4}: {0,1,2} {0,1,4} {3,1,2} {3,1,4}\n");
    expect_moves(NULL, third, LEN(third), used, LEN(used),
                 "all_gather {0,1,2,4} [0:2,0:4] @0 [2:4,0:4] @1 [4:6,0:4] @2\n"
                 "all_gather {1,2,3,4} [6:8,0:4] @3 [8:10,0:4] @1 [10:12,0:4] @4\n");
    /* and its gradient, back to the thirds, of which 2 and 4 have one */
    expect(grads, third,
           "split_reduce_scatter + split_all_gather {0,1,2,3,4}: {0,1,2,4} {1,2,3,4}\n");
}

/* The activation behind a row-parallel product: {0,3} partial, {1} whole, {2,4} cut along the
 * sequence; it goes to {0,3} cut, {5,6} cut, {2,4} as they are. */
static void test_figure_activation(void **state)
{
    (void)state;
    const struct held from[] = {{0, 0, 0, 4, ALL},
                                {3, 3, 0, 4, ALL},
                                {1, 0, 4, 8, ALL},
                                {2, 0, 8, 12, 0, 2},
                                {4, 0, 8, 12, 2, 4}};
    const struct held to[] = {{0, 0, 0, 4, 0, 2}, {3, 0, 0, 4, 2, 4},  {5, 0, 4, 8, 0, 2},
                              {6, 0, 4, 8, 2, 4}, {2, 0, 8, 12, 0, 2}, {4, 0, 8, 12, 2, 4}};
    expect(from, to, "reduce_scatter {0,3}: {0,3}\nbsr {1,5,6}\nidentity {2}\nidentity {4}\n");
    expect_moves(NULL, from, LEN(from), to, LEN(to),
                 "copy {2} [8:12,0:2]\ncopy {4} [8:12,2:4]\n"
                 "reduce_scatter {0,3} [0:4,0:2] @0 [0:4,2:4] @3\n"
                 "p2p {1,5,6} [4:8,0:2] 1->5 [4:8,2:4] 1->6\n");
}

/* ---- top tier: groups of finest slices (3.3), T4 ---- */

static void test_split_groups(void **state)
{
    (void)state;
    const struct held tp4_tp2_tp1[] = {{0, 0, 0, 3, ALL},  {1, 0, 3, 6, ALL}, {2, 0, 6, 9, ALL},
                                       {3, 0, 9, 12, ALL}, {4, 4, 0, 6, ALL}, {5, 4, 6, 12, ALL},
                                       {6, 6, WHOLE, ALL}};
    const struct held dup_split[] = {{0, 0, 0, 6, ALL},  {1, 0, 6, 12, ALL}, {2, 0, 0, 6, ALL},
                                     {3, 0, 6, 12, ALL}, {4, 4, 0, 6, ALL},  {5, 4, 6, 12, ALL}};
    const struct held tp2_tp2[] = {
        {0, 0, 0, 6, ALL}, {1, 0, 6, 12, ALL}, {2, 2, 0, 6, ALL}, {3, 2, 6, 12, ALL}};
    const struct held inner_partial[] = {{0, 0, WHOLE, ALL},
                                         {1, 1, WHOLE, ALL},
                                         {2, 2, WHOLE, ALL},
                                         {3, 3, 0, 6, ALL},
                                         {4, 3, 6, 12, ALL}};
    expect(tp4_tp2_tp1, tp4_tp2_tp1,
           "split_all_reduce {0,1,2,3,4,5,6}: {0,4,6} {1,4,6} {2,5,6} {3,5,6}\n");
    expect(dup_split, dup_split,
           "all_reduce {0,2,4}: {0,4} {2,4}\nall_reduce {1,3,5}: {1,5} {3,5}\n");
    expect(tp2_tp2, tp2_tp2, "all_reduce {0,2}: {0,2}\nall_reduce {1,3}: {1,3}\n");
    /* sums inside a subgroup and across subgroups at once */
    expect(inner_partial, inner_partial, "split_all_reduce {0,1,2,3,4}: {0,1,2,3} {0,1,2,4}\n");
    /* on the second dim as well */
    const struct held wide[] = {
        {0, 0, WHOLE, 0, 2}, {1, 0, WHOLE, 2, 4}, {2, 2, WHOLE, 0, 1}, {3, 2, WHOLE, 1, 4}};
    expect(wide, wide, "split_all_reduce {0,1,2,3}: {0,2} {0,3} {1,3}\n");
}

/* Copies of each addend add side by side where all have as many; else one group adds and the rest
 * gets the sum. */
static void test_side_by_side(void **state)
{
    (void)state;
    const struct held even[] = {
        {0, 0, WHOLE, ALL}, {1, 0, WHOLE, ALL}, {2, 2, WHOLE, ALL}, {3, 2, WHOLE, ALL}};
    const struct held uneven[] = {{0, 0, WHOLE, ALL}, {1, 0, WHOLE, ALL}, {2, 2, WHOLE, ALL}};
    const struct hsp_resolve_opts owner = {.owner_bytes = true};
    expect_moves(NULL, even, 4, even, 4,
                 "all_reduce {0,2} [0:12,0:4]\nall_reduce {1,3} [0:12,0:4]\n");
    expect_moves(NULL, uneven, 3, uneven, 3,
                 "all_reduce {0,2} [0:12,0:4]\np2p of sums {0,1} [0:12,0:4] 0->1\n");
    expect_moves(&owner, even, 4, even, 4,
                 "all_reduce {0,2} [0:12,0:4]\n"
                 "p2p of sums {0,1,2,3} [0:12,0:4] 0->1 [0:12,0:4] 2->3\n");
}

/* ---- BSR with link classes: T5 ---- */

static struct hsp_link_cost nodes_of_8(const void *ctx, uint32_t from, uint32_t to)
{
    (void)ctx;
    return from / 8 == to / 8 ? (struct hsp_link_cost){5, 0.001} : (struct hsp_link_cost){20, 0.02};
}

static const struct hsp_rank_links links = {.between = nodes_of_8};

static void test_v8(void **state)
{
    (void)state;
    const struct held from[] = {{0, 0, 0, 6, ALL}, {1, 0, 6, 12, ALL}, {8, 0, 0, 3, ALL},
                                {9, 0, 3, 6, ALL}, {10, 0, 6, 9, ALL}, {11, 0, 9, 12, ALL}};
    const struct held to[] = {{0, 0, 0, 3, ALL},
                              {1, 0, 3, 6, ALL},
                              {2, 0, 6, 9, ALL},
                              {3, 0, 9, 12, ALL},
                              {9, 0, WHOLE, ALL}};
    const struct hsp_resolve_opts opts = {.links = &links};
    expect_moves(&opts, from, LEN(from), to, LEN(to),
                 "copy {0} [0:3,0:4]\ncopy {9} [3:6,0:4]\n"
                 "p2p {0,1,2,3,8,9,10,11} [0:3,0:4] 8->9 [3:6,0:4] 0->1 [6:9,0:4] 1->2 "
                 "[6:9,0:4] 10->9 [9:12,0:4] 1->3 [9:12,0:4] 11->9\n");
    expect(from, to, "bsr {0,1,2,3,9,10,11}\n");
}

static void test_v9(void **state)
{
    (void)state;
    const struct held from[] = {
        {0, 0, 0, 3, ALL}, {1, 0, 3, 6, ALL}, {2, 0, 6, 9, ALL}, {3, 0, 9, 12, ALL}};
    const struct held to[] = {{4, 0, 0, 4, ALL}, {5, 0, 4, 8, ALL}, {6, 0, 8, 12, ALL}};
    expect_moves(NULL, from, LEN(from), to, LEN(to),
                 "p2p {0,1,2,3,4,5,6} [0:3,0:4] 0->4 [3:4,0:4] 1->4 [4:6,0:4] 1->5 [6:8,0:4] 2->5 "
                 "[8:9,0:4] 2->6 [9:12,0:4] 3->6\n");
    expect(from, to, "bsr {0,1,2,3,4,5,6}\n");
}

/* A sum without a receiver among its adders is made where the way on is short. */
static void test_near(void **state)
{
    (void)state;
    const struct held from[] = {{0, 0, WHOLE, ALL}, {9, 9, WHOLE, ALL}, {1, 1, WHOLE, ALL}};
    const struct held to[] = {{2, 0, WHOLE, ALL}, {10, 0, WHOLE, ALL}};
    const struct hsp_resolve_opts opts = {.links = &links};
    expect_moves(&opts, from, LEN(from), to, LEN(to),
                 "reduce_send {0,1,2,9} [0:12,0:4] 0->2\np2p of sums {2,10} [0:12,0:4] 2->10\n");
}

/* ---- costs ---- */

static double price(const struct held *from, size_t n_from, const struct held *to, size_t n_to)
{
    struct pair p;
    struct hsp_moves m = {0};
    struct hsp_err err = {0};
    uint32_t channel = 0;
    const struct hsp_resolve_opts opts = {.links = &links};
    make_pair(&p, from, n_from, to, n_to);
    assert_ok(hsp_resolve(&p.src, &p.dst, &opts, &channel, p.arena, &m, &err), &err);
    double us = hsp_moves_us(&m, 1000, &links);
    free_pair(&p);
    return us;
}

/* 48 elements of 1000 bytes: 48 us inside of a node, 960 us between two. */
static void test_costs(void **state)
{
    (void)state;
    const struct held near[] = {{2, 0, WHOLE, ALL}}, far[] = {{9, 0, WHOLE, ALL}},
                      one[] = {{0, 0, WHOLE, ALL}};
    const struct held halves[] = {{0, 0, 0, 6, ALL}, {1, 0, 6, 12, ALL}};
    const struct held across[] = {{0, 0, WHOLE, ALL}, {8, 8, WHOLE, ALL}};
    const struct held both[] = {{0, 0, WHOLE, ALL}, {8, 0, WHOLE, ALL}};
    assert_true(price(dup, 2, dup, 2) == 0);
    assert_true(fabs(price(one, 1, near, 1) - (5 + 48)) < 1e-9);
    assert_true(fabs(price(one, 1, far, 1) - (20 + 960)) < 1e-9);
    assert_true(fabs(price(halves, 2, dup, 2) - (5 + 24)) < 1e-9);
    assert_true(fabs(price(partial, 2, halves, 2) - (5 + 24)) < 1e-9);
    assert_true(fabs(price(partial, 2, dup, 2) - (10 + 48)) < 1e-9);
    assert_true(fabs(price(across, 2, both, 2) - (40 + 960)) < 1e-9);
    assert_true(fabs(price(partial, 2, near, 1) - (10 + 96)) < 1e-9);
}

/* ---- text, refusals ---- */

static void test_text(void **state)
{
    (void)state;
    struct pair p;
    struct hsp_methods m;
    struct hsp_err err = {0};
    const struct held from[] = {
        {0, 0, 0, 4, ALL}, {3, 3, 0, 4, ALL}, {1, 0, 4, 8, ALL}, {4, 0, 8, 12, ALL}};
    const struct held to[] = {
        {0, 0, 0, 4, ALL}, {3, 0, 0, 4, ALL}, {5, 0, 4, 8, ALL}, {4, 0, 8, 12, ALL}};
    make_pair(&p, from, LEN(from), to, LEN(to));
    assert_ok(hsp_methods_find(&p.src, &p.dst, false, p.arena, &m, &err), &err);
    hsp_methods_put(&m, &p.text);
    assert_string_equal(hsp_buf_cstr(&p.text), "all_reduce, send_recv, identity");
    assert_string_equal(hsp_method_name(200), "unknown");
    p.dst.extent[0] = 3;
    assert_status(hsp_methods_find(&p.src, &p.dst, false, p.arena, &m, &err), HSP_EINVAL);
    free_pair(&p);
}

HSP_TEST_FILE(reshard_kind_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bottom),
        cmocka_unit_test(test_partial),
        cmocka_unit_test(test_compositions),
        cmocka_unit_test(test_several_addends),
        cmocka_unit_test(test_figure_weight),
        cmocka_unit_test(test_figure_activation),
        cmocka_unit_test(test_split_groups),
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_v8),
        cmocka_unit_test(test_v9),
        cmocka_unit_test(test_near),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
