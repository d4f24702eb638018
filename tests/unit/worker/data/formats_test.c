/* Tests headers of tokenised data sets: their fields, and every way in which they lie. */
#include "tests/lib/testlib.h"

#include "proto/base/hash.h"
#include "proto/base/le.h"
#include "worker/data/formats.h"

/* ---- llm.c ---- */

static void llmc_head(uint8_t head[HSP_LLMC_HEADER_BYTES], uint32_t magic, uint32_t version,
                      uint32_t n)
{
    memset(head, 0, HSP_LLMC_HEADER_BYTES);
    hsp_le_put(head, magic, 4);
    hsp_le_put(head + 4, version, 4);
    hsp_le_put(head + 8, n, 4);
}

static void llmc_of_both_models(void **state)
{
    (void)state;
    uint8_t head[HSP_LLMC_HEADER_BYTES];
    struct hsp_token_span s;
    struct hsp_err err = {0};
    llmc_head(head, 20240520, 1, 100);
    assert_ok(hsp_llmc_parse(head, sizeof(head), 1224, &s, &err), &err);
    assert_true(s.type == HSP_TOKEN_U16 && s.first == 1024 && s.n == 100);
    llmc_head(head, 20240801, 7, INT32_MAX);
    assert_ok(hsp_llmc_parse(head, sizeof(head), 1024 + 4 * (uint64_t)INT32_MAX, &s, &err), &err);
    assert_true(s.type == HSP_TOKEN_U32 && s.first == 1024 && s.n == INT32_MAX);
}

