/* Writes and reads lines of the events feed and of the metrics. */
#include "daemon/app/store/event_line.h"
#include "proto/base/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void hsp_time_format(int64_t unix_ms, char ret[HSP_TIME_TEXT])
{
    time_t s = (time_t)(unix_ms / 1000);
    struct tm tm;
    size_t n =
        gmtime_r(&s, &tm) != NULL ? strftime(ret, HSP_TIME_TEXT - 8, "%Y-%m-%dT%H:%M:%S", &tm) : 0;
    (void)snprintf(ret + n, HSP_TIME_TEXT - n, ".%03dZ", (int)(unix_ms % 1000));
}

/* Seconds between two marks of a trace; negative when one is missing. */
static double between(hsp_msec from, hsp_msec to)
{
    return from != 0 && to >= from ? (double)(to - from) * 1e-3 : -1;
}

void hsp_epoch_line_make(const struct hsp_fact *f, int64_t unix_ms, const char *plan,
                         struct hsp_epoch_line *ret)
{
    const struct hsp_epoch_trace *t = f->trace;
    *ret = (struct hsp_epoch_line){
        .epoch = f->epoch,
        .first_step = f->step,
        .lost_steps = f->lost_steps,
        .transfer_bytes = t->transfer_bytes,
        .passed_on_bytes = t->passed_on_bytes,
        .detect_s = between(t->detect_ms, t->sealed_ms),
        .plan_s = between(t->sealed_ms != 0 ? t->sealed_ms : t->detect_ms, t->planned_ms),
        .prepare_s = between(t->prepare_ms, t->ready_ms),
        .transfer_s = t->transfer_ms * 1e-3,
        .switch_s = between(t->detect_ms, t->first_step_ms)};
    if (ret->plan_s < 0 && t->planned_ms != 0) {
        ret->plan_s = 0; /* was ready before the nodes had sealed */
    }
    hsp_time_format(unix_ms, ret->ts);
    hsp_str_printf(ret->cause, sizeof ret->cause, "%s", f->cause);
    hsp_str_printf(ret->plan, sizeof ret->plan, "%s", plan != NULL ? plan : "");
}

static const struct {
    const char *name;
    size_t at;
} times[] = {
    {"detect_seconds", offsetof(struct hsp_epoch_line, detect_s)},
    {"plan_seconds", offsetof(struct hsp_epoch_line, plan_s)},
    {"prepare_seconds", offsetof(struct hsp_epoch_line, prepare_s)},
    {"transfer_seconds", offsetof(struct hsp_epoch_line, transfer_s)},
    {"switch_seconds", offsetof(struct hsp_epoch_line, switch_s)},
};
#define N_TIMES (sizeof times / sizeof times[0])

static void put_epoch(const struct hsp_epoch_line *l, cJSON *o)
{
    (void)cJSON_AddStringToObject(o, "cause", l->cause);
    (void)cJSON_AddNumberToObject(o, "first_step", (double)l->first_step);
    (void)cJSON_AddNumberToObject(o, "lost_steps", (double)l->lost_steps);
    for (size_t i = 0; i < N_TIMES; i++) {
        double v = *(const double *)(const void *)((const char *)l + times[i].at);
        if (v >= 0) {
            (void)cJSON_AddNumberToObject(o, times[i].name, v);
        }
    }
    (void)cJSON_AddNumberToObject(o, "transfer_bytes", (double)l->transfer_bytes);
    (void)cJSON_AddNumberToObject(o, "passed_on_bytes", (double)l->passed_on_bytes);
    (void)cJSON_AddStringToObject(o, "plan", l->plan);
}

cJSON *hsp_epoch_line_json(const struct hsp_epoch_line *l)
{
    cJSON *o = cJSON_CreateObject();
    (void)cJSON_AddNumberToObject(o, "epoch", (double)l->epoch);
    (void)cJSON_AddStringToObject(o, "ts", l->ts);
    put_epoch(l, o);
    return o;
}

static double number(const cJSON *o, const char *name, double dflt)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsNumber(v) ? v->valuedouble : dflt;
}

