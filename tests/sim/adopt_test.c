/* Tests jobs that are adopted: hspmdd has an empty store or one that is older than its agents, and
 * adopts by the papers that the agents keep. No committed step is lost, and no number is given
 * twice. */
#include <stdio.h>

#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/row_read.h"
#include "proto/wire/papers.h"
#include "tests/sim/simstory.h"

static bool settled(struct sim *w)
{
    const struct hsp_job *j = w->d_alive ? hsp_cluster_job(w->d, 1) : NULL;
    return j != NULL && j->state == HSP_JOB_RUNNING && j->cur.settled && j->ticket == 0;
}

/* @n nodes with one device each train job 1, with a checkpoint every @ckpt steps, 0: none. */
static void running_with(uint32_t n, uint64_t ckpt)
{
    ss_begin_empty(n);
    sim_submit(ss, "story", 0, 1, 8, 1000, ckpt);
    ss_until(settled, 5000);
    ss_go_on(300);
}

static void running(uint32_t n)
{
    running_with(n, 0);
}

/* A copy of a store, which can be put back. */
struct copy {
    struct sim_row_kv row[64];
    uint32_t n;
};

static void keep_rows(struct copy *k)
{
    assert_true(ss->n_rows <= 64);
    for (k->n = 0; k->n < ss->n_rows; k->n++) {
        k->row[k->n] = ss->rows[k->n];
        k->row[k->n].value = malloc(ss->rows[k->n].len + 1);
        memcpy(k->row[k->n].value, ss->rows[k->n].value, ss->rows[k->n].len);
    }
}

static void put_back(const struct copy *k)
{
    ss_forget_rows();
    for (ss->n_rows = 0; ss->n_rows < k->n; ss->n_rows++) {
        ss->rows[ss->n_rows] = k->row[ss->n_rows];
    }
}

/* Marks the store as hspmdd --restore leaves it. */
static void mark_restored(void)
{
    struct hsp_buf b;
    struct sim_row_kv *r = &ss->rows[ss->n_rows++];
    hsp_buf_init(&b, 100);
    hsp_cluster_restored_row(0, &b);
    *r = (struct sim_row_kv){.value = b.data, .len = (uint32_t)b.len};
    (void)snprintf(r->key, sizeof(r->key), HSP_RESTORED_ROW);
}

static const struct hsp_job *job(void)
{
    const struct hsp_job *j = hsp_cluster_job(ss->d, 1);
    assert_non_null(j);
    return j;
}

static uint64_t before; /* an epoch */

static bool settled_again(struct sim *w)
{
    return settled(w) && hsp_cluster_job(w->d, 1)->cur.epoch > before;
}

/* An executor is lost: the job goes on in another epoch, with all devices. */
static void another_epoch(void)
{
    before = job()->cur.epoch;
    sim_kill_exec(ss, 0);
    ss_until(settled_again, 20000);
    ss_go_on(1000);
    ss_until(settled_again, 20000);
}

static void trains_on(uint64_t ms)
{
    uint64_t at = ss->job[1].committed;
    ss_go_on(ms);
    assert_true(ss->job[1].committed > at + ms / 100);
    assert_int_equal(ss_holders(), 3);
}

/* ---- stories ---- */

/* Adopts job @id as the shell does: from the newest of the papers that agents keep. */
static void adopt_job(uint32_t id, bool force)
{
    struct hsp_papers best = {0};
    for (uint32_t i = 0; i < ss->n_nodes; i++) {
        const struct sim_papers *f = &ss->agent[i].papers[id];
        struct hsp_papers p;
        struct hsp_err err = {0};
        if (f->data == NULL || !ss->agent[i].alive) {
            continue;
        }
        assert_ok(hsp_papers_read(f->data, f->len, ss->arena, &p, &err), &err);
        best = best.job == 0 || p.epoch > best.epoch ? p : best;
    }
    assert_int_equal(best.job, id);
    sim_admin(ss, (struct hsp_admin_event){.verb = HSP_ADMIN_ADOPT,
                                           .job = id,
                                           .papers = &best,
                                           .reason = "its agents",
                                           .force = force});
}

