/* Writes the rows of batches to the disk and makes the packages of their PREPAREs, on a pool
 * thread.
 *
 * All batches that wait are written in one transaction, so a slow disk makes groups, not queues.
 * Then their packages are made piece by piece: ready packages are sent while the next ones are
 * made, for those of a thousand devices take seconds. Example: packages of 4 ms for five devices
 * leave as three after 12 ms and two after 20 ms.
 *
 * Before rows are written, and now and then without, the store is looked for at its path: rows
 * written into one that was moved or deleted would be lost.
 *
 * Purity:    shell (libuv, SQLite, clock).
 * Bounds:    16384 batches wait for a disk that takes nothing; with more the process ends. */
#ifndef HSP_COMMIT_H
#define HSP_COMMIT_H

struct hsp_app;

/* Starts writing the waiting rows, unless a thread is at it or the disk is to be tried later. */
void hsp_app_write_on(struct hsp_app *a);
/* The same, and where nothing waits the store is only looked for: hsp_app_store_stalled when it is
 * not in its place, hsp_app_unstuck when it is there again. */
void hsp_app_look_for_store(struct hsp_app *a);

#endif
