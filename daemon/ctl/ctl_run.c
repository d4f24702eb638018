#include "daemon/ctl/ctl_run.h"

#include <string.h>
#include <sys/ioctl.h>

#include "daemon/ctl/cmd_help.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/ctl.h"
#include "daemon/ctl/options.h"

/* A job's graph, plans and programs live here; the largest program files are some hundred MiB. */
#define ARENA_BYTES ((size_t)4 << 30)

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
    const struct hsp_command *c =
        hsp_command_find(ctl->commands, argc - first, argv + first, &used);
    const char *option = c == NULL ? hsp_options_unknown(first - 1, argv + 1) : NULL;
    if (option != NULL) { /* the word behind it may be its value */
        (void)hsp_options_parse(ctl, NULL, 1, &option, &err);
        return hsp_ctl_usage(ctl, "%s", err.msg);
    }
    ctl->command = c;
    if (c == NULL && first < argc) {
        return hsp_help_no_command(ctl, argc - first, argv + first, asks_for_help(argc, argv));
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
    if (st == HSP_AGAIN && ctl->help) {
        hsp_help_print(ctl->out, ctl->commands, c);
        return HSP_EXIT_OK;
    }
    if (st == HSP_AGAIN) {
        return hsp_cmd_version(ctl);
    }
    if (st != HSP_OK) {
        return hsp_ctl_usage(ctl, "%s", err.msg);
    }
    if (c == NULL) {
        hsp_help_print(ctl->msg, ctl->commands, NULL);
        return HSP_EXIT_USAGE;
    }
    return c->run(ctl);
}

/* Characters in a line of the terminal; 0: @out is none. */
static size_t width_of(FILE *out)
{
    struct winsize w;
    return ioctl(fileno(out), TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
}

int hsp_ctl_run(int argc, const char *const *argv, FILE *out, FILE *msg)
{
    struct hsp_ctl ctl = {
        .commands = hsp_commands, .out = out, .msg = msg, .arena = hsp_arena_new(ARENA_BYTES)};
    struct hsp_err err;
    if (ctl.arena == NULL) {
        (void)fputs("hspmdctl: out of memory\n", msg);
        return HSP_EXIT_FAILED;
    }
    ctl.width = width_of(out);
    int rc = run(&ctl, argc, argv);
    ctl.arena = hsp_arena_free(ctl.arena);
    if (fflush(out) != 0 || ferror(out) != 0) {
        (void)hsp_err_set(&err, HSP_EIO, 0, "the answer could not be written");
        hsp_ctl_defer_error(&ctl, &err);
    }
    bool open = rc == HSP_EXIT_OK || (rc == HSP_EXIT_FAILED && !ctl.told);
    return open && ctl.deferred.code != HSP_OK ? hsp_ctl_fail(&ctl, &ctl.deferred) : rc;
}
