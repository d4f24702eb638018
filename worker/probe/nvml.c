#include "worker/probe/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/base/size.h"
#include "proto/base/str.h"
#include "proto/host/dl_symbols.h"
#include "worker/probe/gpu_locality.h"
#include "worker/probe/nvml_abi.h"

/* Functions by their names there, without "nvml". */
struct lib {
    void *handle; /* of dlopen */
    enum nvml_result (*Init_v2)(void);
    enum nvml_result (*Shutdown)(void);
    const char *(*ErrorString)(enum nvml_result r);
    enum nvml_result (*DeviceGetCount_v2)(unsigned *ret);
    enum nvml_result (*DeviceGetHandleByIndex_v2)(unsigned i, struct nvml_device **ret);
    enum nvml_result (*DeviceGetUUID)(struct nvml_device *d, char *ret, unsigned size);
    enum nvml_result (*DeviceGetName)(struct nvml_device *d, char *ret, unsigned size);
    enum nvml_result (*DeviceGetMemoryInfo)(struct nvml_device *d, struct nvml_memory *ret);
    enum nvml_result (*DeviceGetPciInfo_v3)(struct nvml_device *d, struct nvml_pci *ret);
    enum nvml_result (*EventSetCreate)(struct nvml_set **ret);
    enum nvml_result (*EventSetFree)(struct nvml_set *s);
    enum nvml_result (*EventSetWait_v2)(struct nvml_set *s, struct nvml_event *ret, unsigned ms);
    enum nvml_result (*DeviceRegisterEvents)(struct nvml_device *d, unsigned long long types,
                                             struct nvml_set *s);
    /* optional: of newer drivers, or of some GPUs only */
    enum nvml_result (*DeviceGetCudaComputeCapability)(struct nvml_device *d, int *major,
                                                       int *minor);
    enum nvml_result (*DeviceGetMigMode)(struct nvml_device *d, unsigned *now, unsigned *pending);
    enum nvml_result (*DeviceGetTotalEccErrors)(struct nvml_device *d, enum nvml_ecc type,
                                                enum nvml_counter counter, unsigned long long *ret);
    enum nvml_result (*DeviceGetRemappedRows)(struct nvml_device *d, unsigned *corrected,
                                              unsigned *uncorrected, unsigned *pending,
                                              unsigned *failed);
    enum nvml_result (*DeviceGetCurrentClocksThrottleReasons)(struct nvml_device *d,
                                                              unsigned long long *ret);
    enum nvml_result (*DeviceGetTopologyCommonAncestor)(struct nvml_device *a,
                                                        struct nvml_device *b,
                                                        enum nvml_ancestor *ret);
    enum nvml_result (*DeviceGetNvLinkState)(struct nvml_device *d, unsigned link, unsigned *ret);
    enum nvml_result (*DeviceGetNvLinkRemotePciInfo_v2)(struct nvml_device *d, unsigned link,
                                                        struct nvml_pci *ret);
    enum nvml_result (*DeviceGetNvLinkRemoteDeviceType)(struct nvml_device *d, unsigned link,
                                                        enum nvml_remote *ret);
};

#define NEEDED(f)                                        \
    {                                                    \
        .name = "nvml" #f, .at = offsetof(struct lib, f) \
    }
#define OPTIONAL(f)                                                        \
    {                                                                      \
        .name = "nvml" #f, .at = offsetof(struct lib, f), .optional = true \
    }
static const struct hsp_dlsym symbols[] = {
    NEEDED(Init_v2),
    NEEDED(Shutdown),
    NEEDED(ErrorString),
    NEEDED(DeviceGetCount_v2),
    NEEDED(DeviceGetHandleByIndex_v2),
    NEEDED(DeviceGetUUID),
    NEEDED(DeviceGetName),
    NEEDED(DeviceGetMemoryInfo),
    NEEDED(DeviceGetPciInfo_v3),
    NEEDED(EventSetCreate),
    NEEDED(EventSetFree),
    NEEDED(EventSetWait_v2),
    NEEDED(DeviceRegisterEvents),
    OPTIONAL(DeviceGetCudaComputeCapability),
    OPTIONAL(DeviceGetMigMode),
    OPTIONAL(DeviceGetTotalEccErrors),
    OPTIONAL(DeviceGetRemappedRows),
    OPTIONAL(DeviceGetCurrentClocksThrottleReasons),
    OPTIONAL(DeviceGetTopologyCommonAncestor),
    OPTIONAL(DeviceGetNvLinkState),
    OPTIONAL(DeviceGetNvLinkRemotePciInfo_v2),
    OPTIONAL(DeviceGetNvLinkRemoteDeviceType),
};

