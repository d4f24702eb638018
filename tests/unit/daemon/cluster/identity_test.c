/* Tests the state that agents keep: of this cluster, of another, or of this one and not on record.
 * Nothing is deleted or stopped but jobs that a row says have ended. */
#include "daemon/cluster/standing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/parked.h"
#include "daemon/cluster/cluster_step.h"
#include "tests/unit/daemon/cluster/cluster_stories.h"

static struct hsp_m_kept of_ours(const struct cw_world *w, uint32_t job, uint64_t epoch)
{
    return (struct hsp_m_kept){.job = job,
                               .name = job == 1 ? "j" : "mist",
                               .cluster = w->c->id,
                               .generation = w->c->generation,
                               .epoch = epoch,
                               .plan = 1};
}

static void state_of_another_cluster_parks_its_node(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_m_kept k = {.job = 6, .name = "mist", .cluster = {0xab, 7}, .epoch = 2, .plan = 1};
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    w.c->id.lo = 4;
    cw_hello_keeping(&w, 9, "n9", 0, &k, true);
    assert_string_equal(cw_fact(&w, "node.parked"),
                        "it stores state of job mist of cluster 00000000: if state_dir here and "
                        "`coordinator` on its host are right, job adopt takes it over, node "
                        "discard deletes it"); /* the first digits of its id */
    assert_int_equal(cw_count_sent(&w, HSP_MSG_PARKED), 1);
    cw_assert_left_alone(&w);
    assert_null(hsp_cluster_node_by_name(w.c, "n9"));
    assert_int_equal(hsp_cluster_parked_by_name(w.c, "n9")->jobs[0].job, 6);
    assert_int_equal(cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_REMOVE, .node = "n9"}),
                     HSP_ESTATE);
    assert_non_null(
        strstr(cw_find(&w, HSP_ACT_REPLY)->text,
               "n9 is an agent that is not a member: hspmdctl node show n9 shows the reason"));
    cw_msg(&w, 9, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT, .u.beat.seq = 4});
    assert_int_equal(cw_count_sent(&w, HSP_MSG_HEARTBEAT), 1);
    cw_said(&w, 8, HSP_MSG_READY, 2);
    assert_int_equal(w.a.n, 0);
    /* a program that knew of no clusters, and a job that is not ours */
    k = (struct hsp_m_kept){.job = 5, .name = "", .plan = 1};
    cw_hello_keeping(&w, 10, "n10", 0, &k, false);
    assert_string_equal(cw_fact(&w, "node.parked"),
                        "it stores state of job number 5 of a program that knew of no clusters: "
                        "node discard deletes it");
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 9});
    assert_null(hsp_cluster_parked_by_name(w.c, "n9"));
    assert_non_null(hsp_cluster_parked_by_name(w.c, "n10"));
    /* no command is advised that would be refused: the number is on record here, perhaps of the
     * same job, which an hspmdd with another folder has adopted meanwhile; the papers are
     * damaged */
    k = (struct hsp_m_kept){.job = 1, .name = "mist", .cluster = {0xab, 7}, .epoch = 2, .plan = 1};
    cw_hello_keeping(&w, 11, "n11", 0, &k, false);
    assert_string_equal(
        cw_fact(&w, "node.parked"),
        "it stores state of job mist of cluster 00000000: start hspmdd with the state_dir of that "
        "cluster again, which continues it (hspmdd(8), RECOVERY); node discard deletes it");
    k = (struct hsp_m_kept){
        .job = 6, .name = "", .cluster = {0xab, 7}, .plan = 1, .papers_damaged = true};
    cw_hello_keeping(&w, 12, "n12", 0, &k, false);
    assert_string_equal(cw_fact(&w, "papers.damaged"),
                        "job-6.papers in the state folder of an agent at an unknown address that "
                        "calls itself n12 is "
                        "damaged: job number 6 cannot be adopted from it");
    assert_string_equal(
        cw_fact(&w, "node.parked"),
        "it stores state of job number 6 of cluster 00000000: its file job-6.papers is damaged, so "
        "job adopt needs another node that stores the job; node discard deletes it");
    assert_true(hsp_cluster_parked_by_name(w.c, "n12")->jobs[0].papers_damaged);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    cw_end(&w);
}

