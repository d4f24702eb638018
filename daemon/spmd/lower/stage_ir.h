/* Represents the code of one stage before it is cut into ranks: values and steps shared by its
 * members.
 *
 * Role:      lower_pipeline.c (forward, backward, eval), recompute.c, split_backward.c, offload.c,
 *            lower_prologue.c (Pre), zero3.c (zero 3) and lower_epilogue.c (Post) add steps;
 *            specialize.c reads them and makes one program per member.
 * Purity:    pure.
 * Ownership: vectors are on the heap (hsp_stagecode_fini), the rest in the arena.
 * Bounds:    HSP_MAX_TENSORS values and HSP_MAX_INSTRS steps per stage. */
#ifndef HSP_STAGE_IR_H
#define HSP_STAGE_IR_H
#include "daemon/graph/train_spec.h"
#include "daemon/plan/plan.h"
#include "daemon/spmd/reshard/resolve.h"
#include "daemon/spmd/sharding/deduce.h"
#include "daemon/spmd/sharding/home_slots.h"

/* Kinds of parts, in program order. A part is one of these of one chunk of the stage's units and
 * becomes a segment; Pre, Post and SERVE have chunk 0 only. Parts of chunk 0 are numbered as kinds.
 * WGRAD is empty unless the stage splits its backward, SERVE unless parameters are stored cut
 * (zero3_rendezvous.h). */
enum hsp_part {
    HSP_PART_PRE,
    HSP_PART_FORWARD,
    HSP_PART_BACKWARD,
    HSP_PART_WGRAD,
    HSP_PART_POST,
    HSP_PART_EVAL,
    HSP_PART_SERVE
};
#define HSP_N_PARTS 7

static inline uint32_t hsp_part_at(enum hsp_part kind, uint32_t chunk)
{
    return (uint32_t)kind + HSP_N_PARTS * chunk;
}

static inline enum hsp_part hsp_part_kind(uint32_t part)
{
    return (enum hsp_part)(part % HSP_N_PARTS);
}

static inline uint32_t hsp_part_chunk(uint32_t part)
{
    return part / HSP_N_PARTS;
}

/* Each cut of a layout has a number as its name (hsp_layout.cut); cuts of one name share their
 * symbols. A use of a parameter is cut under the name tp_family + 1. Boxes of homes and owned parts
 * have other names, given below, so that their extents become symbols of their own. */
#define HSP_CUT_HOME       0x80000000u
#define HSP_CUT_HOME_SHIFT 24 /* of the slot, below it parameter and dim */
#define HSP_CUT_OWNED      0xC0000000u

/* One tensor of the stage's programs. */
struct hsp_value {
    const char *name;
    uint8_t dtype, cls;   /* HSP_CLASS_MICRO until set_classes: MICRO or SCRATCH by its uses */
    uint8_t state_kind;   /* HSP_CLASS_STATE */
    bool batch_dim0;      /* dim 0 is the running micro-batch */
    bool batch_fixed;     /* dim 0 is the micro-batch, of a size that all have */
    uint32_t tensor;      /* graph tensor it is a version of, HSP_NONE */
    uint32_t next;        /* next version of the same graph tensor, or next slot, HSP_NONE */
    uint32_t slot;        /* STATE, its copies, gradients in Post: of the home (home_slots.h) */
    uint32_t param;       /* STATE, uses, accumulators, gradients: parameter; else HSP_NONE */
    uint32_t parts;       /* whose steps touch it: 0 none, 1 + the part, HSP_NONE several */
    struct hsp_layout at; /* per member */
    bool *present;        /* per member; NULL: on all */
    uint32_t alias;       /* a use: STATE value, or its copy, that serves members marked below */
    bool *is_alias;       /* per member; NULL: none */
};

