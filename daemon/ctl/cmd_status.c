#include "daemon/ctl/cmd_status.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/ctl/cmd_node.h"
#include "daemon/ctl/ctl.h"
#include "daemon/ctl/remote.h"
#include "daemon/ctl/table.h"
#include "proto/base/size.h"
#include "proto/op/op.h"

enum { O_WATCH }; /* rows of status_options */

#define WATCH_S 1

static const char *step_text(struct hsp_ctl *ctl, const cJSON *j)
{
    return hsp_ctl_text(ctl, "%.0f/%.0f", hsp_doc_number(j, "step"), hsp_doc_number(j, "steps"));
}

static const char *device_text(struct hsp_ctl *ctl, const cJSON *j)
{
    int n = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(j, "devices"));
    return hsp_ctl_text(ctl, "%d (%.0f-%.0f)", n, hsp_doc_number(j, "min"),
                        hsp_doc_number(j, "max"));
}

/* Nodes that have each part of the state, of those wanted. */
static const char *copies_text(struct hsp_ctl *ctl, const cJSON *j)
{
    return hsp_doc_has(j, "nodes_per_shard_min")
               ? hsp_ctl_text(ctl, "%.0f/%.0f", hsp_doc_number(j, "nodes_per_shard_min"),
                              hsp_doc_number(j, "copies"))
               : "-";
}

static const char *number_text(struct hsp_ctl *ctl, const cJSON *o, const char *key,
                               const char *absent)
{
    const char *word = hsp_doc_text(o, key); /* nan, inf */
    return word[0] != '\0'       ? word
           : hsp_doc_has(o, key) ? hsp_ctl_text(ctl, "%.6g", hsp_doc_number(o, key))
                                 : absent;
}

static const char *seconds_text(struct hsp_ctl *ctl, const cJSON *o, const char *key)
{
    return hsp_doc_has(o, key) ? hsp_ctl_time(ctl, hsp_doc_number(o, key) * 1e6) : "-";
}

/* Why it does not go on, or else the files it cannot write. */
static const char *job_reason(const cJSON *j)
{
    const cJSON *stalled = cJSON_GetObjectItemCaseSensitive(j, "stalled");
    const char *reason = hsp_doc_text(j, "reason");
    return reason[0] != '\0' ? reason
           : stalled != NULL ? hsp_doc_text(stalled, "reason")
                             : hsp_doc_text(j, "problem");
}

/* Its state, as far as somebody has to do something about it. */
static const char *state_cell(const cJSON *j)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "held")) ? "held"
           : cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "keeps_state"))
               ? "failed (keeps state)"
               : hsp_doc_text(j, "state");
}

static bool print_jobs(struct hsp_ctl *ctl, const cJSON *jobs)
{
    static const struct hsp_column cols[] = {
        {"ID", true},     {"JOB", false},        {"STATE", false}, {"STEP", true},
        {"LOSS", true},   {"TIME", true},        {"EPOCH", true},  {"DEVICES", true},
        {"COPIES", true}, {"REASON", HSP_FOLDED}};
    struct hsp_table *t = hsp_table_new(ctl, cols, HSP_ARRAY_LEN(cols));
    const cJSON *j;
    cJSON_ArrayForEach(j, jobs)
    {
        const char *cells[] = {hsp_ctl_text(ctl, "%.0f", hsp_doc_number(j, "id")),
                               hsp_doc_text(j, "name"),
                               state_cell(j),
                               step_text(ctl, j),
                               number_text(ctl, j, "loss", "-"),
                               seconds_text(ctl, j, "step_seconds"),
                               hsp_ctl_text(ctl, "%.0f", hsp_doc_number(j, "epoch")),
                               device_text(ctl, j),
                               copies_text(ctl, j),
                               job_reason(j)};
        hsp_table_row(t, cells);
    }
    return hsp_table_print(t);
}

