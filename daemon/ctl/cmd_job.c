#include "daemon/ctl/cmd_job.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/ctl/away.h"
#include "daemon/ctl/ctl.h"
#include "daemon/ctl/remote.h"
#include "proto/base/size.h"
#include "proto/base/str.h"
#include "proto/op/op.h"

enum { O_MIN, O_MAX }; /* rows of scale_options */
#define POLL_MS 100

enum { O_WITHIN };             /* rows of suspend_options */
enum { O_FROM };               /* rows of resume_options */
enum { O_REASON };             /* rows of drain_options, undrain_options */
enum { O_HOLDER };             /* rows of allow_options */
enum { O_FOR, O_FOR_AT_MOST }; /* rows of wait_options */

/* One request whose answer is yes, perhaps with a remark, or no; then one line. @noun: the kind of
 * the operand. */
static int verb(struct hsp_ctl *ctl, struct hsp_msg *m, const char *noun, const char *done)
{
    struct hsp_err err = {0};
    const char *text;
    size_t len;
    if (hsp_remote_ask(ctl, m, &text, &len, &err) != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    return fprintf(ctl->out, "%s %s %s%s%s\n", noun, ctl->pos[0], done, text[0] != '\0' ? "; " : "",
                   text) > 0
               ? HSP_EXIT_OK
               : HSP_EXIT_FAILED;
}

static struct hsp_msg query(const struct hsp_ctl *ctl, uint16_t type, const char *what)
{
    return (struct hsp_msg){.type = type, .u.query = {.name = ctl->pos[0], .what = what}};
}

int hsp_cmd_cancel(struct hsp_ctl *ctl)
{
    struct hsp_msg m = query(ctl, HSP_MSG_CANCEL, "");
    return verb(ctl, &m, "job", "is cancelled");
}

int hsp_cmd_forget(struct hsp_ctl *ctl)
{
    struct hsp_msg m = query(ctl, HSP_MSG_FORGET, "");
    return verb(ctl, &m, "job", "is forgotten");
}

int hsp_cmd_resume(struct hsp_ctl *ctl)
{
    const char *from = ctl->opt[O_FROM];
    uint64_t step = 0;
    if (from != NULL && !hsp_parse_u64(from, &step)) {
        return hsp_ctl_usage(ctl, "--from %s is not the step of a checkpoint, like 400", from);
    }
    struct hsp_msg m = query(ctl, HSP_MSG_RESUME, from != NULL ? from : "");
    return verb(ctl, &m, "job",
                from == NULL ? "resumes"
                : step == 0  ? "starts again at step 0"
                             : hsp_ctl_text(ctl, "resumes from its checkpoint of step %s", from));
}

/* The job as status shows it: a copy of its object. cJSON_Delete. */
static enum hsp_status job_now(struct hsp_ctl *ctl, cJSON **ret, struct hsp_err *err)
{
    const char *text;
    cJSON *doc = NULL;
    struct hsp_msg m = query(ctl, HSP_MSG_STATUS, "");
    enum hsp_status st = hsp_remote_ask_json(ctl, &m, &text, &doc, err);
    if (st == HSP_OK) {
        cJSON *jobs = cJSON_GetObjectItemCaseSensitive(doc, "jobs");
        *ret = cJSON_DetachItemFromArray(jobs, 0);
        st = *ret != NULL ? HSP_OK
                          : hsp_err_set(err, HSP_ENOENT, 0, "no job %s; hspmdctl status shows all",
                                        ctl->pos[0]);
    }
    cJSON_Delete(doc);
    return st;
}

enum hsp_status hsp_suspend_view(struct hsp_ctl *ctl, const cJSON *job, struct hsp_err *err)
{
    const char *name = ctl->pos[0], *state = hsp_doc_text(job, "state");
    const char *why = hsp_doc_text(job, "reason");
    bool runs = strcmp(state, "running") == 0 || strcmp(state, "switching") == 0;
    if (strcmp(state, "suspended") == 0) {
        bool ok = fprintf(ctl->out, "job %s is suspended %s\n", name, why) > 0;
        return ok ? HSP_OK : hsp_err_set(err, HSP_EIO, 0, "the answer could not be written");
    }
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(job, "suspending"))) {
        return HSP_AGAIN;
    }
    why = why[0] != '\0' ? why : hsp_doc_text(job, "problem");
    hsp_str_printf(ctl->said, sizeof ctl->said, /* whole, as hsp_ctl_fail shows it */
                   "job %s was not suspended and %s%s%s%s; hspmdctl events %s says %s", name,
                   runs ? "trains on" : "is ", runs ? "" : state, why[0] != '\0' ? ": " : "", why,
                   name, why[0] != '\0' ? "more" : "why");
    return hsp_err_set(err, HSP_ESTATE, 0, "%s", ctl->said);
}

