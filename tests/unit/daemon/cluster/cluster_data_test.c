/* Tests, event by event, which nodes may train a job, by the data that they have for it. */
#include "tests/unit/daemon/cluster/cluster_world.h"

#include <stdio.h>

#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/lookup.h"
#include "proto/base/size.h"

/* Lets time pass while the nodes send heartbeats. */
static void beats(struct cw_world *w, uint32_t n_nodes, hsp_msec until)
{
    while (w->now < until) {
        w->now = w->now + 500 < until ? w->now + 500 : until;
        for (uint32_t i = 0; i < n_nodes; i++) {
            cw_msg(w, i + 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        }
    }
}

static void no_text(struct cw_world *w, uint64_t epoch, uint32_t node)
{
    cw_msg(w, node + 1,
           (struct hsp_msg){.type = HSP_MSG_PREPARE_FAILED,
                            .epoch = epoch,
                            .u.failed = {.job = 1,
                                         .fact = HSP_FACT_NO_DATA,
                                         .peer = HSP_MSG_RANKS,
                                         .reason = "cannot open /d.txt: No such file"}});
}

static void data_differs(void **state)
{
    (void)state;
    struct cw_world w;
    /* digest: of the data file on each of n nodes; wrong: the node that must be refused. The digest
     * of the majority is right; without a majority, the digest of the first node by name. */
    static const struct {
        uint64_t digest[3];
        uint32_t n, wrong;
    } cases[] = {{{5, 6}, 2, 1}, {{6, 5, 5}, 3, 0}, {{5, 5, 6}, 3, 2}, {{5, 6, 5}, 3, 1}};
    for (size_t k = 0; k < HSP_ARRAY_LEN(cases); k++) {
        char want[256];
        cw_begin(&w, cases[k].n, 1);
        (void)cw_submit(&w, "j", 0, 1, 8);
        cw_plan(&w, 1);
        for (uint32_t i = 0; i < cases[k].n; i++) {
            assert_int_equal(cw_job(&w, 1)->att.epoch, 1);
            cw_ready(&w, 1, i, cases[k].digest[i]);
        }
        (void)snprintf(want, sizeof(want),
                       "n%u: /d.txt differs from the file that other nodes have; give all nodes "
                       "the same file (/d.txt: 7 bytes, digest 00000000000000060000000000000001; "
                       "other nodes have 7 bytes, digest 00000000000000050000000000000001)",
                       cases[k].wrong);
        assert_string_equal(cw_fact(&w, "data.refused"), want);
        assert_int_equal(cw_count_sent(&w, HSP_MSG_START), 0);
        assert_int_equal(cw_count_sent(&w, HSP_MSG_DROP), cases[k].n);
        assert_int_equal(w.n_asked, cases[k].n - 1); /* the next question is without it */
        assert_false(hsp_ci_contains(w.asked, w.n_asked, HSP_DEVICE(cases[k].wrong, 0)));
        assert_int_equal(cw_job(&w, 1)->next_epoch, 2); /* the number is burned */
        assert_int_equal(cw_job(&w, 1)->failures, 0);
        cw_plan(&w, 1);
        for (uint32_t i = 0; i < cases[k].n; i++) {
            if (i != cases[k].wrong) {
                cw_ready(&w, 1, i, 5);
            }
        }
        assert_int_equal(cw_count_sent(&w, HSP_MSG_START), cases[k].n - 1);
        cw_end(&w);
    }
}

#define FIGURES                                                                              \
    "/d.txt: 7 bytes, digest 00000000000000060000000000000001; the job began with 7 bytes, " \
    "digest "                                                                                \
    "00000000000000050000000000000001"

/* The data with which the job began stay the right ones, also if a majority of nodes has others. */
static void data_stays(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 1, 1);
    cw_run_job(&w, 1);
    cw_hello(&w, 2, "a", 0, 1); /* its name is before n0 */
    cw_plan(&w, 1);
    cw_ready(&w, 1, 0, 5);
    cw_ready(&w, 1, 1, 6);
    assert_string_equal(cw_fact(&w, "data.refused"),
                        "a: /d.txt differs from the file that the job began with; put that file "
                        "back, or cancel the job and submit it again to start anew (" FIGURES ")");
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    assert_int_equal(cw_job(&w, 1)->n_facts, 1); /* LEFT OUT has the facts that the reason lacks */
    assert_string_equal(cw_job(&w, 1)->facts[0].why, FIGURES);
    assert_string_equal(cw_fact(&w, "switch.aborted"),
                        "epoch 2: a: /d.txt differs from the file that the job began with; put "
                        "that file back, or cancel the job and submit it again to start anew");
    cw_end(&w);
}