static bool print_epochs(struct hsp_ctl *ctl, const cJSON *epochs)
{
    static const struct hsp_column cols[] = {
        {"EPOCH", true},       {"FROM STEP", true}, {"LOST", true},     {"DETECT", true},
        {"PLANNING", true},    {"PREPARE", true},   {"TRANSFER", true}, {"SWITCH", true},
        {"CAUSE", HSP_FOLDED}, {"PLAN", HSP_FOLDED}};
    struct hsp_table *t = hsp_table_new(ctl, cols, HSP_ARRAY_LEN(cols));
    const cJSON *e;
    cJSON_ArrayForEach(e, epochs)
    {
        const char *cells[] = {hsp_ctl_text(ctl, "%.0f", hsp_doc_number(e, "epoch")),
                               hsp_ctl_text(ctl, "%.0f", hsp_doc_number(e, "first_step")),
                               hsp_ctl_text(ctl, "%.0f", hsp_doc_number(e, "lost_steps")),
                               seconds_text(ctl, e, "detect_seconds"),
                               seconds_text(ctl, e, "plan_seconds"),
                               seconds_text(ctl, e, "prepare_seconds"),
                               seconds_text(ctl, e, "transfer_seconds"),
                               seconds_text(ctl, e, "switch_seconds"),
                               hsp_doc_text(e, "cause"),
                               hsp_doc_text(e, "plan")};
        hsp_table_row(t, cells);
    }
    return hsp_table_print(t);
}

static void print_names(FILE *out, const char *what, const cJSON *names)
{
    const cJSON *d;
    (void)fputs(what, out);
    cJSON_ArrayForEach(d, names)
    {
        (void)fprintf(out, " %s", cJSON_GetStringValue(d));
    }
}

/* Where its newest committed version is in the data. */
static void print_data(FILE *out, const cJSON *d)
{
    if (d != NULL) {
        (void)fprintf(out,
                      "\ndata: pass %.0f, sample %.0f of %.0f, %.0f tokens read; %s: %.0f bytes, "
                      "digest %s",
                      hsp_doc_number(d, "pass") + 1, hsp_doc_number(d, "sample"),
                      hsp_doc_number(d, "pass_samples"), hsp_doc_number(d, "tokens_read"),
                      hsp_doc_text(d, "path"), hsp_doc_number(d, "bytes"),
                      hsp_doc_text(d, "digest"));
    }
}

/* The bytes in state folders of the running layout. */
static void print_folders(struct hsp_ctl *ctl, const cJSON *j)
{
    if (hsp_doc_has(j, "folder_bytes")) {
        (void)fprintf(ctl->out, "\nstate folders: %s, %s of it on one node",
                      hsp_ctl_bytes(ctl, hsp_doc_number(j, "folder_bytes")),
                      hsp_ctl_bytes(ctl, hsp_doc_number(j, "node_folder_bytes_max")));
    }
    if (hsp_doc_has(j, "keeper_bytes")) {
        (void)fprintf(ctl->out, "%s%s on each replica holder",
                      hsp_doc_has(j, "folder_bytes") ? ", " : "\nstate folders: ",
                      hsp_ctl_bytes(ctl, hsp_doc_number(j, "keeper_bytes")));
    }
}

/* The cost of a loss that leaves a copy of each part of the state, and the stable version. */
static void print_again(FILE *out, const cJSON *j)
{
    if (!hsp_doc_has(j, "loss_costs")) {
        return;
    }
    double above = hsp_doc_number(j, "steps_above_stable"), due = hsp_doc_number(j, "due_steps");
    (void)fprintf(out,
                  "\nrecovery: a loss that leaves a copy of each part costs %s; version %.0f is "
                  "stable, %.0f step%s since",
                  hsp_doc_text(j, "loss_costs"), hsp_doc_number(j, "stable_step"), above,
                  above == 1 ? "" : "s");
    if (hsp_doc_has(j, "due_steps")) {
        (void)fprintf(out, "; %.0f step%s between stable versions", due, due == 1 ? "" : "s");
    }
}

