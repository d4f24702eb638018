#include "tests/lib/testlib.h"

#include <stdio.h>
#include <unistd.h>

#include "proto/base/le.h"
#include "worker/data/dataset.h"
#include "worker/data/documents.h"
#include "worker/data/load.h"
#include "worker/data/synthetic.h"

static char *write_named(const char *dir, const char *name, const void *data, size_t n)
{
    char *path;
    assert_true(asprintf(&path, "%s/%s", dir, name) > 0);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static char *write_file(const char *dir, const char *text, size_t n)
{
    return write_named(dir, "text", text, n);
}

/* The tokens of @t from @at on. */
static void assert_tokens(const struct hsp_dataset *t, uint64_t at, const int32_t *want, int64_t n)
{
    int32_t got[16];
    struct hsp_err err = {0};
    struct hsp_data_bind data = {.sequence = (uint32_t)n, .vocab = 1 << 20};
    struct hsp_micro m = {.n_seq = 1, .offset = &at};
    struct hsp_load_spec s = {.what = HSP_LOAD_IDS, .data = &data, .micro = &m, .n_cols = n};
    assert_true(n <= 16);
    assert_ok(hsp_dataset_load(t, &s, got, &err), &err);
    assert_memory_equal(got, want, (size_t)n * sizeof(*want));
}

static void ids_labels_positions(void **state)
{
    (void)state;
    struct hsp_dataset t = {0};
    struct hsp_err err = {0};
    char *dir = hsp_test_tmpdir(), *path = write_file(dir, "abcdefghij", 10);
    assert_ok(hsp_dataset_open(path, HSP_DATA_TEXT, &t, &err), &err);
    assert_int_equal(t.n_bytes, 10);
    struct hsp_digest d;
    assert_ok(hsp_dataset_read(&t, 256, NULL, &d, &err), &err);
    assert_true(hsp_digest_equal(d, hsp_hash128("abcdefghij", 10)));
    struct hsp_data_bind data = {.sequence = 4, .vocab = 256};
    const uint64_t offset[2] = {5, 0};
    struct hsp_micro m = {.n_seq = 2, .offset = offset};
    struct hsp_load_spec s = {.what = HSP_LOAD_IDS, .data = &data, .micro = &m, .n_cols = 4};
    int32_t got[8];
    assert_ok(hsp_dataset_load(&t, &s, got, &err), &err);
    const int32_t ids[8] = {'f', 'g', 'h', 'i', 'a', 'b', 'c', 'd'};
    assert_memory_equal(got, ids, sizeof(ids));
    s.what = HSP_LOAD_LABELS;
    assert_ok(hsp_dataset_load(&t, &s, got, &err), &err);
    const int32_t labels[8] = {'g', 'h', 'i', 'j', 'b', 'c', 'd', 'e'};
    assert_memory_equal(got, labels, sizeof(labels));
    s.what = HSP_LOAD_POSITIONS;
    s.first_col = 1;
    s.n_cols = 2; /* a part of the sequence */
    assert_ok(hsp_dataset_load(&t, &s, got, &err), &err);
    const int32_t positions[4] = {1, 2, 1, 2};
    assert_memory_equal(got, positions, sizeof(positions));
    s = (struct hsp_load_spec){.what = HSP_LOAD_LABELS, .data = &data, .micro = &m, .n_cols = 1};
    data.next_token_only = true;
    assert_ok(hsp_dataset_load(&t, &s, got, &err), &err);
    const int32_t next[2] = {'j', 'e'};
    assert_memory_equal(got, next, sizeof(next));
    hsp_dataset_close(&t);
    hsp_test_rmdir(dir);
    free(path);
    free(dir);
}

static void bad_bytes_and_windows_are_named(void **state)
{
    (void)state;
    struct hsp_dataset t = {0};
    struct hsp_err err = {0};
    assert_ok(hsp_dataset_synthetic(&(struct hsp_data_bind){.seed = 1, .vocab = 200}, 40, &t, &err),
              &err);
    struct hsp_data_bind data = {.sequence = 4, .vocab = 1};
    const uint64_t offset[1] = {38};
    struct hsp_micro m = {.n_seq = 1, .offset = offset};
    struct hsp_load_spec s = {.what = HSP_LOAD_LABELS, .data = &data, .micro = &m, .n_cols = 4};
    int32_t got[4];
    assert_status(hsp_dataset_load(&t, &s, got, &err), HSP_EINVAL);
    assert_non_null(strstr(err.msg, "made-up data: token "));
    assert_non_null(
        strstr(err.msg, " at position 39 is outside the vocabulary of 1 (model.vocab)"));
    data.vocab = 256;
    assert_status(hsp_dataset_load(&t, &s, got, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "token 40 is outside the data of 40 tokens");
    hsp_dataset_close(&t);
}

static void files_that_are_none(void **state)
{
    (void)state;
    struct hsp_dataset t = {0};
    struct hsp_err err = {0};
    char *dir = hsp_test_tmpdir(), *path = write_file(dir, "", 0);
    assert_status(hsp_dataset_open(path, HSP_DATA_TEXT, &t, &err), HSP_EINVAL);
    assert_status(hsp_dataset_open(dir, HSP_DATA_TEXT, &t, &err), HSP_EINVAL);
    assert_status(hsp_dataset_open("/nonexistent/text", HSP_DATA_TEXT, &t, &err), HSP_ENOENT);
    hsp_test_rmdir(dir);
    free(path);
    free(dir);
}

static void synthetic_text_keeps_the_vocabulary(void **state)
{
    (void)state;
    struct hsp_dataset a, b;
    const struct hsp_data_bind data = {.seed = 7, .vocab = 32};
    assert_int_equal(hsp_dataset_synthetic(&data, 5000, &a, NULL), HSP_OK);
    assert_int_equal(hsp_dataset_synthetic(&data, 5000, &b, NULL), HSP_OK);
    const int32_t *p = (const int32_t *)(const void *)a.file[0].all.data;
    assert_memory_equal(p, b.file[0].all.data, sizeof(*p) * 5000);
    bool seen[32] = {false};
    for (size_t k = 0; k < 5000; k++) {
        assert_in_range(p[k], 0, 31);
        seen[p[k]] = true;
    }
    for (int k = 0; k < 32; k++) {
        assert_true(seen[k]);
    }
    hsp_dataset_close(&a);
    hsp_dataset_close(&b);
}

/* A GPT-2 file of llm.c. */
static char *write_llmc(const char *dir, const char *name, const uint16_t *token, uint32_t n)
{
    uint8_t *file = calloc(1, HSP_LLMC_HEADER_BYTES + 2 * (size_t)n);
    assert_non_null(file);
    hsp_le_put(file, 20240520, 4);
    hsp_le_put(file + 4, 1, 4);
    hsp_le_put(file + 8, n, 4);
    for (uint32_t i = 0; i < n; i++) {
        hsp_le_put(file + HSP_LLMC_HEADER_BYTES + 2 * (size_t)i, token[i], 2);
    }
    char *path = write_named(dir, name, file, HSP_LLMC_HEADER_BYTES + 2 * (size_t)n);
    free(file);
    return path;
}

/* Windows extend over the ends of files. Files are ordered by name, not by the time at which they
 * were created. */
static void shards_are_one_stream(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), *pattern;
    struct hsp_dataset t = {0};
    struct hsp_err err = {0};
    struct hsp_digest all, other;
    char *files[] = {write_llmc(dir, "b_2.bin", (const uint16_t[]){7}, 1),
                     write_llmc(dir, "b_1.bin", (const uint16_t[]){4, 5, 50256}, 3),
                     write_llmc(dir, "b_10.bin", (const uint16_t[]){8, 9}, 2),
                     write_llmc(dir, "a.txt", (const uint16_t[]){1}, 1)};
    assert_true(asprintf(&pattern, "%s/b_*.bin", dir) > 0);
    assert_ok(hsp_dataset_open(pattern, HSP_DATA_LLMC, &t, &err), &err);
    assert_int_equal(t.n_files, 3);
    assert_int_equal(t.n_tokens, 6);
    assert_int_equal(t.n_bytes, 3 * HSP_LLMC_HEADER_BYTES + 12);
    assert_tokens(&t, 0, (const int32_t[]){4, 5, 50256, 8, 9, 7}, 6);
    assert_tokens(&t, 3, (const int32_t[]){8, 9, 7}, 3);
    assert_ok(hsp_dataset_read(&t, 50257, NULL, &all, &err), &err);
    hsp_dataset_close(&t);
    free(write_llmc(dir, "b_2.bin", (const uint16_t[]){6}, 1)); /* one token of the last file */
    assert_ok(hsp_dataset_open(pattern, HSP_DATA_LLMC, &t, &err), &err);
    assert_ok(hsp_dataset_read(&t, 50257, NULL, &other, &err), &err);
    assert_false(hsp_digest_equal(all, other));
    hsp_dataset_close(&t);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        free(files[i]);
    }
    hsp_test_rmdir(dir);
    free(pattern);
    free(dir);
}

