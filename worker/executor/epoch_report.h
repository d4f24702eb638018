/* Reports the phases and the steps of an epoch to hspmdd, so that hspmdd knows each step that has
 * passed its vote even when rank 0 dies.
 *
 * Role:    rank 0 reports each step. Its *heir*, the first rank or replica holder on another node,
 *          keeps the newest HSP_EPOCH_SAID steps and reports them again when the epoch breaks.
 *          Where both have died, or their agents, rank 0 of the next epoch reports the steps that
 *          members have noted (step_share.h).
 */
#ifndef HSP_EPOCH_REPORT_H
#define HSP_EPOCH_REPORT_H
#include "worker/executor/epoch.h"

/* Takes a step whose vote @v has passed with the records @all of the @n ranks: rank 0 reports the
 * step, and its heir keeps the step. A report that cannot be sent is logged. @sequence: in a pool
 * the tokens per sequence of the plan that ran the step, else 0. */
void hsp_epoch_report_step(struct hsp_ex_epoch *e, const struct hsp_vote *v,
                           const struct hsp_vote_record *all, uint32_t n, double seconds,
                           uint32_t sequence);
/* Reports the newest steps again when the epoch broke, at the heir: rank 0 or its agent may have
 * died before its report went out. Other ranks report nothing. */
void hsp_epoch_say_again(struct hsp_ex_epoch *e);
/* At rank 0: reports step @s, which was noted in epoch @epoch. */
void hsp_epoch_say_noted(const struct hsp_ex_epoch *e, uint64_t epoch,
                         const struct hsp_said_step *s);
/* Sends the newest step from rank 0 to each replica holder over @channel of the state mesh, before
 * the copies of a version. The holder notes the step. Where PREPARE does not ask for shared notes,
 * the step goes only to the heir, if the heir is a replica holder. Errors of the mesh. */
enum hsp_status hsp_epoch_share_step(struct hsp_ex_epoch *e, uint32_t channel, struct hsp_err *err);
/* Sends the steps that were not sent before, where not every version is due, in messages of
 * HSP_EPOCH_SAID steps. The message comes before the copies of @version and names @version to the
 * replica holders, or comes without copies (HSP_NO_VERSION). Errors of the mesh. */
enum hsp_status hsp_epoch_share_steps(struct hsp_ex_epoch *e, uint32_t channel, uint64_t version,
                                      struct hsp_err *err);
/* At a replica holder: receives such steps and notes them. HSP_EPROTO; errors of the mesh. */
enum hsp_status hsp_epoch_take_steps(struct hsp_ex_epoch *e, uint32_t channel,
                                     uint64_t *ret_version, struct hsp_err *err);

/* Sends @m under the number of this epoch; a failure is logged. */
void hsp_epoch_send_msg(struct hsp_ex_epoch *e, struct hsp_msg *m);
/* Sends READY, for the first PREPARE and for each repetition of that PREPARE. */
void hsp_epoch_tell_ready(struct hsp_ex_epoch *e);
/* Sends STARTED when all of the state of @version is here: sources may leave then. */
void hsp_epoch_tell_started(struct hsp_ex_epoch *e, uint64_t version);
/* Sends PEER_LOST, or JOB_FAILED where no other attempt can help, once per epoch. @err is the
 * reason if no peer was lost. Sends nothing if the epoch was cancelled. */
void hsp_epoch_tell_broken(struct hsp_ex_epoch *e, enum hsp_status st, const struct hsp_err *err,
                           bool before_start);

#endif
