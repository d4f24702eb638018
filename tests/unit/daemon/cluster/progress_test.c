/* Tests a job that makes no progress: the nodes that are asked, the one that is named, and the
 * consequences. Node k has one device, which is rank k; failure_detection is 3 s. */
#include <math.h>
#include <stdio.h>

#include "daemon/cluster/broken_pairs.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/progress.h"
#include "tests/unit/daemon/cluster/cluster_world.h"

#define NONE HSP_MSG_RANKS

static void tick(struct cw_world *w, uint32_t ms)
{
    for (uint32_t done = 0, now; done < ms; done += now) { /* nobody falls silent */
        now = ms - done < 500 ? ms - done : 500;
        for (uint32_t i = 0; i < w->c->n_nodes; i++) {
            if (w->c->nodes[i].conn != 0) {
                cw_msg(w, w->c->nodes[i].conn, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
            }
        }
        w->now += now;
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    }
}

static void vote(struct cw_world *w, uint64_t step, double seconds, double val_loss)
{
    double compute[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    uint32_t n = cw_job(w, 1)->cur.n_ranks;
    cw_msg(w, 1,
           (struct hsp_msg){.type = HSP_MSG_STEP,
                            .epoch = cw_job(w, 1)->cur.epoch,
                            .u.step = {.job = 1,
                                       .step = step,
                                       .seconds = seconds,
                                       .val_loss = val_loss,
                                       .n_compute = n,
                                       .compute_s = compute}});
}

static void run(struct cw_world *w, uint32_t n, double seconds)
{
    cw_begin(w, n, 1);
    cw_run_job(w, n);
    w->c->jobs[0]->steps = 100000;
    vote(w, 0, 77.0, (double)NAN); /* an epoch's first step does not count */
    vote(w, 1, seconds, (double)NAN);
    cw_let_go(w, 1, n);
}

/* The answer of rank @node: it does @doing, with @peer, since @ms; @unsent bytes for @to have not
 * come. */
struct said {
    enum hsp_doing doing;
    uint32_t peer, ms, to, unsent;
    bool held;
};

static struct hsp_msg stands(const struct cw_world *w, const struct said *s,
                             struct hsp_m_thread *thread, struct hsp_m_link *link)
{
    *thread = (struct hsp_m_thread){(uint32_t)s->doing, s->peer, s->ms};
    *link = (struct hsp_m_link){.peer = s->to, .unsent = s->unsent, .held = s->held};
    return (struct hsp_msg){.type = HSP_MSG_STANDS,
                            .epoch = cw_job(w, 1)->cur.epoch,
                            .u.stands = {.job = 1,
                                         .round = w->c->next_round,
                                         .step = 2,
                                         .stable = 1,
                                         .micro = 3,
                                         .instruction = 118,
                                         .n_threads = 1,
                                         .threads = thread,
                                         .n_links = s->unsent > 0 || s->held,
                                         .links = link}};
}

static void says(struct cw_world *w, uint32_t node, struct said s)
{
    struct hsp_m_thread thread;
    struct hsp_m_link link;
    cw_msg(w, node + 1, stands(w, &s, &thread, &link));
}

static void all_say(struct cw_world *w, uint32_t n, const struct said *s)
{
    for (uint32_t i = 0; i < n; i++) {
        says(w, i, s[i]);
    }
}

/* 1 has sent the message that 0 waits for; 2 waits for 0, 1 for 2. */
static const struct said slow_link[3] = {{HSP_DOING_RECEIVE, 1, 2900, 0, 0, false},
                                         {HSP_DOING_RECEIVE, 2, 2800, 0, 80000, false},
                                         {HSP_DOING_RECEIVE, 0, 2850, 0, 0, false}};

/* ---- periods ---- */

static void asked_when_a_period_ends(void **state)
{
    (void)state;
    struct cw_world w;
    run(&w, 3, 0.1);
    tick(&w, 2999);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_WHERE), 0);
    tick(&w, 1);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_WHERE), 3);
    cw_end(&w);
    run(&w, 3, 0.5); /* ten times the median step is longer */
    vote(&w, 2, 0.7, (double)NAN);
    vote(&w, 3, 9.0, (double)NAN);
    assert_int_equal(hsp_cluster_period_ms(w.c, cw_job(&w, 1)), 7000);
    vote(&w, 4, 99.0, 1.5); /* a validation is no step */
    assert_int_equal(hsp_cluster_period_ms(w.c, cw_job(&w, 1)), 7000);
    tick(&w, 6999);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_WHERE), 0);
    tick(&w, 1);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_WHERE), 3);
    cw_end(&w);
}

