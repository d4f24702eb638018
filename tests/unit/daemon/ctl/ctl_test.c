#include "tests/unit/daemon/ctl/ctl_room.h"

#include <cjson/cJSON.h>
#include <stdio.h>

#include "daemon/ctl/cmd_check.h"
#include "daemon/ctl/cmd_feed.h"
#include "daemon/ctl/command.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/ctl_run.h"
#include "daemon/ctl/plan_change.h"
#include "daemon/plan/plan_yaml.h"
#include "proto/wire/msg.h"
#include "tests/lib/golden.h"

static const char documents[] =
    "apiVersion: hspmd/v1\nname: docs\n"
    "model: {family: gpt, layers: 2, hidden: 16, heads: 2, sequence: 64, tied_head: true}\n"
    "data: {path: /tmp/x, packing: documents, document_end: 10, samples: documents}\n"
    "train: {steps: 2, global_batch: 12, optimizer: {name: adamw, lr: 1e-3}}\n";

static const char cluster[] = "apiVersion: hspmd/v1\nkind: cluster\n"
                              "nodes: [{name: a, devices: [{speed: 1e-2}, {speed: 5e-3}]}, {name: "
                              "b, devices: [{speed: 1e-2}]}]\n";

static void help_comes_from_the_table(void **state)
{
    struct room *r = *state;
    RUN(r, "help");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    for (const struct hsp_command *c = hsp_commands; c->name != NULL; c++) {
        assert_non_null(strstr(r->out, c->name));
        int used = 0;
        const char *words[2] = {c->name, NULL};
        if (strchr(c->name, ' ') == NULL) {
            assert_ptr_equal(hsp_command_find(hsp_commands, 1, words, &used), c);
        }
    }
    char *all = strdup(r->out);
    RUN(r, "--help");
    assert_string_equal(r->out, all);
    free(all);
    RUN(r, "help", "program", "show");
    assert_non_null(strstr(r->out, "--rank N"));
    RUN(r, "help", "node");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    assert_non_null(strstr(r->out, "  node check [NODE...] "));
    assert_null(strstr(r->out, "  drain"));
    all = strdup(r->out);
    RUN(r, "node", "--help");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    assert_string_equal(r->out, all);
    free(all);
    RUN(r, "--", "version");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    RUN(r, "program", "show", "-h");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    assert_non_null(strstr(r->out, "Usage: hspmdctl program show [OPTIONS] FILE"));
    RUN(r, "version", "-o", "json");
    assert_non_null(strstr(r->out, "\"apiVersion\":\"hspmd/v1\""));
}

