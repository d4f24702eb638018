/* Choice among hand-written plans; see planner.h. */
#include "daemon/planner/planner.h"
#include "daemon/spmd/switch.h"

/* Whether the homes that a plan states can be. */
static enum hsp_status check_homes(const struct hsp_plan *p, const struct hsp_graph *g,
                                   struct hsp_arena *arena, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    struct hsp_cover *home = hsp_arena_array(arena, g->n_params, sizeof *home);
    if (home == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "homes of a plan");
    }
    for (uint32_t k = 0; st == HSP_OK && k <= p->n_shorter; k++) {
        const struct hsp_plan *one = hsp_pool_plan(p, k);
        if (one->n_rules == 0 && one->n_homes == 0) {
            continue;
        }
        st = hsp_plan_homes(g, one, home, err);
        for (uint32_t i = 0; st == HSP_OK && i < g->n_params; i++) {
            hsp_cover_fini(&home[i]);
        }
    }
    return st;
}

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
        st = hsp_plan_check(p, g, global_batch, err);
        st = st == HSP_OK ? check_homes(p, g, arena, err) : st;
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
    return hsp_err_set(err, HSP_ENOENT, 0, "none of %u plans fits %u devices", n, n_devices);
}
