#include <stdio.h>

#include "tests/lib/testlib.h"
#include "worker/executor/ckpt_choice.h"

#define N 5

static const struct hsp_ckpt_wish latest = {.step = 40};

static struct hsp_ckpt_offer have(uint64_t term, uint64_t epoch, uint64_t content)
{
    return (struct hsp_ckpt_offer){.term = term, .epoch = epoch, .content = content};
}

static struct hsp_ckpt_offer lack(enum hsp_status why, const char *text)
{
    /* The choice must ignore the other fields, so they have wrong values here. */
    struct hsp_ckpt_offer o = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, 1, why, ""};
    (void)snprintf(o.why, sizeof o.why, "%s", text);
    return o;
}

/* Writes to @order the @k-th permutation of 0 to N - 1; @k is below N!. */
static void nth_order(uint32_t k, uint32_t order[N])
{
    uint32_t left[N];
    for (uint32_t i = 0; i < N; i++) {
        left[i] = i;
    }
    for (uint32_t i = 0; i < N; i++) {
        uint32_t at = k % (N - i);
        k /= N - i;
        order[i] = left[at];
        memmove(&left[at], &left[at + 1], (N - i - 1 - at) * sizeof left[0]);
    }
}

/* Asserts that the offer o[N - 1] is chosen, to whichever ranks the offers belong. */
static void last_is_chosen(const struct hsp_ckpt_offer o[N], const struct hsp_ckpt_wish *wish)
{
    for (uint32_t k = 0; k < 120; k++) {
        uint32_t order[N];
        struct hsp_ckpt_offer mixed[N];
        nth_order(k, order);
        for (uint32_t i = 0; i < N; i++) {
            mixed[i] = o[order[i]];
        }
        struct hsp_err err = {0};
        uint32_t chosen = UINT32_MAX;
        assert_ok(hsp_ckpt_offer_choose(mixed, N, wish, &chosen, &err), &err);
        assert_true(chosen < N);
        assert_int_equal(order[chosen], N - 1);
    }
}

static void the_latest_is_chosen(void **state)
{
    (void)state;
    const struct hsp_ckpt_offer by_term[N] = {have(1, 9, 9), have(2, 9, 9), have(1, 2, 3),
                                              have(0, UINT64_MAX, UINT64_MAX), have(3, 0, 0)};
    const struct hsp_ckpt_offer by_epoch[N] = {have(1, 3, 9), have(1, 8, 7), have(0, 9, 9),
                                               lack(HSP_ENOENT, "none"), have(1, 9, 0)};
    const struct hsp_ckpt_offer by_content[N] = {have(1, 3, 9), have(1, 3, 7),
                                                 lack(HSP_EDIGEST, "damaged"),
                                                 lack(HSP_ESTATE, "other"), have(1, 3, UINT64_MAX)};
    last_is_chosen(by_term, &latest);
    last_is_chosen(by_epoch, &latest);
    last_is_chosen(by_content, &latest);
}

static void of_equal_ones_the_first_rank_serves(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    uint32_t chosen = UINT32_MAX;
    const struct hsp_ckpt_offer o[] = {lack(HSP_ENOENT, "none"), have(1, 2, 3), have(1, 3, 5),
                                       have(1, 3, 5), have(1, 3, 5)};
    assert_ok(hsp_ckpt_offer_choose(o, N, &latest, &chosen, &err), &err);
    assert_int_equal(chosen, 2);
    assert_true(hsp_ckpt_offer_same(&o[2], &o[4]));
    assert_false(hsp_ckpt_offer_same(&o[1], &o[2]));
}

static void same_is_same_in_all(void **state)
{
    (void)state;
    const struct hsp_ckpt_offer a = have(1, 2, 3),
                                b[] = {have(2, 2, 3), have(1, 3, 3), have(1, 2, 4)};
    struct hsp_ckpt_offer none = a;
    assert_true(hsp_ckpt_offer_same(&a, &a));
    for (int i = 0; i < 3; i++) {
        assert_false(hsp_ckpt_offer_same(&a, &b[i]));
        assert_false(hsp_ckpt_offer_same(&b[i], &a));
    }
    none.status = HSP_ENOENT;
    assert_false(hsp_ckpt_offer_same(&a, &none));
    assert_false(hsp_ckpt_offer_same(&none, &a));
    assert_false(hsp_ckpt_offer_same(&none, &none));
}

