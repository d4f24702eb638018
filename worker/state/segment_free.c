/* The happy path: the file is open when its name goes, so unlink() frees nothing; a thread closes it.
 *
 * Possible failure modes: no descriptor, no lock or no thread (the caller frees, which takes its time);
 * somebody still maps the file (its memory is freed when that ends, and nobody waits for it). */
#include "worker/state/segment_free.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MUCH ((off_t)64 << 20) /* is freed in 7 ms */

struct freeing {
    int file, folder; /* -1: not open; the folder is locked */
};

static void *free_memory(void *arg)
{
    struct freeing *f = arg;
    if (f->file >= 0) {
        (void)close(f->file);
    }
    if (f->folder >= 0) {
        (void)close(f->folder); /* behind that: others wait for the lock */
    }
    free(f);
    return NULL;
}

/* NULL: the memory of @path goes with its name. */
static struct freeing *hold(const char *dir, const char *path)
{
    struct stat sb;
    if (lstat(path, &sb) != 0 || !S_ISREG(sb.st_mode) || sb.st_size < MUCH) {
        return NULL;
    }
    struct freeing *f = malloc(sizeof *f);
    if (f == NULL) {
        return NULL;
    }
    f->file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    f->folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->file < 0 || f->folder < 0 || flock(f->folder, LOCK_SH) != 0) {
        (void)free_memory(f);
        return NULL;
    }
    return f;
}

int hsp_segment_unlink(const char *dir, const char *path)
{
    struct freeing *f = hold(dir, path);
    int rc = unlink(path), e = errno;
    pthread_t thread;
    if (f != NULL && pthread_create(&thread, NULL, free_memory, f) == 0) {
        (void)pthread_detach(thread);
    } else if (f != NULL) {
        (void)free_memory(f);
    }
    errno = e;
    return rc;
}

void hsp_segment_await_free(const char *dir)
{
    int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        while (flock(folder, LOCK_EX) != 0 && errno == EINTR) {
        }
        (void)close(folder);
    }
}
