/* Opens the devices that a library of their own can use: NVIDIA GPUs, by hspmd-cuda.so.
 *
 * Role:      worker/app opens devices by these functions. The library is loaded at run time, and
 *            only if the node has a driver. So one build runs on nodes with and without GPUs, and a
 *            node without GPUs does not pay for the CUDA libraries (some 200 MB of a process).
 * Shell:     loads libraries, reads /proc/self/exe and the environment.
 * Ownership: a library stays loaded as long as the process lives. */
#ifndef HSP_PLUGIN_H
#define HSP_PLUGIN_H
#include "worker/backend/backend.h"

#define HSP_PLUGIN_FILE   "hspmd-cuda.so"
#define HSP_PLUGIN_SYMBOL "hsp_cuda_plugin"

struct hsp_device_opts {
    size_t memory_bytes; /* device memory that this backend may take, scratch included; 0: all */
    bool tf32;           /* computes products of fp32 tensors in TF32 */
    bool sync;           /* waits for each op: slow, but an error names its op */
};

struct hsp_device_info {
    char name[64], pci[16]; /* pci: "0000:01:00.0" */
    uint8_t uuid[16];
    int sm;                          /* compute capability, 10 major + minor */
    int n_sms;                       /* multiprocessors */
    size_t memory_bytes, free_bytes; /* of the device; free_bytes: now */
    bool bf16;                       /* whether it computes in bf16 */
};

/* Declares the table that the library exports as HSP_PLUGIN_SYMBOL. */
struct hsp_device_plugin {
    uint32_t abi;      /* the HSP_BACKEND_ABI that the library was built with */
    const char *built; /* the targets of the build: "CUDA 13000, GPUs 75 80 90a, newer by PTX 90" */
    /* Counts the devices. Returns HSP_ENODEV, with the reason in words, if there is none or the
     * driver is too old. */
    enum hsp_status (*count)(int *ret, struct hsp_err *err);
    enum hsp_status (*describe)(int device, struct hsp_device_info *ret, struct hsp_err *err);
    /* Opens a device; @o may be NULL. Returns HSP_EUNSUPPORTED if the device is older than the
     * library supports, HSP_ENOMEM or HSP_EIO. */
    enum hsp_status (*open)(int device, const struct hsp_device_opts *o, struct hsp_backend **ret,
                            struct hsp_err *err);
    /* Lets copies of device @from (hsp_backend.copy) address the memory of @to directly, not
     * through the host; both are open. *ret is false if the two devices cannot. Returns HSP_EIO if
     * CUDA fails. */
    enum hsp_status (*reach)(int from, int to, bool *ret, struct hsp_err *err);
};

/* The files to load; tests choose them. */
struct hsp_plugin_paths {
    const char *driver; /* NULL: "libcuda.so.1" */
    /* the file; NULL: search $HSPMD_PLUGINS, the folder of the program, PKGLIBDIR */
    const char *plugin;
};

/* Loads the driver and then the library; @p may be NULL. Sets two variables, unless the environment
 * has them already, and so must be called before other threads start. CUDA_MODULE_LOADING=EAGER
 * loads all kernels at once: loading a kernel later would wait for the kernels that run, which may
 * wait for the host. CUDA_DEVICE_MAX_CONNECTIONS=32 sets the number of hardware queues of the
 * device, 8 by default: further streams share a hardware queue, where a send that waits for its
 * peer would hold up unrelated work. Returns HSP_ENODEV, with the reason in one line, if there is
 * no driver, no library, or a library of another build. */
enum hsp_status hsp_plugin_load(const struct hsp_plugin_paths *p,
                                const struct hsp_device_plugin **ret, struct hsp_err *err);

/* Loads the library and opens device @device. Returns the errors of hsp_plugin_load, count and
 * open; HSP_ENODEV if the number is not that of a device. */
enum hsp_status hsp_backend_device_open(int device, const struct hsp_device_opts *o,
                                        struct hsp_backend **ret, struct hsp_err *err);

/* Loads the library and returns a hash of the uuid of device @device: the same number in all
 * processes, never 0. Returns 0 if the uuid cannot be read. @paths may be NULL, as in
 * hsp_plugin_load. */
uint64_t hsp_device_identity(const struct hsp_plugin_paths *paths, int device);

/* Returns the part of a GPU's @bytes that is offered to jobs. The rest is for the backend's
 * scratch. */
static inline uint64_t hsp_device_offer(uint64_t bytes)
{
    uint64_t scratch = bytes / 16;
    return bytes - (scratch < (UINT64_C(1) << 30) ? scratch : UINT64_C(1) << 30);
}

#endif