/* A job whose checkpoint was made with other data fails, and is not tried again. */
static void a_checkpoint_of_other_data_ends_the_job(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 1, 1);
    cw_run_job(&w, 1);
    cw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_CHECKPOINTED,
                            .epoch = 1,
                            .u.ckpt = {.job = 1, .step = 20, .complete = true, .reason = ""}});
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_STOPPED, .u.devref = {.job = 1}});
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    cw_plan(&w, 1);
    cw_ready(&w, 1, 0, 5);
    assert_int_equal(cw_job(&w, 1)->att.mode, HSP_MODE_RESTORE);
    cw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_JOB_FAILED,
                            .epoch = cw_job(&w, 1)->att.epoch,
                            .u.jobfail = {.job = 1, .reason = "checkpoint 20: other data"}});
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FAILED);
    assert_string_equal(cw_job(&w, 1)->reason, "checkpoint 20: other data");
    cw_end(&w);
}

/* The row of a job stores the digest of its data. A row of an unknown form is refused, and the
 * message names the row. */
static void the_data_survive_a_restart(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_cluster_row row[CW_ROWS];
    struct hsp_actions a;
    struct hsp_err err = {0};
    cw_begin(&w, 1, 1);
    cw_run_job(&w, 1);
    (void)cw_rows(&w, row);
    for (int other = 0; other < 2; other++) {
        struct hsp_cluster *c = hsp_cluster_new(&w.c->cfg);
        for (uint32_t i = 0; i < w.n_rows; i++) {
            uint8_t *job = w.rows[i].value;
            job[0] =
                strncmp(row[i].key, "job/", 4) == 0 ? (uint8_t)(other == 0 ? job[0] : 3) : job[0];
        }
        if (other == 0) {
            assert_ok(hsp_cluster_load(c, row, w.n_rows, w.now, &a, &err), &err);
            const struct hsp_job *j = hsp_cluster_job(c, 1);
            assert_true(j->data_known && j->data_bytes == 7 && j->data_tokens == 3);
            assert_true(j->data_digest.hi == 5 && j->data_digest.lo == 1);
        } else {
            assert_status(hsp_cluster_load(c, row, w.n_rows, w.now, &a, &err), HSP_EVERSION);
            assert_err(
                &err, HSP_EVERSION,
                "stored row job/1 has form 3, this hspmdd reads 4 to 16: finish its jobs with the "
                "hspmdd that wrote it");
        }
        (void)hsp_cluster_free(c);
    }
    cw_end(&w);
}

/* A damaged row is reported as damaged, not as a lack of memory, which would end hspmdd. */
static void a_damaged_row_does_not_want_memory(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_cluster_row row[CW_ROWS];
    struct hsp_actions a;
    struct hsp_err err = {0};
    struct hsp_buf epoch;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    const struct hsp_cl_epoch *e = &cw_job(&w, 1)->cur;
    hsp_buf_init(&epoch, 64);
    hsp_buf_u64(&epoch, e->epoch);
    hsp_buf_u64(&epoch, e->plan);
    hsp_buf_u64(&epoch, e->from_plan);
    hsp_buf_u64(&epoch, e->base_epoch);
    uint32_t n = cw_rows(&w, row), found = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool job = strncmp(row[i].key, "job/", 4) == 0;
        uint8_t *at = job ? memmem(w.rows[i].value, row[i].len, epoch.data, epoch.len) : NULL;
        if (at != NULL) {
            memset(at + epoch.len + 10, 0xff, 4); /* behind mode, phase and step: its ranks */
            found++;
        }
    }
    assert_int_equal(found, 1);
    struct hsp_cluster *c = hsp_cluster_new(&w.c->cfg);
    (void)hsp_cluster_load(c, row, n, w.now, &a, &err);
    assert_err(&err, HSP_EPARSE, "stored row job/1 does not decode");
    (void)hsp_cluster_free(c);
    hsp_buf_fini(&epoch);
    cw_end(&w);
}

