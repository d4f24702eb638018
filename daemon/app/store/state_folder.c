#include "daemon/app/store/state_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/app/store/first_store.h"
#include "proto/base/size.h"

#define LOCK_NAME  "lock"
#define STORE_NAME "state.db"
#define STORE_BYTE ((1 << 30) + 4096) /* of the store, locked: SQLite locks the 512 from 1 GiB on */

/* Names that an empty folder may have: the folder, its lock, and the file of mkfs at the top of
 * a file system. */
static const char *const no_contents[] = {".", "..", LOCK_NAME, "lost+found"};

struct contents {
    bool there, empty, store;
};

static enum hsp_status path_of(const char *dir, const char *name, char ret[PATH_MAX],
                               struct hsp_err *err)
{
    return snprintf(ret, PATH_MAX, "%s/%s", dir, name) < PATH_MAX
               ? HSP_OK
               : hsp_err_set(err, HSP_ELIMIT, 0, "state_dir is too long");
}

static enum hsp_status io_error(const char *dir, struct hsp_err *err)
{
    int e = errno;
    return hsp_err_set(err, e == EACCES || e == EPERM ? HSP_EPERM : HSP_EIO, e, "state_dir %s",
                       dir);
}

/* Returns true if the folder has a store: a file of that name that is not empty. An empty file may
 * be left by a process that ended before it wrote. */
static bool has_store(const char *dir)
{
    char path[PATH_MAX];
    struct stat sb;
    return path_of(dir, STORE_NAME, path, NULL) == HSP_OK && stat(path, &sb) == 0 && sb.st_size > 0;
}

static enum hsp_status look(const char *dir, struct contents *ret, struct hsp_err *err)
{
    struct contents c = {.there = true, .empty = true};
    const struct dirent *e;
    DIR *d = opendir(dir);
    if (d == NULL && errno == ENOENT) {
        *ret = (struct contents){.empty = true};
        return HSP_OK;
    }
    if (d == NULL) {
        return io_error(dir, err);
    }
    while ((e = readdir(d)) != NULL) {
        bool counts = true;
        for (size_t i = 0; i < HSP_ARRAY_LEN(no_contents); i++) {
            counts = counts && strcmp(e->d_name, no_contents[i]) != 0;
        }
        c.empty = c.empty && (!counts || hsp_first_store_left(dir, e->d_name));
    }
    (void)closedir(d); /* read only */
    c.store = has_store(dir);
    *ret = c;
    return HSP_OK;
}

static size_t bare_length(const char *s, size_t n)
{
    while (n > 1 && s[n - 1] == '/') {
        n--;
    }
    return n;
}

/* Returns true if @dir is in @service, the folders of one systemd unit, separated by colons. */
static bool is_given(const char *dir, const char *service)
{
    size_t n = bare_length(dir, strlen(dir));
    for (const char *at = service; at != NULL && *at != '\0'; at += strspn(at, ":")) {
        size_t len = strcspn(at, ":");
        if (bare_length(at, len) == n && strncmp(at, dir, n) == 0) {
            return true;
        }
        at += len;
    }
    return false;
}

/* Refuses root in the folder of another user: an hspmdd of that user could not read the files that
 * root makes. If root made the store, there is no such user: in an image or a mounted folder the
 * folder may have any owner. */
static enum hsp_status check_owner(const char *dir, struct hsp_err *err)
{
    char store[PATH_MAX];
    struct stat sb, of;
    const struct passwd *user;
    if (geteuid() != 0 || stat(dir, &sb) != 0 || sb.st_uid == 0) {
        return HSP_OK;
    }
    user = getpwuid(sb.st_uid);
    if (has_store(dir) && path_of(dir, STORE_NAME, store, NULL) == HSP_OK &&
        stat(store, &of) == 0 && of.st_uid == 0) {
        return HSP_OK;
    }
    return hsp_err_set(
        err, HSP_EPERM, 0,
        "state_dir %s belongs to user %s (%u), who could not read the files that root makes "
        "there: start hspmdd as that user, or the service with systemctl start hspmdd, which "
        "begins a new cluster in an empty folder without --init",
        dir, user != NULL ? user->pw_name : "without a name", (unsigned)sb.st_uid);
}

static enum hsp_status decide(const char *dir, bool init, const char *service,
                              struct hsp_state_folder *f, struct hsp_err *err)
{
    struct contents c = {.there = false};
    enum hsp_status st = look(dir, &c, err);
    if (st == HSP_OK) {
        st = check_owner(dir, err);
    }
    if (st != HSP_OK) {
        return st;
    }
    f->given = !init && c.there && c.empty && is_given(dir, service);
    f->fresh = init || f->given;
    if (!c.store && !f->fresh) {
        return hsp_err_set(err, HSP_ENOENT, 0,
                           "state_dir %s %s: mount or name the right folder, or begin a new "
                           "cluster with --init (job adopt takes over the jobs that agents store), "
                           "or put a backup in with --restore FILE",
                           dir, c.there ? "has no store" : "is not there");
    }
    if (init && !c.there && mkdir(dir, 0700) != 0) {
        return io_error(dir, err);
    }
    return HSP_OK;
}

