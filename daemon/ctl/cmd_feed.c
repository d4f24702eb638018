#include "daemon/ctl/cmd_feed.h"

#include <string.h>

#include "daemon/ctl/away.h"
#include "daemon/ctl/ctl.h"
#include "daemon/ctl/remote.h"
#include "proto/base/str.h"

/* rows of the option tables of these commands; metrics has --all in the place of --follow */
enum { O_SINCE, O_FOLLOW, O_ALL = O_FOLLOW };

typedef void line_fn(struct hsp_ctl *ctl, const char *line, size_t len);

/* A line as JSON. NULL: it is none, or there is no memory, which is a deferred error of the
 * answer. */
static cJSON *parse(struct hsp_ctl *ctl, const char *line, size_t len)
{
    struct hsp_err err;
    cJSON *o;
    if (hsp_doc_parse(line, len, &o, &err) != HSP_OK) {
        hsp_ctl_defer_error(ctl, &err);
    }
    return o;
}

/* "     7  2026-11-28 12:00:01.250Z  notice   switch.end job a: epoch 3 runs from step 40 (loss of
 * w2/0)". Words of agents stand behind the colon; type, job, node and actor before it. */
void hsp_event_view(struct hsp_ctl *ctl, const char *line, size_t len)
{
    cJSON *o = parse(ctl, line, len);
    if (o == NULL) {
        return;
    }
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(o, "data");
    const char *ts = hsp_doc_text(o, "ts"), *t = strchr(ts, 'T');
    int day = t != NULL ? (int)(t - ts) : 0;
    const char *job = hsp_doc_text(o, "job"), *node = hsp_doc_text(o, "node");
    const char *cause = hsp_doc_text(data, "cause"), *actor = hsp_doc_text(data, "actor");
    const char *reason = hsp_doc_text(o, "reason");
    bool alone = reason[0] == '\0' && !hsp_doc_has(data, "switch_seconds"); /* the cause is */
    (void)fprintf(ctl->out, "%6.0f  %.*s %s  %-7s  %s%s%s%s%s%s%s: %s", hsp_doc_number(o, "seq"),
                  day, ts, t != NULL ? t + 1 : ts, hsp_doc_text(o, "severity"),
                  hsp_doc_text(o, "type"), job[0] != '\0' ? " job " : "", job,
                  node[0] != '\0' ? " node " : "", node, actor[0] != '\0' ? " by " : "", actor,
                  alone ? cause : reason);
    const double lost = hsp_doc_number(data, "lost_steps");
    if (hsp_doc_has(data, "switch_seconds")) {
        (void)fprintf(ctl->out, ", %.0f step%s lost, switch %.3g s", lost, lost == 1 ? "" : "s",
                      hsp_doc_number(data, "switch_seconds"));
    }
    bool both = cause[0] != '\0' && !alone;
    (void)fprintf(ctl->out, "%s%s%s\n", both ? " (" : "", both ? cause : "", both ? ")" : "");
    cJSON_Delete(o);
}

static void json_line(struct hsp_ctl *ctl, const char *line, size_t len)
{
    (void)fwrite(line, 1, len, ctl->out);
    (void)fputc('\n', ctl->out);
}

static const char *const metric_keys[] = {"step", "loss",    "val_loss", "tokens",  "grad_norm",
                                          "lr",   "seconds", "epoch",    "sequence"};
#define N_KEYS (sizeof metric_keys / sizeof metric_keys[0])

static const char csv_head[] = "step,loss,val_loss,tokens,grad_norm,lr,seconds,epoch,sequence\n";
static const char metric_head[] =
    "   STEP          LOSS      VAL_LOSS   GRAD_NORM          LR   SECONDS  EPOCH\n";

static void csv_line(struct hsp_ctl *ctl, const char *line, size_t len)
{
    cJSON *o = parse(ctl, line, len);
    for (size_t i = 0; o != NULL && i < N_KEYS; i++) {
        (void)fputs(i > 0 ? "," : "", ctl->out);
        if (hsp_doc_text(o, metric_keys[i])[0] != '\0') {
            (void)fputs(hsp_doc_text(o, metric_keys[i]), ctl->out); /* nan, inf */
        } else if (hsp_doc_has(o, metric_keys[i])) {
            (void)fprintf(ctl->out, "%.17g", hsp_doc_number(o, metric_keys[i]));
        }
    }
    (void)fputc('\n', ctl->out);
    cJSON_Delete(o);
}

static void put_figure(struct hsp_ctl *ctl, const cJSON *o, const char *key, int width)
{
    const char *word = hsp_doc_text(o, key); /* nan, inf */
    if (word[0] != '\0' || !hsp_doc_has(o, key)) {
        (void)fprintf(ctl->out, "%*s", width, word[0] != '\0' ? word : "-");
    } else if (strstr(key, "loss") != NULL) {
        (void)fprintf(ctl->out, "%*.6f", width, hsp_doc_number(o, key));
    } else {
        (void)fprintf(ctl->out, "%*.4g", width, hsp_doc_number(o, key));
    }
}