static void wrong_lines_are_usage_errors(void **state)
{
    struct room *r = *state;
    static const struct {
        const char *words[5], *msg;
    } cases[] = {
        {{"plam", NULL}, "hspmdctl: no command plam, did you mean plan?; see hspmdctl help\n"},
        {{"node", NULL},
         "hspmdctl: node needs another word: list, show, check, allow, deny, remove, adopt, "
         "discard; see hspmdctl "
         "help\n"},
        {{"node", "--no-headers", NULL},
         "hspmdctl: node needs another word: list, show, check, allow, deny, remove, adopt, "
         "discard; see hspmdctl "
         "help\n"},
        {{"ckpt", "lst", "j", NULL},
         "hspmdctl: no command ckpt lst, did you mean ckpt list?; see hspmdctl help\n"},
        {{"node", "drain", "a", NULL},
         "hspmdctl: no command node drain, did you mean drain?; see hspmdctl help\n"},
        {{"job", "submit", "a", NULL},
         "hspmdctl: no command job submit, did you mean submit?; see hspmdctl help\n"},
        {{"stop", "j", NULL},
         "hspmdctl: no command stop, did you mean cancel?; see hspmdctl help\n"},
        {{"job", "list", NULL},
         "hspmdctl: no command job list, did you mean status?; see hspmdctl help\n"},
        {{"nodes", NULL},
         "hspmdctl: no command nodes, did you mean node list?; see hspmdctl help\n"},
        {{"help", "squeue", NULL},
         "hspmdctl: no command squeue, did you mean status?; see hspmdctl help\n"},
        {{"metrics", "j", "--tail=3", NULL},
         "hspmdctl: unknown option --tail=3; see hspmdctl help metrics\n"},
        {{"status", "--adress=x", NULL},
         "hspmdctl: unknown option --adress=x, did you mean --address?; see hspmdctl help "
         "status\n"},
        {{"events", "--since", "1h", NULL},
         "hspmdctl: --since 1h is not the number of an event, which begins its line; see hspmdctl "
         "help events\n"},
        {{"help", "ckpt", "x", NULL}, "hspmdctl: no command ckpt x; see hspmdctl help\n"},
        {{"help", "plan", "x", NULL}, "hspmdctl: no command plan x; see hspmdctl help\n"},
        {{"--adress", "x", "plan", NULL},
         "hspmdctl: unknown option --adress, did you mean --address?; see hspmdctl help\n"},
        {{"plan", NULL}, "hspmdctl: plan takes JOB [FROM TO]; see hspmdctl help plan\n"},
        {{"plan", "a", "--cluter", "x", NULL},
         "hspmdctl: unknown option --cluter, did you mean --cluster?; see hspmdctl help plan\n"},
        {{"plan", "a", "--cluster", NULL},
         "hspmdctl: option --cluster needs a value: FILE; see hspmdctl help plan\n"},
        {{"plan", "a", "-o", "xml", NULL},
         "hspmdctl: output format xml: this command writes table, json, yaml; see hspmdctl help "
         "plan\n"},
        {{"plan", "a", "--no-zero=1", NULL},
         "hspmdctl: option --no-zero takes no value; see hspmdctl help plan\n"},
        {{"plan", "-ca", "-cb", "c", NULL},
         "hspmdctl: option --cluster is given twice, give it once: FILE; see hspmdctl help plan\n"},
        {{"compile", "a", NULL}, "hspmdctl: compile needs -o FILE; see hspmdctl help compile\n"},
        {{"plan", "a", "--exit-code", NULL},
         "hspmdctl: --exit-code needs --live; see hspmdctl help plan\n"},
        {{"node", "check", "--threshold", "2", NULL},
         "hspmdctl: --threshold 2 is not a part like 0.7; see hspmdctl help node check\n"},
        {{"wait", "a", "--for=pizza", NULL},
         "hspmdctl: --for pizza: use done, running or step=N; see hspmdctl help wait\n"},
        {{"wait", "a", "--for", "step=x", NULL},
         "hspmdctl: --for step=x: use done, running or step=N; see hspmdctl help wait\n"},
        {{"plan", "a", "-s", "svg", NULL},
         "hspmdctl: --schedule takes text or trace; see hspmdctl help plan\n"},
        {{"version", "--timeout", "1194h", NULL},
         "hspmdctl: timeout 1194h is longer than 1193h; see hspmdctl help version\n"},
        {{"version", "--timeout", "3", NULL},
         "hspmdctl: timeout 3 is not a time like 500ms, 10s, 2m; see hspmdctl help version\n"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ctl_room_run(r, cases[i].words);
        assert_string_equal(r->msg, cases[i].msg);
        assert_int_equal(r->rc, HSP_EXIT_USAGE);
        assert_int_equal(r->n_out, 0);
    }
    RUN(r, "--no-headers");
    assert_int_equal(r->rc, HSP_EXIT_USAGE);
}

static void plan_prints_who_gets_what(void **state)
{
    struct room *r = *state;
    ctl_room_put(r, "job.yaml", ctl_tiny_job);
    ctl_room_put(r, "c.yaml", cluster);
    RUN(r, "plan", "@job.yaml", "--cluster", "@c.yaml", "-o", "json");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    cJSON *o = cJSON_Parse(r->out);
    assert_non_null(o);
    int sequences = 0;
    const cJSON *rank = NULL;
    cJSON_ArrayForEach(rank, cJSON_GetObjectItem(o, "ranks"))
    {
        sequences += cJSON_GetObjectItem(rank, "sequences")->valueint;
        assert_true(cJSON_GetObjectItem(rank, "memory_bytes")->valuedouble > 0);
    }
    assert_true(sequences >= 12);
    assert_true(cJSON_GetObjectItem(o, "step_seconds")->valuedouble > 0);
    cJSON_Delete(o);
    assert_string_equal(r->msg, "");
    RUN(r, "plan", "@job.yaml");
    assert_string_equal(r->msg, "hspmdctl: the plan is for 1 assumed CPU core: --cluster FILE "
                                "describes devices, --live asks hspmdd for its own\n");
    RUN(r, "compile", "@job.yaml", "-o", "@nowhere/x");
    assert_int_equal(r->rc, HSP_EXIT_FAILED);
    char many[1024];
    (void)snprintf(many, sizeof many, "%sresources: {min: 4, max: 8}\n", ctl_tiny_job);
    ctl_room_put(r, "many.yaml", many);
    RUN(r, "plan", "@many.yaml", "-c", "@c.yaml");
    assert_int_equal(r->rc, HSP_EXIT_IMPOSSIBLE);
    assert_non_null(strstr(r->msg, "job tiny needs 4 devices (resources.min); "));
    assert_non_null(strstr(r->msg, "/c.yaml has 3 to plan with\n"));
    RUN(r, "-otable", "plan", "-c", "@c.yaml", "@job.yaml");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    assert_non_null(strstr(r->out, "DEVICE"));
    assert_non_null(strstr(r->out, "a/0"));
    assert_non_null(strstr(r->out, "rejected:"));
    RUN(r, "plan", "@job.yaml", "-c", "@c.yaml", "-x", "a/0,a/1");
    assert_null(strstr(r->out, "a/0"));
    RUN(r, "plan", "@job.yaml", "-c", "@c.yaml", "-x", "a/7");
    assert_int_equal(r->rc, HSP_EXIT_NO_OBJECT);
    RUN(r, "plan", "@job.yaml", "-c", "@c.yaml", "-x", "a");
    assert_true(r->rc == HSP_EXIT_OK && strstr(r->out, "a/") == NULL); /* the whole node */
    RUN(r, "plan", "@job.yaml", "-c", "@c.yaml", "-x", "b,a/1");
    assert_true(r->rc == HSP_EXIT_OK && strstr(r->out, "a/0") != NULL);
    RUN(r, "plan", "@job.yaml", "-c", "@c.yaml", "-x", "a/0,a/");
    assert_int_equal(r->rc, HSP_EXIT_NO_OBJECT);
    assert_string_equal(r->msg, "hspmdctl: no device or node a/ in the cluster, whose first device "
                                "is a/0\n");
    RUN(r, "plan", "@job.yaml");
    assert_non_null(strstr(r->out, "local/0"));
}

/* The document that daemon/app makes, as a person sees it. */
static double number_of(const cJSON *o, const char *key)
{
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(o, key);
    assert_true(cJSON_IsNumber(n));
    return n->valuedouble;
}

/* Predicts a pipeline of two devices: on one node, on two nodes, with one copy of the state, and
 * with a state folder of little room. */
static void a_plan_says_which_losses_it_outlasts(void **state)
{
    struct room *r = *state;
    static const struct {
        const char *more, *folder, *exclude, *says;
    } cases[] = {
        {"", "", "b",
         "\nstate: copies 2; 1 more by replica holders, 253.5 KiB in the state folder of each, on "
         "nodes "
         "that may "
         "keep copies (hspmdctl node allow NODE --holder); the loss of a device costs the steps "
         "of up to 60 s, of a node without a replica holder all steps: checkpoint.every_steps is "
         "0\n"},
        {"checkpoint: {path: /srv/c, every_steps: 100}\n", "", "a/1",
         "\nstate: each part of the state is on 2 nodes, as copies that ranks keep for each other; "
         "the "
         "loss of one of them costs the steps of up to 60 s, of more the steps since the last "
         "checkpoint, at "
         "most 100\n"},
        {"recovery: {copies: 1, every: 1}\n", "", "a/1",
         "\nstate: copies 1; the loss of a device costs the step under way, of a node all steps: "
         "checkpoint.every_steps is 0\n"},
        {"recovery: {every: 4}\n", "", "a/1",
         "the loss of one of them costs up to 7 steps and the one under way, of more all steps: "
         "checkpoint.every_steps is 0\n"},
        {"recovery: {every: auto, max_recompute: 45}\n", "", "a/1",
         "the loss of one of them costs the steps of up to 90 s, of more all steps"},
        {"", "state_folder: 400KiB, ", "a/1",
         " on a; twice that during a switch\nthe state folder of a has room for 400.0 KiB: the "
         "next "
         "switch gives that node less, or leaves it out\nstate: "},
        {"", "state_folder: 721000, ", "a/1", " on a; twice that during a switch\nstate: "}};
    ctl_room_put(r, "two.yaml", ctl_two_ranks);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        (void)snprintf(text, sizeof text, "%s%s", ctl_tiny_job, cases[i].more);
        ctl_room_put(r, "job.yaml", text);
        (void)snprintf(text, sizeof text,
                       "apiVersion: hspmd/v1\nkind: cluster\nnodes: [{name: a, %sdevices: [{count: "
                       "2}]}, {name: b, devices: [{}]}]\n",
                       cases[i].folder);
        ctl_room_put(r, "c.yaml", text);
        RUN(r, "plan", "@job.yaml", "-c", "@c.yaml", "-p", "@two.yaml", "-x", cases[i].exclude);
        assert_int_equal(r->rc, HSP_EXIT_OK);
        if (strstr(r->out, cases[i].says) == NULL) {
            fail_msg("%zu: %s", i, r->out);
        }
        RUN(r, "plan", "@job.yaml", "-c", "@c.yaml", "-p", "@two.yaml", "-x", cases[i].exclude,
            "-o", "json");
        cJSON *o = cJSON_Parse(r->out);
        const cJSON *rank = NULL;
        double all = 0;
        cJSON_ArrayForEach(rank, cJSON_GetObjectItem(o, "ranks"))
        {
            all += cJSON_GetObjectItem(rank, "folder_bytes")->valuedouble;
        }
        assert_true(all > 0 && number_of(o, "folder_bytes") == all);
        assert_true((number_of(o, "node_folder_bytes_max") == all) == (i == 0));
        assert_non_null(cJSON_GetObjectItem(o, "durability"));
        cJSON_Delete(o);
    }
}

