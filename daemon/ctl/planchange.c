/* See planchange.h. */
#include "daemon/ctl/planchange.h"

#include <math.h>
#include <string.h>

#include "daemon/ctl/remote.h"
#include "daemon/planner/cost.h"
#include "daemon/spmd/home.h"

static bool says(const cJSON *o, const char *key, double value)
{
    return fabs(hsp_doc_number(o, key) - value) < 1e-9;
}

/* What the document says of one rank. */
struct place {
    uint32_t stream, stage;
    double part;
};

/* Several chunks: the blocks of each. */
static bool same_blocks(const cJSON *o, const struct hsp_stream *s, uint32_t stage)
{
    char blocks[HSP_RANGES_BYTES];
    if (!says(o, "first_block", hsp_chunk_first_block(s, stage, 0)) ||
        !says(o, "blocks", s->stages[stage].layers)) {
        return false;
    }
    if (hsp_stream_chunks(s) == 1) {
        return hsp_doc_text(o, "block_ranges")[0] == '\0';
    }
    hsp_block_ranges(s, stage, blocks);
    return strcmp(hsp_doc_text(o, "block_ranges"), blocks) == 0;
}

static bool same_rank(const cJSON *o, const struct hsp_plan *plan, const struct place *p,
                      const char *device)
{
    const struct hsp_stream *s = &plan->streams[p->stream];
    return device != NULL && strcmp(hsp_doc_text(o, "device"), device) == 0 &&
           says(o, "stream", p->stream) && says(o, "stage", p->stage) &&
           same_blocks(o, s, p->stage) && says(o, "tensor_part", p->part) &&
           strcmp(hsp_doc_text(o, "schedule"), hsp_schedule_name(s->schedule)) == 0 &&
           says(o, "sequences", s->sequences) && says(o, "micro_batches", s->micro_batches);
}

static bool same_stage(const cJSON *ranks, const struct hsp_plan *plan, struct place *p,
                       const cJSON *devices)
{
    const struct hsp_stage *g = &plan->streams[p->stream].stages[p->stage];
    bool same = true;
    for (uint32_t i = 0; i < g->n && same; i++) {
        int r = (int)g->ranks[i];
        p->part = hsp_stage_part(g, i);
        same = same_rank(cJSON_GetArrayItem(ranks, r), plan, p,
                         cJSON_GetStringValue(cJSON_GetArrayItem(devices, r)));
    }
    return same;
}

bool hsp_plan_unchanged(const cJSON *planned, const struct hsp_plan *plan, const cJSON *devices)
{
    const cJSON *ranks = cJSON_GetObjectItemCaseSensitive(planned, "ranks");
    bool same = says(planned, "zero", plan->zero) && says(planned, "streams", plan->n_streams) &&
                cJSON_GetArraySize(ranks) == (int)plan->n_ranks &&
                cJSON_GetArraySize(devices) == (int)plan->n_ranks;
    for (uint32_t s = 0; s < plan->n_streams && same; s++) {
        struct place p = {.stream = s};
        for (; p.stage < plan->streams[s].n_stages && same; p.stage++) {
            same = same_stage(ranks, plan, &p, devices);
        }
    }
    return same;
}
