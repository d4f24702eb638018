/* Opens safetensors files. Every tensor of an accepted file lies inside the file. The same tensors,
 * written to a new file, give the same entries when that file is opened. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "worker/state/safetensors_read.h"
#include "worker/state/safetensors_write.h"

enum { TENSORS = 64, COPY_MAX = 1 << 20 };

static _Alignas(8) uint8_t zeros[COPY_MAX], got[COPY_MAX];

/* A file in memory, by a name that can be opened. */
static int memory_file(const uint8_t *data, size_t len, char path[64])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    HSP_ASSERT(fd >= 0);
    HSP_ASSERT(write(fd, data, len) == (ssize_t)len);
    (void)snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static uint64_t check_entries(const struct hsp_st_reader *r, size_t len)
{
    uint64_t sum = 0;
    size_t n_entries;
    const struct hsp_st_entry *all = hsp_st_entries(r, &n_entries);
    for (size_t i = 0; i < n_entries; i++) {
        const struct hsp_st_entry *e = &all[i];
        uint8_t byte;
        uint64_t n = hsp_dtype_size(e->dtype);
        HSP_ASSERT(e->begin <= e->end && e->end <= len);
        HSP_ASSERT(e->rank <= HSP_MAX_RANK);
        for (uint8_t d = 0; d < e->rank; d++) {
            HSP_ASSERT(e->ext[d] >= 0);
            n *= (uint64_t)e->ext[d];
        }
        HSP_ASSERT(n == e->end - e->begin);
        HSP_ASSERT(hsp_st_find(r, e->name) == e);
        if (n > 0) { /* the last byte is in the file, the next byte is not in the tensor */
            enum hsp_status st = hsp_st_read(r, e, n - 1, &byte, 1, NULL);
            HSP_ASSERT(st == HSP_OK || (st == HSP_EDIGEST && hsp_st_summed(r)));
        }
        HSP_ASSERT(hsp_st_read(r, e, n, &byte, 1, NULL) == HSP_EINVAL);
        sum += n;
    }
    HSP_ASSERT(sum <= len);
    return sum;
}

static void write_again(const struct hsp_st_reader *r)
{
    static char path[64];
    struct hsp_st_entry e[TENSORS];
    struct hsp_st_writer *w = NULL;
    struct hsp_st_reader *back = NULL;
    struct hsp_st_meta meta = {"key", hsp_st_meta_value(r, "key")};
    size_t n, n_back;
    const struct hsp_st_entry *all = hsp_st_entries(r, &n);
    (void)snprintf(path, sizeof path, "/dev/shm/hspmd-fuzz-%ld", (long)getpid());
    for (size_t i = 0; i < n; i++) {
        e[i] = all[i];
    }
    HSP_ASSERT(hsp_st_create(path, e, n, &meta, meta.value != NULL, &w, NULL) == HSP_OK);
    for (size_t i = 0; i < n; i++) {
        HSP_ASSERT(hsp_st_write(w, i, 0, zeros, e[i].end - e[i].begin, NULL) == HSP_OK);
    }
    HSP_ASSERT(hsp_st_finish(w, NULL) == HSP_OK);
    HSP_ASSERT(hsp_st_open(path, &back, NULL) == HSP_OK);
    (void)hsp_st_entries(back, &n_back);
    HSP_ASSERT(n_back == n);
    for (size_t i = 0; i < n; i++) {
        const struct hsp_st_entry *a = &all[i], *b = hsp_st_find(back, a->name);
        HSP_ASSERT(b != NULL && b->dtype == a->dtype && b->rank == a->rank);
        HSP_ASSERT(memcmp(b->ext, a->ext, sizeof a->ext) == 0);
        HSP_ASSERT(hsp_st_read(back, b, 0, got, b->end - b->begin, NULL) == HSP_OK);
        HSP_ASSERT(memcmp(got, zeros, b->end - b->begin) == 0);
    }
    const char *value = hsp_st_meta_value(back, "key");
    HSP_ASSERT((value == NULL) == (meta.value == NULL));
    HSP_ASSERT(value == NULL || strcmp(value, meta.value) == 0);
    (void)hsp_st_close(back);
    HSP_ASSERT(unlink(path) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char path[64];
    struct hsp_err err = {0};
    struct hsp_st_reader *r = NULL;
    int fd = memory_file(data, len, path);
    enum hsp_status st = hsp_st_open(path, &r, &err);
    if (st == HSP_OK) {
        size_t n;
        uint64_t bytes = check_entries(r, len);
        (void)hsp_st_entries(r, &n);
        if (n <= TENSORS && bytes <= COPY_MAX) {
            write_again(r);
        }
        (void)hsp_st_close(r);
    } else {
        HSP_ASSERT(st == HSP_EPARSE || st == HSP_ELIMIT || st == HSP_EUNSUPPORTED);
        HSP_ASSERT(err.msg[0] != '\0');
    }
    HSP_ASSERT(close(fd) == 0);
    return 0;
}

static bool seed(size_t i, struct hsp_buf *out)
{
    static const char *const text[] = {
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"b\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[24,32]},"
        "\"__metadata__\":{\"key\":\"value\"}}",
        "{\"i\":{\"dtype\":\"I32\",\"shape\":[0,7],\"data_offsets\":[0,0]}}      ",
        "{}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
        "{\"h\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]}}",
        "{\"__metadata__\":{\"hspmd.sums\":\"0123456789abcdef\"},"
        "\"h\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
    };
    if (i >= sizeof text / sizeof text[0]) {
        return false;
    }
    hsp_buf_u64(out, strlen(text[i]));
    hsp_buf_puts(out, text[i]);
    hsp_buf_append(out, zeros, i == 0 ? 32 : i < 3 ? 0 : i == 3 ? 8 : 4);
    return true;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "safetensors", .seed = seed};
