/* Takes the snapshot that /metrics shows: views of the core, of the jobs' table and of this
 * process.
 *
 * Role:   counts while the daemon runs; http/prometheus.c makes the text.
 * Purity: shell (clock, /proc).
 */
#ifndef HSP_METRICS_COLLECT_H
#define HSP_METRICS_COLLECT_H
#include "daemon/app/http/httpd.h"
#include "daemon/app/state/job_table.h"

extern const struct hsp_httpd_calls hsp_app_http_calls; /* ctx: struct hsp_app * */

/* Counts fact @f of job @j; NULL: of no job. */
void hsp_app_count_fact(struct hsp_app *a, struct hsp_app_job *j, const struct hsp_fact *f);
/* Charges the time since the last call to the present activity of each job. */
void hsp_app_count_time(struct hsp_app *a);

#endif
