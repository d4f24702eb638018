/* Turns messages of connections into events for the core and into requests of administrators.
 *
 * Role:   app.c calls it from the callbacks of the net, and gives the posted events to the core
 *         before the callback returns: their message lives no longer.
 * Rules:  the first message decides the kind of a connection: an agent says HELLO, everything else
 *         is an administrator. ECHO is answered here (W6).
 * Purity: shell (libuv, clock, log).
 */
#ifndef HSP_DISPATCH_H
#define HSP_DISPATCH_H
#include "daemon/app/state/app_state.h"

void hsp_dispatch_open(struct hsp_app *a, uint32_t conn, const struct hsp_net_peer *peer);
/* Decodes the frame into a->message, which its event borrows: settle before the next frame. */
void hsp_dispatch_frame(struct hsp_app *a, uint32_t conn, struct hsp_frame *f);
/* Lets go all that waited on the connection. */
void hsp_dispatch_close(struct hsp_app *a, uint32_t conn, const struct hsp_err *why);
/* A caller that never opened: a holder of another key is remembered and told. */
void hsp_dispatch_refuse(struct hsp_app *a, const struct hsp_net_peer *peer,
                         const struct hsp_err *why);

#endif
