#include "proto/program/corpus.h"
#include "proto/program/micro_size.h"
#include "tests/lib/testlib.h"

#include <math.h>

#include "proto/program/sheet.h"

static void samples_are_permutations(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 300; n += n < 20 ? 1 : 47) {
        for (uint64_t pass = 0; pass < 3; pass++) {
            bool seen[400] = {false};
            uint64_t in_place = 0;
            for (uint64_t i = 0; i < n; i++) {
                uint64_t s = hsp_sample_at(hsp_test_seed(), n, pass * n + i);
                assert_true(s < n);
                assert_false(seen[s]);
                seen[s] = true;
                in_place += s == i;
            }
            assert_true(n < 50 || in_place < 10); /* shuffled */
        }
    }
}

static void passes_and_seeds_differ(void **state)
{
    (void)state;
    uint64_t same_pass = 0, same_seed = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        same_pass += hsp_sample_at(1, 1000, i) == hsp_sample_at(1, 1000, 1000 + i);
        same_seed += hsp_sample_at(1, 1000, i) == hsp_sample_at(2, 1000, i);
    }
    assert_true(same_pass < 10);
    assert_true(same_seed < 10);
    /* large corpora: the walk ends and stays inside */
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t n = (UINT64_C(1) << 40) + 12345;
        assert_true(hsp_sample_at(3, n, i * 7919) < n);
    }
}

static void micro_sizes_are_even(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 40; n++) {
        for (uint32_t m = 1; m < 12; m++) {
            uint32_t sum = 0, last = UINT32_MAX;
            for (uint32_t k = 0; k < m; k++) {
                uint32_t s = hsp_micro_size(n, m, k);
                assert_true(s <= last && s + 1 >= n / m);
                sum += s;
                last = s;
            }
            assert_int_equal(sum, n);
        }
    }
}

static struct hsp_binding binding(uint32_t first, uint32_t n, uint32_t n_micro)
{
    return (struct hsp_binding){.pipeline = {.first_seq = first,
                                             .n_seq = n,
                                             .n_micro = n_micro,
                                             .eval_first = first,
                                             .eval_n_seq = n,
                                             .eval_n_micro = n_micro},
                                .data = {.seed = 5,
                                         .global_batch = 12,
                                         .sequence = 16,
                                         .eval_seqs = 12,
                                         .validation_every = 4,
                                         .validation_fraction = 0.25,
                                         .vocab = 256},
                                .hyper = {.steps = 10}};
}

/* However the global batch is divided, the union of the parts is the same list (D5). */
static void parts_make_the_global_batch(void **state)
{
    (void)state;
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    struct hsp_binding whole = binding(0, 12, 1), a = binding(0, 7, 3), b = binding(7, 5, 2);
    struct hsp_corpus c;
    struct hsp_err err = {0};
    assert_ok(hsp_corpus_init(&whole.data, 4000, &c, &err), &err);
    assert_int_equal(c.train_tokens, 3000);
    assert_int_equal(c.n_train, 187); /* 187 * 16 + 1 = 2993 <= 3000 */
    assert_int_equal(c.n_eval, 62);
    for (uint64_t step = 0; step < 40; step++) {
        struct hsp_sheet w, p[2];
        assert_int_equal(hsp_sheet_train(&whole, &c, step, arena, &w), HSP_OK);
        assert_int_equal(hsp_sheet_train(&a, &c, step, arena, &p[0]), HSP_OK);
        assert_int_equal(hsp_sheet_train(&b, &c, step, arena, &p[1]), HSP_OK);
        uint32_t at = 0;
        for (int s = 0; s < 2; s++) {
            for (uint32_t m = 0; m < p[s].n_micro; m++) {
                for (uint32_t k = 0; k < p[s].micro[m].n_seq; k++, at++) {
                    assert_int_equal(p[s].micro[m].sample[k], w.micro[0].sample[at]);
                    assert_int_equal(p[s].micro[m].offset[k], w.micro[0].offset[at]);
                    assert_true(w.micro[0].offset[at] + 17 <= c.train_tokens);
                }
            }
        }
        assert_int_equal(at, 12);
    }
    struct hsp_sheet v;
    assert_int_equal(hsp_sheet_eval(&whole, &c, arena, &v), HSP_OK);
    for (uint32_t k = 0; k < 12; k++) {
        assert_true(v.micro[0].offset[k] >= c.train_tokens);
        assert_true(v.micro[0].offset[k] + 17 <= c.n_tokens);
        assert_true(k == 0 || v.micro[0].offset[k] > v.micro[0].offset[k - 1]);
    }
    hsp_arena_free(arena);
}

