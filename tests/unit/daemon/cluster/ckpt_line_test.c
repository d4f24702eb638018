/* Tests a restored store, which does not know the checkpoints given up since: the disk shows
 * them. */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/cluster/row_read.h"
#include "tests/unit/daemon/cluster/ckpt_world.h"

struct backup {
    struct cw_row rows[CW_ROWS];
    uint32_t n;
};

static void back_up(const struct cw_world *w, struct backup *b)
{
    b->n = w->n_rows;
    for (uint32_t i = 0; i < b->n; i++) {
        b->rows[i] = w->rows[i];
        b->rows[i].value = malloc(w->rows[i].len);
        assert_non_null(b->rows[i].value);
        memcpy(b->rows[i].value, w->rows[i].value, w->rows[i].len);
    }
}

/* hspmdd ends and starts with these rows, put back with --restore; the nodes have nothing of the
 * job. */
static void put_back(struct cw_world *w, const struct backup *b)
{
    struct hsp_buf row;
    for (uint32_t i = 0; i < w->n_rows; i++) {
        free(w->rows[i].value);
    }
    memcpy(w->rows, b->rows, b->n * sizeof b->rows[0]);
    w->n_rows = b->n;
    hsp_buf_init(&row, 100);
    hsp_cluster_restored_row(0, &row);
    w->rows[w->n_rows] = (struct cw_row){.value = row.data, .len = (uint32_t)row.len};
    (void)snprintf(w->rows[w->n_rows++].key, sizeof w->rows[0].key, HSP_RESTORED_ROW);
    cw_restart(w, NULL);
    cw_hello(w, 1, "n0", 0, 1);
    cw_hello(w, 2, "n1", 0, 1);
}

static bool told_to_count(const struct cw_world *w, uint64_t epoch, uint64_t step)
{
    const struct hsp_m_prepare *p = &cw_find(w, HSP_ACT_PREPARE)->msg->u.prepare;
    return hsp_cuts_allow(p->cuts, p->n_cuts, epoch, step);
}

static void resumed_at(struct cw_world *w, uint64_t step, uint64_t epoch, uint64_t content)
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
    wc_prepare_means(w, HSP_MODE_RESTORE, step, epoch, content);
}

/* Epoch 1 of a job has written 40, 48 and 60. A backup is of then; an @early one is of before 48.
 * An administrator went back to 40, and epoch 2 has written 45 and 50. The backup is put back. */
static void restored_over_a_choice(struct cw_world *w, bool early)
{
    struct backup then;
    wc_running(w);
    wc_saved_in(w, 1, 40, 1040);
    if (early) {
        back_up(w, &then);
    }
    wc_saved_in(w, 1, 60, 1060);
    if (!early) {
        back_up(w, &then);
    }
    wc_cancelled(w);
    resumed_at(w, 40, 1, 1040);
    wc_begins(w, 41);
    wc_saved_in(w, 2, 45, 2045);
    wc_saved_in(w, 2, 50, 2050);
    wc_cancelled(w);
    put_back(w, &then);
    wc_sees(w, 40, 1, 1040);
    wc_sees(w, 60, 1, 1060);
    wc_sees(w, 50, 2, 2050);
    wc_sees(w, 48, 1, 1048);
    wc_sees(w, 45, 2, 2045);
    assert_true(cw_job(w, 1)->ckpt_step == (early ? 40 : 60) && cw_job(w, 1)->cuts.n == 1);
}

/* The attempt has gone, and hspmdd ends and starts while its members read the checkpoint, which
 * takes long. */
static void restarted_as_it_begins(struct cw_world *w)
{
    cw_ready(w, 1, 0, 5);
    cw_ready(w, 1, 1, 5);
    assert_int_equal(cw_job(w, 1)->att.phase, HSP_ATT_GO);
    cw_restart(w, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        cw_hello_running(w, i + 1, i == 0 ? "n0" : "n1", w->c->nodes[i].incarnation, 1,
                         cw_job(w, 1)->att.epoch);
    }
    cw_pass(w, 1, 51, cw_even, 2);
    cw_let_go(w, 1, 2);
    assert_int_equal(cw_job(w, 1)->state, HSP_JOB_RUNNING);
}

