/* Stands in for the CUDA runtime's header: the part of it that worker/backend/cuda and
 * worker/comm/nccl use, with the same names, values and meaning (CUDA 12 and 13). Calls of other
 * functions do not compile under the fake, on purpose. Controls for tests: fakecuda.h.
 *
 * Stricter than the real one: no work on the default stream, a capture takes one stream (an event
 * that it records or waits for makes it invalid), device memory is not addressable by the host.
 */
#ifndef HSP_CUDA_RUNTIME_H
#define HSP_CUDA_RUNTIME_H
#include <stddef.h>
#include <stdint.h>

#define HSP_FAKE_CUDA  1
#define CUDART_VERSION 13000
#define CUDART_CB

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, text, sticky): a sticky error ends the context, every later call returns it. */
#define HSP_FAKE_ERRORS(X)                                                                         \
    X(cudaSuccess, 0, "no error", 0)                                                               \
    X(cudaErrorInvalidValue, 1, "invalid argument", 0)                                             \
    X(cudaErrorMemoryAllocation, 2, "out of memory", 0)                                            \
    X(cudaErrorInitializationError, 3, "initialization error", 0)                                  \
    X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument", 0)                       \
    X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy", 0)                 \
    X(cudaErrorInsufficientDriver, 35,                                                             \
      "CUDA driver version is insufficient for CUDA runtime version", 0)                           \
    X(cudaErrorInvalidDeviceFunction, 98, "invalid device function", 0)                            \
    X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected", 0)                             \
    X(cudaErrorInvalidDevice, 101, "invalid device ordinal", 0)                                    \
    X(cudaErrorNoKernelImageForDevice, 209,                                                        \
      "no kernel image is available for execution on the device", 0)                               \
    X(cudaErrorPeerAccessUnsupported, 217,                                                         \
      "peer access is not supported between these two devices", 0)                                 \
    X(cudaErrorECCUncorrectable, 214, "uncorrectable ECC error encountered", 1)                    \
    X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle", 0)                           \
    X(cudaErrorNotReady, 600, "device not ready", 0)                                               \
    X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered", 1)                 \
    X(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch", 0)            \
    X(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated", 1)                   \
    X(cudaErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled", 0)                 \
    X(cudaErrorHostMemoryAlreadyRegistered, 712,                                                   \
      "part or all of the requested memory range is already mapped", 0)                            \
    X(cudaErrorHostMemoryNotRegistered, 713,                                                       \
      "pointer does not correspond to a registered memory region", 0)                              \
    X(cudaErrorAssert, 710, "device-side assert triggered", 1)                                     \
    X(cudaErrorHardwareStackError, 714, "hardware stack error", 1)                                 \
    X(cudaErrorIllegalInstruction, 715, "an illegal instruction was encountered", 1)               \
    X(cudaErrorMisalignedAddress, 716, "misaligned address", 1)                                    \
    X(cudaErrorInvalidAddressSpace, 717, "operation not supported on global/shared address space", \
      1)                                                                                           \
    X(cudaErrorInvalidPc, 718, "invalid program counter", 1)                                       \
    X(cudaErrorLaunchFailure, 719, "unspecified launch failure", 1)                                \
    X(cudaErrorNotSupported, 801, "operation not supported", 0)                                    \
    X(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing",  \
      0)                                                                                           \
    X(cudaErrorStreamCaptureInvalidated, 901,                                                      \
      "operation failed due to a previous error during capture", 0)                                \
    X(cudaErrorStreamCaptureUnmatched, 903, "capture was not initiated in this stream", 0)         \
    X(cudaErrorStreamCaptureIsolation, 905,                                                        \
      "dependency created on uncaptured work in another stream", 0)                                \
    X(cudaErrorStreamCaptureWrongThread, 908,                                                      \
      "attempt to terminate a thread-local capture sequence from another thread", 0)               \
    X(cudaErrorGraphExecUpdateFailure, 910,                                                        \
      "the graph update was not performed because it included changes which violated "             \
      "constraints specific to instantiated graph update",                                         \
      0)                                                                                           \
    X(cudaErrorUnknown, 999, "unknown error", 0)

typedef enum cudaError {
#define FAKE_ENUM(name, value, text, sticky) name = (value),
    HSP_FAKE_ERRORS(FAKE_ENUM)
#undef FAKE_ENUM
} cudaError_t;

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphNode_st *cudaGraphNode_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef void(CUDART_CB *cudaHostFn_t)(void *data);

typedef struct CUuuid_st {
    char bytes[16];
} cudaUUID_t;

enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
};
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal = 0,
    cudaStreamCaptureModeThreadLocal = 1,
    cudaStreamCaptureModeRelaxed = 2
};
enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone = 0,
    cudaStreamCaptureStatusActive = 1,
    cudaStreamCaptureStatusInvalidated = 2
};
enum cudaGraphExecUpdateResult {
    cudaGraphExecUpdateSuccess = 0,
    cudaGraphExecUpdateError = 1,
    cudaGraphExecUpdateErrorTopologyChanged = 2,
    cudaGraphExecUpdateErrorNodeTypeChanged = 3,
    cudaGraphExecUpdateErrorFunctionChanged = 4
};
typedef struct cudaGraphExecUpdateResultInfo_st {
    enum cudaGraphExecUpdateResult result;
    cudaGraphNode_t errorNode;
    cudaGraphNode_t errorFromNode;
} cudaGraphExecUpdateResultInfo;
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum cudaDeviceAttr {
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
enum cudaMemoryType {
    cudaMemoryTypeUnregistered = 0,
    cudaMemoryTypeHost = 1,
    cudaMemoryTypeDevice = 2
};

#define cudaStreamDefault              0x00
#define cudaStreamNonBlocking          0x01
#define cudaEventDefault               0x00
#define cudaEventBlockingSync          0x01
#define cudaEventDisableTiming         0x02
#define cudaHostAllocDefault           0x00
#define cudaHostAllocPortable          0x01
#define cudaHostAllocMapped            0x02
#define cudaHostRegisterDefault        0x00
#define cudaHostRegisterPortable       0x01
#define cudaDeviceScheduleBlockingSync 0x04

struct cudaPointerAttributes {
    enum cudaMemoryType type;
    int device;
    void *devicePointer;
    void *hostPointer;
};

struct cudaDeviceProp {
    char name[256];
    cudaUUID_t uuid;
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
    int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
    int major, minor, multiProcessorCount, ECCEnabled, pciBusID, pciDeviceID, pciDomainID;
    int unifiedAddressing, memoryBusWidth, l2CacheSize, maxThreadsPerMultiProcessor;
};

typedef struct cudaFuncAttributes {
    size_t sharedSizeBytes;
    int maxThreadsPerBlock, numRegs, maxDynamicSharedSizeBytes;
} cudaFuncAttributes;

struct dim3 {
    unsigned x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz)
    {
    }
#endif
};
#ifndef __cplusplus
typedef struct dim3 dim3; /* as the real header does */
#endif

