#include "daemon/ctl/cmd_submit.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "daemon/ctl/cmd_job.h"
#include "daemon/ctl/cmd_verify.h"
#include "daemon/ctl/ctl.h"
#include "daemon/ctl/job_load.h"
#include "daemon/ctl/plan_change.h"
#include "daemon/ctl/remote.h"
#include "daemon/ctl/table.h"
#include "daemon/plan/plan_yaml.h"
#include "proto/base/size.h"

enum { O_DRY_RUN, O_VERIFY, O_WAIT }; /* rows of submit_options */

static const struct hsp_column columns[] = {
    {"RANK", true},   {"DEVICE", false},   {"PIPELINE", true}, {"BLOCKS", false},
    {"PART", true},   {"SEQUENCES", true}, {"MICRO", true},    {"COMPUTE", true},
    {"UPDATE", true}, {"SYNC", true},      {"MEMORY", true},   {"OFFERED", true},
};

static const char *blocks_text(struct hsp_ctl *ctl, const cJSON *r)
{
    double first = hsp_doc_number(r, "first_block"), n = hsp_doc_number(r, "blocks");
    const char *ranges = hsp_doc_text(r, "block_ranges"); /* of several chunks */
    return ranges[0] != '\0' ? ranges
           : n <= 1          ? hsp_ctl_text(ctl, "%.0f", first)
                             : hsp_ctl_text(ctl, "%.0f-%.0f", first, first + n - 1);
}

static void add_rank(struct hsp_ctl *ctl, struct hsp_table *t, const cJSON *r)
{
    double compute = hsp_doc_number(r, "compute_seconds") + hsp_doc_number(r, "tensor_seconds");
    const char *cells[] = {
        hsp_ctl_text(ctl, "%.0f", hsp_doc_number(r, "rank")),
        hsp_doc_text(r, "device"),
        hsp_ctl_text(ctl, "%.0f", hsp_doc_number(r, "stream")),
        blocks_text(ctl, r),
        hsp_ctl_text(ctl, "%.0f%%", 100 * hsp_doc_number(r, "tensor_part")),
        hsp_ctl_text(ctl, "%.0f", hsp_doc_number(r, "sequences")),
        hsp_ctl_text(ctl, "%.0f", hsp_doc_number(r, "micro_batches")),
        hsp_ctl_time(ctl, compute * 1e6),
        hsp_ctl_time(ctl, hsp_doc_number(r, "update_seconds") * 1e6),
        hsp_ctl_time(ctl, hsp_doc_number(r, "sync_seconds") * 1e6),
        hsp_ctl_bytes(ctl, hsp_doc_number(r, "memory_bytes")),
        hsp_ctl_bytes(ctl, hsp_doc_number(r, "offered_bytes")),
    };
    hsp_table_row(t, cells);
}

/* A plan-prediction document as the table of `hspmdctl plan`. False: could not be written. */
static bool view_plan(struct hsp_ctl *ctl, const cJSON *doc)
{
    const cJSON *x;
    FILE *out = ctl->out;
    struct hsp_table *t = hsp_table_new(ctl, columns, sizeof columns / sizeof columns[0]);
    cJSON_ArrayForEach(x, cJSON_GetObjectItemCaseSensitive(doc, "ranks"))
    {
        add_rank(ctl, t, x);
    }
    (void)fprintf(out, "%s: %s (%s)\n\n", hsp_doc_text(doc, "job"), hsp_doc_text(doc, "why"),
                  hsp_doc_text(doc, "source"));
    bool ok = hsp_table_print(t);
    if (hsp_doc_has(doc, "durability")) {
        (void)fprintf(
            out,
            "\nstate folders %s, %s of it on one node; twice that during a switch\nstate: %s\n",
            hsp_ctl_bytes(ctl, hsp_doc_number(doc, "folder_bytes")),
            hsp_ctl_bytes(ctl, hsp_doc_number(doc, "node_folder_bytes_max")),
            hsp_doc_text(doc, "durability"));
    }
    (void)fprintf(out, "\nstep %s\n", hsp_ctl_time(ctl, hsp_doc_number(doc, "step_seconds") * 1e6));
    bool first = true;
    cJSON_ArrayForEach(x, cJSON_GetObjectItemCaseSensitive(doc, "rejected"))
    {
        (void)fprintf(out, "%s %s: %s\n", first ? "rejected:" : "         ",
                      hsp_doc_text(x, "what"), hsp_doc_text(x, "why"));
        first = false;
    }
    return ok;
}

