#include "daemon/ctl/cmd_adopt.h"

#include <string.h>
#include <time.h>

#include "daemon/ctl/ctl.h"
#include "daemon/ctl/remote.h"

#define POLL_MS  200
#define AGAIN_MS 5000

enum { O_FORCE, O_FROM }; /* rows of adopt_options; the first one of discard_options */

/* *ret: whose papers were taken, in the arena of @ctl. */
static enum hsp_status adopt(struct hsp_ctl *ctl, const char *job, const char **ret,
                             struct hsp_err *err)
{
    const char *from = ctl->opt[O_FROM] != NULL ? ctl->opt[O_FROM] : "";
    struct hsp_msg m = {.type = HSP_MSG_ADOPT,
                        .u.adopt = {.job = job, .node = from, .force = ctl->opt[O_FORCE] != NULL}};
    size_t len;
    return hsp_remote_ask(ctl, &m, ret, &len, err);
}

int hsp_cmd_job_adopt(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    const char *whose;
    if (adopt(ctl, ctl->pos[0], &whose, &err) != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    return fprintf(ctl->out, "%s is adopted and goes on from what its agents keep; papers of %s\n",
                   ctl->pos[0], whose) > 0
               ? HSP_EXIT_OK
               : HSP_EXIT_FAILED;
}

/* Writes NUMBER@CLUSTER of the jobs that the node keeps, and that are not on record there, behind each other to
 * @list. */
static enum hsp_status list_kept(struct hsp_ctl *ctl, const cJSON *doc, const char **list,
                                 size_t *n, struct hsp_err *err)
{
    const cJSON *nodes = cJSON_GetObjectItemCaseSensitive(doc, "nodes"), *node, *k;
    cJSON_ArrayForEach(node, nodes)
    {
        const cJSON *keeps = cJSON_GetObjectItemCaseSensitive(node, "keeps");
        bool it = strcmp(hsp_doc_text(node, "name"), ctl->pos[0]) == 0;
        cJSON_ArrayForEach(k, keeps)
        {
            bool on_record = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(k, "on_record"));
            if (it && !on_record && *n < HSP_MSG_KEPT) {
                list[*n] = hsp_arena_printf(ctl->arena, "%.0f@%s", hsp_doc_number(k, "id"),
                                            hsp_doc_text(k, "cluster"));
                if (list[(*n)++] == NULL) {
                    return hsp_err_nomem(err, "the jobs of node %s", ctl->pos[0]);
                }
            }
        }
    }
    return *n > 0 ? HSP_OK
                  : hsp_err_set(err, HSP_ENOENT, 0,
                                "node %s is no agent that keeps jobs which are not on record; "
                                "hspmdctl node list shows all",
                                ctl->pos[0]);
}

/* The same; *ret ends with NULL. */
static enum hsp_status kept_by_node(struct hsp_ctl *ctl, const char ***ret, struct hsp_err *err)
{
    struct hsp_msg m = {.type = HSP_MSG_STATUS, .u.query = {.name = ctl->pos[0], .what = ""}};
    const char *text;
    cJSON *doc = NULL;
    size_t n = 0;
    const char **list = hsp_arena_array(ctl->arena, HSP_MSG_KEPT + 1, sizeof(*list));
    enum hsp_status st = list != NULL ? hsp_remote_ask_json(ctl, &m, &text, &doc, err)
                                      : hsp_err_nomem(err, "the jobs of node %s", ctl->pos[0]);
    st = st == HSP_OK ? list_kept(ctl, doc, list, &n, err) : st;
    cJSON_Delete(doc);
    *ret = list;
    return st;
}

/* The agents say hello again when one job is adopted, and are not here for a moment. */
static enum hsp_status adopt_next(struct hsp_ctl *ctl, const char *job, const char **ret,
                                  struct hsp_err *err)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    enum hsp_status st = adopt(ctl, job, ret, err);
    for (uint32_t waited = 0; (st == HSP_ENOENT || st == HSP_ESTATE) && waited < AGAIN_MS;
         waited += POLL_MS) {
        struct hsp_arena_position mark = hsp_arena_mark(ctl->arena);
        (void)nanosleep(&pause, NULL); /* cut short by a signal: asked a little early */
        st = adopt(ctl, job, ret, err);
        if (st != HSP_OK) {
            hsp_arena_rewind(ctl->arena, mark);
        }
    }
    return st;
}

int hsp_cmd_node_adopt(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    const char **job = NULL, *whose;
    if (kept_by_node(ctl, &job, &err) != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    for (bool first = true; *job != NULL; job++, first = false) {
        if ((first ? adopt(ctl, *job, &whose, &err) : adopt_next(ctl, *job, &whose, &err)) !=
            HSP_OK) {
            return hsp_ctl_fail(ctl, &err);
        }
        int digits = (int)strcspn(*job, "@");
        if (fprintf(ctl->out, "job %.*s is adopted; papers of %s\n", digits, *job, whose) < 0) {
            return HSP_EXIT_FAILED;
        }
    }
    return HSP_EXIT_OK;
}

int hsp_cmd_node_discard(struct hsp_ctl *ctl)
{
    struct hsp_msg m = {
        .type = HSP_MSG_ADOPT,
        .u.adopt = {
            .job = "", .node = ctl->pos[0], .discard = true, .force = ctl->opt[O_FORCE] != NULL}};
    struct hsp_err err = {0};
    const char *text;
    size_t len;
    if (hsp_remote_ask(ctl, &m, &text, &len, &err) != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    return fprintf(ctl->out, "%s deletes what it keeps, and works here\n", ctl->pos[0]) > 0
               ? HSP_EXIT_OK
               : HSP_EXIT_FAILED;
}
