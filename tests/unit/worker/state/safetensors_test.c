/* Tests safetensors: written data are read back; every malformed header is refused with its
 * reason. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/hash.h"
#include "tests/unit/worker/state/state_lib.h"
#include "worker/state/folder.h"
#include "worker/state/safetensors_read.h"
#include "worker/state/safetensors_write.h"

static char path[4200];

static int setup(void **state)
{
    char *dir = hsp_test_tmpdir();
    snprintf(path, sizeof path, "%s/x.safetensors", dir);
    *state = dir;
    return 0;
}

static int teardown(void **state)
{
    hsp_test_rmdir(*state);
    free(*state);
    return 0;
}

static void test_written_tensors_read_back(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_st_entry e[4] = {
        {.name = "h.0.w", .dtype = HSP_F32, .rank = 2, .ext = {2, 3}},
        {.name = "scalar", .dtype = HSP_F64, .rank = 0},
        {.name = "empty", .dtype = HSP_I32, .rank = 2, .ext = {0, 5}},
        {.name = "half", .dtype = HSP_BF16, .rank = 1, .ext = {3}},
    };
    struct hsp_st_meta meta = {"format", "pt"};
    float w[6] = {1, 2, 3, 4, 5, 6}, got[6];
    uint16_t half[3] = {0x3f80, 0xc000, 0x7f80}, gh[3];
    double s = 0.1, gs;
    struct hsp_st_writer *wr;
    struct hsp_st_reader *rd;
    assert_ok(hsp_st_create(path, e, 4, &meta, 1, &wr, &err), &err);
    assert_ok(hsp_st_write(wr, 1, 0, &s, 8, &err), &err);
    assert_ok(hsp_st_write(wr, 0, 12, w + 3, 12, &err), &err);
    assert_ok(hsp_st_write(wr, 0, 0, w, 12, &err), &err);
    assert_status(hsp_st_write(wr, 0, 13, w, 12, &err), HSP_EINVAL);
    assert_ok(hsp_st_write(wr, 3, 0, half, sizeof half, &err), &err);
    assert_ok(hsp_st_finish(wr, &err), &err);
    assert_ok(hsp_st_open(path, &rd, &err), &err);
    size_t n;
    (void)hsp_st_entries(rd, &n);
    assert_int_equal(n, 4);
    assert_string_equal(hsp_st_meta_value(rd, "format"), "pt");
    assert_null(hsp_st_meta_value(rd, "other"));
    const struct hsp_st_entry *x = hsp_st_find(rd, "h.0.w");
    assert_non_null(x);
    assert_int_equal(x->ext[1], 3);
    assert_ok(hsp_st_read(rd, x, 0, got, sizeof got, &err), &err);
    assert_memory_equal(got, w, sizeof w);
    assert_ok(hsp_st_read(rd, hsp_st_find(rd, "scalar"), 0, &gs, 8, &err), &err);
    assert_memory_equal(&gs, &s, 8);
    x = hsp_st_find(rd, "half");
    assert_int_equal(x->dtype, HSP_BF16);
    assert_ok(hsp_st_read(rd, x, 0, gh, sizeof gh, &err), &err);
    assert_memory_equal(gh, half, sizeof half);
    x = hsp_st_find(rd, "h.0.w");
    assert_status(hsp_st_read(rd, x, 1, got, sizeof got, &err), HSP_EINVAL);
    assert_null(hsp_st_find(rd, "none"));
    assert_null(hsp_st_close(rd));
}

/* Room is reserved so that a full disk shows before the data are gathered. */
static void test_room_is_reserved_at_once(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_st_entry e = {.name = "w", .dtype = HSP_F32, .rank = 1, .ext = {1 << 20}};
    struct hsp_st_writer *w;
    struct stat sb;
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    bool can = fallocate(fd, 0, 0, 4096) == 0;
    assert_int_equal(close(fd), 0);
    if (!can) {
        print_message("this file system cannot\n");
        return;
    }
    assert_ok(hsp_st_create(path, &e, 1, NULL, 0, &w, &err), &err);
    assert_int_equal(stat(path, &sb), 0);
    assert_true(sb.st_size > 4 << 20);
    assert_true((int64_t)sb.st_blocks * 512 >= 4 << 20);
    (void)hsp_st_discard(w);
    assert_int_equal(access(path, F_OK), -1);
}

