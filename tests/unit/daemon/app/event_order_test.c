/* Tests the order of events and actions: events that a part posts while a batch of actions is
 * performed come behind that batch, in the order of posting. The core, the pool and the clock are
 * played here; a text notes the events of the core and the messages to agents. Example: "config;
 * send 1; send 2; tick;". */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon/app/api/ckpt_requests.h"
#include "daemon/app/app.h"
#include "daemon/app/dispatch.h"
#include "daemon/app/feed/event_log.h"
#include "daemon/app/feed/subscriptions.h"
#include "daemon/app/perform/actions.h"
#include "daemon/app/perform/store_stall.h"
#include "daemon/app/state/event_queue.h"
#include "daemon/app/state/job_table.h"
#include "daemon/app/state/sessions.h"
#include "daemon/app/state/tasks.h"
#include "proto/base/size.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/app/app_lib.h"

#define CONN      5u
#define MAX_ACTS  8u
#define MAX_TASKS 16u

enum hsp_status __wrap_hsp_cluster_step(struct hsp_cluster *c, const struct hsp_event *ev,
                                        struct hsp_actions *ret, struct hsp_err *err);
void __wrap_hsp_app_send(struct hsp_app *a, uint32_t conn, const struct hsp_msg *m);
void __wrap_hsp_app_reply(struct hsp_app *a, uint32_t conn, uint64_t request, enum hsp_status st,
                          const char *message, const char *blob, size_t len, bool more);
bool __wrap_hsp_app_queue(struct hsp_app *a, struct hsp_app_task *t);
uint64_t __wrap_uv_hrtime(void);

static struct {
    char *dir;
    int null;
    uv_loop_t loop;
    struct hsp_daemon_config cfg;
    struct hsp_app *app;
    struct hsp_buf said; /* events of the core and messages sent, since the last look */
    struct hsp_action act[MAX_ACTS];
    struct hsp_msg msg[MAX_ACTS];
    uint32_t n_acts;   /* the answer to the next event */
    uint32_t posts_at; /* the number of the message whose sending posts a TICK, 0 none */
    struct hsp_app_task *pool[MAX_TASKS]; /* oldest first */
    uint32_t n_pool;
    uint64_t now_ns, send_ns; /* the clock, and the time of sending */
    bool closed;
} w;

/* ---- the played parts ---- */

static void say_event(const struct hsp_event *ev)
{
    switch (ev->type) {
    case HSP_EV_TICK: hsp_buf_puts(&w.said, "tick; "); break;
    case HSP_EV_CONFIG: hsp_buf_puts(&w.said, "config; "); break;
    case HSP_EV_PLAN_DONE:
        hsp_buf_printf(&w.said, "plan of %u: %s; ", ev->u.plan.job, ev->u.plan.reason);
        break;
    case HSP_EV_MSG:
        if (ev->u.msg->type == HSP_MSG_LEAVE) {
            hsp_buf_printf(&w.said, "leave: %s; ", ev->u.msg->u.leave.reason);
            break;
        }
        hsp_buf_printf(&w.said, "rank %u: %s; ", ev->u.msg->u.failed.peer,
                       ev->u.msg->u.failed.reason);
        break;
    case HSP_EV_ADMIN:
        hsp_buf_printf(&w.said, "admin %s", ev->u.admin.actor);
        for (uint32_t i = 0; i < ev->u.admin.check.n_nodes; i++) {
            hsp_buf_printf(&w.said, " %s", ev->u.admin.check.node[i]);
        }
        hsp_buf_puts(&w.said, "; ");
        break;
    default: fail(); break;
    }
}

enum hsp_status __wrap_hsp_cluster_step(struct hsp_cluster *c, const struct hsp_event *ev,
                                        struct hsp_actions *ret, struct hsp_err *err)
{
    (void)c;
    (void)err;
    say_event(ev);
    ret->item = w.act;
    ret->n = w.n_acts;
    w.n_acts = 0;
    return HSP_OK;
}

