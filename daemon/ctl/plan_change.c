/* Compares a plan with the document of the running one, rank by rank. */
#include "daemon/ctl/plan_change.h"

#include <math.h>
#include <string.h>

#include "daemon/ctl/remote.h"
#include "daemon/plan/plan_yaml_one.h"
#include "daemon/plan/stage_groups.h"
#include "daemon/planner/cost.h"
#include "daemon/planner/price.h"
#include "daemon/spmd/sharding/pipeline_units.h"

static bool says(const cJSON *o, const char *key, double value)
{
    return fabs(hsp_doc_number(o, key) - value) < 1e-9;
}

/* The fields of one rank in the document. */
struct place {
    uint32_t pipeline, stage;
    double part;
};

/* Several chunks: the blocks of each. */
static bool same_blocks(const cJSON *o, const struct hsp_pipeline *s, uint32_t stage)
{
    char blocks[HSP_RANGES_BYTES];
    if (!says(o, "first_block", hsp_chunk_first_block(s, stage, 0)) ||
        !says(o, "blocks", s->stages[stage].layers)) {
        return false;
    }
    if (hsp_pipeline_chunks(s) == 1) {
        return hsp_doc_text(o, "block_ranges")[0] == '\0';
    }
    hsp_block_ranges(s, stage, blocks);
    return strcmp(hsp_doc_text(o, "block_ranges"), blocks) == 0;
}

static bool same_rank(const cJSON *o, const struct hsp_plan *plan, const struct place *p,
                      const char *device)
{
    const struct hsp_pipeline *s = &plan->pipelines[p->pipeline];
    return device != NULL && strcmp(hsp_doc_text(o, "device"), device) == 0 &&
           says(o, "stream", p->pipeline) && says(o, "stage", p->stage) &&
           same_blocks(o, s, p->stage) && says(o, "tensor_part", p->part) &&
           strcmp(hsp_doc_text(o, "schedule"), hsp_schedule_name(s->schedule)) == 0 &&
           says(o, "sequences", s->sequences) && says(o, "micro_batches", s->micro_batches);
}

static bool same_stage(const cJSON *ranks, const struct hsp_plan *plan, struct place *p,
                       const cJSON *devices)
{
    const struct hsp_stage *g = &plan->pipelines[p->pipeline].stages[p->stage];
    bool same = true;
    for (uint32_t i = 0; i < g->n && same; i++) {
        int r = (int)g->ranks[i];
        p->part = hsp_stage_part(g, i);
        same = same_rank(cJSON_GetArrayItem(ranks, r), plan, p,
                         cJSON_GetStringValue(cJSON_GetArrayItem(devices, r)));
    }
    return same;
}

/* A stage of two plans of a pool; ranks mean the same devices in both. */
static bool same_cut(const struct hsp_stage *a, const struct hsp_stage *b)
{
    uint8_t open = HSP_SAVED_OPEN, keep = HSP_SAVED_KEEP;
    bool same = a->layers == b->layers && a->n == b->n && a->split == b->split &&
                hsp_stage_groups(a) == hsp_stage_groups(b) &&
                a->sequence_parallel == b->sequence_parallel &&
                (a->saved == open ? keep : a->saved) == (b->saved == open ? keep : b->saved);
    for (uint32_t i = 0; i < a->n && same; i++) {
        same = a->ranks[i] == b->ranks[i] && hsp_stage_group_of(a, i) == hsp_stage_group_of(b, i) &&
               fabs(hsp_stage_part(a, i) - hsp_stage_part(b, i)) < 1e-9;
    }
    return same;
}

static bool same_pipelines(const struct hsp_plan *a, const struct hsp_plan *b)
{
    bool same = a->max_length == b->max_length && a->zero == b->zero && a->n_ranks == b->n_ranks &&
                a->n_pipelines == b->n_pipelines;
    for (uint32_t s = 0; s < a->n_pipelines && same; s++) {
        const struct hsp_pipeline *x = &a->pipelines[s], *y = &b->pipelines[s];
        same = x->sequences == y->sequences && x->micro_batches == y->micro_batches &&
               x->schedule == y->schedule && hsp_pipeline_chunks(x) == hsp_pipeline_chunks(y) &&
               x->n_stages == y->n_stages;
        for (uint32_t g = 0; g < x->n_stages && same; g++) {
            same = same_cut(&x->stages[g], &y->stages[g]);
            for (uint32_t c = 0; c < hsp_pipeline_chunks(x) && same; c++) {
                same = hsp_chunk_layers(&x->stages[g], c) == hsp_chunk_layers(&y->stages[g], c);
            }
        }
    }
    return same;
}

bool hsp_pool_unchanged(const struct hsp_plan *planned, const struct hsp_plan *plan)
{
    bool same = planned->n_shorter == plan->n_shorter && planned->max_length == plan->max_length;
    for (uint32_t k = 0; k < plan->n_shorter && same; k++) {
        same = same_pipelines(planned->shorter[k], plan->shorter[k]);
    }
    return same;
}

bool hsp_plan_unchanged(const cJSON *planned, const struct hsp_plan *plan, const cJSON *devices)
{
    const cJSON *ranks = cJSON_GetObjectItemCaseSensitive(planned, "ranks");
    bool same = says(planned, "zero", plan->zero) && says(planned, "streams", plan->n_pipelines) &&
                cJSON_GetArraySize(ranks) == (int)plan->n_ranks &&
                cJSON_GetArraySize(devices) == (int)plan->n_ranks;
    for (uint32_t s = 0; s < plan->n_pipelines && same; s++) {
        struct place p = {.pipeline = s};
        for (; p.stage < plan->pipelines[s].n_stages && same; p.stage++) {
            same = same_stage(ranks, plan, &p, devices);
        }
    }
    return same;
}