static void a_check_is_shown_as_tables(void **state)
{
    (void)state;
    char *text = hsp_test_source("tests/golden/nodecheck/doc.json"), *out = NULL, *msg = NULL;
    size_t n_out, n_msg;
    struct hsp_ctl ctl = {.out = open_memstream(&out, &n_out),
                          .msg = open_memstream(&msg, &n_msg),
                          .arena = hsp_arena_new((size_t)1 << 20),
                          .headers = true};
    cJSON *doc = cJSON_Parse(text);
    assert_non_null(doc);
    assert_int_equal(hsp_check_view(&ctl, doc), HSP_EXIT_FAILED);
    cJSON_SetNumberValue(cJSON_GetObjectItem(doc, "worse"), 0);
    ctl.format = HSP_FORMAT_JSON;
    assert_int_equal(hsp_check_view(&ctl, doc), HSP_EXIT_OK);
    cJSON_SetNumberValue(cJSON_GetObjectItem(doc, "measured"), 0);
    assert_int_equal(hsp_check_view(&ctl, doc), HSP_EXIT_IMPOSSIBLE);
    (void)fclose(ctl.out);
    (void)fclose(ctl.msg);
    struct hsp_buf all;
    hsp_buf_init(&all, 1 << 20);
    hsp_buf_printf(&all, "%s\n%s", out, msg);
    hsp_golden_check("nodecheck/table.txt", &all);
    hsp_buf_fini(&all);
    cJSON_Delete(doc);
    (void)hsp_arena_free(ctl.arena);
    free(text);
    free(out);
    free(msg);
}

