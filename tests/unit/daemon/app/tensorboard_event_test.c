/* Tests TensorBoard records, read back by their definition; files that grow by whole records. */
#include "daemon/app/store/tensorboard_event.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/app/store/tensorboard_file.h"
#include "tests/lib/testlib.h"

/* The next record; its checksums hold. Returns the bytes behind it. */
static const uint8_t *next(const uint8_t *p, const uint8_t *end, const uint8_t **ret, size_t *len)
{
    struct hsp_cursor c;
    hsp_cur_init(&c, p, (size_t)(end - p));
    uint64_t n = hsp_cur_u64(&c);
    uint32_t a = hsp_cur_u32(&c);
    const uint8_t *body = hsp_cur_bytes(&c, (size_t)n);
    uint32_t b = hsp_cur_u32(&c);
    assert_non_null(body);
    uint32_t x = hsp_crc32c(p, 8), y = hsp_crc32c(body, (size_t)n);
    assert_int_equal(a, (uint32_t)(((x >> 15) | (x << 17)) + 0xa282ead8u));
    assert_int_equal(b, (uint32_t)(((y >> 15) | (y << 17)) + 0xa282ead8u));
    *ret = body;
    *len = (size_t)n;
    return body + n + 4;
}

static void test_crc32c_as_published(void **state)
{
    (void)state;
    uint8_t zeros[32] = {0};
    assert_int_equal(hsp_crc32c("123456789", 9), 0xe3069283u);
    assert_int_equal(hsp_crc32c(zeros, sizeof zeros), 0x8a9136aau); /* RFC 3720, B.4 */
    assert_int_equal(hsp_crc32c("", 0), 0);
}

static void test_the_version_record(void **state)
{
    (void)state;
    static const uint8_t want[] = "\x09\0\0\0\0\0\0\xf0\x3f\x1a\x0d"
                                  "brain.Event:2"; /* wall_time 1.0 */
    struct hsp_buf b;
    const uint8_t *body;
    size_t n;
    hsp_buf_init(&b, 4096);
    hsp_tb_put_version(&b, 1.0);
    assert_ptr_equal(next(b.data, b.data + b.len, &body, &n), b.data + b.len);
    assert_int_equal(n, sizeof want - 1);
    assert_memory_equal(body, want, n);
    hsp_buf_fini(&b);
}

static void test_a_step_has_its_scalars(void **state)
{
    (void)state;
    struct hsp_buf b;
    const uint8_t *body;
    size_t n;
    const struct hsp_m_step s = {
        .step = 300, .loss = 2.5, .val_loss = NAN, .grad_norm = 1, .lr = 0.5, .tokens = 64};
    hsp_buf_init(&b, 4096);
    hsp_tb_put_step(&b, 2.0, &s, 7);
    assert_false(b.failed);
    (void)next(b.data, b.data + b.len, &body, &n);
    /* step 300 as a varint behind the wall time, then the summary with the loss in front */
    static const uint8_t want[] = "\x10\xac\x02\x2a";
    static const uint8_t loss[] = "\x0a\x11\x0a\x0atrain/loss\x15\0\0\x20\x40";
    assert_memory_equal(body + 9, want, 4);
    assert_memory_equal(body + 14, loss, sizeof loss - 1);
    assert_null(memmem(body, n, "val/loss", 8));
    assert_null(memmem(body, n, "tokens_per_second", 17)); /* seconds are not known */
    assert_non_null(memmem(body, n, "plan/epoch", 10));
    hsp_buf_reset(&b);
    struct hsp_m_step v = s;
    v.val_loss = 3;
    v.seconds = 0.5;
    hsp_tb_put_step(&b, 2.0, &v, 7);
    (void)next(b.data, b.data + b.len, &body, &n);
    assert_non_null(memmem(body, n, "val/loss", 8));
    assert_non_null(memmem(body, n, "\x15\0\0\0\x43", 5)); /* 128 tokens a second */
    hsp_buf_fini(&b);
}

static void test_files_hold_whole_records(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_buf b;
    char dir[] = "/tmp/hspmd-tb-XXXXXX", path[600], got[8192];
    const struct hsp_m_step s = {.step = 1, .loss = 2, .val_loss = NAN};
    assert_non_null(mkdtemp(dir));
    hsp_buf_init(&b, 4096);
    hsp_tb_put_step(&b, 2.0, &s, 7);
    for (int i = 0; i < 3; i++) {
        assert_ok(hsp_tb_append(dir, "job-a", 1700000000, &b, &err), &err);
    }
    snprintf(path, sizeof path, "%s/jobs/job-a/tb", dir);
    DIR *d = opendir(path);
    assert_non_null(d);
    struct dirent *e = readdir(d);
    while (e != NULL && e->d_name[0] == '.') {
        e = readdir(d);
    }
    assert_non_null(e);
    assert_memory_equal(e->d_name, "events.out.tfevents.1700000000.", 31);
    snprintf(path, sizeof path, "%s/jobs/job-a/tb/%s", dir, e->d_name);
    closedir(d);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t len = fread(got, 1, sizeof got, f), n;
    fclose(f);
    const uint8_t *p = (const uint8_t *)got, *end = p + len, *body;
    int records = 0;
    for (; p < end; records++) {
        p = next(p, end, &body, &n);
    }
    assert_int_equal(records, 4); /* the version, then three steps */
    hsp_buf_fini(&b);

    unlink(path);
    snprintf(path, sizeof path, "%s/jobs/job-a/tb", dir);
    rmdir(path);
    snprintf(path, sizeof path, "%s/jobs/job-a", dir);
    rmdir(path);
    snprintf(path, sizeof path, "%s/jobs", dir);
    rmdir(path);
    FILE *in_the_way = fopen(path, "w");
    assert_non_null(in_the_way);
    fclose(in_the_way);
    assert_status(hsp_tb_append(dir, "job-a", 1700000000, &b, &err), HSP_EIO);
    assert_non_null(strstr(err.msg, "/jobs/job-a"));
    unlink(path);
    rmdir(dir);
}

HSP_TEST_FILE(tensorboard_event_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c_as_published),
        cmocka_unit_test(test_the_version_record),
        cmocka_unit_test(test_a_step_has_its_scalars),
        cmocka_unit_test(test_files_hold_whole_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
