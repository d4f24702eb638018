/* Tests that checkpoints given up by a job never count again, whichever are on disk. */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/cluster/ckpt_cuts.h"
#include "daemon/cluster/ckpt_which.h"
#include "proto/base/size.h"
#include "proto/wire/identity.h"
#include "tests/unit/daemon/cluster/ckpt_world.h"
#include "tests/unit/daemon/cluster/cluster_stories.h"

/* The PREPARE that the last step has sent to a member of the epoch that is to begin. */
static const struct hsp_m_prepare *told(const struct cw_world *w)
{
    const struct hsp_action *a = cw_find(w, HSP_ACT_PREPARE);
    assert_non_null(a);
    return &a->msg->u.prepare;
}

/* A job that runs in its first epoch on two nodes, which share its folder. */
static void running(struct cw_world *w)
{
    struct hsp_admin_event a = {.verb = HSP_ADMIN_SUBMIT,
                                .spec = {.name = "j",
                                         .min = 1,
                                         .max = 8,
                                         .copies = 2,
                                         .steps = 100,
                                         .checkpoint_path = "/c",
                                         .checkpoint_shared = true,
                                         .checkpoint_keep = 8}};
    cw_begin(w, 2, 1);
    assert_int_equal(cw_admin(w, a), HSP_OK);
    cw_plan(w, 1);
    assert_true(told(w)->n_cuts == 1 && told(w)->cuts[0].epoch == cw_job(w, 1)->att.epoch);
    wc_begins(w, 1);
}

/* The administrator names a step, of which the nodes see that of @epoch. */
static void resumed_from(struct cw_world *w, uint64_t step, uint64_t epoch, uint64_t content)
{
    const struct hsp_m_seen seen = {step, WC_TERM, epoch, content};
    assert_int_equal(cw_admin(w, (struct hsp_admin_event){.verb = HSP_ADMIN_RESUME,
                                                          .job = 1,
                                                          .has_step = true,
                                                          .step = step,
                                                          .looked = true,
                                                          .n_seen = 1,
                                                          .seen = &seen,
                                                          .reason = ""}),
                     HSP_OK);
    cw_plan(w, 1);
    assert_true(told(w)->step == step && told(w)->ckpt_content == content);
}

/* The steps on record and their epochs: "40.1, 60.2". */
static const char *on_record(const struct cw_world *w)
{
    static char text[256];
    const struct hsp_job *j = cw_job(w, 1);
    int at = 0;
    for (uint32_t i = 0; i < j->n_older; i++) {
        at += snprintf(text + at, sizeof text - (size_t)at, "%d.%d, ", (int)j->older[i].step,
                       (int)j->older[i].mark.epoch);
    }
    (void)snprintf(text + at, sizeof text - (size_t)at, "%d.%d", (int)j->ckpt_step,
                   (int)j->ckpt.epoch);
    return text;
}

/* Epoch 1 has written 40, 53 and 60 and diverges; epoch 2 goes on from 40, writes 60 and runs. */
static void diverged_at_53(struct cw_world *w)
{
    running(w);
    wc_saved_in(w, 1, 40, 1040);
    wc_saved_in(w, 1, 53, 1053);
    wc_saved_in(w, 1, 60, 1060);
    wc_cancelled(w);
    wc_sees(w, 40, 1, 1040);
    wc_sees(w, 53, 1, 1053);
    resumed_from(w, 40, 1, 1040);
    assert_string_equal(w->reply_text, "it begins as soon as it has its devices");
    wc_begins(w, 41);
    wc_saved_in(w, 2, 60, 2060); /* in the place of the other */
    assert_string_equal(on_record(w), "40.1, 60.2");
}

/* Time goes on until @fact is told, NULL: until there is something to plan or to prepare. */
static void is_planned(struct cw_world *w, const char *fact)
{
    const struct hsp_job *j = cw_job(w, 1);
    for (uint32_t i = 0;
         fact != NULL ? cw_fact(w, fact) == NULL : j->ticket == 0 && j->att.epoch == 0; i++) {
        struct hsp_msg beat = {.type = HSP_MSG_HEARTBEAT};
        assert_true(i < 1000);
        w->now += i % 3 == 2 ? 500 : 0;
        cw_step(w, i % 3 == 2
                       ? (struct hsp_event){.type = HSP_EV_TICK}
                       : (struct hsp_event){.type = HSP_EV_MSG, .conn = i % 3 + 1, .u.msg = &beat});
    }
    if (j->ticket != 0) {
        cw_plan(w, 1);
    }
}