/* The transports between its executors. */
static void print_transport(FILE *out, const cJSON *t)
{
    static const char *const keys[] = {"shm", "unix", "tls", "tcp"};
    static const char *const words[] = {"shm", "unix", "tcp+tls", "tcp"};
    const char *between = "\ntransport:";
    for (size_t i = 0; i < HSP_ARRAY_LEN(keys); i++) {
        if (hsp_doc_number(t, keys[i]) > 0) {
            (void)fprintf(out, "%s %.0f by %s", between, hsp_doc_number(t, keys[i]), words[i]);
            between = ",";
        }
    }
    (void)fputs(t != NULL ? " (connections between its executors)" : "", out);
}

#define PLANE_TEXT 512 /* at most 8 networks */

/* The readers of traffic between devices of different hosts, by a job's document or the
 * whole: "tls, @between, NCCL within hosts only". "" where it is not said. */
static void plane_text(const cJSON *o, const char *between, char ret[PLANE_TEXT])
{
    const char *plane = hsp_doc_text(o, "data_plane"), *nets = hsp_doc_text(o, "trusted_network");
    bool tls = strcmp(plane, "tls") == 0;
    (void)snprintf(ret, PLANE_TEXT, "%s%s%s%s", plane, tls ? between : "",
                   !tls              ? ""
                   : nets[0] != '\0' ? ", NCCL allowed in clear on "
                                     : ", NCCL within hosts only",
                   tls ? nets : "");
}

/* The present activity of a thread: "receives from n1/0 2.9 s". */
static const char *thread_text(struct hsp_ctl *ctl, const cJSON *t)
{
    const char *peer = hsp_doc_text(t, "peer");
    return hsp_ctl_text(ctl, "%s%s%s %.1f s", hsp_doc_text(t, "does"), peer[0] != '\0' ? " " : "",
                        peer, hsp_doc_number(t, "seconds"));
}

/* Where the ranks of a job stand that makes no progress. */
static bool print_stands(struct hsp_ctl *ctl, const cJSON *ranks)
{
    static const struct hsp_column cols[] = {
        {"RANK", true},  {"DEVICE", false},   {"STEP", true},   {"MICRO-BATCH", true},
        {"INSTR", true}, {"TRAINING", false}, {"COPIES", false}};
    struct hsp_table *t = hsp_table_new(ctl, cols, HSP_ARRAY_LEN(cols));
    const cJSON *r;
    uint32_t rank = 0;
    cJSON_ArrayForEach(r, ranks)
    {
        const cJSON *threads = cJSON_GetObjectItemCaseSensitive(r, "threads");
        const cJSON *one = cJSON_GetArrayItem(threads, 0), *two = cJSON_GetArrayItem(threads, 1);
        bool eval = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(r, "validation"));
        const char *step = number_text(ctl, r, "step", "-");
        const char *cells[] = {hsp_ctl_text(ctl, "%" PRIu32, rank++),
                               hsp_doc_text(r, "device"),
                               eval ? hsp_ctl_text(ctl, "%s (validation)", step) : step,
                               number_text(ctl, r, "micro_batch", "-"),
                               number_text(ctl, r, "instruction", "-"),
                               one != NULL ? thread_text(ctl, one) : "does not answer",
                               two != NULL ? thread_text(ctl, two) : "-"};
        hsp_table_row(t, cells);
    }
    return hsp_table_print(t);
}

