/* Tests attention by blocks of keys on the CPU. */
#include "tests/lib/testlib.h"
#include "tests/unit/worker/backend/block_suite.h"
#include "worker/backend/cpu/cpu.h"

static void blocks_make_the_whole(void **state)
{
    struct block_suite s = {
        .backend = *state, .type = HSP_F64, .tolerance = 1e-12, .n = 60, .max_d = 20, .unit_d = 1};
    s.long_s = 700;
    block_suite_whole(&s);
    s = (struct block_suite){
        .backend = *state, .type = HSP_BF16, .tolerance = 4e-2, .n = 12, .max_d = 20, .unit_d = 1};
    block_suite_whole(&s);
}

static void nothing_seen_is_exact(void **state)
{
    struct block_suite s = {.backend = *state, .type = HSP_F64, .tolerance = 1e-12};
    block_suite_nothing(&s);
    s.type = HSP_BF16;
    block_suite_nothing(&s);
}

static int setup(void **state)
{
    struct hsp_backend *b;
    if (hsp_backend_cpu_open(2, &b, NULL) != HSP_OK) {
        return -1;
    }
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct hsp_backend *b = *state;
    b->close(b);
    return 0;
}

HSP_TEST_FILE(blocks_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_make_the_whole),
        cmocka_unit_test(nothing_seen_is_exact),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
