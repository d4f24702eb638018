/* Reports the failures of a command, and makes the texts of its answer.
 *
 * Role:   used by every command and by their shared parts.
 * Purity: shell (writes to ctl->msg). */
#ifndef HSP_CTL_H
#define HSP_CTL_H
#include "daemon/ctl/command.h"

/* Prints "hspmdctl: MESSAGE". Returns the exit code of the status. */
int hsp_ctl_fail(struct hsp_ctl *ctl, const struct hsp_err *err);
/* Prints "hspmdctl: MESSAGE; see hspmdctl help". Returns HSP_EXIT_USAGE. */
int hsp_ctl_usage(struct hsp_ctl *ctl, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Notes why the answer is wrong or incomplete. The first deferred error is told when the command
 * has ended; its exit code replaces 0 and 1. */
void hsp_ctl_defer_error(struct hsp_ctl *ctl, const struct hsp_err *err);
/* A text of the answer, in the arena. Never NULL: without memory the text is "" and a deferred
 * error is noted. */
const char *hsp_ctl_text(struct hsp_ctl *ctl, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* "12.0 ms", as hsp_ctl_text. */
const char *hsp_ctl_time(struct hsp_ctl *ctl, double us);
/* "1.5 GiB", as hsp_ctl_text. */
const char *hsp_ctl_bytes(struct hsp_ctl *ctl, double bytes);

#endif
