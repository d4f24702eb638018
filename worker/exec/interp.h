/* Runs single instructions of a program, and fused groups of them.
 *
 * Role: entry.c runs the pieces of a schedule by these functions. replay.c has the device repeat
 *       the work that they gave it.
 */
#ifndef HSP_INTERP_H
#define HSP_INTERP_H
#include "worker/exec/engine_impl.h"

/* Where output @j of instruction @k is written; *ret_adds: it is added to the value there. */
struct hsp_cell_view hsp_output(const struct hsp_engine *e, uint32_t k, uint8_t j, uint32_t micro,
                                enum hsp_queue q, bool *ret_adds);
/* Bits for the key of a replay: 1, instruction @k is redundant; 2, it begins a sum. */
uint32_t hsp_given_how(const struct hsp_engine *e, uint32_t k, enum hsp_queue q);
/* Does the host's part of instruction @k, which the device has repeated: notes a statistic. */
enum hsp_status hsp_note_done(struct hsp_engine *e, uint32_t k, enum hsp_queue q,
                              struct hsp_err *err);
/* Gives instruction @k to the device, together with those below @end that are fused with it: *ret_n
 * in all. */
enum hsp_status hsp_run_next(struct hsp_engine *e, uint32_t k, uint32_t end, uint32_t micro,
                             enum hsp_queue q, uint32_t *ret_n, struct hsp_err *err);
bool hsp_is_product(const struct hsp_instr *i);
/* Has the backend make product @k ready (warm of backend.h). */
enum hsp_status hsp_warm_product(struct hsp_engine *e, uint32_t k, uint32_t micro,
                                 struct hsp_err *err);
/* Has the backend, which rehearses, take the scratch of op @k, alone and in its fused launch. */
enum hsp_status hsp_rehearse_op(struct hsp_engine *e, uint32_t k, struct hsp_err *err);

#endif