/* HSP_OK: it is suspended, its reason is printed; HSP_AGAIN: not yet. */
static enum hsp_status look_suspended(struct hsp_ctl *ctl, struct hsp_err *err)
{
    cJSON *j = NULL;
    enum hsp_status st = job_now(ctl, &j, err);
    st = st == HSP_OK ? hsp_suspend_view(ctl, j, err) : st;
    cJSON_Delete(j);
    return st;
}

/* The job shall go on. A suspension may have ended at this very moment: HSP_OK then. */
static enum hsp_status take_back(struct hsp_ctl *ctl, struct hsp_err *err)
{
    struct hsp_msg back = query(ctl, HSP_MSG_RESUME, "");
    const char *text;
    size_t len;
    enum hsp_status st = hsp_remote_ask(ctl, &back, &text, &len, err);
    if (st == HSP_OK) {
        return hsp_err_set(err, HSP_ETIMEDOUT, 0,
                           "job %s continues: no checkpoint was complete in time; hspmdctl events "
                           "%s shows the reason, --within allows more time",
                           ctl->pos[0], ctl->pos[0]);
    }
    struct hsp_err now;
    if (look_suspended(ctl, &now) == HSP_OK) {
        return HSP_OK;
    }
    return hsp_err_wrap(err,
                        "job %s may be suspended later: its checkpoint was not complete in time, "
                        "and the request to continue could not be sent",
                        ctl->pos[0]);
}

/* hspmdd suspends the job when its checkpoint is complete; here that is waited for. A caller that
 * gives up waiting takes the wish back. */
int hsp_cmd_suspend(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    uint64_t limit_ms = 60000;
    const char *text;
    size_t len;
    if (ctl->opt[O_WITHIN] != NULL && !hsp_parse_ms(ctl->opt[O_WITHIN], &limit_ms)) {
        return hsp_ctl_usage(ctl, "--within %s is not a time like 30s, 2m", ctl->opt[O_WITHIN]);
    }
    struct hsp_msg begin = query(ctl, HSP_MSG_SUSPEND, "");
    enum hsp_status st = hsp_remote_ask(ctl, &begin, &text, &len, &err);
    for (uint64_t waited = 0; st == HSP_OK; waited += POLL_MS) {
        const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
        struct hsp_arena_position mark = hsp_arena_mark(ctl->arena);
        st = look_suspended(ctl, &err);
        if (st != HSP_AGAIN) {
            break;
        }
        if (waited >= limit_ms) {
            st = take_back(ctl, &err);
            break;
        }
        (void)nanosleep(&pause, NULL); /* cut short by a signal: asked a little early */
        hsp_arena_rewind(ctl->arena, mark);
        st = HSP_OK;
    }
    return st == HSP_OK ? HSP_EXIT_OK : hsp_ctl_fail(ctl, &err);
}

static bool take_count(const char *s, uint32_t *ret)
{
    uint64_t v;
    if (s != NULL && (!hsp_parse_u64(s, &v) || v == 0 || v > HSP_MSG_RANKS)) {
        return false;
    }
    *ret = s != NULL ? (uint32_t)v : 0;
    return true;
}

