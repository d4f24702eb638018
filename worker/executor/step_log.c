/* A line in a file: "SUM EPOCH STEP {json}\n"; SUM is the hash of what stands behind it, 16 hex
 * digits, seeded with the number of the job. The next two numbers are for merging. Among devices
 * lines go without sums. An earlier version of this program wrote none: its lines are kept. */
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
#include "proto/host/file_io.h"
#include "worker/state/segment_name.h"

#define NOTES_MAX       ((size_t)1 << 30) /* ten million steps */
#define CHANNEL_METRICS 0x7ffffff1u
#define SUM_CHARS       17u /* and a blank */
#define LINE_MAX_CHARS  (512u + SUM_CHARS)

struct figure {
    char text[40];
};

/* JSON has no numbers but finite ones: others are texts. */
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

/* The line of a step in the file; its length. */
static size_t make_line(const struct hsp_ex_epoch *e, const struct hsp_vote *v, double seconds,
                        uint32_t sequence, char ret[LINE_MAX_CHARS])
{
    char val[48] = "", of[32] = "", *body = ret + SUM_CHARS;
    if (v->eval_tokens > 0) {
        (void)snprintf(val, sizeof val, ",\"val_loss\":%s", figure(v->eval_loss).text);
    }
    if (sequence > 0) {
        (void)snprintf(of, sizeof of, ",\"sequence\":%" PRIu32, sequence);
    }
    int n =
        snprintf(body, LINE_MAX_CHARS - SUM_CHARS,
                 "%" PRIu64 " %" PRIu64 " {\"step\":%" PRIu64
                 ",\"loss\":%s,\"tokens\":%.17g,\"grad_norm\":%s,\"lr\":%.17g%s,\"seconds\":%.6f"
                 "%s,\"epoch\":%" PRIu64 "}\n",
                 e->number, v->step, v->step, figure(v->loss).text, v->tokens, figure(v->norm).text,
                 v->lr, val, seconds, of, e->number);
    const struct sum s = sum_of(e->p->job, body, (size_t)n - 1);
    memcpy(ret, s.text, SUM_CHARS);
    return SUM_CHARS + (size_t)n;
}

/* What a process that was killed has left of its last line; the end of one is its bracket. */
static bool is_torn(const char *line, size_t n)
{
    return memchr(line, '}', n) == NULL;
}

/* Nothing is joined to the last line: where that is torn it goes, where its end is damaged it is
 * ended. False: not so. */
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
    size_t last = nl != NULL ? (size_t)(nl + 1 - tail) : 0; /* where it begins */
    bool whole = nl != NULL || n == (size_t)size;           /* all of it is here */
    return last == n ||
           (whole && is_torn(tail + last, n - last) ? ftruncate(fd, size - (off_t)(n - last)) == 0
                                                    : write(fd, "\n", 1) == 1);
}

enum hsp_status hsp_metrics_note(const struct hsp_ex_epoch *e, const struct hsp_vote *v,
                                 double seconds, uint32_t sequence, struct hsp_err *err)
{
    char path[PATH_MAX], line[LINE_MAX_CHARS];
    size_t n = make_line(e, v, seconds, sequence, line);
    hsp_segname_notes(e->env->state_dir, e->p->job, e->env->device, path);
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) {
        return hsp_err_set(err, HSP_EIO, errno, "cannot open %s", path);
    }
    enum hsp_status st = HSP_OK;
    ssize_t k = end_last_line(fd) ? write(fd, line, n) : -1;
    if (k != (ssize_t)n) { /* the next call removes half a line */
        st = hsp_err_set(err, HSP_EIO, k < 0 ? errno : ENOSPC, "cannot write %s", path);
    }
    (void)close(fd); /* one write: an error would have shown there */
    return st;
}

/* A whole line as an earlier version wrote it, without a sum. It says its epoch and its step twice, so no
 * damage of one character makes one of a line that has a sum. */
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

