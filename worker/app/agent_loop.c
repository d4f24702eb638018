/* Runs the agent's loop. The happy path: START spawns the executors and asks for a connection;
 * everything after that is events. A first SIGTERM or SIGINT is a planned leave: the machine tells
 * hspmdd, waits until the state of this node lives elsewhere, and says EXIT. A second one ends at
 * once. In every case all executors are dead and waited for when hsp_agent_run returns; segments
 * stay unless the machine had them deleted. */
#include "worker/app/agent_loop.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/size.h"
#include "proto/base/check.h"
#include "proto/host/sd_notify.h"
#include "worker/app/agent_check.h"
#include "worker/app/agent_ckpts.h"
#include "worker/app/agent_disk.h"
#include "worker/app/agent_executors.h"
#include "worker/app/agent_links.h"
#include "worker/app/agent_reach.h"
#include "worker/app/agent_receive.h"
#include "worker/app/agent_setup.h"
#include "worker/app/agent_shell.h"

#define BEAT_MS 5000 /* notices when no watchdog asks for more: kept ones go with them */

static uint64_t now_ms(void)
{
    return uv_hrtime() / 1000000;
}

/* ---- actions ---- */

static void say(struct hsp_agent_shell *s, const struct hsp_agent_action *x)
{
    static const enum hsp_log_level level[] = {HSP_LOG_ERROR, HSP_LOG_ERROR, HSP_LOG_ERROR,
                                               HSP_LOG_ERROR, HSP_LOG_WARN,  HSP_LOG_NOTICE,
                                               HSP_LOG_INFO,  HSP_LOG_DEBUG};
    hsp_log(s->log, level[x->severity & 7], "agent", "%s", x->text);
}

static void perform(struct hsp_agent_shell *s, const struct hsp_agent_action *x)
{
    switch (x->type) {
    case HSP_AACT_CONNECT: hsp_agent_connect(s, x->text); break;
    case HSP_AACT_DISCONNECT: hsp_agent_disconnect(s); break;
    case HSP_AACT_SEND:
        hsp_agent_send(s, x->msg);
        if (x->msg->type == HSP_MSG_HEARTBEAT) {
            hsp_agent_measure_folder(s); /* for the next one */
        }
        break;
    case HSP_AACT_SEND_EXEC: hsp_agent_order(s, x->device, x->msg); break;
    case HSP_AACT_SPAWN: hsp_agent_spawn(s, x->device, x->bare); break;
    case HSP_AACT_KILL: hsp_agent_kill(s, x->device); break;
    case HSP_AACT_SCAN: hsp_agent_scan(s, x->scan); break;
    case HSP_AACT_DISCARD: hsp_agent_discard(s, x->job, x->device, x->keep_plan); break;
    case HSP_AACT_REMEMBER: hsp_agent_remember(s, x->incarnation); break;
    case HSP_AACT_CHECK: hsp_agent_check_order(s, &x->msg->u.check); break;
    case HSP_AACT_CHECK_STOP: hsp_agent_check_stop(s); break;
    case HSP_AACT_REACH: hsp_agent_reach(s, &x->msg->u.reach); break;
    case HSP_AACT_KEEP_PAPERS: hsp_agent_keep_papers(s, x->msg); break;
    case HSP_AACT_DROP_PAPERS: hsp_agent_drop_papers(s, x->job); break;
    case HSP_AACT_READ_PAPERS: hsp_agent_read_papers(s, x->msg->u.papers.job); break;
    case HSP_AACT_FIND_CKPTS: hsp_agent_find_ckpts(s, &x->msg->u.ckpts); break;
    case HSP_AACT_LOG: say(s, x); break;
    case HSP_AACT_EXIT:
        hsp_log(s->log, HSP_LOG_NOTICE, "agent", "%s", x->text);
        hsp_agent_stop(s, 0);
        break;
    }
}

/* ---- events ---- */

static void step(struct hsp_agent_shell *s, struct hsp_agent_event *ev)
{
    struct hsp_agent_actions acts = {0};
    struct hsp_err err = {0};
    s->stepping = true;
    ev->now_us = uv_hrtime() / 1000;
    ev->now_ms = ev->now_us / 1000;
    ev->folder_free = s->folder_free;
    if (hsp_agent_step(s->agent, ev, &acts, &err) != HSP_OK) {
        hsp_agent_fail(s, &err);
    }
    for (uint32_t i = 0; i < acts.n && !s->ending; i++) {
        perform(s, &acts.item[i]);
    }
    s->stepping = false;
}

static void on_timer(uv_timer_t *t);

