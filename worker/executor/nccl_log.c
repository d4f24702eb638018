#include "worker/executor/nccl_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/base/hash.h"

#define CHUNK ((size_t)64 << 10)

struct hsp_nccllog {
    pthread_mutex_t lock; /* protects the fields below */
    int fd;
    off_t at;           /* bytes read so far */
    uint32_t n, untold; /* lines logged, and left out, by this hsp_nccllog_tell */
    uint32_t next;
    uint64_t told[HSP_NCCLLOG_LINES]; /* hashes of the last lines, in a ring */
};

struct hsp_nccllog *hsp_nccllog_open(void)
{
    static const char *const names[] = {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"};
    struct hsp_nccllog *l = NULL;
    char path[64];
    for (int i = 0; i < 3; i++) {
        if (getenv(names[i]) != NULL) {
            return NULL;
        }
    }
    int fd = memfd_create("hspmd-nccl", MFD_CLOEXEC);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || (l = calloc(1, sizeof *l)) == NULL || setenv(names[2], path, 1) != 0 ||
        setenv(names[1], "INIT,BOOTSTRAP,NET", 1) != 0 || setenv(names[0], "INFO", 1) != 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        free(l);
        return NULL;
    }
    (void)pthread_mutex_init(&l->lock, NULL); /* cannot fail on Linux */
    l->fd = fd;
    return l;
}

struct hsp_nccllog *hsp_nccllog_close(struct hsp_nccllog *l)
{
    if (l != NULL) {
        (void)close(l->fd);
        (void)pthread_mutex_destroy(&l->lock);
        free(l);
    }
    return NULL;
}

const char *hsp_nccllog_line(const char *line, bool *ret_warns)
{
    const char *info = strstr(line, " NCCL INFO "), *warn = strstr(line, " NCCL WARN ");
    *ret_warns = warn != NULL;
    if (warn != NULL) {
        return warn + strlen(" NCCL WARN ");
    }
    info = info != NULL ? info + strlen(" NCCL INFO ") : "";
    bool chose = strncmp(info, "Bootstrap", 9) == 0 || strncmp(info, "NET/", 4) == 0;
    return (chose && (strstr(info, ": Using") != NULL || strstr(info, ": No device") != NULL)) ||
                   strncmp(info, "Using network ", 14) == 0
               ? info
               : NULL;
}

static void tell_line(struct hsp_nccllog *l, const char *line, struct hsp_logger *log)
{
    bool warns = false, told = false;
    const char *text = hsp_nccllog_line(line, &warns);
    uint64_t h = text != NULL ? hsp_hash_str(text) : 0;
    for (uint32_t i = 0; i < HSP_NCCLLOG_LINES && text != NULL; i++) {
        told = told || l->told[i] == h;
    }
    if (text == NULL || told) {
        return;
    }
    if (l->n == HSP_NCCLLOG_LINES) {
        l->untold++;
        return;
    }
    l->told[l->next++ % HSP_NCCLLOG_LINES] = h;
    l->n++;
    hsp_log(log, warns ? HSP_LOG_WARN : HSP_LOG_INFO, "nccl", "%.400s", text);
}

void hsp_nccllog_tell(struct hsp_nccllog *l, struct hsp_logger *log)
{
    char *chunk = l != NULL ? malloc(CHUNK + 1) : NULL;
    ssize_t n = 0;
    if (chunk == NULL) {
        return; /* the next call may get memory */
    }
    (void)pthread_mutex_lock(&l->lock);
    l->n = l->untold = 0;
    while ((n = pread(l->fd, chunk, CHUNK, l->at)) > 0) {
        chunk[n] = '\0';
        char *line = chunk, *end;
        while ((end = memchr(line, '\n', (size_t)(chunk + n - line))) != NULL) {
            *end = '\0';
            tell_line(l, line, log);
            line = end + 1;
        }
        l->at += line > chunk ? line - chunk : (n == (ssize_t)CHUNK ? n : 0);
        if (n < (ssize_t)CHUNK) {
            break; /* the rest of this line is not written yet */
        }
    }
    if (l->untold > 0) {
        hsp_log(log, HSP_LOG_WARN, "nccl", "%u more lines are not logged", l->untold);
    }
    if (l->at > 0) { /* deletes the text; NCCL appends; on failure it stays */
        (void)fallocate(l->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, l->at);
    }
    (void)pthread_mutex_unlock(&l->lock);
    free(chunk);
}
