/* Commits, prunes and reads checkpoints: folders of safetensors shards under a manifest that is
 * written last.
 *
 *   DIR/step-0000000100/shard-00001-model-00001-of-00001.safetensors    one for each rank, from 1
 *                       manifest.json
 *
 * Other names in DIR: ckpt_steps.h.
 *
 * Role:    executors write their shard, one process commits; any layout reads any region back.
 * Purity:  shell (files). DIR is not followed where it is a link (folder.h). A directory gets its
 *          final name when all its bytes and the manifest are on disk; then readers see the step.
 * Threads: each object is confined to one thread.
 * Bounds:  HSP_CKPT_MAX_PIECES pieces in all, HSP_CKPT_MAX_RANKS files. The shards carry the
 *          metadata that PyTorch's distributed checkpoint reader knows (DCP_SHARDING_INFO: offset
 *          of each shard in the whole tensor), with PyTorch names. Our own metadata, with boxes and
 *          content hashes, is in the key "hspmd".
 */
#ifndef HSP_CKPT_H
#define HSP_CKPT_H
#include "proto/layout/cover.h"
#include "proto/program/data_cursor.h"
#include "proto/wire/identity.h"
#include "worker/state/region.h"

#define HSP_CKPT_MAX_PIECES 1048576
#define HSP_CKPT_MAX_RANKS  4096

struct hsp_ckpt_info {
    char job[64];
    uint64_t step; /* version of the state: number of updates made */
    uint64_t term, epoch;
    uint32_t n_ranks; /* that wrote shards */
    /* Parameters of the model, numbered from 0. A checkpoint that lacks one of them is not
     * committed. */
    uint32_t n_params;
    uint32_t job_id; /* two jobs may have one name; 0: not known, written by an earlier version */
    struct hsp_whose whose; /* no cluster: written by an earlier version */
    /* The attempt has the name that earlier versions use, since one of its writers is such a
     * version. Not stored. */
    bool old_name;
};

/* A part of a tensor that one rank writes; parts of all ranks are disjoint and cover every
 * tensor. */
struct hsp_ckpt_piece {
    const char *name; /* of the parameter, PyTorch path */
    uint32_t tensor;  /* its number in the single-device graph */
    uint8_t kind;     /* enum hsp_state_kind */
    enum hsp_dtype dtype;
    const int64_t *full; /* extents of the whole tensor */
    struct hsp_box box;  /* the part to write; an empty part is skipped */
    struct hsp_box held; /* the part that @data holds, dense */
    const void *data;    /* constant during the call */
    uint64_t hash;       /* of the box (box_hash.h), compared with the data written */
};

/* A shard that is being written: hashes come first (they stand in the file's head), then the data
 * in parts of any size and order, each once. Names, extents and the pieces stay until the end. */
struct hsp_ckpt_stream; /* opaque */

struct hsp_ckpt_done {
    uint64_t content; /* as hsp_ckpt_content */
    uint32_t aside;   /* job of the step that was renamed to step-N.job-ASIDE; 0: none was */
};
/* Makes a checkpoint of the shards that all ranks have written: checks that the shards belong
 * together and cover every tensor exactly once, writes the manifest and gives the directory its
 * name. @data: the place of the job in its data at this step. @config_json: the keys of the model,
 * kept for the export. @ret: NULL allowed.
 *
 * A step of this job that has the name is replaced: it is from before a roll-back. A step of
 * another job of this cluster is renamed (ckpt_owner.h). HSP_EEXIST: a step of another cluster, or
 * of an unknown owner, has the name and stays. HSP_EDIGEST: a shard is missing, damaged or of
 * another attempt. */
enum hsp_status hsp_ckpt_commit(const char *dir, const struct hsp_ckpt_info *info,
                                const struct hsp_data_cursor *data, const char *config_json,
                                struct hsp_ckpt_done *ret, struct hsp_err *err);
/* A complete step in the folder of a job. aside 0: the folder step-N; else step-N.job-ASIDE. */
struct hsp_ckpt_place {
    uint64_t step;
    uint32_t aside;
};

struct hsp_ckpt; /* opened checkpoint, opaque */

struct hsp_ckpt_tensor {
    const char *name;
    uint32_t tensor;
    uint8_t kind;
    enum hsp_dtype dtype;
    uint8_t rank;
    int64_t full[HSP_MAX_RANK];
};

/* Opens a complete step after checking manifest, all headers and coverage; contents are checked as
 * they are read (ckpt_read.h).
 *
 * HSP_ENOENT; HSP_EDIGEST: damaged, the message names the place; HSP_EVERSION: of another version
 * of the program, the message names the remedy; HSP_ELIMIT; HSP_EIO; HSP_ENOMEM: memory or
 * descriptors are short, so the state of the step is unknown. */
enum hsp_status hsp_ckpt_open_at(const char *dir, const struct hsp_ckpt_place *at,
                                 struct hsp_ckpt **ret, struct hsp_err *err);
/* As hsp_ckpt_open_at, but holds no descriptor afterwards, and one at a time meanwhile. The result
 * tells of the step, but cannot be read from. */
enum hsp_status hsp_ckpt_look_at(const char *dir, const struct hsp_ckpt_place *at,
                                 struct hsp_ckpt **ret, struct hsp_err *err);
/* Opens step @step of job @job: step-N, unless step-N is of another job or cannot be read and
 * step-N.job-JOB can. @job 0: step-N. Errors as above. */
enum hsp_status hsp_ckpt_open(const char *dir, uint64_t step, uint32_t job, struct hsp_ckpt **ret,
                              struct hsp_err *err);
/* As hsp_ckpt_open, but where only one of the two has @content (hsp_ckpt_content), opens that
 * one. */
enum hsp_status hsp_ckpt_open_meant(const char *dir, uint64_t step, uint32_t job, uint64_t content,
                                    struct hsp_ckpt **ret, struct hsp_err *err);
struct hsp_ckpt *hsp_ckpt_close(struct hsp_ckpt *c); /* NULL allowed; returns NULL */

const struct hsp_ckpt_info *hsp_ckpt_about(const struct hsp_ckpt *c);
const struct hsp_data_cursor *hsp_ckpt_data(const struct hsp_ckpt *c);
/* Sum of the hashes (box_hash.h) of all contents: equal for equal states in any layout. The hashes
 * are those that the shards state; hsp_ckpt_verify compares them with the contents. */
uint64_t hsp_ckpt_content(const struct hsp_ckpt *c);
/* Whole tensors, sorted by (tensor, kind). */
size_t hsp_ckpt_count(const struct hsp_ckpt *c);
const struct hsp_ckpt_tensor *hsp_ckpt_tensor_at(const struct hsp_ckpt *c, size_t i);
/* Finds a tensor by the name of its parameter. Returns NULL if there is none. */
const struct hsp_ckpt_tensor *hsp_ckpt_find(const struct hsp_ckpt *c, const char *name,
                                            uint8_t kind);

#endif
