/* Places the home of each parameter: the boxes in which ranks store master, m and v and update
 * them.
 *
 * A home is, in this order: stated by a total plan; given by a rule of the plan; with zero 0 the
 * use box of every using rank; with zero 1 and 3 cut over the using ranks. Such a cut stays within
 * uses where tensor parallelism cuts the parameter; other parameters are cut along their longest
 * dim, and small ones lie on one rank. zero_interleaved.h makes the other pattern, in which a rank
 * may have several boxes.
 *
 * Example: zero 1, a table of 256 rows used whole by ranks 0 and 1: rows 0..128 live on rank 0.
 *
 * Purity:    pure.
 * Ownership: results live in the arena given; covers own their items. */
#ifndef HSP_PARAM_HOME_H
#define HSP_PARAM_HOME_H
#include "daemon/plan/plan.h"
#include "daemon/spmd/sharding/deduce.h"

/* Elements per holder below which zero 1 does not cut a parameter. */
#define HSP_ZERO_MIN_ELEMENTS 16

/* The stated home of parameter @name, else the first home rule that fits; NULL: neither. */
const struct hsp_home_rule *hsp_home_rule_of(const struct hsp_plan *p, const char *name);

/* Home cover of @param; initialised here, to be finished by the caller on success. */
enum hsp_status hsp_param_home(const struct hsp_graph *g, const struct hsp_plan *p,
                               const bool *units, uint32_t param, struct hsp_arena *arena,
                               struct hsp_cover *ret, struct hsp_err *err);

/* Homes of all parameters of a plan: @ret[graph.n_params], each to be finished by the caller.
 * On failure nothing is left to finish. */
enum hsp_status hsp_plan_homes(const struct hsp_graph *g, const struct hsp_plan *p,
                               struct hsp_cover *ret, struct hsp_err *err);

/* Whether the stated homes and home rules of @p, and of each plan of its pool, are possible:
 * HSP_EINVAL names the parameter. After hsp_plan_check; @arena is for scratch. */
enum hsp_status hsp_plan_check_homes(const struct hsp_graph *g, const struct hsp_plan *p,
                                     struct hsp_arena *arena, struct hsp_err *err);

#endif
