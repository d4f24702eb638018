#include <stdio.h>
#include <string.h>

#include "tests/lib/testlib.h"
#include "worker/executor/due.h"

#define C HSP_VOTE_CONFIRMED
#define W HSP_VOTE_WISH
#define K HSP_VOTE_CHECKPOINT

static struct hsp_due begin(uint64_t every, uint64_t ckpt_every, uint64_t steps, uint64_t first)
{
    struct hsp_due d = {.every = every, .ckpt_every = ckpt_every, .steps = steps};
    hsp_due_begin(&d, first);
    return d;
}

static struct hsp_due_news pass(struct hsp_due *d, uint64_t step, uint32_t first, uint32_t second)
{
    const uint32_t flags[2] = {first, second};
    return hsp_due_passed(d, step, flags, 2, false);
}

static void each_version_is_due_where_others_know_no_better(void **state)
{
    (void)state;
    struct hsp_due d = {.all = true, .ckpt_every = 25, .steps = 60};
    hsp_due_begin(&d, 20);
    for (uint64_t t = 20; t < 60; t++) {
        assert_int_equal(d.newest, t);
        assert_true(hsp_due_waits(&d, t));
        struct hsp_due_news news = pass(&d, t, t == 33 ? K : 0, 0);
        assert_true(news.stable && !news.refused);
        assert_int_equal(news.checkpoint, t == 33 || t % 25 == 0 ? t : HSP_DUE_NONE);
        assert_int_equal(news.asked, t == 33);
    }
    assert_int_equal(d.newest, 60);
}

static void a_fixed_distance_is_kept(void **state)
{
    (void)state;
    struct hsp_due d = begin(4, 0, 61, 2);
    for (uint64_t t = 2; t < 61; t++) {
        bool last = t == 60, next = (t + 1 - 2) % 4 == 0;
        uint64_t due = t - (t - 2) % 4;
        assert_int_equal(d.newest, due);
        assert_int_equal(hsp_due_waits(&d, t), t == 2 || ((last || next) && d.pending));
        (void)pass(&d, t, C, t % 3 == 0 || hsp_due_waits(&d, t) ? C : 0);
    }
    assert_int_equal(d.newest, 61);
}

static void a_version_is_due_only_when_the_one_before_is_stable(void **state)
{
    (void)state;
    struct hsp_due d = begin(0, 0, 1000, 0);
    assert_true(hsp_due_waits(&d, 0));
    assert_true(pass(&d, 0, C, C).stable);
    assert_false(pass(&d, 1, C, C).stable);
    assert_int_equal(d.newest, 0);
    (void)pass(&d, 2, C | W, C);
    assert_int_equal(d.newest, 3);
    assert_int_equal(d.before, 0);
    assert_false(hsp_due_waits(&d, 3));
    assert_false(pass(&d, 3, C | W, 0).stable); /* rank 1 has not confirmed version 3 */
    assert_int_equal(d.newest, 3);
    assert_true(pass(&d, 4, C | W, C).stable);
    assert_int_equal(d.newest, 5);
}

static void a_checkpoint_makes_a_version_due(void **state)
{
    (void)state;
    struct hsp_due d = begin(0, 10, 1000, 0);
    (void)pass(&d, 0, C, C);
    assert_false(hsp_due_waits(&d, 5));
    struct hsp_due_news news = pass(&d, 5, C | K, C); /* the wish for a checkpoint makes 6 due */
    assert_int_equal(news.checkpoint, HSP_DUE_NONE);
    assert_false(news.refused);
    assert_int_equal(d.newest, 6);
    assert_true(pass(&d, 6, K, C).refused); /* rank 0 repeats its wish, and has not confirmed 6 */
    news = pass(&d, 7, C, C);
    assert_true(news.stable && news.asked);
    assert_int_equal(news.checkpoint, 6);
    (void)pass(&d, 8, C, C);
    (void)pass(&d, 9, C, C); /* version 10 is due for a periodic checkpoint */
    assert_int_equal(d.newest, 10);
    for (uint64_t t = 10; t < 19; t++) {
        news = pass(&d, t, 0, 0);
        assert_int_equal(news.checkpoint, HSP_DUE_NONE);
        assert_false(hsp_due_waits(&d, t));
    }
    assert_true(hsp_due_waits(&d, 19)); /* the vote has to make 20 due */
    news = pass(&d, 19, C, C);
    assert_int_equal(news.checkpoint, 10);
    assert_false(news.asked);
    assert_int_equal(d.newest, 20);
}

static void all_that_leave_have_a_version_to_leave_with(void **state)
{
    (void)state;
    struct hsp_due d = begin(0, 0, 1000, 0);
    const uint32_t flags[2] = {C, C};
    (void)hsp_due_passed(&d, 0, flags, 2, false);
    (void)hsp_due_passed(&d, 6, flags, 2, true);
    assert_int_equal(d.newest, 7);
    assert_true(d.pending);
}

static void a_record_says_what_is_confirmed_here(void **state)
{
    (void)state;
    for (int all = 0; all < 2; all++) {
        struct hsp_due d = {.all = all != 0, .steps = 1000};
        uint64_t armed = 9;
        hsp_due_begin(&d, 4);
        assert_int_equal(hsp_due_record(&d, 4, &armed), all ? 0 : C);
        assert_int_equal(armed, 9);
        assert_int_equal(hsp_due_record(&d, HSP_DUE_NONE, &armed), 0);
        assert_int_equal(armed, 0); /* no hand-over: version 4 is not stable yet */
    }
}

