/* hspmdctl debug bundle: collects in one tar (POSIX.1-1988 ustar) everything that a report of a
 * problem needs.
 *
 * hspmdd is asked for its status, its events and the plan of each job. Configuration files of this
 * machine are added; everything that could be a secret is cut out of them. A missing part is noted
 * in the bundle and does not end it. Only a missing status does: without it there is nothing to
 * send.
 *
 * Purity: shell (asks hspmdd, reads configuration files, writes the tar). */
#ifndef HSP_CMD_BUNDLE_H
#define HSP_CMD_BUNDLE_H
#include "daemon/ctl/command.h"

int hsp_cmd_debug_bundle(struct hsp_ctl *ctl);

#endif
