/* The note of a step that trains nothing is JSON all the same, and says so. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/host/file_io.h"
#include "tests/lib/testlib.h"
#include "worker/executor/executor.h"
#include "worker/executor/step_log.h"

static void numbers_that_are_none_are_texts(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    char *dir = hsp_test_tmpdir(), path[512];
    struct hsp_exec_env env = {.state_dir = dir, .device = 1};
    const struct hsp_m_prepare prepare = {.job = 3};
    const struct hsp_ex_epoch e = {.env = &env, .p = &prepare, .number = 5};
    const struct hsp_vote v = {.step = 8,
                               .loss = (double)NAN,
                               .norm = (double)INFINITY,
                               .tokens = 24,
                               .lr = 0.5,
                               .eval_loss = -(double)INFINITY,
                               .eval_tokens = 4};
    uint8_t *text = NULL;
    size_t len = 0;
    assert_ok(hsp_metrics_note(&e, &v, 0.25, 512, &err), &err);
    (void)snprintf(path, sizeof path, "%s/job-3-1.metrics", dir);
    assert_ok(hsp_file_read(path, 4096, &text, &len, &err), &err);
    assert_string_equal(
        (const char *)text,
        "5 8 {\"step\":8,\"loss\":\"nan\",\"tokens\":24,\"grad_norm\":\"inf\",\"lr\":0.5,"
        "\"val_loss\":\"-inf\",\"seconds\":0.250000,\"sequence\":512,\"epoch\":5}\n");
    free(text);
    hsp_test_rmdir(dir);
    free(dir);
}

/* Many devices have noted the same steps: together they may be more than there is room for. */
static void notes_of_many_devices_need_the_room_of_one(void **state)
{
    static const char mine[] = "1 0 {\"step\":0}\n1 1 {\"step\":1}\n1 2 {\"step\":2}\n";
    static const char later[] = "2 2 {\"step\":2,\"again\":1}\n2 3 {\"step\":3}\n";
    struct hsp_buf all;
    struct hsp_err err = {0};
    (void)state;
    hsp_buf_init(&all, 2 * sizeof mine + sizeof later);
    for (int device = 0; device < 100; device++) {
        assert_ok(hsp_metrics_add(&all, mine, sizeof mine - 1, &err), &err);
        assert_ok(hsp_metrics_add(&all, later, sizeof later - 1, &err), &err);
    }
    char big[512];
    memset(big, 'x', sizeof big);
    assert_status(hsp_metrics_add(&all, big, sizeof big, &err), HSP_ELIMIT);
    assert_string_equal(hsp_buf_cstr(&all), "1 0 {\"step\":0}\n"
                                            "1 1 {\"step\":1}\n"
                                            "2 2 {\"step\":2,\"again\":1}\n"
                                            "2 3 {\"step\":3}\n");
    hsp_buf_fini(&all);
}

HSP_TEST_FILE(step_log_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_are_none_are_texts),
        cmocka_unit_test(notes_of_many_devices_need_the_room_of_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