static void say_stable(struct cw_world *w, const uint64_t *stable)
{
    for (uint32_t i = 0; i < 3; i++) {
        struct hsp_m_thread thread;
        struct hsp_m_link link;
        struct hsp_msg m = stands(w, &slow_link[i], &thread, &link);
        m.u.stands.stable = stable[i];
        cw_msg(w, i + 1, m);
    }
}

/* Rank 0 could not say it. */
static void a_vote_that_all_know_of_counts(void **state)
{
    (void)state;
    const struct {
        uint64_t stable[3];
        bool moves;
    } some[] = {{{2, 2, 2}, true}, {{1, 3, 2}, true}, {{1, 1, 2}, false}, {{1, 1, 1}, false}};
    for (uint32_t i = 0; i < 4; i++) {
        struct cw_world w;
        run(&w, 3, 0.1);
        tick(&w, 3000);
        say_stable(&w, some[i].stable);
        assert_int_equal(cw_fact(&w, "job.stalled") == NULL, some[i].moves);
        assert_int_equal(cw_job(&w, 1)->progress.says[0] == '\0', some[i].moves);
        tick(&w, 2999);
        assert_int_equal(cw_count_sent(&w, HSP_MSG_WHERE), 0);
        cw_end(&w);
    }
}

static void where_nobody_answers_nobody_is_named(void **state)
{
    (void)state;
    struct cw_world w;
    run(&w, 3, 0.1);
    tick(&w, 3000);
    tick(&w, 749);
    tick(&w, 1);
    assert_null(cw_fact(&w, "job.stalled"));
    tick(&w, 2250);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_WHERE), 3);
    says(&w, 0, slow_link[0]);
    says(&w, 2, slow_link[2]);
    tick(&w, 750); /* n1 does not say */
    assert_string_equal(cw_fact(&w, "job.stalled"),
                        "no vote for 6.8 s, a step takes 0.1 s: 2 threads wait for one rank: rank "
                        "1 (n1/0) does not report its progress");
    cw_end(&w);
}

/* ---- names ---- */

static void the_link_that_all_wait_for(void **state)
{
    (void)state;
    struct cw_world w;
    run(&w, 3, 0.1);
    tick(&w, 3000);
    all_say(&w, 2, slow_link);
    assert_null(cw_fact(&w, "job.stalled"));
    says(&w, 2, slow_link[2]);
    assert_string_equal(cw_fact(&w, "job.stalled"),
                        "no vote for 3.0 s, a step takes 0.1 s: 3 threads wait for the connection "
                        "between n0 and n1: rank 0 (n0/0) receives from rank 1 (n1/0) for 2.9 s "
                        "in step 2, micro-batch 3, instruction 118");
    vote(&w, 2, 3.1, (double)NAN);
    assert_string_equal(cw_fact(&w, "job.progress"), "a vote has passed again, after 3.0 s");
    assert_string_equal(cw_job(&w, 1)->progress.says, "");
    cw_end(&w);
}

static const char *named(const struct said *s, uint32_t n)
{
    static char text[400];
    struct cw_world w;
    run(&w, n, 0.1);
    tick(&w, 3000);
    all_say(&w, n, s);
    const char *fact = cw_fact(&w, "job.stalled");
    assert_non_null(fact);
    const char *from = strchr(fact, ':');
    (void)snprintf(text, sizeof text, "%s", from + 2);
    cw_end(&w);
    return text;
}

