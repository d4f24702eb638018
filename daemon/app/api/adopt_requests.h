/* Answers ADOPT: asks the agents that keep a job for its papers (proto/wire/papers.h), and gives
 * the newest to the core; or tells an agent to delete its state of the job.
 *
 * Example:   job mist is kept by the parked agents a, b and c. All are asked; a and b tell papers
 *            of epoch 9, c those of epoch 7, which it left. Those of epoch 9 become an event of the
 *            core; with its REPLY our own rows of mist become rows of the store, in the same batch.
 *            Had a alone told epoch 9, the administrator would have to name the agent to believe
 *            (adoption.h).
 * Purity:    shell (libuv, clock).
 * Bounds:    HSP_ADOPTIONS at a time, each of HSP_MAX_NODES agents, for 10 s.
 */
#ifndef HSP_ADOPT_REQUESTS_H
#define HSP_ADOPT_REQUESTS_H
#include "daemon/app/state/sessions.h"
#include "daemon/cluster/cluster.h"

/* ADOPT has come. */
void hsp_app_adopt(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m);
/* PAPERS of an agent, asked for or not. */
void hsp_app_adopt_told(struct hsp_app *a, uint32_t conn, const struct hsp_msg *m);
/* A connection has closed. */
void hsp_app_adopt_gone(struct hsp_app *a, uint32_t conn);
/* Goes on with those whose agents do not answer; the next time that one is due, UINT64_MAX none. */
void hsp_app_adopt_check(struct hsp_app *a);
hsp_msec hsp_app_adopt_deadline(const struct hsp_app *a);

void hsp_app_adopt_free_all(struct hsp_app *a);

#endif
