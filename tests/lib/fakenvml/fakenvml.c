/* Answers NVML's calls. A pair of GPUs is below one PCI switch. */
#include "tests/lib/fakenvml/fakenvml.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/figures.h"
#include "worker/probe/nvml_abi.h"

#define EVENTS 64

struct nvml_device {
    struct hsp_fakenvml_gpu gpu;
};
struct nvml_set {
    int none;
};

static struct nvml_device device[HSP_FAKENVML_GPUS];
static struct nvml_set the_set;
static struct nvml_event event[EVENTS];
static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* of events: another thread waits for them */
static unsigned n_devices, n_events, n_open;
static bool broken;

/* Asked by every call for a device. */
static enum nvml_result lost(const struct nvml_device *d)
{
    hsp_figure("nvml", 1);
    return d->gpu.lost ? NVML_GPU_IS_LOST : NVML_SUCCESS;
}

static unsigned number(const struct nvml_device *d)
{
    return (unsigned)(d - device);
}

/* The names below are the library's. */
#define CALL __attribute__((visibility("default")))
CALL enum nvml_result nvmlInit_v2(void);
CALL enum nvml_result nvmlShutdown(void);
CALL const char *nvmlErrorString(enum nvml_result r);
CALL enum nvml_result nvmlDeviceGetCount_v2(unsigned *ret);
CALL enum nvml_result nvmlDeviceGetHandleByIndex_v2(unsigned i, struct nvml_device **ret);
CALL enum nvml_result nvmlDeviceGetUUID(struct nvml_device *d, char *ret, unsigned size);
CALL enum nvml_result nvmlDeviceGetName(struct nvml_device *d, char *ret, unsigned size);
CALL enum nvml_result nvmlDeviceGetMemoryInfo(struct nvml_device *d, struct nvml_memory *ret);
CALL enum nvml_result nvmlDeviceGetPciInfo_v3(struct nvml_device *d, struct nvml_pci *ret);
CALL enum nvml_result nvmlEventSetCreate(struct nvml_set **ret);
CALL enum nvml_result nvmlEventSetFree(struct nvml_set *s);
CALL enum nvml_result nvmlEventSetWait_v2(struct nvml_set *s, struct nvml_event *ret, unsigned ms);
CALL enum nvml_result nvmlDeviceRegisterEvents(struct nvml_device *d, unsigned long long types,
                                               struct nvml_set *s);
CALL enum nvml_result nvmlDeviceGetCudaComputeCapability(struct nvml_device *d, int *major,
                                                         int *minor);
CALL enum nvml_result nvmlDeviceGetMigMode(struct nvml_device *d, unsigned *now, unsigned *pending);
CALL enum nvml_result nvmlDeviceGetTotalEccErrors(struct nvml_device *d, enum nvml_ecc type,
                                                  enum nvml_counter counter,
                                                  unsigned long long *ret);
CALL enum nvml_result nvmlDeviceGetRemappedRows(struct nvml_device *d, unsigned *corrected,
                                                unsigned *uncorrected, unsigned *pending,
                                                unsigned *failed);
CALL enum nvml_result nvmlDeviceGetCurrentClocksThrottleReasons(struct nvml_device *d,
                                                                unsigned long long *ret);
CALL enum nvml_result nvmlDeviceGetTopologyCommonAncestor(struct nvml_device *a,
                                                          struct nvml_device *b,
                                                          enum nvml_ancestor *ret);
CALL enum nvml_result nvmlDeviceGetNvLinkState(struct nvml_device *d, unsigned link, unsigned *ret);
CALL enum nvml_result nvmlDeviceGetNvLinkRemotePciInfo_v2(struct nvml_device *d, unsigned link,
                                                          struct nvml_pci *ret);
CALL enum nvml_result nvmlDeviceGetNvLinkRemoteDeviceType(struct nvml_device *d, unsigned link,
                                                          enum nvml_remote *ret);
CALL extern const struct hsp_fakenvml hsp_fakenvml;

/* ---- a script instead of a test ---- */

static long script_at; /* bytes of it that were read */