static void what_was_given_up_stays_so(void **state)
{
    (void)state;
    struct cw_world w;
    diverged_at_53(&w);
    wc_cancelled(&w);
    wc_sees(&w, 60, 2, 2060);
    wc_resumed(&w);
    assert_true(told(&w)->step == 60 && told(&w)->ckpt_content == 2060);
    wc_begins(&w, 61);
    wc_cancelled(&w);
    cw_restart_nodes(&w, 2); /* all of it is stored */
    w.n_disk = 2;            /* 60 is gone */
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_non_null(cw_fact(&w, "ckpt.fallback"));
    cw_plan(&w, 1);
    assert_true(told(&w)->step == 40 && told(&w)->ckpt_content == 1040);
    /* the cut at 60 says less */
    assert_true(told(&w)->n_cuts == 2 && told(&w)->cuts[1].step == 40);
    assert_string_equal(on_record(&w), "40.1, 60.2");
    wc_begins(&w, 41);
    assert_string_equal(on_record(&w), "40.1");
    cw_end(&w);
}

/* All state is lost, so the job goes on from 60, which its members find damaged. */
static void nor_is_it_fallen_back_to(void **state)
{
    (void)state;
    struct cw_world w;
    diverged_at_53(&w);
    wc_sees(&w, 60, 2, 2060);
    for (uint32_t i = 0; i < 2; i++) {
        cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = i + 1});
        cw_hello(&w, i + 1, i == 0 ? "n0" : "n1", 0, 1);
    }
    is_planned(&w, "state.lost");
    const struct hsp_job *j = cw_job(&w, 1);
    assert_true(told(&w)->step == 60 && told(&w)->ckpt_content == 2060);
    assert_string_equal(on_record(&w), "40.1, 60.2");
    for (uint32_t i = 0; i < w.n_asked; i++) {
        cw_ready(&w, 1, i, 5);
    }
    cw_msg(&w, 1,
           (struct hsp_msg){
               .type = HSP_MSG_CKPT_REFUSED,
               .epoch = j->att.epoch,
               .u.refused = {.job = 1, .step = 60, .damaged = true, .reason = "damaged"}});
    assert_int_equal(j->origin_step, 40);
    for (uint32_t i = 0; i < 2 && j->state == HSP_JOB_SEALING; i++) {
        cw_msg(&w, i + 1,
               (struct hsp_msg){
                   .type = HSP_MSG_SEALED, .epoch = j->seal_upto, .u.sealed = {.job = 1}});
    }
    is_planned(&w, NULL);
    assert_true(told(&w)->step == 40 && told(&w)->ckpt_content == 1040);
    cw_end(&w);
}

/* An administrator may choose a checkpoint that was given up: then it is of the history, and the
 * checkpoints made instead of it are not. */
static void what_is_chosen_counts_again(void **state)
{
    (void)state;
    struct cw_world w;
    diverged_at_53(&w);
    wc_cancelled(&w);
    resumed_from(&w, 53, 1, 1053);
    assert_string_equal(w.reply_text,
                        "checkpoint 53 of epoch 1 was given-up and counts again, the checkpoints "
                        "made instead of it do not; the job begins as soon as it has its devices");
    wc_sees(&w, 60, 2, 2060);
    assert_string_equal(on_record(&w), "40.1, 53.1");
    wc_begins(&w, 54);
    wc_saved_in(&w, 3, 80, 3080);
    wc_cancelled(&w);
    wc_sees(&w, 50, 2, 2050); /* of the history that is given up now */
    wc_resumed(&w);           /* 80 is not seen */
    assert_true(told(&w)->step == 53 && told(&w)->ckpt_content == 1053);
    wc_begins(&w, 54);
    wc_cancelled(&w);
    w.n_disk = 0;
    wc_sees(&w, 40, 1, 1040);
    wc_sees(&w, 50, 2, 2050);
    wc_resumed(&w); /* nor 53 */
    assert_true(told(&w)->step == 40 && told(&w)->ckpt_content == 1040);
    cw_end(&w);
}