void __wrap_hsp_app_send(struct hsp_app *a, uint32_t conn, const struct hsp_msg *m)
{
    assert_int_equal(conn, CONN);
    hsp_buf_printf(&w.said, "send %u; ", m->u.echo.seq);
    w.now_ns += w.send_ns;
    if (m->u.echo.seq == w.posts_at) {
        hsp_app_post(a, &(struct hsp_event){.type = HSP_EV_TICK}, NULL);
        hsp_app_settle(a); /* as a callback would that comes from within */
    }
}

void __wrap_hsp_app_reply(struct hsp_app *a, uint32_t conn, uint64_t request, enum hsp_status st,
                          const char *message, const char *blob, size_t len, bool more)
{
    (void)a;
    (void)request;
    assert_true(conn == CONN && (st == HSP_OK || st == HSP_ELIMIT));
    hsp_buf_puts(&w.said, st == HSP_OK ? "" : message);
    hsp_buf_append(&w.said, blob, len);
    hsp_buf_puts(&w.said, more ? "; " : "");
}

uint64_t __wrap_uv_hrtime(void)
{
    return w.now_ns;
}

bool __wrap_hsp_app_queue(struct hsp_app *a, struct hsp_app_task *t)
{
    assert_true(w.n_pool < MAX_TASKS);
    t->app = a;
    w.pool[w.n_pool++] = t;
    return true;
}

/* The oldest task: run on the pool, done on the loop. */
static void work(void)
{
    struct hsp_app_task *t = w.pool[0];
    assert_true(w.n_pool > 0);
    w.n_pool--;
    for (uint32_t i = 0; i < w.n_pool; i++) {
        w.pool[i] = w.pool[i + 1];
    }
    t->run(t);
    t->done(t);
    hsp_app_settle(w.app);
}

/* ---- the answer of the core to the next event ---- */

static struct hsp_action *add(enum hsp_action_type type)
{
    struct hsp_action *act = &w.act[w.n_acts];
    assert_true(w.n_acts < MAX_ACTS);
    *act = (struct hsp_action){.type = type, .conn = CONN, .msg = &w.msg[w.n_acts]};
    w.msg[w.n_acts++] = (struct hsp_msg){.type = HSP_MSG_ECHO};
    return act;
}

static void add_send(uint32_t number)
{
    add(HSP_ACT_SEND);
    w.msg[w.n_acts - 1].u.echo.seq = number;
}

/* A package that cannot be made: the plan is not kept. */
static void add_prepare(uint32_t rank)
{
    static struct hsp_prepare_peer peer;
    static struct hsp_prepare_source source;
    static struct hsp_prepare_action epoch = {.peers = &peer, .sources = &source};
    struct hsp_action *act = add(HSP_ACT_PREPARE);
    act->job = 1;
    act->plan_no = 3;
    act->u.prepare = &epoch;
    w.msg[w.n_acts - 1] = (struct hsp_msg){.type = HSP_MSG_PREPARE,
                                           .epoch = 2,
                                           .u.prepare = {.job = 1,
                                                         .job_name = "tiny",
                                                         .rank = rank,
                                                         .n_ranks = 2,
                                                         .n_peers = 2,
                                                         .plan = 3,
                                                         .data_path = "",
                                                         .checkpoint_path = "",
                                                         .trusted_network = ""}};
}

static void add_plan(uint32_t job, bool urgent)
{
    static struct hsp_plan_request request[MAX_ACTS];
    struct hsp_plan_request *r = &request[w.n_acts];
    *r = (struct hsp_plan_request){.job = job, .ticket = job, .urgent = urgent};
    add(HSP_ACT_START_PLAN)->u.plan = r;
}

/* An answer that nobody waits for: with it messages are a batch. */
static void add_reply(void)
{
    struct hsp_action *act = add(HSP_ACT_REPLY);
    act->msg = NULL;
    act->request = 99;
    act->text = "";
}

static void post(enum hsp_event_type type)
{
    hsp_app_post(w.app, &(struct hsp_event){.type = type}, NULL);
}

static void assert_said(const char *want)
{
    assert_string_equal(hsp_buf_cstr(&w.said), want);
    hsp_buf_reset(&w.said);
}

