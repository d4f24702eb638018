#include "daemon/planner/annotations.h"

#include "daemon/plan/plan_check.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/planner/planner.h"
#include "daemon/spmd/sharding/infer_pipelines.h"
#include "daemon/spmd/sharding/param_home.h"
#include "proto/base/str.h"

enum hsp_status hsp_annotations_pick(uint32_t n, const struct hsp_plan_text *texts,
                                     const struct hsp_graph *g, uint32_t global_batch,
                                     uint32_t n_devices, struct hsp_arena *arena,
                                     struct hsp_plan **ret, uint32_t *ret_index,
                                     struct hsp_err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        struct hsp_plan *p = NULL;
        enum hsp_status st = hsp_plan_parse(texts[i].text, texts[i].len, texts[i].name,
                                            global_batch, arena, &p, err);
        if (st != HSP_OK) {
            return st;
        }
        st = hsp_plan_find_pipelines(p, g, arena, err);
        st = st == HSP_OK ? hsp_plan_check(p, g, global_batch, err) : st;
        st = st == HSP_OK ? hsp_plan_check_homes(g, p, arena, err) : st;
        if (st != HSP_OK) {
            (void)hsp_err_wrap(err, "%s", texts[i].name);
            return st;
        }
        if (p->n_ranks <= n_devices) {
            *ret = p;
            *ret_index = i;
            return HSP_OK;
        }
    }
    return hsp_err_set(err, HSP_ENOENT, 0, "none of %u plan%s fits %u device%s", n, hsp_s(n),
                       n_devices, hsp_s(n_devices));
}
