/* Tests which messages go by NCCL: decided alike by all ranks from the words of each. */
#include "tests/lib/testlib.h"
#include "worker/backend/backend.h"
#include "worker/comm/nccl/nccl_agree.h"
#include "worker/comm/nccl/nccl_need.h"

static struct hsp_nccl_offer gpu(uint64_t id)
{
    return (struct hsp_nccl_offer){.version = 22809, .gpu = id, .process = 100 + id};
}

static void lists_of_gpus_alone_go(void **state)
{
    static const uint32_t all[3] = {0, 1, 2}, two[2] = {0, 2}, one[1] = {1};
    struct hsp_nccl_offer o[3] = {gpu(1), gpu(2), gpu(3)};
    (void)state;
    assert_true(hsp_nccl_list_ok(o, all, 3));
    o[1].version = 0; /* no GPU */
    assert_false(hsp_nccl_list_ok(o, all, 3));
    assert_false(hsp_nccl_list_ok(o, one, 1));
    assert_true(hsp_nccl_list_ok(o, two, 2));
    o[1] = gpu(2);
    o[1].version = 22703; /* another release */
    assert_false(hsp_nccl_list_ok(o, all, 3));
    o[1] = gpu(3); /* the same GPU */
    o[1].process = 102;
    assert_false(hsp_nccl_list_ok(o, all, 3));
    assert_true(hsp_nccl_list_ok(o, one, 1));
}

static void an_epoch_with_secrets_keeps_them(void **state)
{
    static const struct {
        struct hsp_nccl_place a, b;
        bool goes;
    } c[] = {
        {{0, 0, false}, {0, 0, false}, true}, /* in clear anything goes */
        {{7, 0, false}, {8, 1, false}, true},
        {{7, 0, true}, {7, 0, true}, true},  /* one host */
        {{0, 0, true}, {0, 0, true}, false}, /* none that is known */
        {{7, 0, true}, {8, 0, true}, false},
        {{7, 1, true}, {8, 0, true}, false}, /* one of them is on trusted networks */
        {{7, 0, true}, {8, 1, true}, false},
        {{7, 1, true}, {8, 1, true}, true},
        {{0, 128, true}, {0, 128, true}, true},
        {{7, 1, true}, {8, 2, true}, false},  /* on two networks that are trusted */
        {{7, 5, true}, {8, 6, true}, true},   /* on two each, one of which both have */
        {{7, 0, true}, {8, 0, false}, false}, /* a rank that asks for it has it */
    };
    static const uint32_t both[2] = {0, 1};
    struct hsp_nccl_pair out = {1, true, 77}, in = {0, false, 77};
    struct hsp_nccl_offer o[2] = {gpu(1), gpu(2)};
    uint32_t lane;
    (void)state;
    o[0].pair = &out;
    o[1].pair = &in;
    o[0].n_pairs = o[1].n_pairs = 1;
    for (size_t k = 0; k < sizeof c / sizeof c[0]; k++) {
        o[0].place = c[k].a;
        o[1].place = c[k].b;
        assert_int_equal(hsp_nccl_list_ok(o, both, 2), c[k].goes);
        assert_int_equal(hsp_nccl_pair_ok(o, 0, 1, &lane), c[k].goes);
        assert_int_equal(hsp_nccl_may_talk(o, both, 2), c[k].goes);
    }
}

/* Two hosts of two: messages within a host go. */
static void lists_within_a_host_go(void **state)
{
    static const uint32_t all[4] = {0, 1, 2, 3}, here[2] = {0, 1}, there[2] = {2, 3},
                          across[2] = {1, 2};
    struct hsp_nccl_offer o[4] = {gpu(1), gpu(2), gpu(3), gpu(4)};
    (void)state;
    for (int k = 0; k < 4; k++) {
        o[k].place = (struct hsp_nccl_place){.host = 50 + (uint64_t)k / 2, .tls = true};
    }
    assert_true(hsp_nccl_list_ok(o, here, 2));
    assert_true(hsp_nccl_list_ok(o, there, 2));
    assert_false(hsp_nccl_list_ok(o, across, 2));
    assert_false(hsp_nccl_list_ok(o, all, 4));
    assert_false(hsp_nccl_may_talk(o, all, 4));
    for (int k = 0; k < 4; k++) {
        o[k].place.trusted = k != 3 ? 1 : 2;
    }
    assert_true(hsp_nccl_list_ok(o, across, 2));
    assert_false(hsp_nccl_list_ok(o, all, 4)); /* 0 and 3 */
    o[3].place.trusted = 3;
    assert_true(hsp_nccl_list_ok(o, all, 4));
}

