/* Takes over a job from the papers that its agents keep (proto/wire/papers.h).
 *
 * Example: hspmdd begins with an empty folder. Nodes a and b are parked, with state of job mist of another
 *          cluster. An administrator adopts mist: its terms and layouts become rows here, under the
 *          numbers of the next generation; a and b say hello again, are members, and are sealed; mist
 *          goes on from the newest version that is whole. Other jobs of that cluster that a and b keep
 *          stay as they are, on members, and wait for the same word (behind.h).
 *
 * A job whose rows are too old (BEHIND) is adopted in the same way: the papers take their place. */
#ifndef HSP_ADOPT_H
#define HSP_ADOPT_H
#include "daemon/cluster/cluster_state.h"

struct hsp_admin_event;

/* ADOPT @a. NULL: done. Else nothing has changed, and the text says what is wrong and what to do;
 * *ret_status says of which kind it is. */
const char *hsp_ci_adopt(struct hsp_cluster *c, const struct hsp_admin_event *a,
                         enum hsp_status *ret_status);

#endif
