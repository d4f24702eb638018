/* Tests the adoption of a job of another cluster, whose agents keep the state and the papers of the
 * job. */
#include <stdio.h>
#include <string.h>

#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/parked.h"
#include "daemon/cluster/standing.h"
#include "proto/wire/papers.h"
#include "tests/unit/daemon/cluster/cluster_world.h"

static const struct hsp_digest lost = {1, 2}, found = {3, 4};

/* The papers that the agents of job 1 keep, on two nodes of cluster `lost`, in @arena. */
static struct hsp_papers papers_of_a_job(struct hsp_arena *arena)
{
    struct cw_world w;
    struct hsp_papers p;
    struct hsp_err err = {0};
    struct hsp_buf b;
    hsp_buf_init(&b, HSP_PAPERS_MAX);
    cw_begin(&w, 2, 1);
    w.c->id = lost;
    assert_int_equal(cw_submit(&w, "mist", 0, 1, 8), HSP_OK);
    cw_plan(&w, 1);
    const struct hsp_action *x = cw_find(&w, HSP_ACT_PAPERS);
    assert_non_null(x);
    assert_true(x->msg->u.papers.what == HSP_PAPERS_KEEP && x->msg->epoch == 1);
    hsp_papers_write(x->u.papers, &b);
    cw_end(&w);
    uint8_t *bytes = hsp_arena_memdup(arena, b.data, b.len);
    assert_ok(hsp_papers_read(bytes, b.len, arena, &p, &err), &err);
    hsp_buf_fini(&b);
    assert_int_equal(p.n, 4); /* two names, terms, a layout */
    return p;
}

/* An hspmdd that began with an empty folder, and the papers that the agents of that job keep. */
static struct hsp_papers begin_anew(struct cw_world *w, struct hsp_arena *arena)
{
    struct hsp_papers p = papers_of_a_job(arena);
    cw_begin(w, 0, 0);
    w->c->id = found;
    return p;
}

static struct hsp_digest foreign_was; /* of the next one */

static void foreign_hello(struct cw_world *w, uint32_t conn, uint32_t node)
{
    struct hsp_m_kept kept = {.job = 1, .name = "mist", .cluster = lost, .epoch = 5, .plan = 1};
    struct hsp_m_run run = {.job = 1, .running = 5};
    struct hsp_m_holding piece = {.job = 1, .plan = 1, .rank = node, .owner = node, .version = 3};
    char name[8];
    (void)snprintf(name, sizeof(name), "n%u", node);
    cw_say_hello(w, conn,
                 (struct hsp_m_hello){.node = name,
                                      .address = "a",
                                      .incarnation = cw_secret(7),
                                      .was = foreign_was,
                                      .cluster = lost,
                                      .term = 99,
                                      .n_kept = 1,
                                      .kept = &kept,
                                      .n_holdings = 1,
                                      .holdings = &piece,
                                      .n_runs = 1,
                                      .runs = &run});
}

static const char *believed; /* the node that the administrator names, NULL none */

static enum hsp_status adopt(struct cw_world *w, const struct hsp_papers *p, bool force)
{
    return cw_admin(w, (struct hsp_admin_event){.verb = HSP_ADMIN_ADOPT,
                                                .job = p->job,
                                                .papers = p,
                                                .node = believed,
                                                .reason = "n0: generation 0, epoch 1",
                                                .force = force});
}

static void sealed(struct cw_world *w, uint32_t node)
{
    struct hsp_m_holding piece = {.job = 1, .plan = 1, .rank = node, .owner = node, .version = 4};
    cw_msg(w, node + 1,
           (struct hsp_msg){.type = HSP_MSG_SEALED, .epoch = 5, .u.sealed = {.job = 1, 1, &piece}});
}

static const char *told(const struct cw_world *w)
{
    return cw_find(w, HSP_ACT_REPLY)->text;
}