static void test_two_tensors_of_one_name_are_refused(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_st_entry e[2] = {{.name = "a", .dtype = HSP_F32}, {.name = "a", .dtype = HSP_F32}};
    struct hsp_st_writer *wr;
    assert_status(hsp_st_create(path, e, 2, NULL, 0, &wr, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "tensor a appears twice");
    assert_int_not_equal(access(path, F_OK), 0);
}

static void put_file(const char *json, size_t data)
{
    FILE *f = fopen(path, "wb");
    uint64_t n = strlen(json);
    assert_non_null(f);
    fwrite(&n, 8, 1, f);
    fwrite(json, 1, n, f);
    for (size_t i = 0; i < data; i++) {
        fputc(0, f);
    }
    fclose(f);
}

static void test_malformed_headers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        size_t data;
        enum hsp_status code;
        const char *text;
    } cases[] = {
        {"[]", 8, HSP_EPARSE, "not a JSON object"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, HSP_EPARSE,
         "disagree"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, HSP_EPARSE,
         "outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 12, HSP_EPARSE,
         "fill 8"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, HSP_EPARSE, "hole"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         8, HSP_EPARSE, "twice"},
        {"{\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]}}", 2, HSP_EUNSUPPORTED,
         "F16"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, HSP_EPARSE,
         "extent"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}", 4,
         HSP_EPARSE, "disagree"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, HSP_EPARSE,
         "extent"},
        {"{\"a\":7}", 4, HSP_EUNSUPPORTED, "dtype"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hsp_err err = {0};
        struct hsp_st_reader *rd = NULL;
        put_file(cases[i].json, cases[i].data);
        assert_status(hsp_st_open(path, &rd, &err), cases[i].code);
        assert_null(rd);
        assert_non_null(strstr(err.msg, cases[i].text));
    }
}

static void test_a_header_longer_than_the_file_is_refused(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_st_reader *rd = NULL;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    uint64_t n = UINT64_MAX - 4;
    fwrite(&n, 8, 1, f);
    fwrite("{}      ", 1, 8, f);
    fclose(f);
    assert_status(hsp_st_open(path, &rd, &err), HSP_EPARSE);
}

static int interruptions;

int __wrap_fallocate(int fd, int mode, off_t at, off_t bytes);
int __real_fallocate(int fd, int mode, off_t at, off_t bytes);

int __wrap_fallocate(int fd, int mode, off_t at, off_t bytes)
{
    if (interruptions > 0) {
        interruptions--;
        errno = EINTR;
        return -1;
    }
    return __real_fallocate(fd, mode, at, bytes);
}

static void test_an_interrupted_reservation_goes_on(void **state)
{
    struct hsp_st_entry e = {.name = "x", .dtype = HSP_F32, .rank = 1, .ext = {100000}};
    struct hsp_st_writer *w = NULL;
    struct hsp_err err = {0};
    (void)state;
    interruptions = 2;
    assert_ok(hsp_st_create(path, &e, 1, NULL, 0, &w, &err), &err);
    assert_int_equal(interruptions, 0);
    (void)hsp_st_discard(w);
}

/* ---- sums ---- */

#define BIG ((9 << 20) / 4) /* elements of a tensor of three parts */

static struct hsp_st_entry summed[] = {
    {.name = "big", .dtype = HSP_F32, .rank = 2, .ext = {BIG / 256, 256}},
    {.name = "empty", .dtype = HSP_F64, .rank = 1, .ext = {0}},
    {.name = "half", .dtype = HSP_BF16, .rank = 1, .ext = {3001}},
    {.name = "wide", .dtype = HSP_F64, .rank = 0},
};

