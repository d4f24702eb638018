/* Begins an epoch from a checkpoint: fills the home of each member with the state of one version,
 * and compares every element with the sums in the checkpoint.
 *
 * Example: a, b and c resume from version 40. a and b have the checkpoint on their disks, c has
 *          none.
 * Round 1: all members send offers and choose the offer of a. a and b read their own files, c
 * requests state from a. b finds a damaged part. Round 2: b requests state from a. All homes are
 * full: their sum equals the content that the checkpoint states, and all members seal.
 *
 * Purity:  shell (files, and messages of the state mesh).
 * Threads: the run thread.
 */
#ifndef HSP_EPOCH_RESTORE_H
#define HSP_EPOCH_RESTORE_H
#include "worker/executor/epoch.h"

/* Fills and seals the home of this member as @version, from the checkpoint that PREPARE names: from
 * its own files, or from the first member that has the checkpoint. Nothing is sealed after an
 * error. Errors on all members alike: HSP_ENOENT: no member has the checkpoint whole; e->refused
 * says whether a damaged one was found. HSP_ESTATE: the checkpoint was found and must not be used.
 * HSP_ENOMEM: a member lacked memory to read its folder. Errors on one member: errors of its links;
 * HSP_EDIGEST: an answer was damaged on its way. */
enum hsp_status hsp_epoch_restore(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err);

#endif
