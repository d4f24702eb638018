/* Starts hspmd-worker on this machine: hspmdctl itself never links code that computes or reads
 * state (proto/README.md: daemon and worker never link each other).
 *
 * Purity: shell (processes). The program is the one beside hspmdctl, else that of the installation
 *         (sbindir), else the first in PATH. */
#ifndef HSP_WORKER_CALL_H
#define HSP_WORKER_CALL_H
#include "daemon/ctl/command.h"

/* HSP_ENOENT: it is not installed here. */
enum hsp_status hsp_worker_find(struct hsp_err *err);
/* Runs it with @args (ends with NULL), its standard output copied to ctl->out, its messages left on
 * standard error. *ret_code: its exit status. HSP_ENOENT: not installed
 * here; HSP_EIO: ended by a signal, or could not be copied. */
enum hsp_status hsp_worker_call(struct hsp_ctl *ctl, const char *const *args, int *ret_code,
                                struct hsp_err *err);

#endif
