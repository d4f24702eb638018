/* Finds the owner of a step. The happy path is a readable manifest, which names cluster and job.
 *
 * Possible failure modes: a damaged manifest (the shards name cluster and job, too, and must
 * agree); a manifest of a newer format, or an error of the disk (the owner is not known); want of
 * memory (the caller fails). */
#include "worker/state/ckpt_owner.h"

#include <stdlib.h>
#include <string.h>

#include "worker/state/ckpt_manifest.h"
#include "worker/state/ckpt_shard.h"

/* Collects the owners that the shards of one step name. */
struct claim {
    const struct hsp_folder *step;
    const struct hsp_ckpt_info *us;
    size_t n; /* shards that name an owner */
    struct hsp_digest cluster;
    uint32_t job;
    uint64_t epoch; /* the last one */
    bool disagree;
    enum hsp_status st; /* HSP_ENOMEM: a file could not be looked at */
    struct hsp_err *err;
};

static void add_claim(struct claim *c, const struct hsp_ckpt_info *info)
{
    c->disagree = c->disagree || strcmp(info->job, c->us->job) != 0 ||
                  (c->n > 0 &&
                   (!hsp_digest_equal(c->cluster, info->whose.cluster) || c->job != info->job_id));
    c->cluster = info->whose.cluster;
    c->job = info->job_id;
    c->epoch = info->epoch > c->epoch ? info->epoch : c->epoch;
    c->n++;
}

static bool ask_shard(void *ctx, const char *name)
{
    struct claim *c = ctx;
    struct hsp_ckpt_shard s;
    struct hsp_err why = {0};
    if (!hsp_ckpt_is_shard(name, HSP_CKPT_MAX_RANKS)) {
        return true;
    }
    enum hsp_status st = hsp_ckpt_shard_open(c->step, name, &s, &why);
    if (st == HSP_OK) {
        add_claim(c, &s.info);
        hsp_ckpt_shard_close(&s);
    } else if (st == HSP_ENOMEM) {
        c->st = hsp_err_set(c->err, HSP_ENOMEM, 0, "%s", why.msg);
    }
    return c->st == HSP_OK;
}

/* Compares the owner of a step, which @epoch has written, with the job of @us. */
static void judge(struct hsp_digest cluster, uint32_t job, uint64_t epoch,
                  const struct hsp_ckpt_info *us, struct hsp_ckpt_owner *ret)
{
    bool none = hsp_cluster_none(cluster);
    ret->job = job;
    ret->kind = !none && !hsp_digest_equal(cluster, us->whose.cluster) ? HSP_CKPT_FOREIGN
                : job == us->job_id || (none && job == 0)              ? HSP_CKPT_OURS
                                                                       : HSP_CKPT_EARLIER;
    ret->epoch = ret->kind == HSP_CKPT_OURS ? epoch : 0;
    ret->later = ret->epoch > us->epoch;
}

bool hsp_ckpt_is_of(const struct hsp_ckpt_info *step, const struct hsp_ckpt_info *us)
{
    struct hsp_ckpt_owner o = {0};
    judge(step->whose.cluster, step->job_id, step->epoch, us, &o);
    return o.kind == HSP_CKPT_OURS;
}

/* Finds the owner by the shards, as the manifest of @step is damaged: the shards that can be read
 * must agree, and name a cluster. */
static enum hsp_status ask_shards(const struct hsp_folder *step, const struct hsp_ckpt_info *us,
                                  struct hsp_ckpt_owner *ret, struct hsp_err *err)
{
    struct claim c = {.step = step, .us = us, .err = err};
    enum hsp_status st = hsp_folder_each(step, ask_shard, &c, &ret->why);
    if (st == HSP_ENOMEM || c.st != HSP_OK) {
        return st == HSP_ENOMEM ? hsp_err_set(err, st, 0, "%s", ret->why.msg) : c.st;
    }
    ret->damaged = true;
    ret->kind = HSP_CKPT_UNKNOWN;
    if (st == HSP_OK && c.n > 0 && !c.disagree && !hsp_cluster_none(c.cluster)) {
        judge(c.cluster, c.job, c.epoch, us, ret);
    }
    return HSP_OK;
}

static enum hsp_status ask_step(const struct hsp_folder *step, const struct hsp_ckpt_info *us,
                                struct hsp_ckpt_owner *ret, struct hsp_err *err)
{
    struct hsp_ckpt c = {0};
    cJSON *m = NULL;
    enum hsp_status st = hsp_ckpt_manifest_read(step, &c, &m, &ret->why);
    if (st == HSP_OK) {
        judge(c.info.whose.cluster, c.info.job_id, c.info.epoch, us, ret);
    }
    cJSON_Delete(m);
    free(c.config);
    switch (st) {
    case HSP_OK: return HSP_OK;
    case HSP_ENOENT: ret->kind = HSP_CKPT_NOBODY; return HSP_OK;
    case HSP_ENOMEM: return hsp_err_set(err, st, 0, "%s", ret->why.msg);
    case HSP_EDIGEST: return ask_shards(step, us, ret, err);
    default: ret->kind = HSP_CKPT_UNKNOWN; return HSP_OK;
    }
}

enum hsp_status hsp_ckpt_owner_open(const struct hsp_folder *job, const char *name,
                                    const struct hsp_ckpt_info *us, struct hsp_ckpt_owner *ret,
                                    struct hsp_folder *ret_step, struct hsp_err *err)
{
    struct hsp_ckpt_owner o = {.kind = HSP_CKPT_NOBODY};
    enum hsp_status st = hsp_folder_open_in(job, name, false, ret_step, &o.why);
    if (st == HSP_OK) {
        st = ask_step(ret_step, us, &o, err);
    } else if (st == HSP_ENOMEM) {
        (void)hsp_err_set(err, st, 0, "%s", o.why.msg);
    } else {
        o.kind = st == HSP_ENOENT ? HSP_CKPT_NOBODY : HSP_CKPT_UNKNOWN;
        st = HSP_OK;
    }
    if (st == HSP_OK) {
        *ret = o;
    } else {
        hsp_folder_close(ret_step);
    }
    return st;
}

enum hsp_status hsp_ckpt_owner_of(const struct hsp_folder *job, const char *name,
                                  const struct hsp_ckpt_info *us, struct hsp_ckpt_owner *ret,
                                  struct hsp_err *err)
{
    struct hsp_folder step;
    enum hsp_status st = hsp_ckpt_owner_open(job, name, us, ret, &step, err);
    hsp_folder_close(&step);
    return st;
}
