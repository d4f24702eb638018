#include "daemon/app/dispatch.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon/app/api/admin_requests.h"
#include "daemon/app/api/adopt_requests.h"
#include "daemon/app/api/backup.h"
#include "daemon/app/api/ckpt_requests.h"
#include "daemon/app/api/pending_requests.h"
#include "daemon/app/feed/event_log.h"
#include "daemon/app/feed/subscriptions.h"
#include "daemon/app/feed/trace_collect.h"
#include "daemon/app/state/event_queue.h"
#include "daemon/app/state/sessions.h"
#include "daemon/cluster/measure.h"
#include "proto/base/str.h"
#include "proto/wire/msg_frame.h"

/* Callers without a key can send many wrong messages: the log gets a burst of lines about them,
 * then one each second. */
#define COMPLAINTS 20u

/* Logs a line about an unknown caller. */
static void complain(struct hsp_app *a, const char *who, const char *name, const char *why)
{
    hsp_msec now = hsp_app_now();
    uint64_t fresh = (now - a->complained) / 1000;
    if (fresh > 0) {
        a->complaints -= fresh < a->complaints ? (uint32_t)fresh : a->complaints;
        a->complained = now;
    }
    if (a->complaints >= COMPLAINTS) {
        a->untold++;
        return;
    }
    a->complaints++;
    if (a->untold > 0) {
        hsp_log(a->log, HSP_LOG_WARN, "net", "%" PRIu32 " more lines like these were left out",
                a->untold);
        a->untold = 0;
    }
    hsp_log(a->log, HSP_LOG_WARN, "net", "%s%s%s", who, name, why);
}

void hsp_dispatch_open(struct hsp_app *a, uint32_t conn, const struct hsp_net_peer *peer)
{
    struct hsp_caller *c = &a->clients[hsp_net_slot(conn)];
    bool local = peer->role == HSP_ROLE_LOCAL;
    bool trusted = (local && (peer->uid == 0 || peer->uid == getuid())) ||
                   (peer->role == HSP_ROLE_OPEN && a->insecure);
    bool agent = peer->role == HSP_ROLE_WORKER ||
                 (local && a->has_worker_user && peer->uid == a->worker_uid);
    *c = (struct hsp_caller){.conn = conn,
                             .local = local,
                             .source = peer->source,
                             .may_join = trusted || agent,
                             .may_command = trusted || peer->role == HSP_ROLE_ADMIN};
    (void)snprintf(c->name, sizeof c->name, "%s", peer->name);
    hsp_log(a->log, HSP_LOG_DEBUG, "net", "%s connects as %s", peer->name,
            hsp_role_name(peer->role));
}

/* Reports a caller without the right by an event at a bounded rate, since it may call without end,
 * and otherwise by a line in the log. */
static void tell_denied(struct hsp_app *a, const struct hsp_caller *c, uint16_t type)
{
    char reason[160];
    const struct hsp_refusal *x;
    const struct hsp_net_peer peer = {.name = c->name,
                                      .source = c->source,
                                      .role = type >= HSP_MSG_SUBMIT ? HSP_ROLE_ADMIN
                                                                     : HSP_ROLE_WORKER};
    hsp_str_printf(reason, sizeof reason, "%s may not send %s", c->name, hsp_msg_name(type));
    if (hsp_refusals_note(&a->denials, &peer, hsp_app_now(), &x)) {
        struct hsp_fact f = {
            .type = "auth.denied", .severity = HSP_SEV_WARN, .node = "", .reason = reason};
        hsp_app_fact(a, &f);
    } else {
        complain(a, "", "", reason);
    }
}

static void denied(struct hsp_app *a, struct hsp_caller *c, const struct hsp_msg *m)
{
    char why[224];
    tell_denied(a, c, m->type);
    if (m->type >= HSP_MSG_SUBMIT) {
        hsp_app_reply(a, c->conn, m->request, HSP_EPERM,
                      "not permitted: only root and the daemon's own user may command by the "
                      "socket, and over the network holders of the admin key",
                      NULL, 0, false);
    } else if (m->type == HSP_MSG_HELLO && hsp_digest_is_zero(m->u.hello.incarnation)) {
        /* An agent without work learns why; one with work keeps it and tries again. */
        hsp_str_printf(why, sizeof why,
                       "%s may not join by the socket: agents run as root, as hspmdd's own user or "
                       "as worker_user (hspmdd.yaml)",
                       c->name);
        struct hsp_msg no = {.type = HSP_MSG_FENCED,
                             .u.fenced = {.cluster = a->cluster->id, .reason = why}};
        hsp_app_send(a, c->conn, &no);
    }
    hsp_net_drop(a->net, c->conn, true, "not permitted");
}

