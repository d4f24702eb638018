/* Compares nccl_abi.h and nccl_lib.h with the nccl.h of this machine. */
/* Some versions show bf16 to C++ alone, where CUDA's header defines this. */
#define __CUDA_BF16_TYPES_EXIST__ 1
#include <nccl.h>

#include "tests/lib/testlib.h"
#include "worker/comm/nccl/nccl_lib.h"

/* X(name, result, arguments): the calls hspmd makes, by the types of either side. */
#define CALLS(X, RESULT, COMM, ID, TYPE, OP, CONFIG, STREAM)                         \
    X(GetVersion, RESULT, (int *))                                                   \
    X(GetUniqueId, RESULT, (ID *))                                                   \
    X(CommInitRankConfig, RESULT, (COMM *, int, ID, int, CONFIG *))                  \
    X(CommFinalize, RESULT, (COMM))                                                  \
    X(CommDestroy, RESULT, (COMM))                                                   \
    X(CommAbort, RESULT, (COMM))                                                     \
    X(CommGetAsyncError, RESULT, (COMM, RESULT *))                                   \
    X(GetErrorString, const char *, (RESULT))                                        \
    X(GetLastError, const char *, (COMM))                                            \
    X(GroupStart, RESULT, (void))                                                    \
    X(GroupEnd, RESULT, (void))                                                      \
    X(Send, RESULT, (const void *, size_t, TYPE, int, COMM, STREAM))                 \
    X(Recv, RESULT, (void *, size_t, TYPE, int, COMM, STREAM))                       \
    X(AllReduce, RESULT, (const void *, void *, size_t, TYPE, OP, COMM, STREAM))     \
    X(Reduce, RESULT, (const void *, void *, size_t, TYPE, OP, int, COMM, STREAM))   \
    X(ReduceScatter, RESULT, (const void *, void *, size_t, TYPE, OP, COMM, STREAM)) \
    X(AllGather, RESULT, (const void *, void *, size_t, TYPE, COMM, STREAM))         \
    X(Broadcast, RESULT, (const void *, void *, size_t, TYPE, int, COMM, STREAM))    \
    X(CommSplit, RESULT, (COMM, int, int, COMM *, CONFIG *))

/* Each list of CALLS is checked against its own side: the arguments are the same in number, order
 * and kind. */
static void calls_are_those_of_the_header(void **state)
{
    static const struct hsp_nccl_lib ours;
    (void)state;
#define X(name, result, arguments) \
    assert_true(_Generic(nccl##name, result(*) arguments : true, default : false));
    CALLS(X, ncclResult_t, ncclComm_t, ncclUniqueId, ncclDataType_t, ncclRedOp_t, ncclConfig_t,
          cudaStream_t)
#undef X
#define X(name, result, arguments) \
    assert_true(_Generic(ours.name, result(*) arguments : true, default : false));
    CALLS(X, enum nccl_result, struct nccl_comm *, struct nccl_id, enum nccl_type, enum nccl_op,
          struct nccl_config, void *)
#undef X
    (void)ours;
}

static void numbers_are_those_of_the_header(void **state)
{
    (void)state;
    assert_int_equal(NCCL_SUCCESS, ncclSuccess);
    assert_int_equal(NCCL_CUDA_ERROR, ncclUnhandledCudaError);
    assert_int_equal(NCCL_SYSTEM_ERROR, ncclSystemError);
    assert_int_equal(NCCL_INTERNAL_ERROR, ncclInternalError);
    assert_int_equal(NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
    assert_int_equal(NCCL_INVALID_USAGE, ncclInvalidUsage);
    assert_int_equal(NCCL_REMOTE_ERROR, ncclRemoteError);
    assert_int_equal(NCCL_IN_PROGRESS, ncclInProgress);
    assert_int_equal(NCCL_INT8, ncclInt8);
    assert_int_equal(NCCL_FLOAT32, ncclFloat32);
    assert_int_equal(NCCL_FLOAT64, ncclFloat64);
    assert_int_equal(NCCL_BFLOAT16, ncclBfloat16);
    assert_int_equal(NCCL_SUM, ncclSum);
    assert_int_equal(NCCL_MAX, ncclMax);
    assert_int_equal(NCCL_NO_COLOR, NCCL_SPLIT_NOCOLOR);
    assert_int_equal(NCCL_UNDEFINED, NCCL_CONFIG_UNDEF_INT);
    assert_in_range(NCCL_VERSION_CODE, NCCL_OLDEST, NCCL_NEWEST);
    print_message("# version %d\n", NCCL_VERSION_CODE);
}

#define SAME_FIELD(a, b)                                                          \
    assert_int_equal(offsetof(struct nccl_config, a), offsetof(ncclConfig_t, b)); \
    assert_int_equal(sizeof((struct nccl_config){0}.a), sizeof((ncclConfig_t){0}.b))

/* Ours is a beginning of theirs. */
static void the_config_begins_alike(void **state)
{
    const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
    const struct nccl_config ours = hsp_nccl_config(0);
    (void)state;
    SAME_FIELD(size, size);
    SAME_FIELD(magic, magic);
    SAME_FIELD(version, version);
    SAME_FIELD(blocking, blocking);
    SAME_FIELD(cga_cluster_size, cgaClusterSize);
    SAME_FIELD(min_ctas, minCTAs);
    SAME_FIELD(max_ctas, maxCTAs);
    SAME_FIELD(net_name, netName);
    SAME_FIELD(split_share, splitShare);
    assert_true(sizeof(struct nccl_config) <= sizeof(ncclConfig_t));
    assert_int_equal(ours.magic, theirs.magic);
    assert_int_equal(ours.size, sizeof ours);
    assert_int_equal(ours.blocking, 0);
    assert_int_equal(ours.min_ctas, theirs.minCTAs);
    assert_int_equal(ours.max_ctas, theirs.maxCTAs);
    assert_ptr_equal(ours.net_name, theirs.netName);
    assert_int_equal(ours.split_share, theirs.splitShare);
    assert_int_equal(hsp_nccl_config(4).max_ctas, 4);
}

static void sizes_are_those_of_the_header(void **state)
{
    (void)state;
    assert_int_equal(sizeof(struct nccl_id), sizeof(ncclUniqueId));
    assert_int_equal(sizeof(enum nccl_result), sizeof(ncclResult_t));
    assert_int_equal(sizeof(enum nccl_type), sizeof(ncclDataType_t));
    assert_int_equal(sizeof(enum nccl_op), sizeof(ncclRedOp_t));
}

HSP_TEST_FILE(nccl_abi_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_those_of_the_header),
        cmocka_unit_test(numbers_are_those_of_the_header),
        cmocka_unit_test(the_config_begins_alike),
        cmocka_unit_test(sizes_are_those_of_the_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
