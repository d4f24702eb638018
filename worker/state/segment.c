/* Creates, opens and seals segments. The happy path: create maps a new file under a temporary name,
 * fills head and table, renames it; the executor unseals, writes, seals, in turns over two slots;
 * after a restart open checks and maps again.
 *
 * Possible failure modes: no space (segment_room.c); killed while creating (only a .tmp file is
 * left); killed while writing (the seal is open: no source); killed between the hashes and the seal
 * word (likewise); damaged bytes (head and table have a hash, the seal a check word, the contents a
 * hash for each row). */
#include "worker/state/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/check.h"
#include "proto/base/size.h"
#include "proto/layout/box.h"
#include "worker/state/box_hash.h"
#include "worker/state/io_error.h"
#include "worker/state/segment_dir.h"
#include "worker/state/segment_free.h"
#include "worker/state/segment_key.h"
#include "worker/state/segment_room.h"
#include "worker/state/segment_spare.h"

#define SEG_MAGIC  HSP_SEGMENT_MAGIC
#define SEG_FORMAT 2U
#define SEG_OLD    1U                    /* format without clusters; still read */
#define SEG_SEALED 0x9d5e1ed0c0dec0deULL /* the two values of a seal word */
#define SEG_OPEN   0ULL                  /* as in a new file */
#define SEG_ALIGN  4096
#define MUCH       ((size_t)64 << 20) /* less is unmapped by its caller */
#define SEAL_LOOKS 4                  /* a writer opens the same seal once a step */

struct seg_head {
    uint64_t magic;
    uint32_t format, n_rows;
    uint64_t rows_at, hashes_at, area_at, area_bytes, file_bytes;
    uint64_t cluster_hi, cluster_lo; /* 0 in SEG_OLD */
    struct hsp_segment_key key;
    uint64_t generation; /* in SEG_OLD the table_hash */
    uint64_t table_hash; /* of all before it and of the rows */
};

struct seg_seal {
    uint64_t version;
    uint64_t content; /* sum of the row hashes */
    uint64_t check;   /* of the above, the row hashes and the table hash */
    _Atomic uint64_t sealed;
};

/* Fixed places; the seal has a cache line of its own. */
#define SEAL_AT 1024
#define ROWS_AT SEG_ALIGN
_Static_assert(sizeof(struct seg_head) <= SEAL_AT, "the head reaches into the seal");
_Static_assert(SEAL_AT + sizeof(struct seg_seal) <= ROWS_AT, "the seal reaches into the table");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "processes share the seal word");

struct hsp_state_segment {
    uint8_t *map;
    size_t bytes;  /* of the file */
    size_t mapped; /* of a file that was longer: more than that */
    struct hsp_segment_file file;
    bool writable;
    const struct seg_head *head;
    struct seg_seal *seal;
    const struct hsp_segment_row *rows;
    uint64_t *hashes;
    uint8_t *area;
    int room; /* descriptor of its folder while it is closed behind its user */
};

/* ---- layout and checks ---- */

static uint64_t table_hash(const struct seg_head *h, const struct hsp_segment_row *rows)
{
    size_t n = h->format == SEG_OLD ? offsetof(struct seg_head, generation)
                                    : offsetof(struct seg_head, table_hash);
    return hsp_hash64(rows, h->n_rows * sizeof(*rows), hsp_hash64(h, n, SEG_MAGIC));
}

/* The hash that stands in the head. */
static uint64_t table_hash_of(const struct seg_head *h)
{
    return h->format == SEG_OLD ? h->generation : h->table_hash;
}

static uint64_t seal_check(const struct hsp_state_segment *s)
{
    uint64_t a[3] = {s->seal->version, s->seal->content, table_hash_of(s->head)};
    uint64_t seed = hsp_hash64(a, sizeof(a), SEG_MAGIC);
    return hsp_hash64(s->hashes, s->head->n_rows * sizeof(*s->hashes), seed);
}

