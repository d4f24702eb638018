/* Keeps the segments of ended epochs mapped and pinned for the next epoch of the job, which then
 * waits for no new pages and no cudaHostRegister. Terms: epoch.h.
 *
 * Example:   epoch 7 has two segments of 40 GiB. SEAL ends epoch 7, which gives both segments to
 *            the pool. Epoch 8 recovers with another plan and creates its own segments. RELEASE
 *            makes *spares* of the segments of epoch 7: files without a version that any layout may
 *            reuse (worker/state/segment_spare.h). Epoch 9 is prepared while epoch 8 runs, and
 *            needs two segments of 38 GiB: the spares are cut to that size and renamed.
 * Threads:   any.
 * Ownership: the pool owns the segments that it is given.
 * Bounds:    the spares come from one layout, which was released or has not begun: when an epoch is
 *            prepared, the spares that it does not take are deleted. The pool keeps no segment of
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

/* A segment, with the number of bytes from its begin that are pinned. */
struct hsp_pinned_segment {
    struct hsp_state_segment *s; /* NULL: none */
    size_t pinned;
};

/* Returns the number of bytes that are pinned at a time. No copy crosses the border of two such
 * pieces. */
size_t hsp_pool_piece(const struct hsp_exec_env *env);
/* Gives @p to the pool. No copy from or to @p may be under way. @spare: the file of @p becomes a
 * spare. */
void hsp_pool_give(struct hsp_exec_env *env, struct hsp_pinned_segment p, bool spare);
/* Closes @p at once, or later when it is unpinned. Does not look for the name of the file. */
void hsp_pool_close(struct hsp_exec_env *env, struct hsp_pinned_segment p);
/* Takes the segment of @key out of the pool, if the pool has it and its file still has its name. */
struct hsp_pinned_segment hsp_pool_take(struct hsp_exec_env *env,
                                        const struct hsp_segment_key *key);
/* Takes the smallest spare of at least @bytes out of the pool. @ret_path: the path of its file. */
struct hsp_pinned_segment hsp_pool_take_spare(struct hsp_exec_env *env, uint64_t bytes,
                                              char ret_path[HSP_SEGMENT_PATH]);
/* Makes spares of the segments of @job whose layout number is below @keep_plan. */
void hsp_pool_release(struct hsp_exec_env *env, uint32_t job, uint64_t keep_plan);
/* Deletes and closes all spares, and closes segments whose names another process has deleted. */
void hsp_pool_tidy(struct hsp_exec_env *env);
/* Closes all segments and deletes the files of spares; the files of other segments stay. */
void hsp_pool_empty(struct hsp_exec_env *env);
/* Returns true if segments that are out are still pinned. */
bool hsp_pool_has_out(struct hsp_exec_env *env);
/* Unpins and closes segments that are out, as far as possible. */
void hsp_pool_unpin(struct hsp_exec_env *env);

#endif
