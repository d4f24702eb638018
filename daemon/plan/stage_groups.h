/* Members of a stage in a plan's text: ranks, tensor, split, shares, groups, sequence_parallel.
 *
 * Purity: pure. Ownership: what is read lives in the arena given. */
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

/* The same but for ranks, groups and tensor, of a stage whose members are not known yet: n_groups is how
 * many shares are listed. */
enum hsp_status hsp_plan_read_split(const struct hsp_yaml *y, struct hsp_arena *arena,
                                    struct hsp_stage *s, struct hsp_err *err);
/* ", split: batch, shares: [2, 1]"; nothing where there is no split. */
void hsp_plan_put_split(const struct hsp_stage *s, struct hsp_buf *out);

#endif