/* Computes the places of the parts for @n rows; false when the sizes overflow. */
static bool plan_file(struct seg_head *h, uint64_t n, uint64_t area_bytes)
{
    h->rows_at = ROWS_AT;
    h->hashes_at = h->rows_at + n * sizeof(struct hsp_segment_row);
    uint64_t end = h->hashes_at + n * sizeof(uint64_t);
    h->area_at = (end + SEG_ALIGN - 1) / SEG_ALIGN * SEG_ALIGN;
    h->area_bytes = area_bytes;
    if (area_bytes > (uint64_t)INT64_MAX - h->area_at) {
        return false;
    }
    h->file_bytes = h->area_at + area_bytes;
    return true;
}

struct row_span {
    int64_t lo, hi;
    uint32_t row;
};

static int by_lo(const void *a, const void *b)
{
    const struct row_span *x = a, *y = b;
    return x->lo != y->lo ? (x->lo < y->lo ? -1 : 1) : (x->hi > y->hi) - (x->hi < y->hi);
}

static enum hsp_status check_row(const struct hsp_segment_row *r, int64_t area_bytes,
                                 struct row_span *ret, struct hsp_err *err)
{
    if (r->box.rank > HSP_MAX_RANK || (unsigned)r->dtype > HSP_I32) {
        return hsp_err_set(err, HSP_EINVAL, 0, "tensor %u: bad rank or type", r->tensor);
    }
    int64_t bytes = (int64_t)hsp_dtype_size(r->dtype), whole = 1;
    for (uint8_t d = 0; d < r->box.rank; d++) {
        if (r->box.lo[d] < 0 || r->box.lo[d] > r->box.hi[d] || r->box.hi[d] > r->full[d]) {
            return hsp_err_set(err, HSP_EINVAL, 0, "tensor %u: box outside the tensor", r->tensor);
        }
        if (!hsp_mul_i64(bytes, r->box.hi[d] - r->box.lo[d], &bytes) ||
            !hsp_mul_i64(whole, hsp_max_i64(1, r->full[d]), &whole)) {
            return hsp_err_set(err, HSP_EINVAL, 0, "tensor %u: too large", r->tensor);
        }
    }
    if (r->offset < 0 || r->offset % 64 != 0 || bytes > area_bytes ||
        r->offset > area_bytes - bytes) {
        return hsp_err_set(err, HSP_EINVAL, 0, "tensor %u: offset %" PRId64 " outside the area",
                           r->tensor, r->offset);
    }
    *ret = (struct row_span){.lo = r->offset, .hi = r->offset + bytes};
    return HSP_OK;
}

/* I1 */
static enum hsp_status check_rows(const struct hsp_segment_row *rows, uint32_t n,
                                  int64_t area_bytes, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    struct row_span *span = calloc((size_t)n + 1, sizeof(*span));
    if (span == NULL) {
        return hsp_err_nomem(err, "the check of %u rows", n);
    }
    for (uint32_t i = 0; st == HSP_OK && i < n; i++) {
        st = check_row(&rows[i], area_bytes, &span[i], err);
        span[i].row = i;
    }
    if (st == HSP_OK) {
        int64_t end = 0;
        qsort(span, n, sizeof(*span), by_lo);
        for (uint32_t i = 0; i < n; i++) {
            if (span[i].lo == span[i].hi) {
                continue;
            }
            if (span[i].lo < end) {
                st = hsp_err_set(err, HSP_EINVAL, 0, "tensor %u overlaps another at byte %" PRId64,
                                 rows[span[i].row].tensor, span[i].lo);
                break;
            }
            end = span[i].hi;
        }
    }
    free(span);
    return st;
}

/* Maps @fd and sets the pointers into it; no content is checked yet. */
static enum hsp_status map_file(int fd, size_t bytes, bool writable, const char *path,
                                struct hsp_state_segment **ret, struct hsp_err *err)
{
    struct hsp_state_segment *s = calloc(1, sizeof(*s));
    struct stat sb;
    if (s == NULL) {
        return hsp_err_nomem(err, "a segment");
    }
    if (fstat(fd, &sb) != 0) {
        free(s);
        return hsp_state_io_error(err, "cannot stat", path);
    }
    s->file = (struct hsp_segment_file){sb.st_dev, sb.st_ino};
    int prot = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    s->map = mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);
    if (s->map == MAP_FAILED) {
        free(s);
        return hsp_state_io_error(err, "cannot map", path);
    }
    s->bytes = s->mapped = bytes;
    s->writable = writable;
    s->head = (const struct seg_head *)(const void *)s->map;
    s->seal = (struct seg_seal *)(void *)(s->map + SEAL_AT);
    *ret = s;
    return HSP_OK;
}

