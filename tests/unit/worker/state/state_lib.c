#include "tests/unit/worker/state/state_lib.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/layout/box.h"

size_t random_cuts(const struct hsp_box *box, size_t max, const char *name, uint64_t seed,
                   struct hsp_box *ret)
{
    size_t n = 1;
    ret[0] = *box;
    for (uint64_t i = 0; n < max && i < 3 * max; i++) {
        uint64_t r = hsp_test_rand(name, seed * 1000 + i);
        struct hsp_box *b = &ret[r % n];
        uint8_t d = (uint8_t)((r >> 20) % (box->rank > 0 ? box->rank : 1));
        if (box->rank == 0 || b->hi[d] - b->lo[d] < 2) {
            continue;
        }
        int64_t at = b->lo[d] + 1 + (int64_t)((r >> 32) % (uint64_t)(b->hi[d] - b->lo[d] - 1));
        ret[n] = *b;
        ret[n++].lo[d] = at;
        b->hi[d] = at;
    }
    return n;
}

struct hsp_box random_inside(const struct hsp_box *box, const char *name, uint64_t seed)
{
    struct hsp_box b = *box;
    for (uint8_t d = 0; d < box->rank; d++) {
        int64_t x = hsp_test_range(name, seed * 16 + d, box->lo[d], box->hi[d]);
        int64_t y = hsp_test_range(name, seed * 16 + 8 + d, box->lo[d], box->hi[d]);
        b.lo[d] = x < y ? x : y;
        b.hi[d] = x < y ? y : x;
    }
    return b;
}

double element(uint32_t tensor, uint8_t kind, uint64_t version, int64_t index)
{
    uint64_t h = hsp_test_rand("element", ((uint64_t)tensor << 40) ^ ((uint64_t)kind << 56) ^
                                              (version << 30) ^ (uint64_t)index);
    return (double)(float)((double)(h >> 40) / 256.0 - 1000.0);
}

void fill_box(enum hsp_dtype t, uint32_t tensor, uint8_t kind, uint64_t version,
              const int64_t *full, const struct hsp_box *box, void *data)
{
    struct hsp_box whole = hsp_box_whole(box->rank, full);
    struct hsp_walk w;
    int64_t at, index;
    hsp_walk_init(&w, box, box, &whole);
    while (hsp_walk_next(&w, &at, &index)) {
        for (int64_t i = 0; i < w.run; i++) {
            double v = element(tensor, kind, version, index + i);
            if (t == HSP_F64) {
                ((double *)data)[at + i] = v;
            } else {
                ((float *)data)[at + i] = (float)v;
            }
        }
    }
}

int64_t wrong_in_box(enum hsp_dtype t, uint32_t tensor, uint8_t kind, uint64_t version,
                     const int64_t *full, const struct hsp_box *region, const struct hsp_box *held,
                     const void *data)
{
    struct hsp_box whole = hsp_box_whole(region->rank, full);
    struct hsp_walk w;
    int64_t at, index, wrong = 0;
    hsp_walk_init(&w, region, held, &whole);
    while (hsp_walk_next(&w, &at, &index)) {
        for (int64_t i = 0; i < w.run; i++) {
            double v = t == HSP_F64 ? ((const double *)data)[at + i]
                                    : (double)((const float *)data)[at + i];
            wrong += v != element(tensor, kind, version, index + i);
        }
    }
    return wrong;
}

int in_folder(void **state)
{
    *state = hsp_test_tmpdir();
    return 0;
}

int folder_gone(void **state)
{
    hsp_test_rmdir(*state);
    free(*state);
    return 0;
}

struct hsp_segment_key segment_key(uint64_t epoch, uint32_t slot)
{
    return (struct hsp_segment_key){
        .job = "gpt-2.small", .device = "node-1/0", .epoch = epoch, .slot = slot};
}

const char *segment_file(const char *dir, const struct hsp_segment_key *k)
{
    static char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s+node-1+0+e%d+s%u.seg", dir, k->job, (int)k->epoch,
                   k->slot);
    return path;
}

void flip_bit(const char *path, uint64_t at, int bit)
{
    uint8_t b;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &b, 1, (off_t)at), 1);
    b ^= (uint8_t)(1U << bit);
    assert_int_equal(pwrite(fd, &b, 1, (off_t)at), 1);
    assert_int_equal(close(fd), 0);
}

void cut_file(const char *path, uint64_t bytes)
{
    assert_int_equal(truncate(path, (off_t)bytes), 0);
}

uint64_t size_of(const char *path)
{
    struct stat sb;
    assert_int_equal(stat(path, &sb), 0);
    return (uint64_t)sb.st_size;
}

#define SPARE 64

static struct rlimit fed;

void starve_descriptors(unsigned n)
{
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &fed), 0);
    int spare[SPARE], n_spare;
    struct rlimit few = {.rlim_cur = 3, .rlim_max = fed.rlim_max};
    for (n_spare = 0; n_spare < (int)n; few.rlim_cur++) {
        assert_true(n_spare < SPARE && few.rlim_cur < fed.rlim_cur);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        while (n_spare < (int)n && (spare[n_spare] = dup(STDIN_FILENO)) >= 0) {
            n_spare++;
        }
    }
    if (n == 0) {
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    }
    assert_int_equal(dup(STDIN_FILENO), -1);
    while (n_spare > 0) {
        (void)close(spare[--n_spare]);
    }
}

void feed_descriptors(void)
{
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &fed), 0);
}
