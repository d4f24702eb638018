/* @@SENTENCE@@ ctl: purpose to be written.
 *
 * Purity: shell.
 */
#ifndef HSP_CTL_H
#define HSP_CTL_H
#include "daemon/ctl/command.h"

/* Prints "hspmdctl: <message>" and gives the exit code of the status. */
int hsp_ctl_fail(struct hsp_ctl *ctl, const struct hsp_err *err);
/* Why the answer is not right or not whole: the first one is told when the command has ended, and is
 * its exit code if that would be 0 or 1. */
void hsp_ctl_flaw(struct hsp_ctl *ctl, const struct hsp_err *err);
/* Texts of an answer, in the arena. Never NULL: without memory "", and that is a flaw. */
const char *hsp_ctl_text(struct hsp_ctl *ctl, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
const char *hsp_ctl_time(struct hsp_ctl *ctl, double us);
const char *hsp_ctl_bytes(struct hsp_ctl *ctl, double bytes);
int hsp_ctl_usage(struct hsp_ctl *ctl, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Usage of one command, or of the program (@c NULL). */
void hsp_ctl_help(FILE *out, const struct hsp_command *c);

int hsp_cmd_version(struct hsp_ctl *ctl);
int hsp_cmd_help(struct hsp_ctl *ctl);
/* One run of the program. argv[0] is the program's name. */
int hsp_ctl_run(int argc, const char *const *argv, FILE *out, FILE *msg);

#endif
