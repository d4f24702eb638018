/* Tests `hspmdctl status` and `ckpt list` as people see them, from documents. */
#include <cjson/cJSON.h>
#include <stdio.h>

#include "daemon/ctl/cmd_ckpt.h"
#include "daemon/ctl/cmd_feed.h"
#include "daemon/ctl/cmd_job.h"
#include "daemon/ctl/cmd_status.h"
#include "daemon/ctl/command.h"
#include "daemon/ctl/table.h"
#include "proto/base/size.h"
#include "tests/lib/testlib.h"

/* A command, and its output. */
struct view {
    struct hsp_ctl ctl;
    char *out;
    size_t n;
};

static void begin_view(struct view *v)
{
    *v = (struct view){.ctl = {.arena = hsp_arena_new((size_t)1 << 20), .headers = true}};
    v->ctl.out = open_memstream(&v->out, &v->n);
    assert_non_null(v->ctl.out);
}

static char *end_view(struct view *v)
{
    (void)fclose(v->ctl.out);
    (void)hsp_arena_free(v->ctl.arena);
    return v->out;
}

/* Returns the output of `status` with @n_pos names. */
static char *status_of(const char *doc, int n_pos)
{
    struct view v;
    begin_view(&v);
    v.ctl.n_pos = n_pos;
    cJSON *o = cJSON_Parse(doc);
    assert_non_null(o);
    assert_true(hsp_status_view(&v.ctl, o));
    cJSON_Delete(o);
    return end_view(&v);
}

static char *status_text(const char *doc)
{
    return status_of(doc, 1);
}

static void status_says_by_what_the_executors_talk(void **state)
{
    (void)state;
    char *t = status_text("{\"jobs\": [{\"name\": \"j\", \"data_plane\": \"tls\", \"transport\": "
                          "{\"shm\": 2, \"unix\": 0, \"tls\": 4, \"tcp\": 0}}]}");
    assert_non_null(strstr(t, ", data plane tls, NCCL within hosts only\ntransport: 2 by shm, 4 by "
                              "tcp+tls (connections between its executors)\ndevices:"));
    free(t);
    t = status_text("{\"jobs\": [{\"name\": \"j\", \"transport\": {\"unix\": 6, \"tcp\": 1}}]}");
    assert_non_null(strstr(t, "\ntransport: 6 by unix, 1 by tcp (connections"));
    free(t);
    t = status_text("{\"jobs\": [{\"name\": \"j\", \"data_plane\": \"clear\"}]}");
    assert_non_null(strstr(t, ", data plane clear\ndevices:"));
    free(t);
    t = status_text(
        "{\"jobs\": [{\"name\": \"j\", \"data_plane\": \"tls\", "
        "\"nccl_between_hosts\": \"clear\", \"trusted_network\": \"10.0.0.0/8, fd00::/8\"}]}");
    assert_non_null(
        strstr(t, ", data plane tls, NCCL allowed in clear on 10.0.0.0/8, fd00::/8\ndevices:"));
    free(t);
}

static void status_says_where_the_state_is(void **state)
{
    (void)state;
    char *t = status_text("{\"jobs\": [{\"name\": \"j\", \"checkpoint_path\": \"/c\", "
                          "\"checkpoint_shared\": true}]}");
    assert_non_null(strstr(t, "\ncheckpoints: in /c/j, which its nodes share\ndevices:"));
    free(t);
    t = status_text("{\"jobs\": [{\"name\": \"j\", \"checkpoint_path\": \"/c\", "
                    "\"final_model\": \"/c/j/final\"}]}");
    assert_non_null(strstr(t, ", of each of its nodes\nfinal model: in /c/j/final\ndevices:"));
    free(t);
    t = status_text("{\"jobs\": [{\"name\": \"j\", \"checkpoint_path\": \"/c\", "
                    "\"keeps_state\": true}]}");
    assert_non_null(strstr(t, "\ncheckpoints: in /c/j, of each of its nodes\nstate: stored by its "
                              "workers; resume uses it, cancel or forget deletes it\n"));
    free(t);
    t = status_text("{\"jobs\": [{\"name\": \"j\", \"keeps_state\": true, "
                    "\"nodes_per_shard_min\": 0}]}");
    assert_non_null(strstr(t, "; resume waits for the part that is on no connected node, cancel"));
    free(t);
    t = status_text("{\"jobs\": [{\"name\": \"j\", \"keeps_state\": true, \"diverged\": true}]}");
    assert_null(strstr(t, "resume uses it"));
    assert_non_null(
        strstr(t, "from an earlier checkpoint: resume names that checkpoint, for --from, cancel"));
    free(t);
}

