/* A line of the file is "SUM EPOCH STEP {json}
 * ". SUM is the hash of the rest of the line in 16 hex digits, seeded with the number of the job.
 * EPOCH and STEP are used to merge files. Lines are gathered at the end of a job without SUM. An
 * earlier version of this program wrote no SUM; its lines are kept. */
#include "worker/executor/step_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/hash.h"
#include "proto/base/str.h"
#include "worker/state/segment_name.h"

#define SUM_CHARS      17u /* with a blank */
#define LINE_MAX_CHARS (512u + SUM_CHARS)

struct figure {
    char text[40];
};

/* Formats @v as JSON. JSON has only finite numbers, so other values become strings. */
static struct figure figure(double v)
{
    struct figure f;
    (void)snprintf(f.text, sizeof f.text, isfinite(v) ? "%.17g" : "\"%g\"", isnan(v) ? fabs(v) : v);
    return f;
}

struct sum {
    char text[SUM_CHARS + 1];
};

static struct sum sum_of(uint32_t job, const char *text, size_t n)
{
    struct sum s;
    (void)snprintf(s.text, sizeof s.text, "%016" PRIx64 " ", hsp_hash64(text, n, job));
    return s;
}

/* The noted values of a step. */
struct step_figures {
    uint64_t step;
    double loss, tokens, norm, lr, val, seconds;
    bool has_val;
    uint32_t sequence; /* 0: no pool */
};

/* Writes the line of a step, in the form of the file, to @ret. Returns the length of the line. */
static size_t make_line(const struct hsp_ex_epoch *e, const struct step_figures *f,
                        char ret[LINE_MAX_CHARS])
{
    char val[48] = "", of[32] = "", *body = ret + SUM_CHARS;
    if (f->has_val) {
        (void)snprintf(val, sizeof val, ",\"val_loss\":%s", figure(f->val).text);
    }
    if (f->sequence > 0) {
        (void)snprintf(of, sizeof of, ",\"sequence\":%" PRIu32, f->sequence);
    }
    int n =
        snprintf(body, LINE_MAX_CHARS - SUM_CHARS,
                 "%" PRIu64 " %" PRIu64 " {\"step\":%" PRIu64
                 ",\"loss\":%s,\"tokens\":%.17g,\"grad_norm\":%s,\"lr\":%.17g%s,\"seconds\":%.6f"
                 "%s,\"epoch\":%" PRIu64 "}\n",
                 e->number, f->step, f->step, figure(f->loss).text, f->tokens, figure(f->norm).text,
                 f->lr, val, f->seconds, of, e->number);
    const struct sum s = sum_of(e->p->job, body, (size_t)n - 1);
    memcpy(ret, s.text, SUM_CHARS);
    return SUM_CHARS + (size_t)n;
}

/* Returns true if @line is the begin of a line whose process was killed while writing: it has no
 * closing bracket. */
static bool is_torn(const char *line, size_t n)
{
    return memchr(line, '}', n) == NULL;
}

/* Prepares the file for appending: removes an incomplete last line, and appends a newline to a last
 * line whose end is damaged. Returns false on failure. */
static bool end_last_line(int fd)
{
    char tail[LINE_MAX_CHARS];
    off_t size = lseek(fd, 0, SEEK_END);
    size_t n = size < (off_t)sizeof tail ? (size_t)size : sizeof tail;
    if (size <= 0) {
        return size == 0;
    }
    if (pread(fd, tail, n, size - (off_t)n) != (ssize_t)n) {
        return false;
    }
    const char *nl = memrchr(tail, '\n', n);
    size_t last = nl != NULL ? (size_t)(nl + 1 - tail) : 0; /* begin of the last line in `tail` */
    bool whole = nl != NULL || n == (size_t)size;           /* `tail` has all of the last line */
    return last == n ||
           (whole && is_torn(tail + last, n - last) ? ftruncate(fd, size - (off_t)(n - last)) == 0
                                                    : write(fd, "\n", 1) == 1);
}

