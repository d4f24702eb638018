/* Defines the program that one device runs, in three parts (decision D7).
 *
 *   template   tensors and instructions; every extent a symbol, every peer a logical rank's slot;
 *              content-addressed, free of shares, members and lengths;
 *   binding    (device, plan): values of symbols, slots and offsets of tensors, moves of Reshards
 *              with their boxes, the schedule of each queue, where the loss and the norm are
 *              counted;
 *   step sheet the samples of each micro-batch of one step: sheet.h, computed by the executor.
 *
 * Role:      made by daemon/spmd, carried by proto/wire as a blob, run by worker/exec.
 * Purity:    pure.
 * Ownership: everything hangs in the arena given to the decoder or the compiler.
 * Bounds:    the HSP_MAX_ constants below; a decoded program is fully checked (hsp_program_check).
 */
#ifndef HSP_PROGRAM_H
#define HSP_PROGRAM_H
#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/hash.h"
#include "proto/layout/cover.h"
#include "proto/op/op.h"

#define HSP_MAX_TENSORS            65536
#define HSP_MAX_INSTRS             262144
#define HSP_MAX_SEGMENTS           256
#define HSP_MAX_SCHED              1048576
#define HSP_MAX_SYMBOLS            262144
#define HSP_MAX_PROGRAM_RANKS      4096
#define HSP_MAX_SLOTS              65536   /* instances of one tensor */
#define HSP_MAX_CELLS              1048576 /* of one move */
#define HSP_MAX_NAME               256     /* bytes of a tensor's or symbol's name */
#define HSP_MAX_EXTENT             (INT64_C(1) << 40)
#define HSP_MAX_POOL               16         /* plans of a pool */
#define HSP_MAX_LONGEST            (1u << 20) /* tokens of a document that is a sample */
#define HSP_MAX_TEMPLATE_BYTES     ((size_t)256 << 20)
#define HSP_MAX_BINDING_BYTES      ((size_t)256 << 20)
#define HSP_MAX_PROGRAM_FILE_BYTES ((size_t)2048 << 20)

/* ---- template ---- */

/* Symbol 0 is the number of sequences in the running micro-batch; the others are bound. */
#define HSP_SYM_BATCH 0
struct hsp_symbol {
    const char *name; /* "batch", "h.0.attn.q.weight/0", ... */
};

enum hsp_tensor_class {
    HSP_CLASS_STATE,   /* outlives the step, whose update writes over it */
    HSP_CLASS_STEP,    /* lives from Pre to Post: accumulators, gathered parameters */
    HSP_CLASS_MICRO,   /* one instance per micro-batch in flight */
    HSP_CLASS_SCRATCH, /* within one segment */
    HSP_CLASS_HOST     /* as MICRO, in the host's memory: only HSP_I_COPY touches it */
};

enum hsp_state_kind { HSP_STATE_PARAM, HSP_STATE_M, HSP_STATE_V, HSP_STATE_MOMENTUM };
#define HSP_N_STATE_KINDS 4

struct hsp_ptensor {
    const char *name; /* tensor of the single-device graph; program-made ones have a '#' suffix */
    uint8_t dtype, cls, rank;
    uint8_t state_kind;         /* HSP_CLASS_STATE */
    uint32_t sym[HSP_MAX_RANK]; /* extent of each dim */
};

enum hsp_instr_kind {
    HSP_I_OP,      /* an op of the catalogue */
    HSP_I_LOAD,    /* out[0] <- ids | labels | positions | random keys | document starts of the
                      micro-batch (arg = enum hsp_load) */
    HSP_I_ZERO,    /* out[0] <- 0 */
    HSP_I_ONE,     /* out[0] <- 1 (the seed of backward) */
    HSP_I_ACC,     /* out[0] += in[0] */
    HSP_I_RESHARD, /* out[0] <- in[0] moved as the binding's reshard[arg] says; several inputs = a
                      sum */
    HSP_I_STAT,    /* scalar in[0] is added to the step's statistic arg (enum hsp_stat) */
    HSP_I_VOTE,    /* all-gather of vote records; passing it makes the update's scalars known */
    HSP_I_SEAL,    /* the new version of every state tensor is whole: hash and seal */
    HSP_I_COPY     /* out[0] <- in[0]; one of them is of class HOST, their boxes are equal */
};
enum hsp_load { HSP_LOAD_IDS, HSP_LOAD_LABELS, HSP_LOAD_POSITIONS, HSP_LOAD_KEYS, HSP_LOAD_STARTS };
enum hsp_stat {
    HSP_STAT_LOSS,
    HSP_STAT_TOKENS,
    HSP_STAT_SQNORM,
    HSP_STAT_EVAL_LOSS,
    HSP_STAT_EVAL_TOKENS
};
#define HSP_N_STATS 5

