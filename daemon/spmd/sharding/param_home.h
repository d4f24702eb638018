/* Where parameters are used and where they live under a plan.
 *
 * Purity:    pure.
 * Ownership: results live in the arena given; covers own their items.
 *
 * Use: each stage that has a node reading the parameter uses it, cut along hsp_param.tp_dim by the
 * shares of each group at multiples of tp_grain; whole when tp_dim is -1 or the group has one rank.
 * Home (master, m, v): stated by a total plan; else an explicit rule of the plan; else zero 0: the
 * use box of every using rank; zero 1 and 3: rows of the longest cuttable dim spread evenly over the
 * using ranks, small tensors on one; with zero_pattern interleaved zero_interleaved.h. A rank may have several
 * boxes of one home.
 */
#ifndef HSP_PARAM_HOME_H
#define HSP_PARAM_HOME_H
#include "daemon/plan/plan.h"
#include "daemon/spmd/sharding/deduce.h"

/* Elements per holder below which zero 1 does not cut a parameter. */
#define HSP_ZERO_MIN_ELEMENTS 16

/* What the plan says of the home of parameter @name; NULL: nothing. */
const struct hsp_home_rule *hsp_home_rule_of(const struct hsp_plan *p, const char *name);

/* Home cover of @param; initialised here, to be finished by the caller on success. */
enum hsp_status hsp_param_home(const struct hsp_graph *g, const struct hsp_plan *p,
                               const bool *units, uint32_t param, struct hsp_arena *arena,
                               struct hsp_cover *ret, struct hsp_err *err);

/* Homes of all parameters of a plan: @ret[graph.n_params], each to be finished by the caller.
 * On failure nothing is left to finish. */
enum hsp_status hsp_plan_homes(const struct hsp_graph *g, const struct hsp_plan *p,
                               struct hsp_cover *ret, struct hsp_err *err);

/* Whether the homes and home rules that @p states, or any plan of its pool, can be: HSP_EINVAL names the
 * parameter. After hsp_plan_check; @arena is for scratch. */
enum hsp_status hsp_plan_check_homes(const struct hsp_graph *g, const struct hsp_plan *p,
                                     struct hsp_arena *arena, struct hsp_err *err);

#endif
