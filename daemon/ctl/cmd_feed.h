/* hspmdctl events, logs, metrics: shows lines as hspmdd sends them.
 *
 * Purity: shell (blocking network calls with the run's --timeout). */
#ifndef HSP_CMD_FEED_H
#define HSP_CMD_FEED_H
#include "daemon/ctl/command.h"

/* Prints a line of the events as a line of text. A line that is no JSON is a deferred error. */
void hsp_event_view(struct hsp_ctl *ctl, const char *line, size_t len);
/* Prints a line of the metrics as a line of the table. A line that is no JSON is a deferred
 * error. */
void hsp_metric_view(struct hsp_ctl *ctl, const char *line, size_t len);

int hsp_cmd_events(struct hsp_ctl *ctl);
int hsp_cmd_logs(struct hsp_ctl *ctl);
int hsp_cmd_metrics(struct hsp_ctl *ctl);

#endif