static void ranks_circles_and_nobody(void **state)
{
    (void)state;
    const struct said busy[3] = {{HSP_DOING_RECEIVE, 1, 2900, 0, 0, false},
                                 {HSP_DOING_COMPUTE, NONE, 2950, 0, 0, false},
                                 {HSP_DOING_RECEIVE, 0, 2000, 0, 0, false}};
    assert_string_equal(named(busy, 3),
                        "2 threads wait for one rank: rank 1 (n1/0) computes for 3.0 s in "
                        "step 2, micro-batch 3, instruction 118");
    struct said held[3]; /* its messages are not read: the connection is not the cause */
    memcpy(held, slow_link, sizeof held);
    held[0] = (struct said){HSP_DOING_COMPUTE, NONE, 100, 1, 0, true};
    held[1] = (struct said){HSP_DOING_SEND, 0, 2800, 0, 80000, false};
    assert_string_equal(named(held, 3),
                        "2 threads wait for one rank: rank 0 (n0/0) computes for 0.1 s in "
                        "step 2, micro-batch 3, instruction 118");
    held[0].held = false;
    assert_non_null(
        strstr(named(held, 3), "1 thread waits for the connection between n1 and n0: "));
    const struct said circle[3] = {{HSP_DOING_RECEIVE, 1, 2900, 0, 0, false},
                                   {HSP_DOING_RECEIVE, 2, 2950, 0, 0, false},
                                   {HSP_DOING_RECEIVE, 0, 2000, 0, 0, false}};
    assert_non_null(strstr(named(circle, 3),
                           "3 threads wait in a circle: rank 1 (n1/0) receives from rank 2 "));
    const struct said none[3] = {{HSP_DOING_COMPUTE, NONE, 1, 0, 0, false},
                                 {HSP_DOING_COMPUTE, NONE, 2, 0, 0, false},
                                 {HSP_DOING_COMPUTE, NONE, 3, 0, 0, false}};
    assert_non_null(strstr(named(none, 3), "no rank waits for another; rank 0 (n0/0) computes"));
}

/* The other thread of a rank: rank 0 waits for its copies, whose thread waits for that of rank
 * 1. */
static void threads_that_copy(void **state)
{
    (void)state;
    struct cw_world w;
    run(&w, 2, 0.1);
    tick(&w, 3000);
    for (uint32_t i = 0; i < 2; i++) {
        struct hsp_m_thread t[2] = {
            {i == 0 ? HSP_DOING_COPY : HSP_DOING_RECEIVE, i == 0 ? NONE : 0, 2900},
            {i == 0 ? HSP_DOING_RECEIVE : HSP_DOING_COMPUTE, i == 0 ? 1 : NONE, 2950}};
        struct hsp_m_link link;
        struct hsp_msg m = stands(&w, &slow_link[0], t, &link);
        m.u.stands.threads = t;
        t[0] = (struct hsp_m_thread){i == 0 ? HSP_DOING_COPY : HSP_DOING_RECEIVE, i == 0 ? NONE : 0,
                                     2900};
        m.u.stands.n_threads = 2;
        cw_msg(&w, i + 1, m);
    }
    assert_non_null(
        strstr(cw_fact(&w, "job.stalled"), "3 threads wait for one rank: rank 1 (n1/0) computes"));
    cw_end(&w);
}

/* ---- work that may last longer ---- */

static void stand_at_validation(struct cw_world *w, uint64_t moved)
{
    for (uint32_t i = 0; i < 3; i++) {
        struct hsp_m_thread thread;
        struct hsp_m_link link;
        struct hsp_msg m = stands(w, &slow_link[i], &thread, &link);
        m.u.stands.validation = i == 0;
        m.u.stands.moved = moved;
        cw_msg(w, i + 1, m);
    }
}

static void a_validation_that_moves(void **state)
{
    (void)state;
    struct cw_world w;
    run(&w, 3, 0.1);
    for (uint32_t k = 0; k < 3; k++) { /* none was timed yet */
        tick(&w, 3000);
        stand_at_validation(&w, k);
        assert_null(cw_fact(&w, "job.stalled"));
    }
    tick(&w, 3000);
    stand_at_validation(&w, 2);
    assert_non_null(cw_fact(&w, "job.stalled"));
    cw_end(&w);
    run(&w, 3, 0.1);
    vote(&w, 2, 0.4, 1.5); /* ten times as long: 4 s */
    tick(&w, 3000);
    stand_at_validation(&w, 1);
    assert_null(cw_fact(&w, "job.stalled"));
    tick(&w, 3000);
    stand_at_validation(&w, 2);
    assert_non_null(cw_fact(&w, "job.stalled"));
    cw_end(&w);
}

/* ---- a link that is named twice ---- */

static void name_link(struct cw_world *w)
{
    tick(w, 3000);
    assert_int_equal(cw_count_sent(w, HSP_MSG_WHERE), 3);
    all_say(w, 3, slow_link);
}

