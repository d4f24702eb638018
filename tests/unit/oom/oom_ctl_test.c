/* Fails allocations of daemon/ctl: a command without memory for its answer says so, and shows
 * none. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/ctl/cmd_feed.h"
#include "daemon/ctl/cmd_help.h"
#include "daemon/ctl/cmd_show.h"
#include "daemon/ctl/command.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/ctl_run.h"
#include "daemon/ctl/options.h"
#include "proto/base/size.h"
#include "proto/net/frame_client.h"
#include "proto/wire/msg_encode.h"
#include "proto/wire/msg_frame.h"
#include "tests/lib/oom.h"
#include "tests/lib/testlib.h"

#define TEXT_MAX 65536

struct room {
    char *dir;
    char socket[120];
    pid_t server;
    FILE *out, *msg; /* with buffers of their own */
};

/* ---- hspmdd, as far as commands see it ---- */

static const char status_doc[] =
    "{\"apiVersion\":\"hspmd/v1\",\"kind\":\"status\",\"term\":1,\"address\":\"h:7071\","
    "\"data_plane\":\"tls\",\"problem\":\"disk full\",\"jobs\":[{\"id\":1,\"name\":\"j\","
    "\"state\":\"running\",\"reason\":\"\",\"problem\":\"a checkpoint is not written\","
    "\"suspending\":true,\"priority\":0,\"min\":1,\"max\":8,\"copies\":2,\"step\":3,\"steps\":10,"
    "\"epoch\":2,\"data_plane\":\"clear\",\"loss\":2.5,\"step_seconds\":0.25,"
    "\"checkpoint_step\":2,\"nodes_per_shard_min\":1,\"durability\":\"copies 2\","
    "\"checkpoint_path\":\"/c\",\"data\":{\"path\":\"/d\",\"bytes\":9,\"tokens\":9,"
    "\"digest\":\"00\",\"pass\":0,\"sample\":4,\"pass_samples\":9,\"tokens_read\":36},"
    "\"devices\":[\"a/0\"],\"keepers\":[\"b/1\"],\"plan\":{\"summary\":\"one\","
    "\"source\":\"planner\",\"why\":\"because\",\"ranks\":1,\"step_seconds\":0.2},"
    "\"epochs\":[{\"epoch\":2,\"first_step\":1,\"lost_steps\":0,\"detect_seconds\":0.1,"
    "\"cause\":\"join\",\"plan\":\"one\"}]}],\"nodes\":[{\"name\":\"a\",\"state\":\"live\","
    "\"reason\":\"\",\"uplink\":{\"latency_seconds\":1e-3,\"bytes_per_second\":1e8},"
    "\"devices\":[{\"index\":0,\"up\":true,\"job\":\"j\",\"kind\":\"cpu\",\"speed\":1,"
    "\"memory_bytes\":1073741824}],\"keepers\":[]},"
    "{\"name\":\"spare\",\"keeps\":[{\"id\":7,\"cluster\":\"c1\"},{\"id\":9,\"cluster\":\"c1\"}]}]"
    "}";
static const char suspended_doc[] =
    "{\"jobs\":[{\"name\":\"s\",\"state\":\"suspended\",\"reason\":\"at step 3\"}],"
    "\"nodes\":[]}";
static const char plan_text[] =
    "{apiVersion: hspmd/v1, kind: plan, ranks: 1, pipelines: [{sequences: 12, micro_batches: 3, "
    "stages: [{layers: 2, ranks: [0]}]}]}";
static const char job_text[] =
    "apiVersion: hspmd/v1\nname: j\n"
    "model: {family: gpt, layers: 2, hidden: 16, heads: 2, sequence: 8, tied_head: true}\n"
    "data: {path: /tmp/x}\nannotations: [one.yaml]\n"
    "train: {steps: 2, global_batch: 12, optimizer: {name: adamw, lr: 1e-3}}\n";
static const char plan_doc[] =
    "{\"plan_yaml\":\"{apiVersion: hspmd/v1, kind: plan, ranks: 1, pipelines: [{sequences: 12, "
    "micro_batches: 3, stages: [{layers: 2, ranks: "
    "[0]}]}]}\",\"job\":\"j\",\"why\":\"because\",\"source\":\"planner\",\"zero\":0,\"streams\":1,"
    "\"step_seconds\":0.1,\"folder_bytes\":1,\"node_folder_bytes_max\":1,\"durability\":\"copies "
    "1\","
    "\"ranks\":[{\"rank\":0,\"device\":\"a/0\",\"stream\":0,\"stage\":0,"
    "\"schedule\":\"1f1b\",\"first_block\":0,\"blocks\":2,\"tensor_part\":1,\"sequences\":12,"
    "\"micro_batches\":3,"
    "\"compute_seconds\":0.1,\"tensor_seconds\":0,\"update_seconds\":0,\"sync_seconds\":0,"
    "\"memory_bytes\":1000,\"offered_bytes\":2000}],"
    "\"rejected\":[{\"what\":\"two\",\"why\":\"slower\"}]}";
