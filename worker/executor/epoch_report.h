/* @@SENTENCE@@ epoch_report: purpose to be written. */
#ifndef HSP_EPOCH_REPORT_H
#define HSP_EPOCH_REPORT_H
#include "worker/executor/epoch.h"

/* A vote has passed, with the records @all of the @n ranks: rank 0 reports it, its heir keeps it. What cannot be
 * sent is logged. @sequence: of a pool the tokens of the sequences of the plan that ran it, else 0. */
void hsp_epoch_report_step(struct hsp_ex_epoch *e, const struct hsp_vote *v,
                           const struct hsp_vote_record *all, uint32_t n, double seconds,
                           uint32_t sequence);
/* The epoch broke: the heir reports the newest steps again, since rank 0 may have died, or its agent, with what
 * it had to say of them. Others: nothing. */
void hsp_epoch_say_again(struct hsp_ex_epoch *e);
/* Before the copies of a version: an heir that only keeps gets the newest step from rank 0, by @channel of the
 * state mesh. Errors of the mesh. */
enum hsp_status hsp_epoch_share_step(struct hsp_ex_epoch *e, uint32_t channel, struct hsp_err *err);

#endif
