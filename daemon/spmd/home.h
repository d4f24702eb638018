/* Where parameters are used and where they live under a plan.
 *
 * Purity:    pure.
 * Ownership: results live in the arena given; covers own their items.
 *
 * Use: each stage that has a node reading the parameter uses it, cut along hsp_param.tp_dim by the
 * stage's shares at multiples of tp_grain; whole when tp_dim is -1 or the stage has one rank.
 * Home (master, m, v): stated by a total plan; else an explicit rule of the plan; else zero 0: the
 * use box of every using rank; zero 1: rows of the longest cuttable dim spread evenly over the
 * using ranks, small tensors on one.
 */
#ifndef HSP_HOME_H
#define HSP_HOME_H
#include "daemon/spmd/deduce.h"
#include "daemon/spmd/plan.h"

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
bool hsp_stage_uses(const struct hsp_graph *g, const bool *units, const struct hsp_stream *s,
                    uint32_t stage, uint32_t param);

/* Layout in which the members of @s use the parameter. */
enum hsp_status hsp_param_use(const struct hsp_graph *g, const struct hsp_stage *s, uint32_t param,
                              struct hsp_arena *arena, struct hsp_layout *ret, struct hsp_err *err);

/* What the plan says of the home of parameter @name; NULL: nothing. */
const struct hsp_home_rule *hsp_home_rule_of(const struct hsp_plan *p, const char *name);

/* Home cover of @param; initialised here, to be finished by the caller on success. */
enum hsp_status hsp_param_home(const struct hsp_graph *g, const struct hsp_plan *p,
                               const bool *units, uint32_t param, struct hsp_arena *arena,
                               struct hsp_cover *ret, struct hsp_err *err);

#endif
