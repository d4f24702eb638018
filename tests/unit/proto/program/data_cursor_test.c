#include "tests/lib/testlib.h"

#include "proto/base/size.h"
#include "proto/program/corpus.h"
#include "proto/program/data_cursor.h"

static const struct hsp_data_bind DATA = {.seed = 5,
                                          .global_batch = 12,
                                          .sequence = 16,
                                          .validation_fraction = 0.25,
                                          .vocab = 256,
                                          .format = HSP_DATA_LLMC,
                                          .packing = HSP_PACKING_START,
                                          .separator = 7};
static const struct hsp_digest DIGEST = {1, 2};

static struct hsp_data_cursor at(uint64_t step)
{
    struct hsp_data_cursor c = {0};
    struct hsp_corpus corpus;
    struct hsp_err err = {0};
    assert_ok(hsp_corpus_init(&DATA, 1000, &corpus, &err), &err);
    hsp_data_cursor_init(&DATA, &corpus, DIGEST, 2000, step, &c);
    return c;
}

static void the_next_sample_is_the_one_the_sheet_reads(void **state)
{
    (void)state;
    struct hsp_corpus corpus;
    assert_int_equal(hsp_corpus_init(&DATA, 1000, &corpus, NULL), HSP_OK);
    struct hsp_binding b = {.pipeline = {.n_seq = 12, .n_micro = 1}, .data = DATA};
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    uint32_t inside = 0; /* steps in which a pass ends */
    for (uint64_t step = 0; step < 40; step++) {
        struct hsp_data_cursor c = at(step), next = at(step + 1);
        struct hsp_sheet s;
        assert_int_equal(c.pass_samples, corpus.n_train);
        assert_int_equal(hsp_sheet_train(&b, &corpus, step, arena, &s), HSP_OK);
        for (uint64_t k = 0; k < 12; k++) {
            assert_int_equal(s.micro[0].sample[k],
                             hsp_sample_at(c.seed, c.pass_samples, c.samples + k));
        }
        assert_int_equal(next.samples, c.samples + 12);
        assert_int_equal(hsp_data_cursor_pass(&c) * c.pass_samples + hsp_data_cursor_sample(&c),
                         c.samples);
        assert_int_equal(hsp_data_cursor_tokens(&c), step * 12 * 16);
        inside += hsp_data_cursor_pass(&next) > hsp_data_cursor_pass(&c) &&
                  hsp_data_cursor_sample(&next) > 0;
    }
    assert_true(inside > 5);
    (void)hsp_arena_free(arena);
}

static void every_field_counts(void **state)
{
    (void)state;
    struct hsp_data_cursor was = at(9), now[11];
    static const char *const named[] = {
        "trained on other data: 2000 bytes, digest 000000000000..; data.path has 2001 bytes, "
        "digest 000000000000..; bring the old files back, or submit the job again",
        "trained on other data",
        "trained on other data",
        "tokens in the files: 1000 there, 1001 in this job",
        "train.seed: 5 there, 6 in this job",
        "model.sequence: 16 there, 17 in this job",
        "kind of data.format: 1 there, 2 in this job",
        "kind of data.packing: 1 there, 2 in this job",
        "separator of documents: 7 there, 8 in this job",
        "samples of a pass: 46 there, 47 in this job",
        "samples used up: 108 there, 109 in this job"};
    for (size_t i = 0; i < HSP_ARRAY_LEN(now); i++) {
        now[i] = was;
    }
    now[0].bytes++;
    now[1].digest.hi++;
    now[2].digest.lo++;
    now[3].n_tokens++;
    now[4].seed++;
    now[5].sequence++;
    now[6].format++;
    now[7].packing++;
    now[8].separator++;
    now[9].pass_samples++;
    now[10].samples++;
    for (size_t i = 0; i < HSP_ARRAY_LEN(named); i++) {
        struct hsp_err err = {0};
        assert_status(hsp_data_cursor_match(&was, &now[i], &err), HSP_ESTATE);
        if (strstr(err.msg, named[i]) == NULL) {
            fail_msg("%s: %s", named[i], err.msg);
        }
        assert_true(hsp_data_cursor_mark(&was) != hsp_data_cursor_mark(&now[i]));
    }
    struct hsp_data_cursor same = at(9);
    assert_status(hsp_data_cursor_match(&was, &same, NULL), HSP_OK);
    assert_true(hsp_data_cursor_mark(&was) == hsp_data_cursor_mark(&same));
}

/* Three documents train, of 4, 2 and 6 tokens; a validation part of 4 is behind them. */
static void documents_are_counted(void **state)
{
    (void)state;
    const uint64_t start[] = {HSP_SAMPLE_HEAD, 4 | HSP_SAMPLE_HEAD, 6 | HSP_SAMPLE_HEAD,
                              12 | HSP_SAMPLE_HEAD, 16 | HSP_SAMPLE_HEAD};
    struct hsp_data_bind d = DATA;
    struct hsp_corpus corpus;
    struct hsp_data_cursor c, other;
    struct hsp_err err = {0};
    d.samples = HSP_SAMPLES_DOCUMENTS;
    d.global_batch = 2;
    d.longest = 32;
    assert_ok(hsp_corpus_documents(&d, start, 4, &corpus, &err), &err);
    assert_int_equal(corpus.n_train, 3);
    assert_int_equal(corpus.n_eval, 1);
    hsp_data_cursor_init(&d, &corpus, DIGEST, 2000, 2, &c);
    assert_int_equal(hsp_data_cursor_pass(&c), 1);
    assert_int_equal(hsp_data_cursor_sample(&c), 1);
    assert_int_equal(hsp_data_cursor_tokens(&c), 12 + 4);
    other = c;
    other.unit = HSP_SAMPLES_WINDOWS;
    assert_status(hsp_data_cursor_match(&c, &other, &err), HSP_ESTATE);
    assert_non_null(strstr(err.msg, "kind of data.samples: 1 there, 0 in this job"));
    assert_true(hsp_data_cursor_mark(&c) != hsp_data_cursor_mark(&other));
    d.validation_fraction = 0.01; /* the last one is cut, and does not train */
    assert_ok(hsp_corpus_documents(&d, start, 4, &corpus, &err), &err);
    assert_int_equal(corpus.n_train, 4);
    d.validation_fraction = 0.9;
    assert_status(hsp_corpus_documents(&d, start, 4, &corpus, &err), HSP_EINVAL);
    assert_non_null(strstr(err.msg, "16 tokens in 4 documents or pieces of up to 32: none of them "
                                    "for training"));
    assert_status(hsp_corpus_init(&d, 16, &corpus, &err), HSP_EINVAL);
}

HSP_TEST_FILE(data_cursor_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_sample_is_the_one_the_sheet_reads),
        cmocka_unit_test(every_field_counts),
        cmocka_unit_test(documents_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
