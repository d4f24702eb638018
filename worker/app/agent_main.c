#include "worker/app/agent_main.h"

#include <stdio.h>
#include <unistd.h>

#include "proto/base/str.h"
#include "worker/app/agent_loop.h"

enum { EXIT_FAILED = 1, EXIT_CONFIG = 6 };

static int run(struct hsp_agent_setup *u)
{
    struct hsp_err err = {0};
    int rc = EXIT_FAILED;
    struct hsp_logger *log = hsp_log_new(STDERR_FILENO, (enum hsp_log_level)u->cfg.log_level);
    hsp_log_on_assert(log);
    if (hsp_agent_setup_prepare(u, log, &err) != HSP_OK) {
        hsp_log(log, HSP_LOG_ERROR, "agent", "cannot start: %s", err.msg);
    } else {
        hsp_log(log, HSP_LOG_NOTICE, "agent", "node %s: %u device%s, coordinator %s, state in %s",
                u->node, u->cfg.n_devices, hsp_s(u->cfg.n_devices), u->cfg.coordinator, u->dir);
        rc = hsp_agent_run(&u->cfg, &u->machine, &u->keys, u->dir, u, log);
    }
    hsp_agent_setup_close(u);
    (void)hsp_log_free(log);
    return rc;
}

/* @c NULL: the example. */
static int print(const struct hsp_worker_config *c)
{
    struct hsp_buf b;
    hsp_buf_init(&b, HSP_AGENT_CONFIG_MAX);
    if (c != NULL) {
        hsp_worker_config_print(c, &b);
    } else {
        hsp_worker_config_example(&b);
    }
    bool ok = fputs(hsp_buf_cstr(&b), stdout) >= 0 && fflush(stdout) == 0 && !b.failed;
    hsp_buf_fini(&b);
    return ok ? 0 : EXIT_FAILED;
}

int hsp_agent_main(const struct hsp_agent_request *r)
{
    struct hsp_err err = {0};
    struct hsp_agent_setup u = {
        .request = r, .lock_fd = -1, .arena = hsp_arena_new(HSP_AGENT_SETUP_BYTES)};
    int rc;
    if (r->wish == HSP_AGENT_PRINT_EXAMPLE) {
        rc = print(NULL);
    } else if (u.arena == NULL || hsp_agent_setup_read(&u, &err) != HSP_OK ||
               (r->wish == HSP_AGENT_CHECK_CONFIG && hsp_agent_setup_check(&u, &err) != HSP_OK)) {
        (void)fprintf(stderr, "hspmd-worker: %s\n", u.arena != NULL ? err.msg : "out of memory");
        rc = EXIT_CONFIG;
    } else if (r->wish == HSP_AGENT_PRINT_CONFIG) {
        rc = print(&u.cfg);
    } else if (r->wish == HSP_AGENT_CHECK_CONFIG) {
        (void)printf("%s: good, node %s, %u device%s\n", r->config != NULL ? r->config : "defaults",
                     u.node, u.cfg.n_devices, hsp_s(u.cfg.n_devices));
        rc = 0;
    } else {
        rc = run(&u);
    }
    (void)hsp_arena_free(u.arena);
    return rc;
}
