/* Writes predicted plans, from the planner's prices. */
#include "daemon/app/docs/plan_doc.h"

#include <cjson/cJSON.h>

#include "daemon/app/docs/doc_put.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/plan/plan_yaml_one.h"
#include "daemon/planner/durability.h"

/* The plan as a file. False: no memory, or larger than a message. */
static bool put_plan(cJSON *o, const struct hsp_plan *plan)
{
    struct hsp_buf b;
    hsp_buf_init(&b, HSP_MSG_BLOB_MAX / 2);
    hsp_plan_dump(plan, &b);
    bool ok = hsp_buf_status(&b) == HSP_OK &&
              cJSON_AddStringToObject(o, "plan_yaml", hsp_buf_cstr(&b)) != NULL;
    hsp_buf_fini(&b);
    return ok;
}

static cJSON *rank_doc(const struct hsp_cluster_desc *cluster, const struct hsp_rank_cost *r,
                       uint32_t rank)
{
    const struct hsp_device_desc *d = &cluster->dev[r->device];
    cJSON *o = cJSON_CreateObject();
    put(o, "rank", rank);
    put_text(o, "device", d->name);
    put_text(o, "schedule", hsp_schedule_name(r->schedule));
    if (r->block_ranges != NULL) {
        put_text(o, "block_ranges", r->block_ranges);
    }
    put(o, "stream", r->pipeline);
    put(o, "stage", r->stage);
    put(o, "first_block", r->first_block);
    put(o, "blocks", r->n_blocks);
    put(o, "tensor_part", r->part);
    put(o, "sequences", r->sequences);
    put(o, "micro_batches", r->micro_batches);
    put(o, "compute_seconds", r->compute_us * 1e-6);
    put(o, "tensor_seconds", r->tensor_us * 1e-6);
    put(o, "transfer_seconds", r->transfer_us * 1e-6);
    put(o, "update_seconds", r->update_us * 1e-6);
    put(o, "sync_seconds", r->sync_us * 1e-6);
    put(o, "memory_bytes", (double)r->total_bytes);
    put(o, "offered_bytes", (double)d->mem_bytes);
    put(o, "state_bytes", (double)r->state_bytes);
    put(o, "gradient_bytes", (double)r->grad_bytes);
    put(o, "activation_bytes", (double)r->act_bytes);
    put(o, "communication_bytes", (double)r->comm_bytes);
    put(o, "host_bytes", (double)r->host_bytes);
    put(o, "folder_bytes", (double)r->folder_bytes);
    return o;
}

/* Writes the bytes in state folders, and the losses that they outlast. */
static void put_state(cJSON *o, const struct hsp_job_spec *job, const struct hsp_cost *c)
{
    char text[HSP_DURABILITY_BYTES];
    uint32_t most;
    hsp_durability_text(c, job, text);
    put(o, "copies", job->copies);
    put(o, "folder_bytes", (double)hsp_durability_bytes(c, &most));
    put(o, "node_folder_bytes_max", (double)c->rank[most].node_folder_bytes);
    put(o, "keeper_bytes", c->replica_holder_bytes);
    put_text(o, "durability", text);
}

char *hsp_plan_doc(const struct hsp_job_rec *job, const struct hsp_cluster_desc *cluster,
                   const struct hsp_planned *p, const char *source)
{
    const struct hsp_cost *c = &p->cost;
    cJSON *o = cJSON_CreateObject();
    put_text(o, "apiVersion", "hspmd/v1");
    put_text(o, "kind", "plan-prediction");
    put_text(o, "job", job->spec->name);
    put_text(o, "source", source);
    put_text(o, "why", p->plan->why != NULL ? p->plan->why : "");
    put(o, "zero", p->plan->zero);
    put(o, "streams", p->plan->n_pipelines);
    put(o, "step_seconds", c->step_us * 1e-6);
    put(o, "stream_seconds", c->pipeline_us * 1e-6);
    put(o, "sync_seconds", c->sync_us * 1e-6);
    put(o, "vote_seconds", c->vote_us * 1e-6);
    put(o, "copy_seconds", c->copy_us * 1e-6);
    put(o, "bound_seconds", c->bound_us * 1e-6);
    put_state(o, job->spec, c);
    cJSON *ranks = cJSON_AddArrayToObject(o, "ranks");
    for (uint32_t r = 0; r < p->plan->n_ranks; r++) {
        (void)cJSON_AddItemToArray(ranks, rank_doc(cluster, &c->rank[r], r));
    }
    cJSON *rejected = cJSON_AddArrayToObject(o, "rejected");
    for (uint32_t i = 0; i < p->n_rejected; i++) {
        cJSON *x = cJSON_CreateObject();
        (void)cJSON_AddStringToObject(x, "what", p->rejected[i].what);
        (void)cJSON_AddStringToObject(x, "why", p->rejected[i].why);
        if (p->rejected[i].step_us > 0) {
            put(x, "step_seconds", p->rejected[i].step_us * 1e-6);
        }
        (void)cJSON_AddItemToArray(rejected, x);
    }
    char *text = put_plan(o, p->plan) ? cJSON_PrintUnformatted(o) : NULL;
    cJSON_Delete(o);
    return text;
}
