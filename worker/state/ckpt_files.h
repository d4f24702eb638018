/* Names the files of a checkpoint and holds the metadata of its shards. Inside of checkpoints. */
#ifndef HSP_CKPT_FILES_H
#define HSP_CKPT_FILES_H
#include "worker/state/ckpt.h"
#include "worker/state/folder.h"
#include "worker/state/json_text.h"
#include "worker/state/safetensors_read.h"

#define HSP_CKPT_NAME     144
#define HSP_CKPT_FORMAT   2 /* 1 did not say where the job was in its data */
#define HSP_CKPT_MANIFEST "manifest.json"

/* The names of folders in the folder of a job (ckpt_steps.h): a complete step; a complete step that
 * was moved aside, for a later job of the same name or a later attempt of the same job; an attempt.
 * Each epoch has attempts of its own: a writer of an earlier epoch, cut off and not yet dead,
 * writes and deletes nothing that a later epoch commits. An epoch with a member of a version that
 * does not know these names has no names of its own (old_name of the info). */
void hsp_ckpt_step_name(uint64_t step, char ret[HSP_CKPT_NAME]);
void hsp_ckpt_aside_name(uint64_t step, uint32_t job, char ret[HSP_CKPT_NAME]);
void hsp_ckpt_tmp_name(const struct hsp_ckpt_info *info, char ret[HSP_CKPT_NAME]);
/* The name of an attempt in earlier versions, which may have left one, or write one. */
void hsp_ckpt_old_tmp_name(const struct hsp_ckpt_info *info, char ret[HSP_CKPT_NAME]);
static inline void hsp_ckpt_place_name(const struct hsp_ckpt_place *at, char ret[HSP_CKPT_NAME])
{
    at->aside != 0 ? hsp_ckpt_aside_name(at->step, at->aside, ret)
                   : hsp_ckpt_step_name(at->step, ret);
}
/* The file name of a shard; whether @name is that of one of ranks 0 .. n_ranks - 1. */
void hsp_ckpt_shard_name(uint32_t rank, char ret[HSP_CKPT_NAME]);
bool hsp_ckpt_is_shard(const char *name, uint32_t n_ranks);

/* One piece as a shard's metadata tells it. */
struct hsp_ckpt_entry {
    struct hsp_ckpt_tensor t; /* name points into the shard's JSON */
    struct hsp_box box;
    uint64_t hash;
    const struct hsp_st_entry *st; /* in the shard's reader */
};
struct hsp_ckpt_shard {
    struct hsp_st_reader *st;
    cJSON *meta;
    struct hsp_ckpt_info info;
    uint32_t rank;
    uint64_t content; /* sum of the hashes */
    uint64_t meta_hash;
    size_t n;
    struct hsp_ckpt_entry *e;
};

/* Same job, step, term, epoch, number of ranks and of parameters; same cluster, if both name
 * one. */
bool hsp_ckpt_info_equal(const struct hsp_ckpt_info *a, const struct hsp_ckpt_info *b);

struct hsp_ckpt {
    char name[HSP_CKPT_NAME]; /* of its folder */
    struct hsp_ckpt_info info;
    struct hsp_data_cursor data;
    char *config;
    uint32_t n_shards;
    struct hsp_ckpt_shard *shard;
    const struct hsp_ckpt_entry **e; /* sorted by (tensor, kind) */
    size_t n_e;
    struct hsp_ckpt_tensor *t;
    size_t *first; /* of each tensor in e; one more at the end */
    size_t n_t;
    bool *checked; /* [n_e] of shards without sums: its hash was compared */
};

#endif
