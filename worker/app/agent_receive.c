#include "worker/app/agent_receive.h"

#include "proto/base/str.h"
#include "proto/wire/msg_frame.h"
#include "worker/app/agent_executors.h"
#include "worker/app/agent_shell.h"

/* A decoded body: its text has at most HSP_MSG_BODY_MAX bytes. */
#define ARENA_BYTES ((size_t)32 << 20)
/* Frames that wait for a slow link: all that one step sends, and as many of the steps behind it. */
#define QUEUE_FRAMES (2 * HSP_AGENT_ACTIONS)

static struct hsp_agent_exec *exec_of(struct hsp_agent_shell *s, uint32_t conn)
{
    for (uint32_t i = 0; i < s->n_execs; i++) {
        if (s->exec[i].conn == conn) {
            return &s->exec[i];
        }
    }
    return NULL;
}

static void on_open(void *ctx, uint32_t conn, const struct hsp_net_peer *peer)
{
    struct hsp_agent_shell *s = ctx;
    if (conn == s->daemon) {
        char text[HSP_TEXT_MAX + 1];
        struct hsp_agent_event ev = {.type = HSP_AEV_CONN_UP, .text = text};
        hsp_str_printf(text, sizeof text, "%s (%s)", peer->name, hsp_role_name(peer->role));
        hsp_agent_deliver(s, &ev);
    }
}

static void on_frame(void *ctx, uint32_t conn, struct hsp_frame *f)
{
    struct hsp_agent_shell *s = ctx;
    struct hsp_err err = {0};
    struct hsp_msg m;
    struct hsp_agent_exec *x = exec_of(s, conn);
    hsp_arena_reset(s->arena);
    enum hsp_status st = hsp_msg_read(f, s->arena, &m, &err);
    if (st == HSP_EVERSION) { /* a newer program says more than we know: the rest of it counts */
        hsp_log(s->log, HSP_LOG_INFO, "agent", "%s: %s is ignored", hsp_net_name(s->net, conn),
                err.msg);
    } else if (st != HSP_OK) {
        hsp_log(s->log, HSP_LOG_ERROR, "agent", "%s: %s", hsp_net_name(s->net, conn), err.msg);
        hsp_net_drop(s->net, conn, false, err.msg); /* on_close does the rest */
    } else if (x != NULL) {
        hsp_agent_exec_msg(x, &m);
    } else if (conn == s->daemon) {
        struct hsp_agent_event ev = {.type = HSP_AEV_DAEMON_MSG, .msg = &m};
        hsp_agent_deliver(s, &ev);
    }
}

/* Why there is no connection to hspmdd, and the remedy where one is known. */
static void tell_down(struct hsp_agent_shell *s, const struct hsp_err *why)
{
    char text[HSP_TEXT_MAX + 1];
    struct hsp_agent_event ev = {.type = HSP_AEV_CONN_DOWN, .text = why->msg};
    if (why->code == HSP_EAUTH) {
        hsp_str_printf(text, sizeof text,
                       "%s: copy the worker key of that hspmdd to %s, and start hspmd-worker again",
                       why->msg, s->cfg->key);
        ev.text = text;
    }
    hsp_agent_deliver(s, &ev);
}

static void on_close(void *ctx, uint32_t conn, const struct hsp_err *why)
{
    struct hsp_agent_shell *s = ctx;
    struct hsp_agent_exec *x = exec_of(s, conn);
    if (x != NULL) {
        hsp_agent_exec_closed(x, why);
    } else if (conn == s->daemon && !s->ending) {
        s->daemon = 0;
        tell_down(s, why);
    }
}

enum hsp_status hsp_agent_net_open(struct hsp_agent_shell *s, const struct hsp_net_keys *keys,
                                   struct hsp_err *err)
{
    static const struct hsp_net_calls calls = {
        .on_open = on_open, .on_frame = on_frame, .on_close = on_close};
    struct hsp_net_config cfg;
    hsp_net_defaults(&cfg);
    cfg.places[HSP_POOL_OWN] = 4 * HSP_NODE_DEVICES; /* also of those that dial again */
    cfg.queue_frames = QUEUE_FRAMES;
    cfg.keys = *keys;
    s->arena = hsp_arena_new(ARENA_BYTES);
    if (s->arena == NULL) {
        return hsp_err_nomem(err, "messages");
    }
    return hsp_net_new(&s->loop, &cfg, &calls, s, &s->net, err);
}