/* ---- ranks that lag, and die at any moment ---- */

enum { RANKS = 3 };

struct rank {
    struct hsp_due due;
    uint64_t step;             /* vote that the rank has passed, or whose record it holds back */
    bool said;                 /* the rank has sent its record of that vote */
    uint64_t saved, confirmed; /* newest version saved, newest confirmed */
    uint64_t slot[2];          /* version sealed in each segment, or HSP_DUE_NONE */
    uint32_t at;               /* segment of `saved` */
    uint64_t stable;           /* newest stable version that the rank knows */
};

struct ranks {
    struct rank r[RANKS];
    uint32_t flags[1024][RANKS];
    bool here[1024][RANKS];
};

static bool holds(const struct rank *r, uint64_t version)
{
    return r->slot[0] == version || r->slot[1] == version;
}

/* Seals the newest due version in the segment that does not have the newest sealed version. */
static void save(struct rank *r)
{
    const uint64_t *v = r->slot;
    r->at = v[0] == HSP_DUE_NONE || (v[1] != HSP_DUE_NONE && v[0] < v[1]) ? 0 : 1;
    r->slot[r->at] = HSP_DUE_NONE;
    r->saved = r->due.newest;
}

/* Lets rank @me do one action. A version that it has saved counts as copied to other ranks, too. */
static void act(struct ranks *x, uint32_t me, uint64_t dice)
{
    struct rank *r = &x->r[me];
    const uint64_t due = r->due.newest;
    if (dice % 3 == 0 && r->saved == due && !holds(r, due)) {
        r->slot[r->at] = due;
        return;
    }
    if (dice % 3 == 1 && holds(r, due) && r->confirmed != due) {
        r->confirmed = due;
        return;
    }
    if (!r->said) {
        bool waits = hsp_due_waits(&r->due, r->step) && r->confirmed != due;
        if (r->step == due && r->saved != due) {
            save(r);
        } else if (!waits) {
            bool wish = me == 0 && dice / 3 % 4 == 0, ask = me == 0 && dice / 3 % 11 == 0;
            x->flags[r->step][me] = (r->confirmed == due ? C : 0) | (wish ? W : 0) | (ask ? K : 0);
            x->here[r->step][me] = r->said = true;
        }
        return;
    }
    bool all = true;
    for (uint32_t i = 0; i < RANKS; i++) {
        all = all && x->here[r->step][i];
    }
    if (all) {
        bool stable = hsp_due_passed(&r->due, r->step, x->flags[r->step], RANKS, false).stable;
        r->stable = stable ? due : r->stable;
        r->step++;
        r->said = false;
    }
}

/* Returns the greatest version that all ranks have sealed, or HSP_DUE_NONE. */
static uint64_t whole(const struct ranks *x)
{
    uint64_t best = HSP_DUE_NONE;
    for (int k = 0; k < 2; k++) {
        uint64_t v = x->r[0].slot[k];
        bool all = v != HSP_DUE_NONE;
        for (uint32_t i = 1; i < RANKS; i++) {
            all = all && holds(&x->r[i], v);
        }
        best = all && (best == HSP_DUE_NONE || v > best) ? v : best;
    }
    return best;
}

/* At any moment, all ranks have sealed a common version that is at least as new as the newest
 * version that any rank knows to be stable. So a recovery can always go back to it. */
static void a_stable_version_is_whole_at_any_moment(void **state)
{
    (void)state;
    uint64_t steps = 0;
    for (uint64_t k = 0; k < 300; k++) {
        static struct ranks x;
        memset(&x, 0, sizeof x);
        uint64_t every = hsp_test_rand("every", k) % 4, ckpt = hsp_test_rand("ckpt", k) % 20;
        for (uint32_t i = 0; i < RANKS; i++) {
            x.r[i] = (struct rank){.due = begin(every, ckpt, 1000, 0),
                                   .confirmed = HSP_DUE_NONE,
                                   .slot = {0, HSP_DUE_NONE}};
        }
        for (uint64_t t = 0; t < 3000; t++) {
            uint64_t dice = hsp_test_rand("act", k * 3000 + t);
            act(&x, (uint32_t)(dice >> 32) % RANKS, dice & UINT32_MAX);
            uint64_t best = whole(&x);
            for (uint32_t i = 0; i < RANKS; i++) {
                if (best == HSP_DUE_NONE || best < x.r[i].stable) {
                    fail_msg("sequence %u, rank %u knows %u to be stable", (unsigned)k, i,
                             (unsigned)x.r[i].stable);
                }
            }
        }
        steps += x.r[0].step;
    }
    assert_true(steps > 300 * 50);
}

HSP_TEST_FILE(due_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_version_is_due_where_others_know_no_better),
        cmocka_unit_test(a_fixed_distance_is_kept),
        cmocka_unit_test(a_version_is_due_only_when_the_one_before_is_stable),
        cmocka_unit_test(a_checkpoint_makes_a_version_due),
        cmocka_unit_test(a_record_says_what_is_confirmed_here),
        cmocka_unit_test(all_that_leave_have_a_version_to_leave_with),
        cmocka_unit_test(a_stable_version_is_whole_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
