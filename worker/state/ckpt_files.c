#include "worker/state/ckpt_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/state/io_error.h"

static enum hsp_status path_status(int n, struct hsp_err *err)
{
    if (n < 0 || n >= HSP_CKPT_PATH) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "path of a checkpoint is too long");
    }
    return HSP_OK;
}

enum hsp_status hsp_ckpt_step_dir(const char *dir, uint64_t step, bool tmp, char ret[HSP_CKPT_PATH],
                                  struct hsp_err *err)
{
    return path_status(
        snprintf(ret, HSP_CKPT_PATH, "%s/step-%010" PRIu64 "%s", dir, step, tmp ? ".tmp" : ""),
        err);
}

enum hsp_status hsp_ckpt_shard_path(const char *step_dir, uint32_t rank, char ret[HSP_CKPT_PATH],
                                    struct hsp_err *err)
{
    return path_status(snprintf(ret, HSP_CKPT_PATH,
                                "%s/shard-%05u-model-00001-of-00001.safetensors", step_dir,
                                rank + 1),
                       err);
}

enum hsp_status hsp_ckpt_join(const char *dir, const char *name, char ret[HSP_CKPT_PATH],
                              struct hsp_err *err)
{
    return path_status(snprintf(ret, HSP_CKPT_PATH, "%s/%s", dir, name), err);
}

enum hsp_status hsp_ckpt_make_dir(const char *path, struct hsp_err *err)
{
    char p[HSP_CKPT_PATH];
    enum hsp_status st = path_status(snprintf(p, sizeof(p), "%s", path), err);
    for (char *c = p; st == HSP_OK; c++) {
        char keep = *c;
        if (c > p && (keep == '/' || keep == '\0')) {
            *c = '\0';
            if (mkdir(p, 0755) != 0 && errno != EEXIST) {
                st = hsp_state_io_error(err, "cannot create", p);
            }
            *c = keep;
        }
        if (keep == '\0') {
            break;
        }
    }
    return st;
}

enum hsp_status hsp_ckpt_sync_dir(const char *path, struct hsp_err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return hsp_state_io_error(err, "cannot open", path);
    }
    enum hsp_status st = HSP_OK;
    if (fsync(fd) != 0 && errno != EINVAL) { /* some file systems cannot sync a directory */
        st = hsp_state_io_error(err, "cannot sync", path);
    }
    (void)close(fd); /* read only */
    return st;
}

enum hsp_status hsp_ckpt_remove_dir(const char *path, struct hsp_err *err)
{
    char file[HSP_CKPT_PATH];
    struct dirent *e;
    enum hsp_status st = hsp_ckpt_join(path, HSP_CKPT_MANIFEST, file, err);
    if (st != HSP_OK) {
        return st;
    }
    (void)unlink(file); /* may not be there */
    DIR *d = opendir(path);
    if (d == NULL) {
        return errno == ENOENT ? HSP_OK : hsp_state_io_error(err, "cannot open", path);
    }
    while ((e = readdir(d)) != NULL) { /* to the end: what goes makes room, whatever stays */
        struct hsp_err why = {0};
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        enum hsp_status one = hsp_ckpt_join(path, e->d_name, file, &why);
        if (one == HSP_OK && unlink(file) != 0 && errno != ENOENT) {
            one = hsp_state_io_error(&why, "cannot remove", file);
        }
        if (one != HSP_OK && st == HSP_OK) {
            st = hsp_err_set(err, one, 0, "%s", why.msg);
        }
    }
    (void)closedir(d); /* read only */
    if (st == HSP_OK && rmdir(path) != 0 && errno != ENOENT) {
        st = hsp_state_io_error(err, "cannot remove", path);
    }
    return st;
}

bool hsp_ckpt_info_equal(const struct hsp_ckpt_info *a, const struct hsp_ckpt_info *b)
{
    return strcmp(a->job, b->job) == 0 && a->step == b->step && a->term == b->term &&
           a->epoch == b->epoch && a->n_ranks == b->n_ranks && a->n_params == b->n_params &&
           a->job_id == b->job_id;
}