static void a_job_goes_on_from_what_its_agents_keep(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    struct hsp_papers p = begin_anew(&w, arena);
    foreign_hello(&w, 11, 0);
    foreign_hello(&w, 12, 1);
    assert_int_equal(w.c->n_parked, 2);
    assert_int_equal(adopt(&w, &p, false), HSP_OK);
    assert_string_equal(
        cw_fact(&w, "job.adopted"),
        "from the job record of n0: generation 0, epoch 1; its next epochs are of generation 1");
    assert_string_equal(told(&w), "n0: generation 0, epoch 1");
    cw_assert_left_alone(&w);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RECOVERING);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 11});
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 12});
    foreign_hello(&w, 1, 0);
    const struct hsp_action *x = cw_find(&w, HSP_ACT_PAPERS);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_WELCOME), 1);
    assert_true(x != NULL && hsp_digest_equal(x->msg->u.papers.cluster, found) &&
                hsp_digest_equal(x->msg->u.papers.from, lost));
    assert_int_equal(cw_count_sent(&w, HSP_MSG_SEAL), 1);
    sealed(&w, 0);
    assert_null(cw_find(&w, HSP_ACT_START_PLAN)); /* n1 has its time */
    foreign_hello(&w, 2, 1);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_SEAL), 2);
    sealed(&w, 0);
    sealed(&w, 1);
    /* nodes that come one after the other are no failure */
    assert_int_equal(cw_job(&w, 1)->failures, 0);
    cw_plan(&w, 1);
    const struct hsp_job *j = cw_job(&w, 1);
    assert_int_equal(j->att.epoch, HSP_GENERATION_NUMBERS + 1);
    assert_int_equal(j->att.mode, HSP_MODE_RECOVER);
    assert_int_equal(j->att.from_plan, 1);
    assert_int_equal(j->att.step, 4);
    assert_int_equal(adopt(&w, &p, false), HSP_ESTATE);
    assert_string_equal(told(&w),
                        "job 1 is job mist here, which is recovering: there is nothing to adopt");
    p.whose.cluster = (struct hsp_digest){0xab, 7}; /* the job was adopted there, too */
    assert_int_equal(adopt(&w, &p, false), HSP_ESTATE);
    assert_string_equal(
        told(&w),
        "job 1 is job mist here, which is recovering: there is nothing to adopt; start hspmdd with "
        "the state_dir of cluster 00000000 again, which continues it (hspmdd(8), RECOVERY)");
    cw_restart(&w, NULL);
    assert_true(hsp_digest_equal(cw_job(&w, 1)->from, lost) && hsp_ci_has_adopted(w.c, lost));
    cw_end(&w);
    hsp_arena_free(arena);
}

/* The administrator means the agents that are here and keep the job: nobody else takes their names
 * meanwhile. */
static void an_adopted_node_is_the_one_that_was_here(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    struct hsp_papers p = begin_anew(&w, arena);
    foreign_was = cw_secret(7);
    foreign_hello(&w, 11, 0);
    foreign_hello(&w, 12, 1);
    assert_int_equal(adopt(&w, &p, false), HSP_OK);
    foreign_was = cw_secret(8);
    foreign_hello(&w, 13, 0);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_FENCED), 1);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_WELCOME), 0);
    foreign_was = cw_secret(7);
    foreign_hello(&w, 1, 0);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_WELCOME), 1);
    foreign_was = (struct hsp_digest){0, 0};
    cw_end(&w);
    hsp_arena_free(arena);
}

/* A drain is the word of an administrator, with its reason: an adoption takes neither away. */
static void an_adoption_leaves_a_drain_as_it_is(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    struct hsp_papers p = begin_anew(&w, arena);
    for (uint32_t i = 0; i < 2; i++) {
        const char *name = i == 0 ? "n0" : "n1";
        assert_int_equal(
            cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_ALLOW, .node = name}), HSP_OK);
        assert_int_equal(cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_DRAIN,
                                                               .node = name,
                                                               .reason = "fan"}),
                         HSP_OK);
    }
    foreign_hello(&w, 11, 0); /* n1 is not here */
    assert_int_equal(adopt(&w, &p, true), HSP_OK);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(w.c->nodes[i].draining);
        assert_string_equal(w.c->nodes[i].reason, "fan");
    }
    cw_end(&w);
    hsp_arena_free(arena);
}

