/* Runs the VOTE instruction, so that all ranks know loss, norm and clip factor before the update.
 *
 * vote.h defines the record that ranks exchange, and the outcome of all records. */
#ifndef HSP_VOTING_H
#define HSP_VOTING_H
#include "worker/exec/engine_impl.h"

/* Runs the VOTE instruction: exchanges the records and fills e->vote. Returns HSP_ECANCELED if the
 * engine was stopped before the vote; errors of the transport, the device and the hooks; HSP_EPROTO
 * as hsp_vote_count; HSP_ESTATE if training diverged. */
enum hsp_status hsp_run_vote(struct hsp_engine *e, struct hsp_err *err);

#endif