static void status_says_what_lies_in_state_folders(void **state)
{
    (void)state;
    char *t = status_text("{\"jobs\": [{\"name\": \"j\", \"durability\": \"copies 2\", "
                          "\"folder_bytes\": 3072, \"node_folder_bytes_max\": 2048}]}");
    assert_non_null(
        strstr(t, "\nstate: copies 2\nstate folders: 3.0 KiB, 2.0 KiB of it on one node\n"));
    free(t);
    t = status_text("{\"jobs\": [{\"name\": \"j\", \"folder_bytes\": 1024, "
                    "\"node_folder_bytes_max\": 1024, \"keeper_bytes\": 1024}]}");
    assert_non_null(strstr(t, " 1.0 KiB of it on one node, 1.0 KiB on each replica holder\n"));
    free(t);
    t = status_text("{\"jobs\": [{\"name\": \"j\", \"keeper_bytes\": 1024}]}");
    assert_non_null(strstr(t, "\nstate folders: 1.0 KiB on each replica holder\n"));
    free(t);
}

static void status_says_which_steps_a_loss_costs(void **state)
{
    (void)state;
    char *t =
        status_text("{\"jobs\": [{\"name\": \"j\", \"durability\": \"copies 2\", \"loss_costs\": "
                    "\"the step under way\", \"stable_step\": 120, \"steps_above_stable\": 1}]}");
    assert_non_null(
        strstr(t, "\nstate: copies 2\nrecovery: a loss that leaves a copy of each part costs the "
                  "step under way; version 120 is stable, 1 step since\n"));
    free(t);
    t = status_text(
        "{\"jobs\": [{\"name\": \"j\", \"loss_costs\": \"up to 7 steps\", \"stable_step\": 120, "
        "\"steps_above_stable\": 3, \"due_steps\": 4}]}");
    assert_non_null(
        strstr(t, "costs up to 7 steps; version 120 is stable, 3 steps since; 4 steps between "
                  "stable versions\n"));
    free(t);
}

static void status_says_who_is_ahead(void **state)
{
    (void)state;
    char *t =
        status_of("{\"address\": \"here\", \"behind\": \"why\", \"behind_by\": [\"a\", \"b\"], "
                  "\"jobs\": []}",
                  0);
    assert_non_null(strstr(t, "behind: why\nnodes that are ahead: a b\n"));
    free(t);
    t = status_of(
        "{\"jobs\": [], \"nodes\": [{\"name\": \"a\", \"state\": \"draining\", \"reason\": "
        "\"fan\", \"waits\": \"waits: job j is behind and stays here\", \"devices\": "
        "[{\"index\": 0, \"up\": true, \"reason\": \"\"}]}]}",
        0);
    assert_non_null(strstr(t, "fan; waits: job j is behind and stays here"));
    free(t);
}

/* A state of a job that only a person can end is in the column STATE. */
static void status_says_what_waits_for_somebody(void **state)
{
    (void)state;
    char *t = status_of("{\"jobs\": [{\"name\": \"j\", \"state\": \"paused\", \"held\": true}, "
                        "{\"name\": \"k\", \"state\": \"failed\", \"keeps_state\": true}, "
                        "{\"name\": \"l\", \"state\": \"failed\", \"keeps_state\": false}]}",
                        0);
    assert_non_null(strstr(t, " held "));
    assert_non_null(strstr(t, " failed (keeps state) "));
    assert_non_null(strstr(t, " failed  "));
    assert_null(strstr(t, "paused"));
    free(t);
}

