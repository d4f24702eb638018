#include "worker/agent/agent_link.h"

#include <string.h>

#include "proto/base/arena.h"
#include "proto/base/str.h"
#include "worker/agent/agent_actions.h"
#include "worker/agent/agent_impl.h"
#include "worker/agent/uplink.h"

#define RECONNECT_MAX_MS 2000u
#define TELL_AGAIN_MS    60000u /* why there is no connection */

void hsp_ai_connect_later(struct hsp_agent *a)
{
    a->link = HSP_LINK_DOWN;
    a->pause_ms = a->pause_ms == 0                     ? a->cfg.reconnect_ms
                  : a->pause_ms * 2 < RECONNECT_MAX_MS ? a->pause_ms * 2
                                                       : RECONNECT_MAX_MS;
    a->connect_ms = a->now_ms + a->pause_ms;
}

bool hsp_ai_is_told(struct hsp_agent *a, const char *why)
{
    struct hsp_agent_down now = {.ms = a->now_ms};
    hsp_str_printf(now.why, sizeof now.why, "%s", why);
    for (int i = 0; i < HSP_AGENT_DOWN; i++) {
        if (strcmp(a->down[i].why, now.why) == 0 && now.ms - a->down[i].ms < TELL_AGAIN_MS) {
            return true;
        }
    }
    memmove(a->down + 1, a->down, sizeof a->down - sizeof *a->down);
    a->down[0] = now;
    return false;
}

void hsp_ai_hang_up(struct hsp_agent *a, const char *why, bool soon)
{
    if (a->link != HSP_LINK_DOWN) {
        if (!hsp_ai_is_told(a, why)) {
            hsp_ai_log(a, 4, "leaving the coordinator: %s", why);
        }
        hsp_ai_emit(a, HSP_AACT_DISCONNECT, 0);
        a->closing =
            true; /* until CONN_DOWN, which a connection that is gone does not tell again */
    }
    hsp_ai_connect_later(a);
    hsp_ai_uplink_stop(a);
    a->pause_ms = soon ? 0 : a->pause_ms;
}

void hsp_ai_dial(struct hsp_agent *a)
{
    bool other = a->try_other && a->other[0] != '\0';
    struct hsp_agent_action *x = hsp_ai_emit(a, HSP_AACT_CONNECT, 0);
    a->link = HSP_LINK_CONNECTING;
    a->try_other = !a->try_other;
    if (other) {
        x->text = hsp_arena_strdup(a->arena, a->other);
        a->failed = a->failed || x->text == NULL;
    }
}