enum hsp_queue { HSP_QUEUE_COMPUTE, HSP_QUEUE_COMM };
#define HSP_N_QUEUES 2

/* An UPDATE op (adamw, sgdm) writes its state outputs, version t + 1, over its state inputs,
 * version t: both name the same tensors. */
struct hsp_instr {
    uint8_t kind, op, queue;
    uint8_t n_in, n_out;
    uint32_t in[HSP_MAX_IN], out[HSP_MAX_OUT]; /* tensors */
    uint32_t arg;                              /* see the kinds */
    uint32_t node;          /* node of the single-device graph, for messages; UINT32_MAX none */
    struct hsp_attrs at;    /* i[0], always an extent, is 0: unit_sym stands for it */
    uint32_t unit_sym;      /* bound symbol; 0: the op has no i[0] */
    uint32_t origin_sym[2]; /* bound symbols: first global coordinate of the op's first and second
                               origin dim; UINT32_MAX: 0 */
};

enum hsp_segment_kind {
    HSP_SEG_PRE,
    HSP_SEG_FORWARD,
    HSP_SEG_BACKWARD,
    HSP_SEG_INPUT_GRAD,
    HSP_SEG_WEIGHT_GRAD,
    HSP_SEG_POST,
    HSP_SEG_EVAL,
    HSP_SEG_SERVE /* state given to, and gradients taken from, other pipelines: pieces stand between
                     those of the other segments */
};

/* A piece is a maximal run of instructions of one queue; compute and comm pieces alternate. */
struct hsp_piece {
    uint32_t first, n; /* instructions */
    uint8_t queue;
};
struct hsp_segment {
    uint8_t kind;
    uint32_t chunk;
    uint32_t first_piece, n_pieces;
};

struct hsp_template {
    uint32_t n_symbols, n_tensors, n_instrs, n_pieces, n_segments, n_reshards;
    struct hsp_symbol *symbols;
    struct hsp_ptensor *tensors;
    struct hsp_instr *instrs;
    struct hsp_piece *pieces;
    struct hsp_segment *segments;
    struct hsp_digest digest; /* of the encoded form */
};

/* The attributes of @i under a binding's symbols. */
static inline struct hsp_attrs hsp_instr_attrs(const struct hsp_instr *i, const int64_t *symbol)
{
    struct hsp_attrs at = i->at;
    if (i->unit_sym != 0) {
        at.i[0] = symbol[i->unit_sym];
    }
    return at;
}

/* ---- binding ---- */

/* A box in global coordinates. In a dim whose extent is the micro-batch, hi = HSP_TO_END stands for
 * the running micro-batch's size. */
#define HSP_TO_END INT64_MAX

/* One step of a Reshard. Cells name regions by global boxes; a device finds them in its own tensor
 * by subtracting the box it holds. root: index into ranks (P2P: of the sender; peer: of the
 * receiver). */
enum hsp_move_kind {
    HSP_MOVE_COPY,           /* local: source tensor in[src] -> out */
    HSP_MOVE_P2P,            /* batched send-receive: cell from ranks[root] to ranks[peer] */
    HSP_MOVE_ALL_REDUCE,     /* every rank of the group adds; all get the sum (or maximum) */
    HSP_MOVE_REDUCE_SCATTER, /* ... ranks[root] gets the sum of the cell */
    HSP_MOVE_ALL_GATHER,     /* ranks[root] holds the cell; all get it */
    HSP_MOVE_REDUCE_SEND     /* every rank but ranks[peer] adds; ranks[root] makes the sum and hands
                                it to ranks[peer]; one root and one peer in all cells */
};
struct hsp_cell {
    struct hsp_box box;
    uint32_t root, peer;
};
struct hsp_move {
    uint8_t kind;
    uint8_t reduce; /* enum hsp_reduce: the reduction of addends */
    /* An input of the instruction. HSP_MOVE_FROM_OUT: the output itself; HSP_MOVE_SUM: the sum (or
     * maximum) of all inputs, each where it holds the cell. */
    uint8_t src;
    uint32_t n_ranks; /* group in ascending order; addends are taken in this order */
    uint32_t *ranks;
    uint32_t channel; /* unique in the plan and equal on all ranks of the move */
    uint32_t n_cells;
    struct hsp_cell
        *cells; /* only those this device takes part in (collectives: all of the group) */
};
#define HSP_MOVE_FROM_OUT 255
#define HSP_MOVE_SUM      254

