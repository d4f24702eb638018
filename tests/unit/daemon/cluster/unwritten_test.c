/* Tests files of a job that cannot be written: the events, the text of status, and the work that
 * goes on. */
#include "tests/unit/daemon/cluster/cluster_world.h"

#include "proto/base/size.h"
#include "proto/base/str.h"

/* Node 0 says that version @step is, or (with a reason) is not, written. */
static void says(struct cw_world *w, uint64_t step, const char *reason)
{
    cw_msg(w, 1,
           (struct hsp_msg){.type = HSP_MSG_CHECKPOINTED,
                            .epoch = cw_job(w, 1)->cur.epoch,
                            .u.ckpt = {.job = 1,
                                       .step = step,
                                       .complete = reason[0] == '\0',
                                       .bytes = 5,
                                       .reason = reason}});
}

static const struct hsp_fact *fact_of(const struct cw_world *w, const char *type)
{
    for (uint32_t i = 0; i < w->a.n; i++) {
        const struct hsp_action *a = &w->a.item[i];
        if (a->type == HSP_ACT_FACT && strcmp(a->u.fact->type, type) == 0) {
            return a->u.fact;
        }
    }
    fail_msg("no %s", type);
    return NULL;
}

static void last_step(struct cw_world *w)
{
    cw_msg(w, 1,
           (struct hsp_msg){.type = HSP_MSG_STEP,
                            .epoch = cw_job(w, 1)->cur.epoch,
                            .u.step = {.job = 1, .step = 100, .final = true}});
    assert_int_equal(cw_job(w, 1)->state, HSP_JOB_FINISHING);
}

/* Each checkpoint is tried once, so each is told; the next one that is written ends it. */
static void checkpoints(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    says(&w, 10, "no space");
    assert_string_equal(cw_fact(&w, "ckpt.failed"), "version 10: no space");
    assert_int_equal(cw_fact_step(&w, "ckpt.failed"), 10);
    assert_string_equal(cw_job(&w, 1)->problem,
                        "a checkpoint is not written: no space: the job continues");
    says(&w, 20, "no space");
    assert_string_equal(cw_fact(&w, "ckpt.failed"), "version 20: no space");
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    says(&w, 30, "");
    assert_string_equal(cw_fact(&w, "ckpt.complete"), "version 30, 5 bytes");
    assert_int_equal(cw_fact_step(&w, "ckpt.complete"), 30);
    assert_string_equal(cw_job(&w, 1)->problem, "");
    says(&w, 40, "no space");
    says(&w, 30, ""); /* said again, at a hello: nothing is mended by it */
    assert_null(cw_fact(&w, "ckpt.complete"));
    assert_string_not_equal(cw_job(&w, 1)->problem, "");
    /* rank 0 says which rank could not */
    static const struct {
        const char *reason, *node;
    } who[] = {{"n1/0: no space", "n1"},
               {"n1/0 and 2 more could not write", "n1"},
               {"n1/01 is a file", "n0"},
               {"no space", "n0"}};
    for (uint32_t i = 0; i < HSP_ARRAY_LEN(who); i++) {
        says(&w, 50 + i, who[i].reason);
        assert_string_equal(fact_of(&w, "ckpt.failed")->node, who[i].node);
    }
    cw_end(&w);
}

/* The final model is tried until it is written, and told once for each cause. */
static void the_final_model(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    last_step(&w);
    says(&w, 100, "no space");
    assert_string_equal(cw_fact(&w, "final.failed"),
                        "the final model is not written: no space: it is tried again until it is; "
                        "drain gives it to another node, cancel gives it up");
    assert_null(cw_fact(&w, "ckpt.failed"));
    assert_string_equal(cw_job(&w, 1)->problem, cw_fact(&w, "final.failed"));
    for (uint32_t i = 0; i < 100; i++) { /* more than attempts are counted */
        w.now += 30000;
        cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_msg(&w, 2, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        says(&w, 100, "no space");
        assert_null(cw_fact(&w, "final.failed"));
    }
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FINISHING);
    says(&w, 100, "read-only");
    assert_non_null(strstr(cw_fact(&w, "final.failed"), "read-only"));
    cw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_FINISHED,
                            .epoch = cw_job(&w, 1)->cur.epoch,
                            .u.finished = {.job = 1,
                                           .step = 100,
                                           .damage = "n0/0: line 3 of job-1-0.metrics is damaged",
                                           .lacking = "1 of 100 steps: 7"}});
    assert_string_equal(cw_fact(&w, "metrics.damaged"),
                        "n0/0: line 3 of job-1-0.metrics is damaged");
    assert_string_equal(cw_fact(&w, "metrics.gap"),
                        "final/metrics.jsonl has no line of 1 of 100 steps: 7; hspmdctl metrics "
                        "shows the lines that hspmdd received");
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_DONE);
    assert_string_equal(cw_job(&w, 1)->problem, "");
    cw_end(&w);
}

