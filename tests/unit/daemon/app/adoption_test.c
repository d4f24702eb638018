/* Tests the choice among papers of a job. Holders of the worker key tell papers of their own;
 * papers whose rows contradict each other are refused before anything is adopted. */
#include "daemon/app/api/adoption.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/app/state/app_state.h"
#include "daemon/app/state/job_table.h"
#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/parked.h"
#include "proto/base/size.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/app/adopt_sample.h"

#define TEXT ((size_t)64 << 20)

static const struct adopt_twist honest, later = {.epoch = 2}, other = {.ckpt = "/srv/other"},
                                        forged = {.generation = 1, .ckpt = "/tmp/mine"},
                                        far = {.generation = 257}, near = {.generation = 256},
                                        plain = {.plain = true};

/* An adoption of job 1, for which @n agents h0, h1, ... were asked. */
static struct hsp_adoption *asked(uint32_t n)
{
    struct hsp_adoption *x = calloc(1, sizeof *x);
    assert_non_null(x);
    x->job = 1;
    x->cluster = (struct hsp_digest){1, 0};
    x->n_asked = n;
    x->holder = calloc(n, sizeof *x->holder);
    assert_non_null(x->holder);
    for (uint32_t i = 0; i < n; i++) {
        (void)snprintf(x->holder[i].name, sizeof x->holder[i].name, "h%u (10.0.0.%u:9)", i, i);
    }
    return x;
}

static void tells(struct hsp_adoption *x, uint32_t who, const struct adopt_twist *t)
{
    struct hsp_buf b;
    struct hsp_err err = {0};
    hsp_buf_init(&b, TEXT);
    adopt_papers(t, &b);
    assert_ok(hsp_adoption_consider(x, &x->holder[who], b.data, (uint32_t)b.len, &err), &err);
    hsp_buf_fini(&b);
}

/* Ends @x. */
static void judged(struct hsp_adoption *x, enum hsp_status want, const char *text)
{
    struct hsp_buf said;
    hsp_buf_init(&said, TEXT);
    assert_int_equal(hsp_adoption_judge(x, &said), want);
    assert_string_equal(hsp_buf_cstr(&said), text);
    hsp_buf_fini(&said);
    (void)hsp_adoption_free(x);
}

static void the_newest_that_two_tell_are_taken(void **state)
{
    (void)state;
    struct hsp_adoption *x = asked(3);
    tells(x, 1, &honest);
    tells(x, 0, &later);
    tells(x, 2, &later);
    assert_int_equal(x->papers.epoch, 3);
    judged(x, HSP_OK, "h0 (10.0.0.0:9), h2 (10.0.0.2:9): generation 0, epoch 3");
    x = asked(1);
    tells(x, 0, &forged); /* nobody else is there: the answer says whose they are */
    judged(x, HSP_OK, "h0 (10.0.0.0:9): generation 1, epoch 1");
    x = asked(7);
    for (uint32_t i = 0; i < 7; i++) {
        tells(x, i, &honest);
    }
    struct hsp_buf said;
    hsp_buf_init(&said, TEXT);
    assert_int_equal(hsp_adoption_judge(x, &said), HSP_OK);
    assert_non_null(strstr(hsp_buf_cstr(&said), " and 2 more: generation 0, epoch 1"));
    hsp_buf_fini(&said);
    (void)hsp_adoption_free(x);
}

static void one_alone_is_not_believed(void **state)
{
    (void)state;
    struct hsp_adoption *x = asked(3);
    tells(x, 0, &honest);
    tells(x, 1, &later);
    tells(x, 2, &honest);
    judged(x, HSP_ESTATE,
           "job 1: only one agent has the newest job record; choose one with --from NODE; h1 "
           "(10.0.0.1:9): generation 0, epoch 3; h0 (10.0.0.0:9), h2 (10.0.0.2:9): generation 0, "
           "epoch 1");
    x = asked(2);
    tells(x, 1, &honest);
    judged(x, HSP_ESTATE,
           "job 1: only one agent has the newest job record; choose one with --from NODE; h1 "
           "(10.0.0.1:9): generation 0, epoch 1; h0 (10.0.0.0:9): no job record");
}