/* The text for the service manager, when it has changed. */
static void tell_status(struct hsp_agent_shell *s)
{
    static const char *const link[] = {
        [HSP_LINK_DOWN] = "not connected",     [HSP_LINK_CONNECTING] = "connecting",
        [HSP_LINK_SCANNING] = "reading state", [HSP_LINK_HELLO] = "joining",
        [HSP_LINK_UP] = "connected",           [HSP_LINK_PARKED] = "connected, not a member"};
    _Static_assert(HSP_ARRAY_LEN(link) == HSP_LINK_PARKED + 1, "a link state without a name");
    char text[sizeof s->status];
    uint32_t up = 0, busy = 0;
    for (uint32_t i = 0; i < s->n_execs; i++) {
        const struct hsp_agent_device *d = hsp_agent_device_at(s->agent, i);
        up += d->state == HSP_EXEC_UP;
        busy += d->run.job != 0;
    }
    (void)snprintf(
        text, sizeof text, "%s%s, %" PRIu32 " of %" PRIu32 " executors up, %" PRIu32 " at work",
        s->leaving ? "leaving, " : "", link[hsp_agent_link_state(s->agent)], up, s->n_execs, busy);
    if (strcmp(text, s->status) != 0) {
        memcpy(s->status, text, sizeof text);
        (void)hsp_sd_notify(&s->notices, NULL, "STATUS=%s", text); /* else owed */
    }
}

/* Steps the machine by one event, which may be borrowed, then by all that its actions post. */
static void feed(struct hsp_agent_shell *s, struct hsp_agent_event *ev)
{
    struct hsp_agent_posted p;
    step(s, ev);
    while (!s->ending && hsp_agent_take(s, &p)) {
        struct hsp_agent_event next = {.type = p.type, .device = p.device, .text = p.text};
        step(s, &next);
    }
    if (!s->ending) {
        uint64_t deadline = hsp_agent_deadline(s->agent), now = now_ms();
        tell_status(s);
        if (deadline == UINT64_MAX) {
            (void)uv_timer_stop(&s->timer);
        } else {
            uv_update_time(&s->loop);
            (void)uv_timer_start(&s->timer, on_timer, deadline > now ? deadline - now : 1, 0);
        }
    }
}

static void on_timer(uv_timer_t *t)
{
    struct hsp_agent_shell *s = t->data;
    struct hsp_agent_event ev = {.type = HSP_AEV_TICK};
    hsp_agent_deliver(s, &ev);
}

static void on_watchdog(uv_timer_t *t)
{
    struct hsp_agent_shell *s = t->data;
    (void)hsp_sd_notify(&s->notices, NULL, "WATCHDOG=1"); /* else owed */
}

static void on_gpu(void *ctx, uint32_t device, const struct hsp_gpu_sign *sign)
{
    struct hsp_agent_event ev = {.type = HSP_AEV_SIGN, .device = device, .sign = sign};
    hsp_agent_deliver(ctx, &ev);
}

static void on_sigchld(uv_signal_t *h, int signum)
{
    (void)signum;
    hsp_agent_reap(h->data);
}

static void dump(struct hsp_agent_shell *s)
{
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 20);
    hsp_agent_dump(s->agent, &b);
    char *at = (char *)(uintptr_t)hsp_buf_cstr(&b);
    for (char *save = NULL, *line = strtok_r(at, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        hsp_log(s->log, HSP_LOG_NOTICE, "agent", "%s", line);
    }
    hsp_buf_fini(&b);
}

static void reload(struct hsp_agent_shell *s)
{
    struct hsp_err err = {0};
    struct hsp_buf applied, restart;
    const struct hsp_m_device *devices = NULL;
    (void)hsp_sd_notify(&s->notices, NULL, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
                        uv_hrtime() / 1000);
    hsp_buf_init(&applied, 1 << 16);
    hsp_buf_init(&restart, 1 << 16);
    if (hsp_agent_reload(s->setup, &applied, &restart, &devices, &err) != HSP_OK) {
        hsp_log(s->log, HSP_LOG_ERROR, "agent", "reload refused: %s; the old configuration stays",
                err.msg);
    } else {
        hsp_log_set_level(s->log, (enum hsp_log_level)s->cfg->log_level);
        hsp_log(s->log, HSP_LOG_NOTICE, "agent", "configuration reloaded: %s%s%s",
                applied.len > 0 ? hsp_buf_cstr(&applied) : "nothing to apply",
                restart.len > 0 ? "; needs a restart: " : "", hsp_buf_cstr(&restart));
    }
    hsp_buf_fini(&applied);
    hsp_buf_fini(&restart);
    if (devices != NULL) {
        struct hsp_agent_event ev = {
            .type = HSP_AEV_PROFILE, .n = s->cfg->n_devices, .devices = devices};
        hsp_agent_deliver(s, &ev);
    }
    (void)hsp_sd_notify(&s->notices, NULL, "READY=1");
}

