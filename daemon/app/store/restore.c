#include "daemon/app/store/restore.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/app/store/store.h"
#include "daemon/app/store/store_files.h"
#include "daemon/app/store/store_schema.h"
#include "daemon/cluster/row_read.h"
#include "proto/base/size.h"

#define OTHER   "-other"   /* behind the name of one that is worth nothing */
#define UNUSED  "-unused"  /* the same of one that was put back, and that no hspmdd has opened */
#define DAMAGED "-damaged" /* the same of one that was written anew */
#define PIECE   (1u << 20) /* bytes copied at a time */

struct names {
    char store[PATH_MAX], new[PATH_MAX], replaced[PATH_MAX];
    /* Behind the name of the one that is there; "": it has more than the one that takes its
     * place. */
    const char *kind;
};

static enum hsp_status names_of(const char *dir, struct names *ret, struct hsp_err *err)
{
    ret->kind = OTHER;
    return hsp_store_path(ret->store, dir, "/state.db") &&
                   hsp_store_path(ret->new, dir, "/" HSP_RESTORE_COPY)
               ? HSP_OK
               : hsp_err_set(err, HSP_ELIMIT, 0, "state_dir is too long");
}

/* True when a replaced store of any kind has the name @front already. */
static bool is_taken(const char *front)
{
    static const char *const kinds[] = {"", OTHER, UNUSED, DAMAGED};
    char path[PATH_MAX];
    bool taken = false;
    for (size_t i = 0; i < HSP_ARRAY_LEN(kinds); i++) {
        taken = taken || (hsp_store_path(path, front, kinds[i]) && access(path, F_OK) == 0);
    }
    return taken;
}

/* Gives the old store a second name from the time, a number (if two stores were replaced in one
 * second) and the kind. hsp_restore_replaced looks only for the name of the kind that is worth
 * restoring again. */
static enum hsp_status keep_old(const char *dir, struct names *n, struct hsp_err *err)
{
    char end[80], front[PATH_MAX];
    int64_t now = (int64_t)time(NULL);
    for (uint32_t i = 0; i < 1000; i++) {
        (void)snprintf(end, sizeof end, "/state.db.replaced-%" PRId64 ".%" PRIu32, now, i);
        if (!hsp_store_path(front, dir, end) || !hsp_store_path(n->replaced, front, n->kind)) {
            return hsp_err_set(err, HSP_ELIMIT, 0, "state_dir is too long");
        }
        if (is_taken(front)) {
            continue;
        }
        if (link(n->store, n->replaced) == 0 || errno == ENOENT) {
            return HSP_OK;
        }
        if (errno != EEXIST) {
            break;
        }
    }
    return hsp_store_file_error("cannot keep", n->store, err);
}

static enum hsp_status write_all(int fd, const uint8_t *p, size_t n, const char *path,
                                 struct hsp_err *err)
{
    while (n > 0) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno != EINTR) {
            return hsp_store_file_error("cannot write", path, err);
        }
        p += k > 0 ? k : 0;
        n -= k > 0 ? (size_t)k : 0;
    }
    return HSP_OK;
}

static enum hsp_status copy_open(int in, int out, const char *from, const char *to,
                                 struct hsp_err *err)
{
    uint8_t *piece = malloc(PIECE);
    enum hsp_status st = piece != NULL ? HSP_OK : hsp_err_nomem(err, "%s", from);
    while (st == HSP_OK) {
        ssize_t n = read(in, piece, PIECE);
        if (n == 0) {
            break;
        }
        if (n > 0) {
            st = write_all(out, piece, (size_t)n, to, err);
        } else if (errno != EINTR) {
            st = hsp_store_file_error("cannot read", from, err);
        }
    }
    free(piece);
    return st;
}

