/* Tests the answers of the planner: a text that is no plan is refused with its fault, and nothing
 * begins; devices without a use in the plan are for others. */
#include <stdio.h>
#include <string.h>

#include "daemon/cluster/broken_pairs.h"
#include "tests/unit/daemon/cluster/cluster_world.h"

#include "proto/base/size.h"

/* Two ranks, each with a shard of its own that the other has a copy of. */
struct answer {
    struct hsp_plan_event ev;
    struct hsp_plan_info info;
    hsp_device_id device[2];
    uint64_t mem[2];
    double compute[2];
    uint32_t first[3];
    struct hsp_piece_holder pieces[4];
};

static void good(struct answer *a, const struct cw_world *w)
{
    *a = (struct answer){.device = {HSP_DEVICE(0, 0), HSP_DEVICE(1, 0)},
                         .compute = {1, 1},
                         .first = {0, 2, 4},
                         .pieces = {{0, 0}, {1, 0}, {1, 1}, {0, 1}}};
    a->info = (struct hsp_plan_info){.n_ranks = 2,
                                     .device = a->device,
                                     .mem_bytes = a->mem,
                                     .compute_s = a->compute,
                                     .n_shards = 2,
                                     .shard_first = a->first,
                                     .pieces = a->pieces};
    a->ev = (struct hsp_plan_event){.job = w->asked_job, .ticket = w->ticket, .info = &a->info};
}

static void keeps(struct answer *a)
{
    a->ev.keep = true;
}
static void is_empty(struct answer *a)
{
    a->ev.info = NULL;
}
static void no_ranks(struct answer *a)
{
    a->info.n_ranks = 0;
}
static void many_ranks(struct answer *a)
{
    a->info.n_ranks = HSP_MSG_RANKS + 1;
}
static void no_devices(struct answer *a)
{
    a->info.device = NULL;
}
static void many_spares(struct answer *a)
{
    a->info.n_spare = HSP_MAX_REPLICA_HOLDERS + 1;
}
static void replica_holders_without_room(struct answer *a)
{
    a->info.n_replica_holders = 1;
}
static void replica_holders_chosen(struct answer *a)
{
    a->info.n_replica_holders = a->info.n_spare = 1;
}
static void no_shards(struct answer *a)
{
    a->info.n_shards = 0;
}
static void many_shards(struct answer *a)
{
    a->info.n_shards = UINT32_MAX;
}
static void no_firsts(struct answer *a)
{
    a->info.shard_first = NULL;
}
static void begins_late(struct answer *a)
{
    a->first[0] = 1;
}
static void many_pieces(struct answer *a)
{
    a->first[2] = UINT32_MAX;
}
static void device_twice(struct answer *a)
{
    a->device[1] = a->device[0];
}
static void other_device(struct answer *a)
{
    a->device[1] = HSP_DEVICE(1, 1);
}
static void shard_of_nobody(struct answer *a)
{
    a->first[1] = 0;
}
static void last_shard_of_nobody(struct answer *a)
{
    a->first[1] = 4;
}
static void other_holder(struct answer *a)
{
    a->pieces[3].holder = 2;
}
static void other_owner(struct answer *a)
{
    a->pieces[3].owner = 2;
}

static const struct {
    void (*spoil)(struct answer *a);
    const char *want;
} cases[] = {
    {keeps, "plan refused: the running plan cannot be kept"},
    {is_empty, "plan refused: empty"},
    {no_ranks, "plan refused: number of ranks"},
    {many_ranks, "plan refused: number of ranks"},
    {no_devices, "plan refused: number of ranks"},
    {many_spares, "plan refused: number of replica holders"},
    {replica_holders_without_room, "plan refused: number of replica holders"},
    /* the coordinator chooses them */
    {replica_holders_chosen, "plan refused: number of replica holders"},
    {no_shards, "plan refused: number of shards"},
    {many_shards, "plan refused: number of shards"},
    {no_firsts, "plan refused: number of shards"},
    {begins_late, "plan refused: number of shards"},
    {many_pieces, "plan refused: number of shards"},
    {device_twice, "plan refused: a device twice"},
    {other_device, "plan refused: a device that was not offered"},
    {shard_of_nobody, "plan refused: a shard nobody holds"},
    {last_shard_of_nobody, "plan refused: a shard nobody holds"},
    {other_holder, "plan refused: rank of a piece"},
    {other_owner, "plan refused: rank of a piece"},
};