/* ---- an app ---- */

static int setup(void **state)
{
    static const struct hsp_net_keys keys;
    struct hsp_err err = {0};
    (void)state;
    memset(&w, 0, sizeof w);
    hsp_buf_init(&w.said, 1u << 16);
    w.dir = hsp_test_tmpdir();
    w.null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    w.cfg = (struct hsp_daemon_config){.state_dir = w.dir,
                                       .trusted = "",
                                       .advertise_address = "",
                                       .heartbeat_ms = 1000,
                                       .failure_detection_ms = 10000,
                                       .prepare_ms = 10000,
                                       .max_nodes = 4,
                                       .planner_memory = (uint64_t)64 << 20};
    assert_int_equal(uv_loop_init(&w.loop), 0);
    const struct hsp_app_start start = {
        .cfg = &w.cfg, .keys = &keys, .log = hsp_log_new(w.null, HSP_LOG_ERROR), .init = true};
    assert_ok(hsp_app_open(&w.loop, &start, &w.app, &err), &err);
    while (w.n_pool > 0) { /* the row of the term */
        work();
    }
    w.app->clients[hsp_net_slot(CONN)].conn = CONN;
    assert_said("");
    return 0;
}

static void on_closed(struct hsp_app *a)
{
    (void)a;
    w.closed = true;
}

static int teardown(void **state)
{
    (void)state;
    struct hsp_logger *log = w.app->log;
    hsp_app_close(w.app, on_closed);
    while (w.n_pool > 0) {
        work();
    }
    assert_int_equal(uv_run(&w.loop, UV_RUN_DEFAULT), 0);
    assert_true(w.closed);
    assert_null(hsp_app_free(w.app));
    (void)hsp_log_free(log);
    assert_int_equal(uv_loop_close(&w.loop), 0);
    assert_int_equal(close(w.null), 0);
    hsp_buf_fini(&w.said);
    hsp_test_rmdir(w.dir);
    free(w.dir);
    return 0;
}

/* ---- tests ---- */

static void an_event_posted_while_a_batch_is_performed_comes_behind_it(void **state)
{
    (void)state;
    add_send(1);
    add_reply();
    add_send(2);
    w.posts_at = 1;
    post(HSP_EV_CONFIG);
    assert_said(""); /* the queue holds it */
    hsp_app_settle(w.app);
    assert_said("config; send 1; send 2; tick; ");
}

static void a_batch_that_goes_on_later_is_not_interrupted_either(void **state)
{
    struct hsp_action store = {.type = HSP_ACT_STORE, .key = "k", .value = "v", .len = 1};
    (void)state;
    *add(HSP_ACT_STORE) = store;
    add_send(1);
    add_send(2);
    w.posts_at = 1;
    post(HSP_EV_CONFIG);
    hsp_app_settle(w.app);
    assert_said("config; "); /* the row is not on disk */
    work();
    assert_said("send 1; send 2; tick; ");
}

/* After 5 ms the loop looks after others, and so does the core; the rest of the batch follows. */
static void a_long_batch_lets_events_pass_between_its_parts(void **state)
{
    (void)state;
    add_send(1);
    add_reply();
    add_send(2);
    w.posts_at = 1;
    w.send_ns = 6000000;
    post(HSP_EV_CONFIG);
    hsp_app_settle(w.app);
    assert_said("config; send 1; tick; ");
    while (uv_is_active((uv_handle_t *)&w.app->rest)) {
        (void)uv_run(&w.loop, UV_RUN_ONCE);
    }
    assert_said("send 2; ");
}

static void refused_packages_are_told_in_order_behind_their_batch(void **state)
{
    (void)state;
    assert_non_null(hsp_app_job_add(w.app, 1, app_job("", 0, NULL)));
    add_prepare(0);
    add_send(1);
    add_prepare(1);
    post(HSP_EV_CONFIG);
    hsp_app_settle(w.app);
    assert_said("config; ");
    work();
    assert_said("send 1; rank 0: the plan is not kept; rank 1: the plan is not kept; ");
}

/* Four runs at a time: the fifth question waits, and an urgent one that comes with the first answer
 * goes before it. */
