/* The note of a step that trains nothing is JSON all the same, and says so. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/host/fileio.h"
#include "tests/lib/testlib.h"
#include "worker/app/executor.h"
#include "worker/app/metricslog.h"

static void numbers_that_are_none_are_texts(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    char *dir = hsp_test_tmpdir(), path[512];
    const struct hsp_exec_env env = {.state_dir = dir, .device = 1};
    const struct hsp_m_prepare prepare = {.job = 3};
    const struct hsp_epoch e = {.env = &env, .p = &prepare, .number = 5};
    const struct hsp_vote v = {.step = 8,
                               .loss = (double)NAN,
                               .norm = (double)INFINITY,
                               .tokens = 24,
                               .lr = 0.5,
                               .eval_loss = -(double)INFINITY,
                               .eval_tokens = 4};
    uint8_t *text = NULL;
    size_t len = 0;
    assert_ok(hsp_metrics_note(&e, &v, 0.25, &err), &err);
    (void)snprintf(path, sizeof path, "%s/job-3-1.metrics", dir);
    assert_ok(hsp_file_read(path, 4096, &text, &len, &err), &err);
    assert_string_equal(
        (const char *)text,
        "5 8 {\"step\":8,\"loss\":\"nan\",\"tokens\":24,\"grad_norm\":\"inf\",\"lr\":0.5,"
        "\"val_loss\":\"-inf\",\"seconds\":0.250000,\"epoch\":5}\n");
    free(text);
    hsp_test_rmdir(dir);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_that_are_none_are_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
