/* Turns each incoming message into an event for the core, or, if an administrator sent it, hands it
 * to the code that answers requests of administrators (api/).
 *
 * Role:   app.c calls these functions from the network callbacks, and gives the posted events to
 *         the core before the callback returns, since the message that an event borrows lives no
 *         longer.
 * Rules:  the first message decides the kind of a connection: HELLO comes from an agent, any other
 *         message from an administrator. ECHO is answered here (W6).
 * Purity: shell (libuv, clock, log).
 */
#ifndef HSP_DISPATCH_H
#define HSP_DISPATCH_H
#include "daemon/app/state/app_state.h"

void hsp_dispatch_open(struct hsp_app *a, uint32_t conn, const struct hsp_net_peer *peer);
/* Decodes the frame into a->message, which its event borrows: settle before the next frame. */
void hsp_dispatch_frame(struct hsp_app *a, uint32_t conn, struct hsp_frame *f);
/* Drops every request that waited for an answer on the connection. */
void hsp_dispatch_close(struct hsp_app *a, uint32_t conn, const struct hsp_err *why);
/* Handles a caller whose connection was refused before it opened: a caller with another key is
 * remembered and logged. */
void hsp_dispatch_refuse(struct hsp_app *a, const struct hsp_net_peer *peer,
                         const struct hsp_err *why);

#endif
