/* Tests an attacker that holds the worker key and is no member: it takes the name of a node, claims
 * to keep later state than is on record, and sends impossible numbers. Tests lies of one member,
 * too. */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/cluster/lookup.h"
#include "daemon/cluster/parked.h"
#include "daemon/cluster/row_read.h"
#include "proto/base/size.h"
#include "proto/wire/identity.h"
#include "tests/unit/daemon/cluster/cluster_stories.h"

#define THIEF 90 /* connections of the key holder, from here on */

static const struct hsp_m_device device = {
    .kind = "cpu", .speed = 1, .mem_bytes = 1, .up = true, .address = "x"};

/* A HELLO of this cluster under the name @node. */
static struct hsp_msg hello_as(const struct cw_world *w, const char *node)
{
    struct hsp_msg m = {.type = HSP_MSG_HELLO,
                        .u.hello = {.protocol = HSP_PROTO_VERSION,
                                    .node = node,
                                    .address = "thief",
                                    .cluster = w->c->id,
                                    .generation = w->c->generation,
                                    .term = w->c->term,
                                    .n_devices = 1,
                                    .devices = (struct hsp_m_device *)(uintptr_t)&device}};
    return m;
}

static const struct hsp_msg *welcome_on(const struct cw_world *w, uint32_t conn)
{
    for (uint32_t i = 0; i < w->a.n; i++) {
        const struct hsp_action *a = &w->a.item[i];
        if (a->type == HSP_ACT_SEND && a->conn == conn && a->msg->type == HSP_MSG_WELCOME) {
            return a->msg;
        }
    }
    return NULL;
}

static void passes(struct cw_world *w, uint32_t ms)
{
    for (uint32_t left = ms; left > 0;) {
        uint32_t step = left < 500 ? left : 500;
        for (uint32_t i = 0; i < w->c->n_nodes; i++) {
            if (w->c->nodes[i].conn != 0) {
                cw_msg(w, w->c->nodes[i].conn, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
            }
        }
        w->now += step;
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
        left -= step;
    }
}

static void dies(struct cw_world *w, uint32_t node)
{
    cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = node + 1});
    passes(w, w->c->cfg.dead_ms + 1000);
    assert_int_equal(w->c->nodes[node].state, HSP_NODE_DEAD);
}

/* Job 1 needs the three nodes n0, n1, n2, and runs. */
static void runs_on_three(struct cw_world *w)
{
    cw_begin(w, 3, 1);
    assert_int_equal(cw_submit(w, "j", 0, 3, 3), HSP_OK);
    cw_plan(w, 1);
    for (uint32_t i = 0; i < 3; i++) {
        cw_ready(w, 1, i, 5);
    }
    cw_pass(w, 1, 0, cw_even, 3);
    cw_let_go(w, 1, 3);
    assert_int_equal(cw_job(w, 1)->state, HSP_JOB_RUNNING);
}

/* ---- the name of a member, after a restore ---- */

/* hspmdd starts with its store as hspmdd --restore leaves it, in place of another store. */
static void restart_restored(struct cw_world *w)
{
    struct hsp_buf b;
    hsp_buf_init(&b, 100);
    hsp_cluster_restored_row(0, &b);
    struct cw_row *r = &w->rows[w->n_rows++];
    *r = (struct cw_row){.value = malloc(b.len), .len = (uint32_t)b.len};
    memcpy(r->value, b.data, b.len);
    (void)snprintf(r->key, sizeof(r->key), HSP_RESTORED_ROW);
    hsp_buf_fini(&b);
    cw_restart(w, NULL);
    assert_int_equal(hsp_generation_number(w->c->generation), 1);
}

/* The node @node says hello with its own @secret, and says that it runs epoch 1 of job 1. */
static void comes_back(struct cw_world *w, uint32_t node, struct hsp_digest secret)
{
    char name[8];
    (void)snprintf(name, sizeof(name), "n%u", node);
    struct hsp_msg m = hello_as(w, name);
    struct hsp_m_run run = {.job = 1, .running = 1};
    m.u.hello.incarnation = m.u.hello.was = secret;
    m.u.hello.generation = 0;
    m.u.hello.n_runs = 1;
    m.u.hello.runs = &run;
    cw_msg(w, node + 1, m);
}

/* When a node has been heard in this generation, an agent that knows only an older generation is
 * not accepted as that node. */
