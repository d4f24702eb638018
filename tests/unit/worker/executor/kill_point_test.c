/* Checks that an executor process is killed at each named point and leaves the segments that it
 * must have there, and that invalid orders are ignored. */
#include "worker/executor/kill_point.h"

#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/size.h"
#include "tests/unit/worker/executor/executor_world.h"
#include "worker/executor/epoch.h"
#include "worker/state/segment_name.h"

#define FROM 5
#define STAY 100 /* ms for which the other threads go on before the kill */

enum { NO, YES, MAY }; /* is a version sealed? */

/* The points. The killed process is rank 1. Each point lists which versions, counted from the step
 * of the kill, rank 1 has sealed in the segments of the killed epoch, and the version of the other
 * rank. */
static const struct point {
    const char *name;
    bool switches, fresh; /* a switch is armed; its next epoch is killed */
    int before, there, next, of_other;
} points[] = {
    {"vote.before", false, false, YES, YES, NO, YES},
    {"vote.in", false, false, YES, YES, NO, YES},
    {"vote.after", false, false, YES, YES, NO, YES},
    {"update.before", false, false, NO, YES, NO, YES},
    {"update.in", false, false, NO, YES, NO, YES},
    {"update.after", false, false, YES, NO, NO, NO},
    {"seal.before", false, false, YES, NO, NO, NO},
    {"seal.in", false, false, YES, NO, NO, NO},
    {"seal.after", false, false, YES, YES, NO, NO},
    {"copy.before", false, false, YES, YES, NO, NO},
    {"copy.in", false, false, YES, YES, NO, NO},
    {"copy.after", false, false, YES, YES, NO, YES},
    {"arm.before", true, false, YES, YES, NO, YES},
    {"arm.in", true, false, YES, YES, NO, YES},
    {"arm.after", true, false, YES, YES, NO, YES},
    {"fetch.before", true, true, NO, NO, NO, MAY},
    {"fetch.in", true, true, NO, NO, NO, MAY},
    {"fetch.after", true, true, NO, YES, NO, MAY},
};