static void adopt(bool force)
{
    adopt_job(1, force);
}

/* A store that is lost: an hspmdd of another cluster begins. */
static void begin_anew(uint64_t ms)
{
    sim_kill_daemon(ss, 100);
    ss_forget_rows();
    ss->cfg.fresh_id = (struct hsp_digest){9, 500};
    ss->cfg.salt = 77;
    ss_go_on(ms);
}

static void goes_on(uint64_t from)
{
    before = HSP_GENERATION_NUMBERS;
    ss_until(settled_again, 20000);
    assert_true(ss->job[1].committed >= from);
    assert_int_equal(ss->d->n_parked, 0);
    assert_int_equal(job()->origin_step, 0);
    trains_on(1000);
    sim_kill_daemon(ss, 100); /* its rows are there */
    ss_go_on(2000);
    ss_until(settled, 5000);
    another_epoch();
    trains_on(1000);
}

static void adopted_by_an_empty_store(void **state)
{
    (void)state;
    running(3);
    begin_anew(3000);
    assert_int_equal(ss->d->n_parked, 3);
    uint64_t at = ss->job[1].committed;
    adopt(false);
    assert_int_equal(ss->reply, HSP_OK);
    goes_on(at);
    assert_true(hsp_digest_equal(job()->from, (struct hsp_digest){7, 0}));
    adopt(false);
    assert_non_null(strstr(ss->reply_text, "there is nothing to adopt"));
    assert_true(settled(ss));
}

/* All executors have died meanwhile, and an agent with its machine's memory: two copies are
 * enough. */
static void adopted_from_segments_alone(void **state)
{
    (void)state;
    running(3);
    begin_anew(1000);
    for (uint32_t i = 0; i < 3; i++) {
        sim_kill_exec(ss, i * SIM_DEVS);
    }
    uint64_t at = ss->job[1].committed;
    ss_go_on(3000);
    adopt(false);
    assert_int_equal(ss->reply, HSP_OK);
    goes_on(at);
}

static void adopted_by_an_older_store(void **state)
{
    (void)state;
    struct copy old;
    running(3);
    keep_rows(&old);
    another_epoch();
    sim_kill_daemon(ss, 100);
    put_back(&old);
    mark_restored();
    ss_go_on(3000);
    assert_int_equal(job()->state, HSP_JOB_BEHIND);
    uint64_t at = ss->job[1].committed;
    adopt(false);
    assert_int_equal(ss->reply, HSP_OK);
    goes_on(at);
}

static void adopted_though_it_was_never_on_record(void **state)
{
    (void)state;
    running(3);
    sim_kill_daemon(ss, 100);
    for (uint32_t i = 0; i < ss->n_rows;) {
        if (strncmp(ss->rows[i].key, "job/", 4) == 0 || strncmp(ss->rows[i].key, "plan/", 5) == 0) {
            free(ss->rows[i].value);
            ss->rows[i] = ss->rows[--ss->n_rows];
        } else {
            i++;
        }
    }
    mark_restored();
    ss_go_on(3000);
    assert_true(job()->unrecorded);
    uint64_t at = ss->job[1].committed;
    adopt(false);
    assert_int_equal(ss->reply, HSP_OK);
    goes_on(at);
}

/* A node that is not here may know more. When it is gone for good, an administrator says so. */
static void not_without_a_node(void **state)
{
    (void)state;
    running(3);
    begin_anew(1000);
    sim_kill_agent(ss, 2, 8000);
    ss_go_on(3000);
    assert_int_equal(ss->d->n_parked, 2);
    adopt(false);
    assert_int_equal(ss->reply, HSP_ENODEV);
    assert_non_null(strstr(ss->reply_text, "nodes of its newest layout are not connected"));
    assert_non_null(strstr(ss->reply_text, ": n2; start their agents, or use --force"));
    assert_int_equal(ss->d->n_jobs, 0);
    assert_int_equal(ss->d->n_parked, 2);
    adopt(true);
    assert_int_equal(ss->reply, HSP_OK);
    before = HSP_GENERATION_NUMBERS;
    ss_until(settled_again, 20000);
    ss_go_on(8000);
    ss_until(settled, 20000);
    assert_int_equal(ss->d->n_parked, 0);
    trains_on(1000);
}

