/* Frees the memory of deleted segments on a thread of its own: tens of GiB take seconds, and an
 * executor that waits for them looks dead.
 *
 * Example:   RELEASE deletes 8 files of 30 GiB each. Their names are gone at once, and RELEASED is
 *            sent. The memory is free later. An executor that wants 60 GiB of the folder meanwhile,
 *            and finds less room there, waits for that.
 * Purity:    shell (files, a thread for each file).
 * Threads:   any, in all processes that share the folder. The folder is locked (flock, shared)
 *            while memory is freed. A process that ends frees the rest first. */
#ifndef HSP_SEGMENT_FREE_H
#define HSP_SEGMENT_FREE_H
#include <stdbool.h>
#include <stddef.h>

/* Ends long work on a segment: asked again and again meanwhile. */
struct hsp_segment_stop {
    bool (*over)(void *of); /* true: give up */
    void *of;
};

/* @stop NULL: the work goes on to its end. */
static inline bool hsp_segment_stopped(const struct hsp_segment_stop *stop)
{
    return stop != NULL && stop->over(stop->of);
}

/* As unlink(@path), of a file in folder @dir: 0 means that the name is gone; memory may be freed
 * later. */
int hsp_segment_unlink(const char *dir, const char *path);
/* Announces that room in @dir comes free soon: until the descriptor that it returns is closed, a
 * process that lacks room in @dir waits. Below 0: not announced. */
int hsp_segment_room_comes(const char *dir);
/* Waits until the memory of all segments so deleted from @dir is free, or @stop says so. */
void hsp_segment_await_free(const char *dir, const struct hsp_segment_stop *stop);

#endif
