/* Represents the slots of a parameter's home (home_slots.h) as values of a stage, for Pre and Post
 * alike.
 *
 * State tensors and gradients of one stage are lists: a value for each slot of which a member has a
 * box, linked by hsp_value.next.
 *
 * Role:      used by lower_prologue.c (Pre), lower_epilogue.c (Post) and zero3.c.
 * Purity:    pure.
 * Ownership: as in stage_ir.h; the caller finishes covers. */
#ifndef HSP_PARAM_SLOTS_H
#define HSP_PARAM_SLOTS_H
#include "daemon/spmd/lower/stage_ir.h"

/* Sets HSP_ENOMEM for code of @param. */
enum hsp_status hsp_param_no_memory(const struct hsp_compiler *c, uint32_t param,
                                    struct hsp_err *err);

/* "w#m", "w#1#m": names of the tensors of one slot of a home. The first slot has no number. NULL:
 * no memory. */
const char *hsp_slot_name(const struct hsp_compiler *c, uint32_t param, uint32_t slot,
                          const char *suffix);
/* Puts @value at the end of the list that begins at *first. */
void hsp_slot_link(struct hsp_stagecode *s, uint32_t *first, uint32_t value);
/* The value of @slot in a list; HSP_NONE: no member has one. */
uint32_t hsp_slot_find(const struct hsp_stagecode *s, uint32_t first, uint32_t slot);
/* The state of @kind in @slot; HSP_NONE: no member has one. */
uint32_t hsp_slot_state(const struct hsp_stagecode *s, uint32_t param, uint32_t kind,
                        uint32_t slot);
/* The source of the uses of @param in @slot: the parameter, or its copy in the type of its use. */
uint32_t hsp_slot_source(const struct hsp_stagecode *s, uint32_t param, uint32_t slot);
/* The boxes of the home of @param in @slot.
 * @ret is initialised here, to be finished in any case. */
enum hsp_status hsp_slot_cover(const struct hsp_compiler *c, uint32_t param, uint32_t slot,
                               struct hsp_cover *ret, struct hsp_err *err);

/* The value in which the stage uses @param; HSP_NONE: it does not. */
uint32_t hsp_param_use_value(const struct hsp_compiler *c, const struct hsp_stagecode *s,
                             uint32_t param);
/* Adds the boxes of @value that members hold apart from their state; nothing for HSP_NONE. */
enum hsp_status hsp_param_cover(const struct hsp_stagecode *s, uint32_t value,
                                struct hsp_cover *ret, struct hsp_err *err);
/* A RESHARD step at the end of @part, if the stage has one of the two values. */
enum hsp_status hsp_param_steps(struct hsp_stagecode *s, uint32_t part, uint32_t reshard,
                                uint32_t in, uint32_t out, struct hsp_err *err);
/* The same, as part of meeting @meets (struct hsp_step). */
enum hsp_status hsp_param_meet(struct hsp_stagecode *s, uint32_t part, uint32_t meets,
                               uint32_t reshard, uint32_t in, uint32_t out, struct hsp_err *err);

#endif
