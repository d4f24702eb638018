/* Tests lists of checkpoints on a file system that hangs: neither the agent's loop nor its end
 * waits for the lists. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/lib/testlib.h"
#include "worker/app/agent_ckpts.h"
#include "worker/app/agent_shell.h"
#include "worker/state/ckpt_found.h"

#define WAIT_MS 20000

/* ---- a file system that hangs while the gate is closed ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static bool open_gate, no_memory;
static unsigned inside; /* lists under way */

enum hsp_status __wrap_hsp_ckpt_find_all(const char *dir, const struct hsp_ckpts_asked *q,
                                         struct hsp_ckpts_found *ret, struct hsp_err *err);

/* Finds the steps on record, and one that cannot be read. */
enum hsp_status __wrap_hsp_ckpt_find_all(const char *dir, const struct hsp_ckpts_asked *q,
                                         struct hsp_ckpts_found *ret, struct hsp_err *err)
{
    (void)pthread_mutex_lock(&lock);
    inside++;
    (void)pthread_cond_broadcast(&moved);
    while (!open_gate) {
        (void)pthread_cond_wait(&moved, &lock);
    }
    inside--;
    bool none = no_memory;
    (void)pthread_mutex_unlock(&lock);
    if (none || strcmp(dir, "/ckpt/mist") != 0 || strcmp(q->us.job, "mist") != 0) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "out of memory for %s", dir);
    }
    struct hsp_ckpts_found l = {.item = calloc(q->n + 1, sizeof *l.item)};
    for (; l.n < q->n; l.n++) {
        l.item[l.n] = (struct hsp_ckpt_found){q->step[l.n], 1, 2, 3};
    }
    (void)hsp_err_set(&l.unread, HSP_EIO, 0, "step 60 cannot be read");
    *ret = l;
    return HSP_OK;
}

static void gate(bool open, bool memory)
{
    (void)pthread_mutex_lock(&lock);
    open_gate = open;
    no_memory = !memory;
    (void)pthread_cond_broadcast(&moved);
    (void)pthread_mutex_unlock(&lock);
}

static void await_inside(unsigned n)
{
    (void)pthread_mutex_lock(&lock);
    while (inside != n) {
        (void)pthread_cond_wait(&moved, &lock);
    }
    (void)pthread_mutex_unlock(&lock);
}

/* ---- the loop's side ---- */

static struct answer {
    uint64_t number;
    uint32_t n_seen;
    uint64_t last_step;
    char reason[HSP_TEXT_MAX + 1];
} answers[8];
static unsigned n_answers;

static void feed(struct hsp_agent_shell *s, struct hsp_agent_event *ev)
{
    const struct hsp_m_ckpts *m = &ev->msg->u.ckpts;
    struct answer *a = &answers[n_answers++];
    (void)s;
    assert_int_equal(ev->type, HSP_AEV_CKPTS);
    assert_int_equal(m->job, 7);
    a->number = m->number;
    a->n_seen = m->n_seen;
    a->last_step = m->n_seen > 0 ? m->seen[m->n_seen - 1].step : 0;
    (void)snprintf(a->reason, sizeof a->reason, "%s", m->reason);
}

static void ask(struct hsp_agent_shell *s, uint64_t number)
{
    struct hsp_m_seen seen[] = {{.step = 40}, {.step = 20}};
    const struct hsp_m_ckpts m = {
        .job = 7, .number = number, .name = "mist", .path = "/ckpt", .n_seen = 2, .seen = seen};
    hsp_agent_find_ckpts(s, &m);
}

/* Turns the loop until there are @n answers. */
static void await_answers(struct hsp_agent_shell *s, unsigned n)
{
    while (n_answers < n) {
        (void)uv_run(&s->loop, UV_RUN_ONCE);
    }
    assert_int_equal(n_answers, n);
}

static unsigned n_threads(void)
{
    unsigned n = 0;
    DIR *d = opendir("/proc/self/task");
    assert_non_null(d);
    while (readdir(d) != NULL) {
        n++;
    }
    (void)closedir(d);
    return n;
}

/* Waits until the threads of the lists have ended, and have freed their memory. */
static void await_threads(unsigned n)
{
    for (unsigned ms = 0; n_threads() > n; ms++) {
        assert_true(ms < WAIT_MS);
        (void)usleep(1000);
    }
}