static void an_urgent_question_goes_before_those_that_wait(void **state)
{
    (void)state;
    for (uint32_t job = 1; job <= 5; job++) {
        add_plan(job, false);
    }
    post(HSP_EV_CONFIG);
    hsp_app_settle(w.app);
    assert_int_equal(w.n_pool, 4);
    add_plan(9, true);
    work();
    assert_said("config; plan of 1: the job's files are not here; ");
    assert_int_equal(w.n_pool, 4);
    for (int i = 0; i < 3; i++) {
        work();
    }
    hsp_buf_reset(&w.said);
    work();
    assert_said("plan of 9: the job's files are not here; ");
    work();
    assert_said("plan of 5: the job's files are not here; ");
    assert_int_equal(w.n_pool, 0);
}

static void a_posted_event_owns_its_texts(void **state)
{
    char actor[] = "root", node[] = "a1";
    const char *nodes[] = {node, "b2"};
    const struct hsp_event ev = {.type = HSP_EV_ADMIN,
                                 .u.admin = {.verb = HSP_ADMIN_CHECK,
                                             .actor = actor,
                                             .check = {.n_nodes = 2, .node = nodes}}};
    (void)state;
    hsp_app_post(w.app, &ev, NULL);
    memset(actor, 'x', 4);
    memset(node, 'x', 2);
    nodes[1] = NULL;
    hsp_app_settle(w.app);
    assert_said("admin root a1 b2; ");
}

static void use_the_stack(void)
{
    volatile uint8_t bytes[16384];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = 0xa5;
    }
}

/* Of a message only its event is posted: the message stays where dispatch.c has decoded it. */
static void a_message_lives_until_the_core_has_had_it(void **state)
{
    struct hsp_caller *c = &w.app->clients[hsp_net_slot(CONN)];
    static const char body[] = "{\"reason\":\"spot\",\"deadline_ms\":0}";
    uint8_t copy[sizeof body];
    struct hsp_frame f = {.head = {.type = HSP_MSG_LEAVE, .body_len = sizeof body - 1},
                          .body = copy};
    (void)state;
    memcpy(copy, body, sizeof body);
    c->kind = HSP_CALLER_AGENT;
    c->may_join = true;
    hsp_dispatch_frame(w.app, CONN, &f);
    assert_said("");
    use_the_stack();
    hsp_app_settle(w.app);
    assert_said("leave: spot; ");
}

/* A caller without the right to its message is told by an event once in ten minutes, at any number
 * of calls. */
static void who_is_denied_is_told_now_and_then(void **state)
{
    struct hsp_caller *c = &w.app->clients[hsp_net_slot(CONN)];
    static const char body[] = "{\"reason\":\"spot\",\"deadline_ms\":0}";
    const uint64_t before = w.app->seq;
    (void)state;
    c->kind = HSP_CALLER_NEW;
    c->may_join = false;
    for (int pid = 1; pid <= 60; pid++) {
        uint8_t copy[sizeof body];
        struct hsp_frame f = {.head = {.type = HSP_MSG_LEAVE, .body_len = sizeof body - 1},
                              .body = copy};
        memcpy(copy, body, sizeof body);
        (void)snprintf(c->name, sizeof c->name, "uid 1000 pid %d", pid);
        w.now_ns += UINT64_C(20000000000);
        hsp_dispatch_frame(w.app, CONN, &f);
        while (w.n_pool > 0) {
            work();
        }
    }
    assert_int_equal(w.app->seq - before, 2); /* in 20 minutes */
    assert_said("");
}