struct gpu {
    struct nvml_device *device; /* NULL: it could not be opened */
    char pci[32];
    bool gone; /* said so */
};
struct hsp_nvml {
    struct lib lib;
    const char *sys;
    struct nvml_set *set; /* NULL: no events */
    unsigned n;
    struct gpu gpu[HSP_NVML_GPUS];
};

/* ---- opening ---- */

/* "00000000:3B:00.0" there is "0000:3b:00.0" in sysfs. */
static void sysfs_name(const struct nvml_pci *p, char *ret, size_t size)
{
    hsp_str_printf(ret, size, "%04x:%02x:%02x.0", p->domain, p->bus, p->device);
}

/* A GPU that cannot be opened stays in its place, as one that is gone. */
static void open_gpu(struct hsp_nvml *n, unsigned i)
{
    const struct lib *l = &n->lib;
    struct nvml_pci pci;
    struct gpu *g = &n->gpu[i];
    if (l->DeviceGetHandleByIndex_v2(i, &g->device) != NVML_SUCCESS) {
        g->device = NULL;
        return;
    }
    if (l->DeviceGetPciInfo_v3(g->device, &pci) == NVML_SUCCESS) {
        sysfs_name(&pci, g->pci, sizeof g->pci);
    }
    if (n->set != NULL) { /* one that has no such events has counters still */
        (void)l->DeviceRegisterEvents(g->device, NVML_EVENT_XID | NVML_EVENT_DOUBLE_BIT, n->set);
    }
}

static enum hsp_status start(struct hsp_nvml *n, struct hsp_err *err)
{
    const struct lib *l = &n->lib;
    enum nvml_result r = l->Init_v2();
    if (r != NVML_SUCCESS) {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "no GPUs: %s", l->ErrorString(r));
    }
    r = l->DeviceGetCount_v2(&n->n);
    if (r != NVML_SUCCESS) {
        (void)l->Shutdown();
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "no GPUs: %s", l->ErrorString(r));
    }
    n->n = n->n < HSP_NVML_GPUS ? n->n : HSP_NVML_GPUS;
    if (l->EventSetCreate(&n->set) != NVML_SUCCESS) {
        n->set = NULL;
    }
    for (unsigned i = 0; i < n->n; i++) {
        open_gpu(n, i);
    }
    return HSP_OK;
}

enum hsp_status hsp_nvml_open(const char *name, const char *sys, struct hsp_nvml **ret,
                              struct hsp_err *err)
{
    struct hsp_nvml *n = calloc(1, sizeof *n);
    name = name != NULL ? name : HSP_NVML_LIBRARY;
    if (n == NULL) {
        return hsp_err_nomem(err, "the GPUs of this host");
    }
    n->sys = sys != NULL ? sys : "/sys";
    n->lib.handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (n->lib.handle == NULL) {
        const char *why = dlerror();
        free(n);
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "no NVML: %s", why != NULL ? why : name);
    }
    enum hsp_status st =
        hsp_dlsyms_find(n->lib.handle, name, symbols, HSP_ARRAY_LEN(symbols), &n->lib, err);
    st = st == HSP_OK ? start(n, err) : st;
    if (st != HSP_OK) {
        (void)dlclose(n->lib.handle);
        free(n);
        return st;
    }
    *ret = n;
    return HSP_OK;
}

struct hsp_nvml *hsp_nvml_close(struct hsp_nvml *n)
{
    if (n != NULL) {
        if (n->set != NULL) {
            (void)n->lib.EventSetFree(n->set);
        }
        (void)n->lib.Shutdown();
        (void)dlclose(n->lib.handle);
        free(n);
    }
    return NULL;
}

unsigned hsp_nvml_count(const struct hsp_nvml *n)
{
    return n->n;
}

/* ---- the GPUs ---- */

static enum hsp_status said(const struct hsp_nvml *n, unsigned i, enum nvml_result r,
                            const char *what, struct hsp_err *err)
{
    if (r == NVML_SUCCESS) {
        return HSP_OK;
    }
    return hsp_err_set(err, r == NVML_GPU_IS_LOST ? HSP_ENODEV : HSP_EIO, 0, "GPU %u: %s: %s", i,
                       what, n->lib.ErrorString(r));
}

