/* A disk that does not take the state: full, read-only, broken, or its file locked by somebody.
 *
 * Nothing that depends on a row leaves before the row is on disk (W1), so everything but heartbeats
 * waits, and training goes on by itself as without us. New requests are refused with the reason. The
 * core hears what happens; its clock stands, so that nobody is taken for dead, and nothing counted as
 * failed, for want of an answer that could not leave. */
#include "daemon/app/store_stall.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/app/api/admin_requests.h"
#include "daemon/app/api/sessions.h"
#include "daemon/app/app.h"
#include "daemon/app/commit.h"
#include "daemon/app/event_log.h"
#include "proto/base/str.h"
#include "proto/host/sd_notify.h"

#define RETRY_MS 1000

hsp_msec hsp_app_core_now(const struct hsp_app *a)
{
    return a->stuck ? a->stuck_at : hsp_app_now() - a->stood;
}

hsp_msec hsp_app_core_due(const struct hsp_app *a, hsp_msec at)
{
    return a->stuck || at > UINT64_MAX - a->stood ? UINT64_MAX : at + a->stood;
}

static void on_retry(uv_timer_t *t)
{
    struct hsp_app *a = t->data;
    hsp_app_write_on(a);
    a->feed_stuck = false;
    hsp_app_flush(a);
}

void hsp_app_retry_later(struct hsp_app *a)
{
    if (!a->closing && !uv_is_active((uv_handle_t *)&a->retry)) {
        (void)uv_timer_start(&a->retry, on_retry, RETRY_MS, 0); /* has a callback */
    }
}

static void tell(struct hsp_app *a, bool written, const char *reason)
{
    struct hsp_fact f = {.type = written ? "store.written" : "store.stuck",
                         .severity = written ? HSP_SEV_NOTICE : HSP_SEV_ERROR,
                         .node = "",
                         .reason = reason};
    hsp_app_fact(a, &f);
}

void hsp_app_stuck(struct hsp_app *a, const struct hsp_err *why)
{
    hsp_app_retry_later(a);
    if (a->stuck) {
        return;
    }
    a->stuck_at = hsp_app_core_now(a);
    a->stuck = true;
    hsp_str_printf(
        a->stuck_why, sizeof a->stuck_why,
        "%s/state.db: %s; training goes on, nothing can be changed until it can be written",
        a->cfg->state_dir, why->msg);
    tell(a, false, a->stuck_why);
    char text[2 * HSP_TEXT_MAX];
    hsp_str_printf(text, sizeof text,
                   "%s; this request is kept and counts as soon as it is on disk", a->stuck_why);
    hsp_app_pending_end(a, HSP_ENOSPC, text);
}

void hsp_app_unstuck(struct hsp_app *a)
{
    char text[96];
    if (!a->stuck) {
        return;
    }
    a->stuck = false;
    hsp_msec stood = hsp_app_now() - a->stood - a->stuck_at;
    a->stood += stood;
    (void)snprintf(text, sizeof text, "the state is written again after %" PRIu64 " s",
                   stood / 1000);
    tell(a, true, text);
}

bool hsp_app_send_beats(struct hsp_app *a, const struct hsp_actions *acts)
{
    for (uint32_t i = 0; i < acts->n; i++) {
        if (acts->item[i].type != HSP_ACT_SEND || acts->item[i].msg->type != HSP_MSG_HEARTBEAT) {
            return false;
        }
    }
    for (uint32_t i = 0; i < acts->n; i++) {
        hsp_app_send(a, acts->item[i].conn, acts->item[i].msg);
    }
    return true;
}