static bool counts(const struct hsp_ckpt_cuts *h, uint64_t epoch, uint64_t step)
{
    return hsp_cuts_allow(h->cut, h->n, epoch, step);
}

/* However often a job loses its state, checkpoints of its history among the newest count, and those
 * given up never do. */
static void cuts_are_bounded(void **state)
{
    (void)state;
    struct hsp_ckpt_cuts h = {0};
    hsp_ci_cuts_add(&h, 1, 0, 0);
    for (uint64_t k = 1; k <= 100;
         k++) { /* epoch k wrote 100 k, and more; 100 k was gone on from */
        hsp_ci_cuts_add(&h, k + 1, 100 * k, k);
        for (uint64_t i = 1; i <= k; i++) {
            assert_false(counts(&h, i, 100 * i + 1));
            assert_true(i + HSP_MSG_CUTS - 2 < k || counts(&h, i, 100 * i));
        }
        assert_true(counts(&h, k + 1, 100 * k + 1) && counts(&h, 0, 9999));
    }
    assert_int_equal(h.n, HSP_MSG_CUTS);
    hsp_ci_cuts_add(&h, 200, 150, 1); /* one from long ago */
    assert_true(counts(&h, 1, 150) && !counts(&h, 1, 151) && !counts(&h, 2, 150));
    hsp_ci_cuts_add(&h, 300, 0, 0);
    assert_int_equal(h.n, 1);
}

/* An administrator goes up through an epoch that was given up: the chosen checkpoint counts,
 * however often, and those that the epochs between have written behind their beginnings do not. */
static void up_through_one_epoch(void **state)
{
    (void)state;
    struct hsp_ckpt_cuts h = {0};
    hsp_ci_cuts_add(&h, 1, 0, 0);
    for (uint64_t k = 1; k <= 40; k++) { /* epoch k + 1 goes on from 10 k of epoch 1 */
        hsp_ci_cuts_add(&h, k + 1, 10 * k, 1);
        assert_true(counts(&h, 1, 10 * k) && !counts(&h, 1, 10 * k + 1));
        assert_true(counts(&h, k + 1, 10 * k + 1));
        for (uint64_t i = 1; i < k; i++) {
            assert_false(counts(&h, i + 1, 10 * i + 1));
        }
    }
}

/* For all numbers: a choice leaves out the checkpoints that were not made on the way to it. */
static void a_choice_among_histories(void **state)
{
    (void)state;
    struct hsp_ckpt_cuts h = {0};
    hsp_ci_cuts_add(&h, 1, 0, 0);
    hsp_ci_cuts_add(&h, 2, 40, 1); /* 1: 40, 45, 60 */
    hsp_ci_cuts_add(&h, 3, 30, 1); /* 2: 53 */
    assert_true(counts(&h, 1, 30) && !counts(&h, 1, 31) && !counts(&h, 2, 53));
    hsp_ci_cuts_add(&h, 4, 53, 2);
    assert_true(counts(&h, 2, 53) && counts(&h, 2, 50) && !counts(&h, 2, 54));
    assert_true(!counts(&h, 1, 45) && !counts(&h, 3, 35) && counts(&h, 3, 30) && counts(&h, 4, 60));
    hsp_ci_cuts_add(&h, 5, 35, 3); /* the other one again */
    assert_true(counts(&h, 3, 35) && !counts(&h, 2, 35) && !counts(&h, 4, 36) && counts(&h, 5, 36));
    assert_true(!counts(&h, 3, 36) && counts(&h, 1, 30));
}

static bool told_counts(const struct hsp_ckpt_cuts *h, uint64_t epoch, uint64_t step)
{
    return hsp_cuts_allow_metrics(h->cut, h->n, epoch, step);
}

/* Metrics count by the same cuts: the step that was gone on from counts, metrics told behind it do
 * not. */