/* A file longer than a single read gives the same digest as a whole, and every token is compared
 * with the vocabulary, also the tokens at the borders of reads. */
static void long_files_are_read_in_parts(void **state)
{
    (void)state;
    enum { MIB = 1 << 20, N = 3 * MIB / 2 + 5 }; /* tokens: three borders in the file */
    static uint16_t token[N];
    static const uint32_t bad[] = {0, (MIB - HSP_LLMC_HEADER_BYTES) / 2 - 1,
                                   (MIB - HSP_LLMC_HEADER_BYTES) / 2, N - 1};
    for (uint32_t i = 0; i < N; i++) {
        token[i] = (uint16_t)(hsp_mix64(i) % 1000);
    }
    char *dir = hsp_test_tmpdir();
    for (uint32_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
        struct hsp_dataset t = {0};
        struct hsp_err err = {0};
        struct hsp_digest d;
        uint16_t was = token[bad[k]];
        char where[64];
        token[bad[k]] = 1000;
        char *path = write_llmc(dir, "long.bin", token, N);
        assert_ok(hsp_dataset_open(path, HSP_DATA_LLMC, &t, &err), &err);
        assert_status(hsp_dataset_read(&t, 1000, NULL, NULL, &err), HSP_EINVAL);
        (void)snprintf(where, sizeof(where), "token 1000 at position %u is", bad[k]);
        assert_non_null(strstr(err.msg, where));
        assert_ok(hsp_dataset_read(&t, 1001, NULL, &d, &err), &err);
        assert_true(hsp_digest_equal(d, hsp_hash128(t.file[0].all.data, t.file[0].all.n)));
        hsp_dataset_close(&t);
        free(path);
        token[bad[k]] = was;
    }
    hsp_test_rmdir(dir);
    free(dir);
}

