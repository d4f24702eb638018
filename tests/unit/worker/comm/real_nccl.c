/* Tests the real libnccl.so.2, as far as it goes without a GPU: real_nccl PATH, run by
 * tests/claims/real-libraries. */
#include <stdio.h>
#include <string.h>

#include "tests/lib/testlib.h"
#include "worker/comm/nccl/nccl_lib.h"

static const char *path;
static struct hsp_nccl_lib real;

/* All that nccl_lib.c needs is found, and the version is one of those it takes. */
static void it_opens(void **state)
{
    struct hsp_err err = {0};
    (void)state;
    assert_ok(hsp_nccl_lib_open(path, &real, &err), &err);
    print_message("# version %d\n", real.version);
}

static void what_is_optional_is_there_since_its_version(void **state)
{
    (void)state;
    assert_non_null(real.CommSplit);
}

/* Its own words for our numbers. */
static void results_mean_the_same(void **state)
{
    static const struct {
        enum nccl_result r;
        const char *words;
    } said[] = {{NCCL_SUCCESS, "no error"},
                {NCCL_CUDA_ERROR, "unhandled cuda error"},
                {NCCL_SYSTEM_ERROR, "unhandled system error"},
                {NCCL_INTERNAL_ERROR, "internal error"},
                {NCCL_INVALID_ARGUMENT, "invalid argument"},
                {NCCL_INVALID_USAGE, "invalid usage"},
                {NCCL_REMOTE_ERROR, "remote process exited or there was a network error"},
                {NCCL_IN_PROGRESS, "NCCL operation in progress"}};
    (void)state;
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        const char *words = real.GetErrorString(said[i].r);
        if (strncmp(words, said[i].words, strlen(said[i].words)) != 0) {
            fail_msg("%d is \"%s\", not \"%s\"", (int)said[i].r, words, said[i].words);
        }
    }
}

/* The library listens for the others at an address of this host, so it needs network cards and
 * sockets. */
static void ids_are_made(void **state)
{
    struct nccl_id a = {{0}}, b = {{0}};
    struct hsp_err err = {0};
    (void)state;
    enum nccl_result r = real.GetUniqueId(&a);
    if (r != NCCL_SUCCESS) {
        (void)hsp_nccl_failed(&real, NULL, r, "an id", &err);
        fail_msg("%s", err.msg);
    }
    assert_int_equal(real.GetUniqueId(&b), NCCL_SUCCESS);
    assert_memory_not_equal(&a, &b, sizeof a);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_opens),
        cmocka_unit_test(what_is_optional_is_there_since_its_version),
        cmocka_unit_test(results_mean_the_same),
        cmocka_unit_test(ids_are_made),
    };
    if (argc != 2) {
        (void)fprintf(stderr, "usage: real_nccl PATH\n");
        return 2;
    }
    path = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
