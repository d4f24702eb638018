/* Describes a batch of actions that waits for the disk: shared by the files of this room alone.
 *
 * Threads: while a batch is being written, the pool thread has its rows, its groups and the
 *          packages of queued actions from n_made on; the loop has the rest. */
#ifndef HSP_ACTIONS_IMPL_H
#define HSP_ACTIONS_IMPL_H
#include "daemon/app/plans/epoch_package.h"
#include "daemon/app/plans/job_record.h"
#include "daemon/app/store/store.h"
#include "daemon/cluster/cluster.h"

/* The PREPAREs of one epoch share their tables. */
struct prepare_group {
    struct prepare_group *next;
    const struct hsp_prepare_action *source; /* the core's: identity only */
    struct hsp_prepare_action action;        /* copy in the batch's arena */
    const char **names;
    struct hsp_plan_rec *plan, *from; /* counted; from NULL: fresh or restored */
    struct hsp_epoch_net net;         /* of the peers; with from */
    size_t mem_cap;
    uint64_t term;
    /* made on the pool thread */
    struct hsp_arena *arena;
    const struct hsp_epoch_plan *built;
    struct hsp_epoch_tables tables;
    size_t blob_len; /* of the package that was made last */
    enum hsp_status status;
    struct hsp_err err;
};

/* The nodes of one epoch get the same papers. */
struct papers_made {
    struct papers_made *next;
    const struct hsp_papers *source; /* the core's: identity only */
    const uint8_t *data;             /* NULL: they are too large */
    uint32_t len;
};

struct queued_action { /* an action that waits */
    struct hsp_action act;
    struct hsp_msg msg;
    struct prepare_group *group; /* PREPARE */
    struct hsp_buf blob;
    enum hsp_status status; /* of making the blob */
    struct hsp_err err;
};

struct hsp_batch {
    struct hsp_batch *next;
    struct hsp_arena *arena;
    size_t n_queued_actions, n_rows, next_queued_action;
    size_t n_ready; /* queued actions that may be performed when those before are */
    size_t n_made;  /* the same, of the pool thread */
    bool tabled;    /* the tables of its groups are made */
    struct queued_action *queued_actions;
    struct hsp_store_row *rows;
    struct hsp_buf *row_texts; /* our own rows; [n_texts] */
    size_t n_texts;
    struct prepare_group *groups;
    struct papers_made *papers;
    size_t n_gone;
    uint32_t *gone; /* jobs whose metrics go: forgotten ones */
    bool on_disk;
};

#endif