/* A reason that an agent sent is printed as one text after the colon: it cannot forge a line, a
 * type or an actor. */
static void events_keep_reasons_in_their_place(void **state)
{
    (void)state;
    static const char line[] =
        "{\"ts\":\"2026-03-01T12:00:01.250Z\",\"seq\":7,\"type\":\"node.leave\",\"severity\":"
        "\"info\","
        "\"node\":\"w1\",\"reason\":\"bye\\n     8  12:00:02.000  notice   admin.cancel by uid 0: "
        "\\u001b[2J\\u009b\",\"data\":{\"actor\":\"uid 5\"}}";
    char *out = NULL;
    size_t n;
    struct hsp_ctl ctl = {.out = open_memstream(&out, &n)};
    hsp_event_view(&ctl, line, sizeof line - 1);
    (void)fclose(ctl.out);
    assert_string_equal(out,
                        "     7  2026-03-01 12:00:01.250Z  info     node.leave node w1 by uid 5: "
                        "bye\\u000a     8  12:00:02.000  notice   admin.cancel by uid 0: "
                        "\\u001b[2J\\u009b\n");
    free(out);
}

static void metrics_show_numbers_that_are_none(void **state)
{
    (void)state;
    static const char line[] = "{\"step\": 7, \"loss\": \"nan\", \"grad_norm\": \"inf\", "
                               "\"lr\": 0.001, \"seconds\": 0.5, \"epoch\": 2}";
    char *out = NULL;
    size_t n;
    struct hsp_ctl ctl = {.out = open_memstream(&out, &n)};
    hsp_metric_view(&ctl, line, sizeof line - 1);
    (void)fclose(ctl.out);
    assert_string_equal(
        out, "      7           nan             -         inf       0.001     0.500      2\n");
    assert_int_equal(ctl.deferred.code, HSP_OK);
    free(out);
}

/* Returns whether hsp_plan_unchanged still holds after one figure of the first rank in @doc was
 * changed. */
static bool still_same(const cJSON *doc, const char *key, const struct hsp_plan *plan,
                       const cJSON *devices)
{
    cJSON *other = cJSON_Duplicate(doc, true);
    cJSON *rank = cJSON_GetArrayItem(cJSON_GetObjectItem(other, "ranks"), 0);
    cJSON *x = cJSON_GetObjectItem(rank, key);
    if (cJSON_IsString(x)) {
        assert_non_null(cJSON_SetValuestring(x, "7"));
    } else {
        cJSON_SetNumberValue(x, 77);
    }
    bool same = hsp_plan_unchanged(other, plan, devices);
    cJSON_Delete(other);
    return same;
}

static void a_plan_is_the_one_that_runs_or_another(void **state)
{
    struct room *r = *state;
    struct hsp_err err = {0};
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    struct hsp_plan *plan = NULL;
    cJSON *devices = cJSON_CreateArray();
    const cJSON *rank;
    ctl_room_put(r, "job.yaml", ctl_tiny_job);
    ctl_room_put(r, "c.yaml", cluster);
    RUN(r, "plan", "@job.yaml", "-c", "@c.yaml", "-o", "yaml");
    assert_ok(hsp_plan_parse(r->out, r->n_out, "p", 12, arena, &plan, &err), &err);
    RUN(r, "plan", "@job.yaml", "-c", "@c.yaml", "-o", "json");
    cJSON *doc = cJSON_Parse(r->out);
    cJSON_ArrayForEach(rank, cJSON_GetObjectItem(doc, "ranks"))
    {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(rank, "device"));
        cJSON_AddItemToArray(devices, cJSON_CreateString(name));
    }
    assert_true(plan->n_ranks > 1);
    assert_true(hsp_plan_unchanged(doc, plan, devices));
    static const char *const keys[] = {"stream",      "stage",     "first_block",   "blocks",
                                       "tensor_part", "sequences", "micro_batches", "schedule"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        assert_false(still_same(doc, keys[i], plan, devices));
    }
    cJSON_AddItemToArray(devices, cJSON_DetachItemFromArray(devices, 0)); /* others' places */
    assert_false(hsp_plan_unchanged(doc, plan, devices));
    cJSON_DeleteItemFromArray(devices, 0);
    assert_false(hsp_plan_unchanged(doc, plan, devices));
    cJSON_Delete(devices);
    cJSON_Delete(doc);
    (void)hsp_arena_free(arena);
}