static void metrics_of_what_was_given_up(void **state)
{
    (void)state;
    struct hsp_ckpt_cuts h = {0};
    hsp_ci_cuts_add(&h, 1, 0, 0);
    assert_true(told_counts(&h, 1, 0));
    for (uint64_t epoch = 3; epoch < 5; epoch++) { /* to one step twice */
        hsp_ci_cuts_add(&h, epoch, 40, 1);
        assert_true(told_counts(&h, 1, 40) && !told_counts(&h, 1, 41));
        assert_true(told_counts(&h, epoch, 41));
    }
    assert_false(told_counts(&h, 3, 41));
    /* to a later step of an epoch that was given up; again */
    for (uint64_t epoch = 5; epoch < 7; epoch++) {
        hsp_ci_cuts_add(&h, epoch, 60, 1);
        assert_true(told_counts(&h, 1, 60) && !told_counts(&h, 1, 61));
        assert_true(!told_counts(&h, 4, 50) && told_counts(&h, epoch, 61));
    }
    hsp_ci_cuts_add(&h, 7, 0, 0); /* anew: step 0 of before is of no history that runs */
    assert_true(!told_counts(&h, 1, 0) && !told_counts(&h, 6, 0) && told_counts(&h, 7, 0));
    assert_true(told_counts(&h, 0, 50)); /* of no epoch that is known */
}

/* A checkpoint that led to the chosen one may not count any more; its metrics do. */
static void metrics_that_led_there_count(void **state)
{
    (void)state;
    struct hsp_ckpt_cuts h = {0};
    hsp_ci_cuts_add(&h, 1, 0, 0);
    hsp_ci_cuts_add(&h, 2, 50, 1);
    hsp_ci_cuts_add(&h, 3, 30, 1);
    assert_true(!told_counts(&h, 1, 50) && !told_counts(&h, 2, 80));
    hsp_ci_cuts_add(&h, 4, 80, 2);
    assert_false(counts(&h, 1, 40));
    assert_true(told_counts(&h, 1, 40) && told_counts(&h, 2, 80));
    assert_true(!told_counts(&h, 1, 81) && !told_counts(&h, 2, 81) && !told_counts(&h, 3, 31));
    h.n = 0;
    hsp_ci_cuts_add(&h, 1, 0, 0);
    for (uint64_t k = 1; k <= 100; k++) { /* more than there are cuts: each loss costs no step */
        hsp_ci_cuts_add(&h, k + 1, 100 * k, k);
        for (uint64_t i = 1; i <= k; i++) {
            assert_true(told_counts(&h, i, 100 * i - 99) && told_counts(&h, i, 100 * i));
            assert_false(told_counts(&h, i, 100 * k + 1));
        }
    }
}

#define RISES 40 /* checkpoints of epoch 1, in every sixth way */

struct written { /* a checkpoint, and the one before it in its history; -1: none */
    uint64_t epoch, step;
    int before;
};

/* Goes on from @head, which was written or chosen last: a few checkpoints, as @draw says, some in a
 * further epoch. */
static int write_some(struct written *all, int *n, int head, uint64_t draw, uint64_t *epoch)
{
    uint64_t step = head >= 0 ? all[head].step : 0;
    for (uint64_t i = hsp_test_rand("many", draw) % 4; i > 0; i--) {
        uint64_t r = hsp_test_rand("step", 4 * draw + i);
        step += 1 + r % 20;
        all[*n] = (struct written){*epoch, step, head};
        head = (*n)++;
        *epoch += r % 5 == 0; /* after a loss that cost nothing */
    }
    return head;
}

/* Where the cuts are known the disk tells nothing beyond them. Where the store has none of them the
 * disk tells which one is the newest of the last line; and none of that line is left out where
 * nothing was chosen that had been given up (@down). */
static void told_by_disk(const struct written *all, int n, const struct hsp_ckpt_cuts *h,
                         uint64_t begun, bool down)
{
    static struct hsp_ckpt_kept disk[400];
    struct hsp_job j = {.steps = 100000, .disk = disk, .n_disk = (uint32_t)n, .cuts = *h};
    const struct hsp_ckpt_kept *best;
    for (int k = 0; k < n; k++) {
        disk[k] = (struct hsp_ckpt_kept){all[k].step, {1, all[k].epoch, (uint64_t)k}};
    }
    j.begun = begun;
    hsp_ci_ckpt_line(&j);
    assert_int_equal(j.line.n, 0);
    j.cuts.n = 0;
    j.begun = 0;
    hsp_ci_ckpt_line(&j);
    assert_true((best = hsp_ci_ckpt_best(&j)) != NULL || n == 0);
    assert_true(n == 0 || best->mark.content == (uint64_t)n - 1);
    for (int k = n - 1; k >= 0 && down; k = all[k].before) {
        assert_true(counts(&j.line, all[k].epoch, all[k].step));
    }
}