/* A member that lacks memory to read its folder may have the latest checkpoint. So no choice is
 * made, and the caller tries again. */
static void want_of_memory_decides_nothing(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    uint32_t chosen = 77;
    const struct hsp_ckpt_offer o[] = {have(1, 3, 5), lack(HSP_ESTATE, "other data"),
                                       lack(HSP_ENOMEM, "no memory for a checkpoint")};
    assert_status(hsp_ckpt_offer_choose(o, 3, &latest, &chosen, &err), HSP_ENOMEM);
    assert_err(&err, HSP_ENOMEM,
               "member 2 cannot look for its checkpoint: no memory for a checkpoint");
    assert_int_equal(chosen, 77);
}

static void without_any_the_reason_is_told(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    uint32_t chosen = 77;
    const struct hsp_ckpt_offer o[] = {lack(HSP_ENOENT, "nothing in a"), lack(HSP_EIO, "disk"),
                                       lack(HSP_ESTATE, "other data"),
                                       lack(HSP_ESTATE, "other model")};
    assert_status(hsp_ckpt_offer_choose(o, 4, &latest, &chosen, &err), HSP_ESTATE);
    assert_err(&err, HSP_ESTATE, "other data");
    assert_status(hsp_ckpt_offer_choose(o, 2, &latest, &chosen, &err), HSP_ENOENT);
    assert_err(&err, HSP_ENOENT, "no member has the checkpoint: disk");
    assert_int_equal(chosen, 77);
}

/* ---- the wished checkpoint ---- */

static const struct hsp_ckpt_wish wish = {40, 2, 5, 77};

static struct hsp_ckpt_offer unfit(uint64_t epoch, uint64_t content)
{
    return (struct hsp_ckpt_offer){
        .term = 2, .epoch = epoch, .content = content, .status = HSP_ESTATE, .why = "other data"};
}

/* The wished checkpoint is chosen among later and earlier checkpoints, by its content hash and not
 * by its term and epoch. */
static void the_one_that_is_meant_is_chosen(void **state)
{
    (void)state;
    const struct hsp_ckpt_offer among_others[N] = {have(1, 9, 9), have(2, 9, 99), have(2, 5, 76),
                                                   have(2, 5, 78), have(2, 5, 77)};
    const struct hsp_ckpt_offer written_again[N] = {have(3, 1, 9), lack(HSP_EIO, "disk"),
                                                    unfit(5, 78), lack(HSP_ENOENT, "none"),
                                                    have(2, 8, 77)};
    struct hsp_err err = {0};
    uint32_t chosen = UINT32_MAX;
    last_is_chosen(among_others, &wish);
    last_is_chosen(written_again, &wish);
    const struct hsp_ckpt_offer two[] = {have(9, 9, 9), have(2, 8, 77), have(2, 5, 77)};
    assert_ok(hsp_ckpt_offer_choose(two, 3, &wish, &chosen, &err), &err);
    assert_int_equal(chosen, 1);
}

static void refused_is(const struct hsp_ckpt_offer *o, uint32_t n, enum hsp_status want,
                       const char *why)
{
    struct hsp_err err = {0};
    uint32_t chosen = 77;
    assert_status(hsp_ckpt_offer_choose(o, n, &wish, &chosen, &err), want);
    assert_err(&err, want, why);
    assert_int_equal(chosen, 77);
}

/* If only checkpoints of another history are offered, none is chosen, and the most specific reason
 * is reported. */