/* Where its state is, of a job that does not run, and its checkpoints. */
static void print_kept(FILE *out, const cJSON *j)
{
    const char *path = hsp_doc_text(j, "checkpoint_path");
    bool shared = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "checkpoint_shared"));
    bool diverged = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "diverged"));
    if (path[0] != '\0') {
        (void)fprintf(out, "\ncheckpoints: in %s/%s, %s", path, hsp_doc_text(j, "name"),
                      shared ? "which its nodes share" : "of each of its nodes");
    }
    if (hsp_doc_has(j, "final_model")) { /* REASON names the node */
        (void)fprintf(out, "\nfinal model: in %s", hsp_doc_text(j, "final_model"));
    }
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "keeps_state"))) {
        bool part =
            hsp_doc_has(j, "nodes_per_shard_min") && hsp_doc_number(j, "nodes_per_shard_min") == 0;
        (void)fprintf(out, "\nstate: stored by its workers; %s, cancel or forget deletes it",
                      diverged ? "its loss is not finite, so it can only resume from an earlier "
                                 "checkpoint: resume names that checkpoint, for --from"
                      : part   ? "resume waits for the part that is on no connected node"
                               : "resume uses it");
    }
}

/* All there is about one job. */
static bool print_job(struct hsp_ctl *ctl, const cJSON *jobs)
{
    FILE *out = ctl->out;
    const cJSON *j = cJSON_GetArrayItem(jobs, 0);
    const cJSON *plan = cJSON_GetObjectItemCaseSensitive(j, "plan");
    const cJSON *epochs = cJSON_GetObjectItemCaseSensitive(j, "epochs");
    const cJSON *stalled = cJSON_GetObjectItemCaseSensitive(j, "stalled");
    char plane[PLANE_TEXT];
    bool ok = print_jobs(ctl, jobs);
    (void)fprintf(out, "\npriority %.0f, %.0f copies", hsp_doc_number(j, "priority"),
                  hsp_doc_number(j, "copies"));
    if (hsp_doc_has(j, "checkpoint_step")) {
        (void)fprintf(out, ", checkpoint of step %.0f", hsp_doc_number(j, "checkpoint_step"));
    }
    plane_text(j, "", plane);
    if (plane[0] != '\0') {
        (void)fprintf(out, ", data plane %s", plane);
    }
    print_kept(out, j);
    if (hsp_doc_has(j, "durability")) {
        (void)fprintf(out, "\nstate: %s", hsp_doc_text(j, "durability"));
    }
    print_again(out, j);
    print_folders(ctl, j);
    if (hsp_doc_has(j, "problem")) {
        (void)fprintf(out, "\nproblem: %s", hsp_doc_text(j, "problem"));
    }
    print_transport(out, cJSON_GetObjectItemCaseSensitive(j, "transport"));
    print_data(out, cJSON_GetObjectItemCaseSensitive(j, "data"));
    print_names(out, "\ndevices:", cJSON_GetObjectItemCaseSensitive(j, "devices"));
    if (cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(j, "keepers")) > 0) {
        print_names(out, "\nreplica holders:", cJSON_GetObjectItemCaseSensitive(j, "keepers"));
    }
    (void)fputc('\n', out);
    if (plan != NULL) {
        (void)fprintf(out, "plan: %s (%s)\n      %s\n", hsp_doc_text(plan, "summary"),
                      hsp_doc_text(plan, "source"), hsp_doc_text(plan, "why"));
    }
    if (stalled != NULL) {
        (void)fprintf(out, "\nstalled: %s\n", hsp_doc_text(stalled, "reason"));
        ok = print_stands(ctl, cJSON_GetObjectItemCaseSensitive(stalled, "ranks")) && ok;
    }
    if (cJSON_GetArraySize(epochs) > 0) {
        (void)fputc('\n', out);
        ok = print_epochs(ctl, epochs) && ok;
    }
    return ok;
}