/* The names of the annotations; hspmdd reports all other mistakes in the file. */
static enum hsp_status add_files(struct hsp_ctl *ctl, const struct hsp_job_spec *job,
                                 const char *path, struct hsp_msg *ret, struct hsp_err *err)
{
    const char *slash = strrchr(path, '/');
    int dir = slash != NULL ? (int)(slash - path) + 1 : 0;
    uint32_t n = (uint32_t)job->annotations.n;
    struct hsp_m_file *files = hsp_arena_array(ctl->arena, n, sizeof *files);
    for (uint32_t i = 0; files != NULL && i < n; i++) {
        const char *name = job->annotations.items[i], *text;
        size_t len;
        const char *at =
            name[0] == '/' ? name : hsp_arena_printf(ctl->arena, "%.*s%s", dir, path, name);
        if (at == NULL) {
            return hsp_err_nomem(err, "a plan's path");
        }
        enum hsp_status st = hsp_load_text(ctl->arena, at, &text, &len, err);
        if (st != HSP_OK) {
            (void)hsp_err_wrap(err, "%s: annotations", path);
            return st;
        }
        files[i] = (struct hsp_m_file){name, text};
    }
    ret->u.submit.n_files = n;
    ret->u.submit.files = files;
    return files != NULL ? HSP_OK : hsp_err_nomem(err, "the job's plans");
}

/* The job file and the annotations it names, as a SUBMIT or PLAN message. *ret_job: in the arena;
 * NULL allowed. */
static enum hsp_status make_request(struct hsp_ctl *ctl, const char *path, uint16_t type,
                                    struct hsp_msg *ret, const struct hsp_job_spec **ret_job,
                                    struct hsp_err *err)
{
    const struct hsp_job_spec *job;
    const char *text;
    size_t len;
    enum hsp_status st = hsp_load_text(ctl->arena, path, &text, &len, err);
    if (st == HSP_OK) {
        st = hsp_job_parse(text, len, path, ctl->arena, &job, err);
    }
    if (st != HSP_OK) {
        return st;
    }
    *ret = (struct hsp_msg){.type = type,
                            .blob = (const uint8_t *)text,
                            .blob_len = (uint32_t)len,
                            .u.submit = {.file = path, .dry_run = type == HSP_MSG_PLAN}};
    if (ret_job != NULL) {
        *ret_job = job;
    }
    return add_files(ctl, job, path, ret, err);
}

static int print_doc(struct hsp_ctl *ctl, const char *text)
{
    return fprintf(ctl->out, "%s\n", text) > 0 ? HSP_EXIT_OK : HSP_EXIT_FAILED;
}

/* Sequences in a step: those of each pipeline once. */
static uint32_t batch_of(const cJSON *planned)
{
    const cJSON *r;
    double sum = 0;
    cJSON_ArrayForEach(r, cJSON_GetObjectItemCaseSensitive(planned, "ranks"))
    {
        bool first = hsp_doc_number(r, "stage") < 0.5;
        sum += first ? hsp_doc_number(r, "sequences") * hsp_doc_number(r, "tensor_part") : 0;
    }
    return sum >= 0.5 && sum < HSP_MAX_GLOBAL_BATCH ? (uint32_t)(sum + 0.5) : 1;
}

/* HSP_EXIT_OK: the job of this name runs @planned. */
static int compare(struct hsp_ctl *ctl, const cJSON *planned)
{
    struct hsp_err err = {0};
    struct hsp_plan *plan, *fresh;
    const char *name = hsp_doc_text(planned, "job"), *text = "";
    size_t len = 0;
    cJSON *doc = NULL;
    struct hsp_msg ask = {.type = HSP_MSG_PROGRAM, .u.query = {.name = name, .what = "plan"}};
    struct hsp_msg status = {.type = HSP_MSG_STATUS, .u.query = {.name = name, .what = ""}};
    enum hsp_status st = hsp_remote_ask(ctl, &ask, &text, &len, &err);
    if (st == HSP_ENOENT || st == HSP_ESTATE) { /* no such job, or one without a plan */
        return HSP_EXIT_WOULD_CHANGE;
    }
    if (st == HSP_OK) {
        st = hsp_plan_parse(text, len, name, batch_of(planned), ctl->arena, &plan, &err);
    }
    if (st == HSP_OK) {
        const char *now = hsp_doc_text(planned, "plan_yaml");
        st = hsp_plan_parse(now, strlen(now), name, batch_of(planned), ctl->arena, &fresh, &err);
    }
    if (st == HSP_OK) {
        st = hsp_remote_ask_json(ctl, &status, &text, &doc, &err);
    }
    if (st != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    const cJSON *job = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(doc, "jobs"), 0);
    bool same =
        hsp_plan_unchanged(planned, plan, cJSON_GetObjectItemCaseSensitive(job, "devices")) &&
        hsp_pool_unchanged(fresh, plan);
    cJSON_Delete(doc);
    return same ? HSP_EXIT_OK : HSP_EXIT_WOULD_CHANGE;
}

