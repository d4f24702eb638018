/* Stores that are not the cluster's: empty, another cluster's, older. Whatever the coordinator does not know, the agents
 * keep, and training goes on. */
#include "tests/lib/testlib.h"

#include "daemon/cluster/cluster_check.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "proto/base/arena.h"
#include "tests/sim/sim.h"

static struct sim *s;

static int setup(void **state)
{
    (void)state;
    s = calloc(1, sizeof(*s));
    return s != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    sim_fini(s);
    free(s->heap);
    hsp_arena_free(s->arena);
    free(s);
    return 0;
}

static bool settled(struct sim *w)
{
    const struct hsp_job *j = w->d_alive ? hsp_cluster_job(w->d, 1) : NULL;
    return j != NULL && j->state == HSP_JOB_RUNNING && j->cur.settled && j->ticket == 0;
}

static void until(bool (*pred)(struct sim *), uint64_t ms)
{
    if (!sim_run(s, s->now + ms, pred)) {
        struct hsp_buf b;
        hsp_buf_init(&b, 1u << 20);
        hsp_cluster_dump(s->d, &b);
        print_error("%s\n%s%s", s->why, hsp_buf_cstr(&b), hsp_buf_cstr(&s->trace));
        hsp_buf_fini(&b);
        fail_msg("the story does not go on");
    }
}

static void go_on(uint64_t ms)
{
    if (!sim_run(s, s->now + ms, NULL)) {
        fail_msg("%s", s->why);
    }
}

/* @n nodes with one device each train job 1. */
static void running(uint32_t n)
{
    sim_init(s, 5, 0, 1);
    s->n_nodes = n;
    s->plan_all = true;
    s->cfg.measures = s->d->cfg.measures = 0;
    for (uint32_t i = 0; i < n; i++) {
        sim_push(s, 10 * i, (struct sim_ev){.type = SIM_E_A_START, .who = i});
    }
    go_on(500);
    sim_submit(s, "story", 0, 1, 8, 1000, 0);
    until(settled, 5000);
    go_on(300);
}

/* Nodes that have a sealed segment of the job. */
static uint32_t holders(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        n += s->exec[i * SIM_DEVS].n_seg != 0;
    }
    return n;
}

static void forget_rows(void)
{
    for (uint32_t i = 0; i < s->n_rows; i++) {
        free(s->rows[i].value);
    }
    s->n_rows = 0;
}

/* hspmdd begins with an empty folder: a typo, or a head node that was installed anew. */
static void empty_store(void **state)
{
    (void)state;
    running(3);
    uint64_t at = s->job[1].committed;
    assert_int_equal(holders(), 3);
    sim_kill_daemon(s, 100);
    forget_rows();
    go_on(5000);
    assert_int_equal(holders(), 3);
    assert_true(s->job[1].committed > at + 50); /* nobody was told to stop */
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {T(empty_store)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