/* A holder of the key can be as many agents as it likes. */
static void a_crowd_that_lies_is_not_believed(void **state)
{
    (void)state;
    static const struct {
        const struct adopt_twist *lie;
        const char *why;
    } table[] = {{&forged, "job 1: the job files differ; "},
                 {&other, "job 1: the job files differ; "},
                 {&far, "job 1: the newest job record has a far newer generation; "}};
    for (size_t i = 0; i < HSP_ARRAY_LEN(table); i++) {
        struct hsp_adoption *x = asked(4);
        struct hsp_buf said;
        tells(x, 0, table[i].lie);
        tells(x, 1, &honest);
        tells(x, 2, table[i].lie);
        tells(x, 3, table[i].lie);
        hsp_buf_init(&said, TEXT);
        assert_int_equal(hsp_adoption_judge(x, &said), HSP_ESTATE);
        if (strstr(hsp_buf_cstr(&said), table[i].why) != hsp_buf_cstr(&said)) {
            fail_msg("%s", hsp_buf_cstr(&said));
        }
        assert_non_null(strstr(hsp_buf_cstr(&said), "; h1 (10.0.0.1:9): generation 0, epoch 1"));
        hsp_buf_fini(&said);
        (void)hsp_adoption_free(x);
    }
    struct hsp_adoption *x = asked(3);
    tells(x, 0, &near);
    tells(x, 1, &near);
    tells(x, 2, &honest);
    judged(x, HSP_OK, "h0 (10.0.0.0:9), h1 (10.0.0.1:9): generation 256, epoch 1");
}

static void papers_of_one_epoch_that_differ(void **state)
{
    (void)state;
    static const struct adopt_twist apart = {.no_plan = true}; /* of the same job file */
    struct hsp_adoption *x = asked(4);
    struct hsp_buf said;
    for (uint32_t i = 0; i < 4; i++) {
        tells(x, i, i < 2 ? &honest : &apart);
    }
    hsp_buf_init(&said, TEXT);
    assert_int_equal(hsp_adoption_judge(x, &said), HSP_ESTATE);
    assert_non_null(strstr(hsp_buf_cstr(&said), "job 1: the newest job records differ; "));
    hsp_buf_fini(&said);
    (void)hsp_adoption_free(x);
}

/* Some agents got theirs from an hspmdd that wrote the older form. */
static void papers_of_both_forms_agree(void **state)
{
    (void)state;
    struct hsp_adoption *x = asked(2);
    tells(x, 0, &plain);
    tells(x, 1, &honest);
    judged(x, HSP_OK, "h0 (10.0.0.0:9), h1 (10.0.0.1:9): generation 0, epoch 1");
}

/* The administrator's word goes, unless two say that they are the one he means. */
static void the_one_that_is_named_is_believed(void **state)
{
    (void)state;
    struct hsp_adoption *x = asked(2);
    (void)snprintf(x->from, sizeof x->from, "a");
    tells(x, 0, &honest);
    judged(x, HSP_OK, "h0 (10.0.0.0:9): generation 0, epoch 1"); /* the other is half gone */
    x = asked(2);
    (void)snprintf(x->from, sizeof x->from, "a");
    tells(x, 0, &honest);
    tells(x, 1, &forged);
    judged(x, HSP_ESTATE,
           "job 1: several agents claim to be that node; choose one with --from ADDRESS; h1 "
           "(10.0.0.1:9): generation 1, epoch 1; h0 (10.0.0.0:9): generation 0, epoch 1");
}