static void point_to_parts(struct hsp_state_segment *s)
{
    s->rows = (const struct hsp_segment_row *)(const void *)(s->map + s->head->rows_at);
    s->hashes = (uint64_t *)(void *)(s->map + s->head->hashes_at);
    s->area = s->map + s->head->area_at;
}

struct hsp_state_segment *hsp_segment_close(struct hsp_state_segment *s)
{
    if (s != NULL) {
        (void)munmap(s->map, s->mapped); /* cannot fail for a mapping of ours */
        free(s);
    }
    return NULL;
}

static void *close_thread(void *segment)
{
    struct hsp_state_segment *s = segment;
    int room = s->room;
    (void)hsp_segment_close(s);
    if (room >= 0) {
        (void)close(room);
    }
    return NULL;
}

struct hsp_state_segment *hsp_segment_close_behind(const char *dir, struct hsp_state_segment *s)
{
    pthread_t thread;
    if (s == NULL || s->mapped < MUCH) {
        return hsp_segment_close(s);
    }
    s->room = hsp_segment_room_comes(dir);
    if (pthread_create(&thread, NULL, close_thread, s) == 0) {
        (void)pthread_detach(thread);
    } else {
        (void)close_thread(s);
    }
    return NULL;
}

/* ---- create, open ---- */

static enum hsp_status fill_file(struct hsp_state_segment *s, const struct seg_head *head,
                                 const struct hsp_segment_row *rows)
{
    /* The hash covers the padding, too, so fields are copied one by one into zeroed memory. */
    struct hsp_segment_row *to = (struct hsp_segment_row *)(void *)(s->map + head->rows_at);
    struct seg_head *h = (struct seg_head *)(void *)s->map;
    for (uint32_t i = 0; i < head->n_rows; i++) {
        to[i].tensor = rows[i].tensor;
        to[i].kind = rows[i].kind;
        to[i].dtype = rows[i].dtype;
        to[i].offset = rows[i].offset;
        to[i].box.rank = rows[i].box.rank;
        for (uint8_t d = 0; d < rows[i].box.rank; d++) {
            to[i].full[d] = rows[i].full[d];
            to[i].box.lo[d] = rows[i].box.lo[d];
            to[i].box.hi[d] = rows[i].box.hi[d];
        }
    }
    memcpy(h, head, sizeof(*h));
    h->table_hash = table_hash(h, to);
    point_to_parts(s);
    s->seal->version = HSP_NO_VERSION;
    return HSP_OK;
}

struct want {
    const struct hsp_segment_key *key;
    const struct hsp_whose *whose;
    const struct hsp_segment_row *rows;
    uint32_t n;
    int64_t area_bytes;
};

/* Computes the head of a segment, its path, and its path while it is made. HSP_EEXIST: it is
 * there. */
static enum hsp_status plan_segment(const char *dir, const struct want *w, struct seg_head *ret,
                                    char path[HSP_SEGMENT_PATH], char tmp[HSP_SEGMENT_PATH],
                                    struct hsp_err *err)
{
    memset(ret, 0, sizeof(*ret)); /* with its padding */
    ret->magic = SEG_MAGIC;
    ret->format = SEG_FORMAT;
    ret->n_rows = w->n;
    ret->cluster_hi = w->whose->cluster.hi;
    ret->cluster_lo = w->whose->cluster.lo;
    ret->generation = w->whose->generation;
    enum hsp_status st = hsp_segment_normal_key(w->key, &ret->key, err);
    if (st == HSP_OK) {
        st = hsp_segment_paths(dir, &ret->key, path, tmp, err);
    }
    if (st != HSP_OK) {
        return st;
    }
    if (w->n > HSP_SEGMENT_MAX_ROWS || w->area_bytes < 0 ||
        !plan_file(ret, w->n, (uint64_t)w->area_bytes)) {
        return hsp_err_set(err, HSP_EINVAL, 0, "segment of %u rows and %" PRId64 " bytes", w->n,
                           w->area_bytes);
    }
    st = check_rows(w->rows, w->n, w->area_bytes, err);
    return st == HSP_OK && access(path, F_OK) == 0
               ? hsp_err_set(err, HSP_EEXIST, 0, "%s exists", path)
               : st;
}

