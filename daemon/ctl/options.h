/* Parses command lines by option tables, so that all commands take options in the same forms.
 *
 * Forms: --name VALUE, --name=VALUE, -x VALUE, -xVALUE, --flag, -x; "--" ends the options. Options
 * may stand anywhere among the operands. An option of the command goes before a global one of that
 * name.
 *
 * Purity: pure, but for printing functions. */
#ifndef HSP_OPTIONS_H
#define HSP_OPTIONS_H
#include "daemon/ctl/command.h"

/* The options of every command. The last row has no name. */
extern const struct hsp_option hsp_global_options[];

/* Fills @ctl from argv[0..argc) for @c, global options included; @c NULL: no command was named.
 * HSP_AGAIN: ctl->help or ctl->version was asked for; HSP_EINVAL: @err is a message for the
 * user. */
enum hsp_status hsp_options_parse(struct hsp_ctl *ctl, const struct hsp_command *c, int argc,
                                  const char *const *argv, struct hsp_err *err);
/* The first unknown option among the options at the front of @words, by the global table; NULL:
 * none. */
const char *hsp_options_unknown(int n, const char *const *words);
/* Index in argv of the first word that is no global option (argc: none). */
int hsp_options_first_word(int argc, const char *const *argv);
/* Prints a table for the help text, one option a line. */
void hsp_options_print(FILE *out, const struct hsp_option *options);
/* The line of it that names the formats of a command; nothing for one that takes no -o. */
void hsp_options_print_formats(FILE *out, unsigned formats);

#endif
