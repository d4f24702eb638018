/* Finds the caller of a connection and sends messages to it.
 *
 * Role:   the way out to agents and administrators; dispatch.c has the way in.
 * Purity: shell (libuv, clock).
 */
#ifndef HSP_SESSIONS_H
#define HSP_SESSIONS_H
#include "proto/wire/msg.h"

struct hsp_app;

enum hsp_caller_kind { HSP_CALLER_NEW, HSP_CALLER_AGENT, HSP_CALLER_ADMIN };
struct hsp_caller {
    uint32_t conn; /* 0: free */
    enum hsp_caller_kind kind;
    bool local; /* came by the socket */
    bool may_join, may_command;
    uint32_t echoes; /* answered */
    char name[96];
    uint64_t source; /* as in struct hsp_net_peer */
};

/* NULL: gone. */
struct hsp_caller *hsp_app_client(struct hsp_app *a, uint32_t conn);
/* Sends; a connection that does not take the message is dropped. */
void hsp_app_send(struct hsp_app *a, uint32_t conn, const struct hsp_msg *m);
/* @blob: text of the answer, may be NULL. @more: another reply to the same request follows. */
void hsp_app_reply(struct hsp_app *a, uint32_t conn, uint64_t request, enum hsp_status st,
                   const char *message, const char *blob, size_t len, bool more);

#endif