/* Form 13 is that of two releases: the later one says in which cluster a job began. */
static void rows_of_form_13(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_cluster_row row[CW_ROWS];
    struct hsp_actions a;
    struct hsp_err err = {0};
    cw_begin(&w, 1, 1);
    cw_run_job(&w, 1);
    for (uint32_t born = 0; born < 3; born++) { /* 2: something else stands behind it */
        struct hsp_cluster *c = hsp_cluster_new(&w.c->cfg);
        uint32_t n = cw_rows(&w, row);
        for (uint32_t i = 0; i < n; i++) {
            uint8_t *v = w.rows[i].value;
            v[0] = 13;
            if (strncmp(row[i].key, "job/", 4) == 0) {
                row[i].len -= cw_ran_bytes(cw_job(&w, 1)) + cw_cuts_bytes(cw_job(&w, 1));
                v[row[i].len - 16] = 7;
                row[i].len -= born == 0 ? 16 : born == 1 ? 0 : 8;
            }
            row[i].len -= strncmp(row[i].key, "plan/", 5) == 0 ? CW_MADE_OF_BYTES : 0;
            row[i].len -= strncmp(row[i].key, "node/", 5) == 0 ? CW_LINES_BYTES : 0;
        }
        enum hsp_status st = hsp_cluster_load(c, row, n, w.now, &a, &err);
        if (born < 2) {
            assert_ok(st, &err);
            assert_int_equal(hsp_cluster_job(c, 1)->born.hi, born == 1 ? 7 : 0);
        } else {
            assert_err(&err, HSP_EPARSE, "stored row job/1 does not decode");
        }
        (void)hsp_cluster_free(c);
    }
    cw_end(&w);
}

/* Form 15 names the nodes that have run a job; of older rows the nodes of the last epoch are
 * known. */
static void rows_say_who_has_run_a_job(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_cluster_row row[CW_ROWS];
    struct hsp_actions a;
    struct hsp_err err = {0};
    cw_begin(&w, 3, 1);
    cw_run_job(&w, 3);
    const struct hsp_job *j = cw_job(&w, 1);
    assert_int_equal(cw_ran_bytes(j), 1 + 4 + 4 * 3);
    for (uint32_t form = 13; form <= 17; form++) { /* 17: 16 with a node that there is not */
        struct hsp_cluster *c = hsp_cluster_new(&w.c->cfg);
        uint32_t n = cw_rows(&w, row);
        for (uint32_t i = 0; i < n; i++) {
            uint8_t *v = w.rows[i].value;
            v[0] = form < 17 ? (uint8_t)form : 16;
            bool is_job = strncmp(row[i].key, "job/", 4) == 0;
            row[i].len -= is_job && form < 15 ? cw_ran_bytes(j) + cw_cuts_bytes(j) : 0;
            row[i].len -= strncmp(row[i].key, "plan/", 5) == 0 && form < 15 ? CW_MADE_OF_BYTES : 0;
            row[i].len -= strncmp(row[i].key, "node/", 5) == 0 && form < 16 ? CW_LINES_BYTES : 0;
            v[row[i].len - 4] = is_job && form == 17 ? 9 : v[row[i].len - 4];
        }
        enum hsp_status st = hsp_cluster_load(c, row, n, w.now, &a, &err);
        if (form < 17) {
            assert_ok(st, &err);
            assert_int_equal(cw_ran_bytes(hsp_cluster_job(c, 1)), 1 + 4 + 4 * 3);
            assert_int_equal(hsp_cluster_job(c, 1)->ran_unknown, form < 15);
        } else {
            assert_err(&err, HSP_EPARSE, "stored row job/1 does not decode");
        }
        (void)hsp_cluster_free(c);
    }
    cw_end(&w);
}