enum hsp_status hsp_notes_append(const struct hsp_ex_epoch *e, const char *text, size_t n,
                                 struct hsp_err *err)
{
    char path[PATH_MAX];
    hsp_segname_notes(e->env->state_dir, e->p->job, e->env->device, path);
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) {
        return hsp_err_set(err, HSP_EIO, errno, "cannot open %s", path);
    }
    enum hsp_status st = HSP_OK;
    ssize_t k = end_last_line(fd) ? write(fd, text, n) : -1;
    if (k != (ssize_t)n) { /* the next call removes an incomplete line */
        st = hsp_err_set(err, HSP_EIO, k < 0 ? errno : ENOSPC, "cannot write %s", path);
    }
    (void)close(fd); /* write() has reported any error */
    return st;
}

enum hsp_status hsp_metrics_note(const struct hsp_ex_epoch *e, const struct hsp_vote *v,
                                 double seconds, uint32_t sequence, struct hsp_err *err)
{
    char line[LINE_MAX_CHARS];
    const struct step_figures f = {.step = v->step,
                                   .loss = v->loss,
                                   .tokens = v->tokens,
                                   .norm = v->norm,
                                   .lr = v->lr,
                                   .val = v->eval_loss,
                                   .has_val = v->eval_tokens > 0,
                                   .seconds = seconds,
                                   .sequence = sequence};
    return hsp_notes_append(e, line, make_line(e, &f, line), err);
}

enum hsp_status hsp_metrics_note_said(const struct hsp_ex_epoch *e, const struct hsp_said_step *s,
                                      struct hsp_err *err)
{
    char line[LINE_MAX_CHARS];
    const struct step_figures f = {.step = s->step,
                                   .loss = s->loss,
                                   .tokens = (double)s->tokens,
                                   .norm = s->grad_norm,
                                   .lr = s->lr,
                                   .val = s->val_loss,
                                   .has_val = !isnan(s->val_loss),
                                   .seconds = s->seconds,
                                   .sequence = s->sequence};
    return hsp_notes_append(e, line, make_line(e, &f, line), err);
}

/* Returns true if @line is a complete line without a checksum, as an earlier version of this
 * program wrote it. Such a line contains its epoch and its step twice, so damage of one character
 * cannot turn a line with a checksum into a line of this form. */
static bool is_unproven(const char *line, size_t n)
{
    char text[LINE_MAX_CHARS], head[96], tail[48];
    uint64_t epoch, step;
    if (n >= sizeof text) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (line[i] < ' ' || line[i] > '~') {
            return false;
        }
    }
    memcpy(text, line, n);
    text[n] = '\0';
    if (sscanf(text, "%20" SCNu64 " %20" SCNu64, &epoch, &step) != 2) {
        return false;
    }
    size_t h = (size_t)snprintf(head, sizeof head,
                                "%" PRIu64 " %" PRIu64 " {\"step\":%" PRIu64 ",\"loss\":", epoch,
                                step, step);
    size_t t = (size_t)snprintf(tail, sizeof tail, ",\"epoch\":%" PRIu64 "}", epoch);
    return n > h + t && memcmp(text, head, h) == 0 && memcmp(text + n - t, tail, t) == 0;
}

bool hsp_notes_next(struct hsp_notes_walk *w, struct hsp_note_line *ret)
{
    if (w->at >= w->end) {
        return false;
    }
    const char *nl = memchr(w->at, '\n', (size_t)(w->end - w->at));
    size_t len = (size_t)((nl != NULL ? nl : w->end) - w->at);
    size_t body = len > SUM_CHARS ? len - SUM_CHARS : 0;
    const struct sum s = sum_of(w->job, w->at + len - body, body);
    *ret = (struct hsp_note_line){.raw = w->at, .raw_len = len, .body = w->at, .len = len};
    if (body > 0 && memcmp(w->at, s.text, SUM_CHARS) == 0) {
        ret->as = HSP_NOTE_PROVEN;
        ret->body = w->at + SUM_CHARS;
        ret->len = body;
    } else if (nl != NULL && is_unproven(w->at, len)) {
        ret->as = HSP_NOTE_UNPROVEN;
    } else {
        ret->as = nl != NULL || !is_torn(w->at, len) ? HSP_NOTE_DAMAGED : HSP_NOTE_TORN;
    }
    w->at += len + 1;
    return true;
}

