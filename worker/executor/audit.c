/* The samples are found with the function and the arguments by which the engine finds the samples
 * that it reads (the step sheet, proto/program/sheet.h). */
#include "worker/executor/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "worker/data/documents.h"
#include "worker/state/box_hash.h"

#define LINE_MAX_BYTES  (4u << 20)
#define STATE_MAX_BYTES (64u << 20)
#define FLUSH_NS        INT64_C(20000000) /* a record is written within 20 ms */

/* Returns true if this rank adds its pipeline's tokens to the statistics of the step. */
static bool counts_tokens(const struct hsp_program *p)
{
    for (uint32_t i = 0; i < p->tpl.n_instrs; i++) {
        if (p->tpl.instrs[i].kind == HSP_I_STAT && p->tpl.instrs[i].arg == HSP_STAT_TOKENS) {
            return true;
        }
    }
    return false;
}

static void put_line(const struct hsp_ex_epoch *e, uint64_t step, const struct hsp_sheet *s,
                     struct hsp_buf *out)
{
    const char *comma = "";
    hsp_buf_printf(
        out, "{\"job\":%u,\"epoch\":\"%" PRIu64 "\",\"step\":%" PRIu64 ",\"rank\":%u,\"samples\":[",
        e->p->job, e->number, step, e->p->rank);
    for (uint32_t m = 0; m < s->n_micro; m++) {
        const struct hsp_micro *micro = &s->micro[m];
        uint32_t from = micro->first != NULL ? micro->first[0] : 0;
        uint32_t end = micro->first != NULL ? micro->first[micro->n_seq] : micro->n_seq;
        for (uint32_t i = from; i < end; i++) {
            hsp_buf_printf(out, "%s%" PRIu64, comma,
                           micro->first != NULL ? micro->part[i].sample : micro->sample[i]);
            comma = ",";
        }
    }
    hsp_buf_puts(out, "]}\n");
}

static enum hsp_status append(const struct hsp_ex_epoch *e, const char *ending,
                              const struct hsp_buf *line, struct hsp_err *err)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s-%u.%s", e->env->audit_dir, e->env->node,
                   e->env->device, ending);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) {
        return hsp_err_set(err, HSP_EIO, errno, "cannot open %s", path);
    }
    ssize_t n = write(fd, line->data, line->len);
    enum hsp_status st = n == (ssize_t)line->len
                             ? HSP_OK
                             : hsp_err_set(err, HSP_EIO, errno, "cannot write %s", path);
    (void)close(fd); /* write() has reported any error */
    return st;
}

/* Returns the program that runs or has run last; in a pool of programs this is the program of the
 * step. */
static const struct hsp_program *running(const struct hsp_ex_epoch *e)
{
    return e->engine != NULL ? hsp_engine_program(e->engine) : &e->prog;
}

enum hsp_status hsp_audit_step(const struct hsp_ex_epoch *e, uint64_t step, struct hsp_err *err)
{
    const struct hsp_program *p = running(e);
    struct hsp_corpus corpus;
    struct hsp_sheet sheet;
    struct hsp_buf line;
    if (e->env->audit_dir == NULL || !counts_tokens(p)) {
        return HSP_OK;
    }
    struct hsp_arena *arena = hsp_arena_new(64u << 20);
    enum hsp_status st = arena != NULL ? HSP_OK : hsp_err_nomem(err, "the audit of a step");
    hsp_buf_init(&line, LINE_MAX_BYTES);
    if (st == HSP_OK) {
        st = hsp_dataset_corpus(&e->data->set, &p->bind.data, &corpus, err);
    }
    if (st == HSP_OK && (st = hsp_sheet_train(&p->bind, &corpus, step, arena, &sheet)) != HSP_OK) {
        st = hsp_err_set(err, st, 0, "out of memory for the sheet of step %" PRIu64, step);
    }
    if (st == HSP_OK) {
        put_line(e, step, &sheet, &line);
        st = line.failed
                 ? hsp_err_set(err, HSP_ELIMIT, 0, "an audit line is over %u bytes", LINE_MAX_BYTES)
                 : append(e, "jsonl", &line, err);
    }
    hsp_buf_fini(&line);
    (void)hsp_arena_free(arena);
    return st;
}

/* ---- state ---- */

static void put_list(const char *key, const int64_t *v, uint8_t n, struct hsp_buf *out)
{
    hsp_buf_printf(out, ",\"%s\":[", key);
    for (uint8_t i = 0; i < n; i++) {
        hsp_buf_printf(out, "%s%" PRId64, i > 0 ? "," : "", v[i]);
    }
    hsp_buf_puts(out, "]");
}

