/* Uses a file system on a thread of its own, so that one that does not answer holds up no epoch.
 *
 * Example:   checkpoint.path is NFS, mounted hard, whose server is down. The keeper thread has this
 *            thread write a part of a checkpoint, waits for its time, says that there is no answer
 *            and goes on with the steps. The thread hangs until the server is back, or the process
 *            is killed; then it drops what it had. Until then nobody begins at that path again.
 * Purity:    shell (a thread).
 * Threads:   a table: any; one that is open: its owner's.
 * Ownership: zeros are an open table; close. What a thread works with is dropped on that thread,
 *            for that may hang too.
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
/* Without an answer: the file server is down. Ranks sync at the same time, so one that is slow
 * answers late: 700 ranks that each sync 16 MiB at 100 MB/s. */
#define HSP_DISK_MS 120000u

struct hsp_disk_thread; /* opaque */

struct hsp_disk_threads {
    pthread_mutex_t lock;                          /* the following */
    struct hsp_disk_thread *one[HSP_DISK_THREADS]; /* NULL: free */
};

typedef enum hsp_status hsp_disk_fn(void *ctx, struct hsp_err *err);

/* How long a caller waits: @ms; where @over, asked meanwhile, says that the epoch is over, a
 * moment. Behind @ms nobody begins at the path until there is an answer. */
struct hsp_disk_wait {
    uint32_t ms;
    bool (*over)(void *of); /* NULL: it is never over */
    void *of;
    bool deletes; /* a disk that works may take longer: others may begin at the path meanwhile */
};

/* A thread for what is done at @path, which may be any name, with @ctx, which it gives to @drop at
 * its end. After an error @ctx is the caller's. HSP_ETIMEDOUT: another one has no answer from @path
 * yet; HSP_ELIMIT: too many others are not over; HSP_ENOMEM: no memory, or no thread. */
enum hsp_status hsp_disk_open(struct hsp_disk_threads *in, const char *path, void *ctx,
                              void (*drop)(void *ctx), struct hsp_disk_thread **ret,
                              struct hsp_err *err);
/* Whether a thread at @path for which nobody waits any more does more than delete. */
bool hsp_disk_writes(struct hsp_disk_threads *in, const char *path);
/* Has the thread call @fn, and returns what that returns. HSP_ETIMEDOUT: there is no answer, *err
 * says since when. From then on the thread alone has what it works with, and every later call
 * returns that. */
enum hsp_status hsp_disk_do(struct hsp_disk_thread *k, hsp_disk_fn *fn,
                            const struct hsp_disk_wait *wait, struct hsp_err *err);
/* Ends the thread, and waits for that. NULL allowed; returns NULL. */
struct hsp_disk_thread *hsp_disk_end(struct hsp_disk_thread *k, const struct hsp_disk_wait *wait);
void hsp_disk_threads_close(struct hsp_disk_threads *in); /* waits for no thread */

#endif