static const char events_doc[] =
    "{\"ts\":\"2026-01-01T12:00:00.000Z\",\"seq\":1,\"type\":\"switch.end\",\"severity\":"
    "\"notice\","
    "\"job\":\"j\",\"node\":\"a\",\"reason\":\"epoch 2\",\"data\":{\"cause\":\"join\","
    "\"actor\":\"me\",\"switch_seconds\":1,\"lost_steps\":0}}\n"
    "{\"ts\":\"2026-01-01T12:00:01.000Z\",\"seq\":2,\"type\":\"ckpt.complete\","
    "\"severity\":\"info\",\"job\":\"j\",\"reason\":\"version 2\",\"data\":{}}\n";
static const char trace_doc[] =
    "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"job\":\"j\",\"clock_error_us\":12.000,\"note\":"
    "\"1 of 3 steps: the epoch ended\",\"devices\":[{\"rank\":0,\"told\":true,\"first_step\":7,"
    "\"steps\":1,\"spans\":0}]},\n\"traceEvents\":[\n]}\n";
static const char metrics_doc[] =
    "{\"step\":1,\"loss\":2.5,\"val_loss\":2.25,\"tokens\":9,\"grad_norm\":1,\"lr\":0.1,"
    "\"seconds\":0.5,\"epoch\":2}\n{\"step\":2,\"loss\":\"nan\"}\n";

static const char *answer_of(const struct hsp_msg *m)
{
    switch ((enum hsp_msg_type)m->type) {
    case HSP_MSG_STATUS: return m->u.query.name[0] == 's' ? suspended_doc : status_doc;
    case HSP_MSG_SUBMIT: return "{\"job\":\"j\"}";
    case HSP_MSG_PLAN: return plan_doc;
    case HSP_MSG_PROGRAM: return plan_text;
    case HSP_MSG_GRAPH: return m->u.query.what[0] == 'j' ? job_text : plan_text;
    case HSP_MSG_EVENTS:
    case HSP_MSG_LOGS: return events_doc;
    case HSP_MSG_METRICS: return metrics_doc;
    case HSP_MSG_TRACE_JOB: return trace_doc;
    case HSP_MSG_CKPT: return m->u.query.what[0] == 'l' ? events_doc : "";
    case HSP_MSG_BACKUP: return m->u.query.what[0] == '\0' ? "{\"backup\":1,\"bytes\":5}" : "store";
    case HSP_MSG_WAIT: return "{\"state\":\"done\",\"step\":10}";
    default: return "";
    }
}

/* One connection: a reply to each request. */
static void serve_one(int fd, const char *check_doc)
{
    struct hsp_client *c;
    struct hsp_err err;
    struct hsp_frame f;
    if (hsp_client_adopt(fd, &c, &err) != HSP_OK) {
        _exit(1);
    }
    while (hsp_client_recv(c, 0, &f, &err) == HSP_OK) {
        struct hsp_arena *a = hsp_arena_new((size_t)16 << 20);
        struct hsp_msg m, reply = {.type = HSP_MSG_REPLY, .u.reply = {.message = ""}};
        struct hsp_buf body;
        hsp_buf_init(&body, HSP_MSG_BODY_MAX);
        if (hsp_msg_read(&f, a, &m, &err) != HSP_OK) {
            _exit(1);
        }
        const char *text = m.type == HSP_MSG_NODE_CHECK ? check_doc : answer_of(&m);
        reply.request = m.request;
        if (hsp_msg_encode(&reply, &body, &err) != HSP_OK) {
            _exit(1);
        }
        const struct hsp_frame_header head = hsp_msg_head(&reply, body.len);
        (void)hsp_client_send(c, &head, body.data, body.len, text, strlen(text), 0, &err);
        hsp_buf_fini(&body);
        (void)hsp_arena_free(a);
        hsp_frame_fini(&f);
    }
    hsp_client_close(c);
}

static pid_t serve(const char *path)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    char *check_doc = hsp_test_source("tests/golden/nodecheck/doc.json");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(sa.sun_path, sizeof sa.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(listen(fd, 16), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int c; (c = accept(fd, NULL, NULL)) >= 0;) {
            serve_one(c, check_doc);
        }
        _exit(0);
    }
    (void)close(fd);
    free(check_doc);
    return pid;
}