/* Epoch 1 of three nodes has ended, as n0-n1 was named twice. */
static void avoid(struct cw_world *w)
{
    run(w, 3, 0.1);
    name_link(w);
    assert_int_equal(cw_job(w, 1)->state, HSP_JOB_RUNNING);
    name_link(w);
    assert_string_equal(cw_fact(w, "link.broken"),
                        "the connection between n0 and n1 is too slow: job j waited 6.0 s for it; "
                        "jobs use only one of them, and their connection is measured every 5 s");
    assert_int_equal(cw_job(w, 1)->state, HSP_JOB_SEALING);
    for (uint32_t i = 0; i < 3; i++) {
        cw_sealed(w, i, cw_job(w, 1)->cur.plan, 1);
    }
}

static void the_link_is_avoided(void **state)
{
    (void)state;
    struct cw_world w;
    avoid(&w);
    assert_int_equal(w.n_asked, 2);
    assert_true(w.asked[0] == HSP_DEVICE(0, 0) && w.asked[1] == HSP_DEVICE(2, 0));
    cw_plan(&w, 1);
    assert_int_equal(cw_job(&w, 1)->att.n_ranks, 2);
    cw_end(&w);
}

/* A connection that loses packets falls silent and stalls by turns, over several epochs. */
static void a_silence_and_a_stall_are_enough(void **state)
{
    (void)state;
    struct cw_world w;
    for (uint32_t late = 0; late < 2; late++) { /* more than a minute lies between */
        run(&w, 3, 0.1);
        hsp_ci_pair_suspect(w.c, cw_job(&w, 1), 1, 0, 1, true);
        hsp_ci_pair_answered(w.c, 0, 1);
        w.now += late * 61000;
        vote(&w, 2, 0.1, (double)NAN);
        name_link(&w);
        assert_int_equal(w.c->n_broken, 1 - late);
        assert_int_equal(cw_job(&w, 1)->state, late ? HSP_JOB_RUNNING : HSP_JOB_SEALING);
        cw_end(&w);
        run(&w, 3, 0.1);
        name_link(&w);
        vote(&w, 2, 3.1, (double)NAN);
        w.now += late * 61000;
        vote(&w, 3, 0.1, (double)NAN);
        hsp_ci_pair_suspect(w.c, cw_job(&w, 1), 1, 0, 1, true);
        hsp_ci_pair_answered(w.c, 0, 1);
        assert_int_equal(w.c->n_broken, 1 - late);
        cw_end(&w);
    }
}

/* An outage of 3.2 s: the job has waited for 3 s, then executors say that they hear nothing, then
 * calls are answered. */
static void one_outage_is_no_broken_pair(void **state)
{
    (void)state;
    struct cw_world w;
    for (uint32_t late = 0; late < 2;
         late++) { /* the job waited longer than an outage takes to be told */
        run(&w, 3, 0.1);
        name_link(&w);
        w.now += late ? w.c->cfg.dead_ms : 400;
        cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        hsp_ci_pair_suspect(w.c, cw_job(&w, 1), 1, 0, 1, true);
        hsp_ci_pair_answered(w.c, 0, 1);
        assert_int_equal(w.c->n_broken, late);
        cw_end(&w);
    }
}

static void a_vote_in_between(void **state)
{
    (void)state;
    struct cw_world w;
    run(&w, 3, 0.1);
    name_link(&w);
    vote(&w, 2, 3.1, (double)NAN); /* late */
    vote(&w, 3, 0.1, (double)NAN); /* in time: it begins anew */
    name_link(&w);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    cw_end(&w);
    run(&w, 3, 0.1);
    name_link(&w);
    tick(&w, 1000);
    vote(&w, 2, 4.0, (double)NAN); /* each step takes longer than a period */
    name_link(&w);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
    cw_end(&w);
}

static void what_no_job_can_do_without_is_borne(void **state)
{
    (void)state;
    struct cw_world w;
    run(&w, 3, 0.1);
    w.c->jobs[0]->min = 3;
    for (uint32_t i = 0; i < 3; i++) {
        name_link(&w);
    }
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING); /* 8 s a step are more than none */
    cw_end(&w);
    avoid(&w);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_PLAN_DONE,
                                   .u.plan = {.job = 1,
                                              .ticket = w.ticket,
                                              .status = HSP_EINFEASIBLE,
                                              .reason = "no room"}});
    assert_string_equal(cw_fact(&w, "link.mended"),
                        "n0 and n1 are used in spite of their slow connection: j needs both");
    assert_int_equal(cw_job(&w, 1)->att.n_ranks, 3); /* by the plan that it had */
    for (uint32_t i = 0; i < 3; i++) {
        cw_ready(&w, 1, i, 5);
    }
    cw_pass(&w, 1, 1, cw_even, 3);
    for (uint32_t i = 0; i < 3; i++) {
        name_link(&w);
    }
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    cw_end(&w);
}

