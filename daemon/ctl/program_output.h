/* Makes a program file of a job and a plan: compile, and the first half of verify.
 *
 * Purity: shell (reads the plan file, writes the program file). */
#ifndef HSP_PROGRAM_OUTPUT_H
#define HSP_PROGRAM_OUTPUT_H
#include "daemon/ctl/command.h"
#include "daemon/ctl/plan_pick.h"

struct hsp_program_request {
    const char *path;    /* of the program file */
    const char *out_dir; /* "": none */
    struct hsp_pick how;
    bool verify;    /* small extents, and the unsharded program beside them */
    uint32_t which; /* verify: plan of a pool, ascending */
    bool scratch;   /* the file is ours, and not spoken of */
};

/* Picks the plan, compiles the job and writes the file; messages go to ctl->msg. Errors are
 * those of hsp_pick_plan, hsp_compile and hsp_compile_scaled; HSP_ELIMIT: more than 1 GiB of
 * programs; HSP_EIO. */
enum hsp_status hsp_write_programs(struct hsp_ctl *ctl, const struct hsp_loaded *l,
                                   const struct hsp_program_request *o, struct hsp_err *err);
/* The same; *ret_plans: how many plans there are, more than one in a pool. */
enum hsp_status hsp_write_some(struct hsp_ctl *ctl, const struct hsp_loaded *l,
                               const struct hsp_program_request *o, uint32_t *ret_plans,
                               struct hsp_err *err);

#endif
