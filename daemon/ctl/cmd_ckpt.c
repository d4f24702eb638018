#include "daemon/ctl/cmd_ckpt.h"

#include <errno.h>
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

int hsp_cmd_ckpt_list(struct hsp_ctl *ctl)
{
    static const struct hsp_column cols[] = {{"TIME", false}, {"RESULT", false}, {"WHAT", false}};
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
    struct hsp_table *t = hsp_table_new(ctl, cols, HSP_ARRAY_LEN(cols));
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        cJSON *o;
        if (hsp_doc_parse(text, n, &o, &err) != HSP_OK) {
            hsp_ctl_flaw(ctl, &err);
        }
        const char *type = hsp_doc_text(o, "type");
        const char *cells[] = {hsp_doc_text(o, "ts"),
                               strcmp(type, "ckpt.complete") == 0 ? "complete" : "failed",
                               hsp_doc_text(o, "reason")};
        hsp_table_row(t, cells);
        cJSON_Delete(o);
        text += n + (text[n] != '\0');
    }
    return hsp_table_print(t) ? HSP_EXIT_OK : HSP_EXIT_FAILED;
}

/* ---- verify ---- */

/* The folder of a job's checkpoints, as hspmdd knows it; in the arena. */
static enum hsp_status job_folder(struct hsp_ctl *ctl, const char **ret, bool *ret_shared,
                                  struct hsp_err *err)
{
    struct hsp_msg m = {.type = HSP_MSG_STATUS, .u.query = {.name = ctl->pos[0], .what = ""}};
    const char *text = "";
    cJSON *doc = NULL;
    enum hsp_status st = hsp_remote_ask_json(ctl, &m, &text, &doc, err);
    const cJSON *job = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(doc, "jobs"), 0);
    const char *path = hsp_doc_text(job, "checkpoint_path");
    *ret_shared = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(job, "checkpoint_shared"));
    if (st == HSP_OK && job == NULL) {
        st = hsp_err_set(err, HSP_ENOENT, 0, "no job %s; a folder is given with a /", ctl->pos[0]);
    } else if (st == HSP_OK && path[0] == '\0') {
        st = hsp_err_set(err, HSP_ENOENT, 0, "job %s has no checkpoint.path", ctl->pos[0]);
    } else if (st == HSP_OK) {
        *ret = hsp_arena_printf(ctl->arena, "%s/%s", path, hsp_doc_text(job, "name"));
        st = *ret != NULL ? HSP_OK : hsp_err_nomem(err, "the checkpoint folder");
    }
    cJSON_Delete(doc);
    return st;
}

int hsp_cmd_ckpt_verify(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    const char *dir = ctl->pos[0];
    bool named = strchr(dir, '/') == NULL, shared = false;
    struct stat s;
    if (named && job_folder(ctl, &dir, &shared, &err) != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    if (stat(dir, &s) != 0) {
        int e = errno;
        (void)hsp_err_set(&err, HSP_ENOENT, 0,
                          "%s is not here (%s); run it on a worker of the job%s", dir, strerror(e),
                          shared ? " or where the folder is mounted" : "");
        return hsp_ctl_fail(ctl, &err);
    }
    const char *const args[] = {"--verify-checkpoint", dir,
                                ctl->format == HSP_FORMAT_JSON ? "--json" : NULL, NULL};
    int rc;
    if (hsp_worker_call(ctl, args, &rc, &err) != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    return rc;
}
