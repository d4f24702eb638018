/* Frees the memory of deleted segments on a thread of its own: tens of GiB take seconds, and an
 * executor that waits for them looks dead.
 *
 * Example:   RELEASE deletes 8 files of 30 GiB each. The names of the files are gone at once, and
 *            the executor sends RELEASED. The memory becomes free later. An executor that needs 60
 *            GiB of the folder meanwhile, and finds less room there, waits until the memory is
 *            free.
 * Purity:    shell (files, a thread for each file).
 * Threads:   any, in all processes that share the folder. The folder is locked (flock, shared)
 *            while memory is freed. A process that ends frees the rest first. */
#ifndef HSP_SEGMENT_FREE_H
#define HSP_SEGMENT_FREE_H
#include <stdbool.h>
#include <stddef.h>

/* Cancels long work on a segment: the work asks it again and again. */
struct hsp_segment_stop {
    bool (*over)(void *of); /* true: give up */
    void *of;
};

/* @stop NULL: the work goes on to its end. */
static inline bool hsp_segment_stopped(const struct hsp_segment_stop *stop)
{
    return stop != NULL && stop->over(stop->of);
}

/* Deletes the file @path in folder @dir, as unlink does. 0 means that the name is gone; the memory
 * may be freed later. */
int hsp_segment_unlink(const char *dir, const char *path);
/* Announces that room in @dir becomes free soon. A process that lacks room in @dir waits until the
 * returned descriptor is closed. Returns a negative number if it could not announce. */
int hsp_segment_room_comes(const char *dir);
/* Waits until the memory of all segments that were deleted from @dir in this way is free, or until
 * @stop ends the wait. */
void hsp_segment_await_free(const char *dir, const struct hsp_segment_stop *stop);

#endif
