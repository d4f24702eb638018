/* See planchange.h. */
#include "daemon/ctl/planchange.h"

#include <math.h>
#include <string.h>

#include "daemon/ctl/remote.h"

/* What the document says of one rank. */
struct place {
    uint32_t stream, stage, first_block;
    double part;
};

static bool says(const cJSON *o, const char *key, double value)
{
    return fabs(hsp_doc_number(o, key) - value) < 1e-9;
}

static bool same_rank(const cJSON *o, const struct hsp_plan *plan, const struct place *p,
                      const char *device)
{
    const struct hsp_stream *s = &plan->streams[p->stream];
    return device != NULL && strcmp(hsp_doc_text(o, "device"), device) == 0 &&
           says(o, "stream", p->stream) && says(o, "stage", p->stage) &&
           says(o, "first_block", p->first_block) &&
           says(o, "blocks", s->stages[p->stage].layers) && says(o, "tensor_part", p->part) &&
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
            p.first_block += plan->streams[s].stages[p.stage].layers;
        }
    }
    return same;
}