static const char *text(const cJSON *o, const char *name)
{
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));
    return s != NULL ? s : "";
}

static uint64_t count(const cJSON *o, const char *name)
{
    double v = number(o, name, 0);
    return v >= 0 && v <= 9007199254740992.0 ? (uint64_t)v : 0;
}

bool hsp_epoch_line_read(const char *json, struct hsp_epoch_line *ret)
{
    if (strstr(json, "\"switch.end\"") == NULL) { /* most lines are not: spare the parser */
        return false;
    }
    cJSON *o = cJSON_Parse(json);
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(o, "data");
    bool ok = data != NULL && strcmp(text(o, "type"), "switch.end") == 0;
    if (ok) {
        *ret = (struct hsp_epoch_line){.epoch = count(o, "epoch"),
                                       .first_step = count(data, "first_step"),
                                       .lost_steps = count(data, "lost_steps"),
                                       .transfer_bytes = count(data, "transfer_bytes"),
                                       .passed_on_bytes = count(data, "passed_on_bytes")};
        for (size_t i = 0; i < N_TIMES; i++) {
            *(double *)(void *)((char *)ret + times[i].at) = number(data, times[i].name, -1);
        }
        (void)snprintf(ret->ts, sizeof ret->ts, "%s", text(o, "ts"));
        hsp_str_printf(ret->cause, sizeof ret->cause, "%s", text(data, "cause"));
        hsp_str_printf(ret->plan, sizeof ret->plan, "%s", text(data, "plan"));
    }
    cJSON_Delete(o);
    return ok;
}

/* The object as one line; deletes it. */
static enum hsp_status put_line(cJSON *o, struct hsp_buf *out, struct hsp_err *err)
{
    char *line = cJSON_PrintUnformatted(o), *shown = NULL;
    cJSON_Delete(o);
    if (line != NULL) {
        size_t len = strlen(line), n = hsp_str_show(NULL, 0, line, len, false);
        shown = malloc(n + 1);
        if (shown != NULL) {
            (void)hsp_str_show(shown, n + 1, line, len, false);
            hsp_buf_append(out, shown, n);
        }
    }
    bool ok = shown != NULL && !out->failed;
    cJSON_free(line);
    free(shown);
    return ok ? HSP_OK : hsp_err_nomem(err, "a line of the feed");
}

enum hsp_status hsp_feed_event_line(const struct hsp_feed_event *e, struct hsp_buf *out,
                                    struct hsp_err *err)
{
    static const char *const severities[] = {"info", "notice", "warning", "error"};
    const struct hsp_fact *f = e->fact;
    char ts[HSP_TIME_TEXT];
    hsp_time_format(e->unix_ms, ts);
    cJSON *o = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(o, "ts", ts);
    (void)cJSON_AddNumberToObject(o, "seq", (double)e->seq);
    (void)cJSON_AddStringToObject(o, "type", f->type);
    (void)cJSON_AddStringToObject(o, "severity", severities[f->severity]);
    if (e->job[0] != '\0') {
        (void)cJSON_AddStringToObject(o, "job", e->job);
        (void)cJSON_AddNumberToObject(o, "job_id", f->job);
    }
    if (f->node != NULL && f->node[0] != '\0') {
        (void)cJSON_AddStringToObject(o, "node", f->node);
        (void)cJSON_AddNumberToObject(o, "incarnation", (double)f->incarnation);
    }
    if (f->epoch != 0) {
        (void)cJSON_AddNumberToObject(o, "epoch", (double)f->epoch);
    }
    (void)cJSON_AddStringToObject(o, "reason", f->reason != NULL ? f->reason : "");
    cJSON *data = cJSON_AddObjectToObject(o, "data");
    if (f->trace != NULL) {
        struct hsp_epoch_line l;
        hsp_epoch_line_make(f, e->unix_ms, e->plan, &l);
        put_epoch(&l, data);
    } else if (f->cause != NULL && f->cause[0] != '\0') {
        (void)cJSON_AddStringToObject(data, "cause", f->cause);
    }
    if (f->trace == NULL && f->lost_steps > 0) {
        (void)cJSON_AddNumberToObject(data, "first_step", (double)f->step);
        (void)cJSON_AddNumberToObject(data, "lost_steps", (double)f->lost_steps);
    } else if (f->step > 0 && strncmp(f->type, "ckpt.", 5) == 0) {
        (void)cJSON_AddNumberToObject(data, "step", (double)f->step);
    }
    if (f->actor != NULL && f->actor[0] != '\0') {
        (void)cJSON_AddStringToObject(data, "actor", f->actor);
    }
    return put_line(o, out, err);
}