static void an_older_generation_proves_nothing_twice(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_digest secret[2];
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    secret[0] = w.c->nodes[0].secret;
    secret[1] = w.c->nodes[1].secret;
    restart_restored(&w);
    comes_back(&w, 0, secret[0]);
    comes_back(&w, 1, secret[1]);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    uint64_t number = w.c->nodes[0].incarnation;
    cw_restart(&w, NULL);
    struct hsp_msg m = hello_as(&w, "n0");
    struct hsp_m_run run = {.job = 1, .running = 1, .finished = true};
    m.u.hello.incarnation = (struct hsp_digest){66, 6};
    m.u.hello.generation = 0;
    m.u.hello.n_runs = 1;
    m.u.hello.runs = &run;
    cw_msg(&w, THIEF, m);
    assert_null(welcome_on(&w, THIEF));
    m.u.hello.incarnation = (struct hsp_digest){0, 0};
    cw_msg(&w, THIEF + 1, m);
    assert_null(welcome_on(&w, THIEF + 1));
    assert_int_equal(w.c->nodes[0].incarnation, number);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    comes_back(&w, 0, secret[0]);
    comes_back(&w, 1, secret[1]);
    assert_int_equal(w.c->nodes[0].incarnation, number);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    cw_end(&w);
}

/* After a restore, before the real n0 has come back, hspmdd welcomes an agent that says it is n0
 * but does not show the secret of n0. It treats that agent as another process with the same name:
 * it does not believe its report that job 1 has ended, and does not send it the secret. */
static void nobody_is_told_a_secret(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        struct cw_world w;
        cw_begin(&w, 2, 1);
        cw_run_job(&w, 2);
        struct hsp_digest secret = w.c->nodes[0].secret;
        uint64_t number = w.c->nodes[0].incarnation;
        restart_restored(&w);
        struct hsp_msg m = hello_as(&w, "n0");
        struct hsp_m_run run = {.job = 1, .running = 1, .finished = true};
        m.u.hello.was = (struct hsp_digest){66, 6};
        m.u.hello.incarnation = with == 0 ? (struct hsp_digest){0, 0} : m.u.hello.was;
        m.u.hello.generation = 0;
        m.u.hello.n_runs = 1;
        m.u.hello.runs = &run;
        cw_msg(&w, THIEF, m);
        assert_non_null(welcome_on(&w, THIEF));
        assert_false(hsp_digest_equal(welcome_on(&w, THIEF)->u.welcome.incarnation, secret));
        assert_true(w.c->nodes[0].incarnation > number);
        assert_int_equal(w.c->nodes[0].same_since, w.c->nodes[0].incarnation);
        assert_true(cw_job(&w, 1)->state != HSP_JOB_DONE);
        /* The agent may not have heard the answer. */
        cw_msg(&w, THIEF + 1, m);
        assert_true(with == 0 || welcome_on(&w, THIEF + 1) != NULL);
        cw_end(&w);
    }
}

/* Two agents with the names of members, but without their secrets, say that the job of the backup
 * has not ended: the job does not begin for that. */
static void a_name_vouches_for_no_job(void **state)
{
    (void)state;
    static const char *const names[] = {"n0", "n1"};
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    restart_restored(&w);
    for (uint32_t i = 0; i < HSP_ARRAY_LEN(names); i++) {
        struct hsp_msg m = hello_as(&w, names[i]);
        struct hsp_m_kept k = {
            .job = 1, .name = "j", .cluster = w.c->id, .generation = 0, .epoch = 1, .plan = 1};
        m.u.hello.was = (struct hsp_digest){66, i + 1};
        m.u.hello.generation = 0;
        m.u.hello.n_kept = 1;
        m.u.hello.kept = &k;
        cw_msg(&w, THIEF + i, m);
        assert_non_null(welcome_on(&w, THIEF + i));
    }
    passes(&w, w.c->cfg.state_wait_ms);
    assert_true(cw_job(&w, 1)->doubted);
    assert_int_equal(cw_job(&w, 1)->att.epoch, 0);
    assert_int_equal(cw_job(&w, 1)->ticket, 0);
    cw_end(&w);
}

/* ---- the name of a node that is dead ---- */

static void claims_to_run(struct cw_world *w, uint32_t conn, bool finished)
{
    struct hsp_msg m = hello_as(w, "n0");
    struct hsp_m_run run = {.job = 1, .running = 1, .finished = finished};
    m.u.hello.n_devices = 0;
    m.u.hello.n_runs = 1;
    m.u.hello.runs = &run;
    m.u.hello.incarnation = cw_last(w, "n0"); /* its own, after the first */
    cw_msg(w, conn, m);
}