/* Each checkpoint that counts is of the history that runs, for any choice; and all of that history
 * counts, where nothing was chosen that had been given up, as long as the cuts have room. */
static void any_history(void **state)
{
    (void)state;
    for (uint64_t way = 0; way < 60; way++) {
        static struct written all[400];
        struct hsp_ckpt_cuts h = {0};
        int n = 0, head = -1, up = 0;
        uint64_t epoch = 1, begun = 1;
        for (; way % 6 == 0 && n < RISES; head = n++) {
            all[n] = (struct written){epoch, 10u * ((uint64_t)n + 1), head};
        }
        hsp_ci_cuts_add(&h, epoch, 0, 0);
        for (uint64_t round = 0; round < (way % 2 != 0 ? 12 : 60); round++) {
            bool of_it[400] = {false};
            head = write_some(all, &n, head, 1000 * way + round, &epoch);
            for (int k = head; k >= 0; k = all[k].before) {
                of_it[k] = true;
            }
            for (int k = 0; k < n; k++) {
                bool allowed = counts(&h, all[k].epoch, all[k].step);
                assert_true(of_it[k] || !allowed);
                assert_true(allowed || !of_it[k] || (k != head && (way % 3 == 0 || way % 2 == 0)));
                bool shown = told_counts(&h, all[k].epoch, all[k].step);
                assert_true(shown || !of_it[k]); /* however many cuts there were */
                assert_true(!shown || of_it[k] || all[k].step <= h.cut[h.n - 1].step);
            }
            told_by_disk(all, n, &h, begun, way % 3 != 0);
            uint64_t r = hsp_test_rand("choice", 1000 * way + round);
            if (n > 0 && way % 3 == 0) {
                head = way % 6 == 0 && up < RISES && r % 4 != 0 ? up++ : (int)(r % (uint64_t)n);
            }
            for (; way % 3 != 0 && r % 3 != 0 && head >= 0 && all[head].before >= 0; r /= 3) {
                head = all[head].before;
            }
            begun = ++epoch;
            hsp_ci_cuts_add(&h, epoch, head >= 0 ? all[head].step : 0,
                            head >= 0 ? all[head].epoch : 0);
            assert_true(head < 0 || counts(&h, all[head].epoch, all[head].step));
        }
    }
}

/* A store that was put back before gave epochs that this one has not: checkpoints of such epochs
 * are given up with the rest, where there can be such an epoch. */
static void what_another_store_wrote_is_given_up(void **state)
{
    (void)state;
    /* of this generation, of the next, and of one that is far ahead */
    const uint64_t epochs[] = {9, HSP_GENERATION_NUMBERS + 1, 300 * HSP_GENERATION_NUMBERS};
    for (size_t i = 0; i < HSP_ARRAY_LEN(epochs); i++) {
        struct cw_world w;
        const struct hsp_m_seen seen[] = {{40, WC_TERM, 1, 1040}, {60, WC_TERM, epochs[i], 9060}};
        diverged_at_53(&w);
        wc_cancelled(&w);
        const uint64_t next = cw_job(&w, 1)->next_epoch;
        assert_true(next < 9);
        assert_int_equal(cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_RESUME,
                                                               .job = 1,
                                                               .has_step = true,
                                                               .step = 40,
                                                               .looked = true,
                                                               .n_seen = 2,
                                                               .seen = seen,
                                                               .reason = ""}),
                         HSP_OK);
        cw_plan(&w, 1);
        const struct hsp_m_prepare *p = told(&w);
        assert_true(p->step == 40 && p->ckpt_content == 1040);
        assert_int_equal(cw_job(&w, 1)->att.epoch, i < 2 ? epochs[i] + 1 : next);
        assert_int_equal(hsp_cuts_allow(p->cuts, p->n_cuts, epochs[i], 60), i == 2);
        cw_end(&w);
    }
}