bool hsp_feed_of_ckpt(const char *json)
{
    return strstr(json, "\"type\":\"ckpt.") != NULL; /* in texts quotes are escaped */
}

const char *hsp_feed_word(double v)
{
    return isfinite(v) ? NULL : isnan(v) ? "nan" : v > 0 ? "inf" : "-inf";
}

bool hsp_feed_number(const cJSON *o, const char *key, double *ret)
{
    static const double odd[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    bool found = cJSON_IsNumber(v);
    *ret = found ? v->valuedouble : *ret;
    for (size_t i = 0; !found && cJSON_IsString(v) && i < sizeof odd / sizeof odd[0]; i++) {
        found = strcmp(v->valuestring, hsp_feed_word(odd[i])) == 0;
        *ret = found ? odd[i] : *ret;
    }
    return found;
}

/* With 17 digits. */
static void put_number(struct hsp_buf *out, const char *name, double v)
{
    const char *word = hsp_feed_word(v);
    if (word == NULL) {
        hsp_buf_printf(out, ",\"%s\":%.17g", name, v);
    } else {
        hsp_buf_printf(out, ",\"%s\":\"%s\"", name, word);
    }
}

enum hsp_status hsp_feed_metric_line(const struct hsp_msg *m, struct hsp_buf *out,
                                     struct hsp_err *err)
{
    const struct hsp_m_step *s = &m->u.step;
    hsp_buf_printf(out, "{\"step\":%" PRIu64, s->step);
    put_number(out, "loss", s->loss);
    if (!isnan(s->val_loss)) {
        put_number(out, "val_loss", s->val_loss);
    }
    hsp_buf_printf(out, ",\"tokens\":%" PRIu64, s->tokens);
    put_number(out, "grad_norm", s->grad_norm);
    put_number(out, "lr", s->lr);
    put_number(out, "seconds", s->seconds);
    if (s->sequence > 0) {
        hsp_buf_printf(out, ",\"sequence\":%" PRIu32, s->sequence);
    }
    hsp_buf_printf(out, ",\"epoch\":%" PRIu64 "}", m->epoch);
    return out->failed ? hsp_err_nomem(err, "a line of the metrics") : HSP_OK;
}

bool hsp_feed_metric_read(const char *line, size_t len, struct hsp_msg *ret)
{
    struct hsp_msg m = {.type = HSP_MSG_STEP, .u.step.val_loss = (double)NAN};
    struct hsp_m_step *s = &m.u.step;
    cJSON *o = cJSON_ParseWithLength(line, len);
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(o, "step");
    const cJSON *epoch = cJSON_GetObjectItemCaseSensitive(o, "epoch");
    bool ok = cJSON_IsNumber(step) && cJSON_IsNumber(epoch) && hsp_feed_number(o, "loss", &s->loss);
    s->step = count(o, "step");
    m.epoch = count(o, "epoch");
    s->tokens = count(o, "tokens");
    s->sequence = count(o, "sequence") <= UINT32_MAX ? (uint32_t)count(o, "sequence") : 0;
    (void)hsp_feed_number(o, "val_loss", &s->val_loss); /* the last two may be missing */
    (void)hsp_feed_number(o, "grad_norm", &s->grad_norm);
    (void)hsp_feed_number(o, "lr", &s->lr);
    (void)hsp_feed_number(o, "seconds", &s->seconds);
    cJSON_Delete(o);
    if (ok) {
        *ret = m;
    }
    return ok;
}
