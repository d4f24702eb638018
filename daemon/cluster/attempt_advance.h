/* Brings an attempt, the next epoch of a job, from its number to GO (decision D8).
 *
 *   WAIT_UP --all executors up--> PREPARING --all READY--> GO --all STARTED, or a vote--> runs
 *
 * The number is stored (burned) before a message is sent. Before GO an attempt can be dropped
 * without harm: executors have only taken memory and connections. GO is stored before ARM or
 * START leaves; after GO a loss seals everything up to this epoch.
 *
 * Example: node n4 joins while a job runs epoch 8 on n1/0 and n2/0.
 *
 *   HELLO          WELCOME with an incarnation; "join of n4/0": START_PLAN; the job runs on
 *   PLAN_DONE      keep: nothing changes; else layout 5, epoch 9, job SWITCHING; PREPARE to three
 *   READY          behind the last: GO is stored, then ARM
 *   STARTED, STEP  behind the last STARTED epoch 9 is current; the first vote settles it */
#ifndef HSP_ATTEMPT_ADVANCE_H
#define HSP_ATTEMPT_ADVANCE_H
#include "daemon/cluster/cluster_state.h"

/* Sends the messages that the attempt of @j still needs. Ends the attempt when its time is over,
 * promotes it when all peers have started. */
void hsp_ci_attempt_advance(struct hsp_cluster *c, struct hsp_job *j);

#endif
