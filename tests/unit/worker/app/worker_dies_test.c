/* Agents and executors show their logs when an assertion fails. */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/dying.h"
#include "tests/lib/testlib.h"
#include "worker/app/agent_main.h"
#include "worker/executor/agent_channel.h"
#include "worker/executor/executor_args.h"

static void *agent(void *arg)
{
    (void)hsp_agent_main(arg);
    return NULL;
}

static void of_an_agent(void **state)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/w.yaml", (char *)*state);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fprintf(f,
                  "{node: alpha, coordinator: %s/d.sock, state_dir: %s/state, key: \"\", "
                  "devices: [{speed: 1, memory: 64MiB}]}\n",
                  (char *)*state, (char *)*state);
    assert_int_equal(fclose(f), 0);
    struct hsp_agent_request r = {.config = path, .wish = HSP_AGENT_RUN};
    hsp_test_dying(agent, &r, " agent: node alpha: 1 device, coordinator ");
}

/* @arg: a command line, cut at its blanks. */
static void *executor(void *arg)
{
    char *argv[32], *rest = NULL;
    int n = 0;
    for (char *s = strtok_r(arg, " ", &rest); s != NULL; s = strtok_r(NULL, " ", &rest)) {
        argv[n++] = s;
    }
    argv[n] = NULL;
    (void)hsp_execargs_main(n, argv);
    return NULL;
}

static void of_an_executor(void **state)
{
    (void)state;
    int pair[2];
    char line[512];
    struct hsp_chan c;
    struct hsp_err err = {0};
    const struct hsp_msg odd = {.type = HSP_MSG_EXECUTOR_UP, .u.up = {.address = "a"}};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    hsp_chan_init(&c, pair[0]);
    assert_ok(hsp_chan_send(&c, &odd, &err), &err);
    (void)snprintf(
        line, sizeof line,
        "hspmd-worker --executor %d --device 0 --node alpha --listen 127.0.0.1 "
        "--state-dir /nowhere --speed 1 --memory 1048576 --threads 1 --heartbeat-ms 1000 "
        "--log-level warn",
        pair[1]);
    hsp_test_dying(executor, line, " executor: unexpected message ");
    hsp_chan_fini(&c);
    assert_int_equal(close(pair[1]), 0);
}

static int setup(void **state)
{
    *state = hsp_test_tmpdir();
    return 0;
}

static int teardown(void **state)
{
    hsp_test_rmdir(*state);
    free(*state);
    return 0;
}

HSP_TEST_FILE(worker_dies_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_an_agent),
        cmocka_unit_test(of_an_executor),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