static const char chunked[] =
    "apiVersion: hspmd/v1\nkind: plan\nranks: 2\npipelines: [{sequences: 1, micro_batches: 3, "
    "schedule: interleaved, chunks: 2, stages: [{layers: [0, 1], ranks: [0]}, {layers: [1, 0], "
    "ranks: [1]}]}]\n";

/* The prediction for an interleaved plan says which blocks each rank has. hsp_plan_unchanged takes
 * a prediction with other blocks for another plan. */
static void chunks_of_a_plan_are_told(void **state)
{
    struct room *r = *state;
    struct hsp_err err = {0};
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    struct hsp_plan *plan = NULL;
    cJSON *devices = cJSON_CreateArray();
    ctl_room_put(r, "job.yaml", ctl_tiny_job);
    ctl_room_put(r, "p.yaml", chunked);
    RUN(r, "plan", "@job.yaml", "-p", "@p.yaml", "-o", "json");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    cJSON *doc = cJSON_Parse(r->out);
    const cJSON *rank;
    cJSON_ArrayForEach(rank, cJSON_GetObjectItem(doc, "ranks"))
    {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(rank, "device"));
        cJSON_AddItemToArray(devices, cJSON_CreateString(name));
    }
    rank = cJSON_GetArrayItem(cJSON_GetObjectItem(doc, "ranks"), 0);
    assert_string_equal(cJSON_GetObjectItem(rank, "block_ranges")->valuestring, "1");
    assert_string_equal(cJSON_GetObjectItem(rank, "schedule")->valuestring, "interleaved");
    RUN(r, "plan", "@job.yaml", "-p", "@p.yaml", "-o", "yaml");
    assert_ok(hsp_plan_parse(r->out, r->n_out, "p", 12, arena, &plan, &err), &err);
    assert_true(hsp_plan_unchanged(doc, plan, devices));
    assert_false(still_same(doc, "block_ranges", plan, devices));
    cJSON_Delete(devices);
    cJSON_Delete(doc);
    (void)hsp_arena_free(arena);
}

static const char pooled[] =
    "apiVersion: hspmd/v1\nkind: pool\nplans:\n"
    "  - {max_length: 16, plan: {ranks: 2, pipelines: [{sequences: 1, micro_batches: 1, stages: "
    "[{layers: 2, ranks: [0]}]}, {sequences: 1, micro_batches: 1, stages: [{layers: 2, ranks: "
    "[1]}]}]}}\n"
    "  - {max_length: 64, plan: {ranks: 2, pipelines: [{sequences: 1, micro_batches: 3, stages: "
    "[{layers: 2, ranks: [0, 1]}]}]}}\n";

/* Two pools differ if any of their plans differ. The programs of a pool are shown for each
 * length. */
static void pools_are_compared_and_shown_plan_by_plan(void **state)
{
    struct room *r = *state;
    struct hsp_err err = {0};
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    struct hsp_plan *one = NULL, *other = NULL;
    assert_ok(hsp_plan_parse(pooled, sizeof pooled - 1, "p", 12, arena, &one, &err), &err);
    assert_ok(hsp_plan_parse(pooled, sizeof pooled - 1, "p", 12, arena, &other, &err), &err);
    assert_true(hsp_pool_unchanged(one, other));
    other->shorter[0]->pipelines[1].stages[0].saved = HSP_SAVED_RECOMPUTE;
    assert_false(hsp_pool_unchanged(one, other));
    other->shorter[0]->pipelines[1].stages[0].saved = HSP_SAVED_KEEP; /* the meaning of open */
    assert_true(hsp_pool_unchanged(one, other));
    other->shorter[0]->pipelines[1].micro_batches = 2;
    assert_false(hsp_pool_unchanged(one, other));
    other->shorter[0]->pipelines[1].micro_batches = 1;
    other->shorter[0]->max_length = 32;
    assert_false(hsp_pool_unchanged(one, other));
    other->n_shorter = 0;
    assert_false(hsp_pool_unchanged(one, other));
    ctl_room_put(r, "job.yaml", documents);
    ctl_room_put(r, "p.yaml", pooled);
    RUN(r, "compile", "@job.yaml", "-p", "@p.yaml", "-o", "@pool.prog");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    RUN(r, "program", "show", "@pool.prog", "--rank", "1");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    const char *first = strstr(r->out, "plan for sequences of 16 tokens\nprogram rank 1 of 2\n");
    assert_non_null(first);
    assert_non_null(strstr(first, "plan for sequences of 64 tokens\nprogram rank 1 of 2\n"));
    assert_null(strstr(r->out, "program rank 0"));
    (void)hsp_arena_free(arena);
}

