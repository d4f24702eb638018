#include "tests/unit/daemon/spmd/use_form.h"

#include <inttypes.h>

#include "daemon/plan/plan_yaml_annot.h"
#include "daemon/plan/plan_yaml_one.h"
#include "daemon/plan/stage_groups.h"
#include "daemon/spmd/sharding/param_use.h"
#include "tests/lib/testlib.h"

/* Group @k of @s as it uses the parameter. */
static void put_group(const struct hsp_stage *s, uint32_t k, const struct hsp_param *p,
                      const struct hsp_layout *at, bool cuts, struct hsp_buf *out)
{
    uint32_t first, end;
    hsp_stage_group(s, k, &first, &end);
    bool split = p->tp_dim >= 0 && end - first > 1;
    if (split) {
        hsp_buf_printf(out, "{split: %d, %s: [", p->tp_dim, cuts ? "cuts" : "shares");
        hsp_buf_puts(out, cuts ? "0, " : "");
        for (uint32_t i = first; i < end; i++) {
            hsp_buf_printf(out, "%s%" PRId64, i > first ? ", " : "",
                           cuts ? at->box[i].hi[p->tp_dim] : s->shares[i]);
        }
        hsp_buf_puts(out, "], of: [");
    }
    for (uint32_t i = first; i < end; i++) {
        hsp_buf_printf(out, "%s%u", i > first ? ", " : "", s->ranks[i]);
    }
    hsp_buf_puts(out, split ? "]}" : "");
}

static void put_param(const struct hsp_plan *p, const struct hsp_graph *g, const bool *units,
                      uint32_t param, bool cuts, struct hsp_buf *out)
{
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    struct hsp_err err = {0};
    hsp_buf_printf(out, "  - {name: %s, use: {dup: [", g->tensors[g->params[param].tensor].name);
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        const struct hsp_pipeline *s = &p->pipelines[i];
        const char *sep = i > 0 ? ", {dup: [" : "{dup: [";
        for (uint32_t t = 0; t < s->n_stages; t++) {
            struct hsp_layout at;
            if (!hsp_stage_uses_param(g, units, s, t, param)) {
                continue;
            }
            assert_ok(hsp_param_use(g, &s->stages[t], param, arena, &at, &err), &err);
            for (uint32_t k = 0; k < hsp_stage_groups(&s->stages[t]); k++) {
                hsp_buf_puts(out, sep);
                put_group(&s->stages[t], k, &g->params[param], &at, cuts, out);
                sep = ", ";
            }
        }
        hsp_buf_puts(out, "]}");
    }
    hsp_buf_puts(out, "]}}\n");
    hsp_arena_free(arena);
}

static void put_batch(const struct hsp_pipeline *s, struct hsp_buf *out)
{
    hsp_buf_printf(
        out, "  - sequences: %u\n    micro_batches: %u\n    schedule: %s\n    chunks: %u\n",
        s->sequences, s->micro_batches, hsp_schedule_name(s->schedule), hsp_pipeline_chunks(s));
    hsp_buf_puts(out, "    stages:\n");
    for (uint32_t t = 0; t < s->n_stages; t++) {
        hsp_plan_put_settings(&s->stages[t], out);
    }
}

void use_form(const struct hsp_plan *p, const struct hsp_graph *g, bool cuts, struct hsp_buf *out)
{
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    struct hsp_err err = {0};
    const bool *units = NULL;
    assert_ok(hsp_param_units(g, arena, &units, &err), &err);
    hsp_buf_printf(out, "apiVersion: hspmd/v1\nkind: plan\nranks: %u\nzero: %u\nzero_pattern: %s\n",
                   p->n_ranks, p->zero,
                   p->zero_pattern == HSP_ZERO_INTERLEAVED ? "interleaved" : "contiguous");
    for (uint32_t k = 0; k < g->n_params; k++) {
        hsp_buf_puts(out, k == 0 ? "annotations:\n" : "");
        put_param(p, g, units, k, cuts, out);
    }
    hsp_buf_puts(out, "batches:\n");
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        put_batch(&p->pipelines[i], out);
    }
    hsp_arena_free(arena);
}
