/* Carries in the blob of PREPARE everything that one device needs to build an epoch, besides the
 * fields of struct hsp_m_prepare.
 *
 * Role:      made by hspmdd per device, read by its executor.
 * Purity:    pure.
 * Ownership: a decoded package and its texts live in the arena given; template and binding stay
 *            borrowed from the blob.
 * Bounds:    HSP_PKG_ limits; the blob itself is at most HSP_MSG_BLOB_MAX.
 *
 * Ranks are mesh ranks of the epoch: members 0..n_ranks-1, then sources. A box stands for all kinds
 * of state of its parameter. Tables hold the rows this rank takes part in; those that write whole
 * checkpoints get the whole of gather: rank 0 and hsp_package_writer.
 */
#ifndef HSP_MSG_BLOB_H
#define HSP_MSG_BLOB_H
#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/layout/cover.h"

#define HSP_PKG_PEERS 4096u /* HSP_MSG_RANKS */
#define HSP_PKG_ROWS \
    (1u << 20)                /* parameters x ranks of any job that fits the limits of a program */
#define HSP_PKG_PARAMS 65536u /* HSP_MAX_GRAPH_TENSORS */
#define HSP_PKG_POOL   16u    /* HSP_MAX_POOL */

struct hsp_pkg_peer {
    const char *name;    /* NODE/INDEX, for messages */
    const char *address; /* of its data plane */
    bool voted;          /* a switch: it is a member of the running epoch and knows the version */
    bool apart;          /* a recovery: this member and the reader cannot reach each other */
};

struct hsp_pkg_row {
    uint32_t from, to;
    uint32_t param; /* number in the single-device graph */
    bool passed_on; /* transfer: @from got this very box by an earlier row; from != to */
    struct hsp_box box;
};
struct hsp_pkg_table {
    uint32_t n;
    struct hsp_pkg_row *row;
};

/* One parameter of the job: a source has no program, but names and shapes it must know too. */
struct hsp_pkg_param {
    const char *name; /* PyTorch module path */
    uint8_t rank;
    int64_t ext[HSP_MAX_RANK];
};

struct hsp_pkg_program { /* encoded */
    const uint8_t *tpl, *binding;
    size_t tpl_len, binding_len;
};

struct hsp_package {
    uint8_t dtype;    /* of all state, enum hsp_dtype */
    uint8_t n_kinds;  /* state kinds per parameter: param and ... */
    uint8_t kinds[4]; /* ... enum hsp_state_kind, ascending */
    uint32_t n_peers;
    struct hsp_pkg_peer *peers;
    uint32_t n_params;
    struct hsp_pkg_param *params;
    const uint8_t *tpl, *binding; /* encoded; empty for a source */
    size_t tpl_len, binding_len;
    uint32_t n_shorter; /* further programs of a pool */
    struct hsp_pkg_program *shorter;
    struct hsp_pkg_table transfer; /* at the start: from live holders to new homes, in the order of
                                      execution, once per kind */
    struct hsp_pkg_table copies; /* after every step: parts of my home to my buddy, and his to me */
    struct hsp_pkg_table replicas; /* rings over equal copies: from a rank that has a part to the
                                      next one that has it too */
    struct hsp_pkg_table
        gather;            /* each element once: from its owner, to = 0: final model, checkpoints */
    const char *init_from; /* safetensors for a fresh start, "" none */
    const char *config_json; /* the model's keys, for config.json */
    uint32_t ckpt_keep;
    uint64_t term; /* of the daemon that made this epoch; stands in manifests */
};

/* The rank besides rank 0 that writes whole checkpoints where the path is not shared, so that any
 * node may go: the first of the @n_ranks members that is on another node. 0: none is. */
uint32_t hsp_package_writer(const struct hsp_pkg_peer *peers, uint32_t n_ranks);

/* Encodes up to the binding. The caller appends the binding to @out without a copy, and then calls
 * close with the mark of open, @ret_mark; binding and binding_len of @p are not looked at.
 * HSP_ELIMIT: over a limit or the buffer's maximum; HSP_ENOMEM. */
enum hsp_status hsp_package_open(const struct hsp_package *p, struct hsp_buf *out, size_t *ret_mark,
                                 struct hsp_err *err);
enum hsp_status hsp_package_close(struct hsp_buf *out, size_t mark, struct hsp_err *err);
/* HSP_EPROTO names the part that is malformed: ranks beyond n_peers, boxes outside their parameter,
 * kinds not ascending, bytes left over. HSP_ENOMEM. *ret untouched. */
enum hsp_status hsp_package_decode(const uint8_t *data, size_t len, struct hsp_arena *arena,
                                   struct hsp_package *ret, struct hsp_err *err);

#endif
