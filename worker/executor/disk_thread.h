/* Uses a file system on a thread of its own, so that a file system without an answer holds up no
 * epoch.
 *
 * Example:   checkpoint.path is NFS, mounted hard, whose server is down. The replication thread has
 *            a disk thread write a part of a checkpoint, waits for the time limit, reports that
 *            there is no answer and goes on with the steps. The disk thread hangs until the server
 *            is back, or until the process is killed; then the disk thread drops its data. Until
 *            then no other thread begins at that path.
 * Purity:    shell (a thread).
 * Threads:   any thread may use the table; an open disk thread belongs to its owner's thread.
 * Ownership: zeros are an open table; close the table. The data of a disk thread are dropped on
 *            that thread, for dropping them may hang too.
 * Bounds:    HSP_DISK_THREADS at a time: three epochs, each with a mark and a checkpoint, and paths
 *            that do not answer.
 */
#ifndef HSP_DISK_THREAD_H
#define HSP_DISK_THREAD_H
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

#define HSP_DISK_THREADS 12u
/* A file server without an answer for so long is down. Ranks sync at the same time, so a slow
 * server answers late: 700 ranks that each sync 16 MiB at 100 MB/s take that long. */
#define HSP_DISK_MS 120000u

struct hsp_disk_thread; /* opaque */

struct hsp_disk_threads {
    pthread_mutex_t lock;                          /* of the table below */
    struct hsp_disk_thread *one[HSP_DISK_THREADS]; /* NULL: free */
};

typedef enum hsp_status hsp_disk_fn(void *ctx, struct hsp_err *err);

/* The time for which a caller waits: @ms, or a moment if @over, called meanwhile, says that the
 * epoch is over. After @ms no thread begins at the path until there is an answer. */
struct hsp_disk_wait {
    uint32_t ms;
    bool (*over)(void *of); /* NULL: the epoch is never over */
    void *of;
    /* The call deletes files. A working disk may take longer than @ms for that, so other threads
     * may begin at the path meanwhile. */
    bool deletes;
};

/* Opens a thread for work at @path, which may be any name. The thread works with @ctx, and gives
 * @ctx to @drop at its end. After an error @ctx is the caller's. HSP_ETIMEDOUT: another thread has
 * no answer from @path yet; HSP_ELIMIT: too many other threads are not over; HSP_ENOMEM: no memory,
 * or no thread. */
enum hsp_status hsp_disk_open(struct hsp_disk_threads *in, const char *path, void *ctx,
                              void (*drop)(void *ctx), struct hsp_disk_thread **ret,
                              struct hsp_err *err);
/* Returns true if a thread at @path that has no waiting caller any more does more than delete. */
bool hsp_disk_writes(struct hsp_disk_threads *in, const char *path);
/* Has the thread call @fn, and returns the result of @fn. HSP_ETIMEDOUT: there is no answer, and
 * *err says since when. From then on the thread alone owns its data, and every later call returns
 * HSP_ETIMEDOUT. */
enum hsp_status hsp_disk_do(struct hsp_disk_thread *k, hsp_disk_fn *fn,
                            const struct hsp_disk_wait *wait, struct hsp_err *err);
/* Ends the thread and waits for its end. @k may be NULL. Returns NULL. */
struct hsp_disk_thread *hsp_disk_end(struct hsp_disk_thread *k, const struct hsp_disk_wait *wait);
/* Closes the table; waits for no thread. */
void hsp_disk_threads_close(struct hsp_disk_threads *in);

#endif
