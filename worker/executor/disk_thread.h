/* Makes calls to a file system on a thread of their own, so that a call that hangs (a file server
 * that is down) stops no epoch.
 *
 * Example:   checkpoint.path is NFS, mounted hard, whose server is down. The replication thread has
 *            a disk thread write a part of a checkpoint, waits until the time limit, reports that
 *            there is no answer and goes on with the steps. The disk thread hangs until the server
 *            is back, then it frees its data and ends. Until then no other thread may begin work at
 *            that path.
 * Purity:    shell (a thread).
 * Threads:   any thread may use the table; only the thread that opened a disk thread may use it.
 * Ownership: a table of zeros is open; close it at the end. A disk thread frees its data itself,
 *            because freeing them (closing files) may hang, too.
 * Bounds:    HSP_DISK_THREADS at a time. Three epochs need a thread each for a mark and for a
 *            checkpoint; the other threads may hang at paths that do not answer.
 */
#ifndef HSP_DISK_THREAD_H
#define HSP_DISK_THREAD_H
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

#define HSP_DISK_THREADS 12u
/* A file server that does not answer for this time is down. Ranks sync at the same time, so a slow
 * server answers late: 700 ranks that each sync 16 MiB, at 100 MB/s in all, take this time. */
#define HSP_DISK_MS 120000u

struct hsp_disk_thread; /* opaque */

struct hsp_disk_threads {
    pthread_mutex_t lock;                          /* protects the table below */
    struct hsp_disk_thread *one[HSP_DISK_THREADS]; /* NULL: free */
};

typedef enum hsp_status hsp_disk_fn(void *ctx, struct hsp_err *err);

/* The time for which a caller waits: at most @ms, and only a moment longer once @over, which is
 * called meanwhile, returns true. After @ms without an answer no other thread may begin at the path
 * until the hanging call has returned. */
struct hsp_disk_wait {
    uint32_t ms;
    bool (*over)(void *of); /* NULL: the epoch is never over */
    void *of;
    /* The call deletes files. A working disk may take longer than @ms for that, so other threads
     * may begin at the path before the call has returned. */
    bool deletes;
};

/* Starts a thread for work at @path, which may be any name. The thread passes @ctx to its calls,
 * and to @drop at its end. After an error @ctx still belongs to the caller. Returns HSP_ETIMEDOUT
 * if a call of another thread at @path hangs, HSP_ELIMIT if HSP_DISK_THREADS threads have not ended
 * yet, and HSP_ENOMEM if there is no memory or no thread. */
enum hsp_status hsp_disk_open(struct hsp_disk_threads *in, const char *path, void *ctx,
                              void (*drop)(void *ctx), struct hsp_disk_thread **ret,
                              struct hsp_err *err);
/* Returns true if a thread at @path whose caller has stopped waiting is in a call that writes, i.e.
 * does not only delete. */
bool hsp_disk_writes(struct hsp_disk_threads *in, const char *path);
/* Has the thread call @fn, and returns the result of @fn. Returns HSP_ETIMEDOUT if the call does
 * not return in time; *err says since when it hangs. From then on only the thread owns its data,
 * and every later hsp_disk_do returns HSP_ETIMEDOUT. */
enum hsp_status hsp_disk_do(struct hsp_disk_thread *k, hsp_disk_fn *fn,
                            const struct hsp_disk_wait *wait, struct hsp_err *err);
/* Ends the thread and waits for its end as @wait says. @k may be NULL. Returns NULL. */
struct hsp_disk_thread *hsp_disk_end(struct hsp_disk_thread *k, const struct hsp_disk_wait *wait);
/* Closes the table; waits for no thread. */
void hsp_disk_threads_close(struct hsp_disk_threads *in);

#endif