static void without_it_nobody_begins(void **state)
{
    (void)state;
    const char *what =
        "no member has checkpoint 40 of epoch 5 in term 2 (start a node that has it): ";
    char why[300];
    const struct hsp_ckpt_offer of_others[] = {lack(HSP_ENOENT, "none"), have(1, 9, 9),
                                               have(2, 5, 78)};
    (void)snprintf(why, sizeof why, "%smember 1: it is of another history, of epoch 9 in term 1",
                   what);
    refused_is(of_others, 3, HSP_ENOENT, why);
    const struct hsp_ckpt_offer broken[] = {
        unfit(4, 5), {.status = HSP_EIO, .why = "bad disk"}, have(1, 9, 9)};
    (void)snprintf(why, sizeof why, "%smember 1: bad disk", what);
    refused_is(broken, 3, HSP_ENOENT, why);
    const struct hsp_ckpt_offer misfit[] = {have(1, 9, 9), unfit(4, 5)};
    (void)snprintf(why, sizeof why, "%smember 1: it is of another history: other data", what);
    refused_is(misfit, 2, HSP_ENOENT, why);
    const struct hsp_ckpt_offer nothing[] = {{.status = HSP_ENOENT, .why = "nothing in a"},
                                             {.status = HSP_ENOENT, .why = "nothing in b"}};
    (void)snprintf(why, sizeof why, "%smember 0: nothing in a", what);
    refused_is(nothing, 2, HSP_ENOENT, why);
    const struct hsp_ckpt_offer no_memory[] = {have(2, 5, 77), lack(HSP_ENOMEM, "none left")};
    refused_is(no_memory, 2, HSP_ENOMEM, "member 1 cannot look for its checkpoint: none left");
}

/* The wished checkpoint does not fit the job, for example because the data files have changed: the
 * status is HSP_ESTATE, since no other node can help. */
static void it_must_fit_the_job(void **state)
{
    (void)state;
    const struct hsp_ckpt_offer changed[] = {have(1, 9, 9), unfit(5, 77)};
    const struct hsp_ckpt_offer other_program[] = {
        have(1, 9, 9), {.status = HSP_ESTATE, .why = "checkpoint of format 9"}};
    refused_is(changed, 2, HSP_ESTATE, "other data");
    refused_is(other_program, 2, HSP_ESTATE, "checkpoint of format 9");
}

/* A home that was filled from another member's checkpoint stays filled if that checkpoint is later
 * found damaged. Its member requests data again only if a checkpoint with another content is
 * chosen. */
static void who_asks(void **state)
{
    (void)state;
    const struct hsp_ckpt_offer chosen = have(1, 9, 77), again = have(2, 1, 78);
    struct hsp_ckpt_offer o = lack(HSP_ENOENT, "none");
    o.filled = 0;
    assert_true(hsp_ckpt_offer_asks(&o, &chosen) && !hsp_ckpt_offer_done(&o, &chosen));
    o = chosen;
    assert_false(hsp_ckpt_offer_asks(&o, &chosen));
    assert_true(hsp_ckpt_offer_asks(&o, &again));
    o.filled = 1;
    o.taken = 77;
    o.status = HSP_EDIGEST;
    assert_true(hsp_ckpt_offer_done(&o, &chosen) && !hsp_ckpt_offer_asks(&o, &chosen));
    assert_true(hsp_ckpt_offer_asks(&o, &again) && !hsp_ckpt_offer_done(&o, &again));
}

/* Checks that damage is distinguished from absence: if a damaged checkpoint is or may be the wished
 * one, hspmdd must not wait for a node that has it undamaged. */
static void damage_is_told_from_absence(void **state)
{
    (void)state;
    struct hsp_ckpt_offer o[] = {{.status = HSP_ENOENT}, have(1, 9, 9), {.status = HSP_EIO}};
    assert_false(hsp_ckpt_offers_damaged(o, 3, &wish));
    o[1].status = HSP_EDIGEST; /* a checkpoint of another history */
    assert_false(hsp_ckpt_offers_damaged(o, 3, &wish));
    assert_true(hsp_ckpt_offers_damaged(o, 3, &latest));
    o[1].content = wish.content;
    assert_true(hsp_ckpt_offers_damaged(o, 3, &wish));
    o[1] = (struct hsp_ckpt_offer){.status = HSP_EDIGEST}; /* an unknown checkpoint */
    assert_true(hsp_ckpt_offers_damaged(o, 3, &wish));
}

HSP_TEST_FILE(ckpt_choice_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_latest_is_chosen),
        cmocka_unit_test(of_equal_ones_the_first_rank_serves),
        cmocka_unit_test(same_is_same_in_all),
        cmocka_unit_test(want_of_memory_decides_nothing),
        cmocka_unit_test(without_any_the_reason_is_told),
        cmocka_unit_test(the_one_that_is_meant_is_chosen),
        cmocka_unit_test(without_it_nobody_begins),
        cmocka_unit_test(it_must_fit_the_job),
        cmocka_unit_test(who_asks),
        cmocka_unit_test(damage_is_told_from_absence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