static void messages_need_one_order(void **state)
{
    static const uint32_t both[2] = {0, 1};
    struct hsp_nccl_pair out = {1, true, 77}, in = {0, false, 77};
    struct hsp_nccl_offer o[2] = {gpu(1), gpu(2)};
    uint32_t lane = 9;
    (void)state;
    assert_false(hsp_nccl_pair_ok(o, 0, 1, &lane)); /* there are none */
    o[0].pair = &out;
    o[0].n_pairs = 1;
    assert_false(hsp_nccl_list_ok(o, both, 2)); /* sent, and not taken */
    o[1].pair = &in;
    o[1].n_pairs = 1;
    assert_true(hsp_nccl_pair_ok(o, 0, 1, &lane));
    assert_int_equal(lane, 0);
    assert_false(hsp_nccl_pair_ok(o, 1, 0, &lane));
    assert_true(hsp_nccl_list_ok(o, both, 2));
    in.order = 78;
    assert_false(hsp_nccl_pair_ok(o, 0, 1, &lane));
    assert_false(hsp_nccl_list_ok(o, both, 2));
}

/* Rank 0 sends to all others: the first ones have a lane. */
static void there_are_so_many_lanes(void **state)
{
    enum { N = HSP_N_LANES + 2 };
    struct hsp_nccl_pair out[N], in[N];
    struct hsp_nccl_offer o[N];
    uint32_t lane;
    (void)state;
    for (uint32_t k = 0; k < N; k++) {
        o[k] = gpu(k + 1);
        out[k] = (struct hsp_nccl_pair){N - k, true, 5}; /* in no order */
        in[k] = (struct hsp_nccl_pair){0, false, 5};
        o[k].pair = &in[k];
        o[k].n_pairs = k > 0;
    }
    o[0].pair = &out[1];
    o[0].n_pairs = N - 1;
    for (uint32_t k = 1; k < N; k++) {
        assert_int_equal(hsp_nccl_pair_ok(o, 0, k, &lane), k <= HSP_N_LANES);
        assert_int_equal(lane, k - 1);
        const uint32_t list[2] = {0, k};
        assert_int_equal(hsp_nccl_list_ok(o, list, 2), k <= HSP_N_LANES);
    }
}

static void kept_is_what_all_hold_alike(void **state)
{
    static const uint32_t both[2] = {0, 1};
    struct hsp_nccl_held a[2] = {{4, 40, 7, false}, {5, 50, 9, false}}, b[1] = {{5, 50, 9, false}};
    struct hsp_nccl_offer o[2] = {gpu(1), gpu(2)};
    (void)state;
    o[0].held = a;
    o[0].n_held = 2;
    assert_int_equal(hsp_nccl_kept(o, both, 2, 5), 0);
    o[1].held = b;
    o[1].n_held = 1;
    assert_int_equal(hsp_nccl_kept(o, both, 2, 5), 50);
    assert_int_equal(hsp_nccl_kept(o, both, 2, 4), 0);
    b[0].ops = 10;
    assert_int_equal(hsp_nccl_kept(o, both, 2, 5), 0);
    b[0].in_use = true;
    assert_int_equal(hsp_nccl_kept(o, both, 2, 5), 0);
    a[1].in_use = true; /* the running epoch: it counts on */
    assert_int_equal(hsp_nccl_kept(o, both, 2, 5), 50);
    b[0].nonce = 51;
    assert_int_equal(hsp_nccl_kept(o, both, 2, 5), 0);
}

static void keys_tell_members_and_use(void **state)
{
    static const uint64_t a[3] = {1, 2, 3}, b[3] = {1, 3, 2};
    (void)state;
    uint64_t k = hsp_nccl_key(HSP_NCCL_COLLECTIVE, a, 2);
    assert_true(k == hsp_nccl_key(HSP_NCCL_COLLECTIVE, a, 2));
    assert_true(k != hsp_nccl_key(HSP_NCCL_MESSAGES, a, 2));
    assert_true(k != hsp_nccl_key(HSP_NCCL_COLLECTIVE, a, 3));
    assert_true(hsp_nccl_key(HSP_NCCL_COLLECTIVE, a, 3) != hsp_nccl_key(HSP_NCCL_COLLECTIVE, b, 3));
}