int hsp_cmd_scale(struct hsp_ctl *ctl)
{
    struct hsp_msg m = {.type = HSP_MSG_SCALE, .u.scale = {.name = ctl->pos[0]}};
    if (!take_count(ctl->opt[O_MIN], &m.u.scale.min) ||
        !take_count(ctl->opt[O_MAX], &m.u.scale.max) ||
        (m.u.scale.min == 0 && m.u.scale.max == 0)) {
        return hsp_ctl_usage(ctl, "scale needs --min N, --max N or both, from 1 to %u",
                             HSP_MSG_RANKS);
    }
    char done[64];
    uint32_t min = m.u.scale.min, max = m.u.scale.max, n = max != 0 ? max : min;
    if (min != 0 && max != 0) {
        (void)snprintf(done, sizeof done, "may use %u to %u devices", min, max);
    } else {
        (void)snprintf(done, sizeof done, "%s %u device%s at %s", max != 0 ? "may use" : "needs", n,
                       n == 1 ? "" : "s", max != 0 ? "most" : "least");
    }
    return verb(ctl, &m, "job", done);
}

int hsp_cmd_drain(struct hsp_ctl *ctl)
{
    const char *reason = ctl->opt[O_REASON];
    struct hsp_msg m = {.type = HSP_MSG_DRAIN,
                        .u.drain = {.name = ctl->pos[0], .reason = reason != NULL ? reason : ""}};
    if (reason == NULL || reason[0] == '\0') {
        return hsp_ctl_usage(ctl, "drain needs --reason TEXT");
    }
    return verb(ctl, &m, "node", "gets no new job, and jobs leave it");
}

int hsp_cmd_undrain(struct hsp_ctl *ctl)
{
    const char *reason = ctl->opt[O_REASON];
    struct hsp_msg m = {.type = HSP_MSG_UNDRAIN,
                        .u.drain = {.name = ctl->pos[0], .reason = reason != NULL ? reason : ""}};
    return verb(ctl, &m, "node", "takes jobs again");
}

int hsp_cmd_node_allow(struct hsp_ctl *ctl)
{
    struct hsp_msg m = {.type = HSP_MSG_NODE_ALLOW,
                        .u.nodeallow = {.name = ctl->pos[0], .holder = true}};
    if (ctl->opt[O_HOLDER] == NULL) {
        return hsp_ctl_usage(ctl,
                             "node allow needs --holder: the node may then store copies of state");
    }
    return verb(ctl, &m, "node", "may store copies of state");
}

int hsp_cmd_node_deny(struct hsp_ctl *ctl)
{
    struct hsp_msg m = {.type = HSP_MSG_NODE_ALLOW, .u.nodeallow = {.name = ctl->pos[0]}};
    return verb(ctl, &m, "node", "may store no copies of state");
}

int hsp_cmd_node_remove(struct hsp_ctl *ctl)
{
    struct hsp_msg m = {.type = HSP_MSG_NODE_REMOVE, .u.nodename = {.name = ctl->pos[0]}};
    return verb(ctl, &m, "node", "is removed");
}

/* ---- wait ---- */

