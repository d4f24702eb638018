/* Tests the incarnation of a node beside its segments: kept, replaced, and never guessed from a
 * damaged file. */
#include "worker/app/incarnation_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/host/file_io.h"
#include "tests/lib/testlib.h"

static void kept_for_the_next_agent(void **state)
{
    (void)state;
    char dir[] = "/tmp/incarnationXXXXXX", path[64];
    struct hsp_err err = {0};
    struct hsp_digest d = {7, 7};
    struct stat sb;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/incarnation", dir);
    assert_ok(hsp_incarnation_read(dir, &d, &err), &err);
    assert_true(hsp_digest_is_zero(d)); /* there is none */
    for (uint64_t i = 1; i < 3; i++) {
        assert_ok(hsp_incarnation_write(dir, (struct hsp_digest){UINT64_MAX, i}, &err), &err);
        assert_ok(hsp_incarnation_read(dir, &d, &err), &err);
        assert_true(d.hi == UINT64_MAX && d.lo == i);
    }
    assert_int_equal(stat(path, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    static const char *const damaged[] = {"", "x", "ffffffffffffffff000000000000000",
                                          "ffffffffffffffff0000000000000002ff\n"};
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        assert_ok(hsp_file_write(path, damaged[i], strlen(damaged[i]), 0600, &err), &err);
        assert_status(hsp_incarnation_read(dir, &d, &err), HSP_EPARSE);
        assert_true(hsp_digest_is_zero(d));
        assert_non_null(strstr(err.msg, "incarnation is damaged"));
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    assert_status(hsp_incarnation_write(dir, d, &err), HSP_ENOENT);
}

HSP_TEST_FILE(incarnation_file_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kept_for_the_next_agent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