/* The place of hspmdd, and the readers of training's traffic. */
static void print_head(struct hsp_ctl *ctl, const cJSON *doc, const cJSON *jobs)
{
    char plane[PLANE_TEXT], of[PLANE_TEXT];
    const cJSON *j;
    (void)fprintf(ctl->out, "hspmdd: %s\n", hsp_doc_text(doc, "address"));
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(doc, "insecure_loopback"))) {
        (void)fputs("insecure: every user of its host may join and command (insecure_loopback in "
                    "hspmdd.yaml)\n",
                    ctl->out);
    }
    plane_text(doc, " between hosts", plane);
    (void)fprintf(ctl->out, "data plane: %s%s\n", plane,
                  strcmp(plane, "clear") == 0 ? " (chosen in hspmdd.yaml)" : "");
    plane_text(doc, "", plane);
    cJSON_ArrayForEach(j, jobs)
    {
        plane_text(j, "", of);
        if (of[0] != '\0' && strcmp(of, plane) != 0) {
            (void)fprintf(ctl->out, "            %s: %s until its next epoch\n",
                          hsp_doc_text(j, "name"), of);
        }
    }
    if (hsp_doc_has(doc, "behind")) {
        (void)fprintf(ctl->out, "behind: %s\n", hsp_doc_text(doc, "behind"));
        print_names(ctl->out,
                    "nodes that are ahead:", cJSON_GetObjectItemCaseSensitive(doc, "behind_by"));
        (void)fputc('\n', ctl->out);
    }
    if (hsp_doc_has(doc, "problem")) {
        (void)fprintf(ctl->out, "problem: %s\n", hsp_doc_text(doc, "problem"));
    }
    (void)fputc('\n', ctl->out);
}

/* Nodes whose executors cannot reach each other. */
static void print_broken(struct hsp_ctl *ctl, const cJSON *links)
{
    const cJSON *x;
    if (cJSON_GetArraySize(links) > 0) {
        (void)fputc('\n', ctl->out);
    }
    cJSON_ArrayForEach(x, links)
    {
        const cJSON *pair = cJSON_GetObjectItemCaseSensitive(x, "nodes");
        const char *a = cJSON_GetStringValue(cJSON_GetArrayItem(pair, 0));
        const char *b = cJSON_GetStringValue(cJSON_GetArrayItem(pair, 1));
        bool slow = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(x, "slow"));
        (void)fprintf(ctl->out, "%s and %s %s for %.0f s, %s in %.0f s: %s\n", a != NULL ? a : "",
                      b != NULL ? b : "",
                      slow ? "are connected too slowly" : "cannot reach each other",
                      hsp_doc_number(x, "seconds"), slow ? "measured" : "tried",
                      hsp_doc_number(x, "next_seconds"), hsp_doc_text(x, "reason"));
    }
}

/* Callers that hold another key than hspmdd. */
static void print_refused(struct hsp_ctl *ctl, const cJSON *list)
{
    const cJSON *x;
    if (cJSON_GetArraySize(list) > 0) {
        (void)fputc('\n', ctl->out);
    }
    cJSON_ArrayForEach(x, list)
    {
        (void)fprintf(ctl->out, "%.0f s ago: %s\n", hsp_doc_number(x, "seconds"),
                      hsp_doc_text(x, "reason"));
    }
}

/* "n1/0", "n1". */
static const char *fact_place(struct hsp_ctl *ctl, const cJSON *x)
{
    const char *node = hsp_doc_text(x, "node");
    return hsp_doc_has(x, "device")
               ? hsp_ctl_text(ctl, "%s/%.0f", node, hsp_doc_number(x, "device"))
               : node;
}

static bool is_pair(const cJSON *fact)
{
    return strcmp(hsp_doc_text(fact, "kind"), "broken-link") == 0;
}

/* The parts that plans avoid because of a failure, and for how long; pairs of nodes stand by
 * themselves. */
