#include "daemon/app/state/sessions.h"

#include "daemon/app/state/app_state.h"
#include "proto/base/str.h"
#include "proto/wire/msg_frame.h"

struct hsp_caller *hsp_app_client(struct hsp_app *a, uint32_t conn)
{
    struct hsp_caller *c = &a->clients[hsp_net_slot(conn)];
    return conn != 0 && c->conn == conn ? c : NULL;
}

void hsp_app_send(struct hsp_app *a, uint32_t conn, const struct hsp_msg *m)
{
    struct hsp_err err = {0};
    struct hsp_msg beat;
    if (hsp_app_client(a, conn) == NULL) {
        return; /* W4 */
    }
    if (m->type == HSP_MSG_HEARTBEAT) { /* agents learn our clock by it */
        beat = *m;
        beat.u.beat.clock_us = uv_hrtime() / 1000;
        m = &beat;
    }
    enum hsp_status st = hsp_net_send_msg(a->net, conn, m, &a->encoding, &err);
    if (st != HSP_OK && st != HSP_ECLOSED) {
        hsp_log(a->log, HSP_LOG_WARN, "net", "%s: %s cannot be sent: %s; the connection is dropped",
                hsp_net_name(a->net, conn), hsp_msg_name(m->type), err.msg);
        hsp_net_drop(a->net, conn, false, "a message could not be sent");
    }
}

void hsp_app_reply(struct hsp_app *a, uint32_t conn, uint64_t request, enum hsp_status st,
                   const char *message, const char *blob, size_t len, bool more)
{
    char text[HSP_TEXT_MAX + 1];
    hsp_str_printf(text, sizeof text, "%s", message != NULL ? message : "");
    struct hsp_msg m = {
        .type = HSP_MSG_REPLY,
        .request = request,
        .blob = (const uint8_t *)blob,
        .blob_len = blob != NULL ? (uint32_t)len : 0,
        .u.reply = {.status = st < 0 ? (uint32_t)-st : 0, .message = text, .more = more}};
    if (len > HSP_MSG_BLOB_MAX) {
        m.blob = NULL;
        m.blob_len = 0;
        m.u.reply.status = (uint32_t)-HSP_ELIMIT;
        m.u.reply.message = "the answer is longer than a message may be";
    }
    hsp_app_send(a, conn, &m);
}