/* The disk shows that 60 was given up, which the store does not know. The 60 stays given up. */
static void what_was_given_up(bool restarts)
{
    struct cw_world w;
    char told[300];
    restored_over_a_choice(&w, false);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    wc_await_fact(&w, "ckpt.left_out", told);
    assert_string_equal(
        told, "the job resumes from checkpoint 50 of epoch 2; checkpoint 60 of epoch 1 is left "
              "out, as a newer epoch began below it; to resume from that one, before the job "
              "reaches its step: hspmdctl cancel j, then hspmdctl resume j --from 60");
    cw_plan(&w, 1);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 50, 2, 2050);
    assert_true(told_to_count(&w, 1, 40) && told_to_count(&w, 2, 45) && told_to_count(&w, 2, 50));
    assert_true(!told_to_count(&w, 1, 60) && !told_to_count(&w, 1, 48));
    if (restarts) {
        restarted_as_it_begins(&w);
    } else {
        wc_begins(&w, 51);
    }
    assert_int_equal(cw_job(&w, 1)->ckpt_step, 50);
    wc_cancelled(&w);
    cw_restart_nodes(&w, 2); /* all of it is stored */
    wc_resumed(&w);
    assert_null(cw_fact(&w, "ckpt.left_out"));
    wc_prepare_means(&w, HSP_MODE_RESTORE, 50, 2, 2050);
    wc_begins(&w, 51);
    wc_cancelled(&w);
    w.n_disk = 0;
    wc_sees(&w, 48, 1, 1048);
    wc_sees(&w, 40, 1, 1040);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    wc_await_fact(&w, "ckpt.fallback", told);
    cw_plan(&w, 1);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 40, 1, 1040);
    cw_end(&w);
}

static void what_was_given_up_after_a_backup(void **state)
{
    (void)state;
    what_was_given_up(false);
    what_was_given_up(true);
}

/* An administrator may choose 60 all the same: then the other one is given up. */
static void what_was_given_up_after_a_backup_is_chosen(void **state)
{
    (void)state;
    struct cw_world w;
    restored_over_a_choice(&w, false);
    wc_cancelled(&w);
    resumed_at(&w, 60, 1, 1060);
    wc_begins(&w, 61);
    wc_cancelled(&w);
    wc_resumed(&w);
    assert_null(cw_fact(&w, "ckpt.left_out"));
    wc_prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 1060);
    cw_end(&w);
}

/* One that is on record alone is refused, and of two of a step --from takes the newer one. */
static void what_cannot_be_chosen_is_not_offered(void **state)
{
    (void)state;
    for (uint32_t same = 0; same < 2; same++) {
        struct cw_world w;
        char told[300];
        restored_over_a_choice(&w, same != 0);
        w.n_disk = 0;
        wc_sees(&w, 40, 1, 1040);
        wc_sees(&w, 45, 2, 2045);
        wc_sees(&w, 50, 2, 2050);
        if (same) {
            wc_sees(&w, 50, 1, 1050);
        }
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        wc_await_fact(&w, "ckpt.left_out", told);
        assert_non_null(strstr(told, same ? "checkpoint 50 of epoch 1 is left out"
                                          : "checkpoint 60 of epoch 1 is left out"));
        assert_non_null(strstr(told, same ? "; --from uses the newer of two checkpoints of a step"
                                          : "; no connected node has that one"));
        assert_null(strstr(told, "hspmdctl resume"));
        cw_end(&w);
    }
}

/* The backup is of a time when the job was to begin anew. Since then the job may have begun, and
 * have checkpoints on a node that is away. */
static void what_was_to_begin_anew_may_have_begun(void **state)
{
    (void)state;
    struct cw_world w;
    struct backup then;
    wc_running(&w);
    wc_saved_in(&w, 1, 40, 1040);
    wc_cancelled(&w);
    assert_int_equal(wc_resume_from(&w, 0), HSP_OK);
    back_up(&w, &then);
    put_back(&w, &then);
    w.asks = true;
    w.lack = HSP_LACK_AWAY;
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_int_equal(w.find_job, 1);
    cw_ckpts(&w, NULL, 0, "n2: it is not connected");
    assert_int_equal(cw_job(&w, 1)->ticket, 0);
    assert_non_null(
        strstr(cw_job(&w, 1)->reason, "not known: n2: it is not connected: looks again"));
    cw_end(&w);
}