/* Nodes are not asked for the files of a plan. This machine may have them, or lack them alone. */
static void look_for_file(struct hsp_ctl *ctl, const char *key, const char *path)
{
    glob_t g = {0};
    int rc = path[0] != '\0' ? glob(path, GLOB_NOSORT, NULL, &g) : 0;
    bool lacks = rc == GLOB_NOMATCH,
         closed = rc == 0 && g.gl_pathc > 0 && access(g.gl_pathv[0], R_OK) != 0;
    if (lacks || closed) {
        (void)fprintf(ctl->msg,
                      "hspmdctl: %s %s %s on this machine; nodes were not asked: a node that "
                      "cannot read it takes no part in the job\n",
                      key, path, lacks ? "is not there" : "cannot be read");
    }
    globfree(&g);
}

static void look_for_files(struct hsp_ctl *ctl, const struct hsp_job_spec *job)
{
    look_for_file(ctl, "data.path", job->data_path);
    look_for_file(ctl, "init_from", job->init_from);
}

/* True when a device of @plan, NODE/INDEX, is of a node with the name of this machine, which is
 * the default name of a node. */
static bool is_node(const cJSON *plan)
{
    char host[256] = "";
    const cJSON *r;
    bool is = false;
    if (gethostname(host, sizeof(host) - 1) != 0) {
        return false;
    }
    cJSON_ArrayForEach(r, cJSON_GetObjectItemCaseSensitive(plan, "ranks"))
    {
        const char *device = hsp_doc_text(r, "device");
        is = is || (strncasecmp(device, host, strlen(host)) == 0 && device[strlen(host)] == '/');
    }
    return is;
}

int hsp_plan_live(struct hsp_ctl *ctl, bool exit_code)
{
    struct hsp_err err = {0};
    struct hsp_msg m;
    const struct hsp_job_spec *job = NULL;
    cJSON *doc = NULL;
    const char *text = "";
    enum hsp_status st = make_request(ctl, ctl->pos[0], HSP_MSG_PLAN, &m, &job, &err);
    if (st == HSP_OK) {
        st = hsp_remote_ask_json(ctl, &m, &text, &doc, &err);
    }
    int rc = st != HSP_OK                     ? hsp_ctl_fail(ctl, &err)
             : ctl->format == HSP_FORMAT_JSON ? print_doc(ctl, text)
             : view_plan(ctl, doc)            ? HSP_EXIT_OK
                                              : HSP_EXIT_FAILED;
    if (rc == HSP_EXIT_OK) {
        look_for_files(ctl, job);
    }
    if (rc == HSP_EXIT_OK && exit_code) {
        rc = compare(ctl, doc);
    }
    cJSON_Delete(doc);
    return rc;
}

/* @spec: the job as it was sent. */
static void print_submitted(struct hsp_ctl *ctl, const cJSON *doc, const struct hsp_job_spec *spec)
{
    const char *job = hsp_doc_text(doc, "job"), *reason = hsp_doc_text(doc, "reason");
    const cJSON *plan = cJSON_GetObjectItemCaseSensitive(doc, "plan");
    if (plan != NULL) {
        (void)view_plan(ctl, plan); /* a failing write shows when the output is closed */
        (void)fprintf(ctl->out, "%s\n",
                      reason[0] != '\0' ? "this plan uses all devices, also those of other jobs\n"
                                        : "");
    }
    const char *what = spec->ckpt_every_steps > 0
                           ? "checkpoints are"
                           : "model, and checkpoints of suspend and ckpt save alone, are";
    const char *kept = spec->ckpt_path[0] == '\0' ? ""
                       : spec->ckpt_shared
                           ? hsp_ctl_text(ctl,
                                          "; its %s written to %s/%s; %s must exist on each of its "
                                          "nodes, and hspmd does not create it",
                                          what, spec->ckpt_path, job, spec->ckpt_path)
                           : hsp_ctl_text(ctl, "; its %s written to %s/%s of each of its nodes",
                                          what, spec->ckpt_path, job);
    (void)fprintf(ctl->out,
                  "job %s was submitted%s%s%s\n\n"
                  "  hspmdctl status %s --watch\n"
                  "  hspmdctl events %s --follow\n"
                  "  hspmdctl wait %s --for=done\n",
                  job,
                  reason[0] != '\0' ? " and is pending: "
                  : plan == NULL    ? "; it waits for devices"
                                    : "",
                  reason, kept, job, job, job);
}

/* The plan that hspmdd would choose now. *ret stays without text while the devices do not
 * suffice. */
