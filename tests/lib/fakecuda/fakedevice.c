#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fakecuda/fakeint.h"
#include "tests/lib/figures.h"

#define MAX_REPORTS 64
#define MAX_NAMES   128
#define MAX_FUNCS   512

struct fake_state fake;

struct tally {
    char name[64];
    unsigned n;
};

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static _Thread_local cudaError_t last;
static _Thread_local int current;
static char report[MAX_REPORTS][256];
static unsigned n_reports, n_calls, n_done;
static struct tally calls[MAX_NAMES], done[MAX_NAMES];
static struct {
    const void *func;
    size_t smem;
} allowed[MAX_FUNCS];

/* ---- begin and end of a call ---- */

static void count(struct tally *t, const char *name)
{
    for (int i = 0; i < MAX_NAMES; i++) {
        if (t[i].n == 0) {
            (void)snprintf(t[i].name, sizeof(t[i].name), "%s", name);
        }
        if (strcmp(t[i].name, name) == 0) {
            t[i].n++;
            return;
        }
    }
}

void hsp_fake_reset(const struct hsp_fake_opts *o)
{
    pthread_mutex_lock(&lock);
    if (fake.ready) {
        fake_streams_reset();
    }
    memset(calls, 0, sizeof(calls));
    memset(done, 0, sizeof(done));
    memset(allowed, 0, sizeof(allowed));
    n_reports = n_calls = n_done = 0;
    last = cudaSuccess;
    current = 0;
    uint8_t *base = fake.base;
    struct fake_alloc *memory[2] = {fake.memory[0], fake.memory[1]};
    size_t bytes = fake.o.memory_bytes;
    memset(&fake, 0, sizeof(fake));
    fake.base = base;
    memcpy(fake.memory, memory, sizeof(memory));
    fake.o.memory_bytes = bytes;
    fake_memory_reset(); /* of the old size */
    fake.o = o != NULL ? *o : (struct hsp_fake_opts){.n_devices = 0};
    fake.o.n_devices = fake.o.n_devices != 0 ? fake.o.n_devices : 1;
    fake.o.sm = fake.o.sm != 0 ? fake.o.sm : 90;
    fake.o.n_sms = fake.o.n_sms != 0 ? fake.o.n_sms : 4;
    fake.o.memory_bytes = fake.o.memory_bytes != 0 ? fake.o.memory_bytes : (size_t)1 << 30;
    fake.o.driver_version = fake.o.driver_version != 0 ? fake.o.driver_version : CUDART_VERSION;
    fake.random = fake.o.seed * 2 + 1;
    fake.ready = true;
    pthread_mutex_unlock(&lock);
}

uint32_t fake_draw(uint32_t below)
{
    fake.random = fake.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((fake.random >> 33) % below);
}

bool fake_is_sticky(cudaError_t e)
{
    switch (e) {
#define X(name, value, text, sticky) \
    case name: return sticky;
        HSP_FAKE_ERRORS(X)
#undef X
    }
    return false;
}

/* The error ordered for this call. */
static cudaError_t ordered(const char *name)
{
    if (fake.fail.nth == 0 || (fake.fail.name[0] != '\0' && strcmp(fake.fail.name, name) != 0) ||
        --fake.fail.nth > 0) {
        return cudaSuccess;
    }
    if (fake_is_sticky(fake.fail.e)) {
        fake.sticky = fake.fail.e;
    }
    hsp_figure("failed", 1);
    return fake.fail.e;
}

void fake_relock(void)
{
    pthread_mutex_lock(&lock);
    if (!fake.ready) {
        hsp_fake_reset(NULL);
    }
}

cudaError_t fake_enter(const char *name)
{
    fake_relock();
    n_calls++;
    count(calls, name);
    hsp_figure(name, 1);
    return fake.sticky != cudaSuccess ? fake.sticky : ordered(name);
}

cudaError_t fake_leave(cudaError_t e)
{
    if (e != cudaSuccess) { /* cudaErrorNotReady too, as the library does */
        last = e;
    }
    pthread_mutex_unlock(&lock);
    return e;
}

/* ---- counts ---- */

void fake_say(const char *fmt, ...)
{
    hsp_figure("reported", 1);
    if (n_reports < MAX_REPORTS) {
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(report[n_reports], sizeof(report[0]), fmt, ap);
        va_end(ap);
    }
    n_reports++;
}

unsigned hsp_fake_reports(void)
{
    return n_reports;
}

const char *hsp_fake_report(unsigned i)
{
    return i < n_reports && i < MAX_REPORTS ? report[i] : NULL;
}

void fake_count_done(const char *name)
{
    n_done++;
    count(done, name);
    hsp_figure("done", 1);
}