size_t hsp_metrics_check(uint32_t job, char *text, size_t n, struct hsp_notes_damage *ret)
{
    char *to = text;
    *ret = (struct hsp_notes_damage){0};
    if (n == 0) {
        return 0;
    }
    const char *at = text, *end = text + n;
    for (uint64_t number = 1; at < end; number++) {
        const char *nl = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((nl != NULL ? nl : end) - at);
        size_t body = len > SUM_CHARS ? len - SUM_CHARS : 0;
        const struct sum s = sum_of(job, at + len - body, body);
        if (body > 0 && memcmp(at, s.text, SUM_CHARS) == 0) {
            memmove(to, at + SUM_CHARS, body);
            to += body;
            *to++ = '\n'; /* there is room: the sum is gone */
        } else if (nl != NULL && is_unproven(at, len)) {
            memmove(to, at, len + 1);
            to += len + 1;
            ret->unproven++;
        } else if (nl != NULL || !is_torn(at, len)) {
            ret->first = ret->n++ == 0 ? number : ret->first;
        }
        at += len + 1;
    }
    return (size_t)(to - text);
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

/* Splits @text (changed) into notes; lines that are cut short are passed over. */
static size_t split(char *text, struct note *notes, size_t cap)
{
    size_t n = 0;
    char *save = NULL;
    for (char *l = strtok_r(text, "\n", &save); l != NULL && n < cap;
         l = strtok_r(NULL, "\n", &save)) {
        char *json = strchr(l, '{');
        size_t len = strlen(l);
        if (json != NULL && l[len - 1] == '}' &&
            sscanf(l, "%" SCNu64 " %" SCNu64, &notes[n].epoch, &notes[n].step) == 2) {
            notes[n++].json = json;
        }
    }
    return n;
}

/* Of each step in @text (changed) the note of the newest epoch, in order of steps; free().
 * HSP_ENOMEM:
 * @text is as it was. */
static enum hsp_status newest(char *text, struct note **ret, size_t *ret_n, struct hsp_err *err)
{
    size_t cap = 1, kept = 0;
    for (const char *p = text; *p != '\0'; p++) {
        cap += *p == '\n';
    }
    struct note *notes = calloc(cap, sizeof *notes);
    if (notes == NULL) {
        return hsp_err_nomem(err, "metrics");
    }
    size_t n = split(text, notes, cap);
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

static enum hsp_status merge(char *text, struct hsp_buf *out, struct hsp_err *err)
{
    struct note *notes = NULL;
    size_t n = 0;
    enum hsp_status st = newest(text, &notes, &n, err);
    for (size_t i = 0; st == HSP_OK && i < n; i++) {
        hsp_buf_puts(out, notes[i].json);
        hsp_buf_puts(out, "\n");
    }
    free(notes);
    if (out->nomem) {
        return hsp_err_nomem(err, "metrics");
    }
    return st == HSP_OK && out->failed
               ? hsp_err_set(err, HSP_ELIMIT, 0, "metrics are over %zu bytes", out->max)
               : st;
}

/* Leaves of the notes in @all the newest of each step. On an error they are all there still. */
static enum hsp_status thin(struct hsp_buf *all, struct hsp_err *err)
{
    struct note *notes = NULL;
    size_t n = 0;
    struct hsp_buf kept;
    char *text = (char *)(uintptr_t)hsp_buf_cstr(all); /* ours to change */
    enum hsp_status st = newest(text, &notes, &n, err);
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
    for (size_t i = 0; i < all->len; i++) { /* where split() has cut it */
        all->data[i] = all->data[i] == '\0' ? '\n' : all->data[i];
    }
    hsp_buf_fini(&kept);
    return st;
}

enum hsp_status hsp_metrics_add(struct hsp_buf *all, const char *text, size_t n,
                                struct hsp_err *err)
{
    enum hsp_status st = n > all->max - all->len ? thin(all, err) : HSP_OK;
    if (st != HSP_OK) {
        return st;
    }
    hsp_buf_append(all, text, n);
    st = hsp_buf_status(all);
    all->failed = all->nomem = false; /* the notes so far are kept */
    return st == HSP_OK
               ? st
               : hsp_err_set(err, st, 0, "no room for %zu bytes of notes beside %zu", n, all->len);
}

/* The job ends without the notes of @rank: other devices have noted the same steps. */
static void go_without(const struct hsp_ex_epoch *e, uint32_t rank, const struct hsp_err *why)
{
    hsp_log(e->env->log, HSP_LOG_WARN, "executor", "metrics.jsonl goes without the notes of %s: %s",
            e->pkg.peers[rank].name, why->msg);
}

struct notes {  /* of one device, without sums */
    char *text; /* owned */
    uint64_t n; /* bytes */
    char damage[HSP_NOTES_DAMAGE];
};

/* Puts the notes of rank @r to @all, and to @damage the first that is damaged. */
static void add(struct hsp_ex_epoch *e, uint32_t r, const struct notes *of, struct hsp_buf *all,
                char damage[HSP_NOTES_DAMAGE])
{
    struct hsp_err why = {0};
    if (hsp_metrics_add(all, of->text, (size_t)of->n, &why) != HSP_OK) {
        go_without(e, r, &why);
    }
    if (damage[0] == '\0') {
        memcpy(damage, of->damage, HSP_NOTES_DAMAGE);
        damage[HSP_NOTES_DAMAGE - 1] = '\0'; /* as sent */
    }
}

/* The result is about the link. */
static enum hsp_status receive(struct hsp_ex_epoch *e, uint32_t r, struct notes *ret,
                               struct hsp_err *err)
{
    struct hsp_comm *comm = e->mesh[HSP_MESH_DATA];
    enum hsp_status st = comm->ops->recv(comm, r, CHANNEL_METRICS, &ret->n, sizeof ret->n, err);
    if (st != HSP_OK) {
        return st;
    }
    ret->text = ret->n <= NOTES_MAX ? malloc((size_t)ret->n + 1) : NULL;
    if (ret->text == NULL) {
        return hsp_err_nomem(err, "the metrics of rank %u", r);
    }
    st = comm->ops->recv(comm, r, CHANNEL_METRICS, ret->text, (size_t)ret->n, err);
    return st == HSP_OK
               ? comm->ops->recv(comm, r, CHANNEL_METRICS, ret->damage, sizeof ret->damage, err)
               : st;
}

static enum hsp_status send(struct hsp_ex_epoch *e, const struct notes *mine, struct hsp_err *err)
{
    struct hsp_comm *comm = e->mesh[HSP_MESH_DATA];
    enum hsp_status st = comm->ops->send(comm, 0, CHANNEL_METRICS, &mine->n, sizeof mine->n, err);
    st = st == HSP_OK ? comm->ops->send(comm, 0, CHANNEL_METRICS, mine->text, (size_t)mine->n, err)
                      : st;
    return st == HSP_OK
               ? comm->ops->send(comm, 0, CHANNEL_METRICS, mine->damage, sizeof mine->damage, err)
               : st;
}

/* The notes of this device, none where they cannot be read. */
static void read_own(struct hsp_ex_epoch *e, struct notes *ret)
{
    char path[PATH_MAX], more[48] = "is";
    uint8_t *text = NULL;
    size_t len = 0;
    struct hsp_err why = {0};
    struct hsp_notes_damage d;
    hsp_segname_notes(e->env->state_dir, e->p->job, e->env->device, path);
    enum hsp_status st = hsp_file_read_own(path, NOTES_MAX, &text, &len, &why);
    if (st != HSP_OK && st != HSP_ENOENT) { /* none: this device joined after the last step */
        go_without(e, e->p->rank, &why);
    }
    ret->text = (char *)text;
    ret->n = hsp_metrics_check(e->p->job, ret->text, len, &d);
    if (d.unproven > 0) {
        hsp_log(e->env->log, HSP_LOG_INFO, "executor",
                "metrics: %" PRIu64
                " lines of %s are of an earlier version, without sums: they are "
                "taken as they are",
                d.unproven, path);
    }
    if (d.n > 1) {
        (void)snprintf(more, sizeof more, "and %" PRIu64 " more are", d.n - 1);
    }
    if (d.n > 0) {
        hsp_str_printf(ret->damage, sizeof ret->damage,
                       "%s: line %" PRIu64 " of %s %s damaged, and left out",
                       e->pkg.peers[e->p->rank].name, d.first, path, more); /* cut on purpose */
        hsp_log(e->env->log, HSP_LOG_WARN, "executor", "metrics: %s", ret->damage);
    }
}

/* Rank 0: the notes of all ranks in @all. */
static enum hsp_status gather(struct hsp_ex_epoch *e, const struct notes *mine, struct hsp_buf *all,
                              char damage[HSP_NOTES_DAMAGE], struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    add(e, 0, mine, all, damage);
    for (uint32_t r = 1; st == HSP_OK && r < e->p->n_ranks; r++) {
        struct notes of = {0};
        st = receive(e, r, &of, err);
        if (st == HSP_OK) {
            add(e, r, &of, all, damage);
        }
        free(of.text);
    }
    return st;
}

enum hsp_status hsp_metrics_merge(struct hsp_ex_epoch *e, struct hsp_buf *out,
                                  char damage[HSP_NOTES_DAMAGE], struct hsp_err *err)
{
    struct notes mine = {0};
    struct hsp_buf all;
    damage[0] = '\0';
    read_own(e, &mine);
    if (e->p->rank != 0) {
        enum hsp_status st = send(e, &mine, err);
        free(mine.text);
        return st;
    }
    hsp_buf_init(&all, 2 * NOTES_MAX);
    enum hsp_status st = gather(e, &mine, &all, damage, err);
    free(mine.text);
    if (st == HSP_OK) {
        st = merge((char *)(uintptr_t)hsp_buf_cstr(&all), out, err);
    }
    hsp_buf_fini(&all);
    return st;
}
