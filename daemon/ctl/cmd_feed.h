/* @@SENTENCE@@ cmd_feed: purpose to be written.
 *
 * Purity:    shell (blocking network calls with the run's --timeout).
 */
#ifndef HSP_CMD_FEED_H
#define HSP_CMD_FEED_H
#include "daemon/ctl/command.h"

/* A line of the metrics as one of the table of `hspmdctl metrics`; one that is no JSON is a flaw. */
void hsp_metric_view(struct hsp_ctl *ctl, const char *line, size_t len);

int hsp_cmd_events(struct hsp_ctl *ctl);
int hsp_cmd_logs(struct hsp_ctl *ctl);
int hsp_cmd_metrics(struct hsp_ctl *ctl);

#endif
