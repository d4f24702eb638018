/* Reads and writes plan files of both kinds, a plan and a pool of plans.
 *
 * Role:      every program that takes a plan file comes in here; plan_yaml_one.h reads the single
 *            plan, pool_yaml.h the pool.
 * Purity:    pure; the caller has read the file.
 * Ownership: plans live in the arena given. */
#ifndef HSP_PLAN_YAML_H
#define HSP_PLAN_YAML_H
#include "daemon/plan/plan.h"

/* @name appears in messages. @global_batch scales weights of `sequences`. HSP_EPARSE, HSP_ELIMIT
 * with file:line:column. */
enum hsp_status hsp_plan_parse(const char *text, size_t len, const char *name,
                               uint32_t global_batch, struct hsp_arena *arena,
                               struct hsp_plan **ret, struct hsp_err *err);
/* The text of a plan file, of kind pool where @p has shorter plans. */
void hsp_plan_dump(const struct hsp_plan *p, struct hsp_buf *out);

#endif
