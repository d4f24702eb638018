/* @@SENTENCE@@ job_table: purpose to be written.
 *
 * Purity:    shell (libuv, SQLite, clock).
 */
#ifndef HSP_JOB_TABLE_H
#define HSP_JOB_TABLE_H
#include "daemon/app/app.h"

struct hsp_app_job *hsp_app_job_find(struct hsp_app *a, uint32_t id); /* NULL: unknown */
/* Takes over the caller's reference. NULL: no memory. */
struct hsp_app_job *hsp_app_job_add(struct hsp_app *a, uint32_t id, struct hsp_job_rec *rec);
void hsp_app_job_remove(struct hsp_app *a, uint32_t id);
/* Why the rows of a job cannot be read, naming the row; NULL: they can, or there is no such job. */
const char *hsp_app_job_fault(const struct hsp_app *a, uint32_t id);
/* NULL: not kept. Borrowed. */
struct hsp_plan_rec *hsp_app_plan_find(struct hsp_app_job *j, uint64_t no);
bool hsp_app_plan_add(struct hsp_app_job *j, uint64_t no,
                      struct hsp_plan_rec *rec); /* takes over */
void hsp_app_plan_drop(struct hsp_app_job *j, uint64_t no);
void hsp_app_epoch_add(struct hsp_app_job *j, const struct hsp_epoch_line *l);
const char *hsp_app_job_name(struct hsp_app *a, uint32_t id); /* "" unknown */
/* Rows of this room among the stored ones. A job of which one cannot be read is only known as such.
 * HSP_ENOMEM. */
enum hsp_status hsp_app_jobs_load(struct hsp_app *a, const struct hsp_cluster_row *rows, uint32_t n,
                                  struct hsp_err *err);
/* Tells the core, and the log, of jobs that cannot be read. */
void hsp_app_jobs_tell(struct hsp_app *a);
/* What the feed and the metrics tell of jobs that were there before. */
void hsp_app_jobs_recall(struct hsp_app *a);
void hsp_app_jobs_free(struct hsp_app *a);

#endif
