#include "daemon/app/perform/store_stall.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/app/api/pending_requests.h"
#include "daemon/app/feed/event_log.h"
#include "daemon/app/state/app_state.h"
#include "proto/base/str.h"
#include "proto/host/sd_notify.h"

static void tell(struct hsp_app *a, bool written, const char *reason)
{
    struct hsp_fact f = {.type = written ? "store.written" : "store.stuck",
                         .severity = written ? HSP_SEV_NOTICE : HSP_SEV_ERROR,
                         .node = "",
                         .reason = reason};
    hsp_app_fact(a, &f);
}

void hsp_app_store_stalled(struct hsp_app *a, const struct hsp_err *why)
{
    hsp_app_retry_later(a);
    const bool damaged = why->code == HSP_EDIGEST; /* which no wait mends */
    hsp_str_printf(a->stalled_why, sizeof a->stalled_why,
                   "%s/state.db%s: %s; training continues, nothing can be changed%s",
                   a->cfg->state_dir, damaged ? " is damaged" : "", why->msg,
                   damaged ? "; restart hspmdd, which rebuilds the file from its undamaged rows; "
                             "if it refuses to start, put a backup back: hspmdd --restore FILE"
                           : " until it can be written");
    if (a->store_stalled) {
        return;
    }
    a->stalled_at = hsp_app_core_now(a);
    a->store_stalled = true;
    tell(a, false, a->stalled_why);
    char text[2 * HSP_TEXT_MAX];
    hsp_str_printf(text, sizeof text, "%s; %s", a->stalled_why,
                   damaged ? "then give this request again"
                           : "this request is kept and counts as soon as it is on disk");
    hsp_app_pending_end(a, HSP_ENOSPC, text);
}

void hsp_app_unstuck(struct hsp_app *a)
{
    char text[96];
    if (!a->store_stalled) {
        return;
    }
    a->store_stalled = false;
    hsp_msec stood = hsp_app_now() - a->stood - a->stalled_at;
    a->stood += stood;
    (void)snprintf(text, sizeof text, "the state is written again after %" PRIu64 " s",
                   stood / 1000);
    tell(a, true, text);
}
