/* safetensors: what is written is read back; every malformed header is refused with its reason. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/testlib.h"
#include "worker/state/safetensors.h"

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
    assert_int_equal(hsp_st_count(rd), 4);
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

/* So that a full disk shows before anything has been brought together for it. */
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
    assert_ok(hsp_st_finish(w, &err), &err);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
