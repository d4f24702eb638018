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
#ifndef HSP_PARAM_SHARDING_H
#define HSP_PARAM_SHARDING_H
#include "daemon/plan/plan.h"
#include "daemon/spmd/sharding/deduce.h"

/* Elements per holder below which zero 1 does not cut a parameter. */
#define HSP_ZERO_MIN_ELEMENTS 16

/* Pipeline units of one chunk of a stage: [*ret_first, *ret_end). Units go through all stages chunk
 * by chunk. */
void hsp_chunk_units(const struct hsp_stream *s, uint32_t stage, uint32_t chunk,
                     uint32_t *ret_first, uint32_t *ret_end);
/* The first block of that chunk, or the one that would be. */
uint32_t hsp_chunk_first_block(const struct hsp_stream *s, uint32_t stage, uint32_t chunk);
/* The stage of @s that runs pipeline unit @unit, and in which chunk. */
void hsp_place_of_unit(const struct hsp_stream *s, uint32_t unit, uint32_t *ret_stage,
                       uint32_t *ret_chunk);

/* @ret[param * n_units + unit]: a node of the unit reads the parameter. HSP_ENOMEM. */
enum hsp_status hsp_param_units(const struct hsp_graph *g, struct hsp_arena *arena,
                                const bool **ret, struct hsp_err *err);
/* @units: from hsp_param_units. */
bool hsp_stage_uses_param(const struct hsp_graph *g, const bool *units, const struct hsp_stream *s,
                          uint32_t stage, uint32_t param);

/* Layout in which the members of @s use the parameter. */
enum hsp_status hsp_param_use(const struct hsp_graph *g, const struct hsp_stage *s, uint32_t param,
                              struct hsp_arena *arena, struct hsp_layout *ret, struct hsp_err *err);

struct hsp_tiers hsp_stage_tiers(const struct hsp_stage *s); /* borrows from @s */

/* Names of cuts of activations (hsp_layout): between groups by the stage's split, and inside of them by
 * sequence parallelism. Those of parameters' uses are tp_family + 1, far below. */
#define HSP_CUT_STAGE 0x40000000u
#define HSP_CUT_ROWS  0x40000001u

/* Layout in which a tensor of @s rests between ops that want nothing else: what is loaded, received from
 * another stage, or completed from a sum. Dims along the sequence or the batch are cut by the stage's
 * split, along the sequence also by sequence parallelism; others are whole. @batch: sequences of the
 * largest micro-batch. HSP_ENOMEM. */
enum hsp_status hsp_tensor_rest(const struct hsp_graph *g, const struct hsp_stage *s,
                                uint32_t tensor, int64_t batch, struct hsp_arena *arena,
                                struct hsp_layout *ret, struct hsp_err *err);

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
