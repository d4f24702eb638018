#include "proto/program/corpus.h"
#include "tests/lib/testlib.h"

#include "proto/program/pack.h"

#include <math.h>

#define ARENA ((size_t)16 << 20)

static uint64_t draw(uint64_t what, uint64_t i)
{
    return hsp_test_rand("pack", what * 1000003 + i);
}

/* Makes @n documents of 1 to @longest tokens. Most are short, and some are pieces of a longer
 * document. */
static uint64_t *make_corpus(uint64_t seed, uint32_t n, uint32_t longest, struct hsp_corpus *ret)
{
    uint64_t *start = calloc((size_t)n + 1, sizeof *start), at = 0;
    struct hsp_err err = {0};
    assert_non_null(start);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t r = draw(seed, 2 * (uint64_t)i);
        uint32_t bound = r % 8 == 0 ? longest : longest / 4 + 1;
        bool head = i == 0 || draw(seed, 2 * (uint64_t)i + 1) % 4 != 0;
        start[i] = at | (head ? HSP_SAMPLE_HEAD : 0);
        at += 1 + (r >> 8) % bound;
    }
    start[n] = at | HSP_SAMPLE_HEAD;
    struct hsp_data_bind d = {.samples = HSP_SAMPLES_DOCUMENTS, .longest = longest};
    assert_ok(hsp_corpus_documents(&d, start, n, ret, &err), &err);
    assert_int_equal(ret->n_train, n);
    assert_int_equal(hsp_corpus_tokens(ret), at);
    return start;
}

/* Counts the sheet's documents into @seen and checks the rules of every sequence. */
static uint64_t check_sheet(const struct hsp_pack_order *o, const struct hsp_corpus *c,
                            const struct hsp_sheet *s, uint32_t *seen, uint32_t *n_seq)
{
    uint64_t pairs = 0;
    uint32_t in_all = 0;
    assert_int_equal(s->n_micro, o->n_micro);
    for (uint32_t m = 0; m < s->n_micro; m++) {
        const struct hsp_micro *x = &s->micro[m];
        assert_true(x->n_seq <= o->bound);
        assert_true(m == 0 || x->n_seq <= s->micro[m - 1].n_seq);
        in_all += x->n_seq;
        for (uint32_t i = 0; i < x->n_seq; i++) {
            uint32_t col = 0;
            for (uint32_t k = x->first[i]; k < x->first[i + 1]; k++) {
                const struct hsp_passage *p = &x->part[k];
                assert_int_equal(p->col, col);
                assert_int_equal(p->len, hsp_sample_len(c, p->sample));
                assert_int_equal(p->offset, c->start[p->sample] & ~HSP_SAMPLE_HEAD);
                assert_int_equal(p->goes_on, (c->start[p->sample + 1] & HSP_SAMPLE_HEAD) == 0);
                col += p->len;
                pairs += (uint64_t)p->len * (p->len + 1) / 2;
                seen[p->sample]++;
            }
            assert_true(col > 0 && col <= o->sequence);
        }
    }
    assert_true(in_all <= o->n_seq);
    *n_seq += in_all;
    return pairs;
}

/* However a batch is divided among pipelines, each sample is in one sequence of one pipeline. */
static void every_sample_is_in_one_sequence(void **state)
{
    (void)state;
    struct hsp_arena *arena = hsp_arena_new(ARENA);
    for (uint64_t round = 0; round < 60; round++) {
        uint32_t n = 1 + (uint32_t)(draw(1, round) % 90);
        uint32_t longest = 1 + (uint32_t)(draw(2, round) % 300), n_seq = 0, at = 0;
        uint32_t *seen = calloc(n, sizeof *seen);
        uint64_t *sample = calloc(n, sizeof *sample);
        struct hsp_corpus c;
        uint64_t *start = make_corpus(100 + round, n, longest, &c);
        assert_true(seen != NULL && sample != NULL);
        for (uint32_t k = 0; k < n; k++) {
            sample[k] = hsp_sample_at(round, n, k);
        }
        for (uint32_t pipeline = 0; at < n; pipeline++) {
            uint32_t left = n - at, some = 1 + (uint32_t)(draw(3 + pipeline, round) % left);
            uint32_t bound = 1 + (uint32_t)(draw(50 + pipeline, round) % 4);
            struct hsp_pack_order o = {.sequence = longest,
                                       .n = n,
                                       .first = at,
                                       .n_seq = some,
                                       .n_micro = (some + bound - 1) / bound,
                                       .bound = bound,
                                       .n_stages = 1 + pipeline % 3};
            struct hsp_sheet s;
            assert_int_equal(hsp_pack_step(&o, &c, sample, arena, &s), HSP_OK);
            (void)check_sheet(&o, &c, &s, seen, &n_seq);
            at += some;
        }
        for (uint32_t k = 0; k < n; k++) {
            assert_int_equal(seen[k], 1);
        }
        /* no two sequences are half empty: one would have taken the other's documents */
        assert_true(n_seq <= 2 * hsp_corpus_tokens(&c) / longest + 1);
        free(start);
        free(seen);
        free(sample);
        hsp_arena_reset(arena);
    }
    (void)hsp_arena_free(arena);
}

