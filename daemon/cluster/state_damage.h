/* Takes damaged state out of use: one piece that its holder has found damaged, or a version of
 * which the replicas differ.
 *
 * Example: version 120 of layout 3 is at home on n1/0 and n2/0, each with a copy of the other. n1/0
 * is asked to begin with it and finds its home damaged: STATE_DAMAGED, then PREPARE_FAILED with
 * NO_STATE. The attempt is dropped and counts as no failure; the next one names the copy on n2/0 as
 * the source. With both damaged the version is not whole, and recover.c chooses again.
 *
 * Example: n1/0 and n2/0 are replicas. The records of vote 120 do not add up: both send
 * STATE_DAMAGED with given_up_in, and version 120 of the layout is void. n2/0 is killed before it
 * has unsealed its piece of 120, which its agent offers; it is not noted, and the job goes on from
 * 119. PREPARE carries void_from 120, so that n2/0 deletes its piece before READY, and GO ends the
 * mark: version 120 can be made again.
 *
 * Example: the same, but n1 was cut off and is dead when it says so. The job has gone on from
 * n2/0's 120 in layout 4, on n2/0 and n3/0, and that epoch broke before n3/0 had sealed it. When n1
 * is back and has said it, layout 4 is void from 120, too, and so are layouts made of it: n3/0
 * shows that no vote of layout 4 can have passed. Without such a witness a vote may have, and the
 * version stays. */
#ifndef HSP_STATE_DAMAGE_H
#define HSP_STATE_DAMAGE_H
#include "daemon/cluster/cluster_state.h"

/* STATE_DAMAGED of a node. Ignored when the layout is not kept, or gives that piece to another
 * device; a version is given up only by a rank of the epoch that was begun last with the layout,
 * and only when no vote of it is known to have passed, or the epoch began with it. */
void hsp_ci_state_damaged(struct hsp_cluster *c, struct hsp_cluster_node *n,
                          const struct hsp_m_damaged *m);
/* Of @j, which is sealed: layouts that were made of a version that was given up, and have certainly
 * committed nothing, are void. */
void hsp_ci_void_heirs(struct hsp_cluster *c, struct hsp_job *j);
/* Device @d cannot serve the state that the attempt of @j takes from it. True: it offers less since
 * then, so that the next attempt is another one. A device that has named no damage lacks all it
 * offered of that version. An attempt that begins the job, or goes on from a checkpoint, takes no
 * state. */
bool hsp_ci_state_missing(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id d);

#endif
