/* Reads and writes the sections of a total plan: homes, uses and reshards.
 *
 * Role:      called by plan_yaml_one.c.
 * Purity:    pure.
 * Ownership: results live in the arena given. */
#ifndef HSP_PLAN_YAML_TOTAL_H
#define HSP_PLAN_YAML_TOTAL_H
#include "daemon/plan/plan.h"
#include "proto/text/yaml.h"

/* Reads homes, uses and reshards of the plan map @y, each of which is optional. HSP_EPARSE with the
 * place. */
enum hsp_status hsp_plan_read_total(const struct hsp_yaml *y, struct hsp_arena *arena,
                                    struct hsp_plan *p, struct hsp_err *err);
/* @explain: with names and times of Reshards; else the keys are those of the digest
 * (hsp_plan_dump_bare). */
void hsp_plan_dump_total(const struct hsp_plan *p, bool explain, struct hsp_buf *out);

/* "[{kind: all_reduce, ranks: [0, 1], gives: 8, gets: 8}]", and zero ranks behind it. */
void hsp_plan_put_moves(const struct hsp_plan_reshard *r, struct hsp_buf *out);
const char *hsp_phase_name(uint8_t phase);

#endif
