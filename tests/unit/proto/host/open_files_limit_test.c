#include "proto/host/open_files_limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "tests/lib/testlib.h"

static void limit(rlim_t soft, rlim_t hard)
{
    const struct rlimit l = {soft, hard};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &l), 0);
}

static rlim_t soft_limit(void)
{
    struct rlimit l;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &l), 0);
    return l.rlim_cur;
}

static void test_raised_as_far_as_wanted(void **state)
{
    (void)state;
    limit(100, 200);
    assert_int_equal(hsp_nofile_raise(150), 150);
    assert_int_equal(soft_limit(), 150);
}

static void test_never_lowered(void **state)
{
    (void)state;
    limit(150, 200);
    assert_int_equal(hsp_nofile_raise(120), 150);
    assert_int_equal(soft_limit(), 150);
}

static void test_the_hard_limit_is_the_most(void **state)
{
    (void)state;
    limit(100, 200);
    assert_int_equal(hsp_nofile_raise(UINT64_MAX), 200);
    assert_int_equal(soft_limit(), 200);
}

HSP_TEST_FILE(open_files_limit_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_raised_as_far_as_wanted),
                                       cmocka_unit_test(test_never_lowered),
                                       cmocka_unit_test(test_the_hard_limit_is_the_most)};
    if (getenv("HSPMD_VALGRIND") != NULL) {
        (void)puts("1..0 # SKIP valgrind keeps the hard limit to itself");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
