/* @@SENTENCE@@ commands: purpose to be written.
 *
 * Purity: shell.
 */
#ifndef HSP_COMMANDS_H
#define HSP_COMMANDS_H
#include "daemon/ctl/command.h"

/* The command whose words stand at the front of @words; *ret_used words were taken. */
const struct hsp_command *hsp_command_find(int n, const char *const *words, int *ret_used);

#endif