static void what_cannot_be_adopted(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    struct hsp_papers p = begin_anew(&w, arena), bad = p;
    foreign_hello(&w, 11, 0);
    assert_int_equal(adopt(&w, &p, false), HSP_ENODEV);
    assert_string_equal(told(&w),
                        "job mist: nodes of its newest layout are not connected and may have newer "
                        "state: n1; start their agents, or use --force if they are lost for good");
    struct hsp_m_kept other = {.job = 9, .name = "dusk", .cluster = lost, .epoch = 5, .plan = 1};
    cw_hello_keeping(&w, 12, "n1", 0, &other,
                     false); /* the agent has that name, and does not keep the job */
    assert_non_null(hsp_cluster_parked_by_name(w.c, "n1"));
    assert_int_equal(adopt(&w, &p, false), HSP_ENODEV);
    assert_non_null(strstr(told(&w), "nodes of its newest layout are not connected"));
    for (bad.n = 0; bad.n < p.n; bad.n++) { /* rows are missing */
        assert_int_equal(adopt(&w, &bad, true), HSP_EDIGEST);
    }
    bad = p;
    bad.job = 2;
    assert_int_equal(adopt(&w, &bad, true), HSP_EDIGEST);
    assert_string_equal(told(&w),
                        "the record of job 2 cannot be used: it is not the record of one job");
    assert_int_equal(w.c->n_jobs, 0);
    assert_int_equal(w.c->n_nodes, 0);
    w.c->next_job = 50;
    assert_int_equal(cw_submit(&w, "mist", 0, 1, 8), HSP_OK);
    assert_int_equal(adopt(&w, &p, true), HSP_ESTATE);
    assert_string_equal(told(&w),
                        "another job mist is pending here: cancel it first, or let it end");
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 50), HSP_OK);
    assert_int_equal(adopt(&w, &p, true), HSP_OK);
    assert_int_equal(hsp_cluster_node_by_name(w.c, "n1")->state, HSP_NODE_LEFT);
    cw_end(&w);
    hsp_arena_free(arena);
}

/* A liar may name the last generation that is taken. The papers that are made from then on are of
 * the generation behind it, and an administrator can still say that they are good. */
static void papers_of_the_last_generation(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    struct hsp_papers p = begin_anew(&w, arena);
    foreign_hello(&w, 11, 0);
    p.whose.generation = (uint64_t)(1u << 20) << 32;
    assert_int_equal(adopt(&w, &p, true), HSP_ESTATE);
    assert_string_equal(told(&w), "the record of job 1 has generation 1048576, too large to be "
                                  "true: --from NODE accepts the record of that node anyway");
    assert_int_equal(w.c->n_jobs, 0);
    believed = "n0";
    assert_int_equal(adopt(&w, &p, true), HSP_OK);
    believed = NULL;
    assert_int_equal(hsp_generation_number(w.c->generation), (1u << 20) + 1);
    cw_end(&w);
    hsp_arena_free(arena);
}

/* @p as those of job @job. */
static struct hsp_papers numbered(struct hsp_arena *arena, const struct hsp_papers *p, uint32_t job)
{
    struct hsp_papers q = *p;
    q.job = job;
    struct hsp_papers_row *row = hsp_arena_memdup(arena, p->row, p->n * sizeof(*p->row));
    for (uint32_t i = 0; i < q.n; i++) {
        uint8_t *v = hsp_arena_memdup(arena, row[i].value, row[i].len);
        for (uint32_t k = 0; k < 4 && strncmp(row[i].key, "node/", 5) != 0; k++) {
            v[1 + k] = (uint8_t)(job >> 8 * k); /* behind the form */
        }
        row[i].value = v;
    }
    q.row = row;
    return q;
}