static enum hsp_status read_one(const struct adopt_twist *t, struct hsp_err *err)
{
    struct hsp_cluster *c = adopt_core((struct hsp_digest){3, 4});
    struct hsp_adoption *x = asked(1);
    tells(x, 0, t);
    enum hsp_status st = hsp_adoption_read(x, c, err);
    (void)hsp_adoption_free(x);
    (void)hsp_cluster_free(c);
    return st;
}

static void rows_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct adopt_twist t;
        enum hsp_status want;
        const char *text;
    } table[] = {
        {{.device = true}, HSP_EPARSE, "the record of job 1 contradicts itself on its layouts"},
        {{.ranks = true}, HSP_EPARSE, "the record of job 1 contradicts itself on its layouts"},
        {{.no = true}, HSP_EPARSE, "the record of job 1 contradicts itself on its layouts"},
        {{.no_plan = true}, HSP_EPARSE, "the record of job 1 contradicts itself on its layouts"},
        {{.name = "big"}, HSP_EPARSE, "the record of job 1 contradicts itself on its name"},
        {{.data = "/srv/more"},
         HSP_EPARSE,
         "the record of job 1 contradicts itself on the path of its data"},
        {{.ckpt = "/tmp/mine"},
         HSP_EPARSE,
         "the record of job 1 contradicts itself on the path of its checkpoints"},
        {{.one_name = true},
         HSP_EDIGEST,
         "the record of job 1 cannot be used: it is not the record of one job"},
    };
    struct hsp_err err = {0};
    assert_ok(read_one(&honest, &err), &err);
    assert_ok(read_one(&plain, &err), &err);
    for (size_t i = 0; i < HSP_ARRAY_LEN(table); i++) {
        err = (struct hsp_err){0};
        assert_status(read_one(&table[i].t, &err), table[i].want);
        assert_err(&err, table[i].want, table[i].text);
    }
}

static bool count_row(void *ctx, const char *key, const struct hsp_buf *value)
{
    uint32_t *n = ctx;
    assert_true(strncmp(key, "app/", 4) == 0 && value->len > 0);
    (*n)++;
    return true;
}

/* The nodes have other numbers here. */
static void devices_are_numbered_anew(void **state)
{
    (void)state;
    struct hsp_app app = {.cluster = adopt_core((struct hsp_digest){3, 4})};
    struct hsp_adoption *x = asked(1);
    struct hsp_err err = {0};
    uint32_t n = 0;
    adopt_hello(app.cluster, 1);
    tells(x, 0, &honest);
    assert_ok(hsp_adoption_read(x, app.cluster, &err), &err);
    struct hsp_actions acts = adopt_step(
        app.cluster, (struct hsp_event){.type = HSP_EV_ADMIN,
                                        .u.admin = {.verb = HSP_ADMIN_ADOPT,
                                                    .job = 1,
                                                    .papers = &x->papers,
                                                    .reason = "h0: generation 0, epoch 1",
                                                    .force = true}});
    const struct hsp_action *r = adopt_find(&acts, HSP_ACT_REPLY);
    assert_true(r != NULL && r->status == HSP_OK);
    assert_string_equal(r->text, "h0: generation 0, epoch 1");
    const char *fact = "";
    for (uint32_t i = 0; i < acts.n; i++) {
        bool it = acts.item[i].type == HSP_ACT_FACT &&
                  strcmp(acts.item[i].u.fact->type, "job.adopted") == 0;
        fact = it ? acts.item[i].u.fact->reason : fact;
    }
    assert_non_null(strstr(fact, "from the job record of h0: generation 0, epoch 1; "));
    assert_true(hsp_adoption_take(&app, x, count_row, &n));
    assert_int_equal(n, 2);
    const struct hsp_plan_rec *p = hsp_app_plan_find(hsp_app_job_find(&app, 1), 1);
    assert_non_null(p);
    for (uint32_t i = 0; i < 2; i++) {
        const struct hsp_cluster_node *node =
            hsp_cluster_node_by_name(app.cluster, i == 0 ? "a" : "b");
        assert_non_null(node);
        assert_int_equal(p->device[i], HSP_DEVICE(hsp_ci_index_of(app.cluster, node), 0));
    }
    assert_int_equal(HSP_DEVICE_NODE(p->device[1]), 0);
    (void)hsp_adoption_free(x);
    hsp_app_jobs_free(&app);
    (void)hsp_cluster_free(app.cluster);
}

