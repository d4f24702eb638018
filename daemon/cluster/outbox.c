#include "daemon/cluster/outbox.h"

#include <stdarg.h>
#include <stdio.h>

#include "daemon/cluster/cluster_state.h"
#include "proto/base/arena.h"
#include "proto/base/str.h"
#include "proto/base/vec.h"

#define NAMED 5u /* nodes in a reason */

/* A step sends at most a few messages per device, and stores a few rows per job. */
#define STEP_ACTIONS 262144u

struct hsp_action *hsp_ci_emit(struct hsp_cluster *c, enum hsp_action_type type)
{
    if (!hsp_grow(&c->actions, &c->cap_actions, (size_t)c->n_actions + 1, sizeof(*c->actions),
                  STEP_ACTIONS)) {
        c->failed = true;
        return &c->spare;
    }
    struct hsp_action *a = &c->actions[c->n_actions++];
    *a = (struct hsp_action){.type = type};
    return a;
}

void *hsp_ci_alloc(struct hsp_cluster *c, size_t n, size_t size)
{
    void *p = hsp_arena_array(c->arena, n, size);
    c->failed = c->failed || p == NULL;
    return p;
}

const char *hsp_ci_printf(struct hsp_cluster *c, const char *fmt, ...)
{
    char text[HSP_TEXT_MAX + 1];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* cut at the end of the buffer on purpose */
    va_end(ap);
    hsp_utf8_mend(text);
    const char *s = hsp_arena_strdup(c->arena, text);
    c->failed = c->failed || s == NULL;
    return s != NULL ? s : "";
}

const char *hsp_ci_and_name(struct hsp_cluster *c, const char *list, uint32_t n, const char *name)
{
    return n == 0       ? name
           : n < NAMED  ? hsp_ci_printf(c, "%s, %s", list, name)
           : n == NAMED ? hsp_ci_printf(c, "%s and others", list)
                        : list;
}

const char *hsp_ci_until(struct hsp_cluster *c, uint64_t at_s)
{
    unsigned long long s = at_s % 86400;
    return at_s != 0
               ? hsp_ci_printf(c, "until %02llu:%02llu:%02llu UTC", s / 3600, s / 60 % 60, s % 60)
               : hsp_ci_printf(c, "for up to %u s", c->cfg.state_wait_ms / 1000);
}

void hsp_ci_send(struct hsp_cluster *c, uint32_t conn, const struct hsp_msg *m)
{
    if (conn == 0) {
        return;
    }
    struct hsp_msg *copy = hsp_ci_alloc(c, 1, sizeof(*copy));
    if (copy != NULL && hsp_msg_clone(m, c->arena, copy, NULL) == HSP_OK) {
        struct hsp_action *a = hsp_ci_emit(c, HSP_ACT_SEND);
        a->conn = conn;
        a->msg = copy;
    } else {
        c->failed = true;
    }
}

void hsp_ci_close(struct hsp_cluster *c, uint32_t conn, const char *why)
{
    struct hsp_action *a = hsp_ci_emit(c, HSP_ACT_CLOSE);
    a->conn = conn;
    a->text = hsp_ci_printf(c, "%s", why);
}

struct hsp_fact *hsp_ci_fact(struct hsp_cluster *c, const char *type, enum hsp_severity sev,
                             const struct hsp_job *j, const struct hsp_cluster_node *n,
                             const char *fmt, ...)
{
    char text[HSP_TEXT_MAX + 1];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* cut on purpose */
    va_end(ap);
    hsp_utf8_mend(text);
    struct hsp_fact *f = hsp_ci_alloc(c, 1, sizeof(*f));
    if (f == NULL) {
        return NULL;
    }
    *f = (struct hsp_fact){.type = type,
                           .severity = sev,
                           .job = j != NULL ? j->id : 0,
                           .node = n != NULL ? hsp_ci_printf(c, "%s", n->name) : "",
                           .incarnation = n != NULL ? n->incarnation : 0,
                           .epoch = j != NULL ? j->cur.epoch : 0,
                           .reason = hsp_ci_printf(c, "%s", text),
                           .cause = "",
                           .actor = ""};
    hsp_ci_emit(c, HSP_ACT_FACT)->u.fact = f;
    return f;
}

void hsp_ci_fact_of_step(struct hsp_fact *f, uint64_t step)
{
    if (f != NULL) {
        f->step = step;
    }
}
