/* Tests the names that a person gives a job: its name or its number; of several jobs of one name
 * one is meant, or none. */
#include "daemon/cluster/lookup.h"
#include "tests/unit/daemon/cluster/cluster_world.h"

/* The number of the job that is meant, or the refusal. */
static void assert_called(const struct cw_world *w, const char *what, uint32_t id, const char *why)
{
    struct hsp_err err = {0};
    const struct hsp_job *j = NULL;
    enum hsp_status st = hsp_cluster_job_called(w->c, what, &j, &err);
    assert_string_equal(err.msg, why);
    assert_true((st == HSP_OK) == (why[0] == '\0') && (j != NULL) == (st == HSP_OK));
    assert_int_equal(j != NULL ? j->id : 0, id);
}

static void a_job_is_called_by_name_or_number(void **state)
{
    (void)state;
    struct cw_world w;
    const struct hsp_job *j = NULL;
    struct hsp_err err;
    cw_begin(&w, 1, 1);
    assert_int_equal(cw_submit(&w, "a", 0, 2, 2), HSP_OK);
    assert_int_equal(cw_submit(&w, "b", 0, 2, 2), HSP_OK);
    assert_called(&w, "a", 1, "");
    assert_called(&w, "2", 2, "");
    assert_called(&w, "3", 0, "no job 3; hspmdctl status shows all");
    assert_called(&w, "4294967297", 0,
                  "no job 4294967297; hspmdctl status shows all"); /* 1, if it were cut */
    assert_called(&w, "", 0, "no job ; hspmdctl status shows all");
    assert_called(&w, "1 ", 0, "no job 1 ; hspmdctl status shows all");
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    assert_called(&w, "a", 1, "");
    assert_int_equal(cw_submit(&w, "a", 0, 2, 2), HSP_OK);
    assert_called(&w, "a", 3, ""); /* the live one */
    assert_called(&w, "1", 1, "");
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 3), HSP_OK);
    assert_called(&w, "a", 3, ""); /* the last one */
    assert_int_equal(hsp_cluster_job_to_forget(w.c, "a", &j, &err), HSP_ESTATE);
    assert_string_equal(err.msg, "several jobs are called a: 1 (cancelled), 3 (cancelled); give "
                                 "the number");
    assert_int_equal(hsp_cluster_job_to_forget(w.c, "3", &j, &err), HSP_OK);
    assert_int_equal(j->id, 3);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_called(&w, "a", 1, "");
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 3), HSP_ESTATE);
    assert_non_null(strstr(cw_find(&w, HSP_ACT_REPLY)->text, "another job a, number 1, is"));
    cw_end(&w);
}

/* Agents may keep a job of a name that has another job here: no name is guessed. */
static void an_ambiguous_name_is_refused_with_the_numbers(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 1, 1);
    assert_int_equal(cw_submit(&w, "a", 0, 2, 2), HSP_OK);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    assert_int_equal(cw_submit(&w, "a", 0, 2, 2), HSP_OK);
    w.c->jobs[0]->state = HSP_JOB_BEHIND;
    assert_called(&w, "a", 0,
                  "several jobs are called a: 1 (behind), 2 (pending); give the number");
    assert_called(&w, "1", 1, "");
    assert_called(&w, "2", 2, "");
    for (int i = 0; i < 2; i++) { /* jobs that are not adopted give way */
        w.c->jobs[i]->unrecorded = true;
        w.c->jobs[i]->from.lo = 7;
        assert_called(
            &w, "a", i == 0 ? 2 : 0,
            i == 0 ? "" : "several jobs are called a: 1 (foreign), 2 (foreign); give the number");
    }
    for (int i = 0; i < 2; i++) {
        w.c->jobs[i]->unrecorded = false;
        w.c->jobs[i]->from.lo = 0;
    }
    w.c->jobs[0]->state = HSP_JOB_CANCELLED;
    cw_end(&w);
}

/* More than a line has place for: it says how many more there are. */
static void a_name_of_many(void **state)
{
    (void)state;
    struct cw_world w;
    const struct hsp_job *j = NULL;
    struct hsp_err err;
    cw_begin(&w, 1, 1);
    for (uint32_t i = 1; i <= 12; i++) {
        assert_int_equal(cw_submit(&w, "a", 0, 2, 2), HSP_OK);
        assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, i), HSP_OK);
    }
    assert_int_equal(hsp_cluster_job_to_forget(w.c, "a", &j, &err), HSP_ESTATE);
    assert_string_equal(
        err.msg,
        "several jobs are called a: 1 (cancelled), 2 (cancelled), 3 (cancelled), 4 (cancelled), "
        "5 (cancelled), 6 (cancelled), 7 (cancelled), 8 (cancelled) and 4 more; give the number");
    cw_end(&w);
}

/* The job is not on record, and may be taken over: each question for it is answered so. */
static void a_job_that_agents_keep_which_are_no_members(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_m_kept k = {.job = 6, .name = "mist", .cluster = {0xab, 7}, .epoch = 2, .plan = 1};
    cw_begin(&w, 1, 1);
    w.c->id.lo = 4;
    cw_say_hello(&w, 9,
                 (struct hsp_m_hello){.node = "n9", .address = "a", .n_kept = 1, .kept = &k});
    assert_int_equal(w.c->n_parked, 1);
    assert_called(
        &w, "mist", 0,
        "job mist is not known here: agents that are not members store its state, n9: if state_dir "
        "is right, hspmdctl job adopt mist takes it over, node discard deletes it");
    assert_called(
        &w, "6", 0,
        "job 6 is not known here: agents that are not members store its state, n9: if state_dir is "
        "right, hspmdctl job adopt 6 takes it over, node discard deletes it");
    assert_called(&w, "n9", 0, "no job n9; hspmdctl status shows all");
    cw_end(&w);
}

HSP_TEST_FILE(lookup_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_called_by_name_or_number),
        cmocka_unit_test(an_ambiguous_name_is_refused_with_the_numbers),
        cmocka_unit_test(a_name_of_many),
        cmocka_unit_test(a_job_that_agents_keep_which_are_no_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