enum hsp_status hsp_segment_create(const char *dir, const struct hsp_segment_key *key,
                                   const struct hsp_whose *whose,
                                   const struct hsp_segment_row *rows, uint32_t n,
                                   int64_t area_bytes, const struct hsp_segment_stop *stop,
                                   struct hsp_state_segment **ret, struct hsp_err *err)
{
    const struct want want = {key, whose, rows, n, area_bytes};
    char path[HSP_SEGMENT_PATH], tmp[HSP_SEGMENT_PATH];
    struct seg_head head;
    struct hsp_state_segment *s = NULL;
    enum hsp_status st = plan_segment(dir, &want, &head, path, tmp, err);
    if (st != HSP_OK) {
        return st;
    }
    (void)hsp_segment_unlink(dir, tmp); /* left by a creator that was killed */
    int fd = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return hsp_state_io_error(err, "cannot create", tmp);
    }
    /* With its head the file looks like a spare until it is renamed: nobody else may cut it. */
    (void)flock(fd, LOCK_EX | LOCK_NB);
    st = hsp_room_take(dir, fd, head.file_bytes, tmp, stop, err);
    if (st == HSP_OK) {
        st = map_file(fd, (size_t)head.file_bytes, true, tmp, &s, err);
    }
    if (st == HSP_OK) {
        st = hsp_room_map(s->map, s->bytes, stop, err);
    }
    if (st == HSP_OK) {
        st = fill_file(s, &head, rows);
    }
    if (st == HSP_OK && rename(tmp, path) != 0) {
        st = hsp_state_io_error(err, "cannot rename to", path);
    }
    (void)flock(fd, LOCK_UN); /* the mapping would keep the lock */
    (void)close(fd);
    if (st != HSP_OK) {
        (void)hsp_segment_close_behind(dir, s);
        (void)hsp_segment_unlink(dir, tmp); /* the first error is the one to report */
        return st;
    }
    *ret = s;
    return HSP_OK;
}

/* ---- spares ---- */

bool hsp_segment_is_named(const char *dir, const struct hsp_state_segment *s)
{
    char path[HSP_SEGMENT_PATH], tmp[HSP_SEGMENT_PATH];
    return hsp_segment_paths(dir, &s->head->key, path, tmp, NULL) == HSP_OK &&
           hsp_segment_file_is(path, &s->file);
}

bool hsp_segment_make_spare(const char *dir, struct hsp_state_segment *s,
                            char ret_path[HSP_SEGMENT_PATH])
{
    char path[HSP_SEGMENT_PATH];
    if (!s->writable || hsp_segment_paths(dir, &s->head->key, path, ret_path, NULL) != HSP_OK ||
        !hsp_segment_file_is(path, &s->file)) {
        return false;
    }
    hsp_segment_unseal(s);
    return rename(path, ret_path) == 0;
}

uint64_t hsp_segment_file_bytes(uint32_t n, int64_t area_bytes)
{
    struct seg_head h;
    return area_bytes >= 0 && plan_file(&h, n, (uint64_t)area_bytes) ? h.file_bytes : UINT64_MAX;
}

void *hsp_segment_map(const struct hsp_state_segment *s)
{
    return s->map;
}

size_t hsp_segment_bytes(const struct hsp_state_segment *s)
{
    return s->bytes;
}

/* Makes @s a new segment. @fd: its file, locked, which no other process takes for a segment. */
static enum hsp_status refill(struct hsp_state_segment *s, int fd, const struct seg_head *head,
                              const struct hsp_segment_row *rows, const char *from,
                              const char *path, struct hsp_err *err)
{
    memset(s->map, 0, (size_t)head->area_at); /* from here on it is a segment in the making */
    if (ftruncate(fd, (off_t)head->file_bytes) != 0) {
        return hsp_state_io_error(err, "cannot cut", from);
    }
    s->bytes = (size_t)head->file_bytes;
    enum hsp_status st = fill_file(s, head, rows);
    return st == HSP_OK && rename(from, path) != 0
               ? hsp_state_io_error(err, "cannot rename to", path)
               : st;
}

