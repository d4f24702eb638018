/* Tests the folder of a final model. The folder of another job of the same name is kept under
 * another name. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/size.h"
#include "proto/host/file_io.h"
#include "tests/unit/worker/state/state_lib.h"
#include "worker/state/final_folder.h"
#include "worker/state/safetensors_read.h"
#include "worker/state/safetensors_write.h"

#define A "0000000000000001000000000000000a"

static struct hsp_ckpt_info us(uint32_t job, uint64_t cluster)
{
    return (struct hsp_ckpt_info){.job_id = job, .whose.cluster = {1, cluster}};
}

/* Opens the folder for @job of cluster {1, @cluster}. Returns the new name of the folder that was
 * there, "" if there was none. */
static const char *open_for(const char *dir, uint32_t job, uint64_t cluster)
{
    static char aside[HSP_CKPT_NAME];
    const struct hsp_ckpt_info info = us(job, cluster);
    struct hsp_folder f;
    struct hsp_err err = {0};
    assert_ok(hsp_final_open(dir, &info, aside, &f, &err), &err);
    hsp_folder_close(&f);
    return aside;
}

/* Writes the model of @job; NULL: as an earlier version did, which does not name the job. */
static void write_model(const char *dir, const char *job, float x)
{
    char path[4300];
    struct hsp_err err = {0};
    struct hsp_st_writer *w = NULL;
    struct hsp_st_entry e = {.name = "w", .dtype = HSP_F32, .rank = 1, .ext = {1}};
    const struct hsp_st_meta meta[] = {
        {"format", "pt"}, {HSP_FINAL_JOB, job}, {HSP_FINAL_CLUSTER, A}};
    (void)snprintf(path, sizeof path, "%s/final/" HSP_FINAL_MODEL, dir);
    assert_ok(hsp_st_create(path, &e, 1, meta, job != NULL ? HSP_ARRAY_LEN(meta) : 1, &w, &err),
              &err);
    assert_ok(hsp_st_write(w, 0, 0, &x, sizeof x, &err), &err);
    assert_ok(hsp_st_finish(w, &err), &err);
}

static float model_in(const char *dir, const char *folder)
{
    char path[4300];
    struct hsp_err err = {0};
    struct hsp_st_reader *r = NULL;
    float x = 0;
    (void)snprintf(path, sizeof path, "%s/%s/" HSP_FINAL_MODEL, dir, folder);
    assert_ok(hsp_st_open(path, &r, &err), &err);
    assert_ok(hsp_st_read(r, hsp_st_find(r, "w"), 0, &x, sizeof x, &err), &err);
    (void)hsp_st_close(r);
    return x;
}

static void anothers_is_kept_under_another_name(void **state)
{
    char *dir = hsp_test_tmpdir(), path[4300];
    struct hsp_err err = {0};
    (void)state;
    assert_string_equal(open_for(dir, 3, 10), "");
    assert_string_equal(open_for(dir, 4, 10), ""); /* a folder without a model has no owner */
    write_model(dir, "3", 1);
    assert_string_equal(open_for(dir, 3, 10), "");
    assert_string_equal(open_for(dir, 4, 10), "final.job-3");
    assert_string_equal(open_for(dir, 3, 10), ""); /* there is no other model yet */
    assert_true(model_in(dir, "final.job-3") == 1);
    write_model(dir, "3", 2);
    assert_string_equal(open_for(dir, 4, 10), "final.job-3-2");
    assert_true(model_in(dir, "final.job-3") == 1 && model_in(dir, "final.job-3-2") == 2);
    write_model(dir, "3", 3);
    assert_string_equal(open_for(dir, 3, 11), "final.job-3." A); /* of another cluster */
    assert_true(model_in(dir, "final.job-3." A) == 3);
    write_model(dir, NULL, 4);
    assert_string_equal(open_for(dir, 3, 10), "final.earlier");
    assert_true(model_in(dir, "final.earlier") == 4);
    (void)snprintf(path, sizeof path, "%s/final/" HSP_FINAL_MODEL, dir);
    assert_ok(hsp_file_write(path, "damaged", 7, 0600, &err), &err);
    assert_string_equal(open_for(dir, 3, 10), "final.earlier-2");
    hsp_test_rmdir(dir);
    free(dir);
}

/* Without free descriptors the owner of the folder `final` cannot be read. So the folder stays in
 * its place, and nothing is written. */
static void without_descriptors_it_stays(void **state)
{
    char *dir = hsp_test_tmpdir(), aside[HSP_CKPT_NAME];
    const struct hsp_ckpt_info info = us(4, 10);
    struct hsp_folder f;
    struct hsp_err err = {0};
    (void)state;
    assert_string_equal(open_for(dir, 3, 10), "");
    write_model(dir, "3", 1);
    for (unsigned left = 0; left < 3; left++) {
        starve_descriptors(left);
        enum hsp_status st = hsp_final_open(dir, &info, aside, &f, &err);
        feed_descriptors();
        assert_int_equal(st, HSP_ENOMEM);
        assert_string_equal(aside, "");
    }
    assert_true(model_in(dir, "final") == 1);
    hsp_test_rmdir(dir);
    free(dir);
}

HSP_TEST_FILE(final_folder_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(anothers_is_kept_under_another_name),
                                       cmocka_unit_test(without_descriptors_it_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