static void put_part(const struct hsp_state_segment *s, uint32_t i, struct hsp_buf *out)
{
    static const char *const kinds[] = {"param", "m", "v", "momentum"};
    const struct hsp_segment_row *r = hsp_segment_row_at(s, i);
    const struct hsp_box_id id = {
        .tensor = r->tensor, .kind = r->kind, .dtype = r->dtype, .full = r->full};
    /* The bytes in the segment are hashed here: the hash in the seal may be one that was
     * received. */
    uint64_t hash = hsp_box_hash(&id, &r->box, &r->box, (uint8_t *)hsp_segment_area(s) + r->offset);
    hsp_buf_printf(out, "%s{\"tensor\":%u,\"kind\":\"%s\"", i > 0 ? "," : "", r->tensor,
                   kinds[r->kind]);
    put_list("extent", r->full, r->box.rank, out);
    put_list("from", r->box.lo, r->box.rank, out);
    put_list("to", r->box.hi, r->box.rank, out);
    hsp_buf_printf(out, ",\"hash\":\"%" PRIu64 "\"}", hash);
}

void hsp_audit_state(const struct hsp_ex_epoch *e, uint64_t version, bool begins)
{
    const struct hsp_state_segment *s = hsp_epoch_home(e, version);
    struct hsp_err err = {0};
    struct hsp_buf line;
    if (e->env->audit_dir == NULL || s == NULL || hsp_segment_version(s) != version) {
        return;
    }
    hsp_buf_init(&line, STATE_MAX_BYTES);
    hsp_buf_printf(&line,
                   "{\"job\":%u,\"epoch\":\"%" PRIu64 "\",\"version\":%" PRIu64
                   ",\"rank\":%u,\"begins\":%s,\"state\":[",
                   e->p->job, e->number, version, e->p->rank, begins ? "true" : "false");
    for (uint32_t i = 0; i < hsp_segment_n(s); i++) {
        put_part(s, i, &line);
    }
    hsp_buf_puts(&line, "]}\n");
    enum hsp_status st = line.failed ? hsp_err_set(&err, HSP_ELIMIT, 0, "the line is too long")
                                     : append(e, "state", &line, &err);
    if (st != HSP_OK) {
        hsp_log(e->env->log, HSP_LOG_WARN, "executor",
                "state of version %" PRIu64 " is not noted: %s", version, err.msg);
    }
    hsp_buf_fini(&line);
}

void hsp_audit_memory(const struct hsp_ex_epoch *e)
{
    struct hsp_err err = {0};
    struct hsp_buf line;
    if (e->env->audit_dir == NULL || e->env->backend->device) {
        return;
    }
    hsp_buf_init(&line, LINE_MAX_BYTES);
    hsp_buf_printf(&line,
                   "{\"job\":%u,\"epoch\":\"%" PRIu64 "\",\"rank\":%u,\"pid\":%d,\"at\":\"%" PRIuPTR
                   "\",\"bytes\":%" PRId64 "}\n",
                   e->p->job, e->number, e->p->rank, (int)getpid(), (uintptr_t)e->dev.state,
                   e->prog.bind.state_bytes);
    if (append(e, "memory", &line, &err) != HSP_OK) {
        hsp_log(e->env->log, HSP_LOG_WARN, "executor", "the memory of the state is not noted: %s",
                err.msg);
    }
    hsp_buf_fini(&line);
}

/* ---- activity ---- */

/* Returns the kind of the segment that has instruction @instr. */
static uint32_t segment_kind(const struct hsp_template *t, uint32_t instr)
{
    for (uint32_t s = 0; s < t->n_segments; s++) {
        const struct hsp_segment *seg = &t->segments[s];
        uint32_t last = seg->first_piece + seg->n_pieces;
        if (seg->n_pieces > 0 && instr >= t->pieces[seg->first_piece].first &&
            instr < t->pieces[last - 1].first + t->pieces[last - 1].n) {
            return seg->kind;
        }
    }
    return UINT32_MAX;
}

/* Writes the records that hsp_audit_instr has collected. */
static void flush_audit(struct hsp_ex_epoch *e)
{
    char path[PATH_MAX];
    struct hsp_activity *a = &e->activity;
    (void)snprintf(path, sizeof(path), "%s/%s-%u.activity", e->env->audit_dir, e->env->node,
                   e->env->device);
    int fd = a->n > 0 ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    if (fd >= 0) {
        ssize_t k = write(fd, a->record, a->n * sizeof(a->record[0]));
        (void)k; /* after a failed write the training goes on (audit.h) */
        (void)close(fd);
    }
    a->n = 0;
}

void hsp_audit_instr(struct hsp_ex_epoch *e, uint32_t instr)
{
    struct hsp_activity *a = &e->activity;
    const struct hsp_template *t = &running(e)->tpl;
    if (e->env->audit_dir == NULL || t->instrs[instr].queue != HSP_QUEUE_COMPUTE) {
        return;
    }
    a->record[a->n++] = (struct hsp_activity_record){
        .ns = hsp_clock_ns(), .epoch = (uint32_t)e->number, .segment = segment_kind(t, instr)};
    if (a->n == HSP_ACTIVITY_RECORDS || a->record[a->n - 1].ns - a->record[0].ns > FLUSH_NS) {
        flush_audit(e);
    }
}
