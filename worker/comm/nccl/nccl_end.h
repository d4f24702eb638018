/* Ends communicators, in order or by an abort; one decision ends all of its communicators in one
 * group of calls.
 *
 * Order:   all members finalize a communicator, then all destroy it. Only where all of them will
 *          come: since 2.31 a destroy waits for every member of the host, without any limit.
 * Abort:   by one member alone, at once. An abort frees memory, for which CUDA may wait until the
 *          whole device is idle, so also for kernels of other communicators. Where those kernels
 *          wait for a lost peer, two aborts one after the other wait for ever (NVIDIA/nccl#1013).
 *          So one decision aborts all its links in one group: since 2.22 NCCL tells all their
 *          kernels to end before it frees anything. Older libraries abort in the call, in a group
 *          too: there each link aborts in its own thread, which has the same effect.
 * Example: rank 1 of 4 is lost. The epoch's three links with work under way go into one *crew*. The
 *          first link thread that comes takes the two others, whose calls are free, and aborts all
 *          three. A link whose call is under way is left to its own thread.
 * Threads: of links; crews by any. */
#ifndef HSP_NCCL_END_H
#define HSP_NCCL_END_H
#include <time.h>

#include "worker/comm/nccl/nccl_link.h"

/* Marks a link BROKEN with a reason; the first reason stays. */
void hsp_link_break(struct hsp_link *l, const struct hsp_err *why);
/* Waits for a call of @c that goes on in the background. The abort of the link ends the wait, or
 * @until (NULL: never): then NCCL_IN_PROGRESS. */
enum nccl_result hsp_link_settle(struct hsp_link *l, struct nccl_comm *c, enum nccl_result r,
                                 const struct timespec *until);
/* Moment of @clock that is @ms away. */
uint64_t hsp_nccl_now_ms(void); /* of the monotonic clock */
struct timespec hsp_link_after_ms(uint32_t ms, clockid_t clock);
/* Tells the watchers of a broken link the reason. */
void hsp_link_tell(struct hsp_link *l);

/* Opens a crew for an abort, to which links are added one by one. NULL: there is no memory, or NCCL
 * is too old: then each link added ends by itself. */
struct hsp_link_crew *hsp_crew_open(const struct hsp_nccl_lib *lib);
/* Adds a link that is to end, also with work under way; @why: the error of its operations. */
void hsp_crew_add(struct hsp_link_crew *w, struct hsp_link *l, const struct hsp_err *why);
/* Aborts all links of the crew, without waiting, and frees @w. NULL is fine. */
void hsp_crew_abort(struct hsp_link_crew *w);
/* Ends a link, in its thread; @order: nothing is under way. */
void hsp_link_end_here(struct hsp_link *l, bool order);
/* Waits until the device has no more work of the link. Returns false if its thread is still in the
 * library, which destroys a communicator without work. */
bool hsp_link_await(struct hsp_link *l);

#endif
