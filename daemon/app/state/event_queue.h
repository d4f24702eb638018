/* Keeps events for the core in order until the running actions have been performed.
 *
 * Role:      a part of the shell that learns something posts an event; app.c alone takes events off
 *            the queue and steps the core, at the end of each callback of the loop. Example: two of
 *            five packages of an epoch cannot be made. All five are performed, then the core hears
 *            of both, in the order of their ranks.
 * Purity:    pure (heap only); without memory the app fails.
 * Threads:   the loop thread.
 * Ownership: see hsp_app_post and hsp_app_post_borrowed.
 */
#ifndef HSP_EVENT_QUEUE_H
#define HSP_EVENT_QUEUE_H
#include "daemon/cluster/cluster.h"

struct hsp_app;
struct hsp_plan_rec;

struct hsp_app_event {
    struct hsp_event ev;
    struct hsp_arena *arena;   /* owned: the data of ev, NULL nothing */
    struct hsp_plan_rec *plan; /* counted: has ev.u.plan.info; NULL none */
};

/* Posts a copy of @ev, texts and message included. @plan: the record that has ev->u.plan.info,
 * counted here too; NULL none. A failed or closing app takes no events. */
void hsp_app_post(struct hsp_app *a, const struct hsp_event *ev, struct hsp_plan_rec *plan);
/* Posts @ev itself: its data must live to the end of the running callback of the loop. */
void hsp_app_post_borrowed(struct hsp_app *a, const struct hsp_event *ev);

/* Takes the oldest event off the queue; hsp_app_event_fini when the core has had it. False: none
 * waits. */
bool hsp_app_event_take(struct hsp_app *a, struct hsp_app_event *ret);
void hsp_app_event_fini(struct hsp_app_event *e);
void hsp_app_events_free(struct hsp_app *a); /* drops all */

#endif