static void llmc_that_lies(void **state)
{
    (void)state;
    static const struct {
        uint32_t magic, version, n;
        uint64_t bytes;
        const char *msg;
    } cases[] = {
        {20240520, 1, 100, 1023, "no llm.c data: 1023 bytes, its header alone has 1024"},
        {20240521, 1, 100, 1224,
         "no llm.c data: magic 20240521, not 20240520 (GPT-2) or 20240801 (Llama 3)"},
        {20240520, 7, 100, 1224, "llm.c data of magic 20240520, version 7; version 1 is read"},
        {20240801, 1, 100, 1424, "llm.c data of magic 20240801, version 1; version 7 is read"},
        {20240520, 1, 0, 1024, "llm.c data of 0 tokens"},
        {20240520, 1, 0xffffffff, 1024, "llm.c data of -1 tokens"},
        {20240520, 1, 100, 1223,
         "cut short: 100 tokens of 2 bytes make 1224 bytes, the file has 1223"},
        {20240801, 7, 100, 1425,
         "too long: 100 tokens of 4 bytes make 1424 bytes, the file has 1425"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t head[HSP_LLMC_HEADER_BYTES];
        struct hsp_token_span s;
        struct hsp_err err = {0};
        llmc_head(head, cases[i].magic, cases[i].version, cases[i].n);
        assert_status(hsp_llmc_parse(head, sizeof(head), cases[i].bytes, &s, &err), HSP_EPARSE);
        assert_err(&err, HSP_EPARSE, cases[i].msg);
        assert_status(hsp_llmc_parse(head, i, cases[i].bytes, &s, NULL), HSP_EPARSE);
    }
}

static void nanogpt_is_whole_numbers(void **state)
{
    (void)state;
    struct hsp_token_span s;
    struct hsp_err err = {0};
    assert_ok(hsp_nanogpt_parse(10, &s, &err), &err);
    assert_true(s.type == HSP_TOKEN_U16 && s.first == 0 && s.n == 5);
    assert_status(hsp_nanogpt_parse(11, &s, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "11 bytes are no uint16 tokens");
    assert_status(hsp_nanogpt_parse(0, &s, &err), HSP_EPARSE);
}

/* ---- Megatron ---- */

#define N_SEQ 4u
#define N_DOC 3u /* documents of 2, 0 and 2 sequences */
#define SIZE  (34u + 12u * N_SEQ + 8u * (N_DOC + 1))
#define BIN   20u

enum { LENGTHS = 34, POINTERS = LENGTHS + 4 * N_SEQ, DOCUMENTS = POINTERS + 8 * N_SEQ };

/* Sequences of 3, 0, 2 and 5 tokens of two bytes. */
static void index_make(uint8_t x[SIZE + N_SEQ])
{
    static const uint32_t lengths[N_SEQ] = {3, 0, 2, 5}, documents[N_DOC + 1] = {0, 2, 2, 4};
    uint64_t at = 0;
    memset(x, 0, SIZE + N_SEQ);
    memcpy(x, "MMIDIDX", 7);
    hsp_le_put(x + 9, 1, 8);
    x[17] = 8;
    hsp_le_put(x + 18, N_SEQ, 8);
    hsp_le_put(x + 26, N_DOC + 1, 8);
    for (uint32_t i = 0; i < N_SEQ; i++) {
        hsp_le_put(x + LENGTHS + 4 * i, lengths[i], 4);
        hsp_le_put(x + POINTERS + 8 * i, at, 8);
        at += 2 * (uint64_t)lengths[i];
    }
    for (uint32_t i = 0; i <= N_DOC; i++) {
        hsp_le_put(x + DOCUMENTS + 8 * i, documents[i], 8);
    }
}

static void megatron_documents(void **state)
{
    (void)state;
    uint8_t x[SIZE + N_SEQ];
    struct hsp_megatron_index ix;
    struct hsp_err err = {0};
    index_make(x);
    assert_ok(hsp_megatron_parse(x, SIZE, BIN, &ix, &err), &err);
    assert_ok(hsp_megatron_parse(x, SIZE + N_SEQ, BIN, &ix, &err), &err); /* with modes */
    assert_true(ix.tokens.type == HSP_TOKEN_U16 && ix.tokens.n == 10 && ix.tokens.first == 0);
    assert_true(ix.n_sequences == N_SEQ && ix.n_documents == N_DOC);
    static const uint64_t starts[N_DOC + 1] = {0, 3, 3, 10};
    for (uint32_t d = 0; d <= N_DOC; d++) {
        assert_int_equal(hsp_megatron_start(&ix, d), starts[d]);
    }
    static const uint64_t next[10] = {1, 1, 1, 3, 3, 3, 3, 3, 3, 3};
    for (uint64_t at = 0; at < 10; at++) {
        assert_int_equal(hsp_megatron_next(&ix, at), next[at]);
    }
}

static void megatron_that_lies(void **state)
{
    (void)state;
    static const struct {
        uint32_t at;
        int bytes;
        uint64_t value;
        const char *msg;
    } cases[] = {
        {0, 1, 'm', "index: does not begin with the 34 bytes of MMIDIDX"},
        {8, 1, 1, "index: does not begin with the 34 bytes of MMIDIDX"},
        {9, 8, 2, "index: version 2; version 1 is read"},
        {17, 1, 0, "index: type 0 is no type of tokens"},
        {17, 1, 7, "index: type 7 is no type of tokens (floating point)"},
        {17, 1, 255, "index: type 255 is no type of tokens"},
        {17, 1, 1, "index: sequence 1 begins at byte 6, the one before ends at 3"},
        {18, 8, 0, "index: 0 sequences and 4 document indices in a file of 114 bytes"},
        {18, 8, 7, "index: 7 sequences and 4 document indices in a file of 114 bytes"},
        {18, 8, UINT64_MAX,
         "index: 18446744073709551615 sequences and 4 document indices in a file of 114 bytes"},
        {18, 8, UINT64_C(1) << 62,
         "index: 4611686018427387904 sequences and 4 document indices in a file of 114 bytes"},
        {26, 8, 1, "index: 4 sequences and 1 document indices in a file of 114 bytes"},
        {26, 8, 5, "index: 4 sequences and 5 document indices in a file of 114 bytes"},
        {26, 8, UINT64_C(1) << 61,
         "index: 4 sequences and 2305843009213693952 document indices in a file of 114 bytes"},
        {26, 8, 3, "index: 8 bytes too many"},
        {LENGTHS, 4, 0xffffffff, "index: sequence 0 of -1 tokens"},
        {LENGTHS, 4, 4, "index: sequence 1 begins at byte 6, the one before ends at 8"},
        {LENGTHS, 4, 0x7fffffff, "index: sequence 0 ends behind the 20 bytes of the tokens"},
        {LENGTHS + 12, 4, 6, "index: sequence 3 ends behind the 20 bytes of the tokens"},
        {LENGTHS + 12, 4, 4, "index: sequences of 18 bytes, tokens of 20"},
        {POINTERS, 8, 2, "index: sequence 0 begins at byte 2, the one before ends at 0"},
        {POINTERS + 24, 8, UINT64_MAX - 9,
         "index: sequence 3 begins at byte 18446744073709551606, the one before ends at 10"},
        {DOCUMENTS, 8, 1, "index: document 0 begins with sequence 1 of 4, after 0"},
        {DOCUMENTS + 8, 8, 5, "index: document 1 begins with sequence 5 of 4, after 0"},
        {DOCUMENTS + 16, 8, 1, "index: document 2 begins with sequence 1 of 4, after 2"},
        {DOCUMENTS + 24, 8, 3, "index: document 3 begins with sequence 3 of 4, after 2"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t x[SIZE + N_SEQ];
        struct hsp_megatron_index ix;
        struct hsp_err err = {0};
        index_make(x);
        hsp_le_put(x + cases[i].at, cases[i].value, cases[i].bytes);
        assert_status(hsp_megatron_parse(x, SIZE, BIN, &ix, &err), HSP_EPARSE);
        assert_err(&err, HSP_EPARSE, cases[i].msg);
    }
}

static void megatron_cut_anywhere(void **state)
{
    (void)state;
    uint8_t x[SIZE + N_SEQ];
    struct hsp_megatron_index ix;
    index_make(x);
    for (size_t n = 0; n < SIZE + N_SEQ; n++) {
        assert_status(hsp_megatron_parse(x, n, BIN, &ix, NULL), n == SIZE ? HSP_OK : HSP_EPARSE);
    }
}

static void tokens_have_signs_and_widths(void **state)
{
    (void)state;
    static const struct {
        enum hsp_token_type type;
        int64_t want;
    } cases[] = {
        {HSP_TOKEN_U8, 0xfe},    {HSP_TOKEN_I8, -2},  {HSP_TOKEN_I16, -2},
        {HSP_TOKEN_U16, 0xfffe}, {HSP_TOKEN_I32, -2}, {HSP_TOKEN_U32, 0xfffffffe},
        {HSP_TOKEN_I64, -2},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t file[32] = {0};
        struct hsp_token_span s = {.type = cases[i].type, .first = 3, .n = 2};
        int size = (int)hsp_token_size(s.type);
        hsp_le_put(file + 3, 7, size);
        hsp_le_put(file + 3 + size, (uint64_t)-2, size);
        assert_int_equal(hsp_token_get(&s, file, 0), 7);
        assert_int_equal(hsp_token_get(&s, file, 1), cases[i].want);
        assert_int_equal(hsp_token_outside(&s, file, 7), 0);
        assert_int_equal(hsp_token_outside(&s, file, 8), 1);
        uint64_t last = cases[i].want >= 0 ? 2 : 1;
        assert_int_equal(hsp_token_outside(&s, file, UINT32_MAX), last);
    }
}

/* The first of them, wherever it stands: most tokens are compared many at a time. */
static void the_first_token_outside_is_found(void **state)
{
    (void)state;
    enum { N = 5000 };
    static uint8_t file[3 + N * 8];
    for (int t = HSP_TOKEN_U8; t <= HSP_TOKEN_I64; t++) {
        struct hsp_token_span s = {.type = (enum hsp_token_type)t, .first = 3, .n = N};
        int size = (int)hsp_token_size(s.type);
        for (uint64_t i = 0; i < N; i++) {
            hsp_le_put(file + 3 + i * (size_t)size, hsp_mix64(i) % 100, size);
        }
        assert_int_equal(hsp_token_outside(&s, file, 100), N);
        for (uint64_t k = 0; k < 200; k++) {
            uint64_t at = k < 3 ? (uint64_t[]){0, 1024, N - 1}[k] : hsp_mix64(k) % N;
            uint64_t good = hsp_mix64(at) % 100;
            hsp_le_put(file + 3 + at * (size_t)size, k % 2 == 0 ? 100 : (uint64_t)-1, size);
            assert_int_equal(hsp_token_outside(&s, file, 100), at);
            hsp_le_put(file + 3 + at * (size_t)size, good, size);
        }
    }
}

HSP_TEST_FILE(formats_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llmc_of_both_models),
        cmocka_unit_test(llmc_that_lies),
        cmocka_unit_test(nanogpt_is_whole_numbers),
        cmocka_unit_test(megatron_documents),
        cmocka_unit_test(megatron_that_lies),
        cmocka_unit_test(megatron_cut_anywhere),
        cmocka_unit_test(tokens_have_signs_and_widths),
        cmocka_unit_test(the_first_token_outside_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