/* Lines behind the checkpoint that the job has gone back to are shown on demand alone. */
static void metrics_are_of_the_history_that_counts(void **state)
{
    static const char *const what[] = {"", "all"};
    static const char *const shown[] = {"40 of 1\n41 of 3\n", "40 of 1\n41 of 3\n42 of 1\n"};
    const struct hsp_store_metric m[] = {
        {1, 40, 1, "40 of 1"}, {1, 41, 3, "41 of 3"}, {1, 42, 1, "42 of 1"}};
    struct hsp_caller *c = &w.app->clients[hsp_net_slot(CONN)];
    struct hsp_job j = {.id = 1, .name = "j", .cuts = {1, {{0, 3, 40}}}};
    struct hsp_err err = {0};
    (void)state;
    assert_ok(hsp_store_feed_add(w.app->store, NULL, 0, m, 3, &err), &err);
    w.app->cluster->jobs[w.app->cluster->n_jobs++] = &j;
    for (size_t i = 0; i < 2; i++) {
        const struct hsp_msg ask = {.type = HSP_MSG_METRICS,
                                    .u.query = {.name = "j", .what = what[i]}};
        hsp_app_follow(w.app, c, &ask);
        while (w.n_pool > 0) {
            work();
        }
        assert_said(shown[i]);
    }
    w.app->cluster->n_jobs--;
}

/* The line of step 2 waits behind that of step 1, which is on its way to the disk, as a job
 * ends. */
static void metrics_have_what_was_told_before_they_are_asked_for(void **state)
{
    const struct hsp_msg ask = {.type = HSP_MSG_METRICS, .u.query = {.name = "j", .what = ""}};
    struct hsp_caller *c = &w.app->clients[hsp_net_slot(CONN)];
    struct hsp_job j = {.id = 1, .name = "j"};
    (void)state;
    assert_non_null(hsp_app_job_add(w.app, 1, app_job("", 0, NULL)));
    w.app->cluster->jobs[w.app->cluster->n_jobs++] = &j;
    for (uint64_t step = 1; step <= 2; step++) {
        const struct hsp_msg m = {
            .type = HSP_MSG_STEP, .epoch = 1, .u.step = {.job = 1, .step = step}};
        hsp_app_metric(w.app, 1, &m);
    }
    hsp_app_follow(w.app, c, &ask);
    while (w.n_pool > 0) {
        work();
    }
    const char *first = strstr(hsp_buf_cstr(&w.said), "\"step\":1,");
    assert_non_null(first);
    assert_non_null(strstr(first, "\"step\":2,"));
    hsp_buf_reset(&w.said);
    w.app->cluster->n_jobs--;
}

/* The job goes back to 40, which it had told long ago: status shows that, and not the step that it
 * gave up. */
static void the_step_that_a_job_goes_back_to_is_read_again(void **state)
{
    const struct hsp_store_metric m[] = {{1, 40, 1, "{\"loss\":2.5,\"seconds\":0.1}"},
                                         {1, 60, 1, "{\"loss\":\"nan\",\"seconds\":0.1}"}};
    const struct hsp_fact back = {.type = "admin.resume",
                                  .severity = HSP_SEV_NOTICE,
                                  .job = 1,
                                  .node = "",
                                  .reason = "",
                                  .cause = ""};
    struct hsp_job j = {.id = 1, .name = "tiny", .stable = 60};
    struct hsp_app_job *told = hsp_app_job_add(w.app, 1, app_job("", 0, NULL));
    struct hsp_err err = {0};
    (void)state;
    assert_non_null(told);
    assert_ok(hsp_store_feed_add(w.app->store, NULL, 0, m, 2, &err), &err);
    w.app->cluster->jobs[w.app->cluster->n_jobs++] = &j;
    const struct hsp_m_step last = {.step = 60, .loss = 3};
    assert_true(hsp_app_job_told(told, &j, 1, &last));
    for (int gone = 0; gone < 2; gone++) {
        hsp_app_fact(w.app, &back);
        while (w.n_pool > 0) {
            work();
        }
        const struct hsp_m_step *s = hsp_app_job_newest(told, &j);
        assert_non_null(s);
        assert_true(gone == 0 ? s->step == 60 && s->loss == 3 : s->step == 40 && s->loss == 2.5);
        j.stable = 40;
        j.begun = 3;
        j.cuts = (struct hsp_ckpt_cuts){1, {{0, 3, 40}}};
    }
    w.app->cluster->n_jobs--;
}

/* A command that waits and follows hears why the final model cannot be written, each reason once.
 * An hspmdctl of before does not follow. */
