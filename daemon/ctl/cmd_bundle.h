/* @@SENTENCE@@ cmd_bundle: purpose to be written.
 *
 * Purity: shell.
 */
#ifndef HSP_CMD_BUNDLE_H
#define HSP_CMD_BUNDLE_H
#include "daemon/ctl/command.h"

int hsp_cmd_debug_bundle(struct hsp_ctl *ctl);

#endif