/* ---- nodes that keep state of two jobs ---- */

static bool div_settled(struct sim *w)
{
    const struct hsp_job *j = w->d_alive ? hsp_cluster_job(w->d, 2) : NULL;
    return j != NULL && j->state == HSP_JOB_RUNNING && j->cur.settled && j->ticket == 0;
}

static bool both_settled(struct sim *w)
{
    return settled(w) && div_settled(w);
}

static void order(enum hsp_admin_verb verb, uint32_t job)
{
    sim_admin(ss, (struct hsp_admin_event){.verb = verb, .job = job});
    assert_int_equal(ss->reply, HSP_OK);
}

/* Sealed segments of @job on node @node. */
static uint32_t pieces(uint32_t job, uint32_t node)
{
    uint32_t n = 0;
    for (uint32_t x = node * SIM_DEVS; x < (node + 1) * SIM_DEVS; x++) {
        for (uint32_t i = 0; i < ss->exec[x].n_seg; i++) {
            n += ss->exec[x].seg[i].job == job;
        }
    }
    return n;
}

/* Job 1, story, has n0/0, n0/1 and n1/0; job 2, div, has n1/1, n2/0 and n2/1. */
static void two_jobs(uint32_t copies)
{
    sim_init(ss, 7, 0, 2);
    ss->n_nodes = 3;
    ss->cfg.fresh_id = (struct hsp_digest){7, 0};
    ss_forget_rows();
    sim_d_start(ss);
    ss->plan_all = true;
    ss->copies = copies;
    ss->cfg.state_wait_ms = 5000;
    ss->cfg.measures = ss->d->cfg.measures = 0;
    for (uint32_t i = 0; i < 3; i++) {
        sim_push(ss, 10 * i, (struct sim_ev){.type = SIM_E_A_START, .who = i});
    }
    ss_go_on(500);
    sim_submit(ss, "story", 0, 3, 3, 1000, 0);
    ss_until(settled, 5000);
    sim_submit(ss, "div", 0, 3, 3, 1000, 0);
    ss_until(both_settled, 5000);
    ss_go_on(500);
    assert_true(pieces(1, 0) > 0 && pieces(1, 1) > 0 && pieces(2, 1) > 0 && pieces(2, 2) > 0);
    assert_int_equal(pieces(1, 2) + pieces(2, 0), 0);
}

static const struct hsp_job *div_here(void)
{
    const struct hsp_job *j = hsp_cluster_job(ss->d, 2);
    assert_non_null(j);
    return j;
}

/* Story alone is adopted: n1, which keeps div as well, is a member; n2, which nobody has named, is
 * not. */
static void story_alone(void)
{
    uint64_t at = ss->job[1].committed;
    adopt_job(1, false);
    assert_int_equal(ss->reply, HSP_OK);
    before = HSP_GENERATION_NUMBERS;
    ss_until(settled_again, 20000);
    ss_go_on(2000);
    assert_true(ss->job[1].committed > at + 5);
    assert_int_equal(ss->d->n_parked, 1);
    assert_string_equal(ss->d->parked[0].name, "n2");
    assert_int_equal(ss->d->parked[0].as, HSP_PARKED_FOREIGN);
    assert_non_null(strstr(ss->d->parked[0].why,
                           "it stores state of job div of cluster 00000000: if state_dir here"));
    assert_true(hsp_ci_not_adopted(div_here()));
    assert_non_null(
        strstr(div_here()->reason, "stored by n1: hspmdctl job adopt div takes it over"));
    assert_non_null(strstr(div_here()->reason, "hspmdctl node discard n1 deletes"));
    assert_true(pieces(2, 1) > 0 && pieces(2, 2) > 0);
    assert_true(ss->d->next_job > 2);
}

/* The nodes are adopted one after the other; with @restarts, hspmdd and the agent between them
 * begin anew meanwhile. */