/* ---- the room ---- */

static void put(const struct room *r, const char *name, const char *text, mode_t mode)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", r->dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static FILE *open_stream(const struct room *r, const char *name, char *buffer)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", r->dir, name);
    FILE *f = fopen(path, "w+");
    assert_non_null(f);
    assert_int_equal(setvbuf(f, buffer, _IOFBF, TEXT_MAX), 0);
    return f;
}

static int setup(void **state)
{
    static char out[TEXT_MAX], msg[TEXT_MAX];
    struct room *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->dir = hsp_test_tmpdir();
    (void)snprintf(r->socket, sizeof r->socket, "%s/d.sock", r->dir);
    assert_int_equal(setenv("HSPMD_ADDRESS", r->socket, 1), 0);
    assert_int_equal(setenv("PATH", r->dir, 1), 0); /* for hspmd-worker */
    r->server = serve(r->socket);
    r->out = open_stream(r, "out", out);
    r->msg = open_stream(r, "msg", msg);
    put(r, "hspmd-worker", "#!/bin/sh\necho checked\n", 0700);
    put(r, "job.yaml", job_text, 0600);
    put(r, "one.yaml", plan_text, 0600);
    put(r, "chunks.yaml",
        "{apiVersion: hspmd/v1, kind: plan, ranks: 1, pipelines: [{sequences: 1, schedule: "
        "interleaved, chunks: 2, stages: [{layers: [1, 1], ranks: [0]}]}]}",
        0600);
    put(r, "c.yaml",
        "apiVersion: hspmd/v1\nkind: cluster\nnodes: [{name: a, devices: [{speed: 1e-2}]}]\n",
        0600);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    struct room *r = *state;
    (void)kill(r->server, SIGKILL);
    (void)waitpid(r->server, NULL, 0);
    assert_int_equal(fclose(r->out), 0);
    assert_int_equal(fclose(r->msg), 0);
    hsp_test_rmdir(r->dir);
    free(r->dir);
    free(r);
    return 0;
}

/* ---- commands ---- */

struct command {
    const struct room *r;
    int rc;           /* when nothing fails */
    const char *file; /* its output, NULL none */
    const char *words[12];
};

static void rewind_stream(FILE *f)
{
    rewind(f);
    assert_int_equal(ftruncate(fileno(f), 0), 0);
}

