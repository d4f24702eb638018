#include "worker/app/agent_shell.h"

#include <string.h>

#include "proto/base/check.h"
#include "proto/base/str.h"

void hsp_agent_deliver(struct hsp_agent_shell *s, struct hsp_agent_event *ev)
{
    HSP_ASSERT(!s->stepping);
    if (!s->ending) {
        s->feed(s, ev);
    }
}

/* CONN_DOWN stands before EXEC_EXIT, as their numbers do. */
static bool comes_before(const struct hsp_agent_event *a, const struct hsp_agent_posted *b)
{
    return a->type != b->type ? a->type < b->type : a->device < b->device;
}

void hsp_agent_post(struct hsp_agent_shell *s, const struct hsp_agent_event *ev)
{
    uint32_t at = s->n_posted;
    HSP_ASSERT(ev->type == HSP_AEV_CONN_DOWN || ev->type == HSP_AEV_EXEC_EXIT);
    HSP_ASSERT(s->n_posted < HSP_AGENT_POSTS);
    while (at > 0 && comes_before(ev, &s->posted[at - 1])) {
        s->posted[at] = s->posted[at - 1];
        at--;
    }
    s->posted[at] = (struct hsp_agent_posted){.type = ev->type, .device = ev->device};
    hsp_str_printf(s->posted[at].text, sizeof s->posted[at].text, "%s", ev->text);
    s->n_posted++;
}

bool hsp_agent_take(struct hsp_agent_shell *s, struct hsp_agent_posted *ret)
{
    if (s->n_posted == 0) {
        return false;
    }
    *ret = s->posted[0];
    s->n_posted--;
    memmove(&s->posted[0], &s->posted[1], s->n_posted * sizeof s->posted[0]);
    return true;
}

void hsp_agent_stop(struct hsp_agent_shell *s, int rc)
{
    if (!s->ending) {
        s->ending = true;
        s->rc = rc;
    }
    uv_stop(&s->loop);
}

void hsp_agent_fail(struct hsp_agent_shell *s, const struct hsp_err *why)
{
    hsp_log(s->log, HSP_LOG_ERROR, "agent", "cannot go on: %s", why->msg);
    hsp_agent_stop(s, 1);
}