/* errors */
const char *cudaGetErrorString(cudaError_t e);
const char *cudaGetErrorName(cudaError_t e);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);

/* devices */
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDeviceFlags(unsigned flags);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr a, int device);
cudaError_t cudaDeviceGetPCIBusId(char *text, int n, int device);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);

/* memory */
cudaError_t cudaMalloc(void **p, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags);
cudaError_t cudaMallocHost(void **p, size_t bytes);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *p);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p);
cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t s);
cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t s);
cudaError_t cudaMemset(void *dst, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void *dst, int value, size_t bytes, cudaStream_t s);

/* streams and events */
cudaError_t cudaStreamCreate(cudaStream_t *s);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaStreamQuery(cudaStream_t s);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags);
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t fn, void *data);
cudaError_t cudaEventCreate(cudaEvent_t *e);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaEventQuery(cudaEvent_t e);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);

/* graphs */
cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g);
cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *status);
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode);
cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *n);
cudaError_t cudaGraphDestroy(cudaGraph_t g);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long flags);
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t x, cudaGraph_t g,
                                cudaGraphExecUpdateResultInfo *ret);
cudaError_t cudaGraphUpload(cudaGraphExec_t x, cudaStream_t s);
cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x);

/* functions; @f is the kernel's address */
cudaError_t cudaFuncSetAttribute(const void *f, enum cudaFuncAttribute a, int value);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *ret, const void *f);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *ret, const void *f, int threads,
                                                          size_t smem);

#ifdef __cplusplus
}

template <class T> static inline cudaError_t cudaMalloc(T **p, size_t bytes)
{
    return cudaMalloc((void **)p, bytes);
}
template <class T>
static inline cudaError_t cudaFuncSetAttribute(T *f, enum cudaFuncAttribute a, int value)
{
    return cudaFuncSetAttribute((const void *)f, a, value);
}
template <class T> static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *ret, T *f)
{
    return cudaFuncGetAttributes(ret, (const void *)f);
}
template <class T>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *ret, T *f, int threads,
                                                                        size_t smem)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(ret, (const void *)f, threads, smem);
}
#include "tests/lib/fakecuda/fakekernel.h"
#endif
#endif
