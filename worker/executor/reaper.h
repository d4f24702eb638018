/* Frees memory on a thread of its own, in the order in which the memory was given: to unpin and
 * unmap tens of GiB takes seconds, and an agent waits only 1 s for SEALED (worker/agent/obey.h).
 *
 * Example:   SEAL ends epoch 7, which has 40 GiB of state. Its threads are joined, the reaper gets
 *            the epoch, and SEALED is sent. Epoch 8 is prepared and ended by another SEAL while the
 *            state of epoch 7 is still being unmapped: the second answer SEALED does not wait for
 *            the unmapping either.
 * Purity:    shell (a thread, the lock of the state folder).
 * Threads:   any thread may give memory to a reaper. An executor that lacks room in the folder
 *            waits while any reaper of the node works (worker/state/segment_free.h).
 * Ownership: the struct of a gift is part of the memory that the gift frees, so it needs no
 * allocation.
 * Bounds:    if the call of one gift takes longer than HSP_HEARTBEAT_LONG_MS, the reaper counts as
 *            hanging.
 */
#ifndef HSP_REAPER_H
#define HSP_REAPER_H
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

/* One call for the reaper. The call may free the memory in which this struct is. Zeros: not
 * given. */
struct hsp_gift {
    struct hsp_gift *after;
    void (*work)(void *of);
    void *of;
    bool given; /* was given, and its call has not begun */
};

struct hsp_reaper {
    const char *dir;
    uint32_t long_ms;
    pthread_mutex_t lock; /* protects all fields below */
    pthread_cond_t change;
    struct hsp_gift *first, **end;
    int64_t began_ns; /* begin of the running call; 0: none */
    int room;         /* descriptor of the folder while there is or will be work; else -1 */
    bool keeps;       /* there will be work */
    bool ends, has_thread;
    pthread_t thread;
};

/* Opens @r. @dir: the state folder, borrowed. Returns HSP_ENOMEM if there is no thread; close @r in
 * that case, too. */
enum hsp_status hsp_reaper_open(struct hsp_reaper *r, const char *dir, struct hsp_err *err);
/* Makes all calls that were given, and ends the thread. Does nothing if @r is zeros. */
void hsp_reaper_close(struct hsp_reaper *r);
/* Has the reaper call @work(@of). If @g was given and its call has not begun, @g is not given
 * again. @r may be NULL: then this function calls @work itself. */
void hsp_reaper_give(struct hsp_reaper *r, struct hsp_gift *g, void (*work)(void *of), void *of);
/* Makes executors that lack room wait (@on), because work that cannot be given yet will free room.
 * The wait ends when this function was called with @on false and all given calls are made. @r may
 * be NULL. */
void hsp_reaper_keep(struct hsp_reaper *r, bool on);
/* Returns true if given calls are still to be made. Returns false if @r is NULL. */
bool hsp_reaper_busy(struct hsp_reaper *r);
/* Returns true if a call hangs. Then the process has to be killed. */
bool hsp_reaper_hangs(struct hsp_reaper *r);

#endif