static void one_after_the_other(bool restarts)
{
    two_jobs(2);
    begin_anew(3000);
    assert_int_equal(ss->d->n_parked, 3);
    uint64_t at = ss->job[2].committed;
    story_alone();
    if (restarts) {
        sim_kill_daemon(ss, 100);
        ss_go_on(3000);
        sim_kill_agent(ss, 1, 500);
        ss_go_on(8000);
        ss_until(settled, 20000);
        assert_true(hsp_ci_not_adopted(div_here()));
    } else {
        assert_true(ss->job[2].committed > at + 5); /* nobody has stopped it */
        assert_int_equal(hsp_cluster_node_by_name(ss->d, "n1")->dev[1].job, 2);
    }
    at = ss->job[2].committed;
    adopt_job(2, false);
    assert_int_equal(ss->reply, HSP_OK);
    ss_until(both_settled, 20000);
    assert_int_equal(ss->d->n_parked, 0);
    assert_true(ss->job[2].committed >= at);
    assert_int_equal(div_here()->origin_step, 0);
    assert_false(hsp_ci_not_adopted(div_here()));
    sim_kill_daemon(ss, 100);
    ss_go_on(2000);
    ss_until(both_settled, 20000);
    order(HSP_ADMIN_CANCEL, 2);
    ss_go_on(3000);
    assert_int_equal(pieces(2, 0) + pieces(2, 1) + pieces(2, 2), 0);
    ss_until(settled, 5000);
}

static void other_jobs_of_a_node_stay_as_they_are(void **state)
{
    (void)state;
    one_after_the_other(false);
}

static void they_outlive_restarts(void **state)
{
    (void)state;
    one_after_the_other(true);
}

static bool story_has_all(struct sim *w)
{
    return settled(w) && hsp_cluster_job(w->d, 1)->cur.n_ranks == 6;
}

/* The only device that has state of div works for story when div is adopted: that state is not
 * lost. */
static void state_on_a_device_that_works_is_waited_for(void **state)
{
    (void)state;
    two_jobs(2);
    begin_anew(1000);
    sim_kill_exec(ss, 1 * SIM_DEVS + 1); /* div runs there no more */
    sim_crash_node(ss, 2, 500);
    ss_go_on(8000);
    assert_true(pieces(2, 1) > 0 && pieces(2, 2) == 0);
    adopt_job(1, false);
    assert_int_equal(ss->reply, HSP_OK);
    before = HSP_GENERATION_NUMBERS;
    ss_until(settled_again, 20000);
    assert_int_equal(hsp_cluster_node_by_name(ss->d, "n1")->dev[1].job, 0);
    sim_admin(ss, (struct hsp_admin_event){.verb = HSP_ADMIN_SCALE, .job = 1, .min = 3, .max = 6});
    ss_until(story_has_all, 20000);
    assert_true(hsp_ci_not_adopted(div_here()));
    uint64_t at = ss->job[2].committed;
    adopt_job(2, false);
    assert_int_equal(ss->reply, HSP_OK);
    ss_go_on(2 * (uint64_t)ss->cfg.state_wait_ms);
    assert_int_equal(div_here()->state, HSP_JOB_PAUSED);
    assert_string_equal(div_here()->reason,
                        "its state is on devices that job story has: waiting for those");
    assert_true(pieces(2, 1) > 0 && pieces(2, 2) == 0);
    order(HSP_ADMIN_CANCEL, 1);
    ss_until(div_settled, 20000);
    assert_true(ss->job[2].committed >= at);
    assert_int_equal(div_here()->origin_step, 0);
}

