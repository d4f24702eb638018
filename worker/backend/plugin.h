/* Devices that a library of their own knows how to use: NVIDIA GPUs, by hspmd-cuda.so.
 *
 * Role:      worker/app asks here for a device. The library is loaded at run time and only where a
 *            driver is, so that one build runs on nodes with and without GPUs and a node without
 *            pays nothing (the CUDA libraries take some 200 MB of a process).
 * Shell:     loads libraries, reads /proc/self/exe and the environment.
 * Ownership: a library stays loaded as long as the process lives.
 */
#ifndef HSP_PLUGIN_H
#define HSP_PLUGIN_H
#include "worker/backend/backend.h"

#define HSP_PLUGIN_FILE   "hspmd-cuda.so"
#define HSP_PLUGIN_SYMBOL "hsp_cuda_plugin"

struct hsp_device_opts {
    size_t memory_bytes; /* of the device that this backend may take, scratch included; 0: all */
    bool tf32;           /* products of fp32 tensors by TF32 */
    bool sync;           /* wait for each op: slow, but an error names its op */
};

struct hsp_device_info {
    char name[64], pci[16]; /* "0000:01:00.0" */
    uint8_t uuid[16];
    int sm;                          /* compute capability, 10 major + minor */
    int n_sms;                       /* multiprocessors */
    size_t memory_bytes, free_bytes; /* of the device; free at this moment */
    bool bf16;                       /* computes in bf16 */
};

/* The table that the library exports as HSP_PLUGIN_SYMBOL. */
struct hsp_device_plugin {
    uint32_t abi;      /* HSP_BACKEND_ABI it was built with */
    const char *built; /* its targets: "CUDA 13000, GPUs 75 80 90a, newer by PTX 90" */
    /* HSP_ENODEV: none, or the driver is too old, in words. */
    enum hsp_status (*count)(int *ret, struct hsp_err *err);
    enum hsp_status (*describe)(int device, struct hsp_device_info *ret, struct hsp_err *err);
    /* @o may be NULL. HSP_EUNSUPPORTED: the device is older than the library; HSP_ENOMEM;
     * HSP_EIO. */
    enum hsp_status (*open)(int device, const struct hsp_device_opts *o, struct hsp_backend **ret,
                            struct hsp_err *err);
    /* Whether copies of device @from may touch memory of @to, both open, without a way through the
     * host; from then on its copies (hsp_backend.copy) take memory of both. HSP_EIO. */
    enum hsp_status (*reach)(int from, int to, bool *ret, struct hsp_err *err);
};

/* Where to look, for tests. */
struct hsp_plugin_paths {
    const char *driver; /* "libcuda.so.1" */
    const char *plugin; /* the file itself; else $HSPMD_PLUGINS, the program's folder, PKGLIBDIR */
};

/* Loads driver and library, in this order. @p may be NULL. Sets variables that the environment does
 * not have yet, so it comes before threads: CUDA_MODULE_LOADING (kernels are loaded at once: one
 * that is loaded late waits for those that run, which may wait for the host) and
 * CUDA_DEVICE_MAX_CONNECTIONS (streams beyond these queues of the device share one, where a send
 * that waits for its peer would hold up work that has nothing to do with it; by default there are
 * 8). HSP_ENODEV, in one line: no driver, no library, or one of another build. */
enum hsp_status hsp_plugin_load(const struct hsp_plugin_paths *p,
                                const struct hsp_device_plugin **ret, struct hsp_err *err);

/* Loads, and opens device @device of the devices there are. Errors of load, count and open;
 * HSP_ENODEV for a number beyond them. */
enum hsp_status hsp_backend_device_open(int device, const struct hsp_device_opts *o,
                                        struct hsp_backend **ret, struct hsp_err *err);

/* Hash of the identity (uuid) of device @device, the same in all processes and never 0; 0: it
 * cannot be told. Loads; @paths may be NULL. */
uint64_t hsp_device_identity(const struct hsp_plugin_paths *paths, int device);

/* The part of a GPU's @bytes that jobs are offered: the backend's scratch comes from the rest. */
static inline uint64_t hsp_device_offer(uint64_t bytes)
{
    uint64_t scratch = bytes / 16;
    return bytes - (scratch < (UINT64_C(1) << 30) ? scratch : UINT64_C(1) << 30);
}

#endif
