/* Collects the actions of a step in order, so that every other file only names them.
 *
 * Ownership: actions, copies and texts live in the arena of the step, until the next step. Without
 *            memory c->failed is set; callers need not look before the end of the step. */
#ifndef HSP_OUTBOX_H
#define HSP_OUTBOX_H
#include "daemon/cluster/cluster.h"

/* Appends an action, zeroed but for its type. Never NULL. */
struct hsp_action *hsp_ci_emit(struct hsp_cluster *c, enum hsp_action_type type);
/* Sends a copy of @m; does nothing when @conn is 0. */
void hsp_ci_send(struct hsp_cluster *c, uint32_t conn, const struct hsp_msg *m);
void hsp_ci_close(struct hsp_cluster *c, uint32_t conn, const char *why);
/* Appends a line of the events feed, about job @j and node @n (NULL: neither). NULL: no memory. */
struct hsp_fact *hsp_ci_fact(struct hsp_cluster *c, const char *type, enum hsp_severity sev,
                             const struct hsp_job *j, const struct hsp_cluster_node *n,
                             const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* @f, NULL allowed, speaks of the checkpoint of @step. */
void hsp_ci_fact_of_step(struct hsp_fact *f, uint64_t step);
/* Zeroed memory of this step; NULL: no memory. */
void *hsp_ci_alloc(struct hsp_cluster *c, size_t n, size_t size);
/* A text of this step, cut at HSP_TEXT_MAX. Never NULL. */
const char *hsp_ci_printf(struct hsp_cluster *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* @list, which names @n nodes, with @name behind them: "a, b"; the sixth becomes "and others". */
const char *hsp_ci_and_name(struct hsp_cluster *c, const char *list, uint32_t n, const char *name);
/* "until 22:15:03 UTC", of the end @at_s of a wait by the clock on the wall; 0: not known, "for up
 * to 60 s", state_wait. */
const char *hsp_ci_until(struct hsp_cluster *c, uint64_t at_s);

#endif