/* A job that no agent keeps any more is shown no more. */
static void what_is_discarded_is_forgotten(void **state)
{
    (void)state;
    two_jobs(2);
    begin_anew(1000);
    ss_go_on(3000);
    story_alone();
    uint32_t conn = hsp_cluster_node_by_name(ss->d, "n1")->conn;
    struct hsp_msg m = {
        .type = HSP_MSG_PAPERS,
        .u.papers = {.job = 2, .what = HSP_PAPERS_DISCARD, .cluster = {7, 0}, .reason = ""}};
    sim_to_node(ss, conn, SIM_E_A_MSG, sim_clone(ss, &m)); /* as the shell does at node discard */
    ss_go_on(5000);
    assert_int_equal(pieces(2, 1), 0);
    assert_null(hsp_cluster_job(ss->d, 2));
    assert_true(pieces(2, 2) > 0); /* of which nobody has spoken */
    assert_int_equal(hsp_cluster_node_by_name(ss->d, "n1")->dev[1].job, 0);
    ss_until(settled, 20000);
}

/* An adopted job is cancelled and forgotten before its nodes are back. Their state goes by that
 * word. */
static void state_of_a_forgotten_job_goes(void **state)
{
    (void)state;
    running(3);
    begin_anew(1000);
    sim_kill_agent(ss, 2, 20000);
    ss_go_on(2000);
    adopt(true);
    assert_int_equal(ss->reply, HSP_OK);
    order(HSP_ADMIN_CANCEL, 1);
    order(HSP_ADMIN_FORGET, 1);
    assert_int_equal(ss_holders(), 3);
    ss_go_on(5000);
    assert_int_equal(ss->d->n_parked, 0);
    assert_int_equal(ss_holders(), 1);
    sim_kill_daemon(ss, 100);
    ss_go_on(25000);
    assert_int_equal(ss->d->n_parked, 0);
    assert_int_equal(ss_holders(), 0);
    assert_int_equal(hsp_cluster_node_by_name(ss->d, "n2")->state, HSP_NODE_LIVE);
    assert_int_equal(ss->d->n_jobs, 0);
}

static uint64_t newest_on_disk(void)
{
    uint64_t v = SIM_STEPS - 1;
    while (v > 0 && ss->job[1].disk[v] == 0) {
        v--;
    }
    return v;
}

/* The papers were made before the first checkpoint, and the state is lost just behind the adoption:
 * the job goes on from the newest checkpoint on disk, and names the steps that this costs. */
static void adopted_without_its_state(void **state)
{
    char told[64];
    (void)state;
    running_with(3, 20);
    while (newest_on_disk() < 60) {
        ss_go_on(100);
    }
    assert_int_equal(job()->begun, 1);
    begin_anew(3000);
    assert_int_equal(ss->d->n_parked, 3);
    adopt(false);
    assert_int_equal(ss->reply, HSP_OK);
    assert_true(hsp_digest_equal(job()->born, (struct hsp_digest){7, 0}));
    assert_false(job()->has_ckpt);
    for (uint32_t i = 0; i < 3; i++) {
        sim_crash_node(ss, i, 50);
    }
    uint64_t newest = newest_on_disk();
    before = HSP_GENERATION_NUMBERS;
    ss->tracing = true;
    ss_until(settled_again, 120000);
    ss->tracing = false;
    assert_int_equal(job()->origin, HSP_MODE_RESTORE);
    assert_int_equal(job()->origin_step, newest);
    (void)snprintf(told, sizeof told, " version %u", (unsigned)newest);
    assert_non_null(strstr(hsp_buf_cstr(&ss->trace), told));
    trains_on(1000);
    assert_true(job()->ckpt_step > newest);
    sim_kill_daemon(ss, 100); /* its rows are there */
    ss_go_on(2000);
    ss_until(settled, 5000);
    assert_true(hsp_digest_equal(job()->born, (struct hsp_digest){7, 0}));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, ss_setup, ss_teardown)
    const struct CMUnitTest tests[] = {T(adopted_by_an_empty_store),
                                       T(adopted_from_segments_alone),
                                       T(adopted_by_an_older_store),
                                       T(adopted_though_it_was_never_on_record),
                                       T(not_without_a_node),
                                       T(other_jobs_of_a_node_stay_as_they_are),
                                       T(they_outlive_restarts),
                                       T(state_on_a_device_that_works_is_waited_for),
                                       T(what_is_discarded_is_forgotten),
                                       T(state_of_a_forgotten_job_goes),
                                       T(adopted_without_its_state)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