unsigned hsp_fake_calls(const char *name)
{
    for (int i = 0; name != NULL && i < MAX_NAMES; i++) {
        if (calls[i].n > 0 && strcmp(calls[i].name, name) == 0) {
            return calls[i].n;
        }
    }
    return name == NULL ? n_calls : 0;
}

unsigned hsp_fake_done(const char *name)
{
    unsigned n = 0;
    for (int i = 0; name != NULL && i < MAX_NAMES; i++) {
        n += strstr(done[i].name, name) != NULL ? done[i].n : 0;
    }
    return name == NULL ? n_done : n;
}

struct hsp_fake_usage hsp_fake_usage(void)
{
    pthread_mutex_lock(&lock);
    struct hsp_fake_usage u = fake.use;
    pthread_mutex_unlock(&lock);
    return u;
}

static void order(char name[64], const char *from)
{
    (void)snprintf(name, 64, "%s", from != NULL ? from : "");
}

void hsp_fake_fail(const char *name, unsigned nth, cudaError_t e)
{
    pthread_mutex_lock(&lock);
    order(fake.fail.name, name);
    fake.fail.nth = nth;
    fake.fail.e = e;
    pthread_mutex_unlock(&lock);
}

void hsp_fake_fail_work(const char *name, unsigned nth, cudaError_t e)
{
    pthread_mutex_lock(&lock);
    order(fake.fail_work.name, name);
    fake.fail_work.nth = nth;
    fake.fail_work.e = e;
    pthread_mutex_unlock(&lock);
}

void hsp_fake_lose(cudaError_t sticky)
{
    fake.sticky = sticky;
}

void hsp_fake_blame(const char *text)
{
    fake_say("%s", text);
}

