/* Plays every scenario of tests/unit/worker/agent with failing allocations, as oom_cluster.c does
 * for the coordinator. The program is linked with --wrap of each function that has a __wrap_
 * function here. */
#include "tests/lib/oom.h"
#include "tests/lib/testlib.h"
#include "tests/unit/proto/wire/msg_dump.h"
#include "worker/agent/agent_impl.h"

enum { MOST = 3 };                      /* failures tried in a step */
enum { ALL_STEPS = 600, ONE_OF = 500 }; /* the long random stories come last */

struct call {
    const struct hsp_agent_config *cfg;
    struct hsp_agent *a;
    const struct hsp_agent_event *ev;
};

struct hsp_agent *__real_hsp_agent_new(const struct hsp_agent_config *cfg);
struct hsp_agent *__wrap_hsp_agent_new(const struct hsp_agent_config *cfg);
enum hsp_status __real_hsp_agent_step(struct hsp_agent *a, const struct hsp_agent_event *ev,
                                      struct hsp_agent_actions *ret, struct hsp_err *err);
enum hsp_status __wrap_hsp_agent_step(struct hsp_agent *a, const struct hsp_agent_event *ev,
                                      struct hsp_agent_actions *ret, struct hsp_err *err);

static enum hsp_status make(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct call *k = ctx;
    struct hsp_agent *a = __real_hsp_agent_new(k->cfg);
    enum hsp_status st = a != NULL ? HSP_OK : hsp_err_set(err, HSP_ENOMEM, 0, "no machine");
    hsp_agent_free(a);
    (void)out;
    return st;
}

static enum hsp_status advance(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct call *k = ctx;
    struct hsp_agent_actions acts = {0};
    free(k->a->actions); /* as in a new machine: each may be the one that finds no memory */
    k->a->actions = NULL;
    k->a->cap_actions = 0;
    enum hsp_status st = __real_hsp_agent_step(k->a, k->ev, &acts, err);
    for (uint32_t i = 0; st == HSP_OK && i < acts.n; i++) {
        const struct hsp_agent_action *x = &acts.item[i];
        hsp_buf_printf(out, "%d %u %u %s\n", (int)x->type, x->device, x->job,
                       x->text != NULL ? x->text : "");
        if (x->type == HSP_AACT_SEND || x->type == HSP_AACT_SEND_EXEC) {
            hsp_msg_dump(x->msg, out);
        }
    }
    if (st == HSP_OK) {
        hsp_agent_check(k->a);
        hsp_agent_dump(k->a, out);
    } else if (st != HSP_ENOMEM) { /* the story's own failure */
        hsp_buf_printf(out, "%d %s", (int)st, err->msg);
        st = HSP_OK;
    }
    hsp_agent_free(k->a);
    return st;
}

struct hsp_agent *__wrap_hsp_agent_new(const struct hsp_agent_config *cfg)
{
    struct call k = {.cfg = cfg};
    if (cfg->n_devices <= HSP_NODE_DEVICES && cfg->n_paths <= HSP_NODE_PATHS) {
        hsp_oom_fork("new", make, &k, MOST);
    }
    return __real_hsp_agent_new(cfg);
}

enum hsp_status __wrap_hsp_agent_step(struct hsp_agent *a, const struct hsp_agent_event *ev,
                                      struct hsp_agent_actions *ret, struct hsp_err *err)
{
    static uint64_t step;
    struct call k = {.a = a, .ev = ev};
    if (++step <= hsp_test_rounds(ALL_STEPS) || hsp_test_rand("step", step) % ONE_OF == 0) {
        hsp_oom_fork("step", advance, &k, MOST);
    }
    return __real_hsp_agent_step(a, ev, ret, err);
}

/* ---- the files of tests, under their names here ---- */

HSP_TEST_AGAIN(oom_agent_test, agent_test)
HSP_TEST_AGAIN(oom_agentlink_test, agent_link_test)
HSP_TEST_AGAIN(oom_devices_test, devices_test)
HSP_TEST_AGAIN(oom_keeping_test, keeping_test)
