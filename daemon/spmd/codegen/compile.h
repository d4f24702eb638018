/* Compiles a graph and a plan into one program per rank.
 *
 * Order of work: layouts and Reshards of all stages (lower_plan.h), the total plan (total_plan.h),
 * one rank's template and binding (specialize.h), order of units (pipeline_order.h), slots and
 * memory (activation_slots.h, memory_plan.h), queues (device_schedule.h), deadlock check
 * (deadlock.h). The compiler adds no communication the plan does not imply and is deterministic
 * (D13).
 *
 * Purity: pure. */
#ifndef HSP_COMPILE_H
#define HSP_COMPILE_H
#include "daemon/graph/train_spec.h"
#include "daemon/plan/plan.h"
#include "daemon/spmd/codegen/template_cache.h"
#include "proto/program/program.h"

/* Compiles for all ranks into @arena: ret->programs[rank]. HSP_EINVAL: the plan does not fit the
 * model (message names pipeline, stage, op), or disagrees with its own total form
 * (total_plan.h). */
enum hsp_status hsp_compile(const struct hsp_graph *g, const struct hsp_plan *p,
                            const struct hsp_train_spec *t, struct hsp_arena *arena,
                            struct hsp_program_file *ret, struct hsp_err *err);

/* The same, and the total plan (total_plan.h), which lives in @arena and borrows ranks, shares and
 * explanation of @p. */
enum hsp_status hsp_compile_total(const struct hsp_graph *g, const struct hsp_plan *p,
                                  const struct hsp_train_spec *t, struct hsp_arena *arena,
                                  struct hsp_program_file *ret, struct hsp_plan *ret_total,
                                  struct hsp_err *err);

/* The same, with templates out of @k where @k has them; afterwards @k has those of this compile,
 * when there is memory. The result equals that of a compile without @k, to the byte, and borrows
 * nothing of @k. After a failure @k is as it was. NULL: none is kept. */
enum hsp_status hsp_compile_kept(const struct hsp_graph *g, const struct hsp_plan *p,
                                 const struct hsp_train_spec *t, struct hsp_templates *k,
                                 struct hsp_arena *arena, struct hsp_program_file *ret,
                                 struct hsp_plan *ret_total, struct hsp_err *err);

#endif