static void short_texts_are_refused(void **state)
{
    (void)state;
    struct hsp_binding b = binding(0, 12, 1);
    struct hsp_corpus c;
    struct hsp_err err = {0};
    assert_int_equal(hsp_corpus_init(&b.data, 16, &c, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "data of 16 tokens, 12 of them for training; one window needs 17");
    assert_int_equal(hsp_corpus_init(&b.data, 60, &c, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL,
               "data of 60 tokens, 15 of them for validation; one window needs 17");
    b.data.validation_every = 0;
    assert_ok(hsp_corpus_init(&b.data, 60, &c, &err), &err);
}

static void learning_rates(void **state)
{
    (void)state;
    struct hsp_train_bind h = {
        .steps = 110, .lr = 1.0, .min_lr = 0.1, .warmup_steps = 10, .schedule = HSP_LR_COSINE};
    assert_near(hsp_lr_at(&h, 0), 0.1, 1e-15);
    assert_near(hsp_lr_at(&h, 9), 1.0, 1e-15);
    assert_near(hsp_lr_at(&h, 10), 1.0, 1e-15);
    assert_near(hsp_lr_at(&h, 60), 0.55, 1e-12); /* half way */
    assert_near(hsp_lr_at(&h, 110), 0.1, 1e-15);
    assert_near(hsp_lr_at(&h, 1000), 0.1, 1e-15);
    for (uint64_t k = 10; k < 110; k++) {
        double half = acos(-1.0) * (double)(k - 10) / 100;
        assert_near(hsp_lr_at(&h, k), 0.55 + 0.45 * cos(half), 4e-16);
    }
    h.schedule = HSP_LR_CONSTANT;
    assert_near(hsp_lr_at(&h, 60), 1.0, 0.0);
    h.warmup_steps = 0;
    assert_near(hsp_lr_at(&h, 0), 1.0, 0.0);
}

static void validation_steps(void **state)
{
    (void)state;
    struct hsp_binding b = binding(0, 1, 1);
    const bool want[10] = {true, false, false, false, true, false, false, false, true, true};
    for (uint64_t t = 0; t < 10; t++) {
        assert_int_equal(hsp_step_has_eval(&b, t), want[t]);
    }
    b.data.validation_every = 0;
    assert_false(hsp_step_has_eval(&b, 9));
}

static void keys_depend_on_seed_step_and_sample(void **state)
{
    (void)state;
    struct hsp_data_bind d = {.seed = 7};
    int32_t a[2], b[2];
    hsp_sample_keys(&d, 3, 100, a);
    assert_true(a[0] >= 0 && a[1] >= 0);
    hsp_sample_keys(&d, 3, 100, b);
    assert_memory_equal(a, b, sizeof a);
    hsp_sample_keys(&d, 4, 100, b);
    assert_memory_not_equal(a, b, sizeof a);
    hsp_sample_keys(&d, 3, 101, b);
    assert_memory_not_equal(a, b, sizeof a);
    d.seed = 8;
    hsp_sample_keys(&d, 3, 100, b);
    assert_memory_not_equal(a, b, sizeof a);
}

HSP_TEST_FILE(sheet_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_permutations),
        cmocka_unit_test(passes_and_seeds_differ),
        cmocka_unit_test(micro_sizes_are_even),
        cmocka_unit_test(parts_make_the_global_batch),
        cmocka_unit_test(short_texts_are_refused),
        cmocka_unit_test(learning_rates),
        cmocka_unit_test(validation_steps),
        cmocka_unit_test(keys_depend_on_seed_step_and_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
