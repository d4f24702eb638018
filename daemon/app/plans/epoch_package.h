/* Holds a compiled plan with the placement of its state (the shard that each rank stores and the
 * second copies of it), and makes from it the package of each device of an epoch.
 *
 * Role:      made on a pool thread after planning; read when PREPAREs are sent. Deterministic
 * (D13): the plan's text and the devices give the same result after a restart of the daemon.
 * Purity:    pure.
 * Threads:   immutable once built.
 * Ownership: an hsp_epoch_plan owns its arena with everything in it; the graph is borrowed and must
 *            outlive it.
 */
#ifndef HSP_EPOCH_PACKAGE_H
#define HSP_EPOCH_PACKAGE_H
#include "daemon/cluster/cluster.h"
#include "daemon/migrate/bsr.h"
#include "daemon/migrate/state_placement.h"
#include "daemon/spmd/codegen/compile.h"
#include "proto/wire/msg_blob.h"

struct hsp_epoch_plan {
    struct hsp_arena *arena;       /* owned */
    const struct hsp_graph *graph; /* borrowed */
    struct hsp_plan *plan;         /* total (total_plan.h): the running plan, nothing left open */
    struct hsp_program_file programs;
    struct hsp_cover *homes;         /* [graph->n_params] */
    struct hsp_state_table copies;   /* from owner to buddy, or to a replica holder */
    struct hsp_state_table replicas; /* rings over equal copies */
    uint32_t n_spare;                /* replica holders: ranks from plan->n_ranks on, of any node */
    uint8_t n_kinds, kinds[HSP_N_STATE_KINDS];
    struct hsp_plan_info info; /* for the core: devices, memory, shards */
    uint64_t *wide_bytes;      /* [plan->n_ranks] more on devices that compute on bf16 in fp32 */
    uint64_t *folder_bytes; /* [plan->n_ranks] sealed versions, its own and copies: more on hosts */
    hsp_device_id *device;  /* [plan->n_ranks] */
};

/* Compiles @plan (copied and completed) for the devices @device[rank].
 * @kept: templates of earlier plans of the job (compile.h), or NULL.
 * @copies_wanted: nodes that shall hold each piece of state; 1: no second copies. At most
 * HSP_MAX_REPLICA_HOLDERS more than the members have.
 * HSP_EINVAL: the plan does not fit the model; HSP_ENOMEM. */
enum hsp_status hsp_epoch_plan_build(const struct hsp_graph *g, const struct hsp_train_spec *train,
                                     struct hsp_templates *kept, const struct hsp_plan *plan,
                                     const hsp_device_id *device, uint32_t copies_wanted,
                                     size_t mem_cap, struct hsp_epoch_plan **ret,
                                     struct hsp_err *err);
struct hsp_epoch_plan *hsp_epoch_plan_free(
    struct hsp_epoch_plan *p); /* NULL allowed; returns NULL */

/* The fields that all packages of one epoch share. */
struct hsp_package_job {
    const char *init_from, *config_json;
    uint32_t ckpt_keep;
    uint64_t term;
};

/* Lists for each peer the rows of a table in which it takes part: row[first[peer]] to
 * row[first[peer + 1]]. */
struct hsp_row_lists {
    const struct hsp_state_table *all; /* borrowed */
    const uint32_t *first, *row;
};

struct hsp_encoded {
    const uint8_t *data;
    size_t len;
};

/* The common part of the packages of one epoch; must not be moved, for it points into itself. */
struct hsp_epoch_tables {
    struct hsp_state_table transfer, gather;
    struct hsp_row_lists transfer_of, gather_of, copies_of, replicas_of;
    bool *voted;             /* [peers] members of the layout the state comes from */
    struct hsp_encoded *tpl; /* [ranks] template of the rank's program; behind them those of each
                                further plan of a pool */
};

/* The devices of the peers as the planner sees them: the devices that share a host or a network
 * card, and the speed of the card. */
struct hsp_epoch_net {
    struct hsp_cluster_desc cluster;
    const hsp_device_id *device; /* [cluster.n] */
};

/* Makes the tables of the transfer, with a source for every box of the new homes among the live
 * pieces of @from, and of the owners of state. @from is NULL for a fresh or restored job: there is
 * nothing to transfer. @net may be NULL: each node is a host with one network card. HSP_ENOENT:
 * some box has no holder. */
enum hsp_status hsp_epoch_tables_make(const struct hsp_epoch_plan *p,
                                      const struct hsp_epoch_plan *from,
                                      const struct hsp_epoch_net *net,
                                      const struct hsp_prepare_action *a, struct hsp_arena *arena,
                                      struct hsp_epoch_tables *ret, struct hsp_err *err);

/* Writes the blob of one peer's PREPARE. @names[peer] is NODE/INDEX. */
enum hsp_status hsp_epoch_package(const struct hsp_epoch_plan *p, const struct hsp_epoch_tables *t,
                                  const struct hsp_package_job *job,
                                  const struct hsp_prepare_action *a, const char *const *names,
                                  uint32_t peer, struct hsp_arena *arena, struct hsp_buf *out,
                                  struct hsp_err *err);

#endif
