/* Inside of checkpoints: paths, text files, and the metadata of a shard. */
#ifndef HSP_CKPT_FILES_H
#define HSP_CKPT_FILES_H
#include "worker/state/ckpt.h"
#include "worker/state/json_text.h"
#include "worker/state/safetensors.h"

#define HSP_CKPT_PATH     4096
#define HSP_CKPT_FORMAT   2 /* 1 did not say where the job was in its data */
#define HSP_CKPT_MANIFEST "manifest.json"

/* DIR/step-N, DIR/step-N.tmp, and a shard's file name. HSP_ELIMIT: path too long. */
enum hsp_status hsp_ckpt_step_dir(const char *dir, uint64_t step, bool tmp, char ret[HSP_CKPT_PATH],
                                  struct hsp_err *err);
enum hsp_status hsp_ckpt_shard_path(const char *step_dir, uint32_t rank, char ret[HSP_CKPT_PATH],
                                    struct hsp_err *err);
enum hsp_status hsp_ckpt_join(const char *dir, const char *name, char ret[HSP_CKPT_PATH],
                              struct hsp_err *err);

/* mkdir -p */
enum hsp_status hsp_ckpt_make_dir(const char *path, struct hsp_err *err);
enum hsp_status hsp_ckpt_sync_dir(const char *path, struct hsp_err *err);
/* Deletes a step's directory, its manifest first, so that a half deleted one is not complete. */
enum hsp_status hsp_ckpt_remove_dir(const char *path, struct hsp_err *err);

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
/* Opens a shard and checks that header and metadata say the same. HSP_EDIGEST, HSP_EVERSION;
 * HSP_ENOMEM, which says nothing of the shard; ... */
enum hsp_status hsp_ckpt_shard_open(const char *path, struct hsp_ckpt_shard *ret,
                                    struct hsp_err *err);
void hsp_ckpt_shard_close(struct hsp_ckpt_shard *s);

/* Same job, step, term, epoch and number of ranks. */
bool hsp_ckpt_info_equal(const struct hsp_ckpt_info *a, const struct hsp_ckpt_info *b);
/* Every tensor of all shards is covered exactly once; HSP_EDIGEST names the first that is not.
 * HSP_ELIMIT: more than HSP_CKPT_MAX_PIECES. HSP_ENOMEM. Sorts pointers to the entries by (tensor, kind) into *ret (free()). */
enum hsp_status hsp_ckpt_coverage(const struct hsp_ckpt_shard *s, uint32_t n,
                                  const struct hsp_ckpt_entry ***ret, size_t *ret_n,
                                  struct hsp_err *err);

struct hsp_ckpt {
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
};

/* ckpt_manifest.c: the text of a manifest, cJSON_free(); NULL without memory. */
char *hsp_ckpt_manifest_text(const struct hsp_ckpt_info *info, const struct hsp_ckpt_shard *s,
                             const struct hsp_data_cursor *data, const char *config);
/* Reads that of a step's directory into info, data and config of @c, and *ret (cJSON_Delete).
 * HSP_EDIGEST, HSP_EVERSION, HSP_ENOMEM; errors of reading a file. */
enum hsp_status hsp_ckpt_manifest_read(const char *step_dir, struct hsp_ckpt *c, cJSON **ret,
                                       struct hsp_err *err);
/* Of a file of another format: says which program can read it. Returns HSP_EVERSION. */
enum hsp_status hsp_ckpt_other_format(const char *path, uint32_t format, struct hsp_err *err);

/* @part of the piece @e into @dst, which holds @dst_box. */
enum hsp_status hsp_ckpt_read_piece(const struct hsp_ckpt *c, const struct hsp_ckpt_entry *e,
                                    const struct hsp_box *part, const struct hsp_box *dst_box,
                                    void *dst, struct hsp_err *err);

#endif
