/* Prices whole plans: step time and the memory of each rank, from the prices of cost.h.
 *
 * Purity: pure. */
#ifndef HSP_PRICE_H
#define HSP_PRICE_H
#include "daemon/planner/cost.h"

/* Writes the blocks of each chunk of a stage that has blocks: "0-1,4". */
void hsp_block_ranges(const struct hsp_pipeline *s, uint32_t stage, char ret[HSP_RANGES_BYTES]);
/* Prices @plan, whose rank r runs on device[r] of the cluster. The plan has passed hsp_plan_check.
 * The result lives in @arena. HSP_ENOMEM. */
enum hsp_status hsp_price(const struct hsp_price_in *in, const struct hsp_plan *plan,
                          const uint32_t *device, struct hsp_arena *arena, struct hsp_cost *ret,
                          struct hsp_err *err);
/* False when some rank needs more than its device offers; *ret_rank is the first such rank. */
bool hsp_cost_fits(const struct hsp_price_in *in, const struct hsp_cost *c, uint32_t *ret_rank);
/* False when the ranks on some node together seal more than its state folder has room for;
 * *ret_rank is the first rank on such a node. */
bool hsp_cost_fits_folder(const struct hsp_price_in *in, const struct hsp_cost *c,
                          uint32_t *ret_rank);
/* False when the ranks on some node together need more than its stated host memory; *ret_rank is
 * the first rank on such a node, *ret_bytes is the need of all its ranks. */
bool hsp_cost_fits_host(const struct hsp_price_in *in, const struct hsp_cost *c, uint32_t *ret_rank,
                        int64_t *ret_bytes);

#endif