/* Returns true the @left-th time it is called. */
static bool is_enough(void *left)
{
    return --*(int *)left == 0;
}

/* The files need more addresses than the process has. The error is HSP_ENOMEM and blames no file,
 * as the files are valid. */
static void files_there_is_no_room_for_are_not_absent(void **state)
{
    (void)state;
    if (getenv("HSPMD_VALGRIND") != NULL) {
        print_message("not under valgrind: it has fewer addresses, and says so in another way\n");
        return;
    }
    struct hsp_dataset t = {0};
    struct hsp_err err = {0};
    char *dir = hsp_test_tmpdir(), *path = write_file(dir, "x", 1), more[400];
    assert_int_equal(truncate(path, (off_t)HSP_MAX_DATA_BYTES), 0);
    for (int i = 0; i < 40; i++) { /* 2^47 bytes are 32 of them */
        (void)snprintf(more, sizeof(more), "%s/more-%d", dir, i);
        assert_int_equal(link(path, more), 0);
    }
    (void)snprintf(more, sizeof(more), "%s/more-*", dir);
    assert_status(hsp_dataset_open(more, HSP_DATA_TEXT, &t, &err), HSP_ENOMEM);
    assert_non_null(strstr(err.msg, "cannot map "));
    assert_status(hsp_dataset_open("/nonexistent/*", HSP_DATA_TEXT, &t, &err), HSP_ENOENT);
    assert_err(&err, HSP_ENOENT, "no file matches /nonexistent/*");
    hsp_test_rmdir(dir);
    free(dir);
    free(path);
}

