#include "daemon/app/store/store_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/size.h"

bool hsp_store_path(char ret[PATH_MAX], const char *a, const char *b)
{
    return snprintf(ret, PATH_MAX, "%s%s", a, b) < PATH_MAX;
}

enum hsp_status hsp_store_file_error(const char *what, const char *path, struct hsp_err *err)
{
    int e = errno;
    enum hsp_status st = e == ENOENT                 ? HSP_ENOENT
                         : e == EACCES || e == EPERM ? HSP_EPERM
                         : e == ENOSPC               ? HSP_ENOSPC
                                                     : HSP_EIO;
    return hsp_err_set(err, st, e, "%s %s", what, path);
}

void hsp_store_remove(const char *path)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char file[PATH_MAX];
    struct stat sb;
    for (size_t i = 0; i < HSP_ARRAY_LEN(ends); i++) {
        if (hsp_store_path(file, path, ends[i]) && lstat(file, &sb) == 0 && S_ISREG(sb.st_mode)) {
            (void)unlink(file); /* its next user says why it is in the way */
        }
    }
}

enum hsp_status hsp_store_no_room(struct hsp_err *err)
{
    return hsp_err_set(err, HSP_ENOSPC, 0,
                       "the disk of state_dir takes no more: make room, and try again");
}

enum hsp_status hsp_store_all_in_file(const char *path, struct hsp_err *err)
{
    char wal[PATH_MAX];
    struct stat sb;
    if (!hsp_store_path(wal, path, "-wal")) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "a path is too long");
    }
    return stat(wal, &sb) != 0 || sb.st_size == 0 ? HSP_OK : hsp_store_no_room(err);
}

enum hsp_status hsp_store_sync_folder(const char *dir, struct hsp_err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum hsp_status st =
        fd >= 0 && fsync(fd) == 0 ? HSP_OK : hsp_store_file_error("cannot sync", dir, err);
    if (fd >= 0) {
        (void)close(fd); /* synced */
    }
    return st;
}
