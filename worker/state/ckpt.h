/* Commits, prunes and reads checkpoints: folders of safetensors shards under a manifest that is
 * written last.
 *
 *   DIR/step-0000000100/shard-00001-model-00001-of-00001.safetensors    one for each rank, from 1
 *                       manifest.json
 *   DIR/step-0000000200.tmp/                                            being written; never read
 *
 * Role:    executors write their shard, one process commits; any layout reads any region back.
 * Purity:  shell (files). DIR is not followed where it is a link (folder.h). A step is visible when its directory has its final name; that happens
 *          after all its bytes and the manifest are on disk.
 * Threads: each object is confined to one thread.
 * Bounds:  HSP_CKPT_MAX_PIECES in all, HSP_CKPT_MAX_RANKS files. The shards carry the metadata that
 *          PyTorch's distributed checkpoint reader knows (DCP_SHARDING_INFO: offset of each shard
 *          in the whole tensor), with PyTorch names; ours, with boxes and content hashes, is in the
 *          key "hspmd".
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
    uint32_t n_ranks;  /* that wrote shards */
    uint32_t n_params; /* of the model, numbered from 0; a commit without one of them is refused */
    uint32_t job_id;   /* two jobs may have one name; 0: not known, written by an earlier version */
    struct hsp_whose whose; /* no cluster: written by an earlier version */
};

/* A part of a tensor that one rank writes; parts of all ranks are disjoint and cover every
 * tensor. */
struct hsp_ckpt_piece {
    const char *name; /* of the parameter, PyTorch path */
    uint32_t tensor;  /* its number in the single-device graph */
    uint8_t kind;     /* enum hsp_state_kind */
    enum hsp_dtype dtype;
    const int64_t *full; /* extents of the whole tensor */
    struct hsp_box box;  /* what is written; empty ones are skipped */
    struct hsp_box held; /* what @data holds, dense */
    const void *data;    /* constant during the call */
    uint64_t hash;       /* of the box (box_hash.h); only of pieces that are streamed */
};

/* The same for a writer that has not got the data at hand: hashes come first (they stand in the
 * file's head), then the data in parts of any size and order, each once. Names, extents and @p stay
 * until the end. */
struct hsp_ckpt_stream; /* opaque */

/* After all ranks have written: checks that the shards belong together and cover every tensor
 * exactly once, writes the manifest and gives the directory its name. @data: where the job is in
 * its data at this step. @config_json: the model's keys, kept for the export. *ret_content, after
 * success: as hsp_ckpt_content; NULL allowed. A step that is there already is replaced: it is of a
 * history that is over, before a roll-back or of an earlier job of this name; one of another
 * cluster stays (HSP_EEXIST). HSP_EDIGEST: a shard is missing, damaged or of another attempt. */
enum hsp_status hsp_ckpt_commit(const char *dir, const struct hsp_ckpt_info *info,
                                const struct hsp_data_cursor *data, const char *config_json,
                                uint64_t *ret_content, struct hsp_err *err);
/* Deletes the step's temporary directory; no error when it is not there. */
enum hsp_status hsp_ckpt_abandon(const char *dir, uint64_t step, struct hsp_err *err);

/* Steps that have their final name, newest first; free(). A directory that is not there has none.
 * HSP_ELIMIT, HSP_EIO, HSP_EPERM, HSP_ENOMEM. */
enum hsp_status hsp_ckpt_list(const char *dir, uint64_t **ret, size_t *ret_n, struct hsp_err *err);
/* Of the steps up to @upto, deletes the complete ones beyond the newest @keep (>= 1) and temporary
 * ones older than the newest. Steps above are of another history, and those of a cluster other than
 * @cluster are not ours: not counted, not deleted. What cannot be deleted keeps nothing else from
 * it: the first error is returned. */
enum hsp_status hsp_ckpt_prune(const char *dir, uint64_t upto, size_t keep,
                               struct hsp_digest cluster, struct hsp_err *err);

/* Before a step is written: deletes the temporary directories of steps below it, whose attempts are
 * over, so that their room is free for it. Errors as above. */
enum hsp_status hsp_ckpt_sweep(const char *dir, uint64_t below, struct hsp_err *err);

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
 * they are read (ckpt_read.h). HSP_ENOENT, HSP_EDIGEST (damaged: says what), HSP_EVERSION (of another program
 * version: says what to do), HSP_ELIMIT, HSP_EIO, HSP_ENOMEM (want of memory or of descriptors,
 * which says nothing of the step).
 */
enum hsp_status hsp_ckpt_open(const char *dir, uint64_t step, struct hsp_ckpt **ret,
                              struct hsp_err *err);
struct hsp_ckpt *hsp_ckpt_close(struct hsp_ckpt *c); /* NULL allowed; returns NULL */

const struct hsp_ckpt_info *hsp_ckpt_about(const struct hsp_ckpt *c);
const struct hsp_data_cursor *hsp_ckpt_data(const struct hsp_ckpt *c);
/* Sum of the hashes (box_hash.h) of all that is in it: the same for the same state, whatever its
 * layout; as the shards say it, of contents that hsp_ckpt_verify compares. */
uint64_t hsp_ckpt_content(const struct hsp_ckpt *c);
/* Whole tensors, sorted by (tensor, kind). */
size_t hsp_ckpt_count(const struct hsp_ckpt *c);
const struct hsp_ckpt_tensor *hsp_ckpt_tensor_at(const struct hsp_ckpt *c, size_t i);
/* By name of the parameter; NULL when absent. */
const struct hsp_ckpt_tensor *hsp_ckpt_find(const struct hsp_ckpt *c, const char *name,
                                            uint8_t kind);

#endif