/* ---- the link is measured ---- */

static const struct hsp_m_check *ordered(const struct cw_world *w, uint32_t node)
{
    for (uint32_t i = 0; i < w->a.n; i++) {
        const struct hsp_action *a = &w->a.item[i];
        if (a->type == HSP_ACT_CHECK && a->conn == node + 1) {
            return &a->msg->u.check;
        }
    }
    return NULL;
}

static void checked(struct cw_world *w, uint32_t node, uint32_t seq, double rate, const char *fault)
{
    cw_msg(w, node + 1,
           (struct hsp_msg){.type = HSP_MSG_CHECKED,
                            .u.checked = {.check = w->c->probe.number,
                                          .seq = seq,
                                          .fault = fault,
                                          .address = seq == 1 && node == 0 ? "a:1" : "b:1",
                                          .transport = "tls",
                                          .bytes_per_s = rate}});
}

static void measure(struct cw_world *w, double there, double back)
{
    tick(w, 5000);
    assert_int_equal(ordered(w, 0)->what, HSP_CHECK_OPEN);
    checked(w, 0, 1, 0, "");
    assert_null(ordered(w, 0));
    checked(w, 1, 1, 0, "");
    assert_int_equal(ordered(w, 0)->what, HSP_CHECK_LINK);
    assert_string_equal(ordered(w, 0)->peer_address, "b:1");
    assert_string_equal(ordered(w, 1)->peer_address, "a:1");
    assert_true(ordered(w, 0)->rank == 0 && ordered(w, 1)->rank == 1);
    checked(w, 0, 2, there, "");
    checked(w, 1, 2, back, "");
    assert_int_equal(ordered(w, 0)->what, HSP_CHECK_END);
    assert_int_equal(ordered(w, 1)->what, HSP_CHECK_END);
}

static void until_it_is_fast_again(void **state)
{
    (void)state;
    struct cw_world w;
    avoid(&w);
    cw_uplink(&w, 1, 1e-4, 100e6);
    cw_uplink(&w, 2, 1e-4, 200e6); /* plans reckon with the slower one */
    measure(&w, 200e6, 0.25e6);
    assert_true(w.c->pairs[0].broken);
    assert_string_equal(w.c->pairs[0].why, "0.25 MB/s, where plans assume 100");
    tick(&w, 5000);
    checked(&w, 0, 1, 0, "no sockets");
    assert_string_equal(w.c->pairs[0].why, "n0: no sockets");
    assert_int_equal(ordered(&w, 1)->what, HSP_CHECK_END);
    tick(&w, 5000);
    tick(&w, 6000); /* n1 never answers */
    assert_string_equal(w.c->pairs[0].why, "its measurement took too long");
    measure(&w, 50e6, 51e6);
    assert_string_equal(cw_fact(&w, "link.mended"), "n0 and n1 are connected by 50 MB/s again");
    assert_int_equal(w.c->n_broken, 0);
    cw_end(&w);
}

static void calls_do_not_mend_it(void **state)
{
    (void)state;
    struct cw_world w;
    avoid(&w);
    hsp_ci_pair_answered(w.c, 0, 1);
    assert_true(w.c->pairs[0].broken && w.c->pairs[0].slow);
    cw_end(&w);
}

/* ---- a link by which votes pass, and which is slower than it was ---- */

/* Votes pass for a minute; then each rank says how fast messages of rank 1 came, but 1 itself. */
static void a_minute(struct cw_world *w, uint64_t *step, double rate)
{
    for (uint32_t i = 0; i < 60; i++) {
        tick(w, 999);
        vote(w, (*step)++, 1, (double)NAN);
        assert_int_equal(cw_count_sent(w, HSP_MSG_WHERE), 0);
        tick(w, 1);
    }
    assert_int_equal(cw_count_sent(w, HSP_MSG_WHERE), 3);
    vote(w, (*step)++, 1, (double)NAN); /* answers come behind it */
    for (uint32_t i = 0; i < 3; i += 2) {
        struct hsp_m_thread thread;
        struct hsp_m_link link;
        struct hsp_msg m = stands(w, &slow_link[2], &thread, &link);
        link = (struct hsp_m_link){.peer = 1, .bytes_per_s = i == 0 ? rate : 90e6};
        m.u.stands.n_links = 1;
        cw_msg(w, i + 1, m);
        if (i == 0 && rate < 50e6) {
            assert_int_equal(ordered(w, 0)->what, HSP_CHECK_OPEN);
            assert_int_equal(ordered(w, 1)->what, HSP_CHECK_OPEN);
        } else {
            assert_null(cw_find(w, HSP_ACT_CHECK));
        }
    }
    assert_string_equal(cw_job(w, 1)->progress.says, "");
}

