/* One run: find the command, parse its line, run it, tell failures. */
#include "daemon/ctl/ctl.h"

#include <stdarg.h>
#include <string.h>

#include "daemon/ctl/command.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/options.h"
#include "daemon/planner/planner.h"
#include "proto/base/str.h"

/* A job's graph, plans and programs live here; the largest program files are some hundred MiB. */
#define ARENA_BYTES ((size_t)4 << 30)

static enum hsp_exit exit_of(enum hsp_status st)
{
    switch (st) {
    case HSP_OK: return HSP_EXIT_OK;
    case HSP_EPARSE: return HSP_EXIT_CONFIG;
    case HSP_EPERM:
    case HSP_EAUTH: return HSP_EXIT_DENIED;
    case HSP_ENOENT: return HSP_EXIT_NO_OBJECT;
    case HSP_ECLOSED: return HSP_EXIT_NO_DAEMON;
    case HSP_EINFEASIBLE:
    case HSP_ENODEV:
    case HSP_ESTATE: return HSP_EXIT_IMPOSSIBLE;
    case HSP_ETIMEDOUT: return HSP_EXIT_TIMED_OUT;
    case HSP_ECANCELED: return HSP_EXIT_INTERRUPTED;
    default: return HSP_EXIT_FAILED;
    }
}

int hsp_ctl_fail(struct hsp_ctl *ctl, const struct hsp_err *err)
{
    (void)fprintf(ctl->msg, "hspmdctl: %s\n", err->msg);
    ctl->told = true;
    return (int)exit_of(err->code);
}

void hsp_ctl_flaw(struct hsp_ctl *ctl, const struct hsp_err *err)
{
    if (ctl->flaw.code == HSP_OK) {
        ctl->flaw = *err;
    }
}

/* @text, or what to show without memory for it. */
static const char *or_flaw(struct hsp_ctl *ctl, const char *text)
{
    struct hsp_err err;
    if (text == NULL) {
        (void)hsp_err_nomem(&err, "the whole answer");
        hsp_ctl_flaw(ctl, &err);
    }
    return text != NULL ? text : "";
}

const char *hsp_ctl_text(struct hsp_ctl *ctl, const char *fmt, ...)
{
    char text[512]; /* a cell */
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* cut on purpose */
    va_end(ap);
    return or_flaw(ctl, hsp_arena_strdup(ctl->arena, text));
}

const char *hsp_ctl_time(struct hsp_ctl *ctl, double us)
{
    return or_flaw(ctl, hsp_arena_strdup(ctl->arena, hsp_time_figure(us).text));
}

const char *hsp_ctl_bytes(struct hsp_ctl *ctl, double bytes)
{
    return or_flaw(ctl, hsp_arena_strdup(ctl->arena, hsp_bytes_figure(bytes).text));
}

int hsp_ctl_usage(struct hsp_ctl *ctl, const char *fmt, ...)
{
    va_list ap;
    (void)fputs("hspmdctl: ", ctl->msg);
    va_start(ap, fmt);
    (void)vfprintf(ctl->msg, fmt, ap);
    va_end(ap);
    (void)fputs("; see hspmdctl help\n", ctl->msg);
    return HSP_EXIT_USAGE;
}

/* Of the commands `WORD ...`? All are of NULL. */
static bool in_group(const struct hsp_command *c, const char *word)
{
    size_t n = word != NULL ? strlen(word) : 0;
    return word == NULL || (strncmp(c->name, word, n) == 0 && c->name[n] == ' ');
}

static void list_commands(FILE *out, const char *group)
{
    (void)fputs("\n\nCommands:\n", out);
    for (const struct hsp_command *c = hsp_commands; c->name != NULL; c++) {
        char left[64];
        (void)snprintf(left, sizeof(left), "%s %s", c->name, c->operands);
        if (in_group(c, group)) {
            (void)fprintf(out, "  %-26s  %s\n", left, c->summary);
        }
    }
}

void hsp_ctl_help(FILE *out, const struct hsp_command *c)
{
    if (c != NULL) {
        (void)fprintf(out, "Usage: hspmdctl %s%s%s%s\n\n%c%s.\n", c->name,
                      c->options != NULL ? " [OPTIONS]" : "", c->operands[0] != '\0' ? " " : "",
                      c->operands, c->summary[0] - 'a' + 'A', c->summary + 1);
        if (c->help[0] != '\0') {
            (void)fprintf(out, "\n%s\n", c->help);
        }
        if (c->options != NULL) {
            (void)fputs("\nOptions:\n", out);
            hsp_options_print(out, c->options);
        }
        (void)fputs("\nGlobal options: see hspmdctl help.\n", out);
        return;
    }
    (void)fputs("Usage: hspmdctl [OPTIONS] COMMAND ...\n\n"
                "Trains one model on unequal, unreliable devices.",
                out);
    list_commands(out, NULL);
    (void)fputs("\nOptions:\n", out);
    hsp_options_print(out, hsp_global_options);
    (void)fputs("\nExit codes: 0 ok, 1 failed, 2 usage, 3 no such object, 4 not permitted,\n"
                "5 cannot reach hspmdd, 6 bad configuration or job file, 7 infeasible or not in\n"
                "this state, 8 the job failed, 10 would change things, 124 timed out,\n"
                "130 interrupted.\n",
                out);
}

/* The nearest name of any command, or of those of a group. */
static const char *suggestion(const char *word, const char *group)
{
    const char *names[128];
    size_t n = 0;
    for (const struct hsp_command *c = hsp_commands; c->name != NULL && n < 128; c++) {
        if (in_group(c, group)) {
            names[n++] = c->name;
        }
    }
    return hsp_str_nearest(word, names, n);
}

