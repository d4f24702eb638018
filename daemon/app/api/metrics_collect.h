/* @@SENTENCE@@ metrics_collect: purpose to be written.
 *
 * Purity:    shell (libuv, SQLite, clock).
 */
#ifndef HSP_METRICS_COLLECT_H
#define HSP_METRICS_COLLECT_H
#include "daemon/app/app.h"

void hsp_app_count_fact(struct hsp_app *a, struct hsp_app_job *j, const struct hsp_fact *f);
/* Charges the time since the last call to what each job was doing. */
void hsp_app_count_time(struct hsp_app *a);

#endif
