#include "daemon/ctl/cmd_ckpt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/ctl/ctl.h"
#include "daemon/ctl/remote.h"
#include "daemon/ctl/table.h"
#include "daemon/ctl/worker_call.h"
#include "proto/base/size.h"

static struct hsp_msg question(const struct hsp_ctl *ctl, const char *what)
{
    return (struct hsp_msg){.type = HSP_MSG_CKPT, .u.query = {.name = ctl->pos[0], .what = what}};
}

int hsp_cmd_ckpt_save(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    struct hsp_msg m = question(ctl, "save");
    const char *text;
    size_t len;
    if (hsp_remote_ask(ctl, &m, &text, &len, &err) != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    return fprintf(ctl->out,
                   "%s saves a checkpoint at the next step; hspmdctl ckpt list shows it\n",
                   ctl->pos[0]) > 0
               ? HSP_EXIT_OK
               : HSP_EXIT_FAILED;
}

/* ---- list ---- */

struct seen {       /* what nodes see on disk now */
    uint64_t *step; /* ascending, in the arena; NULL: not known */
    size_t n;
    bool all; /* and nobody that was asked could not look */
};

/* The step that a line speaks of: "version 40, 512 bytes". */
static bool step_of(const cJSON *line, uint64_t *ret)
{
    static const char before[] = "version ";
    const char *text = hsp_doc_text(line, "reason");
    char *end;
    if (strncmp(text, before, sizeof before - 1) != 0) {
        return false;
    }
    *ret = strtoull(text + sizeof before - 1, &end, 10);
    return end != text + sizeof before - 1;
}

static bool is_of(const cJSON *line, const char *type)
{
    return strcmp(hsp_doc_text(line, "type"), type) == 0;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The next line of @*at as a document, NULL without memory; moves @*at behind it. */
static cJSON *next_line(struct hsp_ctl *ctl, const char **at)
{
    struct hsp_err err = {0};
    cJSON *o = NULL;
    size_t n = strcspn(*at, "\n");
    if (hsp_doc_parse(*at, n, &o, &err) != HSP_OK) {
        hsp_ctl_flaw(ctl, &err);
    }
    *at += n + ((*at)[n] != '\0');
    return o;
}

static struct seen look(struct hsp_ctl *ctl, const char *lines)
{
    size_t most = 1;
    for (const char *at = lines; *at != '\0'; at++) {
        most += *at == '\n';
    }
    struct seen s = {.step = hsp_arena_array(ctl->arena, most, sizeof *s.step), .all = true};
    if (s.step == NULL) {
        struct hsp_err err = {0};
        (void)hsp_err_nomem(&err, "the checkpoints on disk");
        hsp_ctl_flaw(ctl, &err);
        return s;
    }
    while (*lines != '\0') {
        cJSON *o = next_line(ctl, &lines);
        s.n += is_of(o, "ckpt.on_disk") && step_of(o, &s.step[s.n]);
        s.all = s.all && !is_of(o, "ckpt.not_seen") && !is_of(o, "ckpt.not_listed");
        cJSON_Delete(o);
    }
    qsort(s.step, s.n, sizeof *s.step, ascending);
    return s;
}

static void put_line(struct hsp_ctl *ctl, struct hsp_table *t, const struct seen *s, const cJSON *o)
{
    uint64_t step = 0;
    const char *type = hsp_doc_text(o, "type"), *what = hsp_doc_text(o, "reason");
    const char *result = type + strcspn(type, ".") + (strchr(type, '.') != NULL);
    if (s->step != NULL && is_of(o, "ckpt.complete") && step_of(o, &step) &&
        bsearch(&step, s->step, s->n, sizeof step, ascending) == NULL) {
        result = s->all ? "gone" : "not seen";
        what = hsp_ctl_text(ctl, "%s: was complete, no node sees it now", what);
    }
    const char *cells[] = {hsp_doc_text(o, "ts"), result, what};
    hsp_table_row(t, cells);
}

bool hsp_ckpt_view(struct hsp_ctl *ctl, const char *lines)
{
    static const struct hsp_column cols[] = {{"TIME", false}, {"RESULT", false}, {"WHAT", false}};
    const struct seen s = look(ctl, lines);
    struct hsp_table *t = hsp_table_new(ctl, cols, sizeof cols / sizeof cols[0]);
    while (*lines != '\0') {
        cJSON *o = next_line(ctl, &lines);
        put_line(ctl, t, &s, o);
        cJSON_Delete(o);
    }
    return hsp_table_print(t);
}

int hsp_cmd_ckpt_list(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    struct hsp_msg m = question(ctl, "list");
    const char *text;
    size_t len;
    if (hsp_remote_ask(ctl, &m, &text, &len, &err) != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    if (ctl->format == HSP_FORMAT_JSONL) {
        return fwrite(text, 1, len, ctl->out) == len ? HSP_EXIT_OK : HSP_EXIT_FAILED;
    }
    if (len == 0) {
        return fputs("no checkpoints\n", ctl->out) >= 0 ? HSP_EXIT_OK : HSP_EXIT_FAILED;
    }
    return hsp_ckpt_view(ctl, text) ? HSP_EXIT_OK : HSP_EXIT_FAILED;
}

/* ---- verify ---- */

/* Where hspmdd knows a job's checkpoints to be; texts in the arena. */
struct place {
    const char *dir, *id; /* NULL: all jobs */
    bool shared;
};

static enum hsp_status job_folder(struct hsp_ctl *ctl, struct place *ret, struct hsp_err *err)
{
    struct hsp_msg m = {.type = HSP_MSG_STATUS, .u.query = {.name = ctl->pos[0], .what = ""}};
    const char *text = "";
    cJSON *doc = NULL;
    enum hsp_status st = hsp_remote_ask_json(ctl, &m, &text, &doc, err);
    const cJSON *job = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(doc, "jobs"), 0);
    const char *path = hsp_doc_text(job, "checkpoint_path");
    ret->shared = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(job, "checkpoint_shared"));
    if (st == HSP_OK && job == NULL) {
        st = hsp_err_set(err, HSP_ENOENT, 0, "no job %s; a folder is given with a /", ctl->pos[0]);
    } else if (st == HSP_OK && path[0] == '\0') {
        st = hsp_err_set(err, HSP_ENOENT, 0, "job %s has no checkpoint.path", ctl->pos[0]);
    } else if (st == HSP_OK) {
        ret->dir = hsp_arena_printf(ctl->arena, "%s/%s", path, hsp_doc_text(job, "name"));
        ret->id = hsp_arena_printf(ctl->arena, "%.0f", hsp_doc_number(job, "id"));
        st = ret->dir != NULL && ret->id != NULL ? HSP_OK
                                                 : hsp_err_nomem(err, "the checkpoint folder");
    }
    cJSON_Delete(doc);
    return st;
}

int hsp_cmd_ckpt_verify(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    struct place at = {.dir = ctl->pos[0]};
    bool named = strchr(at.dir, '/') == NULL;
    struct stat s;
    if (named && job_folder(ctl, &at, &err) != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    if (stat(at.dir, &s) != 0) {
        int e = errno;
        (void)hsp_err_set(&err, HSP_ENOENT, 0,
                          "%s is not here (%s); run it on a worker of the job%s", at.dir,
                          strerror(e), at.shared ? " or where the folder is mounted" : "");
        return hsp_ctl_fail(ctl, &err);
    }
    const char *args[6] = {"--verify-checkpoint", at.dir};
    size_t n = 2;
    if (at.id != NULL) {
        args[n++] = "--job";
        args[n++] = at.id;
    }
    args[n] = ctl->format == HSP_FORMAT_JSON ? "--json" : NULL;
    int rc;
    if (hsp_worker_call(ctl, args, &rc, &err) != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    return rc;
}