static void who_is_here(void **state)
{
    const struct hsp_nccl_offer o[3] = {
        {.version = 22809, .process = 10}, {.process = 20}, {.version = 22809, .process = 30}};
    static const uint64_t turned[2] = {30, 10}, without[2] = {10, 20}, gone[2] = {10, 40};
    uint32_t r[2];
    (void)state;
    assert_true(hsp_nccl_ranks_here(o, 3, turned, 2, r));
    assert_true(r[0] == 2 && r[1] == 0);
    assert_false(hsp_nccl_ranks_here(o, 3, without, 2, r)); /* without NCCL now */
    assert_false(hsp_nccl_ranks_here(o, 3, gone, 2, r));
}

static void shapes(void **state)
{
    static const size_t none[2] = {0, 0}, even[2] = {4, 4}, uneven[2] = {4, 3}, one[3] = {0, 7, 0};
    static const size_t near[4] = {500000, 501000, 500000, 499000};
    static const size_t far[4] = {4000000, 1000, 500000, 0};
    size_t many[64];
    (void)state;
    for (size_t k = 0; k < 64; k++) {
        many[k] = 100 + k % 7;
    }
    assert_int_equal(hsp_nccl_shape_of(none, 2, 4), HSP_NCCL_NOTHING);
    assert_int_equal(hsp_nccl_shape_of(even, 2, 4), HSP_NCCL_EVEN);
    assert_int_equal(hsp_nccl_shape_of(uneven, 2, 4), HSP_NCCL_PADDED);
    assert_int_equal(hsp_nccl_shape_of(one, 3, 4), HSP_NCCL_GROUPED); /* a single broadcast */
    assert_int_equal(hsp_nccl_shape_of(many, 64, 2), HSP_NCCL_PADDED);
    assert_int_equal(hsp_nccl_shape_of(near, 4, 2), HSP_NCCL_PADDED); /* copies of 4 MB are cheap */
    assert_int_equal(hsp_nccl_shape_of(far, 4, 2),
                     HSP_NCCL_GROUPED); /* 3 of them filled up are not */
}

static void offers_travel(void **state)
{
    struct hsp_nccl_pair pair[2] = {{3, true, 12345}, {4, false, 6}};
    struct hsp_nccl_held held[1] = {{9, 8, 7, true}};
    struct hsp_nccl_offer o = gpu(5), got;
    struct hsp_buf b;
    struct hsp_err err;
    (void)state;
    o.pair = pair;
    o.n_pairs = 2;
    o.held = held;
    o.n_held = 1;
    o.place = (struct hsp_nccl_place){.host = UINT64_MAX - 4, .trusted = 129};
    hsp_buf_init(&b, 1000);
    hsp_nccl_offer_encode(&o, &b);
    assert_ok(hsp_nccl_offer_decode(b.data, b.len, &got, &err), &err);
    assert_int_equal(got.version, 22809);
    assert_true(got.place.host == UINT64_MAX - 4 && got.place.trusted == 129 && !got.place.tls);
    assert_int_equal(got.gpu, 5);
    assert_int_equal(got.process, 105);
    assert_int_equal(got.n_pairs, 2);
    assert_int_equal(got.pair[1].peer, 4);
    assert_false(got.pair[1].out);
    assert_int_equal(got.pair[0].order, 12345);
    assert_int_equal(got.n_held, 1);
    assert_true(got.held[0].in_use);
    assert_int_equal(got.held[0].ops, 7);
    hsp_nccl_offer_fini(&got);
    for (size_t n = 0; n < b.len; n++) { /* a cut text is none */
        assert_status(hsp_nccl_offer_decode(b.data, n, &got, &err), HSP_EPROTO);
    }
    b.data[13] = 2; /* neither with TLS nor without */
    assert_status(hsp_nccl_offer_decode(b.data, b.len, &got, &err), HSP_EPROTO);
    b.data[12] = 0;
    b.data[13] = 1;
    assert_ok(hsp_nccl_offer_decode(b.data, b.len, &got, &err), &err);
    assert_true(got.place.trusted == 0 && got.place.tls);
    hsp_nccl_offer_fini(&got);
    b.data[30] = 255; /* the number of pairs */
    b.data[33] = 255;
    assert_status(hsp_nccl_offer_decode(b.data, b.len, &got, &err), HSP_EPROTO);
    hsp_buf_fini(&b);
}

/* ---- programs ---- */