/* `hspmdctl plan` draws a schedule as text or as a trace, in one form at a time. */
static void a_schedule_is_drawn(void **state)
{
    struct room *r = *state;
    ctl_room_put(r, "job.yaml", ctl_tiny_job);
    ctl_room_put(r, "p.yaml", chunked);
    RUN(r, "plan", "@job.yaml", "-p", "@p.yaml", "--schedule", "text");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    assert_non_null(strstr(r->out, "pipeline 0: interleaved, "));
    assert_non_null(strstr(r->out, "\nstage 0   F0a"));
    assert_non_null(strstr(r->out, "\nstage 1   "));
    assert_non_null(strstr(r->out, "\na column is "));
    RUN(r, "plan", "@job.yaml", "-p", "@p.yaml", "-s", "trace");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    cJSON *o = cJSON_Parse(r->out);
    /* names of a process and two threads; two directions of two chunks on two ranks; the update */
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(o, "traceEvents")) - 3 - 3 * 2 * 2 * 2,
                     2 * 2);
    cJSON_Delete(o);
    static const char *const wrong[][4] = {{"-s", "svg", NULL}, {"-s", "text", "-ojson"}};
    for (int i = 0; i < 2; i++) {
        RUN(r, "plan", "@job.yaml", wrong[i][0], wrong[i][1], wrong[i][2]);
        assert_int_equal(r->rc, HSP_EXIT_USAGE);
    }
    RUN(r, "plan", "@job.yaml", "--live", "-s", "text");
    assert_int_equal(r->rc, HSP_EXIT_USAGE);
}

static void yaml_output_is_an_annotation(void **state)
{
    struct room *r = *state;
    char with[1024];
    ctl_room_put(r, "job.yaml", ctl_tiny_job);
    ctl_room_put(r, "c.yaml", cluster);
    RUN(r, "plan", "@job.yaml", "-c", "@c.yaml", "-o", "yaml");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    ctl_room_put(r, "p.yaml", r->out);
    (void)snprintf(with, sizeof(with), "%sannotations: [p.yaml]\n", ctl_tiny_job);
    ctl_room_put(r, "job2.yaml", with);
    RUN(r, "plan", "@job2.yaml", "-c", "@c.yaml");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    assert_non_null(strstr(r->out, "p.yaml)"));
    RUN(r, "plan", "@job.yaml", "-c", "@c.yaml", "--plan", "@p.yaml");
    assert_non_null(strstr(r->out, "given plan"));
}

static void compile_writes_programs_that_show_prints(void **state)
{
    struct room *r = *state;
    ctl_room_put(r, "job.yaml", ctl_tiny_job);
    ctl_room_put(r, "two.yaml", ctl_two_ranks);
    RUN(r, "compile", "@job.yaml", "-o", "@f", "--plan", "@two.yaml", "--verify", "--out", "x");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    assert_non_null(strstr(r->msg, "2 programs of tiny"));
    assert_non_null(strstr(r->msg, "the same templates at small extents: hidden "));
    RUN(r, "program", "show", "@f");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    assert_non_null(strstr(r->out, "program rank 0 of 2"));
    assert_non_null(strstr(r->out, "program rank 1 of 2"));
    RUN(r, "program", "show", "@f", "--rank=1");
    assert_null(strstr(r->out, "program rank 0 of 2"));
    RUN(r, "program", "show", "@f", "-r2");
    assert_int_equal(r->rc, HSP_EXIT_NO_OBJECT);
    assert_string_equal(r->msg, "hspmdctl: no rank 2, the file has 2\n");
    RUN(r, "program", "show", "@f", "--unsharded");
    assert_non_null(strstr(r->out, "program rank 0 of 1"));
    RUN(r, "program", "show", "@job.yaml");
    assert_int_equal(r->rc, HSP_EXIT_CONFIG);
    RUN(r, "graph", "show", "@job.yaml");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    assert_non_null(strstr(r->out, "backward:"));
}

