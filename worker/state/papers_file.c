/* Keeps papers in files. The happy path: the papers of a job are replaced as a whole file and
 * verified at each read.
 *
 * Possible failure modes: damage (refused); a writer that died (its file is deleted by the next
 * scan). */
#include "worker/state/papers_file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/str.h"
#include "proto/host/file_io.h"
#include "proto/wire/papers.h"
#include "worker/state/folder.h"

#define BEGIN "job-"
#define END   ".papers"

static enum hsp_status path_of(const char *dir, uint32_t job, char ret[PATH_MAX],
                               struct hsp_err *err)
{
    int n = snprintf(ret, PATH_MAX, "%s/" BEGIN "%" PRIu32 END, dir, job);
    return n < PATH_MAX ? HSP_OK
                        : hsp_err_set(err, HSP_ELIMIT, 0, "the state folder's path is too long");
}

static enum hsp_status verify(uint32_t job, const void *data, size_t len, struct hsp_err *err)
{
    struct hsp_papers_head h;
    enum hsp_status st = hsp_papers_look(data, len, &h, err);
    if (st == HSP_OK && h.job != job) {
        st = hsp_err_set(err, HSP_EDIGEST, 0,
                         "job record of job %" PRIu32 " in place of that of job %" PRIu32, h.job,
                         job);
    }
    return st;
}

enum hsp_status hsp_papers_file_write(const char *dir, uint32_t job, const void *data, size_t len,
                                      struct hsp_err *err)
{
    char path[PATH_MAX];
    enum hsp_status st = path_of(dir, job, path, err);
    st = st == HSP_OK ? verify(job, data, len, err) : st;
    return st == HSP_OK ? hsp_file_write(path, data, len, 0600, err) : st;
}

enum hsp_status hsp_papers_file_read(const char *dir, uint32_t job, uint8_t **ret, size_t *ret_len,
                                     struct hsp_err *err)
{
    char path[PATH_MAX];
    uint8_t *data = NULL;
    size_t len = 0;
    enum hsp_status st = path_of(dir, job, path, err);
    st = st == HSP_OK ? hsp_file_read_own(path, HSP_PAPERS_MAX, &data, &len, err) : st;
    if (st == HSP_OK) {
        st = verify(job, data, len, err);
        st = st == HSP_OK ? HSP_OK : hsp_err_wrap(err, "%s", path);
    }
    if (st != HSP_OK) {
        free(data);
        return st;
    }
    *ret = data;
    *ret_len = len;
    return HSP_OK;
}

enum hsp_status hsp_papers_file_remove(const char *dir, uint32_t job, struct hsp_err *err)
{
    char path[PATH_MAX];
    enum hsp_status st = path_of(dir, job, path, err);
    if (st == HSP_OK && unlink(path) != 0 && errno != ENOENT) {
        st = hsp_err_set(err, HSP_EIO, errno, "cannot remove %s", path);
    }
    return st;
}

/* Gets the job of a file name. *ret_rest: the letters after ".papers", "" if there are none.
 * Returns false if it is another file. */
static bool job_of(const char *name, uint32_t *ret, const char **ret_rest)
{
    const char *digits = name + strlen(BEGIN), *end = strstr(name, END);
    char text[16];
    uint64_t job;
    if (strncmp(name, BEGIN, strlen(BEGIN)) != 0 || end == NULL || end <= digits ||
        (size_t)(end - digits) >= sizeof(text)) {
        return false;
    }
    (void)snprintf(text, sizeof(text), "%.*s", (int)(end - digits), digits);
    *ret_rest = end + strlen(END);
    bool good = hsp_parse_u64(text, &job) && job <= UINT32_MAX;
    *ret = good ? (uint32_t)job : 0;
    return good && (**ret_rest == '\0' || **ret_rest == '.');
}

enum hsp_status hsp_papers_file_each(const char *dir, hsp_papers_file_fn *fn, void *ctx,
                                     struct hsp_err *err)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    if (d == NULL) {
        int no = errno;
        return hsp_err_set(err,
                           no == ENOENT                                   ? HSP_ENOENT
                           : no == ENOMEM || no == EMFILE || no == ENFILE ? HSP_ENOMEM
                                                                          : HSP_EIO,
                           no, "state directory %s", dir);
    }
    while ((e = readdir(d)) != NULL) {
        const char *rest;
        uint32_t job;
        if (!job_of(e->d_name, &job, &rest) || hsp_is_folder(dirfd(d), e->d_name)) {
            continue;
        }
        if (rest[0] == '\0') {
            fn(ctx, job);
        } else {
            (void)unlinkat(dirfd(d), e->d_name, 0); /* the next call tries again */
        }
    }
    (void)closedir(d); /* read only */
    return HSP_OK;
}