size_t hsp_metrics_check(uint32_t job, char *text, size_t n, struct hsp_notes_damage *ret)
{
    char *to = text;
    *ret = (struct hsp_notes_damage){0};
    if (n == 0) {
        return 0;
    }
    struct hsp_notes_walk w = {job, text, text + n};
    struct hsp_note_line l;
    for (uint64_t number = 1; hsp_notes_next(&w, &l); number++) {
        if (l.as == HSP_NOTE_PROVEN || l.as == HSP_NOTE_UNPROVEN) {
            memmove(to, l.body, l.len);
            to += l.len;
            *to++ = '\n'; /* there is room: a sum was removed, or the newline was there */
        }
        ret->unproven += l.as == HSP_NOTE_UNPROVEN;
        if (l.as == HSP_NOTE_DAMAGED) {
            ret->first = ret->n++ == 0 ? number : ret->first;
        }
    }
    return (size_t)(to - text);
}

/* Reads the figure @key as make_line writes it. Returns NAN if the figure is missing. */
static double figure_of(const char *json, const char *key)
{
    const char *at = strstr(json, key);
    at = at != NULL ? at + strlen(key) : "nan";
    return strtod(at + (*at == '"'), NULL);
}

/* Reads the figure @key, which is a count of at most @most. */
static uint64_t count_of(const char *json, const char *key, uint64_t most)
{
    double v = figure_of(json, key);
    return v >= 0 && v < (double)most ? (uint64_t)v : 0;
}

bool hsp_metrics_said(const char *line, size_t n, struct hsp_said_step *ret)
{
    char text[LINE_MAX_CHARS];
    const char *json = memchr(line, '{', n);
    size_t len = json != NULL ? n - (size_t)(json - line) : 0;
    if (len == 0 || len >= sizeof text) {
        return false;
    }
    memcpy(text, json, len);
    text[len] = '\0';
    *ret =
        (struct hsp_said_step){.step = count_of(text, "\"step\":", UINT64_MAX),
                               .tokens = count_of(text, "\"tokens\":", UINT64_MAX),
                               .loss = figure_of(text, "\"loss\":"),
                               .val_loss = figure_of(text, "\"val_loss\":"),
                               .grad_norm = figure_of(text, "\"grad_norm\":"),
                               .lr = figure_of(text, "\"lr\":"),
                               .seconds = figure_of(text, "\"seconds\":"),
                               .sequence = (uint32_t)count_of(text, "\"sequence\":", UINT32_MAX)};
    return true;
}

struct note {
    uint64_t epoch, step;
    const char *json;
};

static int by_step(const void *a, const void *b)
{
    const struct note *x = a, *y = b;
    if (x->step != y->step) {
        return x->step < y->step ? -1 : 1;
    }
    return x->epoch < y->epoch ? -1 : x->epoch > y->epoch;
}

/* Returns true if the note counts, i.e. PREPARE @p does not name its step and epoch as given up. */
static bool counts(const struct hsp_m_prepare *p, const struct note *n)
{
    return hsp_cuts_allow_metrics(p->cuts, p->n_cuts, n->epoch, n->step);
}

/* Splits @text into notes, leaving out notes that do not count by @p; changes @text. Incomplete
 * lines are ignored. */
