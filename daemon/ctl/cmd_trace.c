#include "daemon/ctl/cmd_trace.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "daemon/ctl/ctl.h"
#include "daemon/ctl/remote.h"
#include "proto/base/str.h"
#include "proto/host/file_io.h"

enum { O_OUTPUT, O_STEPS }; /* rows of trace_options */
#define STEPS 3

static double number(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(v) ? v->valuedouble : -1;
}

/* A remark on the trace: the head of the document, which is all before its events. */
static void remark(struct hsp_ctl *ctl, const char *text, size_t len, const char *file)
{
    static const char events[] = ",\n\"traceEvents\":";
    const char *at = memmem(text, len, events, sizeof(events) - 1);
    size_t n = at != NULL ? (size_t)(at - text) : 0;
    char *head = hsp_arena_alloc(ctl->arena, n + 2);
    struct hsp_err err = {0};
    cJSON *doc = NULL;
    if (head == NULL) {
        (void)hsp_err_nomem(&err, "a trace");
        hsp_ctl_defer_error(ctl, &err);
        return;
    }
    memcpy(head, text, n);
    head[n] = '}';
    if (hsp_doc_parse(head, n + 1, &doc, &err) != HSP_OK) {
        hsp_ctl_defer_error(ctl, &err);
        return;
    }
    const cJSON *o = cJSON_GetObjectItemCaseSensitive(doc, "otherData"), *d;
    double first = -1, spans = 0, steps = -1, error = number(o, "clock_error_us");
    cJSON_ArrayForEach(d, cJSON_GetObjectItemCaseSensitive(o, "devices"))
    {
        double done = number(d, "steps");
        spans += number(d, "spans");
        if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(d, "told"))) {
            first = number(d, "first_step");
            steps = steps < 0 || done < steps ? done : steps;
        }
    }
    const int n_devices = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(o, "devices"));
    (void)fprintf(ctl->msg,
                  "hspmdctl: %.0f step%s from step %.0f on, %.0f span%s on %d device%s; clock "
                  "error %s%s%s%s\n",
                  steps < 0 ? 0 : steps, steps == 1 ? "" : "s", first < 0 ? 0 : first, spans,
                  spans == 1 ? "" : "s", n_devices, hsp_s((uint64_t)n_devices),
                  error >= 0 ? "at most " : "", error >= 0 ? hsp_ctl_time(ctl, error) : "unknown",
                  file != NULL ? "; open it with Perfetto or chrome://tracing: " : "",
                  file != NULL ? file : "");
    const char *note = hsp_doc_text(o, "note");
    if (note[0] != '\0') {
        (void)fprintf(ctl->msg, "hspmdctl: incomplete: %s\n", note);
    }
    cJSON_Delete(doc);
}

int hsp_cmd_trace(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    struct hsp_remote *r = NULL;
    const char *text = "", *file = ctl->opt[O_OUTPUT];
    size_t len = 0;
    bool more;
    uint64_t steps = STEPS;
    if (ctl->opt[O_STEPS] != NULL &&
        (!hsp_parse_u64(ctl->opt[O_STEPS], &steps) || steps == 0 || steps > HSP_MSG_STEPS)) {
        return hsp_ctl_usage(ctl, "steps %s is not a number from 1 to %u", ctl->opt[O_STEPS],
                             HSP_MSG_STEPS);
    }
    if (file == NULL && ctl->width > 0) {
        return hsp_ctl_usage(
            ctl, "a trace is a JSON document of megabytes, not for a terminal: give -o FILE");
    }
    struct hsp_msg m = {.type = HSP_MSG_TRACE_JOB,
                        .u.tracejob = {.name = ctl->pos[0], .steps = (uint32_t)steps}};
    enum hsp_status st = hsp_remote_open(ctl, &r, &err);
    if (st == HSP_OK) {
        st = hsp_remote_send(r, &m, &err);
    }
    if (st == HSP_OK) { /* steps take as long as they take; hspmdd knows when none will come */
        st = hsp_remote_recv(r, UINT32_MAX, &text, &len, &more, &err);
    }
    (void)hsp_remote_close(r);
    if (st == HSP_OK && file != NULL) {
        st = hsp_file_write(file, text, len, 0644, &err);
        err.code = st != HSP_OK ? HSP_EIO : HSP_OK; /* no object of hspmdd is missing */
    } else if (st == HSP_OK && fwrite(text, 1, len, ctl->out) != len) {
        st = hsp_err_set(&err, HSP_EIO, 0, "the trace could not be written");
    }
    if (st != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    remark(ctl, text, len, file);
    return HSP_EXIT_OK;
}
