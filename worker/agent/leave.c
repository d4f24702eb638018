/* Leaves in order. While hspmdd is away, a node that runs nothing and holds no state does not wait,
 * since it has nothing to hand over. */
#include "worker/agent/leave.h"

#include "proto/base/str.h"
#include "worker/agent/agent.h"
#include "worker/agent/agent_actions.h"
#include "worker/agent/agent_impl.h"

void hsp_ai_leave_notice(struct hsp_agent *a)
{
    uint64_t left = a->leave_deadline_ms > a->now_ms ? a->leave_deadline_ms - a->now_ms : 0;
    struct hsp_msg m = {.type = HSP_MSG_LEAVE,
                        .u.leave = {.reason = a->leave_reason, .deadline_ms = (uint32_t)left}};
    hsp_ai_tell(a, &m);
}

static bool busy(const struct hsp_agent *a)
{
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        if (a->dev[i].state != HSP_EXEC_DOWN) {
            return true;
        }
    }
    return false;
}

static bool idle(const struct hsp_agent *a)
{
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        if (a->dev[i].run.job != 0) {
            return false;
        }
    }
    return true;
}

/* Nobody to say goodbye to, and no work: the contents of the state folder decide. */
static bool alone(const struct hsp_agent *a)
{
    return a->leaving && !a->ending && !a->bye && idle(a) &&
           (a->link == HSP_LINK_DOWN || a->link == HSP_LINK_CONNECTING ||
            a->link == HSP_LINK_PARKED);
}

static void ask_alone(struct hsp_agent *a)
{
    if (!alone(a)) {
        a->leave_scan = 0;
    } else if (a->leave_scan == 0 &&
               (a->link == HSP_LINK_PARKED || a->now_ms >= a->heard_ms + a->dead_ms)) {
        a->leave_scan = hsp_ai_scan(a);
    }
}

void hsp_ai_leave_scanned(struct hsp_agent *a, const struct hsp_agent_event *ev)
{
    if (a->leave_scan != 0 && ev->scan == a->leave_scan && ev->n == 0 && alone(a)) {
        hsp_ai_log(a, 5, "the coordinator is away");
        a->bye = true;
    }
}

uint64_t hsp_ai_leave_deadline(const struct hsp_agent *a)
{
    uint64_t best = UINT64_MAX;
    if (a->leaving && !a->ending && a->leave_deadline_ms != 0) {
        best = a->leave_deadline_ms;
    }
    if (alone(a) && a->leave_scan == 0 && a->heard_ms + a->dead_ms < best) {
        best = a->heard_ms + a->dead_ms;
    }
    return best;
}

void hsp_ai_leave_advance(struct hsp_agent *a)
{
    bool late = a->leave_deadline_ms != 0 && a->now_ms >= a->leave_deadline_ms;
    if (!a->leaving || a->exited) {
        return;
    }
    ask_alone(a);
    if ((late || a->bye) && !a->ending) {
        a->ending = true;
        hsp_ai_log(a, late && !a->bye ? 4 : 5,
                   a->bye ? "leaving: nothing is left here" : "leaving: the deadline has come");
        for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
            if (!a->bye) {
                hsp_ai_kill(a, i, "leaving");
            } else if (a->dev[i].state != HSP_EXEC_DOWN && !a->dev[i].killed) {
                hsp_ai_kill_quietly(a, i); /* no state and no work: nothing to say */
            }
        }
    }
    if (a->ending && !busy(a)) {
        a->exited = true;
        hsp_ai_emit(a, HSP_AACT_EXIT, 0)->text =
            a->bye ? "left as planned" : "left at the deadline";
    }
}

void hsp_ai_leave(struct hsp_agent *a, const struct hsp_agent_event *ev)
{
    a->leaving = true;
    hsp_str_printf(a->leave_reason, sizeof(a->leave_reason), "%s",
                   ev->text != NULL ? ev->text : "");
    a->leave_deadline_ms = ev->deadline_ms != 0 ? a->now_ms + ev->deadline_ms : 0;
    if (idle(a) && hsp_digest_is_zero(a->incarnation)) {
        a->bye = true; /* nobody knows us */
    }
    hsp_ai_leave_notice(a);
}