/* Rank 0 was there. */
static void a_dead_name_ends_no_job(void **state)
{
    (void)state;
    static const enum hsp_job_state states[] = {HSP_JOB_SEALING, HSP_JOB_PAUSED,
                                                HSP_JOB_RECOVERING};
    for (size_t i = 0; i < HSP_ARRAY_LEN(states); i++) {
        struct cw_world w;
        if (states[i] == HSP_JOB_RECOVERING) {
            cw_begin(&w, 3, 1);
            cw_run_job(&w, 3);
        } else {
            runs_on_three(&w);
        }
        dies(&w, 0);
        if (states[i] != HSP_JOB_SEALING) {
            cw_sealed(&w, 1, 1, 4);
            cw_sealed(&w, 2, 1, 4);
        }
        assert_int_equal(cw_job(&w, 1)->state, states[i]);
        uint32_t failures = cw_job(&w, 1)->failures;
        struct hsp_msg m = hello_as(&w, "n0"); /* told of no incarnation: a dead name is free */
        m.u.hello.n_devices = 0;
        struct hsp_m_run run = {.job = 1, .running = 1, .finished = true};
        m.u.hello.n_runs = 1;
        m.u.hello.runs = &run;
        cw_msg(&w, THIEF, m);
        assert_non_null(welcome_on(&w, THIEF));
        for (int k = 0; k < 40; k++) {
            claims_to_run(&w, THIEF, k % 2 == 0);
            assert_int_equal(cw_job(&w, 1)->state, states[i]);
        }
        assert_int_equal(cw_job(&w, 1)->failures, failures);
        assert_int_equal(w.c->nodes[0].dev[0].job, 0);
        cw_end(&w);
    }
}

/* ---- claims ---- */

static void claims_more(struct cw_world *w, uint32_t conn)
{
    struct hsp_msg m = hello_as(w, "n1");
    struct hsp_m_kept k = {.job = 1,
                           .name = "j",
                           .cluster = w->c->id,
                           .generation = w->c->generation,
                           .epoch = 99,
                           .plan = 1};
    m.u.hello.n_kept = 1;
    m.u.hello.kept = &k;
    cw_msg(w, conn, m);
    assert_non_null(hsp_cluster_parked_by_name(w->c, "n1"));
}

static bool begun(const struct cw_world *w)
{
    return cw_job(w, 1)->att.epoch != 0;
}

/* n1, which was a member of job 1, is dead; hspmdd has restarted, and knows the state of n0. */
static void held_back(struct cw_world *w)
{
    cw_begin(w, 2, 1);
    cw_run_job(w, 2);
    struct hsp_digest secret = w->c->nodes[0].secret;
    dies(w, 1);
    cw_restart(w, NULL);
    claims_more(w, THIEF);
    comes_back(w, 0, secret);
    cw_plan(w, 1);
    cw_sealed(w, 0, 1, 4);
    assert_false(begun(w));
}

static void a_claim_ends_in_time(void **state)
{
    (void)state;
    struct cw_world w;
    held_back(&w);
    for (uint32_t i = 1; i < 50; i++) { /* the key holder comes again, and again */
        claims_more(&w, THIEF + i);
        cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = THIEF + i - 1});
        passes(&w, 1000);
        assert_false(begun(&w));
    }
    passes(&w, w.c->cfg.state_wait_ms - 49000);
    assert_true(begun(&w));
    assert_non_null(hsp_cluster_parked_by_name(w.c, "n1"));
    cw_end(&w);
}

static void an_administrator_ends_a_claim(void **state)
{
    (void)state;
    struct cw_world w;
    held_back(&w);
    assert_string_equal(cw_job(&w, 1)->reason,
                        "an agent that does not prove to be node n1 reports a newer epoch of it: "
                        "waiting 60 s for that node; node remove n1 ends that");
    assert_int_equal(cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_REMOVE, .node = "n1"}),
                     HSP_OK);
    assert_true(begun(&w));
    assert_string_equal(cw_job(&w, 1)->reason, "");
    cw_end(&w);
}

/* ---- many jobs ---- */

