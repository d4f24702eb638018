/* Keeps the segments of ended epochs mapped and pinned for the next epoch of the job, which so
 * waits for no new pages and no cudaHostRegister.
 *
 * Example:   epoch 7 has two segments of 40 GiB. SEAL ends it: the pool has both. Epoch 8 recovers
 *            under another plan and creates its own. RELEASE makes spares of the first two
 *            (worker/state/segment_spare.h). Epoch 9 is prepared beside 8 and needs two of 38 GiB:
 *            the spares are cut to that size and get its names.
 * Threads:   any.
 * Ownership: the pool owns what it is given.
 * Bounds:    the segments of one layout that was released, or not begun: when the next epoch is
 *            prepared, spares that it does not take go. Nothing is kept of another job, nor by a
 *            device without an epoch, but for that between SEAL and the next PREPARE.
 * Unpinning: takes seconds where there is much, and waits for the device. It comes when that
 *            is trimmed (hsp_epoch_device_trim); until then the segment is *out*.
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

/* A segment and its first bytes that are pinned. */
struct hsp_pinned_segment {
    struct hsp_state_segment *s; /* NULL: none */
    size_t pinned;
};

/* Pinned at a time: copies lie in one such piece of a mapping. */
size_t hsp_pool_piece(const struct hsp_exec_env *env);
/* Takes @p, of which nothing is under way. @spare: its file becomes a spare. */
void hsp_pool_give(struct hsp_exec_env *env, struct hsp_pinned_segment p, bool spare);
/* Closes @p, without a look at its name: at once, or when it is unpinned. */
void hsp_pool_close(struct hsp_exec_env *env, struct hsp_pinned_segment p);
/* The segment of @key, if the pool has it and no other file has its name. */
struct hsp_pinned_segment hsp_pool_take(struct hsp_exec_env *env,
                                        const struct hsp_segment_key *key);
/* The smallest spare with @bytes. @ret_path: its file. */
struct hsp_pinned_segment hsp_pool_take_spare(struct hsp_exec_env *env, uint64_t bytes,
                                              char ret_path[HSP_SEGMENT_PATH]);
/* Makes spares of those of @job below layout @keep_plan. */
void hsp_pool_release(struct hsp_exec_env *env, uint32_t job, uint64_t keep_plan);
/* Deletes and closes all spares, and those whose names others have deleted. */
void hsp_pool_tidy(struct hsp_exec_env *env);
/* The same of all; files that are no spares stay. */
void hsp_pool_empty(struct hsp_exec_env *env);
/* Whether some are out that are still pinned. */
bool hsp_pool_has_out(struct hsp_exec_env *env);
/* Of those that are out unpins and closes what it can. */
void hsp_pool_unpin(struct hsp_exec_env *env);

#endif