static void probed(struct cw_world *w, double rate)
{
    checked(w, 0, 1, 0, "");
    checked(w, 1, 1, 0, "");
    checked(w, 0, 2, rate, "");
    checked(w, 1, 2, 95e6, "");
}

static void a_rate_below_half_is_planned_with(void **state)
{
    (void)state;
    struct cw_world w;
    uint64_t step = 2;
    run(&w, 3, 1);
    for (uint32_t i = 0; i < 3; i++) {
        cw_uplink(&w, i + 1, 1e-4, 100e6);
    }
    a_minute(&w, &step, 51e6);
    a_minute(&w, &step, 49e6);
    uint64_t ticket = w.ticket;
    probed(&w, 60e6); /* the link was only busy */
    assert_int_equal(w.ticket, ticket);
    assert_true(w.c->pairs[0].bytes_per_s == 0);
    a_minute(&w, &step, 20e6);
    probed(&w, 20e6);
    assert_string_equal(cw_fact(&w, "link.rate"),
                        "n0 and n1 are connected by 20 MB/s, where plans assumed 100");
    assert_true(w.ticket > ticket && w.c->pairs[0].bytes_per_s == 20e6);
    assert_string_equal(cw_job(&w, 1)->cause, "another rate of the connection n0-n1");
    cw_step(&w, (struct hsp_event){.type = HSP_EV_PLAN_DONE,
                                   .u.plan = {.job = 1, .ticket = w.ticket, .keep = true}});
    ticket = w.ticket;
    a_minute(&w, &step, 60e6); /* more than it was measured to give */
    probed(&w, 20e6);          /* the link is measured again all the same */
    assert_int_equal(w.ticket, ticket);
    cw_end(&w);
}

/* ---- the answers that count ---- */

static void only_answers_of_ranks_count(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_m_thread thread;
    struct hsp_m_link link;
    run(&w, 3, 0.1);
    tick(&w, 3000);
    struct hsp_msg m = stands(&w, &slow_link[0], &thread, &link);
    m.u.stands.round--;
    cw_msg(&w, 1, m);
    m.u.stands.round++;
    m.u.stands.stable = 1000000; /* more steps than there are */
    cw_msg(&w, 1, m);
    m.u.stands.stable = 1;
    m.epoch--;
    cw_msg(&w, 1, m);
    m.epoch++;
    m.u.stands.device = 1; /* no rank */
    cw_msg(&w, 1, m);
    cw_hello(&w, 4, "stranger", 0, 1);
    m.u.stands.device = 0;
    cw_msg(&w, 4, m);
    for (uint32_t i = 0; i < 3; i++) {
        assert_false(cw_job(&w, 1)->progress.stand[i].said);
    }
    cw_msg(&w, 1, m);
    assert_true(cw_job(&w, 1)->progress.stand[0].said);
    cw_end(&w);
}

HSP_TEST_FILE(progress_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(asked_when_a_period_ends),
                                       cmocka_unit_test(a_vote_that_all_know_of_counts),
                                       cmocka_unit_test(where_nobody_answers_nobody_is_named),
                                       cmocka_unit_test(the_link_that_all_wait_for),
                                       cmocka_unit_test(ranks_circles_and_nobody),
                                       cmocka_unit_test(threads_that_copy),
                                       cmocka_unit_test(a_validation_that_moves),
                                       cmocka_unit_test(the_link_is_avoided),
                                       cmocka_unit_test(a_vote_in_between),
                                       cmocka_unit_test(a_silence_and_a_stall_are_enough),
                                       cmocka_unit_test(one_outage_is_no_broken_pair),
                                       cmocka_unit_test(what_no_job_can_do_without_is_borne),
                                       cmocka_unit_test(until_it_is_fast_again),
                                       cmocka_unit_test(calls_do_not_mend_it),
                                       cmocka_unit_test(a_rate_below_half_is_planned_with),
                                       cmocka_unit_test(only_answers_of_ranks_count)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
