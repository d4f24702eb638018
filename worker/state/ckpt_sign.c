/* Marks the folder of a job. The name of the file tells everything, so no content could be half
 * written, and each job of each cluster has a file of its own. */
#include "worker/state/ckpt_sign.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/state/ckpt_files.h"
#include "worker/state/io_error.h"

static void sign_name(const struct hsp_ckpt_info *us, char ret[HSP_CKPT_NAME])
{
    char cluster[HSP_DIGEST_HEX];
    hsp_digest_hex(us->whose.cluster, cluster);
    (void)snprintf(ret, HSP_CKPT_NAME, "begun.job-%" PRIu32 ".%s", us->job_id, cluster);
}

static enum hsp_status look_for(const struct hsp_folder *job, const char *name, bool *ret,
                                struct hsp_err *err)
{
    struct stat s;
    bool any = fstatat(job->fd, name, &s, AT_SYMLINK_NOFOLLOW) == 0;
    if (!any && errno != ENOENT) {
        return hsp_state_io_error(err, "cannot look for the mark of a job in", job->path);
    }
    *ret = any && S_ISREG(s.st_mode);
    return HSP_OK;
}

static enum hsp_status make(const struct hsp_folder *job, const char *name, struct hsp_err *err)
{
    int fd = openat(job->fd, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
    if (fd < 0) {
        return hsp_state_io_error(err, "cannot mark folder", job->path);
    }
    (void)close(fd); /* nothing is written */
    return hsp_folder_sync(job, err);
}

/* Reports that @dir is not there. A program cannot tell a folder that was never made, as the path
 * was not mounted when the job began, from a path that is not mounted now: a person can. */
static enum hsp_status not_there(const char *dir, struct hsp_err *err)
{
    return hsp_err_set(
        err, HSP_ENOENT, 0,
        "%s is not there: mount checkpoint.path, or make that folder for the user of "
        "hspmd-worker",
        dir);
}

/* Whether the folder above @dir is there. */
static enum hsp_status is_mounted(const char *dir, struct hsp_err *err)
{
    char above[HSP_FOLDER_PATH];
    struct stat s;
    const char *slash = strrchr(dir, '/');
    (void)snprintf(above, sizeof above, "%.*s", slash != NULL ? (int)(slash - dir) : 0, dir);
    return above[0] != '\0' && stat(above, &s) != 0 && errno == ENOENT ? not_there(dir, err)
                                                                       : HSP_OK;
}

enum hsp_status hsp_ckpt_sign(const char *dir, const struct hsp_ckpt_info *us, bool shared,
                              struct hsp_err *err)
{
    char name[HSP_CKPT_NAME];
    struct hsp_folder job = {.fd = -1};
    bool is = false;
    enum hsp_status st = shared ? is_mounted(dir, err) : HSP_OK;
    st = st == HSP_OK ? hsp_folder_open(dir, true, &job, err) : st;
    sign_name(us, name);
    st = st == HSP_OK ? look_for(&job, name, &is, err) : st;
    if (st == HSP_OK && !is) {
        st = make(&job, name, err);
    }
    hsp_folder_close(&job);
    return st;
}

enum hsp_status hsp_ckpt_open_folder(const char *dir, struct hsp_folder *ret, struct hsp_err *err)
{
    enum hsp_status st = hsp_folder_open(dir, false, ret, err);
    return st == HSP_ENOENT ? not_there(dir, err) : st;
}

enum hsp_status hsp_ckpt_is_signed(const char *dir, const struct hsp_ckpt_info *us, bool *ret,
                                   struct hsp_err *err)
{
    char name[HSP_CKPT_NAME];
    struct hsp_folder job;
    bool is = false;
    enum hsp_status st = hsp_folder_open(dir, false, &job, err);
    sign_name(us, name);
    if (st == HSP_OK) {
        st = look_for(&job, name, &is, err);
    } else if (st == HSP_ENOENT) {
        st = HSP_OK;
    }
    hsp_folder_close(&job);
    if (st == HSP_OK) {
        *ret = is;
    }
    return st;
}
