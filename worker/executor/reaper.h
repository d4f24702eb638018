/* Gives memory back on a thread of its own, in the order in which it comes: to unpin and unmap tens
 * of GiB takes seconds, and an agent waits 1 s for SEALED (worker/agent/obey.h).
 *
 * Example:   SEAL ends epoch 7, which has 40 GiB of state. Its threads are joined, the reaper gets
 *            the epoch, and SEALED is sent. Epoch 8 is prepared and sealed, too, while the state of
 *            epoch 7 is still being unmapped: the second SEALED does not wait for that either.
 * Purity:    shell (a thread, the lock of the state folder).
 * Threads:   any may give. An executor that lacks room in the folder waits while a reaper of the
 *            node works (worker/state/segment_free.h).
 * Ownership: a gift is part of what it gives back, so none needs memory of its own.
 * Bounds:    HSP_HEARTBEAT_LONG_MS for one gift, behind which the reaper hangs.
 */
#ifndef HSP_REAPER_H
#define HSP_REAPER_H
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

/* One call, which may free what the gift lies in. Zeros: not given. */
struct hsp_gift {
    struct hsp_gift *after;
    void (*work)(void *of);
    void *of;
    bool given; /* and not begun */
};

struct hsp_reaper {
    const char *dir;
    uint32_t long_ms;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t change;
    struct hsp_gift *first, **end;
    int64_t began_ns; /* the call that is made now; 0: none */
    int room;         /* descriptor of the folder while there is work, or will be; else -1 */
    bool keeps;       /* there will be */
    bool ends, has_thread;
    pthread_t thread;
};

/* @dir: the state folder, borrowed. HSP_ENOMEM: no thread; close all the same. */
enum hsp_status hsp_reaper_open(struct hsp_reaper *r, const char *dir, struct hsp_err *err);
/* Does all that was given, and ends. Of zeros: nothing. */
void hsp_reaper_close(struct hsp_reaper *r);
/* Has @work(@of) called. @g that was given and has not begun is not given again. Without @r, which
 * may be NULL, this is the call. */
void hsp_reaper_give(struct hsp_reaper *r, struct hsp_gift *g, void (*work)(void *of), void *of);
/* @on: an executor that lacks room waits from now on, until the same without @on and all that was
 * given: room comes with work that cannot be given yet. NULL is fine. */
void hsp_reaper_keep(struct hsp_reaper *r, bool on);
bool hsp_reaper_busy(struct hsp_reaper *r);  /* some of it is still to be done; of NULL: no */
bool hsp_reaper_hangs(struct hsp_reaper *r); /* the end of the process helps */

#endif
