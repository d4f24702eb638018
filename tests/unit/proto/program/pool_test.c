#include "tests/lib/testlib.h"

#include "proto/program/pool.h"
#include "tests/unit/worker/exec/tiny_program.h"

enum { N = 3 };

/* Three copies of one program, for 4, 6 and the whole of its sequence. */
static struct hsp_program *make(struct hsp_arena *a, uint32_t longest,
                                const struct hsp_program **shorter)
{
    struct hsp_program *p = hsp_arena_array(a, N, sizeof *p);
    const struct hsp_program *one = tiny_programs(&tiny_two, a);
    const uint32_t length[N] = {longest, 4, 6};
    assert_non_null(p);
    for (int k = 0; k < N; k++) {
        p[k] = one[0];
        p[k].bind.data.samples = HSP_SAMPLES_DOCUMENTS;
        p[k].bind.data.longest = longest;
        p[k].bind.data.sequence = length[k];
    }
    shorter[0] = &p[1];
    shorter[1] = &p[2];
    return p;
}

static void the_shortest_that_holds_a_step_runs_it(void **state)
{
    (void)state;
    struct hsp_arena *a = hsp_arena_new((size_t)64 << 20);
    const struct hsp_program *shorter[2];
    struct hsp_program *p = make(a, 9, shorter);
    static const struct {
        uint32_t longest;
        int program;
    } picks[] = {{1, 1}, {4, 1}, {5, 2}, {6, 2}, {7, 0}, {9, 0}};
    for (size_t i = 0; i < sizeof picks / sizeof *picks; i++) {
        assert_ptr_equal(hsp_pool_pick(p, shorter, 2, picks[i].longest), &p[picks[i].program]);
    }
    assert_ptr_equal(hsp_pool_pick(p, NULL, 0, 1), p);
    p[1].bind.memory_bytes = p[0].bind.memory_bytes + 64;
    p[2].bind.comm_bytes = p[0].bind.comm_bytes + 8;
    assert_int_equal(hsp_pool_memory(p, shorter, 2), p[1].bind.memory_bytes);
    assert_int_equal(hsp_pool_comm(p, shorter, 2), p[2].bind.comm_bytes);
    assert_int_equal(hsp_pool_memory(p, shorter, 0), p[0].bind.memory_bytes);
    p[1].bind.host_bytes = 128;
    assert_int_equal(hsp_pool_host(p, shorter, 2), 128);
    assert_int_equal(hsp_pool_host(p, shorter, 0), 0);
    assert_int_equal(hsp_pool_wide(p, shorter, 2), 0); /* no bf16 */
    (void)hsp_arena_free(a);
}

static void what_does_not_fit_together_is_named(void **state)
{
    (void)state;
    struct hsp_arena *a = hsp_arena_new((size_t)64 << 20);
    const struct hsp_program *shorter[2];
    struct hsp_program *p = make(a, 9, shorter), *x = &p[2];
    struct hsp_err err = {0};
    assert_ok(hsp_pool_check(p, shorter, 2, &err), &err);
    x->bind.rank = 1;
    assert_status(hsp_pool_check(p, shorter, 2, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "pool: the plan for 6 tokens has another rank");
    x->bind.rank = 0;
    x->bind.data.seed++;
    assert_status(hsp_pool_check(p, shorter, 2, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "pool: the plan for 6 tokens has another choice of data");
    x->bind.data.seed--;
    x->bind.hyper.lr *= 2;
    assert_status(hsp_pool_check(p, shorter, 2, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "pool: the plan for 6 tokens has another course of training");
    x->bind.hyper.lr /= 2;
    x->bind.hyper.tf32 = true;
    assert_status(hsp_pool_check(p, shorter, 2, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "pool: the plan for 6 tokens has another course of training");
    x->bind.hyper.tf32 = false;
    x->bind.tensor = hsp_arena_memdup(a, x->bind.tensor, x->tpl.n_tensors * sizeof *x->bind.tensor);
    assert_non_null(x->bind.tensor);
    x->bind.tensor[x->bind.state[0].tensor].offset += 64;
    assert_status(hsp_pool_check(p, shorter, 2, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "pool: the plan for 6 tokens has another home of the state");
    x->bind.tensor[x->bind.state[0].tensor].offset -= 64;
    x->bind.data.sequence = 4;
    assert_status(hsp_pool_check(p, shorter, 2, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "pool: the plan for 4 tokens is before that for 4");
    x->bind.data.sequence = 9;
    assert_status(hsp_pool_check(p, shorter, 2, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "pool: the plan for 9 tokens is before that for 9");
    (void)hsp_arena_free(a);
}

HSP_TEST_FILE(pool_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shortest_that_holds_a_step_runs_it),
        cmocka_unit_test(what_does_not_fit_together_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