enum hsp_status hsp_segment_reuse(const char *dir, const char *spare,
                                  const struct hsp_segment_key *key, const struct hsp_whose *whose,
                                  const struct hsp_segment_row *rows, uint32_t n,
                                  int64_t area_bytes, struct hsp_state_segment *s,
                                  struct hsp_err *err)
{
    const struct want want = {key, whose, rows, n, area_bytes};
    char path[HSP_SEGMENT_PATH], tmp[HSP_SEGMENT_PATH];
    struct seg_head head;
    enum hsp_status st = plan_segment(dir, &want, &head, path, tmp, err);
    if (st != HSP_OK) {
        return st;
    }
    HSP_ASSERT(head.file_bytes <= s->bytes);
    int fd = hsp_spare_lock(spare, &s->file, s->bytes);
    if (fd < 0) {
        return hsp_err_set(err, HSP_ENOENT, 0, "%s was cut", spare);
    }
    /* A process that opened the file as a segment may still read the table of that. */
    st = head.file_bytes >= s->head->area_at
             ? refill(s, fd, &head, rows, spare, path, err)
             : hsp_err_set(err, HSP_ENOENT, 0, "%s has a longer table", spare);
    (void)close(fd);
    return st;
}

static bool sizes_fit(const struct seg_head *h, size_t bytes)
{
    struct seg_head want;
    memcpy(&want, h, sizeof(want)); /* with its padding */
    return h->n_rows <= HSP_SEGMENT_MAX_ROWS && plan_file(&want, h->n_rows, h->area_bytes) &&
           memcmp(&want, h, sizeof(want)) == 0 && h->file_bytes == bytes;
}

/* Returns true if only the words that name the format are damaged: with the words of @format in
 * their place, head and table fit their hash. */
static bool fits(const struct hsp_state_segment *s, uint32_t format)
{
    struct seg_head h;
    memcpy(&h, s->head, sizeof(h));
    h.magic = SEG_MAGIC;
    h.format = format;
    return sizes_fit(&h, s->bytes) &&
           table_hash(&h, (const struct hsp_segment_row *)(const void *)(s->map + h.rows_at)) ==
               table_hash_of(&h);
}

/* Orders the reads before it before those behind it. The thread sanitizer of gcc knows no fences;
 * the writer is another process, so it does not see the race either. */
static void reads_are_done(void)
{
#if !defined(__SANITIZE_THREAD__)
    atomic_thread_fence(memory_order_acquire);
#endif
}

static bool word_damaged(uint64_t sealed)
{
    return sealed != SEG_SEALED && sealed != SEG_OPEN;
}

/* Returns true if the seal is damaged, while a writer may be at work. A seal that does not fit, and
 * was the same before and behind the look, is damaged. A seal that changes at each look is open. A
 * seal word that no writer stores is damaged. */
static bool seal_damaged(const struct hsp_state_segment *s)
{
    for (int look = 0; look < SEAL_LOOKS; look++) {
        uint64_t sealed = atomic_load_explicit(&s->seal->sealed, memory_order_acquire);
        uint64_t version = s->seal->version, check = s->seal->check;
        if (sealed != SEG_SEALED || (check == seal_check(s) && version != HSP_NO_VERSION)) {
            return word_damaged(sealed);
        }
        reads_are_done();
        if (atomic_load_explicit(&s->seal->sealed, memory_order_relaxed) == sealed &&
            s->seal->version == version && s->seal->check == check) {
            return true;
        }
    }
    return false;
}

