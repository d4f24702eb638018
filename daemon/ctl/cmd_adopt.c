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
    return fprintf(ctl->out,
                   "job %s was adopted and resumes from the state that its agents store; job "
                   "record of %s\n",
                   ctl->pos[0], whose) > 0
               ? HSP_EXIT_OK
               : HSP_EXIT_FAILED;
}

/* A job that the node keeps, in the arena. */
struct kept {
    double id;
    const char *cluster, *what; /* NUMBER@CLUSTER */
    size_t n_nodes;             /* nodes that keep it */
};

static const cJSON *keeps(const cJSON *node)
{
    return cJSON_GetObjectItemCaseSensitive(node, "keeps");
}

static size_t n_replica_holders(const cJSON *doc, double id, const char *cluster)
{
    const cJSON *node, *k;
    size_t n = 0;
    cJSON_ArrayForEach(node, cJSON_GetObjectItemCaseSensitive(doc, "nodes"))
    {
        cJSON_ArrayForEach(k, keeps(node))
        {
            n += hsp_doc_number(k, "id") == id && strcmp(hsp_doc_text(k, "cluster"), cluster) == 0;
        }
    }
    return n;
}

/* Writes the jobs that the node keeps, and that are not on record there, behind each other to
 * @list, which has HSP_MSG_KEPT places. */
static enum hsp_status list_kept(struct hsp_ctl *ctl, const cJSON *doc, struct kept *list,
                                 size_t *n, struct hsp_err *err)
{
    const cJSON *node, *k;
    cJSON_ArrayForEach(node, cJSON_GetObjectItemCaseSensitive(doc, "nodes"))
    {
        bool it = strcmp(hsp_doc_text(node, "name"), ctl->pos[0]) == 0;
        cJSON_ArrayForEach(k, keeps(node))
        {
            bool on_record = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(k, "on_record"));
            if (!it || on_record || *n == HSP_MSG_KEPT) {
                continue;
            }
            struct kept *x = &list[(*n)++];
            x->id = hsp_doc_number(k, "id");
            x->cluster = hsp_arena_strdup(ctl->arena, hsp_doc_text(k, "cluster"));
            x->what = x->cluster != NULL
                          ? hsp_arena_printf(ctl->arena, "%.0f@%s", x->id, x->cluster)
                          : NULL;
            if (x->what == NULL) {
                return hsp_err_nomem(err, "the jobs of node %s", ctl->pos[0]);
            }
            x->n_nodes = n_replica_holders(doc, x->id, x->cluster);
        }
    }
    return *n > 0 ? HSP_OK
                  : hsp_err_set(err, HSP_ENOENT, 0,
                                "node %s stores no job that is unknown here, so there is nothing "
                                "to adopt; hspmdctl node list shows the jobs of each node",
                                ctl->pos[0]);
}

static enum hsp_status ask_nodes(struct hsp_ctl *ctl, cJSON **ret, struct hsp_err *err)
{
    struct hsp_msg m = {.type = HSP_MSG_STATUS, .u.query = {.name = "", .what = ""}};
    const char *text;
    return hsp_remote_ask_json(ctl, &m, &text, ret, err);
}

static enum hsp_status kept_by_node(struct hsp_ctl *ctl, struct kept **ret, size_t *ret_n,
                                    struct hsp_err *err)
{
    cJSON *doc = NULL;
    struct kept *list = hsp_arena_array(ctl->arena, HSP_MSG_KEPT, sizeof(*list));
    enum hsp_status st = list != NULL ? ask_nodes(ctl, &doc, err)
                                      : hsp_err_nomem(err, "the jobs of node %s", ctl->pos[0]);
    *ret_n = 0;
    st = st == HSP_OK ? list_kept(ctl, doc, list, ret_n, err) : st;
    cJSON_Delete(doc);
    *ret = list;
    return st;
}

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void pause_a_little(void)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    (void)nanosleep(&pause, NULL); /* cut short by a signal: asked a little early */
}

/* Until as many nodes keep @k as before, or @end: papers that one of several tells are not
 * taken. */
static enum hsp_status await_replica_holders(struct hsp_ctl *ctl, const struct kept *k, int64_t end,
                                             struct hsp_err *err)
{
    for (;;) {
        struct hsp_arena_position mark = hsp_arena_mark(ctl->arena);
        cJSON *doc = NULL;
        enum hsp_status st = ask_nodes(ctl, &doc, err);
        size_t n = st == HSP_OK ? n_replica_holders(doc, k->id, k->cluster) : 0;
        cJSON_Delete(doc);
        if (st != HSP_OK || n >= k->n_nodes || now_ms() >= end) {
            return st;
        }
        hsp_arena_rewind(ctl->arena, mark);
        pause_a_little();
    }
}

/* The agents say hello again when one job is adopted, and are not here for a moment. A refusal for
 * another reason is final. */
static enum hsp_status adopt_next(struct hsp_ctl *ctl, const struct kept *k, const char **ret,
                                  struct hsp_err *err)
{
    const int64_t end = now_ms() + AGAIN_MS;
    enum hsp_status st = await_replica_holders(ctl, k, end, err);
    for (bool again = st == HSP_OK; again;) {
        struct hsp_arena_position mark = hsp_arena_mark(ctl->arena);
        st = adopt(ctl, k->what, ret, err);
        again = (st == HSP_ENOENT || st == HSP_ENODEV) && now_ms() < end;
        if (again) {
            hsp_arena_rewind(ctl->arena, mark);
            pause_a_little();
        }
    }
    return st;
}

int hsp_cmd_node_adopt(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    struct kept *list = NULL;
    const char *whose;
    size_t n = 0;
    if (kept_by_node(ctl, &list, &n, &err) != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    for (size_t i = 0; i < n; i++) {
        const struct kept *k = &list[i];
        if ((i == 0 ? adopt(ctl, k->what, &whose, &err) : adopt_next(ctl, k, &whose, &err)) !=
            HSP_OK) {
            return hsp_ctl_fail(ctl, &err);
        }
        if (fprintf(ctl->out, "job %.0f was adopted; job record of %s\n", k->id, whose) < 0) {
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
    return fprintf(ctl->out, "%s deletes its state and works for this cluster\n", ctl->pos[0]) > 0
               ? HSP_EXIT_OK
               : HSP_EXIT_FAILED;
}
