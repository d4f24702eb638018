/* Defines the row of a command in the table (commands.h), and a command's view of the program: its
 * arguments, the global options, the streams to write to.
 *
 * Purity: shell.
 * Output: the answer goes to ctl->out, everything else to ctl->msg. A failure is one line: subject:
 *         why (hsp_ctl_fail). JSON carries "apiVersion": "hspmd/v1" and base units with the unit in
 *         the key.
 */
#ifndef HSP_COMMAND_H
#define HSP_COMMAND_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/wire/msg.h"

enum hsp_exit {
    HSP_EXIT_OK = 0,
    HSP_EXIT_FAILED = 1,
    HSP_EXIT_USAGE = 2,
    HSP_EXIT_NO_OBJECT = 3,  /* no such job, node, rank */
    HSP_EXIT_DENIED = 4,     /* not permitted, not authenticated */
    HSP_EXIT_NO_DAEMON = 5,  /* cannot reach hspmdd */
    HSP_EXIT_CONFIG = 6,     /* bad configuration, job, plan or cluster file */
    HSP_EXIT_IMPOSSIBLE = 7, /* infeasible plan, or not in this state */
    HSP_EXIT_JOB_FAILED = 8, /* the job itself (wait) */
    HSP_EXIT_WOULD_CHANGE = 10,
    HSP_EXIT_TIMED_OUT = 124,
    HSP_EXIT_INTERRUPTED = 130
};

enum hsp_format {
    HSP_FORMAT_TABLE,
    HSP_FORMAT_JSON,
    HSP_FORMAT_YAML,
    HSP_FORMAT_JSONL,
    HSP_FORMAT_CSV
};

#define HSP_CTL_MAX_OPTIONS     24
#define HSP_CTL_MAX_POSITIONALS 64

/* One row gives the parser, the help text and the usage line. */
struct hsp_option {
    const char *name; /* long name without dashes */
    char letter;      /* short name, 0: none */
    const char *arg;  /* name of its argument, NULL: a flag */
    const char *help;
};

struct hsp_ctl {
    const struct hsp_command *commands; /* the table; borrowed */
    const struct hsp_command *command;  /* the running one; NULL: none yet */
    FILE *out, *msg;                    /* borrowed */
    struct hsp_arena *arena;            /* of this run */
    struct hsp_err deferred;            /* see hsp_ctl_defer_error */
    bool told;                          /* why it fails was said */
    char said[HSP_TEXT_MAX + 1];        /* hspmdd's last refusal whole, which err.msg may cut */
    bool help, version;                 /* asked for in place of the command */
    enum hsp_format format;
    bool headers;        /* of tables */
    size_t width;        /* of the terminal that the answer goes to, in characters; 0: none */
    const char *address; /* of hspmdd: HOST:PORT or a socket's path; NULL: the default */
    const char *key;     /* file of the admin key; NULL: the default, if it is there */
    uint64_t timeout_ms; /* of network calls */
    /* arguments of the command */
    const char *opt[HSP_CTL_MAX_OPTIONS]; /* by row of its option table: NULL absent, "" a flag */
    int n_pos;
    const char *pos[HSP_CTL_MAX_POSITIONALS];
};

struct hsp_command {
    const char *name;                 /* "compile", "program show" */
    const char *operands;             /* "JOB", "JOB [STEP]" */
    const char *summary;              /* one line for the list */
    const char *help;                 /* paragraphs for `help CMD` */
    const struct hsp_option *options; /* ends with a row without a name; may be NULL */
    int min_pos, max_pos;
    unsigned formats; /* bit mask of enum hsp_format it can write; 0: it takes no -o */
    int (*run)(struct hsp_ctl *ctl); /* exit code */
};

/* The command whose words stand at the front of @words; *ret_used words were taken. Of the commands
 * "node" and "node show" the longer name wins. NULL: no command. */
const struct hsp_command *hsp_command_find(const struct hsp_command *commands, int n,
                                           const char *const *words, int *ret_used);

#endif