enum hsp_status hsp_nvml_gpu(struct hsp_nvml *n, unsigned i, struct hsp_gpu *ret,
                             struct hsp_err *err)
{
    const struct lib *l = &n->lib;
    struct hsp_gpu g = {.numa = -1};
    struct nvml_memory memory = {0};
    unsigned mig = 0, pending = 0;
    int major = 0, minor = 0;
    if (i >= n->n || n->gpu[i].device == NULL) {
        return hsp_err_set(err, HSP_ENODEV, 0, "GPU %u cannot be opened", i);
    }
    struct nvml_device *d = n->gpu[i].device;
    enum hsp_status st = said(n, i, l->DeviceGetUUID(d, g.uuid, sizeof g.uuid), "identity", err);
    if (st == HSP_OK) {
        st = said(n, i, l->DeviceGetName(d, g.name, sizeof g.name), "name", err);
    }
    if (st == HSP_OK) {
        st = said(n, i, l->DeviceGetMemoryInfo(d, &memory), "memory", err);
    }
    if (st != HSP_OK) {
        return st;
    }
    g.memory_bytes = memory.total;
    if (l->DeviceGetCudaComputeCapability != NULL &&
        l->DeviceGetCudaComputeCapability(d, &major, &minor) == NVML_SUCCESS) {
        g.sm = 10 * major + minor;
    }
    g.mig = l->DeviceGetMigMode != NULL && l->DeviceGetMigMode(d, &mig, &pending) == NVML_SUCCESS &&
            mig != 0;
    hsp_str_printf(g.pci, sizeof g.pci, "%s", n->gpu[i].pci);
    g.numa = hsp_gpu_numa(n->sys, g.pci);
    hsp_gpu_cpus(n->sys, g.pci, g.cpus, sizeof g.cpus);
    hsp_gpu_card(n->sys, g.pci, g.card, sizeof g.card);
    *ret = g;
    return HSP_OK;
}

/* ---- how they are connected ---- */

/* Links of @i that are up: to a GPU at @pci, or to switches. */
static void count_links(const struct hsp_nvml *n, unsigned i, const char *pci, unsigned *ret_direct,
                        unsigned *ret_switch)
{
    const struct lib *l = &n->lib;
    struct nvml_device *d = n->gpu[i].device;
    *ret_direct = *ret_switch = 0;
    if (d == NULL || l->DeviceGetNvLinkState == NULL ||
        l->DeviceGetNvLinkRemotePciInfo_v2 == NULL) {
        return;
    }
    for (unsigned k = 0; k < NVML_MAX_LINKS; k++) {
        struct nvml_pci there;
        enum nvml_remote type = NVML_REMOTE_GPU;
        char name[32];
        unsigned up = 0;
        if (l->DeviceGetNvLinkState(d, k, &up) != NVML_SUCCESS || up == 0 ||
            l->DeviceGetNvLinkRemotePciInfo_v2(d, k, &there) != NVML_SUCCESS) {
            continue;
        }
        if (l->DeviceGetNvLinkRemoteDeviceType != NULL &&
            l->DeviceGetNvLinkRemoteDeviceType(d, k, &type) != NVML_SUCCESS) {
            type = NVML_REMOTE_GPU;
        }
        sysfs_name(&there, name, sizeof name);
        *ret_switch += type == NVML_REMOTE_SWITCH;
        *ret_direct += type == NVML_REMOTE_GPU && strcmp(name, pci) == 0;
    }
}

static enum hsp_gpu_path pci_path(const struct hsp_nvml *n, unsigned a, unsigned b)
{
    enum nvml_ancestor level = NVML_SYSTEM;
    if (n->lib.DeviceGetTopologyCommonAncestor == NULL || n->gpu[a].device == NULL ||
        n->gpu[b].device == NULL ||
        n->lib.DeviceGetTopologyCommonAncestor(n->gpu[a].device, n->gpu[b].device, &level) !=
            NVML_SUCCESS) {
        level = NVML_SYSTEM;
    }
    return level <= NVML_SWITCHES      ? HSP_GPU_PCI_SWITCH
           : level <= NVML_HOST_BRIDGE ? HSP_GPU_HOST_BRIDGE
           : level <= NVML_NODE        ? HSP_GPU_NUMA
                                       : HSP_GPU_SYSTEM;
}

enum hsp_gpu_path hsp_nvml_path(struct hsp_nvml *n, unsigned a, unsigned b, unsigned *ret_links)
{
    unsigned direct, back, out, in;
    count_links(n, a, n->gpu[b].pci, &direct, &out);
    count_links(n, b, n->gpu[a].pci, &back, &in);
    if (direct > 0) {
        *ret_links = direct;
        return HSP_GPU_NVLINK;
    }
    *ret_links = out < in ? out : in;
    return *ret_links > 0 ? HSP_GPU_NVSWITCH : pci_path(n, a, b);
}

/* One way of one link by compute capability, as NVIDIA's descriptions of the architectures say
 * (P100 4 links of 20 GB/s, V100 6 of 25, A100 12 of 25, H100 18 of 25, B200 18 of 50; GPUs for
 * workstations 4 of 14). Large messages get some four fifths of it. */
double hsp_gpu_path_rate(enum hsp_gpu_path p, unsigned links, int sm)
{
    static const struct {
        int sm;
        double rate;
    } link[] = {{100, 50e9}, {90, 25e9}, {86, 14e9}, {80, 25e9}, {70, 25e9}, {60, 20e9}};
    for (size_t k = 0; k < sizeof link / sizeof link[0]; k++) {
        if (p <= HSP_GPU_NVSWITCH && sm >= link[k].sm) {
            return 0.8 * links * link[k].rate;
        }
    }
    return 0;
}