/* Losses while the job waits are mended as ever; they do not add up. */
static void losses_meanwhile(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    last_step(&w);
    says(&w, 100, "no space");
    cw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                            .epoch = cw_job(&w, 1)->cur.epoch,
                            .u.lost = {.job = 1, .peer = HSP_MSG_RANKS, .reason = "broke"}});
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
    assert_int_equal(cw_job(&w, 1)->failures, 1);
    assert_string_not_equal(cw_job(&w, 1)->problem, "");
    says(&w, 100, "no space"); /* of the next epoch, as it were */
    assert_null(cw_fact(&w, "final.failed"));
    assert_int_equal(cw_job(&w, 1)->failures, 0);
    cw_end(&w);
}

/* A job that waits after some losses has the cause as its reason: it is not told twice. */
static void a_cause_is_told_once(void **state)
{
    (void)state;
    for (uint32_t failures = 0; failures < 3; failures += 2) {
        struct cw_world w;
        cw_begin(&w, 2, 1);
        cw_run_job(&w, 2);
        w.c->jobs[0]->failures = failures;
        cw_msg(&w, 1,
               (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                                .epoch = cw_job(&w, 1)->cur.epoch,
                                .u.lost = {.job = 1, .peer = HSP_MSG_RANKS, .reason = "broke"}});
        cw_sealed(&w, 0, 1, 7);
        cw_sealed(&w, 1, 1, 7);
        const struct hsp_fact *f = fact_of(&w, "job.recovering");
        const char *said = failures > 0 ? f->reason : f->cause;
        const char *other = failures > 0 ? f->cause : f->reason;
        assert_non_null(strstr(said, "broke"));
        assert_string_equal(other, "");
        cw_end(&w);
    }
}

/* A message of any length stands in it, cut. */
static void long_reasons(void **state)
{
    (void)state;
    struct cw_world w;
    char reason[1000] = "";
    memset(reason, 'x', sizeof(reason) - 1);
    cw_begin(&w, 1, 1);
    cw_run_job(&w, 1);
    last_step(&w);
    says(&w, 100, reason);
    assert_int_equal(strlen(cw_job(&w, 1)->problem), sizeof(cw_job(&w, 1)->problem) - 1);
    says(&w, 100, reason);
    assert_null(cw_fact(&w, "final.failed"));
    for (uint32_t shift = 0; shift < 3; shift++) { /* a path may have any letters */
        for (size_t i = shift; i + 4 < sizeof(reason); i += 3) {
            memcpy(reason + i, "\u20ac", 4);
        }
        says(&w, 100, reason);
        size_t len = strlen(cw_job(&w, 1)->problem);
        assert_true(hsp_utf8_valid((const uint8_t *)cw_job(&w, 1)->problem, len));
        memset(reason, 'x', 3);
    }
    cw_end(&w);
}

/* Rank 0 begins a checkpoint; its node is away. */
static void nobody_to_begin_one(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 1});
    assert_int_equal(cw_order(&w, HSP_ADMIN_CHECKPOINT, 1), HSP_ESTATE);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "node n0, which begins its checkpoints, is not connected");
    cw_end(&w);
}

HSP_TEST_FILE(unwritten_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoints),          cmocka_unit_test(the_final_model),
        cmocka_unit_test(losses_meanwhile),     cmocka_unit_test(long_reasons),
        cmocka_unit_test(a_cause_is_told_once), cmocka_unit_test(nobody_to_begin_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