static void who_waits_hears_what_holds_the_job_up(void **state)
{
    static const char *const why[] = {"no room", "no room", "read-only", "", "no room"};
    struct hsp_caller *c = &w.app->clients[hsp_net_slot(CONN)];
    struct hsp_job j = {.id = 1, .name = "j", .state = HSP_JOB_FINISHING, .stable = 9};
    (void)state;
    w.app->cluster->jobs[w.app->cluster->n_jobs++] = &j;
    for (int follow = 0; follow < 2; follow++) {
        const struct hsp_msg m = {.type = HSP_MSG_WAIT,
                                  .u.query = {.name = "j", .what = "", .follow = follow != 0}};
        hsp_app_wait(w.app, c, &m);
        for (size_t i = 0; i < HSP_ARRAY_LEN(why); i++) {
            (void)snprintf(j.problem, sizeof j.problem, "%s", why[i]);
            hsp_app_wait_check(w.app);
        }
        assert_said(!follow ? ""
                            : "{\"job\":\"j\",\"state\":\"finishing\",\"reason\":\"no room\","
                              "\"step\":9}; {\"job\":\"j\",\"state\":\"finishing\",\"reason\":"
                              "\"read-only\",\"step\":9}; {\"job\":\"j\",\"state\":\"finishing\","
                              "\"reason\":\"no room\",\"step\":9}; ");
        j.state = HSP_JOB_DONE;
        hsp_app_wait_check(w.app);
        assert_said("{\"job\":\"j\",\"state\":\"done\",\"reason\":\"\",\"step\":9}");
        j.state = HSP_JOB_FINISHING;
        j.problem[0] = '\0';
    }
    w.app->cluster->n_jobs--;
}

/* Of a job that is not on record, and not adopted yet, nobody knows how many steps it has. */
static void a_step_of_a_job_that_is_not_on_record_is_waited_for(void **state)
{
    struct hsp_caller *c = &w.app->clients[hsp_net_slot(CONN)];
    struct hsp_job j = {.id = 1, .name = "j", .state = HSP_JOB_BEHIND, .unrecorded = true};
    const struct hsp_msg m = {.type = HSP_MSG_WAIT, .u.query = {.name = "j", .what = "step=5"}};
    (void)state;
    w.app->cluster->jobs[w.app->cluster->n_jobs++] = &j;
    hsp_app_wait(w.app, c, &m);
    assert_said("");
    j.unrecorded = false;
    j.state = HSP_JOB_RUNNING;
    j.steps = 9;
    j.stable = 5;
    hsp_app_wait_check(w.app);
    assert_said("{\"job\":\"j\",\"state\":\"running\",\"reason\":\"\",\"step\":5}");
    w.app->cluster->n_jobs--;
}

/* Where few versions are due, a step is reached when it is made, as status shows it; not one of an
 * epoch that is over. */
static void a_step_is_waited_for_until_it_is_made(void **state)
{
    struct hsp_caller *c = &w.app->clients[hsp_net_slot(CONN)];
    struct hsp_job j = {.id = 1,
                        .name = "j",
                        .state = HSP_JOB_RUNNING,
                        .steps = 900,
                        .stable = 50,
                        .cur = {.epoch = 3}};
    struct hsp_app_job told = {
        .id = 1, .have_step = true, .step_epoch = 2, .step = {.job = 1, .step = 70}};
    const struct hsp_msg m = {.type = HSP_MSG_WAIT, .u.query = {.name = "j", .what = "step=60"}};
    (void)state;
    w.app->cluster->jobs[w.app->cluster->n_jobs++] = &j;
    w.app->jobs = &told;
    w.app->n_jobs = 1;
    hsp_app_wait(w.app, c, &m);
    assert_said("");
    told.step_epoch = 3;
    told.step.step = 60;
    hsp_app_wait_check(w.app);
    assert_said("{\"job\":\"j\",\"state\":\"running\",\"reason\":\"\",\"step\":60}");
    w.app->n_jobs = 0;
    w.app->jobs = NULL;
    w.app->cluster->n_jobs--;
}

