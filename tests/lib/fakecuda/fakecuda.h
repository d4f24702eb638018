/* Makes a CUDA device of host memory: the controls of a test, and the way in which work is given.
 *
 * Work given to a stream is NOT done in the call. It is done when the host waits for it, one piece
 * at a time, streams in a random order (seeded) that the events allow: work that forgot to wait
 * sees old bytes. Device memory lies in one range of addresses that is accessible only while work
 * is done.
 *
 * Reported, each as a line of text; a test ends by asserting that there is none:
 *   race     two streams touch the same bytes, one of them writing, and neither an event nor a wait
 *            of the host between the two orders them (by vector clocks of what was given, so it is
 *            found in any order in which they ran). Of device memory and of pinned memory.
 *   bounds   a touch of device memory outside of all allocations, or of unwritten bytes
 *   misuse   calls that CUDA forbids or that hspmd must not make
 *
 * Threads: one lock around everything; work runs on the thread that waits.
 * Bounds:  HSP_FAKE_MAX_STREAMS streams at a time.
 */
#ifndef HSP_FAKECUDA_H
#define HSP_FAKECUDA_H
#include <stdbool.h>
#include "tests/lib/fakecuda/include/cuda_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HSP_FAKE_MAX_STREAMS 31 /* alive at once */
/* pieces a stream holds before it must do some, as a device does */
#define HSP_FAKE_PENDING 1024

#define HSP_FAKE_PEERS 8

struct hsp_fake_opts {
    int n_devices;       /* 0: 1; HSP_FAKE_PEERS of them may reach each other */
    bool apart;          /* none reaches another */
    int sm;              /* 0: 90 */
    int n_sms;           /* 0: 4 */
    size_t memory_bytes; /* of all devices; 0: 1 GiB */
    uint64_t seed;       /* of the order of streams */
    bool eager;          /* work is done in the call that gives it: faster, finds less */
    bool lenient;        /* reads of bytes that nobody wrote are fine */
    int driver_version;  /* 0: CUDART_VERSION */
};

/* Resets the device: memory, streams, graphs, counters, reports and faults are gone. @o NULL:
 * default options, which also hold before the first call. */
void hsp_fake_reset(const struct hsp_fake_opts *o);

/* --- work ------------------------------------------------------------------------------------- */

/* A kernel, or the work of a library (cuBLASLt, NCCL). @run is called with the copy of the args
 * when its turn comes, once for every time it is done; before it touches memory of the device it
 * says so by hsp_fake_touch (kernels: after, by their recorded accesses). */
struct hsp_fake_work {
    const char *name; /* a literal */
    const void *func; /* tells kernels apart; graph updates compare it */
    void (*run)(void *args);
    bool (*ready)(void *args); /* may it begin? Asked in its turn, often. NULL: yes */
    const void *args;
    size_t bytes;     /* of args */
    dim3 grid, block; /* of a kernel, whose limits are checked; all zero: none */
    size_t smem;      /* dynamic shared memory */
};
/* The error of a launch (cudaErrorInvalidConfiguration, cudaErrorInvalidValue: too much shared
 * memory) is kept for cudaGetLastError. */
cudaError_t hsp_fake_submit(cudaStream_t s, const struct hsp_fake_work *w);

/* Notes that the running piece reads or writes @bytes at @p. If they are not memory of the device,
 * it reports that, ends the context and returns false. Ordinary host memory is not checked. */
bool hsp_fake_touch(const void *p, size_t bytes, bool write);
/* Reports a fault of the running piece. */
void hsp_fake_blame(const char *text);
/* Ends the context with the sticky error. */
void hsp_fake_lose(cudaError_t sticky);
/* Gives the range of addresses that holds the device's memory and, after it, pinned memory. */
void hsp_fake_range(void **ret_base, size_t *ret_bytes);

/* --- faults ----------------------------------------------------------------------------------- */

/* Makes the @nth call from now (1: the next) of the function @name return @e and do nothing; NULL:
 * of any function that can fail. A sticky @e stays. The call replaces an earlier one; @nth 0
 * cancels it. */
void hsp_fake_fail(const char *name, unsigned nth, cudaError_t e);
/* Makes the @nth piece of work whose name contains @name end the context with @e. */
void hsp_fake_fail_work(const char *name, unsigned nth, cudaError_t e);

/* --- counts ----------------------------------------------------------------------------------- */

unsigned hsp_fake_reports(void);
const char *hsp_fake_report(unsigned i); /* the first 64 are kept in words; NULL beyond */

unsigned hsp_fake_calls(const char *name); /* since reset; NULL: all that can fail */
unsigned hsp_fake_done(const char *name);  /* pieces done whose name contains it; NULL: all */

struct hsp_fake_usage {
    size_t device_bytes, device_peak_bytes, pinned_bytes;
    unsigned allocations, pinned, streams, events, graphs, execs, handles; /* alive */
    unsigned pending;                                                      /* pieces not done */
    unsigned first_products; /* of a shape, for which the library would load a kernel */
    unsigned blocked;        /* calls that would have waited for work that waits for a peer */
};
struct hsp_fake_usage hsp_fake_usage(void);

/* Does all queued work that can be done. Returns no error; a sticky error stays. */
void hsp_fake_settle(void);
/* Copies bytes of device memory for a test to look at, also while work is under way. */
void hsp_fake_peek(void *dst, const void *device, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
