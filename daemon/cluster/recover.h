/* Chooses the version that a job goes on from (decision D9).
 *
 * A version of a layout is whole when every shard has a sealed piece that can be reached.
 * Layouts are tried from the newest started one backwards, not by version: a newer layout may
 * have committed a step that an older one also holds with another rounding, and a committed step
 * must never change. An older layout is used only when the newer one is not whole; then nothing
 * of the newer one was committed, unless more nodes were lost than the copies bear.
 *
 * An older layout is used at once only if a witness of the newer one shows that it committed
 * nothing above; else the nodes of the newer layout are waited for (state_wait_ms). Plan numbers
 * are in the order of GO, so a plan begun before a newer one is never used again.
 *
 * Example: n1/0 and n2/0 had version 90 of layout 2; n2 is dead, and n1 finds its piece damaged. n1
 * still has 89, which is whole. But 90 was there, and n2 may come back with it: n2 is waited for,
 * as above. Once all holders are here, or the wait is over, the job goes on from 89, and GO says
 * that 90 is lost (state.lost) if it was stable.
 *
 * Example: each tenth version is due. Version 80 is stable, and n1 finds version 87 damaged while
 * it trains; n2 dies. No node has sealed 87, so the job goes on from 80 at once. */
#ifndef HSP_RECOVER_H
#define HSP_RECOVER_H
#include "daemon/cluster/cluster_state.h"

/* Notes a sealed piece that an agent reported; not one of a version that was given up
 * (state_damage.h). */
void hsp_ci_held_add(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_state_piece *p);
/* Forgets the pieces that @node reported. */
void hsp_ci_held_drop_node(struct hsp_cluster *c, struct hsp_job *j, uint32_t node);
/* Forgets which checkpoints nodes see (ckpt_look.h): they are asked again. */
void hsp_ci_disk_forget(struct hsp_job *j);
/* The greatest version of layout @info of which every shard has a piece in @held, a list of
 * (holder, owner, version), which is sorted. False: none. */
bool hsp_recover_version(const struct hsp_plan_info *info, struct hsp_state_piece *held, uint32_t n,
                         uint64_t *ret_version);
/* The greatest version below @below that is whole in layout @p among reachable devices. False: none
 * is. */
bool hsp_ci_whole_below(struct hsp_cluster *c, const struct hsp_job *j,
                        const struct hsp_job_plan *p, uint64_t below, uint64_t *ret_version);
/* True when piece @p can be read: its node is connected, its executor is up or soon up, and its
 * device is free or leased to @j; its node is not cut off (apart.h). */
bool hsp_ci_reachable(const struct hsp_cluster *c, const struct hsp_job *j,
                      const struct hsp_state_piece *p);
/* Finds a witness: a device that was there when layout @p was begun, and is here with its
 * memory. Had a version been committed there, every rank would have sealed it first. So the
 * pieces of the witness bound the progress of that layout. */
bool hsp_ci_witness(const struct hsp_cluster *c, const struct hsp_job_plan *p, hsp_device_id *ret);
/* Did layout @p certainly commit nothing above @version? A witness without a later piece says so.
 * The job is sealed. */
bool hsp_ci_went_no_further(const struct hsp_cluster *c, const struct hsp_job *j,
                            const struct hsp_job_plan *p, uint64_t version);
/* The newest started layout of @j that is whole among reachable devices.
 *
 * HSP_OK; HSP_AGAIN: found, but a newer layout may have gone further and no witness is here, or
 * a later version of the layout found was stable or was found damaged, and not all its holders are
 * here: so better wait for those nodes; HSP_ENOENT: nothing is whole. */
enum hsp_status hsp_ci_choose(struct hsp_cluster *c, const struct hsp_job *j, uint64_t *ret_plan,
                              uint64_t *ret_version);
/* The nodes that may bring the missing pieces of a version from @least on of layout @from, or of
 * one of a later layout; "": none, but pieces are here that cannot be reached now. NULL: nothing
 * can come any more, as all holders are here without such pieces. */
const char *hsp_ci_awaited(struct hsp_cluster *c, const struct hsp_job *j, uint64_t from,
                           uint64_t least);
/* The nodes that may bring the missing pieces of a layout though @node never comes back; NULL: none
 * may. */
const char *hsp_ci_awaited_without(struct hsp_cluster *c, const struct hsp_job *j, uint32_t node);

#endif
