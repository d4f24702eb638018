/* Makes the values of a stage for the stored shards of a parameter, for Pre (before the passes) and
 * for Post (after them). A rank may store several boxes of a parameter; home_slots.h gives each box
 * of a rank a slot.
 *
 * The state tensors and the gradients of a parameter are lists, linked by hsp_value.next: one value
 * for each slot in which some member of the stage has a box.
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

/* Returns the value in which the stage uses @param; HSP_NONE if the stage does not use it. */
uint32_t hsp_param_use_value(const struct hsp_compiler *c, const struct hsp_stagecode *s,
                             uint32_t param);
/* Adds the boxes of @value that members hold apart from their state; nothing for HSP_NONE. */
enum hsp_status hsp_param_cover(const struct hsp_stagecode *s, uint32_t value,
                                struct hsp_cover *ret, struct hsp_err *err);
/* Adds a RESHARD step at the end of @part, if the stage has one of the two values. */
enum hsp_status hsp_param_steps(struct hsp_stagecode *s, uint32_t part, uint32_t reshard,
                                uint32_t in, uint32_t out, struct hsp_err *err);
/* Adds the same step as a part of rendezvous @meets (struct hsp_step). */
enum hsp_status hsp_param_meet(struct hsp_stagecode *s, uint32_t part, uint32_t meets,
                               uint32_t reshard, uint32_t in, uint32_t out, struct hsp_err *err);

#endif
