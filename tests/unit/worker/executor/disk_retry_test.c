#include "tests/lib/testlib.h"

#include <errno.h>

#include "worker/executor/disk_retry.h"

static void pauses_grow_to_a_bound(void **state)
{
    (void)state;
    static const uint32_t want[] = {1000, 2000, 4000, 8000, 16000, 30000, 30000};
    for (uint32_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        assert_int_equal(hsp_disk_pause_ms(i + 1), want[i]);
    }
    assert_int_equal(hsp_disk_pause_ms(UINT32_MAX), 30000);
}

static void what_is_said_ends_with_what_to_do(void **state)
{
    (void)state;
    static const struct {
        int sys;
        const char *want;
    } cases[] = {
        {ENOSPC, "cannot write /x: No space left on device; make room there"},
        {EDQUOT, "cannot write /x: Disk quota exceeded; make room there"},
        {EROFS, "cannot write /x: Read-only file system; let the user of hspmd-worker write there"},
        {EACCES, "cannot write /x: Permission denied; let the user of hspmd-worker write there"},
        {ENOTDIR, "cannot write /x: Not a directory; move away the file or folder in its place"},
        {ENAMETOOLONG, "cannot write /x: File name too long; take a shorter checkpoint.path"},
        {EIO, "cannot write /x: Input/output error; check that disk"},
        {ETIMEDOUT, "cannot write /x: Connection timed out; is its file server up?"},
        {0, "cannot write /x"}, /* no errno: the cause is not known */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hsp_err err = {0};
        (void)hsp_err_set(&err, HSP_EIO, cases[i].sys, "cannot write /x");
        hsp_disk_explain(&err);
        assert_err(&err, HSP_EIO, cases[i].want);
    }
    hsp_disk_explain(NULL);
}

HSP_TEST_FILE(disk_retry_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_grow_to_a_bound),
        cmocka_unit_test(what_is_said_ends_with_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