/* Checks everything that can be checked without reading the contents. */
static enum hsp_status check_file(struct hsp_state_segment *s, const char *path,
                                  struct hsp_err *err)
{
    const struct seg_head *h = s->head;
    if (h->magic != SEG_MAGIC || (h->format != SEG_FORMAT && h->format != SEG_OLD)) {
        return fits(s, SEG_FORMAT) || fits(s, SEG_OLD)
                   ? hsp_err_set(err, HSP_EDIGEST, 0, "%s: damaged head", path)
                   : hsp_err_set(err, HSP_EVERSION, 0, "%s: format %u, we write %u", path,
                                 h->format, SEG_FORMAT);
    }
    if (!sizes_fit(h, s->bytes)) {
        return hsp_err_set(err, HSP_EDIGEST, 0, "%s: sizes do not fit together", path);
    }
    point_to_parts(s);
    if (table_hash_of(h) != table_hash(h, s->rows)) {
        return hsp_err_set(err, HSP_EDIGEST, 0, "%s: damaged table", path);
    }
    enum hsp_status st = check_rows(s->rows, h->n_rows, (int64_t)h->area_bytes, err);
    if (st != HSP_OK) {
        (void)hsp_err_wrap(err, "%s", path);
        return st == HSP_ENOMEM ? st : HSP_EDIGEST;
    }
    return seal_damaged(s) ? hsp_err_set(err, HSP_EDIGEST, 0, "%s: damaged seal", path) : HSP_OK;
}