static enum hsp_status ask_plan(struct hsp_ctl *ctl, struct hsp_plan_text *ret, struct hsp_err *err)
{
    struct hsp_msg m;
    cJSON *doc = NULL;
    const char *text = "";
    enum hsp_status st = make_request(ctl, ctl->pos[0], HSP_MSG_PLAN, &m, NULL, err);
    if (st == HSP_OK) {
        st = hsp_remote_ask_json(ctl, &m, &text, &doc, err);
    }
    if (st == HSP_OK) {
        const char *plan = hsp_doc_text(doc, "plan_yaml");
        ret->name = "the plan for the devices there are";
        ret->len = strlen(plan);
        ret->text = hsp_arena_memdup(ctl->arena, plan, ret->len + 1);
        st = ret->text != NULL ? HSP_OK : hsp_err_nomem(err, "the plan");
    }
    cJSON_Delete(doc);
    return st == HSP_ENODEV || st == HSP_EINFEASIBLE ? HSP_OK : st;
}

/* HSP_EXIT_OK: the job may be sent. */
static int verify(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    struct hsp_loaded l = {0};
    struct hsp_plan_text plan = {0};
    struct hsp_pick how = {0};
    int rc = HSP_EXIT_OK;
    enum hsp_status st = ask_plan(ctl, &plan, &err);
    if (st == HSP_OK) {
        st = hsp_load_job(ctl->arena, ctl->pos[0], &l, &err);
    }
    if (st == HSP_OK) {
        how.plan = plan.text != NULL ? &plan : NULL;
        st = hsp_verify_plan(ctl, &l, &how, ctl->msg, &rc, &err);
    }
    hsp_loaded_fini(&l);
    if (st != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    if (rc != HSP_EXIT_OK) {
        (void)hsp_err_set(&err, HSP_EDIGEST, 0, "%s: not submitted, its plan failed the check",
                          ctl->pos[0]);
        return hsp_ctl_fail(ctl, &err);
    }
    return HSP_EXIT_OK;
}

/* Where checkpoints do not last, and why. */
static const struct fleeting {
    const char *folder, *why;
} fleeting[] = {
    {"/tmp", "which is private to hspmd-worker.service and is deleted when the service stops"},
    {"/var/tmp", "which is private to hspmd-worker.service and is deleted when the service stops"},
    {"/dev/shm", "which is memory and is empty after a reboot"},
};

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* Warns of settings by which the job may lose its training. */
static void warn(struct hsp_ctl *ctl, const struct hsp_job_spec *job)
{
    for (size_t i = 0; i < HSP_ARRAY_LEN(fleeting); i++) {
        if (is_below(job->ckpt_path, fleeting[i].folder)) {
            (void)fprintf(
                ctl->msg,
                "hspmdctl: job %s writes checkpoints and its model below %s, %s: set "
                "checkpoint.path to a permanent folder, such as /var/lib/hspmd-worker/ckpt\n",
                job->name, fleeting[i].folder, fleeting[i].why);
        }
    }
    if (job->ckpt_every_steps == 0) {
        (void)fprintf(ctl->msg,
                      "hspmdctl: job %s makes no periodic checkpoints (checkpoint.every_steps is "
                      "0): if all copies of its state are lost, its training is lost\n",
                      job->name);
    }
}

int hsp_cmd_submit(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    struct hsp_msg m;
    const struct hsp_job_spec *job = NULL;
    cJSON *doc = NULL;
    const char *text = "";
    if (ctl->opt[O_DRY_RUN] != NULL) {
        return hsp_plan_live(ctl, false);
    }
    int checked = ctl->opt[O_VERIFY] != NULL ? verify(ctl) : HSP_EXIT_OK;
    if (checked != HSP_EXIT_OK) {
        return checked;
    }
    enum hsp_status st = make_request(ctl, ctl->pos[0], HSP_MSG_SUBMIT, &m, &job, &err);
    if (st == HSP_OK) {
        st = hsp_remote_ask_json(ctl, &m, &text, &doc, &err);
    }
    int rc = HSP_EXIT_OK;
    if (st != HSP_OK) {
        rc = hsp_ctl_fail(ctl, &err);
    } else if (ctl->format == HSP_FORMAT_JSON) {
        rc = print_doc(ctl, text);
    } else {
        print_submitted(ctl, doc, job);
    }
    if (rc == HSP_EXIT_OK) {
        warn(ctl, job);
        if (is_node(cJSON_GetObjectItemCaseSensitive(doc, "plan"))) {
            look_for_files(ctl, job);
        }
    }
    if (rc == HSP_EXIT_OK && ctl->opt[O_WAIT] != NULL) {
        (void)fflush(ctl->out); /* shown while we wait; an error shows when it is closed */
        rc = hsp_wait_job(ctl, hsp_doc_text(doc, "job"), "done", 0);
    }
    cJSON_Delete(doc);
    return rc;
}