/* The table's rows of a given plan, and the homes it refuses as compile does. */
static void a_given_plan_is_shown_or_refused(void **state)
{
    struct room *r = *state;
    char with[512];
    ctl_room_put(r, "job.yaml", ctl_tiny_job);
    ctl_room_put(r, "ends.yaml",
                 "{apiVersion: hspmd/v1, kind: plan, ranks: 3, pipelines: [{sequences: 12, stages: "
                 "[{layers: "
                 "0, ranks: [0]}, {layers: 2, ranks: [1]}, {layers: 0, ranks: [2]}]}]}");
    RUN(r, "plan", "@job.yaml", "--plan", "@ends.yaml");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    assert_non_null(strstr(r->out, " 0 -      100%"));
    assert_non_null(strstr(r->out, " 0 0-1    100%"));
    static const char *const homes[] = {"7", "{partial: [0, 1]}",
                                        "{split: 2, shares: [1, 1], of: [0, 1]}"};
    for (size_t i = 0; i < sizeof homes / sizeof *homes; i++) {
        (void)snprintf(with, sizeof with, "%.*s, parameters: [{name: \"wte*\", home: %s}]}",
                       (int)strlen(ctl_two_ranks) - 1, ctl_two_ranks, homes[i]);
        ctl_room_put(r, "home.yaml", with);
        RUN(r, "plan", "@job.yaml", "--plan", "@home.yaml");
        assert_int_equal(r->rc, HSP_EXIT_CONFIG);
        assert_non_null(strstr(r->msg, "home.yaml: home of wte.weight: "));
    }
}