/* ---- how they are ---- */

struct ear {
    struct hsp_nvml *n;
    void (*sink)(void *ctx, unsigned i, const struct hsp_gpu_sign *s);
    void *ctx;
};

static void hear(const struct ear *e, unsigned i, enum hsp_gpu_sign_kind kind, uint64_t value)
{
    e->sink(e->ctx, i, &(struct hsp_gpu_sign){kind, value});
}

/* Returns true if NVML has answered. The answer that the GPU is lost is reported once as a sign. */
static bool answered(const struct ear *e, unsigned i, enum nvml_result r)
{
    struct gpu *g = &e->n->gpu[i];
    if (r == NVML_GPU_IS_LOST && !g->gone) {
        g->gone = true;
        hear(e, i, HSP_SIGN_GONE, 1);
    }
    return r == NVML_SUCCESS;
}

static void look_at(const struct ear *e, unsigned i)
{
    const struct lib *l = &e->n->lib;
    struct nvml_device *d = e->n->gpu[i].device;
    struct nvml_memory memory;
    unsigned long long x = 0;
    unsigned corrected, uncorrected, pending = 0, failed = 0;
    if (d == NULL) {
        (void)answered(e, i, NVML_GPU_IS_LOST);
        return;
    }
    if (!answered(e, i, l->DeviceGetMemoryInfo(d, &memory)) && e->n->gpu[i].gone) {
        return;
    }
    for (int k = 0; k < 2 && l->DeviceGetTotalEccErrors != NULL; k++) {
        enum nvml_ecc type = k == 0 ? NVML_CORRECTED : NVML_UNCORRECTED;
        if (answered(e, i, l->DeviceGetTotalEccErrors(d, type, NVML_VOLATILE, &x))) {
            hear(e, i, k == 0 ? HSP_SIGN_ECC_CORRECTED : HSP_SIGN_ECC_UNCORRECTED, x);
        }
    }
    if (l->DeviceGetRemappedRows != NULL &&
        answered(e, i, l->DeviceGetRemappedRows(d, &corrected, &uncorrected, &pending, &failed))) {
        hear(e, i, HSP_SIGN_REMAP_PENDING, pending != 0);
        hear(e, i, HSP_SIGN_REMAP_FAILED, failed != 0);
    }
    if (l->DeviceGetCurrentClocksThrottleReasons != NULL &&
        answered(e, i, l->DeviceGetCurrentClocksThrottleReasons(d, &x))) {
        hear(e, i, HSP_SIGN_SLOWED, (x & NVML_SLOW_REASONS) != 0);
    }
}

/* An XID says by its number the meaning that a double bit error has by itself. */
static void on_event(const struct ear *e, const struct nvml_event *v)
{
    for (unsigned i = 0; i < e->n->n; i++) {
        if (e->n->gpu[i].device == v->device && (v->type & NVML_EVENT_XID) != 0) {
            hear(e, i, HSP_SIGN_XID, v->data);
        } else if (e->n->gpu[i].device == v->device && (v->type & NVML_EVENT_DOUBLE_BIT) != 0) {
            hear(e, i, HSP_SIGN_XID, 48);
        }
    }
}

void hsp_nvml_hear(struct hsp_nvml *n, uint32_t wait_ms,
                   void (*sink)(void *ctx, unsigned i, const struct hsp_gpu_sign *s), void *ctx)
{
    const struct ear e = {n, sink, ctx};
    struct nvml_event v = {0};
    enum nvml_result r = NVML_NOT_SUPPORTED;
    if (n->set != NULL) {
        r = n->lib.EventSetWait_v2(n->set, &v, wait_ms);
        for (int k = 0; k < 64 && r == NVML_SUCCESS; k++) { /* all that are there, not for ever */
            on_event(&e, &v);
            r = n->lib.EventSetWait_v2(n->set, &v, 0);
        }
    }
    if (r != NVML_SUCCESS && r != NVML_TIMEOUT) { /* no wait: no events, or a GPU is lost */
        const struct timespec pause = {.tv_sec = wait_ms / 1000,
                                       .tv_nsec = (long)(wait_ms % 1000) * 1000000};
        (void)nanosleep(&pause, NULL); /* a little shorter does no harm */
    }
}

void hsp_nvml_look(struct hsp_nvml *n,
                   void (*sink)(void *ctx, unsigned i, const struct hsp_gpu_sign *s), void *ctx)
{
    const struct ear e = {n, sink, ctx};
    for (unsigned i = 0; i < n->n; i++) {
        look_at(&e, i);
    }
}