struct hsp_step {
    uint8_t kind, op, queue, n_in, n_out;
    uint32_t in[HSP_MAX_IN], out[HSP_MAX_OUT]; /* values */
    uint32_t arg;                              /* load, stat; RESHARD: number of the reshard */
    uint32_t node;
    uint32_t only;  /* the one member that runs it; HSP_NONE: all */
    bool pass;      /* where a later operand is not present, result i is operand i */
    uint32_t meets; /* 1 + number of the rendezvous it belongs to (zero3_rendezvous.h), 0: none */
    bool inner;     /* one of several steps of a node; a later one stands for all of them */
    const struct hsp_step *stands_for; /* for lists: the node as one step; NULL: itself. Arena */
    struct hsp_attrs at;
    uint32_t origin_value[2]; /* the origin is the start of dim origin_dim of this value */
    uint8_t origin_dim[2];
};

struct hsp_code {
    struct hsp_step *step; /* owned */
    size_t n, cap;
};

struct hsp_stagecode {
    uint32_t pipeline, stage;
    uint32_t n_chunks;
    bool split; /* gradients of parameters have a part of their own, WGRAD */
    const struct hsp_stage *group;
    struct hsp_value *value; /* owned */
    size_t n_values, cap_values;
    uint32_t n_parts;      /* HSP_N_PARTS * n_chunks */
    struct hsp_code *part; /* [hsp_part_at(kind, chunk)] */
    uint32_t *version;     /* [graph tensor]: first version here, HSP_NONE */
    uint32_t *acc;         /* [param]: accumulator value, HSP_NONE */
    uint32_t *state;       /* [param * HSP_N_STATE_KINDS + kind]: STATE value, HSP_NONE */
    uint32_t *copy;   /* [param]: its STATE in the type of its use, HSP_NONE: that is one type */
    int64_t bound;    /* largest micro-batch */
    bool batch_fixed; /* the pipeline cuts micro-batches, so all have that size */
    uint32_t n_owned; /* names of owned parts given so far */
};

/* A Reshard of the plan with its moves; steps on several stages name it. */
struct hsp_reshard {
    const char *name;
    bool batch_dim0;
    struct hsp_moves moves;
    const char *method; /* its name; NULL unless the compiler explains */
};

/* A rendezvous: a point at which a stage gathers parameters, or adds up gradients, together with
 * ranks of other pipelines (zero3_rendezvous.h). */
struct hsp_rendezvous {
    uint32_t stage;  /* index in hsp_compiler.stage */
    uint32_t part;   /* of its code */
    uint32_t at, of; /* the at-th of so many in that part */
    bool gives;      /* the stage gives gradients away; else it gets parameters, or nothing */
};

/* For tests: the layouts that replace those of a node's operands. */
struct hsp_forced {
    uint8_t gather; /* tiers in which the cut @name is gathered (stage_layout.h) */
    uint32_t name;
    const struct hsp_layout *slice; /* complete ones that contain it are held so, or NULL */
};

/* Every layout and every Reshard of a plan. total_plan.c lists them, specialize.c cuts them into
 * ranks. */
struct hsp_compiler {
    const struct hsp_graph *g;
    const struct hsp_plan *p;
    const struct hsp_train_spec *t;
    struct hsp_arena *arena;            /* of the result */
    bool explain;                       /* Reshards are named */
    const struct hsp_rank_links *links; /* to price Reshards with, or NULL; they change nothing */
    bool eval;                          /* programs have an Eval segment */
    uint32_t *eval_seqs;                /* [pipeline]: of the validation list; 0 without Eval */
    const bool *units;                  /* hsp_param_units */
    const bool *values_first; /* [node] of the pipeline at hand: its sums are completed before it */
    const bool *forced_first; /* for tests: the same, for all pipelines, in place of the cheapest */
    const struct hsp_forced *forced; /* for tests: [node]; NULL: nothing is forced */
    uint32_t *grad_of;      /* [graph tensor]: parameter whose gradient it adds to, HSP_NONE */
    struct hsp_cover *home; /* [param], owned */
    struct hsp_home_slots *slots; /* [param] */
    uint32_t n_homes;             /* of them initialised */
    struct hsp_stagecode *stage;  /* all stages of all pipelines, in order */
    uint32_t n_stages;
    uint32_t *first_stage;       /* [pipeline]: index of its first stage */
    struct hsp_reshard *reshard; /* owned */
    size_t n_reshards, cap_reshards;
    bool *grad_at_home;                   /* [param]: accumulators are cut as the home is */
    struct hsp_rendezvous *rendezvous_at; /* owned */
    size_t n_rendezvous, cap_rendezvous;
    uint32_t channel;                              /* next free one */
    int64_t *load;                                 /* [rank]: elements sent so far */
    struct hsp_traced_templates *traced_templates; /* of this compile (template_builder.h) */
    const struct hsp_templates *kept;              /* of earlier ones, or NULL */
};

