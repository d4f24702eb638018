/* Opens and ends the connection to hspmdd, with a pause that doubles while it cannot be opened.
 *
 * Purity:  pure.
 * Example: with reconnect_ms 50 the pauses are 50, 100, 200, ... up to 2000 ms.
 */
#ifndef HSP_AGENT_LINK_H
#define HSP_AGENT_LINK_H
#include "worker/agent/agent_impl.h"

/* Notes that there is no connection. The agent asks for the next connection after a pause. */
void hsp_ai_connect_later(struct hsp_agent *a);
/* Returns true if @why, the reason for having no connection, was logged less than a minute ago, and
 * no WELCOME has come since. Otherwise records @why as logged now, and the caller logs it. So the
 * log has one line for many retries that fail for the same reason. */
bool hsp_ai_is_told(struct hsp_agent *a, const char *why);
/* Ends the connection. The next connection begins with a new HELLO; @soon: without a pause. */
void hsp_ai_hang_up(struct hsp_agent *a, const char *why, bool soon);
/* Asks for a connection. Attempts go in turn to the configured address and to the address that the
 * last WELCOME named. */
void hsp_ai_dial(struct hsp_agent *a);

#endif
