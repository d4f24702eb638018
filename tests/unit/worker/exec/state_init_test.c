/* Tests the first state of a job, drawn or read from a file of weights. */
#include <math.h>
#include <stdio.h>

#include "proto/op/bf16.h"
#include "tests/unit/worker/exec/engine_world.h"
#include "worker/exec/state_init.h"
#include "worker/state/safetensors_read.h"
#include "worker/state/safetensors_write.h"

static void initial_state_does_not_depend_on_layout(void **state)
{
    (void)state;
    struct hsp_arena *a = hsp_arena_new((size_t)16 << 20);
    struct hsp_program *p = tiny_programs(&ew_spec, a), *q = tiny_programs(&ew_spec, a);
    double *x = calloc(1, (size_t)p->bind.state_bytes), *y = calloc(1, (size_t)p->bind.state_bytes);
    hsp_state_init(p, x);
    /* program q holds the part of the tensor from row 5, column 2 on */
    struct hsp_tensor_bind *b = &q->bind.tensor[q->bind.state[0].tensor];
    b->box.lo[0] = 5;
    b->box.lo[1] = 2;
    hsp_state_init(q, y);
    double sum = 0.0;
    for (int r = 5; r < 24; r++) {
        for (int c = 2; c < 8; c++) {
            assert_near(y[(r - 5) * 6 + c - 2], x[r * 8 + c], 0.0);
            sum += x[r * 8 + c] * x[r * 8 + c];
        }
    }
    assert_near(sqrt(sum / (19 * 6)), 0.1, 0.03); /* init_std */
    free(x);
    free(y);
    hsp_arena_free(a);
}

/* Weights of any real type become numbers of the state's type; integers are refused. */
static void weights_of_any_real_type_are_taken(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_arena *a = hsp_arena_new((size_t)16 << 20);
    struct hsp_program *p = tiny_programs(&ew_spec, a);
    char *dir = hsp_test_tmpdir(), path[300];
    enum { N = 24 * 8 };
    double wide[N], *slot = calloc(1, (size_t)p->bind.state_bytes);
    float single[N];
    uint16_t half[N];
    const void *data[] = {single, wide, half};
    static const enum hsp_dtype type[] = {HSP_F32, HSP_F64, HSP_BF16, HSP_I32};
    for (int i = 0; i < N; i++) { /* the values are exact in all types */
        wide[i] = (i - 96) * 0.25;
        single[i] = (float)wide[i];
        half[i] = hsp_bf16_of(single[i]);
    }
    (void)snprintf(path, sizeof path, "%s/weights", dir);
    for (int k = 0; k < 4; k++) {
        struct hsp_st_entry e[] = {
            {.name = "embed.weight", .dtype = type[k], .rank = 2, .ext = {24, 8}},
            {.name = "head.weight", .dtype = type[k], .rank = 2, .ext = {24, 8}}};
        struct hsp_st_writer *w;
        struct hsp_st_reader *r;
        assert_ok(hsp_st_create(path, e, 2, NULL, 0, &w, &err), &err);
        for (uint32_t i = 0; i < 2; i++) {
            size_t bytes = N * hsp_dtype_size(type[k]);
            assert_ok(hsp_st_write(w, i, 0, k < 3 ? data[k] : single, bytes, &err), &err);
        }
        assert_ok(hsp_st_finish(w, &err), &err);
        assert_ok(hsp_st_open(path, &r, &err), &err);
        memset(slot, 0, (size_t)p->bind.state_bytes);
        assert_status(hsp_state_import(p, r, slot, &err), k < 3 ? HSP_OK : HSP_EINVAL);
        hsp_st_close(r);
        struct hsp_cell_view v = hsp_state_view(p, 0, slot);
        for (int i = 0; k < 3 && i < N; i++) {
            assert_near(((const double *)v.data)[i], wide[i], 0);
        }
    }
    free(slot);
    hsp_test_rmdir(dir);
    free(dir);
    hsp_arena_free(a);
}

HSP_TEST_FILE(state_init_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_state_does_not_depend_on_layout),
        cmocka_unit_test(weights_of_any_real_type_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
