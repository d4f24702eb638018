/* Builds program templates from the steps that a member runs of its stage's code.
 *
 * A traced template is a template together with its origin: for each tensor and symbol the value
 * from which a binding takes its numbers. Its key is a hash of everything that the template builder
 * reads: the steps that the member runs, names and classes of their values, names of cuts, global
 * extents, begin and end of each rendezvous. Ranks, shares, lengths of parts, moves and channels
 * are not read, so a switch that changes only these needs no new templates, and members of a stage
 * share one.
 *
 * Purity:    pure.
 * Ownership: traced templates of a compile live in its arena. */
#ifndef HSP_TEMPLATE_BUILDER_H
#define HSP_TEMPLATE_BUILDER_H
#include "daemon/spmd/codegen/template_cache.h"
#include "daemon/spmd/lower/stage_ir.h"

struct hsp_step_at { /* a step of the stage's code */
    uint32_t part, step;
};

/* The steps that a member runs of its stage's code. */
struct hsp_member_code {
    const struct hsp_stagecode *s;
    uint32_t member;
    uint32_t *value;          /* [n_values] of the stage, in the order of their first use; owned */
    uint32_t *number;         /* [s->n_values]: its place in @value, HSP_NONE; owned */
    struct hsp_step_at *step; /* [n_steps] in program order; owned */
    uint32_t *reshard;        /* [n_reshards] of the compiler, in program order; owned */
    uint32_t *meets;          /* [n_instrs]: hsp_step.meets of each instruction; owned */
    uint32_t n_values, n_steps, n_reshards, n_instrs;
    size_t cap_steps, cap_reshards, cap_instrs;
    struct hsp_digest key;
};

enum hsp_symbol_what { HSP_SYMBOL_BATCH, HSP_SYMBOL_LENGTH, HSP_SYMBOL_ORIGIN, HSP_SYMBOL_UNIT };

/* The origin of a symbol's value. */
struct hsp_symbol_from {
    uint32_t value; /* LENGTH, ORIGIN: of dim @dim of this box; place in hsp_member_code.value */
    uint8_t what, dim;
    int64_t unit; /* UNIT: itself */
};

struct hsp_traced_template {
    struct hsp_digest key;
    struct hsp_template tpl;           /* its Reshards are those of the member's code, in order */
    uint32_t *value_of;                /* [tpl.n_tensors]: place in hsp_member_code.value */
    struct hsp_symbol_from *symbol_of; /* [tpl.n_symbols] */
};

/* The traced templates of one compile; zero-initialise. */
struct hsp_traced_templates {
    /* [n], owned: free(); their targets are in the compile's arena */
    struct hsp_traced_template *of;
    size_t n, cap;
    struct hsp_template_count count;
};

/* Reads the steps that member @member runs of @s, whose code is complete. HSP_ENOMEM. */
enum hsp_status hsp_member_code_read(const struct hsp_compiler *c, const struct hsp_stagecode *s,
                                     uint32_t member, struct hsp_member_code *ret,
                                     struct hsp_err *err);
void hsp_member_code_fini(struct hsp_member_code *code); /* also of a zeroed one */

/* Builds the traced template of @code in the compiler's arena, without looking for a kept one.
 * HSP_ELIMIT, HSP_ENOMEM. */
enum hsp_status hsp_traced_template_make(const struct hsp_compiler *c,
                                         const struct hsp_member_code *code,
                                         struct hsp_traced_template *ret, struct hsp_err *err);

#endif