/* An executor of the job does not stop: the core says where, before hspmdctl stops waiting. */
static void a_job_that_does_not_stop(uint16_t verb)
{
    struct hsp_caller *c = &w.app->clients[hsp_net_slot(CONN)];
    struct hsp_job j = {.id = 1, .name = "j", .state = HSP_JOB_CANCELLED, .n_leases = 1};
    const struct hsp_msg m = {.type = verb, .u.query = {.name = "j", .what = ""}};
    w.app->cluster->jobs[w.app->cluster->n_jobs++] = &j;
    (void)snprintf(c->name, sizeof c->name, "me");
    if (verb == HSP_MSG_FORGET) {
        hsp_app_forget(w.app, c, &m, 1);
    } else {
        hsp_app_resume_from(w.app, c, &m, 1, 40);
    }
    for (int ms = 0; ms < 8000; ms += 100) {
        hsp_app_ckpts_check(w.app);
        hsp_app_settle(w.app);
        assert_said("");
        w.now_ns += 100000000u;
    }
    hsp_app_ckpts_check(w.app);
    hsp_app_ckpts_check(w.app);
    hsp_app_settle(w.app);
    assert_said("admin me; ");
    w.app->cluster->n_jobs--;
}

static void a_job_that_does_not_stop_is_not_forgotten(void **state)
{
    (void)state;
    a_job_that_does_not_stop(HSP_MSG_FORGET);
}

static void nor_does_it_go_on_from_a_checkpoint(void **state)
{
    (void)state;
    a_job_that_does_not_stop(HSP_MSG_RESUME);
}

/* One connection may send as many requests as it likes. */
static void no_more_wait_than_there_is_room_for(void **state)
{
    struct hsp_caller *c = &w.app->clients[hsp_net_slot(CONN)];
    struct hsp_job j = {.id = 1, .name = "j", .state = HSP_JOB_FINISHING};
    const struct hsp_msg wait = {.type = HSP_MSG_WAIT, .u.query = {.name = "j", .what = ""}};
    const struct hsp_msg follow = {.type = HSP_MSG_EVENTS,
                                   .u.query = {.name = "", .what = "", .follow = true}};
    (void)state;
    w.app->cluster->jobs[w.app->cluster->n_jobs++] = &j;
    for (uint32_t i = 0; i < 4096 / 2; i++) {
        hsp_app_wait(w.app, c, &wait);
        hsp_app_follow(w.app, c, &follow);
        while (w.n_pool > 0) {
            work();
        }
    }
    hsp_buf_reset(&w.said);
    hsp_app_wait(w.app, c, &wait);
    assert_said("4096 requests wait or follow already; end some of them");
    hsp_app_follow(w.app, c, &follow);
    assert_said("4096 requests wait or follow already; end some of them");
    hsp_app_client_gone(w.app, CONN);
    assert_true(w.app->waiters == NULL && w.app->followers == NULL);
    w.app->cluster->n_jobs--;
}

/* The steps for which the event file of job 1 has points. */
static uint32_t points(uint64_t ret[16])
{
    char path[600], got[8192], host[256] = "";
    uint32_t n_points = 0;
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    (void)snprintf(path, sizeof path, "%s/jobs/tiny-1/tb/events.out.tfevents.%010lld.%s.%d", w.dir,
                   (long long)w.app->start_s, host, (int)getpid());
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(got, 1, sizeof got, f);
    assert_true(fclose(f) == 0 && n < sizeof got);
    for (size_t at = 0; at + 12 < n; n_points++) {
        const uint8_t *body = (const uint8_t *)got + at + 12; /* a length and its sum before */
        assert_true(n_points < 16);
        ret[n_points] = body[9] == 0x10 ? body[10] : 0; /* behind the time: field 2, below 128 */
        at += 16 + (size_t)(uint8_t)got[at] + 256u * (size_t)(uint8_t)got[at + 1];
    }
    return n_points;
}