/* pipeline, stage and n_chunks of @s are set. */
enum hsp_status hsp_stagecode_init(struct hsp_compiler *c, struct hsp_stagecode *s,
                                   struct hsp_err *err);
void hsp_stagecode_fini(struct hsp_stagecode *s);
/* Returns the @i-th part in program order, @i < n_parts. */
uint32_t hsp_part_nth(const struct hsp_stagecode *s, uint32_t i);
/* Returns the kind of segment that a part becomes. */
uint8_t hsp_part_segment(const struct hsp_stagecode *s, uint32_t part);

/* Adds a value and returns its number; @v is copied. */
enum hsp_status hsp_value_add(struct hsp_stagecode *s, const struct hsp_value *v, uint32_t *ret,
                              struct hsp_err *err);
/* Adds a value that is a version of graph tensor @tensor with layout @at, at the end of the list of
 * its versions. */
enum hsp_status hsp_value_version(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t tensor,
                                  const char *suffix, const struct hsp_layout *at, uint32_t *ret,
                                  struct hsp_err *err);
/* Inserts @step at index @at of the part (SIZE_MAX: at the end) and marks the values it touches. */
enum hsp_status hsp_step_add(struct hsp_stagecode *s, uint32_t part, size_t at,
                             const struct hsp_step *step, struct hsp_err *err);
/* Recomputes for each value the parts whose steps touch it. */
void hsp_parts_mark(struct hsp_stagecode *s);
/* Returns an empty step of @kind. */
struct hsp_step hsp_step_make(uint8_t kind, uint8_t queue);
/* Fills in the first two operand dims whose global coordinate the kernel reads, inputs before
 * results. Fails as hsp_op_axes. */
enum hsp_status hsp_step_origins(const struct hsp_stagecode *s, struct hsp_step *st,
                                 struct hsp_err *err);
/* Returns the part with the step that writes @value; there must be one. */
uint32_t hsp_part_making(const struct hsp_stagecode *s, uint32_t value);
/* Returns the index after the step of @part that writes @value; SIZE_MAX if no step does. */
size_t hsp_step_after(const struct hsp_stagecode *s, uint32_t part, uint32_t value);

/* Adds the boxes that members hold of @v to @ret: addends named by rank. @skip_alias: members whose
 * use is their STATE tensor are left out. */
enum hsp_status hsp_value_cover(const struct hsp_stagecode *s, const struct hsp_value *v,
                                bool skip_alias, struct hsp_cover *ret, struct hsp_err *err);
/* Resolves and stores a Reshard. Covers are normalised here. */
enum hsp_status hsp_reshard_add(struct hsp_compiler *c, const char *name, bool batch_dim0,
                                bool owner_bytes, struct hsp_cover *src, struct hsp_cover *dst,
                                uint32_t *ret, struct hsp_err *err);
/* Stores a Reshard from value @from of @s to its value @to. @apart: each group by itself, so that
 * sums between groups stay, or each member by itself, which moves nothing. */
enum hsp_apart { HSP_APART_NOT, HSP_APART_GROUPS, HSP_APART_MEMBERS };
enum hsp_status hsp_reshard_values(struct hsp_compiler *c, const struct hsp_stagecode *s,
                                   uint32_t from, uint32_t to, enum hsp_apart apart, uint32_t *ret,
                                   struct hsp_err *err);
/* Copies a Reshard: the same moves under new channels. */
enum hsp_status hsp_reshard_clone(struct hsp_compiler *c, uint32_t reshard, uint32_t *ret,
                                  struct hsp_err *err);

/* Consecutive steps of one layer (block, embedding, head) in a part (layer_runs.h). */
struct hsp_unit_run {
    size_t first, behind_op; /* its first op, or step 0; the step behind its first op */
};

#endif