/* A holder of the worker key may say hello any number of times, as any node, with many jobs. */
static void lines_about_damaged_papers_are_bounded(void **state)
{
    (void)state;
    static struct hsp_m_kept kept[HSP_MSG_KEPT];
    struct cw_world w;
    uint32_t told[2] = {0, 0};
    cw_begin(&w, 2, 1);
    for (uint32_t i = 0; i < HSP_MSG_KEPT; i++) {
        kept[i] = (struct hsp_m_kept){
            .job = 100 + i, .name = "", .cluster = {0xab, 7}, .plan = 1, .papers_damaged = true};
    }
    struct hsp_msg m = {.type = HSP_MSG_HELLO,
                        .u.hello = {.protocol = HSP_PROTO_VERSION,
                                    .node = "n0", /* which is here */
                                    .address = "a",
                                    .n_kept = HSP_MSG_KEPT,
                                    .kept = kept}};
    for (uint32_t i = 0; i < 400; i++) {
        w.now += i % 2;
        cw_step(&w, (struct hsp_event){.type = HSP_EV_MSG,
                                       .conn = 20 + i % 2,
                                       .source = 5 + i % 2,
                                       .peer = i % 2 ? "10.0.0.9:4410" : "10.0.0.8:4410",
                                       .u.msg = &m});
        for (uint32_t k = 0; k < w.a.n; k++) {
            const struct hsp_action *a = &w.a.item[k];
            if (a->type == HSP_ACT_FACT && strcmp(a->u.fact->type, "papers.damaged") == 0) {
                assert_string_equal(a->u.fact->node, "");
                told[i % 2]++;
            }
        }
        if (i == 1) {
            assert_string_equal(
                cw_fact(&w, "papers.damaged"),
                "job-100.papers in the state folder of an agent at 10.0.0.9:4410 that calls itself "
                "n0 is damaged: job number 100 cannot be adopted from it, nor can 63 more");
        }
    }
    assert_true(told[0] == 8 && told[1] == 8);
    cw_end(&w);
}

/* Nor are there as many lines about parked agents. */
static void lines_about_parked_agents_are_bounded(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_m_kept k = {.job = 6, .name = "mist", .cluster = {0xab, 7}, .plan = 1};
    struct hsp_msg m = {
        .type = HSP_MSG_HELLO,
        .u.hello = {
            .protocol = HSP_PROTO_VERSION, .node = "x", .address = "a", .n_kept = 1, .kept = &k}};
    uint32_t told[2] = {0, 0};
    cw_begin(&w, 1, 1);
    for (uint32_t i = 0; i < 100; i++) {
        cw_step(&w, (struct hsp_event){
                        .type = HSP_EV_MSG, .conn = 20 + i % 2, .source = 5 + i % 2, .u.msg = &m});
        told[i % 2] += cw_fact(&w, "node.parked") != NULL;
        assert_int_equal(cw_count_sent(&w, HSP_MSG_PARKED), 1);
    }
    assert_true(told[0] == 8 && told[1] == 8);
    w.now += 60000;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_MSG, .conn = 20, .source = 5, .u.msg = &m});
    assert_non_null(cw_fact(&w, "node.parked"));
    cw_end(&w);
}

/* The node has no incarnation here, also if it names one, and nothing to lose. */
static void a_node_without_state_joins_from_anywhere(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 0, 0);
    cw_say_hello(&w, 4,
                 (struct hsp_m_hello){
                     .node = "a", .cluster = {1, 2}, .term = 99, .incarnation = cw_secret(5)});
    assert_int_equal(cw_count_sent(&w, HSP_MSG_WELCOME), 1);
    assert_int_equal(hsp_cluster_node_by_name(w.c, "a")->incarnation, 1);
    cw_end(&w);
}

