/* Reports the life and the steps of an epoch to hspmdd, so that a step which has passed its vote is
 * known even when rank 0 dies.
 *
 * Role:    rank 0 reports each step. Its *heir*, the first rank or keeper on another node, keeps
 *          the newest HSP_EPOCH_SAID steps and reports them again when the epoch breaks. Where
 *          both have died, or their agents, rank 0 of the next epoch reports those that have been
 *          noted (step_share.h).
 */
#ifndef HSP_EPOCH_REPORT_H
#define HSP_EPOCH_REPORT_H
#include "worker/executor/epoch.h"

/* A vote has passed, with the records @all of the @n ranks: rank 0 reports it, its heir keeps it. A
 * report that cannot be sent is logged. @sequence: of a pool the tokens of the sequences of the
 * plan that ran it, else 0. */
void hsp_epoch_report_step(struct hsp_ex_epoch *e, const struct hsp_vote *v,
                           const struct hsp_vote_record *all, uint32_t n, double seconds,
                           uint32_t sequence);
/* The epoch broke: the heir reports the newest steps again, for rank 0 or its agent may have died
 * before it could. Other ranks report nothing. */
void hsp_epoch_say_again(struct hsp_ex_epoch *e);
/* Rank 0: reports @s, which @epoch has noted. */
void hsp_epoch_say_noted(const struct hsp_ex_epoch *e, uint64_t epoch,
                         const struct hsp_said_step *s);
/* Before the copies of a version: each keeper gets the newest step from rank 0, by @channel of the
 * state mesh, and notes it; where PREPARE does not ask for notes to be shared, the heir if it is
 * one. Errors of the mesh. */
enum hsp_status hsp_epoch_share_step(struct hsp_ex_epoch *e, uint32_t channel, struct hsp_err *err);
/* The same where not every version is due: in front of the copies of @version, which the keepers
 * learn by it, or without any (HSP_NO_VERSION). The steps are told that were not told before, in
 * messages of HSP_EPOCH_SAID. Errors of the mesh. */
enum hsp_status hsp_epoch_share_steps(struct hsp_ex_epoch *e, uint32_t channel, uint64_t version,
                                      struct hsp_err *err);
/* At a keeper: takes and notes such steps. HSP_EPROTO; errors of the mesh. */
enum hsp_status hsp_epoch_take_steps(struct hsp_ex_epoch *e, uint32_t channel,
                                     uint64_t *ret_version, struct hsp_err *err);

/* Sends @m under the number of this epoch; a failure is logged. */
void hsp_epoch_send_msg(struct hsp_ex_epoch *e, struct hsp_msg *m);
/* READY, for the first PREPARE and for each repetition of it. */
void hsp_epoch_tell_ready(struct hsp_ex_epoch *e);
/* The state of @version is here, all of it: sources may go. STARTED. */
void hsp_epoch_tell_started(struct hsp_ex_epoch *e, uint64_t version);
/* Once per epoch: PEER_LOST, or JOB_FAILED where no other try can help, with @err as the reason if
 * no peer was lost. Nothing when the epoch was cancelled. */
void hsp_epoch_tell_broken(struct hsp_ex_epoch *e, enum hsp_status st, const struct hsp_err *err,
                           bool before_start);

#endif