/* HSP_ENOENT: @from is not there. */
static enum hsp_status copy(const char *from, const char *to, struct hsp_err *err)
{
    struct stat sb;
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is not waited for */
    if (in < 0 || fstat(in, &sb) != 0) {
        enum hsp_status st = hsp_store_file_error("cannot open", from, err);
        if (in >= 0) {
            (void)close(in); /* read only */
        }
        return st;
    }
    if (!S_ISREG(sb.st_mode)) {
        (void)close(in); /* read only */
        return hsp_err_set(err, HSP_EINVAL, 0, "%s is no regular file", from);
    }
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    enum hsp_status st =
        out >= 0 ? copy_open(in, out, from, to, err) : hsp_store_file_error("cannot make", to, err);
    if (st == HSP_OK && fsync(out) != 0) {
        st = hsp_store_file_error("cannot write", to, err);
    }
    (void)close(in); /* read only */
    if (out >= 0) {
        (void)close(out); /* synced */
    }
    return st;
}

/* Copies a store with its journal, which has the last writes of an hspmdd that was killed. */
static enum hsp_status copy_store(const char *file, const char *to, struct hsp_err *err)
{
    char from_wal[PATH_MAX], to_wal[PATH_MAX];
    struct hsp_err none;
    if (!hsp_store_path(from_wal, file, "-wal") || !hsp_store_path(to_wal, to, "-wal")) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "a path is too long");
    }
    enum hsp_status st = copy(file, to, err);
    if (st == HSP_OK) {
        st = copy(from_wal, to_wal, &none);
        st = st == HSP_ENOENT ? HSP_OK : st;
        if (st != HSP_OK) {
            *err = none;
        }
    }
    return st;
}

struct found {
    bool any;
    struct hsp_whose whose;
    bool restored; /* put back, and no hspmdd has opened it since */
    uint64_t over; /* the generation that it was put back over */
};

static enum hsp_status look_at_row(void *arg, const char *key, const void *value, size_t len)
{
    struct found *f = arg;
    struct hsp_cluster_row row = {key, value, (uint32_t)len};
    f->any = hsp_cluster_row_whose(&row, &f->whose) || f->any;
    f->restored = hsp_cluster_row_restored(&row, &f->over) || f->restored;
    return HSP_OK;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return hsp_generation_number(a) > hsp_generation_number(b) ? a : b;
}

/* Returns the kind of the store that is replaced. It is "" if all rows of @s are as they were
 * written, and @s has gone on after @f, the copy @by: it is of a later generation, or has later
 * events. */
static const char *kind_of(struct hsp_store *s, const struct found *there, const struct found *f,
                           struct hsp_store *by)
{
    struct hsp_err why;
    uint32_t g = hsp_generation_number(there->whose.generation);
    uint32_t of_copy = hsp_generation_number(f->whose.generation);
    if (there->restored) {
        return UNUSED;
    }
    bool on = g > of_copy || (g == of_copy && hsp_store_events_last(s) > hsp_store_events_last(by));
    return on && hsp_store_load(s, NULL, NULL, &why) == HSP_OK ? "" : OTHER;
}

/* Returns the generation of the store in place, or the later generation over which that store was
 * restored, if the store is of the same cluster and can be read. Its journal is empty then. */
static uint64_t generation_there(const char *path, const struct found *f, struct hsp_store *by,
                                 const char **ret_kind)
{
    struct hsp_store *s = NULL;
    struct hsp_err why;
    struct found there = {false};
    if (access(path, F_OK) == 0 && hsp_store_open(path, &s, &why) == HSP_OK) {
        (void)hsp_store_get(s, HSP_CLUSTER_ROW, look_at_row, &there,
                            &why); /* if they can be read */
        (void)hsp_store_get(s, HSP_RESTORED_ROW, look_at_row, &there, &why);
    }
    bool same = there.any && hsp_digest_equal(there.whose.cluster, f->whose.cluster);
    if (same) {
        *ret_kind = kind_of(s, &there, f, by);
    }
    (void)hsp_store_close(s);
    return same ? later(there.whose.generation, there.over) : 0;
}

