/* Reads and writes one plan as YAML: a whole file, or an entry of a pool.
 *
 * Role:      called by plan_yaml.c and pool_yaml.c. plan.h describes the format.
 * Purity:    pure.
 * Ownership: plans live in the arena given. */
#ifndef HSP_PLAN_YAML_ONE_H
#define HSP_PLAN_YAML_ONE_H
#include "daemon/plan/plan.h"
#include "proto/text/yaml.h"

/* The name of enum hsp_schedule as in plans, "1f1b". */
const char *hsp_schedule_name(uint8_t schedule);
/* Reads the plan of the map @y; apiVersion and kind may be left out. Errors of hsp_plan_parse. */
enum hsp_status hsp_plan_read(const struct hsp_yaml *y, uint32_t global_batch,
                              struct hsp_arena *arena, struct hsp_plan **ret, struct hsp_err *err);
/* The plan alone, without its pool. */
void hsp_plan_dump_one(const struct hsp_plan *p, struct hsp_buf *out);
/* The same for the digest (total_plan.h): without the explanation (why, predictions, names and
 * times of Reshards), and with the older names of keys, streams and stream. So the digest of a plan
 * is the same in all releases. */
void hsp_plan_dump_bare(const struct hsp_plan *p, struct hsp_buf *out);

#endif
