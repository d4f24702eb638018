/* @@SENTENCE@@ cmd_verify: purpose to be written.
 *
 * Purity: shell (a file of its own in $TMPDIR, gone before it returns; hspmd-worker).
 */
#ifndef HSP_CMD_VERIFY_H
#define HSP_CMD_VERIFY_H
#include "daemon/ctl/command.h"
#include "daemon/ctl/plan_pick.h"

/* Compiles the job's own templates at small extents and has hspmd-worker compare them with one device;
 * what that says goes to @out. *ret_code: its exit status, HSP_EXIT_OK when nothing differs. Errors are those
 * of hsp_write_programs and hsp_worker_call. */
enum hsp_status hsp_verify_plan(struct hsp_ctl *ctl, const struct hsp_loaded *l,
                                const struct hsp_pick *how, FILE *out, int *ret_code,
                                struct hsp_err *err);

int hsp_cmd_verify(struct hsp_ctl *ctl);

#endif
