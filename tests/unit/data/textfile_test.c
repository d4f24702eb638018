#include "tests/lib/testlib.h"

#include <stdio.h>

#include "worker/data/textfile.h"

static char *write_file(const char *dir, const char *text, size_t n)
{
    char *path;
    assert_true(asprintf(&path, "%s/text", dir) > 0);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void ids_labels_positions(void **state)
{
    (void)state;
    struct hsp_text t;
    struct hsp_err err = {0};
    char *dir = hsp_test_tmpdir(), *path = write_file(dir, "abcdefghij", 10);
    assert_ok(hsp_text_open(path, &t, &err), &err);
    assert_int_equal(t.n_bytes, 10);
    struct hsp_digest d = hsp_text_digest(&t);
    assert_true(hsp_digest_equal(d, hsp_hash128("abcdefghij", 10)));
    struct hsp_data_bind data = {.sequence = 4, .vocab = 256};
    const uint64_t offset[2] = {5, 0};
    struct hsp_micro m = {.n_seq = 2, .offset = offset};
    struct hsp_load_spec s = {.what = HSP_LOAD_IDS, .data = &data, .micro = &m, .n_cols = 4};
    int32_t got[8];
    assert_ok(hsp_text_load(&t, &s, got, &err), &err);
    const int32_t ids[8] = {'f', 'g', 'h', 'i', 'a', 'b', 'c', 'd'};
    assert_memory_equal(got, ids, sizeof(ids));
    s.what = HSP_LOAD_LABELS;
    assert_ok(hsp_text_load(&t, &s, got, &err), &err);
    const int32_t labels[8] = {'g', 'h', 'i', 'j', 'b', 'c', 'd', 'e'};
    assert_memory_equal(got, labels, sizeof(labels));
    s.what = HSP_LOAD_POSITIONS;
    s.first_col = 1;
    s.n_cols = 2; /* a part of the sequence */
    assert_ok(hsp_text_load(&t, &s, got, &err), &err);
    const int32_t positions[4] = {1, 2, 1, 2};
    assert_memory_equal(got, positions, sizeof(positions));
    s = (struct hsp_load_spec){.what = HSP_LOAD_LABELS, .data = &data, .micro = &m, .n_cols = 1};
    data.next_token_only = true;
    assert_ok(hsp_text_load(&t, &s, got, &err), &err);
    const int32_t next[2] = {'j', 'e'};
    assert_memory_equal(got, next, sizeof(next));
    hsp_text_close(&t);
    hsp_test_rmdir(dir);
    free(path);
    free(dir);
}

static void bad_bytes_and_windows_are_named(void **state)
{
    (void)state;
    struct hsp_text t;
    struct hsp_err err = {0};
    assert_ok(hsp_text_synthetic(1, 200, 40, &t, &err), &err);
    struct hsp_data_bind data = {.sequence = 4, .vocab = 1};
    const uint64_t offset[1] = {38};
    struct hsp_micro m = {.n_seq = 1, .offset = offset};
    struct hsp_load_spec s = {.what = HSP_LOAD_LABELS, .data = &data, .micro = &m, .n_cols = 4};
    int32_t got[4];
    assert_status(hsp_text_load(&t, &s, got, &err), HSP_EINVAL);
    assert_non_null(strstr(err.msg, "at offset 39 is outside the vocabulary of 1"));
    data.vocab = 256;
    assert_status(hsp_text_load(&t, &s, got, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "byte 40 is outside the text of 40");
    hsp_text_close(&t);
}

static void files_that_are_none(void **state)
{
    (void)state;
    struct hsp_text t;
    struct hsp_err err = {0};
    char *dir = hsp_test_tmpdir(), *path = write_file(dir, "", 0);
    assert_status(hsp_text_open(path, &t, &err), HSP_EINVAL);
    assert_status(hsp_text_open(dir, &t, &err), HSP_EINVAL);
    assert_status(hsp_text_open("/nonexistent/text", &t, &err), HSP_ENOENT);
    hsp_test_rmdir(dir);
    free(path);
    free(dir);
}

static void synthetic_text_keeps_the_vocabulary(void **state)
{
    (void)state;
    struct hsp_text a, b;
    assert_int_equal(hsp_text_synthetic(7, 32, 5000, &a, NULL), HSP_OK);
    assert_int_equal(hsp_text_synthetic(7, 32, 5000, &b, NULL), HSP_OK);
    assert_memory_equal(a.data, b.data, 5000);
    bool seen[32] = {false};
    for (size_t k = 0; k < 5000; k++) {
        assert_true(a.data[k] < 32);
        seen[a.data[k]] = true;
    }
    for (int k = 0; k < 32; k++) {
        assert_true(seen[k]);
    }
    hsp_text_close(&a);
    hsp_text_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_labels_positions),
        cmocka_unit_test(bad_bytes_and_windows_are_named),
        cmocka_unit_test(files_that_are_none),
        cmocka_unit_test(synthetic_text_keeps_the_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