enum hsp_status hsp_segment_open_path(const char *path, bool writable,
                                      struct hsp_state_segment **ret, struct hsp_err *err)
{
    struct hsp_state_segment *s = NULL;
    struct stat sb;
    int how = (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int fd = open(path, how); /* does not wait for the writer of a pipe */
    if (fd < 0) {
        return hsp_state_io_error(err, "cannot open", path);
    }
    enum hsp_status st = HSP_OK;
    if (fstat(fd, &sb) != 0) {
        st = hsp_state_io_error(err, "cannot stat", path);
    } else if (!S_ISREG(sb.st_mode) || sb.st_size < ROWS_AT) {
        st = hsp_err_set(err, HSP_EDIGEST, 0, "%s is too short for a state segment", path);
    } else {
        st = map_file(fd, (size_t)sb.st_size, writable, path, &s, err);
    }
    (void)close(fd); /* the mapping holds the file */
    if (st == HSP_OK) {
        st = check_file(s, path, err);
    }
    if (st != HSP_OK) {
        hsp_segment_close(s);
        return st;
    }
    *ret = s;
    return HSP_OK;
}

enum hsp_status hsp_segment_check(struct hsp_state_segment *s, struct hsp_err *err)
{
    return check_file(s, s->head->key.device, err);
}

enum hsp_status hsp_segment_populate(struct hsp_state_segment *s,
                                     const struct hsp_segment_stop *stop, struct hsp_err *err)
{
    HSP_ASSERT(s->writable);
    return hsp_room_map(s->map, s->bytes, stop, err);
}

enum hsp_status hsp_segment_open(const char *dir, const struct hsp_segment_key *key, bool writable,
                                 struct hsp_state_segment **ret, struct hsp_err *err)
{
    char path[HSP_SEGMENT_PATH], tmp[HSP_SEGMENT_PATH];
    struct hsp_segment_key k;
    struct hsp_state_segment *s = NULL;
    enum hsp_status st = hsp_segment_normal_key(key, &k, err);
    if (st == HSP_OK) {
        st = hsp_segment_paths(dir, &k, path, tmp, err);
    }
    if (st == HSP_OK) {
        st = hsp_segment_open_path(path, writable, &s, err);
    }
    if (st == HSP_OK && memcmp(&s->head->key, &k, sizeof(k)) != 0) {
        st = hsp_err_set(err, HSP_EINVAL, 0,
                         "%s is a copy of another segment, or was renamed: move it away", path);
        hsp_segment_close(s);
    }
    if (st == HSP_OK) {
        *ret = s;
    }
    return st;
}

/* ---- looking ---- */

const struct hsp_segment_key *hsp_segment_key_of(const struct hsp_state_segment *s)
{
    return &s->head->key;
}

struct hsp_whose hsp_segment_whose(const struct hsp_state_segment *s)
{
    const struct seg_head *h = s->head;
    bool old = h->format == SEG_OLD;
    return (struct hsp_whose){.cluster = {old ? 0 : h->cluster_hi, old ? 0 : h->cluster_lo},
                              .generation = old ? 0 : h->generation};
}

uint32_t hsp_segment_n(const struct hsp_state_segment *s)
{
    return s->head->n_rows;
}

const struct hsp_segment_row *hsp_segment_row_at(const struct hsp_state_segment *s, uint32_t i)
{
    HSP_ASSERT(i < s->head->n_rows);
    return &s->rows[i];
}

uint64_t hsp_segment_row_hash(const struct hsp_state_segment *s, uint32_t i)
{
    HSP_ASSERT(i < s->head->n_rows);
    return s->hashes[i];
}

void *hsp_segment_area(const struct hsp_state_segment *s)
{
    return s->area;
}

int64_t hsp_segment_area_bytes(const struct hsp_state_segment *s)
{
    return (int64_t)s->head->area_bytes;
}

uint32_t hsp_segment_find(const struct hsp_state_segment *s, uint32_t tensor, uint8_t kind,
                          const struct hsp_box *box)
{
    for (uint32_t i = 0; i < s->head->n_rows; i++) {
        if (s->rows[i].tensor == tensor && s->rows[i].kind == kind &&
            hsp_box_inside(box, &s->rows[i].box)) {
            return i;
        }
    }
    return UINT32_MAX;
}

uint64_t hsp_segment_version(const struct hsp_state_segment *s)
{
    bool sealed = atomic_load_explicit(&s->seal->sealed, memory_order_acquire) == SEG_SEALED;
    return sealed ? s->seal->version : HSP_NO_VERSION;
}

uint64_t hsp_segment_content(const struct hsp_state_segment *s)
{
    return s->seal->content;
}

/* ---- sealing ---- */

static uint64_t hash_row(const struct hsp_state_segment *s, uint32_t i)
{
    const struct hsp_segment_row *r = &s->rows[i];
    struct hsp_box_id id = {r->tensor, r->kind, r->dtype, r->full};
    return hsp_box_hash(&id, &r->box, &r->box, s->area + r->offset);
}

void hsp_segment_unseal(struct hsp_state_segment *s)
{
    HSP_ASSERT(s->writable);
    /* An exchange, not a store: the writes that follow may not move before it. */
    (void)atomic_exchange_explicit(&s->seal->sealed, SEG_OPEN, memory_order_seq_cst);
}

/* Seals with the hashes @hash of the rows; NULL: computes them. */
static void seal_with(struct hsp_state_segment *s, uint64_t version, const uint64_t *hash)
{
    HSP_ASSERT(s->writable);
    HSP_ASSERT(version != HSP_NO_VERSION);
    hsp_segment_unseal(s);
    uint64_t content = 0;
    for (uint32_t i = 0; i < s->head->n_rows; i++) {
        s->hashes[i] = hash != NULL ? hash[i] : hash_row(s, i);
        content += s->hashes[i];
    }
    s->seal->version = version;
    s->seal->content = content;
    s->seal->check = seal_check(s);
    atomic_store_explicit(&s->seal->sealed, SEG_SEALED, memory_order_release);
}

void hsp_segment_seal(struct hsp_state_segment *s, uint64_t version)
{
    seal_with(s, version, NULL);
}

void hsp_segment_seal_known(struct hsp_state_segment *s, uint64_t version, const uint64_t *hash)
{
    seal_with(s, version, hash);
}

bool hsp_segment_row_fits(const struct hsp_state_segment *s, uint32_t i)
{
    return hash_row(s, i) == hsp_segment_row_hash(s, i);
}

enum hsp_status hsp_segment_verify(const struct hsp_state_segment *s, struct hsp_err *err)
{
    uint64_t sealed = atomic_load_explicit(&s->seal->sealed, memory_order_acquire);
    if (sealed != SEG_SEALED) {
        bool damaged = word_damaged(sealed);
        return hsp_err_set(err, damaged ? HSP_EDIGEST : HSP_ESTATE, 0, "segment of %s slot %u %s",
                           s->head->key.device, s->head->key.slot,
                           damaged ? "has a damaged seal" : "is not sealed");
    }
    for (uint32_t i = 0; i < s->head->n_rows; i++) {
        if (!hsp_segment_row_fits(s, i)) {
            return hsp_err_set(
                err, HSP_EDIGEST, 0, "segment of %s slot %u: tensor %u kind %u is damaged",
                s->head->key.device, s->head->key.slot, s->rows[i].tensor, s->rows[i].kind);
        }
    }
    return HSP_OK;
}