/* Whether such a move may be one of a bucket. */
static inline bool hsp_move_joins(const struct hsp_move *m)
{
    return m->kind == HSP_MOVE_ALL_REDUCE || m->kind == HSP_MOVE_REDUCE_SCATTER ||
           m->kind == HSP_MOVE_ALL_GATHER;
}

/* A Reshard with no move on this device does nothing. The output is written where moves write;
 * zero_first says that cells no move writes must read 0.
 *
 * Reshards of one bucket stand one behind the other in one piece, each is one collective of the
 * same kind over the same ranks, and they travel as one on the channel of the first. Buckets are
 * numbered from 1 in the order of instructions. */
struct hsp_reshard_bind {
    uint32_t n_moves;
    struct hsp_move *moves;
    bool zero_first;
    uint32_t bucket; /* 0: none */
};

struct hsp_tensor_bind {
    int64_t offset; /* bytes in the epoch's memory; STATE: in the state area of a slot; HOST: in the
                           epoch's part of the host's memory */
    uint32_t n_slots;   /* MICRO, HOST: instances; instance of micro-batch i is i mod n_slots */
    int64_t slot_bytes; /* bytes of one instance at the symbols' upper bounds, 64-aligned */
    struct hsp_box box; /* the part that this device holds (batch dims: 0..bound) */
    bool batch_dim0;    /* dim 0 is the running micro-batch */
};

/* One entry of a queue: a piece for a micro-batch, after the listed entries of the other queue; or
 * a part of a piece. The parts of a piece of the compute queue follow each other and are all of it;
 * those of a piece of Reshards, and of a vote, may stand in any order. */
struct hsp_sched_entry {
    uint32_t piece;
    uint32_t micro;    /* 0 for Pre and Post */
    uint32_t wait;     /* entries of the other queue that must be complete: a count; 0 = none */
    uint32_t first, n; /* a part: @n instructions from the @first-th of the piece on; n 0: all */
};
struct hsp_sched {
    uint32_t n[HSP_N_QUEUES];
    struct hsp_sched_entry *e[HSP_N_QUEUES];
};

/* Where this device's pipeline sits in the global batch. */
struct hsp_pipeline_bind {
    uint32_t first_seq, n_seq;       /* its part of the global batch's list of samples */
    uint32_t n_micro;                /* sizes as even as possible, larger ones first */
    uint32_t eval_first, eval_n_seq; /* its part of the validation list */
    uint32_t eval_n_micro;
    uint32_t n_stages; /* of the pipeline */
};

enum hsp_data_format {                /* of the files: worker/data/formats.h */
                       HSP_DATA_TEXT, /* tokens are bytes */
                       HSP_DATA_LLMC,
                       HSP_DATA_NANOGPT,
                       HSP_DATA_MEGATRON
};

/* How the documents of a sequence are kept apart: attention within one, positions from its start,
 * no label for its last token. */
enum hsp_packing {
    HSP_PACKING_NONE,  /* not at all: one stream of tokens */
    HSP_PACKING_START, /* the separator is the first token of a document */
    HSP_PACKING_END,   /* ... the last */
    HSP_PACKING_INDEX  /* the files say where documents begin */
};

/* The form of a sample of the global batch. */
enum hsp_samples {
    HSP_SAMPLES_WINDOWS,  /* a window of the stream of tokens: one sequence */
    HSP_SAMPLES_DOCUMENTS /* a document, cut at `longest`: a part of a sequence (pack.c) */
};

