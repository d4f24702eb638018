/* Runs single instructions of a program, and fused groups of instructions.
 *
 * Role: entry.c runs the pieces of a schedule by these functions. replay.c makes the device repeat
 *       the work that these functions gave it.
 */
#ifndef HSP_INTERP_H
#define HSP_INTERP_H
#include "worker/exec/engine_impl.h"

/* Returns the place to which instruction @k writes output @j: its tensor, or its route
 * (output_route.h). *ret_adds: the output is added to the value at this place. */
struct hsp_cell_view hsp_output(const struct hsp_engine *e, uint32_t k, uint8_t j, uint32_t micro,
                                enum hsp_queue q, bool *ret_adds);
/* Returns bits for the key of a replay: bit 0, other instructions do the work of instruction @k;
 * bit 1, accumulation @k makes the first addition to its sum. */
uint32_t hsp_given_how(const struct hsp_engine *e, uint32_t k, enum hsp_queue q);
/* Does the host's part of instruction @k after the device has repeated it: records a statistic in
 * the step's list. */
enum hsp_status hsp_note_done(struct hsp_engine *e, uint32_t k, enum hsp_queue q,
                              struct hsp_err *err);
/* Gives instruction @k to the device, together with the instructions before @end that are fused
 * with it. *ret_n: the number of instructions given. */
enum hsp_status hsp_run_next(struct hsp_engine *e, uint32_t k, uint32_t end, uint32_t micro,
                             enum hsp_queue q, uint32_t *ret_n, struct hsp_err *err);
/* Returns true if @i is a matrix product. */
bool hsp_is_product(const struct hsp_instr *i);
/* Makes the backend prepare product @k (`warm` of backend.h). */
enum hsp_status hsp_warm_product(struct hsp_engine *e, uint32_t k, uint32_t micro,
                                 struct hsp_err *err);
/* Makes the rehearsing backend take the scratch of op @k, both for the op alone and for the fused
 * launch that begins with it. */
enum hsp_status hsp_rehearse_op(struct hsp_engine *e, uint32_t k, struct hsp_err *err);

#endif