static void status_says_who_could_read_the_training(void **state)
{
    (void)state;
    char *t = status_of("{\"address\": \"here\", \"data_plane\": \"tls\", \"jobs\": []}", 0);
    assert_non_null(strstr(t, "\ndata plane: tls between hosts, NCCL within hosts only\n\n"));
    free(t);
    t = status_of("{\"address\": \"here\", \"insecure_loopback\": true, \"jobs\": []}", 0);
    assert_non_null(strstr(t, "hspmdd: here\ninsecure: every user of its host may join"));
    free(t);
    t = status_of(
        "{\"data_plane\": \"clear\", \"jobs\": [{\"name\": \"j\", \"data_plane\": \"tls\", "
        "\"trusted_network\": \"10.0.0.0/8\"}]}",
        0);
    assert_non_null(strstr(
        t, "\ndata plane: clear (chosen in hspmdd.yaml)\n"
           "            j: tls, NCCL allowed in clear on 10.0.0.0/8 until its next epoch\n"));
    free(t);
    t = status_of(
        "{\"data_plane\": \"tls\", \"trusted_network\": \"fd00::/8\", \"jobs\": [{\"name\": "
        "\"j\", \"data_plane\": \"tls\"}, {\"name\": \"k\", \"data_plane\": \"tls\", "
        "\"trusted_network\": \"fd00::/8\"}]}",
        0);
    assert_non_null(strstr(t,
                           "\ndata plane: tls between hosts, NCCL allowed in clear on fd00::/8\n"
                           "            j: tls, NCCL within hosts only until its next epoch\n\n"));
    free(t);
}

static void status_shows_a_loss_that_is_no_number(void **state)
{
    (void)state;
    char *t =
        status_text("{\"jobs\": [{\"name\": \"j\", \"state\": \"running\", \"loss\": \"nan\"}]}");
    assert_non_null(strstr(t, " nan "));
    free(t);
}

static void status_shows_nodes_that_do_not_reach_each_other(void **state)
{
    (void)state;
    char *t = status_of("{\"address\": \"here\", \"nodes\": [], \"broken_links\": [{\"nodes\": "
                        "[\"a\", \"b\"], \"seconds\": 12.3, \"next_seconds\": 2.9, \"reason\": "
                        "\"a does not answer calls of b\"}, {\"nodes\": [\"b\", \"c\"], \"slow\": "
                        "true, \"seconds\": 2, \"next_seconds\": 3, \"reason\": \"why\"}]}",
                        0);
    assert_non_null(
        strstr(t, "\nb and c are connected too slowly for 2 s, measured in 3 s: why\n"));
    assert_non_null(strstr(t, "\n\na and b cannot reach each other for 12 s, tried in 3 s: a does "
                              "not answer calls of b\n"));
    free(t);
}

static void status_shows_where_the_ranks_stand(void **state)
{
    (void)state;
    char *t = status_of(
        "{\"jobs\": [{\"name\": \"j\", \"state\": \"running\", \"stalled\": {\"seconds\": 3, "
        "\"reason\": "
        "\"all wait for b\", \"ranks\": [{\"device\": \"a/0\", \"step\": 7, \"validation\": true, "
        "\"micro_batch\": 2, \"instruction\": 118, \"threads\": [{\"does\": \"receives from\", "
        "\"peer\": "
        "\"b/0\", \"seconds\": 2.94}, {\"does\": \"computes\", \"seconds\": 0}]}, {\"device\": "
        "\"b/0\"}]}}]}",
        1);
    assert_non_null(strstr(t, "\nstalled: all wait for b\n"));
    const char *row = strstr(t, "a/0 ");
    assert_non_null(row);
    assert_non_null(strstr(row, "7 (validation)"));
    assert_non_null(strstr(row, "118 receives from b/0 2.9 s computes 0.0 s\n"));
    assert_non_null(strstr(row, "does not answer"));
    free(t);
}

