/* Tests the order in which the loop feeds events that are posted while actions are performed, and
 * its messages to an hspmdd that reads slowly. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/base/buf.h"
#include "tests/lib/testlib.h"
#include "worker/app/agent_loop.h"
#include "worker/app/agent_setup.h"
#include "worker/app/spawn.h"

static struct hsp_buf trace;
static uint32_t n_ends;
static const char *hspmdd; /* NULL: the first test */

/* All that one step can send goes to an hspmdd that does not read yet. */
static void send_all(const struct hsp_agent_event *ev, struct hsp_agent_actions *ret)
{
    static struct hsp_agent_action x[HSP_AGENT_ACTIONS];
    static const struct hsp_msg step = {.type = HSP_MSG_STEP, .u.step = {.job = 1}};
    switch (ev->type) {
    case HSP_AEV_START:
        x[0] = (struct hsp_agent_action){.type = HSP_AACT_CONNECT, .text = hspmdd};
        *ret = (struct hsp_agent_actions){.n = 1, .item = x};
        break;
    case HSP_AEV_CONN_UP:
        x[0] = (struct hsp_agent_action){.type = HSP_AACT_SCAN};
        for (uint32_t i = 1; i < HSP_AGENT_ACTIONS; i++) {
            x[i] = (struct hsp_agent_action){.type = HSP_AACT_SEND, .msg = &step};
        }
        *ret = (struct hsp_agent_actions){.n = HSP_AGENT_ACTIONS, .item = x};
        hsp_buf_puts(&trace, "UP ");
        break;
    case HSP_AEV_CONN_DOWN: hsp_buf_puts(&trace, "DOWN "); break;
    case HSP_AEV_SCANNED: /* a turn of the loop later */
        x[0] = (struct hsp_agent_action){.type = HSP_AACT_EXIT, .text = "done"};
        *ret = (struct hsp_agent_actions){.n = 1, .item = x};
        break;
    default: break;
    }
}

/* A script in the place of the machine: it notes each event and answers with actions that fail at
 * once, so that each posts an event. */
enum hsp_status __wrap_hsp_agent_step(struct hsp_agent *a, const struct hsp_agent_event *ev,
                                      struct hsp_agent_actions *ret, struct hsp_err *err);
enum hsp_status __wrap_hsp_agent_step(struct hsp_agent *a, const struct hsp_agent_event *ev,
                                      struct hsp_agent_actions *ret, struct hsp_err *err)
{
    static const struct hsp_agent_action start[] = {
        {.type = HSP_AACT_SPAWN, .device = 1},
        {.type = HSP_AACT_CONNECT, .text = "no address"},
        {.type = HSP_AACT_SPAWN, .device = 0},
    };
    static const struct hsp_agent_action again[] = {
        {.type = HSP_AACT_SPAWN, .device = 0},
        {.type = HSP_AACT_CONNECT, .text = "no address"},
    };
    static const struct hsp_agent_action end[] = {
        {.type = HSP_AACT_EXIT, .text = "done"},
    };
    (void)a;
    (void)err;
    if (hspmdd != NULL) {
        send_all(ev, ret);
        return HSP_OK;
    }
    switch (ev->type) {
    case HSP_AEV_START:
        hsp_buf_puts(&trace, "START ");
        *ret = (struct hsp_agent_actions){.n = 3, .item = start};
        break;
    case HSP_AEV_CONN_DOWN: hsp_buf_puts(&trace, "DOWN "); break;
    case HSP_AEV_EXEC_EXIT:
        assert_string_equal(ev->text, "no process");
        hsp_buf_printf(&trace, "EXIT%u ", ev->device);
        n_ends++;
        if (n_ends == 1) {
            *ret = (struct hsp_agent_actions){.n = 2, .item = again};
        } else if (n_ends == 3) {
            *ret = (struct hsp_agent_actions){.n = 1, .item = end};
        }
        break;
    default: break;
    }
    return HSP_OK;
}

enum hsp_status __wrap_hsp_spawn_executor(const struct hsp_spawn_opts *o, struct hsp_child *ret,
                                          struct hsp_err *err);
enum hsp_status __wrap_hsp_spawn_executor(const struct hsp_spawn_opts *o, struct hsp_child *ret,
                                          struct hsp_err *err)
{
    (void)ret;
    hsp_buf_printf(&trace, "spawn%u ", o->device);
    return hsp_err_set(err, HSP_EIO, 0, "no process");
}

static void run(const char *expected)
{
    static const struct hsp_agent_request request;
    struct hsp_agent_setup *u = calloc(1, sizeof *u);
    struct hsp_logger *log = hsp_log_new(open("/dev/null", O_WRONLY | O_CLOEXEC), HSP_LOG_ERROR);
    assert_non_null(u);
    hsp_buf_init(&trace, 1 << 16);
    hsp_agent_defaults(&u->machine);
    u->request = &request;
    u->cfg.n_devices = 2;
    for (uint32_t i = 0; i < 2; i++) {
        u->cfg.devices[i].kind = u->device[i].kind = "cpu";
    }
    u->cfg.listen = "127.0.0.1";
    u->machine.node = "a";
    u->machine.n_devices = 2;
    u->machine.devices = u->device;
    assert_int_equal(hsp_agent_run(&u->cfg, &u->machine, &u->keys, "/nowhere", u, log), 0);
    assert_string_equal(hsp_buf_cstr(&trace), expected);
    hsp_buf_fini(&trace);
    (void)hsp_log_free(log);
    free(u);
}

/* The actions of a step are all performed before an event that one of them posts is fed; then the
 * end of the connection comes first and the ends of executors follow by number. */
static void posted_events_wait_for_the_actions(void **state)
{
    (void)state;
    run("START spawn1 spawn0 DOWN EXIT0 spawn0 DOWN EXIT0 EXIT1 ");
}

static void what_a_step_sends_waits_for_a_slow_link(void **state)
{
    char *dir = hsp_test_tmpdir();
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)state;
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s/s", dir);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 1), 0);
    hspmdd = at.sun_path;
    run("UP ");
    hspmdd = NULL;
    (void)close(fd);
    hsp_test_rmdir(dir);
    free(dir);
}

HSP_TEST_FILE(agent_loop_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posted_events_wait_for_the_actions),
        cmocka_unit_test(what_a_step_sends_waits_for_a_slow_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