static void names(struct cw_world *w, uint32_t conn, const char *node, uint32_t n, bool kept)
{
    struct hsp_m_kept *k = calloc(n, sizeof(*k));
    struct hsp_m_holding *h = calloc(n, sizeof(*h));
    assert_true(k != NULL && h != NULL);
    for (uint32_t i = 0; i < n; i++) {
        k[i] = (struct hsp_m_kept){.job = 100 + i,
                                   .name = "",
                                   .cluster = w->c->id,
                                   .generation = w->c->generation,
                                   .epoch = 1,
                                   .plan = 1};
        h[i] = (struct hsp_m_holding){.job = 100 + i, .plan = 1, .version = 1};
    }
    struct hsp_msg m = hello_as(w, node);
    m.u.hello.n_kept = kept ? n : 0;
    m.u.hello.kept = k;
    m.u.hello.n_holdings = kept ? 0 : n;
    m.u.hello.holdings = h;
    m.u.hello.incarnation = cw_last(w, node);
    cw_msg(w, conn, m);
    free(k);
    free(h);
}

static void a_hello_names_few_jobs(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 1, 1);
    names(&w, THIEF, "x", HSP_MSG_KEPT, false);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_PARKED), 1);
    names(&w, THIEF + 1, "y", HSP_MSG_KEPT + 1, false);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_PARKED), 0);
    assert_string_equal(cw_find(&w, HSP_ACT_CLOSE)->text, "it names more than 64 jobs");
    names(&w, THIEF + 2, "z", HSP_MSG_HOLDINGS, false);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_PARKED), 0);
    assert_int_equal(w.c->n_parked, 1);
    cw_end(&w);
}

/* Jobs without a row are taken over from few nodes only, and never displace a job that has a
 * row. */
static void found_jobs_are_bounded(void **state)
{
    (void)state;
    static struct cw_world w;
    enum { N = 12 };
    cw_begin(&w, N, 1);
    assert_int_equal(cw_submit(&w, "ended", 0, 9, 9), HSP_OK);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    struct hsp_digest secret[N];
    for (uint32_t i = 0; i < N; i++) {
        secret[i] = w.c->nodes[i].secret;
    }
    cw_restart(&w, NULL);
    for (uint32_t i = 0; i < N; i++) {
        char name[8];
        struct hsp_m_kept k[HSP_MSG_KEPT];
        (void)snprintf(name, sizeof(name), "n%u", i);
        for (uint32_t n = 0; n < HSP_MSG_KEPT; n++) {
            k[n] = (struct hsp_m_kept){.job = n == 0 ? UINT32_MAX - i : 100 + HSP_MSG_KEPT * i + n,
                                       .name = "",
                                       .cluster = w.c->id,
                                       .generation = w.c->generation,
                                       .epoch = 1,
                                       .plan = 1};
        }
        struct hsp_msg m = hello_as(&w, name);
        m.u.hello.n_kept = HSP_MSG_KEPT;
        m.u.hello.kept = k;
        m.u.hello.incarnation = secret[i];
        cw_msg(&w, i + 1, m);
    }
    assert_int_equal(w.c->n_jobs, 1 + HSP_MAX_FOUND);
    assert_non_null(cw_job(&w, 1));
    assert_null(cw_job(&w, UINT32_MAX)); /* a number that no store has given */
    assert_int_equal(cw_submit(&w, "next", 0, 1, 1), HSP_OK);
    for (uint32_t i = 1; i < w.c->n_jobs; i++) { /* nor is one given twice */
        assert_true(w.c->jobs[i]->id > w.c->jobs[i - 1]->id);
    }
    assert_string_equal(w.c->jobs[w.c->n_jobs - 1]->name, "next");
    cw_end(&w);
}

/* ---- a member that names a coordinator which cannot be ---- */

static void says_newer(struct cw_world *w, uint64_t generation, uint64_t term)
{
    struct hsp_msg m = hello_as(w, "n1");
    m.u.hello.incarnation = w->c->nodes[1].secret;
    m.u.hello.generation = generation;
    m.u.hello.term = term;
    cw_msg(w, 2, m);
}