static void order(struct xw_world *w, const char *text)
{
    char path[4300];
    (void)snprintf(path, sizeof path, "%s/1", w->kills);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* Reads the file RANK.hit that the killed process has written. */
static void read_hit(struct xw_world *w, char name[24], uint64_t *ret_step, uint64_t *ret_epoch)
{
    char path[4300], node[24];
    unsigned long long step, epoch;
    (void)snprintf(path, sizeof path, "%s/1.hit", w->kills);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%23s %llu %llu %23s", name, &step, &epoch, node), 4);
    assert_int_equal(fclose(f), 0);
    assert_string_equal(node, "n1");
    *ret_step = step;
    *ret_epoch = epoch;
    (void)snprintf(path, sizeof path, "%s/1", w->kills);
    assert_int_equal(access(path, F_OK), -1);
}

/* Returns true if device @dev has version @v of layout @plan sealed: its home (@own), or its copy
 * of the other rank's home. */
static bool has(struct xw_world *w, int dev, uint64_t plan, uint64_t v, bool own)
{
    struct hsp_m_holding *held = NULL;
    uint32_t n = 0;
    struct hsp_err err = {0};
    bool found = false;
    assert_ok(hsp_segname_scan(w->ex[dev].state_dir, &held, &n, &err), &err);
    for (uint32_t k = 0; k < n; k++) {
        found |=
            held[k].plan == plan && held[k].version == v && (held[k].owner == held[k].rank) == own;
    }
    free(held);
    return found;
}

static void assert_has(struct xw_world *w, const struct point *p, uint64_t v, bool own, int want)
{
    if (want != MAY && has(w, 1, p->fresh ? 2 : 1, v, own) != (want == YES)) {
        fail_msg("%s: version %llu%s is %ssealed", p->name, (unsigned long long)v,
                 own ? "" : " of the other rank", want == YES ? "not " : "");
    }
}

static void drop_all(struct xw_world *w)
{
    struct hsp_err err = {0};
    for (int i = 0; i < 3; i++) {
        xw_end(&w->ex[i]);
        assert_ok(hsp_segname_discard(w->ex[i].state_dir, 1, 0, 0, &err), &err);
    }
    w->stable = w->said_in = 0;
}

/* Checks which votes the other rank reports as passed. */
static void check_votes(struct xw_world *w, const struct point *p, uint64_t step)
{
    bool sent = strcmp(p->name, "vote.in") == 0 || strcmp(p->name, "vote.after") == 0;
    if (sent) { /* the killed thread waited, so rank 0 had time */
        xw_await_step(w, 0, step);
    } else if (strcmp(p->name, "vote.before") == 0) {
        xw_await(w, 0, HSP_MSG_PEER_LOST);
        assert_true(w->stable < step);
    }
}

static void die_at(struct xw_world *w, const struct point *p, const struct hsp_epoch_plan *dp,
                   const struct hsp_epoch_plan *pp)
{
    char text[80], name[24];
    uint64_t step, epoch;
    for (int i = 0; i < (p->switches ? 3 : 2); i++) {
        xw_start_executor(w, i);
    }
    struct xw_epoch first = {
        .epoch = 11, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = dp, .n_peers = 2};
    xw_prepare(w, &first);
    (void)snprintf(text, sizeof text, "%s %d executor %d\n", p->name, FROM, STAY);
    order(w, text);
    xw_send_start(w, 0, 11, 0);
    xw_send_start(w, 1, 11, 0);
    if (p->switches) {
        struct xw_epoch second =
            xw_go_on(12, HSP_MODE_SWITCH, (struct xw_layout){2, pp}, (struct xw_layout){1, dp}, 2);
        xw_await_step(w, 0, FROM);
        xw_prepare(w, &second);
        xw_send_ref(w, 0, HSP_MSG_ARM, 12);
        xw_send_ref(w, 1, HSP_MSG_ARM, 12);
    }
    assert_int_equal(xw_await_exit(w, 1), -SIGKILL);
    read_hit(w, name, &step, &epoch);
    assert_string_equal(name, p->name);
    assert_true(step >= FROM && (p->switches || step == FROM));
    assert_int_equal(epoch, p->fresh ? 12 : 11);
    assert_has(w, p, step - 1, true, p->before);
    assert_has(w, p, step, true, p->there);
    assert_has(w, p, step + 1, true, p->next);
    assert_has(w, p, step, false, p->of_other);
    check_votes(w, p, step);
    drop_all(w);
}

static void test_an_executor_ends_at_each_point(void **state)
{
    struct xw_world *w = *state;
    char kills[4200];
    (void)snprintf(kills, sizeof kills, "%s/kills", w->dir);
    assert_int_equal(mkdir(kills, 0700), 0);
    w->kills = kills;
    w->speed = 0.5;
    struct hsp_epoch_plan *dp = xw_make_plan(w, xw_plan_dp), *pp = xw_make_plan(w, xw_plan_pp);
#define X(name, text) +1
    assert_int_equal(HSP_ARRAY_LEN(points), 0 HSP_KILL_MAP(X));
#undef X
    for (size_t i = 0; i < HSP_ARRAY_LEN(points); i++) {
        die_at(w, &points[i], dp, pp);
    }
    (void)hsp_epoch_plan_free(dp);
    (void)hsp_epoch_plan_free(pp);
}

/* Rank 1 is killed when it has sent its record to only one of two other ranks. The rank without the
 * record never passes the vote. */
static void test_a_vote_is_split(void **state)
{
    struct xw_world *w = *state;
    char kills[4200], name[24];
    uint64_t step, epoch;
    (void)snprintf(kills, sizeof kills, "%s/kills", w->dir);
    assert_int_equal(mkdir(kills, 0700), 0);
    w->kills = kills;
    struct hsp_epoch_plan *pp = xw_make_plan(w, xw_plan_pp);
    struct xw_epoch d = {
        .epoch = 11, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = pp, .n_peers = 3};
    for (int i = 0; i < 3; i++) {
        xw_start_executor(w, i);
    }
    xw_prepare(w, &d);
    order(w, "vote.in 5 executor 200\n");
    for (int i = 0; i < 3; i++) {
        xw_send_start(w, i, 11, 0);
    }
    assert_int_equal(xw_await_exit(w, 1), -SIGKILL);
    read_hit(w, name, &step, &epoch);
    xw_await_step(w, 0, step); /* rank 0 has all records */
    xw_await(w, 0, HSP_MSG_PEER_LOST);
    xw_await(w, 2, HSP_MSG_PEER_LOST);
    for (int i = 0; i < 3; i += 2) {
        xw_send_ref(w, i, HSP_MSG_SEAL, 11);
        xw_await(w, i, HSP_MSG_SEALED);
    }
    assert_false(has(w, 0, 1, step - 1, true));
    assert_true(has(w, 2, 1, step - 1, true)); /* rank 2 still has the older version */
    assert_true(has(w, 0, 1, step, true) && has(w, 2, 1, step, true));
    drop_all(w);
    (void)hsp_epoch_plan_free(pp);
}

/* An epoch that only has the fields that kill points read. */
struct lone {
    struct hsp_exec_env env;
    struct hsp_m_prepare p;
    struct hsp_ex_epoch e;
};

static struct lone *lone_new(const char *kills)
{
    struct lone *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->env = (struct hsp_exec_env){.node = "n1", .kill_dir = kills};
    l->p.rank = 1;
    l->e.env = &l->env;
    l->e.p = &l->p;
    l->e.number = 3;
    assert_int_equal(pthread_mutex_init(&l->e.lock, NULL), 0);
    return l;
}

static void test_others_go_on(void **state)
{
    struct xw_world *w = *state;
    char path[4300];
    static const char *const orders[] = {
        "seal.in 6 executor 0\n", "seal.after 5 executor 0\n",  "seal.in\n",
        "seal.in 5 executor\n",   "seal.in 5 executor 10001\n", ""};
    w->kills = w->dir;
    struct lone *l = lone_new(w->dir);
    hsp_kill_point(&l->e, HSP_KILL_SEAL_IN, 5); /* without an order */
    for (size_t i = 0; i < HSP_ARRAY_LEN(orders); i++) {
        order(w, orders[i]);
        hsp_kill_point(&l->e, HSP_KILL_SEAL_IN, 5);
    }
    order(w, "seal.in 5 executor 0\n");
    l->p.rank = 2;
    hsp_kill_point(&l->e, HSP_KILL_SEAL_IN, 5);
    l->p.rank = 1;
    l->e.lost = true;
    hsp_kill_point(&l->e, HSP_KILL_SEAL_IN, 5);
    l->e.lost = false;
    l->env.kill_dir = NULL;
    hsp_kill_point(&l->e, HSP_KILL_SEAL_IN, 5);
    (void)snprintf(path, sizeof path, "%s/1.hit", w->kills);
    assert_int_equal(access(path, F_OK), -1);
    free(l);
}

/* With "agent" the agent, here the parent process, is killed first, and the executor ends with
 * it. */
static void test_an_agent_is_killed(void **state)
{
    struct xw_world *w = *state;
    char name[24];
    uint64_t step, epoch;
    int status = 0, ends[2];
    w->kills = w->dir;
    order(w, "copy.in 7 agent 0\n");
    assert_int_equal(pipe(ends), 0); /* closed when both have ended */
    pid_t agent = fork();
    assert_true(agent >= 0);
    if (agent == 0) {
        if (fork() == 0) {
            hsp_kill_point(&lone_new(w->dir)->e, HSP_KILL_COPY_IN, 9);
            _exit(1);
        }
        (void)pause();
        _exit(1);
    }
    (void)close(ends[1]);
    assert_int_equal(waitpid(agent, &status, 0), agent);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(read(ends[0], name, 1), 0);
    (void)close(ends[0]);
    read_hit(w, name, &step, &epoch);
    assert_string_equal(name, "copy.in");
    assert_int_equal(step, 9);
    assert_int_equal(epoch, 3);
}

HSP_TEST_FILE(kill_point_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_executor_ends_at_each_point, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_vote_is_split, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_others_go_on, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_an_agent_is_killed, xw_setup, xw_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