static void long_readings_can_be_given_up(void **state)
{
    (void)state;
    int left = 3;
    const struct hsp_data_stop stop = {.asked = is_enough, .ctx = &left};
    struct hsp_dataset t = {0};
    struct hsp_err err = {0};
    struct hsp_digest d = {.hi = 1, .lo = 2};
    char *dir = hsp_test_tmpdir(), *path = write_file(dir, "x", 1);
    assert_int_equal(truncate(path, (off_t)1 << 30),
                     0); /* no end of it comes before the third question */
    assert_ok(hsp_dataset_open(path, HSP_DATA_TEXT, &t, &err), &err);
    assert_status(hsp_dataset_read(&t, 256, &stop, &d, &err), HSP_ECANCELED);
    assert_int_equal(left, 0);
    assert_true(hsp_digest_equal(d, (struct hsp_digest){.hi = 1, .lo = 2}));
    hsp_dataset_close(&t);
    hsp_test_rmdir(dir);
    free(path);
    free(dir);
}

/* The same bytes, divided differently over files, have another digest. */
static void the_digest_knows_where_files_end(void **state)
{
    (void)state;
    struct hsp_digest d[2];
    for (int i = 0; i < 2; i++) {
        char *dir = hsp_test_tmpdir(), *pattern;
        struct hsp_dataset t = {0};
        struct hsp_err err = {0};
        free(write_named(dir, "1.txt", "abcd", i == 0 ? 1 : 3));
        free(write_named(dir, "2.txt", i == 0 ? "bcd" : "d", i == 0 ? 3 : 1));
        assert_true(asprintf(&pattern, "%s/?.txt", dir) > 0);
        assert_ok(hsp_dataset_open(pattern, HSP_DATA_TEXT, &t, &err), &err);
        assert_tokens(&t, 0, (const int32_t[]){'a', 'b', 'c', 'd'}, 4);
        assert_ok(hsp_dataset_read(&t, 256, NULL, &d[i], &err), &err);
        hsp_dataset_close(&t);
        hsp_test_rmdir(dir);
        free(pattern);
        free(dir);
    }
    assert_false(hsp_digest_equal(d[0], d[1]));
}

/* Makes an index for one document of @n tokens of four bytes. */
static char *write_index(const char *dir, const char *name, uint32_t n)
{
    uint8_t x[34 + 12 + 16] = "MMIDIDX";
    hsp_le_put(x + 9, 1, 8);
    x[17] = 4;
    hsp_le_put(x + 18, 1, 8);
    hsp_le_put(x + 26, 2, 8);
    hsp_le_put(x + 34, n, 4);
    hsp_le_put(x + 54, 1, 8);
    return write_named(dir, name, x, sizeof(x));
}

static void megatron_is_two_files(void **state)
{
    (void)state;
    static const char *const names[] = {"p_1_document", "p_1_document.bin", "p_1_document.idx",
                                        "p_?_document", "p_*.bin"};
    const int32_t token[3] = {70000, 2, 3};
    char *dir = hsp_test_tmpdir(), *path;
    struct hsp_err err = {0};
    free(write_named(dir, "p_1_document.bin", token, sizeof(token)));
    free(write_index(dir, "p_1_document.idx", 3));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct hsp_dataset t = {0};
        assert_true(asprintf(&path, "%s/%s", dir, names[i]) > 0);
        assert_ok(hsp_dataset_open(path, HSP_DATA_MEGATRON, &t, &err), &err);
        assert_int_equal(t.n_bytes, sizeof(token) + 62);
        assert_tokens(&t, 0, token, 3);
        hsp_dataset_close(&t);
        free(path);
    }
    hsp_test_rmdir(dir);
    free(dir);
}

