/* Runs the VOTE instruction, so that all ranks know loss, norm and clip factor before the update.
 *
 * vote.h has the record that ranks exchange, and the outcome of all records.
 */
#ifndef HSP_VOTING_H
#define HSP_VOTING_H
#include "worker/exec/engine_impl.h"

/* The VOTE instruction: fills e->vote. */
enum hsp_status hsp_run_vote(struct hsp_engine *e, struct hsp_err *err);

#endif