/* An agent that calls itself b, without an incarnation here, and keeps job 1 of cluster {1, 0}. */
static void parked_b(struct hsp_cluster *c, uint32_t conn, struct hsp_digest was)
{
    struct hsp_m_device dev = {
        .kind = "cpu", .speed = 1, .mem_bytes = 1, .up = true, .address = "x"};
    struct hsp_m_kept kept = {.job = 1, .name = "tiny", .cluster = {1, 0}, .epoch = 1, .plan = 1};
    struct hsp_msg m = {.type = HSP_MSG_HELLO,
                        .u.hello = {.protocol = HSP_PROTO_VERSION,
                                    .node = "b",
                                    .address = "x",
                                    .cluster = {1, 0},
                                    .was = was,
                                    .n_devices = 1,
                                    .devices = &dev,
                                    .n_kept = 1,
                                    .kept = &kept}};
    (void)adopt_step(
        c, (struct hsp_event){.type = HSP_EV_MSG, .conn = conn, .random = {7, conn}, .u.msg = &m});
    assert_non_null(hsp_ci_parked_of(c, conn));
}

/* Two agents say that they are b: the name is that one's whose papers were taken. */
static void the_name_goes_with_the_papers(void **state)
{
    (void)state;
    for (uint32_t who = 0; who < 2; who++) {
        struct hsp_cluster *c = adopt_core((struct hsp_digest){3, 4});
        const struct hsp_digest was[] = {{9, 1}, {9, 2}};
        struct hsp_adoption *x = asked(1);
        struct hsp_err err = {0};
        struct hsp_buf said;
        parked_b(c, 5, was[0]);
        parked_b(c, 6, was[1]);
        x->holder[0].agent = 5 + who;
        tells(x, 0, &honest);
        hsp_buf_init(&said, TEXT);
        assert_int_equal(hsp_adoption_judge(x, &said), HSP_OK);
        hsp_buf_fini(&said);
        assert_ok(hsp_adoption_read(x, c, &err), &err);
        uint32_t *agent = hsp_adoption_agents(x);
        assert_true(x->n_taken == 1 && agent != NULL);
        (void)adopt_step(c, (struct hsp_event){.type = HSP_EV_ADMIN,
                                               .u.admin = {.verb = HSP_ADMIN_ADOPT,
                                                           .job = 1,
                                                           .papers = &x->papers,
                                                           .n_agents = x->n_taken,
                                                           .agent = agent,
                                                           .reason = "b",
                                                           .force = true}});
        const struct hsp_cluster_node *n = hsp_cluster_node_by_name(c, "b");
        assert_true(n != NULL && hsp_digest_equal(n->secret, was[who]));
        free(agent);
        (void)hsp_adoption_free(x);
        (void)hsp_cluster_free(c);
    }
}

HSP_TEST_FILE(adoption_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_that_two_tell_are_taken),
        cmocka_unit_test(one_alone_is_not_believed),
        cmocka_unit_test(a_crowd_that_lies_is_not_believed),
        cmocka_unit_test(papers_of_one_epoch_that_differ),
        cmocka_unit_test(papers_of_both_forms_agree),
        cmocka_unit_test(the_one_that_is_named_is_believed),
        cmocka_unit_test(rows_that_contradict_each_other_are_refused),
        cmocka_unit_test(devices_are_numbered_anew),
        cmocka_unit_test(the_name_goes_with_the_papers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
