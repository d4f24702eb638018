/* Tests where libnccl.so.2 is sought. */
#include <libgen.h>
#include <stdio.h>

#include "tests/unit/worker/comm/nccl_world.h"
#include "worker/comm/nccl/nccl_lib.h"

/* The folder that configure was told comes first. */
static void the_folder_comes_first(void **state)
{
    char path[512];
    struct hsp_nccl_lib l = {0};
    struct hsp_err err = {0};
    (void)state;
    nw_fake()->reset(1, 22301);
    (void)snprintf(path, sizeof path, "%s", nw_library());
    assert_ok(hsp_nccl_lib_seek(dirname(path), &l, &err), &err);
    assert_int_equal(l.version, 22301); /* the stand-in, which says the ordered version */
    hsp_nccl_lib_close(&l);
    assert_null(l.handle);
}

/* A folder that has none is as good as none. */
static void else_it_is_the_system_s(void **state)
{
    struct hsp_nccl_lib l = {0}, m = {0};
    struct hsp_err err = {0}, same = {0};
    (void)state;
    enum hsp_status st = hsp_nccl_lib_seek("", &l, &err);
    assert_status(hsp_nccl_lib_seek("/nonexistent", &m, &same), st);
    assert_string_equal(same.msg, err.msg);
    assert_int_equal(m.version, l.version);
    assert_true(st == HSP_OK || st == HSP_EUNSUPPORTED);
    hsp_nccl_lib_close(&l);
    hsp_nccl_lib_close(&m);
}

static void a_build_without_says_so(void **state)
{
    struct hsp_nccl_lib l = {0};
    struct hsp_err err = {0};
    (void)state;
    assert_status(hsp_nccl_lib_seek(NULL, &l, &err), HSP_EUNSUPPORTED);
    assert_err(&err, HSP_EUNSUPPORTED, "no NCCL: hspmd was built --without-nccl");
    assert_null(l.handle);
}

/* Without a name the library that this build was configured for is opened. */
static void no_name_is_as_configured(void **state)
{
    struct hsp_nccl_lib l = {0}, m = {0};
    struct hsp_err err = {0}, same = {0};
    (void)state;
    enum hsp_status st = hsp_nccl_lib_seek(HSP_NCCL_FOLDER, &l, &err);
    assert_status(hsp_nccl_lib_open(NULL, &m, &same), st);
    assert_string_equal(same.msg, err.msg);
    assert_int_equal(m.version, l.version);
    hsp_nccl_lib_close(&l);
    hsp_nccl_lib_close(&m);
}

HSP_TEST_FILE(nccl_lib_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_folder_comes_first),
        cmocka_unit_test(else_it_is_the_system_s),
        cmocka_unit_test(a_build_without_says_so),
        cmocka_unit_test(no_name_is_as_configured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