static unsigned threads_before;

static void *nothing(void *arg)
{
    return arg;
}

/* With the first thread a sanitizer begins one of its own, which stays. */
static int first_thread(void **state)
{
    pthread_t t;
    (void)state;
    assert_int_equal(pthread_create(&t, NULL, nothing, NULL), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    return 0;
}

static int setup(void **state)
{
    struct hsp_agent_shell *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->feed = feed;
    s->log = hsp_log_new(open("/dev/null", O_WRONLY | O_CLOEXEC), HSP_LOG_ERROR);
    assert_int_equal(uv_loop_init(&s->loop), 0);
    gate(false, true);
    n_answers = 0;
    threads_before = n_threads();
    *state = s;
    return 0;
}

/* Closes the lists of checkpoints, as the shell does at its end. The loop can be closed whether a
 * list has not begun, hangs or has ended. */
static void end(struct hsp_agent_shell *s)
{
    hsp_agent_ckpts_close(s);
    assert_int_equal(uv_run(&s->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&s->loop), 0);
    (void)hsp_log_free(s->log);
    free(s);
}

/* Lists of checkpoints that hang do not block the agent's loop. A request beyond HSP_AGENT_LISTS is
 * answered at once, with the reason that too many lists are under way. */
static void lists_that_hang_hold_nobody_up(void **state)
{
    struct hsp_agent_shell *s = *state;
    for (uint64_t i = 1; i <= HSP_AGENT_LISTS; i++) {
        ask(s, i);
    }
    await_inside(HSP_AGENT_LISTS);
    assert_int_equal(uv_run(&s->loop, UV_RUN_NOWAIT), 1); /* the handle is open */
    assert_int_equal(n_answers, 0);
    ask(s, 99);
    await_answers(s, 1);
    assert_true(answers[0].number == 99 && answers[0].n_seen == 0);
    assert_non_null(strstr(answers[0].reason, "4 lists of checkpoints are under way on this node"));
    gate(true, true);
    await_answers(s, 1 + HSP_AGENT_LISTS);
    uint64_t numbers = 0;
    for (unsigned i = 1; i <= HSP_AGENT_LISTS; i++) {
        numbers |= UINT64_C(1) << answers[i].number;
        assert_true(answers[i].n_seen == 2 && answers[i].last_step == 20);
        assert_string_equal(answers[i].reason, "step 60 cannot be read"); /* beside the list */
    }
    assert_int_equal(numbers, 0x1e);
    gate(true, false);
    ask(s, 5); /* there is room again */
    await_answers(s, 2 + HSP_AGENT_LISTS);
    assert_true(answers[5].number == 5 && answers[5].n_seen == 0);
    assert_string_equal(answers[5].reason, "out of memory for /ckpt/mist");
    end(s);
    await_threads(threads_before);
}

/* Threads that end after the agent use only memory of their own. */
static void the_end_waits_for_no_list(void **state)
{
    struct hsp_agent_shell *s = *state;
    for (uint64_t i = 1; i <= HSP_AGENT_LISTS; i++) {
        ask(s, i);
    }
    await_inside(HSP_AGENT_LISTS);
    end(s);
    gate(true, true);
    await_threads(threads_before);
    assert_int_equal(n_answers, 0);
}

/* Ends the shell in every order of an answer, the wake-up of the loop, and the end. */
static void lists_end_while_the_shell_does(void **state)
{
    struct hsp_agent_shell *s = *state;
    for (unsigned i = 0; i < hsp_test_rounds(50); i++) {
        if (i > 0) {
            assert_int_equal(setup(state), 0);
            s = *state;
        }
        ask(s, 1);
        ask(s, 2);
        gate(true, true);
        for (unsigned turns = i % 4; turns > 0; turns--) {
            (void)uv_run(&s->loop, UV_RUN_NOWAIT);
        }
        end(s);
        await_threads(threads_before);
    }
}

HSP_TEST_FILE(agent_ckpts_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(lists_that_hang_hold_nobody_up, setup),
        cmocka_unit_test_setup(the_end_waits_for_no_list, setup),
        cmocka_unit_test_setup(lists_end_while_the_shell_does, setup)};
    return cmocka_run_group_tests(tests, first_thread, NULL);
}
