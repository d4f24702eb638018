/* Keeps the daemon's durable memory in one SQLite file.
 *
 * Role:      rows of the cluster core (key -> value), the event feed, the metrics of committed
 *            steps.
 * Purity:    shell (files).
 * Threads:   one connection in serialized mode: any thread may call. Applying rows waits for the
 *            disk, so the loop thread leaves it to a pool thread.
 * Ownership: the store copies its arguments; rows handed to a callback are borrowed for the
 *            call.
 * Bounds:    the newest HSP_STORE_EVENTS_MAX events are kept, and up to a hundredth more.
 */
#ifndef HSP_STORE_H
#define HSP_STORE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "proto/base/err.h"

#define HSP_STORE_EVENTS_MAX 100000 /* about 30 MB of JSON lines */

struct hsp_store;

struct hsp_store_row {
    const char *key;
    const void *value; /* ignored when removed */
    size_t len;
    bool removed;
};

struct hsp_store_event {
    uint64_t seq;
    uint32_t job;     /* its number, 0 when it is about a node or the cluster */
    const char *json; /* one object, the line of `hspmdctl events` */
};

/* Opens or creates @path (":memory:" for tests). HSP_EIO: not a database, no permission, a newer
 * schema; the message names the path. */
enum hsp_status hsp_store_open(const char *path, struct hsp_store **ret, struct hsp_err *err);
struct hsp_store *hsp_store_close(struct hsp_store *s); /* NULL is fine; returns NULL */

/* Writes all rows or none, and deletes the metrics of the jobs @gone in the same transaction. All
 * is on disk when it returns. HSP_EIO, HSP_ENOSPC. */
enum hsp_status hsp_store_apply(struct hsp_store *s, const struct hsp_store_row *rows, size_t n,
                                const uint32_t *gone, size_t n_gone, struct hsp_err *err);
/* Calls @fn for every row in the order of the keys; stops if @fn fails, and returns its status.
 * With @fn NULL the rows are only compared with their sums. HSP_EDIGEST: a row differs from the
 * written one, or is missing; HSP_EIO. */
typedef enum hsp_status hsp_store_row_fn(void *arg, const char *key, const void *value, size_t len);
enum hsp_status hsp_store_load(struct hsp_store *s, hsp_store_row_fn *fn, void *arg,
                               struct hsp_err *err);

/* Calls @fn for the row @key alone; not at all if there is none. Errors as above. */
enum hsp_status hsp_store_get(struct hsp_store *s, const char *key, hsp_store_row_fn *fn, void *arg,
                              struct hsp_err *err);

struct hsp_store_damage { /* rows that differ from the written ones */
    uint64_t events, metrics;
};
/* "damaged lines are left out: 2 of events, 1 of metrics". */
#define HSP_DAMAGE_TEXT 120
void hsp_store_damage_text(const struct hsp_store_damage *d, char ret[HSP_DAMAGE_TEXT]);

/* Deletes the damaged events and metrics, so that nobody reads wrong lines. The store stays in use,
 * since its other rows matter more than these lines. The function reads all events and metrics, a
 * thousand at a time; other calls go on in between. HSP_EIO, HSP_ENOSPC: some damaged lines may be
 * left. */
enum hsp_status hsp_store_clean(struct hsp_store *s, struct hsp_store_damage *ret,
                                struct hsp_err *err);
/* Reads every page: a tenth of a second for 100,000 events and as many metrics. HSP_EDIGEST: lines
 * may be missing, and new rows may fail or be written over others; the message names the finding.
 * HSP_EIO. */
enum hsp_status hsp_store_pages(struct hsp_store *s, struct hsp_err *err);
/* Reads every page, cleans it, then reads every row as hsp_store_load does. HSP_EDIGEST: damaged;
 * HSP_EIO, HSP_ENOSPC. */
enum hsp_status hsp_store_verify(struct hsp_store *s, struct hsp_store_damage *ret,
                                 struct hsp_err *err);
/* Writes a copy of the whole store to @path, mode 0600, replacing a present file, and syncs it.
 * Other calls go on meanwhile: each of their commits is wholly in the copy, or not at all. The copy
 * is verified: HSP_EDIGEST. Also HSP_EIO, HSP_EPERM, HSP_ENOSPC, HSP_ENOMEM. After an error nothing
 * is left at @path. */
enum hsp_status hsp_store_backup(struct hsp_store *s, const char *path,
                                 struct hsp_store_damage *ret, struct hsp_err *err);

struct hsp_store_metric {
    uint32_t job; /* its number */
    uint64_t step, epoch;
    const char *json;
};

/* Appends events (ascending) and puts metrics in one transaction. For each step the store keeps the
 * first line of the newest epoch: if a later epoch runs the step again, its line replaces the old
 * one; if the same epoch reports the step again, the second line is dropped. */
enum hsp_status hsp_store_feed_add(struct hsp_store *s, const struct hsp_store_event *e, size_t n,
                                   const struct hsp_store_metric *m, size_t n_metrics,
                                   struct hsp_err *err);
/* Highest sequence number, 0 when empty. */
uint64_t hsp_store_events_last(struct hsp_store *s);

/* Calls @fn for at most @limit lines, in ascending order: hsp_store_events for events with a number
 * above @since (of @job, or of all if @job is 0), hsp_store_metrics for metrics of @job from step
 * @since on. Damaged lines are left out. @epoch is 0 for events. */
typedef void hsp_store_line_fn(void *arg, uint64_t number, uint64_t epoch, const char *json);
enum hsp_status hsp_store_events(struct hsp_store *s, uint32_t job, uint64_t since, uint32_t limit,
                                 hsp_store_line_fn *fn, void *arg, struct hsp_err *err);
enum hsp_status hsp_store_metrics(struct hsp_store *s, uint32_t job, uint64_t since, uint32_t limit,
                                  hsp_store_line_fn *fn, void *arg, struct hsp_err *err);

#endif
