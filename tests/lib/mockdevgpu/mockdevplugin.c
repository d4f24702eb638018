/* Makes a plugin whose GPUs are mock devices (tests/lib/mockdev.h), for tests of whole programs on
 * a machine without any: this folder of the build is $HSPMD_PLUGINS and in LD_LIBRARY_PATH, where
 * the driver is asked for too. $HSP_MOCKDEV_FAIL names a file: the backend that is opened next
 * takes it away and fails at as many pieces of work as it says. $HSP_MOCKDEV_DELAY is the longest
 * delay of a piece of work, in microseconds: a slow GPU on any machine. $HSP_MOCKDEV_UUID makes
 * GPUs that NCCL is offered: without it, it cannot be told which they are. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/mockdev.h"
#include "worker/backend/plugin.h"

#define GPUS  2
#define BYTES ((size_t)4 << 30) /* of each */

extern const struct hsp_device_plugin hsp_cuda_plugin __attribute__((visibility("default")));

static enum hsp_status mockdev_count(int *ret, struct hsp_err *err)
{
    (void)err;
    *ret = GPUS;
    return HSP_OK;
}

static enum hsp_status mockdev_describe(int device, struct hsp_device_info *ret,
                                        struct hsp_err *err)
{
    if (device < 0 || device >= GPUS) {
        return hsp_err_set(err, HSP_ENODEV, 0, "no GPU %d: there are %d", device, GPUS);
    }
    *ret = (struct hsp_device_info){.name = "mockdev",
                                    .sm = 90,
                                    .n_sms = 1,
                                    .memory_bytes = BYTES,
                                    .free_bytes = BYTES - (1 << 24)};
    (void)snprintf(ret->pci, sizeof ret->pci, "0000:%02x:00.0", (unsigned)device + 1);
    const char *uuid = getenv("HSP_MOCKDEV_UUID");
    if (uuid != NULL) {
        (void)strncpy((char *)ret->uuid, uuid, sizeof ret->uuid - 1);
        ret->uuid[sizeof ret->uuid - 1] = (uint8_t)device;
    }
    return HSP_OK;
}

/* The piece of work at which the next one is to fail; 0: none. */
static uint64_t next_failure(void)
{
    const char *path = getenv("HSP_MOCKDEV_FAIL");
    FILE *f = path != NULL ? fopen(path, "r") : NULL;
    uint64_t at = 0;
    if (f == NULL) {
        return 0;
    }
    if (fscanf(f, "%" SCNu64, &at) != 1 || unlink(path) != 0) {
        at = 0; /* another one was faster */
    }
    (void)fclose(f);
    return at;
}

static uint32_t longest_delay(void)
{
    const char *us = getenv("HSP_MOCKDEV_DELAY");
    return us != NULL ? (uint32_t)strtoul(us, NULL, 10) : 0;
}

static enum hsp_status mockdev_open(int device, const struct hsp_device_opts *o,
                                    struct hsp_backend **ret, struct hsp_err *err)
{
    const struct hsp_mockdev_opts g = {.seed = (uint64_t)device + 1,
                                       .max_delay_us = longest_delay(),
                                       .replay = true,
                                       .memory = o != NULL ? o->memory_bytes : 0,
                                       .fail_at = o != NULL ? next_failure() : 0};
    return hsp_mockdev_open(&g, ret, err);
}

static enum hsp_status mockdev_reach(int from, int to, bool *ret, struct hsp_err *err)
{
    (void)from;
    (void)to;
    (void)err;
    *ret = false;
    return HSP_OK;
}

const struct hsp_device_plugin hsp_cuda_plugin = {.abi = HSP_BACKEND_ABI,
                                                  .built = "mockdevs",
                                                  .count = mockdev_count,
                                                  .describe = mockdev_describe,
                                                  .open = mockdev_open,
                                                  .reach = mockdev_reach};