static void few_generations_are_believed(void **state)
{
    (void)state;
    static const struct {
        uint64_t generation, term;
        bool believed;
    } cases[] = {{(uint64_t)UINT32_MAX << 32, 1, false}, {(uint64_t)1000 << 32, 1, false},
                 {(uint64_t)1 << 32, 1, true},           {0, 50, true},
                 {0, HSP_GENERATION_NUMBERS + 1, false}, {(uint64_t)1 << 32, UINT64_MAX, false}};
    for (size_t i = 0; i < HSP_ARRAY_LEN(cases); i++) {
        struct cw_world w;
        cw_begin(&w, 2, 1);
        cw_run_job(&w, 2);
        struct hsp_digest secret = w.c->nodes[0].secret;
        cw_restart(&w, NULL);
        says_newer(&w, cases[i].generation, cases[i].term);
        assert_int_equal(cw_count_sent(&w, HSP_MSG_PARKED), 1);
        assert_int_equal(w.c->behind, cases[i].believed);
        comes_back(&w, 0, secret);
        assert_int_equal(welcome_on(&w, 1) != NULL, !cases[i].believed);
        cw_end(&w);
    }
}

/* An administrator removes the lying member, and the others go on. */
static void who_accuses_can_be_removed(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    cw_hello(&w, 3, "n2", 0, 0);
    struct hsp_digest secret = w.c->nodes[0].secret, liar = w.c->nodes[1].secret;
    cw_restart(&w, NULL);
    says_newer(&w, (uint64_t)2 << 32, 1);
    assert_true(w.c->behind);
    comes_back(&w, 0, secret);
    w.now += 600000;
    cw_restart(&w, NULL);
    assert_true(w.c->behind);
    comes_back(&w, 0, secret);
    assert_int_equal(cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_REMOVE, .node = "n2"}),
                     HSP_ESTATE);
    assert_true(w.c->behind);
    assert_int_equal(cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_REMOVE, .node = "n1"}),
                     HSP_OK);
    assert_false(w.c->behind);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 1}); /* as it was told */
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    comes_back(&w, 0, secret);
    assert_non_null(welcome_on(&w, 1));
    struct hsp_msg m = hello_as(&w, "n1");
    m.u.hello.incarnation = m.u.hello.was = liar;
    m.u.hello.generation = (uint64_t)2 << 32;
    cw_msg(&w, 2, m);
    m.u.hello.incarnation = (struct hsp_digest){0, 0};
    cw_msg(&w, 3, m);
    assert_false(w.c->behind); /* the liar was removed, and the proof of its identity with it */
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
    cw_sealed(&w, 0, 1, 4);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RECOVERING);
    cw_restart(&w, NULL);
    assert_false(w.c->behind);
    cw_end(&w);
}

/* A node that joined without devices proves its identity after a start, and names newer layouts of
 * a job, then a newer hspmdd: nothing can have run there. */
static void who_has_no_devices_keeps_nothing(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 1, 1);
    assert_int_equal(cw_submit(&w, "j", 0, 4, 4), HSP_OK);
    struct hsp_msg m = hello_as(&w, "x");
    m.u.hello.n_devices = 0;
    cw_msg(&w, THIEF, m);
    assert_non_null(welcome_on(&w, THIEF));
    m.u.hello.incarnation = m.u.hello.was = welcome_on(&w, THIEF)->u.welcome.incarnation;
    cw_restart(&w, NULL);
    struct hsp_m_holding h = {.job = 1, .plan = 9, .version = 1};
    m.u.hello.n_holdings = 1;
    m.u.hello.holdings = &h;
    cw_msg(&w, THIEF, m);
    assert_int_equal(hsp_cluster_parked_by_name(w.c, "x")->as, HSP_PARKED_UNPROVEN);
    assert_string_equal(cw_job(&w, 1)->ahead, "");
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = THIEF});
    m.u.hello.n_holdings = 0;
    m.u.hello.generation += (uint64_t)1 << 32;
    cw_msg(&w, THIEF, m);
    assert_int_equal(hsp_cluster_parked_by_name(w.c, "x")->as, HSP_PARKED_UNPROVEN);
    assert_false(w.c->behind);
    cw_end(&w);
}

HSP_TEST_FILE(key_holder_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_generation_proves_nothing_twice),
        cmocka_unit_test(nobody_is_told_a_secret),
        cmocka_unit_test(a_name_vouches_for_no_job),
        cmocka_unit_test(a_dead_name_ends_no_job),
        cmocka_unit_test(a_claim_ends_in_time),
        cmocka_unit_test(an_administrator_ends_a_claim),
        cmocka_unit_test(a_hello_names_few_jobs),
        cmocka_unit_test(found_jobs_are_bounded),
        cmocka_unit_test(few_generations_are_believed),
        cmocka_unit_test(who_accuses_can_be_removed),
        cmocka_unit_test(who_has_no_devices_keeps_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