/* Rows of form 14 have the last one, at the origin. */
static void rows_of_before(void **state)
{
    (void)state;
    struct cw_world w;
    diverged_at_53(&w);
    assert_int_equal(cw_job(&w, 1)->cuts.n, 2);
    cw_form_14(&w);
    cw_restart_nodes(&w, 2);
    const struct hsp_ckpt_cuts *h = &cw_job(&w, 1)->cuts;
    assert_true(h->n == 1 && h->cut[0].from == 0 && h->cut[0].epoch == 2 && h->cut[0].step == 40);
    cw_end(&w);
}

/* ---- unfinished checkpoints ---- */

/* In an upgrade node by node, members of protocol 14 and of ours write into one folder. */
static void members_of_two_versions_write_into_one_folder(void **state)
{
    (void)state;
    for (uint32_t old = 0; old < 3; old++) { /* 2: each has a folder of its own */
        struct cw_world w;
        struct hsp_admin_event a = {.verb = HSP_ADMIN_SUBMIT,
                                    .spec = {.name = "j",
                                             .min = 1,
                                             .max = 8,
                                             .copies = 2,
                                             .steps = 100,
                                             .checkpoint_path = "/c",
                                             .checkpoint_shared = old < 2}};
        cw_begin(&w, 2, 1);
        w.c->nodes[1].protocol = old != 0 ? 14 : HSP_PROTO_VERSION;
        assert_int_equal(cw_admin(&w, a), HSP_OK);
        cw_plan(&w, 1);
        uint32_t n = 0;
        for (uint32_t i = 0; i < w.a.n; i++) {
            if (w.a.item[i].type == HSP_ACT_PREPARE) {
                assert_int_equal(w.a.item[i].msg->u.prepare.ckpt_old_name, old == 1);
                n++;
            }
        }
        assert_int_equal(n, 2);
        cw_end(&w);
    }
}

static void all_prepared_old(const struct cw_world *w, uint32_t n)
{
    assert_int_equal(cw_count_sent(w, HSP_MSG_PREPARE), n);
    for (uint32_t i = 0; i < w->a.n; i++) {
        if (w->a.item[i].type == HSP_ACT_PREPARE) {
            assert_true(w->a.item[i].msg->u.prepare.ckpt_old_name);
            assert_false(w->a.item[i].msg->u.prepare.share_notes);
        }
    }
}

/* The abilities of the members are known when the last one is there, and are the same in all
 * PREPAREs, also in one that is sent again. */
static void what_all_are_able_to_is_fixed_when_all_are_there(void **state)
{
    (void)state;
    struct cw_world w;
    const struct cw_scenario *s = cw_scenarios;
    while (strcmp(s->name, "recovering: waits for n1/0") != 0) {
        s++;
        assert_true(s < cw_scenarios + cw_n_scenarios);
    }
    s->tell(&w);
    w.c->jobs[0]->checkpoint_shared = true;
    w.c->nodes[1].protocol = HSP_PROTO_ATTEMPTS - 1;
    cw_of_node(&w, 1, HSP_MSG_EXECUTOR_UP);
    all_prepared_old(&w, 2);
    w.c->nodes[1].protocol = HSP_PROTO_VERSION;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 1});
    cw_hello(&w, 9, "n0", w.c->nodes[0].incarnation, 1);
    all_prepared_old(&w, 1);
    cw_end(&w);
}

HSP_TEST_FILE(ckpt_cuts_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_given_up_stays_so),
        cmocka_unit_test(nor_is_it_fallen_back_to),
        cmocka_unit_test(what_is_chosen_counts_again),
        cmocka_unit_test(cuts_are_bounded),
        cmocka_unit_test(up_through_one_epoch),
        cmocka_unit_test(a_choice_among_histories),
        cmocka_unit_test(metrics_of_what_was_given_up),
        cmocka_unit_test(metrics_that_led_there_count),
        cmocka_unit_test(any_history),
        cmocka_unit_test(what_another_store_wrote_is_given_up),
        cmocka_unit_test(rows_of_before),
        cmocka_unit_test(members_of_two_versions_write_into_one_folder),
        cmocka_unit_test(what_all_are_able_to_is_fixed_when_all_are_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
