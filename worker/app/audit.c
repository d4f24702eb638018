/* See audit.h. The samples come from the step sheet the engine reads: same function, same
 * arguments. */
#include "worker/app/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_MAX_BYTES (4u << 20)

/* Whether this rank adds its stream's tokens to the step's statistics. */
static bool counts_tokens(const struct hsp_program *p)
{
    for (uint32_t i = 0; i < p->tpl.n_instrs; i++) {
        if (p->tpl.instrs[i].kind == HSP_I_STAT && p->tpl.instrs[i].arg == HSP_STAT_TOKENS) {
            return true;
        }
    }
    return false;
}

static void put_line(const struct hsp_epoch *e, uint64_t step, const struct hsp_sheet *s,
                     struct hsp_buf *out)
{
    const char *comma = "";
    hsp_buf_printf(
        out, "{\"job\":%u,\"epoch\":\"%" PRIu64 "\",\"step\":%" PRIu64 ",\"rank\":%u,\"samples\":[",
        e->p->job, e->number, step, e->p->rank);
    for (uint32_t m = 0; m < s->n_micro; m++) {
        for (uint32_t i = 0; i < s->micro[m].n_seq; i++) {
            hsp_buf_printf(out, "%s%" PRIu64, comma, s->micro[m].sample[i]);
            comma = ",";
        }
    }
    hsp_buf_puts(out, "]}\n");
}

static enum hsp_status append(const struct hsp_epoch *e, const struct hsp_buf *line,
                              struct hsp_err *err)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s-%u.jsonl", e->env->audit_dir, e->env->node,
                   e->env->device);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) {
        return hsp_err_set(err, HSP_EIO, errno, "cannot open %s", path);
    }
    ssize_t n = write(fd, line->data, line->len);
    enum hsp_status st = n == (ssize_t)line->len
                             ? HSP_OK
                             : hsp_err_set(err, HSP_EIO, errno, "cannot write %s", path);
    (void)close(fd); /* one write: an error would have shown there */
    return st;
}

enum hsp_status hsp_audit_step(const struct hsp_epoch *e, uint64_t step, struct hsp_err *err)
{
    struct hsp_corpus corpus;
    struct hsp_sheet sheet;
    struct hsp_buf line;
    if (e->env->audit_dir == NULL || !counts_tokens(&e->prog)) {
        return HSP_OK;
    }
    struct hsp_arena *arena = hsp_arena_new(64u << 20);
    enum hsp_status st = arena != NULL ? HSP_OK : hsp_err_set(err, HSP_ENOMEM, 0, "out of memory");
    hsp_buf_init(&line, LINE_MAX_BYTES);
    if (st == HSP_OK) {
        st = hsp_corpus_init(&e->prog.bind.data, e->text.n_bytes, &corpus, err);
    }
    if (st == HSP_OK &&
        (st = hsp_sheet_train(&e->prog.bind, &corpus, step, arena, &sheet)) != HSP_OK) {
        st = hsp_err_set(err, st, 0, "out of memory for the sheet of step %" PRIu64, step);
    }
    if (st == HSP_OK) {
        put_line(e, step, &sheet, &line);
        st = line.failed
                 ? hsp_err_set(err, HSP_ELIMIT, 0, "an audit line is over %u bytes", LINE_MAX_BYTES)
                 : append(e, &line, err);
    }
    hsp_buf_fini(&line);
    (void)hsp_arena_free(arena);
    return st;
}
