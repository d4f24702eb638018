/* Appends records to event files. The happy path is open, append, close: a job writes a few hundred
 * bytes a step, and no descriptor is kept. Possible failure modes: no space or a folder that cannot
 * be written; the file is cut back to whole records, training goes on. */
#include "daemon/app/store/tensorboard_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/app/store/tensorboard_event.h"

static enum hsp_status failure(const char *path, struct hsp_err *err)
{
    int e = errno;
    enum hsp_status st = e == ENOSPC || e == EDQUOT  ? HSP_ENOSPC
                         : e == EACCES || e == EPERM ? HSP_EPERM
                                                     : HSP_EIO;
    return hsp_err_set(err, st, e, "%s", path);
}

/* The path of the file; its folders are made. Its owner's umask decides on its readers. */
static enum hsp_status make_path(const char *state_dir, const char *job, int64_t start_s,
                                 char ret[PATH_MAX], struct hsp_err *err)
{
    char host[HOST_NAME_MAX + 1] = "localhost";
    for (int depth = 0; depth < 3; depth++) {
        int n = depth == 0 ? snprintf(ret, PATH_MAX, "%s/jobs", state_dir)
                           : snprintf(ret, PATH_MAX, "%s/jobs/%s%s", state_dir, job,
                                      depth == 1 ? "" : "/tb");
        if (n >= PATH_MAX) {
            return hsp_err_set(err, HSP_ELIMIT, 0, "state_dir: the path is too long");
        }
        if (mkdir(ret, 0777) != 0 && errno != EEXIST) {
            return failure(ret, err);
        }
    }
    (void)gethostname(host, sizeof host); /* else it stays as above, perhaps cut */
    host[sizeof host - 1] = '\0';
    int n = snprintf(ret, PATH_MAX, "%s/jobs/%s/tb/events.out.tfevents.%010" PRId64 ".%s.%d",
                     state_dir, job, start_s, host, (int)getpid());
    return n < PATH_MAX ? HSP_OK : hsp_err_set(err, HSP_ELIMIT, 0, "state_dir: too long");
}

static bool write_all(int fd, const struct hsp_buf *b)
{
    for (size_t done = 0; done < b->len;) {
        ssize_t n = write(fd, b->data + done, b->len - done);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

enum hsp_status hsp_tb_append(const char *state_dir, const char *job, int64_t start_s,
                              const struct hsp_buf *records, struct hsp_err *err)
{
    char path[PATH_MAX];
    struct stat before;
    struct hsp_buf head;
    enum hsp_status st = make_path(state_dir, job, start_s, path, err);
    if (st != HSP_OK) {
        return st;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) {
        return failure(path, err);
    }
    hsp_buf_init(&head, 256);
    if (fstat(fd, &before) != 0) {
        st = failure(path, err);
    } else {
        if (before.st_size == 0) {
            hsp_tb_put_version(&head, (double)start_s);
        }
        if (head.failed || !write_all(fd, &head) || !write_all(fd, records)) {
            st = failure(path, err);
            if (ftruncate(fd, before.st_size) != 0) {
                (void)hsp_err_wrap(err, "torn record"); /* readers stop there */
            }
        }
    }
    hsp_buf_fini(&head);
    if (close(fd) != 0 && st == HSP_OK) {
        st = failure(path, err);
    }
    return st;
}
