#include "daemon/ctl/cmd_help.h"

#include <string.h>

#include "daemon/ctl/ctl.h"
#include "daemon/ctl/options.h"
#include "proto/base/size.h"
#include "proto/base/str.h"

/* Whether @c is one of the commands `WORD ...`. Every command is one of NULL. */
static bool in_group(const struct hsp_command *c, const char *word)
{
    size_t n = word != NULL ? strlen(word) : 0;
    return word == NULL || (strncmp(c->name, word, n) == 0 && c->name[n] == ' ');
}

static void list_commands(FILE *out, const struct hsp_command *commands, const char *group)
{
    (void)fputs("\n\nCommands:\n", out);
    for (const struct hsp_command *c = commands; c->name != NULL; c++) {
        char left[64];
        (void)snprintf(left, sizeof(left), "%s %s", c->name, c->operands);
        if (in_group(c, group)) {
            (void)fprintf(out, "  %-26s  %s\n", left, c->summary);
        }
    }
}

void hsp_help_print(FILE *out, const struct hsp_command *commands, const struct hsp_command *c)
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
        hsp_options_print_formats(out, c->formats);
        (void)fputs("\nGlobal options: see hspmdctl help.\n", out);
        return;
    }
    (void)fputs("Usage: hspmdctl [OPTIONS] COMMAND ...\n\n"
                "Trains one model on unequal, unreliable devices.",
                out);
    list_commands(out, commands, NULL);
    (void)fputs("\nOptions:\n", out);
    hsp_options_print(out, hsp_global_options);
    (void)fputs(
        "\nJOB at hspmdd is its name or its number, ID in status. If several jobs have one name,\n"
        "it means the job that has not ended, else the last; if several have not ended, use "
        "numbers.\n",
        out);
    (void)fputs("\nExit codes: 0 ok, 1 failed, 2 usage, 3 no such object, 4 not permitted,\n"
                "5 cannot reach hspmdd, 6 bad configuration or job file, 7 infeasible or not in\n"
                "this state, 8 the job failed, 10 would change things, 124 timed out,\n"
                "130 interrupted.\n",
                out);
}

/* The nearest name of any command, or of those of a group. */
static const char *suggestion(const struct hsp_command *commands, const char *word,
                              const char *group)
{
    const char *names[128];
    size_t n = 0;
    for (const struct hsp_command *c = commands; c->name != NULL && n < 128; c++) {
        if (in_group(c, group)) {
            names[n++] = c->name;
        }
    }
    return hsp_str_nearest(word, names, n);
}

/* A command of one word behind the word of a group, as in `node drain`; NULL: none. */
static const char *alone(const struct hsp_command *commands, const char *name)
{
    const char *word = strchr(name, ' ');
    const struct hsp_command *c = commands;
    while (word != NULL && c->name != NULL && strcmp(c->name, word + 1) != 0) {
        c++;
    }
    return word != NULL ? c->name : NULL;
}

/* Words of Slurm, Nomad, Kubernetes and Docker, and the commands that do the same here. */
static const char *const elsewhere[][2] = {
    {"ps", "status"},
    {"ls", "status"},
    {"list", "status"},
    {"jobs", "status"},
    {"get", "status"},
    {"show", "status"},
    {"describe", "status"},
    {"top", "status"},
    {"squeue", "status"},
    {"queue", "status"},
    {"info", "status"},
    {"sinfo", "node list"},
    {"nodes", "node list"},
    {"run", "submit"},
    {"apply", "submit"},
    {"create", "submit"},
    {"start", "submit"},
    {"sbatch", "submit"},
    {"stop", "cancel"},
    {"kill", "cancel"},
    {"delete", "cancel"},
    {"rm", "cancel"},
    {"scancel", "cancel"},
    {"purge", "forget"},
    {"hold", "suspend"},
    {"pause", "suspend"},
    {"release", "resume"},
    {"continue", "resume"},
    {"restart", "resume"},
    {"requeue", "resume"},
    {"cordon", "drain"},
    {"uncordon", "undrain"},
    {"checkpoint", "ckpt save"},
    {"checkpoints", "ckpt list"},
    {"loss", "metrics"},
    {"man", "help"},
};

/* @name: "stop", or "job stop". */
static const char *as_elsewhere(const char *name)
{
    const char *word = strncmp(name, "job ", 4) == 0 ? name + 4 : name;
    size_t i = 0;
    while (i < HSP_ARRAY_LEN(elsewhere) && strcmp(elsewhere[i][0], word) != 0) {
        i++;
    }
    return i < HSP_ARRAY_LEN(elsewhere) ? elsewhere[i][1] : NULL;
}

/* @group NULL: any. */
static int unknown(struct hsp_ctl *ctl, const char *name, const char *group)
{
    const char *near = alone(ctl->commands, name);
    near = near != NULL ? near : as_elsewhere(name);
    near = near != NULL ? near : suggestion(ctl->commands, name, group);
    return near != NULL ? hsp_ctl_usage(ctl, "no command %s, did you mean %s?", name, near)
                        : hsp_ctl_usage(ctl, "no command %s", name);
}

/* @words[0] begins commands of two words. */
static int group(struct hsp_ctl *ctl, int n, const char *const *words, bool help)
{
    char next[128] = "";
    if (help) {
        (void)fprintf(ctl->out, "Usage: hspmdctl %s COMMAND ...", words[0]);
        list_commands(ctl->out, ctl->commands, words[0]);
        return HSP_EXIT_OK;
    }
    if (n > 1 && words[1][0] != '-') {
        char name[512];
        hsp_str_printf(name, sizeof(name), "%s %s", words[0], words[1]); /* cut on purpose */
        return unknown(ctl, name, words[0]);
    }
    for (const struct hsp_command *c = ctl->commands; c->name != NULL; c++) {
        if (in_group(c, words[0])) {
            (void)snprintf(next + strlen(next), sizeof(next) - strlen(next), "%s%s",
                           next[0] != '\0' ? ", " : "", strchr(c->name, ' ') + 1);
        }
    }
    return hsp_ctl_usage(ctl, "%s needs another word: %s", words[0], next);
}

static bool is_group(const struct hsp_command *commands, const char *word)
{
    const struct hsp_command *c = commands;
    while (c->name != NULL && !in_group(c, word)) {
        c++;
    }
    return c->name != NULL;
}

int hsp_help_no_command(struct hsp_ctl *ctl, int n, const char *const *words, bool help)
{
    return is_group(ctl->commands, words[0]) ? group(ctl, n, words, help)
                                             : unknown(ctl, words[0], NULL);
}

int hsp_cmd_help(struct hsp_ctl *ctl)
{
    int used = 0;
    ctl->command = NULL; /* the help of help lists no commands */
    const struct hsp_command *c = hsp_command_find(ctl->commands, ctl->n_pos, ctl->pos, &used);
    if (ctl->n_pos > 0 && c == NULL && is_group(ctl->commands, ctl->pos[0])) {
        return group(ctl, ctl->n_pos, ctl->pos, ctl->n_pos == 1);
    }
    if (ctl->n_pos > 0 && (c == NULL || used != ctl->n_pos)) {
        return ctl->n_pos == 1 ? unknown(ctl, ctl->pos[0], NULL)
                               : hsp_ctl_usage(ctl, "no command %s %s", ctl->pos[0], ctl->pos[1]);
    }
    hsp_help_print(ctl->out, ctl->commands, c);
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
