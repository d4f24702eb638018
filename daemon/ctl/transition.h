/* Prices a switch between two plans: the bytes that it moves (`hspmdctl plan --transition`).
 *
 * Purity: shell (reads plan and cluster files, asks hspmdd for the plan of a job). */
#ifndef HSP_TRANSITION_H
#define HSP_TRANSITION_H
#include "daemon/ctl/command.h"
#include "daemon/ctl/job_load.h"

struct hsp_transition {
    const char *from, *to; /* plan files; from: also a job at hspmdd, its plan of now */
    const char *cluster;   /* file */
    const char *exclude;   /* devices that are gone, by commas; NULL: none */
};

/* Prints it in ctl->format. HSP_EINFEASIBLE: a plan has more ranks than there are devices.
 * HSP_ENOENT: a box nobody has any more. Errors of the files, of hsp_remote_ask. */
enum hsp_status hsp_transition_show(struct hsp_ctl *ctl, const struct hsp_loaded *l,
                                    const struct hsp_transition *t, struct hsp_err *err);

#endif
