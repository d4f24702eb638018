/* hspmd-worker --verify-checkpoint, as a function. */
#include <stdio.h>

#include "proto/layout/box.h"
#include "tests/unit/worker/state/state_lib.h"
#include "worker/state/ckpt.h"
#include "worker/state/ckpt_shard.h"
#include "worker/state/ckpt_verify.h"

#define RANKS 60

/* A checkpoint of one parameter, a row of which each rank has. */
static void write_step(const char *dir, uint64_t step)
{
    static const int64_t full[2] = {RANKS, 3};
    struct hsp_ckpt_info info = {"t", step, 1, 1, RANKS, 1};
    struct hsp_data_cursor data = {.pass_samples = 10, .sequence = 4};
    struct hsp_err err = {0};
    for (uint32_t r = 0; r < RANKS; r++) {
        double x[3];
        struct hsp_box row = hsp_box_whole(2, full);
        row.lo[0] = r;
        row.hi[0] = r + 1;
        fill_box(HSP_F64, 0, HSP_STATE_PARAM, step, full, &row, x);
        struct hsp_ckpt_piece p = {"wte.weight", 0, HSP_STATE_PARAM, HSP_F64, full, row, row, x, 0};
        assert_ok(hsp_ckpt_write_shard(dir, &info, r, &p, 1, NULL, &err), &err);
    }
    assert_ok(hsp_ckpt_commit(dir, &info, &data, "{}", NULL, &err), &err);
}

/* All shards of a step are open together; a shell allows 1024 files unless more are asked for. */
static void as_many_files_as_there_are_shards_are_allowed(void **state)
{
    char *dir = hsp_test_tmpdir(), *text = NULL;
    size_t len = 0;
    struct hsp_err err = {0};
    FILE *out = open_memstream(&text, &len);
    (void)state;
    assert_non_null(out);
    write_step(dir, 5);
    starve_descriptors(20);
    enum hsp_status st = hsp_ckpt_check(dir, false, out, &err);
    feed_descriptors();
    assert_ok(st, &err);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "step 5: good, 1 tensors, 1440 bytes, 60 files"));
    free(text);
    hsp_test_rmdir(dir);
    free(dir);
}

HSP_TEST_FILE(ckpt_verify_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_files_as_there_are_shards_are_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
