/* Exports the plugin: counts and describes GPUs, opens them, and lets the copies of one GPU use
 * memory of another. */
#include <stdio.h>
#include <string.h>

#include "worker/backend/cuda/cuda_context.h"
#include "worker/backend/cuda/cuda_device.h"

#define TEXT(x)  TEXT_(x)
#define TEXT_(x) #x

extern const struct hsp_device_plugin hsp_cuda_plugin __attribute__((visibility("default")));

static enum hsp_status no_device(cudaError_t e, struct hsp_err *err)
{
    (void)cudaGetLastError();
    return hsp_err_set(err, HSP_ENODEV, 0, "no GPU: %s", cudaGetErrorString(e));
}

static enum hsp_status plugin_count(int *ret, struct hsp_err *err)
{
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e == cudaSuccess && n == 0) {
        e = cudaErrorNoDevice;
    }
    if (e != cudaSuccess) {
        return no_device(e, err);
    }
    *ret = n;
    return HSP_OK;
}

static enum hsp_status plugin_describe(int device, struct hsp_device_info *ret, struct hsp_err *err)
{
    struct cudaDeviceProp p;
    struct hsp_device_info d = {.sm = 0};
    cudaError_t e = cudaGetDeviceProperties(&p, device);
    if (e == cudaSuccess) {
        e = cudaDeviceGetPCIBusId(d.pci, sizeof(d.pci), device);
    }
    if (e == cudaSuccess) {
        e = hsp_cuda_use(device);
    }
    if (e == cudaSuccess) {
        e = cudaMemGetInfo(&d.free_bytes, &d.memory_bytes);
    }
    if (e != cudaSuccess) {
        return no_device(e, err);
    }
    (void)snprintf(d.name, sizeof(d.name), "%s", p.name);
    memcpy(d.uuid, p.uuid.bytes, sizeof(d.uuid));
    d.sm = 10 * p.major + p.minor;
    d.n_sms = p.multiProcessorCount;
    d.bf16 = d.sm >= 80;
    *ret = d;
    return HSP_OK;
}

static enum hsp_status plugin_reach(int from, int to, bool *ret, struct hsp_err *err)
{
    int can = 0;
    cudaError_t e = cudaDeviceCanAccessPeer(&can, from, to);
    if (e == cudaSuccess && can != 0) {
        e = hsp_cuda_use(from);
    }
    /* CUDA refuses also if one of the two has the most peers already */
    if (e == cudaSuccess && can != 0) {
        cudaError_t on = cudaDeviceEnablePeerAccess(to, 0);
        can = on == cudaSuccess || on == cudaErrorPeerAccessAlreadyEnabled;
    }
    (void)cudaGetLastError();
    if (e != cudaSuccess) {
        return hsp_err_set(err, HSP_EIO, 0, "GPU %d and memory of GPU %d: %s", from, to,
                           cudaGetErrorString(e));
    }
    *ret = can != 0;
    return HSP_OK;
}

const struct hsp_device_plugin hsp_cuda_plugin = {
    .abi = HSP_BACKEND_ABI,
    .built = "CUDA " TEXT(CUDART_VERSION) ", GPUs " HSP_CUDA_ARCHS ", newer by PTX " HSP_CUDA_PTX,
    .count = plugin_count,
    .describe = plugin_describe,
    .open = hsp_backend_cuda_open,
    .reach = plugin_reach,
};