static void a_stranger_is_no_witness(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    struct hsp_m_kept k = of_ours(&w, 1, 99);
    cw_hello_keeping(&w, 9, "n9", 0, &k, true);
    assert_string_equal(
        cw_fact(&w, "node.parked"),
        "it stores epoch 99 of job j, which is not known here, and is no member of it");
    cw_assert_left_alone(&w);
    cw_hello_keeping(&w, 2, "n1", w.c->nodes[1].incarnation, &k,
                     false);                                 /* the node was heard of before */
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING); /* the node does not run the epoch */
    assert_int_equal(cw_count_sent(&w, HSP_MSG_RELEASE), 0);
    cw_end(&w);
}

/* The store is of before epoch 9. */
/* A mistaken restore: the reason has the command that takes it back. */
static void the_store_that_was_replaced_is_named(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    uint64_t incarnation = w.c->nodes[1].incarnation;
    struct hsp_cluster_config cfg = w.c->cfg;
    cfg.replaced = "/s/state.db.replaced-7.0";
    cw_restart(&w, &cfg);
    struct hsp_m_kept k = of_ours(&w, 1, 9);
    cw_hello_keeping(&w, 2, "n1", incarnation, &k, true);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_BEHIND);
    assert_string_equal(cw_job(&w, 1)->reason,
                        "n1 has seen epoch 9 and plan 1 of it, this store knows epochs up to 1: "
                        "hspmdctl job adopt j takes it over from its agents; or put the newer "
                        "store back (replaced last: end hspmdd, then hspmdd -c CONFIG --restore "
                        "/s/state.db.replaced-7.0); hspmdctl cancel j gives up their state");
    cw_end(&w);
}

/* The reason ends with the command that helps, so it must have room for the longest names. */
static void a_long_path_leaves_room_for_the_way_out(void **state)
{
    (void)state;
    struct cw_world w;
    char path[300] = "/", want[200];
    (void)memset(path + 1, 's', 200);
    (void)snprintf(path + 201, sizeof(path) - 201, "/state.db.replaced-7.0");
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    uint64_t incarnation = w.c->nodes[1].incarnation;
    struct hsp_cluster_config cfg = w.c->cfg;
    cfg.replaced = path;
    cw_restart(&w, &cfg);
    struct hsp_job *j = hsp_ci_job(w.c, 1);
    (void)memset(j->name, 'j', HSP_NAME_MAX);
    struct hsp_m_kept k = of_ours(&w, 1, 9);
    k.name = j->name;
    cw_hello_keeping(&w, 2, "n1", incarnation, &k, true);
    assert_non_null(strstr(j->reason, " --restore with state.db.replaced-7.0 of state_dir); "));
    (void)snprintf(want, sizeof(want), "hspmdctl cancel %s gives up their state", j->name);
    assert_non_null(strstr(j->reason, want));
    cw_end(&w);
}

static void a_node_of_the_store_is_a_witness(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    uint64_t incarnation = w.c->nodes[1].incarnation;
    cw_restart(&w, NULL);
    cw_hello_running(&w, 1, "n0", w.c->nodes[0].incarnation, 1, 1);
    struct hsp_m_kept k = of_ours(&w, 1, 9);
    cw_hello_keeping(&w, 2, "n1", incarnation, &k, true);
    const struct hsp_job *j = cw_job(&w, 1);
    assert_int_equal(j->state, HSP_JOB_BEHIND);
    assert_string_equal(cw_fact(&w, "job.behind"),
                        "n1 has seen epoch 9 and plan 1 of it, this store knows epochs up to 1: "
                        "hspmdctl job adopt j takes it over from its agents; or put the newer "
                        "store back; hspmdctl cancel j gives up their state");
    cw_assert_left_alone(&w);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_WELCOME), 1);
    /* The job stays so against all messages, and over a restart without the witness. */
    w.now += 60000;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    cw_assert_left_alone(&w);
    cw_restart(&w, NULL);
    w.now += 60000;
    cw_hello(&w, 1, "n0", 0, 1);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_BEHIND);
    cw_assert_left_alone(&w);
    assert_int_equal(w.c->nodes[0].dev[0].job, 0); /* another job may have the device */
    /* An administrator's word ends it: STOP is of all that was seen. */
    cw_hello_keeping(&w, 2, "n1", incarnation, &k, true);
    assert_int_equal(w.c->nodes[1].dev[0].job, 1);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_STOP), 1);
    for (uint32_t i = 0; i < w.a.n; i++) {
        if (w.a.item[i].type == HSP_ACT_SEND && w.a.item[i].msg->type == HSP_MSG_STOP) {
            assert_int_equal(w.a.item[i].msg->epoch, 9);
        }
    }
    cw_end(&w);
}

