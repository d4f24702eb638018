/* Keeps the requests that the core decides until it replies.
 *
 * Example:   `hspmdctl cancel mist` becomes an entry with number 7 and an ADMIN event; the core's
 *            action REPLY 7 finds the entry, and its connection gets the answer.
 * Purity:    shell (libuv, clock).
 * Ownership: an entry owns its texts and counts its record.
 * Bounds:    4096 entries; while the state cannot be written none is taken.
 */
#ifndef HSP_PENDING_REQUESTS_H
#define HSP_PENDING_REQUESTS_H
#include "daemon/cluster/cluster.h"

struct hsp_app;
struct hsp_adoption;
struct hsp_job_rec;

struct hsp_pending { /* a request that waits for the core's REPLY */
    struct hsp_pending *next;
    uint64_t number;
    uint32_t conn;
    uint64_t request;
    struct hsp_job_rec *rec;    /* submit: counted */
    char *plan_json;            /* submit: prediction, NULL none; owned */
    char no_plan[240];          /* submit: why there is none, "" not known */
    struct hsp_adoption *adopt; /* adopt: owned */
    bool check;                 /* of nodes: ends with the connection */
};

/* NULL: the number is unknown. */
const struct hsp_pending *hsp_app_pending_find(const struct hsp_app *a, uint64_t number);
/* Takes an entry off the list: hsp_app_pending_free. NULL: the number is unknown. */
struct hsp_pending *hsp_app_pending_take(struct hsp_app *a, uint64_t number);
void hsp_app_pending_free(struct hsp_pending *p); /* NULL allowed */
/* The core's REPLY to request @number. @text: why it is refused, else a remark, "" none. */
void hsp_app_pending_reply(struct hsp_app *a, uint64_t number, enum hsp_status st, uint32_t job,
                           const char *text);
/* Answers all that wait. */
void hsp_app_pending_end(struct hsp_app *a, enum hsp_status st, const char *text);
/* Posts an admin event for a request. Takes over @rec and @plan_json, both may be NULL. */
void hsp_app_admin(struct hsp_app *a, uint32_t conn, uint64_t request, const char *actor,
                   struct hsp_admin_event *ev, struct hsp_job_rec *rec, char *plan_json);
/* The same for an adoption, which is taken over. */
void hsp_app_admin_adopt(struct hsp_app *a, uint32_t conn, uint64_t request, const char *actor,
                         struct hsp_admin_event *ev, struct hsp_adoption *adopt);
/* The connection has closed: a check of nodes that was asked for on it stops. */
void hsp_app_checks_gone(struct hsp_app *a, uint32_t conn);

#endif
