/* Makes the papers of a job (proto/wire/papers.h) from the rows of the core and our own.
 *
 * Purity:    pure, but for a line in the log when they are too large.
 * Ownership: the batch's.
 */
#ifndef HSP_JOB_PAPERS_H
#define HSP_JOB_PAPERS_H
#include "daemon/app/perform/actions_impl.h"

struct hsp_app;

/* The papers of the PAPERS action @act, made once in a batch. Their data are NULL when they are too
 * large to be sent. NULL: no memory, or no such job. */
const struct papers_made *hsp_app_papers(struct hsp_app *a, struct hsp_batch *b,
                                         const struct hsp_action *act);

#endif