static void bad_files_are_configuration_errors(void **state)
{
    struct room *r = *state;
    char with[1024];
    RUN(r, "plan", "@missing.yaml");
    assert_int_equal(r->rc, HSP_EXIT_CONFIG);
    ctl_room_put(r, "bad.yaml", "apiVersion: hspmd/v1\nnam: x\n");
    RUN(r, "plan", "@bad.yaml");
    assert_int_equal(r->rc, HSP_EXIT_CONFIG);
    assert_non_null(strstr(r->msg, "bad.yaml:2:1: unknown key \"nam\", did you mean \"name\"?\n"));
    ctl_room_put(r, "job.yaml", ctl_tiny_job);
    ctl_room_put(r, "wrong.yaml",
                 "{apiVersion: hspmd/v1, kind: plan, ranks: 1, pipelines: [{sequences: 12, "
                 "micro_batches: 1, stages: [{layers: 3, ranks: [0]}]}]}");
    RUN(r, "compile", "@job.yaml", "-o", "@f", "--plan", "@wrong.yaml");
    assert_int_equal(r->rc, HSP_EXIT_CONFIG);
    (void)snprintf(with, sizeof(with), "%sannotations: [wrong.yaml]\n", ctl_tiny_job);
    ctl_room_put(r, "job2.yaml", with);
    RUN(r, "plan", "@job2.yaml");
    assert_int_equal(r->rc, HSP_EXIT_CONFIG);
    ctl_room_put(r, "deep.yaml", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[");
    RUN(r, "plan", "@deep.yaml");
    assert_int_equal(r->rc, HSP_EXIT_CONFIG);
    RUN(r, "plan", "@job.yaml", "--plan", "@deep.yaml");
    assert_int_equal(r->rc, HSP_EXIT_CONFIG);
    RUN(r, "plan", "@job.yaml", "--cluster", "@deep.yaml");
    assert_int_equal(r->rc, HSP_EXIT_CONFIG);
    (void)snprintf(with, sizeof(with), "%sannotations: [nowhere.yaml]\n", ctl_tiny_job);
    ctl_room_put(r, "job2.yaml", with);
    RUN(r, "plan", "@job2.yaml");
    assert_int_equal(r->rc, HSP_EXIT_CONFIG);
    ctl_room_put(
        r, "small.yaml",
        "{apiVersion: hspmd/v1, kind: cluster, nodes: [{name: a, devices: [{memory: 1MiB}]}]}");
    RUN(r, "plan", "@job.yaml", "-c", "@small.yaml");
    assert_int_equal(r->rc, HSP_EXIT_IMPOSSIBLE);
    assert_non_null(strstr(r->msg, "largest worker offers 1.0 MiB"));
}

static const char dp2[] = "{apiVersion: hspmd/v1, kind: plan, ranks: 2, pipelines: [{sequences: 6, "
                          "stages: [{layers: 2, ranks: [0]}]}, {sequences: 6, stages: [{layers: 2, "
                          "ranks: [1]}]}]}";
static const char pp3[] = "{apiVersion: hspmd/v1, kind: plan, ranks: 3, pipelines: [{sequences: 6, "
                          "stages: [{layers: 2, ranks: [0]}]}, {sequences: 6, stages: [{layers: 1, "
                          "ranks: [1]}, {layers: 1, ranks: [2]}]}]}";

/* Shows the predicted transfer from two replicas on a/0 and a/1 to a plan with a third device; each
 * node has one network card. */
static void test_transition(void **state)
{
    struct room *r = *state;
    ctl_room_put(r, "job.yaml", ctl_tiny_job);
    ctl_room_put(r, "c.yaml", cluster);
    ctl_room_put(r, "dp2.yaml", dp2);
    ctl_room_put(r, "pp3.yaml", pp3);
    RUN(r, "plan", "@job.yaml", "-t", "@dp2.yaml", "@pp3.yaml", "-c", "@c.yaml", "-o", "json");
    assert_string_equal(r->msg, "");
    assert_int_equal(r->rc, 0);
    cJSON *o = cJSON_Parse(r->out);
    assert_non_null(o);
    double all = number_of(o, "moved_bytes");
    assert_true(all > 0);
    assert_near(number_of(o, "network_bytes"), all, 0);
    assert_near(number_of(o, "busiest_card_bytes"), all, 0);
    assert_near(number_of(o, "floor_bytes"), all, 0);
    assert_near(number_of(o, "passed_on_bytes"), 0, 0);
    assert_near(number_of(o, "templates"), 3, 0);
    assert_near(number_of(o, "new_templates"), 2, 0);
    const cJSON *phase = cJSON_GetObjectItemCaseSensitive(o, "phases")->child;
    assert_near(number_of(phase, "bytes"), all / 3, 1);
    assert_near(number_of(phase->next, "bytes"), 2 * all / 3, 1);
    double sent = 0, got = 0;
    const cJSON *l;
    cJSON_ArrayForEach(l, cJSON_GetObjectItemCaseSensitive(o, "links"))
    {
        bool card =
            strcmp(cJSON_GetObjectItemCaseSensitive(l, "link")->valuestring, "network card") == 0;
        sent += card ? number_of(l, "sent_bytes") : 0;
        got += card ? number_of(l, "received_bytes") : 0;
        assert_true(!card || number_of(l, "busy_seconds") > 0);
    }
    assert_near(sent, all, 0);
    assert_near(got, all, 0);
    cJSON_Delete(o);
    RUN(r, "plan", "@job.yaml", "--transition", "@dp2.yaml", "@pp3.yaml", "-c", "@c.yaml");
    assert_non_null(strstr(r->out, "busiest network card: that of "));
    assert_non_null(strstr(r->out, "\nprograms: 3 templates, 2 of them new\n"));
    assert_non_null(strstr(r->out, "phases: "));
    /* a device that is gone had the only copy of nothing; two that are gone had all */
    RUN(r, "plan", "@job.yaml", "-t", "@dp2.yaml", "@dp2.yaml", "-c", "@c.yaml", "-x", "a/0");
    assert_int_equal(r->rc, 0);
    assert_non_null(strstr(r->out, " templates, 0 of them new\n"));
    RUN(r, "plan", "@job.yaml", "-t", "@dp2.yaml", "@pp3.yaml", "-c", "@c.yaml", "-x", "a/0");
    assert_int_equal(r->rc, 7);
    assert_non_null(strstr(r->msg, "pp3.yaml has 3 ranks; 2 devices are there"));
    RUN(r, "plan", "@job.yaml", "@dp2.yaml", "@pp3.yaml", "-c", "@c.yaml");
    assert_int_equal(r->rc, 2);
    RUN(r, "plan", "@job.yaml", "-t", "@dp2.yaml", "@pp3.yaml");
    assert_int_equal(r->rc, 2);
}

HSP_TEST_FILE(ctl_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_transition, ctl_room_setup, ctl_room_teardown),
        cmocka_unit_test(a_check_is_shown_as_tables),
        cmocka_unit_test(events_keep_reasons_in_their_place),
        cmocka_unit_test(metrics_show_numbers_that_are_none),
        cmocka_unit_test_setup_teardown(help_comes_from_the_table, ctl_room_setup,
                                        ctl_room_teardown),
        cmocka_unit_test_setup_teardown(wrong_lines_are_usage_errors, ctl_room_setup,
                                        ctl_room_teardown),
        cmocka_unit_test_setup_teardown(plan_prints_who_gets_what, ctl_room_setup,
                                        ctl_room_teardown),
        cmocka_unit_test_setup_teardown(a_plan_says_which_losses_it_outlasts, ctl_room_setup,
                                        ctl_room_teardown),
        cmocka_unit_test_setup_teardown(a_plan_is_the_one_that_runs_or_another, ctl_room_setup,
                                        ctl_room_teardown),
        cmocka_unit_test_setup_teardown(chunks_of_a_plan_are_told, ctl_room_setup,
                                        ctl_room_teardown),
        cmocka_unit_test_setup_teardown(pools_are_compared_and_shown_plan_by_plan, ctl_room_setup,
                                        ctl_room_teardown),
        cmocka_unit_test_setup_teardown(a_schedule_is_drawn, ctl_room_setup, ctl_room_teardown),
        cmocka_unit_test_setup_teardown(yaml_output_is_an_annotation, ctl_room_setup,
                                        ctl_room_teardown),
        cmocka_unit_test_setup_teardown(compile_writes_programs_that_show_prints, ctl_room_setup,
                                        ctl_room_teardown),
        cmocka_unit_test_setup_teardown(a_given_plan_is_shown_or_refused, ctl_room_setup,
                                        ctl_room_teardown),
        cmocka_unit_test_setup_teardown(bad_files_are_configuration_errors, ctl_room_setup,
                                        ctl_room_teardown),
    };
    return cmocka_run_group_tests_name("ctl", tests, NULL, NULL);
}
