#include "daemon/ctl/cmd_verify.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/ctl/ctl.h"
#include "daemon/ctl/plan_local.h"
#include "daemon/ctl/program_output.h"
#include "daemon/ctl/remote.h"
#include "daemon/ctl/worker_call.h"

enum { V_PLAN, V_CLUSTER }; /* rows of verify_options */

enum hsp_status hsp_verify_plan(struct hsp_ctl *ctl, const struct hsp_loaded *l,
                                const struct hsp_pick *how, FILE *out, int *ret_code,
                                struct hsp_err *err)
{
    const char *tmp = getenv("TMPDIR");
    char path[PATH_MAX];
    if (hsp_worker_find(err) != HSP_OK) { /* before compiling, which may take minutes */
        return err->code;
    }
    (void)snprintf(path, sizeof path, "%s/hspmd-verify-XXXXXX",
                   tmp != NULL && strlen(tmp) < PATH_MAX / 2 ? tmp : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0) {
        return hsp_err_set(err, HSP_EIO, errno, "cannot create %s", path);
    }
    (void)close(fd); /* the name is taken; the compiled program replaces it */
    struct hsp_program_request o = {
        .path = path, .out_dir = "", .how = *how, .verify = true, .scratch = true};
    const char *const args[] = {"--verify", path, NULL};
    FILE *answer = ctl->out;
    enum hsp_status st = HSP_OK;
    uint32_t n = 1; /* plans: of a pool each by itself, until one differs */
    *ret_code = HSP_EXIT_OK;
    for (; st == HSP_OK && *ret_code == HSP_EXIT_OK && o.which < n; o.which++) {
        st = hsp_write_some(ctl, l, &o, &n, err);
        if (st == HSP_OK) {
            ctl->out = out;
            st = hsp_worker_call(ctl, args, ret_code, err);
            ctl->out = answer;
        }
    }
    (void)unlink(path); /* in a folder for such files */
    return st;
}

/* The job file and the plan of a job at hspmdd. */
static enum hsp_status load_remote(struct hsp_ctl *ctl, const char *name, struct hsp_pick *how,
                                   struct hsp_plan_text *plan, struct hsp_loaded *l,
                                   struct hsp_err *err)
{
    const char *text = "";
    size_t len = 0;
    struct hsp_msg job = {.type = HSP_MSG_GRAPH, .u.query = {.name = name, .what = "job"}};
    struct hsp_msg runs = {.type = HSP_MSG_PROGRAM, .u.query = {.name = name, .what = "plan"}};
    enum hsp_status st = hsp_remote_ask(ctl, &job, &text, &len, err);
    if (st == HSP_OK) {
        st = hsp_read_job(ctl->arena, name, text, len, l, err);
    }
    if (st == HSP_OK && how->plan_path == NULL) {
        *plan = (struct hsp_plan_text){.name = "the plan it runs"};
        st = hsp_remote_ask(ctl, &runs, &plan->text, &plan->len, err);
        how->plan = plan;
    }
    return st;
}

/* The meaning of the operand: a job and, but for a job file, its plan. */
static enum hsp_status load(struct hsp_ctl *ctl, struct hsp_pick *how, struct hsp_plan_text *plan,
                            struct hsp_loaded *l, struct hsp_err *err)
{
    const char *word = ctl->pos[0];
    if (hsp_is_job(word)) {
        return load_remote(ctl, word, how, plan, l, err);
    }
    bool alone = false;
    *plan = (struct hsp_plan_text){.name = word};
    enum hsp_status st = hsp_load_text(ctl->arena, word, &plan->text, &plan->len, err);
    if (st == HSP_OK) {
        st = hsp_is_plan(plan->text, plan->len, ctl->arena, &alone, err);
    }
    if (st != HSP_OK || !alone) {
        return st == HSP_OK ? hsp_load_job(ctl->arena, word, l, err) : st;
    }
    how->plan = plan;
    return hsp_job_for_plan(ctl->arena, plan, l, err);
}

int hsp_cmd_verify(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    struct hsp_loaded l = {0};
    struct hsp_plan_text plan;
    struct hsp_pick how = {.plan_path = ctl->opt[V_PLAN], .cluster_path = ctl->opt[V_CLUSTER]};
    int rc = HSP_EXIT_OK;
    enum hsp_status st = load(ctl, &how, &plan, &l, &err);
    if (st == HSP_OK && how.plan != NULL && how.plan_path != NULL) {
        hsp_loaded_fini(&l);
        return hsp_ctl_usage(ctl, "%s is a plan: --plan would be a second one", ctl->pos[0]);
    }
    if (st == HSP_OK) {
        st = hsp_verify_plan(ctl, &l, &how, ctl->out, &rc, &err);
    }
    hsp_loaded_fini(&l);
    return st == HSP_OK ? rc : hsp_ctl_fail(ctl, &err);
}