static void obey(const char *line)
{
    unsigned a, b, n;
    if (sscanf(line, "gpu %u", &a) == 1 && n_devices < HSP_FAKENVML_GPUS) {
        device[n_devices].gpu = (struct hsp_fakenvml_gpu){.memory = 80ULL << 30, .bus = a};
        n_devices++;
    } else if (sscanf(line, "links %u %u %u", &a, &b, &n) == 3 && a < n_devices && b < n_devices) {
        for (unsigned k = 0; k < n && k < HSP_FAKENVML_LINKS; k++) {
            device[a].gpu.link[k] = (int)b + 1;
            device[b].gpu.link[k] = (int)a + 1;
        }
    } else if (sscanf(line, "xid %u %u", &a, &n) == 2 && a < n_devices && n_events < EVENTS) {
        event[n_events++] =
            (struct nvml_event){.device = &device[a], .type = NVML_EVENT_XID, .data = n};
    } else if (sscanf(line, "uncorrected %u %u", &a, &n) == 2 && a < n_devices) {
        device[a].gpu.uncorrected = n;
    }
}

/* Reads the lines that have been added since. */
static void read_script(void)
{
    const char *path = getenv("HSPMD_FAKENVML");
    FILE *f = path != NULL ? fopen(path, "re") : NULL;
    char line[80];
    if (f != NULL && fseek(f, script_at, SEEK_SET) == 0) {
        while (fgets(line, sizeof line, f) != NULL && strchr(line, '\n') != NULL) {
            obey(line);
            script_at += (long)strlen(line);
        }
    }
    if (f != NULL) {
        (void)fclose(f); /* read only */
    }
}

enum nvml_result nvmlInit_v2(void)
{
    read_script();
    n_open += !broken;
    return broken ? NVML_NOT_SUPPORTED : NVML_SUCCESS;
}

enum nvml_result nvmlShutdown(void)
{
    n_open--;
    return NVML_SUCCESS;
}

const char *nvmlErrorString(enum nvml_result r)
{
    return r == NVML_GPU_IS_LOST ? "GPU is lost" : "not supported";
}

enum nvml_result nvmlDeviceGetCount_v2(unsigned *ret)
{
    *ret = n_devices;
    return NVML_SUCCESS;
}

enum nvml_result nvmlDeviceGetHandleByIndex_v2(unsigned i, struct nvml_device **ret)
{
    *ret = &device[i];
    return lost(*ret);
}

enum nvml_result nvmlDeviceGetUUID(struct nvml_device *d, char *ret, unsigned size)
{
    (void)snprintf(ret, size, "GPU-fake-%u", number(d));
    return lost(d);
}

enum nvml_result nvmlDeviceGetName(struct nvml_device *d, char *ret, unsigned size)
{
    (void)snprintf(ret, size, "NVIDIA Fake");
    return lost(d);
}

enum nvml_result nvmlDeviceGetMemoryInfo(struct nvml_device *d, struct nvml_memory *ret)
{
    *ret = (struct nvml_memory){.total = d->gpu.memory};
    return lost(d);
}

enum nvml_result nvmlDeviceGetPciInfo_v3(struct nvml_device *d, struct nvml_pci *ret)
{
    *ret = (struct nvml_pci){.bus = d->gpu.bus};
    return lost(d);
}

enum nvml_result nvmlEventSetCreate(struct nvml_set **ret)
{
    *ret = &the_set;
    return NVML_SUCCESS;
}

enum nvml_result nvmlEventSetFree(struct nvml_set *s)
{
    (void)s;
    return NVML_SUCCESS;
}

enum nvml_result nvmlEventSetWait_v2(struct nvml_set *s, struct nvml_event *ret, unsigned ms)
{
    (void)s;
    for (unsigned waited = 0;; waited++) {
        const struct timespec pause = {.tv_nsec = 1000000};
        (void)pthread_mutex_lock(&lock);
        if (waited % 16 == 0) {
            read_script();
        }
        bool any = n_events > 0;
        if (any) {
            *ret = event[0];
            n_events--;
            for (size_t i = 0; i < n_events;
                 i++) { /* valgrind takes memmove of a fortified library for memcpy */
                event[i] = event[i + 1];
            }
        }
        (void)pthread_mutex_unlock(&lock);
        if (any || waited >= ms) {
            return any ? NVML_SUCCESS : NVML_TIMEOUT;
        }
        (void)nanosleep(&pause, NULL);
    }
}