static bool print_facts(struct hsp_ctl *ctl, const cJSON *facts)
{
    static const struct hsp_column cols[] = {{"LEFT OUT", false},      {"OF JOB", false},
                                             {"BECAUSE OF", false},    {"SINCE", true},
                                             {"TRIED AGAIN IN", true}, {"REASON", HSP_FOLDED}};
    const cJSON *x;
    int n = 0;
    cJSON_ArrayForEach(x, facts)
    {
        n += !is_pair(x);
    }
    if (n == 0) {
        return true;
    }
    struct hsp_table *t = hsp_table_new(ctl, cols, HSP_ARRAY_LEN(cols));
    (void)fputs(
        ctl->headers
            ? "\nAfter a failure jobs do not use these for a while, see LEFT OUT in hspmdctl(1):\n"
            : "\n",
        ctl->out);
    cJSON_ArrayForEach(x, facts)
    {
        const char *job = hsp_doc_text(x, "job"), *ends = hsp_doc_text(x, "ends");
        const char *cells[] = {
            fact_place(ctl, x),
            job[0] != '\0' ? job : "all",
            hsp_doc_text(x, "kind"),
            seconds_text(ctl, x, "seconds"),
            seconds_text(ctl, x, "left_seconds"),
            ends[0] != '\0' ? hsp_ctl_text(ctl, "%s; it ends %s", hsp_doc_text(x, "reason"), ends)
                            : hsp_doc_text(x, "reason")};
        if (!is_pair(x)) {
            hsp_table_row(t, cells);
        }
    }
    return hsp_table_print(t);
}

bool hsp_status_view(struct hsp_ctl *ctl, const cJSON *doc)
{
    const cJSON *jobs = cJSON_GetObjectItemCaseSensitive(doc, "jobs");
    const cJSON *nodes = cJSON_GetObjectItemCaseSensitive(doc, "nodes");
    const cJSON *facts = cJSON_GetObjectItemCaseSensitive(doc, "facts");
    bool ok = true;
    if (ctl->n_pos == 1 && cJSON_GetArraySize(jobs) == 1) {
        return print_job(ctl, jobs) && print_facts(ctl, facts);
    }
    if (ctl->n_pos == 0 && ctl->headers) {
        print_head(ctl, doc, jobs);
    }
    if (cJSON_GetArraySize(jobs) > 0) {
        ok = print_jobs(ctl, jobs);
    } else if (ctl->n_pos == 0) {
        (void)fputs("no jobs\n", ctl->out);
    }
    if (cJSON_GetArraySize(nodes) > 0) {
        (void)fputs(cJSON_GetArraySize(jobs) > 0 ? "\n" : "", ctl->out);
        ok = hsp_node_view(ctl, nodes, false) && ok;
    } else if (ctl->n_pos == 0) {
        (void)fputs("no nodes\n", ctl->out);
    }
    print_broken(ctl, cJSON_GetObjectItemCaseSensitive(doc, "broken_links"));
    print_refused(ctl, cJSON_GetObjectItemCaseSensitive(doc, "refused"));
    return print_facts(ctl, facts) && ok;
}

static int show(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    const char *text = "";
    cJSON *doc = NULL;
    struct hsp_msg m = {.type = HSP_MSG_STATUS,
                        .u.query = {.name = ctl->n_pos > 0 ? ctl->pos[0] : "", .what = ""}};
    if (hsp_remote_ask_json(ctl, &m, &text, &doc, &err) != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    bool ok = ctl->format == HSP_FORMAT_JSON ? fprintf(ctl->out, "%s\n", text) > 0
                                             : hsp_status_view(ctl, doc);
    cJSON_Delete(doc);
    return ok ? HSP_EXIT_OK : HSP_EXIT_FAILED;
}

int hsp_cmd_status(struct hsp_ctl *ctl)
{
    int rc;
    bool watch = ctl->opt[O_WATCH] != NULL, clear = isatty(fileno(ctl->out)) == 1;
    do {
        struct hsp_arena_position mark = hsp_arena_mark(ctl->arena);
        if (watch && clear) {
            (void)fputs("\033[H\033[J", ctl->out);
        }
        rc = show(ctl);
        hsp_arena_rewind(ctl->arena, mark);
        if (watch && rc == HSP_EXIT_OK && fflush(ctl->out) == 0) {
            const struct timespec pause = {.tv_sec = WATCH_S};
            (void)nanosleep(&pause, NULL); /* cut short by a signal: shown a little early */
        }
    } while (watch && rc == HSP_EXIT_OK && ctl->deferred.code == HSP_OK && ferror(ctl->out) == 0);
    return rc;
}