/* After a start of hspmdd or of an agent steps are told again. */
static void a_step_that_is_told_again_is_no_second_point(void **state)
{
    static const struct {
        uint64_t epoch, step;
    } told[] = {{1, 40}, {1, 41}, {1, 40}, {1, 41}, {1, 42}, {2, 42}, {1, 42}, {2, 43}};
    static const uint64_t want[] = {0, 40, 41, 42, 42, 43}; /* epoch 2 has made 42 again */
    struct hsp_job j = {.id = 1, .name = "tiny"};
    uint64_t got[16];
    (void)state;
    w.cfg.tensorboard = true;
    assert_non_null(hsp_app_job_add(w.app, 1, app_job("", 0, NULL)));
    w.app->cluster->jobs[w.app->cluster->n_jobs++] = &j;
    for (size_t i = 0; i < HSP_ARRAY_LEN(told); i++) {
        const struct hsp_msg m = {.type = HSP_MSG_STEP,
                                  .epoch = told[i].epoch,
                                  .u.step = {.job = 1, .step = told[i].step, .loss = 3}};
        hsp_app_metric(w.app, 1, &m);
        while (w.n_pool > 0) {
            work();
        }
    }
    w.app->cluster->n_jobs--;
    assert_int_equal(points(got), HSP_ARRAY_LEN(want));
    assert_memory_equal(got, want, sizeof want);
}

/* A full disk gets room again, and damage stays until hspmdd is restarted. */
static void a_store_that_takes_nothing_says_what_to_do(void **state)
{
    static const struct {
        enum hsp_status code;
        const char *why, *says;
    } cases[] = {
        {HSP_ENOSPC, "database or disk is full",
         "/state.db: database or disk is full; training continues, nothing can be changed until it "
         "can be written"},
        {HSP_EDIGEST, "database disk image is malformed",
         "/state.db is damaged: database disk image is malformed; training continues, nothing can "
         "be changed; restart hspmdd, which rebuilds the file from its undamaged rows; if it "
         "refuses to start, put a backup back: hspmdd --restore FILE"}};
    (void)state;
    for (size_t i = 0; i < HSP_ARRAY_LEN(cases); i++) {
        struct hsp_err err = {0};
        (void)hsp_err_set(&err, cases[i].code, 0, "%s", cases[i].why);
        hsp_app_store_stalled(w.app, &err);
        assert_string_equal(w.app->stalled_why + strlen(w.dir), cases[i].says);
        hsp_app_unstuck(w.app);
    }
}

static void a_closing_app_takes_no_events(void **state)
{
    (void)state;
    post(HSP_EV_TICK);
    w.app->closing = true;
    post(HSP_EV_TICK);
    hsp_app_settle(w.app);
    assert_said("");
    assert_int_equal(w.app->n_events, 1); /* dropped at the end */
    w.app->closing = false;
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

HSP_TEST_FILE(event_order_test)
{
    const struct CMUnitTest tests[] = {
        TEST(an_event_posted_while_a_batch_is_performed_comes_behind_it),
        TEST(a_batch_that_goes_on_later_is_not_interrupted_either),
        TEST(a_long_batch_lets_events_pass_between_its_parts),
        TEST(refused_packages_are_told_in_order_behind_their_batch),
        TEST(an_urgent_question_goes_before_those_that_wait),
        TEST(a_posted_event_owns_its_texts),
        TEST(a_message_lives_until_the_core_has_had_it),
        TEST(who_is_denied_is_told_now_and_then),
        TEST(metrics_are_of_the_history_that_counts),
        TEST(metrics_have_what_was_told_before_they_are_asked_for),
        TEST(the_step_that_a_job_goes_back_to_is_read_again),
        TEST(who_waits_hears_what_holds_the_job_up),
        TEST(a_step_of_a_job_that_is_not_on_record_is_waited_for),
        TEST(a_step_is_waited_for_until_it_is_made),
        TEST(a_job_that_does_not_stop_is_not_forgotten),
        TEST(nor_does_it_go_on_from_a_checkpoint),
        TEST(no_more_wait_than_there_is_room_for),
        TEST(a_step_that_is_told_again_is_no_second_point),
        TEST(a_store_that_takes_nothing_says_what_to_do),
        TEST(a_closing_app_takes_no_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