/* An agent tells again of a checkpoint of epoch 1, while the epoch that goes on from 50 is
 * prepared. The checkpoints that its members were told to leave out stay left out. */
static void what_an_attempt_was_told_lasts(void **state)
{
    (void)state;
    struct cw_world w;
    char told[300];
    restored_over_a_choice(&w, true);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    wc_await_fact(&w, "ckpt.left_out", told);
    cw_plan(&w, 1);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 50, 2, 2050);
    assert_true(!told_to_count(&w, 1, 60) && !told_to_count(&w, 1, 48));
    wc_saved_in(&w, 1, 60, 1060);
    assert_non_null(cw_fact(&w, "ckpt.complete"));
    wc_begins(&w, 51);
    const struct hsp_ckpt_cuts *h = &cw_job(&w, 1)->cuts;
    assert_true(cw_job(&w, 1)->ckpt_step == 50 && hsp_cuts_allow(h->cut, h->n, 2, 45));
    assert_false(hsp_cuts_allow(h->cut, h->n, 1, 48));
    cw_end(&w);
}

/* The job was adopted by another cluster by mistake, and went on there in epochs of a later
 * generation. Here it goes on from the checkpoint written there, and its new checkpoints come
 * behind that. The job was the last of twelve, each of which has raised the generation there. */
static void what_another_cluster_wrote_comes_before(void **state)
{
    (void)state;
    const uint64_t there = 12 * HSP_GENERATION_NUMBERS + 282001;
    struct cw_world w;
    wc_running(&w);
    wc_saved_in(&w, 1, 20, 1020);
    wc_cancelled(&w);
    wc_sees(&w, 20, 1, 1020);
    wc_sees(&w, 26, there, 7026);
    wc_resumed(&w);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 26, there, 7026);
    const uint64_t here = cw_job(&w, 1)->att.epoch;
    wc_begins(&w, 27);
    wc_saved_in(&w, here, 40, 2040);
    wc_cancelled(&w);
    cw_restart_nodes(&w, 2);
    wc_sees(&w, 40, here, 2040);
    wc_resumed(&w);
    assert_null(cw_fact(&w, "ckpt.left_out"));
    wc_prepare_means(&w, HSP_MODE_RESTORE, 40, here, 2040);
    assert_true(told_to_count(&w, here, 40) && told_to_count(&w, there, 26));
    cw_end(&w);
}

/* The same checkpoint is on a node that has not run the job here: it is not believed. The node runs
 * the job later, and the checkpoints written here meanwhile are newer all the same. */
static void what_others_have_comes_before(void **state)
{
    (void)state;
    const uint64_t there = HSP_GENERATION_NUMBERS + 282001;
    struct cw_world w;
    wc_running(&w);
    wc_saved_in(&w, 1, 20, 1020);
    wc_cancelled(&w);
    wc_sees(&w, 20, 1, 1020);
    w.disk[w.n_disk] = (struct hsp_m_seen){26, WC_TERM, there, 7026};
    w.n_others = 1;
    wc_resumed(&w);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 20, 1, 1020);
    const uint64_t here = cw_job(&w, 1)->att.epoch;
    wc_begins(&w, 21);
    wc_saved_in(&w, here, 40, 2040);
    wc_cancelled(&w);
    cw_restart_nodes(&w, 2);
    w.n_disk += w.n_others;
    w.n_others = 0;
    wc_sees(&w, 40, here, 2040);
    wc_resumed(&w);
    assert_null(cw_fact(&w, "ckpt.left_out"));
    wc_prepare_means(&w, HSP_MODE_RESTORE, 40, here, 2040);
    cw_end(&w);
}

HSP_TEST_FILE(ckpt_line_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_given_up_after_a_backup),
        cmocka_unit_test(what_was_given_up_after_a_backup_is_chosen),
        cmocka_unit_test(what_cannot_be_chosen_is_not_offered),
        cmocka_unit_test(what_was_to_begin_anew_may_have_begun),
        cmocka_unit_test(what_an_attempt_was_told_lasts),
        cmocka_unit_test(what_another_cluster_wrote_comes_before),
        cmocka_unit_test(what_others_have_comes_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