static enum hsp_status lock(const char *dir, int *ret, struct hsp_err *err)
{
    char path[PATH_MAX];
    enum hsp_status st = path_of(dir, LOCK_NAME, path, err);
    if (st != HSP_OK) {
        return st;
    }
    *ret = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*ret < 0) {
        return io_error(dir, err);
    }
    return flock(*ret, LOCK_EX | LOCK_NB) == 0
               ? HSP_OK
               : hsp_err_set(err, HSP_EEXIST, 0,
                             "state_dir %s: another hspmdd uses it: end that one, or name a folder "
                             "of its own here",
                             dir);
}

/* Locks the store @path, whose descriptor is @fd. The lock belongs to the file, so it holds under
 * all of its paths. */
static enum hsp_status lock_file(const char *dir, const char *path, int fd, struct hsp_err *err)
{
    struct flock whole = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = STORE_BYTE, .l_len = 1};
    if (fcntl(fd, F_OFD_SETLK, &whole) == 0) {
        return HSP_OK;
    }
    if (errno != EAGAIN && errno != EACCES) {
        return io_error(dir, err);
    }
    char *real = realpath(path, NULL);
    enum hsp_status st = hsp_err_set(
        err, HSP_EEXIST, 0,
        "state_dir %s: its store %s is in use by another hspmdd, which knows it by another path: "
        "end that one, or name a folder of its own here",
        dir, real != NULL ? real : path);
    free(real);
    return st;
}

enum hsp_status hsp_state_folder_lock_store(const char *dir, struct hsp_state_folder *f,
                                            struct hsp_err *err)
{
    char path[PATH_MAX];
    enum hsp_status st = path_of(dir, STORE_NAME, path, err);
    if (st != HSP_OK) {
        return st;
    }
    if (f->store_fd >= 0) {
        (void)close(f->store_fd); /* of a file that was replaced; nothing was written by it */
    }
    f->store_fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (f->store_fd < 0) {
        return errno == ENOENT ? HSP_OK : io_error(path, err);
    }
    return lock_file(dir, path, f->store_fd, err);
}

/* Locks the folder, then the store: a process that makes or restores a store locks the folder. */
static enum hsp_status lock_both(const char *dir, struct hsp_state_folder *f, struct hsp_err *err)
{
    enum hsp_status st = lock(dir, &f->lock_fd, err);
    f->store = st == HSP_OK && has_store(dir); /* another process may have made it meanwhile */
    return f->store ? hsp_state_folder_lock_store(dir, f, err) : st;
}

enum hsp_status hsp_state_folder_open(const char *dir, bool init, const char *service,
                                      struct hsp_state_folder *ret, struct hsp_err *err)
{
    *ret = (struct hsp_state_folder){.lock_fd = -1, .store_fd = -1};
    enum hsp_status st = decide(dir, init, service, ret, err);
    return st == HSP_OK ? lock_both(dir, ret, err) : st;
}

enum hsp_status hsp_state_folder_lock(const char *dir, struct hsp_state_folder *ret,
                                      struct hsp_err *err)
{
    struct stat sb;
    *ret = (struct hsp_state_folder){.lock_fd = -1, .store_fd = -1};
    if (stat(dir, &sb) != 0 && errno == ENOENT) {
        return hsp_err_set(err, HSP_ENOENT, 0,
                           "state_dir %s is not there: mount or name the right folder, or make it "
                           "for the user of hspmdd",
                           dir);
    }
    return lock_both(dir, ret, err);
}

enum hsp_status hsp_store_in_place(const struct stat *mine, int no, const struct stat *at,
                                   struct hsp_err *err)
{
    bool none = no == ENOENT || no == ENOTDIR;
    if (no == 0 && at->st_dev == mine->st_dev && at->st_ino == mine->st_ino) {
        return HSP_OK;
    }
    if (no != 0 && !none) {
        return hsp_err_set(err, HSP_ENOENT, no, "repair or mount its folder, which cannot be read");
    }
    if (mine->st_nlink == 0) { /* the store goes when this process ends */
        return hsp_err_set(err, HSP_ENOENT, 0,
                           "it was deleted%s: make state_dir again if it is gone, save the store "
                           "with hspmdctl backup FILE, end hspmdd, put it back with hspmdd "
                           "--restore FILE",
                           none ? "" : ", and another file is in its place");
    }
    return hsp_err_set(err, HSP_ENOENT, 0,
                       none ? "it was moved or unmounted: put it back, and hspmdd goes on by itself"
                            : "another file is in its place: put back the one that was there, and "
                              "hspmdd goes on by itself; to serve this one move it away, end "
                              "hspmdd, and put it back with hspmdd --restore FILE");
}

enum hsp_status hsp_state_folder_check(const char *dir, const struct hsp_state_folder *f,
                                       struct hsp_err *err)
{
    char path[PATH_MAX];
    struct stat mine, at;
    enum hsp_status st = path_of(dir, STORE_NAME, path, err);
    if (st != HSP_OK || f->store_fd < 0 || fstat(f->store_fd, &mine) != 0) {
        return st; /* nothing is open with which it could be compared */
    }
    int no = stat(path, &at) == 0 ? 0 : errno;
    return hsp_store_in_place(&mine, no, &at, err);
}

void hsp_state_folder_close(struct hsp_state_folder *f)
{
    if (f->store_fd >= 0) {
        (void)close(f->store_fd); /* nothing was written by it */
    }
    if (f->lock_fd >= 0) {
        (void)close(f->lock_fd); /* nothing was written to it */
    }
    f->lock_fd = f->store_fd = -1;
}