static void what_is_no_plan_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < HSP_ARRAY_LEN(cases); i++) {
        struct cw_world w;
        struct answer a;
        cw_begin(&w, 2, 1);
        (void)cw_submit(&w, "j", 0, 1, 8);
        good(&a, &w);
        cases[i].spoil(&a);
        cw_step(&w, (struct hsp_event){.type = HSP_EV_PLAN_DONE, .u.plan = a.ev});
        assert_non_null(cw_fact(&w, "plan.infeasible"));
        assert_string_equal(cw_fact(&w, "plan.infeasible"), cases[i].want);
        assert_int_equal(cw_job(&w, 1)->att.epoch, 0);
        cw_end(&w);
    }
}

static void a_second_later(struct cw_world *w, uint32_t n_nodes)
{
    for (uint32_t i = 0; i < n_nodes; i++) {
        cw_msg(w, i + 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
    }
    w->now += 1000;
    cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
}

static void no_plan(struct cw_world *w, const char *why)
{
    cw_step(w, (struct hsp_event){
                   .type = HSP_EV_PLAN_DONE,
                   .u.plan = {
                       .job = 1, .ticket = w->ticket, .status = HSP_EINFEASIBLE, .reason = why}});
}

/* Each second the same question: it is told once, and again with other devices or for another
 * reason. */
static void what_is_asked_in_vain_is_told_once(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    (void)cw_submit(&w, "j", 0, 1, 8);
    no_plan(&w, "too large");
    assert_string_equal(cw_fact(&w, "plan.infeasible"), "too large");
    uint64_t ticket = w.ticket;
    a_second_later(&w, 2);
    assert_int_equal(w.ticket, ticket + 1);
    assert_null(cw_fact(&w, "plan.requested"));
    no_plan(&w, "too large");
    assert_null(cw_fact(&w, "plan.infeasible"));
    a_second_later(&w, 2);
    no_plan(&w, "too slow");
    assert_string_equal(cw_fact(&w, "plan.infeasible"), "too slow");
    cw_hello(&w, 3, "n2", 0, 1);
    a_second_later(&w, 3);
    assert_string_equal(cw_fact(&w, "plan.requested"), "3 devices");
    no_plan(&w, "too slow");
    assert_string_equal(cw_fact(&w, "plan.infeasible"), "too slow");
    cw_end(&w);
}

static void say_room(struct cw_world *w, uint64_t bytes)
{
    cw_msg(w, 3,
           (struct hsp_msg){.type = HSP_MSG_HEARTBEAT, .u.beat = {.seq = 1, .folder_free = bytes}});
}

/* A node came in vain, for want of room in its state folder. The running job asks again when there
 * is much more room. A job for which room does not matter asks nothing. */
static void more_room_is_asked_about(void **state)
{
    (void)state;
    for (int tight = 0; tight < 2; tight++) {
        struct cw_world w;
        cw_begin(&w, 2, 1);
        cw_run_job(&w, 2);
        cw_let_go(&w, 1, 2);
        cw_say_hello(&w, 3, (struct hsp_m_hello){.node = "n2", .folder_free = 9000});
        assert_true(w.n_asked == 3 && w.c->nodes[2].folder_free == 9000);
        uint64_t ticket = w.ticket;
        cw_step(&w, (struct hsp_event){.type = HSP_EV_PLAN_DONE,
                                       .u.plan = {.job = 1,
                                                  .ticket = w.ticket,
                                                  .status = HSP_EINFEASIBLE,
                                                  .tight = tight != 0,
                                                  .reason = "no room on n2"}});
        a_second_later(&w, 2);
        say_room(&w, 8000);
        say_room(&w, 10000);
        assert_true(w.ticket == ticket && w.c->nodes[2].folder_free == 10000);
        say_room(&w, 10001);
        assert_true(w.ticket == ticket + (uint64_t)tight);
        if (tight) {
            assert_string_equal(cw_job(&w, 1)->cause, "more room in the state folder of n2");
            cw_plan(&w, 1);
            assert_int_equal(cw_job(&w, 1)->att.n_ranks, 3);
        }
        cw_end(&w);
    }
}

/* A job has no room for all of a long reason: the events have it, once. */
static void a_long_reason_is_whole_in_the_events(void **state)
{
    (void)state;
    struct cw_world w;
    char why[901], cut[560];
    memset(why, 'w', sizeof why - 1);
    why[sizeof why - 1] = '\0';
    (void)snprintf(cut, sizeof cut, "%.556s...", why);
    cw_begin(&w, 2, 1);
    (void)cw_submit(&w, "j", 0, 1, 8);
    no_plan(&w, why);
    assert_string_equal(cw_fact(&w, "plan.infeasible"), why);
    assert_string_equal(cw_fact(&w, "job.blocked"), why);
    assert_string_equal(cw_job(&w, 1)->reason, cut);
    a_second_later(&w, 2);
    assert_string_equal(cw_job(&w, 1)->reason, cut);
    no_plan(&w, why);
    assert_null(cw_fact(&w, "plan.infeasible"));
    assert_null(cw_fact(&w, "job.blocked"));
    assert_string_equal(cw_job(&w, 1)->reason, cut);
    cw_end(&w);
}

/* The number of facts about jobs and plans that the last step has told. */
static uint32_t told(const struct cw_world *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->a.n; i++) {
        const struct hsp_action *a = &w->a.item[i];
        n += a->type == HSP_ACT_FACT && (strncmp(a->u.fact->type, "job.", 4) == 0 ||
                                         strncmp(a->u.fact->type, "plan.", 5) == 0);
    }
    return n;
}

