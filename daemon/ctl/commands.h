/* Lists all commands of hspmdctl in one table, which gives the parser, the help text and the usage
 * lines.
 *
 * Purity: pure (constant data). */
#ifndef HSP_COMMANDS_H
#define HSP_COMMANDS_H
#include "daemon/ctl/command.h"

/* The commands in the order of the help text. The last row has no name. */
extern const struct hsp_command hsp_commands[];

#endif