static size_t split(char *text, const struct hsp_m_prepare *p, struct note *notes, size_t cap)
{
    size_t n = 0;
    char *save = NULL;
    for (char *l = strtok_r(text, "\n", &save); l != NULL && n < cap;
         l = strtok_r(NULL, "\n", &save)) {
        char *json = strchr(l, '{');
        size_t len = strlen(l);
        if (json != NULL && l[len - 1] == '}' &&
            sscanf(l, "%" SCNu64 " %" SCNu64, &notes[n].epoch, &notes[n].step) == 2 &&
            counts(p, &notes[n])) {
            notes[n++].json = json;
        }
    }
    return n;
}

/* Lists for each step in @text the note of the newest epoch that counts by @p, in order of steps.
 * Changes @text. The caller frees the list. Returns HSP_ENOMEM; then @text is unchanged. */
static enum hsp_status newest(char *text, const struct hsp_m_prepare *p, struct note **ret,
                              size_t *ret_n, struct hsp_err *err)
{
    size_t cap = 1, kept = 0;
    for (const char *at = text; *at != '\0'; at++) {
        cap += *at == '\n';
    }
    struct note *notes = calloc(cap, sizeof *notes);
    if (notes == NULL) {
        return hsp_err_nomem(err, "metrics");
    }
    size_t n = split(text, p, notes, cap);
    qsort(notes, n, sizeof *notes, by_step);
    for (size_t i = 0; i < n; i++) {
        if (i + 1 == n || notes[i + 1].step != notes[i].step) {
            notes[kept++] = notes[i];
        }
    }
    *ret = notes;
    *ret_n = kept;
    return HSP_OK;
}

/* Writes to @ret the steps below @steps that have no note, as "3 of 700 steps: 17, 30 to 31"; "" if
 * all have notes. */
static void tell_gaps(const struct note *notes, size_t n, uint64_t steps, char *ret, size_t max)
{
    char which[HSP_NOTES_DAMAGE] = "";
    size_t used = 0;
    uint64_t at = 0, lacking = 0;
    for (size_t i = 0; i <= n && at < steps; i++) {
        uint64_t next = i < n && notes[i].step < steps ? notes[i].step : steps;
        if (next > at) {
            lacking += next - at;
            int k = next - at == 1
                        ? snprintf(which + used, sizeof which - used, "%s%" PRIu64,
                                   used > 0 ? ", " : "", at)
                        : snprintf(which + used, sizeof which - used, "%s%" PRIu64 " to %" PRIu64,
                                   used > 0 ? ", " : "", at, next - 1);
            used += (size_t)k < sizeof which - used ? (size_t)k : sizeof which - used - 1;
        }
        at = next + 1;
    }
    ret[0] = '\0';
    if (lacking > 0) { /* a long list may be cut */
        hsp_str_printf(ret, max, "%" PRIu64 " of %" PRIu64 " steps: %s", lacking, steps, which);
    }
}

enum hsp_status hsp_metrics_newest(char *text, const struct hsp_m_prepare *p, struct hsp_buf *out,
                                   char ret_lacking[HSP_NOTES_DAMAGE], struct hsp_err *err)
{
    struct note *notes = NULL;
    size_t n = 0;
    enum hsp_status st = newest(text, p, &notes, &n, err);
    for (size_t i = 0; st == HSP_OK && i < n; i++) {
        hsp_buf_puts(out, notes[i].json);
        hsp_buf_puts(out, "\n");
    }
    if (st == HSP_OK) {
        tell_gaps(notes, n, p->steps, ret_lacking, HSP_NOTES_DAMAGE);
    }
    free(notes);
    if (out->nomem) {
        return hsp_err_nomem(err, "metrics");
    }
    return st == HSP_OK && out->failed
               ? hsp_err_set(err, HSP_ELIMIT, 0, "metrics are over %zu bytes", out->max)
               : st;
}

/* Turns the lines of @text, a file metrics.jsonl, into notes; leaves out steps from @steps on and
 * lines of another form. */
