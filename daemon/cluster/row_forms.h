/* Numbers the forms of the rows of the durable state, so that older rows are read, and names the
 * news of each. A row begins with its form. */
#ifndef HSP_ROW_FORMS_H
#define HSP_ROW_FORMS_H

#define ROW_VERSION    16 /* the form that is written */
#define ROW_LINES      16 /* agents that had the name of a node before */
#define ROW_CUTS       15 /* the cuts of the history of a job */
#define ROW_RAN        15 /* the nodes that have run a job */
#define ROW_MADE_OF    15 /* the versions of which layouts were made, in some rows of 15 */
#define ROW_BORN       14 /* the cluster in which a job began; in some rows of 13, too */
#define ROW_ADOPTED    13 /* clusters of which jobs were adopted */
#define ROW_DOUBT      12 /* jobs that may have ended since a backup */
#define ROW_HELLO      12 /* the generation in which a node last said hello */
#define ROW_GIVEN_UP   12 /* versions of layouts that were given up, and their last epochs */
#define ROW_KNOWN      11 /* the proofs and rights of nodes; older checkpoints */
#define ROW_TRUSTED    10 /* the trusted networks of epochs */
#define ROW_CKPTS      9  /* which checkpoints are meant */
#define ROW_LINKS      8  /* the transports of epochs */
#define ROW_BEGUN      7  /* the epoch that began at the origin */
#define ROW_TOKENS     6  /* tokens of the data */
#define ROW_SUSPENDING 5
#define ROW_OLDEST     4

/* Bits of the row of a job. */
/* In the byte of an epoch's mode; earlier programs pass over them. */
enum { SHARE_NOTES = 4, SEALS_LIVE = 8 };
/* Before the nodes that have run it; earlier programs pass over the last one. */
enum { RAN_UNKNOWN = 1, RAN_ANEW = 2, CKPT_ASKED = 4 };

#endif