/* Submitted after the backup: there is no row of it. */
static void a_job_without_a_row_is_shown_and_left_alone(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_restart(&w, NULL);
    struct hsp_m_kept k = of_ours(&w, 40, 3);
    cw_hello_keeping(&w, 2, "n1", w.c->nodes[1].incarnation, &k, true);
    const struct hsp_job *j = cw_job(&w, 40);
    assert_int_equal(j->state, HSP_JOB_BEHIND);
    assert_string_equal(j->name, "mist");
    assert_true(j->unrecorded);
    cw_assert_left_alone(&w);
    assert_int_equal(cw_submit(&w, "mist", 0, 1, 1), HSP_EINVAL); /* its checkpoints are there */
    assert_int_equal(cw_submit(&w, "dusk", 0, 1, 1), HSP_OK);
    assert_int_equal(w.n_asked, 0); /* n1's device is mist's; n0 may come yet */
    cw_hello(&w, 1, "n0", w.c->nodes[0].incarnation, 1);
    assert_int_equal(w.n_asked, 1);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 40), HSP_OK);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_STOP), 1);
    cw_restart(&w, NULL);
    assert_int_equal(cw_job(&w, 40)->state,
                     HSP_JOB_CANCELLED); /* now there is a row that says so */
    cw_hello_keeping(&w, 2, "n1", w.c->nodes[1].incarnation, &k, false);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_RELEASE) + cw_count_sent(&w, HSP_MSG_STOP), 1);
    cw_end(&w);
}

static void a_newer_term_leaves_all_as_it_is(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    cw_restart(&w, NULL);
    cw_say_hello(&w, 2,
                 (struct hsp_m_hello){.node = "n1",
                                      .address = "a",
                                      .term = w.c->term + 1,
                                      .incarnation = w.c->nodes[1].secret});
    assert_true(w.c->behind);
    assert_string_equal(cw_fact(&w, "coordinator.behind"),
                        "this hspmdd is behind, as node n1 reports (it has obeyed a newer hspmdd "
                        "of this cluster: term 3, here 2): put the newer store back; if that store "
                        "is lost, hspmdd --restore with a backup, over this store, numbers anew, "
                        "above it; if the report of n1 is wrong, hspmdctl node remove n1");
    for (uint32_t i = 0; i < 3;
         i++) { /* the next ones have greater terms, and are behind as well */
        w.now += 60000;
        cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        cw_assert_left_alone(&w);
        assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
        assert_int_equal(hsp_cluster_deadline(w.c), HSP_NEVER);
        assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_ESTATE);
        cw_restart(&w, NULL);
        assert_true(w.c->behind);
        assert_non_null(cw_fact(&w, "coordinator.behind"));
        cw_hello_running(&w, 1, "n0", w.c->nodes[0].incarnation, 1, 1);
        assert_int_equal(cw_count_sent(&w, HSP_MSG_PARKED), 1);
    }
    cw_end(&w);
}