/* Checks that opening @name in @dir fails with "@dir/@file@msg". */
static void assert_refused(const char *dir, const char *name, enum hsp_data_format format,
                           enum hsp_status want, const char *before, const char *msg)
{
    char *path, *text;
    struct hsp_err err = {0};
    struct hsp_dataset t = {0};
    assert_true(asprintf(&path, "%s/%s", dir, name) > 0);
    assert_true(asprintf(&text, "%s%s/%s", before, dir, msg) > 0);
    assert_status(hsp_dataset_open(path, format, &t, &err), want);
    assert_err(&err, want, text);
    assert_null(t.file);
    free(path);
    free(text);
}

static void errors_name_the_file(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir();
    free(write_named(dir, "a.bin", "xyz", 3));
    free(write_named(dir, "m.bin", "xyzw", 4));
    free(write_index(dir, "m.idx", 2));
    assert_refused(dir, "*.bin", HSP_DATA_LLMC, HSP_EPARSE, "",
                   "a.bin: no llm.c data: 3 bytes, its header alone has 1024");
    assert_refused(dir, "a.bin", HSP_DATA_NANOGPT, HSP_EPARSE, "",
                   "a.bin: 3 bytes are no uint16 tokens");
    assert_refused(dir, "m", HSP_DATA_MEGATRON, HSP_EPARSE, "",
                   "m.bin: index: sequence 0 ends behind the 4 bytes of the tokens");
    assert_refused(dir, "a.bin", HSP_DATA_MEGATRON, HSP_ENOENT, "cannot read ",
                   "a.idx: No such file or directory");
    assert_refused(dir, "c*", HSP_DATA_MEGATRON, HSP_ENOENT, "no file matches ", "c*.idx");
    assert_refused(dir, "c*", HSP_DATA_TEXT, HSP_ENOENT, "no file matches ", "c*");
    hsp_test_rmdir(dir);
    free(dir);
}

static void tokens_outside_the_vocabulary(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), *want;
    struct hsp_dataset t = {0};
    struct hsp_err err = {0};
    free(write_llmc(dir, "a.bin", (const uint16_t[]){0, 1, 2}, 3));
    char *path = write_llmc(dir, "b.bin", (const uint16_t[]){3, 50257}, 2), *pattern;
    assert_true(asprintf(&pattern, "%s/*.bin", dir) > 0);
    assert_ok(hsp_dataset_open(pattern, HSP_DATA_LLMC, &t, &err), &err);
    struct hsp_data_bind data = {.sequence = 4, .vocab = 50257};
    struct hsp_micro m = {.n_seq = 1, .offset = &(const uint64_t){0}};
    struct hsp_load_spec s = {.what = HSP_LOAD_LABELS, .data = &data, .micro = &m, .n_cols = 4};
    int32_t got[4];
    assert_status(hsp_dataset_load(&t, &s, got, &err), HSP_EINVAL);
    assert_true(asprintf(&want,
                         "%s: token 50257 at position 1 is outside the vocabulary of 50257 "
                         "(model.vocab)",
                         path) > 0);
    assert_err(&err, HSP_EINVAL, want);
    assert_status(hsp_dataset_read(&t, 50257, NULL, NULL, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, want);
    assert_ok(hsp_dataset_read(&t, 50258, NULL, NULL, &err), &err);
    data.vocab = 50258;
    assert_ok(hsp_dataset_load(&t, &s, got, &err), &err);
    assert_int_equal(got[3], 50257);
    hsp_dataset_close(&t);
    hsp_test_rmdir(dir);
    free(want);
    free(pattern);
    free(path);
    free(dir);
}

/* The loaded part of the window of @n tokens at @at, and of its right half alone. */
static void load_window(const struct hsp_dataset *t, const struct hsp_data_bind *data,
                        enum hsp_load what, uint64_t at, int32_t *ret)
{
    struct hsp_err err = {0};
    int32_t half[8];
    int64_t n = data->sequence;
    struct hsp_micro m = {.n_seq = 1, .offset = &at};
    struct hsp_load_spec s = {.what = what, .data = data, .micro = &m, .n_cols = n};
    assert_true(n <= 16 && n % 2 == 0);
    assert_ok(hsp_dataset_load(t, &s, ret, &err), &err);
    s.first_col = s.n_cols = n / 2;
    assert_ok(hsp_dataset_load(t, &s, half, &err), &err);
    assert_memory_equal(half, ret + n / 2, (size_t)n / 2 * sizeof(*half));
}