void hsp_metric_view(struct hsp_ctl *ctl, const char *line, size_t len)
{
    cJSON *o = parse(ctl, line, len);
    if (o == NULL) {
        return;
    }
    static const struct {
        const char *key;
        int width; /* two blanks included */
    } figures[] = {{"loss", 14}, {"val_loss", 14}, {"grad_norm", 12}, {"lr", 12}};
    (void)fprintf(ctl->out, "%7.0f", hsp_doc_number(o, "step"));
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        put_figure(ctl, o, figures[i].key, figures[i].width);
    }
    (void)fprintf(ctl->out, "  %8.3f  %5.0f\n", hsp_doc_number(o, "seconds"),
                  hsp_doc_number(o, "epoch"));
    cJSON_Delete(o);
}

static void each_line(struct hsp_ctl *ctl, const char *text, line_fn *fn)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        fn(ctl, text, n);
        text += n + (text[n] != '\0');
    }
    (void)fflush(ctl->out); /* a follower's reader sees it at once; errors show in ferror */
}

/* The number of the last of these lines, @dflt without any. */
static uint64_t last_number(struct hsp_ctl *ctl, const char *text, uint64_t dflt)
{
    size_t n = strlen(text);
    n -= n > 0 && text[n - 1] == '\n';
    const char *nl = n > 0 ? memrchr(text, '\n', n) : NULL;
    const char *line = nl != NULL ? nl + 1 : text;
    cJSON *o = n > 0 ? parse(ctl, line, n - (size_t)(line - text)) : NULL;
    uint64_t ret = o != NULL ? (uint64_t)hsp_doc_number(o, "seq") : dflt;
    cJSON_Delete(o);
    return ret;
}

struct stream {
    struct hsp_ctl *ctl;
    const char
        *head; /* stands above the lines, NULL nothing; no line is below it when hspmdd refuses */
    line_fn *fn;
    bool there;           /* hspmdd has taken the call */
    struct hsp_away away; /* of a follower */
};

/* Writes all lines that one call brings; those that a follower has seen are not asked for again. */
static enum hsp_status stream(struct stream *s, struct hsp_msg *m, struct hsp_err *err)
{
    struct hsp_ctl *ctl = s->ctl;
    struct hsp_remote *r = NULL;
    bool more = true;
    enum hsp_status st = hsp_remote_open(ctl, &r, err);
    s->there = st == HSP_OK && !hsp_remote_keyless(r);
    if (st == HSP_OK) {
        st = hsp_remote_send(r, m, err);
    }
    while (st == HSP_OK && more && ferror(ctl->out) == 0) {
        const char *text;
        size_t len;
        struct hsp_arena_position mark = hsp_arena_mark(ctl->arena);
        st = hsp_remote_recv(r, m->u.query.follow ? UINT32_MAX : (uint32_t)ctl->timeout_ms, &text,
                             &len, &more, err);
        if (st == HSP_OK) {
            (void)fputs(s->head != NULL ? s->head : "", ctl->out);
            s->head = NULL;
            each_line(ctl, text, s->fn);
            s->away.since_ms = 0;
        }
        if (st == HSP_OK && m->u.query.follow) {
            m->u.query.since = last_number(ctl, text, m->u.query.since);
        }
        hsp_arena_rewind(ctl->arena, mark);
    }
    (void)hsp_remote_close(r);
    return st;
}

static int feed(struct hsp_ctl *ctl, uint16_t type, const char *head, line_fn *fn)
{
    const bool metrics = type == HSP_MSG_METRICS;
    struct hsp_msg m = {.type = type,
                        .u.query = {.name = ctl->n_pos > 0 ? ctl->pos[0] : "",
                                    .what = metrics && ctl->opt[O_ALL] != NULL ? "all" : "",
                                    .follow = !metrics && ctl->opt[O_FOLLOW] != NULL}};
    if (ctl->opt[O_SINCE] != NULL && !hsp_parse_u64(ctl->opt[O_SINCE], &m.u.query.since)) {
        return hsp_ctl_usage(ctl, "--since %s is not the number of %s", ctl->opt[O_SINCE],
                             metrics ? "a step" : "an event, which begins its line");
    }
    struct hsp_err err = {0};
    struct stream s = {.ctl = ctl,
                       .fn = fn,
                       .head = ctl->headers ? head : NULL,
                       .away = {.command = "the events continue"}};
    struct hsp_arena_position mark = hsp_arena_mark(ctl->arena);
    enum hsp_status st = stream(&s, &m, &err);
    while (m.u.query.follow && hsp_away_again(ctl, &s.away, st, s.there, &err)) {
        hsp_arena_rewind(ctl->arena, mark);
        st = stream(&s, &m, &err);
    }
    return st == HSP_OK ? HSP_EXIT_OK : hsp_ctl_fail(ctl, &err);
}

int hsp_cmd_events(struct hsp_ctl *ctl)
{
    return feed(ctl, HSP_MSG_EVENTS, NULL,
                ctl->format == HSP_FORMAT_JSONL ? json_line : hsp_event_view);
}

int hsp_cmd_logs(struct hsp_ctl *ctl)
{
    return feed(ctl, HSP_MSG_LOGS, NULL,
                ctl->format == HSP_FORMAT_JSONL ? json_line : hsp_event_view);
}

int hsp_cmd_metrics(struct hsp_ctl *ctl)
{
    switch (ctl->format) {
    case HSP_FORMAT_JSONL: return feed(ctl, HSP_MSG_METRICS, NULL, json_line);
    case HSP_FORMAT_CSV: return feed(ctl, HSP_MSG_METRICS, csv_head, csv_line);
    default: return feed(ctl, HSP_MSG_METRICS, metric_head, hsp_metric_view);
    }
}