static void status_shows_what_plans_do_without(void **state)
{
    (void)state;
    char *t = status_of(
        "{\"address\": \"here\", \"nodes\": [], \"facts\": ["
        "{\"kind\": \"broken-link\", \"node\": \"a\", \"peer\": \"b\", \"seconds\": 1},"
        "{\"kind\": \"out-of-memory\", \"job\": \"j\", \"node\": \"a\", \"device\": 1, "
        "\"seconds\": 12, \"left_seconds\": 588, \"reason\": \"no memory for it\"},"
        "{\"kind\": \"cordoned\", \"node\": \"b\", \"device\": 0, \"seconds\": 3, \"reason\": "
        "\"XID 48\", \"ends\": \"when it is reset\"}]}",
        0);
    assert_null(strstr(t, "broken-link"));
    assert_non_null(strstr(t, "\nAfter a failure jobs do not use these for a while, see LEFT OUT "
                              "in hspmdctl(1):\nLEFT OUT OF JOB BECAUSE OF "));
    assert_non_null(
        strstr(t, "\na/1      j      out-of-memory 12.00 s       588.00 s no memory for it\n"));
    assert_non_null(strstr(t, "\nb/0      all    cordoned "));
    assert_non_null(strstr(t, "              - XID 48; it ends when it is reset\n"));
    free(t);
    t = status_of("{\"address\": \"here\", \"nodes\": [], \"facts\": []}", 0);
    assert_null(strstr(t, "LEFT OUT"));
    free(t);
}

#define LINE(type, reason) "{\"ts\": \"T\", \"type\": \"" type "\", \"reason\": \"" reason "\"}\n"

static char *ckpts(const char *lines)
{
    struct view v;
    begin_view(&v);
    assert_true(hsp_ckpt_view(&v.ctl, lines));
    return end_view(&v);
}

/* A checkpoint that was reported and is no longer on disk (checkpoint.keep deletes old ones) is
 * shown as gone, or as not seen if a node did not answer. */
static void a_checkpoint_that_is_gone_is_told_from_one_that_is_there(void **state)
{
    (void)state;
    static const char reported[] = LINE("ckpt.complete", "version 20, 5 bytes")
        LINE("ckpt.failed", "version 30: no space") LINE("ckpt.complete", "version 40, 5 bytes");
    char lines[1024];
    (void)snprintf(lines, sizeof lines, "%s%s", reported,
                   LINE("ckpt.on_disk", "version 40 of epoch 2, complete, seen by a"));
    char *t = ckpts(lines);
    assert_non_null(strstr(t, "gone     version 20, 5 bytes: was complete, no node sees it now\n"));
    assert_non_null(strstr(t, "failed   version 30: no space\n"));
    assert_non_null(strstr(t, "complete version 40, 5 bytes\n"));
    assert_non_null(strstr(t, "on_disk  version 40 of epoch 2, complete, seen by a\n"));
    free(t);
    (void)snprintf(lines, sizeof lines, "%s%s", reported, LINE("ckpt.not_seen", "b: no answer"));
    t = ckpts(lines);
    assert_null(strstr(t, "gone"));
    assert_non_null(strstr(t, "not seen version 40, 5 bytes: was complete, no node sees it now\n"));
    free(t);
}

/* A checkpoint was reported as complete, but the job has given up its version since. It is listed
 * as given-up, unless a checkpoint of the same version that was not given up is on disk. */
static void a_checkpoint_that_was_given_up_is_told_from_one_that_counts(void **state)
{
    (void)state;
    char *t = ckpts(
        LINE("ckpt.complete", "version 53, 5 bytes") LINE("ckpt.complete", "version 60, 5 bytes")
            LINE("ckpt.on_disk", "version 60 of epoch 3, complete, seen by a")
                LINE("ckpt.on_disk", "version 60 of epoch 1, complete, given-up, seen by b")
                    LINE("ckpt.on_disk", "version 53 of epoch 1, complete, given-up, seen by b"));
    assert_non_null(strstr(t, "complete version 53, 5 bytes: given-up\n"));
    assert_non_null(strstr(t, "complete version 60, 5 bytes\n"));
    assert_non_null(strstr(t, "on_disk  version 53 of epoch 1, complete, given-up, seen by b\n"));
    free(t);
}

