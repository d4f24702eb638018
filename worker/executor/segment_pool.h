/* Keeps the segments of ended epochs mapped and pinned for the next epoch of the job, which then
 * waits for no new pages and no cudaHostRegister.
 *
 * Example:   epoch 7 has two segments of 40 GiB. SEAL ends epoch 7, and the pool has both segments.
 *            Epoch 8 recovers under another plan and creates its own segments. RELEASE makes spares
 *            of the segments of epoch 7 (worker/state/segment_spare.h). Epoch 9 is prepared beside
 *            epoch 8 and needs two segments of 38 GiB: the spares are cut to that size and renamed.
 * Threads:   any.
 * Ownership: the pool owns the segments that it is given.
 * Bounds:    the segments of one layout that was released, or not begun: when the next epoch is
 *            prepared, spares that it does not take are deleted. The pool keeps no segment of
 *            another job. A device without an epoch keeps segments only between SEAL and the next
 *            PREPARE.
 * Unpinning: unpinning much memory takes seconds, and waits for the device. Segments are unpinned
 *            when the device is trimmed (hsp_epoch_device_trim); until then a segment is *out*.
 */
#ifndef HSP_SEGMENT_POOL_H
#define HSP_SEGMENT_POOL_H
#include <pthread.h>

#include "worker/state/segment.h"

struct hsp_exec_env;
struct hsp_pooled; /* opaque */

struct hsp_segment_pool {
    pthread_mutex_t lock; /* zeros: open */
    struct hsp_pooled *idle, *out;
};

/* A segment, and the number of pinned bytes at its front. */
struct hsp_pinned_segment {
    struct hsp_state_segment *s; /* NULL: none */
    size_t pinned;
};

/* Returns the number of bytes pinned at a time. Each copy lies in one such piece of a mapping. */
size_t hsp_pool_piece(const struct hsp_exec_env *env);
/* Gives @p to the pool. No copy from or to @p may be under way. @spare: its file becomes a
 * spare. */
void hsp_pool_give(struct hsp_exec_env *env, struct hsp_pinned_segment p, bool spare);
/* Closes @p at once, or when it is unpinned. The name of its file is not checked. */
void hsp_pool_close(struct hsp_exec_env *env, struct hsp_pinned_segment p);
/* Takes the segment of @key, if the pool has it and its name still belongs to its file. */
struct hsp_pinned_segment hsp_pool_take(struct hsp_exec_env *env,
                                        const struct hsp_segment_key *key);
/* Takes the smallest spare of at least @bytes. @ret_path: its file. */
struct hsp_pinned_segment hsp_pool_take_spare(struct hsp_exec_env *env, uint64_t bytes,
                                              char ret_path[HSP_SEGMENT_PATH]);
/* Makes spares of the segments of @job below layout @keep_plan. */
void hsp_pool_release(struct hsp_exec_env *env, uint32_t job, uint64_t keep_plan);
/* Deletes and closes all spares, and closes segments whose names others have deleted. */
void hsp_pool_tidy(struct hsp_exec_env *env);
/* Closes all segments and deletes all spares; files that are no spares stay. */
void hsp_pool_empty(struct hsp_exec_env *env);
/* Returns true if segments that are out are still pinned. */
bool hsp_pool_has_out(struct hsp_exec_env *env);
/* Unpins and closes segments that are out, as far as possible. */
void hsp_pool_unpin(struct hsp_exec_env *env);

#endif