/* Answers ECHO, by which a node measures its link (W6); the answer does not wait for the disk. */
static void echo(struct hsp_app *a, struct hsp_caller *c, const struct hsp_m_echo *m)
{
    static const uint8_t piece[HSP_ECHO_CHUNK];
    struct hsp_msg r = {.type = HSP_MSG_ECHO, .blob = piece, .u.echo.seq = m->seq};
    uint32_t left = m->back;
    if (m->more || !hsp_cluster_measures(a->cluster, c->conn)) {
        return;
    }
    if (c->echoes++ >= HSP_CLUSTER_ECHOES) {
        hsp_net_drop(a->net, c->conn, false, "measures its link without end");
        return;
    }
    do {
        r.blob_len = left < HSP_ECHO_CHUNK ? left : HSP_ECHO_CHUNK;
        left -= r.blob_len;
        r.u.echo.more = left != 0;
        hsp_app_send(a, c->conn, &r);
    } while (left != 0);
}

/* Called when a caller has named its kind. Returns false, and closes the connection, if all places
 * of that kind are taken. */
static bool admit(struct hsp_app *a, struct hsp_caller *c, const struct hsp_msg *m)
{
    struct hsp_err err = {0};
    char text[sizeof err.msg + 160];
    bool agent = m->type == HSP_MSG_HELLO;
    enum hsp_net_pool pool = agent ? HSP_POOL_AGENTS : c->local ? HSP_POOL_LOCAL : HSP_POOL_ADMINS;
    if (hsp_net_admit(a->net, c->conn, pool, &err) == HSP_OK) {
        return true;
    }
    hsp_str_printf(text, sizeof text, "no place for another %s: %s; %s",
                   agent      ? "agent"
                   : c->local ? "caller on the socket"
                              : "administrator",
                   err.msg,
                   agent      ? "raise max_nodes, or LimitNOFILE= where the log says so"
                   : c->local ? "end one of them"
                              : "end one of them, or use the socket");
    complain(a, c->name, ": ", text);
    if (!agent) {
        hsp_app_reply(a, c->conn, m->request, HSP_ELIMIT, text, NULL, 0, false);
    }
    hsp_net_drop(a->net, c->conn, true, text);
    return false;
}

static void agent_msg(struct hsp_app *a, struct hsp_caller *c, const struct hsp_msg *m)
{
    struct hsp_event ev = {
        .type = HSP_EV_MSG, .conn = c->conn, .source = c->source, .peer = c->name, .u.msg = m};
    if (m->type == HSP_MSG_HELLO && !hsp_app_random(a, &ev.random, sizeof ev.random)) {
        hsp_net_drop(a->net, c->conn, true, "no random numbers for an incarnation");
        return;
    }
    if (c->kind == HSP_CALLER_NEW) {
        char name[160];
        c->kind = HSP_CALLER_AGENT;
        (void)snprintf(name, sizeof name, "agent %s @%s", m->u.hello.node, c->name);
        hsp_net_set_name(a->net, c->conn, name);
        hsp_app_post_borrowed(a, &(struct hsp_event){.type = HSP_EV_CONN_OPENED, .conn = c->conn});
    }
    if (m->type == HSP_MSG_ECHO) {
        echo(a, c, &m->u.echo);
    }
    hsp_app_post_borrowed(a, &ev);
}

static void dispatch(struct hsp_app *a, struct hsp_caller *c, const struct hsp_msg *m)
{
    bool hello = m->type == HSP_MSG_HELLO, of_agent = m->type < HSP_MSG_SUBMIT;
    if ((of_agent && !c->may_join) || (!of_agent && !c->may_command)) {
        denied(a, c, m);
    } else if (c->kind == HSP_CALLER_AGENT || (c->kind == HSP_CALLER_NEW && hello)) {
        if (c->kind == HSP_CALLER_AGENT || admit(a, c, m)) {
            agent_msg(a, c, m);
        }
    } else if (!of_agent && m->type != HSP_MSG_REPLY) {
        if (c->kind == HSP_CALLER_NEW && !admit(a, c, m)) {
            return;
        }
        c->kind = HSP_CALLER_ADMIN;
        hsp_app_request(a, c, m);
    } else {
        hsp_net_drop(a->net, c->conn, true, "an agent says hello first");
    }
}

