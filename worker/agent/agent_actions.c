#include "worker/agent/agent_actions.h"

#include <stdarg.h>
#include <stdio.h>

#include "proto/base/arena.h"
#include "proto/base/str.h"
#include "proto/base/vec.h"
#include "worker/agent/agent_impl.h"

struct hsp_agent_action *hsp_ai_emit(struct hsp_agent *a, enum hsp_agent_action_type type,
                                     uint32_t device)
{
    if (!hsp_grow(&a->actions, &a->cap_actions, (size_t)a->n_actions + 1, sizeof(*a->actions),
                  HSP_AGENT_ACTIONS)) {
        a->failed = true;
        return &a->spare;
    }
    struct hsp_agent_action *x = &a->actions[a->n_actions++];
    *x = (struct hsp_agent_action){.type = type, .device = device};
    return x;
}

void hsp_ai_log(struct hsp_agent *a, int severity, const char *fmt, ...)
{
    char text[HSP_TEXT_MAX + 1];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* cut on purpose */
    va_end(ap);
    hsp_utf8_mend(text);
    struct hsp_agent_action *x = hsp_ai_emit(a, HSP_AACT_LOG, 0);
    x->severity = severity;
    x->text = hsp_arena_strdup(a->arena, text);
    a->failed = a->failed || x->text == NULL;
}

static const struct hsp_msg *copy_of(struct hsp_agent *a, const struct hsp_msg *m)
{
    struct hsp_msg *copy = hsp_arena_alloc(a->arena, sizeof(*copy));
    if (copy == NULL) {
        a->failed = true;
        return NULL;
    }
    /* Blobs are only passed on: borrowed from the event, whose buffers outlive the
     * step. */
    struct hsp_msg bare = *m;
    bare.blob = NULL;
    bare.blob_len = 0;
    if (hsp_msg_clone(&bare, a->arena, copy, NULL) != HSP_OK) {
        a->failed = true;
    }
    copy->blob = m->blob;
    copy->blob_len = m->blob_len;
    return copy;
}

void hsp_ai_tell(struct hsp_agent *a, const struct hsp_msg *m)
{
    if (a->link != HSP_LINK_PARKED) {
        hsp_ai_say(a, m);
    }
}

void hsp_ai_say(struct hsp_agent *a, const struct hsp_msg *m)
{
    if (a->link == HSP_LINK_HELLO || a->link == HSP_LINK_UP || a->link == HSP_LINK_PARKED) {
        hsp_ai_emit(a, HSP_AACT_SEND, 0)->msg = copy_of(a, m);
    }
}

void hsp_ai_order(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m)
{
    hsp_ai_emit(a, HSP_AACT_SEND_EXEC, device)->msg = copy_of(a, m);
}

void hsp_ai_ask_shell(struct hsp_agent *a, const struct hsp_msg *m)
{
    if (m->type == HSP_MSG_REACH || m->type == HSP_MSG_CKPTS) {
        hsp_ai_emit(a, m->type == HSP_MSG_REACH ? HSP_AACT_REACH : HSP_AACT_FIND_CKPTS, 0)->msg =
            copy_of(a, m);
        return;
    }
    a->checking = m->u.check.what != HSP_CHECK_END;
    hsp_ai_emit(a, HSP_AACT_CHECK, 0)->msg = copy_of(a, m);
}

void hsp_ai_shell_papers(struct hsp_agent *a, enum hsp_agent_action_type type,
                         const struct hsp_msg *m)
{
    hsp_ai_emit(a, type, 0)->msg = copy_of(a, m);
}

uint64_t hsp_ai_scan(struct hsp_agent *a)
{
    a->scan++;
    return hsp_ai_emit(a, HSP_AACT_SCAN, 0)->scan = a->scan;
}

void hsp_ai_kill_quietly(struct hsp_agent *a, uint32_t device)
{
    hsp_ai_emit(a, HSP_AACT_KILL, device);
    a->dev[device].killed = true;
}

void hsp_ai_kill(struct hsp_agent *a, uint32_t device, const char *why)
{
    if (a->dev[device].state != HSP_EXEC_DOWN && !a->dev[device].killed) {
        hsp_ai_log(a, 4, "executor %u is killed: %s", device, why);
        hsp_ai_kill_quietly(a, device);
        a->dev[device].killed_for = why;
    }
}
