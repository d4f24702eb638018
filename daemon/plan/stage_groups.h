/* Divides the members of a stage into tensor-parallel groups, and reads and writes these members in
 * the text of a plan.
 *
 * Example: groups {ranks: [3, 4], tensor: [2, 1]} and {ranks: [5]} with shares [3, 1]: member 0
 * (rank 3) does 3/4 * 2/3 = 1/2 of the work of the stage.
 *
 * Purity:    pure.
 * Ownership: results live in the arena given. */
#ifndef HSP_STAGE_GROUPS_H
#define HSP_STAGE_GROUPS_H
#include "daemon/plan/plan.h"
#include "proto/text/yaml.h"

/* Reads the members of stage @y into @s. A stage of one group may be written either way.
 * HSP_EPARSE with the place; HSP_ENOMEM. */
enum hsp_status hsp_plan_read_members(const struct hsp_yaml *y, struct hsp_arena *arena,
                                      struct hsp_stage *s, struct hsp_err *err);
/* "ranks: [0, 1], tensor: [2, 1]" and so on, inside of the stage's braces. */
void hsp_plan_put_members(const struct hsp_stage *s, struct hsp_buf *out);

/* The same without ranks, groups and tensor, of a stage whose members are not known yet: n_groups
 * is the number of listed shares. */
enum hsp_status hsp_plan_read_split(const struct hsp_yaml *y, struct hsp_arena *arena,
                                    struct hsp_stage *s, struct hsp_err *err);
/* ", split: batch, shares: [2, 1]"; nothing where there is no split. */
void hsp_plan_put_split(const struct hsp_stage *s, struct hsp_buf *out);
/* Groups of a stage, at least 1. */
uint32_t hsp_stage_groups(const struct hsp_stage *s);
/* The members of group @group: [*ret_first, *ret_end). */
void hsp_stage_group(const struct hsp_stage *s, uint32_t group, uint32_t *ret_first,
                     uint32_t *ret_end);
uint32_t hsp_stage_group_of(const struct hsp_stage *s, uint32_t member);
/* The group's share alone; *ret_inner: the part of the group. */
double hsp_stage_shares(const struct hsp_stage *s, uint32_t member, double *ret_inner);
/* Member @member's part of the stage's work, of 1: its group's share times its tensor share. */
double hsp_stage_part(const struct hsp_stage *s, uint32_t member);
/* Some stage of @s cuts the micro-batch: its micro-batches have one size, bound as a number. */
bool hsp_pipeline_cuts_batch(const struct hsp_pipeline *s);

#endif
