/* Opens and ends the connection to hspmdd, with a pause that doubles while it cannot be opened.
 *
 * Purity:  pure.
 * Example: with reconnect_ms 50 the pauses are 50, 100, 200, ... up to 2000 ms.
 */
#ifndef HSP_AGENT_LINK_H
#define HSP_AGENT_LINK_H
#include "worker/agent/agent_impl.h"

/* No connection from here on; the next one is asked for after a pause. */
void hsp_ai_connect_later(struct hsp_agent *a);
/* True when the reason @why there is no connection was told less than a minute ago, and no WELCOME
 * has come since. Else it counts as told now: equal reasons of all tries do not fill the log. */
bool hsp_ai_is_told(struct hsp_agent *a, const char *why);
/* Ends the connection; the next one says a new HELLO. @soon: without a pause. */
void hsp_ai_hang_up(struct hsp_agent *a, const char *why, bool soon);
/* Asks for a connection: to the configured address and to the one of the last WELCOME, in turn. */
void hsp_ai_dial(struct hsp_agent *a);

#endif
