/* hspmdctl help, version: explains commands, and words that name none.
 *
 * Purity: shell (writes to ctl->out and ctl->msg). */
#ifndef HSP_CMD_HELP_H
#define HSP_CMD_HELP_H
#include "daemon/ctl/command.h"

int hsp_cmd_help(struct hsp_ctl *ctl);
int hsp_cmd_version(struct hsp_ctl *ctl);
/* Prints the usage of @c, or of the program (@c NULL), whose table is @commands. */
void hsp_help_print(FILE *out, const struct hsp_command *commands, const struct hsp_command *c);
/* Answers @words that name no command: lists the commands of a group (`node`) if @help, else says
 * which word is missing, or suggests the nearest name. Returns the exit code. */
int hsp_help_no_command(struct hsp_ctl *ctl, int n, const char *const *words, bool help);

#endif
