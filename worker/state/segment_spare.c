/* Keeps and cuts spares. Possible failure modes: a folder that cannot be read (there are no spares,
 * then); a spare that becomes a segment between two looks (its name is looked at again behind the
 * lock). */
#include "worker/state/segment_spare.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

bool hsp_segment_file_is(const char *path, const struct hsp_segment_file *f)
{
    struct stat sb;
    return lstat(path, &sb) == 0 && sb.st_dev == f->dev && sb.st_ino == f->ino;
}

static void close_any(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

static bool is_named(int folder, const char *name, const struct stat *f)
{
    struct stat sb;
    return fstatat(folder, name, &sb, AT_SYMLINK_NOFOLLOW) == 0 && sb.st_dev == f->st_dev &&
           sb.st_ino == f->st_ino;
}

/* Opens the file @name of @folder. Below 0: there is none. */
static int open_file(int folder, const char *name, struct stat *ret)
{
    int fd = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && (fstat(fd, ret) != 0 || !S_ISREG(ret->st_mode))) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* Locks @fd. Returns false if another process has locked it, or @name is another file by now. */
static bool lock(int fd, int folder, const char *name, struct stat *of)
{
    return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, of) == 0 && is_named(folder, name, of);
}

int hsp_spare_lock(const char *path, const struct hsp_segment_file *f, uint64_t bytes)
{
    struct stat sb;
    int fd = open_file(AT_FDCWD, path, &sb);
    if (fd >= 0 && lock(fd, AT_FDCWD, path, &sb) && sb.st_dev == f->dev && sb.st_ino == f->ino &&
        (uint64_t)sb.st_size == bytes) {
        return fd;
    }
    close_any(fd);
    return -1;
}

/* Calls @each for the spares of @dir. */
static void walk(const char *dir,
                 void (*each)(int fd, int folder, const char *name, struct stat *sb, uint64_t *sum),
                 uint64_t *sum)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    while (d != NULL && (e = readdir(d)) != NULL) {
        size_t n = strlen(e->d_name);
        uint64_t word = 0;
        struct stat sb;
        int fd = n > 4 && strcmp(e->d_name + n - 4, ".tmp") == 0
                     ? open_file(dirfd(d), e->d_name, &sb)
                     : -1;
        if (fd >= 0 && pread(fd, &word, sizeof word, 0) == sizeof word &&
            word == HSP_SEGMENT_MAGIC) {
            each(fd, dirfd(d), e->d_name, &sb, sum);
        }
        close_any(fd);
    }
    if (d != NULL) {
        (void)closedir(d);
    }
}

/* Deletes a spare and frees its pages. Its executor has it mapped, so unlink() alone would free
 * nothing. The file keeps its length: a scan that opened it when it was a segment reads zeros, and
 * not beyond its end. */
static void cut(int fd, int folder, const char *name, struct stat *sb, uint64_t *sum)
{
    (void)sum;
    if (lock(fd, folder, name, sb) && unlinkat(folder, name, 0) == 0) {
        (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, sb->st_size);
    }
}

void hsp_spare_cut(const char *dir)
{
    uint64_t none;
    walk(dir, cut, &none);
}

static void add(int fd, int folder, const char *name, struct stat *sb, uint64_t *sum)
{
    (void)fd;
    (void)folder;
    (void)name;
    *sum += (uint64_t)sb->st_blocks * 512;
}

uint64_t hsp_spare_bytes(const char *dir)
{
    uint64_t sum = 0;
    walk(dir, add, &sum);
    return sum;
}