/* The cause of an event is in parentheses after the reason, or in the place of an empty reason. */
static void an_event_says_each_thing_once(void **state)
{
    (void)state;
    static const struct {
        const char *line, *end;
    } table[] = {
        {"{\"type\": \"job.starting\", \"reason\": \"\", \"data\": {\"cause\": \"submit\"}}",
         "job.starting: submit\n"},
        {"{\"type\": \"x\", \"reason\": \"r\", \"data\": {\"cause\": \"c\"}}", "x: r (c)\n"},
        {"{\"type\": \"x\", \"reason\": \"r\", \"data\": {}}", "x: r\n"},
        {"{\"seq\": 7, \"ts\": \"2026-11-28T12:00:01.250Z\", \"severity\": \"info\", \"type\": "
         "\"x\", "
         "\"reason\": \"r\"}",
         "     7  2026-11-28 12:00:01.250Z  info     x: r\n"},
        {"{\"type\": \"x\", \"reason\": \"\", \"data\": {\"cause\": \"c\", \"switch_seconds\": 1, "
         "\"lost_steps\": 2}}",
         "x: , 2 steps lost, switch 1 s (c)\n"},
    };
    for (size_t i = 0; i < HSP_ARRAY_LEN(table); i++) {
        struct view v;
        begin_view(&v);
        hsp_event_view(&v.ctl, table[i].line, strlen(table[i].line));
        char *out = end_view(&v);
        size_t len = strlen(table[i].end);
        assert_true(v.n >= len);
        assert_string_equal(out + v.n - len, table[i].end);
        free(out);
    }
}

#define FIFTY "12345678901234567890123456789012345678901234567890"
#define LONG  FIFTY FIFTY FIFTY FIFTY FIFTY

/* hspmdctl says why a job was not suspended, and prints the whole reason. */
static void a_job_that_was_not_suspended(void **state)
{
    (void)state;
    static const struct {
        const char *doc, *said;
    } table[] = {
        {"{\"state\": \"running\", \"reason\": \"\", \"problem\": \"b/0: no space\"}",
         "job j was not suspended and trains on: b/0: no space; hspmdctl events j says more"},
        {"{\"state\": \"running\", \"reason\": \"\"}",
         "job j was not suspended and trains on; hspmdctl events j says why"},
        {"{\"state\": \"failed\", \"reason\": \"diverged\"}",
         "job j was not suspended and is failed: diverged; hspmdctl events j says more"},
        {"{\"state\": \"running\", \"reason\": \"\", \"problem\": \"" LONG "no space\"}",
         "job j was not suspended and trains on: " LONG "no space; hspmdctl events j says more"},
        {"{\"state\": \"running\", \"suspending\": true}", NULL},
    };
    for (size_t i = 0; i < HSP_ARRAY_LEN(table); i++) {
        struct hsp_ctl ctl = {.pos = {"j"}};
        struct hsp_err err = {0};
        cJSON *o = cJSON_Parse(table[i].doc);
        enum hsp_status st = hsp_suspend_view(&ctl, o, &err);
        assert_int_equal(st, table[i].said != NULL ? HSP_ESTATE : HSP_AGAIN);
        assert_string_equal(ctl.said, table[i].said != NULL ? table[i].said : "");
        assert_int_equal(strncmp(ctl.said, err.msg, strlen(err.msg)), 0);
        cJSON_Delete(o);
    }
}

/* A table of two rows on a terminal of @width characters. */
static char *table_on(size_t width, bool headers)
{
    static const struct hsp_column cols[] = {
        {"EPOCH", true}, {"CAUSE", HSP_FOLDED}, {"STATE", false}, {"PLAN", HSP_FOLDED}};
    static const char *const rows[][4] = {
        {"1", "n1 is dead: it says nothing", "ok", "1 GPU, 1 pipeline; 4 sequences in 2: 3 blocks"},
        {"22", "", "lost", "/a/word/that/is/much/too/long/for/it a b"}};
    struct view v;
    begin_view(&v);
    v.ctl.width = width;
    v.ctl.headers = headers;
    struct hsp_table *t = hsp_table_new(&v.ctl, cols, HSP_ARRAY_LEN(cols));
    hsp_table_row(t, rows[0]);
    hsp_table_row(t, rows[1]);
    assert_true(hsp_table_print(t));
    return end_view(&v);
}