static void on_signal(void *ctx, int signum)
{
    struct hsp_agent_shell *s = ctx;
    if (signum == SIGUSR1) {
        dump(s);
    } else if (signum == SIGHUP) {
        reload(s);
    } else if (s->leaving) {
        hsp_log(s->log, HSP_LOG_WARN, "agent", "second signal: ends at once");
        hsp_agent_stop(s, 1);
    } else {
        s->leaving = true;
        (void)hsp_sd_notify(&s->notices, NULL, "STOPPING=1");
        hsp_log(s->log, HSP_LOG_NOTICE, "agent",
                "%s: leaving, within %g s; a second signal ends at once", strsignal(signum),
                (double)s->cfg->leave_timeout_ms / 1000);
        struct hsp_agent_event ev = {.type = HSP_AEV_LEAVE,
                                     .text = signum == SIGTERM ? "SIGTERM" : "SIGINT",
                                     .deadline_ms = (uint32_t)s->cfg->leave_timeout_ms};
        hsp_agent_deliver(s, &ev);
    }
}

/* ---- life ---- */

static void open_timer(struct hsp_agent_shell *s, uv_timer_t *t)
{
    (void)uv_timer_init(&s->loop, t); /* cannot fail */
    t->data = s;
}

static enum hsp_status open_all(struct hsp_agent_shell *s, const struct hsp_agent_config *machine,
                                const struct hsp_net_keys *keys, struct hsp_err *err)
{
    open_timer(s, &s->timer);
    open_timer(s, &s->watchdog);
    (void)uv_signal_init(&s->loop, &s->sigchld); /* the watchers below need the same: told there */
    s->sigchld.data = s;
    for (uint32_t i = 0; i < s->n_execs; i++) {
        s->exec[i] = (struct hsp_agent_exec){.shell = s, .device = i};
    }
    enum hsp_status st = hsp_signals_open(&s->signals, &s->loop, on_signal, s, err);
    if (st != HSP_OK) {
        return st;
    }
    s->signals_open = true;
    int r = uv_signal_start(&s->sigchld, on_sigchld, SIGCHLD);
    if (r != 0) {
        return hsp_err_set(err, HSP_EIO, -r, "signal of children");
    }
    st = hsp_agent_net_open(s, keys, err);
    if (st != HSP_OK) {
        return st;
    }
    s->agent = hsp_agent_new(machine);
    if (s->agent == NULL) {
        return hsp_err_nomem(err, "the agent");
    }
    s->gpus = hsp_agent_gpus(s->setup);
    return s->gpus != NULL ? hsp_gpuwatch_start(s->gpus, &s->loop, on_gpu, s, err) : HSP_OK;
}

static void close_all(struct hsp_agent_shell *s)
{
    s->ending = true;
    hsp_gpuwatch_stop(s->gpus);
    hsp_agent_end_all(s);
    hsp_agent_drop_tasks(s);
    hsp_agent_check_stop(s);
    hsp_agent_ckpts_close(s);
    if (s->net != NULL) {
        hsp_agent_disconnect(s);
        hsp_net_close(s->net, NULL);
    }
    uv_close((uv_handle_t *)&s->timer, NULL);
    uv_close((uv_handle_t *)&s->watchdog, NULL);
    uv_close((uv_handle_t *)&s->sigchld, NULL);
    if (s->signals_open) {
        hsp_signals_close(&s->signals, NULL);
    }
    while (uv_run(&s->loop, UV_RUN_DEFAULT) != 0) { /* again when it was stopped before it ran */
    }
    HSP_ASSERT(uv_loop_close(&s->loop) == 0);
    hsp_agent_check_free(s);
    s->arena = hsp_arena_free(s->arena);
    s->agent = hsp_agent_free(s->agent);
}

int hsp_agent_run(const struct hsp_worker_config *cfg, const struct hsp_agent_config *machine,
                  const struct hsp_net_keys *keys, const char *dir, struct hsp_agent_setup *setup,
                  struct hsp_logger *log)
{
    struct hsp_err err = {0};
    struct hsp_agent_shell *s = calloc(1, sizeof *s);
    if (s == NULL || uv_loop_init(&s->loop) != 0) {
        hsp_log(log, HSP_LOG_ERROR, "agent", "out of memory");
        free(s);
        return 1;
    }
    s->feed = feed;
    s->cfg = cfg;
    s->setup = setup;
    s->log = log;
    s->node = machine->node;
    s->dir = dir;
    s->heartbeat_ms = machine->heartbeat_ms;
    s->n_execs = machine->n_devices;
    if (open_all(s, machine, keys, &err) != HSP_OK) {
        hsp_agent_fail(s, &err);
    } else {
        struct hsp_agent_event ev = {.type = HSP_AEV_START};
        uint64_t beat = hsp_sd_watchdog_ms();
        beat = beat > 0 && beat < BEAT_MS ? beat : BEAT_MS;
        (void)uv_timer_start(&s->watchdog, on_watchdog, 0, beat); /* has a callback */
        hsp_agent_deliver(s, &ev);
        (void)hsp_sd_notify(&s->notices, NULL, "READY=1");
        (void)uv_run(&s->loop, UV_RUN_DEFAULT);
    }
    int rc = s->rc;
    close_all(s);
    free(s);
    return rc;
}