/* Returns the offset of the device of the first rank in the row of a layout. */
static size_t first_device(const struct hsp_cluster_row *row)
{
    struct hsp_cursor r;
    size_t n;
    hsp_cur_init(&r, row->value, row->len);
    (void)hsp_cur_u8(&r);
    (void)hsp_cur_u32(&r);
    (void)hsp_cur_u64(&r); /* layout */
    (void)hsp_cur_u8(&r);
    (void)hsp_cur_u64(&r);
    (void)hsp_cur_f64(&r);
    (void)hsp_cur_blob(&r, row->len, &n);
    assert_int_equal(hsp_cur_u32(&r), 1); /* ranks */
    return row->len - hsp_cur_left(&r);
}

/* hspmdd finds the nodes to which it sends messages about a layout by the devices of the layout. */
static void a_layout_on_a_node_that_is_none(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_cluster_row row[CW_ROWS];
    struct hsp_actions a;
    struct hsp_err err = {0};
    cw_begin(&w, 1, 1);
    cw_run_job(&w, 1);
    for (uint32_t on = 0; on < 3; on++) {
        struct hsp_cluster *c = hsp_cluster_new(&w.c->cfg);
        uint32_t n = cw_rows(&w, row), n_plans = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (strncmp(row[i].key, "plan/", 5) == 0) {
                uint8_t *v = w.rows[i].value;
                uint8_t *device = &v[first_device(&row[i])];
                *device = on > 0 ? (uint8_t)(on * HSP_NODE_DEVICES) : *device;
                n_plans++;
            }
        }
        assert_int_equal(n_plans, 1);
        enum hsp_status st = hsp_cluster_load(c, row, n, w.now, &a, &err);
        if (on == 0) {
            assert_ok(st, &err);
        } else {
            assert_err(&err, HSP_EPARSE, "stored row plan/1/1 does not decode");
        }
        (void)hsp_cluster_free(c);
    }
    cw_end(&w);
}

static void data_missing(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    (void)cw_submit(&w, "j", 0, 2, 8);
    cw_plan(&w, 1);
    no_text(&w, 1, 0);
    assert_int_equal(w.n_asked, 2); /* the others are enough */
    no_text(&w, 1, 1);              /* said later, of the attempt that is over: counts too */
    assert_string_equal(
        cw_job(&w, 1)->reason,
        "waits for 2 devices; 1 of 3 can be used: n0/0: cannot open /d.txt: No such file; "
        "and 1 more; it is tried again by itself within 30 s");
    assert_int_equal(cw_job(&w, 1)->n_facts, 2);
    assert_int_equal(cw_job(&w, 1)->failures, 0);
    /* forgotten after 30 s, then after 60 */
    hsp_msec first = w.now + 30000;
    uint64_t asked = w.ticket;
    beats(&w, 3, first - 1);
    assert_int_equal(w.ticket, asked);
    assert_true(hsp_cluster_deadline(w.c) <= first);
    beats(&w, 3, first);
    assert_true(w.ticket > asked);
    assert_int_equal(w.n_asked, 3);
    assert_int_equal(w.n_facts, 0);
    cw_plan(&w, 1);
    no_text(&w, 2, 0);
    no_text(&w, 2, 1);
    assert_non_null(strstr(cw_job(&w, 1)->reason, "; it is tried again by itself within 60 s"));
    asked = w.ticket;
    beats(&w, 3, w.now + 59999);
    assert_int_equal(w.ticket, asked);
    /* a node that joins anew is asked at once */
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    cw_hello(&w, 4, "n1", 0, 1);
    assert_true(w.ticket > asked);
    assert_int_equal(w.n_asked, 2);
    cw_end(&w);
}

HSP_TEST_FILE(cluster_data_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(data_differs),
                                       cmocka_unit_test(data_stays),
                                       cmocka_unit_test(a_checkpoint_of_other_data_ends_the_job),
                                       cmocka_unit_test(the_data_survive_a_restart),
                                       cmocka_unit_test(a_damaged_row_does_not_want_memory),
                                       cmocka_unit_test(rows_of_form_13),
                                       cmocka_unit_test(rows_say_who_has_run_a_job),
                                       cmocka_unit_test(a_layout_on_a_node_that_is_none),
                                       cmocka_unit_test(data_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