/* Handles a message that only newer programs know: it is ignored if it comes from an agent, and
 * answered if it is a request. */
static void newer_msg(struct hsp_app *a, struct hsp_caller *c, const struct hsp_frame_header *h)
{
    char text[160];
    hsp_str_printf(text, sizeof text,
                   "hspmdd speaks protocol %u and does not have message %u of protocol %u: upgrade "
                   "hspmdd",
                   hsp_protocol.newest, h->type, h->version);
    if (c->kind == HSP_CALLER_AGENT) {
        complain(a, hsp_net_name(a->net, c->conn), ": passed over: ", text);
        return;
    }
    if (h->request != 0 && c->may_command) {
        hsp_app_reply(a, c->conn, h->request, HSP_EVERSION, text, NULL, 0, false);
    }
    hsp_net_drop(a->net, c->conn, true, text);
}

void hsp_dispatch_frame(struct hsp_app *a, uint32_t conn, struct hsp_frame *f)
{
    struct hsp_caller *c = hsp_app_client(a, conn);
    struct hsp_err err = {0};
    if (c == NULL || a->closing || a->failed) {
        return;
    }
    hsp_arena_reset(a->decoding);
    enum hsp_status st = hsp_msg_read(f, a->decoding, &a->message, &err);
    if (st == HSP_EVERSION) {
        newer_msg(a, c, &f->head);
    } else if (st != HSP_OK) {
        char text[sizeof err.msg + 32];
        hsp_str_printf(text, sizeof text, ": %s; the connection is closed", err.msg);
        complain(a, "", hsp_net_name(a->net, conn), text);
        if (c->kind != HSP_CALLER_AGENT && f->head.request != 0) {
            hsp_app_reply(a, conn, f->head.request, err.code, err.msg, NULL, 0, false);
        }
        hsp_net_drop(a->net, conn, true, err.msg);
    } else {
        dispatch(a, c, &a->message);
    }
}

void hsp_dispatch_close(struct hsp_app *a, uint32_t conn, const struct hsp_err *why)
{
    struct hsp_caller *c = hsp_app_client(a, conn);
    struct hsp_event ev = {.type = HSP_EV_CONN_CLOSED, .conn = conn};
    if (c == NULL) {
        return;
    }
    bool agent = c->kind == HSP_CALLER_AGENT;
    bool wrong = why->code == HSP_EPROTO || why->code == HSP_ELIMIT || why->code == HSP_EVERSION ||
                 (why->code == HSP_ETIMEDOUT && !agent);
    if (wrong) {
        char text[sizeof why->msg + 32];
        hsp_str_printf(text, sizeof text, ": connection closed: %s", why->msg);
        complain(a, agent ? "agent " : "client ", c->name, text);
    } else {
        hsp_log(a->log, agent ? HSP_LOG_INFO : HSP_LOG_DEBUG, "net", "%s %s: connection closed: %s",
                agent ? "agent" : "client", c->name, why->msg);
    }
    c->conn = 0;
    hsp_app_client_gone(a, conn);
    hsp_app_checks_gone(a, conn);
    hsp_app_backup_gone(a, conn);
    hsp_app_trace_gone(a, conn);
    hsp_app_adopt_gone(a, conn);
    hsp_app_ckpts_gone(a, conn);
    if (agent) {
        hsp_app_post_borrowed(a, &ev);
    }
}

/* Reports a caller with another key by an event and a line of status, since a line in the log of
 * this host alone would not be noticed. */
static void tell_other_key(struct hsp_app *a, const struct hsp_net_peer *peer)
{
    char text[HSP_REFUSAL_TEXT];
    hsp_msec now = hsp_app_now();
    const struct hsp_refusal *x;
    if (hsp_refusals_note(&a->refusals, peer, now, &x)) {
        hsp_refusal_text(x, text);
        struct hsp_fact f = {
            .type = "auth.denied", .severity = HSP_SEV_WARN, .node = "", .reason = text};
        hsp_app_fact(a, &f);
    }
}

void hsp_dispatch_refuse(struct hsp_app *a, const struct hsp_net_peer *peer,
                         const struct hsp_err *why)
{
    char text[sizeof why->msg + 32];
    hsp_str_printf(text, sizeof text, " was refused: %s", why->msg);
    complain(a, "", peer->name, text);
    if (why->code == HSP_EAUTH && peer->role != HSP_ROLE_NONE) {
        tell_other_key(a, peer);
    }
}