/* Loads two windows of ten tokens: the starts of documents, the positions in documents, and the
 * places that have no label. */
static void assert_documents(const struct hsp_dataset *t, const struct hsp_data_bind *data,
                             const char *const begins)
{
    int32_t ids[10], starts[10], positions[10], labels[10];
    for (uint64_t at = 0; at < 20; at += 10) {
        load_window(t, data, HSP_LOAD_IDS, at, ids);
        load_window(t, data, HSP_LOAD_STARTS, at, starts);
        load_window(t, data, HSP_LOAD_POSITIONS, at, positions);
        load_window(t, data, HSP_LOAD_LABELS, at, labels);
        int32_t start = 0, next[1];
        for (int32_t j = 0; j < 10; j++) {
            start = begins[at + (uint64_t)j] == '|' ? j : start;
            assert_int_equal(starts[j], start);
            assert_int_equal(positions[j], j - start);
            struct hsp_data_bind plain = {.sequence = 2, .vocab = data->vocab};
            int32_t two[2];
            load_window(t, &plain, HSP_LOAD_IDS, at + (uint64_t)j, two);
            next[0] = begins[at + (uint64_t)j + 1] == '|' ? -1 : two[1];
            assert_int_equal(labels[j], next[0]);
        }
    }
}

static void documents_are_kept_apart(void **state)
{
    (void)state;
    static const char text[] = "abc.de.f.ghijklm.nop.q";
    char *dir = hsp_test_tmpdir(), *pattern;
    struct hsp_err err = {0};
    struct hsp_dataset t = {0};
    struct hsp_data_bind data = {
        .sequence = 10, .vocab = 256, .packing = HSP_PACKING_END, .separator = '.'};
    char *path = write_file(dir, text, sizeof(text) - 1);
    assert_ok(hsp_dataset_open(path, HSP_DATA_TEXT, &t, &err), &err);
    assert_documents(&t, &data, "|   |  | |       |   |");
    data.packing = HSP_PACKING_START;
    assert_documents(&t, &data, "|  |  | |       |   | ");
    data.packing = HSP_PACKING_NONE;
    assert_documents(&t, &data, "                      ");
    hsp_dataset_close(&t);
    free(write_named(dir, "1", text, 5)); /* a file begins a document too */
    free(write_named(dir, "2", text + 5, sizeof(text) - 6));
    assert_true(asprintf(&pattern, "%s/[12]", dir) > 0);
    assert_ok(hsp_dataset_open(pattern, HSP_DATA_TEXT, &t, &err), &err);
    data.packing = HSP_PACKING_END;
    assert_documents(&t, &data, "|   || | |       |   |");
    hsp_dataset_close(&t);
    hsp_test_rmdir(dir);
    free(pattern);
    free(path);
    free(dir);
}

/* Makes data with documents, cut by a separator or by an index. Each token of a document names the
 * start of the document. */
static void made_up_documents(void **state)
{
    (void)state;
    for (uint8_t packing = HSP_PACKING_START; packing <= HSP_PACKING_INDEX; packing++) {
        struct hsp_err err = {0};
        struct hsp_dataset t = {0};
        struct hsp_data_bind data = {
            .seed = 3, .sequence = 10, .vocab = 50257, .packing = packing, .separator = 50256};
        assert_ok(hsp_dataset_synthetic(&data, 400, &t, &err), &err);
        int n = 0;
        for (uint64_t at = 0; at + 11 <= 400; at += 10) {
            int32_t starts[10], ids[10];
            load_window(&t, &data, HSP_LOAD_STARTS, at, starts);
            load_window(&t, &data, HSP_LOAD_IDS, at, ids);
            for (int j = 1; j < 10; j++) {
                bool begins = packing == HSP_PACKING_INDEX   ? (at + (uint64_t)j) % 13 == 0
                              : packing == HSP_PACKING_START ? ids[j] == 50256
                                                             : ids[j - 1] == 50256;
                assert_int_equal(starts[j], begins ? j : starts[j - 1]);
                n += begins;
            }
        }
        assert_in_range(n, 8, 60);
        hsp_dataset_close(&t);
    }
}