/* Epochs and plans of a later generation are none of an earlier one. */
static void numbers_of_a_generation(void **state)
{
    (void)state;
    struct hsp_cluster c = {.generation =
                                (uint64_t)2 << 32 | 500}; /* the random half is of place 0 */
    struct hsp_job j = {.next_epoch = 4, .next_plan = 3};
    assert_int_equal(hsp_ci_take_epoch(&c, &j), 2000001);
    assert_int_equal(hsp_ci_take_epoch(&c, &j), 2000002);
    assert_int_equal(hsp_ci_take_plan(&c, &j), 2000001);
    static const struct {
        uint64_t epoch;
        bool unknown;
    } epochs[] = {{3, false},       {4, true},        {9, true},      {2000000, true},
                  {2000001, false}, {2000002, false}, {2000003, true}};
    for (size_t i = 0; i < sizeof epochs / sizeof epochs[0]; i++) {
        assert_int_equal(hsp_ci_epoch_unknown(&j, epochs[i].epoch), epochs[i].unknown);
    }
    for (uint32_t i = 0; i < 2 * HSP_JOB_GAPS; i++) { /* one range: none is given between */
        hsp_ci_epoch_seen(&j, j.next_epoch + 10);
    }
    assert_false(hsp_ci_epoch_unknown(&j, 2000002));
    /* numbers given elsewhere never are given here */
    for (uint32_t i = 0; i < 2 * HSP_JOB_GAPS; i++) {
        uint64_t seen = j.next_epoch + 10;
        hsp_ci_epoch_seen(&j, seen);
        assert_true(hsp_ci_epoch_unknown(&j, seen));
        assert_int_equal(hsp_ci_take_epoch(&c, &j), seen + 1);
        assert_false(hsp_ci_epoch_unknown(&j, seen + 1));
    }
    assert_true(hsp_ci_epoch_unknown(&j, 9) && !hsp_ci_epoch_unknown(&j, 3));
    assert_true(hsp_generation_ahead(hsp_generation_next(c.generation, 1), c.generation));
    assert_true(hsp_generation_ahead(c.generation + 1, c.generation)); /* another life */
    assert_false(hsp_generation_ahead((uint64_t)1 << 32 | 99, c.generation));
    assert_false(hsp_generation_ahead(c.generation, c.generation));
    assert_int_equal(hsp_generation_first(0xa17), 1);
    assert_int_equal(hsp_generation_first((uint64_t)2 << 32 | 0xa17), 2083001);
    assert_int_equal(hsp_generation_first((uint64_t)2 << 32 | UINT32_MAX), 2295001);
}

/* Jobs that are over and forgotten stay known, in few ranges. */
static void jobs_that_are_over(void **state)
{
    (void)state;
    struct cw_world w;
    static const uint32_t order[] = {5, 7, 6, 3, 9, 4, 8, 4294967295u, 12};
    cw_begin(&w, 1, 1);
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        assert_false(hsp_ci_job_is_over(w.c, order[i]));
        hsp_ci_job_over(w.c, order[i]);
        for (size_t k = 0; k <= i; k++) {
            assert_true(hsp_ci_job_is_over(w.c, order[k]));
        }
    }
    assert_int_equal(w.c->n_ended, 3); /* 3 to 9, 12, the last */
    assert_true(!hsp_ci_job_is_over(w.c, 2) && !hsp_ci_job_is_over(w.c, 10));
    cw_submit(&w, "j", 0, 1, 1); /* so that the actions are performed */
    hsp_ci_job_over(w.c, 13);
    cw_look(&w);
    w.a.n = w.c->n_actions;
    w.a.item = w.c->actions;
    cw_look(&w);
    cw_restart(&w, NULL);
    assert_int_equal(w.c->n_ended, 3);
    struct hsp_m_kept k = {.job = 6, .cluster = w.c->id, .epoch = 40};
    assert_int_equal(hsp_ci_standing(w.c, &k), HSP_STANDS_OVER);
    k.job = 10;
    assert_int_equal(hsp_ci_standing(w.c, &k), HSP_STANDS_UNKNOWN);
    cw_end(&w);
}

/* Two clusters begin to number jobs somewhere else; one whose rows have no id is given one, and
 * goes on. */
