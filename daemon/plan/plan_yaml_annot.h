/* Parts of plan_yaml.c: annotations of parameters, and what a plan says of stages that are still to be
 * found from them (infer_streams.h).
 *
 * Purity: pure. Ownership: what is read lives in the arena given. */
#ifndef HSP_PLAN_YAML_ANNOT_H
#define HSP_PLAN_YAML_ANNOT_H
#include "daemon/plan/plan.h"
#include "proto/text/yaml.h"

/* The list `annotations`, @y. HSP_EPARSE with the place; HSP_ENOMEM. */
enum hsp_status hsp_plan_read_annotations(const struct hsp_yaml *y, struct hsp_arena *arena,
                                          struct hsp_plan *p, struct hsp_err *err);
/* An entry of `stages` of a batch: how much is saved, what groups cut; n_groups is how many shares
 * are listed. HSP_EPARSE, HSP_ENOMEM. */
enum hsp_status hsp_plan_read_settings(const struct hsp_yaml *y, struct hsp_arena *arena,
                                       struct hsp_stage *s, struct hsp_err *err);
/* `saved` of the map @y, where it has one. HSP_EPARSE. */
enum hsp_status hsp_plan_read_saved(const struct hsp_yaml *y, struct hsp_stage *s,
                                    struct hsp_err *err);

/* Nothing for a plan that has none. */
void hsp_plan_put_annotations(const struct hsp_plan *p, struct hsp_buf *out);
void hsp_plan_put_settings(const struct hsp_stage *s, struct hsp_buf *out);
/* `saved` and the end of the stage's braces. */
void hsp_plan_put_saved(const struct hsp_stage *s, struct hsp_buf *out);

#endif
