/* @@SENTENCE@@ recover: purpose to be written. */
#ifndef HSP_RECOVER_H
#define HSP_RECOVER_H
#include "daemon/cluster/cluster_state.h"

/* The greatest version of layout @info of which every shard has a piece in @held, a list of
 * (holder, owner, version), which is sorted. False: none. */
bool hsp_recover_version(const struct hsp_plan_info *info, struct hsp_state_piece *held, uint32_t n,
                         uint64_t *ret_version);
/* A device that was there when layout @p was begun, and is here with its memory. Had a version been
 * committed there, every rank would have sealed it first: what this one holds says how far anybody
 * can have come. */
bool hsp_ci_witness(const struct hsp_cluster *c, const struct hsp_job_plan *p, hsp_device_id *ret);
bool hsp_ci_reachable(const struct hsp_cluster *c, const struct hsp_job *j,
                      const struct hsp_state_piece *p);
void hsp_ci_held_drop_node(struct hsp_cluster *c, struct hsp_job *j, uint32_t node);
void hsp_ci_held_add(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_state_piece *p);
/* Newest started layout of @j that is whole somewhere among reachable devices (decision D9).
 * HSP_OK; HSP_AGAIN: found, but a newer layout may have gone further and nobody here can tell:
 * better wait for its nodes; HSP_ENOENT: nothing is whole. */
enum hsp_status hsp_ci_choose(struct hsp_cluster *c, const struct hsp_job *j, uint64_t *ret_plan,
                              uint64_t *ret_version);

#endif
