/* Sorts the requests of hspmdctl: answered at once, worked out on a pool thread, or decided by the
 * core.
 *
 * Purity: shell (libuv, clock).
 */
#ifndef HSP_ADMIN_REQUESTS_H
#define HSP_ADMIN_REQUESTS_H
#include "daemon/app/state/sessions.h"

/* A message of an administrator with the right to command. The reply may come later. */
void hsp_app_request(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m);

#endif
