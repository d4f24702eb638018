#include "daemon/ctl/cmd_show.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/command.h"
#include "daemon/ctl/ctl.h"
#include "daemon/ctl/job_load.h"
#include "daemon/ctl/remote.h"
#include "proto/base/str.h"
#include "proto/host/file_io.h"
#include "proto/program/program_dump.h"
#include "proto/program/program_file.h"

enum { O_RANK, O_UNSHARDED }; /* rows of program_options */

#define MAX_PROGRAM_FILE ((size_t)1 << 30)
#define MAX_DUMP         ((size_t)1 << 30)

static enum hsp_status put(struct hsp_ctl *ctl, struct hsp_buf *b, struct hsp_err *err)
{
    if (hsp_buf_status(b) == HSP_ENOMEM) {
        return hsp_err_nomem(err, "the text");
    }
    if (b->failed) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "the text is longer than %zu bytes", b->max);
    }
    return fwrite(b->data, 1, b->len, ctl->out) == b->len
               ? HSP_OK
               : hsp_err_set(err, HSP_EIO, 0, "the answer could not be written");
}

static enum hsp_status show_programs(struct hsp_ctl *ctl, const struct hsp_program_file *f,
                                     struct hsp_err *err)
{
    bool ref = ctl->opt[O_UNSHARDED] != NULL;
    uint64_t first = 0, n = ref ? f->n_ref : f->n, end = n;
    if (ctl->opt[O_RANK] != NULL) {
        if (!hsp_parse_u64(ctl->opt[O_RANK], &first) || first >= n) {
            return hsp_err_set(err, HSP_ENOENT, 0, "no rank %s, the file has %llu",
                               ctl->opt[O_RANK], (unsigned long long)n);
        }
        end = first + 1;
    } else if (n == 0) {
        return hsp_err_set(err, HSP_ENOENT, 0, "the file has no unsharded program");
    }
    enum hsp_status st = HSP_OK;
    for (uint64_t r = first; r < end && st == HSP_OK; r++) {
        struct hsp_buf b;
        hsp_buf_init(&b, MAX_DUMP);
        if (ref) {
            hsp_program_dump(&f->ref[r], &b);
        } else {
            hsp_program_file_dump(f, (uint32_t)r, &b);
        }
        st = put(ctl, &b, err);
        hsp_buf_fini(&b);
    }
    return st;
}

static int show_remote(struct hsp_ctl *ctl, uint16_t type, const char *what)
{
    struct hsp_err err = {0};
    const char *text;
    size_t len;
    struct hsp_msg m = {.type = type, .u.query = {.name = ctl->pos[0], .what = what}};
    enum hsp_status st = hsp_remote_ask(ctl, &m, &text, &len, &err);
    if (st == HSP_OK && fwrite(text, 1, len, ctl->out) != len) {
        st = hsp_err_set(&err, HSP_EIO, 0, "the answer could not be written");
    }
    return st == HSP_OK ? HSP_EXIT_OK : hsp_ctl_fail(ctl, &err);
}

int hsp_cmd_program_show(struct hsp_ctl *ctl)
{
    const char *rank = ctl->opt[O_RANK];
    if (hsp_is_job(ctl->pos[0]) && ctl->opt[O_UNSHARDED] == NULL) {
        return show_remote(ctl, HSP_MSG_PROGRAM, rank != NULL ? rank : "");
    }
    struct hsp_err err = {0};
    struct hsp_program_file f;
    uint8_t *data = NULL;
    size_t len = 0;
    enum hsp_status st = hsp_file_read(ctl->pos[0], MAX_PROGRAM_FILE, &data, &len, &err);
    if (st == HSP_OK) {
        st = hsp_program_file_decode(data, len, ctl->arena, &f, &err);
        st = st == HSP_OK ? st : hsp_err_wrap(&err, "%s", ctl->pos[0]);
    }
    if (st == HSP_OK) {
        st = show_programs(ctl, &f, &err);
    }
    free(data);
    return st == HSP_OK ? HSP_EXIT_OK : hsp_ctl_fail(ctl, &err);
}

int hsp_cmd_plan_show(struct hsp_ctl *ctl)
{
    return show_remote(ctl, HSP_MSG_PROGRAM, "plan");
}

int hsp_cmd_graph_show(struct hsp_ctl *ctl)
{
    if (hsp_is_job(ctl->pos[0])) {
        return show_remote(ctl, HSP_MSG_GRAPH, "");
    }
    struct hsp_err err = {0};
    struct hsp_loaded l;
    struct hsp_buf b;
    hsp_buf_init(&b, MAX_DUMP);
    enum hsp_status st = hsp_load_job(ctl->arena, ctl->pos[0], &l, &err);
    if (st == HSP_OK) {
        hsp_graph_dump(l.g, &b);
        st = put(ctl, &b, &err);
    }
    hsp_buf_fini(&b);
    hsp_loaded_fini(&l);
    return st == HSP_OK ? HSP_EXIT_OK : hsp_ctl_fail(ctl, &err);
}
