/* Forms the lines of the events feed (conf/events.schema.json: one vocabulary for log, `hspmdctl
 * events` and audit; a number that only grows; JSON lines) and of the metrics.
 *
 * Role:   makes texts of the core's facts and steps, reads back the fields that status shows.
 * Purity: pure. */
#ifndef HSP_EVENT_LINE_H
#define HSP_EVENT_LINE_H
#include <cjson/cJSON.h>

#include "daemon/cluster/cluster.h"

/* RFC 3339 in UTC with milliseconds. */
#define HSP_TIME_TEXT 32
void hsp_time_format(int64_t unix_ms, char ret[HSP_TIME_TEXT]);

struct hsp_feed_event {
    uint64_t seq;
    int64_t unix_ms;
    const char *job;  /* name, "" none */
    const char *plan; /* switch.end: the plan of the epoch, NULL none */
    const struct hsp_fact *fact;
};
/* {"ts","seq","type","severity","job","node","epoch","incarnation","reason","data":{...}}; absent
 * parts are left out. A control character in texts of agents stands there by its code.
 * HSP_ENOMEM. */
enum hsp_status hsp_feed_event_line(const struct hsp_feed_event *e, struct hsp_buf *out,
                                    struct hsp_err *err);

bool hsp_feed_of_ckpt(const char *json); /* the line is about a checkpoint */

/* JSON has no numbers but finite ones: others are texts, "nan", "inf", "-inf". NULL: @v is finite.
 */
const char *hsp_feed_word(double v);
/* Reads either back; false when @o has neither. */
bool hsp_feed_number(const cJSON *o, const char *key, double *ret);

/* {"step","loss","val_loss","tokens","grad_norm","lr","seconds","sequence","epoch"}; numbers with
 * 17 digits, val_loss only when the step validated, sequence only where a pool chose the plan. */
enum hsp_status hsp_feed_metric_line(const struct hsp_msg *m, struct hsp_buf *out,
                                     struct hsp_err *err);

/* Reads the figures of such a line of a worker. False: it is none. */
bool hsp_feed_metric_read(const char *line, size_t len, struct hsp_msg *ret);

/* One line of the epochs table of a job. Times in seconds, negative: not known. */
struct hsp_epoch_line {
    uint64_t epoch, first_step, lost_steps, transfer_bytes, passed_on_bytes;
    char ts[HSP_TIME_TEXT], cause[160], plan[512];
    double detect_s, plan_s, prepare_s, transfer_s, switch_s;
};
void hsp_epoch_line_make(const struct hsp_fact *f, int64_t unix_ms, const char *plan,
                         struct hsp_epoch_line *ret);
cJSON *hsp_epoch_line_json(const struct hsp_epoch_line *l); /* NULL without memory */
/* From a line of the feed; false when it is not a switch.end. */
bool hsp_epoch_line_read(const char *json, struct hsp_epoch_line *ret);

#endif
