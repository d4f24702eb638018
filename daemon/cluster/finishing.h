/* Moves a job whose final model cannot be written when one of its nodes is to go.
 *
 * Such a job moves as a running one does, by a switch after which another member writes. The
 * epoch it leaves goes on trying until then, so nothing is given up for the move. Devices that
 * compute no more may be fewer than the min of the job. Where nobody can take over, the reason
 * of the job says so.
 *
 * Executors try the final model until it is written (CHECKPOINTED of version `steps`, not
 * complete): it alone is the result of the training, so losses on the way do not add up. The cause
 * is told once and stands in `problem` of the job. The current writer keeps trying until all new
 * members are READY; a failed hand-over therefore loses nothing and does not count as a failure.
 */
#ifndef HSP_FINISHING_H
#define HSP_FINISHING_H
#include "daemon/cluster/cluster_state.h"

/* Begins, advances or gives up the move of @j, which is in FINISHING. */
void hsp_ci_finishing_advance(struct hsp_cluster *c, struct hsp_job *j);

#endif