/* A number that nobody has given is believed only of a node that an administrator names, and leaves
 * the numbers of new jobs as they are. */
static void papers_with_the_last_numbers(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    struct hsp_papers p = begin_anew(&w, arena), bad;
    foreign_hello(&w, 11, 0);
    believed = "n0";
    bad = numbered(arena, &p, HSP_MAX_FOREIGN);
    assert_int_equal(adopt(&w, &bad, true), HSP_EDIGEST);
    assert_string_equal(told(&w), "the record of job 2147483647 cannot be used: the number of the "
                                  "job is too great: numbers end at 2147483646");
    bad = p;
    bad.whose.generation = (uint64_t)UINT32_MAX << 32;
    assert_int_equal(adopt(&w, &bad, true), HSP_EDIGEST);
    assert_string_equal(told(&w), "the record of job 1 cannot be used: its generation is too "
                                  "great: generations end at 2147483647");
    bad = p;
    bad.epoch = UINT64_MAX - 1;
    assert_int_equal(adopt(&w, &bad, true), HSP_EDIGEST);
    assert_non_null(strstr(told(&w), "numbers of generations that are far ahead"));
    believed = NULL;
    bad = numbered(arena, &p, HSP_MAX_FOREIGN - 1);
    assert_int_equal(adopt(&w, &bad, true), HSP_ESTATE);
    assert_string_equal(told(&w), "the job number 2147483646 is too large to be true: --from NODE "
                                  "accepts the record of that node anyway");
    believed = "n0";
    assert_int_equal(adopt(&w, &bad, true), HSP_OK);
    believed = NULL;
    assert_int_equal(cw_submit(&w, "new", 0, 1, 1), HSP_OK);
    assert_true(cw_find(&w, HSP_ACT_REPLY)->job < HSP_JOBS_FOLLOWED);
    w.c->next_job = HSP_MAX_FOREIGN - 1; /* which is on record */
    assert_int_equal(cw_submit(&w, "newer", 0, 1, 1),
                     HSP_OK); /* below it are many that nobody has given */
    assert_int_equal(cw_find(&w, HSP_ACT_REPLY)->job, HSP_JOBS_FOLLOWED);
    w.c->next_job = UINT32_MAX; /* of an older hspmdd */
    assert_int_equal(cw_submit(&w, "newest", 0, 1, 1), HSP_OK);
    assert_int_equal(cw_find(&w, HSP_ACT_REPLY)->job, HSP_JOBS_FOLLOWED + 1);
    cw_end(&w);
    hsp_arena_free(arena);
}

/* The agent of a node on record is here for another cluster: nobody is told to start it. */
static void a_node_whose_agent_is_foreign_is_dead(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    w.c->id = found;
    cw_restart(&w, NULL);
    w.c->id = found;
    foreign_hello(&w, 11, 0);
    assert_int_equal(w.c->n_parked, 1);
    w.now += w.c->cfg.dead_ms;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    assert_int_equal(w.c->nodes[0].state, HSP_NODE_DEAD);
    assert_non_null(
        strstr(w.c->nodes[0].reason, "an agent of its name is connected and not a member"));
    assert_non_null(strstr(w.c->nodes[1].reason, "start its agent there"));
    cw_end(&w);
}

HSP_TEST_FILE(adopt_job_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_goes_on_from_what_its_agents_keep),
        cmocka_unit_test(an_adopted_node_is_the_one_that_was_here),
        cmocka_unit_test(an_adoption_leaves_a_drain_as_it_is),
        cmocka_unit_test(what_cannot_be_adopted),
        cmocka_unit_test(papers_of_the_last_generation),
        cmocka_unit_test(papers_with_the_last_numbers),
        cmocka_unit_test(a_node_whose_agent_is_foreign_is_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
