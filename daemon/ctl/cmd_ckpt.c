#include "daemon/ctl/cmd_ckpt.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/ctl/ctl.h"
#include "daemon/ctl/remote.h"
#include "daemon/ctl/table.h"
#include "daemon/ctl/worker_call.h"
#include "proto/base/size.h"

#define MOST_TOLD 16u /* steps in a line */

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
                   "job %s saves a checkpoint at the next step; hspmdctl ckpt list %s shows it\n",
                   ctl->pos[0], ctl->pos[0]) > 0
               ? HSP_EXIT_OK
               : HSP_EXIT_FAILED;
}

/* ---- list ---- */

struct on_disk {
    uint64_t step;
    bool counts; /* one of that step does: it was not given up */
};
struct seen {           /* checkpoints that nodes see on disk now */
    struct on_disk *at; /* steps ascending, each once, in the arena; NULL: not known */
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

/* "version 40 of epoch 1, complete, given-up, seen by a": names have no blanks. */
static bool is_given_up(const cJSON *line)
{
    return strstr(hsp_doc_text(line, "reason"), ", given-up, ") != NULL;
}

static int ascending(const void *a, const void *b)
{
    const struct on_disk *x = a, *y = b;
    return (x->step > y->step) - (x->step < y->step);
}

static void make_one_of_each(struct seen *s)
{
    size_t n = 0;
    qsort(s->at, s->n, sizeof *s->at, ascending);
    for (size_t i = 0; i < s->n; i++) {
        if (n > 0 && s->at[n - 1].step == s->at[i].step) {
            s->at[n - 1].counts = s->at[n - 1].counts || s->at[i].counts;
        } else {
            s->at[n++] = s->at[i];
        }
    }
    s->n = n;
}

/* The next line of @*at as a document, NULL without memory; moves @*at behind it. */
static cJSON *next_line(struct hsp_ctl *ctl, const char **at)
{
    struct hsp_err err = {0};
    cJSON *o = NULL;
    size_t n = strcspn(*at, "\n");
    if (hsp_doc_parse(*at, n, &o, &err) != HSP_OK) {
        hsp_ctl_defer_error(ctl, &err);
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
    struct seen s = {.at = hsp_arena_array(ctl->arena, most, sizeof *s.at), .all = true};
    if (s.at == NULL) {
        struct hsp_err err = {0};
        (void)hsp_err_nomem(&err, "the checkpoints on disk");
        hsp_ctl_defer_error(ctl, &err);
        return s;
    }
    while (*lines != '\0') {
        cJSON *o = next_line(ctl, &lines);
        if (is_of(o, "ckpt.on_disk") && step_of(o, &s.at[s.n].step)) {
            s.at[s.n++].counts = !is_given_up(o);
        }
        s.all = s.all && !is_of(o, "ckpt.not_seen") && !is_of(o, "ckpt.not_listed");
        cJSON_Delete(o);
    }
    make_one_of_each(&s);
    return s;
}

static void put_line(struct hsp_ctl *ctl, struct hsp_table *t, const struct seen *s, const cJSON *o)
{
    struct on_disk key = {0};
    const char *type = hsp_doc_text(o, "type"), *what = hsp_doc_text(o, "reason");
    const char *result = type + strcspn(type, ".") + (strchr(type, '.') != NULL);
    if (s->at != NULL && is_of(o, "ckpt.complete") && step_of(o, &key.step)) {
        const struct on_disk *k = bsearch(&key, s->at, s->n, sizeof key, ascending);
        if (k == NULL) {
            result = s->all ? "gone" : "not seen";
            what = hsp_ctl_text(ctl, "%s: was complete, no node sees it now", what);
        } else if (!k->counts) {
            what = hsp_ctl_text(ctl, "%s: given-up", what);
        }
    }
    const char *cells[] = {hsp_doc_text(o, "ts"), result, what};
    hsp_table_row(t, cells);
}

bool hsp_ckpt_view(struct hsp_ctl *ctl, const char *lines)
{
    static const struct hsp_column cols[] = {
        {"TIME", false}, {"RESULT", false}, {"WHAT", HSP_FOLDED}};
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
    if ((st == HSP_OK && job == NULL) || st == HSP_ENOENT) {
        st = hsp_err_set(err, HSP_ENOENT, 0, "no job %s; a folder is given with a /", ctl->pos[0]);
    } else if (st == HSP_OK && path[0] == '\0') {
        st = hsp_err_set(err, HSP_ENOENT, 0,
                         "job %s has no checkpoint.path; of a folder, give its path with a /",
                         ctl->pos[0]);
    } else if (st == HSP_OK) {
        ret->dir = hsp_arena_printf(ctl->arena, "%s/%s", path, hsp_doc_text(job, "name"));
        ret->id = hsp_arena_printf(ctl->arena, "%.0f", hsp_doc_number(job, "id"));
        st = ret->dir != NULL && ret->id != NULL ? HSP_OK
                                                 : hsp_err_nomem(err, "the checkpoint folder");
    }
    cJSON_Delete(doc);
    return st;
}

/* Which of them the job leaves out, as far as hspmdd can tell: nothing where it cannot. */
static void tell_given_up(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    struct hsp_msg m = question(ctl, "list");
    const char *text = "", *steps = "";
    size_t len, n = 0;
    if (hsp_remote_ask(ctl, &m, &text, &len, &err) != HSP_OK) {
        return;
    }
    const struct seen s = look(ctl, text);
    for (size_t i = s.n; i-- > 0;) {
        if (!s.at[i].counts && n++ < MOST_TOLD) {
            steps = hsp_ctl_text(ctl, "%s%s%" PRIu64, steps, n > 1 ? ", " : "", s.at[i].step);
        }
    }
    if (n > MOST_TOLD) {
        steps = hsp_ctl_text(ctl, "%s and %zu more", steps, n - MOST_TOLD);
    }
    if (n > 0) {
        (void)fprintf(ctl->out,
                      "given-up, because the job resumed from an earlier checkpoint: step %s; only "
                      "hspmdctl resume %s --from STEP uses it\n",
                      steps, ctl->pos[0]);
    }
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
        (void)hsp_err_set(
            &err, HSP_ENOENT, 0,
            "%s is not on this machine (%s); run this command on a worker of the job%s", at.dir,
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
    if (named && ctl->format == HSP_FORMAT_TABLE) {
        tell_given_up(ctl);
    }
    return rc;
}
