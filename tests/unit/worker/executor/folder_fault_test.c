/* Checks the facts that PREPARE reports for failures of the state folder: with lack of room a
 * smaller plan may help, with other failures no plan can use the node. */
#include <errno.h>

#include "tests/lib/testlib.h"
#include "worker/executor/folder_fault.h"

static enum hsp_fact_kind fault(enum hsp_status st, int sys, struct hsp_err *ret)
{
    *ret = (struct hsp_err){0};
    (void)hsp_err_set(ret, st, sys, "cannot create /s/x");
    return hsp_folder_fault(ret);
}

static void test_only_want_of_room_is_one_of_memory(void **state)
{
    (void)state;
    struct hsp_err err;
    assert_int_equal(fault(HSP_ENOSPC, ENOSPC, &err), HSP_FACT_OUT_OF_MEMORY);
    assert_string_equal(err.msg,
                        "cannot create /s/x: No space left on device [ENOSPC]; make room in "
                        "state_dir, or mount it with a greater size");
    assert_int_equal(fault(HSP_ENOMEM, ENOMEM, &err), HSP_FACT_OUT_OF_MEMORY);
    assert_int_equal(fault(HSP_ENOMEM, 0, &err), HSP_FACT_OUT_OF_MEMORY);
    assert_int_equal(fault(HSP_ENOSPC, 0, &err), HSP_FACT_OUT_OF_MEMORY);
    const int others[] = {EROFS, EIO, EACCES, ENOTDIR, EDQUOT, EFBIG, EMFILE, ENFILE, EPIPE};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(fault(HSP_EIO, others[i], &err), HSP_FACT_STATE_FOLDER);
        assert_int_equal(fault(HSP_ENOSPC, others[i], &err), HSP_FACT_STATE_FOLDER);
        assert_int_equal(fault(HSP_ENOMEM, others[i], &err), HSP_FACT_STATE_FOLDER);
    }
    assert_int_equal(fault(HSP_EVERSION, 0, &err), HSP_FACT_OTHER);
    assert_string_equal(err.msg, "cannot create /s/x");
}

static void test_an_errno_is_named_with_its_remedy(void **state)
{
    (void)state;
    struct hsp_err err;
    (void)fault(HSP_EIO, EROFS, &err);
    assert_string_equal(err.msg,
                        "cannot create /s/x: Read-only file system [EROFS]; mount it writable");
    (void)fault(HSP_EIO, EIO, &err);
    assert_string_equal(err.msg, "cannot create /s/x: Input/output error [EIO]; look for errors of "
                                 "its disk in the log of the kernel");
    (void)fault(HSP_EIO, EBADMSG, &err);
    assert_string_equal(err.msg, "cannot create /s/x: Bad message [errno 74]; see the log of "
                                 "hspmd-worker");
}

/* A plan needs 100 bytes, 40 of them in the folder, on a device that offers 1000. */
static void test_the_next_plan_fits_what_there_is(void **state)
{
    (void)state;
    assert_int_equal(hsp_folder_lack(1000, 100, 40, 30), 925); /* 75 are left for the next plan */
    assert_int_equal(hsp_folder_lack(1000, 100, 40, 40), 900);
    assert_true(hsp_folder_lack(1000, 100, 40, 1) == UINT64_MAX); /* full */
    assert_true(hsp_folder_lack(1000, 100, 40, 0) == UINT64_MAX);
    assert_int_equal(hsp_folder_lack(50, 100, 40, 30), 25);
}

/* Asserts that the next plan fits into memory and folder, if it takes as much state as the reduced
 * offer allows. A plan needs two versions in the folder, @versions versions in the offered memory,
 * and @rest bytes of other memory. */
static void next_fits(uint64_t versions, uint64_t version, uint64_t rest, uint64_t room)
{
    uint64_t offered = 1000, need = versions * version + rest;
    uint64_t lack = hsp_folder_lack(offered, need, 2 * version, room);
    assert_true(lack <= offered);
    uint64_t left = offered - lack;
    assert_true(left < need);
    assert_true(left <= rest || 2 * ((left - rest) / versions) <= room);
}

static void test_the_next_plan_fits_a_gpu_and_a_cpu(void **state)
{
    (void)state;
    next_fits(3, 100, 30, 150); /* a CPU: the folder is in its memory */
    next_fits(3, 100, 0, 199);
    next_fits(1, 70, 8, 60); /* a GPU full of state: more bytes in the folder than on the GPU */
    next_fits(1, 70, 8, 100);
}

HSP_TEST_FILE(folder_fault_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_want_of_room_is_one_of_memory),
        cmocka_unit_test(test_an_errno_is_named_with_its_remedy),
        cmocka_unit_test(test_the_next_plan_fits_what_there_is),
        cmocka_unit_test(test_the_next_plan_fits_a_gpu_and_a_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
