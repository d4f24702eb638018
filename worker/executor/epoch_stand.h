/* Reports the present work of the threads of a rank to hspmdd, which asks when no vote has passed
 * for long.
 *
 * Example: step 120, micro-batch 3, instruction 118, receives from rank 0 since 2900 ms; the
 * replication thread is idle; 80 kB for rank 2 have not arrived there.
 *
 * Threads: the control thread, which waits only for locks that other threads release at once. */
#ifndef HSP_EPOCH_STAND_H
#define HSP_EPOCH_STAND_H
#include "worker/executor/epoch.h"

/* Sends the message STANDS with the progress of @e, as the answer to question @round of hspmdd. */
void hsp_epoch_tell_stand(struct hsp_ex_epoch *e, uint32_t round);

#endif