/* Rank 1 of 4: sends to 2 and takes from 0 for two micro-batches, sums with all, adds for 3. */
static void needs_of_a_program(void **state)
{
    uint32_t three[3] = {0, 1, 2}, all[4] = {0, 1, 2, 3};
    struct hsp_cell cells[3] = {
        {.root = 1, .peer = 2}, {.root = 0, .peer = 1}, {.root = 1, .peer = 2}};
    struct hsp_cell handed[1] = {{.root = 1, .peer = 3}};
    struct hsp_move move[4] = {{.kind = HSP_MOVE_P2P,
                                .n_ranks = 3,
                                .ranks = three,
                                .channel = 5,
                                .n_cells = 3,
                                .cells = cells},
                               {.kind = HSP_MOVE_ALL_REDUCE,
                                .n_ranks = 4,
                                .ranks = all,
                                .channel = 6,
                                .n_cells = 1,
                                .cells = cells},
                               {.kind = HSP_MOVE_REDUCE_SEND,
                                .n_ranks = 4,
                                .ranks = all,
                                .channel = 7,
                                .n_cells = 1,
                                .cells = handed},
                               {.kind = HSP_MOVE_COPY}};
    struct hsp_reshard_bind bind[2] = {{.n_moves = 1, .moves = move},
                                       {.n_moves = 3, .moves = move + 1}};
    struct hsp_instr instr[2] = {{.kind = HSP_I_RESHARD, .queue = HSP_QUEUE_COMM, .arg = 0},
                                 {.kind = HSP_I_RESHARD, .queue = HSP_QUEUE_COMM, .arg = 1}};
    struct hsp_piece piece[2] = {{.first = 0, .n = 1, .queue = HSP_QUEUE_COMM},
                                 {.first = 1, .n = 1, .queue = HSP_QUEUE_COMM}};
    struct hsp_sched_entry entry[3] = {{.piece = 0}, {.piece = 0, .micro = 1}, {.piece = 1}};
    struct hsp_program p = {.tpl = {.instrs = instr, .n_instrs = 2, .pieces = piece, .n_pieces = 2},
                            .bind = {.rank = 1, .n_ranks = 4, .reshard = bind, .n_reshards = 2}};
    p.bind.train.n[HSP_QUEUE_COMM] = 3;
    p.bind.train.e[HSP_QUEUE_COMM] = entry;
    const struct hsp_program *one = &p;
    struct hsp_nccl_needs d = {0}, want = {.rank = 1};
    struct hsp_err err;
    (void)state;
    assert_ok(hsp_nccl_needs_find(&one, 1, &d, &err), &err);
    assert_int_equal(d.rank, 1);
    assert_int_equal(d.n_lists, 2); /* of the three and of all; the adders are the three */
    assert_true(d.list[0].asked && d.list[0].messages && !d.list[0].collective);
    assert_true(d.list[1].asked && d.list[1].messages && d.list[1].collective);
    assert_int_equal(d.n_parts, 1);
    assert_int_equal(d.part[0].whole, 1);
    assert_int_equal(d.part[0].part, 0);
    for (int micro = 0; micro < 2; micro++) { /* one message for two cells */
        assert_ok(hsp_nccl_need_message(&want, 2, true, 5, &err), &err);
        assert_ok(hsp_nccl_need_message(&want, 0, false, 5, &err), &err);
    }
    assert_ok(hsp_nccl_need_message(&want, 3, true, 7, &err), &err);
    assert_int_equal(d.n_pairs, 3);
    for (uint32_t k = 0; k < 3; k++) {
        assert_int_equal(d.pair[k].peer, want.pair[k].peer);
        assert_int_equal(d.pair[k].out, want.pair[k].out);
        assert_true(d.pair[k].order == want.pair[k].order);
    }
    hsp_nccl_needs_fini(&d);
    hsp_nccl_needs_fini(&want);
}

HSP_TEST_FILE(nccl_need_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_gpus_alone_go),
        cmocka_unit_test(an_epoch_with_secrets_keeps_them),
        cmocka_unit_test(lists_within_a_host_go),
        cmocka_unit_test(messages_need_one_order),
        cmocka_unit_test(there_are_so_many_lanes),
        cmocka_unit_test(kept_is_what_all_hold_alike),
        cmocka_unit_test(keys_tell_members_and_use),
        cmocka_unit_test(who_is_here),
        cmocka_unit_test(shapes),
        cmocka_unit_test(offers_travel),
        cmocka_unit_test(needs_of_a_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
