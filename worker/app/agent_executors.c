#include "worker/app/agent_executors.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/str.h"
#include "worker/app/agent_links.h"
#include "worker/app/agent_setup.h"
#include "worker/app/agent_shell.h"

/* Posts the end of an executor whose process has ended and whose messages are all read. */
static void post_end(struct hsp_agent_exec *x)
{
    const struct hsp_agent_event ev = {
        .type = HSP_AEV_EXEC_EXIT, .device = x->device, .text = x->text};
    hsp_agent_post(x->shell, &ev);
    *x = (struct hsp_agent_exec){.shell = x->shell, .device = x->device}; /* for the next one */
}

void hsp_agent_exec_msg(struct hsp_agent_exec *x, const struct hsp_msg *m)
{
    struct hsp_agent_event ev = {.type = HSP_AEV_EXEC_MSG, .device = x->device, .msg = m};
    hsp_agent_deliver(x->shell, &ev);
}

void hsp_agent_exec_closed(struct hsp_agent_exec *x, const struct hsp_err *why)
{
    x->conn = 0;
    if (why->code != HSP_ECLOSED) {
        hsp_log(x->shell->log, HSP_LOG_ERROR, "agent", "executor %u: %s; killed", x->device,
                why->msg);
        hsp_agent_kill(x->shell, x->device);
    }
    hsp_agent_reap(x->shell);
}

static enum hsp_status start(struct hsp_agent_exec *x, struct hsp_err *err)
{
    struct hsp_agent_shell *s = x->shell;
    const struct hsp_device_config replica_holder = {
        .kind = HSP_KIND_REPLICA_HOLDER, .speed = 1, .mem_bytes = UINT64_MAX, .threads = 1};
    const struct hsp_device_config *dev =
        x->device < s->cfg->n_devices ? &s->cfg->devices[x->device] : &replica_holder;
    struct hsp_child child;
    char name[32];
    const char *told = NULL, *listen = hsp_worker_listen(s->cfg, x->device, &told);
    struct hsp_spawn_opts o = {.exe = "/proc/self/exe",
                               .name = "hspmd-worker",
                               .device = x->device,
                               .node = s->node,
                               .state_dir = s->dir,
                               .listen = listen,
                               .advertise = told,
                               .transport = hsp_worker_transport(s->cfg),
                               .speed = dev->speed,
                               .mem_bytes = dev->mem_bytes > 0 ? dev->mem_bytes : UINT64_MAX,
                               .gpu_index = dev->gpu && !x->bare ? (int)dev->index : -1,
                               .threads = dev->threads,
                               .heartbeat_ms = s->heartbeat_ms,
                               .audit_dir = s->cfg->audit_dir,
                               .kill_dir = s->setup->request->kill_dir,
                               .bare_file = s->setup->request->bare_file,
                               .log_level =
                                   hsp_log_level_name((enum hsp_log_level)s->cfg->log_level),
                               .env = hsp_agent_env(s->setup, x->device),
                               .nccl_unknown = hsp_agent_nccl_unknown(s->setup, x->device)};
    enum hsp_status st = hsp_spawn_executor(&o, &child, err);
    if (st != HSP_OK) {
        return st;
    }
    x->pid = child.pid;
    hsp_log(s->log, HSP_LOG_INFO, "agent", "executor %u: process %ld", x->device, (long)child.pid);
    (void)snprintf(name, sizeof name, "executor %u", x->device);
    st = hsp_net_adopt(s->net, child.fd, name, &x->conn, err);
    if (st != HSP_OK) {
        (void)close(child.fd);
    }
    return st;
}

void hsp_agent_spawn(struct hsp_agent_shell *s, uint32_t device, bool bare)
{
    struct hsp_agent_exec *x = &s->exec[device];
    struct hsp_err err = {0};
    *x = (struct hsp_agent_exec){.shell = s, .device = device, .bare = bare};
    if (start(x, &err) != HSP_OK) {
        hsp_str_printf(x->text, sizeof x->text, "%s", err.msg);
        if (x->pid != 0) {
            hsp_agent_kill(s, device); /* SIGCHLD tells the rest */
        } else {
            post_end(x);
        }
    }
}

void hsp_agent_kill(struct hsp_agent_shell *s, uint32_t device)
{
    struct hsp_agent_exec *x = &s->exec[device];
    if (x->pid != 0 && !x->ended) {
        (void)kill(x->pid, SIGKILL); /* ours and not waited for: the number is still its own */
    }
}

void hsp_agent_order(struct hsp_agent_shell *s, uint32_t device, const struct hsp_msg *m)
{
    struct hsp_agent_exec *x = &s->exec[device];
    struct hsp_err err = {0};
    if (x->conn != 0 && hsp_agent_put(s, x->conn, m, &err) != HSP_OK) {
        hsp_log(s->log, HSP_LOG_ERROR, "agent", "executor %u: %s: %s; killed", device,
                hsp_msg_name(m->type), err.msg);
        hsp_agent_kill(s, device);
    }
}

static void poll_all(struct hsp_agent_shell *s)
{
    for (uint32_t i = 0; i < s->n_execs; i++) {
        struct hsp_agent_exec *x = &s->exec[i];
        char text[HSP_EXIT_TEXT];
        if (x->pid != 0 && !x->ended && hsp_spawn_ended(x->pid, text)) {
            x->ended = true;
            if (x->text[0] == '\0') {
                hsp_str_printf(x->text, sizeof x->text, "%s", text);
            }
        }
        if (x->pid != 0 && x->ended && x->conn == 0) {
            post_end(x);
        }
    }
}

void hsp_agent_reap(struct hsp_agent_shell *s)
{
    poll_all(s);
    if (!s->stepping) {
        struct hsp_agent_event ev = {.type = HSP_AEV_TICK};
        hsp_agent_deliver(s, &ev); /* and all ends that are posted */
    }
}

void hsp_agent_end_all(struct hsp_agent_shell *s)
{
    for (uint32_t i = 0; i < s->n_execs; i++) {
        struct hsp_agent_exec *x = &s->exec[i];
        hsp_agent_kill(s, i);
        if (x->pid != 0 && !x->ended) {
            (void)waitpid(x->pid, NULL, 0); /* SIGKILL: it ends soon */
            x->ended = true;
        }
        x->conn = 0; /* hsp_net_close closes it; its end is no news */
    }
}
