/* Reads and writes one plan as YAML: a whole file, or an entry of a pool.
 *
 * Role:      called by plan_yaml.c and pool_yaml.c. plan.h describes the format.
 * Purity:    pure.
 * Ownership: plans live in the arena given. */
#ifndef HSP_PLAN_YAML_ONE_H
#define HSP_PLAN_YAML_ONE_H
#include "daemon/plan/plan.h"
#include "proto/text/yaml.h"

const char *hsp_schedule_name(uint8_t schedule); /* as in plans */
/* One plan, whose apiVersion and kind may be left out (plan_yaml.c); a pool of them (pool_yaml.c). Errors of
 * hsp_plan_parse. */
enum hsp_status hsp_plan_read(const struct hsp_yaml *y, uint32_t global_batch,
                              struct hsp_arena *arena, struct hsp_plan **ret, struct hsp_err *err);
void hsp_plan_dump_one(const struct hsp_plan *p, struct hsp_buf *out);
/* Without the explanation. */
void hsp_plan_dump_bare(const struct hsp_plan *p, struct hsp_buf *out);

#endif
