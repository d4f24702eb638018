/* Tests hspmd-worker --verify-checkpoint, as a function. */
#include <stdio.h>

#include "proto/layout/box.h"
#include "tests/unit/worker/state/shard_write.h"
#include "tests/unit/worker/state/state_lib.h"
#include "worker/state/ckpt.h"
#include "worker/state/ckpt_shard.h"
#include "worker/state/ckpt_verify.h"

#define RANKS 60

/* A checkpoint of one parameter, a row of which each rank has. */
static void write_step(const char *dir, uint64_t step, uint32_t job)
{
    static const int64_t full[2] = {RANKS, 3};
    struct hsp_ckpt_info info = {"t", step, 1, 1, RANKS, 1, job, {{1, 2}, 3}, false};
    struct hsp_data_cursor data = {.pass_samples = 10, .sequence = 4};
    struct hsp_err err = {0};
    for (uint32_t r = 0; r < RANKS; r++) {
        double x[3];
        struct hsp_box row = hsp_box_whole(2, full);
        row.lo[0] = r;
        row.hi[0] = r + 1;
        fill_box(HSP_F64, 0, HSP_STATE_PARAM, step, full, &row, x);
        struct hsp_ckpt_piece p = {"wte.weight", 0, HSP_STATE_PARAM, HSP_F64, full, row, row, x, 0};
        assert_ok(shard_write(dir, &info, r, &p, 1, NULL, &err), &err);
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
    write_step(dir, 5, 0);
    starve_descriptors(20);
    enum hsp_status st = hsp_ckpt_check(dir, 3, false, out, &err);
    feed_descriptors();
    assert_ok(st, &err);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "step 5: good, 1 tensors, 1440 bytes, 60 files"));
    free(text);
    hsp_test_rmdir(dir);
    free(dir);
}

static enum hsp_status check(const char *dir, uint32_t job, bool json, char **ret,
                             struct hsp_err *err)
{
    size_t len = 0;
    FILE *out = open_memstream(ret, &len);
    assert_non_null(out);
    enum hsp_status st = hsp_ckpt_check(dir, job, json, out, err);
    assert_int_equal(fclose(out), 0);
    return st;
}

/* The steps of an earlier job of the same name are told apart, and do not count. */
static void steps_of_two_jobs_of_one_name(void **state)
{
    char *dir = hsp_test_tmpdir(), *text = NULL, path[4300];
    struct hsp_err err = {0};
    (void)state;
    write_step(dir, 5, 7);
    write_step(dir, 6, 8);
    (void)snprintf(path, sizeof path, "%s/step-%010d/shard-00009-model-00001-of-00001.safetensors",
                   dir, 5);
    flip_bit(path, size_of(path) - 1, 2);
    assert_ok(check(dir, 8, false, &text, &err), &err);
    assert_non_null(strstr(text, "step 6: good, "));
    assert_non_null(strstr(text, "step 5: of job 7, which had this name, damaged: "));
    free(text);
    assert_status(check(dir, 7, false, &text, &err), HSP_EDIGEST);
    assert_non_null(strstr(err.msg, ": 1 of 1 checkpoints are not good"));
    assert_non_null(strstr(text, "step 6: of job 8, which had this name, good, "));
    free(text);
    assert_status(check(dir, 9, false, &text, &err), HSP_ENOENT);
    assert_non_null(strstr(err.msg, ": no complete checkpoint of job 9"));
    free(text);
    assert_status(check(dir, 0, true, &text, &err), HSP_EDIGEST);
    assert_non_null(strstr(text, "{\"step\":6,\"good\":true,\"job_id\":8,"));
    assert_non_null(strstr(text, "{\"step\":5,\"good\":false,\"job_id\":7,"));
    free(text);
    hsp_test_rmdir(dir);
    free(dir);
}

HSP_TEST_FILE(ckpt_verify_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_files_as_there_are_shards_are_allowed),
        cmocka_unit_test(steps_of_two_jobs_of_one_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