static void an_id_is_given_once(void **state)
{
    (void)state;
    struct hsp_cluster_config cfg;
    struct cw_world w;
    cw_begin(&w, 1, 1);
    cfg = w.c->cfg;
    cfg.fresh_id = (struct hsp_digest){8, 41};
    cfg.salt = 3;
    assert_int_equal(cw_submit(&w, "j", 0, 1, 1), HSP_OK);
    for (uint32_t i = 0; i < w.n_rows; i++) { /* as of a program that knew of no clusters */
        if (strcmp(w.rows[i].key, "cluster") == 0) {
            free(w.rows[i].value);
            w.rows[i] = w.rows[--w.n_rows];
        }
    }
    cw_restart(&w, &cfg);
    assert_true(hsp_digest_equal(w.c->id, cfg.fresh_id) && w.c->generation == 3);
    assert_int_equal(w.c->next_job, 2);
    struct hsp_m_kept k = {.job = 1, .epoch = 0, .plan = 0}; /* the state that its agents find */
    assert_int_equal(hsp_ci_standing(w.c, &k), HSP_STANDS_KNOWN);
    cfg.fresh_id.lo = 5;
    cw_restart(&w, &cfg);
    assert_int_equal(w.c->id.lo, 41);
    cw_end(&w);

    struct hsp_err err = {0};
    struct hsp_actions a;
    cfg.fresh_id.lo = 999;
    struct hsp_cluster *c = hsp_cluster_new(&cfg);
    assert_ok(hsp_cluster_load(c, NULL, 0, 1000, &a, &err), &err);
    assert_int_equal(c->next_job, 1000);
    (void)hsp_cluster_free(c);
}

/* The rows are written before a store has its name: another process, that was given another id,
 * goes on with them. */
static void a_new_cluster_is_on_record_before_it_begins(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_actions rows, acts;
    struct hsp_cluster_row row[2];
    struct hsp_cluster_config cfg;
    char key[2][64];
    uint8_t value[2][256];
    hsp_cluster_defaults(3000, &cfg);
    cfg.fresh_id = (struct hsp_digest){8, 999};
    struct hsp_cluster *first = hsp_cluster_new(&cfg);
    assert_ok(hsp_cluster_found(first, &rows, &err), &err);
    assert_int_equal(rows.n, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(rows.item[i].type, HSP_ACT_STORE);
        assert_true(rows.item[i].len <= sizeof value[i]); /* the rows end with the next call */
        memcpy(value[i], rows.item[i].value, rows.item[i].len);
        (void)snprintf(key[i], sizeof key[i], "%s", rows.item[i].key);
        row[i] = (struct hsp_cluster_row){key[i], value[i], rows.item[i].len};
    }
    cfg.fresh_id.lo = 5;
    struct hsp_cluster *next = hsp_cluster_new(&cfg);
    assert_ok(hsp_cluster_load(next, row, 2, 1000, &acts, &err), &err);
    assert_true(next->id.lo == 999 && next->next_job == 1000 && next->term == 1);
    (void)hsp_cluster_free(next);
    assert_ok(hsp_cluster_load(first, row, 2, 1000, &acts, &err), &err); /* or the same */
    assert_true(first->id.lo == 999 && first->next_job == 1000 && first->term == 1);
    (void)hsp_cluster_free(first);
}

HSP_TEST_FILE(identity_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_of_another_cluster_parks_its_node),
        cmocka_unit_test(a_node_without_state_joins_from_anywhere),
        cmocka_unit_test(a_stranger_is_no_witness),
        cmocka_unit_test(a_node_of_the_store_is_a_witness),
        cmocka_unit_test(the_store_that_was_replaced_is_named),
        cmocka_unit_test(a_long_path_leaves_room_for_the_way_out),
        cmocka_unit_test(a_job_without_a_row_is_shown_and_left_alone),
        cmocka_unit_test(a_newer_term_leaves_all_as_it_is),
        cmocka_unit_test(numbers_of_a_generation),
        cmocka_unit_test(jobs_that_are_over),
        cmocka_unit_test(an_id_is_given_once),
        cmocka_unit_test(a_new_cluster_is_on_record_before_it_begins),
        cmocka_unit_test(lines_about_damaged_papers_are_bounded),
        cmocka_unit_test(lines_about_parked_agents_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