enum nvml_result nvmlDeviceRegisterEvents(struct nvml_device *d, unsigned long long types,
                                          struct nvml_set *s)
{
    (void)s;
    return types == (NVML_EVENT_XID | NVML_EVENT_DOUBLE_BIT) ? lost(d) : NVML_NOT_SUPPORTED;
}

enum nvml_result nvmlDeviceGetCudaComputeCapability(struct nvml_device *d, int *major, int *minor)
{
    *major = 9;
    *minor = 0;
    return lost(d);
}

enum nvml_result nvmlDeviceGetMigMode(struct nvml_device *d, unsigned *now, unsigned *pending)
{
    *now = *pending = d->gpu.mig;
    return lost(d);
}

enum nvml_result nvmlDeviceGetTotalEccErrors(struct nvml_device *d, enum nvml_ecc type,
                                             enum nvml_counter counter, unsigned long long *ret)
{
    *ret = type == NVML_CORRECTED ? d->gpu.corrected : d->gpu.uncorrected;
    return d->gpu.no_ecc || counter != NVML_VOLATILE ? NVML_NOT_SUPPORTED : lost(d);
}

enum nvml_result nvmlDeviceGetRemappedRows(struct nvml_device *d, unsigned *corrected,
                                           unsigned *uncorrected, unsigned *pending,
                                           unsigned *failed)
{
    *corrected = *uncorrected = 0;
    *pending = d->gpu.pending;
    *failed = d->gpu.failed;
    return d->gpu.no_ecc ? NVML_NOT_SUPPORTED : lost(d);
}

enum nvml_result nvmlDeviceGetCurrentClocksThrottleReasons(struct nvml_device *d,
                                                           unsigned long long *ret)
{
    *ret = d->gpu.slow;
    return lost(d);
}

enum nvml_result nvmlDeviceGetTopologyCommonAncestor(struct nvml_device *a, struct nvml_device *b,
                                                     enum nvml_ancestor *ret)
{
    *ret = number(a) / 2 == number(b) / 2 ? NVML_ONE_SWITCH : NVML_SYSTEM;
    return NVML_SUCCESS;
}

enum nvml_result nvmlDeviceGetNvLinkState(struct nvml_device *d, unsigned link, unsigned *ret)
{
    if (link >= HSP_FAKENVML_LINKS) {
        return NVML_INVALID_ARGUMENT;
    }
    *ret = d->gpu.link[link] != 0;
    return lost(d);
}

enum nvml_result nvmlDeviceGetNvLinkRemotePciInfo_v2(struct nvml_device *d, unsigned link,
                                                     struct nvml_pci *ret)
{
    int to = d->gpu.link[link];
    *ret = (struct nvml_pci){.bus = to > 0 ? device[to - 1].gpu.bus : 0xfe};
    return lost(d);
}

enum nvml_result nvmlDeviceGetNvLinkRemoteDeviceType(struct nvml_device *d, unsigned link,
                                                     enum nvml_remote *ret)
{
    *ret = d->gpu.link[link] < 0 ? NVML_REMOTE_SWITCH : NVML_REMOTE_GPU;
    return lost(d);
}

/* ---- orders of a test ---- */

static void reset(unsigned n)
{
    memset(device, 0, sizeof device);
    n_devices = n;
    n_events = 0;
    broken = false;
    for (unsigned k = 0; k < n; k++) {
        device[k].gpu.memory = 80ULL << 30;
        device[k].gpu.bus = 0x3b + k;
    }
}

static struct hsp_fakenvml_gpu *gpu(unsigned i)
{
    return &device[i].gpu;
}

static void no_driver(void)
{
    broken = true;
}

static void add_event(unsigned i, unsigned long long type, unsigned long long data)
{
    (void)pthread_mutex_lock(&lock);
    event[n_events++] = (struct nvml_event){.device = &device[i], .type = type, .data = data};
    (void)pthread_mutex_unlock(&lock);
}

static unsigned is_open(void)
{
    return n_open;
}

const struct hsp_fakenvml hsp_fakenvml = {
    .reset = reset, .gpu = gpu, .no_driver = no_driver, .event = add_event, .open = is_open};
