/* @@SENTENCE@@ voting: purpose to be written. */
#ifndef HSP_VOTING_H
#define HSP_VOTING_H
#include "worker/exec/runner.h"

/* The VOTE instruction: fills e->vote. */
enum hsp_status hsp_run_vote(struct hsp_engine *e, struct hsp_err *err);

#endif
