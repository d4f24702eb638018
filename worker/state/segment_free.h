/* Frees the memory of deleted segments on a thread of its own: a GiB takes 0.1 s, and an executor that waits
 * for tens of them looks dead.
 *
 * Example:   RELEASE deletes 8 files of 30 GiB each. Their names are gone at once, and RELEASED is sent. All
 *            memory is free 26 s later. An executor that wants 60 GiB of the folder meanwhile, and finds less
 *            room there, waits for that.
 * Purity:    shell (files, a thread for each file).
 * Threads:   any, in all processes that share the folder. It is locked (flock, shared) while memory is freed. A
 *            process that ends frees what is left first.
 */
#ifndef HSP_SEGMENT_FREE_H
#define HSP_SEGMENT_FREE_H

/* As unlink(@path), of a file in folder @dir: what does not fail is that no name is left. */
int hsp_segment_unlink(const char *dir, const char *path);
/* Waits until the memory of all that was so deleted from @dir is free. */
void hsp_segment_await_free(const char *dir);

#endif