/* Verifies the copy and marks it. */
static enum hsp_status prepare(struct names *n, struct hsp_store_damage *ret, struct hsp_err *err)
{
    struct hsp_store *s = NULL;
    struct found f = {false};
    enum hsp_status st = hsp_store_open(n->new, &s, err);
    if (st == HSP_OK) {
        st = hsp_store_verify(s, ret, err);
    }
    if (st == HSP_OK) {
        st = hsp_store_load(s, look_at_row, &f, err);
    }
    if (st == HSP_OK && !f.any) {
        st = hsp_err_set(err, HSP_EPARSE, 0, "it is not the store of a cluster");
    }
    if (st == HSP_OK) {
        struct hsp_buf value;
        hsp_buf_init(&value, HSP_CLUSTER_ROW_MAX);
        hsp_cluster_restored_row(later(generation_there(n->store, &f, s, &n->kind), f.over),
                                 &value);
        struct hsp_store_row row = {HSP_RESTORED_ROW, value.data, value.len, false};
        st = value.failed ? hsp_err_nomem(err, "a row") : hsp_store_apply(s, &row, 1, NULL, 0, err);
        hsp_buf_fini(&value);
    }
    (void)hsp_store_close(s);
    return st == HSP_OK ? hsp_store_all_in_file(n->new, err) : st;
}

/* Moves the journal away with the old store: if it stayed, it would be read into the new store. */
static enum hsp_status move_journal(const struct names *n, const char *end, struct hsp_err *err)
{
    char from[PATH_MAX], to[PATH_MAX];
    if (!hsp_store_path(from, n->store, end) || !hsp_store_path(to, n->replaced, end)) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "a path is too long");
    }
    return rename(from, to) == 0 || errno == ENOENT
               ? HSP_OK
               : hsp_store_file_error("cannot rename", from, err);
}

static enum hsp_status exchange(const char *dir, struct names *n, struct hsp_err *err)
{
    enum hsp_status st = keep_old(dir, n, err);
    st = st == HSP_OK ? move_journal(n, "-wal", err) : st;
    st = st == HSP_OK ? move_journal(n, "-shm", err) : st;
    if (st == HSP_OK && rename(n->new, n->store) != 0) {
        st = hsp_store_file_error("cannot rename", n->new, err);
    }
    return st == HSP_OK ? hsp_store_sync_folder(dir, err) : st;
}

enum hsp_status hsp_restore_rebuilt(const char *dir, char ret_kept[PATH_MAX], struct hsp_err *err)
{
    struct names n;
    enum hsp_status st = names_of(dir, &n, err);
    n.kind = DAMAGED;
    st = st == HSP_OK ? exchange(dir, &n, err) : st;
    if (st == HSP_OK) {
        memcpy(ret_kept, n.replaced, sizeof n.replaced);
    }
    return st;
}

/* Returns true if the regular file @file does not begin like a store. Other faults are reported
 * later. */
static bool is_foreign(const char *file)
{
    static const char head[16] = "SQLite format 3";
    char first[sizeof head];
    FILE *f = fopen(file, "rbe");
    size_t n = f != NULL ? fread(first, 1, sizeof first, f) : 0;
    if (f != NULL) {
        (void)fclose(f); /* read only */
    }
    return n > 0 && (n < sizeof first || memcmp(first, head, sizeof head) != 0);
}

/* Refuses a file that this restore would write over, and one that is no store. */
static enum hsp_status check_source(const char *file, const struct names *n, struct hsp_err *err)
{
    struct stat from, own[2];
    if (stat(file, &from) != 0) {
        return hsp_store_file_error("cannot open", file, err);
    }
    const char *const ours[2] = {n->new, n->store};
    for (int i = 0; i < 2; i++) {
        if (stat(ours[i], &own[i]) == 0 && own[i].st_dev == from.st_dev &&
            own[i].st_ino == from.st_ino) {
            return hsp_err_set(err, HSP_EINVAL, 0,
                               "it is a file of state_dir itself: name a copy elsewhere");
        }
    }
    if (S_ISREG(from.st_mode) && is_foreign(file)) {
        return hsp_err_set(err, HSP_EPARSE, 0,
                           "it is no backup: hspmdctl backup FILE makes one, of a running hspmdd");
    }
    return HSP_OK;
}

