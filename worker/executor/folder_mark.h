/* Marks the folder of a job (worker/state/ckpt_sign.h) on a thread of its own, so that a file system that does not
 * answer holds up no epoch.
 *
 * Example:   checkpoint.path is NFS, mounted hard, whose server is down. mkdir hangs until the server is back, in a
 *            thread that nobody waits for. The epoch waits for its time, says so in the log and trains. When the
 *            server is back the mark is made, late.
 * Purity:    shell (files, a thread for each mark).
 * Threads:   any of the process.
 * Ownership: zeros are open; close. A thread that hangs keeps what it needs.
 * Bounds:    HSP_FOLDER_MARKS threads at a time.
 */
#ifndef HSP_FOLDER_MARK_H
#define HSP_FOLDER_MARK_H
#include <pthread.h>

#include "worker/state/ckpt.h"

#define HSP_FOLDER_MARKS 4u

struct hsp_folder_marking;

struct hsp_folder_marks {
    pthread_mutex_t lock; /* the following */
    struct hsp_folder_marking
        *one[HSP_FOLDER_MARKS]; /* under way, or done and known so; NULL: free */
};

/* Marks @dir as the folder of the job of @us (job_id, whose.cluster), and waits for that at most @ms. HSP_OK: it is
 * marked, or was by an earlier call. HSP_AGAIN: there is no answer yet; a later call for this job waits for the same
 * thread, and no more. HSP_ELIMIT: too many others do not answer. HSP_ENOMEM; errors of hsp_ckpt_sign, and a later
 * call tries again. */
enum hsp_status hsp_folder_mark(struct hsp_folder_marks *m, const char *dir,
                                const struct hsp_ckpt_info *us, uint32_t ms, struct hsp_err *err);
void hsp_folder_marks_close(struct hsp_folder_marks *m); /* waits for no thread */

#endif
