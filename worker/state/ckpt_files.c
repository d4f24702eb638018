#include "worker/state/ckpt_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void hsp_ckpt_step_name(uint64_t step, char ret[HSP_CKPT_NAME])
{
    (void)snprintf(ret, HSP_CKPT_NAME, "step-%010" PRIu64, step);
}

void hsp_ckpt_aside_name(uint64_t step, uint32_t job, char ret[HSP_CKPT_NAME])
{
    (void)snprintf(ret, HSP_CKPT_NAME, "step-%010" PRIu64 ".job-%" PRIu32, step, job);
}

void hsp_ckpt_tmp_name(const struct hsp_ckpt_info *info, char ret[HSP_CKPT_NAME])
{
    char cluster[HSP_DIGEST_HEX];
    if (info->old_name) {
        hsp_ckpt_old_tmp_name(info, ret);
        return;
    }
    hsp_digest_hex(info->whose.cluster, cluster);
    (void)snprintf(ret, HSP_CKPT_NAME,
                   "step-%010" PRIu64 ".job-%" PRIu32 ".term-%" PRIu64 ".epoch-%" PRIu64 ".%s.tmp",
                   info->step, info->job_id, info->term, info->epoch, cluster);
}

void hsp_ckpt_old_tmp_name(const struct hsp_ckpt_info *info, char ret[HSP_CKPT_NAME])
{
    char cluster[HSP_DIGEST_HEX];
    hsp_digest_hex(info->whose.cluster, cluster);
    (void)snprintf(ret, HSP_CKPT_NAME, "step-%010" PRIu64 ".job-%" PRIu32 ".%s.tmp", info->step,
                   info->job_id, cluster);
}

void hsp_ckpt_shard_name(uint32_t rank, char ret[HSP_CKPT_NAME])
{
    (void)snprintf(ret, HSP_CKPT_NAME, "shard-%05u-model-00001-of-00001.safetensors", rank + 1);
}

bool hsp_ckpt_is_shard(const char *name, uint32_t n_ranks)
{
    char own[HSP_CKPT_NAME];
    unsigned number = 0;
    if (sscanf(name, "shard-%u-", &number) != 1 || number < 1 || number > n_ranks) {
        return false;
    }
    hsp_ckpt_shard_name(number - 1, own);
    return strcmp(own, name) == 0;
}

bool hsp_ckpt_info_equal(const struct hsp_ckpt_info *a, const struct hsp_ckpt_info *b)
{
    struct hsp_digest x = a->whose.cluster, y = b->whose.cluster;
    return strcmp(a->job, b->job) == 0 && a->step == b->step && a->term == b->term &&
           a->epoch == b->epoch && a->n_ranks == b->n_ranks && a->n_params == b->n_params &&
           a->job_id == b->job_id &&
           (hsp_cluster_none(x) || hsp_cluster_none(y) || hsp_digest_equal(x, y));
}
