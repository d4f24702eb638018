/* Reads and writes the sections `annotations` and `batches`, by which a plan states uses of
 * parameters instead of pipelines.
 *
 * Role:      called by plan_yaml_one.c; infer_pipelines.h finds the pipelines.
 * Purity:    pure.
 * Ownership: results live in the arena given. */
#ifndef HSP_PLAN_YAML_ANNOT_H
#define HSP_PLAN_YAML_ANNOT_H
#include "daemon/plan/plan.h"
#include "proto/text/yaml.h"

/* The list `annotations`, @y. HSP_EPARSE with the place; HSP_ENOMEM. */
enum hsp_status hsp_plan_read_annotations(const struct hsp_yaml *y, struct hsp_arena *arena,
                                          struct hsp_plan *p, struct hsp_err *err);
/* An entry of `stages` of a batch: `saved` and the split of groups; n_groups is the number of
 * listed shares. HSP_EPARSE, HSP_ENOMEM. */
enum hsp_status hsp_plan_read_settings(const struct hsp_yaml *y, struct hsp_arena *arena,
                                       struct hsp_stage *s, struct hsp_err *err);
/* `saved` of the map @y, where it has one. HSP_EPARSE. */
enum hsp_status hsp_plan_read_saved(const struct hsp_yaml *y, struct hsp_stage *s,
                                    struct hsp_err *err);

/* The section `annotations`; nothing for a plan without annotations. */
void hsp_plan_put_annotations(const struct hsp_plan *p, struct hsp_buf *out);
void hsp_plan_put_settings(const struct hsp_stage *s, struct hsp_buf *out);
/* `saved` and the end of the stage's braces. */
void hsp_plan_put_saved(const struct hsp_stage *s, struct hsp_buf *out);

#endif