static uint8_t *write_summed(void)
{
    struct hsp_st_writer *w;
    struct hsp_err err = {0};
    size_t bytes = (size_t)BIG * 4 + 3001 * 2 + 8, at = 0;
    uint8_t *data = malloc(bytes);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++) {
        data[i] = (uint8_t)(hsp_mix64(i / 8) >> (i % 8 * 8));
    }
    assert_ok(hsp_st_create(path, summed, 4, NULL, 0, &w, &err), &err);
    for (size_t i = 0; i < 4; i++) { /* in pieces, the last first */
        size_t n = (size_t)(summed[i].end - summed[i].begin), piece = 1000 * 8;
        for (size_t k = n / piece + 1; k-- > 0;) {
            size_t len = n - k * piece < piece ? n - k * piece : piece;
            assert_ok(hsp_st_write(w, i, k * piece, data + at + k * piece, len, &err), &err);
        }
        at += n;
    }
    assert_ok(hsp_st_finish(w, &err), &err);
    return data;
}

/* A damaged bit is reported to each reader of its part, and to no other reader. */
static void test_damage_is_found_where_it_is_read(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    uint8_t *data = write_summed(), *got = malloc((size_t)BIG * 4);
    struct stat sb;
    assert_non_null(got);
    assert_int_equal(stat(path, &sb), 0);
    uint64_t bytes = summed[3].end, start = (uint64_t)sb.st_size - bytes;
    for (uint64_t i = 0; i < 60; i++) {
        uint64_t at = hsp_test_rand("bit", i) % bytes;
        at = i % 3 == 0 ? bytes - 1 - at % 6000 : at; /* also in the small ones */
        flip_bit(path, start + at, (int)(i % 8));
        struct hsp_st_reader *r;
        assert_ok(hsp_st_open(path, &r, &err), &err);
        assert_true(hsp_st_summed(r));
        size_t n_entries;
        const struct hsp_st_entry *all = hsp_st_entries(r, &n_entries);
        assert_int_equal(n_entries, 4);
        for (uint64_t k = 0; k < 40; k++) {
            const struct hsp_st_entry *e = &all[k % 4];
            uint64_t size = e->end - e->begin, elem = hsp_dtype_size(e->dtype);
            uint64_t from = size == 0 ? 0 : hsp_test_rand("from", i * 40 + k) % size;
            uint64_t n = k % 2 == 0 ? (size - from) % 5000 : size - from;
            from -= k % 3 == 0 ? from % elem : 0;
            uint64_t part = (uint64_t)4 << 20;
            bool hit = n > 0 && at >= e->begin + from / part * part && at < e->end &&
                       at < e->begin + ((from + n - 1) / part + 1) * part;
            enum hsp_status st = hsp_st_read(r, e, from, got, n, &err);
            assert_int_equal(st, hit ? HSP_EDIGEST : HSP_OK);
            assert_true(hit ? strstr(err.msg, " is damaged") != NULL
                            : memcmp(got, data + e->begin + from, n) == 0);
        }
        hsp_st_relax(r);
        hsp_st_close(r);
        flip_bit(path, start + at, (int)(i % 8));
    }
    free(data);
    free(got);
}

static void put_byte(uint64_t at, char byte)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    assert_int_equal(close(fd), 0);
}

/* One sum is damaged itself, another text is no sum. */
static void test_sums_belong_to_the_tensors(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_st_reader *r;
    char header[256];
    double x;
    free(write_summed());
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(header, 1, sizeof header, f), sizeof header);
    assert_int_equal(fclose(f), 0);
    const char *key = memmem(header, sizeof header, "hspmd.sums\":\"", 13);
    assert_non_null(key);
    uint64_t last = (uint64_t)(key - header) + 13 + 4 * 16; /* of "wide" */
    const char *digit = &header[last];
    put_byte(last, *digit == '0' ? '1' : '0');
    assert_ok(hsp_st_open(path, &r, &err), &err);
    assert_ok(hsp_st_read(r, hsp_st_find(r, "half"), 0, &x, 8, &err), &err);
    assert_status(hsp_st_read(r, hsp_st_find(r, "wide"), 0, &x, 8, &err), HSP_EDIGEST);
    hsp_st_close(r);
    put_byte(last, 'g');
    assert_status(hsp_st_open(path, &r, &err), HSP_EPARSE);
    assert_non_null(strstr(err.msg, "its sums are not those of its tensors"));
    put_file("{\"a\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]}}", 8);
    assert_ok(hsp_st_open(path, &r, &err), &err);
    assert_false(hsp_st_summed(r)); /* of another program */
    assert_ok(hsp_st_read(r, hsp_st_find(r, "a"), 0, &x, 8, &err), &err);
    hsp_st_close(r);
}

