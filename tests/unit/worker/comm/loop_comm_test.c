#include "tests/unit/worker/comm/comm_suite.h"
#include "worker/comm/loop/loop_comm.h"

static void open_loop(uint32_t n, struct hsp_comm **ret)
{
    struct hsp_err err;
    assert_ok(hsp_loop_open(n, ret, &err), &err);
}

static void done(void)
{
}

HSP_TEST_FILE(loop_comm_test)
{
    static const struct suite_transport t = {.name = "loop", .open = open_loop, .done = done};
    return suite_run(&t);
}
