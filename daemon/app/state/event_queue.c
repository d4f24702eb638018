#include "daemon/app/state/event_queue.h"

#include <stdlib.h>

#include "daemon/app/plans/job_record.h"
#include "daemon/app/state/app_state.h"
#include "proto/base/vec.h"

#define EVENTS_MAX (1u << 20) /* a callback posts a few, a thousand refused packages at most */
#define COPY_CAP   ((size_t)16 << 20) /* of one event: names and reasons, no blob */

/* ---- copies ---- */

static bool copy_text(struct hsp_arena *arena, const char **text)
{
    if (*text != NULL) {
        *text = hsp_arena_strdup(arena, *text);
        return *text != NULL;
    }
    return true;
}

static bool copy_seen(struct hsp_arena *arena, const struct hsp_m_seen **seen, uint32_t n)
{
    *seen = n > 0 ? hsp_arena_memdup(arena, *seen, n * sizeof **seen) : NULL;
    return n == 0 || *seen != NULL;
}

static bool copy_admin(struct hsp_arena *arena, struct hsp_admin_event *e)
{
    uint32_t n = e->check.n_nodes;
    bool ok = copy_text(arena, &e->actor) && copy_text(arena, &e->node) &&
              copy_text(arena, &e->reason) && copy_text(arena, &e->spec.name) &&
              copy_text(arena, &e->spec.data_path) && copy_text(arena, &e->spec.checkpoint_path);
    if (ok && n > 0) {
        e->check.node = hsp_arena_memdup(arena, e->check.node, n * sizeof *e->check.node);
        ok = e->check.node != NULL;
    }
    for (uint32_t i = 0; ok && i < n; i++) {
        ok = copy_text(arena, &e->check.node[i]);
    }
    if (ok && e->n_agents > 0) {
        e->agent = hsp_arena_memdup(arena, e->agent, e->n_agents * sizeof *e->agent);
        ok = e->agent != NULL;
    }
    return ok && copy_seen(arena, &e->seen, e->n_seen);
}

static bool copy_msg(struct hsp_arena *arena, const struct hsp_msg **m)
{
    struct hsp_msg *copy = hsp_arena_alloc(arena, sizeof *copy);
    bool ok = copy != NULL && hsp_msg_clone(*m, arena, copy, NULL) == HSP_OK;
    *m = copy;
    return ok;
}

/* Puts copies into @arena in place of the event's borrowed data. CONFIG has none: app.c posts it
 * borrowed. */
static bool own(struct hsp_arena *arena, struct hsp_event *ev)
{
    switch (ev->type) {
    case HSP_EV_MSG: return copy_text(arena, &ev->peer) && copy_msg(arena, &ev->u.msg);
    case HSP_EV_ADMIN: return copy_admin(arena, &ev->u.admin);
    case HSP_EV_PLAN_DONE: return copy_text(arena, &ev->u.plan.reason);
    case HSP_EV_UNREADABLE: return copy_text(arena, &ev->u.unreadable.why);
    case HSP_EV_CKPTS:
        return copy_text(arena, &ev->u.ckpts.why) && copy_text(arena, &ev->u.ckpts.damaged) &&
               copy_seen(arena, &ev->u.ckpts.seen, ev->u.ckpts.n);
    case HSP_EV_CONN_OPENED:
    case HSP_EV_CONN_CLOSED:
    case HSP_EV_CONFIG:
    case HSP_EV_TICK: break;
    }
    return true;
}

/* ---- the queue ---- */

/* Takes over the data that @e owns. */
static void push(struct hsp_app *a, struct hsp_app_event *e)
{
    struct hsp_err err = {0};
    if (!hsp_grow(&a->events, &a->cap_events, a->n_events + 1, sizeof *a->events, EVENTS_MAX)) {
        (void)hsp_err_nomem(&err, "an event");
        hsp_app_event_fini(e);
        hsp_app_fail(a, "coordinator", &err);
        return;
    }
    a->events[a->n_events++] = *e;
}

void hsp_app_post(struct hsp_app *a, const struct hsp_event *ev, struct hsp_plan_rec *plan)
{
    struct hsp_err err = {0};
    if (a->failed || a->closing) {
        return;
    }
    struct hsp_app_event e = {.ev = *ev, .arena = hsp_arena_new(COPY_CAP)};
    if (e.arena == NULL || !own(e.arena, &e.ev)) {
        (void)hsp_err_nomem(&err, "an event");
        hsp_app_event_fini(&e);
        hsp_app_fail(a, "coordinator", &err);
        return;
    }
    e.plan = plan != NULL ? hsp_plan_rec_ref(plan) : NULL;
    push(a, &e);
}

void hsp_app_post_borrowed(struct hsp_app *a, const struct hsp_event *ev)
{
    if (!a->failed && !a->closing) {
        push(a, &(struct hsp_app_event){.ev = *ev});
    }
}

bool hsp_app_event_take(struct hsp_app *a, struct hsp_app_event *ret)
{
    if (a->first_event == a->n_events) {
        return false;
    }
    *ret = a->events[a->first_event++];
    if (a->first_event == a->n_events) {
        a->first_event = a->n_events = 0;
    }
    return true;
}

void hsp_app_event_fini(struct hsp_app_event *e)
{
    e->plan = e->plan != NULL ? hsp_plan_rec_unref(e->plan) : NULL;
    e->arena = hsp_arena_free(e->arena);
}

void hsp_app_events_free(struct hsp_app *a)
{
    struct hsp_app_event e;
    while (hsp_app_event_take(a, &e)) {
        hsp_app_event_fini(&e);
    }
    free(a->events);
    a->events = NULL;
    a->cap_events = 0;
}