static int judge(struct hsp_ctl *ctl, const char *job, const char *text)
{
    struct hsp_err err;
    cJSON *doc;
    if (hsp_doc_parse(text, strlen(text), &doc, &err) != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    const char *state = hsp_doc_text(doc, "state");
    bool failed = strcmp(state, "failed") == 0 || strcmp(state, "cancelled") == 0;
    int rc = failed ? HSP_EXIT_JOB_FAILED : HSP_EXIT_OK;
    if (failed) {
        (void)fprintf(ctl->msg, "hspmdctl: job %s is %s: %s; see hspmdctl events %s\n", job, state,
                      hsp_doc_text(doc, "reason"), job);
    } else if (ctl->format == HSP_FORMAT_JSON) {
        (void)fprintf(ctl->out, "%s\n", text);
    } else {
        (void)fprintf(ctl->out, "job %s is %s at step %.0f\n", job, state,
                      hsp_doc_number(doc, "step"));
    }
    cJSON_Delete(doc);
    return rc;
}

static enum hsp_status tell_held(struct hsp_ctl *ctl, const char *text, struct hsp_err *err)
{
    cJSON *doc;
    enum hsp_status st = hsp_doc_parse(text, strlen(text), &doc, err);
    if (st == HSP_OK) {
        (void)fprintf(ctl->msg, "hspmdctl: job %s is %s at step %.0f: %s\n",
                      hsp_doc_text(doc, "job"), hsp_doc_text(doc, "state"),
                      hsp_doc_number(doc, "step"), hsp_doc_text(doc, "reason"));
        (void)fflush(ctl->msg); /* shown while we wait */
        cJSON_Delete(doc);
    }
    return st;
}

/* Returns the last answer; before it, obstacles of the job are told as they come. */
static enum hsp_status await_answer(struct hsp_ctl *ctl, struct hsp_remote *r, uint32_t wait_ms,
                                    const char **ret, struct hsp_err *err)
{
    size_t len;
    bool more = true;
    enum hsp_status st = HSP_OK;
    while (st == HSP_OK && more) {
        st = hsp_remote_recv(r, wait_ms, ret, &len, &more, err);
        if (st == HSP_OK && more) {
            st = tell_held(ctl, *ret, err);
        }
    }
    return st;
}

/* *ret_there: hspmdd was there, with any outcome. */
static enum hsp_status wait_once(struct hsp_ctl *ctl, struct hsp_msg *m, bool *ret_there,
                                 const char **ret, struct hsp_err *err)
{
    struct hsp_remote *r = NULL;
    uint32_t limit_ms = m->u.query.timeout_ms;
    /* The daemon keeps the time; a little longer here, for its answer. */
    uint32_t wait_ms = limit_ms != 0 && limit_ms < UINT32_MAX / 2 ? limit_ms + 10000 : UINT32_MAX;
    enum hsp_status st = hsp_remote_open(ctl, &r, err);
    *ret_there = st == HSP_OK && !hsp_remote_keyless(r);
    if (st == HSP_OK) {
        st = hsp_remote_send(r, m, err);
    }
    if (st == HSP_OK) {
        st = await_answer(ctl, r, wait_ms, ret, err);
    }
    (void)hsp_remote_close(r);
    return st;
}

/* A restart of hspmdd ends no training, and no wait. */
int hsp_wait_job(struct hsp_ctl *ctl, const char *job, const char *what, uint32_t timeout_ms)
{
    struct hsp_err err = {0};
    const uint64_t end = timeout_ms != 0 ? hsp_away_clock_ms() + timeout_ms : 0;
    struct hsp_away away = {.command = "the wait continues", .until_ms = end};
    const char *text = "";
    bool there;
    struct hsp_msg m = {
        .type = HSP_MSG_WAIT,
        .u.query = {.name = job, .what = what, .timeout_ms = timeout_ms, .follow = true}};
    struct hsp_arena_position mark = hsp_arena_mark(ctl->arena);
    enum hsp_status st = wait_once(ctl, &m, &there, &text, &err);
    while (hsp_away_again(ctl, &away, st, there, &err)) {
        const uint64_t now = hsp_away_clock_ms();
        hsp_arena_rewind(ctl->arena, mark);
        m.u.query.timeout_ms = end == 0 ? 0 : now < end ? (uint32_t)(end - now) : 1;
        st = wait_once(ctl, &m, &there, &text, &err);
    }
    if (hsp_away_is(&away, st, there) && end != 0 && hsp_away_clock_ms() >= end) {
        err.code = HSP_ETIMEDOUT;
    }
    return st == HSP_OK ? judge(ctl, job, text) : hsp_ctl_fail(ctl, &err);
}

static bool can_be_awaited(const char *what)
{
    uint64_t step;
    return strcmp(what, "done") == 0 || strcmp(what, "running") == 0 ||
           (strncmp(what, "step=", 5) == 0 && hsp_parse_u64(what + 5, &step));
}

int hsp_cmd_wait(struct hsp_ctl *ctl)
{
    const char *what = ctl->opt[O_FOR] != NULL ? ctl->opt[O_FOR] : "done";
    const char *limit = ctl->opt[O_FOR_AT_MOST];
    uint64_t ms = 0;
    if (limit != NULL && (!hsp_parse_ms(limit, &ms) || ms == 0 || ms >= UINT32_MAX)) {
        return hsp_ctl_usage(ctl, "timeout %s is not a time like 500ms, 10s, 2m", limit);
    }
    if (!can_be_awaited(what)) {
        return hsp_ctl_usage(ctl, "--for %s: use done, running or step=N", what);
    }
    return hsp_wait_job(ctl, ctl->pos[0], what, (uint32_t)ms);
}
