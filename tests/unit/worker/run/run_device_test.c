/* Tests --device: names, and the answers of a machine without a GPU. */
#include <string.h>

#include "proto/base/size.h"
#include "tests/lib/testlib.h"
#include "worker/run/run_device.h"

static void devices_have_names(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct hsp_run_device d;
    } c[] = {
        {"cpu", {false, -1}}, {"cuda", {true, -1}}, {"cuda:0", {true, 0}}, {"cuda:17", {true, 17}}};
    struct hsp_err err = {0};
    for (size_t i = 0; i < HSP_ARRAY_LEN(c); i++) {
        struct hsp_run_device d = {.gpu = !c[i].d.gpu, .index = 99};
        assert_ok(hsp_run_device_parse(c[i].text, &d, &err), &err);
        assert_int_equal(d.gpu, c[i].d.gpu);
        assert_int_equal(d.index, c[i].d.index);
    }
}

static void other_names_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {
        "",        "gpu",     "cuda:",    "cuda:x",      "cuda:-1",
        "cuda: 1", "cudax:1", "cpu:0",    "cuda:1024",   "CPU",
        "cuda0",   "cuda:0x", "cuda:1e2", "cuda:0 tail", "cuda:99999999999999999999"};
    for (size_t i = 0; i < HSP_ARRAY_LEN(names); i++) {
        struct hsp_run_device d = {0};
        struct hsp_err err = {0};
        assert_status(hsp_run_device_parse(names[i], &d, &err), HSP_EINVAL);
        assert_non_null(strstr(err.msg, "cpu, cuda or cuda:N"));
    }
}

static void the_cpu_needs_no_driver(void **state)
{
    (void)state;
    struct hsp_run_device d = {.gpu = false, .index = -1};
    struct hsp_backend *b = NULL;
    struct hsp_err err = {0};
    assert_ok(hsp_run_device_open(&d, 3, 1, &b, &err), &err);
    assert_false(b->device);
    b->close(b);
}

static void a_gpu_that_is_not_there_is_said_in_one_line(void **state)
{
    (void)state;
    struct hsp_run_device d = {.gpu = true, .index = 1000};
    struct hsp_backend *b = NULL;
    struct hsp_err err = {0};
    assert_status(hsp_run_device_open(&d, 0, 1, &b, &err), HSP_ENODEV);
    assert_null(b);
    assert_non_null(strstr(err.msg, "GPU"));
    assert_null(strchr(err.msg, '\n'));
}

HSP_TEST_FILE(run_device_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_have_names),
        cmocka_unit_test(other_names_are_refused),
        cmocka_unit_test(the_cpu_needs_no_driver),
        cmocka_unit_test(a_gpu_that_is_not_there_is_said_in_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
