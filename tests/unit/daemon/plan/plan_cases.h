/* Supplies plans for models of 2 layers and a global batch of 7, and random plans. */
#ifndef HSP_PLAN_CASES_H
#define HSP_PLAN_CASES_H
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"

#define HSP_PLAN_HEAD "apiVersion: hspmd/v1\nkind: plan\n"

extern const char *const hsp_plan_cases[];
extern const size_t hsp_n_plan_cases;
/* The plan with an interleaved and a zero-bubble pipeline, recomputation and zero 1. */
#define HSP_PLAN_CASE_OF_ALL_SCHEDULES hsp_plan_cases[16]

/* Plans with groups, split sequences and batches, and sequence parallelism; not for mlp. */
extern const char *const hsp_group_cases[];
extern const size_t hsp_n_group_cases;

/* Writes @plan, which is one of these or a random one, with another zero. */
void hsp_plan_with_zero(const char *plan, uint32_t zero, struct hsp_buf *b);

/* Draws from the seeded pipeline at *draw. */
uint32_t hsp_plan_pick(uint64_t *draw, uint32_t lo, uint32_t hi);
/* Draws a plan of 1 to 3 pipelines of 1 to 3 stages of 1 to 3 ranks. */
void hsp_random_plan(uint64_t *draw, uint32_t layers, uint32_t batch, struct hsp_buf *b);
/* Draws such a plan with up to 3 groups in a stage, of different degrees and uneven shares, also
 * 0. */
void hsp_random_groups(uint64_t *draw, uint32_t layers, uint32_t batch, struct hsp_buf *b);

#endif
