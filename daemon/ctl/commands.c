/* The command table: the order is that of the help text. */
#include <string.h>

#include "daemon/ctl/command.h"

#define AS(f) (1u << HSP_FORMAT_##f)
#define END                 \
    {                       \
        NULL, 0, NULL, NULL \
    }

static const struct hsp_option compile_options[] = {
    {"output", 'o', "FILE", "the program file to write (required)"},
    {"plan", 'p', "PLAN", "use this plan file instead of the job's annotations and the planner"},
    {"cluster", 'c', "FILE", "plan for this described cluster"},
    {"verify", 0, NULL, "store the unsharded program beside it, for hspmd-worker --verify"},
    {"out", 0, "DIR", "where hspmd-worker --run leaves the trained model and metrics"},
    END,
};

static const struct hsp_option plan_options[] = {
    {"cluster", 'c', "FILE", "a described cluster; without it one CPU core is assumed"},
    {"plan", 'p', "PLAN", "price this plan file instead of planning"},
    {"exclude", 'x', "DEVICE,..", "leave these devices (NODE/INDEX) out"},
    {"no-zero", 0, NULL, "never cut the optimizer state over the streams"},
    END,
};

static const struct hsp_option program_options[] = {
    {"rank", 'r', "N", "only the program of this rank"},
    {"unsharded", 0, NULL, "the one-device program stored by compile --verify"},
    END,
};

const struct hsp_command hsp_commands[] = {
    {.name = "plan",
     .operands = "JOB",
     .summary = "show who would get what, step time and memory; changes nothing",
     .help =
         "Plans the job for a described cluster and prints, for every rank, its device, blocks,\n"
         "sequences, times and memory, and the best structures that were rejected. The plan is\n"
         "--plan, else the first of the job's annotations that fits, else the planner's.\n"
         "-o yaml writes a plan file, ready for `annotations:` and compile --plan.",
     .options = plan_options,
     .min_pos = 1,
     .max_pos = 1,
     .formats = AS(TABLE) | AS(JSON) | AS(YAML),
     .run = hsp_cmd_plan},
    {.name = "compile",
     .operands = "JOB",
     .summary = "compile a job into a program file for hspmd-worker --run",
     .help =
         "The plan is --plan, else the first of the job's annotations that fits --cluster, else\n"
         "the planner's for --cluster; without a cluster: the first annotation, else one device.",
     .options = compile_options,
     .min_pos = 1,
     .max_pos = 1,
     .formats = 0,
     .run = hsp_cmd_compile},
    {.name = "program show",
     .operands = "FILE",
     .summary = "print the programs of a program file",
     .help = "Tensors, instructions, moves and schedules of every rank, or of one.",
     .options = program_options,
     .min_pos = 1,
     .max_pos = 1,
     .formats = AS(TABLE),
     .run = hsp_cmd_program_show},
    {.name = "graph show",
     .operands = "JOB",
     .summary = "print the single-device training graph of a job",
     .help = "Parameters, tensors and nodes, forward then backward.",
     .min_pos = 1,
     .max_pos = 1,
     .formats = AS(TABLE),
     .run = hsp_cmd_graph_show},
    {.name = "version",
     .operands = "",
     .summary = "print the version",
     .help = "",
     .formats = AS(TABLE) | AS(JSON),
     .run = hsp_cmd_version},
    {.name = "help",
     .operands = "[CMD]",
     .summary = "explain a command",
     .help = "",
     .max_pos = 3,
     .run = hsp_cmd_help},
    {.name = NULL},
};

/* True when all words of @name stand at the front; *ret_used of them. */
static bool matches(const char *name, int n, const char *const *words, int *ret_used)
{
    int used = 0;
    while (used < n) {
        size_t len = strcspn(name, " ");
        if (strlen(words[used]) != len || memcmp(words[used], name, len) != 0) {
            return false;
        }
        used++;
        if (name[len] == '\0') {
            *ret_used = used;
            return true;
        }
        name += len + 1;
    }
    return false;
}

const struct hsp_command *hsp_command_find(int n, const char *const *words, int *ret_used)
{
    const struct hsp_command *best = NULL;
    *ret_used = 0;
    for (const struct hsp_command *c = hsp_commands; c->name != NULL; c++) {
        int used = 0;
        if (matches(c->name, n, words, &used) && used > *ret_used) {
            best = c;
            *ret_used = used;
        }
    }
    return best;
}
