/* Reads and writes a pool: a list of plans, each for sequences of another length.
 *
 * Example: entries with max_length 512 and 2048; a step whose longest document has 700 tokens runs
 * the second one. plan.h describes the format.
 *
 * Role:      called by plan_yaml.c.
 * Purity:    pure.
 * Ownership: plans live in the arena given. */
#ifndef HSP_POOL_YAML_H
#define HSP_POOL_YAML_H
#include "daemon/plan/plan.h"
#include "proto/text/yaml.h"

/* Reads the map @y of kind pool; *ret is the plan of the longest sequences. Errors of
 * hsp_plan_parse. */
enum hsp_status hsp_pool_read(const struct hsp_yaml *y, uint32_t global_batch,
                              struct hsp_arena *arena, struct hsp_plan **ret, struct hsp_err *err);
/* The pool whose last plan is @p. */
void hsp_pool_dump(const struct hsp_plan *p, struct hsp_buf *out);

#endif