static void test_every_element_is_written_once(void **state)
{
    (void)state;
    for (uint64_t twice = 0; twice < 2; twice++) {
        struct hsp_st_entry e = {.name = "x", .dtype = HSP_F32, .rank = 1, .ext = {4}};
        struct hsp_st_writer *w;
        struct hsp_err err = {0};
        float x[4] = {1, 2, 3, 4};
        assert_ok(hsp_st_create(path, &e, 1, NULL, 0, &w, &err), &err);
        assert_ok(hsp_st_write(w, 0, 4, x + 1, 12, &err), &err);
        assert_status(hsp_st_write(w, 0, 2, x, 4, &err), HSP_EINVAL);
        if (twice != 0) {
            assert_ok(hsp_st_write(w, 0, 0, x, 8, &err), &err);
        }
        assert_status(hsp_st_finish(w, &err), HSP_EINVAL);
        assert_non_null(strstr(err.msg, "not every element was written once"));
    }
}

/* Begins a file of one tensor in the folder @in. */
static struct hsp_st_writer *begin_in(const struct hsp_folder *in, struct hsp_st_entry *e)
{
    struct hsp_st_writer *w = NULL;
    struct hsp_err err = {0};
    const struct hsp_st_head head = {e, 1, NULL, 0};
    *e = (struct hsp_st_entry){.name = "a", .dtype = HSP_F32, .rank = 1, .ext = {4}};
    assert_ok(hsp_st_create_in(in, "x.safetensors", &head, &w, &err), &err);
    return w;
}

/* Of two writers of one file in a folder the later one wins, also when the earlier one goes on. */
static void test_a_later_writer_is_not_disturbed(void **state)
{
    static const float theirs[4] = {1, 2, 3, 4}, ours[4] = {5, 6, 7, 8};
    struct hsp_folder in;
    struct hsp_err err = {0};
    assert_ok(hsp_folder_open(*state, false, &in, &err), &err);
    for (int ends = 0; ends < 2; ends++) {
        struct hsp_st_entry e, f;
        struct hsp_st_reader *r = NULL;
        float x[4] = {0};
        struct hsp_st_writer *first = begin_in(&in, &e), *second = begin_in(&in, &f);
        assert_ok(hsp_st_write(second, 0, 0, ours, sizeof ours, &err), &err);
        assert_ok(hsp_st_write(first, 0, 0, theirs, sizeof theirs, &err), &err);
        if (ends) {
            assert_status(hsp_st_finish(first, &err), HSP_ESTALE);
            assert_non_null(strstr(err.msg, "x.safetensors is another writer's by now, or gone"));
        } else {
            (void)hsp_st_discard(first);
        }
        assert_ok(hsp_st_finish(second, &err), &err);
        assert_ok(hsp_st_open_in(&in, "x.safetensors", &r, &err), &err);
        assert_ok(hsp_st_read(r, hsp_st_find(r, "a"), 0, x, sizeof x, &err), &err);
        assert_memory_equal(x, ours, sizeof x);
        (void)hsp_st_close(r);
    }
    hsp_folder_close(&in);
}

HSP_TEST_FILE(safetensors_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_written_tensors_read_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_room_is_reserved_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_interrupted_reservation_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_tensors_of_one_name_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_malformed_headers_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_header_longer_than_the_file_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_damage_is_found_where_it_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sums_belong_to_the_tensors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_element_is_written_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_later_writer_is_not_disturbed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