/* Packs eight documents of 3, 5, 2, 6, 3, 4, 2 and 5 tokens into sequences of 10 tokens. Three full
 * sequences suffice: 6 + 4, 5 + 5 and 3 + 3 + 2 + 2. Taking documents in their order would need
 * more. */
static void documents_fill_sequences(void **state)
{
    (void)state;
    static const uint32_t len[] = {3, 5, 2, 6, 3, 4, 2, 5};
    uint64_t start[9], sample[8];
    struct hsp_corpus c = {.n_train = 8, .start = start};
    struct hsp_arena *arena = hsp_arena_new(ARENA);
    struct hsp_sheet s;
    uint64_t at = 0;
    for (uint32_t i = 0; i <= 8; i++) {
        start[i] = at | HSP_SAMPLE_HEAD;
        at += i < 8 ? len[i] : 0;
        if (i < 8) {
            sample[i] = i;
        }
    }
    struct hsp_pack_order o = {
        .sequence = 10, .n = 8, .n_seq = 8, .n_micro = 8, .bound = 1, .n_stages = 1};
    assert_int_equal(hsp_pack_step(&o, &c, sample, arena, &s), HSP_OK);
    uint32_t n = 0, seen[8] = {0};
    (void)check_sheet(&o, &c, &s, seen, &n);
    assert_int_equal(n, 3);
    assert_int_equal(s.micro[2].n_seq, 1);
    assert_int_equal(s.micro[3].n_seq, 0);
    assert_int_equal(s.micro[0].part[s.micro[0].first[0]].len, 6); /* the dearest is first */
    (void)hsp_arena_free(arena);
}

/* Two equal pipelines get documents of equal cost, though few documents are long. */
static void pipelines_get_equal_work(void **state)
{
    (void)state;
    enum { N = 256, LONGEST = 512 };
    struct hsp_arena *arena = hsp_arena_new(ARENA);
    struct hsp_corpus c;
    uint64_t *start = make_corpus(7, N, LONGEST, &c), sample[N], pairs[2];
    uint32_t n[2] = {0}, seen[N] = {0};
    for (uint32_t k = 0; k < N; k++) {
        sample[k] = k;
    }
    for (uint32_t i = 0; i < 2; i++) {
        struct hsp_pack_order o = {.sequence = LONGEST,
                                   .n = N,
                                   .first = i * N / 2,
                                   .n_seq = N / 2,
                                   .n_micro = N / 2,
                                   .bound = 1,
                                   .n_stages = 1};
        struct hsp_sheet s;
        assert_int_equal(hsp_pack_step(&o, &c, sample, arena, &s), HSP_OK);
        pairs[i] = check_sheet(&o, &c, &s, seen, &n[i]);
    }
    assert_true(n[0] == n[1] || n[0] + 1 == n[1]);
    assert_true(fabs((double)pairs[0] - (double)pairs[1]) < 0.12 * (double)(pairs[0] + pairs[1]));
    free(start);
    (void)hsp_arena_free(arena);
}

/* A pipeline of several stages gets enough micro-batches to be filled. A single stage gets as few
 * micro-batches as hold the sequences. */
static void a_pipeline_is_filled(void **state)
{
    (void)state;
    struct hsp_arena *arena = hsp_arena_new(ARENA);
    struct hsp_corpus c;
    uint64_t start[65], sample[64];
    for (uint64_t i = 0; i <= 64; i++) {
        start[i] = (16 * i) | HSP_SAMPLE_HEAD;
        sample[i % 64] = i % 64;
    }
    c = (struct hsp_corpus){.n_train = 64, .start = start};
    static const uint32_t want[4] = {0, 4, 8, 12};
    for (uint32_t stages = 1; stages <= 3; stages++) {
        struct hsp_pack_order o = {.sequence = 32, /* two documents each */
                                   .n = 64,
                                   .n_seq = 64,
                                   .n_micro = 16,
                                   .bound = 8,
                                   .n_stages = stages};
        struct hsp_sheet s;
        uint32_t used = 0;
        assert_int_equal(hsp_pack_step(&o, &c, sample, arena, &s), HSP_OK);
        for (uint32_t m = 0; m < s.n_micro; m++) {
            used += s.micro[m].n_seq > 0;
        }
        assert_int_equal(used, stages == 1 ? 4 : want[stages]);
    }
    (void)hsp_arena_free(arena);
}

HSP_TEST_FILE(pack_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_is_in_one_sequence),
        cmocka_unit_test(documents_fill_sequences),
        cmocka_unit_test(pipelines_get_equal_work),
        cmocka_unit_test(a_pipeline_is_filled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
