/* Compares nvml_abi.h with the nvml.h of this machine. */
#if __has_include(<nvml.h>)
#include <nvml.h>
#define HAVE_NVML_H 1
#else
#define HAVE_NVML_H 0
#endif

/* The one name that both have. */
#define NVML_SUCCESS OUR_SUCCESS
#include "worker/probe/nvml_abi.h"
#undef NVML_SUCCESS

#include <stdio.h>

#include "tests/lib/testlib.h"

#if HAVE_NVML_H
#define SAME_FIELD(ours, a, theirs, b)                        \
    assert_int_equal(offsetof(ours, a), offsetof(theirs, b)); \
    assert_int_equal(sizeof(((ours *)NULL)->a), sizeof(((theirs *)NULL)->b))

static void numbers_are_those_of_the_header(void **state)
{
    (void)state;
    assert_int_equal(OUR_SUCCESS, NVML_SUCCESS);
    assert_int_equal(NVML_INVALID_ARGUMENT, NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(NVML_NOT_SUPPORTED, NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(NVML_TIMEOUT, NVML_ERROR_TIMEOUT);
    assert_int_equal(NVML_GPU_IS_LOST, NVML_ERROR_GPU_IS_LOST);
    assert_int_equal(NVML_RESET_REQUIRED, NVML_ERROR_RESET_REQUIRED);
    assert_int_equal(NVML_EVENT_DOUBLE_BIT, nvmlEventTypeDoubleBitEccError);
    assert_int_equal(NVML_EVENT_XID, nvmlEventTypeXidCriticalError);
    assert_int_equal(NVML_SLOW_REASONS, nvmlClocksThrottleReasonHwSlowdown |
                                            nvmlClocksThrottleReasonSwThermalSlowdown |
                                            nvmlClocksThrottleReasonHwThermalSlowdown |
                                            nvmlClocksThrottleReasonHwPowerBrakeSlowdown);
    assert_int_equal(NVML_CORRECTED, NVML_MEMORY_ERROR_TYPE_CORRECTED);
    assert_int_equal(NVML_UNCORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
    assert_int_equal(NVML_VOLATILE, NVML_VOLATILE_ECC);
    assert_int_equal(NVML_SAME_BOARD, NVML_TOPOLOGY_INTERNAL);
    assert_int_equal(NVML_ONE_SWITCH, NVML_TOPOLOGY_SINGLE);
    assert_int_equal(NVML_SWITCHES, NVML_TOPOLOGY_MULTIPLE);
    assert_int_equal(NVML_HOST_BRIDGE, NVML_TOPOLOGY_HOSTBRIDGE);
    assert_int_equal(NVML_NODE, NVML_TOPOLOGY_NODE);
    assert_int_equal(NVML_SYSTEM, NVML_TOPOLOGY_SYSTEM);
    assert_int_equal(NVML_REMOTE_GPU, NVML_NVLINK_DEVICE_TYPE_GPU);
    assert_int_equal(NVML_REMOTE_SWITCH, NVML_NVLINK_DEVICE_TYPE_SWITCH);
    assert_true(NVML_MAX_LINKS >= NVML_NVLINK_MAX_LINKS);
    print_message("# version %d\n", NVML_API_VERSION);
}

static void structures_are_those_of_the_header(void **state)
{
    (void)state;
    assert_int_equal(sizeof(struct nvml_memory), sizeof(nvmlMemory_t));
    SAME_FIELD(struct nvml_memory, total, nvmlMemory_t, total);
    SAME_FIELD(struct nvml_memory, free, nvmlMemory_t, free);
    SAME_FIELD(struct nvml_memory, used, nvmlMemory_t, used);
    assert_int_equal(sizeof(struct nvml_pci), sizeof(nvmlPciInfo_t));
    SAME_FIELD(struct nvml_pci, legacy, nvmlPciInfo_t, busIdLegacy);
    SAME_FIELD(struct nvml_pci, domain, nvmlPciInfo_t, domain);
    SAME_FIELD(struct nvml_pci, bus, nvmlPciInfo_t, bus);
    SAME_FIELD(struct nvml_pci, device, nvmlPciInfo_t, device);
    SAME_FIELD(struct nvml_pci, device_id, nvmlPciInfo_t, pciDeviceId);
    SAME_FIELD(struct nvml_pci, subsystem_id, nvmlPciInfo_t, pciSubSystemId);
    SAME_FIELD(struct nvml_pci, bus_id, nvmlPciInfo_t, busId);
    assert_int_equal(sizeof(struct nvml_event), sizeof(nvmlEventData_t));
    SAME_FIELD(struct nvml_event, device, nvmlEventData_t, device);
    SAME_FIELD(struct nvml_event, type, nvmlEventData_t, eventType);
    SAME_FIELD(struct nvml_event, data, nvmlEventData_t, eventData);
    SAME_FIELD(struct nvml_event, gpu_instance, nvmlEventData_t, gpuInstanceId);
    SAME_FIELD(struct nvml_event, compute_instance, nvmlEventData_t, computeInstanceId);
}

static void enums_are_as_wide_as_those_of_the_header(void **state)
{
    (void)state;
    assert_int_equal(sizeof(enum nvml_result), sizeof(nvmlReturn_t));
    assert_int_equal(sizeof(enum nvml_ecc), sizeof(nvmlMemoryErrorType_t));
    assert_int_equal(sizeof(enum nvml_counter), sizeof(nvmlEccCounterType_t));
    assert_int_equal(sizeof(enum nvml_ancestor), sizeof(nvmlGpuTopologyLevel_t));
    assert_int_equal(sizeof(enum nvml_remote), sizeof(nvmlIntNvLinkDeviceType_t));
}

HSP_TEST_FILE(nvml_abi_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_the_header),
        cmocka_unit_test(structures_are_those_of_the_header),
        cmocka_unit_test(enums_are_as_wide_as_those_of_the_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
HSP_TEST_FILE(nvml_abi_test)
{
    (void)puts("1..0 # SKIP no nvml.h is here");
    return 0;
}
#endif