/* Half a second later the first @n_nodes beat. Returns the number of facts told. */
static uint32_t beats(struct cw_world *w, uint32_t n_nodes)
{
    uint32_t n = 0;
    w->now += 500;
    for (uint32_t i = 0; i < n_nodes; i++) {
        cw_msg(w, i + 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        n += told(w);
    }
    cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    return n + told(w);
}

/* For a minute each question is answered so. Returns the number of facts told. */
static uint32_t a_minute_without(struct cw_world *w, uint32_t n_nodes, const char *why)
{
    uint32_t n = 0, asked = 0;
    for (const hsp_msec until = w->now + 60000; w->now < until;) {
        if (cw_job(w, 1)->ticket != 0) {
            no_plan(w, why);
            n += told(w);
            asked++;
        }
        n += beats(w, n_nodes);
        assert_string_equal(cw_job(w, 1)->reason, why);
    }
    assert_true(asked > 50 && cw_job(w, 1)->ticket != 0);
    return n;
}

/* Events tell once why there is no plan for a waiting job, and once that the job waits for that.
 * Then they tell nothing until the reason changes. A plan is taken at once. */
static void a_job_that_waits_tells_its_reason_once(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    (void)cw_submit(&w, "j", 0, 1, 8);
    assert_int_equal(a_minute_without(&w, 2, "too large"), 2);
    assert_int_equal(a_minute_without(&w, 2, "too slow"), 2);
    cw_plan(&w, 1);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_STARTING);
    cw_end(&w);
}

/* The same after a loss, when the job has state: it stays paused, and goes on from there. */
static void a_job_that_is_paused_tells_its_reason_once(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    cw_pass(&w, 1, 3, cw_even, 2);
    const struct hsp_job *j = cw_job(&w, 1);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    for (uint32_t i = 0; i < 10; i++) {
        (void)beats(&w, 1);
    }
    struct hsp_m_holding h = {.job = 1, .plan = j->cur.plan, .version = 3};
    cw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_SEALED,
                            .epoch = j->seal_upto,
                            .u.sealed = {.job = 1, .n_holdings = 1, .holdings = &h}});
    assert_int_equal(j->state, HSP_JOB_RECOVERING);
    assert_int_equal(a_minute_without(&w, 1, "too large"), 2);
    assert_int_equal(j->state, HSP_JOB_PAUSED);
    assert_int_equal(a_minute_without(&w, 1, "too slow"), 2);
    cw_plan(&w, 1);
    assert_true(j->state == HSP_JOB_RECOVERING && j->att.epoch != 0 && j->att.step == 3);
    assert_string_equal(j->reason, "");
    cw_end(&w);
}