static void read_stream(FILE *f, char text[TEXT_MAX])
{
    assert_int_equal(fflush(f), 0);
    ssize_t n = pread(fileno(f), text, TEXT_MAX - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
}

/* The output to a file: its size, and of a program all of it (a bundle tells the time). */
static void add_file(const struct command *c, struct hsp_buf *out)
{
    static char text[1 << 20];
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", c->r->dir, c->file);
    int fd = open(path, O_RDONLY | O_CLOEXEC); /* a stream would need memory */
    assert_true(fd >= 0);
    ssize_t n = read(fd, text, sizeof text);
    assert_true(n > 0);
    assert_int_equal(close(fd), 0);
    hsp_buf_printf(out, "%zd bytes\n", n);
    hsp_buf_append(out, text, strcmp(c->file, "program") == 0 ? (size_t)n : 0);
}

/* Its messages. The last line of a failure names the lack of memory. */
static enum hsp_status run(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    static char text[TEXT_MAX], said[TEXT_MAX];
    const struct command *c = ctx;
    const char *argv[HSP_ARRAY_LEN(c->words) + 1] = {"hspmdctl"};
    char path[HSP_ARRAY_LEN(c->words)][256];
    int argc = 1;
    for (; c->words[argc - 1] != NULL; argc++) {
        const char *w = c->words[argc - 1];
        (void)snprintf(path[argc - 1], sizeof path[0], "%s/%s", c->r->dir, w + 1);
        argv[argc] = w[0] == '@' ? path[argc - 1] : w;
    }
    rewind_stream(c->r->out);
    rewind_stream(c->r->msg);
    int rc = hsp_ctl_run(argc, argv, c->r->out, c->r->msg);
    read_stream(c->r->out, text);
    read_stream(c->r->msg, said);
    const char *last = NULL, *line = said;
    while ((line = strstr(line, "hspmdctl: ")) != NULL) {
        last = line++;
    }
    bool whole = last != NULL && strchr(last, '\n') == said + strlen(said) - 1;
    bool lack =
        whole && (strstr(last, "memory") != NULL || strstr(last, "Cannot allocate") != NULL);
    if (rc == c->rc && !lack) {
        hsp_buf_puts(out, text);
        hsp_buf_puts(out, said);
        if (c->file != NULL) {
            add_file(c, out);
        }
        return HSP_OK;
    }
    return hsp_err_set(err, lack && rc == HSP_EXIT_FAILED ? HSP_ENOMEM : HSP_EIO, 0, "exit %d: %s",
                       rc, said);
}

static void try(struct room *r, int rc, const char *file, const char *const *words)
{
    struct command c = {.r = r, .rc = rc, .file = file};
    char name[128] = "";
    for (size_t i = 0; words[i] != NULL; i++) {
        c.words[i] = words[i];
        (void)snprintf(name + strlen(name), sizeof name - strlen(name), " %s", words[i]);
    }
    hsp_oom_loop(name + 1, run, &c, 200);
}
#define TRY(r, rc, ...)        try((r), (rc), NULL, (const char *const[]){__VA_ARGS__, NULL})
#define TRY_FILE(r, file, ...) try((r), 0, (file), (const char *const[]){__VA_ARGS__, NULL})

static void commands_that_ask_for_documents(void **state)
{
    struct room *r = *state;
    TRY(r, 0, "status");
    TRY(r, 0, "status", "j");
    TRY(r, 0, "status", "-o", "json");
    TRY(r, 0, "node", "list");
    TRY(r, 0, "node", "list", "-o", "json");
    TRY(r, 0, "node", "show", "a");
    TRY(r, 1, "node", "check");
    TRY(r, 1, "node", "check", "a", "-o", "json");
    TRY(r, 0, "wait", "j");
    TRY(r, 0, "wait", "j", "-o", "json");
    TRY(r, 0, "ckpt", "list", "j");
    TRY(r, 0, "program", "show", "j");
    TRY(r, 0, "plan", "show", "j");
    TRY(r, 0, "graph", "show", "j");
}

static void commands_that_print_lines(void **state)
{
    struct room *r = *state;
    TRY(r, 0, "events");
    TRY(r, 0, "logs", "j", "-o", "jsonl");
    TRY(r, 0, "metrics", "j");
    TRY(r, 0, "metrics", "j", "-o", "csv");
    TRY(r, 0, "trace", "j");
}

static void commands_that_change_things(void **state)
{
    struct room *r = *state;
    TRY(r, 0, "cancel", "j");
    TRY(r, 0, "forget", "j");
    TRY(r, 0, "resume", "j");
    TRY(r, 0, "suspend", "s");
    TRY(r, HSP_EXIT_TIMED_OUT, "suspend", "j", "--within", "0s");
    TRY(r, 0, "scale", "j", "--min", "1");
    TRY(r, 0, "drain", "a", "--reason", "r");
    TRY(r, 0, "undrain", "a");
    TRY(r, 0, "node", "allow", "a", "--holder");
    TRY(r, 0, "node", "deny", "a");
    TRY(r, 0, "node", "remove", "a");
    TRY(r, 0, "node", "adopt", "spare");
    TRY(r, HSP_EXIT_NO_OBJECT, "node", "adopt", "a");
    TRY(r, 0, "node", "discard", "a");
    TRY(r, 0, "job", "adopt", "j");
    TRY(r, 0, "ckpt", "save", "j");
    TRY(r, 0, "submit", "@job.yaml", "--wait");
    TRY(r, 0, "submit", "@job.yaml", "--dry-run");
    TRY(r, 0, "submit", "@job.yaml", "-o", "json");
}

static void commands_that_compute(void **state)
{
    struct room *r = *state;
    TRY(r, 0, "help");
    TRY(r, 0, "help", "node");
    TRY(r, 0, "version");
    TRY(r, 0, "plan", "@job.yaml", "-c", "@c.yaml");
    TRY(r, 0, "plan", "@job.yaml", "-c", "@c.yaml", "-x", "", "-o", "json");
    TRY(r, 0, "plan", "@job.yaml", "--plan", "@one.yaml", "-o", "yaml");
    TRY(r, 0, "plan", "@job.yaml", "--plan", "@chunks.yaml", "-o", "json");
    TRY(r, 0, "plan", "@job.yaml", "--plan", "@one.yaml", "-s", "text");
    TRY(r, 0, "plan", "@job.yaml", "--plan", "@one.yaml", "-s", "trace");
    TRY(r, 0, "plan", "@job.yaml", "--live", "--exit-code");
    TRY(r, 0, "plan", "@job.yaml", "-t", "@one.yaml", "@one.yaml", "-c", "@c.yaml");
    TRY(r, 0, "plan", "@job.yaml", "-t", "@one.yaml", "@one.yaml", "-c", "@c.yaml", "-o", "json");
    TRY(r, 0, "graph", "show", "@job.yaml");
    TRY_FILE(r, "program", "compile", "@job.yaml", "-o", "@program");
    TRY(r, 0, "program", "show", "@program");
}

static void commands_that_write_or_start_something(void **state)
{
    struct room *r = *state;
    TRY_FILE(r, "bundle", "debug", "bundle", "-f", "@bundle");
    TRY_FILE(r, "backup.db", "backup", "@backup.db");
    TRY(r, 0, "ckpt", "verify", r->dir);
    TRY(r, 0, "verify", "@job.yaml");
    TRY(r, 0, "verify", "@one.yaml");
    TRY(r, 0, "verify", "j");
    TRY(r, 0, "submit", "@job.yaml", "--verify");
}

/* Such words are told as they were given: that needs no memory. */
static void words_that_name_no_command(void **state)
{
    struct room *r = *state;
    TRY(r, HSP_EXIT_USAGE, "plam");
    TRY(r, HSP_EXIT_USAGE, "node");
    TRY(r, 0, "node", "--help");
    TRY(r, HSP_EXIT_USAGE, "node", "lisst");
    TRY(r, HSP_EXIT_USAGE, "help", "node", "lisst");
}

/* Commands called by their names: within a run they leave no frame to be seen in. */
static enum hsp_status call(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    static char said[TEXT_MAX];
    const struct room *r = ctx;
    struct hsp_ctl ctl = {.out = r->out,
                          .msg = r->msg,
                          .arena = hsp_arena_new((size_t)16 << 20),
                          .headers = true,
                          .timeout_ms = 10000,
                          .n_pos = 1,
                          .pos = {"j"}};
    int rc = 0;
    if (ctl.arena == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no memory for the test's arena");
    }
    rewind_stream(r->out);
    rewind_stream(r->msg);
    rc |= hsp_cmd_events(&ctl);
    rc |= hsp_cmd_logs(&ctl);
    rc |= hsp_cmd_metrics(&ctl);
    rc |= hsp_cmd_plan_show(&ctl);
    (void)hsp_arena_free(ctl.arena);
    read_stream(r->msg, said);
    if (rc == 0 && ctl.deferred.code == HSP_OK) {
        read_stream(r->out, said);
        hsp_buf_puts(out, said);
        return HSP_OK;
    }
    bool lack = ctl.deferred.code == HSP_ENOMEM || strstr(said, "memory") != NULL;
    return hsp_err_set(err, lack ? HSP_ENOMEM : HSP_EIO, 0, "exit %d: %s", rc, said);
}

/* Help needs memory for the buffer of its stream only, and does without. */
static enum hsp_status help(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const char *const words[] = {"--help"};
    FILE *f[3] = {fopen("/dev/null", "w"), fopen("/dev/null", "w"), fopen("/dev/null", "w")};
    enum hsp_status st = HSP_OK;
    (void)ctx;
    for (size_t i = 0; i < HSP_ARRAY_LEN(f); i++) {
        st = f[i] != NULL ? st : hsp_err_set(err, HSP_ENOMEM, 0, "no memory for a stream");
    }
    if (st == HSP_OK) {
        struct hsp_ctl whole = {.commands = hsp_commands, .out = f[1]}, parsed = {.out = f[2]};
        hsp_help_print(f[0], hsp_commands, NULL);
        assert_int_equal(hsp_cmd_help(&whole), HSP_EXIT_OK);
        assert_status(hsp_options_parse(&parsed, NULL, 1, words, err), HSP_AGAIN);
        assert_true(parsed.help);
        hsp_help_print(parsed.out, hsp_commands, NULL);
        hsp_buf_puts(out, "helped");
    }
    for (size_t i = 0; i < HSP_ARRAY_LEN(f); i++) {
        st = f[i] == NULL || fclose(f[i]) == 0 ? st : HSP_EIO;
    }
    return st;
}

static void commands_by_their_names(void **state)
{
    hsp_oom_loop("call", call, *state, 1000);
    hsp_oom_loop("help", help, NULL, 100);
}

HSP_TEST_FILE(oom_ctl_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(commands_that_ask_for_documents, setup, teardown),
        cmocka_unit_test_setup_teardown(commands_that_print_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(commands_that_change_things, setup, teardown),
        cmocka_unit_test_setup_teardown(commands_that_compute, setup, teardown),
        cmocka_unit_test_setup_teardown(commands_that_write_or_start_something, setup, teardown),
        cmocka_unit_test_setup_teardown(words_that_name_no_command, setup, teardown),
        cmocka_unit_test_setup_teardown(commands_by_their_names, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