/* @group NULL: any. */
static int unknown(struct hsp_ctl *ctl, const char *name, const char *group)
{
    const char *near = suggestion(name, group);
    return near != NULL ? hsp_ctl_usage(ctl, "no command %s, did you mean %s?", name, near)
                        : hsp_ctl_usage(ctl, "no command %s", name);
}

/* @words[0] begins commands of two words. */
static int group(struct hsp_ctl *ctl, int n, const char *const *words, bool help)
{
    char next[128] = "";
    if (help) {
        (void)fprintf(ctl->out, "Usage: hspmdctl %s COMMAND ...", words[0]);
        list_commands(ctl->out, words[0]);
        return HSP_EXIT_OK;
    }
    if (n > 1 && words[1][0] != '-') {
        return unknown(ctl, hsp_ctl_text(ctl, "%s %s", words[0], words[1]), words[0]);
    }
    for (const struct hsp_command *c = hsp_commands; c->name != NULL; c++) {
        if (in_group(c, words[0])) {
            (void)snprintf(next + strlen(next), sizeof(next) - strlen(next), "%s%s",
                           next[0] != '\0' ? ", " : "", strchr(c->name, ' ') + 1);
        }
    }
    return hsp_ctl_usage(ctl, "%s needs another word: %s", words[0], next);
}

static bool is_group(const char *word)
{
    const struct hsp_command *c = hsp_commands;
    while (c->name != NULL && !in_group(c, word)) {
        c++;
    }
    return c->name != NULL;
}

int hsp_cmd_help(struct hsp_ctl *ctl)
{
    int used = 0;
    const struct hsp_command *c = hsp_command_find(ctl->n_pos, ctl->pos, &used);
    if (ctl->n_pos > 0 && c == NULL && is_group(ctl->pos[0])) {
        return group(ctl, ctl->n_pos, ctl->pos, ctl->n_pos == 1);
    }
    if (ctl->n_pos > 0 && (c == NULL || used != ctl->n_pos)) {
        return hsp_ctl_usage(ctl, "no command %s%s%s", ctl->pos[0], ctl->n_pos > 1 ? " " : "",
                             ctl->n_pos > 1 ? ctl->pos[1] : "");
    }
    hsp_ctl_help(ctl->out, c);
    return HSP_EXIT_OK;
}

int hsp_cmd_version(struct hsp_ctl *ctl)
{
    if (ctl->format == HSP_FORMAT_JSON) {
        (void)fprintf(ctl->out, "{\"apiVersion\":\"hspmd/v1\",\"version\":\"%s\"}\n",
                      PACKAGE_VERSION);
    } else {
        (void)fprintf(ctl->out, "hspmdctl %s\n", PACKAGE_VERSION);
    }
    return HSP_EXIT_OK;
}

static bool asks_for_help(int n, const char *const *words)
{
    bool asks = false;
    for (int i = 0; i < n; i++) {
        asks = asks || strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0;
    }
    return asks;
}

static int run(struct hsp_ctl *ctl, int argc, const char *const *argv)
{
    struct hsp_err err = {0};
    int first = hsp_options_first_word(argc, argv), used = 0;
    const struct hsp_command *c = hsp_command_find(argc - first, argv + first, &used);
    const char *option = c == NULL ? hsp_options_unknown(first - 1, argv + 1) : NULL;
    if (option != NULL) { /* the word behind it may be its value */
        return hsp_ctl_usage(ctl, "unknown option %s", option);
    }
    if (c == NULL && first < argc) {
        return is_group(argv[first])
                   ? group(ctl, argc - first, argv + first, asks_for_help(argc, argv))
                   : unknown(ctl, argv[first], NULL);
    }
    /* Global options may stand before the command: everything but its words is its line. */
    const char **line = hsp_arena_array(ctl->arena, (size_t)argc + 1, sizeof(*line));
    int n = 0;
    if (line == NULL) {
        (void)hsp_err_nomem(&err, "the command line");
        return hsp_ctl_fail(ctl, &err);
    }
    for (int i = 1; i < argc; i++) {
        if (i < first || i >= first + used) {
            line[n++] = argv[i];
        }
    }
    enum hsp_status st = hsp_options_parse(ctl, c, n, line, &err);
    if (st == HSP_AGAIN) { /* help or version was asked for and printed */
        return HSP_EXIT_OK;
    }
    if (st != HSP_OK) {
        return hsp_ctl_usage(ctl, "%s", err.msg);
    }
    if (c == NULL) {
        hsp_ctl_help(ctl->msg, NULL);
        return HSP_EXIT_USAGE;
    }
    return c->run(ctl);
}

int hsp_ctl_run(int argc, const char *const *argv, FILE *out, FILE *msg)
{
    struct hsp_ctl ctl = {.out = out, .msg = msg, .arena = hsp_arena_new(ARENA_BYTES)};
    struct hsp_err err;
    if (ctl.arena == NULL) {
        (void)fputs("hspmdctl: out of memory\n", msg);
        return HSP_EXIT_FAILED;
    }
    int rc = run(&ctl, argc, argv);
    ctl.arena = hsp_arena_free(ctl.arena);
    if (fflush(out) != 0 || ferror(out) != 0) {
        (void)hsp_err_set(&err, HSP_EIO, 0, "the answer could not be written");
        hsp_ctl_flaw(&ctl, &err);
    }
    bool open = rc == HSP_EXIT_OK || (rc == HSP_EXIT_FAILED && !ctl.told);
    return open && ctl.flaw.code != HSP_OK ? hsp_ctl_fail(&ctl, &ctl.flaw) : rc;
}
