/* A line: "EPOCH STEP {json}\n"; the two numbers in front are for merging. */
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

#include "proto/host/file_io.h"
#include "worker/state/segment_name.h"

#define NOTES_MAX       ((size_t)1 << 30) /* ten million steps */
#define CHANNEL_METRICS 0x7ffffff1u

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

enum hsp_status hsp_metrics_note(const struct hsp_ex_epoch *e, const struct hsp_vote *v,
                                 double seconds, uint32_t sequence, struct hsp_err *err)
{
    char path[PATH_MAX], val[48] = "", of[32] = "", line[512];
    if (v->eval_tokens > 0) {
        (void)snprintf(val, sizeof val, ",\"val_loss\":%s", figure(v->eval_loss).text);
    }
    if (sequence > 0) {
        (void)snprintf(of, sizeof of, ",\"sequence\":%" PRIu32, sequence);
    }
    int n =
        snprintf(line, sizeof line,
                 "%" PRIu64 " %" PRIu64 " {\"step\":%" PRIu64
                 ",\"loss\":%s,\"tokens\":%.17g,\"grad_norm\":%s,\"lr\":%.17g%s,\"seconds\":%.6f"
                 "%s,\"epoch\":%" PRIu64 "}\n",
                 e->number, v->step, v->step, figure(v->loss).text, v->tokens, figure(v->norm).text,
                 v->lr, val, seconds, of, e->number);
    hsp_segname_notes(e->env->state_dir, e->p->job, e->env->device, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) {
        return hsp_err_set(err, HSP_EIO, errno, "cannot open %s", path);
    }
    off_t before = lseek(fd, 0, SEEK_END);
    ssize_t k = write(fd, line, (size_t)n);
    enum hsp_status st = HSP_OK;
    if (k != n) {
        st = hsp_err_set(err, HSP_EIO, k < 0 ? errno : ENOSPC, "cannot write %s", path);
        if (k > 0 && ftruncate(fd, before) != 0) {
            (void)hsp_err_wrap(err, "half a line stays and spoils the next");
        }
    }
    (void)close(fd); /* one write: an error would have shown there */
    return st;
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

/* Puts the notes of rank @r to @all; the result is about the link. */
static enum hsp_status receive(struct hsp_ex_epoch *e, uint32_t r, struct hsp_buf *all,
                               struct hsp_err *err)
{
    struct hsp_comm *comm = e->mesh[HSP_MESH_DATA];
    struct hsp_err why = {0};
    uint64_t n = 0;
    enum hsp_status st = comm->ops->recv(comm, r, CHANNEL_METRICS, &n, sizeof n, err);
    if (st != HSP_OK) {
        return st;
    }
    char *text = n <= NOTES_MAX ? malloc((size_t)n + 1) : NULL;
    if (text == NULL) {
        return hsp_err_nomem(err, "the metrics of rank %u", r);
    }
    st = comm->ops->recv(comm, r, CHANNEL_METRICS, text, (size_t)n, err);
    if (st == HSP_OK && hsp_metrics_add(all, text, (size_t)n, &why) != HSP_OK) {
        go_without(e, r, &why);
    }
    free(text);
    return st;
}

static enum hsp_status send(struct hsp_ex_epoch *e, const uint8_t *text, uint64_t n,
                            struct hsp_err *err)
{
    struct hsp_comm *comm = e->mesh[HSP_MESH_DATA];
    enum hsp_status st = comm->ops->send(comm, 0, CHANNEL_METRICS, &n, sizeof n, err);
    return st == HSP_OK ? comm->ops->send(comm, 0, CHANNEL_METRICS, text, (size_t)n, err) : st;
}

enum hsp_status hsp_metrics_merge(struct hsp_ex_epoch *e, struct hsp_buf *out, struct hsp_err *err)
{
    char path[PATH_MAX];
    uint8_t *mine = NULL;
    size_t len = 0;
    struct hsp_buf all;
    struct hsp_err why = {0};
    hsp_segname_notes(e->env->state_dir, e->p->job, e->env->device, path);
    enum hsp_status st = hsp_file_read_own(path, NOTES_MAX, &mine, &len, &why);
    if (st != HSP_OK && st != HSP_ENOENT) { /* none: this device joined after the last step */
        go_without(e, e->p->rank, &why);
    }
    if (e->p->rank != 0) {
        st = send(e, mine, len, err);
        free(mine);
        return st;
    }
    hsp_buf_init(&all, 2 * NOTES_MAX);
    if (hsp_metrics_add(&all, (const char *)mine, len, &why) != HSP_OK) {
        go_without(e, 0, &why);
    }
    free(mine);
    st = HSP_OK;
    for (uint32_t r = 1; st == HSP_OK && r < e->p->n_ranks; r++) {
        st = receive(e, r, &all, err);
    }
    if (st == HSP_OK) {
        st = merge((char *)(uintptr_t)hsp_buf_cstr(&all), out, err);
    }
    hsp_buf_fini(&all);
    return st;
}