/* Gives files that root has made to the owner of the folder, since hspmdd runs as that user. */
static enum hsp_status give(const char *dir, const struct names *n, struct hsp_err *err)
{
    char lock[PATH_MAX];
    struct stat sb;
    if (geteuid() != 0) {
        return HSP_OK;
    }
    if (!hsp_store_path(lock, dir, "/lock")) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "a path is too long");
    }
    if (stat(dir, &sb) != 0 || lchown(n->new, sb.st_uid, sb.st_gid) != 0 ||
        (lchown(lock, sb.st_uid, sb.st_gid) != 0 && errno != ENOENT)) {
        return hsp_store_file_error("cannot set the owner of files in", dir, err);
    }
    return HSP_OK;
}

void hsp_restore_tidy(const char *dir)
{
    char path[PATH_MAX];
    if (hsp_store_path(path, dir, "/" HSP_RESTORE_COPY)) {
        hsp_store_remove(path); /* where it stays, the next restore says why it cannot copy */
    }
}

/* "state.db.replaced-SECONDS.N", *ret_plain, or that with "-other"; its journal has another end. */
static bool is_replaced(const char *name, bool *ret_plain)
{
    static const char front[] = "state.db.replaced-";
    const char *numbers = name + strlen(front);
    if (strncmp(name, front, strlen(front)) != 0 || numbers[0] == '\0') {
        return false;
    }
    const char *end = numbers + strspn(numbers, "0123456789.");
    *ret_plain = end[0] == '\0';
    return *ret_plain || (end > numbers && strcmp(end, OTHER) == 0);
}

/* Returns true if both are stores of one cluster. @file, of generation *@ret, is only read. */
static bool same_cluster(const char *file, struct hsp_store *of, uint32_t *ret)
{
    struct found a = {false}, b = {false};
    struct hsp_err why;
    bool same = hsp_store_peek(file, HSP_CLUSTER_ROW, look_at_row, &a, &why) == HSP_OK &&
                hsp_store_get(of, HSP_CLUSTER_ROW, look_at_row, &b, &why) == HSP_OK && a.any &&
                b.any && hsp_digest_equal(a.whose.cluster, b.whose.cluster);
    *ret = hsp_generation_number(a.whose.generation);
    return same;
}

bool hsp_restore_replaced(const char *dir, struct hsp_store *there, char *ret, size_t size,
                          uint32_t *ret_generation)
{
    char newest[NAME_MAX + 1] = "";
    const struct dirent *e;
    bool plain, last_plain = false;
    DIR *d = opendir(dir);
    while (d != NULL && (e = readdir(d)) != NULL) {
        if (is_replaced(e->d_name, &plain) && strverscmp(e->d_name, newest) > 0) {
            (void)snprintf(newest, sizeof newest, "%s", e->d_name); /* fits */
            last_plain = plain;
        }
    }
    if (d != NULL) {
        (void)closedir(d); /* read only */
    }
    int n = snprintf(ret, size, "%s/%s", dir, newest);
    return last_plain && n > 0 && (size_t)n < size && same_cluster(ret, there, ret_generation);
}

enum hsp_status hsp_restore(const char *dir, const char *file, struct hsp_store_damage *ret,
                            struct hsp_err *err)
{
    struct names n;
    enum hsp_status st = names_of(dir, &n, err);
    st = st == HSP_OK ? check_source(file, &n, err) : st;
    bool safe = st == HSP_OK;
    if (safe) {
        hsp_restore_tidy(dir);
    }
    st = st == HSP_OK ? copy_store(file, n.new, err) : st;
    st = st == HSP_OK ? prepare(&n, ret, err) : st;
    st = st == HSP_OK ? give(dir, &n, err) : st;
    st = st == HSP_OK ? exchange(dir, &n, err) : st;
    if (st != HSP_OK) {
        if (safe) {
            hsp_restore_tidy(dir);
        }
        (void)hsp_err_wrap(err, "--restore %s", file);
    }
    return st;
}
