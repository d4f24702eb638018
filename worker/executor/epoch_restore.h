/* Loads the state of an epoch from a checkpoint: fills the home of each member with the state of
 * one version, and compares every element with the hashes in the checkpoint. Terms: epoch.h.
 *
 * Example: a, b and c resume from version 40. a and b have the checkpoint on their disks, c has
 *          none.
 * Round 1: all members send offers and choose the offer of a. a and b read their own files, and c
 * requests its state from a. b finds a damaged part in its files. Round 2: b requests its state
 * from a. All homes are full now. The sum of their hashes equals the content hash that the
 * checkpoint states, so all members seal.
 *
 * Purity:  shell (files, and messages of the state mesh).
 * Threads: the run thread.
 */
#ifndef HSP_EPOCH_RESTORE_H
#define HSP_EPOCH_RESTORE_H
#include "worker/executor/epoch.h"

/* Fills the home of this member from the checkpoint that PREPARE names and seals it as @version.
 * The data come from this member's own files, or from the first member that has the checkpoint.
 * After an error nothing is sealed.
 * Returns on all members: HSP_ENOENT if no member has the checkpoint complete and undamaged
 * (e->refused says whether a damaged one was found), HSP_ESTATE if the checkpoint was found and
 * must not be used, HSP_ENOMEM if a member lacked memory to read its folder. Returns on one member
 * alone: errors of its links, and HSP_EDIGEST if a message to it was damaged on the way. */
enum hsp_status hsp_epoch_restore(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err);

#endif