static void put_notes(const char *text, uint64_t steps, struct hsp_buf *notes)
{
    for (size_t len; *text != '\0'; text += len + (text[len] == '\n')) {
        char json[LINE_MAX_CHARS], line[LINE_MAX_CHARS];
        len = strcspn(text, "\n");
        (void)snprintf(json, sizeof json, "%.*s", len < sizeof json ? (int)len : 0, text);
        uint64_t step = count_of(json, "\"step\":", UINT64_MAX);
        int n = snprintf(line, sizeof line, "%" PRIu64 " %" PRIu64 " %s",
                         count_of(json, "\"epoch\":", UINT64_MAX), step, json);
        if (step < steps && is_unproven(line, (size_t)n)) {
            hsp_buf_puts(notes, line);
            hsp_buf_puts(notes, "\n");
        }
    }
}

enum hsp_status hsp_metrics_join(const char *old, const struct hsp_m_prepare *p,
                                 struct hsp_buf *out, char ret_lacking[HSP_NOTES_DAMAGE],
                                 struct hsp_err *err)
{
    char lacking[HSP_NOTES_DAMAGE];
    struct hsp_buf notes, both;
    hsp_buf_init(&notes, 4 * out->max);
    hsp_buf_init(&both, out->max);
    put_notes(old, p->steps, &notes);
    put_notes(hsp_buf_cstr(out), p->steps, &notes);
    const char *text = hsp_buf_cstr(&notes);
    enum hsp_status st = notes.failed
                             ? hsp_err_set(err, hsp_buf_status(&notes), 0, "no room for metrics")
                             : hsp_metrics_newest((char *)(uintptr_t)text, p, &both, lacking, err);
    hsp_buf_fini(&notes);
    if (st != HSP_OK) {
        hsp_buf_fini(&both);
        return st;
    }
    hsp_buf_fini(out);
    *out = both;
    memcpy(ret_lacking, lacking, sizeof lacking);
    return HSP_OK;
}

/* Keeps in @all only the newest note that counts by @p of each step. After an error @all is
 * unchanged. */
static enum hsp_status thin(struct hsp_buf *all, const struct hsp_m_prepare *p, struct hsp_err *err)
{
    struct note *notes = NULL;
    size_t n = 0;
    struct hsp_buf kept;
    char *text = (char *)(uintptr_t)hsp_buf_cstr(all); /* @all owns the text */
    enum hsp_status st = newest(text, p, &notes, &n, err);
    hsp_buf_init(&kept, all->max);
    for (size_t i = 0; st == HSP_OK && i < n; i++) {
        hsp_buf_printf(&kept, "%" PRIu64 " %" PRIu64 " %s\n", notes[i].epoch, notes[i].step,
                       notes[i].json);
    }
    free(notes);
    if (st == HSP_OK && kept.failed) {
        st = hsp_err_set(err, hsp_buf_status(&kept), 0, "out of memory for metrics");
    }
    if (st == HSP_OK) {
        hsp_buf_fini(all);
        *all = kept;
        return HSP_OK;
    }
    for (size_t i = 0; i < all->len; i++) { /* restores the newlines that split() replaced */
        all->data[i] = all->data[i] == '\0' ? '\n' : all->data[i];
    }
    hsp_buf_fini(&kept);
    return st;
}

enum hsp_status hsp_metrics_add(struct hsp_buf *all, const struct hsp_m_prepare *p, size_t limit,
                                const char *text, size_t n, struct hsp_err *err)
{
    if (n > all->max - all->len) {
        enum hsp_status st = thin(all, p, err);
        if (st != HSP_OK) {
            return st;
        }
        size_t want = n < limit ? 2 * (all->len + n) : limit; /* twice: it grows rarely */
        want = want < limit ? want : limit;
        all->max = all->max > want ? all->max : want;
    }
    hsp_buf_append(all, text, n);
    enum hsp_status st = hsp_buf_status(all);
    all->failed = all->nomem = false; /* the earlier notes are kept */
    return st == HSP_OK
               ? st
               : hsp_err_set(err, st, 0, "no room for %zu bytes of notes beside %zu", n, all->len);
}
