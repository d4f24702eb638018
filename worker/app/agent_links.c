#include "worker/app/agent_links.h"

#include "proto/base/buf.h"
#include "proto/net/net_dial.h"
#include "worker/app/agent_shell.h"

#define ATTEMPT_MS 3000 /* of connecting; the machine tries again */

void hsp_agent_connect(struct hsp_agent_shell *s, const char *address)
{
    struct hsp_err err = {0};
    struct hsp_net_dial d = {.address = address != NULL ? address : s->cfg->coordinator,
                             .role = HSP_ROLE_WORKER,
                             .attempt_ms = ATTEMPT_MS};
    if (hsp_net_dial_start(s->net, &d, &s->daemon, &err) != HSP_OK) {
        const struct hsp_agent_event ev = {.type = HSP_AEV_CONN_DOWN, .text = err.msg};
        s->daemon = 0;
        hsp_agent_post(s, &ev);
    }
}

void hsp_agent_disconnect(struct hsp_agent_shell *s)
{
    if (s->daemon != 0) {
        hsp_net_drop(s->net, s->daemon, false, "disconnected"); /* on_close tells CONN_DOWN */
    }
}

enum hsp_status hsp_agent_put(struct hsp_agent_shell *s, uint32_t conn, const struct hsp_msg *m,
                              struct hsp_err *err)
{
    struct hsp_buf body;
    hsp_buf_init(&body, HSP_MSG_BODY_MAX);
    enum hsp_status st = hsp_net_send_msg(s->net, conn, m, &body, err);
    hsp_buf_fini(&body);
    return st == HSP_ECLOSED ? HSP_OK : st; /* its end is told by on_close */
}

void hsp_agent_send(struct hsp_agent_shell *s, const struct hsp_msg *m)
{
    struct hsp_err err = {0};
    if (s->daemon != 0 && hsp_agent_put(s, s->daemon, m, &err) != HSP_OK) {
        hsp_log(s->log, HSP_LOG_ERROR, "agent", "%s to hspmdd: %s", hsp_msg_name(m->type), err.msg);
        hsp_net_drop(s->net, s->daemon, false, err.msg);
    }
}