static void the_same_unspoilt_is_taken(void **state)
{
    (void)state;
    struct cw_world w;
    struct answer a;
    cw_begin(&w, 2, 1);
    (void)cw_submit(&w, "j", 0, 1, 8);
    good(&a, &w);
    a.info.n_templates = 3;
    a.info.new_templates = 1;
    a.info.step_s = 0.25;
    a.info.why = "the only way";
    cw_step(&w, (struct hsp_event){.type = HSP_EV_PLAN_DONE, .u.plan = a.ev});
    assert_null(cw_fact(&w, "plan.infeasible"));
    assert_string_equal(cw_fact(&w, "plan.solved"),
                        "2 ranks, 0.25 s a step, 1 of 3 templates new: the only way");
    assert_int_equal(cw_job(&w, 1)->att.n_ranks, 2);
    cw_end(&w);
}

/* Of three devices the first job, which comes before the second, is better off with one. */
static void declined_devices_are_for_others(void **state)
{
    (void)state;
    struct cw_world w;
    struct answer a;
    cw_begin(&w, 3, 1);
    (void)cw_submit(&w, "j", 5, 1, 8);
    assert_int_equal(w.n_asked, 3);
    good(&a, &w);
    a.info.n_ranks = a.info.n_shards = 1;
    a.first[1] = 1;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_PLAN_DONE, .u.plan = a.ev});
    cw_ready(&w, 1, 0, 5);
    cw_pass(&w, 1, 0, cw_even, 1);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    (void)cw_submit(&w, "k", 0, 1, 2);
    assert_int_equal(w.asked_job, 2);
    assert_int_equal(w.n_asked, 2);
    cw_end(&w);
}

static void what_runs_is_kept(struct cw_world *w)
{
    cw_step(w,
            (struct hsp_event){.type = HSP_EV_PLAN_DONE,
                               .u.plan = {.job = w->asked_job, .ticket = w->ticket, .keep = true}});
}

/* A job of one device, for which two more come, one after the other, that it is better without. */
static void no_device_is_the_reason_of_two_questions(uint32_t max, bool apart, uint32_t n,
                                                     const uint32_t *last)
{
    struct cw_world w;
    cw_begin(&w, 1, 1);
    cw_run_job(&w, 1);
    w.c->jobs[0]->max = max;
    cw_hello(&w, 2, "n1", 0, 1);
    cw_uplink(&w, 2, 1e-4, 1e8);
    assert_int_equal(w.n_asked, 2);
    what_runs_is_kept(&w);
    cw_hello(&w, 3, "n2", 0, 1);
    cw_uplink(&w, 3, 1e-4, 1e8);
    assert_int_not_equal(cw_job(&w, 1)->ticket, 0);
    assert_int_equal(w.n_asked, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(w.asked[i], HSP_DEVICE(last[i], 0));
    }
    if (apart) {
        hsp_ci_pair_deaf(w.c, 1, 2, "no answer");
    }
    what_runs_is_kept(&w);
    assert_int_equal(cw_job(&w, 1)->ticket, 0);
    cw_end(&w);
}

static void what_was_declined_is_asked_about_with_what_is_new(void **state)
{
    (void)state;
    no_device_is_the_reason_of_two_questions(8, false, 3, (const uint32_t[]){0, 1, 2});
}

static void what_is_new_comes_before_what_was_declined(void **state)
{
    (void)state;
    no_device_is_the_reason_of_two_questions(2, false, 2, (const uint32_t[]){0, 2});
}

static void of_two_that_are_apart_one_is_asked_about(void **state)
{
    (void)state;
    no_device_is_the_reason_of_two_questions(8, true, 3, (const uint32_t[]){0, 1, 2});
}

HSP_TEST_FILE(answers_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_plan_is_refused),
        cmocka_unit_test(what_is_asked_in_vain_is_told_once),
        cmocka_unit_test(more_room_is_asked_about),
        cmocka_unit_test(a_long_reason_is_whole_in_the_events),
        cmocka_unit_test(a_job_that_waits_tells_its_reason_once),
        cmocka_unit_test(a_job_that_is_paused_tells_its_reason_once),
        cmocka_unit_test(the_same_unspoilt_is_taken),
        cmocka_unit_test(declined_devices_are_for_others),
        cmocka_unit_test(what_was_declined_is_asked_about_with_what_is_new),
        cmocka_unit_test(what_is_new_comes_before_what_was_declined),
        cmocka_unit_test(of_two_that_are_apart_one_is_asked_about)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
