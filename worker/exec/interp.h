/* @@SENTENCE@@ interp: purpose to be written. */
#ifndef HSP_INTERP_H
#define HSP_INTERP_H
#include "worker/exec/runner.h"

/* Where output @j of instruction @k is written; *ret_adds: added to what is there. */
struct hsp_cell_view hsp_output(const struct hsp_engine *e, uint32_t k, uint8_t j, uint32_t micro,
                                enum hsp_queue q, bool *ret_adds);
/* What else its giving depends on, as a number: it is done already, or needless, or begins a sum. */
uint32_t hsp_given_how(const struct hsp_engine *e, uint32_t k, enum hsp_queue q);
/* What the host does at instruction @k of those that a device has repeated: notes a statistic. */
enum hsp_status hsp_note_done(struct hsp_engine *e, uint32_t k, enum hsp_queue q,
                              struct hsp_err *err);
/* Gives instruction @k to the device; with what goes together with it. *ret_n instructions are given
 * then. */
enum hsp_status hsp_run_next(struct hsp_engine *e, uint32_t k, uint32_t micro, enum hsp_queue q,
                             uint32_t *ret_n, struct hsp_err *err);
/* Whether an entry of a schedule is passed over: nobody has a sequence of that micro-batch. */
bool hsp_entry_is_empty(const struct hsp_engine *e, const struct hsp_sched_entry *entry);
/* One entry of a queue, all its instructions. */
enum hsp_status hsp_run_piece(struct hsp_engine *e, const struct hsp_sched_entry *entry,
                              enum hsp_queue q, struct hsp_err *err);

#endif
