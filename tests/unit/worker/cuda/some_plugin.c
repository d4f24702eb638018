/* Builds a plugin for plugin_test. SOME_ABI is the ABI version that it claims. Without SOME_SYMBOL
 * the library exports no entry, so it is no plugin. */
#include "worker/backend/plugin.h"

#ifdef SOME_SYMBOL
static enum hsp_status count(int *ret, struct hsp_err *err)
{
    (void)err;
    *ret = 42;
    return HSP_OK;
}

/* The uuid of a device has its number; device 0 has no uuid. */
static enum hsp_status describe(int device, struct hsp_device_info *ret, struct hsp_err *err)
{
    (void)err;
    *ret = (struct hsp_device_info){.uuid = {[15] = (uint8_t)device}};
    return device < 42 ? HSP_OK : HSP_ENODEV;
}

extern const struct hsp_device_plugin hsp_cuda_plugin;
const struct hsp_device_plugin hsp_cuda_plugin = {
    .abi = SOME_ABI, .count = count, .describe = describe};
#else
extern const int hsp_some_symbol;
const int hsp_some_symbol = 1;
#endif