void hsp_fake_settle(void)
{
    pthread_mutex_lock(&lock);
    if (fake.ready && fake.sticky == cudaSuccess) {
        (void)fake_drain(NULL, 0);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- errors ---- */

const char *cudaGetErrorString(cudaError_t e)
{
    switch (e) {
#define X(name, value, text, sticky) \
    case name: return text;
        HSP_FAKE_ERRORS(X)
#undef X
    }
    return "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t e)
{
    switch (e) {
#define X(name, value, text, sticky) \
    case name: return #name;
        HSP_FAKE_ERRORS(X)
#undef X
    }
    return "unrecognized error code";
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t e = cudaPeekAtLastError();
    last = cudaSuccess;
    return e;
}

cudaError_t cudaPeekAtLastError(void)
{
    pthread_mutex_lock(&lock);
    cudaError_t e = fake.sticky != cudaSuccess ? fake.sticky : last;
    pthread_mutex_unlock(&lock);
    return e;
}

/* ---- devices ---- */

static cudaError_t existing(int device)
{
    return device >= 0 && device < fake.o.n_devices ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    cudaError_t e = fake_enter("cudaGetDeviceCount");
    if (e == cudaSuccess) {
        *n = fake.o.n_devices;
        e = fake.o.driver_version < CUDART_VERSION / 1000 * 1000 ? cudaErrorInsufficientDriver
            : fake.o.n_devices < 0                               ? cudaErrorNoDevice
                                                                 : cudaSuccess;
    }
    return fake_leave(e);
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t e = fake_enter("cudaSetDevice");
    e = e == cudaSuccess ? existing(device) : e;
    if (e == cudaSuccess) {
        current = device;
    }
    return fake_leave(e);
}

cudaError_t cudaGetDevice(int *device)
{
    cudaError_t e = fake_enter("cudaGetDevice");
    if (e == cudaSuccess) {
        *device = current;
    }
    return fake_leave(e);
}

static bool can_reach(int device, int peer)
{
    return !fake.o.apart && device != peer && device < HSP_FAKE_PEERS && peer < HSP_FAKE_PEERS;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    cudaError_t e = fake_enter("cudaDeviceCanAccessPeer");
    e = e == cudaSuccess ? existing(device) : e;
    e = e == cudaSuccess ? existing(peer) : e;
    if (e == cudaSuccess) {
        *can = can_reach(device, peer);
    }
    return fake_leave(e);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    cudaError_t e = fake_enter("cudaDeviceEnablePeerAccess");
    e = e == cudaSuccess ? existing(peer) : e;
    e = e == cudaSuccess && flags != 0 ? cudaErrorInvalidValue : e;
    e = e == cudaSuccess && !can_reach(current, peer) ? cudaErrorPeerAccessUnsupported : e;
    if (e == cudaSuccess) {
        e = fake.reaches[current][peer] ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess;
        fake.reaches[current][peer] = true;
    }
    return fake_leave(e);
}

int fake_device(void)
{
    return current;
}

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    (void)flags;
    return fake_leave(fake_enter("cudaSetDeviceFlags"));
}

static size_t most_smem(void)
{
    size_t kib = fake.o.sm == 75 ? 64 : fake.o.sm == 80 || fake.o.sm == 87 ? 163 : 99;
    return (fake.o.sm >= 90 && fake.o.sm < 120 ? 227 : kib) * 1024;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    cudaError_t e = fake_enter("cudaGetDeviceProperties");
    e = e == cudaSuccess ? existing(device) : e;
    if (e == cudaSuccess) {
        *p = (struct cudaDeviceProp){.totalGlobalMem = fake.o.memory_bytes,
                                     .sharedMemPerBlock = 48 * 1024,
                                     .sharedMemPerBlockOptin = most_smem(),
                                     .sharedMemPerMultiprocessor = most_smem() + 1024,
                                     .regsPerBlock = 65536,
                                     .warpSize = 32,
                                     .maxThreadsPerBlock = 1024,
                                     .maxThreadsDim = {1024, 1024, 64},
                                     .maxGridSize = {2147483647, 65535, 65535},
                                     .major = fake.o.sm / 10,
                                     .minor = fake.o.sm % 10,
                                     .multiProcessorCount = fake.o.n_sms,
                                     .pciBusID = 1 + device,
                                     .unifiedAddressing = 1,
                                     .memoryBusWidth = 5120,
                                     .l2CacheSize = 1 << 20,
                                     .maxThreadsPerMultiProcessor = 2048};
        (void)snprintf(p->name, sizeof(p->name), "Fake GPU %d", device);
        p->uuid.bytes[0] = (char)(device + 1);
    }
    return fake_leave(e);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr a, int device)
{
    cudaError_t e = fake_enter("cudaDeviceGetAttribute");
    e = e == cudaSuccess ? existing(device) : e;
    if (e == cudaSuccess) {
        switch (a) {
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = 48 * 1024; break;
        case cudaDevAttrMultiProcessorCount: *value = fake.o.n_sms; break;
        case cudaDevAttrL2CacheSize: *value = 1 << 20; break;
        case cudaDevAttrComputeCapabilityMajor: *value = fake.o.sm / 10; break;
        case cudaDevAttrComputeCapabilityMinor: *value = fake.o.sm % 10; break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)most_smem(); break;
        }
    }
    return fake_leave(e);
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int n, int device)
{
    cudaError_t e = fake_enter("cudaDeviceGetPCIBusId");
    e = e == cudaSuccess ? existing(device) : e;
    if (e == cudaSuccess) {
        (void)snprintf(text, (size_t)n, "0000:%02X:00.0", 1 + device);
    }
    return fake_leave(e);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    cudaError_t e = fake_enter("cudaDriverGetVersion");
    *version = fake.o.driver_version;
    return fake_leave(e);
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    cudaError_t e = fake_enter("cudaRuntimeGetVersion");
    *version = CUDART_VERSION;
    return fake_leave(e);
}

/* ---- functions ---- */

bool fake_smem_allowed(const void *func, size_t bytes)
{
    for (int i = 0; bytes > 48 * 1024 && i < MAX_FUNCS; i++) {
        if (allowed[i].func == func) {
            return bytes <= allowed[i].smem;
        }
    }
    return bytes <= 48 * 1024;
}

cudaError_t cudaFuncSetAttribute(const void *f, enum cudaFuncAttribute a, int value)
{
    cudaError_t e = fake_enter("cudaFuncSetAttribute");
    if (e == cudaSuccess && a == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        e = f == NULL                                  ? cudaErrorInvalidDeviceFunction
            : value < 0 || (size_t)value > most_smem() ? cudaErrorInvalidValue
                                                       : cudaSuccess;
        for (int i = 0; e == cudaSuccess && i < MAX_FUNCS; i++) {
            if (allowed[i].func == f || allowed[i].func == NULL) {
                allowed[i].func = f;
                allowed[i].smem = (size_t)value;
                break;
            }
        }
    }
    return fake_leave(e);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *ret, const void *f)
{
    cudaError_t e = fake_enter("cudaFuncGetAttributes");
    e = e == cudaSuccess && f == NULL ? cudaErrorInvalidDeviceFunction : e;
    if (e == cudaSuccess) {
        *ret = (cudaFuncAttributes){.maxThreadsPerBlock = 1024, .numRegs = 32};
    }
    return fake_leave(e);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *ret, const void *f, int threads,
                                                          size_t smem)
{
    cudaError_t e = fake_enter("cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    e = e == cudaSuccess && (f == NULL || threads <= 0) ? cudaErrorInvalidValue : e;
    if (e == cudaSuccess) {
        size_t by_smem = (most_smem() + 1024) / (smem + 1024), by_threads = 2048 / (size_t)threads;
        *ret = (int)(by_smem < by_threads ? by_smem : by_threads);
    }
    return fake_leave(e);
}
