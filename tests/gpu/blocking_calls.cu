/* Finds the calls of CUDA and cuBLASLt that do not return while kernels of other streams wait, as
 * those of NCCL do for their peers. In hspmd such a call beside a receive is a deadlock as soon as
 * the peer waits for us.
 *
 *   blocking_calls           (as CUDA comes)
 *   CUDA_MODULE_LOADING=EAGER CUDA_DEVICE_MAX_CONNECTIONS=32 blocking_calls (as hspmd starts CUDA)
 *
 * Eleven streams, as many as a worker has queues beside that of computation, get a kernel that
 * waits for a flag of the host. Then a thread makes one call; one that has not returned after a
 * second blocks, and the flag is set to let it go. Prints a line for each call when it begins, and
 * the rest of the line when it is over:
 *   cudaMalloc of 512 MiB                            BLOCKS  1000.412 ms
 * Exit status: 0 every call ended well, 1 one failed, 77 there is no GPU. */
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

extern "C" {
#include "worker/backend/backend.h" /* HSP_N_DEVQ */
}

namespace
{
using clock_type = std::chrono::steady_clock;
using call_type = std::function<cudaError_t()>;

constexpr int N_STREAMS = HSP_N_DEVQ; /* stream 0 computes, in the others kernels wait */
constexpr double PATIENCE_S = 1.0, ARRIVAL_S = 0.1;
constexpr size_t MIB = 1 << 20;
constexpr int LARGEST = 4096; /* rows of the largest product */
/* Where the operands of a product lie in `device`, and its workspace behind them. */
constexpr size_t MATRIX_BYTES = 2 * (size_t)LARGEST * LARGEST, WORKSPACE_BYTES = 32 * MIB;
constexpr size_t A_AT = 0, B_AT = MATRIX_BYTES, D_AT = 2 * MATRIX_BYTES,
                 WORKSPACE_AT = 3 * MATRIX_BYTES, DEVICE_BYTES = WORKSPACE_AT + WORKSPACE_BYTES;
constexpr size_t COPY_BYTES = 64 * MIB;
static_assert(COPY_BYTES <= DEVICE_BYTES, "a copy reads device memory that is there");

cudaStream_t stream[N_STREAMS];
volatile int *flag; /* of the host, mapped: [0] lets all go, [i] kernel of stream i has come */
int *device_flag;   /* the same as the device sees it */
char *device;       /* DEVICE_BYTES of the GPU */
void *mapping;      /* COPY_BYTES that processes could share, as segments of state are */
cublasLtHandle_t blas;
int fewest = N_STREAMS; /* kernels that waited, in the worst case */
int n_failed;           /* calls */

__global__ void wait_for_flag(volatile int *f, int i)
{
    f[i] = 1;
    while (f[0] == 0) {
        __nanosleep(200);
    }
}

__global__ void add_one(float *p)
{
    p[threadIdx.x] += 1;
}

__global__ void add_two(float *p)
{
    p[threadIdx.x] += 2;
}

__global__ void through_shared(float *p)
{
    extern __shared__ float s[];
    s[threadIdx.x] = p[threadIdx.x];
    p[threadIdx.x] = s[threadIdx.x] + 1;
}

double seconds_since(clock_type::time_point t)
{
    return std::chrono::duration<double>(clock_type::now() - t).count();
}

/* The first of these that fails is the call's. */
#define TRY(call)                   \
    do {                            \
        cudaError_t try_e = (call); \
        if (try_e != cudaSuccess) { \
            return try_e;           \
        }                           \
    } while (0)

cudaError_t lt(cublasStatus_t s)
{
    return s == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorExternalDevice;
}

cudaError_t end_of_work()
{
    return cudaStreamSynchronize(stream[0]);
}

/* ---- the trial ---- */

/* Kernels wait in all streams but the first; as many of them as the device runs at once have
 * come. */
cudaError_t let_kernels_wait()
{
    for (int i = 0; i < N_STREAMS; i++) {
        flag[i] = 0;
    }
    for (int i = 1; i < N_STREAMS; i++) {
        wait_for_flag<<<1, 1, 0, stream[i]>>>(device_flag, i);
        TRY(cudaGetLastError());
    }
    int here = 0;
    for (auto began = clock_type::now();
         here < N_STREAMS - 1 && seconds_since(began) < ARRIVAL_S;) {
        here = 0;
        for (int i = 1; i < N_STREAMS; i++) {
            here += flag[i];
        }
    }
    fewest = here < fewest ? here : fewest;
    return cudaSuccess;
}

/* Makes one call beside kernels that wait. False: the GPU has failed, nothing more can be tried. */
bool attempt(const char *name, const call_type &call)
{
    std::printf("%-48s", name);
    std::fflush(stdout);
    cudaError_t e = let_kernels_wait();
    if (e != cudaSuccess) {
        flag[0] = 1; /* of those that have come */
        std::printf(" FAILED before the call: %s\n", cudaGetErrorString(e));
        return false;
    }
    std::atomic<bool> done{false};
    double took = 0;
    const auto began = clock_type::now();
    std::thread caller([&] {
        e = cudaSetDevice(0);
        e = e == cudaSuccess ? call() : e;
        took = seconds_since(began);
        done = true;
    });
    while (!done && seconds_since(began) < PATIENCE_S) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const bool blocks = !done;
    flag[0] = 1;
    caller.join();
    std::printf(" %-6s %9.3f ms%s%s\n",
                e != cudaSuccess ? "FAILED"
                : blocks         ? "BLOCKS"
                                 : "ok",
                1e3 * took, e != cudaSuccess ? " " : "",
                e != cudaSuccess ? cudaGetErrorString(e) : "");
    std::fflush(stdout);
    n_failed += e != cudaSuccess;
    (void)cudaGetLastError(); /* was told */
    e = cudaDeviceSynchronize();
    if (e != cudaSuccess) {
        std::printf("the GPU has failed: %s\n", cudaGetErrorString(e));
    }
    return e == cudaSuccess;
}

/* ---- the calls ---- */

float *floats()
{
    return reinterpret_cast<float *>(device);
}

cudaError_t launch_with_much_shared_memory()
{
    int bytes = 0;
    TRY(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    TRY(cudaFuncSetAttribute(through_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    through_shared<<<1, 32, (size_t)bytes, stream[0]>>>(floats());
    TRY(cudaGetLastError());
    return end_of_work();
}

/* n x n x n in bf16: the first of its shape, so that the library chooses and loads a kernel. */
cudaError_t multiply(int n)
{
    cublasLtMatmulDesc_t what = nullptr;
    cublasLtMatrixLayout_t matrix = nullptr;
    cublasLtMatmulPreference_t wish = nullptr;
    cublasLtMatmulHeuristicResult_t found = {};
    int n_found = 0;
    const float one = 1, zero = 0;
    const size_t workspace = WORKSPACE_BYTES;
    cudaError_t e = lt(cublasLtMatmulDescCreate(&what, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    e = e ? e : lt(cublasLtMatrixLayoutCreate(&matrix, CUDA_R_16BF, n, n, n));
    e = e ? e : lt(cublasLtMatmulPreferenceCreate(&wish));
    e = e ? e
          : lt(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                    &workspace, sizeof workspace));
    e = e ? e
          : lt(cublasLtMatmulAlgoGetHeuristic(blas, what, matrix, matrix, matrix, matrix, wish, 1,
                                              &found, &n_found));
    e = e || n_found == 1 ? e : cudaErrorNotSupported;
    e = e ? e
          : lt(cublasLtMatmul(blas, what, &one, device + A_AT, matrix, device + B_AT, matrix, &zero,
                              device + D_AT, matrix, device + D_AT, matrix, &found.algo,
                              device + WORKSPACE_AT, found.workspaceSize, stream[0]));
    e = e ? e : end_of_work();
    (void)cublasLtMatmulPreferenceDestroy(
        wish); /* NULL is fine, and a failure would be the one above */
    (void)cublasLtMatrixLayoutDestroy(matrix);
    (void)cublasLtMatmulDescDestroy(what);
    return e;
}

bool try_kernels()
{
    const call_type launch = [] {
        add_one<<<1, 32, 0, stream[0]>>>(floats());
        TRY(cudaGetLastError());
        return end_of_work();
    };
    return attempt("launch of a kernel, the first", launch) &&
           attempt("launch of the same kernel again", launch) &&
           attempt("cudaFuncSetAttribute, launch", launch_with_much_shared_memory) &&
           attempt("cublasLtMatmul 256, the first", [] { return multiply(256); }) &&
           attempt("cublasLtMatmul 1024, the first", [] { return multiply(1024); }) &&
           attempt("cublasLtMatmul 4096, the first", [] { return multiply(LARGEST); });
}

bool try_memory()
{
    static void *small, *large, *pinned;
    return attempt("cudaMalloc of 1 MiB", [] { return cudaMalloc(&small, MIB); }) &&
           attempt("cudaMalloc of 512 MiB", [] { return cudaMalloc(&large, 512 * MIB); }) &&
           attempt("cudaFree of 1 MiB", [] { return cudaFree(small); }) &&
           attempt("cudaFree of 512 MiB", [] { return cudaFree(large); }) &&
           attempt("cudaMallocAsync, cudaFreeAsync",
                   [] {
                       void *p = nullptr;
                       TRY(cudaMallocAsync(&p, 64 * MIB, stream[0]));
                       TRY(cudaFreeAsync(p, stream[0]));
                       return end_of_work();
                   }) &&
           attempt("cudaHostAlloc of 4 MiB",
                   [] { return cudaHostAlloc(&pinned, 4 * MIB, cudaHostAllocPortable); }) &&
           attempt("cudaFreeHost of 4 MiB", [] { return cudaFreeHost(pinned); });
}

bool try_copies()
{
    const call_type copy_all = [] {
        TRY(cudaMemcpyAsync(mapping, device, COPY_BYTES, cudaMemcpyDefault, stream[0]));
        return end_of_work();
    };
    return attempt("cudaMemcpyAsync of 64 MiB to pageable memory", copy_all) &&
           attempt(
               "cudaHostRegister of 64 MiB",
               [] { return cudaHostRegister(mapping, COPY_BYTES, cudaHostRegisterPortable); }) &&
           attempt("cudaMemcpyAsync of 64 MiB to registered memory", copy_all) &&
           attempt("cudaHostUnregister of 64 MiB", [] { return cudaHostUnregister(mapping); });
}

bool try_streams()
{
    static cudaEvent_t event;
    return attempt("cudaStreamCreateWithPriority, cudaStreamDestroy",
                   [] {
                       cudaStream_t s = nullptr;
                       TRY(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 0));
                       return cudaStreamDestroy(s);
                   }) &&
           attempt("cudaEventCreate, Record, Synchronize",
                   [] {
                       TRY(cudaEventCreateWithFlags(&event, cudaEventBlockingSync));
                       TRY(cudaEventRecord(event, stream[0]));
                       return cudaEventSynchronize(event);
                   }) &&
           attempt("cudaEventDestroy", [] { return cudaEventDestroy(event); }) &&
           attempt("launch in cudaStreamPerThread, its thread ends", [] {
               add_two<<<1, 32, 0, cudaStreamPerThread>>>(floats());
               TRY(cudaGetLastError());
               return cudaStreamSynchronize(cudaStreamPerThread);
           });
}

bool try_graphs()
{
    static cudaGraph_t graph;
    static cudaGraphExec_t exec;
    return attempt("capture, cudaGraphInstantiate",
                   [] {
                       TRY(cudaStreamBeginCapture(stream[0], cudaStreamCaptureModeRelaxed));
                       for (int i = 0; i < 64; i++) {
                           add_one<<<1, 32, 0, stream[0]>>>(floats() + i);
                       }
                       TRY(cudaStreamEndCapture(stream[0], &graph));
                       return cudaGraphInstantiate(&exec, graph, 0);
                   }) &&
           attempt("cudaGraphLaunch, the first",
                   [] {
                       TRY(cudaGraphLaunch(exec, stream[0]));
                       return end_of_work();
                   }) &&
           attempt("cudaGraphExecUpdate, cudaGraphLaunch",
                   [] {
                       cudaGraphExecUpdateResultInfo info;
                       TRY(cudaGraphExecUpdate(exec, graph, &info));
                       TRY(cudaGraphLaunch(exec, stream[0]));
                       return end_of_work();
                   }) &&
           attempt("cudaGraphExecDestroy, cudaGraphDestroy", [] {
               TRY(cudaGraphExecDestroy(exec));
               return cudaGraphDestroy(graph);
           });
}

/* ---- the device ---- */

cudaError_t open_device()
{
    size_t unused, all;
    int least, most;
    auto began = clock_type::now();
    TRY(cudaFree(nullptr)); /* makes the context */
    TRY(cudaMemGetInfo(&unused, &all));
    std::printf("context %.2f s, %zu of %zu MiB taken\n", seconds_since(began),
                (all - unused) / MIB, all / MIB);
    began = clock_type::now();
    TRY(lt(cublasLtCreate(&blas)));
    TRY(cudaMemGetInfo(&unused, &all));
    std::printf("cublasLtCreate %.2f s, %zu of %zu MiB taken\n", seconds_since(began),
                (all - unused) / MIB, all / MIB);
    TRY(cudaDeviceGetStreamPriorityRange(&least, &most));
    for (int i = 0; i < N_STREAMS; i++) {
        TRY(cudaStreamCreateWithPriority(&stream[i], cudaStreamNonBlocking, i == 0 ? least : most));
    }
    void *p = nullptr;
    TRY(cudaHostAlloc(&p, N_STREAMS * sizeof(int), cudaHostAllocMapped));
    flag = static_cast<volatile int *>(p);
    TRY(cudaHostGetDevicePointer(reinterpret_cast<void **>(&device_flag), p, 0));
    TRY(cudaMalloc(reinterpret_cast<void **>(&device), DEVICE_BYTES));
    TRY(cudaMemset(device, 0, DEVICE_BYTES));
    mapping = mmap(nullptr, COPY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return mapping != MAP_FAILED ? cudaDeviceSynchronize() : cudaErrorMemoryAllocation;
}
} // namespace

int main()
{
    int n = 0, driver = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e != cudaSuccess || n == 0) {
        (void)cudaDriverGetVersion(&driver); /* 0: none; else e says more */
        std::fprintf(stderr, "blocking_calls: no GPU: %s\n",
                     driver == 0        ? "no driver"
                     : e != cudaSuccess ? cudaGetErrorString(e)
                                        : "the driver knows none");
        return 77;
    }
    e = open_device();
    if (e != cudaSuccess) {
        std::fprintf(stderr, "blocking_calls: the GPU cannot be used: %s\n", cudaGetErrorString(e));
        return 1;
    }
    bool all = try_kernels() && try_memory() && try_copies() && try_streams() && try_graphs();
    std::printf("kernels that waited: %d of %d\n", fewest, N_STREAMS - 1);
    if (n_failed > 0) {
        std::printf("calls that failed: %d\n", n_failed);
    }
    return all && n_failed == 0 ? 0 : 1;
}