static void a_table_fits_its_terminal(void **state)
{
    (void)state;
    static const struct {
        size_t width;
        bool headers;
        const char *text;
    } tables[] = {
        {0, true,
         "EPOCH CAUSE                       STATE PLAN\n"
         "    1 n1 is dead: it says nothing ok    1 GPU, 1 pipeline; 4 sequences in 2: 3 blocks\n"
         "   22                             lost  /a/word/that/is/much/too/long/for/it a b\n"},
        {85, true,
         "EPOCH CAUSE                       STATE PLAN\n"
         "    1 n1 is dead: it says nothing ok    1 GPU, 1 pipeline; 4 sequences in 2: 3 blocks\n"
         "   22                             lost  /a/word/that/is/much/too/long/for/it a b\n"},
        {84, true,
         "EPOCH CAUSE                       STATE PLAN\n"
         "    1 n1 is dead: it says nothing ok    1 GPU, 1 pipeline; 4 sequences in 2: 3\n"
         "                                        blocks\n"
         "   22                             lost  /a/word/that/is/much/too/long/for/it a b\n"},
        {70, true,
         "EPOCH CAUSE                       STATE PLAN\n"
         "    1 n1 is dead: it says nothing ok    1 GPU, 1 pipeline; 4 sequences\n"
         "                                        in 2: 3 blocks\n"
         "   22                             lost  /a/word/that/is/much/too/long/\n"
         "                                        for/it a b\n"},
        {50, true,
         "EPOCH STATE\n"
         "    1 ok\n"
         "    CAUSE: n1 is dead: it says nothing\n"
         "    PLAN: 1 GPU, 1 pipeline; 4 sequences in 2: 3\n"
         "    blocks\n"
         "   22 lost\n"
         "    PLAN: /a/word/that/is/much/too/long/for/it a b\n"},
        {50, false,
         "    1 ok\n"
         "    CAUSE: n1 is dead: it says nothing\n"
         "    PLAN: 1 GPU, 1 pipeline; 4 sequences in 2: 3\n"
         "    blocks\n"
         "   22 lost\n"
         "    PLAN: /a/word/that/is/much/too/long/for/it a b\n"},
    };
    for (size_t i = 0; i < HSP_ARRAY_LEN(tables); i++) {
        char *text = table_on(tables[i].width, tables[i].headers);
        assert_string_equal(text, tables[i].text);
        free(text);
    }
}

HSP_TEST_FILE(status_view_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_says_by_what_the_executors_talk),
        cmocka_unit_test(an_event_says_each_thing_once),
        cmocka_unit_test(a_job_that_was_not_suspended),
        cmocka_unit_test(a_table_fits_its_terminal),
        cmocka_unit_test(status_says_where_the_state_is),
        cmocka_unit_test(status_says_what_lies_in_state_folders),
        cmocka_unit_test(status_says_which_steps_a_loss_costs),
        cmocka_unit_test(status_says_who_is_ahead),
        cmocka_unit_test(status_says_what_waits_for_somebody),
        cmocka_unit_test(status_says_who_could_read_the_training),
        cmocka_unit_test(status_shows_a_loss_that_is_no_number),
        cmocka_unit_test(status_shows_where_the_ranks_stand),
        cmocka_unit_test(status_shows_nodes_that_do_not_reach_each_other),
        cmocka_unit_test(status_shows_what_plans_do_without),
        cmocka_unit_test(a_checkpoint_that_is_gone_is_told_from_one_that_is_there),
        cmocka_unit_test(a_checkpoint_that_was_given_up_is_told_from_one_that_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
