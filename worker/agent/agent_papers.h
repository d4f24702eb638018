/* Keeps the papers of jobs (proto/wire/papers.h) for a coordinator that has lost its rows, and
 * gives them to one that asks.
 *
 * Example: KEEP of job 4 comes before the PREPARE of its epoch 9: they are written beside the
 *          segments. hspmdd begins with an empty folder; the agent is parked there, and an
 *          administrator adopts job 4: ASK is answered by TOLD, and KEEP from that hspmdd says
 *          whose the job is now.
 *
 * Purity:  pure: the shell has the files. */
#ifndef HSP_AGENT_PAPERS_H
#define HSP_AGENT_PAPERS_H
#include "worker/agent/agent_impl.h"

/* PAPERS has come, of a coordinator that has heard the hello: it has taken the node in, or parks
 * it. */
void hsp_ai_papers(struct hsp_agent *a, const struct hsp_msg *m);
/* When all of a job that was to be discarded is gone, the agent says hello again. */
void hsp_ai_papers_tick(struct hsp_agent *a);

#endif