struct hsp_data_bind { /* the inputs of a step sheet; equal on all devices */
    uint64_t seed;
    uint32_t global_batch, eval_seqs; /* samples */
    uint32_t sequence;                /* tokens of the sequences this program computes */
    uint32_t longest; /* documents: tokens of a sample, at most; sequence is no more than that */
    uint8_t samples;  /* enum hsp_samples */
    uint32_t validation_every; /* 0: never */
    double validation_fraction;
    bool next_token_only; /* mlp: one label, the token after the sequence */
    uint32_t vocab;
    uint8_t format;     /* enum hsp_data_format */
    uint8_t packing;    /* enum hsp_packing */
    uint32_t separator; /* a token; 0 with the other packings */
};

struct hsp_train_bind { /* equal on all devices */
    uint32_t steps;
    double lr, min_lr, clip_norm; /* clip_norm 0: off */
    uint32_t warmup_steps;
    uint8_t schedule;    /* enum hsp_lr_schedule */
    uint8_t optimizer;   /* enum hsp_optimizer */
    double beta1, beta2; /* bias corrections are computed by the executor from these */
    bool tf32;           /* products of fp32 may take the upper 19 bits of their factors */
};
enum hsp_lr_schedule { HSP_LR_CONSTANT, HSP_LR_COSINE };
enum hsp_optimizer { HSP_OPT_ADAMW, HSP_OPT_SGD };

/* Initial value of a state tensor at version 0 (param only; m, v, momentum start at 0). */
enum hsp_init_kind { HSP_INIT_ZERO, HSP_INIT_ONE, HSP_INIT_NORMAL };
struct hsp_state_bind {
    uint32_t tensor;    /* template tensor of class STATE */
    uint32_t tensor_id; /* number of the parameter in the single-device graph */
    uint8_t init;
    double init_std;
    struct hsp_box full; /* extents of the whole tensor (PyTorch shape) */
};

struct hsp_binding {
    uint32_t rank, n_ranks;
    struct hsp_digest template_digest;
    int64_t *symbol; /* upper bound of the batch, values of the others */
    struct hsp_tensor_bind *tensor;
    uint32_t n_reshards;
    struct hsp_reshard_bind *reshard;
    bool buckets; /* the buckets of Reshards count, and are encoded; false: each travels alone */
    struct hsp_sched train, eval; /* eval runs before train in a step with validation */
    /* In place of train where buckets count: sums of gradients begin while the last backward goes
     * on (early_sums.h). Empty: train is as good. Only here entries may be parts. */
    struct hsp_sched early;
    struct hsp_pipeline_bind pipeline;
    struct hsp_data_bind data;
    struct hsp_train_bind hyper;
    uint32_t n_state;
    struct hsp_state_bind *state;
    int64_t memory_bytes; /* of the epoch: STEP + MICRO + SCRATCH */
    int64_t host_bytes;   /* of the epoch: HOST */
    int64_t state_bytes;  /* of one version */
    int64_t comm_bytes;   /* bound of pack buffers and of messages that are kept */
    struct hsp_digest plan_digest;
};

struct hsp_program {
    struct hsp_template tpl;
    struct hsp_binding bind;
};

/* The schedule of a step that trains. */
static inline const struct hsp_sched *hsp_binding_train(const struct hsp_binding *b)
{
    return b->buckets && b->early.n[HSP_QUEUE_COMPUTE] > 0 ? &b->early : &b->train;
}

/* The instructions of an entry: from @ret_first on, below the result. */
static inline uint32_t hsp_entry_end(const struct hsp_template *t, const struct hsp_sched_entry *e,
                                     uint32_t *ret_first)
{
    const struct hsp_piece *p = &t->pieces[e->piece];
    *ret_first = p->first + e->first;
    return e->n > 0 ? *ret_first + e->n : p->first + p->n;
}

/* A program file: all programs of one plan (`hspmdctl compile`), templates shared. With --verify
 * bindings are small and the unsharded program is stored beside them. Layout in
 * proto/program/README.md. */
struct hsp_program_file {
    uint32_t n;                   /* devices */
    struct hsp_program *programs; /* by rank; of a pool, those of the longest sequences */
    uint32_t n_shorter;           /* further plans of a pool (pool.h) */
    struct hsp_program *shorter;  /* [n_shorter * n], of one plan after the other */
    uint32_t n_ref;               /* 0, or 1: the unsharded program */
    struct hsp_program *ref;
    const char *data_path;   /* data the programs read; "" when synthetic */
    const char *out_dir;     /* where --run leaves final/, "" for nowhere */
    const char *init_from;   /* safetensors, "" none */
    const char *config_json; /* the model's keys, for config.json */
};

#endif
