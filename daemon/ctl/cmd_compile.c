#include "daemon/ctl/cmd_compile.h"

#include "daemon/ctl/ctl.h"
#include "daemon/ctl/program_output.h"

enum { O_OUTPUT, O_PLAN, O_CLUSTER, O_VERIFY, O_OUT }; /* rows of compile_options */

int hsp_cmd_compile(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    struct hsp_loaded l;
    struct hsp_program_request o = {
        .path = ctl->opt[O_OUTPUT],
        .out_dir = ctl->opt[O_OUT] != NULL ? ctl->opt[O_OUT] : "",
        .how = {.plan_path = ctl->opt[O_PLAN], .cluster_path = ctl->opt[O_CLUSTER]},
        .verify = ctl->opt[O_VERIFY] != NULL,
    };
    if (o.path == NULL) {
        return hsp_ctl_usage(ctl, "compile needs -o FILE");
    }
    enum hsp_status st = hsp_load_job(ctl->arena, ctl->pos[0], &l, &err);
    if (st == HSP_OK) {
        st = hsp_write_programs(ctl, &l, &o, &err);
    }
    hsp_loaded_fini(&l);
    return st == HSP_OK ? HSP_EXIT_OK : hsp_ctl_fail(ctl, &err);
}
