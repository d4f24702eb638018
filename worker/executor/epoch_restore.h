/* Begins an epoch from a checkpoint: fills the home of each member with the state of one version,
 * and compares every element with the sums in the checkpoint.
 *
 * Example: a, b and c resume from version 40; a and b have it on their disks, c has nothing. Round
 * 1: all send offers and choose a's. a and b read their own, c asks a. b finds a damaged
 * part. Round 2: b asks a. All homes are full: their sum is the content that the checkpoint tells,
 * and all seal.
 *
 * Purity:  shell (files, and messages of the state mesh).
 * Threads: the run thread.
 */
#ifndef HSP_EPOCH_RESTORE_H
#define HSP_EPOCH_RESTORE_H
#include "worker/executor/epoch.h"

/* Fills and seals the home of this member as @version, from the checkpoint that PREPARE names: its
 * own, or that of the first member that has it. On all members alike:
 *
 * HSP_ENOENT: no member has it whole; e->refused says whether one was found damaged. HSP_ESTATE: it
 * was found and must not be used. HSP_ENOMEM: a member wanted memory to look. On one member: errors
 * of its links; HSP_EDIGEST: an answer was damaged on its way. Nothing is sealed then. */
enum hsp_status hsp_epoch_restore(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err);

#endif