/* "ab.cdefg.h": documents of 3, 6 and 1 tokens; the second makes two samples of up to 4. */
static void documents_are_samples(void **state)
{
    (void)state;
    struct hsp_dataset t = {0};
    struct hsp_err err = {0};
    struct hsp_corpus c;
    char *dir = hsp_test_tmpdir(), *path = write_file(dir, "ab.cdefg.h", 10);
    struct hsp_data_bind data = {.sequence = 8,
                                 .longest = 4,
                                 .vocab = 256,
                                 .samples = HSP_SAMPLES_DOCUMENTS,
                                 .packing = HSP_PACKING_END,
                                 .separator = '.'};
    struct hsp_data_cut cut = hsp_data_cut_of(&data);
    assert_ok(hsp_dataset_open(path, HSP_DATA_TEXT, &t, &err), &err);
    assert_int_equal(hsp_dataset_corpus(&t, &data, &c, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "the documents of the data are not listed");
    assert_ok(hsp_dataset_cut(&t, &cut, NULL, &err), &err);
    assert_ok(hsp_dataset_corpus(&t, &data, &c, &err), &err);
    const uint64_t H = HSP_SAMPLE_HEAD, want[] = {0 | H, 3 | H, 7, 9 | H, 10 | H};
    assert_int_equal(c.n_train, 4);
    assert_memory_equal(c.start, want, sizeof want);
    /* the second piece, the first document, and room for one more token */
    const struct hsp_passage part[] = {{.offset = 7, .len = 2, .col = 0},
                                       {.offset = 0, .len = 3, .col = 2},
                                       {.offset = 3, .len = 2, .col = 5, .goes_on = true}};
    const uint32_t first[] = {0, 3};
    const struct hsp_micro m = {.n_seq = 1, .first = first, .part = part};
    const struct {
        enum hsp_load what;
        int32_t want[8];
    } loads[] = {{HSP_LOAD_IDS, {'g', '.', 'a', 'b', '.', 'c', 'd', 0}},
                 {HSP_LOAD_LABELS, {'.', -1, 'b', '.', -1, 'd', 'e', -1}},
                 {HSP_LOAD_POSITIONS, {0, 1, 0, 1, 2, 0, 1, 0}},
                 {HSP_LOAD_STARTS, {0, 0, 2, 2, 2, 5, 5, 7}}};
    for (int k = 0; k < 4; k++) {
        int32_t got[8];
        struct hsp_load_spec s = {.what = loads[k].what, .data = &data, .micro = &m, .n_cols = 8};
        assert_ok(hsp_dataset_load(&t, &s, got, &err), &err);
        assert_memory_equal(got, loads[k].want, sizeof got);
        s.first_col = 3; /* a part of the columns */
        s.n_cols = 5;
        assert_ok(hsp_dataset_load(&t, &s, got, &err), &err);
        assert_memory_equal(got, loads[k].want + 3, 5 * sizeof *got);
    }
    hsp_dataset_close(&t);
    free(path);
    hsp_test_rmdir(dir);
    free(dir);
}

HSP_TEST_FILE(dataset_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_labels_positions),
        cmocka_unit_test(bad_bytes_and_windows_are_named),
        cmocka_unit_test(files_that_are_none),
        cmocka_unit_test(synthetic_text_keeps_the_vocabulary),
        cmocka_unit_test(shards_are_one_stream),
        cmocka_unit_test(long_files_are_read_in_parts),
        cmocka_unit_test(files_there_is_no_room_for_are_not_absent),
        cmocka_unit_test(long_readings_can_be_given_up),
        cmocka_unit_test(the_digest_knows_where_files_end),
        cmocka_unit_test(megatron_is_two_files),
        cmocka_unit_test(errors_name_the_file),
        cmocka_unit_test(tokens_outside_the_vocabulary),
        cmocka_unit_test(documents_are_kept_apart),
        cmocka_unit_test(made_up_documents),
        cmocka_unit_test(documents_are_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
