/* Frees deleted segments. The happy path: the file is open when its name goes, so unlink() frees
 * nothing; a thread closes it.
 *
 * Possible failure modes: no descriptor, no lock or no thread (the caller frees, which takes its
 * time); a process still maps the file (its memory is freed when that ends, and no waiter waits for
 * it). */
#include "worker/state/segment_free.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MUCH   ((off_t)64 << 20) /* less is freed by its caller */
#define NAP_NS 5000000           /* between two looks at the lock */

_Static_assert(sizeof(void *) >= 8, "two descriptors stand in the argument of a thread");

/* Closes the file, whose memory goes with it, then the folder, for whose lock others wait. */
static void *free_memory(void *both)
{
    (void)close((int)((uintptr_t)both & UINT32_MAX));
    (void)close((int)((uintptr_t)both >> 32));
    return NULL;
}

int hsp_segment_room_comes(const char *dir)
{
    int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0 && flock(folder, LOCK_SH) != 0) {
        (void)close(folder);
        return -1;
    }
    return folder;
}

/* Opens the file @path and locks its folder. Allocates nothing: state is deleted where memory is
 * short. NULL: the memory of @path goes with its name. */
static void *hold(const char *dir, const char *path)
{
    struct stat sb;
    if (lstat(path, &sb) != 0 || !S_ISREG(sb.st_mode) || sb.st_size < MUCH) {
        return NULL;
    }
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int folder = hsp_segment_room_comes(dir);
    if (file > 0 && folder > 0) {
        return (void *)((uintptr_t)folder << 32 | (uintptr_t)file);
    }
    if (file >= 0) {
        (void)close(file);
    }
    if (folder >= 0) {
        (void)close(folder);
    }
    return NULL;
}

int hsp_segment_unlink(const char *dir, const char *path)
{
    void *both = hold(dir, path);
    int rc = unlink(path), e = errno;
    pthread_t thread;
    if (both != NULL && pthread_create(&thread, NULL, free_memory, both) == 0) {
        (void)pthread_detach(thread);
    } else if (both != NULL) {
        (void)free_memory(both);
    }
    errno = e;
    return rc;
}

/* Polls the lock, since a wait in the kernel cannot be ended. */
void hsp_segment_await_free(const char *dir, const struct hsp_segment_stop *stop)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        while (flock(folder, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR) &&
               !hsp_segment_stopped(stop)) {
            (void)nanosleep(&nap, NULL);
        }
        (void)close(folder);
    }
}
