#include "worker/state/ckpt_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void hsp_ckpt_step_name(uint64_t step, bool tmp, char ret[HSP_CKPT_NAME])
{
    (void)snprintf(ret, HSP_CKPT_NAME, "step-%010" PRIu64 "%s", step, tmp ? ".tmp" : "");
}

void hsp_ckpt_shard_name(uint32_t rank, char ret[HSP_CKPT_NAME])
{
    (void)snprintf(ret, HSP_CKPT_NAME, "shard-%05u-model-00001-of-00001.safetensors", rank + 1);
}

bool hsp_ckpt_info_equal(const struct hsp_ckpt_info *a, const struct hsp_ckpt_info *b)
{
    return strcmp(a->job, b->job) == 0 && a->step == b->step && a->term == b->term &&
           a->epoch == b->epoch && a->n_ranks == b->n_ranks && a->n_params == b->n_params &&
           a->job_id == b->job_id;
}
