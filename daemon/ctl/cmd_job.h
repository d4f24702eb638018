/* hspmdctl cancel, forget, suspend, resume, scale, wait, drain, undrain: changes a job or a node,
 * or waits for one.
 *
 * Purity: shell (blocking network calls with the run's --timeout). */
#ifndef HSP_CMD_JOB_H
#define HSP_CMD_JOB_H
#include <cjson/cJSON.h>

#include "daemon/ctl/command.h"

int hsp_cmd_cancel(struct hsp_ctl *ctl);
int hsp_cmd_forget(struct hsp_ctl *ctl);
int hsp_cmd_suspend(struct hsp_ctl *ctl);
/* Checks a job that is to be suspended, by its status @job. HSP_OK: the job is suspended, and its
 * reason is printed; HSP_AGAIN: it is not suspended yet; HSP_ESTATE: it goes on, for the reason in
 * the error. */
enum hsp_status hsp_suspend_view(struct hsp_ctl *ctl, const cJSON *job, struct hsp_err *err);
int hsp_cmd_resume(struct hsp_ctl *ctl);
int hsp_cmd_scale(struct hsp_ctl *ctl);
int hsp_cmd_wait(struct hsp_ctl *ctl);
int hsp_cmd_drain(struct hsp_ctl *ctl);
int hsp_cmd_undrain(struct hsp_ctl *ctl);
int hsp_cmd_node_allow(struct hsp_ctl *ctl);
int hsp_cmd_node_deny(struct hsp_ctl *ctl);
int hsp_cmd_node_remove(struct hsp_ctl *ctl);
/* Waits until @job is in the state @what. @timeout_ms 0: no limit. Returns the exit code. */
int hsp_wait_job(struct hsp_ctl *ctl, const char *job, const char *what, uint32_t timeout_ms);

#endif
